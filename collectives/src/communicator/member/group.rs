//! State of one rank after all have joined: its collective calls, messages and streams.

use super::agreement::Neighbours;
use super::calls::Calls;
use super::keepalive::{Leaving, Sign};
use super::probing::Probing;
use super::shrinking::{Settled, ShrinkMessage, Shrinking};
use super::streams::{Messages, Streams};
use super::way::{MessagePath, StreamName};
use super::{MemberMemory, MemberStats};
use crate::communicator::body::{Notice, ShrinkBody};
use crate::communicator::config::Config;
use crate::communicator::description::Description;
use crate::communicator::error::{CommunicatorError, Failure};
use crate::communicator::kind;
use crate::communicator::network::Network;
use crate::communicator::roster::{Nodes, RankSet, Roster};
use crate::communicator::seals::is_numbered;
use crate::keys::{KeyName, RankCipher};
use crate::measure::kind::{ECHO, PROBE, REPORT};
use crate::membership::timers::Wait;
use ethbcast_transport::messages::{Mailbox, SendId};
use ethbcast_transport::wire::{Flags, Frame, Header, Kind, Peer, Rank};
use ethbcast_transport::{AuditError, Deadline, Instant, Part};
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct Group {
    calls: Calls,
    messages: Messages,
    streams: Streams,
    probing: Option<Probing>,
    leaving: Leaving,
    shrinking: Option<Shrinking>,
    streams_first: bool,
    is_keyed: bool,
    /// Last stamp of each rank by its own clock.
    newest: Vec<Option<u32>>,
}

impl Group {
    pub(super) fn new(
        now: Instant,
        config: &Config,
        roster: Roster,
        network: Arc<Network>,
        rank: Rank,
    ) -> Group {
        let station = &config.station;
        let peers: Vec<Peer> = roster
            .entries()
            .iter()
            .zip(0..)
            .map(|(entry, rank)| Peer {
                rank: Rank(rank),
                mac: entry.mac,
            })
            .collect();
        let identity = station.identity(roster.session(), rank);
        let payload_bytes = identity.guard.payload_bytes(roster.mtu_bytes().into());
        let mailbox = Mailbox::new(identity.clone(), &peers, payload_bytes, config.settings());
        let group = network.bets_on_casts().then_some(station.group_mac);
        let processors = config.processors;
        let link = (roster.mtu_bytes(), processors);
        let probe = || Probing::new(now, identity.clone(), &peers, group, link, config.join_by);
        let probing = network.is_to_be_measured().then(probe);
        let newest = vec![None; peers.len()];
        let neighbours = Neighbours::new(
            identity,
            station.group_mac,
            peers,
            network,
            payload_bytes,
            config.tuning(),
        );
        Group {
            calls: Calls::new(now, roster, rank, config),
            messages: Messages::new(mailbox),
            streams: Streams::new(neighbours),
            probing,
            leaving: Leaving::new(),
            shrinking: None,
            streams_first: false,
            is_keyed: station.guard.is_keyed(),
            newest,
        }
    }

    /// Encrypts the contents of streams and messages, if there is a cipher.
    pub(super) fn encrypted(mut self, cipher: Option<Arc<RankCipher>>) -> Group {
        if let Some(cipher) = cipher {
            self.messages.set_cipher(cipher.clone());
            self.streams.set_cipher(cipher);
        }
        self
    }

    pub(in crate::communicator) fn rank(&self) -> Rank {
        self.calls.rank()
    }

    pub(in crate::communicator) fn size(&self) -> u16 {
        self.calls.size()
    }

    pub(super) fn roster(&self) -> &Roster {
        self.calls.roster()
    }

    pub(in crate::communicator) fn nodes(&self) -> &Nodes {
        self.roster().nodes()
    }

    pub(super) fn is_ready(&self) -> bool {
        self.probing.as_ref().is_none_or(Probing::is_done)
    }

    pub(super) fn is_unconfigured(&self) -> bool {
        self.probing.as_ref().is_some_and(Probing::is_unconfigured)
    }

