//! Many runs, several at a time.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::bail;
use ethbcast_lab::Lab;

use super::{Class, Scenario, Stage, Tally, Terms, Verdict, play};
use crate::lab::Program;
use crate::lab::{SharedDirectory, scratch};

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
    pub tally: Tally,
    /// Runs that failed, each with the command that replays it.
    pub failures: Vec<String>,
}

impl Campaign<'_> {
    /// Plays the scenarios of `seeds`, and calls `note` after each.
    ///
    /// # Errors
    /// Fails if a lab of the name is up already, or if there is no place for files.
    pub fn run(
        &self,
        seeds: Range<u64>,
        note: impl Fn(&Scenario, &anyhow::Result<Verdict>) + Sync,
    ) -> anyhow::Result<Results> {
        let labs: Vec<_> = (0..self.jobs).map(|job| format!("{}{job}", self.lab)).collect();
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
            while let Some(seed) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed < seeds.end) {
                let scenario = Scenario::draw(seed, self.only, &self.terms);
                let result = self.play(&scenario, lab, directory.path());
                // An interrupted run has no result.
                if self.interrupted.load(Ordering::Relaxed) {
                    return;
                }
                note(&scenario, &result);
                results.lock().unwrap_or_else(PoisonError::into_inner).add(&scenario, &result);
            }
        };
        thread::scope(|scope| labs.iter().for_each(|lab| drop(scope.spawn(|| work(lab)))));
        Ok(results.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn play(&self, scenario: &Scenario, lab: &str, directory: &Path) -> anyhow::Result<Verdict> {
        let Self { program, terms, interrupted, .. } = *self;
        play(&Stage { program, directory, lab, terms, interrupted }, scenario)
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
            self.failures.push(format!("{}\n    {scenario}\n    {wrong}", scenario.replay()));
        }
    }
}
