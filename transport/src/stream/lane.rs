//! One receiver served by unicast with a window (*lane*), from the stream's shared buffer. (EQA's
//! lightweight directed point.)
//!
//! Two cursors: `cursor` follows the reader's acknowledgements, `next` is the go-back-n cursor of
//! first transmissions. Losses are found by evidence only (RFC 8985): a frame is lost when one sent
//! later has arrived. Timeouts send a heartbeat, never data; the reply is the evidence. Under
//! `InOrderOnly` a loss rewinds `next`; the timestamps drawn on the way forward limit that to one
//! rewind per gap. Under `HolesAllowed` only the missing frames are queued; a frame that has not
//! reached this host is skipped and sent when it arrives.
//!
//! A grafted child may need frames that this host has freed: the reader then stands above the
//! cursor, at the first frame still kept, and another host sends what lies between.

use super::boundaries::Boundaries;
use super::readers::{AckContext, AckFrom, Departure, Outgoing, ReaderState};
use super::terms::{Flight, Memory, tree_bytes};
use crate::arq::echo::{Behind, Echo};
use crate::arq::loss_detection::{LossDetection, News, ProbeTimer};
use crate::arq::stamp::{Stamp, StampRing, Stamps};
use crate::arq::window::{LossRound, SharedPath, Window};
use crate::feed::{Feed, ReaderId};
use crate::machine::{Deadline, Timer};
use crate::time::Instant;
use crate::tuning::{Policy, Tuning};
use crate::wire::{Ack, Peer};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

const MUTE_AFTER: Duration = Duration::from_secs(1);
const MUTE_TRIES: u8 = 3;
/// Window from which a child behind routers acknowledges it in parts, without being asked to.
const WIDE_FRAMES: u64 = 32;

/// Upper bound of a stream's length, below which no arithmetic overflows: 1.6 petabytes at an MTU
/// of 1500.
const MAX_FRAMES: u64 = 1 << 40;

/// Sources that may have sent frames to a child: this host alone; a former parent, too, which had
/// its frames from here; or any, as another stream served the child until now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origins {
    Here,
    Former,
    Elsewhere,
}

impl Origins {
    fn may_have(self, highest: u64, feed: &Feed) -> u64 {
        match self {
            Origins::Here => highest,
            Origins::Elsewhere => feed
                .head()
                .max(feed.expected_last().map_or(MAX_FRAMES, |last| last + 1)),
            Origins::Former => feed.highest(),
        }
    }
}

/// A child that is served by unicast. After a graft it is not `synced` until its first
/// acknowledgement has reported its cursor. It counts as mute after `MUTE_AFTER` of silence and
/// `MUTE_TRIES` unanswered probes: with a third of all frames lost each way one in a thousand would
/// seem to be.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    pub(super) peer: Peer,
    pub(super) reader: ReaderId,
    policy: Policy,
    pub(super) cursor: u64,
    pub(super) next: u64,
    highest: u64,
    limit: u64,
    pub(super) consumed: u64,
    awaited: u64,
    in_flight: u64,
    arrived: u64, // Frames that the child is known to have: the window's measure.
    sent: Transmissions,
    window: Window,
    round: LossRound,
    path: Option<SharedPath>, // To a child behind routers.
    echo: Echo,
    question: ProbeTimer,
    synced: bool,
    heard: bool,
    asked: u8,
    origins: Origins,
    moved_at: Instant, // It got further, or began to owe an answer.
}

impl Lane {
    pub(super) fn new(peer: Peer, feed: &mut Feed, tuning: &Tuning) -> Lane {
        let tail = if planted!("bridge-keeps-nothing") {
            feed.head()
        } else {
            feed.tail()
        };
        let reader = feed.add_reader(tail).expect("the tail can always be read");
        let is_beyond = tuning.subnet.is_some_and(|subnet| !subnet.has(peer.mac));
        let window = if is_beyond {
            Window::shared(&tuning.window, feed.payload_bytes())
        } else {
            Window::new(&tuning.window, u64::MAX)
        };
        Lane {
            peer,
            reader,
            policy: tuning.policy,
            cursor: tail,
            next: tail,
            highest: tail,
            limit: tail + tuning.window.start_frames,
            consumed: 0,
            awaited: 0,
            in_flight: 0,
            arrived: tail,
            sent: Transmissions::new(feed.slots()),
            window,
            round: LossRound::new(&tuning.window),
            path: is_beyond.then(SharedPath::default),
            echo: Echo::new(tuning),
            question: ProbeTimer::default(),
            synced: true,
            heard: false,
            asked: 0,
            origins: Origins::Here,
            moved_at: Instant::START,
        }
    }