    fn measure_on(&mut self) {
        let size = self.size();
        let Some(probing) = &mut self.probing else {
            return;
        };
        if let Some(calibration) = probing.advance(&mut self.messages, size) {
            self.streams.set_calibration(calibration);
        }
    }

    pub(super) fn has_gone(&self, id: SendId) -> bool {
        self.messages.has_gone(id)
    }

    pub(super) fn absence(&self, rank: Rank) -> CommunicatorError {
        self.calls
            .check_presence(rank)
            .err()
            .unwrap_or_else(|| CommunicatorError::Gone(self.calls.named(rank)))
    }

    pub(in crate::communicator) fn calls(&mut self) -> &mut Calls {
        &mut self.calls
    }

    pub(in crate::communicator) fn messages(&mut self) -> &mut Messages {
        &mut self.messages
    }

    pub(in crate::communicator) fn streams(&mut self) -> &mut Streams {
        &mut self.streams
    }

    pub(super) fn handle_frame(
        &mut self,
        now: Instant,
        frame: &Frame<'_>,
        stats: &mut MemberStats,
    ) {
        if self.is_over() {
            return;
        }
        let header = frame.header;
        let roster = self.roster();
        let member = header.session == roster.session()
            && header.rank != self.rank()
            && roster.is(header.rank, frame.source);
        let is_sign = !self.is_keyed || is_numbered(header.kind);
        let counts = |calls: &mut Calls| {
            if is_sign {
                calls.on_frame_from(now, header.rank)
            } else {
                calls.counts(header.rank)
            }
        };
        if !member || !counts(&mut self.calls) {
            stats.non_members += 1;
            return;
        }
        let is_notice = matches!(header.kind, kind::ALIVE | kind::BYE);
        if !is_notice && (!self.is_keyed || self.is_latest(&header)) {
            self.leaving.linger(now);
        }
        let ready = self.is_ready();
        match header.kind {
            // Until the measured costs arrive, a different tree would be derived. The frame will be
            // sent again.
            Kind::DATA | Kind::PARITY | Kind::HEARTBEAT
                if !ready && !self.streams.is_cast(header.stream) => {}
            kind if kind.is_of_stream() => self.streams.handle_frame(now, frame),
            Kind::PUSH | Kind::PULL | Kind::NOTE | Kind::RECEIPT | Kind::ASK => {
                self.messages.handle_frame(now, frame)
            }
            _ if is_notice => match Notice::decode(frame.payload, self.size()) {
                Some(notice) => {
                    self.calls.on_notice(now, header.rank, header.kind, notice);
                    if header.flags.has(Flags::ACK_NOW) {
                        self.calls.reply_to_sign(now, header.rank);
                    }
                }
                None => stats.malformed += 1,
            },
            PROBE | ECHO | REPORT if self.probing.is_some() => {
                self.probing
                    .iter_mut()
                    .for_each(|probing| probing.handle_frame(now, frame));
            }
            _ => stats.non_members += 1,
        }
        self.measure_on();
    }

    /// Whether a frame was sent after all that have come from its rank, so that it is no replay.
    /// Only ranks that still need something send frames with a stamp of their own to one that has
    /// everything.
    fn is_latest(&mut self, header: &Header) -> bool {
        let is_own = matches!(
            header.kind,
            Kind::DATA | Kind::PARITY | Kind::HEARTBEAT | Kind::PUSH | Kind::ASK
        );
        let newest = &mut self.newest[header.rank.index()];
        let is_latest =
            is_own && newest.is_none_or(|newest| (header.stamp.wrapping_sub(newest) as i32) > 0);
        if is_latest {
            *newest = Some(header.stamp);
        }
        is_latest
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if self.is_over() {
            return;
        }
        self.messages.handle_timeout(now);
        self.streams.handle_timeout(now);
        self.probing
            .iter_mut()
            .for_each(|probing| probing.handle_timeout(now));
        self.measure_on();
        if self.calls.is_look_due(now) {
            self.look(now);
        }
        if self.calls.is_sign_due(now) {
            self.compare_unread(now);
            self.calls.give_sign(now);
        }
        self.shrinking
            .iter_mut()
            .for_each(|shrinking| shrinking.handle_timeout(now));
        self.leave_on(now);
    }

