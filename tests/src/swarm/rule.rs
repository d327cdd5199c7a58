//! What happens to frames on their last hop: which of them, when, and what.

use super::class::Class;
use super::draw::Draw;
use super::host_set::HostSet;
use ethbcast_transport::sim::{Delivery, Fate};
use ethbcast_transport::wire::Kind;
use std::ops::Range;
use std::time::Duration;

/// Which frames a rule is about.
#[derive(Clone, Debug)]
pub struct Filter {
    /// From whom.
    pub from: HostSet,
    /// To whom.
    pub to: HostSet,
    /// Of which kind; of any if there is none here.
    pub kinds: Vec<Kind>,
    /// To the group, or to one host; both if it is not said.
    pub cast: Option<bool>,
    /// How long they are, in bytes.
    pub bytes: Range<usize>,
}

impl Default for Filter {
    fn default() -> Filter {
        Filter { from: HostSet::ALL, to: HostSet::ALL, kinds: Vec::new(), cast: None, bytes: 0..usize::MAX }
    }
}

impl Filter {
    /// Frames to these hosts.
    pub fn to(to: HostSet) -> Filter {
        Filter { to, ..Filter::default() }
    }

    /// Frames from some hosts to others.
    pub fn between(from: HostSet, to: HostSet) -> Filter {
        Filter { from, to, ..Filter::default() }
    }

    fn matches(&self, from: usize, delivery: &Delivery<'_>) -> bool {
        self.from.has(from)
            && self.to.has(delivery.to)
            && self.bytes.contains(&delivery.frame.len())
            && self.cast.is_none_or(|cast| cast == is_cast(delivery.frame))
            && (self.kinds.is_empty() || self.kinds.contains(&kind_of(delivery.frame)))
    }
}

/// What a rule does.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Loses frames with this probability.
    Lose(f64),
    /// Gilbert and Elliott's channel, a state for each host that hears.
    Burst {
        /// How likely a good time ends with a frame.
        begin: f64,
        /// How likely a bad time ends with a frame.
        end: f64,
        /// How much is lost in a bad time.
        loss: f64,
        /// Who has a bad time.
        bad: HostSet,
    },
    /// Loses frames with this probability, the same ones at all hosts.
    LoseForAll(f64),
    /// Delays frames with this probability, by this at most.
    Delay(f64, Duration),
    /// Delivers frames again with this probability, so much later at most.
    Repeat(f64, Duration),
    /// Flips a bit with this probability.
    Flip(f64),
    /// Changes a byte of the payload with this probability, and the checksum with it.
    Damage(f64),
}

/// One fault of the network.
#[derive(Clone, Debug)]
pub struct Rule {
    /// What it is counted as.
    pub class: Class,
    /// From when on.
    pub from: Duration,
    /// Until when.
    pub until: Duration,
    /// Which frames.
    pub filter: Filter,
    /// What becomes of them.
    pub effect: Effect,
}

impl Rule {
    /// What becomes of a delivery; nothing if this rule has nothing to say.
    pub fn judge(&mut self, from: usize, delivery: &Delivery<'_>, now: Duration, draw: &mut Draw) -> Option<Fate> {
        if now < self.from || now >= self.until || !self.filter.matches(from, delivery) {
            return None;
        }
        match &mut self.effect {
            Effect::Lose(share) => draw.chance(*share).then_some(Fate::Drop),
            Effect::Burst { begin, end, loss, bad } => {
                if draw.chance(if bad.has(delivery.to) { *end } else { *begin }) {
                    toggle(bad, delivery.to);
                }
                (bad.has(delivery.to) && draw.chance(*loss)).then_some(Fate::Drop)
            }
            Effect::LoseForAll(share) => {
                // The checksum tells frames apart, and is the same at all who hear one within a millisecond: sent again
                // as it was a frame is another.
                let frame = checksum_of(delivery.frame) ^ now.as_millis() as u32;
                let frame = frame.wrapping_mul(0x9E37_79B9);
                (f64::from(frame) < *share * f64::from(u32::MAX)).then_some(Fate::Drop)
            }
            Effect::Delay(share, most) => draw.chance(*share).then(|| Fate::Delay(upto(draw, *most))),
            Effect::Repeat(share, most) => draw.chance(*share).then(|| Fate::Duplicate { after: upto(draw, *most) }),
            Effect::Flip(share) => {
                let bits = delivery.frame.len() * 8;
                draw.chance(*share).then(|| Fate::Corrupt { bit: draw.index(bits) })
            }
            Effect::Damage(share) => draw.chance(*share).then(|| Fate::Damage { byte: draw.index(1 << 16) }),
        }
    }
}

fn toggle(set: &mut HostSet, host: usize) {
    if set.has(host) { set.remove(host) } else { set.insert(host) }
}

fn upto(draw: &mut Draw, most: Duration) -> Duration {
    Duration::from_nanos(draw.between(0, most.as_nanos() as u64))
}

/// Whether a frame goes to a group.
pub fn is_cast(frame: &[u8]) -> bool {
    frame[0] & 1 == 1
}

/// What a frame carries, by its header.
pub fn kind_of(frame: &[u8]) -> Kind {
    Kind(frame[17])
}

/// A frame's checksum.
pub fn checksum_of(frame: &[u8]) -> u32 {
    u32::from_be_bytes([frame[28], frame[29], frame[30], frame[31]])
}
