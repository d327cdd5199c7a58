//! Shell commands whose output is sent, or that read what is received.

pub use rustix::process::Signal;

use ethbcast_collectives::lock::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, WaitId, WaitIdOptions, kill_process_group, waitid};
use rustix::thread::{
    CapabilitySet, capability_is_in_ambient_set, clear_ambient_capability_set,
    configure_capability_in_ambient_set,
};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// Grace period between a termination signal and SIGKILL.
const END_LIMIT: Duration = Duration::from_millis(300);
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Longest interval at which a command that runs after a transfer is polled.
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Offset that a shell adds to a signal's number in an exit code.
const SIGNALLED: i32 = 128;

/// Returns a command that runs `command` in a shell, with `pipefail` if a shell here supports it.
pub fn shell(command: &str) -> Command {
    let pipefail_shell = if has_pipeline(command) {
        pipefail_shell()
    } else {
        None
    };
    let mut shell = Command::new(pipefail_shell.unwrap_or("sh"));
    shell.env_remove("ETHBCAST_KEY");
    if pipefail_shell.is_some() {
        shell.args(["-o", "pipefail"]);
    }
    shell.arg("-c").arg(command);
    shell
}

/// Whether `command` is a pipeline and no shell here supports `pipefail`, so that only its last
/// command's failure would be seen.
pub fn hides_failures(command: &str) -> bool {
    has_pipeline(command) && pipefail_shell().is_none()
}

fn has_pipeline(command: &str) -> bool {
    command.replace("||", "").contains('|')
}

/// Whether the only "failure" is SIGPIPE within a pipeline, as in `a | head -c 1G`, whose reader
/// needed no more.
fn reader_had_enough(command: &str, status: ExitStatus) -> bool {
    has_pipeline(command) && status.code() == Some(SIGNALLED + Signal::PIPE.as_raw())
}

/// Returns the shell that supports `pipefail`: `sh` if it does, else `bash`, or none.
fn pipefail_shell() -> Option<&'static str> {
    static PIPEFAIL_SHELL: OnceLock<Option<&str>> = OnceLock::new();
    let knows = |shell: &&str| {
        let mut shell = Command::new(shell);
        shell.env_remove("ETHBCAST_KEY");
        let quiet = shell
            .args(["-o", "pipefail", "-c", "exit 0"])
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        quiet.status().is_ok_and(|status| status.success())
    };
    *PIPEFAIL_SHELL.get_or_init(|| ["sh", "bash"].into_iter().find(knows))
}

/// Whether commands are started without the ambient capabilities of their thread.
static CLEARS_AMBIENT: AtomicBool = AtomicBool::new(false);

/// Starts all later commands without ambient capabilities, which this process has raised for
/// itself.
pub fn clear_ambient_capabilities() {
    CLEARS_AMBIENT.store(true, Ordering::Relaxed);
}

fn spawn(command: &mut Command) -> io::Result<Child> {
    if !CLEARS_AMBIENT.load(Ordering::Relaxed) {
        return command.spawn();
    }
    let each = (0..u64::BITS).map(|bit| CapabilitySet::from_bits_retain(1 << bit));
    let ambient: Vec<_> = each
        .filter(|&one| capability_is_in_ambient_set(one).unwrap_or(false))
        .collect();
    if !ambient.is_empty() {
        clear_ambient_capability_set()?;
    }
    let child = command.spawn();
    for one in ambient {
        if let Err(error) = configure_capability_in_ambient_set(one, true) {
            log::warn!("what this thread starts has fewer rights now: {error}");
        }
    }
    child
}

/// Runs `command` in a process group of its own until it ends or `must_end` returns true. Then the
/// group is ended, and the result is `None`: also if a process of it cannot be killed, because it
/// waits for a disk that does not reply.
///
/// # Errors
/// If there is no such program, or no room for a process.
pub fn run_until(command: &mut Command, must_end: impl Fn() -> bool) -> io::Result<Option<Output>> {
    let mut child = spawn(command.process_group(0))?;
    let group = Pid::from_child(&child);
    let unfinished = Unfinished::note_group(group);
    if await_end(&mut child, MAX_POLL_INTERVAL, &must_end)? {
        drop(unfinished);
        return child.wait_with_output().map(Some);
    }
    for signal in [Signal::TERM, Signal::KILL] {
        let _ = kill_process_group(group, signal);
        let until = Instant::now() + END_LIMIT;
        if await_end(&mut child, POLL_INTERVAL, || Instant::now() >= until)? {
            break;
        }
    }
    let _ = kill_process_group(group, Signal::KILL);
    Ok(None)
}

