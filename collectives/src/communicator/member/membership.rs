//! A member of a group that is complete: its messages, its streams, and what it knows of the others.

use super::agreement::Agreement;
use super::leaving::{FAREWELLS, Leaving};
use super::outcomes::Outcomes;
use super::place::{Place, StreamName};
use super::streams::Streams;
use crate::communicator::body::Notice;
use crate::communicator::config::{Config, gone_after, period};
use crate::communicator::error::{CommunicatorError, Named};
use crate::communicator::failure::{Failure, What};
use crate::communicator::roll::Roll;
use crate::communicator::signature::Signature;
use crate::membership::presence::{Change, Presence, Watch};
use ethbcast_transport::messages::Mailbox;
use ethbcast_transport::wire::{Frame, HEADER_BYTES, Kind};
use ethbcast_transport::wire::{Identity, Peer};
use ethbcast_transport::{Deadline, Instant, Part};
use std::time::Duration;

/// Between two repetitions of what all should hear soon: why the group cannot go on, or a good-bye.
pub(super) const HURRY: Duration = Duration::from_micros(12_500);
/// How often a reason to stop is repeated at once.
const REPEATS: u8 = 2;

/// See the module's description.
#[derive(Debug)]
pub(in crate::communicator) struct Membership {
    pub(super) roll: Roll,
    rank: u16,
    pub(in crate::communicator) mailbox: Mailbox,
    pub(in crate::communicator) outcomes: Outcomes,
    pub(in crate::communicator) streams: Streams,
    pub(super) watch: Watch,
    pub(super) agreement: Agreement,
    pub(super) leaving: Leaving,
    /// When to give a sign of life, and how often soon again.
    alive_due: Instant,
    hurried: u8,
    /// A sign of life, or the last words with so many repetitions to come, waits to be sent.
    alive_pending: bool,
    pub(super) bye_pending: Option<u8>,
    pub(super) signs_sent: u64,
    pub(super) strangers: u64,
    pub(super) malformed: u64,
    /// Whether the streams come before the messages at the next frame.
    turn: bool,
}

impl Membership {
    pub(super) fn new(now: Instant, config: &Config, roll: Roll, rank: u16) -> Membership {
        let station = &config.station;
        let peers: Vec<Peer> = roll.entries().iter().zip(0..).map(|(entry, rank)| Peer { rank, mac: entry.mac }).collect();
        let identity = Identity { session: roll.session(), stream: 0, rank, mac: station.mac, ether_type: station.ether_type };
        let payload_bytes = usize::from(roll.mtu_bytes()) - HEADER_BYTES;
        let mailbox = Mailbox::new(identity, &peers, payload_bytes, config.settings());
        let (removed, tuning) = (vec![false; peers.len()], config.tuning());
        let streams = Streams::new(Place { identity, group_mac: station.group_mac, peers, payload_bytes, tuning, removed });
        let size = roll.size();
        Membership {
            roll,
            rank,
            mailbox,
            outcomes: Outcomes::default(),
            streams,
            watch: Watch::new(now, rank, size, gone_after(size)),
            agreement: Agreement::new(rank, size),
            leaving: Leaving::No,
            alive_due: now,
            hurried: 0,
            alive_pending: false,
            bye_pending: None,
            signs_sent: 0,
            strangers: 0,
            malformed: 0,
            turn: false,
        }
    }

    pub(in crate::communicator) fn rank(&self) -> u16 {
        self.rank
    }

    pub(in crate::communicator) fn size(&self) -> u16 {
        self.roll.size()
    }

    /// A rank with its host's name.
    pub(super) fn named(&self, rank: u16) -> Named {
        Named { rank, host: self.roll.host(rank).to_owned() }
    }

    /// # Errors
    /// If there is no such rank.
    pub(super) fn check_rank(&self, rank: u16) -> Result<(), CommunicatorError> {
        let size = self.size();
        if rank < size { Ok(()) } else { Err(CommunicatorError::NoSuchRank { rank, size }) }
    }

    /// Takes a frame of the session.
    pub(super) fn on_frame(&mut self, now: Instant, frame: &Frame<'_>) {
        if self.is_over() {
            return;
        }
        let header = frame.header;
        let member = header.session == self.roll.session() && header.rank != self.rank && self.roll.is(header.rank, frame.source);
        if !member || !self.watch.hear(now, header.rank) {
            self.strangers += 1;
            return;
        }
        if !matches!(header.kind, crate::communicator::kind::ALIVE | crate::communicator::kind::BYE) {
            self.leaving.linger(now);
        }
        match header.kind {
            Kind::DATA | Kind::ACK | Kind::HEARTBEAT => self.streams.on_frame(now, frame),
            Kind::PUSH | Kind::PULL | Kind::NOTE | Kind::RECEIPT | Kind::ASK => {
                self.mailbox.handle_frame(now, frame);
                self.outcomes.collect(&mut self.mailbox);
            }
            crate::communicator::kind::ALIVE | crate::communicator::kind::BYE => match Notice::decode(frame.payload, self.size()) {
                Some(notice) => self.on_notice(now, header.rank, header.kind, notice),
                None => self.malformed += 1,
            },
            _ => self.strangers += 1,
        }
    }

