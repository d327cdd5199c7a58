//! Exhaustive test of a tiny retransmission buffer (feed): every sequence of operations, compared
//! with a simple model.

use super::*;
use std::collections::BTreeMap;

const SLOTS: u64 = 2;
const DEPTH: u32 = 7;
const LAST_POSITION: u64 = (1 << 40) - 1;

#[derive(Clone, Default)]
struct Model {
    first: u64,
    arrived: BTreeMap<u64, u8>,
    readers: Vec<Option<u64>>,
}

impl Model {
    fn head(&self) -> u64 {
        (self.first..)
            .find(|sequence| !self.arrived.contains_key(sequence))
            .expect("finitely many arrived")
    }

    fn is_in_order(&self) -> bool {
        self.arrived.keys().all(|&sequence| sequence < self.head())
    }

    fn tail(&self) -> u64 {
        self.readers
            .iter()
            .flatten()
            .copied()
            .min()
            .unwrap_or(self.head())
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Insert(u64),
    Add(u64),
    Advance(usize, u64),
    Rewind(usize),
    Remove(usize),
    Skip(u64),
}

fn steps(model: &Model) -> Vec<Step> {
    let (tail, head) = (model.tail(), model.head());
    let mut steps: Vec<Step> = (tail.saturating_sub(1)..=tail + SLOTS)
        .map(Step::Insert)
        .collect();
    if model.readers.len() < 3 {
        steps.extend((tail.saturating_sub(1)..=head + 1).map(Step::Add));
    }
    for (index, reader) in model.readers.iter().enumerate() {
        if let Some(position) = reader {
            steps.extend((*position..=head).map(|to| Step::Advance(index, to)));
            steps.push(Step::Rewind(index));
            steps.push(Step::Remove(index));
        }
    }
    if model.is_in_order() {
        steps.extend([head, head + 3].map(Step::Skip));
    }
    steps
}

fn replay(first: u64, script: &[Step]) -> Model {
    let mut feed = Feed::new(SLOTS, 1);
    feed.skip_to(first);
    let mut model = Model {
        first,
        ..Model::default()
    };
    let mut ids = Vec::new();
    for (count, &step) in script.iter().enumerate() {
        let (tail, head) = (model.tail(), model.head());
        match step {
            Step::Insert(sequence) => {
                let byte = (sequence as u8).wrapping_mul(31) ^ count as u8;
                let expected = if sequence < head || model.arrived.contains_key(&sequence) {
                    Inserted::Duplicate
                } else if sequence >= tail + SLOTS {
                    Inserted::Beyond
                } else {
                    model.arrived.insert(sequence, byte);
                    Inserted::New
                };
                assert_eq!(
                    feed.insert(sequence, &[byte], false),
                    expected,
                    "{script:?}"
                );
            }
            Step::Add(position) => {
                let id = feed.add_reader(position);
                assert_eq!(
                    id.is_some(),
                    (tail..=head).contains(&position),
                    "{script:?}"
                );
                if let Some(id) = id {
                    ids.push(id);
                    model.readers.push(Some(position));
                }
            }
            Step::Advance(reader, to) => {
                feed.advance(ids[reader], to);
                model.readers[reader] = Some(to);
            }
            Step::Rewind(reader) => {
                feed.rewind(ids[reader]);
                model.readers[reader] = Some(tail);
            }
            Step::Remove(reader) => {
                feed.remove_reader(ids[reader]);
                model.readers[reader] = None;
            }
            Step::Skip(to) => {
                feed.skip_to(to);
                model.first = to;
                model
                    .readers
                    .iter_mut()
                    .flatten()
                    .for_each(|reader| *reader = to);
            }
        }
    }
    compare(&feed, &model, &ids, script);
    model
}

fn compare(feed: &Feed, model: &Model, ids: &[ReaderId], script: &[Step]) {
    feed.audit()
        .unwrap_or_else(|why| panic!("{why} after {script:?}"));
    let (tail, head) = (model.tail(), model.head());
    assert_eq!(
        (feed.tail(), feed.head(), feed.limit()),
        (tail, head, tail + SLOTS),
        "{script:?}"
    );
    for sequence in tail..head {
        assert_eq!(
            feed.payload(sequence),
            [model.arrived[&sequence]],
            "{script:?}"
        );
        let (bytes, frames) = feed.run(sequence, SLOTS);
        let edge = sequence % SLOTS == SLOTS - 1;
        assert_eq!(
            frames,
            if edge { 1 } else { head - sequence },
            "up to the edge or the head: {script:?}"
        );
        assert!(
            bytes
                .iter()
                .zip(sequence..)
                .all(|(byte, at)| *byte == model.arrived[&at]),
            "{script:?}"
        );
    }
    for (id, position) in ids.iter().zip(&model.readers) {
        if let Some(position) = position {
            assert_eq!(feed.position(*id), *position, "{script:?}");
        }
    }
    let mut bitmap = [0; 1];
    feed.write_holes(&mut bitmap);
    for bit in 0..8 {
        assert_eq!(
            bitmap[0] >> bit & 1 == 1,
            model.arrived.contains_key(&(head + 1 + bit)),
            "{script:?}"
        );
    }
}

fn explore(first: u64, script: &mut Vec<Step>, depth: u32) -> u64 {
    let model = replay(first, script);
    if depth == 0 {
        return 1;
    }
    let mut visited = 1;
    for step in steps(&model) {
        script.push(step);
        visited += explore(first, script, depth - 1);
        script.pop();
    }
    visited
}

#[test]
fn every_short_history_of_a_tiny_feed_agrees_with_the_model() {
    let visited = explore(0, &mut Vec::new(), DEPTH);
    assert!(visited > 500_000, "only {visited} histories");
}

#[test]
fn every_short_history_of_a_feed_that_begins_anywhere_fits_the_model() {
    for first in [1, 2, LAST_POSITION, LAST_POSITION + 1] {
        let visited = explore(first, &mut Vec::new(), DEPTH - 2);
        assert!(visited > 10_000, "only {visited} histories");
    }
}

#[test]
fn without_readers_nothing_is_kept_and_a_full_feed_takes_nothing_until_the_slowest_moves() {
    let mut feed = Feed::new(4, 8);
    assert!((0..10).all(|_| feed.push(b"gone", false).is_some()));
    let (fast, slow) = (
        feed.add_reader(10).expect("at head"),
        feed.add_reader(10).expect("at head"),
    );
    assert!((0..4).all(|_| feed.push(b"kept", false).is_some()));
    assert_eq!(feed.push(b"full", false), None);
    feed.advance(fast, 14);
    assert_eq!(feed.push(b"full", false), None);
    feed.advance(slow, 11);
    assert_eq!(feed.push(b"room", true), Some(14));
    assert_eq!((feed.last(), feed.is_complete()), (Some(14), true));
    feed.remove_reader(slow);
    assert_eq!(feed.tail(), 14);
    feed.audit().expect("sound");
}

#[test]
fn nothing_lies_beyond_the_last_frame_and_no_other_is_the_last() {
    let mut feed = Feed::new(16, 1);
    feed.add_reader(0);
    assert_eq!(
        [3, 0].map(|sequence| feed.insert(sequence, &[], false)),
        [Inserted::New; 2]
    );
    assert_eq!(
        feed.insert(2, &[], true),
        Inserted::Refused,
        "a later one is here"
    );
    assert_eq!(
        feed.insert(1, &[], true),
        Inserted::Refused,
        "and this is another"
    );
    assert_eq!(
        (feed.insert(4, &[], true), feed.last()),
        (Inserted::New, Some(4))
    );
    assert_eq!(
        (feed.insert(5, &[], false), feed.insert(1, &[], true)),
        (Inserted::Refused, Inserted::Refused)
    );

    let mut twice = Feed::new(16, 1);
    twice.add_reader(0);
    assert_eq!(
        [0, 1, 7, 9].map(|sequence| twice.insert(sequence, &[], false)),
        [Inserted::New; 4]
    );
    assert_eq!(
        [2, 2].map(|sequence| twice.insert(sequence, &[], true)),
        [Inserted::Refused, Inserted::New]
    );
    assert!(
        twice.is_complete() && twice.highest() == 3 && twice.audit().is_ok(),
        "the others never were"
    );

    let mut sized = Feed::new(16, 1);
    sized.add_reader(0);
    sized.expect_last(4);
    let inserted = [
        (2, true),
        (4, false),
        (5, false),
        (5, true),
        (u64::MAX, true),
    ];
    let refused = inserted.map(|(sequence, last)| sized.insert(sequence, &[], last));
    assert_eq!(refused[..4], [Inserted::Refused; 4]);
    assert_eq!(
        (refused[4], sized.insert(4, &[], true)),
        (Inserted::Beyond, Inserted::New)
    );
}

#[test]
fn a_run_ends_behind_a_frame_that_is_not_full_and_before_a_hole() {
    let mut feed = Feed::new(8, 2);
    feed.add_reader(0);
    [&b"ab"[..], b"cd", b"e", b"fg", b"", b"hi"]
        .iter()
        .for_each(|payload| assert!(feed.push(payload, false).is_some()));
    assert_eq!(
        feed.insert(7, b"jk", false),
        Inserted::New,
        "frame 6 is lacking"
    );
    assert_eq!(feed.run(0, 8), (&b"abcde"[..], 3));
    assert_eq!(
        (feed.run(0, 2), feed.run(3, 8)),
        ((&b"abcd"[..], 2), (&b"fg"[..], 2))
    );
    assert_eq!(
        (feed.run(5, 8), feed.run(5, 0)),
        ((&b"hi"[..], 1), (&b"hi"[..], 1))
    );
}
