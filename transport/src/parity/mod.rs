//! Parity frames: any lost frames of a block are recovered from as many of its parity frames.
//!
//! A systematic code over the field of 256 elements (Blömer et al. 1995: a Cauchy matrix, every
//! square part of which can be inverted). Of a block of K frames any K of its frames and parity
//! frames give all. Parity frame `index` is the sum of all frames, each times 1/(y + x) with x its
//! place in the block and y = 128 + `index`, and times 128 + x, which makes parity frame 0 the
//! plain exclusive or. All frames of a block have one length.

mod field;
mod products;
mod sum;

use field::{ORDER, logarithm, power};
use sum::{STRIPE_BYTES, Sum};

/// Longest block in frames, and most parity frames of a block: half of the field each.
pub(crate) const MAX_FRAMES: usize = 128;

/// Shortest block: below that repeating frames costs as little.
pub(crate) const MIN_FRAMES: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub place: u8,
    pub index: u8,
}

fn y(index: u8) -> u8 {
    MAX_FRAMES as u8 | index
}

fn factor(index: u8, place: u8) -> u8 {
    power(logarithm(y(0) ^ place) + ORDER - logarithm(y(index) ^ place))
}

fn stripes(bytes: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    (0..bytes).step_by(STRIPE_BYTES).map(move |from| from..bytes.min(from + STRIPE_BYTES))
}

pub(crate) fn write<'a>(index: u8, frames: usize, payload: impl Fn(usize) -> &'a [u8], parity: &mut [u8]) {
    let mut sum = Sum::new();
    for stripe in stripes(parity.len()) {
        (0..frames).for_each(|place| sum.add(factor(index, place as u8), &payload(place)[stripe.clone()]));
        sum.take(&mut parity[stripe]);
    }
}

/// Recovers the missing frames of a block in place: as many parity frames are `held` as frames are
/// missing, each in the slot of one. Frame `place` has `length` bytes from `starts[place]` on.
pub(crate) fn recover(bytes: &mut [u8], starts: &[usize], length: usize, held: &[Held]) {
    if held.is_empty() {
        return;
    }
    let inverse = inverse(held);
    let is_missing = |place: usize| held.iter().any(|held| usize::from(held.place) == place);
    let present: Vec<u8> = (0..starts.len()).filter(|&place| !is_missing(place)).map(|place| place as u8).collect();
    let mut sum = Sum::new();
    let mut syndromes = vec![0; held.len() * STRIPE_BYTES];
    for stripe in stripes(length) {
        let at = |place: u8| starts[usize::from(place)] + stripe.start..starts[usize::from(place)] + stripe.end;
        for (held, syndrome) in held.iter().zip(syndromes.chunks_exact_mut(STRIPE_BYTES)) {
            sum.add(1, &bytes[at(held.place)]);
            present.iter().for_each(|&place| sum.add(factor(held.index, place), &bytes[at(place)]));
            sum.take(&mut syndrome[..stripe.len()]);
        }
        for (row, missing) in inverse.chunks_exact(held.len()).zip(held) {
            let syndromes = syndromes.chunks_exact(STRIPE_BYTES);
            row.iter().zip(syndromes).for_each(|(&factor, syndrome)| sum.add(factor, &syndrome[..stripe.len()]));
            sum.take(&mut bytes[at(missing.place)]);
        }
    }
}