    /// Creates a lane to a child that another host served until now. Everything still here is kept
    /// until it reports its cursor.
    pub(super) fn graft(now: Instant, peer: Peer, feed: &mut Feed, tuning: &Tuning) -> Lane {
        let mut lane = Lane {
            synced: false,
            origins: Origins::Former,
            ..Lane::new(peer, feed, tuning)
        };
        lane.question.on_probe();
        lane.arm(now);
        lane
    }

    pub(super) fn alone(peer: Peer, feed: &mut Feed, tuning: &Tuning) -> Lane {
        let mut lane = Lane {
            synced: false,
            origins: Origins::Elsewhere,
            ..Lane::new(peer, feed, tuning)
        };
        lane.question.on_probe();
        lane
    }

    pub(super) fn memory(&self) -> Memory {
        self.sent.memory()
    }

    pub(super) fn state(&self, feed: &Feed) -> ReaderState {
        let Lane {
            peer,
            cursor,
            next,
            in_flight,
            ..
        } = *self;
        let flight = Some(Flight {
            rank: peer.rank,
            next,
            in_flight,
            window: self.window.frames(),
        });
        let turn = self.waiting_since(feed).is_none().then_some(next);
        ReaderState {
            rank: peer.rank,
            cursor,
            flight,
            turn,
            lost: None,
        }
    }

    pub(super) fn due(&self) -> Option<Deadline> {
        let deadline = |at: Option<Instant>, why| at.map(|at| Deadline { at, why });
        let probe = deadline(self.question.due(), Timer::HEARTBEAT);
        let paced = deadline(self.path.as_ref().and_then(SharedPath::due), Timer::PACE);
        probe.into_iter().chain(paced).min()
    }

    pub(super) fn on_ack(&mut self, context: AckContext<'_>) -> AckFrom {
        self.heard = true;
        self.end(context.feed);
        let (ack, forged) = context.believe(self.origins.may_have(self.highest, context.feed));
        self.on_believed(AckContext {
            ack: &ack,
            ..context
        })
        .forged_if(forged)
    }

