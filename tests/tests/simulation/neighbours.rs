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
    Cable, HostSettings, Network, Outcome as Ended, QueueLimit, RandomFaults, Simulation,
    SwitchSettings, host_mac,
};
use ethbcast_transport::stream::StreamStats;
use ethbcast_transport::wire::group_mac;
use ethbcast_transport::{Instant, MacAddr, Tuning};
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
}

fn session(via: Via, bytes: usize) -> Session {
    Session {
        group: "ours",
        hosts: (0..6).collect(),
        route: Route::Via(via),
        bytes,
        greedy: false,
    }
}

impl Session {
    fn members(&self) -> Vec<(usize, Host)> {
        let tuning = Tuning::default().with_feed_frames(1024);
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
            tuning: tuning.clone(),
            greedy: self.greedy,
            ..RootConfig::new(station(*first), 77 + *first as u32, "test")
        };
        let source = Sent::new(data(self.bytes, 3), false).listening();
        let root = Participant::root(Root::new(Instant::START, config), source);
        let receivers = others.iter().map(|&host| {
            let config = ReceiverConfig::new(station(host), 1000 + host as u64);
            let config = ReceiverConfig {
                patience: Some(Duration::from_secs(30)),
                tuning: tuning.clone(),
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
        Network::star(self.hosts, cable, &settings)
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
        simulation.set_event_limit(60_000_000);
        for &(session, at) in &self.starts_at {
            // Hosts of this session send nothing until then.
            let root = self.sessions[session].hosts[0];
            simulation.pause(root, Instant::START);
            simulation.resume(root, Instant::START + at);
        }
        let until = Instant::START + Duration::from_secs(40);
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
