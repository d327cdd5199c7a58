//! Handling of Ctrl-C and SIGTERM by a thread instead of a signal handler. The user's commands get
//! these signals too.
//!
//! Signals are blocked in every thread, and one thread waits for them.

use crate::exit::{Code, Failure};
use ethbcast_content::command::{Unfinished, run_until, shell};
use ethbcast_transport::packet::Waker;
use nix::sys::signal::{SigSet, Signal};
use std::ffi::{OsStr, OsString};
use std::io;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    signal: Arc<AtomicI32>,
    /// Whether the program polls it; before that, a signal ends the process at once.
    watched: Arc<AtomicBool>,
}

const ENDING: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];

static WATCHERS: Mutex<Vec<SignalWatcher>> = Mutex::new(Vec::new());

struct SignalWatcher {
    interrupt: Interrupt,
    impatient: bool,
    tell: Box<dyn Fn() + Send>,
}

/// Notifies all watchers, or ends the process if none handles the signal.
fn note(signal: Signal) {
    let watchers = WATCHERS.lock().expect("nobody panics while it is held");
    let Some(newest) = watchers.last() else {
        return;
    };
    let before = newest
        .interrupt
        .signal
        .swap(signal as i32, Ordering::SeqCst);
    if (before != 0 && newest.impatient) || !newest.interrupt.watched.load(Ordering::SeqCst) {
        Unfinished::remove_all();
        crate::exit::print_line(format_args!("ethbcast: interrupted"));
        std::process::exit(128 + signal as i32);
    }
    for watcher in watchers.iter() {
        watcher
            .interrupt
            .signal
            .store(signal as i32, Ordering::SeqCst);
        (watcher.tell)();
    }
}

/// Blocks these signals in this thread and everything it starts from now on.
pub fn block(signals: &[Signal]) -> std::io::Result<()> {
    let mut blocked = SigSet::empty();
    signals.iter().for_each(|&signal| blocked.add(signal));
    Ok(blocked.thread_block()?)
}

/// Blocks these signals in this thread and everything it starts from now on, and calls `tell` for
/// each one.
pub fn listen(
    signals: &[Signal],
    mut tell: impl FnMut(Signal) + Send + 'static,
) -> std::io::Result<()> {
    let mut heard = SigSet::empty();
    signals.iter().for_each(|&signal| heard.add(signal));
    heard.thread_block()?;
    // Blocked for good, so that a file at its size limit causes a write error (EFBIG) instead of
    // the process's death.
    SigSet::from(Signal::SIGXFSZ).thread_block()?;
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            while let Ok(signal) = heard.wait() {
                tell(signal);
            }
        })?;
    Ok(())
}

impl Interrupt {
    /// Blocks SIGINT, SIGTERM and SIGHUP in this thread and everything it starts from now on, and
    /// calls `tell` at the first one. If it is `impatient`, a second one ends the process at once.
    ///
    /// Several watchers may exist: all are notified, and the newest decides about the process.
    pub fn watch(impatient: bool, tell: impl Fn() + Send + 'static) -> std::io::Result<Interrupt> {
        let interrupt = Interrupt::default();
        let mut watchers = WATCHERS.lock().expect("nobody panics while it is held");
        if watchers.is_empty() {
            // One thread waits for all watchers; with several threads only one would get a signal.
            listen(&ENDING, note)?;
        }
        block(&ENDING)?;
        watchers.push(SignalWatcher {
            interrupt: interrupt.clone(),
            impatient,
            tell: Box::new(tell),
        });
        Ok(interrupt)
    }

    /// Watches on behalf of an event loop, which `waker` wakes.
    pub fn wake(waker: &Waker) -> std::io::Result<Interrupt> {
        let waker = waker.clone();
        Interrupt::watch(true, move || waker.wake())
    }

    /// Declares that [`signal`](Interrupt::signal) is polled from now on and handled in order.
    pub fn begin_polling(&self) {
        self.watched.store(true, Ordering::SeqCst);
    }

    pub fn failure(signal: Signal, text: &str) -> Failure {
        let code = if signal == Signal::SIGTERM {
            Code::Terminated
        } else {
            Code::Interrupted
        };
        Failure::new(code, text)
    }

