//! A receiver that has joined: follows the sender's member lists, receives and relays, reports the
//! outcome.

use super::config::{End, ReceiverConfig, ReceiverEndpoint, ReceiverEvent};
use super::fetching::Fetching;
use super::waiting::Joining;
use crate::measure::Responder;
use crate::membership::Timing;
use crate::membership::timers::{CLAIM_PERIOD, jitter, turn};
use crate::membership::timers::{TimerTable, Wait};
use crate::session::blocks::{Blocks, Dealing};
use crate::session::message::{
    Digest, Done, Fetch, FetchedPiece, MemberState, Message, Needs, Outcome, Status, Taken,
    Trailer, Verdict, ViewPart,
};
use crate::session::view::{Assembler, MemberRole, View};
use ethbcast_planning::plan::Via;
use ethbcast_transport::stream::Ending;
use ethbcast_transport::wire::{Frame, Rank};
use ethbcast_transport::{Deadline, Instant, Kept, MacAddr, Part, SplitFrame, planted};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

const GAP_REPORTS: Duration = Duration::from_millis(2);

/// Session of a receiver that has joined. Until the first frame comes `joining` replies to the
/// root, as the view may be forged, and this host not a member. From then on `responder` counts the
/// frames of the root's measurement trains.
#[derive(Clone, Debug)]
pub(super) struct MemberPhase {
    view: Arc<View>,
    digest: Digest,
    rank: Rank,
    assembler: Assembler,
    competing_view: Option<(Digest, Instant)>,
    joining: Option<Box<Joining>>,
    responder: Option<Responder>,
    blocks: Blocks,
    fetching: Fetching,
    givers: Upstreams,
    complete: bool,
    syncing: bool,
    report: Option<Done>,
    reports: u32,
    accepted: bool,
    confirmed: bool,
    reported_gap_at: Option<Instant>,
    confirmed_view: Option<(Digest, Instant)>,
    has_others: bool,
    timers: TimerTable,
}

impl MemberPhase {
    pub(super) fn new(
        now: Instant,
        (view, digest): (Arc<View>, Digest),
        rank: Rank,
        joining: Box<Joining>,
        endpoint: &mut ReceiverEndpoint,
    ) -> MemberPhase {
        let (receivers, via) = (view.members.len() - 1, view.via);
        let size = view
            .size
            .map(|bytes| endpoint.config().form.content_bytes(bytes));
        log::info!("rank {rank} of {receivers} receivers via {via}");
        let (selective, cipher) = (view.selective, endpoint.content_cipher());
        endpoint.push_event(ReceiverEvent::Started {
            rank,
            receivers,
            via,
            size,
            selective,
            cipher,
        });
        MemberPhase {
            joining: Some(joining),
            ..MemberPhase::begin(now, (view, digest), rank, endpoint)
        }
    }

    fn begin(
        now: Instant,
        (view, digest): (Arc<View>, Digest),
        rank: Rank,
        endpoint: &mut ReceiverEndpoint,
    ) -> MemberPhase {
        endpoint.adopt(rank, view.epoch);
        endpoint.throttle_mut().set(view.rate);
        let config = endpoint.config();
        let blocks = Blocks::new(
            endpoint.identity(),
            config.station.group_mac,
            &view,
            &config.tuning,
        );
        // All members begin at the same moment; their status reports are spread over the period.
        let period = config.timing.among(view.members.len() - 1).status;
        let offset = period * u32::from(rank.0) / view.members.len().max(1) as u32;
        let mut timers = TimerTable::default();
        timers.set(Wait::Status, now + offset);
        MemberPhase {
            digest,
            fetching: Fetching::default(),
            givers: Upstreams::new(&view),
            view,
            rank,
            assembler: Assembler::new(endpoint.config().views.clone()),
            competing_view: None,
            joining: None,
            responder: None,
            blocks,
            complete: false,
            syncing: false,
            report: None,
            reports: 0,
            accepted: false,
            confirmed: false,
            reported_gap_at: None,
            confirmed_view: None,
            has_others: false,
            timers,
        }
    }

