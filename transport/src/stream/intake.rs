//! The receiving end of a stream: puts frames into the feed and decides when to acknowledge.

use super::stamp::{STALE, Stamp};
use super::stats::StreamStats;
use crate::feed::{Feed, Inserted};
use crate::time::Instant;
use crate::tuning::{Policy, Tuning};
use crate::wire::{AckBody, Flags, Header, MAX_BITMAP_BYTES};
use std::time::Duration;

/// What a receiver remembers between two acknowledgements.
#[derive(Debug)]
pub(super) struct Intake {
    policy: Policy,
    every: u64,
    delay: Duration,
    gap_delay: Duration,
    /// The newest stamp from the present parent, and when it came.
    newest: Option<(Stamp, Instant)>,
    unacknowledged: u64,
    due: Option<Instant>,
    /// An acknowledgement has fallen due and waits for room to be sent.
    ready: bool,
    advertised: u64,
    /// The subtree's cursor in the last acknowledgement.
    below: u64,
    /// What every application here and behind had passed then.
    passed: u64,
    gap_reported_at: Option<u64>,
}

impl Intake {
    pub(super) fn new(tuning: &Tuning) -> Intake {
        Intake {
            policy: tuning.policy,
            every: tuning.ack_every_frames,
            delay: tuning.ack_delay,
            gap_delay: tuning.gap_delay,
            newest: None,
            unacknowledged: 0,
            due: None,
            ready: false,
            advertised: tuning.window_start_frames,
            below: 0,
            passed: 0,
            gap_reported_at: None,
        }
    }

    /// When the next acknowledgement is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// What has fallen due is ready to be sent, and needs no timer any more.
    pub(super) fn on_timeout(&mut self, now: Instant) {
        if self.due.is_some_and(|due| due <= now) {
            self.due = None;
            self.ready = true;
        }
    }

    /// Takes a data frame; `from_parent` is false for a late frame of a former parent, whose stamps mean nothing here.
    pub(super) fn on_data(
        &mut self,
        now: Instant,
        from_parent: bool,
        header: &Header,
        payload: &[u8],
        feed: &mut Feed,
        stats: &mut StreamStats,
    ) {
        if from_parent {
            self.note_stamp(now, Stamp(header.stamp));
        }
        if payload.len() > feed.payload_bytes() {
            stats.malformed += 1;
            return;
        }
        let in_order = header.sequence == feed.head();
        if self.policy == Policy::InOrderOnly && !in_order && header.sequence > feed.head() {
            stats.out_of_order_dropped += 1;
            self.report_gap(now, feed.head());
            return;
        }
        let expected = feed.highest();
        match feed.insert(header.sequence, payload, header.flags.has(Flags::LAST)) {
            Inserted::New => {
                stats.data_received += 1;
                if header.sequence > expected {
                    self.report_gap(now, header.sequence);
                }
            }
            Inserted::Duplicate => stats.duplicates += 1,
            Inserted::Beyond => stats.beyond_credit += 1,
        }
        self.count(now, header.flags);
    }

    /// A heartbeat from the parent: answer at once (or in turn, among the receivers of a cast).
    pub(super) fn on_heartbeat(&mut self, now: Instant, header: &Header) {
        self.note_stamp(now, Stamp(header.stamp));
        self.hasten(now + self.gap_delay);
    }

    /// Readers have moved: tell the parent of new room it may be waiting for, and of frames it need not keep any more.
    ///
    /// `flushed` is the end of the newest message that has been passed: its sender waits to hear of it.
    pub(super) fn on_drained(&mut self, now: Instant, feed: &Feed, below: u64, flushed: u64) {
        if flushed > self.passed && self.newest.is_some() {
            self.hasten(now);
        }
        let room = feed.limit();
        let exhausted = feed.highest() >= self.advertised && room > self.advertised;
        let more_room = (exhausted || room >= self.advertised + feed.slots() / 4) && !feed.is_complete();
        let released = below >= self.below + feed.slots() / 4;
        if (more_room || released) && self.newest.is_some() {
            self.hasten(now + self.gap_delay);
        }
    }

    /// A new parent draws stamps of its own.
    pub(super) fn forget_parent(&mut self) {
        self.newest = None;
    }

    /// Writes the body of an acknowledgement that is due; returns its length, the cursor and the stamp echoed.
    pub(super) fn poll(
        &mut self,
        now: Instant,
        feed: &Feed,
        below: u64,
        passed: u64,
        body: &mut [u8],
    ) -> Option<(usize, u64, Stamp)> {
        self.on_timeout(now);
        if !std::mem::take(&mut self.ready) {
            return None;
        }
        self.due = None;
        self.unacknowledged = 0;
        self.advertised = feed.limit();
        self.below = below;
        self.passed = passed;
        let (echo, arrived) = self.newest.unwrap_or((Stamp::NONE, now));
        let fixed = AckBody { limit: feed.limit(), below, passed, held_us: now.since(arrived).as_micros() as u32 };
        let bitmap_room = (body.len() - AckBody::BYTES).min(MAX_BITMAP_BYTES);
        let bitmap_bytes = match self.policy {
            Policy::HolesAllowed => feed.write_holes(&mut body[AckBody::BYTES..][..bitmap_room]),
            Policy::InOrderOnly => 0,
        };
        Some((fixed.write(feed.head(), body, bitmap_bytes), feed.head(), echo))
    }

    fn note_stamp(&mut self, now: Instant, stamp: Stamp) {
        if self.newest.is_none_or(|(newest, at)| stamp.is_after(newest) || now.since(at) > STALE) {
            self.newest = Some((stamp, now));
        }
    }

    /// Says once that frames up to `at` are missing.
    fn report_gap(&mut self, now: Instant, at: u64) {
        if self.gap_reported_at != Some(at) {
            self.gap_reported_at = Some(at);
            self.hasten(now + self.gap_delay);
        }
    }

    fn count(&mut self, now: Instant, flags: Flags) {
        self.unacknowledged += 1;
        if flags.has(Flags::ACK_NOW) || flags.has(Flags::LAST) {
            self.hasten(now + self.gap_delay);
        } else if self.unacknowledged >= self.every {
            self.hasten(now);
        } else {
            self.hasten(now + self.delay);
        }
    }

    fn hasten(&mut self, at: Instant) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }
}
