//! Tests of network measurements on simulated switches whose properties are known. The discovery of
//! hosts and switches is tested here, too.

mod broadcast;
mod hostile;
mod measuring;

use super::{
    Finder, HostInfo, ProbeHost, ProbeResult, ProbeSettings, Prober, Processors, Responder, Search,
    SurveyEnd, Surveyor,
};
use ethbcast_planning::topology::Topology;
use ethbcast_transport::sim::{
    Cable, Faults, HostSettings, Network, NoFaults, Random, RandomFaults, Simulation,
    SwitchSettings, host_mac,
};
use ethbcast_transport::wire::{
    EtherType, Frame, Guard, Identity, Peer, Rank, StreamId, group_mac,
};
use ethbcast_transport::{Alone, Deadline, Instant, MacAddr, Part};
use std::collections::BTreeSet;
use std::time::Duration;

const SESSION: u32 = 0x5e55;
const MTU_BYTES: usize = 1500;

#[derive(Debug)]
enum Host {
    Prober(Box<Prober>),
    Surveyor(Box<Surveyor>),
    Responder(Responder),
    Finder(Finder),
    Deaf,
}

impl Host {
    fn part(&mut self) -> Option<&mut dyn Part> {
        match self {
            Host::Prober(prober) => Some(&mut **prober),
            Host::Surveyor(surveyor) => Some(&mut **surveyor),
            Host::Responder(responder) => Some(responder),
            Host::Finder(finder) => Some(finder),
            Host::Deaf => None,
        }
    }
}

impl Part for Host {
    fn handle_frame(&mut self, now: Instant, frame: &Frame<'_>) {
        self.part()
            .into_iter()
            .for_each(|part| part.handle_frame(now, frame));
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.part()
            .into_iter()
            .for_each(|part| part.handle_timeout(now));
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        self.part()?.poll_transmit(now, buffer)
    }

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        match self {
            Host::Prober(prober) => prober.poll_timeout(now),
            Host::Surveyor(surveyor) => surveyor.poll_timeout(now),
            Host::Finder(finder) => finder.poll_timeout(now),
            Host::Responder(_) | Host::Deaf => None,
        }
    }
}

fn group() -> MacAddr {
    group_mac("test")
}

fn identity(host: usize) -> Identity {
    Identity {
        session: SESSION,
        stream: StreamId(0),
        rank: Rank(host as u16),
        mac: host_mac(host),
        ether_type: EtherType::DEFAULT,
        guard: Guard::Plain,
    }
}

fn responder(host: usize) -> Responder {
    let info = HostInfo {
        group: "test".to_owned(),
        host: format!("n{host}"),
    };
    Responder::new(identity(host), MTU_BYTES, Some(info))
}

fn star(hosts: usize, rate_bits_per_second: u64) -> Network {
    let settings = HostSettings {
        groups: vec![group()],
        ..HostSettings::default()
    };
    Network::star(hosts, Cable::new(rate_bits_per_second, DELAY), &settings)
}

const DELAY: Duration = Duration::from_micros(5);

fn measure(
    network: &Network,
    settings: ProbeSettings,
    deaf: &[usize],
    faults: impl Faults,
) -> (ProbeResult, Duration) {
    measure_lending(network, settings, deaf, faults, |_| None)
}

fn measure_lending(
    network: &Network,
    settings: ProbeSettings,
    deaf: &[usize],
    faults: impl Faults,
    processors: impl Fn(usize) -> Option<Processors>,
) -> (ProbeResult, Duration) {
    let targets = (1..network.hosts())
        .map(|host| Peer {
            rank: Rank(host as u16),
            mac: host_mac(host),
        })
        .collect();
    let prober =
        Prober::new(Instant::START, identity(0), targets, settings).with_processors(processors(0));
    let answering = |host| Host::Responder(responder(host).with_processors(processors(host)));
    let others = (1..network.hosts()).map(|host| {
        if deaf.contains(&host) {
            Host::Deaf
        } else {
            answering(host)
        }
    });
    let machines = std::iter::once(Host::Prober(Box::new(prober)))
        .chain(others)
        .map(Alone::new)
        .collect();
    let mut simulation = Simulation::new(network, machines, faults);
    let mut ended = None;
    let outcome = simulation.run(Instant::from_nanos(100_000_000_000), |_, machine, now| {
        if let (Host::Prober(prober), None) = (&machine.part, ended) {
            ended = prober.is_done().then_some(now);
        }
        None
    });
    assert!(
        outcome.is_quiet(),
        "a prober that is done is quiet: {outcome:?}"
    );
    let Host::Prober(prober) = &simulation.machines()[0].part else {
        unreachable!("host 0 is the prober")
    };
    (
        prober.result(),
        ended.expect("it ended").since(Instant::START),
    )
}

