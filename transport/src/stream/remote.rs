//! What a host knows of another that acknowledges a cast to it: where it stands, what it lacks, and how far away it is.

use super::outstanding::Outstanding;
use crate::arq::rtt::Rtt;
use crate::arq::stamp::{STALE, Stamp};
use crate::feed::{Feed, ReaderId};
use crate::time::Instant;
use crate::tuning::Tuning;
use crate::wire::Ack;
use crate::wire::Peer;
use std::time::Duration;

/// A round trip above this is a stamp drawn ahead of the clock in a burst.
const LONGEST_ROUND_TRIP: Duration = Duration::from_secs(60);

/// One reader of the feed that gets its new frames by cast.
#[derive(Debug)]
pub(super) struct Remote {
    pub(super) peer: Peer,
    pub(super) reader: ReaderId,
    /// All frames below this have arrived there.
    pub(super) cursor: u64,
    /// All frames below this have arrived there and at everybody behind it.
    pub(super) below: u64,
    /// Its credit, and that of everybody behind it.
    pub(super) limit: u64,
    /// What every application there and behind it has passed.
    pub(super) passed: u64,
    pub(super) rtt: Rtt,
    pub(super) echo: Stamp,
    echo_at: Instant,
    /// The holes of the newest acknowledgement, so that a repair overtaken by an acknowledgement is not sent.
    holes: Vec<u8>,
    pub(super) outstanding: Outstanding,
    /// False from a graft until the first acknowledgement says where it stands.
    pub(super) synced: bool,
}

impl Remote {
    /// A reader at the stream's beginning.
    pub(super) fn new(peer: Peer, feed: &mut Feed, tuning: &Tuning) -> Remote {
        let tail = feed.tail();
        Remote {
            peer,
            reader: feed.add_reader(tail).expect("the tail can always be read"),
            cursor: tail,
            below: tail,
            limit: tail + tuning.window.start_frames,
            passed: 0,
            rtt: Rtt::new(tuning),
            echo: Stamp::NONE,
            echo_at: Instant::START,
            holes: Vec::new(),
            outstanding: Outstanding::default(),
            synced: true,
        }
    }

    /// One that acknowledged to another host until now: everything still here is kept until it says where it stands. It is known to
    /// have given credit up to `limit`.
    pub(super) fn graft(peer: Peer, limit: u64, feed: &mut Feed, tuning: &Tuning) -> Remote {
        Remote { synced: false, limit, ..Remote::new(peer, feed, tuning) }
    }

    /// Whether this is its first word after a graft, and it needs frames that are gone.
    pub(super) fn is_orphaned_by(&self, ack: &Ack<'_>) -> bool {
        !self.synced && ack.cursor < self.cursor
    }

    /// Takes a valid acknowledgement that is not behind the cursor; if its echo is news, the time since the last such one.
    pub(super) fn on_ack(&mut self, now: Instant, ack: &Ack<'_>, feed: &mut Feed) -> Option<Duration> {
        self.synced = true;
        self.cursor = ack.cursor;
        // What was once true of all behind it stays true: an older word that comes late, or a graft there, takes nothing back.
        self.below = self.below.max(ack.body.below);
        self.limit = self.limit.max(ack.body.limit);
        self.passed = self.passed.max(ack.body.passed);
        self.holes.clear();
        self.holes.reserve_exact(ack.bitmap.len());
        self.holes.extend_from_slice(ack.bitmap);
        self.follow(feed);
        self.outstanding.settle(ack);
        let echo = Stamp(ack.echo);
        if echo == Stamp::NONE || !(echo.is_after(self.echo) || now.since(self.echo_at) > STALE) {
            return None;
        }
        let since_last = now.since(self.echo_at);
        (self.echo, self.echo_at) = (echo, now);
        let held = Duration::from_micros(ack.body.held_us.into());
        let round_trip = Stamp(now.as_micros() as u32).since(echo).saturating_sub(held);
        if round_trip < LONGEST_ROUND_TRIP {
            self.rtt.sample(round_trip);
        }
        Some(since_last)
    }

    /// Lets the reader stand where nothing below is needed any more, as far as this host has got itself.
    pub(super) fn follow(&self, feed: &mut Feed) {
        let to = self.below.min(feed.head());
        if to > feed.position(self.reader) {
            feed.advance(self.reader, to);
        }
    }

    /// Whether it still needs frame `sequence`, as far as its newest acknowledgement says.
    pub(super) fn lacks(&self, sequence: u64) -> bool {
        if sequence <= self.cursor {
            return sequence == self.cursor;
        }
        let bit = sequence - self.cursor - 1;
        let arrived = self.holes.get((bit / 8) as usize).is_some_and(|byte| byte >> (bit % 8) & 1 == 1);
        !arrived
    }

    /// Whether the feed is full of frames that are kept only for those behind it.
    pub(super) fn retains(&self, feed: &Feed) -> bool {
        feed.position(self.reader) < self.cursor.min(feed.head()) && feed.highest() >= feed.limit()
    }

    /// Bytes that its holes and repairs take, beside itself.
    pub(super) fn repairs_bytes(&self) -> usize {
        self.holes.capacity() + self.outstanding.bytes()
    }
}