    fn on_believed(
        &mut self,
        AckContext {
            now,
            ack,
            newest,
            feed,
            round_trip,
            ..
        }: AckContext<'_>,
    ) -> AckFrom {
        let behind = self.synced && ack.cursor < self.cursor;
        if behind && !self.is_contradicted(now, ack, feed) {
            return self.known(feed);
        }
        let further = self.cursor < ack.cursor
            || self.limit < ack.body.limit
            || self.consumed < ack.body.consumed;
        let more = further || !self.synced;
        if !self.synced {
            self.sync(ack, feed);
        }
        self.know(ack.covered());
        self.note_arrival(ack);
        let limiting = self.window.is_limiting(self.in_flight);
        let newly = self.advance(ack, feed);
        let quiet = newly == 0 && ack.body.consumed <= self.consumed;
        let only_consuming = quiet && ack.cursor == self.highest;
        let only_lacking = quiet && self.cursor == ack.cursor && self.is_orphaned(feed);
        if more || newly > 0 {
            self.moved_at = now;
        }
        (self.cursor, self.next) = (ack.cursor, self.next.max(ack.cursor));
        self.limit = self
            .limit
            .max(ack.body.limit + u64::from(planted!("credit-off-by-one")));
        self.consumed = self.consumed.max(ack.body.consumed);
        let from = self.from(feed);
        self.sent.settle(ack, from);
        let echo = self.echo.take(now, ack);
        let fresh = echo.is_some();
        let (lost, lost_at) = echo.map_or((0, Stamp::NONE), |echo| {
            *round_trip = echo.round_trip;
            self.find_lost(ack, from, feed)
        });
        self.in_flight = self.next - from;
        if self.policy == Policy::HolesAllowed {
            self.in_flight = self
                .in_flight
                .saturating_sub(ack.arrived_from(from) + self.sent.queued());
        }
        let arrived = from + ack.arrived_from(from);
        let newly = arrived.saturating_sub(self.arrived);
        self.arrived = self.arrived.max(arrived);
        let recovered = |path: &SharedPath| path.is_recovered(now, self.echo.newest());
        if limiting && self.path.as_ref().is_none_or(recovered) {
            self.window.grow(newly);
        }
        if let Some(path) = &mut self.path {
            // Only what is waited for is silence; a source without data is none.
            let waited = echo.filter(|_| self.question.tries > 0);
            let silence = waited.map_or(Duration::ZERO, |echo| echo.since_last);
            let stamps = (lost_at, newest);
            path.on_answer(now, stamps, silence, self.echo.rtt(), &mut self.window);
        } else if self.round.is_heavy(newly, lost, Stamp(ack.echo), newest) {
            self.window.cut();
        }
        let news = News::new(fresh, more, only_consuming || (only_lacking && lost == 0));
        let waiting = self.is_waiting(feed);
        self.question.on_ack(now, news, waiting, |tries| {
            self.echo.rtt().emptied_timeout(tries)
        });
        self.known(feed).forged_if(behind)
    }

    /// Drops state beyond the stream's end, which may become known only with the last frame.
    fn end(&mut self, feed: &Feed) {
        if let Some(end) = feed
            .last()
            .map(|last| last + 1)
            .filter(|&end| end < self.next)
        {
            (self.next, self.highest) = (end, end);
            self.sent.end_at(end);
        }
    }

    pub(super) fn on_data(&mut self, sequence: u64, late: bool, feed: &Feed) {
        if late {
            self.sent.on_arrival(sequence);
        }
        self.end(feed);
    }

    /// Whether an acknowledgement behind the cursor proves the cursor wrong. The child is then
    /// served as if just grafted, from what is still kept. A doubtful acknowledgement is probed.
    fn is_contradicted(&mut self, now: Instant, ack: &Ack<'_>, feed: &mut Feed) -> bool {
        let judged = self.echo.judge_behind(ack);
        let contradicted = judged == Behind::Contradiction;
        if contradicted {
            feed.rewind(self.reader);
            let tail = feed.tail();
            (self.cursor, self.next, self.limit, self.consumed) = (tail, tail, tail, 0);
            self.synced = false;
            if self.origins == Origins::Here {
                self.origins = Origins::Former;
            }
        } else {
            self.question
                .doubt(now, judged, |tries| self.echo.rtt().emptied_timeout(tries));
        }
        contradicted
    }

    fn from(&self, feed: &Feed) -> u64 {
        self.cursor.max(feed.position(self.reader))
    }

    fn is_orphaned(&self, feed: &Feed) -> bool {
        self.cursor < feed.position(self.reader)
    }

    fn is_of_use(&self, feed: &Feed) -> bool {
        self.policy == Policy::HolesAllowed || !self.is_orphaned(feed)
    }

    fn known(&self, feed: &Feed) -> AckFrom {
        AckFrom::known(
            self.peer.rank,
            self.cursor,
            self.limit,
            feed.position(self.reader),
        )
    }

    fn sync(&mut self, ack: &Ack<'_>, feed: &mut Feed) {
        self.synced = true;
        if self.origins == Origins::Elsewhere && ack.cursor > feed.head() {
            feed.skip_to(ack.cursor);
        }
        (self.cursor, self.limit) = (ack.cursor, ack.body.limit);
        let from = self.from(feed);
        (self.next, self.highest, self.arrived) = (from, from, from + ack.arrived_from(from));
        let lacking = (from..ack.covered()).filter(|&sequence| !ack.has(sequence));
        self.sent
            .replace_queued(lacking, |sequence| is_to_come(sequence, feed));
    }

