//! Damage of files in their ledgered form, with spans and chunks of full size, as in `send` and
//! `recv`.

use ethbcast_collectives::session::application::Participant;
use ethbcast_collectives::session::verified::{Checked, Form, Ledgered};
use ethbcast_collectives::session::{Damage, Outcome, Trailer};
use ethbcast_planning::plan::Via;
use ethbcast_tests::session::{Case, Disk, data, hosts_of, sent, star};
use ethbcast_transport::Instant;
use ethbcast_transport::sim::{Delivery, Fate, Faults, Random, RandomFaults, Simulation};
use ethbcast_transport::wire::{Flags, Kind, parse};
use std::time::Duration;

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
        if self.last && delivery.to == self.host && data.is_some_and(|header| header.flags.has(Flags::LAST)) {
            return Fate::Damage { byte: self.random.below(Trailer::BYTES as u64) as usize };
        }
        let content = data.filter(|header| !header.flags.has(Flags::LAST));
        let number = content.filter(|_| delivery.to == self.host).map(|header| header.sequence);
        match self.frames.iter().position(|&frame| Some(frame) == number) {
            Some(at) => {
                self.frames.swap_remove(at);
                Fate::Damage { byte: self.random.below(1468) as usize }
            }
            None => self.others.fate(delivery),
        }
    }
}

struct Scene {
    case: Case,
    host: usize,
    frames: Vec<u64>,
    last: bool,
    loss: f64,
    /// Whether the root keeps the bytes it has sent last.
    keeps: bool,
}

fn case(via: Via, receivers: usize, bytes: usize, pipe: bool) -> Case {
    Case { mtu_bytes: 1500, pipe, ..Case::new(via, receivers, bytes).with_feed(256) }
}

fn ten(random: &mut Random, case: &Case) -> Vec<u64> {
    let frames = Form::LEDGERED.stream_bytes(case.bytes as u64).div_ceil(1468);
    (0..10).map(|_| random.below(frames)).collect()
}

fn play(scene: Scene, seed: u64) -> (Vec<(Outcome, String)>, Vec<Damage>) {
    let Scene { case, host, frames, last, loss, keeps } = scene;
    let content = data(case.bytes, seed);
    let source = Ledgered::of(sent(&case, seed));
    let source = if keeps { source } else { source.forgetting() };
    let hosts = hosts_of(&case, seed, source, |_| Checked::checking(Disk::default().keeping(true)));
    let faults = BadCard { host, frames, last, random: Random::new(seed), others: RandomFaults::new(seed).loss(loss) };
    let mut simulation = Simulation::new(&star(&case, 1_000_000_000), hosts, faults);
    let limit = Instant::START + Duration::from_secs(120);
    let end = simulation.run(limit, |_, host, now| Participant::turn(host, now));
    assert!(end.is_quiet(), "seed {seed}: {end:?}");
    let machines = simulation.machines();
    let Participant::Root(root, _) = &machines[0] else { unreachable!("host 0 is the root") };
    for receiving in machines.iter().filter_map(Participant::receiving) {
        let got = receiving.sink().content().bytes();
        let claims = receiving.verdict().is_some_and(|verdict| verdict.outcome == Outcome::Delivered);
        assert!(!claims || got == content, "seed {seed}: a receiver claims what was not sent");
        assert!(content.starts_with(got), "seed {seed}: what was damaged went through");
    }
    (root.reports().map(|report| (report.outcome, report.text.clone())).collect(), root.damages())
}

fn all_delivered(fates: &[(Outcome, String)], seed: u64) {
    assert!(fates.iter().all(|(fate, _)| *fate == Outcome::Delivered), "seed {seed}: {fates:?}");
}

#[test]
fn ten_frames_damaged_at_one_host_cost_ten_pieces_at_most_and_the_hop_is_named() {
    for seed in 0..24 {
        let mut random = Random::new(seed);
        let via = [Via::Chain, Via::Cast, Via::Binary][random.below(3) as usize];
        let case = case(via, 5, 1_000_000 + random.below(1_500_000) as usize, false);
        let frames = ten(&mut random, &case);
        let (host, loss) = (1 + random.below(5) as usize, [0.0, 0.01][random.below(2) as usize]);
        let (fates, damages) = play(Scene { case, host, frames, last: false, loss, keeps: true }, seed);
        all_delivered(&fates, seed);
        let named = |damage: &Damage| damage.to == [format!("n{host}")] && damage.from.is_some();
        let whole = |damage: &Damage| damage.bytes.start.is_multiple_of(64 << 10) || damage.is_ledger;
        assert!((1..=10).contains(&damages.len()), "seed {seed}: {damages:?}");
        assert!(damages.iter().all(|damage| named(damage) && whole(damage)), "seed {seed}: n{host}, {damages:?}");
    }
}

#[test]
fn contents_around_every_border_go_every_way_over_lossy_cables() {
    let borders = [0, 1, 1412, 1413, 65_536, 65_537, 1 << 20, (1 << 20) + 1];
    for (at, bytes) in borders.into_iter().enumerate() {
        for (way, via) in [Via::Chain, Via::Cast, Via::Binary, Via::ScatterAllgather].into_iter().enumerate() {
            let (case, seed) = (case(via, 4, bytes, false), (at * 4 + way) as u64);
            let (fates, damages) =
                play(Scene { case, host: 1, frames: Vec::new(), last: false, loss: 0.02, keeps: true }, seed);
            all_delivered(&fates, seed);
            assert_eq!(damages, []);
        }
    }
}

#[test]
fn an_end_that_comes_damaged_at_any_hop_costs_nobody_the_content() {
    let ways = [Via::Chain, Via::Cast, Via::Binary, Via::ScatterAllgather];
    for (seed, host, via) in (0..6).flat_map(|seed| (1..=4).flat_map(move |host| ways.map(|via| (seed, host, via)))) {
        let bytes = [0, 1, 300_000, 1 << 20, 1_300_000, 100][seed as usize];
        let case = case(via, 4, bytes, seed % 2 == 1 && !via.is_in_blocks());
        let frames = if seed < 3 { Vec::new() } else { vec![0, bytes as u64 / 1468] };
        let (fates, _) =
            play(Scene { case, host, frames, last: true, loss: [0.0, 0.02][seed as usize % 2], keeps: true }, seed);
        all_delivered(&fates, seed);
    }
}

#[test]
fn of_a_pipe_the_bytes_come_from_a_receiver_that_has_kept_them() {
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let case = case([Via::Chain, Via::Cast][random.below(2) as usize], 4, 2_300_000, true);
        let frames = ten(&mut random, &case);
        let host = 2 + random.below(3) as usize;
        all_delivered(&play(Scene { case, host, frames, last: false, loss: 0.0, keeps: false }, seed).0, seed);
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
        let (fates, damages) =
            play(Scene { case, host: 1, frames, last: false, loss: [0.0, 0.01][seed as usize % 2], keeps: true }, seed);
        all_delivered(&fates, seed);
        assert!(!damages.is_empty());
    }
}

#[test]
fn what_nobody_has_undamaged_fails_by_name_and_nothing_of_it_is_kept() {
    let case = case(Via::Chain, 3, 1_500_000, true);
    let (fates, _) = play(Scene { case, host: 1, frames: vec![800], last: false, loss: 0.0, keeps: false }, 1);
    for (fate, text) in &fates {
        assert_eq!(*fate, Outcome::Damaged, "{text}");
        assert!(text.contains("came damaged, and they cannot be had again"), "{text}");
    }
}
