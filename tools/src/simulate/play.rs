//! One simulated transfer of `ethbcast simulate`, from announcement to result.

use super::figures::Wiring;
use super::process::{Load, Sender, SimulatedHost, Taker, Watch, content};
use super::settings::SimulationSettings;
use crate::exit::{Code, Failure, fail};
use ethbcast_collectives::session::application::{Participant, Receiving};
use ethbcast_collectives::session::{
    ControlStats, MemberReport, Outcome as Fate, Receiver, ReceiverConfig, Root, RootConfig, RootFailure, Route,
    Station, Timing, Wanted,
};
use ethbcast_planning::model::Choice;
use ethbcast_planning::plan::Via;
use ethbcast_transport::sim::{Outcome, Random, RandomFaults, Simulation};
use ethbcast_transport::stream::StreamStats;
use ethbcast_transport::wire::group_mac;
use ethbcast_transport::{Instant, Tuning};
use std::time::Duration;

const GROUP: &str = "simulated";
/// Longest wait of hosts for each other; under heavy loss, thousands of hosts take a while to meet.
const PATIENCE: Duration = Duration::from_secs(60);
const FEEDS_BYTES: u64 = 4 << 30;
/// Minimum feed size, several times the data in flight between two hosts at 10 Gbit/s.
const MIN_FEED_FRAMES: u64 = 256;

#[derive(Clone, Debug)]
pub struct Played {
    pub choice: Choice,
    /// Time from the first data frame to the last verdict.
    pub took: Duration,
    /// Time from the first data frame until the last receiver has consumed the last bytes, which
    /// the model predicts.
    pub delivered_after: Duration,
    /// Time from the last verdict until no frame and no timer was left.
    pub quiesced_after: Duration,
    pub stream: StreamStats,
    /// Control frames sent by all hosts, including acknowledgements and heartbeats.
    pub control_sent: u64,
    pub control_received: u64,
    /// Frames lost on the way to a host that needed them.
    pub lost: u64,
    /// Load of each direction of each cable, in the topology's order.
    pub loads: Vec<Load>,
    pub receivers: Vec<MemberReport>,
}

impl Played {
    pub fn via(&self) -> Via {
        self.choice.plan.via()
    }

    pub fn failed(&self) -> impl Iterator<Item = &MemberReport> + '_ {
        self.receivers.iter().filter(|member| member.outcome != Fate::Delivered)
    }
}

pub fn play(settings: &SimulationSettings, route: &Route) -> anyhow::Result<Played> {
    let conditions = &settings.conditions;
    let wiring = Wiring::new(&settings.topology, conditions, settings.copy.time, group_mac(GROUP));
    let faults = RandomFaults::new(conditions.seed).loss(conditions.loss);
    let mut simulation = Simulation::new(&wiring.network, hosts(settings, &wiring, route), faults);
    let (outcome, watch) = Watch::run(&mut simulation, settings.root);
    let Outcome::Quiet { at } = outcome else {
        return fail(Code::Nobody, format!("the simulated session did not end ({outcome:?}); try less loss"));
    };
    let lost = simulation.stats().drops.harmful();
    let hosts = simulation.into_machines();
    let Participant::Root(root, sending) = &hosts[settings.root] else { unreachable!("the root is where it was put") };
    if let Some(failure) = root.failure() {
        let code = if matches!(failure, RootFailure::NoPlan(_)) { Code::Usage } else { Code::Nobody };
        return fail(code, failure);
    }
    let took = root.took();
    let choice =
        root.choice().ok_or_else(|| Failure::new(Code::Nobody, "the simulated hosts did not meet; try less loss"))?;
    let began = sending.source().began.unwrap_or_default();
    let taken_at = |receiving: &Receiving<Taker>| receiving.sink().taken_at;
    let delivered = hosts.iter().filter_map(SimulatedHost::receiving).map(taken_at).fold(began, Instant::max);
    let stream = hosts.iter().map(SimulatedHost::stream_stats).fold(StreamStats::default(), |sum, one| sum + one);
    let control = |count: fn(&ControlStats) -> u64| hosts.iter().map(|host| count(&host.control_stats())).sum::<u64>();
    Ok(Played {
        choice: choice.clone(),
        took,
        delivered_after: delivered.since(began),
        quiesced_after: watch.quiesced_after(at),
        stream,
        control_sent: control(|stats| stats.sent) + stream.acks_sent + stream.heartbeats_sent,
        control_received: control(|stats| stats.received) + stream.acks_received + stream.heartbeats_received,
        lost,
        loads: watch.loads(&wiring, conditions, took),
        receivers: root.reports().cloned().collect(),
    })
}

fn hosts(settings: &SimulationSettings, wiring: &Wiring, route: &Route) -> Vec<SimulatedHost> {
    let content = content(settings.bytes, settings.conditions.seed);
    let names = settings.topology.hosts();
    let tuning = tuning(settings);
    let conclusion = settings.conditions.conclusion(names.len() - 1);
    // Hosts are out of phase as in reality; otherwise all join requests would collide again and
    // again.
    let (usual_join, mut random) = (Timing::default().join, Random::new(settings.conditions.seed));
    let host = |(host, name): (usize, &String)| {
        let station = Station::new(GROUP, name, wiring.network.mac_of(host), settings.conditions.mtu_bytes);
        if host == settings.root {
            let root = Root::new(Instant::START, root_config(settings, station, route, tuning.clone()));
            return Participant::root(root, Sender::new(content.clone()));
        }
        let config = ReceiverConfig {
            patience: Some(PATIENCE),
            tuning: tuning.clone(),
            timing: Timing { join: usual_join.mul_f64(random.unit() / 2.0 + 0.75), ..Timing::default() },
            ..ReceiverConfig::new(station, settings.conditions.seed << 32 | host as u64)
        };
        Participant::receiver(Receiver::new(Instant::START, config), Taker::new(content.clone(), conclusion))
    };
    names.iter().enumerate().map(host).collect()
}

