//! The machine of a mailbox: frames and time in, frames and deadlines out.

use super::ledger::Asked;
use super::mailbox::Mailbox;
use super::outcome::{RecvOutcome, SendOutcome};
use crate::machine::{Deadline, Machine, Timer};
use crate::time::Instant;
use crate::wire::{self, Frame, Kind};

impl Mailbox {
    /// Takes a frame that has been parsed; one that is no message's is ignored.
    pub fn on_frame(&mut self, now: Instant, frame: &Frame<'_>) {
        let header = frame.header;
        if !matches!(header.kind, Kind::PUSH | Kind::PULL | Kind::NOTE | Kind::RECEIPT | Kind::ASK) {
            return;
        }
        let identity = self.desk.identity;
        let ours = header.session == identity.session && header.stream == identity.stream && header.rank != identity.rank;
        let channel = self.channels.get_mut(usize::from(header.rank));
        match channel.filter(|channel| ours && !channel.gone && channel.peer.mac == frame.source) {
            Some(channel) => {
                channel.on_frame(now, frame, &mut self.desk);
                self.touch(header.rank);
            }
            None => self.desk.stats.strangers += 1,
        }
    }

    /// Something about `rank` has changed: it may have something to send, and another deadline.
    pub(super) fn touch(&mut self, rank: u16) {
        let channel = &mut self.channels[usize::from(rank)];
        if rank == self.desk.identity.rank {
            channel.pump_local(&mut self.desk);
            return;
        }
        if !std::mem::replace(&mut channel.queued, true) {
            self.ready.push_back(rank);
        }
        self.arm(rank);
    }

    pub(super) fn arm(&mut self, rank: u16) {
        let channel = &mut self.channels[usize::from(rank)];
        let deadline = channel.deadline();
        if deadline != channel.armed {
            self.timers.extend(deadline.map(|deadline| (deadline, rank)));
            if let Some(armed) = std::mem::replace(&mut channel.armed, deadline) {
                self.timers.remove(&(armed, rank));
            }
        }
    }

    fn expire(&mut self, asked: Asked) {
        let ledger = &mut self.desk.ledger;
        let rank = match asked {
            Asked::Send(id) => ledger.send(id).map(|sending| {
                self.channels[usize::from(sending.to)].outbox.withdraw(id);
                ledger.end_send(id, SendOutcome::TimedOut);
                sending.to
            }),
            Asked::Recv(id) => ledger.receive(id).map(|receiving| (receiving.from, receiving.message)).map(|(from, message)| {
                if let Some(message) = message {
                    self.channels[usize::from(from)].inbox.abandon(message);
                }
                ledger.end_receive(id, RecvOutcome::TimedOut);
                from
            }),
        };
        if let Some(rank) = rank {
            self.touch(rank);
        }
    }
}

impl Machine for Mailbox {
    fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        match wire::parse(frame) {
            Ok(frame) => self.on_frame(now, &frame),
            Err(_) => self.desk.stats.malformed += 1,
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        while let Some(&(deadline, rank)) = self.timers.first().filter(|(deadline, _)| deadline.at <= now) {
            let silent = self.channels[usize::from(rank)].on_timeout(now, &self.settings);
            debug_assert!(self.channels[usize::from(rank)].deadline() != Some(deadline), "what was due is not due any more");
            if silent {
                log::warn!("rank {rank} has not answered for {:?}: given up", self.settings.silent_after);
                self.remove_peer(rank);
            } else {
                self.touch(rank);
            }
        }
        while let Some(asked) = self.desk.ledger.overdue(now) {
            self.expire(asked);
        }
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        while let Some(rank) = self.ready.pop_front() {
            let channel = &mut self.channels[usize::from(rank)];
            let length = channel.poll(now, &mut self.desk, buffer);
            channel.queued = length.is_some();
            if length.is_some() {
                self.ready.push_back(rank);
            }
            self.arm(rank);
            if length.is_some() {
                return length;
            }
        }
        None
    }

    fn poll_timeout(&self, _now: Instant) -> Option<Deadline> {
        let peers = self.timers.first().map(|&(deadline, _)| deadline);
        // A send or receive whose time is up is the application's giving up on a peer.
        let asked = self.desk.ledger.due().map(|at| Deadline { at, why: Timer::OPERATION });
        [peers, asked].into_iter().flatten().min()
    }

    fn is_urgent(&self) -> bool {
        self.desk.ledger.peers().any(|rank| self.channels[usize::from(rank)].is_urgent())
    }
}
