//! Table of results that the test runner prints at the end.

use crate::collect::Kind;
use crate::outcome::{Outcome, Verdict};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

const SLOWEST_SHOWN: usize = 12;

#[derive(Debug)]
pub struct Clock {
    last: Instant,
    steps: Vec<(&'static str, Duration)>,
}

impl Clock {
    pub fn start(building: Duration) -> Self {
        Self { last: Instant::now(), steps: vec![("looking for programs, and building", building)] }
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
        println!("\nPassed alone, failed beside others (tests/flaky.md keeps the tally). What they said first:");
        alone.iter().for_each(|outcome| tell(outcome));
    }
    let failed: Vec<_> = of(done, Verdict::Failed);
    if !failed.is_empty() {
        println!("\nFailed:");
        failed.iter().for_each(|outcome| tell(outcome));
    }
    println!("\n{:16} {:>7} {:>13} {:>7} {:>10}", "tests", "passed", "passed alone", "failed", "processor");
    for (kind, name) in [(Kind::Deterministic, "deterministic"), (Kind::Lab, "labs")] {
        let these = || done.iter().filter(move |outcome| outcome.kind == kind);
        let count = |verdict| these().filter(|outcome| outcome.verdict == verdict).count();
        let processors: Duration = these().map(|outcome| outcome.processors).sum();
        let [passed, alone, failed] = [Verdict::Passed, Verdict::PassedAlone, Verdict::Failed].map(count);
        println!("{name:16} {passed:>7} {alone:>13} {failed:>7} {:>8} s", processors.as_secs());
    }
    println!();
    for (name, took) in &clock.steps {
        println!("{:>3} min {:>2} s  {name}", took.as_secs() / 60, took.as_secs() % 60);
    }
    if let Some(largest) = done.iter().max_by_key(|outcome| outcome.memory_bytes) {
        println!("{:>6} MiB   the most memory of one process ({})", largest.memory_bytes >> 20, largest.name);
    }
    let unchecked: BTreeSet<&String> = done.iter().flat_map(|outcome| &outcome.unchecked).collect();
    unchecked.into_iter().for_each(|line| println!("{line}"));
    not_run.long.iter().for_each(|name| println!("NOT RUN WITHOUT --full: {name}"));
    if let Some(why) = not_run.labs {
        println!("THE LAB TESTS WERE NOT RUN: {why}");
    }
    println!("\n{} passed, {} failed", done.len() - failed.len(), failed.len());
    failed.is_empty() && not_run.labs.is_none()
}

fn of(done: &[Outcome], verdict: Verdict) -> Vec<&Outcome> {
    done.iter().filter(|outcome| outcome.verdict == verdict).collect()
}

fn tell(outcome: &Outcome) {
    println!("  {}", outcome.name);
    outcome.why.lines().for_each(|line| println!("      {line}"));
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
