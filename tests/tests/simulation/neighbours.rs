//! Simulated tests of transfers beside other traffic. A transfer leaves others up to half of each
//! link, and takes all of it when alone.

use ethbcast_collectives::session::application::Participant;
use ethbcast_collectives::session::{
    Outcome, Receiver, ReceiverConfig, Root, RootConfig, RootEvent, Route, Station, Wanted,
};
use ethbcast_planning::plan::Via;
use ethbcast_tests::in_full;
use ethbcast_tests::session::{Disk, Host, Sent, data};
use ethbcast_tests::traffic::{BusyHost, Flow};
use ethbcast_transport::sim::{
    Cable, HostSettings, Network, Outcome as Ended, QueueLimit, Random, RandomFaults, Simulation,
    SwitchSettings, host_mac,
};
use ethbcast_transport::stream::StreamStats;
use ethbcast_transport::wire::group_mac;
use ethbcast_transport::{Instant, MacAddr, Subnet, Tuning};
use std::ops::Range;
use std::time::Duration;

const LINK_BITS_PER_SECOND: f64 = 100e6;
const MTU_BYTES: u16 = 1500;
const MIB: usize = 1 << 20;
const WHOLE_RUN: Range<Duration> = Duration::ZERO..Duration::from_secs(20);

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A session: its hosts by number, the root first.
#[derive(Clone)]
struct Session {
    group: &'static str,
    hosts: Vec<usize>,
    route: Route,
    bytes: usize,
    greedy: bool,
    /// Bits of the prefix of its hosts' networks, if there are routers.
    routed: Option<u8>,
}

fn session(via: Via, bytes: usize) -> Session {
    Session {
        group: "ours",
        hosts: (0..6).collect(),
        route: Route::Via(via),
        bytes,
        greedy: false,
        routed: None,
    }
}

impl Session {
    fn members(&self) -> Vec<(usize, Host)> {
        let tuning = |host: usize| {
            let subnet = |prefix_bits| Subnet {
                host: host_mac(host),
                prefix_bits,
            };
            Tuning {
                subnet: self.routed.map(subnet),
                ..Tuning::default().with_feed_frames(1024)
            }
        };
        let station =
            |host: usize| Station::new(self.group, &format!("n{host}"), host_mac(host), MTU_BYTES);
        let (first, others) = self.hosts.split_first().expect("a root");
        let config = RootConfig {
            size: Some(self.bytes as u64),
            wanted: Wanted {
                patience: Duration::from_secs(20),
                ..Wanted::exactly(others.len())
            },
            route: self.route.clone(),
            routed: self.routed,
            tuning: tuning(*first),
            greedy: self.greedy,
            ..RootConfig::new(station(*first), 77 + *first as u32, "test")
        };
        let source = Sent::new(data(self.bytes, 3), false).listening();
        let root = Participant::root(Root::new(Instant::START, config), source);
        let receivers = others.iter().map(|&host| {
            let config = ReceiverConfig::new(station(host), 1000 + host as u64);
            let config = ReceiverConfig {
                patience: Some(Duration::from_secs(30)),
                tuning: tuning(host),
                ..config
            };
            (
                host,
                Participant::receiver(Receiver::new(Instant::START, config), Disk::default()),
            )
        });
        std::iter::once((*first, root)).chain(receivers).collect()
    }
}

#[derive(Clone)]
struct World {
    hosts: usize,
    sessions: Vec<Session>,
    flows: Vec<Flow>,
    /// Frames that a port of the switch holds.
    queue: usize,
    burst_bytes: u64,
    loses_one_in: Option<u64>,
    /// Sessions whose root comes late, by number.
    starts_at: Vec<(usize, Duration)>,
    /// The one cable between the two halves of the hosts, if they are two networks: its ends have
    /// queues of their own.
    bottleneck: Option<Cable>,
    until: Duration,
}

impl World {
    fn of(sessions: Vec<Session>, flows: Vec<Flow>) -> World {
        World {
            hosts: 8,
            sessions,
            flows,
            queue: 512,
            burst_bytes: 0,
            loses_one_in: None,
            starts_at: Vec::new(),
            bottleneck: None,
            until: Duration::from_secs(40),
        }
    }

