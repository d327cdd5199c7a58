//! Tests of the event loop on packet sockets: how it sleeps and wakes up.

use crate::network::{Cable, GROUP, Script, frame, numbers, send, until};
use ethbcast_tests::lab::{LIMIT, StopOnDrop};
use ethbcast_transport::Instant;
use ethbcast_transport::packet::{Clock, Counters, Waker, drive};
use nix::time::{ClockId, clock_gettime};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant as Moment};

#[test]
fn a_waker_ends_the_sleep_and_each_of_its_causes_is_seen() {
    let cable = Cable::lay(1500);
    let mut a = cable.open(0, |_| {});
    let waker = Waker::new().expect("a descriptor is free");
    let (asked, answered, deadline) = (AtomicU32::new(0), AtomicU32::new(0), Moment::now() + LIMIT);
    std::thread::scope(|scope| {
        let other = waker.clone();
        let (asked, answered) = (&asked, &answered);
        scope.spawn(move || {
            for round in 1..=1000 {
                asked.store(round, Ordering::Release);
                other.wake();
                // In half of the rounds the loop sleeps when it gets the request, in the others it
                // is about to.
                while round % 2 == 0 && answered.load(Ordering::Acquire) < round {
                    assert!(Moment::now() < deadline, "round {round} is not answered");
                    std::thread::yield_now();
                }
            }
        });
        let ended = drive(
            &mut a,
            &mut Script::default(),
            &waker,
            &Clock::start(),
            |_, now| {
                let round = asked.load(Ordering::Acquire);
                answered.store(round, Ordering::Release);
                until(round == 1000, now)
            },
        );
        ended.expect("the interface is up");
    });
    assert_eq!(answered.load(Ordering::Acquire), 1000);
    // Two rounds through the loop for one wake-up: one for the turn, one that finds nothing else.
    assert!(a.counters().poll_wakeups <= 1001, "{:?}", a.counters());
}

#[test]
fn an_idle_loop_sleeps() {
    let cable = Cable::lay(1500);
    let mut a = cable.open(0, |_| {});
    let waker = Waker::new().expect("a descriptor is free");
    let mut script = Script {
        deadline: Some(Instant::from_nanos(50_000_000)),
        ..Script::default()
    };
    let mut turns = 0;
    let ended = drive(
        &mut a,
        &mut script,
        &waker,
        &Clock::start(),
        |script, now| {
            turns += 1;
            until(!script.lateness.is_empty(), now)
        },
    );
    ended.expect("the interface is up");
    assert!(
        turns <= 3 && a.counters().poll_wakeups <= 2,
        "{turns} turns, {:?}",
        a.counters()
    );
}

#[test]
fn timers_fire_one_after_the_other() {
    let cable = Cable::lay(1500);
    let mut a = cable.open(0, |_| {});
    let waker = Waker::new().expect("a descriptor is free");
    let period = Some(Duration::from_micros(500));
    let mut script = Script {
        deadline: Some(Instant::START),
        period,
        ..Script::default()
    };
    let ended = drive(
        &mut a,
        &mut script,
        &waker,
        &Clock::start(),
        |script, now| until(script.lateness.len() == 200, now),
    );
    ended.expect("the interface is up");
    script.lateness.sort();
    println!(
        "timers: median {:?} late, 95 % within {:?}",
        script.lateness[100], script.lateness[190]
    );
}

