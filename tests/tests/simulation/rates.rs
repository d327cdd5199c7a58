//! Simulated tests of rate limits, and of transfers at low priority.

use ethbcast_collectives::session::application::Participant;
use ethbcast_collectives::session::{
    OnSlow, Outcome, Rate, Receiver, ReceiverConfig, Root, RootConfig, Route, Station, Wanted,
};
use ethbcast_planning::plan::Via;
use ethbcast_tests::session::{Case, Disk, Host, Sent, data, hosts, run, star, turn};
use ethbcast_transport::sim::{
    Cable, Delivery, Departure, Fate, Faults, HostSettings, Network, RandomFaults, Sending,
    Simulation, SwitchSettings, host_mac,
};
use ethbcast_transport::wire::group_mac;
use ethbcast_transport::{Instant, Tuning};
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

const LINK_BITS_PER_SECOND: u64 = 100_000_000;
const LIMIT_BITS_PER_SECOND: u64 = 40_000_000;
const SECOND: Duration = Duration::from_secs(1);
/// A frame and the control messages of a second at most, in bits.
const BOUNDARY_BITS: u64 = 1514 * 8 * 2;

/// Host, moment and bytes of each departure, in bytes as the kernel counts them.
#[derive(Clone, Default)]
struct RateMeter(Rc<RefCell<Vec<(usize, Instant, usize)>>>);

impl RateMeter {
    /// Bytes sent within a second from each frame of a host on, for seconds inside `within`.
    fn seconds(&self, host: usize, within: &Range<Instant>) -> Vec<u64> {
        let log = self.0.borrow();
        let own: Vec<_> = log.iter().filter(|(from, ..)| *from == host).collect();
        let whole = |begin: Instant| within.start <= begin && begin + SECOND <= within.end;
        let bits = |begin: Instant| {
            let from = own.partition_point(|(_, at, _)| *at < begin);
            let to = own.partition_point(|(_, at, _)| *at < begin + SECOND);
            own[from..to]
                .iter()
                .map(|(.., bytes)| *bytes as u64 * 8)
                .sum()
        };
        own.iter()
            .map(|(_, at, _)| *at)
            .filter(|&at| whole(at))
            .step_by(7)
            .map(bits)
            .collect()
    }

    /// Time from a host's hundredth full frame (the first ones probe whether such frames arrive) to
    /// its last.
    fn bulk(&self, host: usize) -> Range<Instant> {
        let log = self.0.borrow();
        let mut full = log
            .iter()
            .filter(|(from, _, bytes)| *from == host && *bytes > 1000)
            .map(|(_, at, _)| *at);
        let first = full.nth(100).expect("a host that sends");
        first..full.next_back().unwrap_or(first)
    }
}

struct Metered {
    faults: RandomFaults,
    meter: RateMeter,
}

impl Faults for Metered {
    fn fate(&mut self, delivery: &Delivery<'_>) -> Fate {
        self.faults.fate(delivery)
    }

    fn sending(&mut self, departure: &Departure<'_>) -> Sending {
        let length = departure.frame.len();
        self.meter
            .0
            .borrow_mut()
            .push((departure.from, departure.at, length));
        Sending::Taken
    }
}

fn limited(via: Via, receivers: usize, seconds: f64) -> Case {
    let bytes = (LIMIT_BITS_PER_SECOND as f64 * seconds / 8.0) as usize;
    let rate = Rate::new(LIMIT_BITS_PER_SECOND);
    Case {
        mtu_bytes: 1500,
        rate,
        ..Case::new(via, receivers, bytes)
    }
    .with_feed(1024)
}

/// Plays it, and changes the root's limit at a moment; returns the duration and the departures.
fn play_limited(
    case: &Case,
    network: &Network,
    loss: f64,
    change: Option<(Duration, Rate)>,
) -> (Duration, RateMeter) {
    let meter = RateMeter::default();
    let faults = Metered {
        faults: RandomFaults::new(7).loss(loss),
        meter: meter.clone(),
    };
    let mut simulation = Simulation::new(network, hosts(case, 7), faults);
    simulation.set_event_limit(20_000_000);
    let replay = format!("{} to {} at {loss}", case.via, case.receivers);
    run(
        &mut simulation,
        Duration::from_secs(60),
        &replay,
        |host: &mut Host, now| {
            let again = turn(host, now);
            if let (Participant::Root(root, _), Some((at, rate))) = (host, change) {
                if now >= Instant::START + at {
                    root.set_rate(now, rate);
                } else {
                    return again.into_iter().chain([Instant::START + at]).min();
                }
            }
            again
        },
    );
    let Participant::Root(root, _) = &simulation.machines()[0] else {
        unreachable!("host 0 is the root")
    };
    assert!(
        root.reports()
            .all(|report| report.outcome == Outcome::Delivered),
        "{replay}"
    );
    (root.took(), meter)
}