    /// Sends a status report at once if other traffic on the link has just appeared, unless the
    /// members are more than can each report at the usual interval: a broadcast appears to all at
    /// one moment.
    pub(super) fn note_link(&mut self, now: Instant, has_others: bool, timing: &Timing) {
        let had_others = std::mem::replace(&mut self.has_others, has_others);
        let are_many = timing.among(self.view.members.len() - 1) != *timing;
        if has_others && !had_others && !are_many {
            self.timers.set(Wait::Status, now);
        }
    }

    pub(super) fn view(&self) -> &View {
        &self.view
    }

    pub(super) fn rank(&self) -> Rank {
        self.rank
    }

    pub(super) fn view_bytes(&self) -> usize {
        self.assembler.bytes()
    }

    pub(super) fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    pub(super) fn consume(&mut self, now: Instant, frames: u64) -> Ending {
        let ending = self.blocks.consume(now, frames);
        self.complete |= ending == Ending::Stream;
        ending
    }

    pub(super) fn fetch(&mut self, now: Instant, wanted: Option<Range<u64>>, lacking: bool) {
        let (givers, view) = (&self.givers, &self.view);
        // Positions in the whole content have no relation to the frames of a selective session.
        let upstream = |bytes: &Range<u64>| {
            if view.selective {
                Rank::NONE
            } else {
                givers.of(bytes, self.rank, view)
            }
        };
        self.fetching.want(now, wanted, lacking, upstream);
    }

    pub(super) fn report_needs(&mut self, now: Instant, needs: Needs) {
        let at = now + self.turn();
        self.fetching.needing_mut().report(at, needs);
    }
    pub(super) fn settle_needs(&mut self, below: u64) {
        self.fetching.needing_mut().settle(below);
    }

    pub(super) fn take_fetched(&mut self) -> Option<Result<(u64, Vec<u8>), String>> {
        self.fetching.take()
    }

    pub(super) fn on_piece(&mut self, now: Instant, piece: &FetchedPiece) {
        self.fetching.on_piece(now, piece);
    }

    pub(super) fn on_question(&mut self, question: &Fetch) {
        self.fetching.on_question(question);
    }

    pub(super) fn wants_again(&self) -> Option<Range<u64>> {
        self.fetching.wants_again()
    }

    pub(super) fn supply(&mut self, bytes: &[u8]) {
        self.fetching.supply(
            bytes,
            FetchedPiece::fitting(self.blocks.payload_bytes(), self.blocks.guard()),
        );
    }
    pub(super) fn deny(&mut self) {
        self.fetching.deny();
    }

    pub(super) fn set_syncing(&mut self, syncing: bool) {
        self.syncing = syncing;
    }

    pub(super) fn conclude(
        &mut self,
        now: Instant,
        report: Done,
        endpoint: &ReceiverEndpoint,
    ) -> bool {
        if self
            .report
            .as_ref()
            .is_some_and(|report| report.outcome != Outcome::Verified)
        {
            return false;
        }
        if !report.is_success() {
            self.fetching.stop();
            // Long enough for the root to reply and the others to take over; short enough for a
            // user to wait.
            self.timers
                .set(Wait::Leave, now + endpoint.config().timing.status * 5);
        }
        (self.report, self.reports) = (Some(report), 0);
        self.timers.set(Wait::Verdict, now + self.turn());
        true
    }

