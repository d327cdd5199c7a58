//! Receiving end of a stream: stores frames, and decides when to acknowledge.

use super::terms::StreamStats;
use crate::arq::loss_detection::ProbeTimer;
use crate::arq::receipt::Receipt;
use crate::arq::stamp::Stamp;
use crate::feed::{Feed, Inserted};
use crate::time::Instant;
use crate::tuning::{Policy, Tuning};
use crate::wire::{AckBody, Flags, Frame, Header, Identity, MAX_BITMAP_BYTES, Parity, Peer, Rank};
use std::ops::Range;
use std::time::Duration;

const REMIND_AFTER: Duration = Duration::from_secs(1);
const MAX_REMIND_AFTER: Duration = Duration::from_secs(16);
/// First silence of a receiver with a key, in acknowledgement delays.
const KEYED_REMIND_AFTER: u32 = 4;
const MAX_DOUBLINGS: u32 = 16;

fn remind_after(first: Duration) -> impl Fn(u32) -> Duration {
    move |tries| (first * (1 << tries.min(MAX_DOUBLINGS))).min(MAX_REMIND_AFTER)
}

/// Hosts that may send a receiver frames of its stream: the `parent`, to which it acknowledges and
/// whose stamps it echoes (none at the origin), and the `origin`, which sends a cast's new frames
/// to every receiver, and frames that no other host has any more.
#[derive(Clone, Debug)]
pub(super) struct Upstream {
    pub(super) parent: Option<Peer>,
    origin: Option<Peer>,
}

