//! Complete transfers and their reports.

use super::{Own, assert_nothing_left, receive, receiver, send, sender, wire};
use ethbcast_collectives::session::application::Tally;
use ethbcast_collectives::session::{
    Outcome, Progress, RecvOptions, RootEvent, Route, RunOptions, SendOptions, Session,
};
use ethbcast_planning::plan::Via;
use ethbcast_tests::lab::{content, one_switch};
use ethbcast_transport::wire::Rank;
use std::sync::{Arc, Mutex};
use std::thread;

#[test]
fn what_one_program_reads_all_others_write_and_both_sides_report() {
    let site = Own::up("library", one_switch(3));
    let bytes = content(1, 3 << 20);
    let told = Arc::new(Mutex::new(Vec::new()));
    let note = Arc::clone(&told);
    let (source, size, route) = ("numbers".to_owned(), Some(bytes.len() as u64), Route::Via(Via::Chain));
    let mut run = RunOptions::default();
    run.on_progress(move |progress| {
        let word = match progress {
            Progress::Sender(RootEvent::Joined { receivers, .. }) => format!("{receivers} joined"),
            Progress::Sender(RootEvent::Started { receivers, via, .. }) => format!("{receivers} start via {via}"),
            Progress::Sender(RootEvent::Reported(report)) => report.outcome.word().to_owned(),
            _ => return,
        };
        note.lock().expect("nobody panics").push(word);
    });
    let options = SendOptions { run, source, size, route, ..sender().receivers(2) };
    let mut written = [Vec::new(), Vec::new()];
    thread::scope(|scope| {
        let [first, second] = &mut written;
        let receivers =
            [("n1", first), ("n2", second)].map(|(host, to)| receive(scope, (&*site, host), to, receiver()));
        let sent = send(scope, (&*site, "n0"), &bytes[..], options).join().expect("no panic").expect("sent");
        let mut tally = Tally::default();
        tally.add(&bytes);
        assert_eq!((sent.trailer, sent.verified(), sent.via()), (Some(tally.trailer()), 2, Some(Via::Chain)));
        for (rank, received) in (1..).zip(receivers) {
            let received = received.join().expect("no panic").expect("received");
            assert!(received.is_delivered() && received.is_confirmed(), "{received:?}");
            assert_eq!((received.rank, received.source.as_str()), (Some(Rank(rank)), "numbers"));
            assert_eq!(received.bytes(), bytes.len() as u64);
        }
    });
    assert!(written.iter().all(|written| *written == bytes), "other bytes than were sent");
    let told = told.lock().expect("nobody panics");
    assert_eq!(told[..], ["1 joined", "2 joined", "2 start via chain", "verified", "verified"]);
    assert_nothing_left(&site, &["n0", "n1", "n2"]);
}

#[test]
fn two_sessions_of_one_process_share_an_interface() {
    let site = Own::up("two_groups", one_switch(2));
    let (there, back) = (content(1, 2 << 20), content(2, 2 << 20));
    // On each host one thread sends to one group while another receives from the other.
    let run = |host: &'static str, to: &'static str, bytes: &[u8], from: &'static str| {
        let work = || {
            thread::scope(|scope| {
                let sending = scope.spawn(|| Session::send(to, bytes, &SendOptions { wire: wire(host), ..sender() }));
                let mut written = Vec::new();
                let received = Session::receive(from, &mut written, &RecvOptions { wire: wire(host), ..receiver() });
                let sent = sending.join().expect("no panic").expect("sent");
                assert_eq!(sent.receivers[0].outcome, Outcome::Delivered);
                received.expect("received");
                written
            })
        };
        site.lab().run_on(host, work).expect("the lab has this host")
    };
    thread::scope(|scope| {
        let other = scope.spawn(|| run("n1", "back", &back, "there"));
        assert!(run("n0", "there", &there, "back") == back, "other bytes came back");
        assert!(other.join().expect("no panic") == there, "other bytes came there");
    });
    assert_nothing_left(&site, &["n0", "n1"]);
}
