//! Statistics: calls taken and passed on, with reasons.

use crate::settings::Operation;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    Off,
    NoBackEnd,
    NotNow,
    Intercommunicator,
    OneRank,
    FewHosts,
    NotEverywhere,
    NotJoined,
    TooMany,
    Failed,
    Faster,
    Early,
    Strangers,
    NotAsked,
    Empty,
    Size,
    Arguments,
    SharedHosts,
}

impl Reason {
    pub const fn text(self) -> &'static str {
        match self {
            Reason::Off => "switched off",
            Reason::NoBackEnd => "no back end for this MPI",
            Reason::NotNow => "no communicator, or MPI is not running",
            Reason::Intercommunicator => "an intercommunicator",
            Reason::OneRank => "a communicator of one rank",
            Reason::FewHosts => "too few hosts",
            Reason::NotEverywhere => "not every rank can",
            Reason::NotJoined => "the ranks did not meet on the wire",
            Reason::TooMany => "too many communicators at a time",
            Reason::Failed => "the wire has failed before",
            Reason::Early => "the wire has not paid yet",
            Reason::Faster => "the MPI is faster at so many bytes",
            Reason::Strangers => "processes of another MPI_COMM_WORLD",
            Reason::NotAsked => "not among ETHBCAST_MPI_TAKE",
            Reason::Empty => "no bytes",
            Reason::Size => "outside ETHBCAST_MPI_MIN_BYTES and _MAX_BYTES",
            Reason::Arguments => "arguments that are for the MPI to judge",
            Reason::SharedHosts => "ranks that share hosts",
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    calls: u64,
    bytes: u64,
    took: Duration,
}

#[derive(Debug, Default)]
pub struct Statistics {
    sums: Mutex<Sums>,
}

#[derive(Debug, Default)]
struct Sums {
    taken: BTreeMap<&'static str, Taken>,
    passed: BTreeMap<(&'static str, Reason), u64>,
}

impl Statistics {
    pub fn took(&self, operation: Operation, bytes: usize, took: Duration) {
        let mut sums = self.sums.lock();
        let taken = sums.taken.entry(operation.name()).or_default();
        taken.calls += 1;
        taken.bytes += bytes as u64;
        taken.took += took;
    }

    pub fn passed(&self, operation: Operation, why: Reason) {
        *self.sums.lock().passed.entry((operation.name(), why)).or_default() += 1;
    }

    pub fn lines(&self, beginning: &str) -> String {
        let sums = self.sums.lock();
        let mut text = String::new();
        for (name, Taken { calls, bytes, took }) in &sums.taken {
            let seconds = took.as_secs_f64();
            // Writing to a text does not fail.
            let _ = writeln!(text, "{beginning}{name}: {calls} calls taken, {bytes} bytes, {seconds:.6} s");
        }
        for ((name, why), calls) in &sums.passed {
            let _ = writeln!(text, "{beginning}{name}: {calls} calls passed on: {}", why.text());
        }
        text
    }
}

#[test]
fn sums_are_told_by_call_and_by_reason() {
    let statistics = Statistics::default();
    statistics.took(Operation::Broadcast, 100, Duration::from_millis(2));
    statistics.took(Operation::Broadcast, 50, Duration::from_millis(1));
    statistics.passed(Operation::Gather, Reason::SharedHosts);
    let text = statistics.lines("rank 0: ");
    assert_eq!(
        text,
        "rank 0: bcast: 2 calls taken, 150 bytes, 0.003000 s\n\
         rank 0: gather: 1 calls passed on: ranks that share hosts\n"
    );
}
