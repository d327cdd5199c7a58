//! One simulated transfer of `ethbcast simulate`, from announcement to result, with the application
//! on each host.

use super::figures::Wiring;
use super::{Conditions, SimulationSettings};
use crate::exit::{Code, Failure, fail};
use ethbcast_collectives::session::application::{
    MemoryContent, Next, Participant, Receiving, Sink, SinkState, Source,
};
use ethbcast_collectives::session::{
    Arrival, ControlStats, Done, MemberReport, Outcome as ReceiverOutcome, Receiver,
    ReceiverConfig, Root, RootConfig, RootEvent, RootFailure, Route, Station, Timing, Trailer,
    Wanted,
};
use ethbcast_planning::model::Choice;
use ethbcast_planning::plan::Via;
use ethbcast_planning::topology::{NEVER, Topology};
use ethbcast_transport::sim::{
    Delivery, DirectionStats, Fate, Faults, Outcome, Random, RandomFaults, Simulation, Stats,
};
use ethbcast_transport::stream::StreamStats;
use ethbcast_transport::wire::group_mac;
use ethbcast_transport::{Instant, Tuning};
use std::cell::Cell;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

const GROUP: &str = "simulated";
/// Longest wait of hosts for each other; under heavy loss, thousands of hosts take a while to meet.
const PATIENCE: Duration = Duration::from_secs(60);
const FEEDS_BYTES: u64 = 4 << 30;
/// Minimum feed size, several times the data in flight between two hosts at 10 Gbit/s.
const MIN_FEED_FRAMES: u64 = 256;

/// Outcome of a run. `took` lasts from the first data frame to the last verdict, `delivered_after`
/// from the same until the last receiver has consumed the last bytes, which the model predicts, and
/// `quiesced_after` from the last verdict until no frame and no timer was left. Control frames
/// include acknowledgements and heartbeats; a frame counts as lost if a host needed it.
#[derive(Clone, Debug)]
pub struct Played {
    pub choice: Choice,
    pub took: Duration,
    pub delivered_after: Duration,
    pub quiesced_after: Duration,
    pub stream: StreamStats,
    pub control_sent: u64,
    pub control_received: u64,
    pub lost: u64,
    pub loads: Vec<Load>,
    pub receivers: Vec<MemberReport>,
}

impl Played {
    pub fn via(&self) -> Via {
        self.choice.plan.via()
    }

    pub fn failed(&self) -> impl Iterator<Item = &MemberReport> + '_ {
        self.receivers
            .iter()
            .filter(|member| member.outcome != ReceiverOutcome::Delivered)
    }
}

pub fn play(settings: &SimulationSettings, route: &Route) -> anyhow::Result<Played> {
    let conditions = &settings.conditions;
    let wiring = Wiring::new(
        &settings.topology,
        conditions,
        settings.copy.time,
        group_mac(GROUP),
    );
    let faults = PairFaults {
        topology: &settings.topology,
        random: RandomFaults::new(conditions.seed).loss(conditions.loss),
    };
    let mut simulation = Simulation::new(&wiring.network, hosts(settings, &wiring, route), faults);
    let (outcome, watch) = Watch::run(&mut simulation, settings.root);
    let Outcome::Quiet { at } = outcome else {
        return fail(
            Code::Nobody,
            format!("the simulated session did not end ({outcome:?}); try less loss"),
        );
    };
    let lost = simulation.stats().drops.harmful();
    let hosts = simulation.into_machines();
    let Participant::Root(root, sending) = &hosts[settings.root] else {
        unreachable!("the root is where it was put")
    };
    if let Some(failure) = root.failure() {
        let code = if matches!(failure, RootFailure::NoPlan(_)) {
            Code::Usage
        } else {
            Code::Nobody
        };
        return fail(code, failure);
    }
    let took = root.took();
    let choice = root.choice().ok_or_else(|| {
        Failure::new(
            Code::Nobody,
            "the simulated hosts did not meet; try less loss",
        )
    })?;
    let began = sending.source().began.unwrap_or_default();
    let taken_at = |receiving: &Receiving<Taker>| receiving.sink().taken_at;
    let delivered = hosts
        .iter()
        .filter_map(SimulatedHost::receiving)
        .map(taken_at)
        .fold(began, Instant::max);
    let stream = hosts
        .iter()
        .map(SimulatedHost::stream_stats)
        .fold(StreamStats::default(), |sum, one| sum + one);
    let control = |count: fn(&ControlStats) -> u64| {
        hosts
            .iter()
            .map(|host| count(&host.control_stats()))
            .sum::<u64>()
    };
    Ok(Played {
        choice: choice.clone(),
        took,
        delivered_after: delivered.since(began),
        quiesced_after: watch.quiesced_after(at),
        stream,
        control_sent: control(|stats| stats.sent) + stream.acks_sent + stream.heartbeats_sent,
        control_received: control(|stats| stats.received)
            + stream.acks_received
            + stream.heartbeats_received,
        lost,
        loads: watch.loads(&wiring, conditions, took),
        receivers: root.reports().cloned().collect(),
    })
}

