//! `ethbcast doctor`: finds problems of this host and of the path to others. `ethbcast explain`
//! describes the codes.

mod dest;
mod fault;
mod filter;
mod interface;
mod machine;
mod outside;
mod peer;
mod udp;

pub use fault::{
    Fault, of_call, of_interface, of_keys, of_open, of_outcome, of_session, of_station,
};
pub use machine::{WIFI, cable_rate, is_wifi, megabits_per_second};
pub use outside::text_of;

use crate::args::{DoctorArgs, ExplainArgs};
use crate::exit::{Code, fail, report};
use crate::key;
use crate::units::quoted;
use clap::ValueEnum;
use serde_json::{Value, json};

pub fn run(args: &DoctorArgs) -> anyhow::Result<()> {
    let (mut interface, mut findings) = look(args)?;
    if args.fix {
        let mut fixed = Vec::new();
        // A repaired interface may reveal further problems, such as a missing link.
        loop {
            let now = findings.fix();
            if now.iter().all(|line| fixed.contains(line)) {
                break;
            }
            fixed.extend(now);
            (interface, findings) = look(args)?;
        }
        findings = findings.after(fixed);
    }
    let interface = interface.as_deref();
    match (args.wire.json, args.wire.quiet) {
        (true, _) => report(&findings.json(interface).to_string())?,
        (false, true) => {}
        (false, false) => report(&findings.text(interface))?,
    }
    match findings.count() {
        0 => Ok(()),
        1 => fail(
            Code::SomeFailed,
            "1 thing is wrong; `ethbcast explain CODE` says more",
        ),
        count => fail(
            Code::SomeFailed,
            format!("{count} things are wrong; `ethbcast explain CODE` says more of each"),
        ),
    }
}

fn look(args: &DoctorArgs) -> anyhow::Result<(Option<String>, Findings)> {
    // Without a peer nothing is sent.
    let keys = args
        .peer
        .as_ref()
        .and_then(|_| key::resolve(&args.key).transpose())
        .transpose()?;
    let mut findings = Findings::default();
    let is_udp = args.wire.over.is_udp();
    let found = if is_udp {
        udp::check(&args.wire, &mut findings)
    } else {
        interface::check(&args.wire, &mut findings)
    };
    if let Some(interface) = found.as_ref().filter(|_| is_udp) {
        interface::check_queue(&interface.name, &mut findings);
    } else if let Some(interface) = &found {
        let link = machine::check_link(interface, &mut findings);
        interface::check_ring(&interface.name, &mut findings);
        machine::check_card(&interface.name, args.wire.ether_type, &mut findings);
        interface::check_queue(&interface.name, &mut findings);
        filter::check(interface, args, &link, &mut findings);
        machine::check(&link, &mut findings);
    } else {
        findings.skip("link, ring, queues and rules, as long as there is no interface to look at");
    }
    if let Some(dest) = &args.dest {
        dest::check(dest, args.size, &mut findings);
    }
    dest::check_limits(args.size, &mut findings);
    let first_hop = found.as_ref().filter(|_| !is_udp && !findings.is_cut_off());
    let first_hop = first_hop.and_then(|interface| {
        interface::check_first_hop(interface, args.wire.ether_type, &mut findings)
    });
    match &args.peer {
        // Without permission or link no other host can be reached, which is reported already.
        Some(_) if findings.is_cut_off() => {
            findings.skip("the way to other hosts, as long as this one is cut off")
        }
        Some(hosts) => peer::check((args, keys.as_deref()), hosts, first_hop, &mut findings)?,
        None => {}
    }
    Ok((found.map(|interface| interface.name), findings))
}

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
        self.list.push(Finding {
            fault,
            what: what.to_string(),
            fix,
        });
    }

    /// Records a check that was not made, because no finding means that all is well.
    pub fn skip(&mut self, what: impl ToString) {
        self.unchecked.push(what.to_string());
    }

    /// Whether a finding prevents any frame from being sent or received.
    pub fn is_cut_off(&self) -> bool {
        use Fault::{Capability, Carrier, Down, Interface, Kernel, Memory};
        let cuts = [Capability, Carrier, Down, Interface, Kernel, Memory];
        self.list
            .iter()
            .any(|finding| cuts.contains(&finding.fault))
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
        let mut lines: Vec<_> = self
            .fixed
            .iter()
            .map(|line| format!("fixed: {line}"))
            .collect();
        for Finding { fault, what, fix } in &self.list {
            lines.push(format!(
                "{}  {what}\n  why  {}\n  fix  {}",
                fault.code(),
                fault.why(),
                fix.text()
            ));
        }
        lines.extend(
            self.unchecked
                .iter()
                .map(|what| format!("not checked: {what}")),
        );
        if self.list.is_empty() {
            lines.push(format!(
                "nothing wrong was found on {}",
                interface.unwrap_or("this host")
            ));
        }
        lines.join("\n")
    }
}

pub fn explain(args: &ExplainArgs) -> anyhow::Result<()> {
    let line = |fault: &Fault| format!("{:<13} {}", fault.code(), fault.description());
    let text = match args.code {
        Some(fault) => {
            format!(
                "{}: {}\nwhy   {}\nhelp  {}",
                fault.code(),
                fault.description(),
                fault.why(),
                fault.help()
            )
        }
        None => Fault::value_variants()
            .iter()
            .map(line)
            .collect::<Vec<_>>()
            .join("\n"),
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
            let output = Command::new("sh")
                .args(["-c", &line])
                .output()
                .expect("there is a shell");
            assert_eq!(String::from_utf8_lossy(&output.stdout), word, "{line}");
        }
    }
}
