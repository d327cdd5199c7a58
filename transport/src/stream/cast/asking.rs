//! Heartbeats of a cast: which listener is probed for its state, and after what wait.

use super::Cast;
use super::listener::Listener;
use crate::feed::Feed;
use crate::time::Instant;
use crate::tuning::Policy;
use crate::wire::MacAddr;
use std::time::Duration;

impl Cast {
    /// Returns the destination of the next heartbeat, if one is due: a listener that has to learn
    /// of the acker, the only listener that lags, or the group.
    pub(super) fn next_probed(&mut self, feed: &Feed) -> Option<MacAddr> {
        if self.question.take() {
            // Where one acker acknowledges for all, the others lag as a matter of course; only
            // those that hold up the stream matter. But if all that those lack is room, others may
            // be waiting for repairs.
            let end = |listener: &Listener| listener.end(self.window);
            let holds_up = |listener: &Listener| end(listener) <= self.next && listener.remote().cursor() < self.next;
            let blocked = self.designation.is_some() && self.next >= self.credit && self.listeners.iter().any(holds_up);
            let asked =
                |listener: &&Listener| if blocked { end(listener) <= self.next } else { self.lags(listener, feed) };
            let mut asked = self.listeners.iter().filter(asked).map(|listener| listener.remote().peer().mac);
            return Some(match (asked.next(), asked.next()) {
                (Some(only), None) => only,
                _ => self.group,
            });
        }
        let rank = self.designation.as_mut()?.next_unannounced()?;
        self.remotes().find(|remote| remote.rank() == rank).map(|remote| remote.peer().mac)
    }

    pub(super) fn lags(&self, listener: &Listener, feed: &Feed) -> bool {
        let remote = listener.remote();
        listener.lags(self.next, self.awaited) || remote.limit() <= self.next || remote.retains(feed)
    }

    pub(super) fn timeout(&self, tries: u32, feed: &Feed) -> Duration {
        // The end is acknowledged at once.
        let ended = feed.is_complete() && self.next == feed.head();
        let strict = self.policy == Policy::InOrderOnly;
        let left = self.remotes().any(|remote| remote.has_acknowledged_since(self.sent));
        let timeout = |listener: &Listener| match listener.remote() {
            remote if strict => remote.timeout(ended, tries),
            remote => remote.rtt().shared_timeout(ended, left, tries),
        };
        let lagging = self.listeners.iter().filter(|listener| self.lags(listener, feed)).map(timeout).max();
        // A listener that seemed to have everything may have been probed because of a doubtful
        // acknowledgement.
        lagging.or_else(|| self.listeners.iter().map(timeout).max()).unwrap_or_default()
    }

    pub(super) fn arm(&mut self, now: Instant, feed: &Feed) {
        if self.question.due().is_none() && !self.listeners.is_empty() {
            let timeout = self.timeout(self.question.tries(), feed);
            self.question.arm(now, |_| timeout);
        }
    }

    pub(super) fn is_waiting(&self, feed: &Feed) -> bool {
        let waiting = |listener: &Listener| listener.lags(self.next, self.awaited) || listener.remote().retains(feed);
        let starved = self.next >= self.credit && feed.head() > self.next;
        starved || self.listeners.iter().any(waiting)
    }

    pub(super) fn rearm(&mut self, now: Instant, feed: &Feed) {
        let awaited = self.is_waiting(feed);
        let timeout = if awaited { self.timeout(self.question.tries(), feed) } else { Duration::ZERO };
        self.question.rearm(now, awaited, |_| timeout);
    }
}
