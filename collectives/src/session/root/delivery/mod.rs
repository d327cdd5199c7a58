//! Delivery of the sender's stream to the receivers: pauses, and catch-up for those that lack
//! frames.

pub mod catch_up;

use super::config::{RootConfig, RootEndpoint};
use crate::membership::timers::Wait;
use crate::session::blocks::{Blocks, CATCH_UP, Dealing};
use crate::session::fetch::Answering;
use crate::session::message::{Fetch, FetchedPiece, Message, Trailer};
use crate::session::view::{MemberRole, View};
use catch_up::{Backfills, CatchUpStreams, Extent, Needy, RateTrials};
use ethbcast_transport::stream::{Ending, LostRange, StreamStats};
use ethbcast_transport::wire::{Frame, Identity, Rank, StreamId};
use ethbcast_transport::{Deadline, Instant, Kept, MacAddr, Part, SplitFrame, Tuning, planted};
use std::ops::Range;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    /// Some member has not confirmed the first view yet, or a view that changes the algorithm.
    Held,
    Open,
    Shut,
}

#[derive(Clone, Debug)]
pub(super) struct Delivery {
    identity: Identity,
    tuning: Tuning,
    blocks: Blocks,
    flow: Flow,
    partial: Vec<u8>,
    trailer: Option<Trailer>,
    end_payload: Vec<u8>,
    pushed: u64,
    /// Whether the trailer's length is that of the pushed stream; not so in a selective session.
    is_whole: bool,
    catch_ups: CatchUpStreams,
    backfills: Backfills,
    answering: Answering,
    rate_trials: RateTrials,
    pause: Pause,
    macs: Vec<MacAddr>,
    first_data: Option<Instant>,
}

impl Delivery {
    pub(super) fn new(view: &View, trailer: Option<Trailer>, endpoint: &RootEndpoint) -> Delivery {
        let RootConfig {
            station, tuning, ..
        } = endpoint.config();
        let blocks = Blocks::new(endpoint.identity(), station.group_mac, view, tuning);
        Delivery {
            identity: endpoint.identity(),
            tuning: tuning.clone(),
            flow: Flow::Held,
            partial: Vec::new(),
            trailer,
            end_payload: trailer
                .map(|trailer| endpoint.close_trailer(trailer.encode()))
                .unwrap_or_default(),
            pushed: 0,
            is_whole: !view.selective,
            catch_ups: CatchUpStreams::default(),
            backfills: Backfills::default(),
            answering: Answering::default(),
            rate_trials: RateTrials::default(),
            pause: Pause::new(u64::from(view.segment_frames).min(blocks.slots() / 4)),
            macs: view.members.iter().map(|member| member.mac).collect(),
            first_data: None,
            blocks,
        }
    }

    pub(super) fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    pub(super) fn trailer(&self) -> Option<Trailer> {
        self.trailer
    }

    pub(super) fn since_first_data(&self, now: Instant) -> Duration {
        self.first_data
            .map(|start| now.since(start))
            .unwrap_or_default()
    }

    pub(super) fn stats(&self) -> StreamStats {
        self.blocks.stats() + self.catch_ups.stats()
    }

    pub(super) fn open(&mut self) -> bool {
        let held = self.flow == Flow::Held;
        if held {
            self.flow = Flow::Open;
        }
        held
    }

    pub(super) fn hold(&mut self) {
        if self.flow == Flow::Open {
            self.flow = Flow::Held;
        }
    }

    pub(super) fn retire(&mut self) {
        self.blocks.retire();
    }

    pub(super) fn shut(&mut self) {
        self.flow = Flow::Shut;
    }

    pub(super) fn is_shut(&self) -> bool {
        self.flow == Flow::Shut
    }

    pub(super) fn wants_data(&self) -> bool {
        self.flow == Flow::Open
            && self.trailer.is_none()
            && self.blocks.has_room()
            && !self.pause.holds(self.blocks.frames())
    }

    pub(super) fn pause(&mut self, wanted: bool) {
        self.pause.set(wanted);
        self.end_streams();
    }

    /// Whether the pause has begun and no message awaits confirmation that it was consumed.
    pub(super) fn rests(&self) -> bool {
        self.pause.holds(self.blocks.frames())
            && (!self.pause.has_messages() || self.blocks.is_consumed())
    }