    /// Records that the child has frames of others up to `covered`; no other frame here was sent
    /// under a stamp of this lane.
    fn know(&mut self, covered: u64) {
        if covered > self.highest {
            self.sent.forget(self.next..covered);
            self.highest = covered;
            self.next = self.next.max(covered);
        }
    }

    /// Measures reordering if the frame at the cursor has arrived. Under strict go-back-n there is
    /// nothing to measure: the frames that overtook it were dropped.
    fn note_arrival(&mut self, ack: &Ack<'_>) {
        if self.policy == Policy::HolesAllowed
            && self.cursor < self.next
            && ack.cursor > self.cursor
        {
            let (before, last) = self.sent.before_and_last(self.cursor);
            if self.echo.on_arrival(before, last, ack) {
                self.window.undo_cut();
                self.round.forgive();
            }
        }
    }

    fn advance(&self, ack: &Ack<'_>, feed: &mut Feed) -> u64 {
        let before = self.from(feed);
        if self.origins == Origins::Elsewhere && ack.cursor > feed.head() {
            feed.skip_to(ack.cursor);
        }
        let below = if planted!("ack-frees-for-grandchildren") {
            ack.cursor
        } else {
            ack.body.below
        };
        assert!(
            ack.cursor <= feed.highest(),
            "nobody has what has never been here"
        );
        // The child may have received from others what this lane would send next.
        feed.advance(
            self.reader,
            below.min(feed.head()).max(feed.position(self.reader)),
        );
        ack.cursor.saturating_sub(before)
    }

    /// Queues the frames that the echo proves lost. Returns their number, and the stamp of the last
    /// one.
    fn find_lost(&mut self, ack: &Ack<'_>, from: u64, feed: &Feed) -> (u64, Stamp) {
        let evidence = LossDetection {
            echo: self.echo.newest(),
            tolerance: self.echo.tolerance(),
            covered: ack.covered(),
        };
        let mut found = evidence.missing(ack, from..self.next, |sequence| self.sent.last(sequence));
        match self.policy {
            Policy::HolesAllowed => {
                let found: Vec<u64> = found.collect();
                let sent_at = found.iter().map(|&sequence| self.sent.last(sequence));
                let last = sent_at.fold(Stamp::NONE, |last, stamp| match stamp.is_after(last) {
                    true => stamp,
                    false => last,
                });
                let lost = self
                    .sent
                    .add_repairs(found.into_iter(), |sequence| is_to_come(sequence, feed));
                (lost, last)
            }
            // Only the cursor itself is judged: the receiver dropped what follows it, and all of
            // that goes out again.
            Policy::InOrderOnly => {
                let rewind = found.next() == Some(from) && from == self.cursor;
                if !rewind {
                    return (0, Stamp::NONE);
                }
                self.next = self.cursor + u64::from(planted!("rewind-one-short"));
                (1, self.sent.last(from))
            }
        }
    }

    pub(super) fn on_timeout(&mut self, now: Instant) {
        self.question
            .on_timeout(now, |tries| self.echo.rtt().emptied_timeout(tries));
        self.path.iter_mut().for_each(|path| path.on_timeout(now));
    }

    /// Whether the child is in the middle of a segment, and waits for its acknowledgement. One
    /// behind routers waits for those, and meanwhile others may be served.
    pub(super) fn is_pausing(&self, feed: &Feed, boundaries: &Boundaries) -> bool {
        let more = self.next < boundaries.whole_segments(feed.head(), feed.is_complete());
        self.synced
            && more
            && self.path.is_none()
            && self.question.tries == 0
            && self.cursor < self.next
            && !boundaries.ends_at(self.next)
    }

