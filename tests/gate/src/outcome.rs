//! Results of single tests, and the table of them that the test runner prints at the end.

use crate::cell::Ended;
use crate::{Kind, Test};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

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
        let why = reason(ended, deadline, is_full)
            .map(|reason| format!("{reason}\n{}", ended.said.trim_end()));
        Self {
            name: test.name.clone(),
            kind: test.kind,
            verdict: if why.is_none() {
                Verdict::Passed
            } else {
                Verdict::Failed
            },
            why: why.unwrap_or_default(),
            unchecked: ended
                .said
                .lines()
                .map(own_words)
                .filter(|line| is_loud(line))
                .map(str::to_owned)
                .collect(),
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
    line.strip_prefix("test ")
        .and_then(|rest| rest.split_once(" ... "))
        .map_or(line, |(_, said)| said)
}

fn is_loud(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let mut next = || {
        words.next().is_some_and(|word| {
            word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_uppercase())
        })
    };
    next() && next()
}

fn reason(ended: &Ended, deadline: Duration, is_full: bool) -> Option<String> {
    match ended.code {
        None => Some(format!(
            "it had not ended after {} s, the deadline of its kind",
            deadline.as_secs()
        )),
        Some(0) if ended.memory_bytes > MAX_MEMORY_BYTES && !is_full => Some(format!(
            "one of its processes took {} MiB of memory, 2048 are allowed",
            ended.memory_bytes >> 20
        )),
        Some(0)
            if !ended.said.contains("test result: ok. 1 passed")
                && ended.said.contains("running 0 tests") =>
        {
            Some("there was no such test".into())
        }
        Some(0) => None,
        Some(code) if code > 128 => Some(format!("signal {}", code - 128)),
        Some(code) => Some(format!("exit code {code}")),
    }
}

const SLOWEST_SHOWN: usize = 12;

#[derive(Debug)]
pub struct Clock {
    last: Instant,
    steps: Vec<(&'static str, Duration)>,
}

impl Clock {
    pub fn start(building: Duration) -> Self {
        Self {
            last: Instant::now(),
            steps: vec![("looking for programs, and building", building)],
        }
    }

    pub fn step(&mut self, name: &'static str) {
        self.steps.push((name, self.last.elapsed()));
        self.last = Instant::now();
    }
}

#[derive(Debug)]
pub struct NotRun<'a> {
    pub labs: Option<&'a str>,
    pub long: &'a [String],
}

/// Prints all results; returns whether the run is green.
pub fn print(done: &[Outcome], clock: &Clock, not_run: &NotRun<'_>) -> bool {
    longest(done);
    let alone: Vec<_> = of(done, Verdict::PassedAlone);
    if !alone.is_empty() {
        println!(
            "\nPassed alone, failed beside others (tests/flaky.md keeps the tally). What they said first:"
        );
        alone.iter().for_each(|outcome| notify(outcome));
    }
    let failed: Vec<_> = of(done, Verdict::Failed);
    if !failed.is_empty() {
        println!("\nFailed:");
        failed.iter().for_each(|outcome| notify(outcome));
    }
    println!(
        "\n{:16} {:>7} {:>13} {:>7} {:>10}",
        "tests", "passed", "passed alone", "failed", "processor"
    );
    for (kind, name) in [(Kind::Deterministic, "deterministic"), (Kind::Lab, "labs")] {
        let these = || done.iter().filter(move |outcome| outcome.kind == kind);
        let count = |verdict| these().filter(|outcome| outcome.verdict == verdict).count();
        let processors: Duration = these().map(|outcome| outcome.processors).sum();
        let [passed, alone, failed] =
            [Verdict::Passed, Verdict::PassedAlone, Verdict::Failed].map(count);
        println!(
            "{name:16} {passed:>7} {alone:>13} {failed:>7} {:>8} s",
            processors.as_secs()
        );
    }
    println!();
    for (name, took) in &clock.steps {
        println!(
            "{:>3} min {:>2} s  {name}",
            took.as_secs() / 60,
            took.as_secs() % 60
        );
    }
    if let Some(largest) = done.iter().max_by_key(|outcome| outcome.memory_bytes) {
        println!(
            "{:>6} MiB   the most memory of one process ({})",
            largest.memory_bytes >> 20,
            largest.name
        );
    }
    let unchecked: BTreeSet<&String> = done.iter().flat_map(|outcome| &outcome.unchecked).collect();
    unchecked.into_iter().for_each(|line| println!("{line}"));
    not_run
        .long
        .iter()
        .for_each(|name| println!("NOT RUN WITHOUT --full: {name}"));
    if let Some(why) = not_run.labs {
        println!("THE LAB TESTS WERE NOT RUN: {why}");
    }
    println!(
        "\n{} passed, {} failed",
        done.len() - failed.len(),
        failed.len()
    );
    failed.is_empty() && not_run.labs.is_none()
}

fn of(done: &[Outcome], verdict: Verdict) -> Vec<&Outcome> {
    done.iter()
        .filter(|outcome| outcome.verdict == verdict)
        .collect()
}

fn notify(outcome: &Outcome) {
    println!("  {}", outcome.name);
    outcome
        .why
        .lines()
        .for_each(|line| println!("      {line}"));
}

fn longest(done: &[Outcome]) {
    let mut by_time: Vec<_> = done.iter().collect();
    by_time.sort_by_key(|outcome| std::cmp::Reverse(outcome.took));
    println!("\nThe longest (seconds, of a processor):");
    for outcome in by_time.iter().take(SLOWEST_SHOWN) {
        let (took, processors) = (outcome.took.as_secs_f64(), outcome.processors.as_secs_f64());
        println!("{took:8.1} {processors:8.1}  {}", outcome.name);
    }
}
