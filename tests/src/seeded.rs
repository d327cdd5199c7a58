//! Test helper: random transfers and programs drawn from seeds, and the frames that their faults
//! may cost. Random simulation (`swarm`) checks their guarantees.

use crate::communicator::{self, Play, Step};
use crate::session::{self, Case, Played, some_of_each, star};
use ethbcast_collectives::communicator::Preset;
use ethbcast_collectives::session::{End, Outcome};
use ethbcast_planning::plan::Via;
use ethbcast_transport::sim::{Faults, Random, RandomFaults};
use ethbcast_transport::{Policy, Tuning};
use std::time::Duration;

const RUNS: u64 = 2_000;
const RATE_BITS_PER_SECOND: u64 = 1_000_000_000;
const PAYLOAD_BYTES: usize = 576 - 32;

/// Plays `ETHBCAST_SEED` alone, or 2000 seeds (`ETHBCAST_RUNS` sets more) on two threads.
pub fn play_all(play: impl Fn(u64) + Sync) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().expect("a whole number"));
    if let Some(seed) = number("ETHBCAST_SEED") {
        return play(seed);
    }
    let (runs, play) = (number("ETHBCAST_RUNS").unwrap_or(RUNS), &play);
    std::thread::scope(|scope| {
        (0..2).for_each(|half| drop(scope.spawn(move || (0..runs / 2).for_each(|index| play(index * 2 + half)))));
    });
}

pub fn all_delivered(played: &Played, case: &Case, replay: &str) {
    assert_eq!(played.fates, vec![Outcome::Delivered; case.receivers], "{replay}");
    // The root's last messages may be lost; delivered bytes stay delivered.
    let content = |end: &Option<End>| matches!(end, Some(End::Confirmed | End::Unconfirmed));
    assert!(played.ends.iter().all(content), "{replay}: {:?}", played.ends);
}

/// Draws a case from a seed: 1–15 receivers and in a few casts up to 64, all kinds of plans, loss
/// 0–30 %, duplicates, reordering, corruption, both policies, and half of the strict ones with
/// Push-Pull Broadcast.
fn drawn_session(seed: u64) -> (Case, RandomFaults, f64) {
    let mut random = Random::new(seed);
    let via = match random.below(4) {
        0 => Via::Chain,
        1 => Via::Cast,
        _ => Via::ALL[random.below(Via::ALL.len() as u64) as usize],
    };
    let many = via == Via::Cast && random.chance(0.02);
    let receivers = if many { 16 + random.below(49) } else { 1 + random.below(15) } as usize;
    let mut case = Case::new(via, receivers, random.below(20_000) as usize);
    if random.chance(0.2) {
        let preset = if random.chance(0.5) { Tuning::paper() } else { Tuning::push_pull() };
        case.tuning = preset.with_feed_frames(64);
    }
    let loss = [0.0, 0.001, 0.01, 0.05, 0.1, 0.3][random.below(6) as usize];
    let (faults, trouble) = some_of_each(&mut random, seed, loss);
    (case, faults, trouble)
}

pub fn play_session(seed: u64) {
    let (case, faults, trouble) = drawn_session(seed);
    let replay = format!(
        "replay with ETHBCAST_SEED={seed} cargo test -p ethbcast-tests --test simulation sessions::seeded ({case:?})"
    );
    let played = session::play(&case, &star(&case, RATE_BITS_PER_SECOND), seed, faults, &replay);
    all_delivered(&played, &case, &replay);
    // With blocks every rank has a stream of its own, with its own end.
    let streams = case.via.trees(case.receivers + 1);
    let payload_bytes = usize::from(played.view.payload_bytes);
    let frames = (case.bytes / payload_bytes + 1 + streams) as f64;
    let hops = case.receivers as f64 * frames;
    // Strict go-back-n retransmits up to a window for each loss and stalls more often; selective
    // repair sends about one frame.
    let (each, stalls) = if case.tuning.policy == Policy::InOrderOnly { (17.0, 4.0) } else { (1.6, 1.0) };
    // Losses are random: four standard deviations above their mean may occur.
    let expected = hops * trouble / (1.0 - trouble);
    let budget = (expected + 4.0 * expected.sqrt()) * each + 8.0 * (case.receivers * streams) as f64;
    let resent = played.totals.data_resent as f64;
    assert!(resent <= budget, "{replay}: {resent} frames sent again, budget {budget:.0}, trouble {trouble:.3}");
    let waits = played.totals.heartbeats_sent as f64;
    // Heartbeats are sent when nothing moves: for the tail, and where acknowledgements were lost.
    let budget = 30.0 * (case.receivers * streams) as f64 + hops * trouble * stalls;
    // A host that has missed all BYEs probes its child while it waits for the root, four times
    // a second.
    let patience = case.timing.patience.as_secs_f64();
    let budget = if played.quiesced_at.as_secs_f64() > patience { budget + 4.0 * patience } else { budget };
    assert!(waits <= budget, "{replay}: {waits} heartbeats, budget {budget:.0}");
}

