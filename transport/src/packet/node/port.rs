//! The one packet socket that all processes of a group on a host send and receive through.
//!
//! The process that holds the receive lock (`Receive`) receives from the wire and passes frames on;
//! each process sends by itself. Frames between processes of the node never reach the wire.

use super::NodeError;
use super::board::{Board, Entry, Occupant, QUEUE_FRAMES};
use super::place::{DIRECTORY, Lock, NodeConfig, NodeWaiter, Place, sweep};
use crate::link::{Blocked, Link};
use crate::packet::error::{DriveError, Errno};
use crate::packet::port::Port;
use crate::packet::sleep::{SocketEvents, Waker};
use crate::packet::{Counters, Interface, PortConfig};
use crate::wire::destination;
use crate::{Instant, MacAddr};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

const BATCH_FRAMES: usize = 256;
const LOOKS_EVERY: Duration = Duration::from_millis(50);
const RETRY_PAUSE: Duration = Duration::from_micros(50);
const PATIENCE: Duration = Duration::from_millis(20);

/// A [`Port`] shared by the processes of one host, with their shared memory.
#[derive(Debug)]
pub struct NodePort {
    port: Port,
    mac: MacAddr,
    hears: bool,
    share: Option<Share>,
}

/// Part of a process in the shared memory of its node. When a reader's queue is full, the next try
/// follows after `RETRY_PAUSE`; after `PATIENCE` the reader loses frames, as from a full ring.
#[derive(Debug)]
struct Share {
    place: Arc<Place>,
    producer: Producer,
    mac: MacAddr,
    is_confined: bool,
    looked_at: Option<Instant>,
    full_since: Option<Instant>,
    pause_until: Option<Instant>,
    handed_over: u64,
}

impl NodePort {
    /// Opens the port of a node on `interface`, or joins it.
    ///
    /// Without shared memory the process gets a port of its own: it must then be the only one of
    /// its group behind the interface.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub fn open(
        interface: &Interface,
        port: PortConfig,
        config: &NodeConfig,
    ) -> Result<NodePort, NodeError> {
        let alone = |port: Port| NodePort {
            mac: port.interface().mac,
            port,
            hears: true,
            share: None,
        };
        if port.over.is_udp() {
            // Each process has an address of its own.
            return Ok(alone(Port::open(interface, port)?));
        }
        sweep(Path::new(DIRECTORY));
        let place = match Place::take(Path::new(DIRECTORY), interface, config) {
            Ok(place) => Arc::new(place),
            Err(error @ NodeError::System { .. }) => {
                log::warn!("{error}: this must be the only rank of its group on this interface");
                return Ok(alone(Port::open(interface, port)?));
            }
            Err(error) => return Err(error),
        };
        let hears = matches!(Lock::Receive.take(&place.file), Ok(true));
        let port = Port::open(interface, PortConfig { hears, ..port })?;
        let mac = interface.mac.with_port_id(place.port_id);
        let producer = Producer::new(&place.board, place.port_id);
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
        Ok(NodePort {
            port,
            mac,
            hears,
            share: Some(share),
        })
    }

    /// Returns the groups that other processes of an interface wait for, beside the group of
    /// `group_mac`.
    pub fn waiting_groups(interface: &Interface, group_mac: MacAddr) -> Vec<String> {
        Place::waiting_groups(Path::new(DIRECTORY), interface, group_mac)
    }

    pub fn mac(&self) -> MacAddr {
        self.mac
    }

    /// Creates a waiter for a loop that `waker` wakes; `thread` is a number below 32 that no other
    /// waiter of this process has.
    ///
    /// # Errors
    /// The kernel's error if there is no file descriptor left.
    pub fn waiter(&self, waker: Waker, thread: u32) -> Result<NodeWaiter, Errno> {
        let place = self.share.as_ref().map(|share| Arc::clone(&share.place));
        Ok(NodeWaiter::new(self.port.sleeper(waker)?, place, thread))
    }

    /// Marks the group as complete. If all its ranks are in this node (`is_confined`), nothing is
    /// sent on the wire any more.
    pub fn complete(&mut self, is_confined: bool) {
        if let Some(share) = &mut self.share {
            share.place.board.complete().store(1, Ordering::Relaxed);
            share.is_confined = is_confined;
        }
    }

    pub fn counters(&mut self) -> Counters {
        let mut counters = self.port.counters();
        if let Some(share) = &self.share {
            (counters.node_received, counters.node_lost) = (share.handed_over, share.producer.lost);
        }
        counters
    }

    fn look_after(&mut self, now: Instant) {
        let Some(share) = &mut self.share else { return };
        if share
            .looked_at
            .is_some_and(|at| now.since(at) < LOOKS_EVERY)
        {
            return;
        }
        share.looked_at = Some(now);
        share.notice_deaths();
        if !self.hears && matches!(Lock::Receive.take(&share.place.file), Ok(true)) {
            // If this fails it is tried again: this process keeps the lock.
            self.hears = self.port.open_filter();
            log::info!(
                "{}: this process receives for its host from now on",
                self.port.name()
            );
        }
    }
}

