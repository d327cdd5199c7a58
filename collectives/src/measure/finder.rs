//! Finding hosts that answer.

use super::body::{ProbeBody, Task, read_name, write_name};
use super::post::{header, link};
use crate::membership::timers::Wait;
use ethbcast_transport::wire::Identity;
use ethbcast_transport::wire::{self, Flags, Frame, OVERHEAD_BYTES};
use ethbcast_transport::{Deadline, Instant, MacAddr, Machine};
use std::time::Duration;

/// Between two invitations.
const INVITE_EVERY: Duration = Duration::from_millis(100);
/// Without a number to wait for: so long nobody new must have answered.
const SETTLED_AFTER: Duration = Duration::from_millis(500);

/// A host that answers probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answerer {
    /// Its name.
    pub host: String,
    /// Its interface.
    pub mac: MacAddr,
    /// Its interface's MTU.
    pub mtu_bytes: usize,
}

/// Whom to look for, and how long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// These hosts, if any are named.
    pub hosts: Vec<String>,
    /// So many hosts, whoever they are.
    pub count: Option<usize>,
    /// The longest time to look.
    pub patience: Duration,
}

/// Invites the hosts of a group to answer.
///
/// It is done when everybody wanted has answered, when patience is over, or, if nobody in particular is wanted, half a second
/// after the last new answer.
#[derive(Debug)]
pub struct Finder {
    identity: Identity,
    group_mac: MacAddr,
    group: String,
    wanted: Wanted,
    found: Vec<Answerer>,
    began: Instant,
    invite_at: Instant,
    invite: bool,
    settled_at: Option<Instant>,
    done: bool,
}

impl Finder {
    /// Begins to invite the group's hosts.
    pub fn new(now: Instant, identity: Identity, group: &str, wanted: Wanted) -> Finder {
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
        }
    }

    /// Whether the search is over.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Who has answered, in that order.
    pub fn found(&self) -> &[Answerer] {
        &self.found
    }

    /// Which of the hosts looked for by name have not answered.
    pub fn missing(&self) -> Vec<&str> {
        let unheard = |host: &&String| self.found.iter().all(|found| found.host != **host);
        self.wanted.hosts.iter().filter(unheard).map(String::as_str).collect()
    }

    fn wants_somebody(&self) -> bool {
        self.wanted.count.is_some() || !self.wanted.hosts.is_empty()
    }

    /// Takes a frame that has been parsed; all but answers to its own invitations are ignored.
    pub fn on_frame(&mut self, now: Instant, frame: &Frame<'_>) {
        if frame.header.kind != crate::measure::kind::ECHO || frame.header.session != self.identity.session {
            return;
        }
        let Some((ProbeBody { task: Task::Invite, number, .. }, rest)) = ProbeBody::read(frame.payload) else { return };
        let Some(host) = read_name(rest) else { return };
        if self.found.iter().all(|found| found.mac != frame.source) {
            self.found.push(Answerer { host, mac: frame.source, mtu_bytes: number as usize });
            self.settled_at = (!self.wants_somebody()).then_some(now + SETTLED_AFTER);
        }
        self.on_timeout(now);
    }

    /// Lets time pass.
    pub fn on_timeout(&mut self, now: Instant) {
        let complete = if self.wants_somebody() {
            self.found.len() >= self.wanted.count.unwrap_or(0) && self.missing().is_empty()
        } else {
            self.settled_at.is_some_and(|at| at <= now)
        };
        self.done |= complete || now.since(self.began) >= self.wanted.patience;
        if !self.done && self.invite_at <= now {
            self.invite = true;
            self.invite_at = now + INVITE_EVERY;
        }
    }

    /// Writes the next frame into `buffer`; `None` if there is none.
    pub fn poll(&mut self, _now: Instant, buffer: &mut [u8]) -> Option<usize> {
        if !std::mem::take(&mut self.invite) {
            return None;
        }
        let payload = &mut buffer[OVERHEAD_BYTES..];
        ProbeBody::plain(Task::Invite).write(payload);
        let length = ProbeBody::BYTES + write_name(&mut payload[ProbeBody::BYTES..], &self.group);
        let header = header(&self.identity, crate::measure::kind::PROBE, 0, 0, Flags::default());
        Some(wire::seal(buffer, link(&self.identity, self.group_mac), &header, length))
    }

    /// When to call [`on_timeout`](Finder::on_timeout) again.
    pub fn deadline(&self) -> Option<Deadline> {
        let moments = [Some(self.invite_at), Some(self.began + self.wanted.patience), self.settled_at];
        let at = moments.into_iter().flatten().min()?;
        (!self.done).then_some(Wait::Announce.at(at))
    }
}

impl Machine for Finder {
    fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        if let Ok(frame) = wire::parse(frame) {
            self.on_frame(now, &frame);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.on_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        self.poll(now, buffer)
    }

    fn poll_timeout(&self, _now: Instant) -> Option<Deadline> {
        self.deadline()
    }
}
