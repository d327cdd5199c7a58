//! The receiving end of a stream: puts frames into the feed and decides when to acknowledge.

use super::nack::{Gap, Patience};
use super::rhythm::Rhythm;
use super::stats::StreamStats;
use crate::arq::stamp::{STALE, Stamp};
use crate::feed::{Feed, Inserted};
use crate::time::Instant;
use crate::tuning::{Policy, Tuning};
use crate::wire::Identity;
use crate::wire::{AckBody, Flags, Header, MAX_BITMAP_BYTES};
use std::time::Duration;

/// What an acknowledgement says beside cursor and holes: for this host and everybody behind it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    /// What has arrived everywhere, as far as this host answers for it.
    pub(super) below: u64,
    /// What every application has passed.
    pub(super) passed: u64,
    /// The credit.
    pub(super) limit: u64,
}

/// A data frame as the intake sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival<'a> {
    pub(super) header: &'a Header,
    pub(super) payload: &'a [u8],
    /// Whether the stamp means anything here: it is the parent's.
    pub(super) from_parent: bool,
    /// Whether it belongs to the push phase of its message.
    pub(super) pushed: bool,
}

/// What a receiver remembers between two acknowledgements.
#[derive(Debug)]
pub(super) struct Intake {
    policy: Policy,
    rhythm: Rhythm,
    patience: Patience,
    /// Room or released frames are worth telling of when this part of the feed has come together.
    parts: u64,
    /// All but reports of losses that answer at once do so after this.
    stagger: Duration,
    /// The newest stamp from the present parent, and when it came.
    newest: Option<(Stamp, Instant)>,
    /// Whether what came last was pushed, and another answers for it.
    silent: bool,
    /// Whether anything has come since the present parent was named.
    heard: bool,
    unacknowledged: u64,
    due: Option<Instant>,
    /// What is to be reported as missing unless it comes before.
    gap: Option<Gap>,
    /// An acknowledgement has fallen due and waits for room to be sent.
    ready: bool,
    advertised: u64,
    /// Half of the credit that the last acknowledgement granted: there is to be another before it is used up.
    half_credit: u64,
    /// The subtree's cursor in the last acknowledgement.
    below: u64,
    /// What every application here and behind had passed then.
    passed: u64,
    gap_reported_at: Option<u64>,
}

impl Intake {
    pub(super) fn new(identity: Identity, tuning: &Tuning) -> Intake {
        Intake {
            policy: tuning.policy,
            rhythm: Rhythm::new(identity.rank, tuning),
            patience: Patience::new(identity, tuning),
            parts: tuning.ack.room_parts,
            stagger: tuning.ack.gap_delay,
            newest: None,
            silent: false,
            heard: false,
            unacknowledged: 0,
            due: None,
            gap: None,
            ready: false,
            advertised: tuning.window.start_frames,
            half_credit: tuning.window.start_frames / 2,
            below: 0,
            passed: 0,
            gap_reported_at: None,
        }
    }