    pub(super) fn poll_transmit(
        &mut self,
        now: Instant,
        turn: bool,
        feed: &Feed,
        boundaries: &Boundaries,
        stamps: &mut Stamps,
    ) -> Option<Departure> {
        if self.question.take() {
            self.asked = self.asked.saturating_add(1);
            self.arm(now);
            let outgoing = Outgoing::Heartbeat {
                highest: self.highest,
                designated: None,
            };
            return Some(Departure {
                outgoing,
                to: self.peer.mac,
                stamp: stamps.draw(now),
            });
        }
        if !self.synced
            || self.in_flight >= self.window.frames()
            || self.path.as_mut().is_some_and(|path| !path.admits(now))
        {
            return None;
        }
        let next = self
            .next_queued(feed)
            .or_else(|| turn.then(|| self.next_in_order(feed, boundaries))?);
        let Some((sequence, again)) = next else {
            if self.question.due().is_none() {
                self.rearm(now, feed);
            }
            return None;
        };
        if boundaries.is_reported(sequence) {
            self.awaited = self.awaited.max(sequence + 1);
        }
        let stamp = stamps.draw(now);
        self.sent.sent(sequence, stamp);
        self.highest = self.highest.max(self.next);
        if let Some(path) = &mut self.path {
            path.on_sent(now, self.in_flight, self.echo.rtt(), &mut self.window);
        }
        self.in_flight += 1;
        let is_wide = self.path.is_some() && self.window.frames() >= WIDE_FRAMES;
        let is_full = self.in_flight >= self.window.frames() && !is_wide;
        let blocked = is_full || self.next >= self.limit;
        self.arm(now);
        let outgoing = Outgoing::Data {
            sequence,
            again,
            urgent: blocked && self.next_queued(feed).is_none(),
        };
        Some(Departure {
            outgoing,
            to: self.peer.mac,
            stamp,
        })
    }

    fn next_queued(&self, feed: &Feed) -> Option<(u64, bool)> {
        let again = self
            .sent
            .next_repair(|sequence| feed.has(sequence))
            .map(|sequence| (sequence, true));
        again.or_else(|| {
            self.sent
                .next_late(|sequence| feed.has(sequence))
                .map(|sequence| (sequence, false))
        })
    }

    fn next_in_order(&mut self, feed: &Feed, boundaries: &Boundaries) -> Option<(u64, bool)> {
        let end = match self.policy {
            Policy::HolesAllowed => boundaries.sendable(feed),
            Policy::InOrderOnly => boundaries.whole_segments(feed.head(), feed.is_complete()),
        };
        let end = if self.is_of_use(feed) {
            end.min(self.limit)
        } else {
            self.next
        };
        let sequence = (self.next..end).find(|&sequence| feed.has(sequence))?;
        self.sent.pass_over(self.next..sequence);
        self.next = sequence + 1;
        Some((sequence, sequence < self.highest))
    }

    /// Whether only the child's reply allows progress: frames are unacknowledged, credit is used
    /// up, the feed is full of frames kept for the child's own children, or a message is not
    /// consumed.
    fn is_waiting(&self, feed: &Feed) -> bool {
        let starved = self.next >= self.limit && feed.highest() > self.next;
        let retained = feed.position(self.reader) < self.cursor && feed.head() == feed.limit();
        // Then this host itself lacks what the child lacks, and cannot give credit without it.
        let lacking_here =
            self.in_flight == 0 && self.sent.has_passed_over() && !self.is_orphaned(feed);
        let owes = (self.cursor < self.highest || starved) && !lacking_here;
        // A child cannot consume a message that has not all arrived.
        owes || retained || self.consumed < self.awaited.min(self.cursor)
    }

    pub(super) fn waiting_since(&self, feed: &Feed) -> Option<Instant> {
        (!self.synced || self.is_waiting(feed)).then_some(self.moved_at)
    }

    pub(super) fn is_mute(&self, now: Instant, feed: &Feed) -> bool {
        let waits_for_long = self
            .waiting_since(feed)
            .is_some_and(|since| now.since(since) >= MUTE_AFTER);
        !self.heard && waits_for_long && self.asked >= MUTE_TRIES
    }

    fn arm(&mut self, now: Instant) {
        if self
            .question
            .arm(now, |tries| self.echo.rtt().emptied_timeout(tries))
        {
            self.moved_at = now;
        }
    }

    fn rearm(&mut self, now: Instant, feed: &Feed) {
        let waiting = self.is_waiting(feed);
        self.question
            .rearm(now, waiting, |tries| self.echo.rtt().emptied_timeout(tries));
    }
}

