//! Cost table: the time of a call by the wire and by the MPI. It is identical on all ranks, and so
//! is the decision.

use crate::settings::Operation;

/// Exponents of the shortest and the longest length tried, all blocks together. Every power of two
/// between them is tried separately: the faster route changes more than once between 256 bytes and
/// 16 MiB.
const MIN_LOG: u32 = 8;
const MAX_LOG: u32 = 24;
const LENGTHS: usize = (MAX_LOG - MIN_LOG + 1) as usize;
/// Differences below this many percent are noise.
const MARGIN_PERCENT: u64 = 10;
/// Margin in percent for lengths far beyond those tried: on slow cables the burst that they let
/// pass hides their rate.
const FAR_MARGIN_PERCENT: u64 = 50;
const MAX_DISTANCE_LOG: usize = 3;
const NUMBERS: usize = Operation::ALL.len() * (2 * LENGTHS + 1);
pub const BYTES: usize = NUMBERS * 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Wire,
    Mpi,
}

/// A length that is tried, and stands for all calls of about as many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Length(usize);

impl Length {
    /// Returns the length for a call of `bytes` bytes: the next power of two. A barrier has the
    /// least.
    pub fn of(bytes: u64) -> Length {
        let log = bytes.clamp(1 << MIN_LOG, 1 << MAX_LOG).next_power_of_two().ilog2();
        Length((log - MIN_LOG) as usize)
    }

    pub fn bytes(self) -> usize {
        1 << (self.0 as u32 + MIN_LOG)
    }

    pub fn quarter(self) -> Option<Length> {
        self.0.checked_sub(2).map(Length)
    }
}

/// Nanoseconds by operation, route and length, 0 where not tried; and by operation the settled
/// lengths, one bit each: those tried, or not worth it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CostTable {
    nanoseconds: [[[u64; LENGTHS]; 2]; Operation::ALL.len()],
    settled: [u64; Operation::ALL.len()],
}

impl CostTable {
    pub fn note(&mut self, operation: Operation, length: Length, [wire, mpi]: [u64; 2]) {
        let of = &mut self.nanoseconds[operation as usize];
        (of[Way::Wire as usize][length.0], of[Way::Mpi as usize][length.0]) = (wire.max(1), mpi.max(1));
        self.settle(operation, length);
    }

    pub fn settle(&mut self, operation: Operation, length: Length) {
        self.settled[operation as usize] |= 1 << length.0;
    }

    pub fn is_settled(&self, operation: Operation, length: Length) -> bool {
        self.settled[operation as usize] >> length.0 & 1 == 1
    }

    pub fn adopt(&mut self, other: &CostTable) {
        for (at, settled) in other.settled.into_iter().enumerate() {
            for length in (0..LENGTHS).filter(|length| (settled & !self.settled[at]) >> length & 1 == 1) {
                let from = &other.nanoseconds[at];
                self.nanoseconds[at].iter_mut().zip(from).for_each(|(own, theirs)| own[length] = theirs[length]);
            }
            self.settled[at] |= settled;
        }
    }

    /// Returns both times at the nearest length tried, preferring shorter ones.
    fn nearest(&self, operation: Operation, length: Length) -> Option<(Length, [u64; 2])> {
        let [wire, mpi] = &self.nanoseconds[operation as usize];
        let is_tried = |at: &usize| wire[*at] > 0;
        let at = (0..=length.0).rev().find(is_tried).or_else(|| (length.0..LENGTHS).find(is_tried))?;
        Some((Length(at), [wire[at], mpi[at]]))
    }

    /// Returns the time of a call by the slower route, extrapolated from the nearest length tried.
    pub fn expected(&self, operation: Operation, length: Length) -> Option<u64> {
        let (tried, prices) = self.nearest(operation, length)?;
        let longest = prices.into_iter().max()?;
        Some(longest.saturating_mul((length.bytes() / tried.bytes()).max(1) as u64))
    }

    /// Whether the MPI is faster, beyond the margin.
    pub fn is_mpi_faster(&self, operation: Operation, bytes: u64) -> bool {
        let length = Length::of(bytes);
        let Some((tried, [wire, mpi])) = self.nearest(operation, length) else { return false };
        let is_far = length.0 >= tried.0 + MAX_DISTANCE_LOG;
        let margin_percent = if is_far { FAR_MARGIN_PERCENT } else { MARGIN_PERCENT };
        u128::from(mpi) * 100 < u128::from(wire) * u128::from(100 - margin_percent)
    }

