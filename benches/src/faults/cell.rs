//! One cell of the table: a trouble, its moment, and what must come of it all the same.

use std::time::Duration;

use super::trouble::Trouble;

/// When the trouble comes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Moment {
    /// Before the root is there.
    Start,
    /// As soon as the root has heard the host.
    Joined,
    /// When the root has sent this share of the file.
    Share(f64),
    /// At any moment from the first frame to the verdict.
    Any,
}

impl Moment {
    /// Its name in a cell's.
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

/// Who must have the file in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// All receivers.
    All,
    /// All but the host in trouble; if it has not, the root names it.
    Others,
    /// Nothing but an end.
    End,
}

/// A trouble, when and where, and what is promised.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Its name: words between `/`.
    pub name: String,
    /// How the bytes travel.
    pub via: &'static str,
    /// What happens.
    pub trouble: Trouble,
    /// When.
    pub moment: Moment,
    /// For how long; `None` for ever.
    pub lasts: Option<Duration>,
    /// To whom; kills of several choose theirs themselves.
    pub host: &'static str,
    /// The loss at every host, as a fraction.
    pub loss: f64,
    /// The MTU of all hosts and ports.
    pub mtu_bytes: u32,
    /// What must come of it.
    pub promise: Promise,
    /// How much later than undisturbed those who have nothing to do with it may have their file.
    pub allowance: Duration,
}

impl Cell {
    /// How much longer than others a run of this cell may take: what its trouble lasts, or what its slow host needs.
    pub fn extra(&self, source_bytes: u64) -> Duration {
        match self.trouble {
            Trouble::SlowReader(rate) => Duration::from_secs(source_bytes / rate.max(1)),
            Trouble::LittleCpu(_) => Duration::from_secs(30),
            _ => self.lasts.unwrap_or_default(),
        }
    }
}

/// How patient the programs are told to be, if they can be told.
#[derive(Clone, Debug)]
pub struct Terms {
    /// Seconds without progress until a member is put aside.
    pub stall: f64,
    /// Seconds without a sign of life until it is given up.
    pub patience: f64,
    /// Whether the program knows these words.
    pub known: bool,
}

impl Terms {
    /// The options of `send` and `recv` alike in a cell. Outages are played with the usual patience: they are to be
    /// survived by it.
    pub fn of_both(&self, cell: &Cell) -> Vec<String> {
        if !self.known || cell.promise == Promise::All {
            return Vec::new();
        }
        ["--patience".into(), self.patience.to_string()].into()
    }

    /// More options of `send`: when to start, for who cannot join must not keep the others; what a stall is.
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