    pub(super) fn push(&mut self, bytes: &[u8]) -> usize {
        let payload_bytes = self.blocks.payload_bytes();
        let mut taken = 0;
        while taken < bytes.len() && self.wants_data() {
            let rest = &bytes[taken..];
            if self.partial.is_empty() && rest.len() > payload_bytes {
                self.blocks.push(&rest[..payload_bytes], Ending::None);
                taken += payload_bytes;
                continue;
            }
            if self.partial.len() == payload_bytes {
                self.blocks.push(&self.partial, Ending::None);
                self.partial.clear();
            }
            let fits = rest.len().min(payload_bytes - self.partial.len());
            self.partial.extend_from_slice(&rest[..fits]);
            taken += fits;
        }
        self.pushed += taken as u64;
        taken
    }

    pub(super) fn end_message(&mut self, ending: Ending) -> bool {
        let ready = self.wants_data();
        if ready {
            self.blocks.push(&self.partial, ending);
            self.partial.clear();
            self.pause.on_message_end(self.blocks.frames());
        }
        ready
    }

    pub(super) fn finish(&mut self, trailer: Trailer, end_payload: Vec<u8>) {
        (self.trailer, self.end_payload) = (Some(trailer), end_payload);
        self.end_streams();
    }

    pub(super) fn end_streams(&mut self) {
        if self.trailer.is_none() {
            return;
        }
        self.catch_ups
            .finish(&self.extent(Dealing::single()), &self.end_payload);
        self.backfills
            .finish(&self.extent(self.blocks.dealing()), &self.end_payload);
        let held = self.pause.holds(self.blocks.frames());
        if held
            || self.blocks.has_end()
            || (!self.partial.is_empty() && !self.blocks.push(&self.partial, Ending::None))
        {
            return;
        }
        self.partial.clear();
        self.blocks.push(&self.end_payload, Ending::Stream);
    }

    fn end(&self) -> Option<u64> {
        self.trailer.map(|trailer| {
            if self.is_whole {
                trailer.bytes
            } else {
                self.pushed
            }
        })
    }

    fn extent(&self, dealing: Dealing) -> Extent {
        Extent::new(
            dealing,
            self.blocks.payload_bytes(),
            self.blocks.frames(),
            self.trailer.zip(self.end()),
        )
    }

    pub(super) fn bytes_of(&self, frames: u64) -> u64 {
        let bytes = frames.saturating_mul(self.blocks.payload_bytes() as u64);
        self.end().map_or(bytes, |end| bytes.min(end))
    }

    pub(super) fn pushed_bytes(&self) -> u64 {
        self.bytes_of(self.blocks.frames())
    }

    pub(super) fn sent_bytes(&self) -> u64 {
        self.pushed + self.answering.sent_bytes()
    }

    pub(super) fn admit(&mut self, mac: MacAddr) {
        self.macs.push(mac);
    }

    pub(super) fn serve_alone(&mut self, view: &View, rank: Rank, first: u64) {
        // No member is ahead of the stream.
        self.catch_ups.invite(
            rank,
            first.min(self.blocks.frames()) + u64::from(planted!("side-begins-one-late")),
        );
        self.catch_ups.open(&self.identity, view, &self.tuning);
        self.end_streams();
    }

    pub(super) fn stop_serving(&mut self, view: &View, rank: Rank) {
        self.catch_ups.retain(|served| served != rank);
        self.backfills.retain(|served| served != rank);
        self.answering.retain(|served| served != rank);
        self.catch_ups.open(&self.identity, view, &self.tuning);
    }

    pub(super) fn try_out(&mut self, view: &View, rank: Rank, arrived: u64) {
        if !self.pause.has_messages() && !view.via.is_in_blocks() {
            self.rate_trials.begin(&self.blocks, rank, arrived);
        }
    }

    pub(super) fn frames_sent(&self) -> u64 {
        self.blocks.frames_sent() + self.rate_trials.sent()
    }

    pub(super) fn serves_alone(&self, rank: Rank) -> bool {
        self.catch_ups.serves(rank)
    }

    pub(super) fn on_gap(&mut self, now: Instant, stream: StreamId, gap: LostRange) {
        let sent = |at: &usize| gap.from < gap.to && gap.to <= self.blocks.frames_of(*at);
        if let Some(at) = self.blocks.place(stream).filter(sent) {
            self.backfills.report(now, at, gap);
            self.end_streams();
        }
    }

