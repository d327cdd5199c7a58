//! Tests of broadcasts to many receivers: load of the sender, cost of a loss, effect of one bad
//! cable.
//!
//! The limits are those of the whole: control frames at the root, goodput, memory. `cargo run
//! --release -p ethbcast-benches -- scale` measures these in whole sessions, longer and over
//! more seeds.

#[path = "common/crowd.rs"]
mod crowd;

use crowd::{Crowd, Found};
use ethbcast_transport::sim::{Delivery, Fate, NoFaults, RandomFaults};
use ethbcast_transport::wire::{Ack, Flags, Kind, parse};

const GIGABIT: u64 = 1_000_000_000;
const RECEIVER_BYTES: usize = 4096;

/// Returns a group with the ack tree that a session would use, or about that: three levels of ten
/// for a thousand.
fn crowd(receivers: usize, frames: u64, rate_bits_per_second: u64) -> Crowd {
    let fan_out = match receivers {
        ..=16 => None,
        17..=72 => Some(8),
        73..=272 => Some(12),
        _ => Some(10),
    };
    Crowd {
        receivers,
        fan_out,
        frames,
        rate_bits_per_second,
        tuning: ethbcast_transport::Tuning::default(),
        session: 7,
    }
}

fn slowest_percent(found: &Found) -> f64 {
    found
        .goodput_percent
        .iter()
        .copied()
        .fold(f64::INFINITY, f64::min)
}

/// Returns the goodput of the second slowest in each hundred. These casts are short: a receiver
/// that loses the very end waits as long again for the heartbeat that finds it.
fn slow_percent(found: &Found) -> f64 {
    let mut percents = found.goodput_percent.clone();
    percents.sort_by(f64::total_cmp);
    percents[percents.len().div_ceil(100)]
}

#[test]
fn a_thousand_receivers_that_lose_one_frame_in_ten_thousand_neither_drown_the_root_nor_slow_it_down()
 {
    // A session's members add 8000 signs of life a second: 12 000 frames at 1 Gbit/s.
    for (rate, frames, max_received_per_second) in
        [(GIGABIT, 4000, 4_000.0), (10 * GIGABIT, 8000, 30_000.0)]
    {
        let found = crowd(1000, frames, rate).run(RandomFaults::new(3).loss(1e-4));
        let slow = slow_percent(&found);
        println!(
            "{rate} bit/s: {:.0} heard per second, slow {slow:.1} %, {:?}",
            found.received_per_second, found.root
        );
        assert!(
            found.received_per_second <= max_received_per_second,
            "{rate} bit/s: {} heard",
            found.received_per_second
        );
        assert!(slow >= 90.0, "{rate} bit/s: {slow} %");
        // The root repairs the losses of its ten listeners; the others are repaired by their own
        // repair parents.
        assert!(
            found.root.data_resent <= 4 + frames * 10 / 2500,
            "{rate} bit/s: {} repairs",
            found.root.data_resent
        );
        assert!(
            found.totals.data_resent < 2 * frames / 10,
            "{rate} bit/s: {} repairs in all",
            found.totals.data_resent
        );
        assert!(
            found.added_bytes.max(found.repair_child_bytes) <= 10 * RECEIVER_BYTES,
            "{} bytes",
            found.added_bytes
        );
    }
}

#[test]
fn however_many_receivers_there_are_the_root_hears_little_and_they_lose_little_time() {
    for receivers in [8, 16, 17, 32, 64, 128, 129, 200] {
        let found = crowd(receivers, 5000, GIGABIT).run(RandomFaults::new(3).loss(1e-3));
        let slow = slow_percent(&found);
        println!(
            "{receivers}: {:.0} heard per second, slow {slow:.1} %, {:?}",
            found.received_per_second, found.root
        );
        assert!(
            found.received_per_second <= 12_000.0,
            "{receivers}: {} heard",
            found.received_per_second
        );
        assert!(slow >= 85.0, "{receivers}: {slow} %");
    }
}

/// A prober's cast has no ack tree.
#[test]
fn a_hundred_receivers_without_a_tree_acknowledge_through_the_slowest_and_now_and_then() {
    for receivers in [17, 33, 128] {
        let crowd = Crowd {
            fan_out: None,
            ..crowd(receivers, 5000, GIGABIT)
        };
        let found = crowd.run(RandomFaults::new(3).loss(1e-4));
        let slow = slow_percent(&found);
        println!(
            "{receivers}: {:.0} heard per second, slow {slow:.1} %, {:?}",
            found.received_per_second, found.root
        );
        assert!(
            found.received_per_second <= 10_000.0,
            "{receivers}: {} heard",
            found.received_per_second
        );
        assert!(slow >= 90.0, "{receivers}: {slow} %");
        assert!(
            found.added_bytes <= receivers * RECEIVER_BYTES,
            "{receivers}: {} bytes",
            found.added_bytes
        );
    }
}