impl Upstream {
    pub(super) fn new(parent: Option<Peer>) -> Upstream {
        Upstream {
            parent,
            origin: parent,
        }
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
pub(super) struct AckState {
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

/// Receiving end of a stream. An update is sent when one of `parts` equal parts of the feed has
/// been freed; the next acknowledgement leaves before `half_credit`, half of the credit granted
/// last, is used up.
///
/// After `remind_after` of silence a receiver that expects more reports its state without a
/// request: a forged acknowledgement in its name may have convinced its parent that it lacks
/// nothing. With keys that cannot be, but by any frame under its address a switch may have learned
/// a wrong port for it, and sends it nothing more until it sends a frame itself: so it does soon.
#[derive(Clone, Debug)]
pub(super) struct Intake {
    policy: Policy,
    schedule: AckSchedule,
    backoff: ReportBackoff,
    parts: u64,
    stagger: Duration,
    receipt: Receipt,
    remind_after: Duration,
    reminder: ProbeTimer,
    silent: bool,
    heard: bool,
    gap: Option<Gap>,
    advertised: u64,
    half_credit: u64,
    below: u64,
    consumed: u64,
}

impl Intake {
    pub(super) fn new(identity: &Identity, tuning: &Tuning) -> Intake {
        let remind_after = if identity.guard.is_keyed() {
            // Staggered as other answers are, so that receivers of a cast do not report together.
            tuning.ack.delay * KEYED_REMIND_AFTER + tuning.ack.gap_delay
        } else {
            REMIND_AFTER
        };
        Intake {
            policy: tuning.policy,
            schedule: AckSchedule::new(identity.rank, tuning),
            backoff: ReportBackoff::new(identity, tuning),
            parts: tuning.ack.room_parts,
            stagger: tuning.ack.gap_delay,
            receipt: Receipt::default(),
            remind_after,
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
        [
            self.receipt.due(),
            self.gap.map(|gap| gap.due),
            self.reminder.due(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    pub(super) fn on_timeout(&mut self, now: Instant, feed: &Feed, stats: &mut StreamStats) {
        self.receipt.on_timeout(now);
        if self
            .reminder
            .on_timeout(now, remind_after(self.remind_after))
        {
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
        let Received {
            header, payload, ..
        } = received;
        self.note_received();
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
        let Received {
            header, payload, ..
        } = received;
        self.note_received();
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
                if header.flags.has(Flags::ACK_NOW)
                    && parity.frames().any(|sequence| !feed.has(sequence))
                {
                    let Range { start, end } = parity.frames();
                    self.gap = Some(
                        Gap::new(start, end, now + self.backoff.wait(header.sequence))
                            .and(self.gap),
                    );
                }
                if inserted == Inserted::New {
                    stats.parity_received += 1;
                    let unflagged = Header {
                        flags: Flags::default(),
                        ..*header
                    };
                    self.count(
                        now,
                        Received {
                            header: &unflagged,
                            ..received
                        },
                    );
                } else {
                    stats.duplicates += 1;
                }
            }
            Inserted::Beyond => stats.beyond_credit += 1,
            Inserted::Refused => stats.malformed += 1,
        }
        inserted == Inserted::New
    }

    fn note_received(&mut self) {
        self.heard = true;
        self.reminder = ProbeTimer::default();
    }

    pub(super) fn on_heartbeat(&mut self, now: Instant, header: &Header, payload: &[u8]) {
        self.note_received();
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
    pub(super) fn on_progress(
        &mut self,
        now: Instant,
        feed: &Feed,
        standing: AckState,
        flushed: u64,
    ) {
        if !self.heard {
            return;
        }
        if flushed > self.consumed {
            self.receipt.hasten(now);
        }
        let room = standing.limit;
        let exhausted =
            feed.highest() >= self.advertised && room > self.advertised && !feed.is_complete();
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

    pub(super) fn is_ready(
        &mut self,
        now: Instant,
        feed: &Feed,
        more: bool,
        stats: &mut StreamStats,
    ) -> bool {
        self.on_timeout(now, feed, stats);
        if !more {
            self.reminder = ProbeTimer::default();
        } else {
            self.reminder.arm(now, remind_after(self.remind_after));
        }
        self.receipt.is_ready()
    }

    pub(super) fn acknowledge(
        &mut self,
        now: Instant,
        feed: &Feed,
        standing: AckState,
        body: &mut [u8],
    ) -> (usize, Stamp) {
        self.gap = None;
        let AckState {
            below,
            consumed,
            limit,
        } = standing;
        (self.advertised, self.below, self.consumed) = (limit, below, consumed);
        self.half_credit = ((limit - feed.head()) / 2).max(1);
        let (echo, held_us) = self.receipt.settle(now);
        self.reminder
            .rearm(now, !feed.is_complete(), remind_after(self.remind_after));
        let bitmap_room = (body.len() - AckBody::BYTES).min(MAX_BITMAP_BYTES);
        let bitmap_bytes = match self.policy {
            Policy::HolesAllowed => feed.write_holes(&mut body[AckBody::BYTES..][..bitmap_room]),
            Policy::InOrderOnly => 0,
        };
        (
            AckBody {
                limit,
                below,
                consumed,
                held_us,
            }
            .write(feed.head(), body, bitmap_bytes),
            echo,
        )
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
            && (flags.has(Flags::RESENT)
                || self.schedule.must_acknowledge(used_up, unacknowledged));
        if asked || flags.has(Flags::LAST) {
            self.receipt.hasten(now + self.stagger);
        } else if self
            .schedule
            .is_due(sequence, unacknowledged, received.pushed, self.half_credit)
        {
            self.receipt.hasten(now);
        } else if let Some(delay) = self.schedule.delay(received.pushed) {
            self.receipt.hasten(now + delay);
        }
    }
}

/// Times of a receiver's acknowledgements. Each receiver has its `turn`, so that not all
/// acknowledge at the same time. Under strict go-back-n it must acknowledge within the `window`.
#[derive(Clone, Debug)]
struct AckSchedule {
    rank: Rank,
    every: u64,
    delay: Duration,
    designated: Option<(u64, Duration)>,
    is_designated: bool,
    turn: Option<u64>,
    window: u64,
}

impl AckSchedule {
    fn new(rank: Rank, tuning: &Tuning) -> AckSchedule {
        AckSchedule {
            rank,
            every: tuning.ack.every_frames,
            // The last receiver of a round waits up to twice as long.
            delay: tuning.ack.delay
                + tuning.ack.delay * tuning.ack.turn_permille.unwrap_or(0) as u32 / 1000,
            designated: tuning
                .designates()
                .then_some((tuning.designated.every_frames, tuning.designated.delay)),
            is_designated: tuning.designated.first,
            turn: tuning
                .ack
                .turn_permille
                .map(|permille| tuning.ack.every_frames * permille / 1000),
            window: tuning.strict_window(),
        }
    }

    fn designate(&mut self, rank: Rank) {
        self.is_designated = rank == self.rank;
    }

    fn as_designated(&self) -> Option<(u64, Duration)> {
        self.designated.filter(|_| self.is_designated)
    }

    /// Whether this receiver must reply to a frame whose sender is stuck: it is the acker, there is
    /// none, or its credit or window is used up.
    fn must_acknowledge(&self, credit_is_used_up: bool, unacknowledged: u64) -> bool {
        self.designated.is_none()
            || self.is_designated
            || credit_is_used_up
            || unacknowledged >= self.window
    }

    /// Whether frame `sequence` is acknowledged, with `unacknowledged` frames before it; `most` is
    /// half of the credit. In the push phase one receiver acknowledges for all (EQA §3.3).
    fn is_due(&self, sequence: u64, unacknowledged: u64, pushed: bool, most: u64) -> bool {
        let every = match self.as_designated() {
            Some((every, _)) => every,
            None if self.is_silent(pushed) => return unacknowledged >= self.window,
            None => self.every,
        };
        let in_turn = self
            .turn
            .is_some_and(|turn| sequence % self.every == turn && unacknowledged >= self.every / 2);
        in_turn || unacknowledged >= every.min(most)
    }

    fn delay(&self, pushed: bool) -> Option<Duration> {
        match self.as_designated() {
            Some((_, delay)) => Some(delay),
            None => (!self.is_silent(pushed)).then_some(self.delay),
        }
    }

    fn is_silent(&self, pushed: bool) -> bool {
        pushed && !self.is_designated
    }
}

#[derive(Clone, Debug)]
struct ReportBackoff {
    stagger: Duration,
    random: Option<RandomBackoff>,
}

/// RFC 5401's truncated exponential distribution: most wait long, so that the first report serves
/// the others. With `lambda`, ln(group size) + 1, fewer report early in a larger group. `seed` is a
/// hash of the receiver: there is no random source here, and a number that differs between
/// receivers and losses will do.
#[derive(Clone, Debug)]
struct RandomBackoff {
    longest: Duration,
    lambda: f64,
    seed: u64,
}

impl ReportBackoff {
    fn new(identity: &Identity, tuning: &Tuning) -> ReportBackoff {
        let Identity {
            session,
            stream,
            rank,
            ..
        } = *identity;
        let random = |group: u32| RandomBackoff {
            longest: tuning.ack.group_round_trip * tuning.ack.backoff_round_trips,
            lambda: f64::from(group.max(1)).ln() + 1.0,
            seed: u64::from(session) << 32 | u64::from(stream.0) << 16 | u64::from(rank.0),
        };
        ReportBackoff {
            stagger: tuning.ack.gap_delay,
            random: tuning.ack.backoff_group.map(random),
        }
    }

    fn wait(&self, sequence: u64) -> Duration {
        self.random
            .as_ref()
            .map_or(self.stagger, |random| random.wait(sequence))
    }
}

impl RandomBackoff {
    fn wait(&self, sequence: u64) -> Duration {
        let uniform = (mix(self.seed ^ mix(sequence)) >> 11) as f64 / (1_u64 << 53) as f64;
        // Inverse of the distribution function: 0 maps to 0, 1 to the longest delay.
        let share = (uniform * self.lambda.exp_m1()).ln_1p() / self.lambda;
        self.longest.mul_f64(share.clamp(0.0, 1.0))
    }
}

/// Steele, Lea and Flood's finaliser (SplitMix64): neighbours come out unrelated.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gap {
    from: u64,
    to: u64,
    due: Instant,
}

impl Gap {
    fn new(from: u64, to: u64, due: Instant) -> Gap {
        Gap { from, to, due }
    }

    fn and(self, earlier: Option<Gap>) -> Gap {
        earlier.map_or(self, |gap| Gap {
            from: gap.from.min(self.from),
            to: gap.to.max(self.to),
            due: gap.due.min(self.due),
        })
    }

    fn is_open(&self, feed: &Feed) -> bool {
        (self.from.max(feed.head())..self.to).any(|sequence| !feed.has(sequence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{EtherType, Guard, MacAddr, StreamId};

    #[test]
    fn a_parent_is_another_once() {
        let [one, other] = [1, 2].map(|last| Peer {
            rank: Rank(7),
            mac: MacAddr::new(2, 0, 0, 0, 0, last),
        });
        let mut upstream = Upstream::new(Some(one));
        assert!(
            !upstream.set_parent(one) && upstream.set_parent(other) && !upstream.set_parent(other)
        );
        assert_eq!(upstream.parent, Some(other));
    }

    #[test]
    fn the_designated_one_speaks_often_and_the_others_in_turn_or_when_their_credit_is_used_up() {
        let tuning = Tuning::default().for_cast(100, 0);
        let mut schedule = AckSchedule::new(Rank(1), &tuning);
        let often = tuning.designated.every_frames;
        assert!(
            !schedule.is_due(500, often - 1, false, 5000)
                && schedule.is_due(500, often, false, 5000)
        );
        assert!(schedule.must_acknowledge(false, 1));
        schedule.designate(Rank(7));
        assert!(!schedule.is_due(500, often, false, 5000) && schedule.is_due(500, 16, false, 16));
        assert!(
            !schedule.is_due(2048, 1000, false, 5000) && schedule.is_due(2048, 1024, false, 5000),
            "its turn is the first of 2048"
        );
        assert!(
            schedule.is_due(2050, 2048, false, 5000),
            "if that was lost, the next will do"
        );
        assert!(!schedule.must_acknowledge(false, 1) && schedule.must_acknowledge(true, 1));
        schedule.designate(Rank(1));
        assert!(schedule.is_due(500, often, false, 5000));
    }

    #[test]
    fn a_pushed_frame_is_not_acknowledged_by_the_others_until_the_window_is_used_up() {
        let tuning = Tuning::push_pull().for_cast(4, 2);
        let schedule = AckSchedule::new(Rank(3), &tuning);
        assert!(!schedule.is_due(8, 9, true, 8) && schedule.is_due(8, 16, true, 8));
        assert_eq!(
            (schedule.delay(true), schedule.delay(false)),
            (None, Some(tuning.ack.delay))
        );
        assert!(schedule.is_due(12, tuning.ack.every_frames, false, 8));
        assert!(!schedule.must_acknowledge(false, 9) && schedule.must_acknowledge(false, 16));
    }

    fn backoff_of(rank: u16, tuning: &Tuning) -> ReportBackoff {
        ReportBackoff::new(
            &Identity {
                session: 7,
                stream: StreamId(1),
                rank: Rank(rank),
                mac: MacAddr::ZERO,
                ether_type: EtherType::DEFAULT,
                guard: Guard::Plain,
            },
            tuning,
        )
    }

    #[test]
    fn few_of_a_thousand_that_lost_the_same_frame_report_it_within_a_round_trip() {
        let tuning = Tuning::default();
        let mut group = tuning.clone();
        group.ack.backoff_group = Some(1000);
        let spoken = |sequence: u64| {
            let mut waits: Vec<Duration> = (1..=1000)
                .map(|rank| backoff_of(rank, &group).wait(sequence))
                .collect();
            waits.sort_unstable();
            assert!(waits[999] <= tuning.ack.group_round_trip * tuning.ack.backoff_round_trips);
            waits
                .iter()
                .filter(|&&wait| wait < waits[0] + tuning.ack.group_round_trip)
                .count()
        };
        let counts: Vec<usize> = (0..200).map(spoken).collect();
        assert!(counts.iter().sum::<usize>() < 200 * 12, "{counts:?}");
        let evenly = counts.iter().filter(|&&count| count > 100).count();
        assert_eq!(evenly, 0, "evenly spread, 167 of 1000 would speak");
    }

    #[test]
    fn among_few_each_has_its_own_short_time() {
        let tuning = Tuning::default().for_cast(16, 3);
        assert_eq!(backoff_of(4, &tuning).wait(9), tuning.ack.gap_delay);
    }

    #[test]
    fn a_gap_that_was_filled_needs_no_report() {
        let mut feed = Feed::new(16, 1);
        feed.add_reader(0);
        [0, 3, 5].into_iter().for_each(|sequence| {
            assert_ne!(
                feed.insert(sequence, &[], false),
                crate::feed::Inserted::Beyond
            )
        });
        let gap = Gap::new(1, 3, Instant::START);
        assert!(gap.is_open(&feed));
        feed.insert(1, &[], false);
        assert!(gap.is_open(&feed));
        feed.insert(2, &[], false);
        assert!(!gap.is_open(&feed));
        assert!(Gap::new(4, 5, Instant::START).and(Some(gap)).is_open(&feed));
    }
}
