//! Received parity (FEC) frames that cannot yet recover a lost frame, kept until they can. Each
//! takes the slot of a missing frame of its block.
//!
//! Parity frames take no memory of their own, and forged ones can fill none: a block never holds as
//! many as it lacks frames. With the last one needed, the missing frames are recovered.

use super::{Feed, Inserted};
use crate::parity::{self, Held, MAX_FRAMES, MIN_FRAMES};
use std::ops::Range;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Block {
    frames: Range<u64>,
    held: Vec<Held>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Parities {
    blocks: Vec<Block>,
}

impl Parities {
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub(super) fn retain(&mut self, fits: impl Fn(&Range<u64>) -> bool) {
        self.blocks.retain(|block| fits(&block.frames));
    }

    fn find(&self, sequence: u64) -> Option<usize> {
        self.blocks
            .iter()
            .position(|block| block.frames.contains(&sequence))
    }

    pub(super) fn places(&self) -> Vec<(u64, u8)> {
        let places = |block: &Block| {
            let first = block.frames.start;
            block
                .held
                .iter()
                .map(move |held| (first + u64::from(held.place), held.index))
                .collect::<Vec<_>>()
        };
        self.blocks.iter().flat_map(places).collect()
    }

    fn hold(&mut self, at: Option<usize>, frames: Range<u64>, held: Held) {
        match at {
            Some(at) => self.blocks[at].held.push(held),
            None => {
                let at = self
                    .blocks
                    .partition_point(|block| block.frames.start < frames.start);
                self.blocks.insert(
                    at,
                    Block {
                        frames,
                        held: vec![held],
                    },
                );
            }
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let held: usize = self.blocks.iter().map(|block| block.held.capacity()).sum();
        self.blocks.capacity() * size_of::<Block>() + held * size_of::<Held>()
    }
}

impl Feed {
    /// Whether parity of `frames` can be sent: all have been here at full length, are still in
    /// their slots, and do not include the stream's last frame.
    pub(crate) fn is_full_block(&self, frames: &Range<u64>) -> bool {
        let here =
            frames.end <= self.head() && self.still_holds(frames) && !self.may_have_last(frames);
        here && frames.clone().all(|sequence| self.is_full(sequence))
    }

    pub(crate) fn write_parity(&self, frames: &Range<u64>, index: u8, parity: &mut [u8]) {
        let payload = |place: usize| {
            &self.bytes[self.start(frames.start + place as u64)..][..self.payload_bytes]
        };
        parity::write(index, (frames.end - frames.start) as usize, payload, parity);
    }

    /// Takes parity frame `index` of `frames`, whose payload is as long as a slot. After the last
    /// one needed, [`recover`](Feed::recover) has to be called.
    pub(crate) fn insert_parity(
        &mut self,
        frames: Range<u64>,
        index: u8,
        parity: &[u8],
    ) -> Inserted {
        let count = frames.end - frames.start;
        if frames.end > self.limit() {
            return Inserted::Beyond;
        }
        let is_missing = |sequence: &u64| !self.has(*sequence);
        let missing: Vec<u64> = frames.clone().filter(is_missing).collect();
        if missing.is_empty() || !self.still_holds(&frames) {
            return Inserted::Duplicate;
        }
        let present = || frames.clone().filter(|&sequence| self.has(sequence));
        let is_block = count.is_power_of_two()
            && (MIN_FRAMES as u64..=MAX_FRAMES as u64).contains(&count)
            && frames.start.is_multiple_of(count)
            && u64::from(index) < count
            && parity.len() == self.payload_bytes;
        if !is_block
            || self.may_have_last(&frames)
            || !present().all(|sequence| self.is_full(sequence))
        {
            return Inserted::Refused;
        }
        // Blocks have one length: others would lie in their places. The newest frame has priority,
        // so that a forged one costs what is held at that time, but blocks nothing later.
        self.parities
            .retain(|others| others.end - others.start == count);
        let at = self.parities.find(frames.start);
        let held = at.map_or(&[][..], |at| &self.parities.blocks[at].held);
        if held.iter().any(|held| held.index == index) {
            return Inserted::Duplicate;
        }
        let is_free = |sequence: &&u64| {
            held.iter()
                .all(|held| frames.start + u64::from(held.place) != **sequence)
        };
        let Some(&free) = missing.iter().find(is_free) else {
            return Inserted::Duplicate;
        };
        let start = self.start(free);
        self.bytes[start..][..parity.len()].copy_from_slice(parity);
        self.written = self.written.max(free + 1);
        let held = Held {
            place: (free - frames.start) as u8,
            index,
        };
        self.parities.hold(at, frames, held);
        Inserted::New
    }

    pub(crate) fn recover(&mut self, sequence: u64) -> Vec<u64> {
        let Some(at) = self.parities.find(sequence) else {
            return Vec::new();
        };
        let frames = self.parities.blocks[at].frames.clone();
        let missing: Vec<u64> = frames
            .clone()
            .filter(|&sequence| !self.has(sequence))
            .collect();
        if self.parities.blocks[at].held.len() < missing.len() {
            return Vec::new();
        }
        let held = self.parities.blocks.remove(at).held;
        let starts: Vec<usize> = frames.map(|sequence| self.start(sequence)).collect();
        parity::recover(&mut self.bytes, &starts, self.payload_bytes, &held);
        missing
            .iter()
            .for_each(|&sequence| self.note(sequence, self.payload_bytes));
        missing
    }

    /// Prepares for storing frame `sequence`. A parity frame in its slot is moved; blocks that
    /// would lose a frame by it, or that turn out to be forged, are dropped.
    pub(super) fn make_way(&mut self, sequence: u64, bytes: usize, last: bool) {
        let (slots, full) = (self.slots(), bytes == self.payload_bytes && !last);
        self.parities.retain(|frames| {
            sequence < frames.start + slots && (full || !frames.contains(&sequence))
        });
        let Some(at) = self.parities.find(sequence) else {
            return;
        };
        let block = &self.parities.blocks[at];
        let first = block.frames.start;
        let in_place = |place: u64| {
            block
                .held
                .iter()
                .position(|held| u64::from(held.place) == place)
        };
        let Some(moved) = in_place(sequence - first) else {
            return;
        };
        let is_free = |other: &u64| {
            *other != sequence && !self.has(*other) && in_place(other - first).is_none()
        };
        match block.frames.clone().find(is_free) {
            Some(free) => {
                let (from, to) = (self.start(sequence), self.start(free));
                self.bytes.copy_within(from..from + self.payload_bytes, to);
                self.parities.blocks[at].held[moved].place = (free - first) as u8;
            }
            None => drop(self.parities.blocks[at].held.swap_remove(moved)),
        }
    }

    /// Marks in an acknowledgement's `bitmap`, with `used` bytes in use, as many missing frames of
    /// each block as it holds parity frames, the highest first: these need not be sent. Returns the
    /// bytes used then.
    pub(super) fn write_held(&self, bitmap: &mut [u8], mut used: usize) -> usize {
        for block in &self.parities.blocks {
            let missing = block
                .frames
                .clone()
                .rev()
                .filter(|&sequence| !self.has(sequence));
            for bit in missing
                .take(block.held.len())
                .filter_map(|sequence| sequence.checked_sub(self.head() + 1))
            {
                let byte = (bit / 8) as usize;
                if byte < bitmap.len() {
                    bitmap[used..]
                        .iter_mut()
                        .take((byte + 1).saturating_sub(used))
                        .for_each(|byte| *byte = 0);
                    used = used.max(byte + 1);
                    bitmap[byte] |= 1 << (bit % 8);
                }
            }
        }
        used
    }

    pub(super) fn parities_are_in_order(&self) -> bool {
        self.parities.blocks.iter().all(|block| {
            let missing = block
                .frames
                .clone()
                .filter(|&sequence| !self.has(sequence))
                .count();
            let place = |held: &Held| block.frames.start + u64::from(held.place);
            let in_place = block.held.iter().all(|held| !self.has(place(held)));
            in_place && block.held.len() < missing && block.frames.end <= self.limit()
        })
    }

    fn still_holds(&self, frames: &Range<u64>) -> bool {
        frames.start >= self.base && self.written <= frames.start + self.slots()
    }

    fn may_have_last(&self, frames: &Range<u64>) -> bool {
        self.expected_last().is_some_and(|last| last < frames.end)
    }

    fn is_full(&self, sequence: u64) -> bool {
        self.lengths[(sequence & self.mask) as usize] as usize == self.payload_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SLOTS: u64 = 64;
    const BYTES: usize = 24;

    fn payload(sequence: u64) -> [u8; BYTES] {
        std::array::from_fn(|at| {
            (sequence.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (at % 8 * 8)) as u8 ^ at as u8
        })
    }

    fn whole(end: u64) -> Feed {
        let mut feed = Feed::new(SLOTS, BYTES);
        (0..end).for_each(|sequence| {
            assert_eq!(
                feed.insert(sequence, &payload(sequence), false),
                Inserted::New
            )
        });
        feed
    }

    fn parity(of: &Feed, frames: &Range<u64>, index: u8) -> [u8; BYTES] {
        let mut parity = [0; BYTES];
        of.write_parity(frames, index, &mut parity);
        parity
    }

    fn marked(feed: &Feed) -> Vec<u64> {
        let mut bitmap = [0xFF; 16];
        let used = feed.write_holes(&mut bitmap);
        let bits = 0..used as u64 * 8;
        bits.filter(|bit| bitmap[(bit / 8) as usize] >> (bit % 8) & 1 == 1)
            .map(|bit| feed.head() + 1 + bit)
            .collect()
    }

    #[test]
    fn parity_takes_slots_of_the_highest_missing_frames_yields_to_data_and_recovers_the_rest() {
        let (root, frames) = (whole(40), 16..24);
        let mut feed = Feed::new(SLOTS, BYTES);
        let reader = feed.add_reader(0).expect("the beginning");
        (0..17).chain([20, 22]).for_each(|sequence| {
            assert_eq!(
                feed.insert(sequence, &payload(sequence), false),
                Inserted::New
            )
        });
        feed.advance(reader, 17); // Consumed frames still lie in their slots.
        let take = |feed: &mut Feed, index| {
            feed.insert_parity(frames.clone(), index, &parity(&root, &frames, index))
        };
        assert_eq!(
            (take(&mut feed, 3), take(&mut feed, 0), take(&mut feed, 3)),
            (Inserted::New, Inserted::New, Inserted::Duplicate)
        );
        assert_eq!(
            (marked(&feed), feed.recover(16)),
            (vec![20, 21, 22, 23], vec![]),
            "19 of 17, 18, 19, 21, 23 is not"
        );
        assert_eq!(feed.audit(), Ok(()));
        // A frame arrives for a slot with parity.
        assert_eq!(
            (feed.insert(17, &payload(17), false), feed.recover(17)),
            (Inserted::New, vec![])
        );
        assert_eq!((take(&mut feed, 7), feed.audit()), (Inserted::New, Ok(())));
        assert_eq!(
            (feed.insert(23, &payload(23), false), feed.recover(23)),
            (Inserted::New, vec![18, 19, 21])
        );
        assert!((17..24).all(|sequence| feed.payload(sequence) == payload(sequence)));
        assert_eq!(
            (take(&mut feed, 1), feed.audit(), feed.head()),
            (Inserted::Duplicate, Ok(()), 24)
        );
    }

    #[test]
    fn impossible_parity_is_refused_and_overwritten_parity_is_dropped() {
        let mut feed = Feed::new(SLOTS, BYTES);
        feed.insert(0, &payload(0), false);
        feed.insert(9, &[1], false);
        let any = [7; BYTES];
        assert_eq!(
            feed.insert_parity(0..8, 0, &any[1..]),
            Inserted::Refused,
            "another length"
        );
        assert_eq!(
            feed.insert_parity(0..4, 0, &any),
            Inserted::Refused,
            "too short a block"
        );
        assert_eq!(
            feed.insert_parity(8..16, 0, &any),
            Inserted::Refused,
            "a short frame in it"
        );
        assert_eq!(feed.insert_parity(64..72, 0, &any), Inserted::Beyond);
        assert_eq!(feed.insert_parity(0..8, 0, &any), Inserted::New);
        feed.expect_last(30);
        assert_eq!(
            feed.insert_parity(24..32, 0, &any),
            Inserted::Refused,
            "the last frame is in it"
        );
        // A short frame shows that the block was forged, and so does one that takes the slot of a
        // block's frame.
        feed.insert(3, &[1], false);
        assert_eq!((marked(&feed), feed.audit()), (vec![3, 9], Ok(())));
    }

    #[test]
    fn parity_of_another_length_of_block_keeps_none_out() {
        let (root, frames) = (whole(40), 16..32);
        let mut feed = Feed::new(SLOTS, BYTES);
        feed.add_reader(0).expect("the beginning");
        (0..40)
            .filter(|sequence| !(17..19).contains(sequence))
            .for_each(|sequence| {
                assert_eq!(
                    feed.insert(sequence, &payload(sequence), false),
                    Inserted::New
                )
            });
        let take = |feed: &mut Feed, index| {
            feed.insert_parity(frames.clone(), index, &parity(&root, &frames, index))
        };
        assert_eq!(
            (take(&mut feed, 0), feed.parities.places()),
            (Inserted::New, vec![(17, 0)])
        );
        assert_eq!(
            feed.insert_parity(16..24, 3, &[9; BYTES]),
            Inserted::New,
            "a stranger's"
        );
        assert_eq!(
            (feed.parities.places(), feed.audit()),
            (vec![(17, 3)], Ok(())),
            "it has taken the place"
        );
        assert_eq!(
            (take(&mut feed, 1), feed.recover(17), marked(&feed).len()),
            (Inserted::New, vec![], 22)
        );
        assert_eq!(
            (take(&mut feed, 2), feed.recover(17), feed.head()),
            (Inserted::New, vec![17, 18], 40)
        );
        assert!((0..40).all(|sequence| feed.payload(sequence) == payload(sequence)));
    }

    #[test]
    fn frames_that_parity_has_overwritten_do_not_count_as_being_here() {
        let (root, frames) = (whole(32), 16..32);
        let mut feed = Feed::new(SLOTS, BYTES);
        let reader = feed.add_reader(0).expect("the beginning");
        (0..31).for_each(|sequence| {
            assert_eq!(
                feed.insert(sequence, &payload(sequence), false),
                Inserted::New
            )
        });
        feed.advance(reader, 24);
        // The slots are those of 16 to 24, which have been consumed.
        assert_eq!(
            feed.insert_parity(80..88, 0, &[9; BYTES]),
            Inserted::New,
            "a stranger's"
        );
        let of_the_root = parity(&root, &frames, 0);
        assert_eq!(
            (
                feed.insert_parity(frames, 0, &of_the_root),
                feed.recover(31)
            ),
            (Inserted::Duplicate, vec![])
        );
        assert_eq!(
            (
                feed.insert(31, &payload(31), false),
                feed.head(),
                feed.audit()
            ),
            (Inserted::New, 32, Ok(()))
        );
    }

    proptest! {
        #[test]
        fn parity_in_any_order_recovers_the_right_frames(
            steps in prop::collection::vec((0_u64..4, 0_u64..64, 0_u8..16, any::<bool>()), 1..300),
            slots in prop::sample::select(&[32, SLOTS][..]),
            blocks in prop::sample::select(&[[8_u64, 8], [16, 16], [8, 16]][..]),
        ) {
            let root = whole(SLOTS);
            let mut feed = Feed::new(slots, BYTES);
            let reader = feed.add_reader(0).expect("the beginning");
            for (what, ahead, index, consumed) in steps {
                // Most arrivals are near the next frame needed.
                let sequence = if what == 3 { (feed.head() + ahead % 20).min(SLOTS - 1) } else { ahead };
                let what = if what == 3 { ahead % 2 } else { what };
                let block = blocks[usize::from(index % 2)];
                let first = sequence - sequence % block;
                match what {
                    0 => drop(feed.insert(sequence, &payload(sequence), false)),
                    1 if u64::from(index) < block => {
                        let frames = first..first + block;
                        let parity = parity(&root, &frames, index);
                        feed.insert_parity(frames, index, &parity);
                    }
                    _ => {}
                }
                feed.recover(sequence);
                prop_assert_eq!(feed.audit(), Ok(()));
                for sequence in feed.position(reader)..feed.head() {
                    prop_assert_eq!(feed.payload(sequence), payload(sequence));
                }
                if consumed {
                    feed.advance(reader, feed.head());
                }
                let mut kept = (feed.tail()..feed.highest()).filter(|&sequence| feed.keeps(sequence));
                prop_assert!(kept.all(|sequence| feed.payload(sequence) == payload(sequence)));
                let missing = (feed.head()..feed.highest()).filter(|&sequence| !feed.has(sequence)).count();
                prop_assert!(!marked(&feed).contains(&feed.head()) || missing == 0);
            }
        }

        #[test]
        fn forged_parity_changes_no_order(
            steps in prop::collection::vec((0_u8..3, 0_u64..200, any::<u8>(), any::<bool>()), 1..200),
        ) {
            let mut feed = Feed::new(SLOTS, BYTES);
            let reader = feed.add_reader(0).expect("the beginning");
            for (what, sequence, number, other) in steps {
                let block = 1 << (number % 8);
                let first = sequence - sequence % block;
                match what {
                    0 => drop(feed.insert(sequence, &[number; BYTES][..if other { BYTES } else { 3 }], number > 250)),
                    1 => drop(feed.insert_parity(first..first + block, number >> 3, &[number; BYTES])),
                    _ => feed.advance(reader, feed.head()),
                }
                feed.recover(first);
                feed.recover(sequence);
                prop_assert_eq!(feed.audit(), Ok(()));
                marked(&feed);
            }
        }
    }
}
