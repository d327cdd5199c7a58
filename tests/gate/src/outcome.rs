//! Result of one test in the test runner: passed or failed, time, memory and output.

use crate::cell::Ended;
use crate::collect::{Kind, Test};
use std::time::Duration;

/// Maximum memory of a test in bytes, but for its long form.
const MAX_MEMORY_BYTES: u64 = 2 << 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Passed,
    /// Failed beside others, and passed alone.
    PassedAlone,
    Failed,
}

#[derive(Debug)]
pub struct Outcome {
    pub name: String,
    pub kind: Kind,
    pub verdict: Verdict,
    /// Reason of the (first) failure: a line of the runner, then the test's output.
    pub why: String,
    /// Lines of output, in capitals, that name checks impossible on this machine.
    pub unchecked: Vec<String>,
    pub took: Duration,
    pub processors: Duration,
    pub memory_bytes: u64,
}

impl Outcome {
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

fn own_words(line: &str) -> &str {
    line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... ")).map_or(line, |(_, said)| said)
}

fn is_loud(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let mut next =
        || words.next().is_some_and(|word| word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_uppercase()));
    next() && next()
}

fn reason(ended: &Ended, deadline: Duration, is_full: bool) -> Option<String> {
    match ended.code {
        None => Some(format!("it had not ended after {} s, the deadline of its kind", deadline.as_secs())),
        Some(0) if ended.memory_bytes > MAX_MEMORY_BYTES && !is_full => {
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