fn await_end(
    child: &mut Child,
    longest: Duration,
    must_end: impl Fn() -> bool,
) -> io::Result<bool> {
    let mut interval = POLL_INTERVAL;
    loop {
        if child.try_wait()?.is_some() {
            return Ok(true);
        }
        if must_end() {
            return Ok(false);
        }
        thread::sleep(interval);
        interval = (interval * 2).min(longest);
    }
}

/// The output of a command. Its end is reported only if the command succeeded, so that half an
/// output is not taken for the whole.
#[derive(Debug)]
pub struct CommandOutput {
    command: String,
    child: Child,
    stdout: ChildStdout,
    _unfinished: Option<Unfinished>,
}

impl CommandOutput {
    /// Starts `command` in a shell.
    ///
    /// # Errors
    /// If there is no shell, or no room for a process.
    pub fn start(command: &str) -> io::Result<CommandOutput> {
        let mut shell = shell(command);
        shell.stdin(Stdio::null()).stdout(Stdio::piped());
        // At a terminal it stays in the group that Ctrl-C reaches and that may ask for a password.
        let is_alone = File::open("/dev/tty").is_err();
        let mut child = spawn(if is_alone {
            shell.process_group(0)
        } else {
            &mut shell
        })?;
        let _unfinished = is_alone.then(|| Unfinished::note_group(Pid::from_child(&child)));
        let stdout = child.stdout.take().expect("it is piped");
        Ok(CommandOutput {
            command: command.to_owned(),
            child,
            stdout,
            _unfinished,
        })
    }
}

impl Read for CommandOutput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.stdout.read(buffer)?;
        if count == 0 && !buffer.is_empty() {
            let status = self.child.wait()?;
            if !status.success() && !reader_had_enough(&self.command, status) {
                return Err(failed(&self.command, status, "nobody keeps a part of it"));
            }
        }
        Ok(count)
    }
}

/// A command that reads the received bytes on its stdin. Its input ends only when all bytes have
/// arrived and are verified; otherwise the command and its process group are ended.
#[derive(Debug)]
pub struct CommandInput {
    command: String,
    child: Child,
    stdin: Option<ChildStdin>,
    state: Arc<CommandState>,
    _unfinished: Unfinished,
}

/// Shared state of a [`CommandInput`], through which others can end it.
#[derive(Debug, Default)]
pub struct CommandState {
    group: Mutex<Option<Pid>>,
    was_ended: AtomicBool,
    code: OnceLock<u8>,
}

impl CommandState {
    /// Sends `signal` to the command's process group and returns whether it was running.
    pub fn end(&self, signal: Signal) -> bool {
        let group = self.group.lock();
        self.was_ended.fetch_or(group.is_some(), Ordering::Relaxed);
        group.is_some_and(|group| kill_process_group(group, signal).is_ok())
    }

    /// Returns the exit code if the command failed by itself: 128 plus the number if a signal ended
    /// it.
    pub fn failed_with(&self) -> Option<u8> {
        self.code.get().copied().filter(|&code| code != 0)
    }
}

impl CommandInput {
    /// Starts `command` in a shell with `ETHBCAST_SOURCE` in its environment. Its stdout is
    /// redirected to stderr, because stdout carries a report. `state` is set to the new process
    /// group.
    ///
    /// # Errors
    /// If there is no shell, or no room for a process.
    pub fn start(
        command: &str,
        source: &str,
        state: Arc<CommandState>,
    ) -> io::Result<CommandInput> {
        let mut shell = shell(command);
        // A process group of its own, so that its children can be ended with it.
        shell
            .env("ETHBCAST_SOURCE", source)
            .stdin(Stdio::piped())
            .stdout(io::stderr())
            .process_group(0);
        let mut child = spawn(&mut shell)?;
        let group = Pid::from_child(&child);
        *state.group.lock() = Some(group);
        let (command, stdin) = (command.to_owned(), child.stdin.take());
        Ok(CommandInput {
            command,
            child,
            stdin,
            state,
            _unfinished: Unfinished::note_group(group),
        })
    }

    /// Closes the input and waits until the command has read all of it and ended.
    ///
    /// # Errors
    /// If it fails, or ends before it has taken all.
    pub fn finish(&mut self) -> io::Result<()> {
        let Some(stdin) = self.stdin.take() else {
            return Ok(());
        };
        let took_all = drain(&stdin)?;
        drop(stdin);
        self.wait(took_all)
    }

    fn look(&self, how: WaitIdOptions) -> io::Result<bool> {
        let child = WaitId::Pid(Pid::from_child(&self.child));
        Ok(waitid(child, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | how)?.is_some())
    }

