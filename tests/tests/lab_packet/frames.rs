//! Tests of the packet socket: received and filtered frames, and frames that wait for buffer room.

use crate::network::{
    Cable, ETHER_TYPE, GROUP, Script, collect, frame, numbers, raw_frame, send, until,
};
use ethbcast_tests::lab::LIMIT;
use ethbcast_transport::packet::{Clock, Counters, DriveError, Port, Waker, drive};
use ethbcast_transport::{Link, MacAddr};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

fn drive_until_sent(
    port: &mut Port,
    to: ethbcast_transport::MacAddr,
    count: u32,
) -> (Counters, Duration) {
    let mut script = Script::sending((0..count).map(|number| frame(to, number, 1500)));
    let begin = Instant::now();
    let waker = Waker::new().expect("a descriptor is free");
    let ended = drive(port, &mut script, &waker, &Clock::start(), |script, now| {
        until(script.outgoing.is_empty(), now)
    });
    ended.expect("the interface is up");
    (port.counters(), begin.elapsed())
}

/// Whether each of `count` numbered frames has arrived once. Shaped by tbf they may overtake each
/// other: some leave on the CPU of its timer.
fn all_of(count: u32, port: &mut Port) -> bool {
    let mut arrived = numbers(&collect(port));
    arrived.sort_unstable();
    arrived == (0..count).collect::<Vec<_>>()
}

#[test]
fn a_full_socket_buffer_loses_nothing_and_sleeps() {
    let cable = Cable::lay(1500);
    cable.shape("50mbit", "16kb", "1mb");
    let (mut a, mut b) = cable.open_both();
    let (counters, time) = drive_until_sent(&mut a, b.interface().mac, 2000);
    assert!(
        counters.send_would_block > 0 && counters.send_no_buffers == 0,
        "{counters:?}"
    );
    assert_eq!(counters.frames_sent, 2000);
    std::thread::sleep(Duration::from_millis(100));
    assert!(all_of(2000, &mut b));
    // The buffer holds 4 ms, 16 frames here, and there is room again when half of it has gone.
    assert!(counters.poll_wakeups < 2000 / 4, "{counters:?} in {time:?}");
}

#[test]
fn a_full_transmit_queue_loses_nothing_and_does_not_spin() {
    let cable = Cable::lay(1500);
    cable.shape("50mbit", "4kb", "6kb");
    let (mut a, mut b) = cable.open_both();
    let (counters, time) = drive_until_sent(&mut a, b.interface().mac, 500);
    assert!(
        counters.send_no_buffers > 0 && counters.send_would_block == 0,
        "{counters:?}"
    );
    std::thread::sleep(Duration::from_millis(20));
    assert!(all_of(500, &mut b));
    // One frame takes 242 µs at this rate: at most two attempts per frame in the time that it took.
    let most = (time.as_secs_f64() / 121e-6) as u64;
    assert!(
        counters.poll_wakeups < most && counters.send_no_buffers < most,
        "{counters:?} in {time:?}"
    );
}

/// Frames keep arriving, so the loop never sleeps; it must notice all the same that it can send
/// again.
#[test]
fn a_blocked_sender_that_keeps_receiving_gets_its_turn() {
    let cable = Cable::lay(1500);
    cable.shape("50mbit", "16kb", "1mb");
    let (mut a, mut b) = cable.open_both();
    let (mac_a, mac_b) = (a.interface().mac, b.interface().mac);
    let noise = frame(mac_a, 0, 100);
    let mut script = Script::sending((0..1000).map(|number| frame(mac_b, number, 1500)));
    let waker = Waker::new().expect("a descriptor is free");
    let begin = Instant::now();
    let ended = drive(&mut a, &mut script, &waker, &Clock::start(), |script, _| {
        // In every round there is a frame for the next one.
        send(&mut b, [noise.clone()]);
        script.received.clear();
        let done = script.outgoing.is_empty() || begin.elapsed() > LIMIT;
        if done {
            ControlFlow::Break(script.outgoing.len())
        } else {
            ControlFlow::Continue(())
        }
    });
    assert_eq!(
        ended.expect("the interface is up"),
        0,
        "frames left after {:?}",
        begin.elapsed()
    );
    assert!(a.counters().send_would_block > 0);
}

