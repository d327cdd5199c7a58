//! As a member: follows the root's views, takes and relays the stream, reports what became of it.

use super::{End, ReceiverEndpoint, ReceiverEvent};
use crate::membership::timers::{TimerTable, Wait};
use crate::membership::timing::turn;
use crate::session::blocks::Blocks;
use crate::session::message::{Digest, Done, MemberState, Message, Outcome, ViewPart};
use crate::session::view::{Assembler, View};
use ethbcast_transport::stream::Ending;
use ethbcast_transport::wire::{Frame, Rank};
use ethbcast_transport::{Deadline, Instant, MacAddr, Part};
use std::time::Duration;

/// A member of the session.
#[derive(Debug)]
pub(super) struct Running {
    view: View,
    digest: Digest,
    rank: Rank,
    /// Puts the next view together.
    assembler: Assembler,
    blocks: Blocks,
    /// The application has consumed the stream's end.
    complete: bool,
    /// What became of the stream here, once the application has said so.
    report: Option<Message>,
    /// The root has that report.
    confirmed: bool,
    timers: TimerTable,
}

impl Running {
    /// Begins as the member that `rank` of the first view is.
    pub(super) fn new(now: Instant, view: View, rank: Rank, endpoint: &mut ReceiverEndpoint) -> Running {
        endpoint.adopt(rank, view.epoch);
        let (config, receivers) = (endpoint.config(), view.members.len() - 1);
        let blocks = Blocks::new(endpoint.identity(), config.station.group_mac, &view, &config.tuning);
        // All members begin at the same moment; their signs of life are spread over the period.
        let offset = config.timing.status * u32::from(rank.0) / view.members.len().max(1) as u32;
        let mut timers = TimerTable::default();
        timers.set(Wait::Status, now + offset);
        log::info!("rank {rank} of {receivers} receivers via {}", view.via);
        endpoint.tell(ReceiverEvent::Started { rank, receivers, via: view.via, size: view.size });
        Running {
            digest: view.digest(),
            view,
            rank,
            assembler: Assembler::default(),
            blocks,
            complete: false,
            report: None,
            confirmed: false,
            timers,
        }
    }

    pub(super) fn view(&self) -> &View {
        &self.view
    }

    pub(super) fn rank(&self) -> Rank {
        self.rank
    }

    pub(super) fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// The application is done with the frame it was shown; what ended with it.
    pub(super) fn consume(&mut self, now: Instant) -> Ending {
        let ending = self.blocks.consume(now);
        self.complete |= ending == Ending::Stream;
        ending
    }

    /// The application's verdict; false if it has given one before.
    pub(super) fn conclude(&mut self, now: Instant, report: Done, endpoint: &ReceiverEndpoint) -> bool {
        if self.report.is_some() {
            return false;
        }
        if report.outcome != Outcome::Delivered {
            // Long enough for the root to answer and the others to take over; not so long that a user waits.
            self.timers.set(Wait::Leave, now + endpoint.config().timing.status * 5);
        }
        self.report = Some(Message::Done(report));
        self.timers.set(Wait::Verdict, now + self.turn());
        true
    }

    /// Takes a frame of the stream.
    pub(super) fn on_stream_frame(
        &mut self,
        now: Instant,
        frame: &Frame<'_>,
        root: MacAddr,
        endpoint: &mut ReceiverEndpoint,
    ) {
        self.blocks.handle_frame(now, frame);
        for rank in self.blocks.take_orphans() {
            endpoint.send(root, &Message::Orphan { rank });
        }
    }

    /// Takes a part of a view; how the session ends if this host is no part of it any more.
    pub(super) fn on_view_part(
        &mut self,
        now: Instant,
        part: &ViewPart,
        endpoint: &mut ReceiverEndpoint,
    ) -> Option<End> {
        if part.epoch > self.view.epoch
            && let Some(view) = self.assembler.take(part)
        {
            let config = endpoint.config();
            let Some(rank) = view.rank_of(config.nonce, config.station.mac) else {
                return Some(self.end(End::Dropped));
            };
            endpoint.adopt(rank, view.epoch);
            self.blocks.reshape(now, rank, &view);
            (self.rank, self.digest, self.view) = (rank, part.digest, view);
        }
        self.confirm(now, part);
        None
    }

    /// A view is confirmed once for each repetition, when its last part comes by.
    pub(super) fn confirm(&mut self, now: Instant, part: &ViewPart) {
        if self.view.epoch == part.epoch && self.digest == part.digest && part.at + 1 == part.count {
            self.timers.set_unless_set(Wait::View, now + self.turn());
        }
    }

    /// Whose reports the root has, and whether the session is over; how it ends for this host, if it does.
    pub(super) fn on_verdict(&mut self, over: bool, heard: &[u8]) -> Option<End> {
        let mine = heard.get(self.rank.index() / 8).is_some_and(|byte| byte >> (self.rank.0 % 8) & 1 == 1);
        if mine && self.report.is_some() {
            self.confirmed = true;
            self.timers.clear(Wait::Verdict);
        }
        match self.confirmed {
            true => (over || self.timers.is_set(Wait::Leave)).then_some(End::Confirmed),
            false => over.then_some(End::Dropped),
        }
    }

    /// Lets time pass; how the session ends, if it does.
    pub(super) fn handle_timeout(
        &mut self,
        now: Instant,
        root: MacAddr,
        endpoint: &mut ReceiverEndpoint,
    ) -> Option<End> {
        let timing = endpoint.config().timing;
        if self.timers.take_due(Wait::View, now) {
            endpoint.send(root, &Message::Ready { epoch: self.view.epoch, digest: self.digest });
        }
        if self.timers.take_due(Wait::Status, now) {
            let frames = self.blocks.frames() - self.blocks.backlog_frames();
            endpoint.send(root, &Message::Status { state: self.state(), frames });
            self.timers.set(Wait::Status, now + timing.status);
        }
        if self.timers.take_due(Wait::Verdict, now)
            && let Some(report) = &self.report
        {
            endpoint.send(root, report);
            self.timers.set(Wait::Verdict, now + timing.verdict);
        }
        self.blocks.handle_timeout(now);
        self.timers.take_due(Wait::Leave, now).then(|| self.end(End::Unconfirmed))
    }

    pub(super) fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        self.blocks.poll_transmit(now, buffer)
    }

    pub(super) fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        self.timers.next().into_iter().chain(self.blocks.poll_timeout(now)).min()
    }

    /// How a session ends without a word of the root: by whether it has this host's report; without a report,
    /// `otherwise`.
    pub(super) fn end(&self, otherwise: End) -> End {
        match (&self.report, self.confirmed) {
            (_, true) => End::Confirmed,
            (Some(_), false) => End::Unconfirmed,
            (None, false) => otherwise,
        }
    }

    fn state(&self) -> MemberState {
        let backlog_frames = self.blocks.backlog_frames();
        if self.complete && self.report.is_none() {
            MemberState::Verifying
        } else if backlog_frames > self.blocks.slots() / 2 {
            MemberState::Blocked
        } else if backlog_frames == 0 && !self.complete {
            MemberState::Starved
        } else {
            MemberState::Alive
        }
    }

    /// How long to wait with what all members say at the same moment.
    fn turn(&self) -> Duration {
        turn(self.rank, self.view.members.len())
    }
}
