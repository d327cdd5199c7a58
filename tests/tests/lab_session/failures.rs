//! Tests of transfers over real packet sockets that fail or are cancelled.

use super::{Gate, Own, assert_nothing_left, receive, receiver, send, sender, wait_until, wire};
use ethbcast_collectives::membership::live::StationError;
use ethbcast_collectives::session::{
    Cancel, Error, Outcome, Progress, RecvOptions, RunOptions, SendOptions, Session, WireOptions,
};
use ethbcast_tests::lab::{content, one_switch};
use std::error::Error as _;
use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{io, thread};

struct Torn {
    left_bytes: usize,
    kind: ErrorKind,
}

impl Torn {
    fn take(&mut self, bytes: usize) -> io::Result<usize> {
        let taken = bytes.min(self.left_bytes);
        self.left_bytes -= taken;
        if taken == 0 {
            Err(io::Error::new(self.kind, "the tape tore"))
        } else {
            Ok(taken)
        }
    }
}

impl Read for Torn {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.take(buffer.len())
    }
}

impl Write for Torn {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.take(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Panics unless the cause of `error` is a system error of this kind.
#[track_caller]
fn assert_cause(error: &Error, kind: ErrorKind) {
    let cause = error
        .source()
        .and_then(|cause| cause.downcast_ref::<io::Error>());
    assert_eq!(cause.map(io::Error::kind), Some(kind), "{error:?}");
    assert!(error.to_string().contains("the tape tore"), "{error}");
}

#[test]
fn when_a_reader_fails_half_way_the_receivers_get_the_reason() {
    let site = Own::up("torn_reader", one_switch(3));
    thread::scope(|scope| {
        let receivers =
            ["n1", "n2"].map(|host| receive(scope, (&*site, host), io::sink(), receiver()));
        let torn = Torn {
            left_bytes: 1 << 20,
            kind: ErrorKind::InvalidData,
        };
        let sent = send(scope, (&*site, "n0"), torn, sender().receivers(2))
            .join()
            .expect("no panic");
        let error = sent.expect_err("it has not sent all");
        assert!(
            matches!(
                error,
                Error::Read {
                    bytes: 1_048_576,
                    ..
                }
            ),
            "{error:?}"
        );
        assert_cause(&error, ErrorKind::InvalidData);
        for received in receivers {
            let error = received
                .join()
                .expect("no panic")
                .expect_err("it has not got all");
            assert!(
                matches!(&error, Error::Aborted(text) if text.contains("the tape tore")),
                "{error:?}"
            );
        }
    });
    assert_nothing_left(&site, &["n0", "n1", "n2"]);
}

#[test]
fn a_reader_with_other_than_the_announced_bytes_is_an_error() {
    let site = Own::up("shrunk", one_switch(2));
    thread::scope(|scope| {
        let received = receive(scope, (&*site, "n1"), io::sink(), receiver());
        let options = SendOptions {
            source: "shrunk.img".to_owned(),
            size: Some(2000),
            ..sender()
        };
        let error = send(scope, (&*site, "n0"), &[7; 1000][..], options)
            .join()
            .expect("no panic")
            .expect_err("it changed");
        assert!(
            matches!(
                error,
                Error::SizeChanged {
                    announced: 2000,
                    read: 1000,
                    ..
                }
            ),
            "{error:?}"
        );
        let error = received
            .join()
            .expect("no panic")
            .expect_err("it has not got all");
        assert!(
            error
                .to_string()
                .contains("shrunk.img changed while it was read"),
            "{error}"
        );
    });
    assert_nothing_left(&site, &["n0", "n1"]);
}

#[test]
fn when_a_writer_fails_the_sender_reports_it_and_the_others_get_everything() {
    for (kind, outcome) in [
        (ErrorKind::BrokenPipe, Outcome::WriteFailed),
        (ErrorKind::StorageFull, Outcome::NoSpace),
    ] {
        let site = Own::up("torn_writer", one_switch(4));
        let bytes = content(1, 6 << 20);
        let mut written = [Vec::new(), Vec::new()];
        thread::scope(|scope| {
            let [first, last] = &mut written;
            let others = [("n1", first), ("n3", last)]
                .map(|(host, to)| receive(scope, (&*site, host), to, receiver()));
            let torn = receive(
                scope,
                (&*site, "n2"),
                Torn {
                    left_bytes: 1 << 20,
                    kind,
                },
                receiver(),
            );
            let sent = send(scope, (&*site, "n0"), &bytes[..], sender().receivers(3))
                .join()
                .expect("no panic");
            let error = sent.expect_err("not all have the bytes");
            let Error::Undelivered(report) = &error else {
                panic!("{error:?}")
            };
            let outcomes: Vec<_> = report
                .receivers
                .iter()
                .map(|receiver| receiver.outcome)
                .collect();
            assert_eq!(outcomes, [Outcome::Delivered, outcome, Outcome::Delivered]);
            assert!(
                error.to_string().starts_with("1 of 3 receivers failed: n2"),
                "{error}"
            );
            let error = torn
                .join()
                .expect("no panic")
                .expect_err("it could not write all");
            assert!(
                matches!(&error, Error::Write { outcome: told, .. } if *told == outcome),
                "{error:?}"
            );
            assert_cause(&error, kind);
            for other in others {
                other.join().expect("no panic").expect("received");
            }
        });
        assert!(
            written.iter().all(|written| *written == bytes),
            "other bytes than were sent"
        );
        assert_nothing_left(&site, &["n0", "n1", "n2", "n3"]);
    }
}

#[test]
fn a_group_name_that_is_too_long_is_refused_on_both_sides_before_anything_is_opened() {
    let site = Own::up("long_name", one_switch(1));
    let name = "g".repeat(65);
    let refused = |error: Error| {
        assert!(
            matches!(
                error,
                Error::Station(StationError::GroupName { bytes: 65, .. })
            ),
            "{error:?}"
        );
        assert!(error.to_string().contains("1 to 64"), "{error}");
    };
    let work = || {
        refused(Session::send(&name, io::empty(), &sender()).expect_err("too long"));
        refused(Session::receive(&name, io::sink(), &receiver()).expect_err("too long"));
    };
    site.lab()
        .run_on("n0", work)
        .expect("the lab has this host");
    assert_nothing_left(&site, &["n0"]);
}

#[test]
fn an_interface_that_is_not_there_and_receivers_that_do_not_come_are_named() {
    let site = Own::up("nobody", one_switch(1));
    let work = || {
        let wire = WireOptions {
            interface: Some("eth7".to_owned()),
            ..wire("n0")
        };
        let error = Session::send("test", io::empty(), &SendOptions { wire, ..sender() })
            .expect_err("there is none");
        assert!(
            matches!(error, Error::Station(StationError::Interface(_))),
            "{error:?}"
        );
        let max_wait = Some(Duration::from_millis(300));
        let impatient = SendOptions {
            max_wait,
            ..sender().receivers(2)
        };
        let error = Session::send("test", io::empty(), &impatient).expect_err("nobody is there");
        assert!(
            error
                .to_string()
                .starts_with("0 of 2 receivers joined within 0.3 s"),
            "{error}"
        );
        let error = Session::receive(
            "test",
            io::sink(),
            &RecvOptions {
                max_wait,
                ..receiver()
            },
        )
        .expect_err("nobody is there");
        assert!(matches!(error, Error::NobodyThere), "{error:?}");
    };
    site.lab()
        .run_on("n0", work)
        .expect("the lab has this host");
    assert_nothing_left(&site, &["n0"]);
}

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
    assert!(
        matches!(error, Error::Cancelled { delivered } if delivered == already),
        "{error:?}"
    );
}

fn cancelled_by(cancel: &Cancel) -> RunOptions {
    RunOptions {
        cancel: cancel.clone(),
        ..RunOptions::default()
    }
}

fn cancelled_sender(cancel: &Cancel) -> SendOptions {
    SendOptions {
        run: cancelled_by(cancel),
        ..sender()
    }
}

fn cancelled_receiver(cancel: &Cancel) -> RecvOptions {
    RecvOptions {
        run: cancelled_by(cancel),
        ..receiver()
    }
}

#[test]
fn cancelled_hosts_stop_waiting_and_late_ones_are_refused_at_once() {
    let site = Own::up("cancel_waiting", one_switch(2));
    let cancel = Cancel::new();
    thread::scope(|scope| {
        // The sender wants two receivers, the receiver another group: both wait in vain.
        let sending = send(
            scope,
            (&*site, "n0"),
            io::empty(),
            cancelled_sender(&cancel).receivers(2),
        );
        let waiting = receive(
            scope,
            (&*site, "n1"),
            io::sink(),
            cancelled_receiver(&cancel),
        );
        thread::sleep(Duration::from_millis(300));
        let told = Instant::now();
        cancel.cancel();
        assert_cancelled(sending.join().expect("no panic"), false);
        assert_cancelled(waiting.join().expect("no panic"), false);
        println!(
            "a sender and a receiver ended {:.3} s after they were told",
            told.elapsed().as_secs_f64()
        );
    });
    let late = || {
        assert_cancelled(
            Session::send("test", io::empty(), &cancelled_sender(&cancel).receivers(1)),
            false,
        );
        assert_cancelled(
            Session::receive("test", io::sink(), &cancelled_receiver(&cancel)),
            false,
        );
    };
    site.lab()
        .run_on("n0", late)
        .expect("the lab has this host");
    assert_nothing_left(&site, &["n0", "n1"]);
}

#[test]
fn a_sender_that_is_cancelled_in_the_middle_sends_the_receivers_the_reason() {
    let site = Own::up("cancel_sender", one_switch(3));
    let (cancel, (gate, keeper)) = (Cancel::new(), Gate::new());
    thread::scope(|scope| {
        let receivers =
            ["n1", "n2"].map(|host| receive(scope, (&*site, host), io::sink(), receiver()));
        // More than is read ahead: the session has begun by then.
        let reader = Gated {
            gate,
            after_bytes: 16 << 20,
        };
        let sending = send(
            scope,
            (&*site, "n0"),
            reader,
            cancelled_sender(&cancel).receivers(2),
        );
        keeper.wait();
        cancel.cancel_because("the sender has something better to do");
        for received in receivers {
            let error = received
                .join()
                .expect("no panic")
                .expect_err("it has not got all");
            assert!(
                matches!(&error, Error::Aborted(text) if text.contains("something better")),
                "{error:?}"
            );
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
        let writer = Gated {
            gate,
            after_bytes: 1 << 20,
        };
        let cancelled = receive(scope, (&*site, "n1"), writer, cancelled_receiver(&cancel));
        let other = receive(scope, (&*site, "n2"), &mut written, receiver());
        let sending = send(scope, (&*site, "n0"), &bytes[..], sender().receivers(2));
        keeper.wait();
        cancel.cancel();
        let error = sending
            .join()
            .expect("no panic")
            .expect_err("one has not got all");
        let Error::Undelivered(report) = error else {
            panic!("{error:?}")
        };
        let outcomes: Vec<_> = report
            .receivers
            .iter()
            .map(|receiver| receiver.outcome)
            .collect();
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
        let receiving = receive(
            scope,
            (&*site, "n1"),
            GatedEnd(gate),
            cancelled_receiver(&cancel),
        );
        let sending = send(scope, (&*site, "n0"), &bytes[..], sender().receivers(1));
        keeper.wait();
        cancel.cancel();
        let error = sending
            .join()
            .expect("no panic")
            .expect_err("it was interrupted");
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
        seen.fetch_or(
            matches!(progress, Progress::Moved { bytes: 100_000, .. }),
            Ordering::Relaxed,
        );
    });
    thread::scope(|scope| {
        let receiving = receive(scope, (&*site, "n1"), GatedEnd(gate), receiver());
        let sending = send(
            scope,
            (&*site, "n0"),
            &bytes[..],
            SendOptions {
                run,
                size: Some(100_000),
                ..sender()
            },
        );
        keeper.wait();
        wait_until("the sender knows that all bytes are there", || {
            all_moved.load(Ordering::Relaxed)
        });
        cancel.cancel();
        assert_cancelled(sending.join().expect("no panic"), false);
        keeper.open();
        // The bytes are verified, but the root has not confirmed them.
        let error = receiving
            .join()
            .expect("no panic")
            .expect_err("it is not accepted");
        assert!(matches!(error, Error::Aborted(_)), "{error:?}");
    });
    assert_nothing_left(&site, &["n0", "n1"]);
}
