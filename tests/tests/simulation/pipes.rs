//! A pipe as the source: bytes that no host has any more cannot be sent again, and a host that
//! lacks them fails.

use ethbcast_collectives::session::{Outcome, Timing};
use ethbcast_planning::plan::Via;
use ethbcast_tests::session::{Case, play, star};
use ethbcast_transport::sim::RandomFaults;
use std::time::Duration;

#[test]
fn when_the_first_two_relays_die_who_lacks_what_they_had_is_lost_and_the_session_ends() {
    let mut lost = 0;
    for seed in 0..150 {
        let (stall, patience) = (Duration::from_secs(2), Duration::ZERO);
        let timing = Timing { stall, patience, ..Timing::default() };
        let mut case = Case { timing, mtu_bytes: 1500, pipe: true, ..Case::new(Via::Chain, 4, 1_200_000) };
        let at = Duration::from_millis(50 + seed / 3);
        case.crashes = vec![(1, at), (2, at)];
        let replay = format!("two relays of a pipe die, seed {seed}");
        let played = play(&case, &star(&case, 100_000_000), seed, RandomFaults::new(seed).loss(0.04), &replay);
        let ends = |fate: &Outcome| matches!(fate, Outcome::Delivered | Outcome::Lost | Outcome::Silent);
        assert!(played.fates.iter().all(ends), "{replay}: {:?} {:?}", played.fates, played.words);
        lost += played.fates[2..].iter().filter(|&&fate| fate == Outcome::Lost).count();
    }
    assert!(lost > 5, "{lost} were lost: the case is hardly met");
}
