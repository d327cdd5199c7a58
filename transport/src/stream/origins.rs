//! From whom a child can have frames.

use crate::feed::Feed;

/// No stream has more frames, and no arithmetic on them overflows: 1.6 petabytes at an MTU of 1500.
const MOST_FRAMES: u64 = 1 << 40;

/// From whom the child of a lane can have frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origins {
    /// From this lane.
    Here,
    /// Those of a former parent may still be on their way, which had them from here.
    Former,
    /// Another stream served it until now: it may have any.
    Elsewhere,
}

impl Origins {
    /// One past the highest frame that the child can have, of which `highest` says what was sent here.
    pub(super) fn may_have(self, highest: u64, feed: &Feed) -> u64 {
        match self {
            Origins::Here => highest,
            Origins::Elsewhere => feed.head().max(feed.expected_last().map_or(MOST_FRAMES, |last| last + 1)),
            Origins::Former => feed.highest(),
        }
    }
}
