//! Order in which the test runner runs tests, side by side or alone. Deterministic tests run on all
//! processors, with labs (tests in network namespaces) beside them. Then labs run that must run
//! alone. Finally, labs that failed are run again, alone.

use crate::Test;
use crate::cell::Cell;
use crate::outcome::{Clock, Outcome, Verdict};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Exit code of a test that must run alone, and the variable that requests it.
const ALONE: (&str, i32) = ("ETHBCAST_ALONE_EXIT", 77);
/// Variable that selects the long forms of tests.
const FULL: &str = "ETHBCAST_FULL";

#[derive(Debug)]
pub struct Settings {
    pub jobs: usize,
    pub full: bool,
    /// Time limit of every test, instead of the limit for its kind.
    pub deadline: Option<Duration>,
    pub logs: PathBuf,
}

impl Settings {
    fn deadline(&self, test: &Test) -> Duration {
        let seconds = match (test.kind.is_lab(), self.full) {
            (true, false) => 300,
            // The longest takes 70 s of processor time, and at a load of 30 waited 700 s for it.
            (false, false) => 2400,
            (true, true) => 1800,
            (false, true) => 7200,
        };
        self.deadline.unwrap_or(Duration::from_secs(seconds))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// Beside other tests; the test may report that it must run alone.
    Beside,
    Alone,
}

#[derive(Default)]
struct Results {
    done: Vec<Outcome>,
    alone: Vec<Test>,
    failed: Vec<Test>,
}

pub fn run(
    tests: Vec<Test>,
    settings: &Settings,
    clock: &mut Clock,
) -> anyhow::Result<Vec<Outcome>> {
    std::fs::create_dir_all(&settings.logs)?;
    let (labs, deterministic): (Vec<_>, Vec<_>) =
        tests.into_iter().partition(|test| test.kind.is_lab());
    let results = Mutex::new(Results::default());
    let (labs, deterministic) = (queue(labs), queue(deterministic));
    let processors = thread::available_parallelism().map_or(2, usize::from);
    thread::scope(|scope| -> anyhow::Result<()> {
        let start = |queue, count: usize| -> Vec<_> {
            let results = &results;
            (0..count)
                .map(|_| scope.spawn(move || work(queue, results, settings, Turn::Beside)))
                .collect()
        };
        let others = start(&deterministic, processors.min(2));
        let beside = start(&labs, settings.jobs);
        beside
            .into_iter()
            .try_for_each(|worker| worker.join().expect("a worker does not panic"))?;
        clock.step("labs beside each other");
        let alone = std::mem::take(&mut held(&results).alone);
        work(&queue(alone), &results, settings, Turn::Alone)?;
        clock.step("labs alone");
        others
            .into_iter()
            .try_for_each(|worker| worker.join().expect("a worker does not panic"))?;
        clock.step("deterministic tests after these");
        Ok(())
    })?;
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    for test in std::mem::take(&mut results.failed) {
        let place = results
            .done
            .iter()
            .position(|outcome| outcome.name == test.name)
            .expect("it was run");
        let first = results.done.swap_remove(place);
        let again = first.again(
            attempt(&test, settings, Turn::Alone)?.expect("an attempt alone has an outcome"),
        );
        say(&again);
        results.done.push(again);
    }
    clock.step("what failed, alone");
    results
        .done
        .sort_by(|one, other| (one.kind, &one.name).cmp(&(other.kind, &other.name)));
    Ok(results.done)
}

fn queue(tests: Vec<Test>) -> Mutex<VecDeque<Test>> {
    Mutex::new(tests.into())
}

fn held<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn work(
    queue: &Mutex<VecDeque<Test>>,
    results: &Mutex<Results>,
    settings: &Settings,
    turn: Turn,
) -> anyhow::Result<()> {
    loop {
        let Some(test) = held(queue).pop_front() else {
            return Ok(());
        };
        let outcome = attempt(&test, settings, turn)?;
        let mut results = held(results);
        let Some(outcome) = outcome else {
            results.alone.push(test);
            continue;
        };
        say(&outcome);
        if outcome.verdict == Verdict::Failed && test.kind.is_lab() {
            results.failed.push(test);
        }
        results.done.push(outcome);
    }
}

/// Runs a test; `None` if it reports that it must be alone.
fn attempt(test: &Test, settings: &Settings, turn: Turn) -> anyhow::Result<Option<Outcome>> {
    let deadline = settings.deadline(test);
    let code = ALONE.1.to_string();
    let mut environment = Vec::new();
    if turn == Turn::Beside {
        environment.push((ALONE.0, code.as_str()));
    }
    if settings.full {
        environment.push((FULL, "1"));
    }
    let ended = Cell::start(test, &settings.logs, deadline, &environment)?.end()?;
    let waits = turn == Turn::Beside && ended.code == Some(ALONE.1);
    Ok((!waits).then(|| Outcome::of(test, &ended, deadline, settings.full)))
}

fn say(outcome: &Outcome) {
    let word = match outcome.verdict {
        Verdict::Passed => "ok",
        Verdict::PassedAlone => "ok alone",
        Verdict::Failed => "FAILED",
    };
    println!(
        "{word:8} {:7.2} s  {}",
        outcome.took.as_secs_f64(),
        outcome.name
    );
    if outcome.verdict == Verdict::Failed {
        outcome.why.lines().for_each(|line| println!("    {line}"));
    }
}
