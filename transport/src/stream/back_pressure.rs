//! Back-pressure attribution: whether the readers or the host's own link hold up a stream.

use super::readers::Readers;
use crate::feed::Feed;
use crate::time::Instant;
use crate::wire::Rank;
use std::time::Duration;

/// Longer than the interval between a slow child's acknowledgements, so that it does not seem fast
/// in between.
const A_MOMENT: Duration = Duration::from_millis(250);

#[derive(Clone, Debug, Default)]
pub(super) struct BackPressure {
    spent_at: Option<Instant>,
}

impl BackPressure {
    pub(super) fn spent(&mut self, now: Instant) {
        self.spent_at = Some(now);
    }

    pub(super) fn by(&self, now: Instant, feed: &Feed, readers: &dyn Readers) -> Option<Rank> {
        let crowded = feed.head() - feed.tail() >= feed.slots() / 4 * 3;
        let spent = self.spent_at.is_some_and(|at| now.since(at) < A_MOMENT);
        if crowded && spent { readers.crowded_by(feed) } else { None }
    }
}
