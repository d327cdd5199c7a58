//! Loss, deaths, latecomers, and holdings that differ from their announcement.

use super::scene::{CHUNK, Have, Scene};
use ethbcast_collectives::session::verified::ChunkSize;
use ethbcast_collectives::session::{Needs, Outcome};
use ethbcast_planning::plan::Via;
use ethbcast_tests::session::{Absence, Case, data};
use ethbcast_transport::sim::Random;
use std::sync::Arc;
use std::time::Duration;

fn case(via: Via, receivers: usize, bytes: usize) -> Case {
    Case { mtu_bytes: 1500, ..Case::new(via, receivers, bytes).with_feed(128) }
}

fn some(content: &Arc<[u8]>, hosts: usize, random: &mut Random) -> Vec<Option<Have>> {
    let chunks = content.len().div_ceil(CHUNK) as u64;
    let hosts = 0..hosts;
    let one = |_| {
        let holes = random.below(4);
        let mut have = Have::new(content);
        for _ in 0..holes {
            let from = random.below(chunks) as usize;
            have = have.without(from..from + 1 + random.below(chunks / 3 + 1) as usize);
        }
        (random.below(4) > 0).then_some(have)
    };
    hosts.map(one).collect()
}

#[test]
fn whoever_claims_more_than_it_has_costs_itself_only_those_chunks() {
    let content: Arc<[u8]> = data(40 * CHUNK, 1).into();
    let have = || Have::new(&content);
    let liar = have().without(5..9).lying();
    let changing = have().changing_after(30);
    let scene = Scene::new(
        case(Via::Chain, 3, content.len()),
        Arc::clone(&content),
        vec![Some(liar), Some(changing), Some(have())],
    );
    let played = scene.play(1, "lies");
    assert_eq!(played.fates, [Outcome::Delivered; 3]);
    assert_eq!(played.price.pieces, (4 + 10) * CHUNK as u64, "four that are not there, ten that have changed");
    assert!(played.damages.is_empty() && played.price.data < CHUNK as u64, "{played:?}");
}

fn chunk(seed: u64) -> ChunkSize {
    ChunkSize::of_bytes(1 << (14 + seed % 4)).expect("from 16 to 128 KiB")
}

#[test]
fn any_loss_delays_and_changes_nothing() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let via = [Via::Chain, Via::Cast, Via::Binary][seed as usize % 3];
        let content: Arc<[u8]> = data(CHUNK + random.below(2_000_000) as usize, seed).into();
        let receivers = 2 + random.below(4) as usize;
        let have = some(&content, receivers, &mut random);
        let loss = random.unit() * 0.1;
        let replay = format!("seed {seed}");
        let scene = Scene::new(case(via, receivers, content.len()), content, have);
        let played = Scene { loss, chunk: chunk(seed), ..scene }.play(seed, &replay);
        assert_eq!(played.fates, vec![Outcome::Delivered; receivers], "{replay}");
        assert!(played.damages.is_empty(), "{replay}");
    }
}

#[test]
fn the_others_get_theirs_when_some_die_and_who_steps_aside_gets_its_own() {
    for seed in 0..20 {
        let mut random = Random::new(seed ^ 0xdead);
        let via = [Via::Chain, Via::Cast, Via::Binary][seed as usize % 3];
        let content: Arc<[u8]> = data(3_000_000, seed).into();
        let receivers = 5;
        let have = some(&content, receivers, &mut random);
        let moment = || Duration::from_micros(200_000 + 100) + Duration::from_micros(seed * 1300);
        let absence = Absence { host: 2, from: moment(), lasts: Duration::from_secs(3), paused: seed % 2 == 0 };
        let case = Case {
            crashes: vec![(4, moment() - Duration::from_millis(200))],
            absences: vec![absence],
            ..case(via, receivers, 3_000_000)
        };
        let scene = Scene { chunk: chunk(seed), ..Scene::new(case, content, have) };
        let played = scene.play(seed, &format!("seed {seed}"));
        let here = played.fates.iter().filter(|fate| **fate == Outcome::Delivered).count();
        assert!(here >= 4, "seed {seed}: {:?}", played.fates);
    }
}

#[test]
fn who_comes_late_fetches_what_was_not_sent() {
    let content: Arc<[u8]> = data(1000 * CHUNK, 3).into();
    let most = || Some(Have::new(&content).without(10..900));
    let have = vec![most(), most(), None];
    let late = (1, Duration::from_millis(210));
    let case = Case { late, ..case(Via::Chain, 2, content.len()) };
    let played = Scene::new(case, content, have).play(1, "late");
    assert_eq!(played.fates, [Outcome::Delivered; 3]);
    assert_eq!(played.price.pieces, 110 * CHUNK as u64, "what the two had");
}

#[test]
fn words_in_a_members_name_cost_bytes_of_the_content_at_most_and_nothing_else() {
    let content: Arc<[u8]> = data(30 * CHUNK, 3).into();
    let have = (0..3).map(|_| Some(Have::new(&content))).collect();
    let mut scene = Scene::new(case(Via::Chain, 3, content.len()), Arc::clone(&content), have);
    // All of it, nothing of it, sets of other stretches, no sets.
    let sets =
        [(0, vec![1, 0, 0, 0, 30]), (0, vec![1]), (1, vec![1]), (7, vec![1]), (u64::MAX, vec![1]), (0, vec![9; 50])];
    for (at, (stretch, set)) in (0..60).zip(sets.iter().cycle()) {
        for rank in 1..=3 {
            let moment = Duration::from_micros(200_300 + at * 37);
            scene.strays.push((moment, rank, Needs { stretch: *stretch, set: set.clone() }));
        }
    }
    let played = scene.play(1, "words");
    assert_eq!(played.fates, [Outcome::Delivered; 3]);
    assert!(played.price.data <= 31 * CHUNK as u64 && played.damages.is_empty(), "{:?}", played.price);
}