impl Share {
    /// Drops frames queued for dead processes. The holder of an id's lock may do so: no process
    /// uses the id.
    fn notice_deaths(&mut self) {
        let Place {
            board,
            file,
            port_id: own,
            ..
        } = &*self.place;
        for port_id in (0..board.given()).filter(|port_id| port_id != own) {
            let lock = Lock::Process(port_id);
            let is_left =
                board.occupant(port_id) == Occupant::Here || board.waiting(*own, port_id) > 0;
            if is_left && matches!(lock.take(file), Ok(true)) {
                board.vacate(port_id);
                while board.take(*own, port_id, |_| {}) {}
                lock.release(file);
            }
        }
    }

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
        self.pause_until = Some(now + RETRY_PAUSE);
        0
    }

    /// Passes a frame from the wire on; returns whether it is for this process.
    fn deliver(&mut self, frame: &[u8]) -> bool {
        // The reader counts frames that are too short.
        let Some(to) = destination(frame) else {
            return true;
        };
        let is_own = to.is_multicast() || to.port_id() == self.place.port_id;
        if to.is_multicast() || !is_own {
            self.give(to, frame);
        }
        is_own
    }

    /// Passes on a frame of this process; returns whether it has to be sent on the wire.
    fn hand_out(&mut self, frame: &[u8]) -> bool {
        let Some(to) = destination(frame) else {
            return true;
        };
        let is_inside = to.shares_interface_with(self.mac);
        if to.is_multicast() || is_inside {
            self.give(to, frame);
        }
        !is_inside && !self.is_confined
    }

    fn give(&mut self, to: MacAddr, frame: &[u8]) {
        let board = &self.place.board;
        let others: u64 = self
            .producer
            .others(board)
            .map(|port_id| 1 << port_id)
            .sum();
        let wanted = if to.is_multicast() {
            u64::MAX
        } else {
            1_u64.checked_shl(to.port_id().into()).unwrap_or(0)
        };
        let port_ids = (0..64).filter(move |&port_id| others & wanted & 1 << port_id != 0);
        self.producer.give(board, frame, port_ids);
    }

    fn ring(&mut self) {
        let Place { board, bell, .. } = &*self.place;
        self.producer
            .sleepers(board)
            .for_each(|port_id| bell.ring(board.nonce(port_id)));
    }

    fn receive(&mut self, take: &mut impl FnMut(&[u8])) -> usize {
        let Place { board, port_id, .. } = &*self.place;
        let mut taken = 0;
        for from in (0..board.given()).filter(|from| from != port_id) {
            let most = taken + BATCH_FRAMES / 4;
            while taken < most && board.take(from, *port_id, &mut *take) {
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
        let Some(share) = &mut self.share else {
            return self.port.receive(take);
        };
        // Frames stay in the ring while the node has no room for them.
        let room = share.producer.room(&share.place.board);
        let most = if share.full_since.is_some() && share.pause_until.is_none() {
            BATCH_FRAMES
        } else {
            room
        };
        let from_wire = self.port.receive_up_to(most.min(BATCH_FRAMES), |frame| {
            if share.deliver(frame) {
                take(frame);
            }
        });
        let from_node = share.receive(&mut take);
        share.ring();
        from_wire + from_node
    }

    fn send(
        &mut self,
        now: Instant,
        mut write: impl FnMut(&mut [u8]) -> Option<usize>,
    ) -> Result<usize, DriveError> {
        self.look_after(now);
        let Some(share) = &mut self.share else {
            return self.port.send(now, write);
        };
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
        let waits = |share: &Share| share.place.board.has_arrival(share.place.port_id);
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

const LOOKED_AT: usize = 256;

/// Frames of one process for the others of its node; it takes over those of the id's former
/// process. At most `LOOKED_AT` kept frames are checked per round for remaining readers; frames
/// with readers go to the end of the queue.
#[derive(Debug)]
pub(super) struct Producer {
    port_id: u8,
    free: Vec<usize>,
    kept: VecDeque<usize>,
    untold: u64,
    pub lost: u64,
}

impl Producer {
    pub(super) fn new(board: &Board, port_id: u8) -> Producer {
        let frames = (0..board.frames).rev();
        let (kept, free): (Vec<usize>, _) =
            frames.partition(|&frame| has_readers(board, port_id, frame));
        Producer {
            port_id,
            free,
            kept: kept.into(),
            untold: 0,
            lost: 0,
        }
    }

    pub(super) fn others<'a>(&self, board: &'a Board) -> impl Iterator<Item = u8> + 'a {
        let own = self.port_id;
        (0..board.given())
            .filter(move |&port_id| port_id != own && board.occupant(port_id) == Occupant::Here)
    }

    pub(super) fn room(&mut self, board: &Board) -> usize {
        self.reclaim(board);
        let queues = self
            .others(board)
            .map(|to| QUEUE_FRAMES.saturating_sub(board.waiting(self.port_id, to)) as usize);
        queues
            .min()
            .map_or(usize::MAX, |least| least.min(self.free.len()))
    }

    fn reclaim(&mut self, board: &Board) {
        for _ in 0..self.kept.len().min(LOOKED_AT) {
            let Some(frame) = self.kept.pop_front() else {
                break;
            };
            if has_readers(board, self.port_id, frame) {
                self.kept.push_back(frame);
            } else {
                self.free.push(frame);
            }
        }
    }

    pub(super) fn give(
        &mut self,
        board: &Board,
        bytes: &[u8],
        to: impl Iterator<Item = u8> + Clone,
    ) {
        let readers = to.clone().count() as u32;
        if readers == 0 || bytes.len() > board.frame_bytes() {
            return;
        }
        let Some(frame) = self.free.pop() else {
            self.lost += u64::from(readers);
            return;
        };
        board.store(self.port_id, frame, bytes);
        board
            .readers(self.port_id, frame)
            .store(readers, Ordering::Relaxed);
        let mut missed = 0;
        for port_id in to {
            if board.put(
                self.port_id,
                port_id,
                Entry {
                    frame,
                    bytes: bytes.len(),
                },
            ) {
                self.untold |= 1 << port_id;
            } else {
                missed += 1;
            }
        }
        if missed > 0 {
            self.lost += u64::from(missed);
            board
                .readers(self.port_id, frame)
                .fetch_sub(missed, Ordering::AcqRel);
        }
        self.kept.push_back(frame);
    }

    pub(super) fn sleepers<'a>(&mut self, board: &'a Board) -> impl Iterator<Item = u8> + use<'a> {
        let untold = std::mem::take(&mut self.untold);
        let told = (0..board.given()).filter(move |&port_id| untold & 1 << port_id != 0);
        told.filter(|&port_id| board.takes_waking(port_id))
    }
}

fn has_readers(board: &Board, port_id: u8, frame: usize) -> bool {
    board.readers(port_id, frame).load(Ordering::Acquire) > 0
}
