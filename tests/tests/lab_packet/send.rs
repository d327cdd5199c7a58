//! Sending when the kernel has no room for a frame.

use super::network::Cable;
use super::script::{Script, collect, frame, numbers, send, until};
use ethbcast_tests::lab::LIMIT;
use ethbcast_transport::Link;
use ethbcast_transport::packet::{Clock, Counters, DriveError, Port, Waker, drive};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

fn drive_until_sent(port: &mut Port, to: ethbcast_transport::MacAddr, count: u32) -> (Counters, Duration) {
    let mut script = Script::sending((0..count).map(|number| frame(to, number, 1500)));
    let begin = Instant::now();
    let waker = Waker::new().expect("a descriptor is free");
    let ended = drive(port, &mut script, &waker, &Clock::start(), |script, now| until(script.outgoing.is_empty(), now));
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
    assert!(counters.send_would_block > 0 && counters.send_no_buffers == 0, "{counters:?}");
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
    assert!(counters.send_no_buffers > 0 && counters.send_would_block == 0, "{counters:?}");
    std::thread::sleep(Duration::from_millis(20));
    assert!(all_of(500, &mut b));
    // One frame takes 242 µs at this rate: at most two attempts per frame in the time that it took.
    let most = (time.as_secs_f64() / 121e-6) as u64;
    assert!(counters.poll_wakeups < most && counters.send_no_buffers < most, "{counters:?} in {time:?}");
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
        if done { ControlFlow::Break(script.outgoing.len()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!(ended.expect("the interface is up"), 0, "frames left after {:?}", begin.elapsed());
    assert!(a.counters().send_would_block > 0);
}

#[test]
fn the_last_words_are_sent_after_the_break_but_not_for_ever() {
    let cable = Cable::lay(1500);
    let (mut a, mut b) = cable.open_both();
    let to = b.interface().mac;
    let waker = Waker::new().expect("a descriptor is free");
    let mut script = Script::sending([frame(to, 7, 46)]);
    let ended = drive(&mut a, &mut script, &waker, &Clock::start(), |_, _| ControlFlow::Break("done"));
    assert_eq!(ended.expect("the interface is up"), "done");
    assert_eq!(numbers(&collect(&mut b)), [7]);

    // A bucket smaller than one frame lets none pass, ever.
    cable.shape("50mbit", "1kb", "100kb");
    let mut script = Script::sending([frame(to, 8, 1500)]);
    let begin = Instant::now();
    drive(&mut a, &mut script, &waker, &Clock::start(), |_, _| ControlFlow::Break(())).expect("the result stands");
    let time = begin.elapsed();
    assert!(time >= Duration::from_millis(100) && time < LIMIT / 2, "{time:?}");
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
        drive(&mut a, &mut idle, &waker, &Clock::start(), |_, now| until(false, now))
    });
    let error = error.expect_err("nothing else ends the loop");
    assert!(error.to_string().contains("eth0 went down"), "{error}");

    let mut sending = Script::sending([frame(ethbcast_transport::MacAddr::BROADCAST, 0, 46)]);
    let later = ethbcast_transport::Instant::START + Duration::from_secs(60);
    let error = a.transmit(later, &mut sending).expect_err("the interface is down");
    assert!(matches!(error, DriveError::InterfaceDown { .. }), "{error}");
}

#[test]
fn a_lowered_mtu_is_reported_with_the_frame_that_did_not_fit() {
    let cable = Cable::lay(1500);
    let mut a = cable.open(0, |_| {});
    cable.command(0, "ip link set eth0 mtu 1000");
    let mut script = Script::sending([frame(ethbcast_transport::MacAddr::BROADCAST, 0, 1500)]);
    let error = a.transmit(ethbcast_transport::Instant::START, &mut script).expect_err("the frame is too long");
    assert!(matches!(error, DriveError::FrameTooLong { frame_bytes: 1514, .. }), "{error}");
}

#[test]
fn past_the_queueing_discipline_frames_ignore_the_shaping() {
    let cable = Cable::lay(1500);
    cable.shape("1mbit", "4kb", "10kb");
    let mut a = cable.open(0, |config| config.qdisc_bypass = true);
    let mut b = cable.open(1, |_| {});
    let (_, time) = drive_until_sent(&mut a, b.interface().mac, 200);
    assert_eq!(collect(&mut b).len(), 200);
    assert!(time < Duration::from_secs(2), "{time:?}; shaped it would take 2.4 s at least");
}
