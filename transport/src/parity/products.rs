//! Fast Galois-field multiplication for parity frames: SIMD lookups in 4-bit tables. (Plank,
//! Greenan and Miller, *Screaming Fast Galois Field Arithmetic Using Intel SIMD Instructions*, FAST
//! 2013.)

use super::doubled;

#[derive(Clone, Copy)]
struct Products {
    low: [u8; 16],
    high: [u8; 16],
}

impl Products {
    const fn of(factor: u8) -> Products {
        let mut products = Products {
            low: [0; 16],
            high: [0; 16],
        };
        let mut bit = 0;
        let mut power = factor;
        while bit < 8 {
            let table = if bit < 4 {
                &mut products.low
            } else {
                &mut products.high
            };
            let mut entry = 0;
            while entry < 16 {
                if entry >> (bit % 4) & 1 == 1 {
                    table[entry] ^= power;
                }
                entry += 1;
            }
            power = doubled(power);
            bit += 1;
        }
        products
    }

    fn of_byte(&self, byte: u8) -> u8 {
        self.low[usize::from(byte & 15)] ^ self.high[usize::from(byte >> 4)]
    }
}

static PRODUCTS: [Products; 256] = {
    let mut all = [Products::of(0); 256];
    let mut factor = 0;
    while factor < 256 {
        all[factor] = Products::of(factor as u8);
        factor += 1;
    }
    all
};

pub(super) fn are_fast() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx2");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// Adds `factor` times `stripe` to `sum`, as many bytes as both have. Slow unless [`are_fast`].
pub(super) fn add(sum: &mut [u8], factor: u8, stripe: &[u8]) {
    let products = &PRODUCTS[usize::from(factor)];
    #[cfg(target_arch = "x86_64")]
    if are_fast() {
        // SAFETY: the processor has AVX2.
        #[allow(unsafe_code)]
        unsafe {
            return avx2::add(sum, products, stripe);
        }
    }
    sum.iter_mut()
        .zip(stripe)
        .for_each(|(sum, &byte)| *sum ^= products.of_byte(byte));
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::Products;
    use std::arch::x86_64::{
        __m128i, __m256i, _mm256_and_si256, _mm256_broadcastsi128_si256, _mm256_set1_epi8,
        _mm256_shuffle_epi8, _mm256_srli_epi16, _mm256_xor_si256,
    };
    use zerocopy::transmute;

    const BYTES: usize = size_of::<__m256i>();

    #[target_feature(enable = "avx2")]
    pub(super) fn add(sum: &mut [u8], products: &Products, stripe: &[u8]) {
        let (low, high): (__m128i, __m128i) = (transmute!(products.low), transmute!(products.high));
        let [low, high] = [low, high].map(|table| _mm256_broadcastsi128_si256(table));
        let half = _mm256_set1_epi8(15);
        let (sums, rest) = sum.as_chunks_mut::<BYTES>();
        let (stripes, left) = stripe.as_chunks::<BYTES>();
        let whole = sums.len().min(stripes.len());
        for (sum, stripe) in sums[..whole].iter_mut().zip(&stripes[..whole]) {
            let (before, bytes): (__m256i, __m256i) = (transmute!(*sum), transmute!(*stripe));
            let of_low = _mm256_shuffle_epi8(low, _mm256_and_si256(bytes, half));
            let of_high =
                _mm256_shuffle_epi8(high, _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), half));
            *sum = transmute!(_mm256_xor_si256(before, _mm256_xor_si256(of_low, of_high)));
        }
        let (sum, stripe) = match (sums.get_mut(whole), stripes.get(whole)) {
            (Some(sum), None) => (&mut sum[..], left),
            (None, Some(stripe)) => (rest, &stripe[..]),
            _ => (rest, left),
        };
        sum.iter_mut()
            .zip(stripe)
            .for_each(|(sum, &byte)| *sum ^= products.of_byte(byte));
    }
}