fn frame_nanos(payload_bytes: usize, rate_bits_per_second: u64) -> f64 {
    ((payload_bytes + 46).max(60) + 24) as f64 * 8e9 / rate_bits_per_second as f64
}

fn payloads(bytes: usize) -> Vec<usize> {
    let full = MTU_BYTES - 32;
    let rest = (!bytes.is_multiple_of(full)).then_some((bytes % full).max(8));
    std::iter::repeat_n(full, bytes / full)
        .chain(rest)
        .collect()
}

fn true_gap_nanos(bytes: usize, rate_bits_per_second: u64) -> f64 {
    payloads(bytes)
        .iter()
        .map(|&payload_bytes| frame_nanos(payload_bytes, rate_bits_per_second))
        .sum()
}

/// Returns RTT(m) on a star: twice over two cables, each frame stored and forwarded by the switch.
fn true_round_trip_nanos(bytes: usize, rate_bits_per_second: u64) -> f64 {
    let (mut first, mut second) = (0.0, 0.0_f64);
    for payload_bytes in payloads(bytes) {
        let nanos = frame_nanos(payload_bytes, rate_bits_per_second);
        first += nanos;
        second = second.max(first) + nanos;
    }
    2.0 * (second + 2.0 * DELAY.as_nanos() as f64)
}

#[track_caller]
fn assert_near(measured: u64, truth: f64, tolerance: f64, what: &str) {
    let error = measured as f64 / truth - 1.0;
    assert!(
        error.abs() <= tolerance,
        "{what}: measured {measured}, in truth {truth:.0}, {:.1} % off",
        error * 100.0
    );
}

fn policed(network: Network, frames_per_second: u64, burst_frames: u64) -> Network {
    let storm_control = Some(ethbcast_transport::sim::StormControl {
        frames_per_second,
        burst_frames,
    });
    network.with_switches(SwitchSettings {
        storm_control,
        ..SwitchSettings::default()
    })
}

const RATE: u64 = 100_000_000;

/// Findings of a survey: its end, the sides of all cables without host 0, whether it is sure, and
/// its duration.
type Found = (SurveyEnd, BTreeSet<Vec<usize>>, bool, Duration);

fn wired(topology: &Topology) -> Network {
    let (mut network, cable) = (Network::new(), |rate: u64| Cable::new(rate, DELAY));
    let switches: Vec<_> = topology
        .switches()
        .iter()
        .map(|_| network.add_switch(SwitchSettings::default()))
        .collect();
    for &(one, other) in topology.cables() {
        let rate = topology.cable_rate(one, other).unwrap_or(RATE);
        network
            .connect(switches[one], switches[other], cable(rate))
            .expect("a topology is a tree");
    }
    for host in 0..topology.hosts().len() {
        let rate = topology.host_rate(host).unwrap_or(RATE);
        network.add_host(
            switches[topology.switch_of(host)],
            cable(rate),
            HostSettings::default(),
        );
    }
    network
}

