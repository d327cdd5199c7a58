//! Tests of transport over UDP, on the loopback interface; they need no privilege.

use super::neighbours::Question;
use super::{Over, address_of, group_address, mac_of, send_once, stand_in};
use crate::link::{Interest, Link, Waiter};
use crate::packet::{Clock, Counters, Interface, OpenError, Port, PortConfig, Waker};
use crate::wire::{EtherType, group_mac};
use crate::{Instant, MacAddr};
use log::{Level, LevelFilter, Log, Metadata, Record};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::sync::Mutex;
use std::time::Duration;

const MTU_BYTES: usize = 1472;
const ETHERNET: usize = 14;

/// Tests of this crate run at the same time, and the port of groups is shared by multicast only.
fn ether_type(unicast: bool) -> EtherType {
    EtherType::new(0x9000 | u16::from(unicast))
}

fn open(group: &str, port: Option<u16>) -> Result<Port, OpenError> {
    let config = PortConfig {
        over: Over::Udp {
            port,
            unicast: false,
        },
        ether_type: ether_type(false),
        ..PortConfig::default()
    };
    open_at(
        Ipv4Addr::LOCALHOST,
        PortConfig {
            group: Some(group_mac(group)),
            ..config
        },
    )
}

fn open_at(ip: Ipv4Addr, config: PortConfig) -> Result<Port, OpenError> {
    let address = SocketAddrV4::new(ip, u16::MAX);
    let mac = mac_of(address).expect("a port of the range");
    let index = nix::net::if_::if_nametoindex("lo").expect("there is a loopback interface");
    let interface = Interface {
        name: "lo".to_owned(),
        index,
        mac,
        mtu_bytes: MTU_BYTES,
    };
    Port::open(
        &interface,
        PortConfig {
            receive_ring_bytes: 1 << 20,
            ..config
        },
    )
}

fn ports<const N: usize>(group: &str) -> [Port; N] {
    [(); N].map(|()| open(group, None).expect("a port"))
}

fn frame(from: &Port, to: MacAddr, number: u32, bytes: usize) -> Vec<u8> {
    let ether_type = ether_type(from.over().is_unicast()).octets();
    let mut frame = [
        &to.octets()[..],
        &from.interface().mac.octets(),
        &ether_type,
    ]
    .concat();
    frame.resize(ETHERNET + bytes, number as u8);
    if bytes >= 4 {
        frame[ETHERNET..ETHERNET + 4].copy_from_slice(&number.to_be_bytes());
    }
    frame
}

fn send(port: &mut Port, frames: &[Vec<u8>]) {
    let clock = Clock::start();
    let sleeper = port
        .sleeper(Waker::new().expect("a descriptor"))
        .expect("a timer");
    let mut rest = frames.iter();
    loop {
        let mut asked = false;
        let write = |buffer: &mut [u8]| {
            let frame = rest.next()?;
            asked = true;
            buffer[..frame.len()].copy_from_slice(frame);
            Some(frame.len())
        };
        port.send(clock.now(), write).expect("the port is up");
        if port.blocked().is_some() {
            let wanted = Interest {
                arrivals: false,
                room: true,
                until: Some(clock.now() + Duration::from_millis(10)),
            };
            port.waited(sleeper.wait(clock.now(), wanted))
                .expect("no error");
        } else if !asked {
            return;
        }
    }
}

/// Receives until `count` frames have come, for seconds at most.
fn receive(port: &mut Port, count: usize) -> Vec<Vec<u8>> {
    let (mut frames, clock) = (Vec::new(), Clock::start());
    let sleeper = port
        .sleeper(Waker::new().expect("a descriptor"))
        .expect("a timer");
    let end = clock.now() + Duration::from_secs(20);
    while frames.len() < count && clock.now() < end {
        if port.receive(|frame| frames.push(frame.to_vec())) == 0 {
            let wanted = Interest {
                arrivals: true,
                room: false,
                until: Some(end),
            };
            port.waited(sleeper.wait(clock.now(), wanted))
                .expect("no error");
        }
    }
    frames
}

fn rest(port: &mut Port, last: &mut Port) -> Vec<Vec<u8>> {
    let end = frame(last, port.interface().mac, u32::MAX, 100);
    send(last, std::slice::from_ref(&end));
    let mut frames = Vec::new();
    while frames.last() != Some(&end) {
        frames.extend(receive(port, 1));
        assert!(!frames.is_empty(), "the last frame comes");
    }
    frames.pop();
    frames
}

