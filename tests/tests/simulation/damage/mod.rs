//! Simulated tests of transfers whose bytes are damaged under a valid checksum: detected, repaired,
//! located.

mod scene;

use ethbcast_collectives::session::application::Participant;
use ethbcast_collectives::session::verified::{Checked, Form, VerifiedSource};
use ethbcast_collectives::session::{Damage, Outcome, Trailer};
use ethbcast_planning::plan::Via;
use ethbcast_tests::in_full;
use ethbcast_tests::session::{Case, Disk, data, hosts_of, sent, star};
use ethbcast_transport::Instant;
use ethbcast_transport::sim::{Delivery, Fate, Faults, Random, RandomFaults, Simulation};
use ethbcast_transport::wire::{Flags, Kind, parse};
use scene::{Broken, CHUNK_BYTES, DamagePlay, Scene};
use std::ops::Range;
use std::time::Duration;

const RECEIVERS: usize = 7;

fn pipe(via: Via, bytes: usize, broken: Broken) -> Scene {
    let mut case = Case {
        mtu_bytes: 1500,
        pipe: true,
        ..Case::new(via, RECEIVERS, bytes)
    }
    .with_feed(64);
    case.timing.patience = Duration::ZERO;
    Scene {
        case,
        broken,
        chance: 0.0,
        again: 0,
        loss: 0.0,
        lossy: None,
        keepers: None,
    }
}

/// Draws a scenario in which neighbours die: the host behind them loses many frames, and the bytes
/// it needs may exist only at the next one.
fn deaths(seed: u64) -> (Scene, Range<usize>, String) {
    let mut random = Random::new(seed);
    let via =
        [Via::Chain, Via::Chain, Via::Chain, Via::Binary, Via::Cast][random.below(5) as usize];
    let mut scene = pipe(via, 3_000_000, Broken::Card(1));
    let first = 2 + random.below(4) as usize;
    let dead = first..first + 2 + random.below(2) as usize;
    let at = Duration::from_millis(40 + random.below(60));
    scene.case.crashes = dead.clone().map(|host| (host, at)).collect();
    scene.lossy = Some(dead.end);
    let replay = format!(
        "seed {seed}: {via}, {:?} die, n{} loses a third",
        scene.case.crashes, dead.end
    );
    (scene, dead, replay)
}

#[test]
fn when_relays_die_with_the_only_copy_the_others_get_it_from_who_has_kept_it() {
    let (mut asked, runs) = (0, in_full(45, 150));
    for seed in 0..runs {
        let (scene, dead, replay) = deaths(seed);
        let played = scene.play(seed, &replay);
        for (at, fate) in played.fates.iter().enumerate() {
            let right = *fate == Outcome::Delivered
                || (dead.contains(&(at + 1)) && *fate == Outcome::Silent);
            assert!(right, "{replay}: n{} {fate:?} {:?}", at + 1, played.words);
        }
        asked += u64::from(played.price.questions > 0);
        assert!(
            played.took < Duration::from_secs(4),
            "{replay}: {:?}",
            played.took
        );
    }
    assert!(
        asked > runs / 10,
        "{asked} runs of {runs} in which the only copy has died"
    );
}

#[test]
fn when_nobody_has_kept_what_died_only_those_who_lack_it_are_lost_with_that_reason() {
    let mut lost = 0;
    for seed in 0..50 {
        let (scene, dead, replay) = deaths(seed);
        let played = Scene {
            keepers: Some(Vec::new()),
            ..scene
        }
        .play(seed, &replay);
        for ((at, fate), words) in played.fates.iter().enumerate().zip(&played.words) {
            match fate {
                Outcome::Lost if at + 1 >= dead.end => lost += 1,
                Outcome::Silent if dead.contains(&(at + 1)) => continue,
                fate => assert_eq!(*fate, Outcome::Delivered, "{replay}: n{} {words}", at + 1),
            }
            assert!(
                *fate == Outcome::Delivered || words.contains("a pipe"),
                "{replay}: {words}"
            );
        }
    }
    assert!(lost > 5, "{lost}");
}

