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

use std::panic::catch_unwind;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// How a bug was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Schedules that this took.
    pub schedules: u64,
    /// What the last of them found wrong.
    pub what: String,
}

/// Plays schedules from `first` on until one finds something wrong, `most` of them at most. A panic is something wrong,
/// and so is a schedule that takes longer than `patience`, by the wall clock.
pub fn hunt(first: u64, most: u64, patience: Duration) -> Option<Found> {
    let (say, heard) = mpsc::channel();
    thread::spawn(move || (first..first + most).try_for_each(|seed| say.send(judge(seed)).ok()));
    for schedules in 1..=most {
        let what = match heard.recv_timeout(patience) {
            Ok(None) => continue,
            Ok(Some(what)) => what,
            Err(_) => format!("no end within {patience:?}"),
        };
        return Some(Found { schedules, what });
    }
    None
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
