//! Tests of the packet socket when its interface goes down, comes back or is replaced.

use crate::network::{Cable, GROUP, Script, frame, numbers, until};
use ethbcast_tests::lab::{LIMIT, StopOnDrop};
use ethbcast_transport::packet::{Clock, DriveError, Port, Waker, drive};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Runs two hosts that send each other a frame whenever there is room, until each has received
/// `enough` of them after `meanwhile` is over; returns the results of both loops.
fn talk(
    cable: &Cable,
    ports: [&mut Port; 2],
    enough: u32,
    meanwhile: impl FnOnce(),
) -> [Result<(), DriveError>; 2] {
    // Frames received since `meanwhile` is over, by host; none are counted before.
    let heard = [AtomicU32::new(u32::MAX), AtomicU32::new(u32::MAX)];
    let failed = AtomicBool::new(false);
    let over = || {
        let enough =
            |heard: &AtomicU32| (enough..u32::MAX).contains(&heard.load(Ordering::Relaxed));
        failed.load(Ordering::Relaxed) || heard.iter().all(enough)
    };
    let deadline = Instant::now() + LIMIT;
    let run = |host: usize, port: &mut Port| {
        let waker = Waker::new().expect("a descriptor is free");
        let mut script = Script {
            period: Some(Duration::from_millis(1)),
            ..Script::default()
        };
        script.deadline = Some(ethbcast_transport::Instant::START);
        let mut number = 0;
        let end = drive(port, &mut script, &waker, &Clock::start(), |script, _| {
            let count = std::mem::take(&mut script.received).len() as u32;
            let counted = heard[host].load(Ordering::Relaxed);
            if counted != u32::MAX {
                heard[host].fetch_add(count, Ordering::Relaxed);
            }
            if script.outgoing.is_empty() {
                script.outgoing.push_back(frame(GROUP, number, 1000));
                number += 1;
            }
            // The rest of the time timers cause the turns.
            thread::sleep(Duration::from_micros(200));
            let too_late = Instant::now() > deadline;
            if over() || too_late {
                ControlFlow::Break(too_late)
            } else {
                ControlFlow::Continue(())
            }
        });
        // The other host must not wait for one that has failed.
        failed.fetch_or(end.is_err(), Ordering::Relaxed);
        end.map(|too_late| assert!(!too_late, "host {host} heard nothing any more"))
    };
    let [a, b] = ports;
    thread::scope(|scope| {
        let loops = [
            scope.spawn(|| cable.on(0, || run(0, a))),
            scope.spawn(|| cable.on(1, || run(1, b))),
        ];
        thread::sleep(Duration::from_millis(50));
        meanwhile();
        heard
            .iter()
            .for_each(|heard| heard.store(0, Ordering::Relaxed));
        loops.map(|host| host.join().expect("no panic"))
    })
}

#[test]
fn an_interface_that_is_switched_off_for_a_while_is_waited_for() {
    let cable = Cable::lay(1500);
    let (mut a, mut b) = cable.open_both();
    let ends = talk(&cable, [&mut a, &mut b], 20, || {
        cable.command(0, "ip link set eth0 down");
        thread::sleep(Duration::from_millis(300));
        cable.command(0, "ip link set eth0 up");
    });
    ends.into_iter().for_each(|end| end.expect("it came back"));
    // At the other end the cable has lost its carrier, which is no outage of the interface.
    assert_eq!((a.counters().outages, b.counters().outages), (1, 0));
}

/// Checks that a loop that sends nothing receives again after `outage` of its interface.
fn hears_again_after(outage: impl FnOnce(&Cable) + Send) {
    let cable = Cable::lay(1500);
    let mut b = cable.open(1, |_| {});
    let waker = Waker::new().expect("a descriptor is free");
    let (mut idle, heard) = (Script::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        let _stopper = StopOnDrop(&heard);
        let (cable, heard) = (&cable, &heard);
        scope.spawn(move || {
            thread::sleep(Duration::from_millis(50));
            outage(cable);
            let mut a = cable.open(0, |_| {});
            // A bridge or a NIC needs a moment until frames pass.
            while !heard.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(20));
                crate::network::send(&mut a, [frame(GROUP, 19, 100)]);
            }
        });
        // A port is opened anew in the namespace of its thread.
        let end = cable.on(1, || {
            drive(&mut b, &mut idle, &waker, &Clock::start(), |script, now| {
                until(numbers(&script.received).contains(&19), now)
            })
        });
        end.expect("it came back");
    });
    assert!(
        numbers(&idle.received).contains(&19),
        "{:?}",
        numbers(&idle.received)
    );
    assert_eq!(b.counters().outages, 1);
}

#[test]
fn an_idle_loop_waits_for_its_interface_and_hears_what_comes_then() {
    hears_again_after(|cable| {
        cable.command(1, "ip link set eth0 down");
        thread::sleep(Duration::from_millis(100));
        cable.command(1, "ip link set eth0 up");
    });
}