#[test]
fn damaged_bytes_of_a_pipe_come_from_a_host_that_kept_them_or_fail_their_receiver_only() {
    for via in [Via::Chain, Via::Cast, Via::Binary] {
        for (keepers, fate) in [(vec![1, 7], Outcome::Delivered), (vec![], Outcome::Damaged)] {
            let mut scene = pipe(via, 400_000, Broken::Card(4));
            scene.chance = 0.03;
            scene.keepers = Some(keepers.clone());
            let replay =
                format!("{via}: n4 takes some frames badly, {keepers:?} keep what they have");
            let played = scene.play(3, &replay);
            // In a chain the hosts behind n4 have that damage, too.
            let behind = if via == Via::Chain { 4..8 } else { 4..5 };
            for (at, found) in played.fates.iter().enumerate() {
                let expected = if behind.contains(&(at + 1)) {
                    fate
                } else {
                    Outcome::Delivered
                };
                assert_eq!(*found, expected, "{replay}: n{} {:?}", at + 1, played.words);
            }
            assert!(played.price.damaged > 0, "{replay}");
            let told = played
                .words
                .iter()
                .all(|words| words.is_empty() || words.contains("nobody else"));
            assert!(told, "{replay}: {:?}", played.words);
        }
    }
}

const BYTES: usize = 200_000;

fn scene(via: Via, receivers: usize, broken: Broken) -> Scene {
    let case = Case {
        mtu_bytes: 1500,
        ..Case::new(via, receivers, BYTES)
    }
    .with_feed(256);
    Scene {
        case,
        broken,
        chance: 0.05,
        again: 0,
        loss: 0.0,
        lossy: None,
        keepers: None,
    }
}

fn all_delivered(played: &DamagePlay, scene: &Scene, replay: &str) {
    assert_eq!(
        played.fates,
        vec![Outcome::Delivered; scene.case.receivers],
        "{replay}: {:?}",
        played.words
    );
}

/// Checks that every named host is at the damaged place.
fn named(played: &DamagePlay, scene: &Scene, replay: &str) {
    assert_eq!(
        played.told.len(),
        played.damages.len(),
        "{replay}: {:?} {:?}",
        played.told,
        played.damages
    );
    assert_eq!(
        played.told.is_empty(),
        played.price.damaged == 0,
        "{replay}: {:?}",
        played.price
    );
    assert!(
        scene.case.via.is_in_blocks() || played.damages.iter().all(|damage| damage.from.is_some()),
        "{replay}"
    );
    for damage in &played.damages {
        let right = match scene.broken {
            // If bytes come from several hosts, their source is unknown.
            Broken::Memory(host) => damage
                .from
                .as_ref()
                .is_none_or(|from| *from == format!("n{host}")),
            Broken::Card(host) if damage.from.is_none() => damage.to.contains(&format!("n{host}")),
            Broken::Card(host) => damage.to == [format!("n{host}")],
        };
        assert!(right, "{replay}: {damage}");
    }
}

fn any_broken(random: &mut Random, receivers: usize) -> Broken {
    let host = random.below(receivers as u64 + 1) as usize;
    if host == 0 || random.chance(0.5) {
        Broken::Memory(host)
    } else {
        Broken::Card(host)
    }
}

#[test]
fn on_every_route_damage_at_any_hop_is_repaired_and_the_hop_is_named() {
    let mut damaged = 0;
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let via = Via::ALL[random.below(Via::ALL.len() as u64) as usize];
        let receivers = 1 + random.below(15) as usize;
        let broken = any_broken(&mut random, receivers);
        let mut scene = scene(via, receivers, broken);
        scene.loss = [0.0, 0.001, 0.01, 0.05][random.below(4) as usize];
        scene.chance = [0.01, 0.05, 0.2][random.below(3) as usize];
        let replay = format!(
            "seed {seed}: {via} to {receivers}, {broken:?} {}, loss {}",
            scene.chance, scene.loss
        );
        let played = scene.play(seed, &replay);
        all_delivered(&played, &scene, &replay);
        named(&played, &scene, &replay);
        damaged += played.price.damaged;
        // Each chunk goes once more to each host behind the damaged place.
        let chunks =
            played.price.damaged.min(BYTES.div_ceil(CHUNK_BYTES) as u64) * receivers as u64;
        let most =
            (chunks * (CHUNK_BYTES as u64 + 4 * 16)) as f64 * (1.0 + 4.0 * scene.loss) + 5000.0;
        let again = played.price.piece_bytes as f64;
        assert!(again <= most, "{replay}: {again} bytes again, {most}");
    }
    assert!(damaged > 3000, "{damaged}");
}

