//! Child processes of the benchmark: started, limited in time, and ended before the test network is
//! removed.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use ethbcast_lab::Lab;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// A signal has arrived and the program must clean up and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("interrupted; the lab has been taken down")]
pub struct Interrupted(Signal);

impl Interrupted {
    pub fn signal(self) -> Signal {
        self.0
    }
}

/// SIGINT, SIGTERM and SIGHUP of this process, blocked and polled.
#[derive(Debug)]
pub struct Interrupt {
    pending: SignalFd,
}

impl Interrupt {
    pub fn hold() -> io::Result<Self> {
        let held: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]
            .into_iter()
            .collect();
        let pending = SignalFd::with_flags(&held, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        held.thread_block()?;
        Ok(Self { pending })
    }

    pub fn check(&self) -> anyhow::Result<()> {
        let Some(told) = self.pending.read_signal()? else {
            return Ok(());
        };
        // Only these three signals are polled.
        Err(Interrupted(Signal::try_from(told.ssi_signo as i32).unwrap_or(Signal::SIGTERM)).into())
    }
}

#[derive(Clone, Debug)]
pub struct Program {
    path: String,
}

impl Program {
    pub fn find(given: Option<&Path>) -> anyhow::Result<Self> {
        let path = match given {
            Some(path) => path.to_owned(),
            None => std::env::current_exe()?.with_file_name("ethbcast"),
        };
        if !path.is_file() {
            let shown = path.display();
            bail!(
                "there is no {shown}: build it with `cargo build --release -p ethbcast`, or say where it is with \
                 --ethbcast"
            );
        }
        let path =
            fs::canonicalize(&path).with_context(|| format!("looking for {}", path.display()))?;
        let path = path
            .to_str()
            .context("the path of ethbcast is not valid UTF-8: give another with --ethbcast")?;
        Ok(Self {
            path: path.to_owned(),
        })
    }

    /// Returns a command of the program on a host of a lab, to which arguments can be added.
    pub fn on(&self, lab: &Lab, host: &str, subcommand: &str) -> anyhow::Result<Command> {
        let mut command = lab.command(host, &self.path)?;
        // No run learns from another.
        command.arg(subcommand).env("ETHBCAST_CACHE", "");
        Ok(command)
    }

    pub fn here(&self, subcommand: &str) -> Command {
        let mut command = Command::new(&self.path);
        command.arg(subcommand);
        command
    }
}

/// Polling interval for a program's end, which is long in order not to disturb the measurement.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A program's output, or its reason of failure.
pub type Ended = Result<String, String>;

#[derive(Debug)]
pub struct Running {
    name: String,
    child: Child,
    stdout: File,
    stderr: File,
}

impl Running {
    pub fn start(name: impl Into<String>, mut command: Command) -> anyhow::Result<Self> {
        let name = name.into();
        let (stdout, stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
        command
            .stdin(Stdio::null())
            .stdout(stdout.try_clone()?)
            .stderr(stderr.try_clone()?);
        let child = command
            .spawn()
            .with_context(|| format!("starting {name}"))?;
        Ok(Self {
            name,
            child,
            stdout,
            stderr,
        })
    }

    /// Waits for the program's end. A program that exceeds `limit` counts as failed.
    pub fn wait(&mut self, limit: Duration, interrupt: &Interrupt) -> anyhow::Result<Ended> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(ended) = self.ended()? {
                return Ok(ended);
            }
            if Instant::now() > deadline {
                return Ok(Err(format!(
                    "{} has not ended after {:.0} s",
                    self.name,
                    limit.as_secs_f64()
                )));
            }
            thread::sleep(LOOK_EVERY);
            interrupt.check()?;
        }
    }

    pub fn ended(&mut self) -> anyhow::Result<Option<Ended>> {
        let Some(status) = self.child.try_wait()? else {
            return Ok(None);
        };
        if status.success() {
            return Ok(Some(Ok(text(&mut self.stdout)?)));
        }
        // Some programs complain on stdout, such as MPICH's launcher.
        let log = text(&mut self.stdout)? + &text(&mut self.stderr)?;
        // Some programs end their output with a line of dashes.
        let words = log
            .lines()
            .rev()
            .find(|line| line.contains(char::is_alphanumeric))
            .unwrap_or("it said nothing")
            .trim();
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
            shell(script)
                .wait(Duration::from_millis(limit_ms), &interrupt)
                .expect("no signal")
        };
        assert_eq!(
            wait("echo all of it; echo noise >&2", 20_000),
            Ok("all of it\n".to_owned())
        );
        assert_eq!(
            wait("echo no >&2; echo >&2; exit 3", 20_000),
            Err("the shell: exit status: 3: no".to_owned())
        );
        assert_eq!(
            wait("exec sleep 60", 50),
            Err("the shell has not ended after 0 s".to_owned())
        );
    }
}
