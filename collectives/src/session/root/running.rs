//! The session: the root's view of its members, the stream, and the members' reports.

use super::members::{MemberReport, Members};
use super::{RootEndpoint, RootEvent};
use crate::membership::presence::Change;
use crate::membership::timers::{TimerTable, Wait};
use crate::session::blocks::Blocks;
use crate::session::is_of_stream;
use crate::session::message::{Digest, Done, MemberState, Message, Outcome, Stage, Trailer};
use crate::session::view::View;
use ethbcast_transport::stream::Ending;
use ethbcast_transport::wire::{Frame, Rank};
use ethbcast_transport::{Deadline, Instant, Part};
use std::time::Duration;

const ORPHANED: &str = "the frames it needed died with the host before it";

/// Whether data may flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    /// Not yet: some member has not confirmed the first view.
    Held,
    Open,
    /// Not any more: the last word has been said.
    Shut,
}

/// Keeps the view true and the stream flowing until all members have reported.
#[derive(Debug)]
pub(super) struct Running {
    view: View,
    digest: Digest,
    members: Members,
    blocks: Blocks,
    flow: Flow,
    /// Bytes pushed that do not fill a frame yet.
    partial: Vec<u8>,
    /// What the whole stream adds up to, once its end is known.
    trailer: Option<Trailer>,
    first_data: Option<Instant>,
    last_report: Option<Instant>,
    /// The verdict on all, once all have reported, until it is taken.
    last_word: Option<Message>,
    timers: TimerTable,
}

impl Running {
    /// Tells everybody the first view.
    pub(super) fn new(
        now: Instant,
        view: View,
        mut timers: TimerTable,
        trailer: Option<Trailer>,
        endpoint: &mut RootEndpoint,
    ) -> Running {
        let config = endpoint.config();
        timers.set(Wait::Status, now + config.timing.status);
        let mut running = Running {
            digest: Digest::default(),
            members: Members::new(now, view.members.len() as u16 - 1, &config.timing),
            blocks: Blocks::new(endpoint.identity(), config.station.group_mac, &view, &config.tuning),
            flow: Flow::Held,
            partial: Vec::new(),
            trailer,
            first_data: None,
            last_report: None,
            last_word: None,
            timers,
            view,
        };
        running.publish(now, endpoint);
        running
    }

    pub(super) fn view(&self) -> &View {
        &self.view
    }

    pub(super) fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    pub(super) fn members(&self) -> &Members {
        &self.members
    }

    /// From the first data frame to the last report.
    pub(super) fn took(&self) -> Duration {
        self.last_report.zip(self.first_data).map(|(end, start)| end.since(start)).unwrap_or_default()
    }

    pub(super) fn wants_data(&self) -> bool {
        self.flow == Flow::Open && self.trailer.is_none() && self.blocks.has_room()
    }

