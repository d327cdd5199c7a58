//! Communicators on real hosts: blocking calls over a packet socket.
//!
//! Only this folder connects the state machine with a socket, a
//! clock, a thread and a random number; all of them belong to
//! [`packet::Shared`](ethbcast_transport::packet::Shared). A call drives the engine in its own
//! thread. A background thread replies to the others while the application computes.

mod calls;
mod join;

pub use join::{Meanwhile, Options};

use super::{CommunicatorError, Member, MemberMemory, MemberStats, Named};
use crate::membership::live::{Forked, Opener, StationError, UnusedKey};
use ethbcast_planning::model::Choice;
use ethbcast_transport::lock::Turns;
use ethbcast_transport::packet::{Counters, DriveError, NodeError, NodePort, Shared};
use ethbcast_transport::wire::Rank;
use std::fmt;
use std::ops::ControlFlow;
use std::time::Duration;

const LEAVE_WITHIN: Duration = Duration::from_secs(1);

/// A group of ranks that call each other.
///
/// All ranks call the collectives in one order, with equal roots and lengths; a call that differs
/// is reported on every rank. Each call blocks: a collective until it has made no progress for
/// [`Options::call_within`], a message for that long at most. Messages may be sent and received by
/// several threads at once; collectives of several threads take turns.
///
/// Ranks are plain numbers here, not [`Rank`]s: programs write them as literals, compute with them
/// (the next one is `(rank + 1) % size`) and index their own lists by them.
///
/// A drop completes pending sends, for a second at most, and announces that this rank leaves.
/// Programs should therefore end with a barrier: a rank more than a second late would miss frames
/// that are still in flight.
///
/// After a rank has died the others go on without it by [`shrink`](Communicator::shrink).
///
/// A forked child has no part in it: every call there fails with [`Error::Forked`], and a drop does
/// nothing.
pub struct Communicator {
    opener: Opener,
    /// State shared with the driver; `None` only during the drop.
    shared: Option<Shared<Member, NodePort>>,
    collective: Turns,
    rank: u16,
    hosts: Vec<String>,
    call_within: Duration,
    meanwhile: Option<Meanwhile>,
}

impl Communicator {
    /// Returns this process's rank.
    pub fn rank(&self) -> u16 {
        self.rank
    }

    /// Returns the number of ranks.
    pub fn size(&self) -> u16 {
        self.hosts.len() as u16
    }

    /// Returns the name of this rank's host.
    pub fn host(&self) -> &str {
        &self.hosts[usize::from(self.rank)]
    }

    /// Returns the names of all hosts, by rank.
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// Sets the time limit of later calls in place of [`Options::call_within`].
    pub fn set_call_within(&mut self, call_within: Duration) {
        self.call_within = call_within;
    }

    fn take_ranks(&mut self) -> Result<(), Error> {
        let ranks = self.shared()?.with(|member, _| {
            let hosts: Vec<String> = member.hosts().map(str::to_owned).collect();
            Some((member.rank()?.0, hosts))
        })?;
        (self.rank, self.hosts) = ranks.ok_or(CommunicatorError::NotJoined)?;
        Ok(())
    }

    /// Returns the route by which `bytes` bytes from `root` would be broadcast, the reason, and the
    /// predicted time. All ranks get equal results.
    ///
    /// # Errors
    /// If there is no such rank, or the socket has failed.
    pub fn choice(&self, root: u16, bytes: usize) -> Result<Choice, Error> {
        let choice = self
            .shared()?
            .with(|member, _| member.choice(Rank(root), bytes))?;
        Ok(choice.ok_or(CommunicatorError::NoSuchRank {
            rank: Rank(root),
            size: self.size(),
        })?)
    }

    /// Whether collectives are possible, as far as this rank knows: the socket works, and no rank
    /// has died or left.
    pub fn is_whole(&self) -> bool {
        let Ok(shared) = self.shared() else {
            return false;
        };
        shared.with(|member, _| member.is_whole()).unwrap_or(false)
    }

    /// Returns the counters of frames sent and received.
    ///
    /// # Errors
    /// If the socket has failed.
    pub fn stats(&self) -> Result<MemberStats, Error> {
        Ok(self.shared()?.with(|member, _| member.stats())?)
    }

    /// Returns the memory of each structure, in bytes.
    ///
    /// # Errors
    /// If the socket has failed.
    pub fn memory(&self) -> Result<MemberMemory, Error> {
        Ok(self.shared()?.with(|member, _| member.memory())?)
    }

    /// Returns the socket's counters.
    ///
    /// # Errors
    /// If this process is a fork of the one that joined.
    pub fn counters(&self) -> Result<Counters, Error> {
        Ok(self.shared()?.with_link(NodePort::counters))
    }

