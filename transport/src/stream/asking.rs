//! Whom the root of a cast asks where it stands, and when: those whose acknowledgement would help and may have been lost.

use super::cast::Cast;
use super::listener::Listener;
use crate::feed::Feed;
use crate::time::Instant;
use crate::wire::MacAddr;
use std::time::Duration;

impl Cast {
    /// When somebody is to be asked.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    pub(super) fn on_timeout(&mut self, now: Instant, feed: &Feed) {
        if self.due.is_some_and(|due| due <= now) {
            self.heartbeat = true;
            self.tries += 1;
            self.due = Some(now + self.timeout(feed));
        }
    }

    /// Where the next heartbeat goes, if one is to be sent: to the only listener that lags, or to all; to one that is to know whether
    /// it is the designated one.
    pub(super) fn next_asked(&mut self, feed: &Feed) -> Option<MacAddr> {
        if std::mem::take(&mut self.heartbeat) {
            let mut asked: Vec<MacAddr> = Vec::new();
            // Where one acknowledges for all the others lag as a matter of course; those who hold all up matter.
            // But if all that those lack is room, others may be waiting for what they have lost.
            let holds_up = |listener: &Listener| self.end(listener) <= self.next && listener.remote.cursor < self.next;
            let blocked = self.designation.is_some() && self.next >= self.credit && self.listeners.iter().any(holds_up);
            asked.extend(
                self.listeners
                    .iter()
                    .filter(|listener| if blocked { self.end(listener) <= self.next } else { self.lags(listener, feed) })
                    .map(|listener| listener.remote.peer.mac)
                    .take(2),
            );
            return Some(if let [only] = asked[..] { only } else { self.group });
        }
        let rank = self.designation.as_mut()?.next_untold()?;
        self.listeners.iter().find(|listener| listener.remote.peer.rank == rank).map(|listener| listener.remote.peer.mac)
    }

    /// Whether a listener has not acknowledged everything, has no credit, keeps the feed full, or its application has not passed
    /// the last message.
    fn lags(&self, listener: &Listener, feed: &Feed) -> bool {
        listener.lags(self.next, self.awaited) || listener.remote.limit <= self.next || listener.remote.retains(feed)
    }

    fn timeout(&self, feed: &Feed) -> Duration {
        let lagging = self.listeners.iter().filter(|listener| self.lags(listener, feed));
        let timeout = |listener: &Listener| {
            let rtt = &listener.remote.rtt;
            // The end is acknowledged at once.
            if feed.is_complete() && self.next == feed.head() { rtt.prompt_timeout(self.tries) } else { rtt.timeout(self.tries) }
        };
        lagging.map(timeout).max().unwrap_or_default()
    }

    pub(super) fn arm(&mut self, now: Instant, feed: &Feed) {
        if self.due.is_none() && !self.listeners.is_empty() {
            self.due = Some(now + self.timeout(feed));
        }
    }

    pub(super) fn rearm(&mut self, now: Instant, feed: &Feed) {
        let waiting = |listener: &Listener| listener.lags(self.next, self.awaited) || listener.remote.retains(feed);
        let starved = self.next >= self.credit && feed.head() > self.next;
        self.due = (starved || self.listeners.iter().any(waiting)).then(|| now + self.timeout(feed));
    }
}
