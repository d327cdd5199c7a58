//! One cell of the table: a trouble, its moment, and the promise that must hold all the same.

use std::time::Duration;

use super::trouble::Trouble;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Moment {
    Start,
    Joined,
    Share(f64),
    Any,
}

impl Moment {
    pub fn name(self) -> &'static str {
        match self {
            Moment::Start => "start",
            Moment::Joined => "joining",
            Moment::Share(share) if share < 0.1 => "first",
            Moment::Share(share) if share < 0.9 => "middle",
            Moment::Share(share) if share < 1.0 => "end",
            Moment::Share(_) => "verify",
            Moment::Any => "any",
        }
    }
}

/// The hosts that must have the file in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    All,
    /// All but the host in trouble, which the root names if it lacks the file.
    Others,
    End,
}

/// A trouble with its place and moment, and the promise.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Its name: words between `/`.
    pub name: String,
    pub via: &'static str,
    pub trouble: Trouble,
    pub moment: Moment,
    /// Duration of the trouble; `None` for ever.
    pub lasts: Option<Duration>,
    /// Host of the trouble; kills of several choose their own.
    pub host: &'static str,
    /// Loss at every host, as a fraction.
    pub loss: f64,
    /// The MTU of all hosts and ports.
    pub mtu_bytes: u32,
    pub promise: Promise,
    /// Permitted delay of the files at unaffected hosts, compared with a run without trouble.
    pub allowance: Duration,
}

impl Cell {
    /// Returns the extra time of a run of this cell: the duration of its trouble, or the time that
    /// its slow host needs.
    pub fn extra(&self, source_bytes: u64) -> Duration {
        match self.trouble {
            Trouble::SlowReader(rate) => Duration::from_secs(source_bytes / rate.max(1)),
            Trouble::LittleCpu(_) => Duration::from_secs(30),
            _ => self.lasts.unwrap_or_default(),
        }
    }
}

/// Timeouts of the programs, if they have these options.
#[derive(Clone, Debug)]
pub struct Terms {
    /// Seconds without progress until a member is demoted.
    pub stall: f64,
    /// Seconds without a sign of life until a member is given up.
    pub patience: f64,
    /// Whether the program has these options.
    pub known: bool,
}

impl Terms {
    /// Returns the common options of `send` and `recv` in a cell. Outages are played with the
    /// default patience, which must survive them.
    pub fn of_both(&self, cell: &Cell) -> Vec<String> {
        if !self.known || cell.promise == Promise::All {
            return Vec::new();
        }
        ["--patience".into(), self.patience.to_string()].into()
    }

    /// Returns more options of `send`: when to start, because hosts that cannot join must not delay
    /// the others; and the stall limit.
    pub fn of_root(&self, cell: &Cell, receivers: usize) -> Vec<String> {
        let mut options = vec!["-n".into(), receivers.to_string(), "--max-wait".into(), "4".into()];
        if self.known && matches!(cell.moment, Moment::Start | Moment::Joined) {
            options.extend(["--min-receivers".into(), (receivers - 1).to_string()]);
        }
        if !self.of_both(cell).is_empty() {
            options.extend(["--stall".into(), self.stall.to_string()]);
        }
        options
    }
}
