//! Planted bugs (`transport/src/planted.rs`), and the hunt for them: each has to be found by seeded schedules.

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

/// How often it is looked how long a schedule takes.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How a bug was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Schedules that this took.
    pub schedules: u64,
    /// What the last of them found wrong.
    pub what: String,
}

/// Plays schedules from `first` on until one finds something wrong, `most` of them at most. A panic is something wrong,
/// and so is a schedule for which this process is busy for longer than `patience`: by its own time on processors, so
/// that a machine full of other work finds nothing.
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

/// How much time this process has had on processors.
fn busy_for() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("every process has this clock").into()
}

/// What is wrong with a schedule.
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