    pub(super) fn on_stream_frame(
        &mut self,
        now: Instant,
        frame: &Frame<'_>,
        root: MacAddr,
        endpoint: &mut ReceiverEndpoint,
    ) {
        // In a broadcast, other hosts acknowledge the root's frames, which shows no round trip.
        if let Some(round_trip) = self.blocks.take_frame(now, frame) {
            let rank = frame.header.rank;
            endpoint.throttle_mut().on_round_trip(now, rank, round_trip);
        }
        if let Some(joining) = self.joining.take_if(|_| self.blocks.frames() > 0) {
            self.responder = Some(joining.into_responder());
            // The root sends when all have confirmed its view: no other confirmation is due.
            if self.has_confirmed(self.digest) {
                self.timers.clear(Wait::View);
            }
        }
        for (stream, gap) in self.blocks.orphans_after(frame) {
            // The root sends many frames without further reports, so that one report at intervals
            // suffices.
            if self
                .reported_gap_at
                .is_none_or(|at| now.since(at) >= GAP_REPORTS)
            {
                self.reported_gap_at = Some(now);
                endpoint.send(root, &Message::Orphan { stream, gap });
            }
        }
    }

    pub(super) fn on_probe(&mut self, now: Instant, frame: &Frame<'_>) {
        self.joining
            .iter_mut()
            .for_each(|joining| joining.echo_probe(now, frame));
        self.responder
            .iter_mut()
            .for_each(|responder| responder.count_train(now, frame));
    }

    pub(super) fn on_view_part(
        &mut self,
        now: Instant,
        part: &ViewPart,
        endpoint: &mut ReceiverEndpoint,
    ) -> Option<End> {
        let other = self.is_untouched() && part.digest != self.digest;
        if (part.epoch > self.view.epoch || other)
            && let Some(view) = self.assembler.take(part)
        {
            if !view.extends(&self.view) {
                if let Some(rank) = self.replaced_by(now, &view, part.digest, endpoint) {
                    let joining = self.joining.take();
                    *self = MemberPhase {
                        joining,
                        ..MemberPhase::begin(now, (view, part.digest), rank, endpoint)
                    };
                    self.confirm(now, part, endpoint);
                } else if part.epoch > self.view.epoch {
                    endpoint.count_malformed();
                }
                return None;
            }
            if view.members[self.rank.index()].standing == MemberRole::Gone {
                return Some(self.end(End::Dropped));
            }
            endpoint.adopt(self.rank, view.epoch);
            endpoint.throttle_mut().set(view.rate);
            self.givers
                .before(&view, self.rank, &self.view, &self.blocks);
            self.blocks.reshape(now, self.rank, &view);
            self.givers.after(self.rank, &view, &self.blocks);
            (self.digest, self.view) = (part.digest, view);
        }
        self.confirm(now, part, endpoint);
        None
    }

    fn has_confirmed(&self, digest: Digest) -> bool {
        self.confirmed_view
            .is_some_and(|(known, _)| known == digest)
    }

    pub(super) fn is_untouched(&self) -> bool {
        self.blocks.frames() == 0 && self.report.is_none()
    }

    /// Returns this host's rank in a view that replaces the present one before the first frame,
    /// because the present one may be forged. The root repeats its view until it is confirmed, so a
    /// replacement counts only when it comes again.
    fn replaced_by(
        &mut self,
        now: Instant,
        view: &View,
        digest: Digest,
        endpoint: &ReceiverEndpoint,
    ) -> Option<Rank> {
        let (known, since) = *self.competing_view.get_or_insert((digest, now));
        if known != digest || now.since(since) < endpoint.config().timing.view / 2 {
            self.competing_view = Some((digest, if known == digest { since } else { now }));
            return None;
        }
        let ReceiverConfig { station, nonce, .. } = endpoint.config();
        let offered = |view: &View| (view.size, view.content, view.chunk);
        let same = offered(view) == offered(&self.view)
            && view.names(Rank::ROOT, self.view.members[0].mac);
        let fits = self.is_untouched()
            && same
            && view.fits(station.payload_bytes())
            && !self.view.extends(view);
        view.rank_of(*nonce, station.mac).filter(|_| fits)
    }

