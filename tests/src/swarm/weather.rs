//! The network's faults of one schedule while it runs: rules, what they have hit, and a trace of all frames.

use super::class::Class;
use super::draw::Draw;
use super::host_set::HostSet;
use super::rule::{Rule, checksum_of};
use ethbcast_transport::Instant;
use ethbcast_transport::sim::{Delivery, Fate, Faults};

/// See the module's description.
#[derive(Debug)]
pub struct Weather {
    draw: Draw,
    rules: Vec<Rule>,
    /// From this moment on nothing happens to frames between hosts of the core.
    heals_at: Instant,
    core: HostSet,
    hits: [u64; Class::COUNT],
    trace: u64,
}

impl Weather {
    /// These rules, until they are healed for the core.
    pub fn new(draw: Draw, rules: Vec<Rule>, heals_at: Instant, core: HostSet) -> Weather {
        Weather { draw, rules, heals_at, core, hits: [0; Class::COUNT], trace: 0 }
    }

    /// How often each class has hit, by its index.
    pub fn hits(&self) -> &[u64; Class::COUNT] {
        &self.hits
    }

    /// A hash of all deliveries, with the moment of each.
    pub fn trace(&self) -> u64 {
        self.trace
    }

    fn note(&mut self, delivery: &Delivery<'_>) {
        let what =
            u64::from(checksum_of(delivery.frame)) << 32 | (delivery.to as u64) << 16 | delivery.frame.len() as u64;
        let mixed = (self.trace.rotate_left(5) ^ delivery.at.as_nanos()).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.trace = (mixed.rotate_left(23) ^ what).wrapping_mul(0x517C_C1B7_2722_0A95);
    }
}

impl Faults for Weather {
    fn fate(&mut self, delivery: &Delivery<'_>) -> Fate {
        self.note(delivery);
        // What somebody made up comes as it is.
        let Some(from) = delivery.from else { return Fate::Deliver };
        if delivery.at >= self.heals_at && self.core.has(from) && self.core.has(delivery.to) {
            return Fate::Deliver;
        }
        for rule in &mut self.rules {
            if let Some(fate) = rule.judge(from, delivery, &mut self.draw) {
                self.hits[rule.class.index()] += 1;
                return fate;
            }
        }
        Fate::Deliver
    }
}