    /// Takes a frame of a stream; returns the round trip that it shows.
    pub(super) fn take_frame(
        &mut self,
        now: Instant,
        frame: &Frame<'_>,
        view: &View,
    ) -> Option<Duration> {
        let round_trip = if frame.header.stream.0 & CATCH_UP != 0 {
            self.catch_ups
                .take_frame(now, frame, &self.identity, view, &self.tuning)
        } else {
            let round_trip = self.blocks.take_frame(now, frame);
            for (stream, gap) in self.blocks.orphans_after(frame) {
                self.on_gap(now, stream, gap);
            }
            round_trip
        };
        self.end_streams();
        round_trip
    }

    pub(super) fn reshape(&mut self, now: Instant, view: &View) {
        self.blocks.reshape(now, Rank::ROOT, view);
        self.rate_trials.end();
        let stands = |rank: Rank, standing| view.members[rank.index()].standing == standing;
        self.catch_ups
            .retain(|rank| stands(rank, MemberRole::Demoted));
        self.catch_ups.open(&self.identity, view, &self.tuning);
        self.backfills
            .retain(|rank| stands(rank, MemberRole::InPlace));
        self.answering
            .retain(|rank| !stands(rank, MemberRole::Gone));
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.blocks.handle_timeout(now);
        self.catch_ups.handle_timeout(now);
        self.backfills.handle_timeout(now);
        self.end_streams();
    }

    pub(super) fn poll_transmit_split(
        &mut self,
        now: Instant,
        buffer: &mut [u8],
        endpoint: &mut RootEndpoint,
    ) -> Option<SplitFrame> {
        if self.flow != Flow::Open {
            return None;
        }
        if let Some(length) = self.write_before(now, buffer, endpoint) {
            return Some(SplitFrame::whole(length));
        }
        if let Some(frame) = self.blocks.poll_transmit_split(now, buffer) {
            if self.first_data.is_none() && self.blocks.stats().data_sent > 0 {
                self.first_data = Some(now);
            }
            self.catch_ups.main_sent(now);
            self.answering.main_sent(now);
            return Some(frame);
        }
        self.write_after(now, buffer, endpoint)
            .map(SplitFrame::whole)
    }

    pub(super) fn payload(&self, kept: Kept) -> &[u8] {
        self.blocks.payload(kept)
    }

    fn write_before(
        &mut self,
        now: Instant,
        buffer: &mut [u8],
        endpoint: &mut RootEndpoint,
    ) -> Option<usize> {
        if let Some((rank, frame)) = self.backfills.poll() {
            return Some(
                self.blocks
                    .write_again(now, buffer, self.macs[rank.index()], &frame),
            );
        }
        if self.catch_ups.are_due()
            && let Some(length) = self.catch_ups.poll_transmit(now, false, buffer)
        {
            return Some(length);
        }
        if self.answering.is_due() {
            self.reply(now, false, buffer, endpoint)
        } else {
            None
        }
    }

    fn write_after(
        &mut self,
        now: Instant,
        buffer: &mut [u8],
        endpoint: &mut RootEndpoint,
    ) -> Option<usize> {
        if let Some((rank, frame)) = self.rate_trials.poll(&self.blocks) {
            return Some(
                self.blocks
                    .write_again(now, buffer, self.macs[rank.index()], &frame),
            );
        }
        let settled = self.blocks.is_settled();
        let side = self.catch_ups.poll_transmit(now, settled, buffer);
        side.or_else(|| self.reply(now, settled, buffer, endpoint))
    }

    fn reply(
        &mut self,
        now: Instant,
        over: bool,
        buffer: &mut [u8],
        endpoint: &mut RootEndpoint,
    ) -> Option<usize> {
        let (rank, piece) = self.answering.poll(now, over)?;
        endpoint.write(buffer, self.macs[rank.index()], &Message::Piece(piece))
    }