fn extremes(meter: &RateMeter, host: usize) -> (u64, u64) {
    let seconds = meter.seconds(host, &meter.bulk(host));
    assert!(!seconds.is_empty(), "host {host} sends for a second");
    (
        seconds.iter().copied().max().unwrap_or(0),
        seconds.iter().copied().min().unwrap_or(0),
    )
}

fn assert_within(meter: &RateMeter, host: usize, what: &str) {
    let (most, least) = extremes(meter, host);
    println!("{what}: host {host} sent {least} to {most} bit in a second");
    let tolerated = LIMIT_BITS_PER_SECOND / 100 + BOUNDARY_BITS;
    assert!(
        most <= LIMIT_BITS_PER_SECOND + tolerated,
        "{what}: host {host} sent {most} bit in a second"
    );
    assert!(
        least + tolerated >= LIMIT_BITS_PER_SECOND,
        "{what}: host {host} sent {least} bit in a second"
    );
}

#[test]
fn root_and_relays_of_a_chain_and_the_root_of_a_cast_send_the_limit_in_every_second() {
    for (via, senders) in [(Via::Chain, 0..4), (Via::Cast, 0..1), (Via::Kary(3), 0..1)] {
        let case = limited(via, 4, 2.5);
        let (_, meter) = play_limited(&case, &star(&case, LINK_BITS_PER_SECOND), 0.0, None);
        senders.for_each(|host| assert_within(&meter, host, &via.to_string()));
    }
}

#[test]
fn repairs_and_several_children_do_not_lift_anybody_above_the_limit() {
    for (via, loss) in [
        (Via::Chain, 0.02),
        (Via::Cast, 0.02),
        (Via::Binomial, 0.01),
        (Via::Kary(2), 0.02),
    ] {
        let case = limited(via, 7, 2.0);
        let (_, meter) = play_limited(&case, &star(&case, LINK_BITS_PER_SECOND), loss, None);
        let everywhere = Instant::START..Instant::from_nanos(u64::MAX);
        for host in 0..=case.receivers {
            let most = meter
                .seconds(host, &everywhere)
                .into_iter()
                .max()
                .unwrap_or(0);
            assert!(
                most <= LIMIT_BITS_PER_SECOND + LIMIT_BITS_PER_SECOND / 100 + BOUNDARY_BITS,
                "{via}: host {host} sent {most} bit in a second"
            );
        }
    }
}

#[test]
fn a_relay_that_stood_still_does_not_catch_up_faster() {
    let case = limited(Via::Chain, 4, 3.0);
    let meter = RateMeter::default();
    let faults = Metered {
        faults: RandomFaults::new(7),
        meter: meter.clone(),
    };
    let network = star(&case, LINK_BITS_PER_SECOND);
    let mut simulation = Simulation::new(&network, hosts(&case, 7), faults);
    simulation.pause(2, Instant::START + Duration::from_millis(1000));
    simulation.resume(2, Instant::START + Duration::from_millis(1500));
    run(&mut simulation, Duration::from_secs(60), "a pause", turn);
    let everywhere = Instant::START..Instant::from_nanos(u64::MAX);
    for host in 0..4 {
        let most = meter
            .seconds(host, &everywhere)
            .into_iter()
            .max()
            .expect("it sends");
        assert!(
            most <= LIMIT_BITS_PER_SECOND + LIMIT_BITS_PER_SECOND / 100 + BOUNDARY_BITS,
            "host {host}: {most} bit"
        );
    }
}

