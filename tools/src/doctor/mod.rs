//! `ethbcast doctor`: what stands in the way on this host, why it matters, and the command that mends it.

mod code;
mod dest;
mod filter;
mod interface;

use crate::args::DoctorArgs;
use crate::exit::{Code as Exit, fail, report};
use code::Code;
pub use code::explain;
use serde_json::{Value, json};
use std::process::{Command, Stdio};

/// Something that is wrong.
#[derive(Clone, Debug)]
struct Finding {
    code: Code,
    what: String,
    fix: String,
}

/// What was found, and what could not be looked at.
#[derive(Clone, Debug, Default)]
struct Findings {
    list: Vec<Finding>,
    unchecked: Vec<String>,
}

impl Findings {
    fn add(&mut self, code: Code, what: impl ToString, fix: impl ToString) {
        self.list.push(Finding { code, what: what.to_string(), fix: fix.to_string() });
    }

    /// Whatever is not looked at is said: silence means that all is well.
    fn skip(&mut self, what: impl ToString) {
        self.unchecked.push(what.to_string());
    }

    fn json(&self, interface: Option<&str>) -> Value {
        let finding = |finding: &Finding| {
            let Finding { code, what, fix } = finding;
            json!({ "code": code.name(), "what": what, "why": code.why(), "fix": fix })
        };
        json!({
            "schema": 1,
            "interface": interface,
            "findings": self.list.iter().map(finding).collect::<Vec<_>>(),
            "not_checked": self.unchecked,
        })
    }

    fn text(&self, interface: Option<&str>) -> String {
        let mut lines = Vec::new();
        for Finding { code, what, fix } in &self.list {
            lines.push(format!("{}  {what}\n  why  {}\n  fix  {fix}", code.name(), code.why()));
        }
        lines.extend(self.unchecked.iter().map(|what| format!("not checked: {what}")));
        if self.list.is_empty() {
            lines.push(format!("nothing found on {}", interface.unwrap_or("this host")));
        }
        lines.join("\n")
    }
}

/// Runs the command.
///
/// # Errors
/// A [`Failure`](crate::exit::Failure) with code 1 if something was found.
pub fn run(args: &DoctorArgs) -> anyhow::Result<()> {
    let mut findings = Findings::default();
    let name = interface::check(args, &mut findings);
    if let Some(name) = &name {
        filter::check(name, args.ether_type, &mut findings);
    }
    if let Some(dest) = &args.dest {
        dest::check(dest, args.size, &mut findings);
    }
    let name = name.as_deref();
    report(&if args.json { findings.json(name).to_string() } else { findings.text(name) })?;
    match findings.list.len() {
        0 => Ok(()),
        count => fail(Exit::SomeFailed, format!("{count} found; `ethbcast explain CODE` says more of each")),
    }
}

/// What a program prints as JSON; why there is nothing, if there is not.
fn json_of(program: &str, arguments: &[&str]) -> Result<Value, String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("`{program}` does not run: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`{program} {}`: {}", arguments.join(" "), said.lines().next().unwrap_or("it failed")));
    }
    if output.stdout.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("`{program}` writes no JSON: {error}"))
}
