//! Planted bugs (`transport/src/planted.rs`) and the hunt for them: seeded schedules have to find
//! each.

mod ack_tree;
mod acknowledged;
mod bugs;
mod forgery;
mod schedules;
mod session;
mod side_streams;

pub use bugs::{BUGS, Bug};
pub use schedules::play;

use nix::time::{ClockId, clock_gettime};
use std::panic::catch_unwind;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Result of a successful hunt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub schedules: u64,
    /// Violation that the last schedule found.
    pub what: String,
}

/// Plays up to `most` schedules from `first` on until one finds a violation. Panics count as
/// violations, and so does a schedule that uses more processor time of this process than
/// `patience`: other load on the machine does not count.
pub fn hunt(first: u64, most: u64, patience: Duration) -> Option<Found> {
    let (say, heard) = mpsc::channel();
    thread::spawn(move || (first..first + most).try_for_each(|seed| say.send(judge(seed)).ok()));
    for schedules in 1..=most {
        let begun = busy_for();
        let what = loop {
            match heard.recv_timeout(LOOK_EVERY) {
                Ok(what) => break what,
                Err(_) if busy_for() - begun < patience => {}
                Err(_) => break Some(format!("no end within {patience:?} of a processor")),
            }
        };
        if let Some(what) = what {
            return Some(Found { schedules, what });
        }
    }
    None
}

fn busy_for() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("every process has this clock").into()
}

fn judge(seed: u64) -> Option<String> {
    match catch_unwind(|| play(seed)) {
        Ok(played) => played.err(),
        Err(panic) => Some(format!("panic: {}", words(panic.as_ref()))),
    }
}

fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    text.unwrap_or("without words").to_owned()
}
