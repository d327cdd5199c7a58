//! Retransmission buffer of a stream (*feed*), stored once for all receivers (EQA §3.1: BUF and
//! HMS).
//!
//! Slots between `tail` and `head` hold frames that some reader still needs, in order and without
//! gaps; beyond `head` lie frames that arrived out of order. Each reader stands at a position: the
//! next frame it needs. Instead of a reference count in each frame the feed keeps a *count of
//! readers per position*, so an acknowledgement of any length moves one unit from one place to
//! another, and the tail follows to the first position with a reader.

#[cfg(test)]
mod model;
mod parities;

use crate::arq::receipt::Arrived;
use crate::machine::AuditError;
use crate::wire::{ContentChecksum, Flags, Guard, Header};
use parities::Parities;
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// Stored; `head` may have moved.
    New,
    /// Already arrived or already freed.
    Duplicate,
    /// Beyond [`Feed::limit`]: no room yet.
    Beyond,
    /// Contradicts the stream's end.
    Refused,
}

/// Retransmission buffer of one stream, shared by all its receivers; its memory is allocated once.
#[derive(Clone)]
pub struct Feed {
    payload_bytes: usize,
    mask: u64,
    bytes: Box<[u8]>,
    lengths: Box<[u32]>,
    contents: Contents,
    arrived: Arrived,
    positions: Positions,
    last: Option<u64>,
    expected_last: Option<u64>,
    /// A last frame that was refused because a higher one had arrived.
    doubtful_last: Option<u64>,
    base: u64,
    written: u64,
    parities: Parities,
}

impl Feed {
    /// Creates an empty feed of `slots` frames of up to `payload_bytes` each.
    ///
    /// # Panics
    /// If `slots` is not a power of two.
    pub fn new(slots: u64, payload_bytes: usize) -> Feed {
        assert!(slots.is_power_of_two(), "a feed has a power of two slots");
        Feed {
            payload_bytes,
            mask: slots - 1,
            bytes: vec![0; slots as usize * payload_bytes].into_boxed_slice(),
            lengths: vec![0; slots as usize].into_boxed_slice(),
            contents: Contents::new(slots),
            arrived: Arrived::new(slots),
            positions: Positions::new(slots),
            last: None,
            expected_last: None,
            doubtful_last: None,
            base: 0,
            written: 0,
            parities: Parities::default(),
        }
    }

    /// Continues at frame `first`: no reader here needs the frames between the head and `first`.
    /// Every reader then stands at `first`.
    ///
    /// # Panics
    /// If `first` is behind the head, or anything beyond the head has arrived.
    pub fn skip_to(&mut self, first: u64) {
        self.arrived.skip_to(first);
        self.positions.skip_to(first);
        (self.base, self.written) = (first, self.written.max(first));
        self.parities.retain(|_| false);
    }

    pub fn slots(&self) -> u64 {
        self.mask + 1
    }

    pub fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    /// Returns the oldest frame that is kept.
    pub fn tail(&self) -> u64 {
        self.positions.tail(self.head())
    }

    /// Returns the first frame that has not arrived.
    pub fn head(&self) -> u64 {
        self.arrived.head()
    }

    /// Returns one past the newest frame that has arrived, in order or not.
    pub fn highest(&self) -> u64 {
        self.arrived.highest()
    }

    /// Returns one past the highest sequence number with room: the credit to advertise.
    pub fn limit(&self) -> u64 {
        self.tail() + self.slots() + u64::from(planted!("one-slot-too-many"))
    }

    /// Returns the number of the stream's last frame, once it has arrived.
    pub fn last(&self) -> Option<u64> {
        self.last
    }

    /// Returns the number of the stream's last frame, if known, arrived or not.
    pub fn expected_last(&self) -> Option<u64> {
        self.expected_last.or(self.last)
    }

    /// Sets the number of the stream's last frame: later frames are refused, and so is any other
    /// frame marked as the last.
    pub fn expect_last(&mut self, sequence: u64) {
        self.expected_last = Some(sequence);
    }