#[test]
fn frames_of_all_lengths_arrive_with_both_addresses_and_in_order_at_each_destination() {
    let [mut a, mut b, mut c] = ports("lengths");
    let to = [b.interface().mac, c.interface().mac];
    let lengths = [MTU_BYTES, MTU_BYTES, 100, MTU_BYTES, 32, 0, 33, MTU_BYTES];
    let frames: Vec<Vec<u8>> = (0..200)
        .map(|at| frame(&a, to[at % 3 % 2], at as u32, lengths[at % 8]))
        .collect();
    send(&mut a, &frames);
    for port in [&mut b, &mut c] {
        let mac = port.interface().mac;
        let own: Vec<_> = frames
            .iter()
            .filter(|frame| frame[..6] == mac.octets())
            .cloned()
            .collect();
        assert!(receive(port, own.len()) == own);
    }
    let Counters {
        frames_sent,
        frames_given_up,
        ..
    } = a.counters();
    assert_eq!((frames_sent, frames_given_up), (200, 0));
}

#[test]
fn long_runs_leave_and_arrive_joined_and_are_cut() {
    let [mut a, mut b] = ports("runs");
    let frames: Vec<Vec<u8>> = (0..64)
        .map(|at| frame(&a, b.interface().mac, at, MTU_BYTES))
        .collect();
    send(&mut a, &frames);
    assert!(receive(&mut b, 64) == frames);
}

#[test]
fn a_group_hears_all_its_ports_but_none_its_own_frames_and_no_other_group() {
    let ([mut a, mut b], mut other) = (ports("group a"), open("group b", None).expect("a port"));
    let (group, all) = (group_mac("group a"), MacAddr::BROADCAST);
    let frames = [frame(&a, group, 1, 100), frame(&a, all, 2, 200)];
    send(&mut a, &frames);
    assert_eq!(receive(&mut b, 2), frames);
    assert_eq!(
        receive(&mut other, 1),
        [frames[1].clone()],
        "a frame to all is for other groups, too"
    );
    assert!(rest(&mut other, &mut b).is_empty() && rest(&mut a, &mut b).is_empty());
}

#[test]
fn by_unicast_each_peer_gets_a_copy_of_what_is_for_all_and_no_other_host_is_heard() {
    let over = Over::Udp {
        port: None,
        unicast: true,
    };
    let config = PortConfig {
        over,
        ether_type: ether_type(true),
        ..PortConfig::default()
    };
    let at = |last: u8, is_called| {
        open_at(
            Ipv4Addr::new(127, 0, 0, last),
            PortConfig {
                is_called,
                ..config
            },
        )
    };
    let [mut a, mut b, mut c, mut other] = [(2, false), (3, true), (4, true), (5, true)]
        .map(|(last, is_called)| at(last, is_called).expect("a port"));
    a.name_peers(&[3, 9, 4].map(|last| Ipv4Addr::new(127, 0, 0, last)));
    let sent = [
        frame(&a, group_mac("any"), 1, 100),
        frame(&a, MacAddr::BROADCAST, 2, MTU_BYTES),
    ];
    send(&mut a, &sent);
    let Counters {
        frames_sent,
        bytes_sent,
        ..
    } = a.counters();
    assert_eq!(
        (frames_sent, bytes_sent),
        (6, 3 * (sent[0].len() + sent[1].len()) as u64),
        "each copy counts"
    );
    for port in [&mut b, &mut c] {
        let received = receive(port, 2);
        let arrived = |frame: &Vec<u8>| [&MacAddr::BROADCAST.octets(), &frame[6..]].concat();
        assert!(
            received == sent.iter().map(arrived).collect::<Vec<_>>(),
            "both are for all"
        );
    }
    assert!(rest(&mut other, &mut b).is_empty(), "it is no peer");
    let to_a = [&b, &other].map(|from| [frame(from, a.interface().mac, 3, 100)]);
    send(&mut other, &to_a[1]);
    send(&mut b, &to_a[0]);
    assert_eq!(receive(&mut a, 1), to_a[0]);
    assert_eq!(a.counters().outside, 1);
    // Nobody is named, so nobody gets it.
    let to_all = [frame(&c, MacAddr::BROADCAST, 4, 100)];
    send(&mut c, &to_all);
    assert!(rest(&mut b, &mut other).is_empty());
    let text = at(3, true).expect_err("one process has it").to_string();
    assert!(
        text.contains("UDP port 20481 of 127.0.0.3") && text.contains("ss -lunp"),
        "{text}"
    );
    at(3, false).expect("a sender beside it");
}

