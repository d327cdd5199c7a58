//! A scenario drawn from a seed.

mod hosts;
mod troubles;

use ethbcast_transport::sim::Random;

use super::Class;
use super::scenario::Scenario;
use super::stage::Terms;
use hosts::Hosts;

const VIAS: [&str; 3] = ["chain", "cast", "binary"];
const RATE_BITS_PER_SECOND: u64 = 100_000_000;
const BYTES: std::ops::Range<u64> = 1 << 20..16 << 20;

impl Scenario {
    /// Draws the scenario of a seed; its first trouble is of class `only`, if given.
    pub fn draw(seed: u64, only: Option<Class>, terms: &Terms) -> Self {
        let mut random = Random::new(seed ^ 0xc4a0_5c4a_05c4_a05c);
        let via = pick(&mut random, &VIAS);
        let bytes = BYTES.start + random.below(BYTES.end - BYTES.start + 1);
        let rate_bits_per_second = random.chance(0.7).then_some(RATE_BITS_PER_SECOND);
        let drawn = pick(&mut random, &Class::ALL);
        let mut scenario =
            Self { seed, only, via, bytes, rate_bits_per_second, late: random.chance(0.25), troubles: Vec::new() };
        let mut hosts = Hosts::all();
        let first = only.unwrap_or(drawn);
        scenario.troubles.push(troubles::draw(first, &scenario, terms, &mut hosts, &mut random));
        // The outcome of two senders with another trouble has no simple promise.
        if first != Class::Operators && hosts.count() > 0 && random.chance(0.5) {
            let second = pick(&mut random, &Class::ALL);
            if second != first && second != Class::Operators {
                scenario.troubles.push(troubles::draw(second, &scenario, terms, &mut hosts, &mut random));
            }
        }
        scenario
    }
}

fn pick<T: Copy>(random: &mut Random, of: &[T]) -> T {
    of[random.below(of.len() as u64) as usize]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const TERMS: Terms = Terms {
        stall: Duration::from_secs(4),
        patience: Duration::from_secs(6),
        send_wait: Duration::from_secs(6),
        receive_wait: Duration::from_secs(15),
        slack: 1.0,
    };

    #[test]
    fn a_seed_says_all_and_every_class_is_drawn_often() {
        let mut drawn = [0; Class::ALL.len()];
        for seed in 0..1100 {
            let scenario = Scenario::draw(seed, None, &TERMS);
            assert_eq!(scenario.to_string(), Scenario::draw(seed, None, &TERMS).to_string());
            assert!((1..=2).contains(&scenario.troubles.len()), "{scenario}");
            scenario.troubles.iter().for_each(|trouble| drawn[trouble.class as usize] += 1);
        }
        assert!(drawn.iter().all(|&times| times > 60), "{drawn:?}");
    }

    #[test]
    fn the_class_that_is_asked_for_comes_first() {
        for (seed, class) in (0..110).zip(Class::ALL.into_iter().cycle()) {
            assert_eq!(Scenario::draw(seed, Some(class), &TERMS).troubles[0].class, class);
        }
    }

    #[test]
    fn no_host_has_two_troubles_of_its_own() {
        for seed in 0..1000 {
            let scenario = Scenario::draw(seed, None, &TERMS);
            let [first, second] = &scenario.troubles[..] else { continue };
            let both = first.marred.iter().filter(|(host, _)| second.marred.iter().any(|(other, _)| other == host));
            assert_eq!(both.count(), 0, "{scenario}");
        }
    }
}
