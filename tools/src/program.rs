//! Programs that a user has run beside a transfer: where the bytes come from, and what follows it.

use crate::exit::{Code, Failure};
use std::ffi::OsString;
use std::io::{self, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

/// The output of a command, whose end is told only if the command has succeeded: half of it is not the whole.
pub struct CommandOutput {
    command: String,
    child: Child,
    stdout: ChildStdout,
}

impl CommandOutput {
    /// Starts a command in a shell.
    ///
    /// # Errors
    /// If there is no shell, or no room for a process.
    pub fn start(command: &str) -> io::Result<CommandOutput> {
        let mut child = shell(command).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().expect("it is piped");
        Ok(CommandOutput { command: command.to_owned(), child, stdout })
    }
}

impl Read for CommandOutput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.stdout.read(buffer)?;
        if count == 0 && !buffer.is_empty() {
            let status = self.child.wait()?;
            if !status.success() {
                return Err(io::Error::other(format!(
                    "`{}` failed ({status}): nobody keeps a part of it",
                    self.command
                )));
            }
        }
        Ok(count)
    }
}

/// Runs a command in a shell when a transfer is over, with what it should know in its environment. Its stdout is
/// stderr: what is on stdout is the report.
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

fn shell(command: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command);
    shell
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_command_that_fails_is_an_error_and_not_an_end() {
        let read = |command: &str| {
            let mut all = Vec::new();
            let ended = CommandOutput::start(command).expect("a shell").read_to_end(&mut all);
            (all, ended.map_err(|error| error.to_string()))
        };
        assert_eq!(read("printf abc"), (b"abc".to_vec(), Ok(3)));
        let (half, error) = read("printf ab; exit 3");
        assert_eq!(half, b"ab");
        assert!(error.expect_err("it failed").contains("`printf ab; exit 3` failed"));
    }

    #[test]
    fn what_runs_afterwards_knows_what_it_needs_and_fails_with_its_name() {
        let known = || [("ETHBCAST_BYTES", OsString::from("3"))];
        run_after("test \"$ETHBCAST_BYTES\" = 3", known()).expect("it is 3");
        let error = run_after("exit 7", known()).expect_err("it failed").to_string();
        assert!(error.contains("`exit 7` failed") && error.contains('7'), "{error}");
    }
}
