//! Both ends of the query for listening receivers: one host asks and collects replies, each
//! receiver replies.

use super::address;
use super::kind::{HERE, WHO};
use super::message::{CensusReply, CensusRequest};
use crate::keys::{ClusterSecrets, Keys};
use crate::membership::Station;
use crate::membership::timers::{Wait, jitter};
use ethbcast_transport::wire::{self, Frame, Identity};
use ethbcast_transport::{Deadline, Instant, MacAddr, Machine};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Limit of receivers kept: forged ones by the thousand must not take more memory.
const MAX_REPLIES: usize = 65_536;
const QUERY_INTERVAL: Duration = Duration::from_millis(300);
/// Shortest time over which replies are spread.
const MIN_SPREAD: Duration = Duration::from_millis(50);
/// Addition to it for each known receiver.
const SPREAD_EACH: Duration = Duration::from_micros(200);
/// Rounds without a reply after which a receiver is forgotten.
const FORGOTTEN_AFTER: u32 = 2;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Present {
    pub mac: MacAddr,
    pub answer: CensusReply,
    round: u32,
}

/// Queries receivers in rounds.
#[derive(Debug)]
pub struct CensusQuery {
    identity: Identity,
    to: MacAddr,
    group: String,
    wait: Duration,
    nonce: u64,
    round: u32,
    round_began: Instant,
    query_at: Instant,
    /// Frames that are still to be sent: one for each secret.
    asks: usize,
    found: BTreeMap<(MacAddr, String), Present>,
    lost: u64,
    secrets: Option<ClusterSecrets>,
}

impl CensusQuery {
    /// Creates a query that starts at `now`, in rounds of length `wait`. `nonce` is random. An
    /// empty group stands for all groups.
    pub fn new(now: Instant, identity: Identity, group: &str, wait: Duration, nonce: u64) -> CensusQuery {
        CensusQuery {
            identity,
            to: address(),
            group: group.to_owned(),
            wait,
            nonce,
            round: 0,
            round_began: now,
            query_at: now,
            asks: 0,
            found: BTreeMap::new(),
            lost: 0,
            secrets: None,
        }
    }

    /// Restricts the query to hosts with these keys.
    pub fn with_keys(self, keys: Arc<Keys>) -> CensusQuery {
        CensusQuery { secrets: Some(ClusterSecrets::new(keys)), ..self }
    }

    /// Sends the query to the broadcast address, as a port by unicast needs it.
    pub fn by_broadcast(self) -> CensusQuery {
        CensusQuery { to: MacAddr::BROADCAST, ..self }
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
        let mut plain = Vec::new();
        let parsed = match &self.secrets {
            Some(secrets) => secrets.open(frame, &mut plain),
            None => wire::parse(frame),
        };
        let Ok(frame) = parsed else { return };
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
            (self.round_began, self.query_at) = (now, now);
            let round = self.round;
            self.found.retain(|_, present| round - present.round <= FORGOTTEN_AFTER);
        }
        if self.query_at <= now {
            self.asks = self.secrets.as_ref().map_or(1, ClusterSecrets::count);
            self.query_at = now + QUERY_INTERVAL.max(self.spread());
        }
    }

    fn poll_transmit(&mut self, _now: Instant, buffer: &mut [u8]) -> Option<usize> {
        self.asks = self.asks.checked_sub(1)?;
        let question = CensusRequest { nonce: self.number(), spread: self.spread(), group: self.group.clone() };
        let (header, body) = (self.identity.header(WHO), question.encode());
        let Some(secrets) = &mut self.secrets else {
            return Some(self.identity.write(buffer, self.to, &header, &body));
        };
        let (guard, header, body) = secrets.close(self.asks, header, body)?;
        Some(Identity { guard, ..self.identity.clone() }.write(buffer, self.to, &header, &body))
    }

    fn poll_timeout(&self, _now: Instant) -> Option<Deadline> {
        Some(Wait::Announce.at(self.query_at.min(self.round_began + self.wait)))
    }

    fn is_urgent(&self) -> bool {
        false
    }
}

/// Limit of replies that are due at once; the oldest makes room.
const MAX_ASKERS: usize = 16;
const REPLY_INTERVAL: Duration = Duration::from_millis(10);

/// Replies that are due.
#[derive(Clone, Debug, Default)]
pub struct CensusResponder {
    due: Vec<PendingReply>,
    next: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct PendingReply {
    at: Instant,
    to: MacAddr,
    nonce: u64,
    asked_by: usize,
}

impl CensusResponder {
    /// Takes a WHO that may be meant for this host; `asked_by` is the index of the secret that
    /// authenticated it. Returns false if it is malformed.
    pub fn on_frame(&mut self, now: Instant, frame: &Frame<'_>, station: &Station, asked_by: usize) -> bool {
        if frame.header.kind != WHO {
            return false;
        }
        let Some(question) = CensusRequest::decode(frame.payload) else { return false };
        let is_meant = question.group.is_empty() || question.group == station.group;
        if !is_meant || frame.source.is_multicast() {
            return true;
        }
        let own = station.mac.octets().into_iter().fold(0_u64, |seed, octet| seed << 8 | u64::from(octet));
        let of_group = station.group_mac.octets()[5];
        let at = now + jitter(question.spread, question.nonce ^ own ^ u64::from(of_group) << 48);
        let due = PendingReply { at, to: frame.source, nonce: question.nonce, asked_by };
        // From one asker, in this round or the one before: an older query may be replayed.
        let is_same = |one: &PendingReply| one.to == due.to && due.nonce.wrapping_sub(one.nonce) <= 1;
        match self.due.iter_mut().find(|one| is_same(one)) {
            // An asker that repeats its query before the reply gets it at the earlier time.
            Some(waiting) => *waiting = PendingReply { at: waiting.at.min(at), ..due },
            None => {
                if self.due.len() >= MAX_ASKERS {
                    self.due.remove(0);
                }
                self.due.push(due);
            }
        }
        true
    }

    /// Returns the address and nonce of a reply that is due, and the index of the secret that
    /// authenticated its query.
    pub fn poll(&mut self, now: Instant) -> Option<(MacAddr, u64, usize)> {
        if self.next.is_some_and(|next| now < next) {
            return None;
        }
        let first = self.due.iter().enumerate().min_by_key(|(_, due)| due.at);
        let (at, _) = first.filter(|(_, due)| due.at <= now)?;
        let PendingReply { to, nonce, asked_by, .. } = self.due.remove(at);
        self.next = Some(now + REPLY_INTERVAL);
        Some((to, nonce, asked_by))
    }

    pub fn next(&self) -> Option<Deadline> {
        let at = self.due.iter().map(|due| due.at).min()?;
        Some(Wait::Announce.at(self.next.map_or(at, |next| at.max(next))))
    }
}
