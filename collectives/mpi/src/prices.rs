//! What a call takes by the wire and by the MPI itself: the same numbers on all ranks, and so the same decision.

use crate::settings::Operation;

/// Bytes of the calls that are tried, all blocks together.
pub const SIZES: [usize; 3] = [1 << 10, 16 << 10, 256 << 10];
/// Of a tenth more or less a trial says nothing.
const MARGIN_PERCENT: u64 = 10;
/// Far beyond what was tried it says little: where cables are slow, what they let pass at once hides what they take.
const FAR_MARGIN_PERCENT: u64 = 50;
/// So many times as long as the longest that was tried is far.
const FAR: u64 = 4;
/// Numbers in all, and bytes of them.
const NUMBERS: usize = Operation::ALL.len() * 2 * SIZES.len();
pub const BYTES: usize = NUMBERS * 8;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Wire,
    Mpi,
}

/// Nanoseconds by operation, way and size; 0 where nothing was tried. A barrier has no size, and uses the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prices([[[u64; SIZES.len()]; 2]; Operation::ALL.len()]);

impl Prices {
    /// Notes what a call of `SIZES[size]` bytes took.
    pub fn note(&mut self, operation: Operation, way: Way, size: usize, nanoseconds: u64) {
        self.0[operation as usize][way as usize][size] = nanoseconds.max(1);
    }

    /// What a call of so many bytes takes; `None` if the operation was not tried. Between two sizes that were tried
    /// on the line through both, beyond the longest on that of the last two, below the shortest as that.
    pub fn expected(&self, operation: Operation, way: Way, bytes: u64) -> Option<u64> {
        let tried: Vec<(u64, u64)> = SIZES
            .iter()
            .zip(self.0[operation as usize][way as usize])
            .map(|(&size, price)| (size as u64, price))
            .take_while(|(_, price)| *price > 0)
            .collect();
        let (&(least, price), &(most, longest)) = (tried.first()?, tried.last()?);
        if operation == Operation::Barrier || bytes <= least {
            return Some(price);
        }
        let lines = tried.windows(2);
        let Some(line) = lines.clone().find(|line| bytes <= line[1].0).or_else(|| lines.last()) else {
            return Some(scaled(longest, bytes, most));
        };
        let (below, above) = (line[0], line[1]);
        let rise = scaled(above.1.saturating_sub(below.1), bytes - below.0, above.0 - below.0);
        Some(below.1.saturating_add(rise))
    }

    /// Whether the MPI itself is faster, by more than chance.
    pub fn is_mpi_faster(&self, operation: Operation, bytes: u64) -> bool {
        let longest = self.longest(operation);
        let margin_percent = if bytes / FAR > longest { FAR_MARGIN_PERCENT } else { MARGIN_PERCENT };
        let is_faster = |bytes| {
            let of = |way| self.expected(operation, way, bytes);
            of(Way::Wire).zip(of(Way::Mpi)).is_some_and(|(wire, mpi)| mpi < scaled(wire, 100 - margin_percent, 100))
        };
        // Beyond the longest that was tried a line says nothing that this does not say, too.
        is_faster(bytes) && is_faster(bytes.min(longest))
    }

    /// The longest that was tried.
    fn longest(&self, operation: Operation) -> u64 {
        let tried = |size: &usize| self.0[operation as usize].iter().all(|prices| prices[*size] > 0);
        (0..SIZES.len()).take_while(tried).last().map_or(0, |size| SIZES[size] as u64)
    }

    /// As it is sent to all ranks.
    pub fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        let numbers = self.0.as_flattened().as_flattened();
        bytes.chunks_exact_mut(8).zip(numbers).for_each(|(place, number)| place.copy_from_slice(&number.to_be_bytes()));
        bytes
    }

    pub fn decode(bytes: &[u8; BYTES]) -> Prices {
        let mut prices = Prices::default();
        let places = prices.0.as_flattened_mut().as_flattened_mut();
        for (place, bytes) in places.iter_mut().zip(bytes.as_chunks().0) {
            *place = u64::from_be_bytes(*bytes);
        }
        prices
    }
}

