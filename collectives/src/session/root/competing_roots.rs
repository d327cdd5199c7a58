//! Other roots of the group that seem to have begun first. If one answers, it has the group.
//!
//! An announcement alone proves nothing, as it may be replayed. So this root asks the other one,
//! and waits for a moment.

use super::{RootEndpoint, RootFailure};
use crate::session::message::{Message, ROOT_ASKS};
use ethbcast_transport::{Instant, MacAddr};
use std::time::Duration;

/// Maximum number of competing roots probed; further ones are taken for replays.
const MAX_COMPETING_ROOTS: usize = 8;
/// Number of probes of a competing root, one per announcement of this root.
const TRIES: u32 = 5;
/// Longest delay of this root, however many competing roots there seem to be.
const MAX_WAIT: Duration = Duration::from_secs(2);

#[derive(Clone, Debug)]
struct CompetingRoot {
    mac: MacAddr,
    session: u32,
    host: String,
    offer: String,
    left: u32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct CompetingRoots {
    rivals: Vec<CompetingRoot>,
    since: Option<Instant>,
}

impl CompetingRoots {
    pub(super) fn on_invitation(
        &mut self,
        now: Instant,
        (mac, session): (MacAddr, u32),
        (host, offer): (&str, &str),
        endpoint: &mut RootEndpoint,
    ) {
        if self.rivals.len() >= MAX_COMPETING_ROOTS
            || self.rivals.iter().any(|rival| (rival.mac, rival.session) == (mac, session))
        {
            return;
        }
        self.since.get_or_insert(now);
        let (host, offer) = (host.to_owned(), offer.to_owned());
        let mut rival = CompetingRoot { mac, session, host, offer, left: TRIES };
        rival.ask(endpoint);
        self.rivals.push(rival);
    }

    pub(super) fn probe(&mut self, endpoint: &mut RootEndpoint) {
        self.rivals.iter_mut().for_each(|rival| rival.ask(endpoint));
    }

    pub(super) fn awaited_until(&self, now: Instant) -> Option<Instant> {
        let until = self.since? + MAX_WAIT;
        (now < until && self.rivals.iter().any(|rival| rival.left > 0)).then_some(until)
    }

    pub(super) fn on_reply(&self, from: (MacAddr, u32), nonce: u64, endpoint: &RootEndpoint) -> Option<RootFailure> {
        let asked = |rival: &&CompetingRoot| (rival.mac, rival.session) == from && rival.nonce(endpoint) == nonce;
        let rival = self.rivals.iter().find(asked)?;
        let group = endpoint.station().group.clone();
        Some(RootFailure::GroupTaken { host: rival.host.clone(), mac: rival.mac, offer: rival.offer.clone(), group })
    }
}

impl CompetingRoot {
    /// Nonce of the probe; unique per pair of sessions.
    fn nonce(&self, endpoint: &RootEndpoint) -> u64 {
        u64::from(endpoint.config().session) << 32 | u64::from(self.session)
    }

    fn ask(&mut self, endpoint: &mut RootEndpoint) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        if self.left == 0 {
            log::warn!("{} ({}) seems to send to this group, and does not answer", self.host, self.mac);
        }
        let station = endpoint.station();
        let (group, host, mtu_bytes) = (station.group.clone(), station.host.clone(), station.mtu_bytes);
        let nonce = self.nonce(endpoint);
        let question = Message::Join { nonce, group, host, mtu_bytes, free_bytes: 0, features: ROOT_ASKS };
        endpoint.send_in(self.session, self.mac, &question);
    }
}