/// Random faults, and what the topology says of single pairs: that frames between them take longer,
/// or never arrive.
pub struct PairFaults<'a> {
    topology: &'a Topology,
    random: RandomFaults,
}

impl Faults for PairFaults<'_> {
    fn fate(&mut self, delivery: &Delivery<'_>) -> Fate {
        let of_pair = |from: usize| self.topology.pair_latency_ns(from, delivery.to);
        match (delivery.from.map_or(0, of_pair), self.random.fate(delivery)) {
            (NEVER, _) => Fate::Drop,
            (latency_ns @ 1.., Fate::Deliver) => Fate::Delay(Duration::from_nanos(latency_ns)),
            (_, fate) => fate,
        }
    }
}

fn hosts(settings: &SimulationSettings, wiring: &Wiring, route: &Route) -> Vec<SimulatedHost> {
    let content = content(settings.bytes, settings.conditions.seed);
    let names = settings.topology.hosts();
    let tuning = tuning(settings);
    let conclusion = settings.conditions.conclusion(names.len() - 1);
    // Hosts are out of phase as in reality; otherwise all join requests would collide again and
    // again.
    let (usual_join, mut random) = (
        Timing::default().join,
        Random::new(settings.conditions.seed),
    );
    let host = |(host, name): (usize, &String)| {
        let station = Station::new(
            GROUP,
            name,
            wiring.network.mac_of(host),
            settings.conditions.mtu_bytes,
        );
        if host == settings.root {
            let root = Root::new(
                Instant::START,
                root_config(settings, station, route, tuning.clone()),
            );
            return Participant::root(root, Sender::new(content.clone()));
        }
        let config = ReceiverConfig {
            patience: Some(PATIENCE),
            tuning: tuning.clone(),
            timing: Timing {
                join: usual_join.mul_f64(random.unit() / 2.0 + 0.75),
                ..Timing::default()
            },
            ..ReceiverConfig::new(station, settings.conditions.seed << 32 | host as u64)
        };
        Participant::receiver(
            Receiver::new(Instant::START, config),
            Taker::new(content.clone(), conclusion),
        )
    };
    names.iter().enumerate().map(host).collect()
}

