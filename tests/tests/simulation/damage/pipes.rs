//! A source that can be read only once: missing bytes come from a receiver that has kept them.

use super::scene::{Broken, Scene};
use ethbcast_collectives::session::Outcome;
use ethbcast_planning::plan::Via;
use ethbcast_tests::session::Case;
use ethbcast_transport::sim::Random;
use std::ops::Range;
use std::time::Duration;

const RECEIVERS: usize = 7;

fn pipe(via: Via, bytes: usize, broken: Broken) -> Scene {
    let mut case = Case { mtu_bytes: 1500, pipe: true, ..Case::new(via, RECEIVERS, bytes) }.with_feed(64);
    case.timing.patience = Duration::ZERO;
    Scene { case, broken, chance: 0.0, again: 0, loss: 0.0, lossy: None, keepers: None }
}

/// Draws a scene in which neighbours die: the host behind them loses many frames, and the bytes it
/// needs may exist only at the next one.
fn deaths(seed: u64) -> (Scene, Range<usize>, String) {
    let mut random = Random::new(seed);
    let via = [Via::Chain, Via::Chain, Via::Chain, Via::Binary, Via::Cast][random.below(5) as usize];
    let mut scene = pipe(via, 3_000_000, Broken::Card(1));
    let first = 2 + random.below(4) as usize;
    let dead = first..first + 2 + random.below(2) as usize;
    let at = Duration::from_millis(40 + random.below(60));
    scene.case.crashes = dead.clone().map(|host| (host, at)).collect();
    scene.lossy = Some(dead.end);
    let replay = format!("seed {seed}: {via}, {:?} die, n{} loses a third", scene.case.crashes, dead.end);
    (scene, dead, replay)
}

#[test]
fn when_relays_die_with_the_only_copy_the_others_get_it_from_who_has_kept_it() {
    let mut asked = 0;
    for seed in 0..150 {
        let (scene, dead, replay) = deaths(seed);
        let played = scene.play(seed, &replay);
        for (at, fate) in played.fates.iter().enumerate() {
            let right = *fate == Outcome::Delivered || (dead.contains(&(at + 1)) && *fate == Outcome::Silent);
            assert!(right, "{replay}: n{} {fate:?} {:?}", at + 1, played.words);
        }
        asked += u64::from(played.price.questions > 0);
        assert!(played.took < Duration::from_secs(4), "{replay}: {:?}", played.took);
    }
    assert!(asked > 15, "{asked} runs in which the only copy has died");
}

#[test]
fn when_nobody_has_kept_what_died_only_those_who_lack_it_are_lost_with_that_reason() {
    let mut lost = 0;
    for seed in 0..50 {
        let (scene, dead, replay) = deaths(seed);
        let played = Scene { keepers: Some(Vec::new()), ..scene }.play(seed, &replay);
        for ((at, fate), words) in played.fates.iter().enumerate().zip(&played.words) {
            match fate {
                Outcome::Lost if at + 1 >= dead.end => lost += 1,
                Outcome::Silent if dead.contains(&(at + 1)) => continue,
                fate => assert_eq!(*fate, Outcome::Delivered, "{replay}: n{} {words}", at + 1),
            }
            assert!(*fate == Outcome::Delivered || words.contains("a pipe"), "{replay}: {words}");
        }
    }
    assert!(lost > 5, "{lost}");
}

#[test]
fn what_came_damaged_out_of_a_pipe_comes_from_who_has_kept_it_and_else_fails_its_receiver_only() {
    for via in [Via::Chain, Via::Cast, Via::Binary] {
        for (keepers, fate) in [(vec![1, 7], Outcome::Delivered), (vec![], Outcome::Damaged)] {
            let mut scene = pipe(via, 400_000, Broken::Card(4));
            scene.chance = 0.03;
            scene.keepers = Some(keepers.clone());
            let replay = format!("{via}: n4 takes some frames badly, {keepers:?} keep what they have");
            let played = scene.play(3, &replay);
            // In a chain the hosts behind n4 have that damage, too.
            let behind = if via == Via::Chain { 4..8 } else { 4..5 };
            for (at, found) in played.fates.iter().enumerate() {
                let expected = if behind.contains(&(at + 1)) { fate } else { Outcome::Delivered };
                assert_eq!(*found, expected, "{replay}: n{} {:?}", at + 1, played.words);
            }
            assert!(played.price.damaged > 0, "{replay}");
            let told = played.words.iter().all(|words| words.is_empty() || words.contains("nobody else"));
            assert!(told, "{replay}: {:?}", played.words);
        }
    }
}
