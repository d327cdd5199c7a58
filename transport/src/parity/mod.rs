//! Forward error correction: parity frames, each of which recovers one lost frame of its block.
//!
//! The code is systematic, over the field of 256 elements (Blömer et al. 1995: a Cauchy matrix,
//! every square part of which can be inverted). Of a block of K frames, any K of its frames and
//! parity frames give all. Parity frame `index` is the sum of all frames, each times 1/(y + x) with
//! x its place in the block and y = 128 + `index`, and times 128 + x, which makes parity frame 0
//! the plain exclusive or. All frames of a block have one length.
//!
//! Frames are multiplied and added one stripe at a time. If the machine looks up many bytes at
//! once, products are added directly (`products`). Otherwise a sum is kept as eight planes, one for
//! each power of x below eight. A frame is added, by exclusive or, to the planes of the powers in
//! its factor. The planes are combined once. So no table is looked up for each byte, and the
//! compiler vectorises it on every machine.

mod products;

/// Longest block in frames, and most parity frames of a block: half of the field each.
pub(crate) const MAX_FRAMES: usize = 128;

/// Shortest block: for shorter ones repeating frames costs no more.
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
    (0..bytes)
        .step_by(STRIPE_BYTES)
        .map(move |from| from..bytes.min(from + STRIPE_BYTES))
}