#[test]
fn a_damaged_frame_costs_each_behind_it_a_question_and_one_chunk() {
    for (via, receivers, behind) in [
        (Via::Chain, 7, 4),
        (Via::Cast, 7, 1),
        (Via::Binary, 7, 1),
        (Via::Flat, 7, 1),
    ] {
        let mut scene = scene(via, receivers, Broken::Card(4));
        scene.chance = 0.02;
        let replay = format!("{via}: what n4 takes");
        let played = scene.play(5, &replay);
        all_delivered(&played, &scene, &replay);
        named(&played, &scene, &replay);
        let chunks = played.damages.len() as u64 * behind;
        let pieces = CHUNK_BYTES.div_ceil(1500 - 32 - 16) as u64;
        let price = (played.price.questions, played.price.pieces);
        assert!(
            chunks > 0 && price == (chunks, chunks * pieces),
            "{replay}: {price:?} for {chunks} chunks"
        );
    }
}

#[test]
fn repeated_damage_is_requested_again_and_after_three_more_times_fails_its_receiver_only() {
    const RECEIVERS: usize = 5;
    const WAYS: [Via; 4] = [Via::Chain, Via::Cast, Via::Binary, Via::ScatterAllgather];
    for (via, (again, fate)) in WAYS.into_iter().flat_map(|via| {
        [(2, Outcome::Delivered), (u64::MAX, Outcome::Damaged)].map(|case| (via, case))
    }) {
        let mut scene = scene(via, RECEIVERS, Broken::Card(3));
        (scene.chance, scene.again) = (0.1, again);
        let replay = format!("{via}: n3 takes the first {again} pieces badly, too");
        let played = scene.play(9, &replay);
        for (at, found) in played.fates.iter().enumerate() {
            let expected = if at + 1 == 3 {
                fate
            } else {
                Outcome::Delivered
            };
            assert_eq!(*found, expected, "{replay}: n{} {:?}", at + 1, played.words);
        }
        let told = fate == Outcome::Delivered || played.words[2].contains("damaged, too, 3 times");
        assert!(told, "{replay}: {:?}", played.words);
    }
}

#[test]
fn files_in_their_verified_form_are_exact_as_well() {
    let mut damaged = 0;
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let via = Via::ALL[random.below(Via::ALL.len() as u64) as usize];
        let receivers = 1 + random.below(8) as usize;
        let broken = any_broken(&mut random, receivers);
        let mut scene = scene(via, receivers, broken);
        scene.case.bytes = random.below(3_000_000) as usize;
        scene.loss = [0.0, 0.01][random.below(2) as usize];
        scene.chance = [0.0003, 0.003][random.below(2) as usize];
        let replay = format!(
            "seed {seed}: {via} to {receivers}, {broken:?} {}, loss {}",
            scene.chance, scene.loss
        );
        let played = scene.play_verified(seed, &replay);
        all_delivered(&played, &scene, &replay);
        named(&played, &scene, &replay);
        damaged += played.price.damaged;
    }
    assert!(damaged > 50, "{damaged}");
}

/// A host's card changes a byte of the numbered frames at their first arrival, or of the last frame
/// of the stream at each.
struct BadCard {
    host: usize,
    frames: Vec<u64>,
    last: bool,
    random: Random,
    others: RandomFaults,
}

