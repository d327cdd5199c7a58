//! A run before it is played: what is sent how to whom, what happens when, and what is promised all the same.

use std::fmt;
use std::time::Duration;

use super::Class;
use super::stage::Terms;
use crate::lab::{Way, Which};

/// How many receivers there are: `n1` to this.
pub const RECEIVERS: usize = 7;
/// The sender.
pub const ROOT: &str = "n0";
/// The host that is no member: a second sender, an attacker.
pub const STRANGER: &str = "n8";

/// When something happens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Due {
    /// Before any program runs.
    Before,
    /// As soon as all programs run, and the root has its interface.
    Start,
    /// As soon as the root has heard the host.
    Joined,
    /// When the root has sent this share of the file.
    Share(f64),
}

/// What a relay does to the frames it carries: chances are of each frame.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Manners {
    /// They are lost.
    pub drop: f64,
    /// One to three of their bits are flipped; their checksum stays as it was.
    pub corrupt: f64,
    /// A byte of their payload is another, and their checksum fits, as after a bad host or switch: DATA only.
    pub damage: f64,
    /// They are carried twice.
    pub duplicate: f64,
    /// They are overtaken by others for up to [`Manners::late`].
    pub reorder: f64,
    /// How late a frame is that others overtake.
    pub late: Duration,
    /// Each is held for up to so long, in order.
    pub jitter: Duration,
}

/// What an attacker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// Replays a session that has been before.
    Old,
    /// Replays what it has heard of this one.
    Echo,
    /// Sends what it has heard with other values, a checksum that fits, and the address of whoever had sent it.
    Forge,
}

/// What is done to a host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Deed {
    /// SIGKILL to its program.
    Kill,
    /// SIGKILL to all that runs there.
    PowerOff,
    /// SIGTERM.
    Terminate,
    /// SIGSTOP.
    Stop,
    /// SIGCONT.
    Continue,
    /// Its cable loses these frames.
    Faults(Which, Way, f64),
    /// Its cable loses nothing of the kind any more.
    Heal,
    /// It loses this part of what reaches it.
    Loss(f64),
    /// Its switch's port goes up or down.
    Port(bool),
    /// Its interface goes up or down.
    Link(bool),
    /// Its cable is led past a relay.
    Detour(Manners),
    /// Its disk has so many bytes.
    SmallDisk(u64),
    /// Its disk loses what is more than so many MiB.
    ThinDisk(u64),
    /// Somebody else fills its disk.
    FillDisk,
    /// It is powered off, and receives anew.
    Restart,
    /// It attacks.
    Attack(Attack),
    /// It sends something else to the same group.
    Send,
}

/// Something that happens.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// To whom.
    pub host: String,
    /// What.
    pub deed: Deed,
    /// When.
    pub due: Due,
    /// How much later than that.
    pub then: Duration,
}

/// Who must have the file in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// All who are not marred.
    File,
    /// All, from one sender or the other.
    Either,
    /// Nobody; but what is said is true.
    Truth,
    /// As before, and forged words may be believed of failures.
    Forged,
}

/// A trouble.
#[derive(Clone, Debug)]
pub struct Trouble {
    /// Of which class.
    pub class: Class,
    /// In words.
    pub words: String,
    /// What happens.
    pub events: Vec<Event>,
    /// To whom so much harm may come that it fails, and with which codes, if what is to happen to it happens.
    pub marred: Vec<(String, &'static [i32])>,
    /// Whether they may not even join.
    pub keeps_out: bool,
    /// What is promised.
    pub promise: Promise,
    /// By how much longer the run may take.
    pub extra: Duration,
}

/// A run to be played.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What it was drawn from.
    pub seed: u64,
    /// The class it was asked for.
    pub only: Option<Class>,
    /// How the bytes travel.
    pub via: &'static str,
    /// How many there are.
    pub bytes: u64,
    /// Of every cable; without it, as fast as the machine copies.
    pub rate_bits_per_second: Option<u64>,
    /// Whether receivers may come after the start.
    pub late: bool,
    /// What happens.
    pub troubles: Vec<Trouble>,
}

impl Scenario {
    /// Whether one of its troubles leaves this to promise.
    pub fn promises(&self, promise: Promise) -> bool {
        self.troubles.iter().any(|trouble| trouble.promise == promise)
    }

    /// Whether all who are not marred must have the file.
    pub fn promises_files(&self) -> bool {
        !self.promises(Promise::Truth) && !self.promises(Promise::Forged)
    }

    /// How many hosts may be kept from joining.
    pub fn kept_out(&self) -> usize {
        self.troubles.iter().filter(|trouble| trouble.keeps_out).map(|trouble| trouble.marred.len()).sum()
    }

    /// Whether a stranger is needed.
    pub fn has_stranger(&self) -> bool {
        self.troubles.iter().flat_map(|trouble| &trouble.events).any(|event| event.host == STRANGER)
    }

    /// What the bytes take on the cable, where a root sends them once.
    pub fn transfer(&self) -> Duration {
        let rate = self.rate_bits_per_second.unwrap_or(100_000_000);
        Duration::from_secs_f64(self.bytes as f64 * 8.0 / rate as f64)
    }

    /// How many times the root sends each byte.
    pub fn fan_out(&self) -> f64 {
        if self.via == "binary" { 2.0 } else { 1.0 }
    }

    /// How long the run may take.
    pub fn limit(&self, terms: &Terms) -> Duration {
        let gathering = if self.kept_out() > 0 { terms.receive_wait } else { Duration::ZERO };
        let extra: Duration = self.troubles.iter().map(|trouble| trouble.extra).sum();
        (Duration::from_secs(8) + gathering + self.transfer() * 6 + extra).mul_f64(terms.slack)
    }

    /// The command that plays it again.
    pub fn replay(&self) -> String {
        let only = self.only.map_or(String::new(), |class| format!(" --only {class}"));
        format!("cargo run --release -p ethbcast-tests --bin chaos -- --runs 1 --seed {}{only}", self.seed)
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = self.rate_bits_per_second.map_or("unshaped".to_owned(), ethbcast_lab::format_rate);
        let troubles: Vec<_> =
            self.troubles.iter().map(|trouble| format!("{}: {}", trouble.class, trouble.words)).collect();
        let late = if self.late { ", late welcome" } else { "" };
        write!(to, "{} {} bytes {rate}{late}; {}", self.via, self.bytes, troubles.join("; "))
    }
}