pub(crate) fn write<'a>(
    index: u8,
    frames: usize,
    payload: impl Fn(usize) -> &'a [u8],
    parity: &mut [u8],
) {
    let mut sum = Sum::new();
    for stripe in stripes(parity.len()) {
        (0..frames)
            .for_each(|place| sum.add(factor(index, place as u8), &payload(place)[stripe.clone()]));
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
    let present: Vec<u8> = (0..starts.len())
        .filter(|&place| !is_missing(place))
        .map(|place| place as u8)
        .collect();
    let mut sum = Sum::new();
    let mut syndromes = vec![0; held.len() * STRIPE_BYTES];
    for stripe in stripes(length) {
        let at = |place: u8| {
            starts[usize::from(place)] + stripe.start..starts[usize::from(place)] + stripe.end
        };
        for (held, syndrome) in held.iter().zip(syndromes.chunks_exact_mut(STRIPE_BYTES)) {
            sum.add(1, &bytes[at(held.place)]);
            present
                .iter()
                .for_each(|&place| sum.add(factor(held.index, place), &bytes[at(place)]));
            sum.take(&mut syndrome[..stripe.len()]);
        }
        for (row, missing) in inverse.chunks_exact(held.len()).zip(held) {
            let syndromes = syndromes.chunks_exact(STRIPE_BYTES);
            row.iter()
                .zip(syndromes)
                .for_each(|(&factor, syndrome)| sum.add(factor, &syndrome[..stripe.len()]));
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
        let differences = held
            .iter()
            .map(|held| element ^ others(held))
            .filter(|&difference| difference != 0);
        differences.map(logarithm).sum()
    };
    let (xs, ys) = (|held: &Held| held.place, |held: &Held| y(held.index));
    let of = |element: u8, crossed: &dyn Fn(&Held) -> u8, own: &dyn Fn(&Held) -> u8| {
        product(element, crossed) % ORDER + ORDER - product(element, own) % ORDER
    };
    let rows: Vec<usize> = held
        .iter()
        .map(|held| of(xs(held), &ys, &xs) + ORDER - logarithm(y(0) ^ held.place))
        .collect();
    let columns: Vec<usize> = held.iter().map(|held| of(ys(held), &xs, &ys)).collect();
    let entry = |row: usize, column: usize| {
        power(rows[row] + columns[column] + ORDER - logarithm(xs(&held[row]) ^ ys(&held[column])))
    };
    let each = |row: usize| (0..held.len()).map(move |column| (row, column));
    (0..held.len())
        .flat_map(each)
        .map(|(row, column)| entry(row, column))
        .collect()
}

/// Lower terms of the polynomial: x⁸ modulo the polynomial.
const REDUCED: u8 = 0x1D;

const ORDER: usize = 255;

const LOGARITHMS: [u8; 256] = {
    let (mut logarithms, mut power, mut at) = ([0; 256], 1_u8, 0);
    while at < ORDER {
        logarithms[power as usize] = at as u8;
        power = doubled(power);
        at += 1;
    }
    logarithms
};

const POWERS: [u8; ORDER] = {
    let (mut powers, mut power, mut at) = ([0; ORDER], 1_u8, 0);
    while at < ORDER {
        powers[at] = power;
        power = doubled(power);
        at += 1;
    }
    powers
};

const fn doubled(element: u8) -> u8 {
    (element << 1) ^ if element & 0x80 == 0 { 0 } else { REDUCED }
}

fn logarithm(element: u8) -> usize {
    debug_assert_ne!(element, 0, "zero has no logarithm");
    usize::from(LOGARITHMS[usize::from(element)])
}

fn power(exponent: usize) -> u8 {
    POWERS[exponent % ORDER]
}

/// Bytes of a frame that are summed at a time: eight planes of them stay in the first cache.
const STRIPE_BYTES: usize = 256;

type Plane = [u8; STRIPE_BYTES];

struct Sum {
    planes: [Plane; 8],
    used: u8,
    by_products: bool,
}

impl Sum {
    fn new() -> Sum {
        Sum {
            planes: [[0; STRIPE_BYTES]; 8],
            used: 0,
            by_products: products::are_fast(),
        }
    }

    fn add(&mut self, factor: u8, stripe: &[u8]) {
        if self.by_products {
            self.used = 1;
            return products::add(&mut self.planes[0], factor, stripe);
        }
        self.used |= factor;
        for (bit, plane) in self.planes.iter_mut().enumerate() {
            if factor >> bit & 1 == 1 {
                add(plane, stripe);
            }
        }
    }

    fn take(&mut self, stripe: &mut [u8]) {
        stripe.fill(0);
        for (bit, plane) in self.planes.iter_mut().enumerate().rev() {
            if self.used >> bit > 1 {
                stripe.iter_mut().for_each(|byte| *byte = doubled(*byte));
            }
            if self.used >> bit & 1 == 1 {
                add(stripe, &plane[..]);
                plane.fill(0);
            }
        }
        self.used = 0;
    }
}

fn add(sum: &mut [u8], stripe: &[u8]) {
    sum.iter_mut()
        .zip(stripe)
        .for_each(|(byte, added)| *byte ^= added);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn block(frames: usize, length: usize, seed: u8) -> Vec<u8> {
        (0..frames * length)
            .map(|at| (at as u8).wrapping_mul(31) ^ (at >> 8) as u8 ^ seed)
            .collect()
    }

    fn parity(block: &[u8], length: usize, index: u8) -> Vec<u8> {
        let mut parity = vec![0xAA; length];
        write(
            index,
            block.len() / length,
            |place| &block[place * length..][..length],
            &mut parity,
        );
        parity
    }

    fn comes_back(block: &[u8], length: usize, places: &[u8], indices: &[u8]) {
        let starts: Vec<usize> = (0..block.len() / length)
            .map(|place| place * length)
            .collect();
        let held: Vec<Held> = places
            .iter()
            .zip(indices)
            .map(|(&place, &index)| Held { place, index })
            .collect();
        let mut bytes = block.to_vec();
        for held in &held {
            bytes[starts[usize::from(held.place)]..][..length]
                .copy_from_slice(&parity(block, length, held.index));
        }
        recover(&mut bytes, &starts, length, &held);
        assert!(bytes == block, "{held:?}");
    }

    #[test]
    fn any_losses_of_eight_frames_are_recovered_from_any_eight_of_their_parity_frames() {
        let (length, indices) = (5, 0..8_u8);
        let block = block(8, length, 3);
        let subsets = |mask: u32| {
            (0..8_u8)
                .filter(move |bit| mask >> bit & 1 == 1)
                .collect::<Vec<u8>>()
        };
        for lost in 0..256_u32 {
            let with = (0..256_u32).filter(|mask| mask.count_ones() == lost.count_ones());
            with.for_each(|with| comes_back(&block, length, &subsets(lost), &subsets(with)));
        }
        let orders = [
            indices.clone().collect::<Vec<u8>>(),
            indices.rev().collect(),
        ];
        orders
            .iter()
            .for_each(|order| comes_back(&block, length, &[0, 1, 2, 3, 4, 5, 6, 7], order));
    }

    #[test]
    fn the_first_parity_frame_is_the_exclusive_or_of_all() {
        let (frames, length) = (64, 300);
        let block = block(frames, length, 9);
        let plain = |at: usize| (0..frames).fold(0, |sum, place| sum ^ block[place * length + at]);
        assert_eq!(
            parity(&block, length, 0),
            (0..length).map(plain).collect::<Vec<u8>>()
        );
    }

    #[test]
    fn the_worked_example_of_the_protocol_comes_out() {
        let block = [
            [1_u8, 0x80],
            [2, 0x40],
            [3, 0x20],
            [4, 0x10],
            [5, 8],
            [6, 4],
            [7, 2],
            [8, 1],
        ]
        .concat();
        let parities = [0, 1, 2].map(|index| parity(&block, 2, index));
        assert_eq!(
            parities,
            [[0x08, 0xff], [0x79, 0x3b], [0xd8, 0xde]],
            "docs/protocol/cast.md §7.14"
        );
    }

    proptest! {
        #[test]
        fn losses_of_long_blocks_are_recovered(
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

    #[test]
    fn powers_and_logarithms_undo_each_other_and_reach_every_element_but_zero() {
        assert!((1..=255).all(|element| power(logarithm(element)) == element));
        assert_eq!(
            (power(0), power(1), power(8), power(ORDER)),
            (1, 2, REDUCED, 1)
        );
    }

    #[test]
    fn a_product_by_logarithms_is_the_product_of_polynomials() {
        let product = |a: u8, b: u8| {
            let shifted = std::iter::successors(Some(a), |&element| Some(doubled(element)));
            shifted
                .take(8)
                .enumerate()
                .filter(|(bit, _)| b >> bit & 1 == 1)
                .fold(0, |sum, (_, term)| sum ^ term)
        };
        for a in 1..=255 {
            assert!(
                (1..=255).all(|b| power(logarithm(a) + logarithm(b)) == product(a, b)),
                "{a}"
            );
        }
    }

    #[test]
    fn a_sum_is_that_of_the_products_and_the_next_begins_at_zero() {
        for by_products in [false, true] {
            check(Sum {
                by_products,
                ..Sum::new()
            });
        }
    }

    fn check(mut sum: Sum) {
        let stripe: Vec<u8> = (0..=255).collect();
        let mut taken = [7; STRIPE_BYTES];
        sum.take(&mut taken);
        assert_eq!(taken, [0; STRIPE_BYTES], "a sum of nothing");
        for factor in 1..=255_u8 {
            sum.add(factor, &stripe);
            sum.add(1, &stripe[..100]);
            sum.take(&mut taken);
            let product = |byte: u8| {
                if byte == 0 {
                    0
                } else {
                    power(logarithm(factor) + logarithm(byte))
                }
            };
            let expected = |byte: u8| product(byte) ^ if byte < 100 { byte } else { 0 };
            assert!(
                stripe
                    .iter()
                    .all(|&byte| taken[usize::from(byte)] == expected(byte)),
                "{factor}"
            );
        }
    }
}