    fn network(&self) -> Network {
        let mut groups: Vec<MacAddr> = self
            .sessions
            .iter()
            .map(|session| group_mac(session.group))
            .collect();
        groups.push(MacAddr::BROADCAST);
        let settings = HostSettings {
            groups,
            nic_receive_frames: 4096,
            nic_transmit_frames: 32,
            ..HostSettings::default()
        };
        let cable = Cable::new(LINK_BITS_PER_SECOND as u64, Duration::from_micros(5))
            .with_burst_bytes(self.burst_bytes);
        let switch = SwitchSettings {
            port_queue: QueueLimit::Frames(self.queue),
            ..SwitchSettings::default()
        };
        let network = match self.bottleneck {
            None => Network::star(self.hosts, cable, &settings),
            Some(bottleneck) => {
                let mut network = Network::new();
                let ends = [(); 2].map(|()| network.add_switch(SwitchSettings::default()));
                let [one, other] = ends;
                let connected = network.connect(one, other, bottleneck);
                connected.expect("they are not connected yet");
                for end in ends {
                    for _ in 0..self.hosts / 2 {
                        network.add_host(end, cable, settings.clone());
                    }
                }
                network
            }
        };
        network
            .with_mtu_bytes(MTU_BYTES.into())
            .with_switches(switch)
    }

    fn play(&self) -> NeighboursPlay {
        let mut members: Vec<(usize, &'static str, Host)> = Vec::new();
        for session in &self.sessions {
            members.extend(
                session
                    .members()
                    .into_iter()
                    .map(|(host, member)| (host, session.group, member)),
            );
        }
        let machines = (0..self.hosts).map(|host| {
            let (group, member) = match members.iter().position(|(at, ..)| *at == host) {
                Some(at) => {
                    let (_, group, member) = members.swap_remove(at);
                    (group, Some(member))
                }
                None => ("nobody", None),
            };
            let mut busy = BusyHost::new(host, group, member, &self.flows);
            busy.loses_one_in = self.loses_one_in;
            busy
        });
        let machines: Vec<BusyHost> = machines.collect();
        let mut simulation = Simulation::new(&self.network(), machines, RandomFaults::new(5));
        simulation.set_event_limit(200_000_000);
        for &(session, at) in &self.starts_at {
            // Hosts of this session send nothing until then.
            let root = self.sessions[session].hosts[0];
            simulation.pause(root, Instant::START);
            simulation.resume(root, Instant::START + at);
        }
        let until = Instant::START + self.until;
        let mut over_at = vec![None; self.sessions.len()];
        let roots: Vec<usize> = self
            .sessions
            .iter()
            .map(|session| session.hosts[0])
            .collect();
        let outcome = simulation.run(until, |number, host, now| {
            if let Some(at) = roots.iter().position(|&root| root == number)
                && let Some(Participant::Root(root, _)) = host.member()
                && root.is_over()
            {
                over_at[at].get_or_insert(now);
            }
            host.turn(now)
        });
        assert!(
            !matches!(outcome, Ended::LiveLock { .. } | Ended::EventLimit { .. }),
            "{outcome:?}"
        );
        NeighboursPlay {
            hosts: simulation.into_machines(),
            roots,
            over_at,
        }
    }
}

struct NeighboursPlay {
    hosts: Vec<BusyHost>,
    roots: Vec<usize>,
    over_at: Vec<Option<Instant>>,
}

impl NeighboursPlay {
    fn root(&self, at: usize) -> (&Root, &Sent) {
        let Some(Participant::Root(root, sending)) = self.hosts[self.roots[at]].member() else {
            unreachable!("a root")
        };
        (root, sending.source())
    }

    /// Seconds that a session took from its first data frame on.
    fn took(&self, at: usize) -> f64 {
        let (root, _) = self.root(at);
        assert!(self.over_at[at].is_some(), "session {at} has not ended");
        assert!(
            root.reports().count() > 0
                && root
                    .reports()
                    .all(|report| report.outcome == Outcome::Delivered),
            "session {at}"
        );
        root.took().as_secs_f64()
    }

    fn stats(&self, at: usize) -> StreamStats {
        self.root(at).0.stream_stats()
    }

    /// Share of the link that the flow to a host took during a period.
    fn share(&self, host: usize, within: Range<Duration>) -> f64 {
        let seconds = (within.end - within.start).as_secs_f64();
        self.hosts[host].came_bits(within) / seconds / LINK_BITS_PER_SECOND
    }