    pub fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        let numbers = self.nanoseconds.as_flattened().as_flattened().iter().chain(&self.settled);
        bytes.chunks_exact_mut(8).zip(numbers).for_each(|(place, number)| place.copy_from_slice(&number.to_be_bytes()));
        bytes
    }

    pub fn decode(bytes: &[u8; BYTES]) -> CostTable {
        let mut prices = CostTable::default();
        let places = prices.nanoseconds.as_flattened_mut().as_flattened_mut().iter_mut().chain(&mut prices.settled);
        for (place, bytes) in places.zip(bytes.as_chunks().0) {
            *place = u64::from_be_bytes(*bytes);
        }
        prices
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    fn prices(tried: &[(u64, [u64; 2])]) -> CostTable {
        let mut prices = CostTable::default();
        tried.iter().for_each(|(bytes, both)| prices.note(Operation::Broadcast, Length::of(*bytes), *both));
        prices
    }

    #[test]
    fn a_length_stands_for_those_up_to_the_power_of_two() {
        let of = |bytes| Length::of(bytes).bytes() as u64;
        assert_eq!([0, 1, 256, 257, 64 * KIB].map(of), [256, 256, 256, 512, 64 * KIB]);
        assert_eq!([64 * KIB + 1, 16 << 20, u64::MAX].map(of), [128 * KIB, 16 << 20, 16 << 20]);
        assert_eq!(Length::of(1 << 20).quarter().map(Length::bytes), Some(1 << 18));
        assert_eq!(Length::of(512).quarter(), None);
    }

    #[test]
    fn the_mpi_has_the_lengths_at_which_it_is_clearly_faster() {
        // Faster at some lengths, where the network card segments the MPI's data, and slower again
        // beyond.
        let prices = prices(&[
            (256, [20_000, 80_000]),
            (64 * KIB, [400_000, 410_000]),
            (1 << 20, [6_800_000, 3_300_000]),
            (16 << 20, [53_000_000, 54_000_000]),
        ]);
        let is_mpi = |bytes| prices.is_mpi_faster(Operation::Broadcast, bytes);
        assert!(!is_mpi(1) && !is_mpi(64 * KIB) && is_mpi(1 << 20) && !is_mpi(16 << 20) && !is_mpi(1 << 30));
        assert!(!prices.is_mpi_faster(Operation::Gather, 1 << 20), "it was not tried");
        assert!(!CostTable::default().is_mpi_faster(Operation::Barrier, 0));
    }

    #[test]
    fn within_a_tenth_it_stays_on_the_wire() {
        assert!(!prices(&[(4 * KIB, [1000, 901])]).is_mpi_faster(Operation::Broadcast, 4096));
        assert!(prices(&[(4 * KIB, [1000, 899])]).is_mpi_faster(Operation::Broadcast, 4096));
    }

    #[test]
    fn far_beyond_what_was_tried_the_mpi_is_to_be_twice_as_fast() {
        let prices = prices(&[(KIB, [2_000, 900]), (16 * KIB, [10_000, 7_000])]);
        let is_mpi = |kibibytes: u64| prices.is_mpi_faster(Operation::Broadcast, kibibytes << 10);
        assert!(is_mpi(1) && is_mpi(16) && is_mpi(64) && !is_mpi(128) && !is_mpi(1 << 20));
        let is_shorter = prices.is_mpi_faster(Operation::Broadcast, 1);
        assert!(is_shorter, "what is shorter than all that was tried is as the shortest");
    }

    #[test]
    fn what_a_longer_call_takes_is_expected_in_proportion() {
        let prices = prices(&[(16 * KIB, [1_400_000, 10_000_000])]);
        let expected = |bytes| prices.expected(Operation::Broadcast, Length::of(bytes));
        assert_eq!(expected(64 * KIB), Some(40_000_000));
        assert_eq!(expected(KIB), Some(10_000_000));
        assert_eq!(prices.expected(Operation::Scatter, Length::of(KIB)), None);
    }

    #[test]
    fn what_one_communicator_knows_another_learns_but_for_what_it_has_tried_itself() {
        let mut own = prices(&[(256, [5, 9])]);
        let mut other = prices(&[(256, [7, 7]), (KIB, [3, 4])]);
        other.settle(Operation::Broadcast, Length::of(1 << 20));
        own.adopt(&other);
        assert_eq!(own.nearest(Operation::Broadcast, Length::of(1)), Some((Length::of(256), [5, 9])));
        assert_eq!(own.nearest(Operation::Broadcast, Length::of(KIB)), Some((Length::of(KIB), [3, 4])));
        assert!(own.is_settled(Operation::Broadcast, Length::of(1 << 20)));
        assert!(!own.is_settled(Operation::Broadcast, Length::of(1 << 19)));
        assert!(!own.is_settled(Operation::Gather, Length::of(256)));
    }

    #[test]
    fn all_ranks_have_the_same_numbers() {
        let mut sent = prices(&[(256, [1, 2]), (16 << 20, [u64::MAX, 7])]);
        sent.settle(Operation::Gather, Length::of(KIB));
        assert_eq!(CostTable::decode(&sent.encode()), sent);
    }
}