    fn wait(&mut self, took_all: bool) -> io::Result<()> {
        // The next call reaps the process; until then its number stays valid for signals.
        self.look(WaitIdOptions::empty())?;
        let mut group = self.state.group.lock();
        let status = self.child.wait()?;
        *group = None;
        let code = status
            .code()
            .unwrap_or_else(|| SIGNALLED + status.signal().unwrap_or_default());
        if !self.state.was_ended.load(Ordering::Relaxed) {
            self.state.code.get_or_init(|| code as u8);
        }
        match (status.success(), took_all) {
            (true, true) => Ok(()),
            (true, false) => Err(io::Error::other(format!(
                "`{}` ended before it had taken all: let it read to the end, `{0}; cat > /dev/null`",
                self.command
            ))),
            (false, _) => Err(failed(&self.command, status, "its effects so far stay")),
        }
    }
}

impl Write for CommandInput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(stdin) = &mut self.stdin else {
            return Err(ErrorKind::BrokenPipe.into());
        };
        match stdin.write(bytes) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.stdin = None;
                self.wait(false)?;
                Err(error)
            }
            result => result,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for CommandInput {
    fn drop(&mut self) {
        // Ended before its input ends, because half the bytes would look like all.
        if self.state.end(Signal::TERM) {
            let until = Instant::now() + END_LIMIT;
            while matches!(self.look(WaitIdOptions::NOHANG), Ok(false)) && Instant::now() < until {
                thread::sleep(POLL_INTERVAL);
            }
            self.state.end(Signal::KILL);
        }
        let mut group = self.state.group.lock();
        drop(self.child.wait());
        *group = None;
    }
}

fn drain(pipe: &ChildStdin) -> io::Result<bool> {
    let look = Timespec::try_from(POLL_INTERVAL).expect("it is short");
    loop {
        if rustix::io::ioctl_fionread(pipe)? == 0 {
            return Ok(true);
        }
        let mut gone = [PollFd::new(pipe, PollFlags::empty())];
        match poll(&mut gone, Some(&look)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(rustix::io::ioctl_fionread(pipe)? == 0),
            Err(error) => return Err(error.into()),
        }
    }
}

fn failed(command: &str, status: ExitStatus, what_of_it: &str) -> io::Error {
    io::Error::other(format!("`{command}` failed ({status}): {what_of_it}"))
}

static UNFINISHED: Mutex<Vec<What>> = Mutex::new(Vec::new());

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    File(PathBuf),
    Group(Pid),
}

/// Guard of a file that is removed, or a process group that is killed, if the process ends at once.
#[derive(Debug)]
pub struct Unfinished(What);

impl Unfinished {
    pub fn note(path: &Path) -> Unfinished {
        Unfinished::note_this(What::File(path.to_owned()))
    }

    pub fn note_group(group: Pid) -> Unfinished {
        Unfinished::note_this(What::Group(group))
    }

    fn note_this(what: What) -> Unfinished {
        UNFINISHED.lock().push(what.clone());
        Unfinished(what)
    }

    /// Ends all registered groups, unless [`remove_all`](Unfinished::remove_all) has. The process
    /// must end next.
    pub fn end_groups() {
        for what in UNFINISHED
            .try_lock()
            .iter()
            .flat_map(|unfinished| unfinished.iter())
        {
            if let What::Group(group) = what {
                let _ = kill_process_group(*group, Signal::TERM);
            }
        }
    }

