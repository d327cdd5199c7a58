//! One receiver is slower than the others: effects on the others by its degree of slowness.

mod scene;

use ethbcast_planning::plan::Via;
use ethbcast_tests::in_full;
use ethbcast_transport::sim::Random;
use scene::{Scene, Short};
use std::time::Duration;

/// 25 s on the cables of these sessions.
const LONG_BYTES: usize = 29_000_000;

/// 7 s: long enough to demote a slow receiver.
const SHORT_BYTES: usize = 8_000_000;

/// Checks, for each way of being slow, that the slow receiver alone is demoted, and that the others
/// complete within 1.15 of their time without a slow one, which is equal for all `ways`.
fn is_put_aside(scene: Scene, ways: impl IntoIterator<Item = (Short, u64)>) {
    let undisturbed = scene.undisturbed().play();
    assert!(undisturbed.aside.is_empty(), "{scene:?}: {:?}", undisturbed.aside);
    for (short, percent) in ways {
        let scene = Scene { short, percent, ..scene };
        let story = scene.play();
        let aside: Vec<usize> = story.aside.iter().map(|&(host, ..)| host).collect();
        assert_eq!(aside, Vec::from_iter(scene.slow), "{scene:?}: {:?}", story.aside);
        let (others, most) = (story.others, undisturbed.others.mul_f64(1.15));
        println!("{scene:?}: {:.3}", others.as_secs_f64() / undisturbed.others.as_secs_f64());
        assert!(others <= most, "{scene:?}: {others:?} instead of {:?}: {:?}", undisturbed.others, story.aside);
    }
}

fn even(via: Via, receivers: usize, bytes: usize) -> Scene {
    Scene { via, receivers, bytes, slow: None, short: Short::Disk, percent: 100, seed: 1 }
}

#[test]
fn in_a_chain_the_others_do_not_wait_for_a_receiver_of_half_their_rate_or_less() {
    for (receivers, slow) in [(7, 4), (3, 2), (7, 1), (15, 15)].into_iter().take(in_full(2, 4)) {
        let ways = [Short::Disk, Short::Cpu, Short::Turns, Short::Cable].map(|short| [(short, 10), (short, 50)]);
        // A receiver that relays nothing catches up in each of its turns.
        let is_slow = |(short, _): &(Short, u64)| *short != Short::Turns || slow < receivers;
        let scene = Scene { slow: Some(slow), ..even(Via::Chain, receivers, LONG_BYTES) };
        is_put_aside(scene, ways.into_iter().flatten().filter(is_slow));
    }
}

#[test]
fn in_a_cast_the_others_do_not_wait_for_a_receiver_of_half_their_rate_or_less() {
    for (receivers, slow) in [(7, 4), (3, 1), (15, 15)].into_iter().take(in_full(2, 3)) {
        let ways = [
            (Short::Disk, 10),
            (Short::Disk, 50),
            // Group frames cost time at a slow host, too.
            (Short::Cpu, 25),
            (Short::Cpu, 50),
            (Short::Cable, 10),
            (Short::Cable, 50),
        ];
        is_put_aside(Scene { slow: Some(slow), ..even(Via::Cast, receivers, LONG_BYTES) }, ways);
    }
}

#[test]
fn in_a_tree_that_is_planned_anew_the_others_do_not_wait_either() {
    for (via, receivers, slow) in [(Via::Binary, 7, 1), (Via::Binary, 14, 2), (Via::Kary(3), 13, 2)] {
        let scene = Scene { slow: Some(slow), ..even(via, receivers, LONG_BYTES / 2) };
        is_put_aside(scene, [(Short::Disk, 10), (Short::Cable, 10)]);
    }
}

/// Checks that no receiver is demoted if each has at least nine tenths of the others' rate.
fn nobody_is_put_aside(seeds: impl Iterator<Item = u64>) {
    const VIAS: [Via; 4] = [Via::Chain, Via::Chain, Via::Cast, Via::Binary];
    const SHORTS: [Short; 4] = [Short::Disk, Short::Cpu, Short::Turns, Short::Cable];
    for seed in seeds {
        let mut random = Random::new(seed);
        let via = VIAS[random.below(4) as usize];
        let receivers = 3 + random.below(13) as usize;
        let slow = Some(1 + random.below(receivers as u64) as usize);
        let short = SHORTS[random.below(4) as usize];
        let percent = 90 + random.below(11);
        let scene = Scene { via, receivers, bytes: SHORT_BYTES, slow, short, percent, seed };
        let story = scene.play();
        assert!(story.aside.is_empty(), "{scene:?}: {:?}", story.aside);
        assert!(story.others < Duration::from_secs(30), "{scene:?}: {:?}", story.others);
    }
}

#[test]
fn whoever_has_nine_tenths_of_the_rate_is_never_put_aside() {
    nobody_is_put_aside((0..200).step_by(in_full(8, 2)));
}

#[test]
fn nor_is_it_with_other_seeds() {
    nobody_is_put_aside((1..200).step_by(in_full(8, 2)));
}

#[test]
fn where_a_relay_is_out_of_the_way_and_others_have_more_of_a_link_nobody_else_is_taken_for_slow() {
    for (receivers, slow) in [(3, 1), (7, 1), (7, 3), (7, 7)] {
        let (via, slow, short) = (Via::Binary, Some(slow), Short::Cable);
        let scene = Scene { via, receivers, bytes: 2 * SHORT_BYTES, slow, short, percent: 10, seed: 1 };
        let aside: Vec<usize> = scene.play().aside.iter().map(|&(host, ..)| host).collect();
        assert_eq!(aside, Vec::from_iter(slow), "{scene:?}");
    }
}
