//! The streams of a group without a root: two for each rank that broadcasts, made when they are first used.

use super::place::{Place, StreamName, Way};
use ethbcast_transport::stream::{Ending, Memory, Stream, StreamStats};
use ethbcast_transport::wire::Identity;
use ethbcast_transport::wire::{Frame, Kind};
use ethbcast_transport::{AuditError, Deadline, Instant, Part};
use std::collections::{BTreeSet, VecDeque};

/// A stream and what the group remembers about it.
#[derive(Debug)]
struct Slot {
    stream: Stream,
    /// Whether it is in the queue of those that may have something to send.
    queued: bool,
    /// Its deadline in the list.
    armed: Option<Deadline>,
    /// Whether its next frame is in the middle of a message.
    midway: bool,
}

/// All streams of one member.
#[derive(Debug)]
pub(in crate::communicator) struct Streams {
    place: Place,
    /// By number, less one.
    slots: Vec<Option<Box<Slot>>>,
    /// Numbers, less one, of streams that may have something to send, in turn.
    queue: VecDeque<u16>,
    timers: BTreeSet<(Deadline, u16)>,
    /// Acknowledgements for streams that are not there.
    forged_acks: u64,
    /// Frames of streams that cannot be.
    strangers: u64,
}

impl Streams {
    pub(super) fn new(place: Place) -> Streams {
        let slots = (0..2 * place.peers.len()).map(|_| None).collect();
        Streams { place, slots, queue: VecDeque::new(), timers: BTreeSet::new(), forged_acks: 0, strangers: 0 }
    }

    /// The longest payload of one frame, in bytes.
    pub(in crate::communicator) fn payload_bytes(&self) -> usize {
        self.place.payload_bytes
    }

    /// Appends a frame to one of this rank's own streams; false while there is no room.
    pub(in crate::communicator) fn push(&mut self, now: Instant, way: Way, payload: &[u8], ending: Ending) -> bool {
        let name = StreamName { origin: self.place.identity.rank, way };
        let taken = self.open(name).stream.push(payload, ending);
        if taken {
            self.touch(now, name);
        }
        taken
    }

    /// The next frame of a stream, if it is there.
    pub(in crate::communicator) fn peek(&self, name: StreamName) -> Option<&[u8]> {
        self.slots[index(name)].as_ref()?.stream.peek().map(|(payload, _)| payload)
    }

    /// The frame that `peek` showed has been read; `midway` says whether more of its message follows.
    pub(in crate::communicator) fn consume(&mut self, now: Instant, name: StreamName, midway: bool) {
        if let Some(slot) = &mut self.slots[index(name)] {
            slot.stream.consume(now);
            slot.midway = midway;
        }
    }

    /// Lets it be known that frames have been read.
    pub(in crate::communicator) fn drained(&mut self, now: Instant, name: StreamName) {
        self.touch(now, name);
    }

    /// From whom a stream comes to this rank, or may come; no chain does before it has begun.
    pub(in crate::communicator) fn source(&self, name: StreamName) -> Option<u16> {
        let begun = name.way == Way::Cast || self.slots[index(name)].is_some();
        self.place.parent(name).filter(|_| begun).map(|parent| parent.rank)
    }