    fn on_notice(&mut self, now: Instant, rank: u16, kind: Kind, notice: Notice) {
        let calls = notice.calls.into_iter().flatten();
        let mismatch = calls.filter_map(|signature| self.agreement.note(rank, signature)).last();
        // What another rank has found comes first: it names the ranks it is about.
        if let Some(failure) = notice.failure.or(mismatch) {
            self.fail(now, failure);
        }
        if kind == crate::communicator::kind::BYE {
            let calls = notice.calls[0].map_or(0, |signature| signature.number.saturating_add(1));
            self.watch.on_bye(rank, calls, now + HURRY * u32::from(notice.repeats.min(FAREWELLS) + 1));
        }
    }

    /// Collectives cannot go on; all are told at once.
    pub(super) fn fail(&mut self, now: Instant, failure: Failure) {
        if self.agreement.fail(failure) {
            log::warn!("{}", self.error(failure));
            (self.alive_due, self.hurried) = (now, REPEATS);
        }
    }

    pub(super) fn error(&self, failure: Failure) -> CommunicatorError {
        failure.error(self.rank, &self.roll)
    }

    /// Lets time pass.
    pub(super) fn on_timeout(&mut self, now: Instant) {
        if self.is_over() {
            return;
        }
        self.mailbox.handle_timeout(now);
        self.outcomes.collect(&mut self.mailbox);
        self.streams.on_timeout(now);
        if self.watch.due().is_some_and(|due| due <= now) {
            self.look(now);
        }
        // One that is alone need not say that it is there.
        if self.alive_due <= now && self.size() > 1 {
            self.look(now);
            self.compare_unread(now);
            self.give_sign(now);
        }
        self.leave_on(now);
    }

    /// A sign of life is due; the next one soon if there is something that all should know.
    fn give_sign(&mut self, now: Instant) {
        self.alive_pending = true;
        let mut pause = period(self.size());
        if self.signs_sent == 0 {
            // Not all in the same moment.
            pause += pause * u32::from(self.rank) / u32::from(self.size());
        }
        if let Some(hurried) = self.hurried.checked_sub(1) {
            (self.hurried, pause) = (hurried, HURRY);
        }
        self.alive_due = now + pause;
    }

    /// Looks who is there.
    fn look(&mut self, now: Instant) {
        for change in self.watch.look(now) {
            let (Change::Left(rank) | Change::Gone(rank)) = change;
            self.streams.remove_reader(now, rank);
            self.mailbox.remove_peer(rank);
            self.outcomes.collect(&mut self.mailbox);
            if let Change::Gone(rank) = change {
                self.fail(now, Failure { from: self.agreement.newest_of(rank), what: What::Gone { rank } });
            }
        }
    }

    /// Messages that nobody reads may belong to a call that this rank makes otherwise.
    fn compare_unread(&mut self, now: Instant) {
        let compare = |(name, frame): (StreamName, &[u8])| match Signature::split(frame) {
            Some((signature, _)) => self.agreement.compare(name.origin, signature),
            None => Some(Failure { from: 0, what: What::Garbled { rank: name.origin } }),
        };
        let found = self.streams.unread().find_map(compare);
        if let Some(failure) = found {
            self.fail(now, failure);
        }
    }

    /// Whether nothing is on its way, owed or awaited, signs of life apart.
    pub(super) fn is_quiet(&self) -> bool {
        self.mailbox.is_quiet() && self.streams.is_settled() && self.streams.is_quiet()
    }

    /// Whether somebody waits for the next frame, and it is not one of many.
    pub(super) fn is_urgent(&self) -> bool {
        (self.agreement.current().is_some() || self.outcomes.are_awaited()) && self.streams.are_urgent()
    }

    pub(super) fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        if self.is_over() {
            return None;
        }
        let alive = (self.size() > 1).then_some(Deadline { at: self.alive_due, why: crate::timer::STATUS });
        let left = self.watch.due().map(|at| Deadline { at, why: crate::timer::DEAD });
        let leaving = self.leaving.due().map(|at| Deadline { at, why: crate::timer::VERDICT });
        [self.mailbox.poll_timeout(now), self.streams.deadline(), alive, left, leaving].into_iter().flatten().min()
    }

    /// The sign of life that is to be sent.
    pub(super) fn take_sign(&mut self) -> Option<Notice> {
        std::mem::take(&mut self.alive_pending).then(|| {
            self.signs_sent += 1;
            self.notice(0)
        })
    }

    /// The good-bye that is to be sent, after everything else.
    pub(super) fn take_bye(&mut self) -> Option<Notice> {
        self.bye_pending.take().map(|repeats| self.notice(repeats))
    }

    fn notice(&self, repeats: u8) -> Notice {
        Notice { calls: self.agreement.last(), failure: self.agreement.failure(), repeats }
    }

    /// Writes the next frame of a message or a stream: they take turns.
    pub(super) fn poll(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        if self.is_over() {
            return None;
        }
        self.turn = !self.turn;
        if self.turn {
            self.streams.poll(now, buffer).or_else(|| self.mailbox.poll_transmit(now, buffer))
        } else {
            self.mailbox.poll_transmit(now, buffer).or_else(|| self.streams.poll(now, buffer))
        }
    }

    /// Whether messages can be sent to a rank.
    ///
    /// # Errors
    /// If it is not there.
    pub(super) fn check_presence(&self, rank: u16) -> Result<(), CommunicatorError> {
        self.check_rank(rank)?;
        match self.watch.presence(rank) {
            Presence::Here => Ok(()),
            Presence::Leaving { .. } | Presence::Left { .. } => Err(CommunicatorError::Left(self.named(rank))),
            Presence::Gone => Err(CommunicatorError::Gone(self.named(rank))),
        }
    }
}
