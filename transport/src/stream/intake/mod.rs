//! Receiving end of a stream: stores frames, and decides when to acknowledge.

mod schedule;

use super::terms::StreamStats;
use crate::arq::probe_timer::ProbeTimer;
use crate::arq::receipt::Receipt;
use crate::arq::stamp::Stamp;
use crate::feed::{Feed, Inserted};
use crate::time::Instant;
use crate::tuning::{Policy, Tuning};
use crate::wire::{AckBody, Flags, Frame, Header, Identity, MAX_BITMAP_BYTES, Parity, Peer, Rank};
use schedule::{AckSchedule, Gap, ReportBackoff};
use std::ops::Range;
use std::time::Duration;

/// Silence after which a receiver that expects more reports its state without a request: a forged
/// acknowledgement in its name may have convinced its parent that it lacks nothing.
const REMIND_AFTER: Duration = Duration::from_secs(1);
const MAX_DOUBLINGS: u32 = 4;

fn remind_after(tries: u32) -> Duration {
    REMIND_AFTER * (1 << tries.min(MAX_DOUBLINGS))
}

/// Hosts that may send a receiver frames of its stream.
#[derive(Clone, Debug)]
pub(super) struct Upstream {
    /// Host that this one acknowledges to and whose stamps it echoes; none at the origin.
    pub(super) parent: Option<Peer>,
    /// Origin of the stream: it sends a cast's new frames to every receiver, and frames that no
    /// other host has any more.
    origin: Option<Peer>,
}

impl Upstream {
    pub(super) fn new(parent: Option<Peer>) -> Upstream {
        Upstream { parent, origin: parent }
    }

    pub(super) fn set_parent(&mut self, parent: Peer) -> bool {
        !planted!("old-parent-kept") && self.parent.replace(parent) != Some(parent)
    }

    pub(super) fn set_origin(&mut self, origin: Peer) {
        self.origin = Some(origin);
    }

    pub(super) fn is_parent(&self, frame: &Frame<'_>) -> bool {
        self.parent.is_some_and(|parent| is_from(frame, parent))
    }

    pub(super) fn is_origin(&self, frame: &Frame<'_>) -> bool {
        self.origin.is_some_and(|origin| is_from(frame, origin))
    }
}

