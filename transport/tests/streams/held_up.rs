//! Tests of broadcasts that one receiver delays: which receiver is probed, and what is reported.

use crate::common::key::parse;
use crate::hosts::{Host, at, hosts, star, take_all, tree};
use ethbcast_transport::Tuning;
use ethbcast_transport::sim::{Delivery, Fate, Simulation};
use ethbcast_transport::stream::Ending;
use ethbcast_transport::wire::{Ack, Kind};
use std::cell::Cell;
use std::time::Duration;

/// Rank 3 of 20 receivers has lost a frame, and rank 5 reads nothing before rank 3 has it, as in a
/// program in which rank 5 waits for rank 3.
fn one_out_of_credit_and_another_without_the_tail(tuning: &Tuning, frames: u64, lost: u64) {
    let count = 21;
    let tuning = |host: usize| tuning.for_cast(count - 1, host.saturating_sub(1));
    let mut simulation = Simulation::new(
        &star(count),
        hosts(count, tuning, |_| 0),
        |delivery: &Delivery<'_>| {
            let Ok(frame) = parse(delivery.frame) else {
                return Fate::Deliver;
            };
            let early = frame.header.kind == Kind::DATA && frame.header.stamp < 150_000;
            if delivery.to == 3 && early && frame.header.sequence == lost {
                Fate::Drop
            } else {
                Fate::Deliver
            }
        },
    );
    simulation.set_event_limit(5_000_000);
    let (mut pushed, mut third) = (0, 0);
    let outcome = simulation.run(at(20_000), |host, machine, now| {
        let stream = &mut machine.part;
        match host {
            0 => {
                while pushed < frames
                    && stream.push(
                        &[0; 10],
                        if pushed + 1 == frames {
                            Ending::Stream
                        } else {
                            Ending::None
                        },
                    )
                {
                    pushed += 1;
                }
            }
            5 if third <= lost => return Some(now + Duration::from_millis(1)),
            _ => {
                take_all(stream, now);
                if host == 3 {
                    third = stream.feed().head();
                }
            }
        }
        None
    });
    assert!(
        outcome.is_quiet(),
        "{outcome:?}: {pushed} pushed, rank 3 has {third}"
    );
}

#[test]
fn a_receiver_without_the_tail_is_probed_although_another_holds_everything_up() {
    // The feed is full of frames that rank 5 has not read, and rank 3 lacks the last of them: with
    // more to come, and without.
    for tuning in [
        Tuning::default().with_feed_frames(64),
        Tuning::push_pull().with_feed_frames(64),
    ] {
        for frames in [200, 64] {
            one_out_of_credit_and_another_without_the_tail(&tuning, frames, 63);
        }
    }
}

#[test]
fn a_message_that_is_to_be_reported_is_passed_up_the_tree_though_others_followed_it() {
    // Rank 1 acknowledges to the root, and rank 2 to rank 1; its first report of the consumed
    // message is lost.
    let tuning = |_| {
        Tuning::default()
            .with_feed_frames(64)
            .for_ack_tree(130, 11, 0)
    };
    let lost = Cell::new(0);
    let mut simulation = Simulation::new(
        &star(3),
        hosts(3, tuning, |host| host - 1),
        |delivery: &Delivery<'_>| {
            let Ok(frame) = parse(delivery.frame) else {
                return Fate::Deliver;
            };
            let passing = Ack::parse(&frame)
                .is_some_and(|ack| frame.header.kind == Kind::ACK && ack.body.consumed > 0);
            if delivery.from == Some(2) && passing && lost.get() == 0 {
                lost.set(1);
                return Fate::Drop;
            }
            Fate::Deliver
        },
    );
    simulation.set_event_limit(1_000_000);
    let mut pushed = 0;
    let outcome = simulation.run(at(20_000), |host, machine, now| {
        let stream = &mut machine.part;
        match host {
            0 => {
                // One message whose consumption is awaited, two without, and the end once the first
                // has been consumed.
                while pushed < 12 {
                    let ending = [
                        (3, Ending::Message),
                        (5, Ending::Quiet),
                        (7, Ending::Quiet),
                        (11, Ending::Stream),
                    ];
                    let ending = ending
                        .iter()
                        .find(|(end, _)| *end == pushed)
                        .map_or(Ending::None, |&(_, ending)| ending);
                    let begins_ms = [(4, 20), (6, 40)]
                        .iter()
                        .find(|(first, _)| *first == pushed)
                        .map_or(0, |&(_, ms)| ms);
                    if now < at(begins_ms) {
                        return Some(at(begins_ms));
                    }
                    if (pushed == 8 && stream.consumed() < 4) || !stream.push(&[0; 10], ending) {
                        break;
                    }
                    pushed += 1;
                }
            }
            // The application of rank 2 starts late.
            2 if now < at(100) => return Some(at(100)),
            _ => take_all(stream, now),
        }
        None
    });
    assert_eq!(lost.get(), 1);
    assert!(outcome.is_quiet(), "{outcome:?}, {pushed} pushed");
    assert_eq!(pushed, 12);
}

