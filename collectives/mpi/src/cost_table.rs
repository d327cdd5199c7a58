//! Table of an MPI call's time by length, which decides whether ethbcast or the MPI carries the
//! call. It is identical on all ranks, and so is the decision.

use crate::settings::Operation;

/// Exponents of the shortest and the longest length tried, all blocks together. Every power of two
/// between them is tried separately: the faster route changes more than once between 256 bytes and
/// 16 MiB.
const MIN_LOG: u32 = 8;
const MAX_LOG: u32 = 24;
const LENGTHS: usize = (MAX_LOG - MIN_LOG + 1) as usize;
/// Minimum gain in percent for the use of ethbcast; less is noise.
const MIN_GAIN_PERCENT: u64 = 10;
const NUMBERS: usize = Operation::ALL.len() * 2 * LENGTHS;
pub const BYTES: usize = NUMBERS * 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Wire,
    Mpi,
}

/// A length that is tried, and represents all calls of about as many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Length(usize);

impl Length {
    /// Returns the length for a call of `bytes` bytes: the next power of two. A barrier has the
    /// least.
    pub fn of(bytes: u64) -> Length {
        let log = bytes
            .clamp(1 << MIN_LOG, 1 << MAX_LOG)
            .next_power_of_two()
            .ilog2();
        Length((log - MIN_LOG) as usize)
    }

    pub fn bytes(self) -> usize {
        1 << (self.0 as u32 + MIN_LOG)
    }
}

/// Nanoseconds by operation, route and length, 0 where not tried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CostTable {
    nanoseconds: [[[u64; LENGTHS]; 2]; Operation::ALL.len()],
}

impl CostTable {
    pub fn note(&mut self, operation: Operation, length: Length, [wire, mpi]: [u64; 2]) {
        let of = &mut self.nanoseconds[operation as usize];
        (
            of[Way::Wire as usize][length.0],
            of[Way::Mpi as usize][length.0],
        ) = (wire.max(1), mpi.max(1));
    }

    /// Returns both times of a length, by the wire and by the MPI, if it was tried.
    pub fn prices(&self, operation: Operation, length: Length) -> Option<[u64; 2]> {
        let [wire, mpi] = &self.nanoseconds[operation as usize];
        (wire[length.0] > 0).then_some([wire[length.0], mpi[length.0]])
    }

    pub fn way(&self, operation: Operation, length: Length) -> Option<Way> {
        self.prices(operation, length).map(|[wire, mpi]| {
            let pays =
                u128::from(wire) * 100 <= u128::from(mpi) * u128::from(100 - MIN_GAIN_PERCENT);
            if pays { Way::Wire } else { Way::Mpi }
        })
    }

    pub fn adopt(&mut self, other: &CostTable) {
        for (own, theirs) in self.nanoseconds.iter_mut().zip(&other.nanoseconds) {
            for at in (0..LENGTHS).filter(|&at| theirs[0][at] > 0) {
                if own[0][at] == 0 {
                    (own[0][at], own[1][at]) = (theirs[0][at], theirs[1][at]);
                }
            }
        }
    }

    pub fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        let numbers = self.nanoseconds.as_flattened().as_flattened();
        bytes
            .chunks_exact_mut(8)
            .zip(numbers)
            .for_each(|(place, number)| place.copy_from_slice(&number.to_be_bytes()));
        bytes
    }

    pub fn decode(bytes: &[u8; BYTES]) -> CostTable {
        let mut prices = CostTable::default();
        let places = prices.nanoseconds.as_flattened_mut().as_flattened_mut();
        for (place, bytes) in places.iter_mut().zip(bytes.as_chunks().0) {
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
        tried
            .iter()
            .for_each(|(bytes, both)| prices.note(Operation::Broadcast, Length::of(*bytes), *both));
        prices
    }

    fn way(prices: &CostTable, bytes: u64) -> Option<Way> {
        prices.way(Operation::Broadcast, Length::of(bytes))
    }

    #[test]
    fn a_length_stands_for_those_up_to_the_power_of_two() {
        let of = |bytes| Length::of(bytes).bytes() as u64;
        assert_eq!(
            [0, 1, 256, 257, 64 * KIB].map(of),
            [256, 256, 256, 512, 64 * KIB]
        );
        assert_eq!(
            [64 * KIB + 1, 16 << 20, u64::MAX].map(of),
            [128 * KIB, 16 << 20, 16 << 20]
        );
    }

    #[test]
    fn the_wire_has_the_lengths_at_which_it_is_clearly_faster() {
        // Slower at some lengths, where the network card segments the MPI's data, and faster again
        // beyond.
        let prices = prices(&[
            (256, [20, 80]),
            (64 * KIB, [400, 410]),
            (KIB << 10, [68, 33]),
            (16 << 20, [53, 101]),
        ]);
        let ways = [1, 64 * KIB, KIB << 10, 16 << 20, 1 << 30].map(|bytes| way(&prices, bytes));
        assert_eq!(
            ways,
            [
                Some(Way::Wire),
                Some(Way::Mpi),
                Some(Way::Mpi),
                Some(Way::Wire),
                Some(Way::Wire)
            ]
        );
        assert_eq!(way(&prices, 4096), None, "it was not tried");
        assert_eq!(prices.way(Operation::Gather, Length::of(1)), None);
    }

    #[test]
    fn within_a_tenth_it_stays_with_the_mpi() {
        assert_eq!(
            way(&prices(&[(4 * KIB, [901, 1000])]), 4096),
            Some(Way::Mpi)
        );
        assert_eq!(
            way(&prices(&[(4 * KIB, [899, 1000])]), 4096),
            Some(Way::Wire)
        );
    }

    #[test]
    fn a_communicator_takes_over_anothers_results_except_for_lengths_it_has_tried_itself() {
        let mut own = prices(&[(256, [5, 9])]);
        own.adopt(&prices(&[(256, [7, 7]), (KIB, [3, 4])]));
        assert_eq!(own, prices(&[(256, [5, 9]), (KIB, [3, 4])]));
    }

    #[test]
    fn all_ranks_have_the_same_numbers() {
        let mut sent = prices(&[(256, [1, 2]), (16 << 20, [u64::MAX, 7])]);
        sent.note(Operation::Gather, Length::of(KIB), [0, 0]);
        assert_eq!(CostTable::decode(&sent.encode()), sent);
        assert_eq!(
            sent.prices(Operation::Gather, Length::of(KIB)),
            Some([1, 1])
        );
    }
}