    /// Streams in which a message waits that nobody has begun to read, and its first frame.
    pub(super) fn unread(&self) -> impl Iterator<Item = (StreamName, &[u8])> + '_ {
        self.existing().filter(|(_, slot)| !slot.midway).filter_map(|(name, slot)| Some((name, slot.stream.peek()?.0)))
    }

    fn existing(&self) -> impl Iterator<Item = (StreamName, &Slot)> + '_ {
        let size = self.place.size();
        self.slots.iter().enumerate().filter_map(move |(at, slot)| Some((StreamName::of(at as u16 + 1, size)?, slot.as_deref()?)))
    }

    /// Takes a frame from a member of the group.
    pub(super) fn on_frame(&mut self, now: Instant, frame: &Frame<'_>) {
        let Some(name) = StreamName::of(frame.header.stream, self.place.size()) else {
            self.strangers += 1;
            return;
        };
        if self.slots[index(name)].is_none() {
            // There is nothing to acknowledge in a stream that has not begun; a repair child may have heard of one before its parent.
            match frame.header.kind {
                Kind::ACK if name.origin == self.place.identity.rank => self.forged_acks += 1,
                Kind::ACK => {}
                _ if !self.place.can_begin(name, frame.header.rank) => self.strangers += 1,
                _ => {
                    self.open(name);
                }
            }
        }
        if let Some(slot) = &mut self.slots[index(name)] {
            slot.stream.handle_frame(now, frame);
            self.touch(now, name);
        }
    }

    fn open(&mut self, name: StreamName) -> &mut Slot {
        if self.slots[index(name)].is_none() {
            let identity = Identity { stream: name.number(), ..self.place.identity };
            let (outlet, tuning, bytes) = (self.place.outlet(name), self.place.tuning_of(name), self.place.payload_bytes);
            let stream = match self.place.parent(name) {
                None => Stream::origin(identity, bytes, &outlet, tuning),
                Some(parent) => Stream::receiver(identity, bytes, parent, &outlet, tuning),
            };
            self.slots[index(name)] = Some(Box::new(Slot { stream, queued: false, armed: None, midway: false }));
        }
        self.slots[index(name)].as_mut().expect("it has just been made")
    }

    /// Rank `rank` is served no more, and nothing is kept for it.
    pub(super) fn remove_reader(&mut self, now: Instant, rank: u16) {
        self.place.removed[usize::from(rank)] = true;
        let names: Vec<StreamName> = self.existing().map(|(name, _)| name).collect();
        for name in names {
            if let Some(slot) = &mut self.slots[index(name)] {
                slot.stream.remove_reader(now, rank);
                self.touch(now, name);
            }
        }
    }

    /// Reads and throws away whatever has come: nobody wants it any more.
    pub(super) fn discard(&mut self, now: Instant) {
        let waiting = self.existing().filter(|(_, slot)| slot.stream.backlog_frames() > 0);
        let names: Vec<StreamName> = waiting.map(|(name, _)| name).collect();
        for name in names {
            while self.peek(name).is_some() {
                self.consume(now, name, true);
            }
            self.drained(now, name);
        }
    }

    /// Whether everything that was sent or is to be handed on has been acknowledged by all.
    pub(super) fn is_settled(&self) -> bool {
        self.existing().all(|(_, slot)| {
            let head = slot.stream.feed().head();
            slot.stream.cursors().iter().all(|&(_, cursor)| cursor == head)
        })
    }

    /// Whether nothing is on its way and nothing owed.
    pub(super) fn is_quiet(&self) -> bool {
        self.timers.is_empty() && self.queue.is_empty()
    }

    /// Whether all streams in use are at the beginning or end of a message.
    pub(super) fn are_urgent(&self) -> bool {
        self.timers.iter().all(|&(_, at)| self.slots[usize::from(at)].as_ref().is_none_or(|slot| slot.stream.is_urgent()))
    }

    /// Something about a stream has changed: it may have something to send, and another deadline.
    fn touch(&mut self, now: Instant, name: StreamName) {
        let at = index(name) as u16;
        if let Some(slot) = &mut self.slots[usize::from(at)]
            && !std::mem::replace(&mut slot.queued, true)
        {
            self.queue.push_back(at);
        }
        self.arm(now, at);
    }

    fn arm(&mut self, now: Instant, at: u16) {
        let Some(slot) = &mut self.slots[usize::from(at)] else { return };
        let deadline = slot.stream.poll_timeout(now);
        if deadline != slot.armed {
            self.timers.extend(deadline.map(|deadline| (deadline, at)));
            if let Some(armed) = std::mem::replace(&mut slot.armed, deadline) {
                self.timers.remove(&(armed, at));
            }
        }
    }

    /// When and why to call [`on_timeout`](Streams::on_timeout).
    pub(super) fn deadline(&self) -> Option<Deadline> {
        self.timers.first().map(|&(deadline, _)| deadline)
    }

    /// Lets time pass.
    pub(super) fn on_timeout(&mut self, now: Instant) {
        let due: Vec<u16> = self.timers.iter().take_while(|(deadline, _)| deadline.at <= now).map(|&(_, at)| at).collect();
        for at in due {
            if let Some(slot) = &mut self.slots[usize::from(at)] {
                slot.stream.handle_timeout(now);
            }
            if let Some(name) = StreamName::of(at + 1, self.place.size()) {
                self.touch(now, name);
            }
        }
    }

    /// Writes the next frame into `buffer`: streams take turns.
    pub(super) fn poll(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        while let Some(at) = self.queue.pop_front() {
            let slot = self.slots[usize::from(at)].as_mut()?;
            let length = slot.stream.poll_transmit(now, buffer);
            slot.queued = length.is_some();
            if length.is_some() {
                self.queue.push_back(at);
            }
            self.arm(now, at);
            if length.is_some() {
                return length;
            }
        }
        None
    }

    /// What all streams have sent and received so far.
    pub(super) fn stats(&self) -> StreamStats {
        let mut counted = StreamStats::default();
        (counted.forged_acks, counted.strangers) = (self.forged_acks, self.strangers);
        self.existing().map(|(_, slot)| slot.stream.stats()).fold(counted, |sum, stats| sum + stats)
    }

    /// What memory the structures of all streams take.
    pub(super) fn memory(&self) -> Memory {
        self.existing().map(|(_, slot)| slot.stream.memory()).fold(Memory::default(), |sum, one| sum + one)
    }

    /// Recomputes the counts of every feed; a sentence that names the first disagreement.
    pub(super) fn audit(&self) -> Result<(), AuditError> {
        let within = |name: StreamName, error: AuditError| error.within(format_args!("{:?} of rank {}", name.way, name.origin));
        self.existing().try_for_each(|(name, slot)| slot.stream.audit().map_err(|error| within(name, error)))
    }
}

fn index(name: StreamName) -> usize {
    usize::from(name.number() - 1)
}
