//! What the root of a cast knows about one receiver.

use super::memory::tree_bytes;
use super::rtt::Rtt;
use super::stamp::{STALE, Stamp};
use crate::feed::{Feed, ReaderId};
use crate::time::Instant;
use crate::tuning::Tuning;
use crate::wire::Ack;
use pnet::util::MacAddr;
use std::collections::BTreeMap;
use std::time::Duration;

/// One receiver of a cast: a reader of the root's feed, its holes and its round trip.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) rank: u16,
    pub(super) mac: MacAddr,
    pub(super) reader: ReaderId,
    pub(super) cursor: u64,
    pub(super) limit: u64,
    /// What its application has passed.
    pub(super) passed: u64,
    pub(super) rtt: Rtt,
    pub(super) echo: Stamp,
    echo_at: Instant,
    /// When this listener was last sent a frame by unicast, for the few frames where that is later than the broadcast.
    pub(super) unicast_at: BTreeMap<u64, Stamp>,
    /// The holes of the newest acknowledgement, so that a repair overtaken by an acknowledgement is not sent.
    bitmap: Vec<u8>,
    /// One past the highest frame whose loss has been counted, so that each counts once.
    pub(super) counted: u64,
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
    pub(super) fn new(rank: u16, mac: MacAddr, feed: &mut Feed, tuning: &Tuning) -> Listener {
        let tail = feed.tail();
        Listener {
            rank,
            mac,
            reader: feed.add_reader(tail).expect("the tail can always be read"),
            cursor: tail,
            limit: tail + tuning.window_start_frames,
            passed: 0,
            rtt: Rtt::new(tuning),
            echo: Stamp::NONE,
            echo_at: Instant::START,
            unicast_at: BTreeMap::new(),
            bitmap: Vec::new(),
            counted: tail,
            round: Round::default(),
        }
    }

    /// Takes a valid acknowledgement that is not behind the cursor; if its echo is news, the time since the last such one.
    pub(super) fn on_ack(&mut self, now: Instant, ack: &Ack<'_>, feed: &mut Feed) -> Option<Duration> {
        self.cursor = ack.cursor;
        self.limit = self.limit.max(ack.body.limit);
        self.passed = self.passed.max(ack.body.passed);
        self.bitmap.clear();
        self.bitmap.extend_from_slice(ack.bitmap);
        feed.advance(self.reader, ack.cursor);
        if self.unicast_at.first_key_value().is_some_and(|(&first, _)| first < ack.cursor) {
            self.unicast_at = self.unicast_at.split_off(&ack.cursor);
        }
        let echo = Stamp(ack.echo);
        if echo == Stamp::NONE || !(echo.is_after(self.echo) || now.since(self.echo_at) > STALE) {
            return None;
        }
        let since_last = now.since(self.echo_at);
        (self.echo, self.echo_at) = (echo, now);
        let held = Duration::from_micros(ack.body.held_us.into());
        let round_trip = Stamp(now.as_micros() as u32).since(echo).saturating_sub(held);
        // A stamp drawn ahead of the clock in a burst would look like an enormous round trip.
        if round_trip < Duration::from_secs(60) {
            self.rtt.sample(round_trip);
        }
        Some(since_last)
    }

    /// Bytes that the listener's holes and repairs take at most, beside itself.
    pub(super) fn repairs_bytes(&self) -> usize {
        self.bitmap.capacity() + tree_bytes(self.unicast_at.len(), size_of::<(u64, Stamp)>())
    }

    /// Whether the listener still needs frame `sequence`, as far as its newest acknowledgement says.
    pub(super) fn lacks(&self, sequence: u64) -> bool {
        if sequence <= self.cursor {
            return sequence == self.cursor;
        }
        let bit = sequence - self.cursor - 1;
        let arrived = self.bitmap.get((bit / 8) as usize).is_some_and(|byte| byte >> (bit % 8) & 1 == 1);
        !arrived
    }
}
