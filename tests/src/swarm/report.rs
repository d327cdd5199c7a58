//! Random simulation: the result of one scenario, and the totals of many.

use super::class;
use super::class::Class;
use super::seed::{Seed, Size};
use std::collections::BTreeMap;
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub seed: Seed,
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{}\n  replay with ETHBCAST_SEED={} cargo test -p ethbcast-tests --test simulation swarm::replay -- \
             --nocapture",
            self.what, self.seed
        )
    }
}

#[derive(Clone, Debug)]
pub struct Report {
    pub seed: Seed,
    pub violation: Option<Violation>,
    /// Hash of all delivered frames and their moments.
    pub trace: u64,
    pub classes: Vec<(Class, u64)>,
    /// Results reached, by name, with their counts.
    pub marks: BTreeMap<String, u64>,
    pub events: u64,
    pub frames: u64,
    pub millis: u64,
}

impl Report {
    pub fn new(seed: Seed) -> Report {
        Report {
            seed,
            violation: None,
            trace: 0,
            classes: Vec::new(),
            marks: BTreeMap::new(),
            events: 0,
            frames: 0,
            millis: 0,
        }
    }

    /// Counts a result that was reached.
    pub fn mark(&mut self, what: impl Into<String>) {
        *self.marks.entry(what.into()).or_default() += 1;
    }

    /// Records a broken promise; the first one counts.
    pub fn blame(&mut self, what: impl Into<String>) {
        let seed = self.seed;
        self.violation.get_or_insert_with(|| Violation {
            seed,
            what: what.into(),
        });
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report {
            seed,
            classes,
            marks,
            events,
            frames,
            millis,
            trace,
            ..
        } = self;
        writeln!(
            formatter,
            "{seed}: {frames} frames, {events} events, {millis} ms, trace {trace:016x}"
        )?;
        writeln!(formatter, "hits {classes:?}, reached {marks:?}")?;
        match &self.violation {
            None => formatter.write_str("no violation"),
            Some(violation) => write!(formatter, "{violation}"),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Tally {
    small: u64,
    large: u64,
    /// Counts by class: schedules with it on, schedules it hit, hits altogether.
    classes: BTreeMap<Class, [u64; 3]>,
    marks: BTreeMap<String, u64>,
    events: u64,
    frames: u64,
    millis: u64,
    violations: Vec<Violation>,
}

impl Tally {
    pub fn add(&mut self, report: Report) {
        *(if report.seed.size() == Size::Small {
            &mut self.small
        } else {
            &mut self.large
        }) += 1;
        for (class, hits) in report.classes {
            let [drawn, hit, all] = self.classes.entry(class).or_default();
            (*drawn, *hit, *all) = (*drawn + 1, *hit + u64::from(hits > 0), *all + hits);
        }
        report
            .marks
            .into_iter()
            .for_each(|(mark, count)| *self.marks.entry(mark).or_default() += count);
        self.events += report.events;
        self.frames += report.frames;
        self.millis += report.millis;
        self.violations.extend(report.violation);
    }

    pub fn merge(&mut self, other: Tally) {
        (self.small, self.large) = (self.small + other.small, self.large + other.large);
        for (class, counts) in other.classes {
            let own = self.classes.entry(class).or_default();
            own.iter_mut()
                .zip(counts)
                .for_each(|(own, more)| *own += more);
        }
        other
            .marks
            .into_iter()
            .for_each(|(mark, count)| *self.marks.entry(mark).or_default() += count);
        self.events += other.events;
        self.frames += other.frames;
        self.millis += other.millis;
        self.violations.extend(other.violations);
    }

    /// Returns the classes and marks that were hit or reached fewer than `times` times.
    pub fn missing(&self, times: u64) -> Vec<String> {
        let classes = Class::ALL.iter().map(|&class| {
            let hit = self.classes.get(&class).map_or(0, |[_, hit, _]| *hit);
            (class.words().to_owned(), hit)
        });
        let marks = class::MARKS
            .iter()
            .map(|&mark| (mark.to_owned(), self.marks.get(mark).copied().unwrap_or(0)));
        let few = classes.chain(marks).filter(|(_, count)| *count < times);
        few.map(|(what, count)| format!("{what}: {count} times"))
            .collect()
    }

    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally {
            small,
            large,
            events,
            frames,
            millis,
            ..
        } = self;
        writeln!(
            formatter,
            "{small} small and {large} large schedules: {frames} frames, {events} events, {} s of simulated time",
            millis / 1000
        )?;
        writeln!(
            formatter,
            "{:45} {:>9} {:>9} {:>12}",
            "class of faults", "drawn", "hit", "hits"
        )?;
        for (class, [drawn, hit, hits]) in &self.classes {
            writeln!(
                formatter,
                "{:45} {drawn:>9} {hit:>9} {hits:>12}",
                class.words()
            )?;
        }
        writeln!(formatter, "{:45} {:>9}", "reached", "times")?;
        for (mark, count) in &self.marks {
            writeln!(formatter, "{mark:45} {count:>9}")?;
        }
        write!(formatter, "{} violations", self.violations.len())?;
        self.violations
            .iter()
            .take(20)
            .try_for_each(|violation| write!(formatter, "\n{violation}"))
    }
}