    /// Whether a frame, the last or not, agrees with the known end: no frame lies beyond the last.
    /// If the end is not known in advance, a last frame below an arrived one is believed when it
    /// comes again; arrivals beyond it are dropped.
    fn fits_end(&mut self, sequence: u64, last: bool) -> bool {
        if let Some(end) = self
            .expected_last()
            .filter(|_| !planted!("forged-last-believed"))
        {
            return sequence < end && !last || sequence == end && last;
        }
        let fits = !last || sequence + 1 >= self.highest() || self.doubtful_last == Some(sequence);
        if last && fits {
            self.arrived.forget_from(sequence + 1);
            self.parities.retain(|frames| frames.end <= sequence);
        } else if last {
            self.doubtful_last = Some(sequence);
        }
        fits
    }

    pub fn is_complete(&self) -> bool {
        self.last.is_some_and(|last| self.head() > last)
    }

    /// Whether frame `sequence` has arrived (or has been freed since).
    pub fn has(&self, sequence: u64) -> bool {
        self.arrived.has(sequence)
    }

    /// Whether frame `sequence` has arrived and has not been freed.
    pub fn keeps(&self, sequence: u64) -> bool {
        sequence >= self.tail() && self.has(sequence)
    }

    /// Appends a frame in order; `last` ends the stream. Returns `None`, and takes nothing, if
    /// there is no room.
    ///
    /// # Panics
    /// If the payload is longer than a slot or the stream has ended.
    #[must_use = "a frame that was not taken is to be pushed again"]
    pub fn push(&mut self, payload: &[u8], last: bool) -> Option<u64> {
        assert!(self.last.is_none(), "nothing follows the last frame");
        let sequence = self.head();
        (self.insert(sequence, payload, last) == Inserted::New).then_some(sequence)
    }

    /// Stores frame `sequence`.
    ///
    /// # Panics
    /// If the payload is longer than a slot.
    pub fn insert(&mut self, sequence: u64, payload: &[u8], last: bool) -> Inserted {
        if self.has(sequence) {
            return Inserted::Duplicate;
        }
        if sequence >= self.limit() {
            return Inserted::Beyond;
        }
        if !self.fits_end(sequence, last) {
            return Inserted::Refused;
        }
        if !self.parities.is_empty() {
            self.make_way(sequence, payload.len(), last);
        }
        let at = self.start(sequence);
        self.bytes[at..at + self.payload_bytes][..payload.len()].copy_from_slice(payload);
        self.note(sequence, payload.len());
        if last {
            self.last = Some(sequence);
        }
        Inserted::New
    }

    fn start(&self, sequence: u64) -> usize {
        (sequence & self.mask) as usize * self.payload_bytes
    }

    fn note(&mut self, sequence: u64, bytes: usize) {
        let slot = (sequence & self.mask) as usize;
        if !planted!("length-of-slot-kept") || self.lengths[slot] == 0 {
            self.lengths[slot] = bytes as u32;
        }
        self.contents.forget(slot);
        self.arrived.insert(sequence);
        self.written = self.written.max(sequence + 1);
    }

    /// Returns the payload of a frame that is kept, in order or not.
    ///
    /// # Panics
    /// If it has been freed or has not arrived.
    pub fn payload(&self, sequence: u64) -> &[u8] {
        assert!(self.keeps(sequence), "frame {sequence} is not kept");
        let at = self.start(sequence);
        &self.bytes[at..at + self.lengths[(sequence & self.mask) as usize] as usize]
    }

    /// Returns the payloads of up to `most` frames from `first` on, and the number of frames, at
    /// least one. They end at the [`head`](Feed::head), or where payloads are not contiguous in
    /// memory.
    ///
    /// # Panics
    /// The panics of [`payload`](Feed::payload), for the first.
    pub fn run(&self, first: u64, most: u64) -> (&[u8], u64) {
        let (slot, mut bytes, mut frames) =
            ((first & self.mask) as usize, self.payload(first).len(), 1);
        let most = most
            .min(self.slots() - slot as u64)
            .min(self.head().saturating_sub(first));
        while frames < most && bytes == frames as usize * self.payload_bytes {
            bytes += self.lengths[slot + frames as usize] as usize;
            frames += 1;
        }
        (&self.bytes[self.start(first)..][..bytes], frames)
    }

    pub(crate) fn keep_content(&mut self, header: &Header, content: ContentChecksum) {
        self.contents.keep(
            (header.sequence & self.mask) as usize,
            header.flags,
            content,
        );
    }

