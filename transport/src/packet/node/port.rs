//! The port of a node: one for all processes of a group behind one interface.
//!
//! One of them, whoever holds the ear's lock, hears the wire and hands its frames on; each sends on its own. What goes
//! from one to another never reaches the wire.

use super::board::Occupant;
use super::error::NodeError;
use super::locks::Lock;
use super::place::{DIRECTORY, NodeConfig, Place, sweep};
use super::producer::Producer;
use super::waiter::NodeWaiter;
use crate::link::{Blocked, Link};
use crate::packet::error::{DriveError, Errno};
use crate::packet::port::{Port, PortConfig};
use crate::packet::sleep::{SocketEvents, Waker};
use crate::packet::{Counters, Interface};
use crate::wire::destination;
use crate::{Instant, MacAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Most frames handed out or taken in a round.
const BATCH_FRAMES: usize = 256;
/// How often a process looks whether the ear is free, and who is gone.
const LOOKS_EVERY: Duration = Duration::from_millis(50);
/// How long to wait for a reader that has as much waiting as there can be, and how long at most, before it loses frames
/// as at a ring that is full.
const PAUSE: Duration = Duration::from_micros(50);
const PATIENCE: Duration = Duration::from_millis(20);

/// A [`Port`] that the processes of one host share, and what they hand each other beside it.
#[derive(Debug)]
pub struct NodePort {
    port: Port,
    mac: MacAddr,
    hears: bool,
    share: Option<Share>,
}

/// One process's part in the node.
#[derive(Debug)]
struct Share {
    place: Arc<Place>,
    producer: Producer,
    mac: MacAddr,
    /// Whether all ranks are in this node.
    is_confined: bool,
    looked_at: Option<Instant>,
    /// Since when somebody has had no room.
    full_since: Option<Instant>,
    /// When to try again.
    pause_until: Option<Instant>,
    /// Frames that came from others of the node.
    handed_over: u64,
}

impl NodePort {
    /// Opens the port of a node on `interface`, or takes part in it.
    ///
    /// Where there is no shared memory a process has a port of its own: it must then be the only one of its group
    /// behind the interface.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub fn open(interface: &Interface, port: PortConfig, config: &NodeConfig) -> Result<NodePort, NodeError> {
        sweep(Path::new(DIRECTORY));
        let place = match Place::take(Path::new(DIRECTORY), interface, config) {
            Ok(place) => Arc::new(place),
            Err(error @ NodeError::System { .. }) => {
                log::warn!("{error}: this must be the only rank of its group on this interface");
                return Ok(NodePort {
                    port: Port::open(interface, port)?,
                    mac: interface.mac,
                    hears: true,
                    share: None,
                });
            }
            Err(error) => return Err(error),
        };
        let hears = matches!(Lock::Ear.take(&place.file), Ok(true));
        let port = Port::open(interface, PortConfig { hears, ..port })?;
        let mac = interface.mac.with_seat(place.seat);
        let producer = Producer::new(&place.board, place.seat);
        let share = Share {
            place,
            producer,
            mac,
            is_confined: false,
            looked_at: None,
            full_since: None,
            pause_until: None,
            handed_over: 0,
        };
        Ok(NodePort { port, mac, hears, share: Some(share) })
    }

    /// Groups that other processes of an interface wait for, beside that of this address.
    pub fn waiting_groups(interface: &Interface, group_mac: MacAddr) -> Vec<String> {
        Place::waiting_groups(Path::new(DIRECTORY), interface, group_mac)
    }

    /// The interface's address, with this process's seat.
    pub fn mac(&self) -> MacAddr {
        self.mac
    }

    /// What a loop waits with that `waker` wakes; `thread` is a number for it, below 32, that no other waiter has.
    ///
    /// # Errors
    /// The kernel's error if there is no file descriptor left.
    pub fn waiter(&self, waker: Waker, thread: u32) -> Result<NodeWaiter, Errno> {
        let place = self.share.as_ref().map(|share| Arc::clone(&share.place));
        Ok(NodeWaiter::new(self.port.sleeper(waker)?, place, thread))
    }

    /// The group is complete; if its ranks are all in this node, nothing need reach the wire any more.
    pub fn complete(&mut self, is_confined: bool) {
        if let Some(share) = &mut self.share {
            share.place.board.complete().store(1, Ordering::Relaxed);
            share.is_confined = is_confined;
        }
    }

    /// What the port has done so far.
    pub fn counters(&mut self) -> Counters {
        let mut counters = self.port.counters();
        if let Some(share) = &self.share {
            (counters.node_received, counters.node_lost) = (share.handed_over, share.producer.lost);
        }
        counters
    }

    /// Looks after the node now and then: takes the ear if it is free, and notices who is gone.
    fn look_after(&mut self, now: Instant) {
        let Some(share) = &mut self.share else { return };
        if share.looked_at.is_some_and(|at| now.since(at) < LOOKS_EVERY) {
            return;
        }
        share.looked_at = Some(now);
        share.notice_deaths();
        if !self.hears && matches!(Lock::Ear.take(&share.place.file), Ok(true)) {
            // Until that succeeds it is tried again: the lock is this process's.
            self.hears = self.port.hear();
            log::info!("{}: this process hears for its host from now on", self.port.name());
        }
    }
}

