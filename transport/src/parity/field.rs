//! The field of 256 elements, as polynomials over two modulo x⁸ + x⁴ + x³ + x² + 1, in which x generates all but zero.

/// Lower terms of the polynomial: x⁸ modulo the polynomial.
pub(super) const REDUCED: u8 = 0x1D;

pub(super) const ORDER: usize = 255;

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

pub(super) const fn doubled(element: u8) -> u8 {
    (element << 1) ^ if element & 0x80 == 0 { 0 } else { REDUCED }
}

pub(super) fn logarithm(element: u8) -> usize {
    debug_assert_ne!(element, 0, "zero has no logarithm");
    usize::from(LOGARITHMS[usize::from(element)])
}

pub(super) fn power(exponent: usize) -> u8 {
    POWERS[exponent % ORDER]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_and_logarithms_undo_each_other_and_reach_every_element_but_zero() {
        assert!((1..=255).all(|element| power(logarithm(element)) == element));
        assert_eq!((power(0), power(1), power(8), power(ORDER)), (1, 2, REDUCED, 1));
    }

    #[test]
    fn a_product_by_logarithms_is_the_product_of_polynomials() {
        let product = |a: u8, b: u8| {
            let shifted = std::iter::successors(Some(a), |&element| Some(doubled(element)));
            shifted.take(8).enumerate().filter(|(bit, _)| b >> bit & 1 == 1).fold(0, |sum, (_, term)| sum ^ term)
        };
        for a in 1..=255 {
            assert!((1..=255).all(|b| power(logarithm(a) + logarithm(b)) == product(a, b)), "{a}");
        }
    }
}