fn root_config(
    settings: &SimulationSettings,
    station: Station,
    route: &Route,
    tuning: Tuning,
) -> RootConfig {
    RootConfig {
        size: Some(settings.bytes),
        wanted: Wanted {
            patience: PATIENCE,
            ..Wanted::exactly(settings.topology.hosts().len() - 1)
        },
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
    let (hosts, payload_bytes) = (
        settings.topology.hosts().len() as u64,
        settings.conditions.payload_bytes(),
    );
    let stream_frames = settings.bytes.div_ceil(payload_bytes) + 1;
    let usual_frames = usual.feed_frames_for(payload_bytes as usize);
    if hosts * payload_bytes * stream_frames.min(usual_frames) <= FEEDS_BYTES {
        return usual;
    }
    let affordable_frames = (FEEDS_BYTES / hosts / payload_bytes).max(MIN_FEED_FRAMES);
    usual.with_feed_frames(usual_frames.min(1 << affordable_frames.ilog2()))
}

pub type SimulatedHost = Participant<Sender, Taker>;

/// The content and its digest, of which all simulated hosts share one copy.
pub type Shared = MemoryContent<Rc<[u8]>>;

pub fn content(bytes: u64, seed: u64) -> Shared {
    let mut content: Rc<[u8]> = std::iter::repeat_n(0, bytes as usize).collect();
    Random::new(seed).fill(Rc::get_mut(&mut content).expect("it is not shared yet"));
    MemoryContent::new(content)
}

#[derive(Debug)]
pub struct Sender {
    content: Shared,
    pub(super) began: Option<Instant>,
    pushing: bool,
    all_reported: bool,
}

impl Sender {
    pub fn new(content: Shared) -> Sender {
        Sender {
            content,
            began: None,
            pushing: false,
            all_reported: false,
        }
    }
}

impl Source for Sender {
    fn next(&mut self, now: Instant, consumed: bool) -> Next<'_> {
        if !std::mem::replace(&mut self.pushing, true) {
            // A separate step at the same time, so that counters can be read before the first data
            // frame.
            return Next::Until(now);
        }
        self.content.next(now, consumed)
    }

    fn advance(&mut self, bytes: usize) {
        self.content.advance(bytes);
    }

    fn on_event(&mut self, now: Instant, event: &RootEvent) -> ControlFlow<String> {
        match event {
            RootEvent::Started { .. } => self.began = Some(now),
            RootEvent::AllReported => self.all_reported = true,
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

#[derive(Debug)]
pub struct Taker {
    content: Shared,
    taken: usize,
    pub(super) taken_at: Instant,
    equal: bool,
    conclusion: Duration,
    concludes_at: Option<(Instant, Trailer)>,
}

impl Taker {
    pub fn new(content: Shared, conclusion: Duration) -> Taker {
        Taker {
            content,
            taken: 0,
            taken_at: Instant::START,
            equal: true,
            conclusion,
            concludes_at: None,
        }
    }
}

impl Sink for Taker {
    fn take(&mut self, now: Instant, arrival: Arrival<'_>) {
        match arrival {
            Arrival::Bytes(bytes) | Arrival::Message(bytes) => {
                self.equal &= self
                    .content
                    .bytes()
                    .get(self.taken..)
                    .unwrap_or_default()
                    .starts_with(bytes);
                self.taken += bytes.len();
                self.taken_at = now;
            }
            Arrival::End(trailer) => self.concludes_at = Some((now + self.conclusion, trailer)),
        }
    }

    fn turn(&mut self, now: Instant) -> SinkState {
        let due = self.concludes_at.take_if(|(at, _)| *at <= now);
        let verdict = due.map(|(_, trailer)| {
            let bytes = self.taken as u64;
            let sound = self.equal && trailer == self.content.trailer() && trailer.bytes == bytes;
            Done {
                outcome: if sound {
                    ReceiverOutcome::Verified
                } else {
                    ReceiverOutcome::Damaged
                },
                bytes,
                digest: trailer.digest,
                text: String::new(),
            }
        });
        SinkState {
            is_syncing: false,
            verdict,
            again_at: self.concludes_at.map(|(at, _)| at),
        }
    }
}

const MAX_RUN: Duration = Duration::from_secs(24 * 3600);

/// Load of one direction of a cable between the first data frame and the last verdict. Bytes are
/// without preamble, checksum and gap.
#[derive(Clone, Debug)]
pub struct Load {
    pub from: String,
    pub to: String,
    pub counted: DirectionStats,
    pub busy: f64,
}

/// Counters at the first data frame and at the last verdict.
#[derive(Debug, Default)]
pub struct Watch {
    at_first_data: Stats,
    at_last_verdict: Stats,
    ended_at: Option<Instant>,
}

impl Watch {
    /// Runs until the network is quiescent, and reads its counters at the first data frame and at
    /// the last verdict.
    pub fn run(
        simulation: &mut Simulation<SimulatedHost, PairFaults<'_>>,
        root: usize,
    ) -> (Outcome, Watch) {
        let mut watch = Watch::default();
        if let Some(outcome) = run_until(simulation, root, |sender| sender.began.is_some()) {
            return (outcome, watch);
        }
        watch.at_first_data = simulation.stats();
        let early = run_until(simulation, root, |sender: &Sender| sender.all_reported);
        watch.at_last_verdict = simulation.stats();
        watch.ended_at = Some(simulation.now());
        let rest = || simulation.run(Instant::START + MAX_RUN, |_, host, now| host.turn(now));
        (early.unwrap_or_else(rest), watch)
    }

    pub fn quiesced_after(&self, quiesced_at: Instant) -> Duration {
        self.ended_at
            .map_or(Duration::ZERO, |ended_at| quiesced_at.since(ended_at))
    }

    /// Returns the load of each direction of each cable, in the topology's order. `took` is the
    /// time between both moments.
    pub fn loads(&self, wiring: &Wiring, conditions: &Conditions, took: Duration) -> Vec<Load> {
        let pairs = self
            .at_first_data
            .cables
            .iter()
            .zip(&self.at_last_verdict.cables)
            .zip(&wiring.ends);
        let load = |from: &str, to: &str, counted: DirectionStats| {
            let bits = (counted.bytes + counted.frames * conditions.overhead_bytes()) as f64 * 8.0;
            let capacity = conditions.rate_bits_per_second as f64 * took.as_secs_f64();
            let busy = if capacity > 0.0 {
                (bits / capacity).min(1.0)
            } else {
                0.0
            };
            Load {
                from: from.to_owned(),
                to: to.to_owned(),
                counted,
                busy,
            }
        };
        pairs
            .flat_map(|((before, after), [near, far])| {
                let forward = load(near, far, after.forward.since(&before.forward));
                [
                    forward,
                    load(far, near, after.backward.since(&before.backward)),
                ]
            })
            .collect()
    }
}

/// Runs until the root meets a condition, or returns the outcome if the run ends before.
fn run_until(
    simulation: &mut Simulation<SimulatedHost, PairFaults<'_>>,
    root: usize,
    reached: impl Fn(&Sender) -> bool,
) -> Option<Outcome> {
    let there = Cell::new(false);
    let mut turn = |number: usize, host: &mut SimulatedHost, now: Instant| {
        let again = host.turn(now);
        if number == root {
            there.set(
                host.sending()
                    .is_some_and(|sending| reached(sending.source())),
            );
        }
        again
    };
    while !there.get() {
        if let Some(outcome) = simulation.step(Instant::START + MAX_RUN, &mut turn) {
            return Some(outcome);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::{Conditions, OneCopy, Routes};
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
            topology: Topology::single_switch((0..hosts).map(|host| format!("n{host}")))
                .expect("good names"),
            root: 0,
            bytes,
            copy,
            routes: Routes {
                all: vec![Route::Auto],
                compared: false,
            },
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
            (
                played.stream.data_sent,
                played.stream.data_resent,
                played.lost
            ),
            (2, 0, 0),
            "the bytes, and the end"
        );
        // The frame and the end behind it are sent and forwarded. The process wakes up and
        // concludes, and its verdict goes back. The root accepts it and is notified of the
        // delivery.
        let wire = |bytes: u64| (bytes + 24) * 8;
        let there = 2 * wire(1046) + wire(46 + 40) + 2 * 500 + 6_000 + 150_000;
        let back = 2 * (wire(60) + 500) + 6_000;
        let accepted = 2 * (wire(46 + 46) + 500) + 6_000;
        let expected = there + back + accepted + back;
        let nanos = played.took.as_nanos() as u64;
        assert!(
            (expected..expected + 5_000).contains(&nanos),
            "{nanos} ns, expected {expected} and a little"
        );
    }

    #[test]
    fn a_chain_loads_every_cable_on_its_way_once() {
        let played = play(&settings(3, 100_000, 0.0), &Route::Via(Via::Chain)).expect("a run");
        let copies = |from: &str, to: &str| {
            let load = played
                .loads
                .iter()
                .find(|load| load.from == from && load.to == to)
                .expect("a cable");
            load.counted.bytes as f64 / settings(3, 100_000, 0.0).copy.frame_bytes as f64
        };
        for (from, to) in [("n0", "s0"), ("s0", "n1"), ("n1", "s0"), ("s0", "n2")] {
            assert!(
                (1.0..1.02).contains(&copies(from, to)),
                "{from} to {to}: {}",
                copies(from, to)
            );
        }
        for (from, to) in [("n2", "s0"), ("s0", "n0")] {
            assert!(
                copies(from, to) < 0.02,
                "only acknowledgements go back from {from} to {to}: {}",
                copies(from, to)
            );
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
