//! Tests of the event loop over a link without a socket: two threads joined by channels.

#[path = "../examples/channel_driver/channel_link.rs"]
mod channel_link;

use channel_link::{WallClock, cable, transfer};
use ethbcast_transport::link::Waiter;
use ethbcast_transport::sim::Random;
use ethbcast_transport::wire::Rank;
use ethbcast_transport::{Deadline, Instant, Link, Machine, Timer, drive};
use std::ops::ControlFlow;
use std::time::Duration;

fn content(bytes: usize) -> Vec<u8> {
    let mut content = vec![0; bytes];
    Random::new(bytes as u64).fill(&mut content);
    content
}

#[test]
fn a_stream_of_megabytes_passes_between_two_threads() {
    let content = content(8_000_001);
    assert!(
        transfer(&content, cable(256)) == content,
        "every byte in its place"
    );
}

#[test]
fn a_cable_that_holds_two_frames_is_waited_for_and_loses_nothing() {
    let content = content(1_000_000);
    assert!(
        transfer(&content, cable(2)) == content,
        "every byte in its place"
    );
}

#[derive(Default)]
struct Counter {
    to_send: u8,
    received: Vec<u8>,
    deadline: Option<Instant>,
}

impl Machine for Counter {
    fn handle_frame(&mut self, _now: Instant, frame: &[u8]) {
        self.received.push(frame[0]);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.deadline = self.deadline.filter(|&at| at > now);
    }

    fn poll_transmit(&mut self, _now: Instant, buffer: &mut [u8]) -> Option<usize> {
        self.to_send = self.to_send.checked_sub(1)?;
        buffer[0] = self.to_send;
        Some(60)
    }

    fn poll_timeout(&self, _now: Instant) -> Option<Deadline> {
        self.deadline.map(|at| Deadline {
            at,
            why: Timer::PACE,
        })
    }
}

#[test]
fn a_deadline_and_a_wake_end_the_wait_and_an_idle_loop_makes_no_rounds() {
    let [mut link, _other] = cable(4);
    let (waiter, clock) = (link.waiter(), WallClock::start());
    let mut machine = Counter {
        deadline: Some(Instant::START + Duration::from_millis(30)),
        ..Counter::default()
    };
    let mut calls = 0;
    let Ok(at) = drive(&mut link, &mut machine, &waiter, &clock, |machine, now| {
        calls += 1;
        if machine.deadline.is_none() {
            ControlFlow::Break(now)
        } else {
            ControlFlow::Continue(())
        }
    });
    assert!(
        at >= Instant::START + Duration::from_millis(30) && calls <= 3,
        "{at:?} after {calls} calls"
    );
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(30));
            waiter.wake();
        });
        calls = 0;
        let Ok(()) = drive(&mut link, &mut machine, &waiter, &clock, |_, _| {
            calls += 1;
            if calls == 2 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
    });
}

#[test]
fn the_last_frames_leave_after_the_break_and_wait_for_room_but_not_for_ever() {
    let [mut link, mut other] = cable(4);
    let (waiter, clock) = (link.waiter(), WallClock::start());
    let send_last = |link: &mut channel_link::ChannelLink, to_send| {
        let mut machine = Counter {
            to_send,
            ..Counter::default()
        };
        let Ok(()) = drive(link, &mut machine, &waiter, &clock, |_, _| {
            ControlFlow::Break(())
        });
    };
    let mut received = Vec::new();
    // With room there is no wait; a busy machine may still take 100 ms once, but not always.
    let is_quick = (0..50).any(|_| {
        let begin = std::time::Instant::now();
        send_last(&mut link, 3);
        let took = begin.elapsed();
        received.clear();
        other.receive(|frame| received.push(frame[0]));
        assert_eq!(received, [2, 1, 0]);
        took < Duration::from_millis(100)
    });
    assert!(is_quick, "there is room for three");
    let begin = std::time::Instant::now();
    send_last(&mut link, 6);
    assert!(
        begin.elapsed() >= Duration::from_millis(100),
        "there is no room for six"
    );
    other.receive(|frame| received.push(frame[0]));
    assert_eq!(received[3..], [5, 4, 3, 2]);
}

#[cfg(feature = "packet")]
#[test]
fn blocking_calls_work_over_any_link() {
    use channel_link::ChannelLink;
    use ethbcast_transport::Alone;
    use ethbcast_transport::messages::{Completion, Mailbox, RecvOutcome, Settings};
    use ethbcast_transport::packet::{Clock, Shared};

    let start = |rank: u16, link: ChannelLink| {
        let peers = [0, 1].map(channel_link::peer);
        let mailbox = Alone::new(Mailbox::new(
            channel_link::identity(rank),
            &peers,
            1468,
            Settings::default(),
        ));
        let waiters = [link.waiter(), link.waiter()];
        Shared::start_on(link, mailbox, Clock::start(), waiters).expect("a thread is free")
    };
    let receive = |mailbox: &Shared<Alone<Mailbox>, ChannelLink>, from| {
        mailbox
            .with(|mailbox, _| mailbox.part.recv(from, 1, 100_000))
            .expect("no error")
            .expect("there is room");
        let deadline = mailbox.now() + Duration::from_secs(20);
        let received = mailbox.wait(Some(deadline), |mailbox, _| {
            while let Some(completion) = mailbox.part.poll_completion() {
                if let Completion::Recv {
                    outcome: RecvOutcome::Received { bytes },
                    ..
                } = completion
                {
                    return ControlFlow::Break(bytes);
                }
            }
            ControlFlow::Continue(())
        });
        received.expect("no error").expect("it comes in time")
    };
    let send = |mailbox: &Shared<Alone<Mailbox>, ChannelLink>, to, bytes| {
        mailbox
            .with(|mailbox, _| mailbox.part.send(to, 1, bytes))
            .expect("no error")
            .expect("there is room");
    };
    let [a, b] = cable(64);
    let (a, b) = (start(0, a), start(1, b));
    std::thread::scope(|scope| {
        scope.spawn(|| (0..100).for_each(|_| send(&b, Rank(0), receive(&b, Rank(0)))));
        for length in (0..100).map(|round| round * round * 10) {
            let message = content(length);
            send(&a, Rank(1), message.clone());
            assert!(
                receive(&a, Rank(1)) == message,
                "{length} bytes come back as they were"
            );
        }
    });
}
