//! A table of all runs by class.

use std::fmt::Write;

use super::Class;
use super::judge::Verdict;

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

/// The runs of a campaign.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    all: Row,
    rows: [Row; Class::ALL.len()],
}

impl Tally {
    /// Counts a run, under each class of its troubles.
    pub fn add(&mut self, verdict: &Verdict) {
        self.all.add(verdict);
        verdict.classes.iter().for_each(|class| self.rows[*class as usize].add(verdict));
    }

    /// Returns a row for each class and one for all runs. A run with two troubles counts in both
    /// rows.
    pub fn text(&self) -> String {
        let mut text =
            format!("{:<10} {:>5} {:>5} {:>5} {:>6} {:>8}\n", "class", "runs", "good", "came", "files", "worst");
        let named = Class::ALL.into_iter().zip(&self.rows).filter(|(_, row)| row.runs > 0);
        for (name, row) in named.map(|(class, row)| (class.name(), row)).chain([("all", &self.all)]) {
            let Row { runs, good, came, exact, worst_seconds } = row;
            writeln!(text, "{name:<10} {runs:>5} {good:>5} {came:>5} {exact:>6} {worst_seconds:>6.2} s")
                .expect("writing to a String cannot fail");
        }
        text
    }
}
