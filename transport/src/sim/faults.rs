//! Faults of the simulated network: whether a frame is lost, delayed, repeated or damaged before it
//! reaches a host.

use crate::Instant;
use std::collections::BTreeMap;
use std::time::Duration;

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
        RandomFaults {
            random: Random::new(seed),
            ..RandomFaults::default()
        }
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
            Fate::Duplicate {
                after: self.delay(),
            }
        } else if hit(self.reorder) {
            Fate::Delay(self.delay())
        } else if hit(self.corrupt) {
            let bits = delivery.frame.len() as u64 * 8;
            Fate::Corrupt {
                bit: self.random.below(bits) as usize,
            }
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

/// A small, fast, seeded generator with equal numbers on every platform: xoshiro256++ (Blackman and
/// Vigna 2021), seeded through splitmix64. Not for secrets.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// Creates a generator; equal seeds give equal numbers.
    pub fn new(seed: u64) -> Self {
        let mut mixer = seed;
        Random {
            state: std::array::from_fn(|_| splitmix(&mut mixer)),
        }
    }

    /// Returns the next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// Returns a number in `0..bound`; the bias is below `bound` / 2⁶⁴.
    ///
    /// # Panics
    /// If `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(
            bound > 0,
            "there is no number below zero: ask for a bound of at least 1"
        );
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a number in `[0, 1)` with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Whether an event of this probability happens.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Fills `bytes` with random ones.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }
}

/// Runs one step of splitmix64: neighbouring seeds give unrelated numbers.
fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix_gives_the_published_first_number_of_seed_zero() {
        assert_eq!(splitmix(&mut 0), 0xE220_A839_7B1D_CDAF);
    }

    #[test]
    fn xoshiro_gives_the_published_first_numbers_of_state_1_2_3_4() {
        let mut random = Random {
            state: [1, 2, 3, 4],
        };
        let first: Vec<u64> = (0..3).map(|_| random.next_u64()).collect();
        assert_eq!(first, [41_943_041, 58_720_359, 3_588_806_011_781_223]);
    }

    #[test]
    fn numbers_below_a_bound_are_spread_evenly() {
        let mut random = Random::new(7);
        let mut counts = [0u32; 10];
        for _ in 0..100_000 {
            counts[random.below(10) as usize] += 1;
        }
        assert!(
            counts.iter().all(|count| (9_500..10_500).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn a_chance_happens_as_often_as_it_says() {
        let mut random = Random::new(1);
        let hits = (0..100_000).filter(|_| random.chance(0.25)).count();
        assert!((24_000..26_000).contains(&hits), "{hits}");
        assert!(!(0..1_000).any(|_| random.chance(0.0)));
        assert!((0..1_000).all(|_| random.chance(1.0)));
    }

    #[test]
    fn filling_covers_the_last_odd_bytes() {
        let mut bytes = [0u8; 8 * 4 + 3];
        Random::new(3).fill(&mut bytes);
        assert!(bytes[32..].iter().any(|&byte| byte != 0));
    }
}
