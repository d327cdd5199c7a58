//! Casts that somebody holds up: who is asked then, and what is reported though others follow it.

use crate::hosts::{at, hosts, star, take_all};
use ethbcast_transport::Tuning;
use ethbcast_transport::sim::{Delivery, Fate, Simulation};
use ethbcast_transport::stream::Ending;
use ethbcast_transport::wire::{Ack, Kind, parse};
use std::cell::Cell;
use std::time::Duration;

/// Of 20 receivers rank 3 has lost a frame, and rank 5 reads nothing before rank 3 has it: a program in which rank 5
/// waits for rank 3.
fn one_out_of_credit_and_another_without_the_tail(tuning: &Tuning, frames: u64, lost: u64) {
    let count = 21;
    let tuning = |host: usize| tuning.for_cast(count - 1, host.saturating_sub(1));
    let mut simulation = Simulation::new(&star(count), hosts(count, tuning, |_| 0), |delivery: &Delivery<'_>| {
        let Ok(frame) = parse(delivery.frame) else { return Fate::Deliver };
        let early = frame.header.kind == Kind::DATA && frame.header.stamp < 150_000;
        if delivery.to == 3 && early && frame.header.sequence == lost { Fate::Drop } else { Fate::Deliver }
    });
    simulation.set_event_limit(5_000_000);
    let (mut pushed, mut third) = (0, 0);
    let outcome = simulation.run(at(20_000), |host, machine, now| {
        let stream = &mut machine.part;
        match host {
            0 => {
                while pushed < frames
                    && stream.push(&[0; 10], if pushed + 1 == frames { Ending::Stream } else { Ending::None })
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
    assert!(outcome.is_quiet(), "{outcome:?}: {pushed} pushed, rank 3 has {third}");
}

#[test]
fn who_lacks_the_tail_is_asked_although_another_holds_everything_up() {
    // The feed is full of what rank 5 has not read, and rank 3 lacks the last frame of it: with more to come, and
    // without.
    for tuning in [Tuning::default().with_feed_frames(64), Tuning::push_pull().with_feed_frames(64)] {
        for frames in [200, 64] {
            one_out_of_credit_and_another_without_the_tail(&tuning, frames, 63);
        }
    }
}

#[test]
fn a_message_that_is_to_be_reported_is_passed_up_the_tree_though_others_followed_it() {
    // The root hears rank 1, and rank 1 hears rank 2, whose first word of having consumed it is lost.
    let tuning = |_| Tuning::default().with_feed_frames(64).for_ack_tree(130, 11, 0);
    let lost = Cell::new(0);
    let mut simulation = Simulation::new(&star(3), hosts(3, tuning, |host| host - 1), |delivery: &Delivery<'_>| {
        let Ok(frame) = parse(delivery.frame) else { return Fate::Deliver };
        let passing = Ack::parse(&frame).is_some_and(|ack| frame.header.kind == Kind::ACK && ack.body.consumed > 0);
        if delivery.from == Some(2) && passing && lost.get() == 0 {
            lost.set(1);
            return Fate::Drop;
        }
        Fate::Deliver
    });
    simulation.set_event_limit(1_000_000);
    let mut pushed = 0;
    let outcome = simulation.run(at(20_000), |host, machine, now| {
        let stream = &mut machine.part;
        match host {
            0 => {
                // One message whose passing is waited for, two that nobody waits for, and the end once the first has
                // been consumed.
                while pushed < 12 {
                    let ending = [(3, Ending::Message), (5, Ending::Quiet), (7, Ending::Quiet), (11, Ending::Stream)];
                    let ending =
                        ending.iter().find(|(end, _)| *end == pushed).map_or(Ending::None, |&(_, ending)| ending);
                    let begins_ms =
                        [(4, 20), (6, 40)].iter().find(|(first, _)| *first == pushed).map_or(0, |&(_, ms)| ms);
                    if now < at(begins_ms) {
                        return Some(at(begins_ms));
                    }
                    if (pushed == 8 && stream.consumed() < 4) || !stream.push(&[0; 10], ending) {
                        break;
                    }
                    pushed += 1;
                }
            }
            // Rank 2's application comes late.
            2 if now < at(100) => return Some(at(100)),
            _ => take_all(stream, now),
        }
        None
    });
    assert_eq!(lost.get(), 1);
    assert!(outcome.is_quiet(), "{outcome:?}, {pushed} pushed");
    assert_eq!(pushed, 12);
}