const LOOPBACK: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

fn open_ipv6(is_called: bool) -> Port {
    let config = PortConfig {
        over: Over::Udp {
            port: None,
            unicast: true,
        },
        ether_type: ether_type(true),
        is_called,
        ..PortConfig::default()
    };
    open_at(stand_in(LOOPBACK), config).expect("a port")
}

fn process_ipv6(port: &Port) -> SocketAddrV6 {
    let own = address_of(port.interface().mac).expect("its address");
    SocketAddrV6::new(Ipv6Addr::LOCALHOST, own.port(), 0, 0)
}

#[test]
fn over_ipv6_frames_of_all_lengths_reach_a_process_and_those_for_all_each_peer() {
    let [mut a, mut b] = [false, true].map(open_ipv6);
    a.name_peers(&[LOOPBACK]);
    let lengths = [MTU_BYTES, MTU_BYTES, 100, MTU_BYTES, 32, 0, 33, MTU_BYTES];
    let frames: Vec<Vec<u8>> = (0..100)
        .map(|at| frame(&a, b.interface().mac, at as u32, lengths[at % 8]))
        .collect();
    send(&mut a, &frames);
    assert!(receive(&mut b, 100) == frames);
    let to_all = [frame(&a, MacAddr::BROADCAST, 1, MTU_BYTES)];
    send(&mut a, &to_all);
    assert_eq!(receive(&mut b, 1), to_all);
    let back = [frame(&b, a.interface().mac, 2, 100)];
    send(&mut b, &back);
    assert_eq!(receive(&mut a, 1), back);
    assert_eq!(a.counters().frames_given_up, 0);
    let gone = a.interface().clone();
    let last = frame(&a, b.interface().mac, 3, 100);
    drop(a);
    send_once(&gone, &last, &[], Some(LOOPBACK)).expect("its port is free");
    assert_eq!(receive(&mut b, 1), [last]);
}

#[test]
fn over_ipv6_a_host_that_is_not_known_is_asked_for_and_answers_from_its_own_address() {
    let mut a = open_ipv6(false);
    let other = (49_152..=65_535).find_map(|port| UdpSocket::bind((LOOPBACK, port)).ok());
    let other = other.expect("a free port");
    other
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a time");
    let mut datagram = [0; 100];
    let mut question = || {
        let (bytes, from) = other.recv_from(&mut datagram).expect("a datagram");
        (Question::decode(&datagram[..bytes]), from)
    };
    // A process that is asked for answers.
    let (own, to_a) = (a.interface().mac, process_ipv6(&a));
    let ask = Question::Ask(own).encode();
    other.send_to(&ask, to_a).expect("it leaves");
    other.send_to(&[7; MTU_BYTES], to_a).expect("it leaves");
    assert_eq!(receive(&mut a, 1).len(), 1, "a question is no frame");
    assert_eq!(question(), (Some(Question::Answer(own)), to_a.into()));
    // A frame for a host that is not known is lost, and those that were heard are asked.
    let unknown = SocketAddrV4::new(Ipv4Addr::new(203, 0, 113, 7), 50_000);
    let unknown = mac_of(unknown).expect("a port of the range");
    let frames = [frame(&a, unknown, 1, 100)];
    send(&mut a, &frames);
    assert_eq!(question(), (Some(Question::Ask(unknown)), to_a.into()));
    let Counters {
        frames_given_up,
        outside,
        ..
    } = a.counters();
    assert_eq!((frames_given_up, outside), (1, 0));
    // The sender of a session passes on whom it is asked for.
    let known = mac_of(SocketAddrV4::new(
        stand_in(LOOPBACK),
        other.local_addr().expect("its address").port(),
    ));
    let known = known.expect("a port of the range");
    let ask = Question::Ask(known).encode();
    other.send_to(&ask, to_a).expect("it leaves");
    other.send_to(&[7; MTU_BYTES], to_a).expect("it leaves");
    receive(&mut a, 1);
    let std::net::SocketAddr::V6(asker) = other.local_addr().expect("its address") else {
        unreachable!("it is of IPv6")
    };
    assert_eq!(
        question(),
        (Some(Question::Pass(known, asker)), to_a.into())
    );
    let pass = Question::Pass(own, asker).encode();
    other.send_to(&pass, to_a).expect("it leaves");
    other.send_to(&[7; MTU_BYTES], to_a).expect("it leaves");
    receive(&mut a, 1);
    assert_eq!(question(), (Some(Question::Answer(own)), to_a.into()));
}

