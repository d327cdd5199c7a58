//! Fault injection: description of a run: content, broadcast algorithm, faults, and what must hold
//! nevertheless.

use super::play::Terms;
use crate::lab::{Way, Which};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

pub const RECEIVERS: usize = 7;
pub const ROOT: &str = "n0";
/// The host outside the session: a second sender, or an attacker.
pub const OUTSIDER: &str = "n8";

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Due {
    Before,
    /// All programs run, and the root has its interface.
    Start,
    Joined,
    Share(f64),
}

/// Treatment of frames by a relay: probabilities for each frame.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Manners {
    pub drop: f64,
    /// One to three bits are flipped; the checksum stays as it was.
    pub corrupt: f64,
    /// A payload byte is changed and the checksum fixed, as by a bad host or switch: DATA only.
    pub damage: f64,
    pub duplicate: f64,
    /// Frames are overtaken by others for up to [`Manners::late`].
    pub reorder: f64,
    pub late: Duration,
    /// Longest delay of each frame; order is kept.
    pub jitter: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    Old,
    Echo,
    /// Sends received frames with other values, a valid checksum, and the original sender's
    /// address.
    Forge,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Deed {
    Kill,
    PowerOff,
    Terminate,
    Stop,
    Continue,
    Faults(Which, Way, f64),
    Heal,
    Loss(f64),
    Port(bool),
    Link(bool),
    Detour(Manners),
    SmallDisk(u64),
    /// The disk loses data beyond this number of MiB.
    ThinDisk(u64),
    FillDisk,
    Restart,
    Attack(Attack),
    Send,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ChaosEvent {
    pub host: String,
    pub deed: Deed,
    pub due: Due,
    pub then: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// All hosts that are not marred have the file.
    File,
    /// All have the file of one sender or of the other.
    Either,
    /// The reports are true; no host need have the file.
    Truth,
    /// Like `Truth`, but forged messages about failures may be believed.
    Forged,
}

#[derive(Clone, Debug)]
pub struct Trouble {
    pub class: Class,
    pub words: String,
    pub events: Vec<ChaosEvent>,
    /// Hosts that may fail if their event happens, with their possible exit codes.
    pub marred: Vec<(String, &'static [i32])>,
    /// Whether the marred hosts may be unable to join.
    pub keeps_out: bool,
    pub promise: Promise,
    /// Time by which the trouble may prolong the run.
    pub extra: Duration,
}

#[derive(Clone, Debug)]
pub struct Scenario {
    pub seed: u64,
    /// The class that was requested.
    pub only: Option<Class>,
    pub via: &'static str,
    pub bytes: u64,
    /// Rate of every cable; as fast as the machine copies if `None`.
    pub rate_bits_per_second: Option<u64>,
    /// Whether receivers may come after the start.
    pub late: bool,
    pub troubles: Vec<Trouble>,
}

impl Scenario {
    /// Whether one of the run's troubles reduces the promise to `promise`.
    pub fn promises(&self, promise: Promise) -> bool {
        self.troubles
            .iter()
            .any(|trouble| trouble.promise == promise)
    }

    pub fn promises_files(&self) -> bool {
        !self.promises(Promise::Truth) && !self.promises(Promise::Forged)
    }

    /// Returns the number of hosts that may be unable to join.
    pub fn kept_out(&self) -> usize {
        self.troubles
            .iter()
            .filter(|trouble| trouble.keeps_out)
            .map(|trouble| trouble.marred.len())
            .sum()
    }

    /// Whether a host outside the session is needed.
    pub fn has_non_member(&self) -> bool {
        self.troubles
            .iter()
            .flat_map(|trouble| &trouble.events)
            .any(|event| event.host == OUTSIDER)
    }

    /// Returns the time that the bytes take on a cable.
    pub fn transfer(&self) -> Duration {
        let rate = self.rate_bits_per_second.unwrap_or(100_000_000);
        Duration::from_secs_f64(self.bytes as f64 * 8.0 / rate as f64)
    }

    /// Returns how many times the root sends each byte.
    pub fn fan_out(&self) -> f64 {
        if self.via == "binary" { 2.0 } else { 1.0 }
    }

    pub fn limit(&self, terms: &Terms) -> Duration {
        let gathering = if self.kept_out() > 0 {
            terms.receive_wait
        } else {
            Duration::ZERO
        };
        let extra: Duration = self.troubles.iter().map(|trouble| trouble.extra).sum();
        (Duration::from_secs(8) + gathering + self.transfer() * 6 + extra).mul_f64(terms.slack)
    }

    pub fn replay(&self) -> String {
        let only = self
            .only
            .map_or(String::new(), |class| format!(" --only {class}"));
        format!(
            "cargo run --release -p ethbcast-tests --bin chaos -- --runs 1 --seed {}{only}",
            self.seed
        )
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = self
            .rate_bits_per_second
            .map_or("unshaped".to_owned(), ethbcast_lab::format_rate);
        let troubles: Vec<_> = self
            .troubles
            .iter()
            .map(|trouble| format!("{}: {}", trouble.class, trouble.words))
            .collect();
        let late = if self.late { ", late welcome" } else { "" };
        write!(
            to,
            "{} {} bytes {rate}{late}; {}",
            self.via,
            self.bytes,
            troubles.join("; ")
        )
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Receivers are killed: any of them, neighbours or not, at once or one after the other, in
    /// every phase.
    Kill,
    /// A process is suspended for a while: SIGSTOP, SIGCONT.
    Pause,
    Root,
    /// A link goes down, and up again or not.
    Link,
    /// One kind of frame is lost in one direction, for a while or for good.
    Drop,
    /// Every host loses a share of its incoming frames.
    Loss,
    /// A host's cable delays, repeats, reorders, drops and damages frames.
    Relay,
    /// A disk is too small, is filled, or loses written data.
    Disk,
    /// A receiver is powered off and starts anew.
    Reboot,
    /// Two senders of one group.
    Operators,
    /// A host replays frames, or forges them with a member's address.
    Attack,
}

impl Class {
    pub const ALL: [Class; 11] = [
        Class::Kill,
        Class::Pause,
        Class::Root,
        Class::Link,
        Class::Drop,
        Class::Loss,
        Class::Relay,
        Class::Disk,
        Class::Reboot,
        Class::Operators,
        Class::Attack,
    ];

    /// Returns the name in tables and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Class::Kill => "kill",
            Class::Pause => "pause",
            Class::Root => "root",
            Class::Link => "link",
            Class::Drop => "drop",
            Class::Loss => "loss",
            Class::Relay => "relay",
            Class::Disk => "disk",
            Class::Reboot => "reboot",
            Class::Operators => "operators",
            Class::Attack => "attack",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.name())
    }
}

impl FromStr for Class {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Class::ALL.into_iter().find(|class| class.name() == text);
        named.ok_or_else(|| {
            format!(
                "there is no class `{text}`: choose one of {}",
                Class::ALL.map(Class::name).join(", ")
            )
        })
    }
}
