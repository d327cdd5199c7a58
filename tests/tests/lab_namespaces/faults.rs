//! Faults of one cable: the frames that they affect, and no others.

use std::time::Duration;

use nix::sys::socket::MsgFlags;

use super::frames::{BROADCAST, FrameSocket};
use super::{two_switches, up};
use ethbcast_lab::{Lab, LinkFault};

/// Long enough for any frame in flight on a busy machine.
const QUIET: Duration = Duration::from_millis(300);
/// Position of the last byte of the number at the start of a frame.
const NUMBER_BYTE: usize = 17;

fn socket_on(lab: &Lab, host: &str) -> FrameSocket {
    lab.run_on(host, FrameSocket::open).expect("entering the host")
}

fn arriving(from: &FrameSocket, to: [u8; 6], at: &FrameSocket, frames: &[(u32, usize)]) -> Vec<u32> {
    for &(number, payload_bytes) in frames {
        from.send(to, number, payload_bytes, MsgFlags::empty()).expect("sending");
    }
    at.receive_all(QUIET).into_iter().map(|(number, ..)| number).collect()
}

#[test]
fn a_fault_takes_the_frames_that_fit_it_in_its_direction_alone() {
    let lab = up(&two_switches("faults"));
    let [n0, n1, n3] = ["n0", "n1", "n3"].map(|host| socket_on(&lab, host));
    let frames = [(1, 100), (2, 100), (3, 1000)];
    let cases = [
        (LinkFault::arriving().byte(NUMBER_BYTE, &[1, 3]), vec![2], vec![1, 2, 3]),
        (LinkFault::leaving().byte(NUMBER_BYTE, &[2]), vec![1, 2, 3], vec![1, 3]),
        (LinkFault::arriving().longer_than(999), vec![1, 2], vec![1, 2, 3]),
        (LinkFault::arriving().longer_than(1000), vec![1, 2, 3], vec![1, 2, 3]),
        (LinkFault::leaving().longer_than(999), vec![1, 2, 3], vec![1, 2]),
        (LinkFault::leaving().longer_than(1000), vec![1, 2, 3], vec![1, 2, 3]),
        (LinkFault::arriving().multicast(), vec![1, 2, 3], vec![1, 2, 3]),
        (LinkFault::arriving().unicast(), vec![], vec![1, 2, 3]),
        (LinkFault::leaving().unicast(), vec![1, 2, 3], vec![]),
        (LinkFault::arriving().fraction(0.0), vec![1, 2, 3], vec![1, 2, 3]),
        (LinkFault::arriving().peer(lab.mac("n0").expect("an address")), vec![], vec![1, 2, 3]),
        (LinkFault::arriving().peer(lab.mac("n1").expect("an address")), vec![1, 2, 3], vec![1, 2, 3]),
        (LinkFault::leaving().peer(lab.mac("n0").expect("an address")), vec![1, 2, 3], vec![]),
    ];
    for (fault, to, from) in cases {
        lab.set_faults("n3", std::slice::from_ref(&fault)).expect("nft takes it");
        assert_eq!(arriving(&n0, n3.mac(), &n3, &frames), to, "to n3: {fault:?}");
        assert_eq!(arriving(&n3, n0.mac(), &n0, &frames), from, "from n3: {fault:?}");
        let taken = 6 - to.len() - from.len();
        assert_eq!(lab.faulted_frames("n3").expect("counters"), taken as u64, "{fault:?}");
    }
    let both = [LinkFault::arriving().multicast(), LinkFault::leaving()];
    lab.set_faults("n3", &both).expect("nft takes both");
    // Frames that the switches flooded before they knew where n3 is.
    n1.receive_all(QUIET);
    assert_eq!(arriving(&n0, BROADCAST, &n3, &frames), [0; 0]);
    assert_eq!(n1.receive_all(QUIET).len(), 3, "another host hears all there was");
    lab.set_faults("n3", &[]).expect("no more faults");
    assert_eq!(arriving(&n3, n0.mac(), &n0, &frames), [1, 2, 3]);
    assert_eq!(lab.faulted_frames("n3").expect("counters"), 0);
}

/// Panics unless one of some frames to a host arrives: a bridge forwards again a moment after a
/// port is back.
fn comes_through(from: &FrameSocket, to: &FrameSocket, at: &FrameSocket) {
    let came = (0..10).any(|_| arriving(from, to.mac(), at, &[(1, 100)]) == [1]);
    assert!(came, "nothing comes through");
}

#[test]
fn a_port_and_an_interface_go_down_and_come_back() {
    let lab = up(&two_switches("ports"));
    let [n0, n3] = ["n0", "n3"].map(|host| socket_on(&lab, host));
    let one = [(1, 100)];
    lab.set_port("n3", false).expect("down");
    assert_eq!(arriving(&n0, n3.mac(), &n3, &one), [0; 0]);
    lab.set_port("n3", true).expect("up");
    comes_through(&n0, &n3, &n3);
    lab.set_link("n3", false).expect("down");
    n0.send(n3.mac(), 2, 100, MsgFlags::empty()).expect("sending");
    lab.set_link("n3", true).expect("up");
    // The socket reports that its interface was down before it returns the next frame.
    let again = socket_on(&lab, "n3");
    comes_through(&n0, &n3, &again);
}