    fn is_rerouted(&self, at: usize) -> bool {
        let rerouted =
            |(_, event): &(Instant, RootEvent)| matches!(event, RootEvent::Rerouted { .. });
        self.root(at).1.told().iter().any(rerouted)
    }
}

const WAYS: [Via; 3] = [Via::Cast, Via::Chain, Via::Binary];

/// Time one copy of these bytes takes on the link.
fn copies(via: Via, bytes: usize) -> f64 {
    let children = if via == Via::Binary { 2.0 } else { 1.0 };
    copy(bytes) * children
}

fn copy(bytes: usize) -> f64 {
    bytes as f64 * 8.0 / LINK_BITS_PER_SECOND * 1538.0 / 1468.0
}

#[test]
fn a_session_alone_takes_all_whatever_queues_or_is_lost() {
    for via in WAYS {
        for (queue, burst_bytes, loses_one_in) in [
            (512, 0, None),
            (32, 0, None),
            (512, 64_000, None),
            (512, 0, Some(100)),
        ] {
            let took = |greedy| {
                let bulk = Session {
                    greedy,
                    ..session(via, 16 * MIB)
                };
                let world = World {
                    queue,
                    burst_bytes,
                    loses_one_in,
                    ..World::of(vec![bulk], vec![])
                };
                let played = world.play();
                assert_eq!(
                    played.root(0).0.other_traffic(),
                    None,
                    "{via}, queues of {queue}"
                );
                played.took(0)
            };
            assert_eq!(
                took(false),
                took(true),
                "{via}, queues of {queue}, one in {loses_one_in:?} is lost"
            );
        }
    }
}

#[test]
fn a_flow_that_adapts_gets_two_fifths_of_the_link_and_a_greedy_session_leaves_it_less() {
    for via in WAYS {
        for queue in [64, 512] {
            // From another host to a receiver, and between two receivers.
            let flows = [(7, 3), (2, 4)];
            let some = [flows[usize::from(queue == 64)]];
            for (from, to) in in_full(&some[..], &flows[..]).iter().copied() {
                let share = |greedy| {
                    let bulk = Session {
                        greedy,
                        ..session(via, 48 * MIB)
                    };
                    let flow = Flow::new(from, to, WHOLE_RUN);
                    let played = World {
                        queue,
                        ..World::of(vec![bulk], vec![flow])
                    }
                    .play();
                    let seen = played.root(0).0.other_traffic().expect("it was there");
                    let (again, took) = (played.stats(0).data_resent, played.took(0));
                    println!(
                        "{via}, queues of {queue}, n{from} to n{to}, greedy {greedy}: {took:.2} s, {again} again"
                    );
                    println!(
                        "{:.2} of the link, {seen:?}",
                        played.share(to, millis(2000)..millis(6000))
                    );
                    assert!(seen.share > 0.0 && seen.sessions.is_empty(), "{seen:?}");
                    played.share(to, millis(2000)..millis(6000))
                };
                let fair = share(false);
                assert!(
                    fair >= 0.4,
                    "{via}, queues of {queue}, n{from} to n{to}: {fair}"
                );
                share(true);
            }
        }
    }
}

#[test]
fn room_is_made_and_taken_back_within_a_second_or_so_of_a_flows_start_and_end() {
    for via in WAYS {
        let flow = Flow::new(7, 3, millis(2000)..millis(5000));
        let played = World::of(vec![session(via, 64 * MIB)], vec![flow]).play();
        let during = played.share(3, millis(3500)..millis(5000));
        let (took, alone) = (played.took(0), copies(via, 64 * MIB));
        println!("{via}: {during:.2} of the link, {took:.2} s of {alone:.2}");
        assert!(during >= 0.4, "{via}: {during}");
        // Three seconds at half of the link, and one until the whole link is used again.
        assert!(took < alone + 1.5 + 1.0, "{via}: {took} s of {alone}");
    }
}

#[test]
fn two_flows_share_the_room_and_one_of_a_fixed_rate_costs_little_more_than_it_takes() {
    for via in WAYS {
        let flows = vec![Flow::new(7, 3, WHOLE_RUN), Flow::new(6, 3, WHOLE_RUN)];
        let played = World::of(vec![session(via, 32 * MIB)], flows).play();
        let both = played.share(3, millis(1500)..millis(4000));
        let seen = played.root(0).0.other_traffic();
        println!(
            "{via}: two flows {both:.2}, {:.2} s until {:?}, {seen:?}",
            played.took(0),
            played.over_at
        );
        assert!(
            both >= 0.4 && played.took(0) < copies(via, 32 * MIB) * 2.3,
            "{via}: {both}, {} s",
            played.took(0)
        );
        let fixed = Flow {
            fixed: Some(20_000_000),
            ..Flow::new(7, 3, WHOLE_RUN)
        };
        let played = World::of(vec![session(via, 32 * MIB)], vec![fixed]).play();
        let (share, took) = (played.share(3, millis(1000)..millis(3000)), played.took(0));
        println!(
            "{via}: two flows {both:.2}, one of a fifth {share:.3} in {took:.2} s of {:.2}",
            copy(32 * MIB)
        );
        assert!(
            share > 0.19 && took < copies(via, 32 * MIB) * 1.5,
            "{via}: {share}, {took} s"
        );
    }
}

/// Two casts, of which the second has its receivers `later`.
fn two_casts(route: &Route, later: Duration, most_again: f64) {
    let cast = |group, hosts| Session {
        group,
        hosts,
        route: route.clone(),
        bytes: 64 * MIB,
        greedy: false,
        routed: None,
    };
    let both = vec![
        cast("first", vec![0, 2, 3, 4]),
        cast("second", vec![1, 5, 6, 7]),
    ];
    let played = World {
        starts_at: vec![(1, later)],
        ..World::of(both, vec![])
    }
    .play();
    for at in 0..2 {
        let (stats, took) = (played.stats(at), played.took(at));
        let again = stats.data_resent as f64 / stats.data_sent as f64;
        let (seen, percent) = (played.root(at).0.other_traffic(), again * 100.0);
        let alone = copy(64 * MIB);
        println!(
            "{route:?}, {later:?}: session {at} took {took:.2} s of {alone:.2}, {percent:.2} % again, {seen:?}"
        );
        assert!(took < alone * 2.2, "session {at}: {took} s");
        assert!(again <= most_again, "session {at}: {again}");
        assert!(!played.is_rerouted(at), "session {at}");
        let other = format!("n{}", 1 - at);
        assert!(
            seen.is_some_and(|seen| seen.sessions == [other]),
            "session {at}"
        );
    }
}

#[test]
fn two_casts_share_the_link_lose_little_and_take_each_other_for_no_policer() {
    two_casts(&Route::Via(Via::Cast), millis(2000), 0.01);
}

/// Two that begin at once retransmit more than the one frame in a hundred that is the goal.
#[test]
fn nor_do_two_that_begin_together() {
    two_casts(&Route::Via(Via::Cast), Duration::ZERO, 0.03);
}

#[test]
fn nor_two_that_choose_their_way() {
    two_casts(&Route::Auto, Duration::ZERO, 0.01);
}

/// The first four hosts are in one network, the others in another.
const PREFIX_BITS: u8 = 30;

/// A bottleneck between two networks.
#[derive(Clone, Copy, Debug)]
struct Routers {
    bits_per_second: u64,
    round_trip: Duration,
    queue: usize,
}

impl Routers {
    fn drawn(seed: u64) -> Routers {
        let mut random = Random::new(seed);
        Routers {
            bits_per_second: 4_000_000 + random.below(16_000_000),
            round_trip: Duration::from_micros(1000 + random.below(99_000)),
            queue: 10 + random.below(191) as usize,
        }
    }