    fn look(&mut self, now: Instant) {
        for rank in self.calls.look(now) {
            self.streams.remove_reader(now, rank);
            self.messages.remove_peer(rank);
        }
    }

    fn compare_unread(&mut self, now: Instant) {
        let found = self
            .streams
            .unread()
            .find_map(|(name, found)| self.calls.compare_unread(name.origin, found));
        if let Some(failure) = found {
            self.calls.fail(now, failure);
        }
    }

    /// Returns why nothing more arrives of a message that `origin` broadcasts: the origin is gone,
    /// and so is every rank that forwards or repairs it.
    pub(in crate::communicator) fn dried_up(
        &mut self,
        origin: Rank,
        number: u64,
    ) -> Option<Failure> {
        let failure = self.calls.absence(origin, number)?;
        let cast = self
            .streams
            .parent(StreamName::new(origin, MessagePath::Cast));
        let begun: Vec<StreamName> = self.streams.of_origin(origin).collect();
        let sources = begun
            .into_iter()
            .filter_map(|name| self.streams.source(name));
        let flows = sources
            .chain(cast)
            .any(|rank| self.calls.absence(rank, number).is_none());
        (!flows).then_some(failure)
    }

    pub(super) fn leave(&mut self, now: Instant, by: Instant) {
        if !self.leaving.has_begun() {
            self.leaving.begin(by);
            self.messages.cancel_receives();
            self.leave_on(now);
        }
    }

    fn leave_on(&mut self, now: Instant) {
        let settling = self.leaving.is_settling();
        if settling {
            self.streams.discard(now);
        }
        let settled = settling && self.is_quiet();
        self.leaving.advance(now, self.size() == 1, settled);
    }

    pub(super) fn is_whole(&self) -> bool {
        !self.is_leaving() && self.calls.is_whole()
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.has_begun()
    }

    pub(super) fn is_over(&self) -> bool {
        self.leaving.is_over()
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.messages.is_quiet() && self.streams.is_settled() && self.streams.is_quiet()
    }

    /// Whether another rank waits for the next frame, and that frame is not one of many.
    pub(super) fn is_urgent(&self) -> bool {
        (self.calls.is_busy() || self.messages.is_urgent()) && self.streams.is_urgent()
    }

    pub(super) fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        if self.is_over() {
            return None;
        }
        let leaving = self.leaving.due().map(|at| Wait::Leave.at(at));
        let probing = self
            .probing
            .as_ref()
            .and_then(|probing| probing.poll_timeout(now));
        let shrinking = self.shrinking.as_ref().and_then(Shrinking::poll_timeout);
        let (messages, streams) = (
            self.messages.poll_timeout(now),
            self.streams.poll_timeout(now),
        );
        [
            messages,
            streams,
            self.calls.deadline(),
            leaving,
            probing,
            shrinking,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Takes the next keepalive, which precedes all other frames. A member that sends BYE sends
    /// none, because a keepalive means that it stays.
    pub(super) fn take_sign(&mut self) -> Option<(Sign, Notice)> {
        if self.leaving.has_parted() {
            self.calls.forget_signs();
            return None;
        }
        Some((self.calls.take_sign()?, self.calls.notice(self.moved(), 0)))
    }

    pub(super) fn take_bye(&mut self) -> Option<Notice> {
        self.leaving
            .take_bye()
            .map(|repeats| self.calls.notice(self.moved(), repeats))
    }

    /// Returns a number that grows as this rank makes progress: by calls, and by new frames of
    /// streams and messages.
    fn moved(&self) -> u64 {
        let (streams, mailbox) = (self.streams.stats(), self.messages.mailbox().stats());
        let sent = streams.data_sent + mailbox.pushes_sent + mailbox.pulls_sent;
        self.calls.moved().0 + sent + streams.data_received + mailbox.received
    }

    pub(super) fn progress(&self) -> u64 {
        self.moved() + self.calls.moved().1
    }

    pub(super) fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        if self.is_over() {
            return None;
        }
        if let Some(length) = self
            .probing
            .as_mut()
            .and_then(|probing| probing.poll_transmit(now, buffer))
        {
            return Some(length);
        }
        self.streams_first = !self.streams_first;
        if self.streams_first {
            self.streams
                .poll_transmit(now, buffer)
                .or_else(|| self.messages.poll_transmit(now, buffer))
        } else {
            self.messages
                .poll_transmit(now, buffer)
                .or_else(|| self.streams.poll_transmit(now, buffer))
        }
    }