/// Returns the inverse of the missing frames' factors in the parity frames, a row for each missing
/// frame: Cauchy's formula.
fn inverse(held: &[Held]) -> Vec<u8> {
    // Products become sums of logarithms. No two frames or parity frames have one element, so no
    // factor is zero.
    let product = |element: u8, others: &dyn Fn(&Held) -> u8| -> usize {
        let differences = held.iter().map(|held| element ^ others(held)).filter(|&difference| difference != 0);
        differences.map(logarithm).sum()
    };
    let (xs, ys) = (|held: &Held| held.place, |held: &Held| y(held.index));
    let of = |element: u8, crossed: &dyn Fn(&Held) -> u8, own: &dyn Fn(&Held) -> u8| {
        product(element, crossed) % ORDER + ORDER - product(element, own) % ORDER
    };
    let rows: Vec<usize> =
        held.iter().map(|held| of(xs(held), &ys, &xs) + ORDER - logarithm(y(0) ^ held.place)).collect();
    let columns: Vec<usize> = held.iter().map(|held| of(ys(held), &xs, &ys)).collect();
    let entry = |row: usize, column: usize| {
        power(rows[row] + columns[column] + ORDER - logarithm(xs(&held[row]) ^ ys(&held[column])))
    };
    let each = |row: usize| (0..held.len()).map(move |column| (row, column));
    (0..held.len()).flat_map(each).map(|(row, column)| entry(row, column)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn block(frames: usize, length: usize, seed: u8) -> Vec<u8> {
        (0..frames * length).map(|at| (at as u8).wrapping_mul(31) ^ (at >> 8) as u8 ^ seed).collect()
    }

    fn parity(block: &[u8], length: usize, index: u8) -> Vec<u8> {
        let mut parity = vec![0xAA; length];
        write(index, block.len() / length, |place| &block[place * length..][..length], &mut parity);
        parity
    }

    fn comes_back(block: &[u8], length: usize, places: &[u8], indices: &[u8]) {
        let starts: Vec<usize> = (0..block.len() / length).map(|place| place * length).collect();
        let held: Vec<Held> = places.iter().zip(indices).map(|(&place, &index)| Held { place, index }).collect();
        let mut bytes = block.to_vec();
        for held in &held {
            bytes[starts[usize::from(held.place)]..][..length].copy_from_slice(&parity(block, length, held.index));
        }
        recover(&mut bytes, &starts, length, &held);
        assert!(bytes == block, "{held:?}");
    }

    #[test]
    fn whatever_is_lost_of_eight_frames_comes_back_by_any_eight_of_their_parity_frames() {
        let (length, indices) = (5, 0..8_u8);
        let block = block(8, length, 3);
        let subsets = |mask: u32| (0..8_u8).filter(move |bit| mask >> bit & 1 == 1).collect::<Vec<u8>>();
        for lost in 0..256_u32 {
            let with = (0..256_u32).filter(|mask| mask.count_ones() == lost.count_ones());
            with.for_each(|with| comes_back(&block, length, &subsets(lost), &subsets(with)));
        }
        let orders = [indices.clone().collect::<Vec<u8>>(), indices.rev().collect()];
        orders.iter().for_each(|order| comes_back(&block, length, &[0, 1, 2, 3, 4, 5, 6, 7], order));
    }

    #[test]
    fn the_first_parity_frame_is_the_exclusive_or_of_all() {
        let (frames, length) = (64, 300);
        let block = block(frames, length, 9);
        let plain = |at: usize| (0..frames).fold(0, |sum, place| sum ^ block[place * length + at]);
        assert_eq!(parity(&block, length, 0), (0..length).map(plain).collect::<Vec<u8>>());
    }

    #[test]
    fn the_worked_example_of_the_protocol_comes_out() {
        let block = [[1_u8, 0x80], [2, 0x40], [3, 0x20], [4, 0x10], [5, 8], [6, 4], [7, 2], [8, 1]].concat();
        let parities = [0, 1, 2].map(|index| parity(&block, 2, index));
        assert_eq!(parities, [[0x08, 0xff], [0x79, 0x3b], [0xd8, 0xde]], "docs/protocol/cast.md §7.14");
    }

    proptest! {
        #[test]
        fn what_is_lost_of_long_blocks_comes_back(
            frames in prop::sample::select(&[64_usize, 128][..]),
            lost in prop::collection::btree_set(0_u8..64, 1..40),
            length in 1_usize..600,
            (shift, first) in (0_u8..64, 0_u8..88),
        ) {
            let block = block(frames, length, shift);
            let places: Vec<u8> = lost.iter().map(|&place| place + if frames == 128 { shift } else { 0 }).collect();
            let indices: Vec<u8> = (first..).take(places.len()).map(|index| index % frames as u8).collect();
            comes_back(&block, length, &places, &indices);
        }
    }
}
