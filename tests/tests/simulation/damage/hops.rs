//! Every kind of plan with damage on the way: all have the sent bytes, and the source of the damage
//! is named.

use super::scene::{Broken, CHUNK_BYTES, Played, Scene};
use ethbcast_collectives::session::Outcome;
use ethbcast_planning::plan::Via;
use ethbcast_tests::session::Case;
use ethbcast_transport::sim::Random;

const BYTES: usize = 200_000;

fn scene(via: Via, receivers: usize, broken: Broken) -> Scene {
    let case = Case { mtu_bytes: 1500, ..Case::new(via, receivers, BYTES) }.with_feed(256);
    Scene { case, broken, chance: 0.05, again: 0, loss: 0.0, lossy: None, keepers: None }
}

fn all_delivered(played: &Played, scene: &Scene, replay: &str) {
    assert_eq!(played.fates, vec![Outcome::Delivered; scene.case.receivers], "{replay}: {:?}", played.words);
}

/// Checks that every named host is at the damaged place.
fn named(played: &Played, scene: &Scene, replay: &str) {
    assert_eq!(played.told.len(), played.damages.len(), "{replay}: {:?} {:?}", played.told, played.damages);
    assert_eq!(played.told.is_empty(), played.price.damaged == 0, "{replay}: {:?}", played.price);
    assert!(scene.case.via.is_in_blocks() || played.damages.iter().all(|damage| damage.from.is_some()), "{replay}");
    for damage in &played.damages {
        let right = match scene.broken {
            // If bytes come from several hosts, their source is unknown.
            Broken::Memory(host) => damage.from.as_ref().is_none_or(|from| *from == format!("n{host}")),
            Broken::Card(host) if damage.from.is_none() => damage.to.contains(&format!("n{host}")),
            Broken::Card(host) => damage.to == [format!("n{host}")],
        };
        assert!(right, "{replay}: {damage}");
    }
}

#[test]
fn whatever_the_way_and_wherever_it_breaks_all_are_exact_and_the_hop_is_named() {
    let mut damaged = 0;
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let via = Via::ALL[random.below(Via::ALL.len() as u64) as usize];
        let receivers = 1 + random.below(15) as usize;
        let host = random.below(receivers as u64 + 1) as usize;
        let broken = if host == 0 || random.chance(0.5) { Broken::Memory(host) } else { Broken::Card(host) };
        let mut scene = scene(via, receivers, broken);
        scene.loss = [0.0, 0.001, 0.01, 0.05][random.below(4) as usize];
        scene.chance = [0.01, 0.05, 0.2][random.below(3) as usize];
        let replay = format!("seed {seed}: {via} to {receivers}, {broken:?} {}, loss {}", scene.chance, scene.loss);
        let played = scene.play(seed, &replay);
        all_delivered(&played, &scene, &replay);
        named(&played, &scene, &replay);
        damaged += played.price.damaged;
        // Each chunk goes once more to each host behind the damaged place.
        let chunks = played.price.damaged.min(BYTES.div_ceil(CHUNK_BYTES) as u64) * receivers as u64;
        let most = (chunks * (CHUNK_BYTES as u64 + 4 * 16)) as f64 * (1.0 + 4.0 * scene.loss) + 5000.0;
        let again = played.price.piece_bytes as f64;
        assert!(again <= most, "{replay}: {again} bytes again, {most}");
    }
    assert!(damaged > 3000, "{damaged}");
}

#[test]
fn a_damaged_frame_costs_each_behind_it_a_question_and_one_chunk() {
    for (via, receivers, behind) in [(Via::Chain, 7, 4), (Via::Cast, 7, 1), (Via::Binary, 7, 1), (Via::Flat, 7, 1)] {
        let mut scene = scene(via, receivers, Broken::Card(4));
        scene.chance = 0.02;
        let replay = format!("{via}: what n4 takes");
        let played = scene.play(5, &replay);
        all_delivered(&played, &scene, &replay);
        named(&played, &scene, &replay);
        let chunks = played.damages.len() as u64 * behind;
        let pieces = CHUNK_BYTES.div_ceil(1500 - 32 - 16) as u64;
        let price = (played.price.questions, played.price.pieces);
        assert!(chunks > 0 && price == (chunks, chunks * pieces), "{replay}: {price:?} for {chunks} chunks");
    }
}

#[test]
fn what_is_damaged_again_is_asked_for_again_and_three_times_more_fails_its_receiver_only() {
    const RECEIVERS: usize = 5;
    const WAYS: [Via; 4] = [Via::Chain, Via::Cast, Via::Binary, Via::ScatterAllgather];
    for (via, (again, fate)) in
        WAYS.into_iter().flat_map(|via| [(2, Outcome::Delivered), (u64::MAX, Outcome::Damaged)].map(|case| (via, case)))
    {
        let mut scene = scene(via, RECEIVERS, Broken::Card(3));
        (scene.chance, scene.again) = (0.1, again);
        let replay = format!("{via}: n3 takes the first {again} pieces badly, too");
        let played = scene.play(9, &replay);
        for (at, found) in played.fates.iter().enumerate() {
            let expected = if at + 1 == 3 { fate } else { Outcome::Delivered };
            assert_eq!(*found, expected, "{replay}: n{} {:?}", at + 1, played.words);
        }
        let told = fate == Outcome::Delivered || played.words[2].contains("damaged, too, 3 times");
        assert!(told, "{replay}: {:?}", played.words);
    }
}

#[test]
fn files_in_their_ledgered_form_are_exact_as_well() {
    let mut damaged = 0;
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let via = Via::ALL[random.below(Via::ALL.len() as u64) as usize];
        let receivers = 1 + random.below(8) as usize;
        let host = random.below(receivers as u64 + 1) as usize;
        let broken = if host == 0 || random.chance(0.5) { Broken::Memory(host) } else { Broken::Card(host) };
        let mut scene = scene(via, receivers, broken);
        scene.case.bytes = random.below(3_000_000) as usize;
        scene.loss = [0.0, 0.01][random.below(2) as usize];
        scene.chance = [0.0003, 0.003][random.below(2) as usize];
        let replay = format!("seed {seed}: {via} to {receivers}, {broken:?} {}, loss {}", scene.chance, scene.loss);
        let played = scene.play_ledgered(seed, &replay);
        all_delivered(&played, &scene, &replay);
        named(&played, &scene, &replay);
        damaged += played.price.damaged;
    }
    assert!(damaged > 50, "{damaged}");
}