    /// Removes all registered files and kills all registered groups. The process must end next.
    pub fn remove_all() {
        // Not unlocked: nothing may be registered before the process ends.
        let unfinished = UNFINISHED.lock();
        for what in unfinished.iter() {
            match what {
                What::File(path) => drop(std::fs::remove_file(path)),
                What::Group(group) => drop(kill_process_group(*group, Signal::KILL)),
            }
        }
        std::mem::forget(unfinished);
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        UNFINISHED.lock().retain(|what| *what != self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_command_that_fails_is_an_error_and_not_an_end() {
        let read = |command: &str| {
            let mut all = Vec::new();
            let ended = CommandOutput::start(command)
                .expect("a shell")
                .read_to_end(&mut all);
            (all, ended.map_err(|error| error.to_string()))
        };
        assert_eq!(read("printf abc"), (b"abc".to_vec(), Ok(3)));
        let (half, error) = read("printf ab; exit 3");
        assert_eq!(half, b"ab");
        assert!(
            error
                .expect_err("it failed")
                .contains("`printf ab; exit 3` failed")
        );
    }

    #[test]
    fn a_pipeline_fails_with_any_of_its_commands() {
        assert!(!has_pipeline("a || b") && has_pipeline("a | b") && has_pipeline("a || b | c"));
        let command = "(printf ab; exit 3) | cat";
        let mut all = Vec::new();
        let ended = CommandOutput::start(command)
            .expect("a shell")
            .read_to_end(&mut all);
        assert_eq!(
            (all.as_slice(), ended.is_err()),
            (&b"ab"[..], !hides_failures(command))
        );
        assert_eq!(
            feed("cat > /dev/null | true", 10),
            (Ok(()), None),
            "nothing fails"
        );
        assert_eq!(
            feed("(cat > /dev/null; exit 7) | true", 10).0.is_err(),
            !hides_failures(command)
        );
    }

    fn feed(command: &str, bytes: usize) -> (Result<(), String>, Option<u8>) {
        let state = Arc::<CommandState>::default();
        let mut input = CommandInput::start(command, "image", Arc::clone(&state)).expect("a shell");
        let ended = input
            .write_all(&vec![7; bytes])
            .and_then(|()| input.finish());
        (
            ended.map_err(|error| error.to_string()),
            state.failed_with(),
        )
    }

    #[test]
    fn a_command_has_taken_all_or_has_failed_also_when_it_says_that_it_succeeded() {
        assert_eq!(
            feed(
                "test $(wc -c) = 1000000 && test $ETHBCAST_SOURCE = image",
                1_000_000
            ),
            (Ok(()), None)
        );
        for (command, bytes, words, code) in [
            (
                "cat > /dev/null; exit 7",
                1_000_000,
                "failed (exit status: 7)",
                Some(7),
            ),
            ("exit 9", 1_000_000, "failed (exit status: 9)", Some(9)),
            ("kill -USR1 $$", 10, "signal: 10", Some(138)),
            (
                "head -c 10 > /dev/null",
                1_000_000,
                "before it had taken all",
                None,
            ),
            ("true", 10, "before it had taken all", None),
            (
                "no-such-command-anywhere",
                10,
                "failed (exit status: 127)",
                Some(127),
            ),
        ] {
            let (ended, failed_with) = feed(command, bytes);
            assert!(
                ended.as_ref().is_err_and(|text| text.contains(words)),
                "{command}: {ended:?}"
            );
            assert_eq!(failed_with, code, "{command}");
        }
    }

    #[test]
    fn a_command_with_half_of_the_input_is_ended_with_its_children_and_sees_no_end_of_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let note = directory.path().join("note");
        for deafness in ["", "trap '' TERM; "] {
            let command = format!(
                "{deafness}cat | cat > /dev/null; echo ended > {}",
                note.display()
            );
            let state = Arc::<CommandState>::default();
            let mut input = CommandInput::start(&command, "", Arc::clone(&state)).expect("a shell");
            input.write_all(&[7; 100_000]).expect("it reads");
            drop(input);
            assert!(!note.exists() && !state.end(Signal::KILL) && state.failed_with().is_none());
        }
    }

    #[test]
    fn a_command_that_does_not_end_is_ended_with_all_that_it_has_started() {
        let directory = tempfile::tempdir().expect("a directory");
        let note = directory.path().join("note");
        let run = |command: &str, must_end: bool| {
            let mut command = shell(command);
            command.stdin(Stdio::null()).stderr(Stdio::piped());
            run_until(&mut command, || must_end && note.exists()).expect("a shell")
        };
        let output = run("echo 7 >&2; exit 3", false).expect("it ends by itself");
        assert_eq!(
            (output.status.code(), output.stderr.as_slice()),
            (Some(3), &b"7\n"[..])
        );
        for deafness in ["", "trap '' TERM; "] {
            let command = format!(
                "{deafness}sleep 1000 & echo $! > {0}.new; mv {0}.new {0}; wait",
                note.display()
            );
            assert!(run(&command, true).is_none());
            let inner = std::fs::read_to_string(&note).expect("its number");
            // A busy machine lets a process that has its signal wait for a processor to end on.
            let state = || {
                std::fs::read_to_string(format!("/proc/{}/stat", inner.trim())).unwrap_or_default()
            };
            let has_ended = |state: &str| state.is_empty() || state.contains(") Z ");
            let deadline = Instant::now() + Duration::from_secs(60);
            while !has_ended(&state()) && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(10));
            }
            assert!(has_ended(&state()), "{}", state());
            std::fs::remove_file(&note).expect("it is there");
        }
    }

    #[test]
    fn a_command_that_stands_still_is_ended_by_who_has_waited_long_enough() {
        let state = Arc::<CommandState>::default();
        let mut input = CommandInput::start("sleep 1000", "", Arc::clone(&state)).expect("a shell");
        let writer = thread::spawn(move || input.write_all(&[7; 1_000_000]));
        thread::sleep(Duration::from_millis(20));
        assert!(state.end(Signal::TERM));
        assert!(writer.join().expect("no panic").is_err());
    }
}