    pub fn signal(&self) -> Option<Signal> {
        Signal::try_from(self.signal.load(Ordering::SeqCst)).ok()
    }
}

/// Time limit of a program that only requests something of the kernel.
const QUIET_LIMIT: Duration = Duration::from_secs(30);

/// Runs a shell command after a transfer with the given environment variables, until it ends or
/// `must_end` returns the reason for ending it. Its stdout is redirected to stderr, because stdout
/// carries the report.
pub fn run_after(
    command: &str,
    environment: impl IntoIterator<Item = (&'static str, OsString)>,
    must_end: impl Fn() -> Option<Failure>,
) -> anyhow::Result<()> {
    let failed = |why: String| {
        Failure::new(
            Code::System,
            format!("all was delivered, but `{command}` failed: {why}"),
        )
    };
    let mut shell = shell(command);
    shell
        .envs(environment)
        .stdin(Stdio::null())
        .stdout(io::stderr());
    match run_until(&mut shell, || must_end().is_some())
        .map_err(|error| failed(error.to_string()))?
    {
        Some(output) if output.status.success() => Ok(()),
        Some(output) => Err(failed(output.status.to_string()).into()),
        None => Err(must_end()
            .unwrap_or_else(|| failed("it was ended".to_owned()))
            .into()),
    }
}

/// Returns the reason for ending a command after a transfer: a signal, or that --timeout has passed
/// since `began`.
pub fn reason_to_end(
    interrupt: &Interrupt,
    began: Instant,
    timeout: Option<Duration>,
) -> Option<Failure> {
    let text = "all was delivered, but the command after it was ended";
    if let Some(signal) = interrupt.signal() {
        return Some(Interrupt::failure(signal, &format!("{text}: interrupted")));
    }
    let limit = timeout.filter(|&limit| began.elapsed() >= limit)?;
    let text = format!(
        "{text}: the {} s of --timeout were over",
        limit.as_secs_f64()
    );
    Some(Failure::new(Code::Nobody, text))
}

pub fn quiet(program: &str, arguments: &[&OsStr]) -> Result<(), String> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_remove("ETHBCAST_KEY")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let began = Instant::now();
    let ended = run_until(&mut command, || began.elapsed() >= QUIET_LIMIT);
    let ended = ended.map_err(|error| format!("`{program}`: {error}"))?;
    let Some(ended) = ended else {
        return Err(format!(
            "`{program}` did not end within {} s",
            QUIET_LIMIT.as_secs()
        ));
    };
    if ended.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&ended.stderr)
        .trim()
        .replace('\n', "; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_runs_afterwards_has_its_environment_and_fails_with_its_name() {
        let known = || [("ETHBCAST_BYTES", OsString::from("3"))];
        run_after("test \"$ETHBCAST_BYTES\" = 3", known(), || None).expect("it is 3");
        let error = run_after("exit 7", known(), || None)
            .expect_err("it failed")
            .to_string();
        assert!(
            error.contains("`exit 7` failed") && error.contains('7'),
            "{error}"
        );
    }

    #[test]
    fn what_runs_afterwards_ends_at_a_signal_and_at_the_time_limit() {
        let (interrupt, began) = (Interrupt::default(), Instant::now());
        assert!(reason_to_end(&interrupt, began, None).is_none());
        let run = |interrupt: &Interrupt, timeout| {
            run_after("sleep 1000", [], || {
                reason_to_end(interrupt, began, timeout)
            })
            .expect_err("ended")
            .to_string()
        };
        let text = run(&interrupt, Some(Duration::from_millis(1)));
        assert!(
            text.contains("was ended") && text.contains("--timeout"),
            "{text}"
        );
        interrupt
            .signal
            .store(Signal::SIGTERM as i32, Ordering::SeqCst);
        let text = run(&interrupt, None);
        assert!(
            text.contains("all was delivered") && text.contains("interrupted"),
            "{text}"
        );
        assert_eq!(
            reason_to_end(&interrupt, began, None)
                .expect("a signal")
                .code(),
            Code::Terminated
        );
    }
}