fn is_to_come(sequence: u64, feed: &Feed) -> bool {
    sequence < feed.highest() && !feed.has(sequence)
}

#[derive(Clone, Debug)]
pub(super) struct Transmissions {
    last: StampRing,
    before: BTreeMap<u64, Stamp>,
    repairs: BTreeSet<u64>,
    passed_over: BTreeSet<u64>,
    late: BTreeSet<u64>,
}

impl Transmissions {
    pub(super) fn new(slots: u64) -> Transmissions {
        Transmissions {
            last: StampRing::new(slots),
            before: BTreeMap::new(),
            repairs: BTreeSet::new(),
            passed_over: BTreeSet::new(),
            late: BTreeSet::new(),
        }
    }

    pub(super) fn memory(&self) -> Memory {
        let before_bytes = tree_bytes(self.before.len(), size_of::<(u64, Stamp)>());
        let queued = self.repairs.len() + self.passed_over.len() + self.late.len();
        let repairs_bytes = tree_bytes(queued, size_of::<u64>()) + before_bytes;
        Memory {
            readers_bytes: self.last.bytes(),
            repairs_bytes,
            ..Memory::default()
        }
    }

    pub(super) fn last(&self, sequence: u64) -> Stamp {
        self.last.get(sequence)
    }

    pub(super) fn before_and_last(&self, sequence: u64) -> (Stamp, Stamp) {
        let last = self.last(sequence);
        (self.before.get(&sequence).copied().unwrap_or(last), last)
    }

    #[inline]
    pub(super) fn sent(&mut self, sequence: u64, stamp: Stamp) {
        if !self.repairs.is_empty() && self.repairs.remove(&sequence) {
            self.before.insert(sequence, self.last(sequence));
        }
        self.late.remove(&sequence);
        self.last.set(sequence, stamp);
    }

    pub(super) fn pass_over(&mut self, frames: Range<u64>) {
        self.forget(frames.clone());
        self.passed_over.extend(frames);
    }

    pub(super) fn on_arrival(&mut self, sequence: u64) {
        if self.passed_over.remove(&sequence) {
            self.late.insert(sequence);
        }
    }

    pub(super) fn end_at(&mut self, end: u64) {
        for queued in [&mut self.repairs, &mut self.passed_over, &mut self.late] {
            queued.split_off(&end);
        }
    }

    pub(super) fn forget(&mut self, frames: Range<u64>) {
        frames
            .take(self.last.slots())
            .for_each(|sequence| self.last.set(sequence, Stamp::NONE));
    }

    pub(super) fn settle(&mut self, ack: &Ack<'_>, from: u64) {
        let is_lacking = |&sequence: &u64| sequence >= from && !ack.has(sequence);
        self.repairs
            .retain(|sequence| is_lacking(sequence) || planted!("freed-slot-sent-again"));
        self.passed_over.retain(is_lacking);
        self.late.retain(is_lacking);
        if self
            .before
            .first_key_value()
            .is_some_and(|(&first, _)| first < from)
        {
            self.before = self.before.split_off(&from);
        }
    }

    pub(super) fn replace_queued(
        &mut self,
        frames: impl Iterator<Item = u64>,
        to_come: impl Fn(u64) -> bool,
    ) {
        (self.passed_over, self.repairs) = frames.partition(|&sequence| to_come(sequence));
        self.late.clear();
    }

    /// Adds `frames` to the queue of repeats; returns how many are new. A frame never sent from
    /// here is not lost, nor is one that is `to_come`: it is sent when it arrives.
    pub(super) fn add_repairs(
        &mut self,
        frames: impl Iterator<Item = u64>,
        to_come: impl Fn(u64) -> bool,
    ) -> u64 {
        let before = self.repairs.len();
        for sequence in frames {
            if to_come(sequence) {
                self.passed_over.insert(sequence);
            } else if !self.late.contains(&sequence) {
                self.repairs.insert(sequence);
            }
        }
        (self.repairs.len() - before) as u64
    }

