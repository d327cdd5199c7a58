//! The boundary between the loop and what carries frames: an AF_PACKET socket (`packet::Port`), UDP, a channel.
//!
//! A [`Link`] receives a batch, sends a batch and is waited for; [`drive`](crate::drive()) does the rest: rounds,
//! timers, busy polling, receive coalescing, the last frames. A link neither blocks nor drops what it has no room for:
//! it keeps that and says that it is blocked.
//!
//! **The order of calls.** [`receive`](Link::receive), then [`send`](Link::send); if neither moved a frame,
//! [`has_arrival`](Link::has_arrival) for a while, or [`Waiter::wait`] and then [`waited`](Link::waited) with what it
//! has seen.

use crate::machine::Machine;
use crate::time::Instant;
use std::time::Duration;

/// What carries frames between the hosts of one network.
pub trait Link {
    /// Why it carries no more frames.
    type Error: std::error::Error;
    /// What a thread waits with.
    type Waiter: Waiter;

    /// Its name in log lines.
    fn name(&self) -> &str;

    /// Lends the frames of a bounded batch to `take`, in the order in which they have come, Ethernet header first; the
    /// number of frames it has done with, with those that it threw away itself. It does not wait.
    fn receive(&mut self, take: impl FnMut(&[u8])) -> usize;

    /// Sends what is left over, then a bounded batch of frames that `write` writes into the buffers it is given; the
    /// number of frames that have left. It does not wait.
    ///
    /// `write` returns the length of the frame in bytes, or `None` if there is no more; a buffer holds the largest
    /// frame of the link (14 bytes + MTU). When this returns either everything written has left or the link is
    /// [`blocked`](Link::blocked): it keeps what is left over, in order, and asks for nothing new before that has gone.
    ///
    /// # Errors
    /// The link carries no more frames.
    fn send(&mut self, now: Instant, write: impl FnMut(&mut [u8]) -> Option<usize>) -> Result<usize, Self::Error>;

    /// Sends what is left over, then a bounded batch of what `machine` has to say, as [`send`](Link::send) does.
    ///
    /// A link that takes a frame in two pieces has the machine keep the payloads
    /// ([`Machine::poll_transmit_split`]), but for those that have not left when this returns.
    ///
    /// # Errors
    /// The link carries no more frames.
    fn transmit<M: Machine>(&mut self, now: Instant, machine: &mut M) -> Result<Transmitted, Self::Error> {
        let mut exhausted = false;
        let write = |buffer: &mut [u8]| {
            let length = machine.poll_transmit(now, buffer);
            exhausted = length.is_none();
            length
        };
        let frames = self.send(now, write)?;
        Ok(Transmitted { frames, exhausted })
    }

    /// Whether [`receive`](Link::receive) would find a frame: a look that costs next to nothing.
    fn has_arrival(&self) -> bool;

    /// What it waits for before it sends what is left over; `None` if nothing is left over, or there is room again.
    fn blocked(&self) -> Option<Blocked>;

    /// Takes note of what a wait has seen.
    ///
    /// # Errors
    /// The link carries no more frames.
    fn waited(&mut self, seen: <Self::Waiter as Waiter>::Seen) -> Result<(), Self::Error>;

    /// How long after the last frame an urgent machine's loop asks [`has_arrival`](Link::has_arrival) again and again
    /// before it waits; zero, the default, for never.
    fn busy_poll(&self) -> Duration {
        Duration::ZERO
    }

    /// How long the loop may let frames gather while they come densely, to be woken once for many; zero, the default,
    /// for never.
    fn receive_coalescing(&self) -> Duration {
        Duration::ZERO
    }
}

/// What has become of a batch of a machine's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmitted {
    /// Frames that have left, those that were left over among them.
    pub frames: usize,
    /// The machine has been asked, and had nothing more to say.
    pub exhausted: bool,
}

/// What a link waits for that has no room to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// Room: a wait for it ends when there is some.
    Room,
    /// That moment, because nobody says when there is room.
    Until(Instant),
}

/// What a thread waits with for its link. It does not borrow the link, so that another thread may use that meanwhile.
/// One thread waits with it at a time; any thread wakes it.
pub trait Waiter {
    /// What [`Link::waited`] has to know of a wait.
    type Seen;

    /// Waits for one of `wanted`, [`wake`](Waiter::wake) or an error of the link; wakes so far are thereby taken note
    /// of, but by a mere look they need not be. It may also return for nothing.
    ///
    /// `now` is the time as the loop has read it last.
    #[must_use = "the link has to know"]
    fn wait(&self, now: Instant, wanted: Interest) -> Self::Seen;

    /// Whether somebody has called [`wake`](Waiter::wake) since that was last taken note of, which is hereby done.
    /// Cheap if nobody has.
    #[must_use = "the wake is taken note of"]
    fn take_wake(&self) -> bool;

    /// Lets other threads and processes run for a moment, between two looks of a busy poll.
    fn yield_now(&self);

    /// Ends the present wait, or else the next at once.
    fn wake(&self);
}

/// What ends a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    /// An arrival. A wait that is not for arrivals should not be disturbed by them, nor cost their senders anything.
    pub arrivals: bool,
    /// Room to send.
    pub room: bool,
    /// The moment; a past one for a mere look.
    pub until: Option<Instant>,
}