#[test]
fn the_last_frames_are_sent_after_an_outage_but_not_for_ever() {
    let cable = Cable::lay(1500);
    let (mut a, mut b) = cable.open_both();
    let to = b.interface().mac;
    let waker = Waker::new().expect("a descriptor is free");
    let mut script = Script::sending([frame(to, 7, 46)]);
    let ended = drive(&mut a, &mut script, &waker, &Clock::start(), |_, _| {
        ControlFlow::Break("done")
    });
    assert_eq!(ended.expect("the interface is up"), "done");
    assert_eq!(numbers(&collect(&mut b)), [7]);

    // A bucket smaller than one frame lets none pass, ever.
    cable.shape("50mbit", "1kb", "100kb");
    let mut script = Script::sending([frame(to, 8, 1500)]);
    let begin = Instant::now();
    drive(&mut a, &mut script, &waker, &Clock::start(), |_, _| {
        ControlFlow::Break(())
    })
    .expect("the result stands");
    let time = begin.elapsed();
    assert!(
        time >= Duration::from_millis(100) && time < LIMIT / 2,
        "{time:?}"
    );
}

#[test]
fn an_interface_that_goes_down_ends_the_loop_and_says_so() {
    let cable = Cable::lay(1500);
    let mut a = cable.open(0, |config| config.outage_limit = Duration::ZERO);
    let waker = Waker::new().expect("a descriptor is free");
    let mut idle = Script::default();
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(30));
            cable.command(0, "ip link set eth0 down");
        });
        drive(&mut a, &mut idle, &waker, &Clock::start(), |_, now| {
            until(false, now)
        })
    });
    let error = error.expect_err("nothing else ends the loop");
    assert!(error.to_string().contains("eth0 went down"), "{error}");

    let mut sending = Script::sending([frame(ethbcast_transport::MacAddr::BROADCAST, 0, 46)]);
    let later = ethbcast_transport::Instant::START + Duration::from_secs(60);
    let error = a
        .transmit(later, &mut sending)
        .expect_err("the interface is down");
    assert!(matches!(error, DriveError::InterfaceDown { .. }), "{error}");
}