/// A machine that cannot continue may leave its deadline in the past; the loop must not spin on a
/// core.
#[test]
fn a_deadline_that_stays_overdue_does_not_make_the_loop_spin() {
    struct Stuck;
    impl ethbcast_transport::Machine for Stuck {
        fn handle_frame(&mut self, _: Instant, _: &[u8]) {}
        fn handle_timeout(&mut self, _: Instant) {}
        fn poll_transmit(&mut self, _: Instant, _: &mut [u8]) -> Option<usize> {
            None
        }
        fn poll_timeout(&self, _now: Instant) -> Option<ethbcast_transport::Deadline> {
            Some(ethbcast_transport::Deadline {
                at: Instant::START,
                why: ethbcast_transport::Timer::PACE,
            })
        }
    }
    let cable = Cable::lay(1500);
    let mut a = cable.open(0, |_| {});
    let waker = Waker::new().expect("a descriptor is free");
    let ended = drive(&mut a, &mut Stuck, &waker, &Clock::start(), |_, now| {
        if now >= Instant::from_nanos(50_000_000) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    ended.expect("the interface is up");
    assert!(a.counters().poll_wakeups <= 51, "{:?}", a.counters());
}

#[test]
fn frames_wake_a_sleeping_loop_one_by_one_and_in_batches() {
    let cable = Cable::lay(1500);
    let (mut a, mut b) = cable.open_both();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stopper = StopOnDrop(&done);
        scope.spawn(|| {
            for number in 0..20 {
                send(&mut a, [frame(GROUP, number, 100)]);
                std::thread::sleep(Duration::from_millis(10));
            }
            send(&mut a, (20..1020).map(|number| frame(GROUP, number, 100)));
            while !done.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let waker = Waker::new().expect("a descriptor is free");
        let mut script = Script::default();
        let ended = drive(
            &mut b,
            &mut script,
            &waker,
            &Clock::start(),
            |script, now| until(script.received.len() == 1020, now),
        );
        drop(stopper);
        ended.expect("the interface is up");
        assert_eq!(numbers(&script.received), (0..1020).collect::<Vec<_>>());
    });
    // While other processes have the processor, two may arrive before the loop looks.
    assert!(b.counters().poll_wakeups >= 5, "{:?}", b.counters());
}

/// Returns the counters of a loop with `spin` that received 50 frames, each sent 10 ms after the
/// one before had arrived.
fn fifty_frames_far_apart(urgent: bool, spin: Duration) -> Counters {
    let cable = Cable::lay(1500);
    let mut a = cable.open(0, |_| {});
    let mut b = cable.open(1, |config| config.busy_poll = spin);
    let mut script = Script {
        urgent,
        ..Script::default()
    };
    let (received, deadline) = (AtomicU32::new(0), Moment::now() + LIMIT);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..50 {
                while received.load(Ordering::Acquire) < number {
                    assert!(Moment::now() < deadline, "frame {number} has not come");
                    std::thread::sleep(Duration::from_micros(200));
                }
                std::thread::sleep(Duration::from_millis(10));
                send(&mut a, [frame(GROUP, number, 100)]);
            }
        });
        let waker = Waker::new().expect("a descriptor is free");
        let ended = drive(
            &mut b,
            &mut script,
            &waker,
            &Clock::start(),
            |script, now| {
                received.store(script.received.len() as u32, Ordering::Release);
                until(script.received.len() == 50, now)
            },
        );
        ended.expect("the interface is up");
        received.store(u32::MAX, Ordering::Release);
    });
    assert_eq!(numbers(&script.received), (0..50).collect::<Vec<_>>());
    b.counters()
}

#[test]
fn only_an_urgent_loop_looks_before_it_sleeps_and_not_for_longer_than_it_may() {
    let (short, long) = (Duration::from_micros(100), Duration::from_secs(60));
    let sleeps = |urgent, spin| fifty_frames_far_apart(urgent, spin).poll_wakeups;
    let [patient, hasty, calm] = [sleeps(true, long), sleeps(true, short), sleeps(false, long)];
    let sleeps = format!(
        "{patient} sleeps looking for 60 s, {hasty} looking for 100 µs, {calm} if nobody waits"
    );
    println!("{sleeps}");
    // The loop sleeps before the first frame. While other processes have the processor, the next
    // frame may arrive before the loop can sleep.
    assert!(patient <= 2 && hasty >= 10 && calm >= 10, "{sleeps}");
}

/// A polling loop takes a whole processor. If other processes need one, too, it runs part of the
/// time, in slices of milliseconds, and its timers fire in that part.
#[test]
fn a_loop_that_looks_keeps_its_timers_and_hears_its_waker() {
    let cable = Cable::lay(1500);
    let mut b = cable.open(1, |_| {});
    let mut c = cable.open(0, |config| config.busy_poll = LIMIT);
    let waker = Waker::new().expect("a descriptor is free");
    let (asked, period) = (AtomicBool::new(false), Some(Duration::from_millis(1)));
    let mut script = Script {
        urgent: true,
        deadline: Some(Instant::START),
        period,
        ..Script::default()
    };
    let before = time_of_this_thread();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(100));
            asked.store(true, Ordering::Release);
            waker.wake();
        });
        // One frame, and then it polls for the next for a minute.
        send(&mut b, [frame(c.interface().mac, 1, 100)]);
        let ended = drive(&mut c, &mut script, &waker, &Clock::start(), |_, now| {
            until(asked.load(Ordering::Acquire), now)
        });
        ended.expect("the interface is up");
    });
    let ran_ms = (time_of_this_thread() - before).as_secs_f64() * 1e3;
    assert_eq!(c.counters().poll_wakeups, 0, "it never slept");
    let timers = script.lateness.len();
    println!("{timers} timers while it ran for {ran_ms:.0} ms");
    assert!(
        timers as f64 >= 0.1 * ran_ms,
        "{timers} timers of a millisecond while it ran for {ran_ms:.0} ms"
    );
}

fn time_of_this_thread() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .expect("Linux has it")
        .into()
}
