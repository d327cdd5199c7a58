//! Isolated environment in which the test runner runs one test, so that it leaves nothing behind.
//!
//! A cell with root has process ids, mounts, `/run/netns`, `/dev/shm` and `target/tmp` of its own.
//! When its first process ends, the kernel ends all its processes, and with them its network
//! namespaces, mounts and files in memory. Without root it is a process group that is killed as a
//! whole.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{Pid, Uid, getpgrp};
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use crate::Test;

/// First argument of this program as a cell's first process.
const ENTER: &str = "--cell";
/// Prefix of the resource usage that the first process prints at its end.
const USED: &str = "\u{1}used ";
const LOOK_EVERY: Duration = Duration::from_millis(10);
const FURNISH: &str = "for at; do mkdir -p $at && mount -t tmpfs tmpfs $at || exit 1; done";
/// The directories of a cell; `FILES` names another one, for the files of tests.
const OWN: [&str; 2] = ["/dev/shm", "/run/netns"];
const FILES: &str = "ETHBCAST_CELL_FILES";

#[derive(Debug)]
pub struct Ended {
    /// Exit code of the test; 128 plus the number of the signal that killed it; `None` after the
    /// deadline.
    pub code: Option<i32>,
    pub said: String,
    pub took: Duration,
    pub processors: Duration,
    pub memory_bytes: u64,
}

pub struct Cell {
    child: Child,
    log: File,
    begun: Instant,
    deadline: Duration,
    is_root: bool,
}

impl Cell {
    /// Starts a test; its output goes to a file.
    pub fn start(
        test: &Test,
        logs: &Path,
        deadline: Duration,
        environment: &[(&str, &str)],
    ) -> anyhow::Result<Self> {
        let log = logs.join(format!("{}.log", test.name.replace("::", ".")));
        let file = File::options()
            .create(true)
            .truncate(true)
            .read(true)
            .write(true)
            .open(log)?;
        let own = std::env::current_exe()?;
        let is_root = Uid::effective().is_root() && test.kind.is_lab();
        let mut command = if is_root {
            let mut command = Command::new("unshare");
            command.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
            // Lab tests have priority over all other processes.
            command.args(["--", "nice", "-n", "-10"]).arg(own);
            command
        } else {
            Command::new(own)
        };
        // A pipe without input: it closes at the end of this process, and the cell then ends, too.
        command
            .arg(ENTER)
            .args(&test.command)
            .current_dir(&test.directory)
            .stdin(Stdio::piped());
        command
            .stdout(file.try_clone()?)
            .stderr(file.try_clone()?)
            .process_group(0);
        command
            .envs(environment.iter().copied())
            .env("CARGO_MANIFEST_DIR", &test.directory);
        // Cargo's directory for the files of tests, `target/tmp`.
        command.env(FILES, logs.join("../../tmp"));
        Ok(Self {
            child: command.spawn()?,
            log: file,
            begun: Instant::now(),
            deadline,
            is_root,
        })
    }

    /// Waits for the test's end, up to the deadline.
    pub fn end(mut self) -> anyhow::Result<Ended> {
        let status = loop {
            match self.child.try_wait()? {
                Some(status) => break Some(status),
                None if self.begun.elapsed() > self.deadline => break None,
                None => std::thread::sleep(LOOK_EVERY),
            }
        };
        self.clear();
        let mut said = Vec::new();
        self.log.rewind()?;
        self.log.read_to_end(&mut said)?;
        let mut said = String::from_utf8_lossy(&said).into_owned();
        let code = status.map(|status| {
            status
                .code()
                .unwrap_or(128 + status.signal().unwrap_or_default())
        });
        let (processors, memory_bytes) = used(&mut said).unwrap_or_default();
        Ok(Ended {
            code,
            said,
            took: self.begun.elapsed(),
            processors,
            memory_bytes,
        })
    }

    fn clear(&mut self) {
        let group = Pid::from_raw(i32::try_from(self.child.id()).unwrap_or(i32::MAX));
        // Both fail if nothing is left, as intended. As root the first process ends with `unshare`,
        // and with it all others.
        if !self.is_root {
            killpg(group, Signal::SIGTERM).unwrap_or_default();
        }
        killpg(group, Signal::SIGKILL).unwrap_or_default();
        drop(self.child.wait());
    }
}

fn used(said: &mut String) -> Option<(Duration, u64)> {
    let at = said.rfind(USED)?;
    let text = said.split_off(at);
    let mut numbers = text
        .strip_prefix(USED)?
        .split_whitespace()
        .map(|number| number.parse::<u64>().ok());
    Some((
        Duration::from_millis(numbers.next()??),
        numbers.next()?? << 10,
    ))
}

/// Acts as a cell's first process if this process was started as one: starts the test, and reaps
/// processes until it has ended.
pub fn enter() -> Option<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() != Some(ENTER) {
        return None;
    }
    Some(first_process(arguments).unwrap_or_else(|error| {
        eprintln!("the test was not started: {error:#}");
        ExitCode::from(126)
    }))
}

/// Ends the cell when its runner has ended, also after Ctrl-C.
fn end_with_the_runner() {
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap_or_default();
    killpg(getpgrp(), Signal::SIGKILL).unwrap_or_default();
    // Process 1 ignores the signal, and ends the others by its own end.
    std::process::exit(126);
}

fn first_process(mut arguments: impl Iterator<Item = String>) -> anyhow::Result<ExitCode> {
    std::thread::spawn(end_with_the_runner);
    if std::process::id() == 1 {
        let files = std::env::var(FILES).unwrap_or_default();
        let furnished = Command::new("sh")
            .args(["-c", FURNISH, "sh"])
            .args(OWN)
            .arg(files)
            .status()?;
        anyhow::ensure!(
            furnished.success(),
            "mounts for the test alone cannot be made"
        );
    }
    let program = arguments
        .next()
        .ok_or_else(|| anyhow::anyhow!("no program"))?;
    let test = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .spawn()?;
    let code = loop {
        match waitpid(None, None)? {
            WaitStatus::Exited(pid, code) if pid.as_raw() as u32 == test.id() => break code,
            WaitStatus::Signaled(pid, signal, _) if pid.as_raw() as u32 == test.id() => {
                break 128 + signal as i32;
            }
            _ => {}
        }
    };
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let processors = usage.user_time() + usage.system_time();
    let milliseconds = processors.tv_sec() * 1000 + processors.tv_usec() / 1000;
    println!("{USED}{milliseconds} {}", usage.max_rss());
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}
