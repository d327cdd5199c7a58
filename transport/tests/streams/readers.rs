//! Tests of a sender's list of receivers: added, removed, or slower than the others.

use crate::common::{identity, peer};
use crate::details::{PAYLOAD, acknowledge, next, origin, tell};
use crate::hosts::at;
use ethbcast_transport::stream::{Ending, Outlet, Stream};
use ethbcast_transport::wire::{Header, Kind, Rank, group_mac};
use ethbcast_transport::{Part, Tuning};

fn cast() -> Outlet {
    Outlet::Cast { group: group_mac("test"), listeners: vec![peer(1), peer(2)] }
}

fn lanes() -> Outlet {
    Outlet::Lanes(vec![peer(1), peer(2)])
}

fn send_all(stream: &mut Stream) {
    while next(stream, at(1)).is_some() {}
}

#[test]
fn a_removed_reader_keeps_nothing_and_removing_an_unknown_one_changes_nothing() {
    for outlet in [cast(), lanes()] {
        let mut stream = origin(&outlet, 10);
        send_all(&mut stream);
        acknowledge(&mut stream, at(2), 1, 10, 0, 0);
        assert_eq!(stream.cursors(), [(Rank(1), 10), (Rank(2), 0)], "{outlet:?}");
        assert_eq!((stream.feed().tail(), stream.is_settled()), (0, false));
        stream.remove_reader(at(3), Rank(9));
        assert_eq!(stream.cursors().len(), 2, "{outlet:?}");
        stream.remove_reader(at(3), Rank(2));
        assert_eq!((stream.cursors(), stream.feed().tail()), (vec![(Rank(1), 10)], 10), "{outlet:?}");
        assert_eq!(stream.audit(), Ok(()));
        assert!(stream.poll_timeout(at(3)).is_none(), "{outlet:?}: nobody owes an answer");
    }
}

#[test]
fn a_new_reader_is_probed_first_keeps_present_frames_and_is_added_once() {
    let mut stream = origin(&cast(), 10);
    send_all(&mut stream);
    for host in [1, 2] {
        acknowledge(&mut stream, at(2), host, 10, 0, 0);
    }
    (0..5).for_each(|_| assert!(stream.push(&PAYLOAD, Ending::None), "there is room"));
    [3, 3].into_iter().for_each(|host| stream.graft_child(at(3), peer(host)));
    assert_eq!(stream.cursors().len(), 3);
    let (header, _) = next(&mut stream, at(3)).expect("it is asked");
    assert_eq!(header.kind, Kind::HEARTBEAT);
    send_all(&mut stream);
    [1, 2].into_iter().for_each(|host| acknowledge(&mut stream, at(4), host, 15, 0, 0));
    assert_eq!(stream.feed().tail(), 10, "it is kept for the new one");
    acknowledge(&mut stream, at(5), 3, 12, 0, 0);
    assert_eq!((stream.feed().tail(), stream.audit()), (12, Ok(())));
}

#[test]
fn the_last_of_several_children_crowds_a_feed_that_is_three_quarters_full_if_all_was_sent_lately() {
    let mut stream = origin(&lanes(), 64);
    assert_eq!(stream.blocked_by(at(1)), None, "nothing has been sent");
    for cursor in [32, 64] {
        send_all(&mut stream);
        acknowledge(&mut stream, at(1), 1, cursor, 0, 0);
    }
    send_all(&mut stream);
    assert_eq!(stream.blocked_by(at(2)), Some(Rank(2)));
    assert_eq!(stream.blocked_by(at(252)), None, "by now it is the link that is busy");
    acknowledge(&mut stream, at(2), 2, 16, 0, 0);
    assert_eq!(stream.blocked_by(at(2)), Some(Rank(2)));
}

#[test]
fn frames_that_came_before_that_do_not_fit_and_that_there_is_no_room_for_are_counted() {
    let tuning = Tuning::default().with_feed_frames(64);
    let mut stream = Stream::receiver(identity(2), PAYLOAD.len(), peer(0), &Outlet::Lanes(Vec::new()), tuning);
    let data = |sequence| Header { sequence, stamp: 1000, ..identity(0).header(Kind::DATA) };
    for sequence in [0, 0, 0, 64, 65, 66] {
        tell(&mut stream, at(1), 0, data(sequence), &PAYLOAD);
    }
    tell(&mut stream, at(1), 0, data(1), &[0; 101]);
    tell(&mut stream, at(1), 0, data(1), &[0; 101]);
    tell(&mut stream, at(1), 5, data(1), &PAYLOAD);
    tell(&mut stream, at(1), 5, data(1), &PAYLOAD);
    let stats = stream.stats();
    assert_eq!((stats.data_received, stats.duplicates, stats.beyond_credit), (1, 2, 3), "{stats:?}");
    assert_eq!((stats.malformed, stats.strangers), (2, 2), "{stats:?}");
}
