//! Tests of the EQA paper's two broadcast protocols, by the frames that they send. Simple Broadcast
//! (§3.2): a window of 16, go-back-n from the missing frame, each repair by unicast to the receiver
//! that lost the frame. Push-Pull Broadcast (§3.3): answers to pushed frames, the beginning of the
//! pull phase, and cases that the paper leaves open.

use crate::common::key::parse;
use crate::common::{Case, Path, broadcast};
use ethbcast_transport::Tuning;
use ethbcast_transport::sim::{Delivery, Fate, Faults, NoFaults, RandomFaults};
use ethbcast_transport::wire::{Flags, Frame, Kind, Rank};

const HOSTS: usize = 6;
const WINDOW: u64 = 16;

#[derive(Debug)]
struct SeenFrames {
    cursors: [u64; HOSTS],
    new_frames: u64,
    repairs: u64,
}

impl SeenFrames {
    fn look(&mut self, delivery: &Delivery<'_>) {
        let frame = parse(delivery.frame).expect("a frame of the stream");
        let header = frame.header;
        if header.kind == Kind::ACK && delivery.to == 0 {
            let cursor = &mut self.cursors[header.rank.index()];
            *cursor = header.sequence.max(*cursor);
        }
        if header.kind != Kind::DATA {
            return;
        }
        let slowest = self.cursors[1..].iter().min().expect("receivers");
        assert!(
            header.sequence < slowest + WINDOW,
            "frame {} with a receiver at {slowest}",
            header.sequence
        );
        let is_to_group = delivery.frame[0] & 1 == 1;
        if header.flags.has(Flags::RESENT) {
            assert!(!is_to_group, "frame {} is repaired to all", header.sequence);
            self.repairs += 1;
        } else {
            assert!(is_to_group, "frame {} is sent to one", header.sequence);
            self.new_frames += 1;
        }
    }
}

fn case(tuning: Tuning, frames: u64, message_frames: u64) -> Case {
    Case {
        message_frames,
        tuning,
        ..super::case(Path::TunedCast, HOSTS, frames)
    }
}

#[test]
fn repairs_go_to_each_alone_and_never_more_than_sixteen_frames_are_on_their_way() {
    for seed in 0..40 {
        let mut faults = RandomFaults::new(seed).loss(0.05);
        let mut seen = SeenFrames {
            cursors: [0; HOSTS],
            new_frames: 0,
            repairs: 0,
        };
        let watch = |delivery: &Delivery<'_>| {
            // A lost acknowledgement has no effect, but a lost frame has been sent.
            let fate = faults.fate(delivery);
            if !matches!(fate, Fate::Drop)
                || parse(delivery.frame).is_ok_and(|frame| frame.header.kind == Kind::DATA)
            {
                seen.look(delivery);
            }
            fate
        };
        let price = broadcast(
            &case(Tuning::paper(), 400, 0),
            watch,
            &format!("seed={seed}"),
        );
        assert!(
            seen.repairs > 0 && price.totals.data_resent > 0,
            "seed={seed}: nothing was lost"
        );
    }
}

#[test]
fn a_message_of_4096_bytes_is_pushed_by_one_frame_and_pulled_by_two() {
    // 860 bytes are pushed (§4.1), in one frame of 1500 bytes; the rest waits for the acker's
    // answer.
    let mut answered = false;
    let watch = |delivery: &Delivery<'_>| {
        let header = parse(delivery.frame).expect("a frame of the stream").header;
        answered |= header.kind == Kind::ACK && delivery.to == 0;
        assert!(
            header.kind != Kind::DATA || header.sequence == 0 || answered,
            "frame {} is pushed",
            header.sequence
        );
        Fate::Deliver
    };
    let price = broadcast(&case(Tuning::push_pull(), 3, 3), watch, "4096 bytes");
    assert!(answered);
    assert_eq!((price.totals.data_sent, price.totals.data_resent), (3, 0));
}

const PUSHED: u64 = 9;
/// A receiver that is not the acker, which is the first.
const OTHER: usize = 3;

fn pushing(frames: u64, message_frames: u64) -> Case {
    case(
        Tuning::push_pull().with_push_frames(Some(PUSHED)),
        frames,
        message_frames,
    )
}

fn is_new(frame: &Frame<'_>, sequence: u64) -> bool {
    frame.header.kind == Kind::DATA
        && frame.header.sequence == sequence
        && !frame.header.flags.has(Flags::RESENT)
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
            assert_eq!(
                frame.header.sequence,
                PUSHED - 1,
                "the last pushed frame asks for an answer"
            );
        }
        Fate::Deliver
    };
    let price = broadcast(&pushing(100, 0), watch, "without loss");
    assert!(
        answers.iter().all(|&(rank, _)| rank == Rank(1)),
        "{answers:?}"
    );
    assert_eq!(answers.last(), Some(&(Rank(1), PUSHED)), "{answers:?}");
    assert_eq!(
        (
            price.totals.data_sent,
            price.totals.data_resent,
            price.totals.heartbeats_sent
        ),
        (100, 0, 0)
    );
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
            assert!(
                held_up,
                "frame {} is pulled although a loss is known",
                header.sequence
            );
        }
        Fate::Deliver
    };
    let price = broadcast(&pushing(100, 0), lose, "frame 2 is lost");
    assert!(
        held_up && (PUSHED..=2 * PUSHED).contains(&owed),
        "the loss was known by frame {owed}"
    );
    // Go-back-n repeats all later frames with it.
    assert!(
        (PUSHED - 2..=owed - 2).contains(&price.totals.data_resent),
        "{} of {owed}",
        price.totals.data_resent
    );
}

#[test]
fn the_last_pushed_frame_lost_at_a_receiver_that_is_not_designated_is_found_by_the_last_sequence_heartbeat()
 {
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
                assert_eq!(
                    frame.header.sequence, PUSHED,
                    "it names the end of what was sent"
                );
                log.push("heartbeat");
            } else if delivery.to == OTHER && frame.header.flags.has(Flags::RESENT) {
                log.push("repair");
            }
            Fate::Deliver
        };
        let price = broadcast(
            &pushing(frames, message_frames),
            lose,
            &format!("{frames} frames"),
        );
        assert_eq!(log, ["lost", "heartbeat", "repair"], "{frames} frames");
        assert_eq!(
            (price.totals.data_sent, price.totals.data_resent),
            (frames, 1),
            "{frames} frames"
        );
    }
}

#[test]
fn messages_shorter_than_the_push_phase_are_delivered_everywhere_and_the_cast_quiesces() {
    for message_frames in [1, 4, 8] {
        let price = broadcast(
            &pushing(48, message_frames),
            NoFaults,
            &format!("messages of {message_frames}"),
        );
        let messages = 48 / message_frames;
        assert_eq!(
            (price.totals.data_resent, price.totals.heartbeats_sent),
            (0, 0),
            "{message_frames}"
        );
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
        broadcast(
            &pushing(120, [0, 5, 30][(seed / 3 % 3) as usize]),
            faults,
            &format!("seed={seed}"),
        );
    }
}
