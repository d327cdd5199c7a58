//! The communicator on real hosts: blocking calls over a packet socket.
//!
//! This folder is the one place in this crate where the state machine meets a socket, a clock, a thread and a random
//! number; all of them belong to [`packet::Shared`](ethbcast_transport::packet::Shared). A call drives the engine in
//! its own thread; a thread in the background answers the others while the application computes.

mod collectives;
mod error;
mod join;
mod messages;
mod options;
mod waits;

pub use error::Error;
pub use options::{Meanwhile, Options};

use super::{CommunicatorError, Member, MemberMemory, MemberStats, Named};
use ethbcast_planning::model::Choice;
use ethbcast_transport::packet::{Counters, NodePort, Shared};
use ethbcast_transport::wire::Rank;
use parking_lot::Mutex;
use std::fmt;
use std::ops::ControlFlow;
use std::time::Duration;

/// How long a rank that leaves takes over what it still owes the others.
const LEAVE_WITHIN: Duration = Duration::from_secs(1);

/// A group of ranks that call each other.
///
/// All ranks call the collectives in the same order with the same root and length; a call that does not fit is named on
/// every rank. Each call blocks: a collective until nothing has moved for [`Options::call_within`], a message for that
/// long at most. Messages may be sent and received by several
/// threads at once; collectives of several threads take turns.
///
/// Ranks are plain numbers here, not [`Rank`]s: programs write them as literals, compute with them (the next one is
/// `(rank + 1) % size`) and index their own lists by them.
///
/// When it is dropped, what this rank still owes the others is sent, for a second at most, and they are told. So
/// programs end with a barrier: who is later than a second would miss what was still under way.
pub struct Communicator {
    shared: Shared<Member, NodePort>,
    /// Held for a whole collective.
    collective: Mutex<()>,
    rank: u16,
    hosts: Vec<String>,
    call_within: Duration,
    meanwhile: Option<Meanwhile>,
}

impl Communicator {
    /// This process's rank.
    pub fn rank(&self) -> u16 {
        self.rank
    }

    /// How many ranks there are.
    pub fn size(&self) -> u16 {
        self.hosts.len() as u16
    }

    /// The name of this rank's host.
    pub fn host(&self) -> &str {
        &self.hosts[usize::from(self.rank)]
    }

    /// The names of all hosts, by rank.
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// What stands for [`Options::call_within`] in later calls.
    pub fn set_call_within(&mut self, call_within: Duration) {
        self.call_within = call_within;
    }

    /// How so many bytes from `root` would be broadcast, why, and what that is predicted to take: the same answer on
    /// all ranks.
    ///
    /// # Errors
    /// If there is no such rank, or the socket has failed.
    pub fn choice(&self, root: u16, bytes: usize) -> Result<Choice, Error> {
        let choice = self.shared.with(|member, _| member.choice(Rank(root), bytes))?;
        Ok(choice.ok_or(CommunicatorError::NoSuchRank { rank: Rank(root), size: self.size() })?)
    }

    /// Frames sent and received so far.
    ///
    /// # Errors
    /// If the socket has failed.
    pub fn stats(&self) -> Result<MemberStats, Error> {
        Ok(self.shared.with(|member, _| member.stats())?)
    }

    /// What memory each structure takes, in bytes.
    ///
    /// # Errors
    /// If the socket has failed.
    pub fn memory(&self) -> Result<MemberMemory, Error> {
        Ok(self.shared.with(|member, _| member.memory())?)
    }

    /// What the socket has done so far.
    pub fn counters(&self) -> Counters {
        self.shared.with_link(NodePort::counters)
    }

    /// Leaves the group now, from whatever thread: calls in progress, and all later ones, fail with
    /// [`CommunicatorError::Closed`](super::CommunicatorError::Closed). What the others were sent is still theirs, for
    /// a second at most.
    ///
    /// # Errors
    /// If the socket has failed.
    pub fn leave(&self) -> Result<(), Error> {
        self.leave_in(LEAVE_WITHIN)
    }

    /// The same, with a time of its own for what the others were sent: [`has_left`](Communicator::has_left) says when
    /// they have it. Until then whoever drops it waits, for two seconds at most.
    ///
    /// # Errors
    /// As [`leave`](Communicator::leave).
    pub fn leave_in(&self, within: Duration) -> Result<(), Error> {
        Ok(self.shared.with(|member, now| member.leave(now, now + within))?)
    }

    /// Whether this rank has left, and the others have what they were sent or its time was up.
    ///
    /// # Errors
    /// If the socket has failed.
    pub fn has_left(&self) -> Result<bool, Error> {
        Ok(self.shared.with(|member, _| member.has_left())?)
    }

    fn named(&self, rank: u16) -> Named {
        Named { rank: Rank(rank), host: self.hosts[usize::from(rank)].clone() }
    }
}

impl fmt::Debug for Communicator {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Communicator { rank, hosts, call_within, .. } = self;
        out.debug_struct("Communicator")
            .field("rank", rank)
            .field("hosts", hosts)
            .field("call_within", call_within)
            .finish_non_exhaustive()
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        let by = self.shared.now() + LEAVE_WITHIN;
        let mut told = false;
        let left = self.shared.wait(Some(by + LEAVE_WITHIN), |member, now| {
            if !std::mem::replace(&mut told, true) {
                member.leave(now, by);
            }
            if member.has_left() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if let Err(error) = left {
            log::warn!("leaving the group: {error}");
        }
    }
}