    /// Schedules a confirmation of the view, one per repetition, whichever of its parts arrive. The
    /// root gets one also if it sends an older view, or another of this epoch: then this host's
    /// view was not the root's.
    pub(super) fn confirm(&mut self, now: Instant, part: &ViewPart, endpoint: &ReceiverEndpoint) {
        if part.epoch <= self.view.epoch
            && !(planted!("view-confirmed-once") && self.confirmed_view.is_some())
        {
            let half = endpoint.config().timing.view / 2;
            let (turn, seed) = (now + self.turn(), endpoint.config().nonce ^ now.as_nanos());
            let at = match self.confirmed_view {
                None => turn,
                // Confirmations that collided at the root's port must not collide again.
                Some((digest, at)) if digest == self.digest => {
                    turn.max(at + half) + jitter(half / 2, seed)
                }
                Some((_, at)) => turn.max(at + half),
            };
            self.timers.set_unless_set(Wait::View, at);
        }
    }

    pub(super) fn on_verdict(
        &mut self,
        verdict: &Verdict,
        endpoint: &mut ReceiverEndpoint,
    ) -> Option<End> {
        if let Some(report) = self.report.as_ref().filter(|report| report.outcome == Outcome::Verified)
            && !self.accepted
            && Verdict::names(&verdict.accepted, self.rank)
            // The root repeats what it confirms: a confirmation of another digest does not count.
            && verdict.trailer == Some(Trailer { bytes: report.bytes, digest: report.digest })
        {
            self.accepted = true;
            self.timers.clear(Wait::Verdict);
            endpoint.push_event(ReceiverEvent::Accepted);
        }
        let last = self
            .report
            .as_ref()
            .is_some_and(|report| report.outcome != Outcome::Verified);
        if last && Verdict::names(&verdict.heard, self.rank) {
            self.confirmed = true;
            self.timers.clear(Wait::Verdict);
        }
        match self.confirmed {
            true => (verdict.over || self.timers.is_set(Wait::Leave)).then_some(End::Confirmed),
            false => verdict.over.then(|| self.end(End::Dropped)),
        }
    }

    pub(super) fn handle_timeout(
        &mut self,
        now: Instant,
        (root, silence): (MacAddr, Duration),
        endpoint: &mut ReceiverEndpoint,
    ) -> Option<End> {
        let timing = endpoint.config().timing.among(self.view.members.len() - 1);
        self.fetching
            .handle_timeout(now, (root, silence >= timing.suspect), endpoint);
        if self.timers.take_due(Wait::View, now) {
            let arrived = self.blocks.frames();
            endpoint.send(
                root,
                &Message::Ready {
                    epoch: self.view.epoch,
                    digest: self.digest,
                    arrived,
                },
            );
            self.confirmed_view = Some((self.digest, now));
        }
        if self.timers.take_due(Wait::Status, now) {
            let link = endpoint.link_share(now);
            endpoint.send(
                root,
                &Message::Status(Status {
                    link,
                    ..self.status(now)
                }),
            );
            self.timers.set(Wait::Status, now + timing.status);
        }
        if self.timers.take_due(Wait::Verdict, now)
            && let Some(report) = &self.report
        {
            let stats = self.blocks.stats();
            let taken = Taken::new(stats.data_received, stats.data_repaired);
            let behind = endpoint.config().behind.clone();
            self.reports += 1;
            let to = endpoint.repeated_to(root, self.reports);
            endpoint.send(to, &Message::Done(report.clone(), taken, behind));
            let again = if report.is_success() {
                timing.verdict
            } else {
                CLAIM_PERIOD
            };
            // All members have everything at the same moment, and a switch's port may not hold
            // their reports.
            let apart = jitter(again / 4, endpoint.config().nonce ^ now.as_nanos());
            if !planted!("report-said-once") {
                self.timers.set(Wait::Verdict, now + again + apart);
            }
        }
        self.blocks.handle_timeout(now);
        self.timers
            .take_due(Wait::Leave, now)
            .then(|| self.end(End::Unconfirmed))
    }

