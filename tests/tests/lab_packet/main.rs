//! Tests of the AF_PACKET driver on real interfaces: veth pairs between network namespaces.
//!
//! The tests need root, and fail without it: a skipped test proves nothing.

mod frames;
mod loops;
mod network;
mod outages;
mod shared;

use crate::network::{Cable, Script, frame, until};
use ethbcast_tests::lab::StopOnDrop;
use ethbcast_transport::link::{Interest, Waiter};
use ethbcast_transport::packet::{
    Clock, Counters, Interface, Over, Port, PortConfig, Waker, drive, group_address, mac_of,
};
use ethbcast_transport::{Instant, Link, MacAddr};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const FRAMES: u32 = 3;

/// Sends frames for all to these peers, until `stop` is set.
fn send_to_all(peers: &[Ipv4Addr], config: PortConfig, stop: &AtomicBool) -> Counters {
    let interface = Interface::find_over(Some("eth0"), config.over).expect("it has an address");
    let mut port = Port::open(&interface, config).expect("a port");
    port.name_peers(peers);
    let mut script =
        Script::sending((0..FRAMES).map(|number| frame(MacAddr::BROADCAST, number, 200)));
    (script.deadline, script.period) = (Some(Instant::START), Some(Duration::from_millis(10)));
    let (waker, clock) = (Waker::new().expect("a descriptor is free"), Clock::start());
    let ended = drive(&mut port, &mut script, &waker, &clock, |_, now| {
        until(stop.load(Ordering::Relaxed), now)
    });
    ended.expect("the interface is up");
    port.counters()
}

fn received(socket: &UdpSocket, count: u32) -> Vec<u32> {
    socket
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a time");
    let mut datagram = [0; 300];
    let number =
        |datagram: &[u8]| u32::from_be_bytes(*datagram.first_chunk().expect("it is longer"));
    let mut numbers: Vec<_> = (0..count)
        .map_while(|_| socket.recv(&mut datagram).ok().map(|_| number(&datagram)))
        .collect();
    numbers.sort_unstable();
    numbers
}

/// Lays a cable behind whose end are hosts, each with an address of 10.7.1.0/24.
fn lay() -> Cable {
    lay_with(1500)
}

fn lay_with(mtu_bytes: usize) -> Cable {
    let cable = Cable::lay(mtu_bytes);
    cable.command(0, "ip address add 10.7.0.1/16 dev eth0");
    cable.command(1, "ip link set lo up");
    cable.command(1, "ip address add 10.7.0.2/16 dev eth0");
    cable.command(1, "ip route add local 10.7.1.0/24 dev lo");
    cable
}

fn hosts(net: u8, numbers: RangeInclusive<u8>) -> Vec<Ipv4Addr> {
    numbers
        .map(|last| Ipv4Addr::new(10, 7, net, last))
        .collect()
}

fn by_unicast() -> PortConfig {
    let mut config = PortConfig::default();
    config.over = Over::Udp {
        port: None,
        unicast: true,
    };
    config
}

fn open(cable: &Cable) -> Port {
    let config = by_unicast();
    cable.on(0, || {
        let interface = Interface::find_over(Some("eth0"), config.over).expect("it has an address");
        Port::open(&interface, config).expect("a port")
    })
}

/// Returns sockets that hear what is for all.
fn hearing(cable: &Cable, hosts: &[Ipv4Addr]) -> Vec<UdpSocket> {
    let port = group_address(MacAddr::BROADCAST, by_unicast().ether_type).port();
    cable.on(1, || {
        hosts
            .iter()
            .map(|&ip| UdpSocket::bind((ip, port)).expect("its address"))
            .collect()
    })
}

#[test]
fn each_of_hundreds_of_peers_gets_its_copy_of_what_is_for_all_though_the_socket_has_room_for_fewer()
{
    let cable = lay();
    cable.shape("10mbit", "16kb", "1mb");
    let (peers, config) = (hosts(1, 0..=249), by_unicast());
    let sockets = hearing(&cable, &peers);
    let stop = AtomicBool::new(false);
    let counters = thread::scope(|scope| {
        let sender = scope.spawn(|| cable.on(0, || send_to_all(&peers, config, &stop)));
        let stops = StopOnDrop(&stop);
        for (socket, peer) in sockets.iter().zip(&peers) {
            assert_eq!(
                received(socket, FRAMES),
                (0..FRAMES).collect::<Vec<_>>(),
                "{peer}"
            );
        }
        drop(stops);
        sender.join().expect("it ends")
    });
    assert!(
        counters.send_would_block > 0 && counters.frames_given_up == 0,
        "{counters:?}"
    );
}