#[derive(Clone, Copy, Debug)]
enum Trouble {
    Deaf,
    Full,
}

/// Stops one of seven hosts after 5 ms; `parent` gives each host's parent. Returns the reader that
/// each host names as holding it up after a second.
fn held_up(
    cast: bool,
    parent: fn(usize) -> usize,
    culprit: usize,
    trouble: Trouble,
) -> Vec<Option<usize>> {
    let count = 7;
    let tuning = Tuning::default().with_feed_frames(64);
    let machines: Vec<Host> = match cast {
        true => {
            let tuning = |host: usize| tuning.for_ack_tree(count - 1, 3, host.saturating_sub(1));
            hosts(count, tuning, parent)
                .into_iter()
                .map(|lone| Host::new(lone.part))
                .collect()
        }
        false => tree(count, &tuning, parent),
    };
    let faults = |delivery: &Delivery<'_>| {
        let deaf = matches!(trouble, Trouble::Deaf) && delivery.at >= at(5);
        if delivery.to == culprit && deaf {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    };
    let mut simulation = Simulation::new(&star(count), machines, faults);
    simulation.set_event_limit(3_000_000);
    let outcome = simulation.run(at(1000), |host, machine, now| {
        let stream = &mut machine.streams[0];
        match host {
            0 => while stream.push(&[0; 100], Ending::None) {},
            _ if host == culprit && now >= at(5) => {}
            _ => take_all(stream, now),
        }
        None
    });
    assert!(
        matches!(trouble, Trouble::Full) || !outcome.is_quiet(),
        "{outcome:?}"
    );
    let machines = simulation.machines().iter();
    machines
        .map(|host| host.streams[0].held_up_by().map(|rank| rank.index()))
        .collect()
}

#[test]
fn the_reader_that_holds_up_a_stream_is_named_by_its_sender_or_listener() {
    for trouble in [Trouble::Deaf, Trouble::Full] {
        for culprit in 1..7 {
            for cast in [false, true] {
                let flat = held_up(cast, |_| 0, culprit, trouble);
                assert_eq!(
                    flat[0],
                    Some(culprit),
                    "{trouble:?}, cast: {cast}, {flat:?}"
                );
                assert!(
                    flat[1..].iter().all(Option::is_none),
                    "{trouble:?}, cast: {cast}, {flat:?}"
                );
            }
            let chain = held_up(false, |host| host - 1, culprit, trouble);
            let above = (0..culprit).map(|host| Some(host + 1));
            assert!(
                above.eq(chain[..culprit].iter().copied()),
                "{trouble:?} of {culprit}: {chain:?}"
            );
            let tree = held_up(true, |host| host.saturating_sub(1) / 3, culprit, trouble);
            let parent = culprit.saturating_sub(1) / 3;
            assert_eq!(
                tree[parent],
                Some(culprit),
                "{trouble:?} of {culprit}: {tree:?}"
            );
            assert!(
                parent == 0 || tree[0] == Some(parent),
                "{trouble:?} of {culprit}: {tree:?}"
            );
        }
    }
}
