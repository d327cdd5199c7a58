//! Positions in a stream where a message ends, or a piece that relays forward as a whole (segment).
//!
//! The last frame of a message is forwarded at once, and its sender may want to know when every
//! application has consumed it. Between the ends of messages the stream is cut into segments
//! (Patarasuk 2008 §3.1): a relay receives a whole segment before it forwards any of it, and sends
//! it to one child after the other. Segments are counted from the end of the preceding message.

use super::terms::{Ending, tree_bytes};
use crate::feed::Feed;
use std::collections::BTreeMap;
use std::ops::Range;

/// Ends of messages. `frames` has their last frames that are still in the feed, each with whether
/// its consumption is reported, and the newest one already freed: segments are counted from there.
/// `reported` is the end of the newest freed message whose consumption is reported: a freed frame
/// may not be consumed yet.
#[derive(Clone, Debug)]
pub(super) struct Boundaries {
    segment_frames: u64,
    frames: BTreeMap<u64, bool>,
    reported: u64,
    pub(super) added: u64,
}

impl Boundaries {
    /// # Panics
    /// If `segment_frames` is zero.
    pub(super) fn new(segment_frames: u64) -> Boundaries {
        assert!(segment_frames > 0, "a segment has at least one frame");
        Boundaries {
            segment_frames,
            frames: BTreeMap::new(),
            reported: 0,
            added: 0,
        }
    }

    /// # Panics
    /// If `segment_frames` is zero.
    pub(super) fn set_segment(&mut self, segment_frames: u64) {
        assert!(segment_frames > 0, "a segment has at least one frame");
        self.segment_frames = segment_frames;
    }

    pub(super) fn add(&mut self, sequence: u64, report: bool) {
        self.frames.insert(sequence, report);
        self.added += 1;
    }

    pub(super) fn forget_below(&mut self, tail: u64) {
        while self.frames.range(..tail).nth(1).is_some() {
            if let Some((last, true)) = self.frames.pop_first() {
                self.reported = last + 1;
            }
        }
    }

    pub(super) fn bytes(&self) -> usize {
        tree_bytes(self.frames.len(), size_of::<u64>())
    }

    #[inline]
    pub(super) fn is_reported(&self, sequence: u64) -> bool {
        !self.frames.is_empty() && self.frames.get(&sequence) == Some(&true)
    }

    pub(super) fn has_none(&self, frames: Range<u64>) -> bool {
        self.frames.is_empty() || self.frames.range(frames).next().is_none()
    }

    #[inline]
    pub(super) fn ending(&self, sequence: u64) -> Ending {
        if self.frames.is_empty() {
            return Ending::None; // As in a file, which is no message.
        }
        match self.frames.get(&sequence) {
            Some(true) => Ending::Message,
            Some(false) => Ending::Quiet,
            None => Ending::None,
        }
    }

    #[inline]
    pub(super) fn next(&self, position: u64) -> Option<u64> {
        if self.frames.is_empty() {
            return None;
        }
        self.frames.range(position..).next().map(|(&last, _)| last)
    }

    #[inline]
    pub(super) fn reported_before(&self, position: u64) -> u64 {
        if self.frames.is_empty() && self.reported == 0 {
            return 0;
        }
        let kept = self
            .frames
            .range(..position)
            .rev()
            .find(|(_, report)| **report)
            .map(|(last, _)| last + 1);
        kept.unwrap_or(if self.reported <= position {
            self.reported
        } else {
            0
        })
    }

    #[inline]
    pub(super) fn before(&self, position: u64) -> u64 {
        if self.frames.is_empty() {
            return 0;
        }
        self.frames
            .range(..position)
            .next_back()
            .map_or(0, |(last, _)| last + 1)
    }

    pub(super) fn expect_more(&self, feed: &Feed) -> bool {
        let begun = feed.highest() > self.before(feed.head());
        !feed.is_complete() && (begun || feed.expected_last().is_some())
    }

    #[inline]
    pub(super) fn whole_segments(&self, head: u64, complete: bool) -> u64 {
        if complete || self.segment_frames == 1 {
            return head;
        }
        let start = self.before(head);
        start
            + ((head - start) / self.segment_frames + u64::from(planted!("segment-too-early")))
                * self.segment_frames
    }

    /// Returns the end of what may be sent to a reader that takes frames in any order: everything
    /// received if each frame is a segment, whole segments otherwise.
    #[inline]
    pub(super) fn sendable(&self, feed: &Feed) -> u64 {
        if self.segment_frames == 1 {
            feed.highest()
        } else {
            self.whole_segments(feed.head(), feed.is_complete())
        }
    }

    pub(super) fn ends_at(&self, position: u64) -> bool {
        self.segment_frames == 1
            || (position - self.before(position)).is_multiple_of(self.segment_frames)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_counted_from_the_end_of_the_last_message() {
        let mut boundaries = Boundaries::new(4);
        assert_eq!(
            [3, 4, 9].map(|head| boundaries.whole_segments(head, false)),
            [0, 4, 8]
        );
        boundaries.add(5, true);
        assert_eq!(
            [5, 6, 9, 10, 11].map(|head| boundaries.whole_segments(head, false)),
            [4, 6, 6, 10, 10]
        );
        assert_eq!(
            (0..12)
                .filter(|&at| boundaries.ends_at(at))
                .collect::<Vec<u64>>(),
            [0, 4, 6, 10]
        );
        assert_eq!(boundaries.whole_segments(9, true), 9);
    }

    #[test]
    fn an_end_is_as_many_frames_after_a_message_as_it_would_be_after_the_beginning() {
        let mut boundaries = Boundaries::new(4);
        boundaries.add(4, true);
        assert_eq!(
            (0..15)
                .filter(|&at| boundaries.ends_at(at))
                .collect::<Vec<u64>>(),
            [0, 4, 5, 9, 13]
        );
    }

    #[test]
    fn a_forgotten_boundary_still_counts_as_a_beginning() {
        let mut boundaries = Boundaries::new(4);
        [5, 7, 20]
            .into_iter()
            .for_each(|last| boundaries.add(last, last != 20));
        boundaries.forget_below(15);
        let ends = [5, 7, 20].map(|sequence| boundaries.ending(sequence) != Ending::None);
        assert_eq!(ends, [false, true, true]);
        assert_eq!(boundaries.whole_segments(17, false), 16);
        assert_eq!(boundaries.before(15), 8);
        assert_eq!(
            (boundaries.before(30), boundaries.reported_before(30)),
            (21, 8)
        );
    }
}