#[test]
fn an_idle_loop_hears_from_an_interface_put_back_under_its_old_number() {
    hears_again_after(|cable| {
        let ends = [0, 1]
            .map(|host| cable.interface(host))
            .map(|it| format!("{} index {}", it.mac, it.index));
        cable.command(1, "ip link del eth0");
        thread::sleep(Duration::from_millis(100));
        cable.lay_again(&ends[0], &ends[1]);
    });
}

#[test]
fn an_interface_that_does_not_come_back_is_named_after_the_limit_and_not_before() {
    let cable = Cable::lay(1500);
    let mut a = cable.open(0, |config| config.outage_limit = Duration::from_millis(300));
    cable.command(0, "ip link set eth0 down");
    let waker = Waker::new().expect("a descriptor is free");
    let begin = Instant::now();
    let end = drive(
        &mut a,
        &mut Script::default(),
        &waker,
        &Clock::start(),
        |_, now| until(false, now),
    );
    let took = begin.elapsed();
    let error = end.expect_err("nothing else ends it");
    assert!(
        matches!(error, DriveError::InterfaceDown { .. })
            && error.to_string().contains("ip link set eth0 up")
    );
    assert!((300..3000).contains(&took.as_millis()), "{took:?}");
}

/// Removes a veth and puts it back, as a driver that resets its network card does, or a migration
/// of a virtual machine.
fn plug_again(cable: &Cable, address: &str) {
    let peer = cable.interface(1).mac.to_string();
    cable.command(0, "ip link del eth0");
    thread::sleep(Duration::from_millis(100));
    cable.lay_again(address, &peer);
}

#[test]
fn an_interface_put_back_under_its_old_number_is_another_one() {
    let cable = Cable::lay(1500);
    let (mut a, mut b) = cable.open_both();
    let ends = [0, 1]
        .map(|host| cable.interface(host))
        .map(|it| format!("{} index {}", it.mac, it.index));
    let before = (cable.interface(0).index, cable.interface(1).index);
    let outcomes = talk(&cable, [&mut a, &mut b], 20, || {
        cable.command(0, "ip link del eth0");
        thread::sleep(Duration::from_millis(100));
        cable.lay_again(&ends[0], &ends[1]);
    });
    outcomes
        .into_iter()
        .for_each(|end| end.expect("it came back"));
    assert_eq!((cable.interface(0).index, cable.interface(1).index), before);
}

#[test]
fn an_interface_that_is_taken_away_and_put_back_is_opened_again() {
    let cable = Cable::lay(1500);
    let (mut a, mut b) = cable.open_both();
    let own = cable.interface(0).mac.to_string();
    let before = (cable.interface(0).index, cable.interface(1).index);
    let ends = talk(&cable, [&mut a, &mut b], 20, || plug_again(&cable, &own));
    ends.into_iter().for_each(|end| end.expect("it came back"));
    assert_ne!(
        (cable.interface(0).index, cable.interface(1).index),
        before,
        "they are others"
    );
    assert_eq!((a.counters().outages, b.counters().outages), (1, 1));
    assert_eq!(
        (a.interface().index, b.interface().index),
        (cable.interface(0).index, cable.interface(1).index)
    );
}

#[test]
fn a_changed_address_is_named_with_the_old_or_a_new_interface() {
    let cable = Cable::lay(1500);
    let (mut a, mut b) = cable.open_both();
    let [first, second] = talk(&cable, [&mut a, &mut b], 20, || {
        plug_again(&cable, "02:00:00:00:00:77");
        thread::sleep(Duration::from_millis(200));
    });
    let error = first.expect_err("it is another one");
    assert!(
        error.to_string().contains("to 02:00:00:00:00:77"),
        "{error}"
    );
    second.expect("its own is the same");
    let mut a = cable.open(0, |_| {});
    let [first, _] = talk(&cable, [&mut a, &mut b], 20, || {
        cable.command(0, "ip link set eth0 address 02:00:00:00:00:88");
        thread::sleep(Duration::from_secs(3));
    });
    assert!(matches!(
        first.expect_err("it has changed"),
        DriveError::AddressChanged { .. }
    ));
}

#[test]
fn a_lowered_mtu_is_named_where_larger_frames_come_and_only_there() {
    let cable = Cable::lay(1500);
    let (mut a, mut b) = cable.open_both();
    for (mtu, lowered) in [(1200, false), (900, true)] {
        let [first, second] = talk(&cable, [&mut a, &mut b], 20, || {
            cable.command(1, &format!("ip link set eth0 mtu {mtu}"));
            thread::sleep(Duration::from_secs(3));
        });
        first.expect("its MTU is what it was");
        let named = matches!(
            second,
            Err(DriveError::MtuLowered {
                was: 1500,
                is: 900,
                ..
            } | DriveError::FrameTooLong { .. })
        );
        assert!(
            if lowered { named } else { second.is_ok() },
            "MTU {mtu}: {second:?}"
        );
    }
}