#[test]
fn a_changed_limit_holds_everywhere_from_its_announcement() {
    let slower = Rate::new(LIMIT_BITS_PER_SECOND / 2).expect("above the lowest");
    let at = Duration::from_millis(1500);
    for via in [Via::Chain, Via::Cast] {
        let case = limited(via, 3, 2.5);
        let (_, meter) = play_limited(
            &case,
            &star(&case, LINK_BITS_PER_SECOND),
            0.0,
            Some((at, slower)),
        );
        // A relay gets the view one view period later, and still sends its feed's content then.
        let begin = Instant::START + at + Duration::from_millis(100);
        for host in 0..if via == Via::Chain { 3 } else { 1 } {
            let seconds = meter.seconds(host, &(begin..meter.bulk(host).end));
            let (most, least) = (
                seconds.iter().max().expect("some"),
                seconds.iter().min().expect("some"),
            );
            let tolerated = slower.bits_per_second() / 100 + BOUNDARY_BITS;
            assert!(
                most.abs_diff(slower.bits_per_second()) <= tolerated,
                "{via}: host {host}: {most}"
            );
            assert!(
                least.abs_diff(slower.bits_per_second()) <= tolerated,
                "{via}: host {host}: {least}"
            );
        }
    }
}

#[test]
fn a_limit_above_the_link_changes_nothing_and_the_prediction_knows_one_below() {
    let below = limited(Via::Chain, 3, 1.0);
    let free = Case {
        rate: None,
        ..below.clone()
    };
    let above = Case {
        rate: Rate::new(10 * LINK_BITS_PER_SECOND),
        ..below.clone()
    };
    let took = |case: &Case| play_limited(case, &star(case, LINK_BITS_PER_SECOND), 0.0, None).0;
    assert_eq!(took(&above), took(&free));
    let ratio = took(&below).as_secs_f64() / took(&free).as_secs_f64();
    assert!((2.4..2.6).contains(&ratio), "{ratio}");
}

#[test]
fn the_probe_before_the_start_keeps_to_the_limit_too() {
    let case = Case {
        auto: true,
        ..limited(Via::Chain, 7, 2.0)
    };
    let (_, meter) = play_limited(&case, &star(&case, LINK_BITS_PER_SECOND), 0.0, None);
    let everywhere = Instant::START..Instant::from_nanos(u64::MAX);
    let most = meter
        .seconds(0, &everywhere)
        .into_iter()
        .max()
        .expect("it sends");
    assert!(
        most <= LIMIT_BITS_PER_SECOND + LIMIT_BITS_PER_SECOND / 100 + BOUNDARY_BITS,
        "{most} bit"
    );
}

const LINK: u64 = 100_000_000;
const MTU_BYTES: u16 = 1500;
/// Share of content in a host's bits: the rest is headers, and the wire's overhead for each frame.
const CONTENT: f64 = 1468.0 / 1538.0;

/// A session to some receivers: its hosts by their numbers in the network, the root first.
struct Flow {
    group: &'static str,
    hosts: Vec<usize>,
    via: Via,
    bytes: usize,
    rate: Option<Rate>,
}

impl Flow {
    fn machines(&self) -> Vec<Host> {
        let tuning = Tuning::default().with_feed_frames(1024);
        let station =
            |host: usize| Station::new(self.group, &format!("n{host}"), host_mac(host), MTU_BYTES);
        let source = Sent::new(data(self.bytes, 3), false);
        let config = RootConfig {
            size: Some(self.bytes as u64),
            wanted: Wanted {
                patience: Duration::from_secs(20),
                ..Wanted::exactly(self.hosts.len() - 1)
            },
            route: Route::Via(self.via),
            tuning: tuning.clone(),
            on_slow: OnSlow::Wait,
            rate: self.rate,
            ..RootConfig::new(station(self.hosts[0]), 77 + self.hosts[0] as u32, "test")
        };
        let root = Participant::root(Root::new(Instant::START, config), source);
        let receivers = self.hosts[1..].iter().map(|&host| {
            let config = ReceiverConfig::new(station(host), 1000 + host as u64);
            let config = ReceiverConfig {
                patience: Some(Duration::from_secs(30)),
                tuning: tuning.clone(),
                ..config
            };
            Participant::receiver(Receiver::new(Instant::START, config), Disk::default())
        });
        std::iter::once(root).chain(receivers).collect()
    }
}