fn is_from(frame: &Frame<'_>, peer: Peer) -> bool {
    peer.rank == frame.header.rank && peer.mac == frame.source
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    pub below: u64,
    pub consumed: u64,
    pub limit: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Received<'a> {
    pub header: &'a Header,
    pub payload: &'a [u8],
    /// Whether the stamp is the parent's; only then it is meaningful here.
    pub from_parent: bool,
    pub pushed: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Intake {
    policy: Policy,
    schedule: AckSchedule,
    backoff: ReportBackoff,
    /// Divisor of the feed: an update is sent when this part of it has been freed.
    parts: u64,
    stagger: Duration,
    receipt: Receipt,
    reminder: ProbeTimer,
    silent: bool,
    heard: bool,
    gap: Option<Gap>,
    advertised: u64,
    /// Half of the credit granted last: the next acknowledgement must leave before it is used up.
    half_credit: u64,
    below: u64,
    consumed: u64,
}

impl Intake {
    pub(super) fn new(identity: &Identity, tuning: &Tuning) -> Intake {
        Intake {
            policy: tuning.policy,
            schedule: AckSchedule::new(identity.rank, tuning),
            backoff: ReportBackoff::new(identity, tuning),
            parts: tuning.ack.room_parts,
            stagger: tuning.ack.gap_delay,
            receipt: Receipt::default(),
            reminder: ProbeTimer::default(),
            silent: false,
            heard: false,
            gap: None,
            advertised: tuning.window.start_frames,
            half_credit: tuning.window.start_frames / 2,
            below: 0,
            consumed: 0,
        }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        [self.receipt.due(), self.gap.map(|gap| gap.due), self.reminder.due()].into_iter().flatten().min()
    }

    pub(super) fn on_timeout(&mut self, now: Instant, feed: &Feed, stats: &mut StreamStats) {
        self.receipt.on_timeout(now);
        if self.reminder.on_timeout(now, remind_after) {
            self.receipt.make_ready();
        }
        if let Some(gap) = self.gap.take_if(|gap| gap.due <= now)
            && gap.is_open(feed)
            && self.receipt.make_ready()
        {
            stats.nacks_sent += 1;
        }
    }

    pub(super) fn on_data(
        &mut self,
        now: Instant,
        received: Received<'_>,
        feed: &mut Feed,
        stats: &mut StreamStats,
    ) -> bool {
        let Received { header, payload, .. } = received;
        self.hear();
        if received.from_parent {
            self.receipt.note_stamp(now, header.stamp);
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
                stats.data_repaired += u64::from(header.flags.has(Flags::RESENT));
                if header.sequence > expected {
                    self.report_gap(now, expected, header.sequence, header.sequence);
                }
            }
            Inserted::Duplicate => stats.duplicates += 1,
            Inserted::Beyond => stats.beyond_credit += 1,
            Inserted::Refused => {
                stats.malformed += 1;
                return false;
            }
        }
        self.count(now, received);
        inserted == Inserted::New
    }

    /// Takes a parity frame; returns whether it is kept. The last one of a round causes a report if
    /// frames are still missing.
    pub(super) fn on_parity(
        &mut self,
        now: Instant,
        received: Received<'_>,
        parity: Parity,
        feed: &mut Feed,
        stats: &mut StreamStats,
    ) -> bool {
        let Received { header, payload, .. } = received;
        self.hear();
        if received.from_parent {
            self.receipt.note_stamp(now, header.stamp);
        }
        let inserted = match self.policy {
            Policy::HolesAllowed => feed.insert_parity(parity.frames(), parity.index(), payload),
            Policy::InOrderOnly => Inserted::Refused,
        };
        match inserted {
            Inserted::New | Inserted::Duplicate => {
                // Even if the frame is not kept, because the sender counts on the report.
                if header.flags.has(Flags::ACK_NOW) && parity.frames().any(|sequence| !feed.has(sequence)) {
                    let Range { start, end } = parity.frames();
                    self.gap = Some(Gap::new(start, end, now + self.backoff.wait(header.sequence)).and(self.gap));
                }
                if inserted == Inserted::New {
                    stats.parity_received += 1;
                    let unflagged = Header { flags: Flags::default(), ..*header };
                    self.count(now, Received { header: &unflagged, ..received });
                } else {
                    stats.duplicates += 1;
                }
            }
            Inserted::Beyond => stats.beyond_credit += 1,
            Inserted::Refused => stats.malformed += 1,
        }
        inserted == Inserted::New
    }

    fn hear(&mut self) {
        self.heard = true;
        self.reminder = ProbeTimer::default();
    }

    pub(super) fn on_heartbeat(&mut self, now: Instant, header: &Header, payload: &[u8]) {
        self.hear();
        self.receipt.note_stamp(now, header.stamp);
        if let Some(&rank) = payload.first_chunk() {
            self.schedule.designate(Rank(u16::from_be_bytes(rank)));
        }
        self.receipt.hasten(now + self.stagger);
    }

    /// Handles moved readers: reports new room that the parent may be waiting for, and frames that
    /// it may free.
    ///
    /// `flushed` is the end of the newest consumed message, which its sender waits for.
    pub(super) fn on_progress(&mut self, now: Instant, feed: &Feed, standing: Standing, flushed: u64) {
        if !self.heard {
            return;
        }
        if flushed > self.consumed {
            self.receipt.hasten(now);
        }
        let room = standing.limit;
        let exhausted = feed.highest() >= self.advertised && room > self.advertised && !feed.is_complete();
        let much = feed.slots() / self.parts;
        let more_room = room >= self.advertised + much && !feed.is_complete();
        let released = standing.below >= self.below + much;
        if exhausted || ((more_room || released) && !self.silent) {
            self.receipt.hasten(now + self.stagger);
        }
    }

    pub(super) fn forget_parent(&mut self) {
        self.receipt.forget_stamps();
        self.heard = false;
    }

    pub(super) fn is_ready(&mut self, now: Instant, feed: &Feed, more: bool, stats: &mut StreamStats) -> bool {
        self.on_timeout(now, feed, stats);
        if !more {
            self.reminder = ProbeTimer::default();
        } else {
            self.reminder.arm(now, remind_after);
        }
        self.receipt.is_ready()
    }

    pub(super) fn acknowledge(
        &mut self,
        now: Instant,
        feed: &Feed,
        standing: Standing,
        body: &mut [u8],
    ) -> (usize, Stamp) {
        self.gap = None;
        let Standing { below, consumed, limit } = standing;
        (self.advertised, self.below, self.consumed) = (limit, below, consumed);
        self.half_credit = ((limit - feed.head()) / 2).max(1);
        let (echo, held_us) = self.receipt.settle(now);
        self.reminder.rearm(now, !feed.is_complete(), remind_after);
        let bitmap_room = (body.len() - AckBody::BYTES).min(MAX_BITMAP_BYTES);
        let bitmap_bytes = match self.policy {
            Policy::HolesAllowed => feed.write_holes(&mut body[AckBody::BYTES..][..bitmap_room]),
            Policy::InOrderOnly => 0,
        };
        (AckBody { limit, below, consumed, held_us }.write(feed.head(), body, bitmap_bytes), echo)
    }

    fn report_gap(&mut self, now: Instant, from: u64, to: u64, at: u64) {
        if self.receipt.is_new_gap(at) {
            self.gap = Some(Gap::new(from, to, now + self.backoff.wait(from)).and(self.gap));
        }
    }

    fn count(&mut self, now: Instant, received: Received<'_>) {
        let unacknowledged = self.receipt.count();
        self.silent = self.schedule.is_silent(received.pushed);
        let (sequence, flags) = (received.header.sequence, received.header.flags);
        // A repeat was meant for this receiver.
        let used_up = sequence >= self.advertised.saturating_sub(1);
        let asked = flags.has(Flags::ACK_NOW)
            && (flags.has(Flags::RESENT) || self.schedule.must_acknowledge(used_up, unacknowledged));
        if asked || flags.has(Flags::LAST) {
            self.receipt.hasten(now + self.stagger);
        } else if self.schedule.is_due(sequence, unacknowledged, received.pushed, self.half_credit) {
            self.receipt.hasten(now);
        } else if let Some(delay) = self.schedule.delay(received.pushed) {
            self.receipt.hasten(now + delay);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::MacAddr;

    #[test]
    fn a_parent_is_another_once() {
        let [one, other] = [1, 2].map(|last| Peer { rank: Rank(7), mac: MacAddr::new(2, 0, 0, 0, 0, last) });
        let mut upstream = Upstream::new(Some(one));
        assert!(!upstream.set_parent(one) && upstream.set_parent(other) && !upstream.set_parent(other));
        assert_eq!(upstream.parent, Some(other));
    }
}
