//! A low-priority session (`send --nice`): beside a flow of a fixed rate, on one cable between two
//! switches, it takes the remaining rate, and alone nearly all.

use ethbcast_collectives::session::application::Participant;
use ethbcast_collectives::session::{
    OnSlow, Outcome, Rate, Receiver, ReceiverConfig, Root, RootConfig, Route, Station, Wanted,
};
use ethbcast_planning::plan::Via;
use ethbcast_tests::session::{Disk, Host, Sent, data, run, turn};
use ethbcast_transport::sim::{Cable, HostSettings, Network, RandomFaults, Simulation, SwitchSettings, host_mac};
use ethbcast_transport::wire::group_mac;
use ethbcast_transport::{Instant, Tuning};
use std::time::Duration;

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
        let station = |host: usize| Station::new(self.group, &format!("n{host}"), host_mac(host), MTU_BYTES);
        let source = Sent::new(data(self.bytes, 3), false);
        let config = RootConfig {
            size: Some(self.bytes as u64),
            wanted: Wanted { patience: Duration::from_secs(20), ..Wanted::exactly(self.hosts.len() - 1) },
            route: Route::Via(self.via),
            tuning: tuning.clone(),
            on_slow: OnSlow::Wait,
            rate: self.rate,
            ..RootConfig::new(station(self.hosts[0]), 77 + self.hosts[0] as u32, "test")
        };
        let root = Participant::root(Root::new(Instant::START, config), source);
        let receivers = self.hosts[1..].iter().map(|&host| {
            let config = ReceiverConfig::new(station(host), 1000 + host as u64);
            let config = ReceiverConfig { patience: Some(Duration::from_secs(30)), tuning: tuning.clone(), ..config };
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
    network.connect(switches[0], switches[1], cable).expect("two switches");
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
fn play(flows: &[Flow]) -> Vec<f64> {
    let machines: Vec<Host> = flows.iter().flat_map(Flow::machines).collect();
    let order: Vec<usize> = flows.iter().flat_map(|flow| flow.hosts.iter().copied()).collect();
    assert!(order.is_sorted(), "machines stand in the order of the network's hosts");
    let mut simulation = Simulation::new(&network(flows), machines, RandomFaults::new(5));
    simulation.set_event_limit(20_000_000);
    run(&mut simulation, Duration::from_secs(60), "yielding", turn);
    let took = |flow: &Flow| {
        let Participant::Root(root, _) = &simulation.machines()[flow.hosts[0]] else { unreachable!("the first") };
        assert!(root.reports().all(|report| report.outcome == Outcome::Delivered), "{}", flow.group);
        root.took().as_secs_f64()
    };
    flows.iter().map(took).collect()
}

/// A sender at a fixed rate without congestion control: 60 of the 100 Mbit/s, for two seconds.
fn rival(first: usize) -> Flow {
    let rate = Rate::new(60_000_000);
    Flow { group: "rival", hosts: vec![first, first + 1], via: Via::Chain, bytes: 15_000_000, rate }
}

fn bulk(via: Via, bytes: usize, rate: Option<Rate>) -> Flow {
    Flow { group: "bulk", hosts: vec![0, 1, 2, 3], via, bytes, rate }
}

#[test]
fn a_polite_session_leaves_a_rival_its_rate_and_takes_the_rest() {
    let [alone] = play(&[rival(0)])[..] else { unreachable!("one flow") };
    for via in [Via::Cast, Via::Chain] {
        let polite = Some(Rate::HIGHEST.yielding());
        let both = |rate| play(&[bulk(via, 10_000_000, rate), rival(4)]);
        let (rude, nice) = (both(None), both(polite));
        println!("{via}: alone {alone:.3} s, beside one {:.3} s, beside a polite one {:.3} s", rude[1], nice[1]);
        println!("{via}: the bulk takes {:.3} s, and politely {:.3} s", rude[0], nice[0]);
        assert!(rude[1] > alone * 1.05, "{via}: nobody was in its way: {} s of {alone}", rude[1]);
        assert!(nice[1] < alone * 1.03, "{via}: {} s instead of {alone}", nice[1]);
    }
}

#[test]
fn alone_a_polite_session_takes_nearly_all() {
    for via in [Via::Cast, Via::Chain] {
        let took = |rate| play(&[bulk(via, 10_000_000, rate)])[0];
        let (rude, nice) = (took(None), took(Some(Rate::HIGHEST.yielding())));
        println!("{via}: alone {rude:.3} s, and politely {nice:.3} s");
        assert!(nice < rude * 1.25, "{via}: {nice} s instead of {rude}");
        assert!(rude * LINK as f64 * CONTENT >= 80_000_000.0 * 0.99, "{via}: {rude} s is faster than the cable");
    }
}

#[test]
fn a_polite_session_keeps_to_its_limit_too() {
    let limit = Rate::new(20_000_000).expect("above the lowest").yielding();
    let took = play(&[bulk(Via::Chain, 5_000_000, Some(limit))])[0];
    assert!((2.0..2.3).contains(&took), "{took} s for 40 Mbit");
}
