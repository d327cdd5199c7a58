//! Random simulation: kinds of faults; each seed switches on some of them.

use super::hosts::HostSet;
use super::seed::Draw;
use ethbcast_transport::sim::{Delivery, Fate};
use ethbcast_transport::wire::Kind;
use std::ops::Range;
use std::time::Duration;

macro_rules! classes {
    ($($(#[$about:meta])* $name:ident = $words:literal,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Class {
            $($(#[$about])* $name,)*
        }

        impl Class {
            pub const ALL: &'static [Class] = &[$(Class::$name),*];

            /// Returns the name used in reports.
            pub fn words(self) -> &'static str {
                match self { $(Class::$name => $words,)* }
            }
        }
    };
}

classes! {
    /// Deliveries are lost independently.
    Loss = "loss",
    /// All frames from one host, or to it, are lost, while the other direction works.
    OneWay = "one-way loss",
    /// Only frames of one kind are lost, in one direction.
    KindLoss = "loss by kind",
    /// Only group frames are lost, or only those to one host.
    CastLoss = "loss of multicast or of unicast only",
    /// Gilbert–Elliott channel: good periods, and bad ones with high loss.
    Bursts = "bursts of loss",
    /// Losses are common to all hosts behind one switch.
    SubtreeLoss = "correlated loss of a subtree",
    /// Long frames are lost, or short ones.
    SizeLoss = "loss by size",
    /// Loss between two hosts is high.
    PairLoss = "loss by pair",
    /// Two sets of hosts cannot reach each other for a while.
    Partition = "partition",
    /// Deliveries are delayed and reordered.
    Jitter = "jitter",
    /// Deliveries are duplicated, the copy arriving at once or much later.
    Duplicate = "duplicates",
    /// A bit is flipped in transit, which the checksum detects.
    BitFlip = "flipped bits",
    /// A process is suspended for a while.
    Pause = "pause",
    Crash = "crash",
    /// A cable is down for short periods, repeatedly.
    LinkFlap = "link flaps",
    /// A process needs time for each frame, and to wake up.
    SlowCpu = "slow CPU",
    /// A disk is slow to write, settle or publish.
    SlowDisk = "slow disk",
    /// A disk fails to write, settle or publish.
    DiskError = "disk error",
    /// An application takes or gives a little at a time.
    Lazy = "lazy application",
    /// Network cards and switches have small rings and queues.
    SmallRings = "small rings",
    RootDeath = "root death",
    /// A host dies and comes back with its address, as another run.
    Restart = "restart",
    /// The port of a host drops long frames.
    MtuMismatch = "MTU mismatch",
    /// Switches police what they flood.
    StormControl = "storm control",
    /// Switches begin to police flooded frames while a cast runs that the root has chosen itself.
    Policing = "switches that begin to police a cast",
    /// The ports of a switch share a small buffer.
    SharedBuffer = "shared switch buffer",
    PauseFrames = "pause frames",
    /// The kernel has no room for outgoing frames: ENOBUFS, EAGAIN, partly accepted batches.
    SendErrors = "send errors",
    /// Timers fire late.
    TimerSlack = "timer slack",
    /// The clock's microseconds exceed 32 bits during the session.
    Wrap = "stamps that wrap",
    /// Frames of an older session between these hosts are replayed.
    Replay = "replays of an old session",
    /// Frames of another version arrive.
    OtherVersion = "frames of another version",
    /// Payload is damaged in a way that the checksum does not detect.
    Damage = "damage that the checksum passes",
    /// Genuine frames are repeated with false values, from the right address.
    Hostile = "hostile values",
    TwoRoots = "two roots",
    /// Hosts that cannot take part: too small an MTU, no room, a name that is not admitted or
    /// taken.
    Misfits = "misfits",
    Latecomers = "latecomers",
    /// A user stops a receiver, or the root.
    Interrupt = "interrupted by a user",
    /// A plan is impossible: the topology does not name the root.
    NoPlan = "a root that its topology does not name",
    /// A rank of a communicator runs another program than the others.
    Mistake = "a rank with another program",
    /// Receivers' have-sets are not what they announced.
    FalseHoldings = "holdings that are not what they were",
    /// Every host has its own tuning.
    OwnTuning = "own tunings",
}

impl Class {
    pub const COUNT: usize = Class::ALL.len();

    pub fn index(self) -> usize {
        self as usize
    }
}

impl Class {
    /// Whether frames are forged or damaged undetectably: then every session may fail, but no
    /// report may be false.
    pub fn forges(self) -> bool {
        matches!(self, Class::Damage | Class::Hostile)
    }

    /// Whether this class may make a host unreachable or idle for long.
    pub fn takes_away(self) -> bool {
        use Class::{BitFlip, Duplicate, FalseHoldings, Jitter, SlowCpu, SlowDisk};
        !matches!(
            self,
            Jitter | Duplicate | BitFlip | SlowCpu | SlowDisk | FalseHoldings
        )
    }

    /// Whether this class may make a host slower than the others.
    pub fn slows(self) -> bool {
        !matches!(self, Class::Duplicate)
    }
}

/// Every outcome, refusal, state, end and failure that is common enough; the others are in
/// [`RARE`].
pub const MARKS: &[&str] = &[
    "damage: found",
    "damage: mended",
    "end: Aborted",
    "end: Confirmed",
    "end: Dropped",
    "end: NobodyThere",
    "end: Refused",
    "end: RootSilent",
    "end: Unconfirmed",
    "holdings: used",
    "outcome: Damaged",
    "outcome: Delivered",
    "outcome: Died",
    "outcome: Interrupted",
    "outcome: Lost",
    "outcome: NoSpace",
    "outcome: Silent",
    "outcome: Stalled",
    "outcome: WriteFailed",
    "parity: brought back",
    "parity: sent",
    "refused: Late",
    "refused: NoSpace",
    "refused: NotInTopology",
    "refused: NotWanted",
    "refused: Path",
    "refused: SmallMtu",
    "refused: Twin",
    "root failed: GroupTaken",
    "root failed: NoPlan",
    "root failed: TooFew",
    "rerouted",
    "selective",
    "sent again: Lacked",
    "sent again: Lost",
    "sent again: Tried",
    "state: Alive",
    "state: Blocked",
    "state: Done",
    "state: Settled",
    "state: Starved",
    "state: Syncing",
    "state: Verifying",
    "state: WaitsForChild",
    "program: done",
    "program: Gone",
    "program: Missing",
    "program: Mismatch",
    "program: nothing is cast",
    "program: several ranks on a host",
    "program: told a way",
    "program: told the switches",
];

/// Marks that cannot be reached a thousand times, with the reason.
pub const RARE: &[(&str, &str)] = &[
    (
        "outcome: Verified",
        "a report is never final with it: the root says NoSpace to Died, or Delivered",
    ),
    (
        "sent again: Outdated",
        "an old acknowledgement arrives between a view and the first word that is asked for",
    ),
    (
        "sent again: Orphaned",
        "two relays that are neighbours die within moments, and the child lags by a feed",
    ),
    (
        "end: NobodyElse",
        "a sender gives up, and no other comes while a receiver waits; tests/gathering has it",
    ),
    (
        "program: Abandoned, Cut, Deaf, Garbled",
        "their times are seconds of a program's life; tests/communicators has each",
    ),
    (
        "program: Left, Outlawed, Unconfirmed",
        "a race of microseconds between a call and a leave; tests/communicators has each",
    ),
    (
        "program: Name, Size, Mtu",
        "refused before anything runs: arguments, not faults",
    ),
    (
        "program: SizesDiffer, PresetsDiffer, Namesakes, TwoProcesses, TooMany, OtherBuild",
        "settings of a group, not faults; tests/communicators/members has each",
    ),
];

#[derive(Clone, Debug)]
pub struct Filter {
    pub from: HostSet,
    pub to: HostSet,
    pub kinds: Vec<Kind>,
    /// Whether group frames (`true`) or frames to one host; both if `None`.
    pub cast: Option<bool>,
    pub bytes: Range<usize>,
}

impl Default for Filter {
    fn default() -> Filter {
        Filter {
            from: HostSet::ALL,
            to: HostSet::ALL,
            kinds: Vec::new(),
            cast: None,
            bytes: 0..usize::MAX,
        }
    }
}

impl Filter {
    pub fn to(to: HostSet) -> Filter {
        Filter {
            to,
            ..Filter::default()
        }
    }

    pub fn between(from: HostSet, to: HostSet) -> Filter {
        Filter {
            from,
            to,
            ..Filter::default()
        }
    }

    fn matches(&self, from: usize, delivery: &Delivery<'_>) -> bool {
        self.from.has(from)
            && self.to.has(delivery.to)
            && self.bytes.contains(&delivery.frame.len())
            && self.cast.is_none_or(|cast| cast == is_cast(delivery.frame))
            && (self.kinds.is_empty() || self.kinds.contains(&kind_of(delivery.frame)))
    }
}

#[derive(Clone, Debug)]
pub enum Effect {
    Lose(f64),
    /// Gilbert–Elliott channel with a state for each receiving host.
    Burst {
        /// Probability that a good period ends at a frame.
        begin: f64,
        /// Probability that a bad period ends at a frame.
        end: f64,
        /// Loss in a bad period.
        loss: f64,
        bad: HostSet,
    },
    /// Loses frames with this probability, and the same frames at all hosts.
    LoseForAll(f64),
    /// Delays frames with this probability, by at most this duration.
    Delay(f64, Duration),
    /// Delivers frames again with this probability, at most this duration later.
    Repeat(f64, Duration),
    Flip(f64),
    /// Changes a byte of the payload with this probability, and fixes the checksum.
    Damage(f64),
}

#[derive(Clone, Debug)]
pub struct Rule {
    pub class: Class,
    pub from: Duration,
    pub until: Duration,
    pub filter: Filter,
    pub effect: Effect,
}

impl Rule {
    pub fn judge(
        &mut self,
        from: usize,
        delivery: &Delivery<'_>,
        now: Duration,
        draw: &mut Draw,
    ) -> Option<Fate> {
        if now < self.from || now >= self.until || !self.filter.matches(from, delivery) {
            return None;
        }
        match &mut self.effect {
            Effect::Lose(share) => draw.chance(*share).then_some(Fate::Drop),
            Effect::Burst {
                begin,
                end,
                loss,
                bad,
            } => {
                if draw.chance(if bad.has(delivery.to) { *end } else { *begin }) {
                    toggle(bad, delivery.to);
                }
                (bad.has(delivery.to) && draw.chance(*loss)).then_some(Fate::Drop)
            }
            Effect::LoseForAll(share) => {
                // The checksum identifies a frame: all hosts receive it within a millisecond and
                // see one value. A later retransmission counts as another frame.
                let frame = checksum_of(delivery.frame) ^ now.as_millis() as u32;
                let frame = frame.wrapping_mul(0x9E37_79B9);
                (f64::from(frame) < *share * f64::from(u32::MAX)).then_some(Fate::Drop)
            }
            Effect::Delay(share, most) => {
                draw.chance(*share).then(|| Fate::Delay(upto(draw, *most)))
            }
            Effect::Repeat(share, most) => draw.chance(*share).then(|| Fate::Duplicate {
                after: upto(draw, *most),
            }),
            Effect::Flip(share) => {
                let bits = delivery.frame.len() * 8;
                draw.chance(*share).then(|| Fate::Corrupt {
                    bit: draw.index(bits),
                })
            }
            Effect::Damage(share) => draw.chance(*share).then(|| Fate::Damage {
                byte: draw.index(1 << 16),
            }),
        }
    }
}

fn toggle(set: &mut HostSet, host: usize) {
    if set.has(host) {
        set.remove(host)
    } else {
        set.insert(host)
    }
}

fn upto(draw: &mut Draw, most: Duration) -> Duration {
    Duration::from_nanos(draw.between(0, most.as_nanos() as u64))
}

pub fn is_cast(frame: &[u8]) -> bool {
    frame[0] & 1 == 1
}

pub fn kind_of(frame: &[u8]) -> Kind {
    Kind(frame[17])
}

pub fn checksum_of(frame: &[u8]) -> u32 {
    u32::from_be_bytes([frame[28], frame[29], frame[30], frame[31]])
}
