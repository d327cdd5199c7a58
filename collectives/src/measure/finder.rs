//! Discovery of the hosts that reply to measurement requests.

use super::body::{ProbeBody, Task};
use super::kind;
use super::probe::OrderTokens;
use crate::membership::timers::Wait;
use ethbcast_transport::wire::{self, Frame, Identity};
use ethbcast_transport::{Deadline, Instant, MacAddr, Part};
use std::time::Duration;

const INVITE_EVERY: Duration = Duration::from_millis(100);
/// Time without a new reply after which a search without a wanted number ends.
const SETTLED_AFTER: Duration = Duration::from_millis(500);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeHost {
    pub host: String,
    pub mac: MacAddr,
    pub mtu_bytes: usize,
    /// Number that orders to this host have to carry, if it has a key.
    pub token: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    pub hosts: Vec<String>,
    pub count: Option<usize>,
    pub patience: Duration,
}

pub(super) fn tokens(hosts: &[ProbeHost]) -> OrderTokens {
    hosts
        .iter()
        .filter_map(|host| Some((host.mac, host.token?)))
        .collect()
}

/// Invites the hosts of a group to reply.
///
/// The search ends when all wanted hosts have replied, when the time limit is reached, or, if none
/// in particular is wanted, half a second after the last new reply.
#[derive(Debug)]
pub struct Finder {
    identity: Identity,
    group_mac: MacAddr,
    group: String,
    wanted: Search,
    found: Vec<ProbeHost>,
    began: Instant,
    invite_at: Instant,
    invite: bool,
    settled_at: Option<Instant>,
    done: bool,
    /// Hosts that replied only to an invitation by broadcast, not to the group's address.
    deaf_to_group: Vec<MacAddr>,
    invites_all: bool,
}

impl Finder {
    pub fn new(now: Instant, identity: Identity, group: &str, wanted: Search) -> Finder {
        Finder {
            identity,
            group_mac: wire::group_mac(group),
            group: group.to_owned(),
            wanted,
            found: Vec::new(),
            began: now,
            invite_at: now,
            invite: false,
            settled_at: None,
            done: false,
            deaf_to_group: Vec::new(),
            invites_all: false,
        }
    }

    pub fn is_done(&self) -> bool {
        self.done
    }

    pub fn found(&self) -> &[ProbeHost] {
        &self.found
    }

    pub fn is_deaf_to_group(&self, mac: MacAddr) -> bool {
        self.deaf_to_group.contains(&mac)
    }

    pub fn missing(&self) -> Vec<&str> {
        let unheard = |host: &&String| self.found.iter().all(|found| found.host != **host);
        self.wanted
            .hosts
            .iter()
            .filter(unheard)
            .map(String::as_str)
            .collect()
    }

    fn wants_somebody(&self) -> bool {
        self.wanted.count.is_some() || !self.wanted.hosts.is_empty()
    }
}

impl Part for Finder {
    fn handle_frame(&mut self, now: Instant, frame: &Frame<'_>) {
        if frame.header.kind != kind::ECHO || frame.header.session != self.identity.session {
            return;
        }
        let Some((
            ProbeBody {
                task: Task::Invite,
                number,
                ..
            },
            mut rest,
        )) = ProbeBody::read(frame.payload)
        else {
            return;
        };
        let Some(host) = rest.text() else { return };
        if self.found.iter().all(|found| found.mac != frame.source) {
            let token = rest.u64();
            self.found.push(ProbeHost {
                host,
                mac: frame.source,
                mtu_bytes: number as usize,
                token,
            });
            if self.invites_all {
                self.deaf_to_group.push(frame.source);
            }
            self.settled_at = (!self.wants_somebody()).then_some(now + SETTLED_AFTER);
        }
        self.handle_timeout(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        let complete = if self.wants_somebody() {
            self.found.len() >= self.wanted.count.unwrap_or(0) && self.missing().is_empty()
        } else {
            self.settled_at.is_some_and(|at| at <= now)
        };
        self.done |= complete || now.since(self.began) >= self.wanted.patience;
        if !self.done && self.invite_at <= now {
            self.invite = true;
            // A switch may drop multicast and pass broadcast.
            self.invites_all = now.since(self.began) >= self.wanted.patience / 2;
            self.invite_at = now + INVITE_EVERY;
        }
    }

    fn poll_transmit(&mut self, _now: Instant, buffer: &mut [u8]) -> Option<usize> {
        let invitation = std::mem::take(&mut self.invite)
            .then(|| ProbeBody::plain(Task::Invite).named(&self.group))?;
        let to = if self.invites_all {
            MacAddr::BROADCAST
        } else {
            self.group_mac
        };
        Some(
            self.identity
                .write(buffer, to, &self.identity.header(kind::PROBE), &invitation),
        )
    }

    fn poll_timeout(&self, _now: Instant) -> Option<Deadline> {
        let moments = [
            Some(self.invite_at),
            Some(self.began + self.wanted.patience),
            self.settled_at,
        ];
        let at = moments.into_iter().flatten().min()?;
        (!self.done).then_some(Wait::Announce.at(at))
    }

    fn is_urgent(&self) -> bool {
        true
    }
}