    /// Returns the checksum, or keyed hash, of a kept frame for this header: as received, as sent
    /// before, or computed.
    ///
    /// # Panics
    /// The panics of [`payload`](Feed::payload).
    pub(crate) fn content(&mut self, header: &Header, guard: &Guard) -> ContentChecksum {
        let known = self
            .contents
            .get((header.sequence & self.mask) as usize, header.flags);
        known.unwrap_or_else(|| {
            let content = guard.content(header, self.payload(header.sequence));
            self.keep_content(header, content);
            content
        })
    }

    /// Adds a reader that needs everything from `position` on; `None` if that has been freed or has
    /// not arrived.
    pub fn add_reader(&mut self, position: u64) -> Option<ReaderId> {
        let tail = self.tail();
        (tail..=self.head())
            .contains(&position)
            .then(|| self.positions.add(position, tail))
    }

    /// Returns the position of a reader: the next frame it needs.
    pub fn position(&self, reader: ReaderId) -> u64 {
        self.positions.get(reader)
    }

    /// Moves a reader forward to `position`, and frees frames that no reader needs any more.
    ///
    /// # Panics
    /// If `position` is behind the reader or beyond `head`.
    pub fn advance(&mut self, reader: ReaderId, position: u64) {
        assert!(
            position <= self.head(),
            "a reader cannot have read what has not arrived"
        );
        self.positions.advance(reader, position, self.head());
    }

    pub fn rewind(&mut self, reader: ReaderId) {
        self.positions.rewind(reader);
    }

    pub fn remove_reader(&mut self, reader: ReaderId) {
        self.positions.remove(reader, self.head());
    }

    /// Writes into `bitmap` the frames beyond `head` that have arrived, or need not arrive because
    /// of held parity frames (bit `i` is frame `head + 1 + i`); returns the bytes used.
    pub fn write_holes(&self, bitmap: &mut [u8]) -> usize {
        let used = self.arrived.write_holes(bitmap);
        self.write_held(bitmap, used)
    }

    pub fn payloads_memory_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the bytes of the slots' lengths, checksums, arrivals and counts of readers.
    pub fn slots_memory_bytes(&self) -> usize {
        let slots = size_of_val(&*self.lengths) + self.contents.bytes() + self.arrived.bytes();
        slots + self.positions.places_bytes() + self.parities.bytes()
    }

    pub fn readers_memory_bytes(&self) -> usize {
        self.positions.readers_bytes()
    }

