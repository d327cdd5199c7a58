//! What became of each test.

use crate::cell::Ended;
use crate::collect::{Kind, Test};
use std::time::Duration;

/// Bytes of memory that no test may take more of, but for its long form.
const MOST_MEMORY_BYTES: u64 = 2 << 30;

/// How a test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As it should.
    Passed,
    /// Not beside others, but alone.
    PassedAlone,
    /// Not.
    Failed,
}

/// A test that was run.
#[derive(Debug)]
pub struct Outcome {
    /// Target and path.
    pub name: String,
    /// What can make it fail.
    pub kind: Kind,
    /// How it ended.
    pub verdict: Verdict,
    /// Why it failed, or did so first: a line of the runner's, then all that the test said.
    pub why: String,
    /// Lines in which the test says, in capitals, what this machine cannot check.
    pub unchecked: Vec<String>,
    /// From start to end, of all attempts.
    pub took: Duration,
    /// What it took of the processors.
    pub processors: Duration,
    /// Memory of its largest process, in bytes.
    pub memory_bytes: u64,
}

impl Outcome {
    /// The outcome of a first attempt.
    pub fn of(test: &Test, ended: &Ended, deadline: Duration, is_full: bool) -> Self {
        let why = reason(ended, deadline, is_full).map(|reason| format!("{reason}\n{}", ended.said.trim_end()));
        Self {
            name: test.name.clone(),
            kind: test.kind,
            verdict: if why.is_none() { Verdict::Passed } else { Verdict::Failed },
            why: why.unwrap_or_default(),
            unchecked: ended.said.lines().map(own_words).filter(|line| is_loud(line)).map(str::to_owned).collect(),
            took: ended.took,
            processors: ended.processors,
            memory_bytes: ended.memory_bytes,
        }
    }

    /// The same after an attempt alone.
    pub fn again(mut self, alone: Outcome) -> Self {
        self.took += alone.took;
        self.processors += alone.processors;
        self.memory_bytes = self.memory_bytes.max(alone.memory_bytes);
        if alone.verdict == Verdict::Passed {
            self.verdict = Verdict::PassedAlone;
        } else {
            self.why = format!("alone, too: {}", alone.why);
        }
        self
    }
}

/// A line without what the test harness puts before the first.
fn own_words(line: &str) -> &str {
    line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... ")).map_or(line, |(_, said)| said)
}

/// Whether a line begins with two words in capitals.
fn is_loud(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let mut next =
        || words.next().is_some_and(|word| word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_uppercase()));
    next() && next()
}

/// Why a test has failed, if it has.
fn reason(ended: &Ended, deadline: Duration, is_full: bool) -> Option<String> {
    match ended.code {
        None => Some(format!("it had not ended after {} s, the deadline of its kind", deadline.as_secs())),
        Some(0) if ended.memory_bytes > MOST_MEMORY_BYTES && !is_full => {
            Some(format!("one of its processes took {} MiB of memory, 2048 are allowed", ended.memory_bytes >> 20))
        }
        Some(0) if !ended.said.contains("test result: ok. 1 passed") && ended.said.contains("running 0 tests") => {
            Some("there was no such test".into())
        }
        Some(0) => None,
        Some(code) if code > 128 => Some(format!("signal {}", code - 128)),
        Some(code) => Some(format!("exit code {code}")),
    }
}
