//! Querying end of the census.

use super::kind::{HERE, WHO};
use super::{CensusReply, CensusRequest, address};
use crate::membership::timers::Wait;
use ethbcast_transport::wire::{self, Identity};
use ethbcast_transport::{Deadline, Instant, MacAddr, Machine};
use std::collections::BTreeMap;
use std::time::Duration;

/// Limit of receivers kept: forged ones by the thousand must not take more memory.
const MAX_REPLIES: usize = 65_536;
const ASK_EVERY: Duration = Duration::from_millis(300);
/// Shortest time over which replies are spread; it grows with each known receiver.
const MIN_SPREAD: Duration = Duration::from_millis(50);
const SPREAD_EACH: Duration = Duration::from_micros(200);
/// Rounds without a reply after which a receiver is forgotten.
const FORGOTTEN_AFTER: u32 = 2;

/// A receiver that has replied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Present {
    /// Its address.
    pub mac: MacAddr,
    /// Its latest reply.
    pub answer: CensusReply,
    round: u32,
}

/// Asks in rounds which receivers are there.
#[derive(Debug)]
pub struct CensusQuery {
    identity: Identity,
    group: String,
    wait: Duration,
    nonce: u64,
    round: u32,
    round_began: Instant,
    ask_at: Instant,
    asks: bool,
    found: BTreeMap<(MacAddr, String), Present>,
    lost: u64,
}

impl CensusQuery {
    /// Asks from `now` on, in rounds of length `wait`. `nonce` is random. An empty group stands for
    /// all groups.
    pub fn new(now: Instant, identity: Identity, group: &str, wait: Duration, nonce: u64) -> CensusQuery {
        CensusQuery {
            identity,
            group: group.to_owned(),
            wait,
            nonce,
            round: 0,
            round_began: now,
            ask_at: now,
            asks: false,
            found: BTreeMap::new(),
            lost: 0,
        }
    }

    /// Returns the number of complete rounds.
    pub fn rounds(&self) -> u32 {
        self.round
    }

    /// Returns the present receivers, by address and group.
    pub fn present(&self) -> impl Iterator<Item = &Present> {
        self.found.values()
    }

    /// Returns the number of replies for which there was no room.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    fn spread(&self) -> Duration {
        MIN_SPREAD + SPREAD_EACH * self.found.len().min(MAX_REPLIES) as u32
    }

    /// Returns the query's nonce in this round: a late reply belongs to none.
    fn number(&self) -> u64 {
        self.nonce.wrapping_add(u64::from(self.round))
    }
}

impl Machine for CensusQuery {
    fn handle_frame(&mut self, _now: Instant, frame: &[u8]) {
        let Ok(frame) = wire::parse(frame) else { return };
        if frame.header.kind != HERE || frame.source.is_multicast() {
            return;
        }
        let Some(answer) = CensusReply::decode(frame.payload).filter(|answer| answer.nonce == self.number()) else {
            return;
        };
        let (key, round) = ((frame.source, answer.group.clone()), self.round);
        if self.found.len() >= MAX_REPLIES && !self.found.contains_key(&key) {
            self.lost += 1;
            return;
        }
        self.found.insert(key, Present { mac: frame.source, answer, round });
    }

    fn handle_timeout(&mut self, now: Instant) {
        if now.since(self.round_began) >= self.wait {
            self.round += 1;
            (self.round_began, self.ask_at) = (now, now);
            let round = self.round;
            self.found.retain(|_, present| round - present.round <= FORGOTTEN_AFTER);
        }
        if self.ask_at <= now {
            self.asks = true;
            self.ask_at = now + ASK_EVERY.max(self.spread());
        }
    }

    fn poll_transmit(&mut self, _now: Instant, buffer: &mut [u8]) -> Option<usize> {
        if !std::mem::take(&mut self.asks) {
            return None;
        }
        let question = CensusRequest { nonce: self.number(), spread: self.spread(), group: self.group.clone() };
        Some(self.identity.write(buffer, address(), &self.identity.header(WHO), &question.encode()))
    }

    fn poll_timeout(&self, _now: Instant) -> Option<Deadline> {
        Some(Wait::Announce.at(self.ask_at.min(self.round_began + self.wait)))
    }

    fn is_urgent(&self) -> bool {
        false
    }
}