fn root_config(settings: &SimulationSettings, station: Station, route: &Route, tuning: Tuning) -> RootConfig {
    RootConfig {
        size: Some(settings.bytes),
        wanted: Wanted { patience: PATIENCE, ..Wanted::exactly(settings.topology.hosts().len() - 1) },
        route: route.clone(),
        calibration: Some(settings.calibration.clone()),
        topology: Some(settings.topology.clone()),
        tuning,
        probe: false,
        ..RootConfig::new(station, settings.conditions.seed as u32, "simulated")
    }
}

/// Returns the tool's tuning. Feeds are smaller only if all together would exceed the memory limit.
fn tuning(settings: &SimulationSettings) -> Tuning {
    let usual = Tuning::default();
    let (hosts, payload_bytes) = (settings.topology.hosts().len() as u64, settings.conditions.payload_bytes());
    let stream_frames = settings.bytes.div_ceil(payload_bytes) + 1;
    let usual_frames = usual.feed_frames_for(payload_bytes as usize);
    if hosts * payload_bytes * stream_frames.min(usual_frames) <= FEEDS_BYTES {
        return usual;
    }
    let affordable_frames = (FEEDS_BYTES / hosts / payload_bytes).max(MIN_FEED_FRAMES);
    usual.with_feed_frames(usual_frames.min(1 << affordable_frames.ilog2()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::settings::{Conditions, OneCopy, Routes};
    use ethbcast_planning::topology::Topology;

    fn settings(hosts: usize, bytes: u64, loss: f64) -> SimulationSettings {
        let delay = Duration::from_nanos(500);
        let conditions = Conditions {
            rate_bits_per_second: 1_000_000_000,
            mtu_bytes: 1500,
            loss,
            delay,
            lab: false,
            seed: 1,
            processing: None,
            naps: true,
        };
        let copy = OneCopy::new(bytes, &conditions);
        SimulationSettings {
            name: "one switch".to_owned(),
            topology: Topology::single_switch((0..hosts).map(|host| format!("n{host}"))).expect("good names"),
            root: 0,
            bytes,
            copy,
            routes: Routes { all: vec![Route::Auto], compared: false },
            calibration: conditions.calibration(copy.time),
            conditions,
            compared: false,
        }
    }

    #[test]
    fn one_frame_and_its_verdict_take_the_time_of_their_way() {
        // A chain would split the message into several short ones.
        let played = play(&settings(2, 1000, 0.0), &Route::Via(Via::Flat)).expect("a run");
        assert_eq!(
            (played.stream.data_sent, played.stream.data_resent, played.lost),
            (2, 0, 0),
            "the bytes, and the end"
        );
        // The frame and the end behind it are sent and forwarded. The process wakes up and
        // concludes, and its verdict goes back. The root accepts it and is notified of the delivery.
        let wire = |bytes: u64| (bytes + 24) * 8;
        let there = 2 * wire(1046) + wire(46 + 40) + 2 * 500 + 6_000 + 150_000;
        let back = 2 * (wire(60) + 500) + 6_000;
        let accepted = 2 * (wire(46 + 46) + 500) + 6_000;
        let expected = there + back + accepted + back;
        let nanos = played.took.as_nanos() as u64;
        assert!((expected..expected + 5_000).contains(&nanos), "{nanos} ns, expected {expected} and a little");
    }

    #[test]
    fn a_chain_loads_every_cable_on_its_way_once() {
        let played = play(&settings(3, 100_000, 0.0), &Route::Via(Via::Chain)).expect("a run");
        let copies = |from: &str, to: &str| {
            let load = played.loads.iter().find(|load| load.from == from && load.to == to).expect("a cable");
            load.counted.bytes as f64 / settings(3, 100_000, 0.0).copy.frame_bytes as f64
        };
        for (from, to) in [("n0", "s0"), ("s0", "n1"), ("n1", "s0"), ("s0", "n2")] {
            assert!((1.0..1.02).contains(&copies(from, to)), "{from} to {to}: {}", copies(from, to));
        }
        for (from, to) in [("n2", "s0"), ("s0", "n0")] {
            assert!(copies(from, to) < 0.02, "only acknowledgements go back from {from} to {to}: {}", copies(from, to));
        }
        assert_eq!(played.failed().count(), 0);
    }

    #[test]
    fn every_way_delivers_over_a_network_that_loses_frames() {
        for &via in Via::ALL {
            let played = play(&settings(5, 50_000, 0.05), &Route::Via(via)).expect("a run");
            assert_eq!((played.via(), played.failed().count()), (via, 0));
            assert!(
                played.lost > 0 && played.stream.data_resent > 0,
                "via {via}: {} lost, {} again",
                played.lost,
                played.stream.data_resent
            );
        }
    }
}