    pub(super) fn queued(&self) -> u64 {
        (self.repairs.len() + self.passed_over.len() + self.late.len()) as u64
    }

    pub(super) fn has_passed_over(&self) -> bool {
        !self.passed_over.is_empty()
    }

    #[inline]
    pub(super) fn next_late(&self, is_here: impl Fn(u64) -> bool) -> Option<u64> {
        self.late
            .iter()
            .copied()
            .find(|&sequence| is_here(sequence))
    }

    #[inline]
    pub(super) fn next_repair(&self, is_here: impl Fn(u64) -> bool) -> Option<u64> {
        self.repairs
            .iter()
            .copied()
            .find(|&sequence| is_here(sequence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::AckBody;

    #[test]
    fn a_repair_keeps_the_stamp_of_the_transmission_before() {
        let mut sent = Transmissions::new(16);
        (3..9).for_each(|sequence| sent.sent(sequence, Stamp(sequence as u32)));
        assert_eq!(
            (
                sent.add_repairs([5, 7].into_iter(), |_| false),
                sent.add_repairs([5].into_iter(), |_| false)
            ),
            (2, 0)
        );
        assert_eq!(
            (
                sent.next_repair(|_| true),
                sent.next_repair(|at| at > 5),
                sent.queued()
            ),
            (Some(5), Some(7), 2)
        );
        sent.sent(5, Stamp(20));
        assert_eq!(
            (sent.before_and_last(5), sent.before_and_last(7)),
            ((Stamp(5), Stamp(20)), (Stamp(7), Stamp(7)))
        );
        sent.add_repairs([5].into_iter(), |_| false);
        sent.sent(5, Stamp(30));
        assert_eq!(sent.before_and_last(5), (Stamp(20), Stamp(30)));
        let body = AckBody {
            limit: 20,
            below: 6,
            consumed: 6,
            held_us: 0,
        };
        sent.settle(
            &Ack {
                cursor: 6,
                echo: 30,
                body,
                bitmap: &[0b1],
                end: u64::MAX,
            },
            6,
        );
        assert_eq!(
            (sent.queued(), sent.before_and_last(5)),
            (0, (Stamp(30), Stamp(30)))
        );
        sent.forget(8..1 << 40);
        assert_eq!(sent.last(8), Stamp::NONE);
    }

    #[test]
    fn skipped_frames_are_not_lost_and_are_sent_when_they_arrive() {
        let mut sent = Transmissions::new(16);
        sent.sent(2, Stamp(2));
        sent.pass_over(3..6);
        sent.sent(6, Stamp(6));
        assert_eq!(
            (
                sent.add_repairs(2..6, |sequence| sequence > 2),
                sent.queued(),
                sent.has_passed_over()
            ),
            (1, 4, true),
            "2 alone was sent"
        );
        assert_eq!(sent.next_late(|_| true), None);
        [9, 4, 3]
            .into_iter()
            .for_each(|sequence| sent.on_arrival(sequence));
        assert_eq!(
            (sent.next_late(|_| true), sent.queued()),
            (Some(3), 4),
            "9 is behind all that was sent"
        );
        sent.sent(3, Stamp(20));
        assert_eq!(
            (sent.next_late(|_| true), sent.before_and_last(3)),
            (Some(4), (Stamp(20), Stamp(20)))
        );
        let body = AckBody {
            limit: 20,
            below: 2,
            consumed: 2,
            held_us: 0,
        };
        sent.settle(
            &Ack {
                cursor: 2,
                echo: 20,
                body,
                bitmap: &[0b10],
                end: u64::MAX,
            },
            2,
        );
        assert_eq!(
            (sent.next_late(|_| true), sent.queued()),
            (None, 2),
            "the child has 4 from somebody else"
        );
        sent.end_at(5);
        assert_eq!((sent.queued(), sent.has_passed_over()), (1, false));
        sent.replace_queued([7, 8].into_iter(), |sequence| sequence == 7);
        assert_eq!(
            (
                sent.next_repair(|_| true),
                sent.queued(),
                sent.has_passed_over()
            ),
            (Some(8), 2, true)
        );
    }
}