#[test]
fn a_wait_ends_with_a_frame_of_the_group() {
    let [mut a, b] = ports("waits");
    let sleeper = b
        .sleeper(Waker::new().expect("a descriptor"))
        .expect("a timer");
    let clock = Clock::start();
    assert!(!b.has_arrival());
    let frames = [frame(&a, group_mac("waits"), 1, 100)];
    send(&mut a, &frames);
    let until = Some(clock.now() + Duration::from_secs(100));
    let wanted = Interest {
        arrivals: true,
        room: false,
        until,
    };
    let _events = sleeper.wait(clock.now(), wanted);
    assert!(b.has_arrival() && Some(clock.now()) < until);
}

#[test]
fn datagrams_of_non_members_too_long_ones_and_empty_ones_harm_nobody() {
    let [mut a, mut b] = ports("strangers");
    let to = address_of(b.interface().mac).expect("its address");
    let group = group_address(group_mac("strangers"), EtherType::new(0x9000));
    let foreign =
        (20_000..30_000).find_map(|port| UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).ok());
    let foreign = foreign.expect("a free port below those of the wire");
    let own = (49_152..=65_535).find_map(|port| UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).ok());
    let own = own.expect("a free port");
    for length in [0, 1, 13, 14, 31, 1472, 9000] {
        foreign.send_to(&vec![7; length], to).expect("it leaves");
    }
    // To the port of the groups, but to no group.
    own.send_to(&[1; 100], (Ipv4Addr::LOCALHOST, group.port()))
        .expect("it leaves");
    own.send_to(&[], to).expect("it leaves");
    own.send_to(&[2; MTU_BYTES], to).expect("it leaves");
    own.send_to(&[3; MTU_BYTES + 1], to).expect("it leaves");
    own.send_to(&[4; 65_507], to).expect("it leaves");
    let frames = rest(&mut b, &mut a);
    let lengths: Vec<usize> = frames.iter().map(Vec::len).collect();
    assert_eq!(lengths, [ETHERNET, ETHERNET + MTU_BYTES]);
    let Counters {
        outside, truncated, ..
    } = b.counters();
    assert!(
        (7..=8).contains(&outside),
        "{outside}: the one to no group may reach another of this host"
    );
    assert_eq!(truncated, 2);
}

#[test]
fn frames_to_ports_that_nobody_has_and_to_no_address_are_lost_alone() {
    let [mut a, mut b, gone] = ports("gone");
    let nobody = gone.interface().mac;
    drop(gone);
    let to = [nobody, b.interface().mac, MacAddr::new(0, 1, 2, 3, 4, 5)];
    let frames: Vec<Vec<u8>> = (0..300)
        .map(|at| frame(&a, to[at % 3], at as u32, 500))
        .collect();
    send(&mut a, &frames);
    let own: Vec<_> = frames.into_iter().skip(1).step_by(3).collect();
    assert!(receive(&mut b, 100) == own);
    assert!(a.counters().frames_given_up >= 100 && a.blocked().is_none());
    // What the system says of those before does not concern these.
    let back = [frame(&b, a.interface().mac, 1, 64)];
    send(&mut b, &back);
    assert_eq!(receive(&mut a, 1), back);
}

#[test]
fn a_host_that_lets_nothing_out_is_told_so_after_a_while() {
    let [mut a] = ports("nothing");
    let frame = frame(&a, MacAddr::new(0, 1, 2, 3, 4, 5), 0, 100);
    let mut send_at = |millis: u64| {
        let mut once = Some(&frame);
        let now = Instant::from_nanos(millis * 1_000_000);
        let write = |buffer: &mut [u8]| {
            once.take().map(|frame| {
                buffer[..frame.len()].copy_from_slice(frame);
                frame.len()
            })
        };
        (
            a.send(now, write).map_err(|error| error.to_string()),
            a.outage(now).map(|error| error.to_string()),
        )
    };
    assert_eq!(send_at(100), (Ok(1), None));
    assert_eq!(send_at(1000), (Ok(1), None));
    let (sent, outage) = send_at(1200);
    let text = outage.expect("more than a second");
    assert!(
        sent.is_ok() && text.contains("EADDRNOTAVAIL") && text.contains("ip -4 route"),
        "{text}"
    );
    assert!(send_at(40_000).0.is_err(), "the limit has passed");
}