/// Draws a case from a seed: 2–64 ranks, mostly few; all presets; loss 0–10 %, duplicates,
/// reordering, corruption.
fn drawn_program(seed: u64) -> (communicator::Case, RandomFaults, f64) {
    let mut random = Random::new(seed);
    let most = [3, 3, 3, 3, 4, 4, 5, 8][random.below(8) as usize];
    let ranks = if seed.is_multiple_of(200) { 17 + random.below(48) as u16 } else { 2 + random.below(most) as u16 };
    let long = if ranks > 8 { 2000 } else { 30_000 };
    let steps = 1 + random.below(10);
    let program = (0..steps).map(|_| step(&mut random, ranks, long));
    // A rank that leaves early may take bytes along that others still need.
    let program = program.chain([Step::Settle, Step::Barrier]).collect::<Vec<_>>();
    let mut case = communicator::Case::new(ranks, &program);
    case.preset = [Preset::Default, Preset::Default, Preset::Paper, Preset::PushPull][random.below(4) as usize];
    case.starts.iter_mut().for_each(|start| *start = Duration::from_micros(random.below(3000)));
    let loss = [0.0, 0.001, 0.01, 0.03, 0.1][random.below(5) as usize];
    let (faults, trouble) = some_of_each(&mut random, seed, loss);
    (case, faults, trouble)
}

fn step(random: &mut Random, ranks: u16, long: u64) -> Step {
    let root = random.below(ranks.into()) as u16;
    let longest = if random.chance(0.2) { long } else { 600 };
    let bytes = random.below(longest) as usize;
    match random.below(8) {
        0 | 1 => Step::Broadcast { root, bytes },
        2 => Step::Scatter { root, bytes },
        3 => Step::Gather { root, bytes },
        4 => Step::Allgather { bytes: bytes / 2 },
        5 => Step::Barrier,
        6 => Step::Compute(Duration::from_micros(random.below(2000))),
        _ => Step::Message { from: root, to: random.below(ranks.into()) as u16, tag: random.below(3) as u32, bytes },
    }
}

fn frames(case: &communicator::Case) -> (f64, f64) {
    let others = case.programs.len() as f64 - 1.0;
    // The first push of a message may be short, and so may its last.
    let of = |bytes: usize| (bytes + 56).div_ceil(PAYLOAD_BYTES - 32) as f64 + 2.0;
    let step = |step: &Step| match *step {
        Step::Broadcast { bytes, .. } => (of(bytes), of(bytes) * others),
        Step::Barrier => (others + 1.0, 2.0 * others),
        Step::Scatter { bytes, .. } | Step::Gather { bytes, .. } => (others * of(bytes), others * of(bytes)),
        // By cast or round the ring: the ring sends more frames, and delivers as much.
        Step::Allgather { bytes } => (others * (others + 1.0) * of(bytes), others * (others + 1.0) * of(bytes)),
        Step::Message { bytes, .. } => (of(bytes), of(bytes)),
        Step::Compute(_) | Step::Settle | Step::Shrink => (0.0, 0.0),
    };
    case.programs[0].iter().map(step).fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

pub fn play_program(seed: u64) {
    let (case, faults, trouble) = drawn_program(seed);
    let replay = format!(
        "replay with ETHBCAST_SEED={seed} cargo test -p ethbcast-tests --test simulation communicators::seeded \
         ({} ranks, {:?}: {:?})",
        case.programs.len(),
        case.preset,
        case.programs[0]
    );
    let played = communicator::play(&case, seed, faults, &replay);
    assert_left(&played, &replay);
    assert_price(&played, &case, trouble, &replay);
}

fn assert_left<F: Faults>(played: &Play<F>, replay: &str) {
    for (host, process) in played.processes().iter().enumerate() {
        let member = process.member.as_ref().expect("it has started");
        assert!(member.has_left(), "{replay}: host {host} has not left");
        let stats = member.stats();
        assert_eq!(stats.streams.forged_acks + stats.mailbox.forged_acks, 0, "{replay}: host {host}: {stats:?}");
    }
}

fn assert_price<F: Faults>(played: &Play<F>, case: &communicator::Case, trouble: f64, replay: &str) {
    let (mut sent, mut resent, mut asked) = (0, 0, 0);
    for stats in played.stats() {
        sent += stats.streams.data_sent + stats.mailbox.pushes_sent + stats.mailbox.pulls_sent;
        resent += stats.streams.data_resent + stats.mailbox.resent;
        asked += stats.streams.heartbeats_sent + stats.mailbox.asks_sent;
    }
    let (most_sent, delivered) = frames(case);
    assert!(sent as f64 <= most_sent, "{replay}: {sent} data frames sent, at most {most_sent} are needed");
    let (each, stalls) = if case.preset == Preset::Default { (2.0, 4.0) } else { (17.0, 8.0) };
    let (ranks, expected) = (case.programs.len() as f64, delivered * trouble / (1.0 - trouble));
    let budget = (expected + 4.0 * expected.sqrt()) * each + 8.0 * ranks;
    assert!(resent as f64 <= budget, "{replay}: {resent} frames sent again, budget {budget:.0}, trouble {trouble:.3}");
    // Probes are sent when nothing moves: for the tail, and where acknowledgements were lost.
    let budget = 20.0 * ranks + (delivered + ranks * ranks) * (0.02 + trouble) * stalls;
    assert!(asked as f64 <= budget, "{replay}: {asked} questions, budget {budget:.0}");
}
