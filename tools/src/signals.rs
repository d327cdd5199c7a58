//! Ctrl-C and friends, without a signal handler: blocked in every thread, and waited for in one.

use crate::exit::{Code, Failure};
use ethbcast_content::unfinished::Unfinished;
use ethbcast_transport::packet::Waker;
use nix::sys::signal::{SigSet, Signal};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex};

/// Whether the user has asked to stop.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    signal: Arc<AtomicI32>,
    /// Whether somebody looks at it; until then a signal ends the process at once.
    watched: Arc<AtomicBool>,
}

/// What asks a process to end.
const ENDING: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];

/// Everybody who watches for these, in the order in which they began.
static WATCHERS: Mutex<Vec<Watcher>> = Mutex::new(Vec::new());

/// Somebody who is told of a signal.
struct Watcher {
    interrupt: Interrupt,
    impatient: bool,
    tell: Box<dyn Fn() + Send>,
}

/// Tells all who watch, or ends the process if nobody will.
fn hear(signal: Signal) {
    let watchers = WATCHERS.lock().expect("nobody panics while it is held");
    let Some(newest) = watchers.last() else { return };
    let before = newest.interrupt.signal.swap(signal as i32, Ordering::SeqCst);
    if (before != 0 && newest.impatient) || !newest.interrupt.watched.load(Ordering::SeqCst) {
        Unfinished::remove_all();
        crate::exit::say(format_args!("ethbcast: interrupted"));
        std::process::exit(128 + signal as i32);
    }
    for watcher in watchers.iter() {
        watcher.interrupt.signal.store(signal as i32, Ordering::SeqCst);
        (watcher.tell)();
    }
}

/// Blocks these signals in this thread and all it starts from now on.
///
/// # Errors
/// If the kernel refuses the signal mask.
pub fn block(signals: &[Signal]) -> std::io::Result<()> {
    let mut blocked = SigSet::empty();
    signals.iter().for_each(|&signal| blocked.add(signal));
    Ok(blocked.thread_block()?)
}

/// Blocks these signals in this thread and all it starts from now on, and has `tell` called for each that comes.
///
/// # Errors
/// If the kernel refuses the signal mask.
pub fn listen(signals: &[Signal], mut tell: impl FnMut(Signal) + Send + 'static) -> std::io::Result<()> {
    let mut heard = SigSet::empty();
    signals.iter().for_each(|&signal| heard.add(signal));
    heard.thread_block()?;
    // A file at its limit: blocked for good, it is an error of the write (EFBIG) and not the process's death.
    SigSet::from(Signal::SIGXFSZ).thread_block()?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        while let Ok(signal) = heard.wait() {
            tell(signal);
        }
    })?;
    Ok(())
}

impl Interrupt {
    /// Blocks SIGINT, SIGTERM and SIGHUP in this thread and all it starts from now on, and watches for them; `tell` is
    /// called at the first. A second one ends the process at once if it is `impatient`, with whatever is half done.
    ///
    /// Several may watch, one after the other: all are told, and the newest decides what a signal does to the process.
    ///
    /// # Errors
    /// If the kernel refuses the signal mask.
    pub fn watch(impatient: bool, tell: impl Fn() + Send + 'static) -> std::io::Result<Interrupt> {
        let interrupt = Interrupt::default();
        let mut watchers = WATCHERS.lock().expect("nobody panics while it is held");
        if watchers.is_empty() {
            // One thread waits for all: of two a signal would go to either.
            listen(&ENDING, hear)?;
        }
        block(&ENDING)?;
        watchers.push(Watcher { interrupt: interrupt.clone(), impatient, tell: Box::new(tell) });
        Ok(interrupt)
    }

    /// Watches on behalf of a driver's loop, which `waker` wakes.
    ///
    /// # Errors
    /// As [`Interrupt::watch`].
    pub fn wake(waker: &Waker) -> std::io::Result<Interrupt> {
        let waker = waker.clone();
        Interrupt::watch(true, move || waker.wake())
    }

    /// From now on somebody asks for [`signal`](Interrupt::signal) and ends things properly.
    pub fn heed(&self) {
        self.watched.store(true, Ordering::SeqCst);
    }

    /// The exit code and words for having been interrupted.
    pub fn failure(signal: Signal, text: &str) -> Failure {
        let code = if signal == Signal::SIGTERM { Code::Terminated } else { Code::Interrupted };
        Failure::new(code, text)
    }

    /// The signal that was received, if any.
    pub fn signal(&self) -> Option<Signal> {
        Signal::try_from(self.signal.load(Ordering::SeqCst)).ok()
    }
}