    /// Time of one frame at the bottleneck.
    fn frame(self) -> Duration {
        Duration::from_nanos(1538 * 8_000_000_000 / self.bits_per_second)
    }

    /// Round trip of a frame that finds the queue full.
    fn longest_round_trip(self) -> Duration {
        self.round_trip + self.frame() * self.queue as u32
    }

    /// Time in which `flows` of them grow and shrink often enough to be judged.
    fn lasts(self, flows: u32) -> Duration {
        let pipe = self.longest_round_trip();
        let window = pipe.as_nanos() / self.frame().as_nanos() / u128::from(flows);
        let cycle = pipe * (window / 2) as u32;
        (cycle * 20).clamp(Duration::from_secs(20), Duration::from_secs(240))
    }

    /// Bytes of payload that a part of the bottleneck carries in a time.
    fn bytes(self, lasts: Duration, part: u32) -> usize {
        (lasts.as_nanos() / self.frame().as_nanos()) as usize * 1468 / part as usize
    }

    /// Plays sessions through the bottleneck, beside flows.
    fn play(self, sessions: Vec<Session>, flows: Vec<Flow>) -> NeighboursPlay {
        World {
            queue: self.queue,
            bottleneck: Some(Cable::new(self.bits_per_second, self.round_trip / 2)),
            until: Duration::from_secs(1200),
            ..World::of(sessions, flows)
        }
        .play()
    }

