//! Fault injection: many runs, with tables and reports of their results.

use super::judge::Verdict;
use super::{ChaosStage, Class, Scenario, Terms, play};
use crate::lab::Program;
use crate::lab::{SharedDirectory, scratch};
use anyhow::bail;
use ethbcast_lab::Lab;
use serde_json::Value;
use std::fmt::Write;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

#[derive(Clone, Copy, Debug)]
pub struct Campaign<'a> {
    pub program: &'a Program,
    /// Prefix of the labs' names; a number follows.
    pub lab: &'a str,
    /// Number of labs that are up at once.
    pub jobs: u64,
    /// Timeouts of the programs and the judge.
    pub terms: Terms,
    /// The class of the first trouble, if not any.
    pub only: Option<Class>,
    /// Set when the user interrupts.
    pub interrupted: &'a AtomicBool,
}

#[derive(Debug, Default)]
pub struct Results {
    pub tally: ClassTally,
    /// Runs that failed, each with the command that replays it.
    pub failures: Vec<String>,
}

impl Campaign<'_> {
    /// Plays the scenarios of `seeds`, and calls `note` after each.
    pub fn run(
        &self,
        seeds: Range<u64>,
        note: impl Fn(&Scenario, &anyhow::Result<Verdict>) + Sync,
    ) -> anyhow::Result<Results> {
        let labs: Vec<_> = (0..self.jobs)
            .map(|job| format!("{}{job}", self.lab))
            .collect();
        let running = Lab::list()?;
        if let Some(lab) = labs.iter().find(|lab| running.contains(lab)) {
            bail!(
                "the lab `{lab}` is up: another chaos runs, or was killed; take it down with `ethbcast lab down --lab \
                 {lab}`, or choose another name with --lab"
            );
        }
        let directory = scratch();
        let _shared = SharedDirectory::make(directory.path())?;
        let (next, results) = (AtomicU64::new(seeds.start), Mutex::<Results>::default());
        let work = |lab: &str| {
            while let Some(seed) =
                Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed < seeds.end)
            {
                let scenario = Scenario::draw(seed, self.only, &self.terms);
                let result = self.play(&scenario, lab, directory.path());
                // An interrupted run has no result.
                if self.interrupted.load(Ordering::Relaxed) {
                    return;
                }
                note(&scenario, &result);
                results
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .add(&scenario, &result);
            }
        };
        thread::scope(|scope| labs.iter().for_each(|lab| drop(scope.spawn(|| work(lab)))));
        Ok(results.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn play(&self, scenario: &Scenario, lab: &str, directory: &Path) -> anyhow::Result<Verdict> {
        let Self {
            program,
            terms,
            interrupted,
            ..
        } = *self;
        play(
            &ChaosStage {
                program,
                directory,
                lab,
                terms,
                interrupted,
            },
            scenario,
        )
    }
}

impl Results {
    fn add(&mut self, scenario: &Scenario, result: &anyhow::Result<Verdict>) {
        let wrong = match result {
            Ok(verdict) => {
                self.tally.add(verdict);
                verdict.wrong.join("; ")
            }
            Err(error) => format!("it could not be played: {error:#}"),
        };
        if !wrong.is_empty() {
            self.failures.push(format!(
                "{}\n    {scenario}\n    {wrong}",
                scenario.replay()
            ));
        }
    }
}

#[derive(Debug)]
pub struct RunReport(Option<Value>);

impl RunReport {
    pub fn read(stdout: &str) -> Self {
        // A root that failed earlier prints an object without receivers.
        Self(
            serde_json::from_str(stdout)
                .ok()
                .filter(|report: &Value| report["receivers"].is_array()),
        )
    }

    pub fn is_there(&self) -> bool {
        self.0.is_some()
    }

    pub fn rows(&self) -> Vec<(String, String)> {
        let rows = self
            .0
            .as_ref()
            .and_then(|report| report["receivers"].as_array())
            .cloned()
            .unwrap_or_default();
        let word = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
        rows.iter()
            .map(|row| (word(row, "host"), word(row, "status")))
            .collect()
    }

    pub fn statuses(&self, host: &str) -> Vec<String> {
        self.rows()
            .into_iter()
            .filter(|(of, _)| is_name_of(of, host))
            .map(|(_, status)| status)
            .collect()
    }

    pub fn leaves_out(&self, host: &str) -> bool {
        let list = self
            .0
            .as_ref()
            .and_then(|report| report["left_out"].as_array());
        list.is_some_and(|list| {
            list.iter()
                .any(|away| away["host"].as_str().is_some_and(|of| is_name_of(of, host)))
        })
    }

    pub fn content(&self) -> Option<(u64, String)> {
        let report = self.0.as_ref()?;
        Some((
            report["bytes"].as_u64()?,
            report["blake3"].as_str()?.to_owned(),
        ))
    }
}

/// Whether `name` means `host`: two hosts of one name are listed with their addresses,
/// `n1@02:eb:00:00:00:01`.
fn is_name_of(name: &str, host: &str) -> bool {
    name.strip_prefix(host)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('@'))
}

/// Runs, good ones, those in which all troubles happened, and the longest.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    runs: usize,
    good: usize,
    came: usize,
    exact: usize,
    worst_seconds: f64,
}

impl Row {
    fn add(&mut self, verdict: &Verdict) {
        self.runs += 1;
        self.good += usize::from(verdict.wrong.is_empty());
        self.came += usize::from(verdict.came);
        self.exact += verdict.exact;
        self.worst_seconds = self.worst_seconds.max(verdict.seconds);
    }
}

#[derive(Clone, Debug, Default)]
pub struct ClassTally {
    all: Row,
    rows: [Row; Class::ALL.len()],
}

impl ClassTally {
    /// Counts a run, under each class of its troubles.
    pub fn add(&mut self, verdict: &Verdict) {
        self.all.add(verdict);
        verdict
            .classes
            .iter()
            .for_each(|class| self.rows[*class as usize].add(verdict));
    }

    /// Returns a row for each class and one for all runs. A run with two troubles counts in both
    /// rows.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{:<10} {:>5} {:>5} {:>5} {:>6} {:>8}\n",
            "class", "runs", "good", "came", "files", "worst"
        );
        let named = Class::ALL
            .into_iter()
            .zip(&self.rows)
            .filter(|(_, row)| row.runs > 0);
        for (name, row) in named
            .map(|(class, row)| (class.name(), row))
            .chain([("all", &self.all)])
        {
            let Row {
                runs,
                good,
                came,
                exact,
                worst_seconds,
            } = row;
            writeln!(
                text,
                "{name:<10} {runs:>5} {good:>5} {came:>5} {exact:>6} {worst_seconds:>6.2} s"
            )
            .expect("writing to a String cannot fail");
        }
        text
    }
}