/// Sends what a script has to send, and returns when all has left.
fn send_through(port: &mut Port, script: &mut Script) {
    let clock = Clock::start();
    let sleeper = port
        .sleeper(Waker::new().expect("a descriptor is free"))
        .expect("a timer");
    loop {
        port.transmit(clock.now(), script)
            .expect("the interface is up");
        if port.blocked().is_none() && script.outgoing.is_empty() {
            return;
        }
        let wanted = Interest {
            arrivals: false,
            room: true,
            until: None,
        };
        port.waited(sleeper.wait(clock.now(), wanted))
            .expect("no error");
    }
}

#[test]
fn peers_that_answer_no_arp_request_do_not_keep_frames_from_those_that_do() {
    let (cable, live) = (lay(), hosts(1, 1..=3));
    let sockets = hearing(&cable, &live);
    let mut port = open(&cable);
    port.name_peers(&[hosts(2, 1..=20), live, hosts(3, 1..=20)].concat());
    for number in 0..100 {
        send_through(
            &mut port,
            &mut Script::sending([frame(MacAddr::BROADCAST, number, 200)]),
        );
        assert_eq!(port.counters().send_would_block, 0, "at frame {number}");
        sockets
            .iter()
            .for_each(|socket| assert_eq!(received(socket, 1), [number]));
    }
}

#[test]
fn absent_peers_fill_no_buffer_that_may_not_grow() {
    let cable = lay_with(9000);
    let peers = [hosts(1, 1..=1), hosts(2, 0..=249), hosts(3, 0..=249)].concat();
    let sockets = hearing(&cable, &peers[..1]);
    let send = || {
        // A process with this right exceeds the system's limit.
        let mut own = capabilities(None).expect("its own");
        own.effective.remove(CapabilitySet::NET_ADMIN);
        set_capabilities(None, own).expect("fewer");
        let interface =
            Interface::find_over(Some("eth0"), by_unicast().over).expect("it has an address");
        let mut port = Port::open(&interface, by_unicast()).expect("a port");
        port.name_peers(&peers);
        let sends = |number| {
            send_through(
                &mut port,
                &mut Script::sending([frame(MacAddr::BROADCAST, number, 8900)]),
            );
            assert_eq!(received(&sockets[0], 1), [number]);
            port.counters().send_would_block
        };
        (0..20).map(sends).collect::<Vec<_>>()
    };
    let blocked = cable.on(0, send);
    // The first looks for as many as it may, and the kernel may have to be asked once more; without
    // a limit it is four times more.
    assert!(
        blocked.iter().all(|&times| times <= blocked[0] + 2),
        "{blocked:?}"
    );
}

#[test]
fn a_frame_too_long_for_the_way_to_one_host_is_lost_and_those_for_others_arrive() {
    let cable = lay();
    // As through a tunnel.
    cable.command(0, "ip link add narrow mtu 1000 type veth peer name end");
    cable.command(0, "ip link set narrow up");
    cable.command(0, "ip route add 10.8.0.0/16 dev narrow");
    let [near, far] = [[10, 7, 1, 1], [10, 8, 0, 1]].map(|ip| SocketAddrV4::new(ip.into(), 50_000));
    let socket = cable.on(1, || UdpSocket::bind(near).expect("its address"));
    let mut port = open(&cable);
    let to = [far, near].map(|address| mac_of(address).expect("a port of the range"));
    let frames = (0..20_u32).map(|number| frame(to[number as usize % 2], number / 2, 1472));
    send_through(&mut port, &mut Script::sending(frames));
    assert_eq!(received(&socket, 10), (0..10).collect::<Vec<_>>());
    assert_eq!(port.counters().frames_given_up, 10);
}

#[test]
fn peers_that_are_named_anew_get_the_frame_that_had_to_wait() {
    let cable = lay();
    cable.shape("10mbit", "16kb", "1mb");
    let peers = hosts(1, 0..=249);
    let sockets = hearing(&cable, &peers[247..]);
    let mut port = open(&cable);
    port.name_peers(&peers);
    let mut script = Script::sending([frame(MacAddr::BROADCAST, 7, 200)]);
    port.transmit(Instant::START, &mut script)
        .expect("the interface is up");
    assert!(port.blocked().is_some(), "there is room for fewer");
    port.name_peers(&peers[247..]);
    send_through(&mut port, &mut script);
    sockets
        .iter()
        .for_each(|socket| assert_eq!(received(socket, 1), [7]));
}
