//! What the root of a cast knows about one receiver that acknowledges to it.

use super::remote::Remote;
use crate::feed::Feed;
use crate::tuning::Tuning;
use crate::wire::Peer;
use std::time::Duration;

/// One receiver of a cast: a reader of the root's feed, and how much it loses.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) remote: Remote,
    /// One past the highest frame whose loss has been counted, so that each counts once.
    pub(super) counted: u64,
    /// One past the highest frame it is known to have lost.
    pub(super) owed: u64,
    /// How many times in a row it has proved slower than the designated one.
    pub(super) slower: u8,
    /// The round in which losses are counted for pacing.
    pub(super) round: Round,
}

/// Losses of one listener since a frame.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// The pace it runs under.
    pub(super) generation: u32,
    /// What was known, and what had arrived, when it began.
    pub(super) known: u64,
    pub(super) arrived: u64,
    pub(super) lost: u64,
    /// How long it has taken, long pauses left out.
    pub(super) span: Duration,
}

/// What one acknowledgement says of a listener.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    /// One past the newest frame known to have arrived or been lost.
    pub(super) known: u64,
    /// Frames that have arrived, all in all.
    pub(super) arrived: u64,
    /// Frames newly known to be lost.
    pub(super) lost: u64,
    /// The time since the acknowledgement before.
    pub(super) since_last: Duration,
}

impl Listener {
    /// A listener at the stream's beginning.
    pub(super) fn new(peer: Peer, feed: &mut Feed, tuning: &Tuning) -> Listener {
        Listener::of(Remote::new(peer, feed, tuning))
    }

    /// One that has given credit up to `limit`, to another host.
    pub(super) fn graft(peer: Peer, limit: u64, feed: &mut Feed, tuning: &Tuning) -> Listener {
        Listener::of(Remote::graft(peer, limit, feed, tuning))
    }

    fn of(remote: Remote) -> Listener {
        Listener { counted: remote.cursor, owed: 0, slower: 0, remote, round: Round::default() }
    }

    /// Whether it has not acknowledged everything up to `next`, or its application has not passed `awaited`.
    pub(super) fn lags(&self, next: u64, awaited: u64) -> bool {
        self.remote.cursor < next || self.remote.passed < awaited
    }
}
