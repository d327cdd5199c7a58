//! Commands that the user runs after a transfer.

use crate::exit::{Code, Failure};
use ethbcast_content::command::shell;
use std::ffi::{OsStr, OsString};
use std::io;
use std::process::{Command, Stdio};

/// Runs a shell command after a transfer with the given environment variables. Its stdout is
/// redirected to stderr, because stdout carries the report.
///
/// # Errors
/// A [`Failure`] with code 4 if it cannot be started or fails.
pub fn run_after(command: &str, environment: impl IntoIterator<Item = (&'static str, OsString)>) -> anyhow::Result<()> {
    let failed = |why: String| Failure::new(Code::System, format!("all was delivered, but `{command}` failed: {why}"));
    let mut shell = shell(command);
    shell.envs(environment).stdin(Stdio::null()).stdout(io::stderr());
    let status = shell.status().map_err(|error| failed(error.to_string()))?;
    if status.success() { Ok(()) } else { Err(failed(status.to_string()).into()) }
}

/// Runs a program without output.
///
/// # Errors
/// Its error output, if it cannot be started or fails.
pub fn quiet(program: &str, arguments: &[&OsStr]) -> Result<(), String> {
    let ended = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let ended = ended.map_err(|error| format!("`{program}`: {error}"))?;
    if ended.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&ended.stderr).trim().replace('\n', "; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_afterwards_knows_what_it_needs_and_fails_with_its_name() {
        let known = || [("ETHBCAST_BYTES", OsString::from("3"))];
        run_after("test \"$ETHBCAST_BYTES\" = 3", known()).expect("it is 3");
        let error = run_after("exit 7", known()).expect_err("it failed").to_string();
        assert!(error.contains("`exit 7` failed") && error.contains('7'), "{error}");
    }
}
