//! Started programs, with their output in files and a limit on their time. They are killed on drop.

use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::interrupt::Interrupt;

/// Polling interval for a program's end, which is long in order not to disturb the measurement.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A program's output, or its reason of failure.
pub type Ended = Result<String, String>;

/// A program, killed on drop if it still runs.
#[derive(Debug)]
pub struct Running {
    name: String,
    child: Child,
    stdout: File,
    stderr: File,
}

impl Running {
    /// Starts a program; `name` is for messages.
    ///
    /// # Errors
    /// If it cannot be started, or its output files cannot be created.
    pub fn start(name: impl Into<String>, mut command: Command) -> anyhow::Result<Self> {
        let name = name.into();
        let (stdout, stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
        command.stdin(Stdio::null()).stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
        let child = command.spawn().with_context(|| format!("starting {name}"))?;
        Ok(Self { name, child, stdout, stderr })
    }

    /// Waits for the program's end. A program that exceeds `limit` counts as failed.
    ///
    /// # Errors
    /// If the user interrupts, or the program's output cannot be read.
    pub fn wait(&mut self, limit: Duration, interrupt: &Interrupt) -> anyhow::Result<Ended> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(ended) = self.ended()? {
                return Ok(ended);
            }
            if Instant::now() > deadline {
                return Ok(Err(format!("{} has not ended after {:.0} s", self.name, limit.as_secs_f64())));
            }
            thread::sleep(LOOK_EVERY);
            interrupt.check()?;
        }
    }

    /// Returns the result if the program has ended.
    ///
    /// # Errors
    /// The system's error.
    pub fn ended(&mut self) -> anyhow::Result<Option<Ended>> {
        let Some(status) = self.child.try_wait()? else { return Ok(None) };
        if status.success() {
            return Ok(Some(Ok(text(&mut self.stdout)?)));
        }
        let log = text(&mut self.stderr)?;
        // Some programs end their output with a line of dashes.
        let words =
            log.lines().rev().find(|line| line.contains(char::is_alphanumeric)).unwrap_or("it said nothing").trim();
        Ok(Some(Err(format!("{}: {status}: {words}", self.name))))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only if it has ended and been waited for.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn text(file: &mut File) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Running {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Running::start("the shell", command).expect("there is a shell")
    }

    #[test]
    fn a_program_ends_with_its_output_or_its_complaint_or_too_late() {
        let interrupt = Interrupt::hold().expect("signals can be held");
        let wait = |script: &str, limit_ms| {
            shell(script).wait(Duration::from_millis(limit_ms), &interrupt).expect("no signal")
        };
        assert_eq!(wait("echo all of it; echo noise >&2", 20_000), Ok("all of it\n".to_owned()));
        assert_eq!(wait("echo no >&2; echo >&2; exit 3", 20_000), Err("the shell: exit status: 3: no".to_owned()));
        assert_eq!(wait("exec sleep 60", 50), Err("the shell has not ended after 0 s".to_owned()));
    }
}
