//! Phases of a transfer at its sender: gathering of receivers, the running stream, the end. The
//! last repeats the final message until the members have it.

use super::admission::Gathering;
use super::config::RootEndpoint;
use super::running::SessionPhase;
use crate::membership::timers::Wait;
use crate::session::message::Message;
use ethbcast_transport::{Deadline, Instant, MacAddr};

#[derive(Clone, Debug)]
pub(super) enum RootPhase {
    Gathering(Box<Gathering>),
    Running(Box<SessionPhase>),
    Closing(Closing, Option<Box<SessionPhase>>),
    Ended(Option<Box<SessionPhase>>),
}

impl RootPhase {
    pub(super) fn running(&self) -> Option<&SessionPhase> {
        match self {
            RootPhase::Gathering(_) => None,
            RootPhase::Running(running) => Some(running),
            RootPhase::Closing(_, members) | RootPhase::Ended(members) => members.as_deref(),
        }
    }

    pub(super) fn running_mut(&mut self) -> Option<&mut SessionPhase> {
        match self {
            RootPhase::Gathering(_) => None,
            RootPhase::Running(running) => Some(running),
            RootPhase::Closing(_, members) | RootPhase::Ended(members) => members.as_deref_mut(),
        }
    }

    pub(super) fn has_group(&self) -> bool {
        matches!(self, RootPhase::Gathering(_) | RootPhase::Running(_))
    }

    pub(super) fn take(&mut self) -> Option<Box<SessionPhase>> {
        match std::mem::replace(self, RootPhase::Ended(None)) {
            RootPhase::Gathering(_) => None,
            RootPhase::Running(running) => Some(running),
            RootPhase::Closing(_, members) | RootPhase::Ended(members) => members,
        }
    }
}

/// Extra repetitions per retransmitted fraction of the frames sent: 3 more at 10 % loss to seven
/// receivers, 9 at 30 %.
const LOSSY_TIMES: u64 = 18;
const MAX_MORE: u64 = 9;
/// Number of last repetitions that also go to every member by unicast, if loss is at its highest
/// and storm control is likely.
const TIMES_ALONE: u32 = 3;

#[derive(Clone, Debug)]
pub(super) struct Closing {
    last_word: Message,
    deaf: Vec<MacAddr>,
    alone: Vec<MacAddr>,
    left: u32,
    next: Instant,
}

impl Closing {
    /// Begins to repeat the message `farewells` times, and more often if much of the stream was
    /// lost: a receiver that misses all of them waits for the root until its patience ends.
    pub(super) fn new(
        now: Instant,
        last_word: Message,
        farewells: u32,
        members: Option<&SessionPhase>,
    ) -> Closing {
        let deaf: Vec<MacAddr> = members.iter().flat_map(|members| members.deaf()).collect();
        let sent = members
            .map(|members| members.delivery().stats())
            .unwrap_or_default();
        let more = sent.data_resent * LOSSY_TIMES / sent.data_sent.max(1);
        let all = members
            .iter()
            .flat_map(|members| &members.view().members)
            .skip(1)
            .map(|member| member.mac);
        let alone = if more < MAX_MORE {
            Vec::new()
        } else {
            all.filter(|mac| !deaf.contains(mac)).collect()
        };
        Closing {
            last_word,
            deaf,
            alone,
            left: farewells + more.min(MAX_MORE) as u32,
            next: now,
        }
    }

    pub(super) fn last_message(&self) -> &Message {
        &self.last_word
    }

    pub(super) fn handle_timeout(&mut self, now: Instant, endpoint: &mut RootEndpoint) -> bool {
        if self.next > now || self.left == 0 {
            return self.next <= now;
        }
        self.left -= 1;
        self.next = now + endpoint.config().timing.verdict / 4;
        endpoint.send_to_group(&self.last_word);
        let alone = if self.left < TIMES_ALONE {
            &self.alone[..]
        } else {
            &[]
        };
        self.deaf
            .iter()
            .chain(alone)
            .for_each(|&mac| endpoint.send(mac, &self.last_word));
        false
    }

    pub(super) fn poll_timeout(&self) -> Option<Deadline> {
        Some(Wait::Verdict.at(self.next))
    }
}
