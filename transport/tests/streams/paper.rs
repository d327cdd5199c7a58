//! Tests of the EQA paper's Simple Broadcast (§3.2) as seen on the wire: window 16, go-back-n,
//! repairs by unicast.

use crate::common::key::parse;
use crate::common::{Case, Path, broadcast};
use ethbcast_transport::Tuning;
use ethbcast_transport::sim::{Delivery, Fate, Faults, RandomFaults};
use ethbcast_transport::wire::{Flags, Kind};

const HOSTS: usize = 6;
const WINDOW: u64 = 16;

#[derive(Debug)]
struct Seen {
    cursors: [u64; HOSTS],
    new_frames: u64,
    repairs: u64,
}

impl Seen {
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
        assert!(header.sequence < slowest + WINDOW, "frame {} with a receiver at {slowest}", header.sequence);
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

fn case(tuning: Tuning) -> Case {
    Case {
        path: Path::TunedCast,
        hosts: HOSTS,
        frames: 400,
        tuning,
        lazy_frames: 0,
        last_takes: None,
        message_frames: 0,
    }
}

#[test]
fn repairs_go_to_each_alone_and_never_more_than_sixteen_frames_are_on_their_way() {
    for seed in 0..40 {
        let mut faults = RandomFaults::new(seed).loss(0.05);
        let mut seen = Seen { cursors: [0; HOSTS], new_frames: 0, repairs: 0 };
        let watch = |delivery: &Delivery<'_>| {
            // A lost acknowledgement has no effect, but a lost frame has been sent.
            let fate = faults.fate(delivery);
            if !matches!(fate, Fate::Drop) || parse(delivery.frame).is_ok_and(|frame| frame.header.kind == Kind::DATA) {
                seen.look(delivery);
            }
            fate
        };
        let price = broadcast(&case(Tuning::paper()), watch, &format!("seed={seed}"));
        assert!(seen.repairs > 0 && price.totals.data_resent > 0, "seed={seed}: nothing was lost");
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
        assert!(header.kind != Kind::DATA || header.sequence == 0 || answered, "frame {} is pushed", header.sequence);
        Fate::Deliver
    };
    let price = broadcast(&Case { frames: 3, message_frames: 3, ..case(Tuning::push_pull()) }, watch, "4096 bytes");
    assert!(answered);
    assert_eq!((price.totals.data_sent, price.totals.data_resent), (3, 0));
}
