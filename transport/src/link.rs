//! Interface between the event loop and what carries frames, such as an AF_PACKET socket.
//!
//! A [`Link`] receives a batch, sends a batch and offers a wait. [`drive`](crate::drive()) does the
//! rest: rounds, timers, busy polling, receive coalescing, the last frames. A link neither blocks
//! nor drops frames that it has no room for: it keeps them and reports that it is blocked.
//!
//! **The order of calls.** The loop calls [`receive`](Link::receive), then [`send`](Link::send). If
//! neither moved a frame, it polls [`has_arrival`](Link::has_arrival) for a while, or calls
//! [`Waiter::wait`] and then [`waited`](Link::waited) with its result.

use crate::machine::Machine;
use crate::time::Instant;
use std::time::Duration;

/// Bytes that have passed in one direction since some moment, Ethernet headers included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassedBytes {
    /// Bytes of the interface, by its own counter.
    pub all: u64,
    /// Bytes in frames of this port; a frame that waits in the kernel may count already.
    pub own: u64,
    /// Bytes in IP packets of this host, over any interface.
    pub ip: u64,
}

/// Reading of an interface's counters and those of a port, at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkReading {
    /// Bytes sent.
    pub sent: PassedBytes,
    /// Bytes received.
    pub received: PassedBytes,
}

/// A carrier of frames between the hosts of one network.
pub trait Link {
    /// Reason why the link carries no more frames.
    type Error: std::error::Error;
    /// Type that a thread uses to wait for the link.
    type Waiter: Waiter;

    /// Returns the link's name in log lines.
    fn name(&self) -> &str;

    /// Passes the frames of a bounded batch to `take`, in the order of arrival, Ethernet header
    /// first; returns the number of frames handled, including those it dropped itself. It does not
    /// wait.
    fn receive(&mut self, take: impl FnMut(&[u8])) -> usize;

    /// Sends frames left over, then a bounded batch of frames that `write` writes into the given
    /// buffers; returns the number of frames that have left. It does not wait.
    ///
    /// `write` returns the length of the frame in bytes, or `None` if there is no more; a buffer
    /// holds the largest frame of the link (14 bytes + MTU). When this returns either everything
    /// written has left or the link is [`blocked`](Link::blocked): it keeps the rest, in order, and
    /// requests nothing new before that has gone.
    ///
    /// # Errors
    /// The link carries no more frames.
    fn send(
        &mut self,
        now: Instant,
        write: impl FnMut(&mut [u8]) -> Option<usize>,
    ) -> Result<usize, Self::Error>;

    /// Sends frames left over, then a bounded batch of the output of `machine`, as
    /// [`send`](Link::send) does.
    ///
    /// A link that takes a frame in two pieces leaves the payloads in the machine
    /// ([`Machine::poll_transmit_split`]), except those of frames that have not left when this
    /// returns.
    ///
    /// # Errors
    /// The link carries no more frames.
    fn transmit<M: Machine>(
        &mut self,
        now: Instant,
        machine: &mut M,
    ) -> Result<Transmitted, Self::Error> {
        let mut exhausted = false;
        let write = |buffer: &mut [u8]| {
            let length = machine.poll_transmit(now, buffer);
            exhausted = length.is_none();
            length
        };
        let frames = self.send(now, write)?;
        Ok(Transmitted { frames, exhausted })
    }

    /// Whether [`receive`](Link::receive) would find a frame; nearly free of cost.
    fn has_arrival(&self) -> bool;

    /// Returns the condition for sending the frames left over; `None` if nothing is left over, or
    /// there is room again.
    fn blocked(&self) -> Option<Blocked>;

    /// Takes the result of a wait.
    ///
    /// # Errors
    /// The link carries no more frames.
    fn waited(&mut self, seen: <Self::Waiter as Waiter>::Seen) -> Result<(), Self::Error>;

    /// Returns how long after the last frame an urgent machine's loop polls
    /// [`has_arrival`](Link::has_arrival) before it waits; zero, the default, for never.
    fn busy_poll(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns how long the loop may let dense arrivals gather, to be woken once for many; zero,
    /// the default, for never.
    fn receive_coalescing(&self) -> Duration {
        Duration::ZERO
    }
}

/// Result of sending a batch of a machine's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmitted {
    /// Frames that have left, including those left over before.
    pub frames: usize,
    /// Whether the machine had nothing more to send.
    pub exhausted: bool,
}

/// Condition that a link without room to send waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// Room, reported by a wait.
    Room,
    /// A time, because nothing reports when there is room.
    Until(Instant),
    /// Either: room on one of two interfaces is reported, that on the other is not.
    RoomOr(Instant),
}

impl Blocked {
    /// Whether a wait reports room.
    pub fn is_reported(self) -> bool {
        !matches!(self, Blocked::Until(_))
    }

    /// Returns the time at which it should be tried again.
    pub fn until(self) -> Option<Instant> {
        match self {
            Blocked::Room => None,
            Blocked::Until(at) | Blocked::RoomOr(at) => Some(at),
        }
    }

    /// Returns the condition of a link that waits for either.
    #[must_use]
    pub fn or(self, other: Blocked) -> Blocked {
        let until = self.until().into_iter().chain(other.until()).min();
        let is_reported = self.is_reported() || other.is_reported();
        until.map_or(Blocked::Room, |at| match is_reported {
            true => Blocked::RoomOr(at),
            false => Blocked::Until(at),
        })
    }
}

/// Waiter of a thread for its link. It does not borrow the link, so that another thread may use
/// that meanwhile. One thread waits at a time; any thread wakes it.
pub trait Waiter {
    /// Result of a wait, for [`Link::waited`].
    type Seen;

    /// Waits for one of `wanted`, [`wake`](Waiter::wake) or an error of the link. It clears earlier
    /// wakes, but a mere poll may leave them. It may also return spuriously.
    ///
    /// `now` is the loop's last reading of the clock.
    #[must_use = "the link has to know"]
    fn wait(&self, now: Instant, wanted: Interest) -> Self::Seen;

    /// Returns and clears whether [`wake`](Waiter::wake) has been called. Cheap if it has not.
    #[must_use = "the wake is taken note of"]
    fn take_wake(&self) -> bool;

    /// Yields the CPU for a moment, between two polls of a busy poll.
    fn yield_now(&self);

    /// Ends the present wait, or else the next at once.
    fn wake(&self);
}

/// Events that end a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    /// Whether an arrival ends it. A wait without arrivals should not be disturbed by them, nor
    /// cost their senders anything.
    pub arrivals: bool,
    /// Whether room to send ends it.
    pub room: bool,
    /// Time that ends it; in the past for a mere poll.
    pub until: Option<Instant>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_of_two_interfaces_waits_for_room_on_one_and_for_a_time_on_the_other() {
        let at = |millis| Instant::START + Duration::from_millis(millis);
        let both = [Blocked::Room, Blocked::Until(at(5))];
        for [one, other] in [both, [both[1], both[0]]] {
            let blocked = one.or(other);
            assert!(blocked.is_reported() && blocked.until() == Some(at(5)));
        }
        assert_eq!(Blocked::Room.or(Blocked::Room), Blocked::Room);
        let times = Blocked::Until(at(5)).or(Blocked::Until(at(3)));
        assert_eq!(times, Blocked::Until(at(3)));
    }
}
