//! Findings of `ethbcast doctor` with their remedies, and `ethbcast explain`, which describes a
//! code.

use super::Fault;
use super::outside::text_of;
use crate::args::ExplainArgs;
use crate::exit::report;
use clap::ValueEnum;
use serde_json::{Value, json};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fix {
    /// A shell command that changes nothing a user may have intended; `--fix` runs it.
    Safe(String),
    Command(String),
    Words(String),
}

impl Fix {
    fn text(&self) -> &str {
        match self {
            Fix::Safe(text) | Fix::Command(text) | Fix::Words(text) => text,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Finding {
    fault: Fault,
    what: String,
    fix: Fix,
}

#[derive(Clone, Debug, Default)]
pub struct Findings {
    list: Vec<Finding>,
    unchecked: Vec<String>,
    fixed: Vec<String>,
}

impl Findings {
    pub fn add(&mut self, fault: Fault, what: impl ToString, fix: Fix) {
        self.list.push(Finding { fault, what: what.to_string(), fix });
    }

    /// Records a check that was not made, because no finding means that all is well.
    pub fn skip(&mut self, what: impl ToString) {
        self.unchecked.push(what.to_string());
    }

    /// Whether a finding prevents any frame from being sent or received.
    pub fn is_cut_off(&self) -> bool {
        use Fault::{Capability, Carrier, Down, Interface, Kernel, Memory};
        let cuts = [Capability, Carrier, Down, Interface, Kernel, Memory];
        self.list.iter().any(|finding| cuts.contains(&finding.fault))
    }

    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// Runs the safe commands and returns those that succeeded. Failures are printed on stderr.
    pub fn fix(&self) -> Vec<String> {
        let lines = self.list.iter().filter_map(|finding| match &finding.fix {
            Fix::Safe(line) => Some(line),
            _ => None,
        });
        let succeeds = |line: &&String| match text_of("sh", &["-c", line]) {
            Ok(_) => true,
            Err(why) => {
                crate::exit::print_line(format_args!("{why}"));
                false
            }
        };
        lines.filter(succeeds).cloned().collect()
    }

    pub fn after(mut self, fixed: Vec<String>) -> Findings {
        self.fixed = fixed;
        self
    }

    pub fn json(&self, interface: Option<&str>) -> Value {
        let finding = |finding: &Finding| {
            let Finding { fault, what, fix } = finding;
            json!({
                "code": fault.code(),
                "what": what,
                "why": fault.why(),
                "fix": fix.text(),
                "fix_is_command": !matches!(fix, Fix::Words(_)),
                "fix_is_safe": matches!(fix, Fix::Safe(_)),
            })
        };
        json!({
            "schema": 1,
            "interface": interface,
            "findings": self.list.iter().map(finding).collect::<Vec<_>>(),
            "fixed": self.fixed,
            "not_checked": self.unchecked,
        })
    }

    pub fn text(&self, interface: Option<&str>) -> String {
        let mut lines: Vec<_> = self.fixed.iter().map(|line| format!("fixed: {line}")).collect();
        for Finding { fault, what, fix } in &self.list {
            lines.push(format!("{}  {what}\n  why  {}\n  fix  {}", fault.code(), fault.why(), fix.text()));
        }
        lines.extend(self.unchecked.iter().map(|what| format!("not checked: {what}")));
        if self.list.is_empty() {
            lines.push(format!("nothing wrong was found on {}", interface.unwrap_or("this host")));
        }
        lines.join("\n")
    }
}

pub fn explain(args: &ExplainArgs) -> anyhow::Result<()> {
    let line = |fault: &Fault| format!("{:<13} {}", fault.code(), fault.description());
    let text = match args.code {
        Some(fault) => {
            format!("{}: {}\nwhy   {}\nhelp  {}", fault.code(), fault.description(), fault.why(), fault.help())
        }
        None => Fault::value_variants().iter().map(line).collect::<Vec<_>>().join("\n"),
    };
    report(&text)
}

#[cfg(test)]
mod tests {
    use crate::units::quoted;
    use std::process::Command;

    #[test]
    fn any_argument_is_quoted_as_one_word_for_a_shell() {
        for word in ["/plain/path", "two words", "it's", "$(reboot)", "", "a;b"] {
            let line = format!("printf %s {}", quoted(word));
            let output = Command::new("sh").args(["-c", &line]).output().expect("there is a shell");
            assert_eq!(String::from_utf8_lossy(&output.stdout), word, "{line}");
        }
    }
}