/// `value` × `by` ÷ `of`, as far as there are numbers.
fn scaled(value: u64, by: u64, of: u64) -> u64 {
    u64::try_from(u128::from(value) * u128::from(by) / u128::from(of)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prices(wire: [u64; 3], mpi: [u64; 3]) -> Prices {
        let mut prices = Prices::default();
        for size in 0..3 {
            prices.note(Operation::Broadcast, Way::Wire, size, wire[size]);
            prices.note(Operation::Broadcast, Way::Mpi, size, mpi[size]);
        }
        prices
    }

    #[test]
    fn a_length_between_two_that_were_tried_lies_on_the_line_and_a_longer_one_beyond() {
        let of = |bytes| prices([1_000, 16_000, 256_000], [1; 3]).expected(Operation::Broadcast, Way::Wire, bytes);
        assert_eq!(of(1), Some(1_000));
        assert_eq!(of(1 << 10), Some(1_000));
        assert_eq!(of(17 << 9), Some(8_500), "halfway between 1 and 16 KiB");
        assert_eq!(of(256 << 10), Some(256_000));
        assert_eq!(of(496 << 10), Some(496_000));
        assert_eq!(of(u64::MAX).map(|price| price > 1 << 40), Some(true));
    }

    #[test]
    fn the_mpi_has_what_it_is_clearly_faster_at_and_the_wire_the_rest() {
        // Faster from 16 KiB on, where the network card cuts the MPI's segments.
        let prices = prices([20_000, 120_000, 1_900_000], [80_000, 100_000, 600_000]);
        let is_mpi = |bytes| prices.is_mpi_faster(Operation::Broadcast, bytes);
        assert!(!is_mpi(256) && !is_mpi(8 << 10) && is_mpi(16 << 10) && is_mpi(1 << 30));
        assert!(!prices.is_mpi_faster(Operation::Gather, 1 << 20), "it was not tried");
        assert!(!Prices::default().is_mpi_faster(Operation::Barrier, 0));
    }

    #[test]
    fn within_a_tenth_it_stays_on_the_wire() {
        assert!(!prices([1000; 3], [901; 3]).is_mpi_faster(Operation::Broadcast, 4096));
        assert!(prices([1000; 3], [899; 3]).is_mpi_faster(Operation::Broadcast, 4096));
    }

    #[test]
    fn far_beyond_what_was_tried_the_mpi_is_to_be_twice_as_fast() {
        let mut prices = Prices::default();
        for (size, [wire, mpi]) in [[2_000, 1_000], [10_000, 7_000]].into_iter().enumerate() {
            prices.note(Operation::Broadcast, Way::Wire, size, wire);
            prices.note(Operation::Broadcast, Way::Mpi, size, mpi);
        }
        let is_mpi = |kibibytes: u64| prices.is_mpi_faster(Operation::Broadcast, kibibytes << 10);
        assert!(is_mpi(16) && is_mpi(64) && !is_mpi(80) && !is_mpi(1 << 20));
    }

    #[test]
    fn a_line_that_crosses_beyond_what_was_tried_is_not_believed() {
        let prices = prices([1_000, 1_400, 30_000], [2_000, 2_100, 31_000]);
        assert_eq!(prices.expected(Operation::Broadcast, Way::Mpi, 1 << 40).map(|mpi| mpi > 0), Some(true));
        assert!(!prices.is_mpi_faster(Operation::Broadcast, 1 << 40));
    }

    #[test]
    fn a_trial_that_ended_early_is_scaled() {
        let mut prices = Prices::default();
        prices.note(Operation::Scatter, Way::Wire, 0, 5_000_000);
        prices.note(Operation::Scatter, Way::Mpi, 0, 400_000);
        assert_eq!(prices.expected(Operation::Scatter, Way::Wire, 10 << 10), Some(50_000_000));
        assert!(prices.is_mpi_faster(Operation::Scatter, 1 << 20));
        assert_eq!(Prices::decode(&prices.encode()), prices);
    }
}