    /// Leaves the group now, from any thread: calls in progress and all later ones fail with
    /// [`CommunicatorError::Closed`](super::CommunicatorError::Closed). Messages already sent are
    /// still delivered, for a second at most.
    ///
    /// # Errors
    /// If the socket has failed.
    pub fn leave(&self) -> Result<(), Error> {
        self.leave_in(LEAVE_WITHIN)
    }

    /// Leaves like [`leave`](Communicator::leave), with its own time limit for delivery;
    /// [`has_left`](Communicator::has_left) becomes true when everything is delivered. Until then
    /// dropping waits, for two seconds at most.
    ///
    /// # Errors
    /// The errors of [`leave`](Communicator::leave).
    pub fn leave_in(&self, within: Duration) -> Result<(), Error> {
        Ok(self
            .shared()?
            .with(|member, now| member.leave(now, now + within))?)
    }

    /// Whether this rank has left, and its messages are delivered or their time was up.
    ///
    /// # Errors
    /// If the socket has failed.
    pub fn has_left(&self) -> Result<bool, Error> {
        Ok(self.shared()?.with(|member, _| member.has_left())?)
    }

    /// Fails in a forked child of the process that joined.
    ///
    /// # Errors
    /// [`Forked`].
    pub fn check_process(&self) -> Result<(), Forked> {
        self.opener.check()
    }

    fn shared(&self) -> Result<&Shared<Member, NodePort>, Error> {
        self.check_process()?;
        Ok(self.shared.as_ref().expect("it is there until the drop"))
    }

    fn named(&self, rank: u16) -> Named {
        Named {
            rank: Rank(rank),
            host: self.hosts[usize::from(rank)].clone(),
        }
    }
}

impl fmt::Debug for Communicator {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Communicator {
            rank,
            hosts,
            call_within,
            ..
        } = self;
        out.debug_struct("Communicator")
            .field("rank", rank)
            .field("hosts", hosts)
            .field("call_within", call_within)
            .finish_non_exhaustive()
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        let Some(shared) = self.shared.take() else {
            return;
        };
        if self.check_process().is_err() {
            // The socket is the parent's, and the threads are there only.
            return std::mem::forget(shared);
        }
        let by = shared.now() + LEAVE_WITHIN;
        let mut told = false;
        let left = shared.wait(Some(by + LEAVE_WITHIN), |member, now| {
            if !std::mem::replace(&mut told, true) {
                member.leave(now, by);
            }
            if member.has_left() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        if let Err(error) = left {
            log::warn!("leaving the group: {error}");
        }
    }
}

/// Error of a call of the communicator. Each sentence says what to do.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Station(#[from] StationError),
    #[error(transparent)]
    Unkeyed(#[from] UnusedKey),
    #[error(transparent)]
    Node(NodeError),
    #[error("{missing}; on this host others wait for {}: give all ranks the same group", groups.join(", "))]
    OtherGroups {
        missing: Box<CommunicatorError>,
        groups: Vec<String>,
    },
    #[error(transparent)]
    Forked(#[from] Forked),
    #[error(transparent)]
    Drive(#[from] DriveError),
    #[error("no thread for the communicator's background work: {0}")]
    Thread(#[source] std::io::Error),
    #[error(
        "no random number to join with ({0}): allow getrandom(2), which Linux has from 3.17 on"
    )]
    Random(#[source] std::io::Error),
    #[error(
        "{what} was not done within {within:?}: see whether the other rank makes the matching call, or allow more \
         time"
    )]
    TimedOut { what: String, within: Duration },
    #[error(
        "{to} receives less than the {bytes} bytes sent under tag {tag}, or gave up: let it pass a buffer of that \
         length"
    )]
    Refused { to: Named, bytes: usize, tag: u32 },
    #[error(
        "the message from {from} under tag {tag} has {message_bytes} bytes, the buffer {buffer_bytes}: pass a \
         longer one; the message is lost"
    )]
    TooLong {
        from: Named,
        tag: u32,
        message_bytes: u64,
        buffer_bytes: usize,
    },
    #[error("{from} gave up sending the message under tag {tag}: let it allow more time")]
    Withdrawn { from: Named, tag: u32 },
    /// The caller's [`Meanwhile`] hook has ended the call. A collective has then failed on all
    /// ranks, and so have all later ones.
    #[error("interrupted")]
    Interrupted,
    #[error(transparent)]
    Call(#[from] CommunicatorError),
}

/// Prints the sentence, because a program whose `main` returns the error prints its `Debug` form.
impl fmt::Debug for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}