    pub(super) fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        let answer = self.answering.free_at(now).map(|at| Wait::Fetch.at(at));
        // While data is held, only the confirmation of the last member is awaited.
        let flows = self.flow != Flow::Held;
        let blocks = flows.then(|| self.blocks.poll_timeout(now)).flatten();
        let timeouts = [
            blocks,
            self.catch_ups.poll_timeout(now),
            self.backfills.poll_timeout(),
        ];
        timeouts.into_iter().chain([answer]).flatten().min()
    }

    /// Returns the next range of the source to re-read and its destination. Gaps come first, as
    /// they hold up others.
    pub(super) fn needy(&self) -> Option<(Needy, Range<u64>)> {
        if self.catch_ups.is_empty() && self.backfills.is_empty() && self.answering.next().is_none()
        {
            return None; // The usual case.
        }
        let gap = self.backfills.wanted(&self.extent(self.blocks.dealing()));
        let gap = gap.map(|(rank, at, bytes)| (Needy::Gap(rank, at), bytes));
        let fetch = || {
            self.answering
                .wanted()
                .map(|(rank, bytes)| (Needy::Fetch(rank), bytes))
        };
        let demoted = || self.catch_ups.wanted(&self.extent(Dealing::single()));
        let demoted = || demoted().map(|(rank, bytes)| (Needy::Demoted(rank), bytes));
        gap.or_else(fetch)
            .or_else(demoted)
            .filter(|_| self.flow != Flow::Shut)
    }

    /// Takes the bytes that [`needy`](Self::needy) named.
    ///
    /// # Panics
    /// If the length differs.
    pub(super) fn supply(&mut self, bytes: &[u8]) {
        let Some((need, range)) = self.needy() else {
            return;
        };
        assert_eq!(
            bytes.len() as u64,
            range.end - range.start,
            "what was wanted is supplied"
        );
        self.supply_to(need, range.start, bytes);
    }

    pub(super) fn supply_to(&mut self, need: Needy, from: u64, bytes: &[u8]) {
        let payload_bytes = self.blocks.payload_bytes();
        let wanted = match need {
            Needy::Gap(rank, at) => {
                self.backfills
                    .wanted_by(rank, at, &self.extent(self.blocks.dealing()))
            }
            Needy::Demoted(rank) => self
                .catch_ups
                .wanted_by(rank, &self.extent(Dealing::single())),
            Needy::Fetch(rank) => {
                return self.answering.supply(
                    rank,
                    from,
                    bytes,
                    FetchedPiece::fitting(payload_bytes, &self.identity.guard),
                );
            }
        };
        let Some(wanted) = wanted.filter(|wanted| wanted.start == from) else {
            return;
        };
        let bytes = &bytes[..bytes.len().min((wanted.end - wanted.start) as usize)];
        match need {
            Needy::Gap(rank, at) => self.backfills.supply(rank, at, bytes, payload_bytes),
            _ => self.catch_ups.supply(need.rank(), bytes),
        }
        self.end_streams();
    }

    pub(super) fn fetch(&mut self, fetch: &Fetch) {
        self.answering.request(fetch);
    }

    pub(super) fn question(&self, need: Needy) -> Option<&Fetch> {
        self.answering
            .next()
            .filter(|fetch| need == Needy::Fetch(fetch.rank))
    }

    pub(super) fn deny(&mut self, rank: Rank, from: u64) {
        self.answering.deny(rank, from);
    }

    pub(super) fn skip(&mut self, rank: Rank, from: u64) {
        self.answering.skip(rank, from);
    }
}

/// Pause of new data at the end of a segment, as relays forward whole segments only. If the stream
/// consists of messages, a pause begins only between them: `message_end` is one past the last frame
/// of the last message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pause {
    wanted: bool,
    segment_frames: u64,
    message_end: Option<u64>,
}

impl Pause {
    pub(super) fn new(segment_frames: u64) -> Pause {
        Pause {
            wanted: false,
            segment_frames: segment_frames.max(1),
            message_end: None,
        }
    }

    pub(super) fn has_messages(&self) -> bool {
        self.message_end.is_some()
    }

    pub(super) fn on_message_end(&mut self, next: u64) {
        self.message_end = Some(next);
    }

    pub(super) fn set(&mut self, wanted: bool) {
        self.wanted = wanted;
    }

    pub(super) fn holds(&self, next: u64) -> bool {
        self.wanted
            && self
                .message_end
                .map_or(next.is_multiple_of(self.segment_frames), |end| end == next)
    }
}
