//! Test helper: runs a small simulated broadcast, checks every receiver's bytes, and returns the
//! cost in frames.

mod case;
pub mod gaps;
pub mod guard;
pub mod key;

pub use case::{Case, PAYLOAD_BYTES, Path, identity, payload, peer};

use ethbcast_transport::Alone;
use ethbcast_transport::Instant;
use ethbcast_transport::sim::{Cable, Faults, HostSettings, Network, Outcome, Simulation};
use ethbcast_transport::stream::{Ending, Stream, StreamStats};
use ethbcast_transport::wire::group_mac;
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub struct Price {
    pub quiesced_at: Duration,
    pub totals: StreamStats,
    pub cable_frames: u64,
}

pub fn broadcast(case: &Case, faults: impl Faults, replay: &str) -> Price {
    let settings = HostSettings {
        groups: vec![group_mac("test")],
        ..HostSettings::default()
    };
    let network = Network::star(
        case.hosts,
        Cable::new(100_000_000, Duration::from_micros(5)),
        &settings,
    );
    let machines = (0..case.hosts)
        .map(|host| key::alone(case.stream(host)))
        .collect();
    let mut simulation = Simulation::new(&network, machines, faults);
    simulation.set_event_limit(5_000_000);
    let mut pushed = 0;
    let mut taken = vec![0_u64; case.hosts];
    let mut may_take = Instant::START;
    let mut turn = |host: usize, machine: &mut Alone<Stream>, now: Instant| {
        let stream = &mut machine.part;
        stream
            .audit()
            .unwrap_or_else(|why| panic!("{replay}: host {host}: {why}"));
        if host == 0 {
            case.push(stream, &mut pushed, case.frames);
            return None;
        }
        if let Some(pause) = case.last_takes.filter(|_| host + 1 == case.hosts) {
            if now < may_take {
                return Some(may_take);
            }
            may_take = now + pause;
        }
        if stream.backlog_frames() < case.lazy_frames && !stream.feed().is_complete() {
            return None;
        }
        while let Some((bytes, ending)) = stream.peek() {
            assert_eq!(
                bytes,
                payload(taken[host]),
                "{replay}: host {host}, frame {}",
                taken[host]
            );
            assert_eq!(
                ending == Ending::Stream,
                taken[host] + 1 == case.frames,
                "{replay}: host {host}"
            );
            taken[host] += 1;
            stream.consume(now);
            if case.last_takes.is_some() && host + 1 == case.hosts {
                break;
            }
        }
        (case.last_takes.is_some() && host + 1 == case.hosts && stream.backlog_frames() > 0)
            .then_some(may_take)
    };
    let outcome = simulation.run(Instant::from_nanos(60_000_000_000), &mut turn);
    let Outcome::Quiet { at } = outcome else {
        panic!("{replay}: not quiet: {outcome:?}, taken {taken:?}")
    };
    assert!(
        taken[1..].iter().all(|&count| count == case.frames),
        "{replay}: taken {taken:?} of {}",
        case.frames
    );
    assert!(
        simulation
            .machines()
            .iter()
            .all(|machine| machine.part.is_settled()),
        "{replay}: not settled"
    );
    let totals = simulation
        .machines()
        .iter()
        .map(|machine| machine.part.stats())
        .fold(StreamStats::default(), |sum, one| sum + one);
    // Damage can make one version of another.
    assert!(
        totals.forged_acks == 0 && totals.non_members <= totals.malformed + 1,
        "{replay}: {totals:?}"
    );
    let cable_frames = (0..case.hosts)
        .map(|host| simulation.stats().hosts[host].sent_frames)
        .sum();
    Price {
        quiesced_at: at.since(Instant::START),
        totals,
        cable_frames,
    }
}