fn survey(network: &Network, deaf: &[usize], faults: impl Faults, budget: Duration) -> Found {
    let other = |host: usize| ProbeHost {
        host: format!("n{host}"),
        mac: host_mac(host),
        mtu_bytes: MTU_BYTES,
        token: None,
    };
    let others: Vec<ProbeHost> = (1..network.hosts()).map(other).collect();
    let surveyor = Surveyor::new(Instant::START, identity(0), &others, MTU_BYTES, budget);
    let answering = |host| {
        if deaf.contains(&host) {
            Host::Deaf
        } else {
            Host::Responder(responder(host))
        }
    };
    let machines = std::iter::once(Host::Surveyor(Box::new(surveyor)))
        .chain((1..network.hosts()).map(answering));
    let mut simulation = Simulation::new(network, machines.map(Alone::new).collect(), faults);
    let outcome = simulation.run(Instant::from_nanos(100_000_000_000), |_, _, _| None);
    assert!(
        outcome.is_quiet(),
        "a survey that is over is quiet: {outcome:?}"
    );
    let took = simulation.now().since(Instant::START);
    let Host::Surveyor(surveyor) = &simulation.machines()[0].part else {
        unreachable!("host 0 surveys")
    };
    let discovery = surveyor.discovery();
    let Ok(sketch) = discovery.sketch() else {
        return (
            surveyor.end().expect("it has ended"),
            BTreeSet::new(),
            false,
            took,
        );
    };
    let side = |cable| {
        sketch
            .sides(cable)
            .into_iter()
            .find(|side| !side.contains(&0))
            .expect("one is without host 0")
    };
    let is_sure = sketch
        .cables()
        .into_iter()
        .all(|cable| discovery.support(&sketch, cable).is_high());
    (
        surveyor.end().expect("it has ended"),
        sketch.cables().into_iter().map(side).collect(),
        is_sure,
        took,
    )
}

fn topology(switches: &str) -> Topology {
    Topology::parse(&format!("schema = 1\nswitch = [{switches}]"), "test").expect("a topology")
}

const TIME_LIMIT: Duration = Duration::from_secs(60);

#[test]
fn the_switches_of_sixteen_hosts_are_found_in_seconds() {
    let four = topology(
        "{name='a', hosts='n[0-3]', links=['b', 'c']}, {name='b', hosts='n[4-7]'}, \
         {name='c', hosts='n[8-11]', links=['d']}, {name='d', hosts='n[12-15]'}",
    );
    let (end, cables, is_sure, took) = survey(&wired(&four), &[], NoFaults, TIME_LIMIT);
    assert_eq!((end, is_sure), (SurveyEnd::Whole, true));
    let expected = [vec![4, 5, 6, 7], (8..16).collect(), vec![12, 13, 14, 15]];
    assert_eq!(cables, BTreeSet::from(expected));
    assert!(took <= Duration::from_secs(15), "{took:?}");
    println!("16 hosts on 4 switches: {took:?}");
}

#[test]
fn a_tenth_of_all_frames_may_be_lost_and_hosts_may_be_slower_than_others() {
    let two = topology("{name='a', hosts='n[0-3]', links=['b']}, {name='b', hosts='n[4-7]'}");
    let expected = BTreeSet::from([vec![4, 5, 6, 7]]);
    for seed in 0..8 {
        let (end, cables, is_sure, _) = survey(
            &wired(&two),
            &[],
            RandomFaults::new(seed).loss(0.1),
            TIME_LIMIT,
        );
        assert_eq!(
            (end, cables, is_sure),
            (SurveyEnd::Whole, expected.clone(), true),
            "seed {seed}"
        );
    }
    let slow = "schema = 1\nswitch = [{name='a', hosts='n[0-3]', links=['b']}, {name='b', hosts='n[4-7]'}]\n\
                [[host]]\nname = 'n2'\nrate = '50mbit'";
    let slow = Topology::parse(slow, "slow").expect("a topology");
    let (end, cables, is_sure, _) = survey(&wired(&slow), &[], NoFaults, TIME_LIMIT);
    assert_eq!((end, cables, is_sure), (SurveyEnd::Whole, expected, true));
}

#[test]
fn a_hundred_random_trees_are_found() {
    let mut random = Random::new(7);
    for number in 0..100 {
        let switches = 2 + random.below(4);
        // Each switch has at least two hosts, so that two flows can distinguish it.
        let hosts = (2 * switches).max(8 + random.below(9));
        let on = |switch: u64| {
            (0..hosts)
                .filter(move |host| host % switches == switch)
                .map(|host| format!("'n{host}'"))
        };
        let tables = (0..switches).map(|switch| {
            let link = if switch > 0 {
                format!(", links=['s{}']", random.below(switch))
            } else {
                String::new()
            };
            format!(
                "{{name='s{switch}', hosts=[{}]{link}}}",
                Vec::from_iter(on(switch)).join(", ")
            )
        });
        let tree = topology(&Vec::from_iter(tables).join(", "));
        let (end, cables, is_sure, took) = survey(&wired(&tree), &[], NoFaults, TIME_LIMIT);
        assert_eq!(
            (end, is_sure),
            (SurveyEnd::Whole, true),
            "tree {number}: {tree:?}"
        );
        assert_eq!(
            cables.len(),
            tree.cables().len(),
            "tree {number}: {cables:?} of {tree:?}"
        );
        assert!(took <= TIME_LIMIT, "{took:?}");
    }
}

