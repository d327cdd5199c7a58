//! Cancelling a session from another thread, in each of its phases and on both sides.

use super::{Gate, Own, assert_nothing_left, receive, receiver, send, sender, wait_until};
use ethbcast_collectives::session::{Cancel, Error, Outcome, Progress, RecvOptions, RunOptions, SendOptions, Session};
use ethbcast_tests::lab::{content, one_switch};
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

struct Gated {
    gate: Gate,
    after_bytes: usize,
}

impl Gated {
    fn step(&mut self, bytes: usize) -> usize {
        if self.after_bytes == 0 {
            self.gate.pass();
            self.after_bytes = usize::MAX;
        }
        let step = bytes.min(self.after_bytes);
        self.after_bytes -= step;
        step
    }
}

impl Read for Gated {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(self.step(buffer.len()))
    }
}

impl Write for Gated {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(self.step(bytes.len()))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct GatedEnd(Gate);

impl Write for GatedEnd {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.pass();
        Ok(())
    }
}

#[track_caller]
fn assert_cancelled<T>(result: Result<T, Error>, already: bool) {
    let error = result.err().expect("it was cancelled");
    assert!(matches!(error, Error::Cancelled { delivered } if delivered == already), "{error:?}");
}

fn cancelled_by(cancel: &Cancel) -> RunOptions {
    RunOptions { cancel: cancel.clone(), ..RunOptions::default() }
}

fn cancelled_sender(cancel: &Cancel) -> SendOptions {
    SendOptions { run: cancelled_by(cancel), ..sender() }
}

fn cancelled_receiver(cancel: &Cancel) -> RecvOptions {
    RecvOptions { run: cancelled_by(cancel), ..receiver() }
}

#[test]
fn who_waits_for_others_stops_waiting_and_who_comes_late_is_told_at_once() {
    let site = Own::up("cancel_waiting", one_switch(2));
    let cancel = Cancel::new();
    thread::scope(|scope| {
        // The sender wants two receivers, the receiver another group: both wait in vain.
        let sending = send(scope, (&*site, "n0"), io::empty(), cancelled_sender(&cancel).receivers(2));
        let waiting = receive(scope, (&*site, "n1"), io::sink(), cancelled_receiver(&cancel));
        thread::sleep(Duration::from_millis(300));
        cancel.cancel();
        assert_cancelled(sending.join().expect("no panic"), false);
        assert_cancelled(waiting.join().expect("no panic"), false);
    });
    let late = || {
        assert_cancelled(Session::send("test", io::empty(), &cancelled_sender(&cancel).receivers(1)), false);
        assert_cancelled(Session::receive("test", io::sink(), &cancelled_receiver(&cancel)), false);
    };
    site.lab().run_on("n0", late).expect("the lab has this host");
    assert_nothing_left(&site, &["n0", "n1"]);
}

#[test]
fn a_sender_that_is_cancelled_in_the_middle_tells_the_receivers_why() {
    let site = Own::up("cancel_sender", one_switch(3));
    let (cancel, (gate, keeper)) = (Cancel::new(), Gate::new());
    thread::scope(|scope| {
        let receivers = ["n1", "n2"].map(|host| receive(scope, (&*site, host), io::sink(), receiver()));
        // More than is read ahead: the session has begun by then.
        let reader = Gated { gate, after_bytes: 16 << 20 };
        let sending = send(scope, (&*site, "n0"), reader, cancelled_sender(&cancel).receivers(2));
        keeper.wait();
        cancel.cancel_because("the sender has something better to do");
        for received in receivers {
            let error = received.join().expect("no panic").expect_err("it has not got all");
            assert!(matches!(&error, Error::Aborted(text) if text.contains("something better")), "{error:?}");
        }
        // The session waits for a reader that blocks.
        assert!(!sending.is_finished());
        drop(keeper);
        assert_cancelled(sending.join().expect("no panic"), false);
    });
    assert_nothing_left(&site, &["n0", "n1", "n2"]);
}

#[test]
fn a_receiver_that_is_cancelled_in_the_middle_is_reported_and_the_others_get_everything() {
    let site = Own::up("cancel_receiver", one_switch(3));
    let (cancel, (gate, keeper)) = (Cancel::new(), Gate::new());
    let bytes = content(1, 24 << 20);
    let mut written = Vec::new();
    thread::scope(|scope| {
        let writer = Gated { gate, after_bytes: 1 << 20 };
        let cancelled = receive(scope, (&*site, "n1"), writer, cancelled_receiver(&cancel));
        let other = receive(scope, (&*site, "n2"), &mut written, receiver());
        let sending = send(scope, (&*site, "n0"), &bytes[..], sender().receivers(2));
        keeper.wait();
        cancel.cancel();
        let error = sending.join().expect("no panic").expect_err("one has not got all");
        let Error::Undelivered(report) = error else { panic!("{error:?}") };
        let outcomes: Vec<_> = report.receivers.iter().map(|receiver| receiver.outcome).collect();
        assert_eq!(outcomes, [Outcome::Interrupted, Outcome::Delivered]);
        drop(keeper);
        assert_cancelled(cancelled.join().expect("no panic"), false);
        other.join().expect("no panic").expect("received");
    });
    assert!(written == bytes, "other bytes than were sent");
    assert_nothing_left(&site, &["n0", "n1", "n2"]);
}

#[test]
fn a_receiver_that_is_cancelled_before_the_root_has_accepted_has_delivered_nothing() {
    let site = Own::up("cancel_commit", one_switch(2));
    let (cancel, (gate, keeper)) = (Cancel::new(), Gate::new());
    let bytes = content(1, 100_000);
    thread::scope(|scope| {
        let receiving = receive(scope, (&*site, "n1"), GatedEnd(gate), cancelled_receiver(&cancel));
        let sending = send(scope, (&*site, "n0"), &bytes[..], sender().receivers(1));
        keeper.wait();
        cancel.cancel();
        let error = sending.join().expect("no panic").expect_err("it was interrupted");
        assert!(error.to_string().contains("n1 (interrupted)"), "{error}");
        keeper.open();
        assert_cancelled(receiving.join().expect("no panic"), false);
    });
    assert_nothing_left(&site, &["n0", "n1"]);
}

#[test]
fn a_sender_that_is_cancelled_while_receivers_verify_has_accepted_nothing() {
    let site = Own::up("cancel_verifying", one_switch(2));
    let (cancel, (gate, keeper)) = (Cancel::new(), Gate::new());
    let bytes = content(1, 100_000);
    let all_moved = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&all_moved);
    let mut run = cancelled_by(&cancel);
    run.on_progress(move |progress| {
        seen.fetch_or(matches!(progress, Progress::Moved { bytes: 100_000, .. }), Ordering::Relaxed);
    });
    thread::scope(|scope| {
        let receiving = receive(scope, (&*site, "n1"), GatedEnd(gate), receiver());
        let sending = send(scope, (&*site, "n0"), &bytes[..], SendOptions { run, size: Some(100_000), ..sender() });
        keeper.wait();
        wait_until("the sender knows that all bytes are there", || all_moved.load(Ordering::Relaxed));
        cancel.cancel();
        assert_cancelled(sending.join().expect("no panic"), false);
        keeper.open();
        // The bytes are verified, but the root has not confirmed them.
        let error = receiving.join().expect("no panic").expect_err("it is not accepted");
        assert!(matches!(error, Error::Aborted(_)), "{error:?}");
    });
    assert_nothing_left(&site, &["n0", "n1"]);
}