/// Warnings of all tests of this process.
struct Warnings(Mutex<Vec<String>>);

static WARNINGS: Warnings = Warnings(Mutex::new(Vec::new()));

impl Log for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() == Level::Warn
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            self.0
                .lock()
                .expect("no test panics here")
                .push(record.args().to_string());
        }
    }

    fn flush(&self) {}
}

#[test]
fn a_host_to_which_nothing_leaves_is_named_once_however_many_frames_others_get_between() {
    log::set_logger(&WARNINGS).expect("no other test has one");
    log::set_max_level(LevelFilter::Warn);
    let [mut a, mut b] = ports("no route");
    // No way leads there from an address of the loopback interface.
    let away = [7, 8].map(|last| SocketAddrV4::new(Ipv4Addr::new(203, 0, 113, last), 50_000));
    let [first, second] = away.map(|address| mac_of(address).expect("a port of the range"));
    let to = [first, b.interface().mac, second, b.interface().mac];
    let frames: Vec<_> = (0..40)
        .map(|at| frame(&a, to[at % 4], at as u32, 100))
        .collect();
    frames.chunks(1).for_each(|frame| send(&mut a, frame));
    assert_eq!(
        (receive(&mut b, 20).len(), a.counters().frames_given_up),
        (20, 20)
    );
    let warnings = WARNINGS.0.lock().expect("no test panics here");
    for address in away {
        let of = warnings
            .iter()
            .filter(|text| text.contains(&address.to_string()))
            .count();
        assert_eq!(of, 1, "{address}: {warnings:?}");
    }
}

#[test]
fn a_port_that_is_taken_is_named_with_what_to_do() {
    let a = open("taken", None).expect("a port");
    let port = address_of(a.interface().mac).expect("its address").port();
    let text = open("taken", Some(port))
        .expect_err("it is taken")
        .to_string();
    assert!(
        text.contains(&format!("UDP port {port} of lo")) && text.contains("over udp"),
        "{text}"
    );
    drop(a);
    let again = open("taken", Some(port)).expect("it is free again");
    assert_eq!(
        address_of(again.interface().mac).map(|address| address.port()),
        Some(port)
    );
}

#[test]
fn a_last_frame_leaves_in_the_name_of_a_process_that_has_ended() {
    let [gone, mut b] = ports("last");
    let last = [
        frame(&gone, b.interface().mac, 1, 100),
        frame(&gone, group_mac("last"), 2, 100),
    ];
    let lo = gone.interface().clone();
    let send_once = |frame: &[u8], peers: &[IpAddr]| send_once(&lo, frame, peers, None);
    assert!(send_once(&last[0], &[]).is_err(), "it has not ended");
    drop(gone);
    last.iter()
        .for_each(|frame| send_once(frame, &[]).expect("its port is free"));
    let mut received = receive(&mut b, 2);
    received.sort();
    let mut last = last.to_vec();
    last.sort();
    assert_eq!(received, last);
    for frame in [&[][..], &[0; 13], &[0; 14], &[0xff; 60]] {
        assert!(send_once(frame, &[]).is_err());
    }
}

#[test]
fn by_unicast_a_last_frame_goes_to_each_peer_though_one_cannot_be_reached() {
    // The groups' port of other tests of this process is another.
    let ether_type = EtherType::new(0x9002);
    let config = PortConfig {
        over: Over::Udp {
            port: None,
            unicast: true,
        },
        ether_type,
        ..PortConfig::default()
    };
    let at = |last: u8, is_called| {
        open_at(
            Ipv4Addr::new(127, 0, 1, last),
            PortConfig {
                is_called,
                ..config
            },
        )
        .expect("a port")
    };
    let [gone, mut b, mut c] =
        [(2, false), (3, true), (4, true)].map(|(last, is_called)| at(last, is_called));
    let mut last = frame(&gone, MacAddr::BROADCAST, 1, 100);
    last[12..ETHERNET].copy_from_slice(&ether_type.octets());
    let lo = gone.interface().clone();
    drop(gone);
    let peers = [[127, 0, 1, 3], [203, 0, 113, 9], [127, 0, 1, 4]].map(IpAddr::from);
    send_once(&lo, &last, &peers, None).expect("its port is free");
    assert_eq!(
        [&mut b, &mut c].map(|port| receive(port, 1)),
        [[last.clone()], [last]]
    );
}
