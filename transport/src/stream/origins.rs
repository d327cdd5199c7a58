//! Sources that may have sent frames to a child.

use crate::feed::Feed;

/// Upper bound of a stream's length, below which no arithmetic overflows: 1.6 petabytes at an MTU
/// of 1500.
const MAX_FRAMES: u64 = 1 << 40;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origins {
    Here,
    /// Also a former parent, which had its frames from here.
    Former,
    /// Any: another stream served the child until now.
    Elsewhere,
}

impl Origins {
    pub(super) fn may_have(self, highest: u64, feed: &Feed) -> u64 {
        match self {
            Origins::Here => highest,
            Origins::Elsewhere => feed.head().max(feed.expected_last().map_or(MAX_FRAMES, |last| last + 1)),
            Origins::Former => feed.highest(),
        }
    }
}
