//! Random programs under random faults: their costs. The swarm checks their promises.

use ethbcast_collectives::communicator::Preset;
use ethbcast_tests::communicator::{Case, Play, Step, play};
use ethbcast_tests::session::some_of_each;
use ethbcast_transport::sim::{Random, RandomFaults};
use std::time::Duration;

const RUNS: u64 = 2_000;
const PAYLOAD_BYTES: usize = 576 - 32;

/// Draws a case from a seed: 2–64 ranks, mostly few; all presets; loss 0–10 %, duplicates,
/// reordering, corruption.
fn seeded(seed: u64) -> (Case, RandomFaults, f64) {
    let mut random = Random::new(seed);
    let most = [3, 3, 3, 3, 4, 4, 5, 8][random.below(8) as usize];
    let ranks = if seed.is_multiple_of(200) { 17 + random.below(48) as u16 } else { 2 + random.below(most) as u16 };
    let long = if ranks > 8 { 2000 } else { 30_000 };
    let steps = 1 + random.below(10);
    let program = (0..steps).map(|_| step(&mut random, ranks, long));
    // A rank that leaves early may take bytes along that others still need.
    let program = program.chain([Step::Settle, Step::Barrier]).collect::<Vec<_>>();
    let mut case = Case::new(ranks, &program);
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

fn frames(case: &Case) -> (f64, f64) {
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
        Step::Compute(_) | Step::Settle => (0.0, 0.0),
    };
    case.programs[0].iter().map(step).fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

fn run_seed(seed: u64) {
    let (case, faults, trouble) = seeded(seed);
    let replay = format!(
        "replay with ETHBCAST_SEED={seed} cargo test -p ethbcast-tests --test simulation communicators::seeded \
         ({} ranks, {:?}: {:?})",
        case.programs.len(),
        case.preset,
        case.programs[0]
    );
    let played = play(&case, seed, faults, &replay);
    assert_left(&played, &replay);
    assert_price(&played, &case, trouble, &replay);
}

fn assert_left<F: ethbcast_transport::sim::Faults>(played: &Play<F>, replay: &str) {
    for (host, process) in played.processes().iter().enumerate() {
        let member = process.member.as_ref().expect("it has started");
        assert!(member.has_left(), "{replay}: host {host} has not left");
        let stats = member.stats();
        assert_eq!(stats.streams.forged_acks + stats.mailbox.forged_acks, 0, "{replay}: host {host}: {stats:?}");
    }
}

fn assert_price<F: ethbcast_transport::sim::Faults>(played: &Play<F>, case: &Case, trouble: f64, replay: &str) {
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

#[test]
fn seeded_programs_deliver_exact_bytes_leave_in_peace_and_stay_within_the_frame_budget() {
    if let Ok(seed) = std::env::var("ETHBCAST_SEED") {
        run_seed(seed.parse().expect("ETHBCAST_SEED is a number"));
        return;
    }
    let runs =
        std::env::var("ETHBCAST_RUNS").ok().map_or(RUNS, |runs| runs.parse().expect("ETHBCAST_RUNS is a number"));
    std::thread::scope(|scope| {
        for half in 0..2 {
            scope.spawn(move || (0..runs / 2).for_each(|index| run_seed(index * 2 + half)));
        }
    });
}