    /// Recomputes every count and the tail from the readers' positions.
    ///
    /// # Errors
    /// The first count that differs.
    pub fn audit(&self) -> Result<(), AuditError> {
        let (tail, head, highest, limit) = (self.tail(), self.head(), self.highest(), self.limit());
        self.positions.audit(head)?;
        if head > limit || highest < head || highest > limit {
            return Err(AuditError::new(format!(
                "tail {tail} head {head} highest {highest} out of order"
            )));
        }
        if !self.parities_are_in_order() {
            return Err(AuditError::new(format!(
                "parity frames held out of place: {:?}",
                self.parities.places()
            )));
        }
        let (marked, expected) = self.arrived.count();
        if marked != expected {
            return Err(AuditError::new(format!(
                "{marked} frames marked, {expected} between head and highest"
            )));
        }
        Ok(())
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Feed {
            payload_bytes,
            arrived,
            positions,
            last,
            expected_last,
            doubtful_last,
            parities,
            ..
        } = self;
        let held = parities.places().into_iter().map(|(sequence, index)| {
            let payload = &self.bytes[self.start(sequence)..][..*payload_bytes];
            (sequence, index, crc32fast::hash(payload))
        });
        let kept: Vec<(u64, usize, u32)> = (self.tail()..self.highest())
            .filter(|&sequence| self.has(sequence))
            .map(|sequence| (sequence, self.payload(sequence)))
            .map(|(sequence, payload)| (sequence, payload.len(), crc32fast::hash(payload)))
            .collect();
        f.debug_struct("Feed")
            .field("slots", &self.slots())
            .field("payload_bytes", payload_bytes)
            .field("kept", &kept)
            .field("arrived", arrived)
            .field("positions", positions)
            .field("last", last)
            .field("expected_last", expected_last)
            .field("doubtful_last", doubtful_last)
            .field("parities", &held.collect::<Vec<_>>())
            .finish()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReaderId(usize);

#[derive(Clone, Debug)]
struct Positions {
    /// Readers at each position; twice as many entries as slots, because `tail` and `tail + slots`
    /// are both positions.
    standing: Box<[u32]>,
    mask: u64,
    readers: Vec<Option<u64>>,
    present: usize,
    tail: u64,
}

impl Positions {
    fn new(slots: u64) -> Positions {
        let places = slots * 2;
        Positions {
            standing: vec![0; places as usize].into_boxed_slice(),
            mask: places - 1,
            readers: Vec::new(),
            present: 0,
            tail: 0,
        }
    }

    fn tail(&self, head: u64) -> u64 {
        if self.present == 0 { head } else { self.tail }
    }

    fn add(&mut self, position: u64, tail: u64) -> ReaderId {
        self.tail = if self.present == 0 { position } else { tail };
        *self.count(position) += 1;
        self.present += 1;
        match self.readers.iter().position(Option::is_none) {
            Some(free) => {
                self.readers[free] = Some(position);
                ReaderId(free)
            }
            None => {
                self.readers.push(Some(position));
                ReaderId(self.readers.len() - 1)
            }
        }
    }

    fn get(&self, reader: ReaderId) -> u64 {
        self.readers[reader.0].expect("a reader's id is used only while the reader is there")
    }

    fn advance(&mut self, reader: ReaderId, position: u64, head: u64) {
        let from = self.get(reader);
        assert!(from <= position, "a reader moves forward only");
        *self.count(from) -= 1;
        *self.count(position) += 1;
        self.readers[reader.0] = Some(position);
        self.follow(head);
    }

    fn skip_to(&mut self, position: u64) {
        self.standing.fill(0);
        self.readers
            .iter_mut()
            .flatten()
            .for_each(|reader| *reader = position);
        *self.count(position) = self.present as u32;
        self.tail = position;
    }

    fn rewind(&mut self, reader: ReaderId) {
        let (from, tail) = (self.get(reader), self.tail);
        *self.count(from) -= 1;
        *self.count(tail) += 1;
        self.readers[reader.0] = Some(tail);
    }

    fn remove(&mut self, reader: ReaderId, head: u64) {
        let from = self.get(reader);
        *self.count(from) -= 1;
        self.readers[reader.0] = None;
        self.present -= 1;
        if self.present > 0 {
            self.follow(head);
        }
    }

    /// Moves the tail to the first position with a reader: amortised one step for each freed frame.
    fn follow(&mut self, head: u64) {
        while self.tail < head && self.standing[(self.tail & self.mask) as usize] == 0 {
            self.tail += 1;
        }
    }

    fn count(&mut self, position: u64) -> &mut u32 {
        &mut self.standing[(position & self.mask) as usize]
    }

    fn places_bytes(&self) -> usize {
        size_of_val(&*self.standing)
    }

    fn readers_bytes(&self) -> usize {
        self.readers.capacity() * size_of::<Option<u64>>()
    }

    fn audit(&self, head: u64) -> Result<(), AuditError> {
        let standing = || self.readers.iter().flatten().copied();
        let lowest = standing().min().unwrap_or(head);
        if lowest != self.tail(head) {
            return Err(AuditError::new(format!(
                "tail is {}, the last reader stands at {lowest}",
                self.tail(head)
            )));
        }
        let mut places: Vec<u64> = standing().map(|position| position & self.mask).collect();
        if places.len() != self.present {
            return Err(AuditError::new(format!(
                "{} readers counted, {} there",
                self.present,
                places.len()
            )));
        }
        places.sort_unstable();
        for together in places.chunk_by(|one, other| one == other) {
            let (place, found) = (together[0], together.len());
            let counted = self.standing[place as usize];
            if counted as usize != found {
                return Err(AuditError::new(format!(
                    "{counted} readers counted at place {place}, {found} stand there"
                )));
            }
        }
        // Every reader's place is right, so that any other count would be one too many in the sum.
        let counted: u64 = self.standing.iter().map(|&count| u64::from(count)).sum();
        if counted != self.present as u64 {
            return Err(AuditError::new(format!(
                "{counted} readers counted at all places, {} there",
                self.present
            )));
        }
        Ok(())
    }
}

/// Repeats of a frame after which its checksum is computed anew: a byte changed in this host's
/// memory must not make a frame that every receiver rejects forever. The reader of the content
/// detects the change.
const RESENDS_PER_CHECK: u8 = 8;

#[derive(Clone, Debug)]
struct Contents {
    slots: Box<[Slot]>,
    /// The rest of keyed hashes, made with the first; none without a key.
    rests: Box<[[u8; 12]]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    checksum: u32,
    flags: Flags,
    resends: u8,
    known: bool,
}

impl Contents {
    fn new(slots: u64) -> Contents {
        Contents {
            slots: vec![Slot::default(); slots as usize].into_boxed_slice(),
            rests: Box::default(),
        }
    }

    fn forget(&mut self, slot: usize) {
        self.slots[slot] = Slot::default();
    }

    fn keep(&mut self, slot: usize, flags: Flags, checksum: ContentChecksum) {
        let (flags, (checksum, rest)) = (flags.sealed(), checksum.split());
        if self.rests.is_empty() && rest != [0; 12] {
            // Hashes that were kept before end with zeros: those of payloads of zeros.
            self.rests = vec![[0; 12]; self.slots.len()].into_boxed_slice();
        }
        self.rests
            .get_mut(slot)
            .into_iter()
            .for_each(|kept| *kept = rest);
        self.slots[slot] = Slot {
            checksum,
            flags,
            known: true,
            ..self.slots[slot]
        };
    }

    fn get(&mut self, slot: usize, flags: Flags) -> Option<ContentChecksum> {
        let rest = self.rests.get(slot).copied().unwrap_or_default();
        let slot = &mut self.slots[slot];
        if flags.has(Flags::RESENT) {
            slot.resends = (slot.resends + 1) % RESENDS_PER_CHECK;
            slot.known &= slot.resends != 0;
        }
        (slot.known && slot.flags == flags.sealed())
            .then(|| ContentChecksum::join(slot.checksum, rest))
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.slots) + size_of_val(&*self.rests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{EtherType, Header, Identity, Kind, MacAddr, Rank, StreamId};

    fn checksum(payload: &[u8]) -> ContentChecksum {
        let (stream, rank, ether_type) = (StreamId(1), Rank(0), EtherType::DEFAULT);
        let identity = Identity {
            session: 1,
            stream,
            rank,
            mac: MacAddr::ZERO,
            ether_type,
            guard: Guard::Plain,
        };
        Header {
            sequence: 7,
            ..identity.header(Kind::DATA)
        }
        .content(payload)
    }

    #[test]
    fn a_checksum_is_of_one_frame_with_one_end() {
        let mut contents = Contents::new(2);
        assert_eq!(contents.get(1, Flags::LAST), None);
        contents.keep(1, Flags::LAST.with(Flags::ACK_NOW), checksum(b"x"));
        assert_eq!(
            contents.get(1, Flags::LAST),
            Some(checksum(b"x")),
            "how urgent it is says nothing of it"
        );
        assert_eq!(contents.get(1, Flags::FLUSH), None);
        assert_eq!(contents.get(0, Flags::LAST), None);
        contents.forget(1);
        assert_eq!(contents.get(1, Flags::LAST), None);
    }

    #[test]
    fn a_keyed_hash_is_kept_whole_and_takes_memory_only_where_there_is_one() {
        let (mut plain, mut keyed) = (Contents::new(2), Contents::new(2));
        plain.keep(1, Flags::default(), checksum(b"x"));
        let hashes = [[0; 16], [9; 16]].map(ContentChecksum::from);
        (0..2).for_each(|slot| keyed.keep(slot, Flags::default(), hashes[slot]));
        assert_eq!(
            [0, 1].map(|slot| keyed.get(slot, Flags::default())),
            hashes.map(Some)
        );
        assert_eq!((plain.bytes(), keyed.bytes()), (2 * 8, 2 * 20));
    }

    #[test]
    fn a_frame_that_is_sent_again_and_again_is_looked_at_anew() {
        let mut contents = Contents::new(1);
        contents.keep(0, Flags::default(), checksum(b"x"));
        let mut computed = 0;
        for _ in 0..80 {
            if contents.get(0, Flags::RESENT).is_none() {
                computed += 1;
                contents.keep(0, Flags::RESENT, checksum(b"x"));
            }
            assert!(
                contents.get(0, Flags::default()).is_some(),
                "whoever is sent it for the first time"
            );
        }
        assert_eq!(computed, 10);
    }
}
