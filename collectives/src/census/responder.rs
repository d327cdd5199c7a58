//! Replying end of the census.

use super::CensusRequest;
use super::kind::WHO;
use crate::membership::Station;
use crate::membership::timers::Wait;
use crate::membership::timing::jitter;
use ethbcast_transport::wire::Frame;
use ethbcast_transport::{Deadline, Instant, MacAddr};
use std::time::Duration;

/// Limit of askers served at once. Queries are unauthenticated, so further ones are dropped.
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
}

impl CensusResponder {
    /// Takes a WHO that may be meant for this host; returns false if it is malformed.
    pub fn on_frame(&mut self, now: Instant, frame: &Frame<'_>, station: &Station) -> bool {
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
        let due = PendingReply { at, to: frame.source, nonce: question.nonce };
        let has_room = self.due.len() < MAX_ASKERS;
        match self.due.iter_mut().find(|due| due.to == frame.source) {
            // An asker that repeats its query before the reply gets it at the earlier time.
            Some(waiting) => *waiting = PendingReply { at: waiting.at.min(at), ..due },
            None if has_room => self.due.push(due),
            None => {}
        }
        true
    }

    /// Returns the address and nonce of a reply that is due.
    pub fn poll(&mut self, now: Instant) -> Option<(MacAddr, u64)> {
        if self.next.is_some_and(|next| now < next) {
            return None;
        }
        let first = self.due.iter().enumerate().min_by_key(|(_, due)| due.at);
        let (at, _) = first.filter(|(_, due)| due.at <= now)?;
        let PendingReply { to, nonce, .. } = self.due.swap_remove(at);
        self.next = Some(now + REPLY_INTERVAL);
        Some((to, nonce))
    }

    /// Returns when the next reply is due.
    pub fn next(&self) -> Option<Deadline> {
        let at = self.due.iter().map(|due| due.at).min()?;
        Some(Wait::Announce.at(self.next.map_or(at, |next| at.max(next))))
    }
}
