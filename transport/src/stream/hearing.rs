//! What the root of a cast makes of an acknowledgement: where its sender stands, and which frames are to be sent again.

use super::cast::Cast;
use super::lane::missing;
use super::listener::Progress;
use super::repairs::Losers;
use crate::arq::stamp::Stamp;
use crate::feed::Feed;
use crate::time::Instant;
use crate::tuning::Policy;
use crate::wire::Ack;
use crate::wire::Peer;
use std::time::Duration;

/// Who an acknowledgement turned out to be from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// One of those who acknowledge to this host.
    Known,
    /// One of them, who needs frames that are gone.
    Orphan,
    /// One of them, who says what cannot be.
    Forged,
    /// Nobody of them.
    Stranger,
}

impl Cast {
    /// Takes an acknowledgement; `newest` is the last stamp drawn here. A forged one changes nothing.
    pub(super) fn on_ack(&mut self, now: Instant, from: Peer, ack: &Ack<'_>, newest: Stamp, feed: &mut Feed) -> Heard {
        let Some(at) = self.listeners.iter().position(|listener| listener.remote.peer == from) else { return Heard::Stranger };
        if ack.cursor > self.next || ack.covered() > self.next || Stamp(ack.echo).is_after(newest) {
            return Heard::Forged;
        }
        let remote = &mut self.listeners[at].remote;
        if ack.cursor < remote.cursor {
            return if remote.is_orphaned_by(ack) { Heard::Orphan } else { Heard::Known };
        }
        let newly = ack.cursor - remote.cursor;
        let only_passing = remote.cursor == self.next && ack.body.passed <= remote.passed;
        let since_last = remote.on_ack(now, ack, feed);
        self.repairs.forget_below(feed.tail());
        if let Some(since_last) = since_last {
            let lost = self.find_lost(now, at, ack);
            let listener = &mut self.listeners[at];
            let arrived = ack.cursor + ack.arrived_beyond();
            let progress = Progress { known: listener.counted.max(ack.covered()), arrived, lost, since_last };
            self.pace.on_ack(listener, progress, self.next);
        }
        self.count_credit();
        if let Some(designation) = &mut self.designation {
            designation.on_ack(&mut self.listeners, at, newly);
        }
        // An application that takes its time is asked less and less often.
        if !only_passing {
            self.tries = 0;
        }
        self.rearm(now, feed);
        Heard::Known
    }

    /// Queues what an acknowledgement with a new echo proves lost; how many frames of that say something about the present pace.
    fn find_lost(&mut self, now: Instant, at: usize, ack: &Ack<'_>) -> u64 {
        let listener = &self.listeners[at];
        let (ring, remote) = (&self.cast_at, &listener.remote);
        let sent_at = |sequence: u64| remote.outstanding.get(sequence).unwrap_or(ring[self.slot(sequence)]);
        // What a frame overtook is thrown away by the receiver, and the rest is not to follow before it is sent again.
        let tolerance = if self.push_frames.is_some() { Duration::ZERO } else { remote.rtt.reordering() };
        let found: Vec<u64> = missing(ack, self.next, sent_at, remote.echo, tolerance).collect();
        let (mut lost, mut counted) = (0, listener.counted);
        for &sequence in &found {
            if sequence >= counted.max(self.pace.from()) {
                lost += 1;
                counted = sequence + 1;
            }
            self.lose(now, at, sequence);
        }
        self.listeners[at].counted = counted;
        // Strict go-back-n: what was sent after the gap was thrown away, and goes again before anything new.
        if self.policy == Policy::InOrderOnly && found.first() == Some(&ack.cursor) {
            (ack.cursor..self.next).for_each(|sequence| self.lose(now, at, sequence));
        }
        lost
    }

    /// Queues a repair for a listener.
    fn lose(&mut self, now: Instant, at: usize, sequence: u64) {
        let listener = &mut self.listeners[at];
        let rank = listener.remote.peer.rank;
        listener.owed = listener.owed.max(sequence + 1);
        if !listener.remote.outstanding.queue(sequence) {
            return;
        }
        let served = |stamp: Stamp| stamp != Stamp::NONE;
        let others = self.listeners.iter().enumerate().filter(|&(other, _)| other != at);
        // Whoever reported it first has been served alone; from the second on they are served together.
        let shared = self.policy == Policy::HolesAllowed
            && others.into_iter().any(|(_, other)| other.remote.outstanding.get(sequence).is_some_and(served));
        let losers = if shared { Losers::Several } else { Losers::One { rank, until: now + self.hold } };
        self.repairs.lose(sequence, losers);
    }
}