#[test]
fn a_survey_ends_where_a_host_is_silent_and_when_time_is_up() {
    let star = star(6, RATE);
    let (end, _, _, took) = survey(&star, &[4], NoFaults, TIME_LIMIT);
    assert_eq!(end, SurveyEnd::Silent(4));
    assert!(took <= Duration::from_secs(10), "{took:?}");
    let (end, ..) = survey(&star, &[], NoFaults, Duration::from_millis(100));
    assert_eq!(end, SurveyEnd::TimeUp);
    let (end, cables, is_sure, _) = survey(&star, &[], NoFaults, TIME_LIMIT);
    assert_eq!(
        (end, cables.len(), is_sure),
        (SurveyEnd::Whole, 0, true),
        "one switch has no cables"
    );
}

fn search(wanted: Search, faults: impl Faults) -> (Vec<String>, Vec<String>, Duration) {
    let non_member = HostInfo {
        group: "other".to_owned(),
        host: "n3".to_owned(),
    };
    let others = [
        responder(1),
        responder(2),
        Responder::new(identity(3), MTU_BYTES, Some(non_member)),
    ];
    let finder = Host::Finder(Finder::new(Instant::START, identity(0), "test", wanted));
    let machines = std::iter::once(finder)
        .chain(others.map(Host::Responder))
        .map(Alone::new)
        .collect();
    let mut simulation = Simulation::new(&star(4, 100_000_000), machines, faults);
    let outcome = simulation.run(Instant::from_nanos(60_000_000_000), |_, _, _| None);
    assert!(outcome.is_quiet(), "{outcome:?}");
    let Host::Finder(finder) = &simulation.machines()[0].part else {
        unreachable!("host 0 is the finder")
    };
    assert!(finder.is_done());
    let mut found: Vec<String> = finder
        .found()
        .iter()
        .map(|found| found.host.clone())
        .collect();
    found.sort();
    assert!(
        finder
            .found()
            .iter()
            .all(|found| found.mtu_bytes == MTU_BYTES)
    );
    (
        found,
        finder.missing().into_iter().map(str::to_owned).collect(),
        simulation.now().since(Instant::START),
    )
}

fn wanted(hosts: &[&str], count: Option<usize>) -> Search {
    Search {
        hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
        count,
        patience: Duration::from_secs(5),
    }
}

#[test]
fn the_search_ends_when_no_new_host_replies() {
    let (found, missing, took) = search(wanted(&[], None), NoFaults);
    assert_eq!(
        (found, missing),
        (vec!["n1".to_owned(), "n2".to_owned()], vec![])
    );
    assert!(
        Duration::from_millis(500) <= took && took < Duration::from_millis(700),
        "{took:?}"
    );
}

#[test]
fn the_search_ends_at_once_when_all_wanted_have_answered() {
    for wanted in [
        wanted(&["n2"], None),
        wanted(&[], Some(2)),
        wanted(&["n1"], Some(2)),
    ] {
        let (_, missing, took) = search(wanted.clone(), NoFaults);
        assert!(
            missing.is_empty() && took < Duration::from_millis(10),
            "{wanted:?}: {took:?}"
        );
    }
}

#[test]
fn missing_hosts_are_named_when_patience_ends() {
    let (found, missing, took) = search(wanted(&["n2", "n3", "n9"], None), NoFaults);
    assert_eq!(missing, ["n3", "n9"], "n3 listens to another group");
    assert_eq!(found, ["n1", "n2"]);
    assert!(
        took >= Duration::from_secs(5) && took < Duration::from_millis(5200),
        "{took:?}"
    );
}

#[test]
fn lost_invitations_are_repeated() {
    let (_, missing, took) = search(wanted(&["n1", "n2"], None), RandomFaults::new(2).loss(0.5));
    assert!(missing.is_empty(), "{missing:?} after {took:?}");
}