#[test]
fn a_lowered_mtu_is_reported_with_the_frame_that_did_not_fit() {
    let cable = Cable::lay(1500);
    let mut a = cable.open(0, |_| {});
    cable.command(0, "ip link set eth0 mtu 1000");
    let mut script = Script::sending([frame(ethbcast_transport::MacAddr::BROADCAST, 0, 1500)]);
    let error = a
        .transmit(ethbcast_transport::Instant::START, &mut script)
        .expect_err("the frame is too long");
    assert!(
        matches!(
            error,
            DriveError::FrameTooLong {
                frame_bytes: 1514,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn past_the_queueing_discipline_frames_ignore_the_shaping() {
    let cable = Cable::lay(1500);
    cable.shape("1mbit", "4kb", "10kb");
    let mut a = cable.open(0, |config| config.qdisc_bypass = true);
    let mut b = cable.open(1, |_| {});
    let (_, time) = drive_until_sent(&mut a, b.interface().mac, 200);
    assert_eq!(collect(&mut b).len(), 200);
    assert!(
        time < Duration::from_secs(2),
        "{time:?}; shaped it would take 2.4 s at least"
    );
}

#[test]
fn frames_of_every_length_arrive_as_they_were_sent() {
    let cable = Cable::lay(1500);
    let (mut a, mut b) = cable.open_both();
    let to = b.interface().mac;
    let sent: Vec<_> = (0..=1500)
        .map(|bytes| frame(to, 0xdead_beef, bytes))
        .collect();
    send(&mut a, sent.clone());
    assert_eq!(collect(&mut b), sent);
    let bytes: usize = sent.iter().map(Vec::len).sum();
    let (a, b) = (a.counters(), b.counters());
    assert_eq!((a.frames_sent, a.bytes_sent), (1501, bytes as u64));
    assert_eq!((b.frames_received, b.bytes_received), (1501, bytes as u64));
    assert_eq!(
        (b.kernel_accepted, b.kernel_dropped, b.truncated),
        (1501, 0, 0)
    );
}

#[test]
fn the_largest_frames_a_link_can_have_pass_whole() {
    let cable = Cable::lay(65_535);
    let (mut a, mut b) = cable.open_both();
    assert_eq!(b.frame_bytes(), 14 + 65_535);
    let sent: Vec<_> = (0..40)
        .map(|number| frame(b.interface().mac, number, 65_535 - number as usize))
        .collect();
    send(&mut a, sent.clone());
    let received = collect(&mut b);
    assert_eq!(numbers(&received), (0..40).collect::<Vec<_>>());
    assert!(received == sent);
    assert_eq!(b.counters().truncated, 0);
}

/// A veth delivers everything on the cable to a packet socket, as a flooding switch does: the
/// kernel must filter it.
#[test]
fn only_our_ether_type_for_our_own_mac_our_group_or_all_gets_past_the_kernel() {
    let cable = Cable::lay(1500);
    let (mut a, mut b) = cable.open_both();
    let own = b.interface().mac;
    let neighbour = with_byte(own, 5, own.octets()[5] ^ 1);
    let far = with_byte(own, 1, own.octets()[1] ^ 1);
    let other_group = with_byte(GROUP, 5, GROUP.octets()[5] + 1);
    let vlan_5 = [0x81, 0x00, 0, 5, 0x88, 0xb5];
    let unwanted = vec![
        frame(neighbour, 1, 100),
        frame(far, 2, 100),
        frame(other_group, 3, 100),
        raw_frame(own, &(ETHER_TYPE.number() + 1).to_be_bytes(), &[0; 100]),
        raw_frame(own, &[0x08, 0x00], &[0; 100]),
        raw_frame(own, &vlan_5, &[0; 100]),
        raw_frame(GROUP, &vlan_5, &[0; 100]),
    ];
    let wanted = vec![
        frame(own, 4, 100),
        frame(GROUP, 5, 100),
        frame(MacAddr::BROADCAST, 6, 100),
    ];
    send(&mut a, unwanted.into_iter().chain(wanted));
    assert_eq!(numbers(&collect(&mut b)), [4, 5, 6]);
    assert_eq!(
        b.counters().kernel_accepted,
        3,
        "the rest was stopped in the kernel"
    );
    assert_eq!(b.counters().vlan_tagged, 0);
}

#[test]
fn without_a_group_the_own_address_and_broadcast_count_and_broadcast_can_be_the_group() {
    let cable = Cable::lay(1500);
    let mut a = cable.open(0, |_| {});
    let mut alone = cable.open(1, |config| config.group = None);
    let mut everybody = cable.open(1, |config| config.group = Some(MacAddr::BROADCAST));
    let own = alone.interface().mac;
    send(
        &mut a,
        [
            frame(own, 1, 46),
            frame(GROUP, 2, 46),
            frame(MacAddr::BROADCAST, 3, 46),
        ],
    );
    assert_eq!(numbers(&collect(&mut alone)), [1, 3]);
    assert_eq!(numbers(&collect(&mut everybody)), [1, 3]);
}

#[test]
fn a_port_does_not_hear_itself() {
    let cable = Cable::lay(1500);
    let (mut a, mut b) = cable.open_both();
    let own = a.interface().mac;
    send(&mut a, [frame(GROUP, 1, 46), frame(own, 2, 46)]);
    assert_eq!(numbers(&collect(&mut b)), [1]);
    assert_eq!(collect(&mut a).len(), 0);
    assert_eq!(a.counters().kernel_accepted, 0);
}

#[test]
fn a_full_ring_keeps_the_oldest_frames_and_counts_the_lost_ones() {
    const SENT: u32 = 1000;
    let cable = Cable::lay(1500);
    let mut a = cable.open(0, |_| {});
    let mut b = cable.open(1, |config| config.receive_ring_bytes = 0);
    let to = b.interface().mac;
    send(&mut a, (0..SENT).map(|number| frame(to, number, 100)));
    let kept = numbers(&collect(&mut b));
    let slots = kept.len() as u32;
    assert!(
        (64..SENT).contains(&slots),
        "a ring of the smallest size has {slots} slots"
    );
    assert_eq!(kept, (0..slots).collect::<Vec<_>>());
    assert_eq!(b.counters().kernel_dropped, u64::from(SENT - slots));
    assert_eq!(b.counters().kernel_accepted, u64::from(SENT));

    // The ring works on, also past its end.
    for round in 0..3 {
        send(&mut a, (0..slots).map(|number| frame(to, number, 100)));
        assert_eq!(
            numbers(&collect(&mut b)),
            (0..slots).collect::<Vec<_>>(),
            "round {round}"
        );
    }
    assert_eq!(b.counters().kernel_dropped, u64::from(SENT - slots));
}

#[test]
fn a_frame_longer_than_a_slot_is_counted_not_delivered() {
    let cable = Cable::lay(1500);
    let mut b = cable.open(1, |_| {});
    cable.command(0, "ip link set eth0 mtu 9000");
    cable.command(1, "ip link set eth0 mtu 9000");
    let mut a = cable.open(0, |_| {});
    let to = b.interface().mac;
    send(&mut a, [frame(to, 1, 9000), frame(to, 2, 1500)]);
    assert_eq!(numbers(&collect(&mut b)), [2]);
    assert_eq!(b.counters().truncated, 1);
}

fn with_byte(address: MacAddr, at: usize, byte: u8) -> MacAddr {
    let mut octets = address.octets();
    octets[at] = byte;
    MacAddr::from(octets)
}
