//! Sums of frames times elements of the field, a stripe at a time.
//!
//! If the machine looks up many bytes at once, products are added directly (`products`). Otherwise
//! a sum is kept as eight planes, one for each power of x below eight: a frame is added to those
//! planes that its factor names, by exclusive or only, and the planes are combined once. So no
//! table is looked up for each byte, and the compiler vectorises it on every machine.

use super::field::doubled;
use super::products;

/// Bytes of a frame that are summed at a time: eight planes of them stay in the first cache.
pub(super) const STRIPE_BYTES: usize = 256;

type Plane = [u8; STRIPE_BYTES];

pub(super) struct Sum {
    planes: [Plane; 8],
    used: u8,
    by_products: bool,
}

impl Sum {
    pub(super) fn new() -> Sum {
        Sum { planes: [[0; STRIPE_BYTES]; 8], used: 0, by_products: products::are_fast() }
    }

    pub(super) fn add(&mut self, factor: u8, stripe: &[u8]) {
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

    pub(super) fn take(&mut self, stripe: &mut [u8]) {
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
    sum.iter_mut().zip(stripe).for_each(|(byte, added)| *byte ^= added);
}

#[cfg(test)]
mod tests {
    use super::super::field::{logarithm, power};
    use super::*;

    #[test]
    fn a_sum_is_that_of_the_products_and_the_next_begins_at_zero() {
        for by_products in [false, true] {
            check(Sum { by_products, ..Sum::new() });
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
            let product = |byte: u8| if byte == 0 { 0 } else { power(logarithm(factor) + logarithm(byte)) };
            let expected = |byte: u8| product(byte) ^ if byte < 100 { byte } else { 0 };
            assert!(stripe.iter().all(|&byte| taken[usize::from(byte)] == expected(byte)), "{factor}");
        }
    }
}