    /// When the next acknowledgement is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due.into_iter().chain(self.gap.map(|gap| gap.due)).min()
    }

    /// What has fallen due is ready to be sent, and needs no timer any more; a gap that was filled needs no report.
    pub(super) fn on_timeout(&mut self, now: Instant, feed: &Feed, stats: &mut StreamStats) {
        if self.due.is_some_and(|due| due <= now) {
            self.due = None;
            self.ready = true;
        }
        if let Some(gap) = self.gap.take_if(|gap| gap.due <= now)
            && gap.is_open(feed)
            && !std::mem::replace(&mut self.ready, true)
        {
            stats.nacks_sent += 1;
        }
    }

    /// Takes a data frame; whether it is new.
    pub(super) fn on_data(&mut self, now: Instant, arrival: Arrival<'_>, feed: &mut Feed, stats: &mut StreamStats) -> bool {
        let Arrival { header, payload, .. } = arrival;
        self.heard = true;
        if arrival.from_parent {
            self.note_stamp(now, Stamp(header.stamp));
        }
        if payload.len() > feed.payload_bytes() {
            stats.malformed += 1;
            return false;
        }
        if self.policy == Policy::InOrderOnly && header.sequence > feed.head() {
            stats.out_of_order_dropped += 1;
            self.report_gap(now, feed.head(), feed.head() + 1, feed.head());
            return false;
        }
        let expected = feed.highest();
        let inserted = feed.insert(header.sequence, payload, header.flags.has(Flags::LAST));
        match inserted {
            Inserted::New => {
                stats.data_received += 1;
                if header.sequence > expected {
                    self.report_gap(now, expected, header.sequence, header.sequence);
                }
            }
            Inserted::Duplicate => stats.duplicates += 1,
            Inserted::Beyond => stats.beyond_credit += 1,
        }
        self.count(now, arrival);
        inserted == Inserted::New
    }

    /// A heartbeat from the parent: answer at once (or in turn, among the receivers of a cast). It may say who acknowledges for all.
    pub(super) fn on_heartbeat(&mut self, now: Instant, header: &Header, payload: &[u8]) {
        self.heard = true;
        self.note_stamp(now, Stamp(header.stamp));
        if let Some(&rank) = payload.first_chunk() {
            self.rhythm.designate(u16::from_be_bytes(rank));
        }
        self.hasten(now + self.stagger);
    }

    /// Readers have moved: tell the parent of new room it may be waiting for, and of frames it need not keep any more.
    ///
    /// `flushed` is the end of the newest message that has been passed: its sender waits to hear of it.
    pub(super) fn on_progress(&mut self, now: Instant, feed: &Feed, standing: Standing, flushed: u64) {
        if !self.heard {
            return;
        }
        if flushed > self.passed {
            self.hasten(now);
        }
        let room = standing.limit;
        let exhausted = feed.highest() >= self.advertised && room > self.advertised && !feed.is_complete();
        let much = feed.slots() / self.parts;
        let more_room = room >= self.advertised + much && !feed.is_complete();
        let released = standing.below >= self.below + much;
        if exhausted || ((more_room || released) && !self.silent) {
            self.hasten(now + self.stagger);
        }
    }

    /// A new parent draws stamps of its own.
    pub(super) fn forget_parent(&mut self) {
        self.newest = None;
        self.heard = false;
    }

    /// Writes the body of an acknowledgement that is due; returns its length and the stamp echoed.
    pub(super) fn poll(
        &mut self,
        now: Instant,
        feed: &Feed,
        standing: Standing,
        body: &mut [u8],
        stats: &mut StreamStats,
    ) -> Option<(usize, Stamp)> {
        self.on_timeout(now, feed, stats);
        if !std::mem::take(&mut self.ready) {
            return None;
        }
        stats.acks_sent += 1;
        (self.due, self.gap) = (None, None);
        self.unacknowledged = 0;
        let Standing { below, passed, limit } = standing;
        (self.advertised, self.below, self.passed) = (limit, below, passed);
        self.half_credit = ((limit - feed.head()) / 2).max(1);
        let (echo, arrived) = self.newest.unwrap_or((Stamp::NONE, now));
        let fixed = AckBody { limit, below, passed, held_us: now.since(arrived).as_micros() as u32 };
        let bitmap_room = (body.len() - AckBody::BYTES).min(MAX_BITMAP_BYTES);
        let bitmap_bytes = match self.policy {
            Policy::HolesAllowed => feed.write_holes(&mut body[AckBody::BYTES..][..bitmap_room]),
            Policy::InOrderOnly => 0,
        };
        Some((fixed.write(feed.head(), body, bitmap_bytes), echo))
    }

    fn note_stamp(&mut self, now: Instant, stamp: Stamp) {
        if self.newest.is_none_or(|(newest, at)| stamp.is_after(newest) || now.since(at) > STALE) {
            self.newest = Some((stamp, now));
        }
    }

    /// Says once, and not before others had time to, that frames `from..to` are missing; `at` tells losses apart.
    fn report_gap(&mut self, now: Instant, from: u64, to: u64, at: u64) {
        if self.gap_reported_at != Some(at) {
            self.gap_reported_at = Some(at);
            self.gap = Some(Gap::new(from, to, now + self.patience.of(from)).and(self.gap));
        }
    }

    fn count(&mut self, now: Instant, arrival: Arrival<'_>) {
        self.unacknowledged += 1;
        self.silent = self.rhythm.is_silent(arrival.pushed);
        let (sequence, flags) = (arrival.header.sequence, arrival.header.flags);
        // What is sent again was meant for this receiver.
        let used_up = sequence + 1 >= self.advertised;
        let asked =
            flags.has(Flags::ACK_NOW) && (flags.has(Flags::RESENT) || self.rhythm.must_answer(used_up, self.unacknowledged));
        if asked || flags.has(Flags::LAST) {
            self.hasten(now + self.stagger);
        } else if self.rhythm.is_due(sequence, self.unacknowledged, arrival.pushed, self.half_credit) {
            self.hasten(now);
        } else if let Some(delay) = self.rhythm.delay(arrival.pushed) {
            self.hasten(now + delay);
        }
    }

    fn hasten(&mut self, at: Instant) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }
}
