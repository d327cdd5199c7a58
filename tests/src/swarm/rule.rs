//! Rules for frames on their last hop: which frames, when, and their fate.

use super::class::Class;
use super::draw::Draw;
use super::host_set::HostSet;
use ethbcast_transport::sim::{Delivery, Fate};
use ethbcast_transport::wire::Kind;
use std::ops::Range;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Filter {
    pub from: HostSet,
    pub to: HostSet,
    /// Kinds of frames; empty for all.
    pub kinds: Vec<Kind>,
    /// Whether group frames (`true`) or frames to one host; both if `None`.
    pub cast: Option<bool>,
    pub bytes: Range<usize>,
}

impl Default for Filter {
    fn default() -> Filter {
        Filter { from: HostSet::ALL, to: HostSet::ALL, kinds: Vec::new(), cast: None, bytes: 0..usize::MAX }
    }
}

impl Filter {
    pub fn to(to: HostSet) -> Filter {
        Filter { to, ..Filter::default() }
    }

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
                // The checksum identifies a frame: all hosts receive it within a millisecond and
                // see one value. A later retransmission counts as another frame.
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

pub fn is_cast(frame: &[u8]) -> bool {
    frame[0] & 1 == 1
}

pub fn kind_of(frame: &[u8]) -> Kind {
    Kind(frame[17])
}

pub fn checksum_of(frame: &[u8]) -> u32 {
    u32::from_be_bytes([frame[28], frame[29], frame[30], frame[31]])
}