impl Share {
    /// Takes back what waits for processes that are gone. Whoever gets a seat's lock may do so: nobody sits there.
    fn notice_deaths(&mut self) {
        let Place { board, file, seat: own, .. } = &*self.place;
        for seat in (0..board.given()).filter(|seat| seat != own) {
            let lock = Lock::Seat(seat);
            let is_left = board.occupant(seat) == Occupant::Here || board.waiting(*own, seat) > 0;
            if is_left && matches!(lock.take(file), Ok(true)) {
                board.rise(seat);
                while board.take(*own, seat, |_| {}) {}
                lock.release(file);
            }
        }
    }

    /// How many frames may be handed out now; none while somebody is to be waited for.
    fn room(&mut self, now: Instant) -> usize {
        let room = self.producer.room(&self.place.board);
        if room > 0 {
            (self.full_since, self.pause_until) = (None, None);
            return room;
        }
        let since = *self.full_since.get_or_insert(now);
        if now.since(since) > PATIENCE {
            self.pause_until = None;
            return usize::MAX;
        }
        self.pause_until = Some(now + PAUSE);
        0
    }

    /// Hands on a frame of the wire; whether it is for this process.
    fn deliver(&mut self, frame: &[u8]) -> bool {
        // What is too short is counted by whoever reads it.
        let Some(to) = destination(frame) else { return true };
        let is_own = to.is_multicast() || to.seat() == self.place.seat;
        if to.is_multicast() || !is_own {
            self.give(to, frame);
        }
        is_own
    }

    /// Hands out a frame of this process; whether it is for the wire.
    fn hand_out(&mut self, frame: &[u8]) -> bool {
        let Some(to) = destination(frame) else { return true };
        let is_inside = to.shares_interface_with(self.mac);
        if to.is_multicast() || is_inside {
            self.give(to, frame);
        }
        !is_inside && !self.is_confined
    }

    fn give(&mut self, to: MacAddr, frame: &[u8]) {
        let board = &self.place.board;
        let others: u64 = self.producer.others(board).map(|seat| 1 << seat).sum();
        let wanted = if to.is_multicast() { u64::MAX } else { 1_u64.checked_shl(to.seat().into()).unwrap_or(0) };
        let seats = (0..64).filter(move |&seat| others & wanted & 1 << seat != 0);
        self.producer.give(board, frame, seats);
    }

    /// Wakes those who sleep and have been handed something.
    fn ring(&mut self) {
        let Place { board, bell, .. } = &*self.place;
        self.producer.sleepers(board).for_each(|seat| bell.ring(board.nonce(seat)));
    }

    /// Takes what others have handed out, in turns; the number of frames.
    fn receive(&mut self, take: &mut impl FnMut(&[u8])) -> usize {
        let Place { board, seat, .. } = &*self.place;
        let mut taken = 0;
        for from in (0..board.given()).filter(|from| from != seat) {
            let most = taken + BATCH_FRAMES / 4;
            while taken < most && board.take(from, *seat, &mut *take) {
                taken += 1;
            }
        }
        self.handed_over += taken as u64;
        taken
    }
}

impl Link for NodePort {
    type Error = DriveError;
    type Waiter = NodeWaiter;

    fn name(&self) -> &str {
        self.port.name()
    }

    fn receive(&mut self, mut take: impl FnMut(&[u8])) -> usize {
        let Some(share) = &mut self.share else { return self.port.receive(take) };
        // What is on the wire waits there while the node has no room for it.
        let room = share.producer.room(&share.place.board);
        let most = if share.full_since.is_some() && share.pause_until.is_none() { BATCH_FRAMES } else { room };
        let from_wire = self.port.receive_up_to(most.min(BATCH_FRAMES), |frame| {
            if share.deliver(frame) {
                take(frame);
            }
        });
        let from_node = share.receive(&mut take);
        share.ring();
        from_wire + from_node
    }

    fn send(&mut self, now: Instant, mut write: impl FnMut(&mut [u8]) -> Option<usize>) -> Result<usize, DriveError> {
        self.look_after(now);
        let Some(share) = &mut self.share else { return self.port.send(now, write) };
        let mut room = share.room(now).min(BATCH_FRAMES);
        let mut handed_out = 0;
        let sent = self.port.send(now, |buffer| {
            while room > 0 {
                let length = write(buffer)?;
                room -= 1;
                if share.hand_out(&buffer[..length]) {
                    return Some(length);
                }
                handed_out += 1;
            }
            None
        })?;
        share.ring();
        Ok(sent + handed_out)
    }

    fn has_arrival(&self) -> bool {
        let waits = |share: &Share| share.place.board.has_arrival(share.place.seat);
        self.port.has_arrival() || self.share.as_ref().is_some_and(waits)
    }

    fn blocked(&self) -> Option<Blocked> {
        let pause = self.share.as_ref().and_then(|share| share.pause_until);
        self.port.blocked().or(pause.map(Blocked::Until))
    }

    fn waited(&mut self, seen: SocketEvents) -> Result<(), DriveError> {
        self.port.waited(seen)
    }

    fn busy_poll(&self) -> Duration {
        self.port.busy_poll()
    }

    fn receive_coalescing(&self) -> Duration {
        self.port.receive_coalescing()
    }
}