    /// Returns how a session ends without a message of the root. That depends on whether the root
    /// has this host's last report; without a report it is `otherwise`.
    pub(super) fn end(&self, otherwise: End) -> End {
        match &self.report {
            _ if self.confirmed => End::Confirmed,
            Some(report) if report.outcome != Outcome::Verified => End::Unconfirmed,
            _ => otherwise,
        }
    }

    fn status(&self, now: Instant) -> Status {
        let (arrived, backlog) = (self.blocks.frames(), self.blocks.backlog_frames());
        // A host that waits for a mute child may also wait for others, and others for it.
        let mute = self.blocks.mute(now);
        let blocked_by = mute.or_else(|| self.blocks.blocked_by(now));
        let state = match &self.report {
            Some(report) if report.outcome == Outcome::Verified && self.accepted => {
                MemberState::Syncing
            }
            Some(report) if report.outcome == Outcome::Verified => MemberState::Settled,
            Some(_) => MemberState::Done,
            None if self.complete && self.syncing => MemberState::Syncing,
            None if self.complete => MemberState::Verifying,
            None if backlog > self.blocks.slots() / 2 => MemberState::Blocked,
            None if blocked_by.is_some() => MemberState::WaitsForChild,
            None if backlog == 0 => MemberState::Starved,
            None => MemberState::Alive,
        };
        let waits_for = blocked_by.or_else(|| self.blocks.held_up_by());
        Status {
            state,
            waits_for,
            arrived,
            consumed: arrived - backlog,
            is_mute: mute.is_some(),
            link: None,
        }
    }

    fn turn(&self) -> Duration {
        turn(self.rank, self.view.members.len())
    }

    pub(in crate::session::receiver) fn poll_transmit_split(
        &mut self,
        now: Instant,
        buffer: &mut [u8],
        endpoint: &mut ReceiverEndpoint,
    ) -> Option<SplitFrame> {
        let answer = match (&mut self.joining, &mut self.responder) {
            (Some(joining), _) => joining.poll_transmit(now, buffer),
            (None, responder) => responder
                .as_mut()
                .and_then(|responder| responder.poll_transmit(now, buffer)),
        };
        if let Some(length) = answer {
            return Some(SplitFrame::whole(length));
        }
        if !endpoint.throttle_mut().admits(now) {
            return self.blocks.poll_ack(now, buffer).map(SplitFrame::whole);
        }
        let before = self.fetching.poll(now, true);
        if before.is_none()
            && let Some(frame) = self.blocks.poll_transmit_split(now, buffer)
        {
            self.fetching.main_sent(now);
            return Some(frame);
        }
        let piece = before.or_else(|| self.fetching.poll(now, false))?;
        let root = self.view.members[Rank::ROOT.index()].mac;
        endpoint
            .write(buffer, root, &Message::Piece(piece))
            .map(SplitFrame::whole)
    }

    pub(in crate::session::receiver) fn payload(&self, kept: Kept) -> &[u8] {
        self.blocks.payload(kept)
    }

    pub(in crate::session::receiver) fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        let timeouts = [
            self.timers.next(),
            self.blocks.poll_timeout(now),
            self.fetching.poll_timeout(now),
        ];
        timeouts.into_iter().flatten().min()
    }
}

const MAX_FORMER: usize = 64;

#[derive(Clone, Copy, Debug)]
struct FormerUpstream {
    place: usize,
    end: u64,
    rank: Rank,
}

#[derive(Clone, Debug)]
pub(super) struct Upstreams {
    dealing: Dealing,
    former: Vec<FormerUpstream>,
    demoted_from: Option<u64>,
}

impl Upstreams {
    pub(super) fn new(view: &View) -> Upstreams {
        Upstreams {
            dealing: Dealing::new(view),
            former: Vec::new(),
            demoted_from: None,
        }
    }

