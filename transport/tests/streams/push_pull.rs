//! Tests of the EQA paper's Push-Pull Broadcast (§3.3), with cases that the paper leaves open.

use crate::common::key::parse;
use crate::common::{Case, Path, broadcast};
use ethbcast_transport::Tuning;
use ethbcast_transport::sim::{Delivery, Fate, NoFaults, RandomFaults};
use ethbcast_transport::wire::{Flags, Frame, Kind, Rank};

const PUSHED: u64 = 9;
/// A receiver that is not the acker, which is the first.
const OTHER: usize = 3;

fn case(frames: u64, message_frames: u64) -> Case {
    Case {
        path: Path::TunedCast,
        hosts: 6,
        frames,
        tuning: Tuning::push_pull().with_push_frames(Some(PUSHED)),
        lazy_frames: 0,
        last_takes: None,
        message_frames,
    }
}

fn is_new(frame: &Frame<'_>, sequence: u64) -> bool {
    frame.header.kind == Kind::DATA && frame.header.sequence == sequence && !frame.header.flags.has(Flags::RESENT)
}

#[test]
fn one_receiver_acknowledges_the_push_and_only_then_the_rest_follows() {
    let mut answers = Vec::new();
    let mut pulled = false;
    let watch = |delivery: &Delivery<'_>| {
        let frame = parse(delivery.frame).expect("a frame of the stream");
        pulled |= is_new(&frame, PUSHED);
        if !pulled && delivery.to == 0 {
            answers.push((frame.header.rank, frame.header.sequence));
        }
        if frame.header.kind == Kind::DATA && frame.header.flags.has(Flags::ACK_NOW) && !pulled {
            assert_eq!(frame.header.sequence, PUSHED - 1, "the last pushed frame asks for an answer");
        }
        Fate::Deliver
    };
    let price = broadcast(&case(100, 0), watch, "without loss");
    assert!(answers.iter().all(|&(rank, _)| rank == Rank(1)), "{answers:?}");
    assert_eq!(answers.last(), Some(&(Rank(1), PUSHED)), "{answers:?}");
    assert_eq!((price.totals.data_sent, price.totals.data_resent, price.totals.heartbeats_sent), (100, 0, 0));
}

#[test]
fn a_loss_that_is_known_holds_up_the_rest_until_its_loser_has_everything() {
    let (mut known_us, mut owed, mut held_up) = (None, 0, false);
    let lose = |delivery: &Delivery<'_>| {
        let frame = parse(delivery.frame).expect("a frame of the stream");
        let header = frame.header;
        let new = header.kind == Kind::DATA && !header.flags.has(Flags::RESENT);
        if is_new(&frame, 2) && delivery.to == OTHER {
            return Fate::Drop;
        }
        if header.kind == Kind::DATA && header.flags.has(Flags::RESENT) {
            assert_eq!(delivery.to, OTHER, "only who lost is sent it again");
        }
        if delivery.to == 0 && header.rank.index() == OTHER {
            match known_us {
                None if header.sequence == 2 => known_us = Some(delivery.at.as_micros() as u32),
                Some(_) if !held_up && header.sequence >= owed => held_up = true,
                _ => {}
            }
        }
        if new && known_us.is_none_or(|us| header.stamp <= us) {
            owed = owed.max(header.sequence + 1);
        } else if new {
            assert!(held_up, "frame {} is pulled although a loss is known", header.sequence);
        }
        Fate::Deliver
    };
    let price = broadcast(&case(100, 0), lose, "frame 2 is lost");
    assert!(held_up && (PUSHED..=2 * PUSHED).contains(&owed), "the loss was known by frame {owed}");
    // Go-back-n repeats all later frames with it.
    assert!((PUSHED - 2..=owed - 2).contains(&price.totals.data_resent), "{} of {owed}", price.totals.data_resent);
}

#[test]
fn the_last_pushed_frame_lost_at_a_receiver_that_is_not_designated_is_found_by_the_last_sequence_heartbeat() {
    // No later frame would show a gap: the message, or the stream, ends with the push phase.
    for (frames, message_frames) in [(PUSHED, 0), (2 * PUSHED, PUSHED)] {
        let mut log = Vec::new();
        let lose = |delivery: &Delivery<'_>| {
            let frame = parse(delivery.frame).expect("a frame of the stream");
            if is_new(&frame, PUSHED - 1) && delivery.to == OTHER {
                log.push("lost");
                return Fate::Drop;
            }
            if delivery.to == OTHER && frame.header.kind == Kind::HEARTBEAT {
                assert_eq!(frame.header.sequence, PUSHED, "it names the end of what was sent");
                log.push("heartbeat");
            } else if delivery.to == OTHER && frame.header.flags.has(Flags::RESENT) {
                log.push("repair");
            }
            Fate::Deliver
        };
        let price = broadcast(&case(frames, message_frames), lose, &format!("{frames} frames"));
        assert_eq!(log, ["lost", "heartbeat", "repair"], "{frames} frames");
        assert_eq!((price.totals.data_sent, price.totals.data_resent), (frames, 1), "{frames} frames");
    }
}

#[test]
fn messages_shorter_than_the_push_phase_are_delivered_everywhere_and_the_cast_quiesces() {
    for message_frames in [1, 4, 8] {
        let price = broadcast(&case(48, message_frames), NoFaults, &format!("messages of {message_frames}"));
        let messages = 48 / message_frames;
        assert_eq!((price.totals.data_resent, price.totals.heartbeats_sent), (0, 0), "{message_frames}");
        // All five consume each; the acker may answer its push in addition.
        assert!(
            price.totals.acks_sent <= messages * 7,
            "{message_frames}: {} acknowledgements",
            price.totals.acks_sent
        );
    }
}

#[test]
fn every_pattern_of_losses_ends_in_delivery() {
    for seed in 0..200 {
        let loss = [0.01, 0.1, 0.3][(seed % 3) as usize];
        let faults = RandomFaults::new(seed).loss(loss).duplicate(0.02);
        broadcast(&case(120, [0, 5, 30][(seed / 3 % 3) as usize]), faults, &format!("seed={seed}"));
    }
}