/// Returns the number of acknowledgements at the root that report frame `sequence` missing, if all
/// receivers lose its first copy.
fn reports_of_a_common_loss(receivers: usize, session: u32) -> usize {
    // Varies the phase relative to the rounds of ordinary acknowledgements.
    let sequence = 300 + u64::from(session) * 97 % 500;
    let mut reports = 0;
    let lose = |delivery: &Delivery<'_>| {
        let Ok(frame) = parse(delivery.frame) else {
            return Fate::Deliver;
        };
        let header = &frame.header;
        if delivery.to == 0 && header.kind == Kind::ACK {
            let ack = Ack::parse(&frame).expect("receivers send what can be read");
            reports += usize::from(!ack.has(sequence) && ack.covered() > sequence);
        }
        let first_copy = header.kind == Kind::DATA
            && header.sequence == sequence
            && !header.flags.has(Flags::RESENT);
        if first_copy {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    };
    let found = Crowd {
        session,
        ..crowd(receivers, 1200, GIGABIT)
    }
    .run(lose);
    assert!(
        found.root.data_resent <= 3,
        "{receivers} receivers: {} repairs of one frame",
        found.root.data_resent
    );
    reports
}

#[test]
fn when_all_lose_the_same_frame_few_of_them_say_so_to_the_root() {
    for (receivers, seeds, most_mean) in [(33, 40, 6.0), (128, 20, 6.0), (1000, 5, 5.0)] {
        let mut reports: Vec<usize> = (0..seeds)
            .map(|session| reports_of_a_common_loss(receivers, session))
            .collect();
        reports.sort_unstable();
        let mean = reports.iter().sum::<usize>() as f64 / reports.len() as f64;
        println!("{receivers}: mean {mean:.1}, {reports:?}");
        assert!(
            mean <= most_mean && reports[reports.len() * 95 / 100] <= 15,
            "{receivers} receivers: {reports:?}"
        );
        assert!(reports[0] >= 1, "somebody has to");
    }
}

#[test]
fn one_receiver_that_loses_a_third_costs_the_others_the_repairs_budget_and_the_root_its_4_kib() {
    let undisturbed = slowest_percent(&crowd(32, 8192, GIGABIT).run(NoFaults));
    let found = crowd(32, 8192, GIGABIT).run(RandomFaults::new(1).loss_at(7, 0.3));
    let others = found
        .goodput_percent
        .iter()
        .enumerate()
        .filter(|(position, _)| *position != 6)
        .map(|(_, percent)| *percent);
    let slowest = others.fold(f64::INFINITY, f64::min);
    println!(
        "{slowest:.1} of {undisturbed:.1} %, {} bytes, {:?}",
        found.added_bytes, found.root
    );
    // At most 25 repairs per 100 new frames.
    assert!(slowest >= undisturbed / 1.25 - 0.5, "{slowest} %");
    assert!(
        found.added_bytes <= 32 * RECEIVER_BYTES,
        "{} bytes",
        found.added_bytes
    );
    // Only the bad receiver's losses are repeated: 0.3 + 0.3² + … of the frames.
    assert!(
        (found.root.data_resent as f64) < 8192.0 * 0.3 / 0.7 * 1.1,
        "{} repairs",
        found.root.data_resent
    );
}

/// The bad receiver's repairs amount to 0.43 per frame: in a stream much longer than the feed all
/// others wait for it in the end.
#[test]
fn in_the_long_run_all_go_as_fast_as_the_worst_can_be_repaired() {
    let found = crowd(32, 40_000, GIGABIT).run(RandomFaults::new(2).loss_at(7, 0.3));
    let slowest = slowest_percent(&found);
    println!(
        "{slowest:.1} %, {} bytes, {:?}",
        found.added_bytes, found.root
    );
    assert!((55.0..=71.0).contains(&slowest), "{slowest} %");
    assert!(
        found.added_bytes <= 32 * RECEIVER_BYTES,
        "{} bytes",
        found.added_bytes
    );
}

#[test]
fn a_ward_that_loses_a_third_is_repaired_by_the_one_it_acknowledges_to_alone() {
    // Rank 30 acknowledges to rank 2 of 140.
    let found = crowd(140, 6000, GIGABIT).run(RandomFaults::new(1).loss_at(30, 0.3));
    println!(
        "{:.1} %, {:?}\n{:?}",
        slowest_percent(&found),
        found.root,
        found.totals
    );
    assert_eq!(found.root.data_resent, 0);
    assert!(
        (found.totals.data_resent as f64) < 6000.0 * 0.3 / 0.7 * 1.2,
        "{} repairs",
        found.totals.data_resent
    );
    // Its repairs take nothing from the root's link: only credit limits the others.
    let others = found
        .goodput_percent
        .iter()
        .enumerate()
        .filter(|(position, _)| *position != 29)
        .map(|(_, percent)| *percent);
    let slowest = others.fold(f64::INFINITY, f64::min);
    assert!(slowest >= 85.0, "{slowest} %");
}

#[test]
fn strict_go_back_n_among_32_does_not_sit_out_long_timeouts() {
    let tuning = ethbcast_transport::Tuning::paper();
    let crowd = Crowd {
        receivers: 32,
        fan_out: None,
        frames: 2000,
        rate_bits_per_second: GIGABIT,
        tuning,
        session: 7,
    };
    let found = crowd.run(RandomFaults::new(3).loss(1e-3));
    let slowest = slowest_percent(&found);
    assert!(
        slowest > 5.0,
        "{slowest:.1} %: every lost tail of a window costs a timeout"
    );
    assert!(found.root.heartbeats_sent <= 40, "{:?}", found.root);
}
