//! Tests of UDP without multicast, between network namespaces: group frames are copied to each host.

use crate::network::{Cable, Script, frame, until};
use ethbcast_tests::lab::StopOnDrop;
use ethbcast_transport::link::{Interest, Waiter};
use ethbcast_transport::packet::{Clock, Counters, Interface, Over, Port, PortConfig, Waker, drive, group_address};
use ethbcast_transport::{Instant, Link, MacAddr};
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const FRAMES: u32 = 3;

/// Sends frames for all to these peers, until `stop` is set.
fn send_to_all(peers: &[Ipv4Addr], config: PortConfig, stop: &AtomicBool) -> Counters {
    let interface = Interface::find_over(Some("eth0"), config.over).expect("it has an address");
    let mut port = Port::open(&interface, config).expect("a port");
    port.name_peers(peers);
    let mut script = Script::sending((0..FRAMES).map(|number| frame(MacAddr::BROADCAST, number, 200)));
    (script.deadline, script.period) = (Some(Instant::START), Some(Duration::from_millis(10)));
    let (waker, clock) = (Waker::new().expect("a descriptor is free"), Clock::start());
    let ended = drive(&mut port, &mut script, &waker, &clock, |_, now| until(stop.load(Ordering::Relaxed), now));
    ended.expect("the interface is up");
    port.counters()
}

fn received(socket: &UdpSocket, count: u32) -> Vec<u32> {
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a time");
    let mut datagram = [0; 300];
    let number = |datagram: &[u8]| u32::from_be_bytes(*datagram.first_chunk().expect("it is longer"));
    let mut numbers: Vec<_> =
        (0..count).map_while(|_| socket.recv(&mut datagram).ok().map(|_| number(&datagram))).collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn each_of_hundreds_of_peers_gets_its_copy_of_what_is_for_all_though_the_socket_has_room_for_fewer() {
    let cable = Cable::lay(1500);
    cable.command(0, "ip address add 10.7.0.1/16 dev eth0");
    cable.command(1, "ip link set lo up");
    cable.command(1, "ip address add 10.7.0.2/16 dev eth0");
    cable.command(1, "ip route add local 10.7.1.0/24 dev lo");
    cable.shape("10mbit", "16kb", "1mb");
    let peers: Vec<Ipv4Addr> = (0..250).map(|last| Ipv4Addr::new(10, 7, 1, last)).collect();
    let mut config = PortConfig::default();
    config.over = Over::Udp { port: None, unicast: true };
    let port = group_address(MacAddr::BROADCAST, config.ether_type).port();
    let sockets: Vec<_> =
        cable.on(1, || peers.iter().map(|&ip| UdpSocket::bind((ip, port)).expect("its address")).collect());
    let stop = AtomicBool::new(false);
    let counters = thread::scope(|scope| {
        let sender = scope.spawn(|| cable.on(0, || send_to_all(&peers, config, &stop)));
        let stops = StopOnDrop(&stop);
        for (socket, peer) in sockets.iter().zip(&peers) {
            assert_eq!(received(socket, FRAMES), (0..FRAMES).collect::<Vec<_>>(), "{peer}");
        }
        drop(stops);
        sender.join().expect("it ends")
    });
    assert!(counters.send_would_block > 0 && counters.frames_given_up == 0, "{counters:?}");
}

/// Sends a frame for all and returns when each peer's copy has left.
fn send_through(port: &mut Port, clock: &Clock, number: u32) {
    let sleeper = port.sleeper(Waker::new().expect("a descriptor is free")).expect("a timer");
    let mut script = Script::sending([frame(MacAddr::BROADCAST, number, 200)]);
    loop {
        port.transmit(clock.now(), &mut script).expect("the interface is up");
        if port.blocked().is_none() {
            return;
        }
        let wanted = Interest { arrivals: false, room: true, until: None };
        port.waited(sleeper.wait(clock.now(), wanted)).expect("no error");
    }
}

#[test]
fn peers_that_answer_no_arp_request_do_not_keep_frames_from_those_that_do() {
    let cable = Cable::lay(1500);
    cable.command(0, "ip address add 10.7.0.1/16 dev eth0");
    cable.command(1, "ip link set lo up");
    cable.command(1, "ip address add 10.7.0.2/16 dev eth0");
    cable.command(1, "ip route add local 10.7.1.0/24 dev lo");
    let hosts = |net, count| (1..=count).map(move |last| Ipv4Addr::new(10, 7, net, last));
    let live = hosts(1, 3);
    let peers: Vec<_> = hosts(2, 20).chain(live.clone()).chain(hosts(3, 20)).collect();
    let mut config = PortConfig::default();
    config.over = Over::Udp { port: None, unicast: true };
    let group_port = group_address(MacAddr::BROADCAST, config.ether_type).port();
    let sockets: Vec<_> =
        cable.on(1, || live.map(|ip| UdpSocket::bind((ip, group_port)).expect("its address")).collect());
    let mut port = cable.on(0, || {
        let interface = Interface::find_over(Some("eth0"), config.over).expect("it has an address");
        Port::open(&interface, config).expect("a port")
    });
    port.name_peers(&peers);
    let clock = Clock::start();
    for number in 0..100 {
        send_through(&mut port, &clock, number);
        assert_eq!(port.counters().send_would_block, 0, "at frame {number}");
        sockets.iter().for_each(|socket| assert_eq!(received(socket, 1), [number]));
    }
}