    /// Takes as many of `bytes` as there is room for and returns how many; the last frame of them waits for more, or
    /// for an end.
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
        taken
    }

    /// Ends a message with what was pushed last; false while there is no room.
    pub(super) fn end_message(&mut self, ending: Ending) -> bool {
        let ready = self.wants_data();
        if ready {
            self.blocks.push(&self.partial, ending);
            self.partial.clear();
        }
        ready
    }

    /// Ends the stream as soon as there is room.
    pub(super) fn finish(&mut self, trailer: Trailer) {
        self.trailer = Some(trailer);
        self.flush_end();
    }

    fn flush_end(&mut self) {
        let Some(trailer) = self.trailer else { return };
        if self.blocks.has_end() || (!self.partial.is_empty() && !self.blocks.push(&self.partial, Ending::None)) {
            return;
        }
        self.partial.clear();
        self.blocks.push(&trailer.encode(), Ending::Stream);
    }

    /// The verdict on all, when it has just become known.
    pub(super) fn take_last_word(&mut self) -> Option<Message> {
        self.last_word.take()
    }

    /// The last word has been said: no more data, and no new view.
    pub(super) fn stop(&mut self) {
        self.flow = Flow::Shut;
    }

    /// A member that has not understood the view yet goes on asking to join; that is a sign of life. False for a
    /// stranger.
    pub(super) fn heard_join(&mut self, now: Instant, nonce: u64) -> bool {
        let rank = self.view.members.iter().position(|member| member.nonce == nonce);
        if let Some(rank) = rank {
            self.members.hear(now, Rank(rank as u16));
        }
        rank.is_some()
    }

    /// Takes a member's frame.
    pub(super) fn handle_frame(&mut self, now: Instant, frame: &Frame<'_>, endpoint: &mut RootEndpoint) {
        let rank = frame.header.rank;
        if !self.view.names(rank, frame.source) {
            endpoint.count_stranger();
            return;
        }
        self.members.hear(now, rank);
        if is_of_stream(frame) {
            self.blocks.handle_frame(now, frame);
            self.lose_orphans(now, endpoint);
        } else if let Some(message) = endpoint.read(frame) {
            self.on_control(now, rank, message, endpoint);
        }
        self.flush_end();
    }

    fn on_control(&mut self, now: Instant, rank: Rank, message: Message, endpoint: &mut RootEndpoint) {
        match message {
            Message::Ready { epoch, digest } if epoch == self.view.epoch && digest == self.digest => {
                self.members.set_ready(rank, epoch);
                self.check_ready(endpoint);
            }
            Message::Status { state, frames } => self.members.set_state(rank, state, frames),
            // Only a child's parent may say so.
            Message::Orphan { rank: child } if self.view.serves(rank, child) => {
                self.lose(now, child, Outcome::Orphaned, ORPHANED, endpoint);
            }
            Message::Done(done) => self.on_done(now, rank, done, endpoint),
            _ => {}
        }
    }

    fn on_done(&mut self, now: Instant, rank: Rank, done: Done, endpoint: &mut RootEndpoint) {
        self.timers.set_unless_set(Wait::Verdict, now);
        let claimed = done.outcome == Outcome::Delivered;
        if claimed && self.trailer != Some(Trailer { bytes: done.bytes, digest: done.digest }) {
            let text = "it claims delivery of other bytes than were sent".to_owned();
            self.report(now, rank, Done { outcome: Outcome::Damaged, text, ..done }, endpoint);
        } else {
            self.report(now, rank, done, endpoint);
        }
        if !claimed {
            self.drop_member(now, rank, endpoint);
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Instant, endpoint: &mut RootEndpoint) {
        let timing = endpoint.config().timing;
        if self.timers.take_due(Wait::Announce, now) {
            // A late receiver asks to join when it hears this, and is told that it is too late.
            endpoint.send_to_group(&endpoint.config().invitation(Stage::Started, Duration::MAX));
            self.timers.set(Wait::Announce, now + timing.announce * 5);
        }
        if self.timers.take_due(Wait::View, now) {
            self.send_view(now, endpoint);
        }
        if self.timers.take_due(Wait::Status, now) {
            endpoint.send_to_group(&Message::Status { state: MemberState::Alive, frames: 0 });
            self.timers.set(Wait::Status, now + timing.status);
        }
        if self.timers.take_due(Wait::Verdict, now) {
            endpoint.send_to_group(&Message::Verdict { over: false, heard: self.members.heard() });
        }
        self.watch_silence(now, endpoint);
        self.blocks.handle_timeout(now);
        self.flush_end();
    }

    pub(super) fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        if self.flow != Flow::Open {
            return None;
        }
        let length = self.blocks.poll_transmit(now, buffer)?;
        if self.first_data.is_none() && self.blocks.stats().data_sent > 0 {
            self.first_data = Some(now);
        }
        Some(length)
    }

    pub(super) fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        let silence = self.members.next_silence().map(|at| Wait::Silence.at(at));
        [self.timers.next(), silence, self.blocks.poll_timeout(now)].into_iter().flatten().min()
    }

    /// Tells everybody a new view.
    fn publish(&mut self, now: Instant, endpoint: &mut RootEndpoint) {
        self.digest = self.view.digest();
        self.blocks.set_epoch(self.view.epoch);
        endpoint.adopt(Rank::ROOT, self.view.epoch);
        self.send_view(now, endpoint);
    }

    fn send_view(&mut self, now: Instant, endpoint: &mut RootEndpoint) {
        for part in self.view.parts(self.view.payload_bytes.into()) {
            endpoint.send_to_group(&Message::View(part));
        }
        self.timers.set(Wait::View, now + endpoint.config().timing.view);
    }

    fn check_ready(&mut self, endpoint: &mut RootEndpoint) {
        if !self.members.all_ready(self.view.epoch) {
            return;
        }
        self.timers.clear(Wait::View);
        if self.flow == Flow::Held {
            self.flow = Flow::Open;
            endpoint.tell(RootEvent::Started {
                receivers: self.members.present(),
                via: self.view.via,
                size: self.view.size,
            });
        }
    }

    /// A member is gone for a reason the root found itself.
    fn lose(&mut self, now: Instant, rank: Rank, outcome: Outcome, text: &str, endpoint: &mut RootEndpoint) {
        log::warn!("lost {}: {text}", self.view.members[rank.index()].host);
        self.report(now, rank, Done { outcome, bytes: 0, digest: [0; 32], text: text.to_owned() }, endpoint);
        self.drop_member(now, rank, endpoint);
    }

    /// A member's fate is known.
    fn report(&mut self, now: Instant, rank: Rank, done: Done, endpoint: &mut RootEndpoint) {
        let took = self.first_data.map(|start| now.since(start)).unwrap_or_default();
        let host = self.view.members[rank.index()].host.clone();
        let Done { outcome, bytes, digest, text } = done;
        let report = MemberReport { host, rank, outcome, bytes, digest, text, took };
        if !self.members.set_report(&report) {
            return;
        }
        self.last_report = Some(now);
        endpoint.tell(RootEvent::Reported(report));
        if self.members.all_reported() {
            endpoint.tell(RootEvent::AllReported);
            self.stop();
            self.last_word = Some(Message::Verdict { over: true, heard: self.members.heard() });
        }
    }

    /// Takes a member out of the view; its parent takes over its children.
    fn drop_member(&mut self, now: Instant, rank: Rank, endpoint: &mut RootEndpoint) {
        if self.flow == Flow::Shut || !self.members.remove(rank) {
            return;
        }
        self.view.members[rank.index()].present = false;
        self.view.epoch += 1;
        self.blocks.reshape(now, Rank::ROOT, &self.view);
        self.publish(now, endpoint);
        self.check_ready(endpoint);
    }

    fn watch_silence(&mut self, now: Instant, endpoint: &mut RootEndpoint) {
        for change in self.members.look(now) {
            match change {
                Change::Suspected(rank, silence) => log::warn!("rank {rank} has been silent for {silence:?}"),
                Change::Gone(rank) => {
                    self.lose(now, rank, Outcome::Silent, "nothing was heard of it any more", endpoint)
                }
                Change::Left(_) => {}
            }
        }
    }

    /// Children of the root's own that need frames which are gone.
    fn lose_orphans(&mut self, now: Instant, endpoint: &mut RootEndpoint) {
        for rank in self.blocks.take_orphans() {
            self.lose(now, rank, Outcome::Orphaned, ORPHANED, endpoint);
        }
    }
}
