//! Random simulation of whole transfers under faults drawn from a seed, with every guarantee
//! checked. For a core of hosts all faults but deaths end.
//!
//! [`run`] plays one and never panics: a broken promise is a value with the command line that
//! replays it.

mod application;
mod class;
mod effects;
mod form;
mod hosts;
mod play;
mod program;
mod receipts;
mod report;
mod schedule;
mod seed;
mod troubles;
mod watch;
mod weather;

pub use class::{Class, RARE};
pub use play::TraceDetail;
pub use report::{Report, Tally, Violation};
pub use seed::{DRAWING, NoSeed, Seed, Size};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Clone, Debug)]
pub enum Schedule {
    Session(Box<schedule::Schedule>),
    /// A program of a communicator.
    Program(Box<program::Program>),
}

impl Schedule {
    pub fn of(seed: Seed) -> Schedule {
        if program::Program::is_meant(seed) {
            Schedule::Program(Box::new(program::Program::of(seed)))
        } else {
            Schedule::Session(Box::new(schedule::Schedule::of(seed)))
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Schedule::Session(session) => session.fmt(formatter),
            Schedule::Program(program) => program.fmt(formatter),
        }
    }
}

pub fn run(seed: Seed) -> Report {
    guarded(seed, TraceDetail::Nothing).0
}

/// Plays the schedule of `seed` and returns its story, in the detail of `told`.
pub fn play_traced(seed: Seed, told: TraceDetail) -> (Report, Vec<String>) {
    guarded(seed, told)
}

/// Plays the session of `seed` with a key at all hosts, perhaps beside an attacker without it who
/// replays received frames; `None` for programs of communicators.
pub fn run_keyed(seed: Seed, attacked: bool, told: TraceDetail) -> Option<(Report, Vec<String>)> {
    let Schedule::Session(session) = Schedule::of(seed) else {
        return None;
    };
    Some(play::play(&session.with_key(attacked), told))
}

fn guarded(seed: Seed, told: TraceDetail) -> (Report, Vec<String>) {
    let played = catch_unwind(AssertUnwindSafe(|| match Schedule::of(seed) {
        Schedule::Session(session) => play::play(&session, told),
        Schedule::Program(program) => program.play(told),
    }));
    played.unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().cloned();
        let words = words.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
        let mut report = Report::new(seed);
        report.blame(format!("a panic: {}", words.unwrap_or_default()));
        (report, Vec::new())
    })
}

/// Plays `seeds` on two threads. Every hundredth is played twice and must have equal results.
pub fn run_all(seeds: impl Iterator<Item = Seed> + Send) -> Tally {
    let (seeds, sum, count) = (
        Mutex::new(seeds),
        Mutex::new(Tally::default()),
        AtomicU64::new(0),
    );
    let next = || seeds.lock().ok().and_then(|mut seeds| seeds.next());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut own = Tally::default();
                while let Some(seed) = next() {
                    let mut report = run(seed);
                    if count.fetch_add(1, Ordering::Relaxed).is_multiple_of(100)
                        && run(seed).trace != report.trace
                    {
                        report.blame("the same seed went another way");
                    }
                    own.add(report);
                }
                if let Ok(mut sum) = sum.lock() {
                    sum.merge(own);
                }
            });
        }
    });
    sum.into_inner().unwrap_or_default()
}
