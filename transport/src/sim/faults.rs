//! Faults of the simulated network: whether a frame is lost, delayed, repeated or damaged before it
//! reaches a host.

use std::collections::BTreeMap;
use std::time::Duration;

use super::random::Random;
use crate::Instant;

/// A frame that has arrived at the card of a host that accepts it, and is not yet in the receive
/// ring.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    /// Sending host; `None` if the test injected the frame.
    pub from: Option<usize>,
    /// Receiving host.
    pub to: usize,
    /// Time of arrival.
    pub at: Instant,
    /// Number of earlier deliveries in this run, at all hosts together.
    pub ordinal: u64,
    /// The whole frame, padded.
    pub frame: &'a [u8],
}

/// Outcome of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Delivered unchanged.
    Deliver,
    /// Lost.
    Drop,
    /// Delivered now, and once more later.
    Duplicate {
        /// Time between both deliveries; may be zero.
        after: Duration,
    },
    /// Delivered with one bit changed.
    Corrupt {
        /// Bit number: 8 times the byte's offset plus the bit's number from the lowest; modulo the
        /// frame's length.
        bit: usize,
    },
    /// Delivered with one payload byte changed and a matching checksum, as by faulty memory or
    /// hardware on the way.
    Damage {
        /// Offset of the byte in the payload, modulo its length.
        byte: usize,
    },
    /// Delivered after this time; frames in between overtake it.
    Delay(Duration),
}

/// A frame that a machine has written and its driver submits to the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Departure<'a> {
    /// Sending host.
    pub from: usize,
    /// Time of sending.
    pub at: Instant,
    /// The whole frame, padded.
    pub frame: &'a [u8],
}

/// The kernel's result for a departure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    /// The kernel takes the frame.
    Taken,
    /// The kernel has no room for this time (`EAGAIN`, `ENOBUFS`, a batch taken in part): the
    /// driver keeps the frame, requests no other from the machine, and retries then.
    NoRoom(Duration),
}

/// Decides the fate of every delivery, and optionally of every departure. A closure is a `Faults`,
/// too.
pub trait Faults {
    /// Decides each delivery once, in order; a delayed or duplicated frame is not decided again.
    fn fate(&mut self, delivery: &Delivery<'_>) -> Fate;

    /// Decides each frame that a machine writes once, in order.
    fn sending(&mut self, _departure: &Departure<'_>) -> Sending {
        Sending::Taken
    }
}

impl<F: FnMut(&Delivery<'_>) -> Fate> Faults for F {
    fn fate(&mut self, delivery: &Delivery<'_>) -> Fate {
        self(delivery)
    }
}

/// Delivers every frame.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFaults;

impl Faults for NoFaults {
    fn fate(&mut self, _: &Delivery<'_>) -> Fate {
        Fate::Deliver
    }
}

with_defaults! {
    /// Independent faults at fixed probabilities. A delivery suffers at most one fault.
    ///
    /// Probabilities of loss, duplication, reordering and corruption that add up to more than 1 are
    /// reduced in this order.
    #[derive(Clone, Debug)]
    pub struct RandomFaults {
        random: Random = Random::new(0),
        loss: f64 = 0.0,
        loss_at: BTreeMap<usize, f64> = BTreeMap::new(),
        duplicate: f64 = 0.0,
        reorder: f64 = 0.0,
        late_by: Duration = Duration::ZERO,
        corrupt: f64 = 0.0,
    }
}

impl RandomFaults {
    /// Creates faultless delivery; `seed` determines all later faults.
    pub fn new(seed: u64) -> Self {
        RandomFaults { random: Random::new(seed), ..RandomFaults::default() }
    }

    /// Loses deliveries with this probability.
    pub fn loss(mut self, probability: f64) -> Self {
        self.loss = probability;
        self
    }

    /// Loses deliveries to one host with another probability.
    pub fn loss_at(mut self, host: usize, probability: f64) -> Self {
        self.loss_at.insert(host, probability);
        self
    }

    /// Delivers twice with this probability; the second time up to
    /// [`reorder`](RandomFaults::reorder)'s longest delay later.
    pub fn duplicate(mut self, probability: f64) -> Self {
        self.duplicate = probability;
        self
    }

    /// Delays deliveries with this probability, uniformly between 0 and `longest`.
    pub fn reorder(mut self, probability: f64, longest: Duration) -> Self {
        self.reorder = probability;
        self.late_by = longest;
        self
    }

    /// Changes one bit with this probability.
    pub fn corrupt(mut self, probability: f64) -> Self {
        self.corrupt = probability;
        self
    }

    fn delay(&mut self) -> Duration {
        let longest = self.late_by.as_nanos() as u64;
        Duration::from_nanos(self.random.below(longest.saturating_add(1)))
    }
}

impl Faults for RandomFaults {
    fn fate(&mut self, delivery: &Delivery<'_>) -> Fate {
        let loss = *self.loss_at.get(&delivery.to).unwrap_or(&self.loss);
        let mut draw = self.random.unit();
        let mut hit = |probability: f64| {
            draw -= probability;
            draw < 0.0
        };
        if hit(loss) {
            Fate::Drop
        } else if hit(self.duplicate) {
            Fate::Duplicate { after: self.delay() }
        } else if hit(self.reorder) {
            Fate::Delay(self.delay())
        } else if hit(self.corrupt) {
            let bits = delivery.frame.len() as u64 * 8;
            Fate::Corrupt { bit: self.random.below(bits) as usize }
        } else {
            Fate::Deliver
        }
    }
}

/// Creates one given loss pattern: of the first 64 deliveries that satisfy `matches`, loses those
/// whose bit in `pattern` is 1, lowest bit first; delivers the rest.
///
/// Counting the pattern through all its values tries every way to lose some of the first
/// deliveries.
pub fn script(mut pattern: u64, mut matches: impl FnMut(&Delivery<'_>) -> bool) -> impl Faults {
    move |delivery: &Delivery<'_>| {
        if !matches(delivery) {
            return Fate::Deliver;
        }
        let lost = pattern & 1 == 1;
        pattern >>= 1;
        if lost { Fate::Drop } else { Fate::Deliver }
    }
}
