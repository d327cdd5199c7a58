//! What goes wrong on the last hop: the fate of each frame that arrives at a host's network card.

use std::collections::BTreeMap;
use std::time::Duration;

use super::random::Random;
use crate::Instant;

/// A frame that has arrived at the card of a host that wants it, before the receive ring.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    /// The host that sent it; `None` if the test made it up.
    pub from: Option<usize>,
    /// The host it arrives at.
    pub to: usize,
    /// When it arrives.
    pub at: Instant,
    /// How many deliveries this run has seen before, at all hosts together.
    pub ordinal: u64,
    /// The whole frame, padded.
    pub frame: &'a [u8],
}

/// What becomes of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is delivered as it is.
    Deliver,
    /// It is lost.
    Drop,
    /// It is delivered now, and once more `after` that (which may be at once).
    Duplicate {
        /// The time between the two.
        after: Duration,
    },
    /// It is delivered with one bit changed; a bit beyond the end is counted from the start again.
    Corrupt {
        /// Which bit: 8 times the byte's offset plus the bit's number from the lowest.
        bit: usize,
    },
    /// It is delivered with one byte of its payload changed and a checksum that fits: what broke it was no cable, but
    /// memory or hardware on the way.
    Damage {
        /// Which byte of the payload; one beyond the end is counted from the start again.
        byte: usize,
    },
    /// It is delivered so much later; what arrives in between overtakes it.
    Delay(Duration),
}

/// A frame that a machine has written and its driver hands to the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Departure<'a> {
    /// The host that sends it.
    pub from: usize,
    /// When.
    pub at: Instant,
    /// The whole frame, padded.
    pub frame: &'a [u8],
}

/// What the kernel makes of a departure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    /// It takes the frame.
    Taken,
    /// It has no room for so long (`EAGAIN`, `ENOBUFS`, a batch of which it took a part): the driver keeps the frame,
    /// asks the machine for no other, and then hands it over.
    NoRoom(Duration),
}

/// Decides the fate of every delivery, and of every departure if it likes. A closure is a `Faults` too.
pub trait Faults {
    /// Called once per delivery, in order; a delayed or duplicated frame is not asked about again.
    fn fate(&mut self, delivery: &Delivery<'_>) -> Fate;

    /// Called once for each frame that a machine writes, in order.
    fn sending(&mut self, _departure: &Departure<'_>) -> Sending {
        Sending::Taken
    }
}

impl<F: FnMut(&Delivery<'_>) -> Fate> Faults for F {
    fn fate(&mut self, delivery: &Delivery<'_>) -> Fate {
        self(delivery)
    }
}

/// Everything arrives.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFaults;

impl Faults for NoFaults {
    fn fate(&mut self, _: &Delivery<'_>) -> Fate {
        Fate::Deliver
    }
}

with_defaults! {
    /// Independent faults at fixed probabilities. One delivery suffers one fault at most.
    ///
    /// If loss, duplication, reordering and corruption add up to more than 1, the later ones give way in this order.
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
    /// No faults yet; `seed` decides everything to come.
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

    /// Delivers twice with this probability; the second time up to [`reorder`](RandomFaults::reorder)'s longest delay
    /// later.
    pub fn duplicate(mut self, probability: f64) -> Self {
        self.duplicate = probability;
        self
    }

    /// Delays deliveries with this probability, evenly between 0 and `longest`.
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

/// One given loss pattern: loses those of the first 64 deliveries that satisfy `matches` whose bit in `pattern` is 1,
/// lowest bit first; the rest arrives.
///
/// Counting the pattern through all its values tries every way to lose some of the first deliveries.
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
