//! Whether it is the readers that hold up a stream, or the host's own link.

use super::readers::Readers;
use crate::feed::Feed;
use crate::time::Instant;
use crate::wire::Rank;
use std::time::Duration;

/// Longer than a slow child's acknowledgements lie apart, so that in between it does not seem to be fast.
const A_MOMENT: Duration = Duration::from_millis(250);

/// When a host had sent all that it might.
#[derive(Clone, Debug, Default)]
pub(super) struct Crowding {
    spent_at: Option<Instant>,
}

impl Crowding {
    /// There is nothing that may be sent.
    pub(super) fn spent(&mut self, now: Instant) {
        self.spent_at = Some(now);
    }

    /// The reader for whose sake the feed is crowded, if all that may be sent was sent a moment ago.
    pub(super) fn by(&self, now: Instant, feed: &Feed, readers: &dyn Readers) -> Option<Rank> {
        let crowded = feed.head() - feed.tail() >= feed.slots() / 4 * 3;
        let spent = self.spent_at.is_some_and(|at| now.since(at) < A_MOMENT);
        if crowded && spent { readers.crowded_by(feed) } else { None }
    }
}