impl Faults for BadCard {
    fn fate(&mut self, delivery: &Delivery<'_>) -> Fate {
        let data = parse(delivery.frame).ok().map(|frame| frame.header);
        let data = data.filter(|header| header.kind == Kind::DATA);
        if self.last
            && delivery.to == self.host
            && data.is_some_and(|header| header.flags.has(Flags::LAST))
        {
            return Fate::Damage {
                byte: self.random.below(Trailer::BYTES as u64) as usize,
            };
        }
        let content = data.filter(|header| !header.flags.has(Flags::LAST));
        let number = content
            .filter(|_| delivery.to == self.host)
            .map(|header| header.sequence);
        match self.frames.iter().position(|&frame| Some(frame) == number) {
            Some(at) => {
                self.frames.swap_remove(at);
                Fate::Damage {
                    byte: self.random.below(1468) as usize,
                }
            }
            None => self.others.fate(delivery),
        }
    }
}

struct DamagedFrames {
    case: Case,
    host: usize,
    frames: Vec<u64>,
    last: bool,
    loss: f64,
    /// Whether the root keeps the bytes it has sent last.
    keeps: bool,
}

fn case(via: Via, receivers: usize, bytes: usize, pipe: bool) -> Case {
    Case {
        mtu_bytes: 1500,
        pipe,
        ..Case::new(via, receivers, bytes).with_feed(256)
    }
}

fn ten(random: &mut Random, case: &Case) -> Vec<u64> {
    let frames = Form::VERIFIED
        .stream_bytes(case.bytes as u64)
        .div_ceil(1468);
    (0..10).map(|_| random.below(frames)).collect()
}

fn play(scene: DamagedFrames, seed: u64) -> (Vec<(Outcome, String)>, Vec<Damage>) {
    let DamagedFrames {
        case,
        host,
        frames,
        last,
        loss,
        keeps,
    } = scene;
    let content = data(case.bytes, seed);
    let source = VerifiedSource::of(sent(&case, seed));
    let source = if keeps { source } else { source.forgetting() };
    let hosts = hosts_of(&case, seed, source, |_| {
        Checked::checking(Disk::default().keeping(true))
    });
    let faults = BadCard {
        host,
        frames,
        last,
        random: Random::new(seed),
        others: RandomFaults::new(seed).loss(loss),
    };
    let mut simulation = Simulation::new(&star(&case, 1_000_000_000), hosts, faults);
    let limit = Instant::START + Duration::from_secs(120);
    let end = simulation.run(limit, |_, host, now| Participant::turn(host, now));
    assert!(end.is_quiet(), "seed {seed}: {end:?}");
    let machines = simulation.machines();
    let Participant::Root(root, _) = &machines[0] else {
        unreachable!("host 0 is the root")
    };
    for receiving in machines.iter().filter_map(Participant::receiving) {
        let got = receiving.sink().content().bytes();
        let claims = receiving
            .verdict()
            .is_some_and(|verdict| verdict.outcome == Outcome::Delivered);
        assert!(
            !claims || got == content,
            "seed {seed}: a receiver claims what was not sent"
        );
        assert!(
            content.starts_with(got),
            "seed {seed}: what was damaged went through"
        );
    }
    (
        root.reports()
            .map(|report| (report.outcome, report.text.clone()))
            .collect(),
        root.damages(),
    )
}

fn all_have_it(fates: &[(Outcome, String)], seed: u64) {
    assert!(
        fates.iter().all(|(fate, _)| *fate == Outcome::Delivered),
        "seed {seed}: {fates:?}"
    );
}

#[test]
fn ten_frames_damaged_at_one_host_cost_ten_pieces_at_most_and_the_hop_is_named() {
    for seed in 0..24 {
        let mut random = Random::new(seed);
        let via = [Via::Chain, Via::Cast, Via::Binary][random.below(3) as usize];
        let case = case(via, 5, 1_000_000 + random.below(1_500_000) as usize, false);
        let frames = ten(&mut random, &case);
        let (host, loss) = (
            1 + random.below(5) as usize,
            [0.0, 0.01][random.below(2) as usize],
        );
        let (fates, damages) = play(
            DamagedFrames {
                case,
                host,
                frames,
                last: false,
                loss,
                keeps: true,
            },
            seed,
        );
        all_have_it(&fates, seed);
        let named = |damage: &Damage| damage.to == [format!("n{host}")] && damage.from.is_some();
        let whole =
            |damage: &Damage| damage.bytes.start.is_multiple_of(64 << 10) || damage.is_hash_list;
        assert!(
            (1..=10).contains(&damages.len()),
            "seed {seed}: {damages:?}"
        );
        assert!(
            damages.iter().all(|damage| named(damage) && whole(damage)),
            "seed {seed}: n{host}, {damages:?}"
        );
    }
}