    /// Plays sessions beside a flow like TCP that goes on for as long as they may take, twice the
    /// time of equal shares. Returns its part of what passed until the first
    /// session ended, in parts of an equal share for it and each child beyond the router. The first
    /// third, in which the windows find their sizes, is not counted.
    fn flows_share(self, children: u32, sessions: impl FnOnce(usize) -> Vec<Session>) -> f64 {
        let flows = children + 1;
        let lasts = self.lasts(flows);
        let flow = Flow {
            timeout: millis(200) + self.longest_round_trip(),
            jitter: self.frame() * 3,
            ..Flow::new(3, 7, Duration::ZERO..lasts * 2)
        };
        let played = self.play(sessions(self.bytes(lasts, flows)), vec![flow]);
        let ended = (0..played.roots.len()).map(|at| {
            played.took(at);
            let stats = played.stats(at);
            println!("{} again of {}", stats.data_resent, stats.data_sent);
            played.over_at[at].expect("it has ended")
        });
        let until = ended.min().expect("a session").since(Instant::START);
        let within = until / 3..until;
        let all = (within.end - within.start).as_secs_f64() * self.bits_per_second as f64;
        played.hosts[7].came_bits(within) / all * f64::from(flows)
    }
}

fn routed(root: usize, receivers: &[usize], bytes: usize) -> Session {
    Session {
        group: ["ours", "theirs"][root],
        hosts: [&[root], receivers].concat(),
        route: Route::Via(if receivers.len() == 1 {
            Via::Chain
        } else {
            Via::Flat
        }),
        bytes,
        greedy: false,
        routed: Some(PREFIX_BITS),
    }
}

#[test]
fn alone_through_routers_a_session_takes_most_of_the_bottleneck() {
    for seed in 0..in_full(4, 200) {
        let routers = Routers::drawn(seed);
        let bytes = routers.bytes(routers.lasts(1), 1);
        let played = routers.play(vec![routed(0, &[4], bytes)], vec![]);
        let part = routers.bytes(Duration::from_secs_f64(played.took(0)), 1) as f64;
        let (part, stats) = (bytes as f64 / part, played.stats(0));
        println!(
            "{seed}: {routers:?}: {part:.3}, {} again of {}",
            stats.data_resent, stats.data_sent
        );
        assert!(part >= 0.85, "seed {seed}, {routers:?}: {part}");
    }
}

#[test]
fn through_routers_a_flow_like_tcp_gets_its_share_beside_a_session() {
    let shares = (0..in_full(8, 1000)).map(|seed| {
        let routers = Routers::drawn(seed);
        let share = routers.flows_share(1, |bytes| vec![routed(0, &[4], bytes)]) / 2.0;
        println!("{seed}: {routers:?}: {share:.3}");
        share
    });
    assert_fair(&shares.collect::<Vec<f64>>(), 0.5);
}

#[test]
fn nor_do_several_sessions_and_children_take_a_flows_share_through_routers() {
    let two_sessions = |bytes| vec![routed(0, &[4], bytes), routed(1, &[5], bytes)];
    let two_children = |bytes| vec![routed(0, &[4, 5], bytes)];
    let shares = (0..in_full(4, 100)).flat_map(|seed| {
        let routers = Routers::drawn(seed);
        let shares = [
            routers.flows_share(2, two_sessions),
            routers.flows_share(2, two_children),
        ];
        println!("{seed}: {routers:?}: {shares:.3?} of an equal share");
        shares
    });
    assert_fair(&shares.collect::<Vec<f64>>(), 1.0);
}

/// Within a factor of two on average, and no flow starves: at one queue the places fall to the same
/// senders more often than by chance.
fn assert_fair(shares: &[f64], equal: f64) {
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    println!("{mean:.3} of {equal} on average");
    assert!(
        (equal * 0.66..=equal * 1.34).contains(&mean),
        "{mean}: {shares:.3?}"
    );
    assert!(
        shares.iter().all(|share| *share >= equal / 4.0),
        "{shares:.3?}"
    );
}