    pub(super) fn before(&mut self, next: &View, own: Rank, view: &View, blocks: &Blocks) {
        let was_cast = view.via == Via::Cast;
        if !view.members[own.index()].is_in_place() || (was_cast && next.via == Via::Cast) {
            return;
        }
        for (place, (tree, new)) in view.trees().iter().zip(next.trees()).enumerate() {
            let rank = tree.parent(own).filter(|_| !was_cast).unwrap_or(Rank::ROOT);
            if Some(rank) != new.parent(own) && self.former.len() + 1 < MAX_FORMER {
                self.former.push(FormerUpstream {
                    place,
                    end: blocks.frames_of(place),
                    rank,
                });
                // Beyond this, frames come from the former and from the next peer.
                self.former.push(FormerUpstream {
                    place,
                    end: blocks.reached_of(place),
                    rank: Rank::NONE,
                });
            }
        }
    }

    pub(super) fn after(&mut self, own: Rank, view: &View, blocks: &Blocks) {
        if view.members[own.index()].is_in_place() {
            self.demoted_from = None;
        } else {
            self.demoted_from.get_or_insert(blocks.frames());
        }
    }

    /// Returns the sender of these bytes; [`Rank::NONE`] if there were several.
    pub(super) fn of(&self, bytes: &Range<u64>, own: Rank, view: &View) -> Rank {
        let payload_bytes = u64::from(view.payload_bytes.max(1));
        let mut frames = bytes.start / payload_bytes..bytes.end.div_ceil(payload_bytes);
        let first = frames
            .next()
            .map_or(Rank::NONE, |frame| self.of_frame(frame, own, view));
        if frames.all(|frame| self.of_frame(frame, own, view) == first) {
            first
        } else {
            Rank::NONE
        }
    }

    fn of_frame(&self, frame: u64, own: Rank, view: &View) -> Rank {
        // Frames of a broadcast come from the root, even if another member repairs them.
        if view.via == Via::Cast || self.demoted_from.is_some_and(|first| frame >= first) {
            return Rank::ROOT;
        }
        let (place, sequence) = self.dealing.place_of(frame);
        let former = self
            .former
            .iter()
            .find(|former| former.place == place && sequence < former.end);
        let present = || {
            view.trees()
                .get(place)
                .and_then(|tree| tree.parent(own))
                .unwrap_or(Rank::ROOT)
        };
        former.map_or_else(present, |former| former.rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::Station;
    use crate::session::kind;
    use crate::session::view::tests::chain;
    use ethbcast_transport::wire::parse;

    /// Returns the reports that a receiver sends in 10 s while other traffic appears on its link
    /// each 100 ms.
    fn reports(receivers: u16) -> u32 {
        let station = Station::new("group", "n1", MacAddr::new(2, 0, 0, 0, 0, 1), 1500);
        let config = ReceiverConfig::new(station.clone(), 1);
        let timing = config.timing;
        let mut endpoint = ReceiverEndpoint::new(config, station, 1, Rank(1), None);
        let view = Arc::new(chain(receivers + 1));
        let view = (Arc::clone(&view), view.digest());
        let mut member = MemberPhase::begin(Instant::START, view, Rank(1), &mut endpoint);
        let (mut reports, mut buffer) = (0, [0; 1514]);
        for tick in 0..1000 {
            let now = Instant::START + Duration::from_millis(10 * tick);
            member.note_link(now, tick % 10 < 5, &timing);
            member.handle_timeout(now, (MacAddr::default(), Duration::ZERO), &mut endpoint);
            while let Some(length) = endpoint.poll_transmit(now, &mut buffer) {
                let frame = parse(&buffer[..length]).expect("a frame");
                reports += u32::from(frame.header.kind == kind::STATUS);
            }
        }
        reports
    }

    #[test]
    fn among_many_receivers_other_traffic_makes_no_report_come_early() {
        for receivers in [1000, 2000, 5695, 10_000] {
            let period = Timing::default().among(receivers.into()).status;
            let most = (Duration::from_secs(10).as_nanos() / period.as_nanos()) as u32 + 1;
            assert!(
                (1..=most).contains(&reports(receivers)),
                "{receivers}: {} of {most}",
                reports(receivers)
            );
        }
    }
}