#[test]
fn contents_around_every_border_go_every_way_over_lossy_cables() {
    let borders = [0, 1, 1412, 1413, 65_536, 65_537, 1 << 20, (1 << 20) + 1];
    for (at, bytes) in borders.into_iter().enumerate() {
        for (way, via) in [Via::Chain, Via::Cast, Via::Binary, Via::ScatterAllgather]
            .into_iter()
            .enumerate()
        {
            let (case, seed) = (case(via, 4, bytes, false), (at * 4 + way) as u64);
            let (fates, damages) = play(
                DamagedFrames {
                    case,
                    host: 1,
                    frames: Vec::new(),
                    last: false,
                    loss: 0.02,
                    keeps: true,
                },
                seed,
            );
            all_have_it(&fates, seed);
            assert_eq!(damages, []);
        }
    }
}

#[test]
fn an_end_that_comes_damaged_at_any_hop_costs_nobody_the_content() {
    let ways = [Via::Chain, Via::Cast, Via::Binary, Via::ScatterAllgather];
    for (seed, host, via) in
        (0..6).flat_map(|seed| (1..=4).flat_map(move |host| ways.map(|via| (seed, host, via))))
    {
        let bytes = [0, 1, 300_000, 1 << 20, 1_300_000, 100][seed as usize];
        let case = case(via, 4, bytes, seed % 2 == 1 && !via.is_in_blocks());
        let frames = if seed < 3 {
            Vec::new()
        } else {
            vec![0, bytes as u64 / 1468]
        };
        let (fates, _) = play(
            DamagedFrames {
                case,
                host,
                frames,
                last: true,
                loss: [0.0, 0.02][seed as usize % 2],
                keeps: true,
            },
            seed,
        );
        all_have_it(&fates, seed);
    }
}

#[test]
fn lost_bytes_of_a_pipe_come_from_a_receiver_that_kept_them() {
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let case = case(
            [Via::Chain, Via::Cast][random.below(2) as usize],
            4,
            2_300_000,
            true,
        );
        let frames = ten(&mut random, &case);
        let host = 2 + random.below(3) as usize;
        all_have_it(
            &play(
                DamagedFrames {
                    case,
                    host,
                    frames,
                    last: false,
                    loss: 0.0,
                    keeps: false,
                },
                seed,
            )
            .0,
            seed,
        );
    }
}

#[test]
fn a_pipe_that_is_damaged_on_the_first_hop_of_a_chain_is_mended_by_the_root() {
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let case = case(Via::Chain, 4, 6_500_000, true);
        // The first is repaired before the second arrives: fewer bytes wait behind it than the root
        // keeps.
        let frames = vec![random.below(700), 2000 + random.below(700)];
        let (fates, damages) = play(
            DamagedFrames {
                case,
                host: 1,
                frames,
                last: false,
                loss: [0.0, 0.01][seed as usize % 2],
                keeps: true,
            },
            seed,
        );
        all_have_it(&fates, seed);
        assert!(!damages.is_empty());
    }
}

#[test]
fn bytes_that_nobody_has_undamaged_fail_by_name_and_are_not_kept() {
    let case = case(Via::Chain, 3, 1_500_000, true);
    let (fates, _) = play(
        DamagedFrames {
            case,
            host: 1,
            frames: vec![800],
            last: false,
            loss: 0.0,
            keeps: false,
        },
        1,
    );
    for (fate, text) in &fates {
        assert_eq!(*fate, Outcome::Damaged, "{text}");
        assert!(
            text.contains("came damaged, and cannot be fetched again"),
            "{text}"
        );
    }
}