    pub(in crate::communicator) fn begin_shrink(
        &mut self,
        now: Instant,
    ) -> Result<u32, CommunicatorError> {
        self.calls.check_idle()?;
        self.shrinking = Some(Shrinking::new(now, self.rank(), self.size()));
        Ok(self.roster().session())
    }

    /// Takes a statement of a member, even one that is considered lost; returns whether it counts.
    pub(super) fn on_shrink_message(
        &mut self,
        now: Instant,
        frame: &Frame<'_>,
        word: ShrinkBody,
    ) -> bool {
        let (header, roster) = (frame.header, self.roster());
        let member = header.session == roster.session()
            && header.rank != self.rank()
            && roster.is(header.rank, frame.source);
        if member && word.lost.fits(self.size()) {
            self.calls.on_frame_from(now, header.rank);
            self.shrinking
                .iter_mut()
                .for_each(|shrinking| shrinking.on_shrink_report(header.rank, &word));
            return true;
        }
        false
    }

    pub(super) fn settle_shrink(&mut self, now: Instant) -> Option<RankSet> {
        let Group {
            calls,
            shrinking: Some(shrinking),
            ..
        } = self
        else {
            return None;
        };
        let lost = match shrinking.settle(now, |rank| calls.is_absent(rank))? {
            Settled::Without(lost) => lost,
            Settled::Outlawed => {
                shrinking.fail(CommunicatorError::Outlawed);
                return None;
            }
        };
        if calls.is_deaf_without(&lost) {
            shrinking.fail(CommunicatorError::Deaf(calls.named(calls.rank())));
            return None;
        }
        Some(lost)
    }

    pub(in crate::communicator) fn take_shrink_error(&mut self) -> Option<CommunicatorError> {
        let error = self.shrinking.as_mut()?.take_error()?;
        self.shrinking = None;
        Some(error)
    }

    pub(in crate::communicator) fn give_up_shrink(&mut self) -> CommunicatorError {
        let missing = self
            .shrinking
            .take()
            .map(|shrinking| shrinking.missing())
            .unwrap_or_default();
        CommunicatorError::Unshrunk {
            missing_ranks: missing
                .into_iter()
                .map(|rank| self.calls.named(rank))
                .collect(),
        }
    }

    pub(super) fn take_shrink_message(&mut self) -> Option<ShrinkMessage> {
        let body = self.shrinking.as_mut()?.take_shrink()?;
        Some(ShrinkMessage {
            session: self.roster().session(),
            rank: self.rank(),
            body,
        })
    }

    pub(super) fn without(&mut self, lost: &RankSet) -> (Roster, Network) {
        let kept: Vec<usize> = self.roster().left(lost).map(Rank::index).collect();
        let network = self.streams.plans().network_among(&kept);
        (self.roster().without(lost), network)
    }

    pub(super) fn description(&mut self, cluster: Option<KeyName>) -> Description {
        let all: Vec<usize> = (0..self.size().into()).collect();
        let network = self.streams.plans().network_among(&all);
        Description {
            rank: self.rank(),
            cluster,
            roster: self.roster().clone(),
            network,
        }
    }

    pub(super) fn stats(&self, counted: MemberStats) -> MemberStats {
        MemberStats {
            streams: self.streams.stats(),
            mailbox: self.messages.mailbox().stats(),
            ..counted
        }
    }

    pub(super) fn memory(&self) -> MemberMemory {
        MemberMemory {
            streams: self.streams.memory(),
            mailbox: self.messages.mailbox().memory(),
        }
    }

    pub(super) fn audit(&self) -> Result<(), AuditError> {
        self.streams.audit()?;
        self.messages.mailbox().audit()
    }
}
