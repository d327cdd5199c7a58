//! Where messages and segments end within a stream.
//!
//! A frame with which a message ends is handed on at once, and whoever sent it may want to know when every application
//! has consumed it. Between the ends of messages the stream is cut into segments (Patarasuk 2008 §3.1): a relay has all
//! of a segment before it sends any of it on, and sends it to one child after the other. Segments are counted from the
//! end of the message before them.

use super::memory::tree_bytes;
use super::terms::Ending;
use crate::feed::Feed;
use std::collections::BTreeMap;
use std::ops::Range;

/// Which of a feed's frames end a message, and the length of a segment.
#[derive(Clone, Debug)]
pub(super) struct Boundaries {
    segment_frames: u64,
    /// The last frames of messages that are kept and whether their passing is to be reported, and the newest of those
    /// that are not kept: segments are counted from there.
    frames: BTreeMap<u64, bool>,
    /// The end of the newest message that has been forgotten and whose passing is to be reported: what is freed may not
    /// be consumed.
    reported: u64,
}

impl Boundaries {
    /// No message has ended yet.
    ///
    /// # Panics
    /// If `segment_frames` is zero.
    pub(super) fn new(segment_frames: u64) -> Boundaries {
        assert!(segment_frames > 0, "a segment has at least one frame");
        Boundaries { segment_frames, frames: BTreeMap::new(), reported: 0 }
    }

    /// Segments have so many frames from now on.
    ///
    /// # Panics
    /// If that is zero.
    pub(super) fn set_segment(&mut self, segment_frames: u64) {
        assert!(segment_frames > 0, "a segment has at least one frame");
        self.segment_frames = segment_frames;
    }

    /// Frame `sequence` ends a message, whose passing is to be reported or not.
    pub(super) fn add(&mut self, sequence: u64, report: bool) {
        self.frames.insert(sequence, report);
    }

    /// Frames below `tail` are not kept any more.
    pub(super) fn forget_below(&mut self, tail: u64) {
        while self.frames.range(..tail).nth(1).is_some() {
            if let Some((last, true)) = self.frames.pop_first() {
                self.reported = last + 1;
            }
        }
    }

    /// Bytes that they take at most.
    pub(super) fn bytes(&self) -> usize {
        tree_bytes(self.frames.len(), size_of::<u64>())
    }

    /// Whether frame `sequence` ends a message whose passing is to be reported.
    #[inline]
    pub(super) fn is_reported(&self, sequence: u64) -> bool {
        !self.frames.is_empty() && self.frames.get(&sequence) == Some(&true)
    }

    /// Whether no message ends with any of `frames`.
    pub(super) fn has_none(&self, frames: Range<u64>) -> bool {
        self.frames.is_empty() || self.frames.range(frames).next().is_none()
    }

    /// Which kind of message ends with frame `sequence`, if one does.
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

    /// The first frame from `position` on with which a message ends.
    #[inline]
    pub(super) fn next(&self, position: u64) -> Option<u64> {
        if self.frames.is_empty() {
            return None;
        }
        self.frames.range(position..).next().map(|(&last, _)| last)
    }

    /// The end of the newest message before `position` whose passing is to be reported; zero if there is none.
    #[inline]
    pub(super) fn reported_before(&self, position: u64) -> u64 {
        if self.frames.is_empty() && self.reported == 0 {
            return 0;
        }
        let kept = self.frames.range(..position).rev().find(|(_, report)| **report).map(|(last, _)| last + 1);
        kept.unwrap_or(if self.reported <= position { self.reported } else { 0 })
    }

    /// The end of the newest message before `position`; zero if there is none.
    #[inline]
    pub(super) fn before(&self, position: u64) -> u64 {
        if self.frames.is_empty() {
            return 0;
        }
        self.frames.range(..position).next_back().map_or(0, |(last, _)| last + 1)
    }

    /// Whether more is certain to come: a message of which some is here is not whole, or the stream whose end is known.
    pub(super) fn expect_more(&self, feed: &Feed) -> bool {
        let begun = feed.highest() > self.before(feed.head());
        !feed.is_complete() && (begun || feed.expected_last().is_some())
    }

    /// How far whole segments reach in a stream of which everything below `head` is here.
    #[inline]
    pub(super) fn whole_segments(&self, head: u64, complete: bool) -> u64 {
        if complete || self.segment_frames == 1 {
            return head;
        }
        let start = self.before(head);
        start + ((head - start) / self.segment_frames + u64::from(planted!("segment-too-early"))) * self.segment_frames
    }

    /// How far frames may be sent to whoever takes them in any order: all that has come where each frame is a segment
    /// of its own, whole segments otherwise.
    #[inline]
    pub(super) fn sendable(&self, feed: &Feed) -> u64 {
        if self.segment_frames == 1 { feed.highest() } else { self.whole_segments(feed.head(), feed.is_complete()) }
    }

    /// Whether a segment ends right before `position`.
    pub(super) fn ends_at(&self, position: u64) -> bool {
        self.segment_frames == 1 || (position - self.before(position)).is_multiple_of(self.segment_frames)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_counted_from_the_end_of_the_last_message() {
        let mut boundaries = Boundaries::new(4);
        assert_eq!([3, 4, 9].map(|head| boundaries.whole_segments(head, false)), [0, 4, 8]);
        boundaries.add(5, true);
        assert_eq!([5, 6, 9, 10, 11].map(|head| boundaries.whole_segments(head, false)), [4, 6, 6, 10, 10]);
        assert_eq!((0..12).filter(|&at| boundaries.ends_at(at)).collect::<Vec<u64>>(), [0, 4, 6, 10]);
        assert_eq!(boundaries.whole_segments(9, true), 9);
    }

    #[test]
    fn an_end_is_as_many_frames_after_a_message_as_it_would_be_after_the_beginning() {
        let mut boundaries = Boundaries::new(4);
        boundaries.add(4, true);
        assert_eq!((0..15).filter(|&at| boundaries.ends_at(at)).collect::<Vec<u64>>(), [0, 4, 5, 9, 13]);
    }

    #[test]
    fn what_is_forgotten_still_counts_as_a_beginning() {
        let mut boundaries = Boundaries::new(4);
        [5, 7, 20].into_iter().for_each(|last| boundaries.add(last, last != 20));
        boundaries.forget_below(15);
        let ends = [5, 7, 20].map(|sequence| boundaries.ending(sequence) != Ending::None);
        assert_eq!(ends, [false, true, true]);
        assert_eq!(boundaries.whole_segments(17, false), 16);
        assert_eq!(boundaries.before(15), 8);
        assert_eq!((boundaries.before(30), boundaries.reported_before(30)), (21, 8));
    }
}
