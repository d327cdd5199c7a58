//! What a root and a receiver have alike.

use super::message::Message;
use crate::membership::control::{self, ControlQueue};
use crate::membership::{ControlStats, Station};
use ethbcast_transport::MacAddr;
use ethbcast_transport::wire::{Identity, Rank};
use std::collections::VecDeque;

/// One end of a session: what it was told, who it is in its control messages, those that wait to be sent, and events
/// for its user.
#[derive(Debug)]
pub(super) struct Endpoint<C, E> {
    config: C,
    station: Station,
    identity: Identity,
    /// The number of the view under which control messages are sent; 0 before there is one.
    epoch: u32,
    control: ControlQueue,
    events: VecDeque<E>,
    stats: ControlStats,
}

impl<C, E> Endpoint<C, E> {
    /// An end that speaks as this rank of this session.
    pub(super) fn new(config: C, station: Station, session: u32, rank: Rank) -> Endpoint<C, E> {
        let identity = station.identity(session, rank);
        let (control, events, stats) = (ControlQueue::default(), VecDeque::new(), ControlStats::default());
        Endpoint { config, station, identity, epoch: 0, control, events, stats }
    }

    pub(super) fn config(&self) -> &C {
        &self.config
    }

    pub(super) fn station(&self) -> &Station {
        &self.station
    }

    pub(super) fn identity(&self) -> Identity {
        self.identity
    }

    /// Speaks in this session from now on, under no view yet.
    pub(super) fn enter(&mut self, session: u32) {
        self.identity.session = session;
    }

    /// Speaks as this rank of this view from now on.
    pub(super) fn adopt(&mut self, rank: Rank, epoch: u32) {
        self.identity.rank = rank;
        self.epoch = epoch;
    }

    /// Queues a control message.
    pub(super) fn send(&mut self, to: MacAddr, message: &Message) {
        let (kind, body) = message.encode();
        self.control.put(to, control::header(&self.identity, kind, self.epoch), body);
    }

    /// Queues a control message for everybody.
    pub(super) fn send_to_group(&mut self, message: &Message) {
        self.send(self.station().group_mac, message);
    }

    /// Writes the control message that has waited longest as a frame.
    pub(super) fn poll_transmit(&mut self, buffer: &mut [u8]) -> Option<usize> {
        self.control.poll(&self.station, &mut self.stats, buffer)
    }

    /// Whether no control message waits.
    pub(super) fn is_quiet(&self) -> bool {
        self.control.is_empty()
    }

    /// Drops the control messages that wait.
    pub(super) fn silence(&mut self) {
        self.control = ControlQueue::default();
    }

    /// Queues an event for the user.
    pub(super) fn tell(&mut self, event: E) {
        self.events.push_back(event);
    }

    pub(super) fn poll_event(&mut self) -> Option<E> {
        self.events.pop_front()
    }

    pub(super) fn stats(&self) -> ControlStats {
        self.stats
    }

    /// Reads and counts a control message.
    pub(super) fn read(&mut self, frame: &ethbcast_transport::wire::Frame<'_>) -> Option<Message> {
        let message = Message::decode(frame.header.kind, frame.payload);
        *(if message.is_some() { &mut self.stats.received } else { &mut self.stats.malformed }) += 1;
        message
    }

    pub(super) fn count_malformed(&mut self) {
        self.stats.malformed += 1;
    }

    pub(super) fn count_stranger(&mut self) {
        self.stats.strangers += 1;
    }
}
