//! Random numbers of the network simulator: xoshiro256++ (Blackman and Vigna 2021), seeded through
//! splitmix64.

/// A small, fast, seeded generator with equal numbers on every platform. Not for secrets.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    pub fn new(seed: u64) -> Self {
        let mut mixer = seed;
        Random { state: std::array::from_fn(|_| splitmix(&mut mixer)) }
    }

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
        assert!(bound > 0, "there is no number below zero: ask for a bound of at least 1");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a number in `[0, 1)` with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

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
        let mut random = Random { state: [1, 2, 3, 4] };
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
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
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