/// Two switches and the cable between them: senders at the one, receivers at the other.
fn network(flows: &[Flow]) -> Network {
    let mut network = Network::new();
    let switches = [(); 2].map(|()| network.add_switch(SwitchSettings::default()));
    let cable = Cable::new(LINK, Duration::from_micros(5));
    network
        .connect(switches[0], switches[1], cable)
        .expect("two switches");
    let settings = HostSettings {
        groups: flows.iter().map(|flow| group_mac(flow.group)).collect(),
        nic_receive_frames: 4096,
        nic_transmit_frames: 32,
        ..HostSettings::default()
    };
    for flow in flows {
        for place in 0..flow.hosts.len() {
            network.add_host(switches[place.min(1)], cable, settings.clone());
        }
    }
    network.with_mtu_bytes(MTU_BYTES.into())
}

/// Plays flows that begin together; returns the seconds of each.
fn play_flows(flows: &[Flow]) -> Vec<f64> {
    let machines: Vec<Host> = flows.iter().flat_map(Flow::machines).collect();
    let order: Vec<usize> = flows
        .iter()
        .flat_map(|flow| flow.hosts.iter().copied())
        .collect();
    assert!(
        order.is_sorted(),
        "machines stand in the order of the network's hosts"
    );
    let mut simulation = Simulation::new(&network(flows), machines, RandomFaults::new(5));
    simulation.set_event_limit(20_000_000);
    run(&mut simulation, Duration::from_secs(60), "yielding", turn);
    let took = |flow: &Flow| {
        let Participant::Root(root, _) = &simulation.machines()[flow.hosts[0]] else {
            unreachable!("the first")
        };
        assert!(
            root.reports()
                .all(|report| report.outcome == Outcome::Delivered),
            "{}",
            flow.group
        );
        root.took().as_secs_f64()
    };
    flows.iter().map(took).collect()
}

/// A sender at a fixed rate without congestion control: 60 of the 100 Mbit/s, for two seconds.
fn other_session(first: usize) -> Flow {
    let rate = Rate::new(60_000_000);
    Flow {
        group: "rival",
        hosts: vec![first, first + 1],
        via: Via::Chain,
        bytes: 15_000_000,
        rate,
    }
}

fn bulk(via: Via, bytes: usize, rate: Option<Rate>) -> Flow {
    Flow {
        group: "bulk",
        hosts: vec![0, 1, 2, 3],
        via,
        bytes,
        rate,
    }
}

#[test]
fn a_polite_session_leaves_another_its_rate_and_takes_the_rest() {
    let [alone] = play_flows(&[other_session(0)])[..] else {
        unreachable!("one flow")
    };
    for via in [Via::Cast, Via::Chain] {
        let polite = Some(Rate::HIGHEST.yielding());
        let both = |rate| play_flows(&[bulk(via, 10_000_000, rate), other_session(4)]);
        let (rude, nice) = (both(None), both(polite));
        println!(
            "{via}: alone {alone:.3} s, beside one {:.3} s, beside a polite one {:.3} s",
            rude[1], nice[1]
        );
        println!(
            "{via}: the bulk takes {:.3} s, and politely {:.3} s",
            rude[0], nice[0]
        );
        assert!(
            rude[1] > alone * 1.05,
            "{via}: nobody was in its way: {} s of {alone}",
            rude[1]
        );
        assert!(
            nice[1] < alone * 1.03,
            "{via}: {} s instead of {alone}",
            nice[1]
        );
    }
}

#[test]
fn alone_a_polite_session_takes_nearly_all() {
    for via in [Via::Cast, Via::Chain] {
        let took = |rate| play_flows(&[bulk(via, 10_000_000, rate)])[0];
        let (rude, nice) = (took(None), took(Some(Rate::HIGHEST.yielding())));
        println!("{via}: alone {rude:.3} s, and politely {nice:.3} s");
        assert!(nice < rude * 1.25, "{via}: {nice} s instead of {rude}");
        assert!(
            rude * LINK as f64 * CONTENT >= 80_000_000.0 * 0.99,
            "{via}: {rude} s is faster than the cable"
        );
    }
}

#[test]
fn a_polite_session_keeps_to_its_limit_too() {
    let limit = Rate::new(20_000_000).expect("above the lowest").yielding();
    let took = play_flows(&[bulk(Via::Chain, 5_000_000, Some(limit))])[0];
    assert!((2.0..2.3).contains(&took), "{took} s for 40 Mbit");
}
