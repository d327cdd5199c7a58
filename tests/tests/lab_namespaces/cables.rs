//! Behaviour of a lab's cables.

use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::MsgFlags;

use super::frames::{BROADCAST, FrameSocket};
use super::{two_switches, up};
use ethbcast_lab::Lab;
use ethbcast_tests::lab::{LIMIT, within};

/// Long enough for any frame in flight on a busy machine.
const QUIET: Duration = Duration::from_millis(800);

fn socket_on(lab: &Lab, host: &str) -> FrameSocket {
    lab.run_on(host, FrameSocket::open).expect("entering the host")
}

fn numbers(frames: &[(u32, usize, std::time::Instant)]) -> Vec<u32> {
    frames.iter().map(|frame| frame.0).collect()
}

#[test]
fn a_broadcast_reaches_every_other_host_once_and_nothing_else_moves() {
    let lab = up(&two_switches("broadcast"));
    let sockets: Vec<_> = lab.hosts().iter().map(|host| socket_on(&lab, host)).collect();
    sockets[0].send(BROADCAST, 7, 100, MsgFlags::empty()).expect("sending");
    for socket in &sockets[1..] {
        assert_eq!(numbers(&socket.receive_all(QUIET)), [7]);
    }
    assert!(sockets[0].receive(Duration::from_millis(10)).is_none(), "the sender does not hear itself");
    for host in ["n1", "n2", "n3"] {
        let counters = lab.counters(host).expect("counters");
        assert_eq!((counters.received_frames, counters.sent_frames), (1, 0), "{host}: nobody else has spoken");
    }
    // The switches have learnt where n0 is: a reply goes there alone.
    sockets[3].send(sockets[0].mac(), 8, 100, MsgFlags::empty()).expect("sending");
    assert_eq!(numbers(&sockets[0].receive_all(QUIET)), [8]);
    for host in ["n1", "n2"] {
        assert_eq!(lab.counters(host).expect("counters").received_frames, 1, "{host} is not asked");
    }
}

#[test]
fn a_stream_takes_the_time_its_bits_take_on_the_wire() {
    let mut config = two_switches("rate");
    config.rate_bits_per_second = Some(20_000_000);
    let lab = up(&config);
    let (sender, receiver) = (socket_on(&lab, "n0"), socket_on(&lab, "n3"));
    let frames = 400;
    let began = std::time::Instant::now();
    let received = std::thread::scope(|scope| {
        let receiving = scope.spawn(|| receiver.receive_all(QUIET));
        for number in 0..frames {
            sender.send(BROADCAST, number, 1500, MsgFlags::empty()).expect("sending");
        }
        receiving.join().expect("receiving")
    });
    assert_eq!(numbers(&received), (0..frames).collect::<Vec<_>>(), "one sender at the cable's rate loses nothing");
    let seconds = (received[399].2 - began).as_secs_f64();
    let wire_seconds = 399.0 * f64::from((1500 + 14 + 24) * 8) / 20e6;
    // Other work makes it longer and never shorter.
    assert!((0.95..10.0).contains(&(seconds / wire_seconds)), "{seconds} s, on the wire {wire_seconds} s");
}

#[test]
fn two_senders_into_one_port_lose_what_its_queue_does_not_hold() {
    let mut config = two_switches("congestion");
    config.rate_bits_per_second = Some(50_000_000);
    config.switch_queue_bytes = 20 * 1514;
    let lab = up(&config);
    let receiver = socket_on(&lab, "n2");
    let senders = ["n0", "n3"].map(|host| socket_on(&lab, host));
    let received = std::thread::scope(|scope| {
        let receiving = scope.spawn(|| receiver.receive_all(QUIET));
        for sender in &senders {
            scope.spawn(|| {
                (0..3000)
                    .for_each(|number| sender.send(receiver.mac(), number, 1500, MsgFlags::empty()).expect("sending"))
            });
        }
        receiving.join().expect("receiving").len()
    });
    // Both cables carry 3000 frames while the port carries 3000 and queues 20. More pass while one
    // of the senders waits for a processor.
    assert!((2500..5400).contains(&received), "{received} of 6000 arrived");
}

#[test]
fn a_sender_that_is_too_fast_runs_out_of_its_own_buffer_never_of_the_queue() {
    for mtu_bytes in [1500, 9000, 65_535] {
        let mut config = two_switches("pressure");
        config.rate_bits_per_second = Some(100_000);
        config.mtu_bytes = mtu_bytes;
        let lab = up(&config);
        let sender = socket_on(&lab, "n0");
        let send = |number| sender.send(BROADCAST, number, mtu_bytes as usize, MsgFlags::MSG_DONTWAIT);
        let refusal = (0..1000).find_map(|number| send(number).err());
        assert_eq!(refusal, Some(Errno::EAGAIN), "MTU {mtu_bytes}");
    }
}

#[test]
fn a_host_loses_the_fraction_it_is_told_to_and_no_more_when_told_to_stop() {
    let mut config = two_switches("loss");
    config.loss = 0.3;
    let lab = up(&config);
    let (sender, lossy) = (socket_on(&lab, "n0"), socket_on(&lab, "n2"));
    let (frames, counters) = (3000, || lab.counters("n2").expect("counters"));
    let deliver = || {
        let before = counters().received_frames;
        for number in 0..frames {
            sender.send(BROADCAST, number, 100, MsgFlags::empty()).expect("sending");
            // Paced, so that a kernel with other work can keep up.
            if number % 500 == 499 {
                let carried = || (counters().received_frames - before > u64::from(number)).then_some(());
                within(LIMIT, carried).expect("the cable carries all");
            }
        }
        lossy.receive_all(QUIET).len()
    };
    let arrived = deliver();
    // 3000 trials with p = 0.3 have a standard deviation of 25; this is six of them.
    assert!((1950..2250).contains(&arrived), "{arrived} of 3000 arrived at 30 % loss");
    assert_eq!(counters().received_frames, 3000, "the cable carried all");
    assert_eq!(counters().lost_frames, 3000 - arrived as u64, "and the rule counted what it took");
    lab.set_loss("n2", 0.0).expect("no more loss");
    assert_eq!(deliver(), 3000);
    assert_eq!(lab.counters("n2").expect("counters").lost_frames, 0);
    lab.set_loss("n2", 0.999).expect("almost all");
    assert!(deliver() < 40, "the new loss is in place");
}

#[test]
fn the_largest_frame_there_can_be_crosses_two_switches_shaped_or_not() {
    for (story, rate) in [("jumbo", None), ("jumborate", Some(1_000_000_000))] {
        let mut config = two_switches(story);
        config.mtu_bytes = 65_535;
        config.rate_bits_per_second = rate;
        let lab = up(&config);
        let (sender, receiver) = (socket_on(&lab, "n0"), socket_on(&lab, "n3"));
        sender.send(BROADCAST, 1, 65_535, MsgFlags::empty()).expect("sending");
        let frame = receiver.receive(LIMIT).map(|(_, payload_bytes, _)| payload_bytes);
        assert_eq!(frame, Some(65_535), "{story}");
        assert_eq!(sender.send(BROADCAST, 2, 65_536, MsgFlags::empty()), Err(Errno::EMSGSIZE), "{story}");
    }
}
