//! Receiving half of the messages with one peer: buffered ones, and those on their way to the
//! caller. (EQA §2, arrows 2a to 3b.)
//!
//! Messages are matched with receives in the order of their numbers, so in order for each tag.
//! Bytes that arrive before a message is matched are kept in the pushed buffer; those of a matched
//! message go straight to its destination, and the rest is granted at once.

use super::body::{Envelope, NoteCode, Pull, Push};
use super::credit::{Credit, CreditAccount};
use super::operations::Operations;
use super::settings::{RecvId, RecvOutcome, SPAN_FRAMES};
use crate::arq::receipt::{Arrived, Receipt};
use crate::arq::stamp::Stamp;
use crate::machine::AuditError;
use crate::time::Instant;
use crate::tuning::{Policy, Tuning};
use crate::wire::{AckBody, Rank};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

#[derive(Clone, Debug)]
enum Whereabouts {
    Held,
    Matched(RecvId),
    Withdrawn,
}

#[derive(Clone, Debug)]
struct IncomingMessage {
    envelope: Envelope,
    bytes: Vec<u8>,
    arrived: Ranges,
    place: Whereabouts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    Used,
    Beyond,
    Malformed,
}

#[derive(Clone, Debug)]
pub(super) struct Inbox {
    from: Rank,
    account: CreditAccount,
    messages: BTreeMap<u64, IncomingMessage>,
    unexpected: BTreeSet<(u32, u64)>,
    /// First message that may not be matched yet: all before it are known.
    turn: u64,
    words: VecDeque<NoteCode>,
}

impl Inbox {
    pub(super) fn new(from: Rank, share: Credit) -> Inbox {
        Inbox {
            from,
            account: CreditAccount::new(share),
            messages: BTreeMap::new(),
            unexpected: BTreeSet::new(),
            turn: 0,
            words: VecDeque::new(),
        }
    }

    pub(super) fn on_push(&mut self, push: &Push<'_>, hash_list: &mut Operations) -> Read {
        let Push {
            message, envelope, ..
        } = *push;
        if !self.messages.contains_key(&message) {
            if message < self.turn {
                return Read::Used;
            }
            if !self
                .account
                .admit(message, u64::from(envelope.pushed_bytes))
            {
                return Read::Beyond;
            }
            let incoming = IncomingMessage {
                envelope,
                bytes: Vec::new(),
                arrived: Ranges::default(),
                place: Whereabouts::Held,
            };
            self.messages.insert(message, incoming);
            self.take_turns(hash_list);
        }
        match self.messages.get(&message) {
            Some(incoming) if matches!(incoming.place, Whereabouts::Withdrawn) => Read::Used,
            Some(incoming) if incoming.envelope != envelope => Read::Malformed,
            Some(_) => self.put(message, push.offset, push.bytes, hash_list),
            None => Read::Used,
        }
    }

    pub(super) fn on_pull(&mut self, pull: &Pull<'_>, hash_list: &mut Operations) -> Read {
        match self.messages.get(&pull.message) {
            // Only granted bytes may arrive.
            Some(IncomingMessage {
                place: Whereabouts::Held,
                ..
            }) => Read::Malformed,
            None if pull.message >= self.turn => Read::Malformed,
            Some(IncomingMessage {
                place: Whereabouts::Matched(_),
                ..
            }) => self.put(pull.message, pull.offset, pull.bytes, hash_list),
            _ => Read::Used,
        }
    }

    fn take_turns(&mut self, hash_list: &mut Operations) {
        while let Some(incoming) = self.messages.get(&self.turn) {
            let message = self.turn;
            self.turn += 1;
            if matches!(incoming.place, Whereabouts::Withdrawn) {
                self.messages.remove(&message);
                continue;
            }
            let tag = incoming.envelope.tag;
            match hash_list.match_receive(self.from, tag, message) {
                Some((receive, max_bytes)) => {
                    self.match_with(message, receive, max_bytes, hash_list)
                }
                None => {
                    self.unexpected.insert((tag, message));
                }
            }
        }
    }

    pub(super) fn on_posted(&mut self, tag: u32, hash_list: &mut Operations) {
        let oldest = self
            .unexpected
            .range((tag, 0)..=(tag, u64::MAX))
            .nth(usize::from(planted!("newest-message-first")))
            .copied();
        let Some((_, message)) = oldest else { return };
        if let Some((receive, max_bytes)) = hash_list.match_receive(self.from, tag, message) {
            self.unexpected.remove(&(tag, message));
            self.match_with(message, receive, max_bytes, hash_list);
        }
    }

    pub(super) fn has_unexpected(&self, tag: u32) -> bool {
        self.unexpected
            .range((tag, 0)..=(tag, u64::MAX))
            .next()
            .is_some()
    }

    fn match_with(
        &mut self,
        message: u64,
        receive: RecvId,
        max_bytes: usize,
        hash_list: &mut Operations,
    ) {
        let incoming = self
            .messages
            .get_mut(&message)
            .expect("a message is matched while it is here");
        let Envelope {
            pushed_bytes,
            message_bytes,
            ..
        } = incoming.envelope;
        let rest = message_bytes > u64::from(pushed_bytes);
        if usize::try_from(message_bytes).is_ok_and(|length| length <= max_bytes) {
            incoming
                .bytes
                .reserve_exact(message_bytes as usize - incoming.bytes.len());
            incoming.place = Whereabouts::Matched(receive);
            self.words
                .extend(rest.then_some(NoteCode::Grant { message }));
            self.end_if_whole(message, hash_list);
        } else {
            self.messages.remove(&message);
            self.words
                .extend(rest.then_some(NoteCode::Refuse { message }));
            hash_list.end_receive(receive, RecvOutcome::TooShort { message_bytes });
        }
        self.account.release(if planted!("credit-never-returned") {
            0
        } else {
            pushed_bytes.into()
        });
    }

    /// Stores a part; parts mostly arrive in order, so the destination is not zeroed first.
    fn put(&mut self, message: u64, offset: u64, bytes: &[u8], hash_list: &mut Operations) -> Read {
        let Some(incoming) = self.messages.get_mut(&message) else {
            return Read::Used;
        };
        let end = offset
            .checked_add(bytes.len() as u64)
            .filter(|&end| end <= incoming.envelope.message_bytes);
        let Some(end) = end else {
            return Read::Malformed;
        };
        let (start, end) = (offset as usize, end as usize);
        if incoming.bytes.len() < start {
            incoming.bytes.resize(start, 0);
        }
        let known = (incoming.bytes.len() - start).min(bytes.len());
        incoming.bytes[start..start + known].copy_from_slice(&bytes[..known]);
        incoming.bytes.extend_from_slice(&bytes[known..]);
        debug_assert!(incoming.bytes.len() >= end);
        incoming.arrived.add(offset, offset + bytes.len() as u64);
        self.end_if_whole(message, hash_list);
        Read::Used
    }

    fn end_if_whole(&mut self, message: u64, hash_list: &mut Operations) {
        let whole = |incoming: &IncomingMessage| {
            incoming.arrived.bytes() >= incoming.envelope.message_bytes
        };
        let Some(&IncomingMessage {
            place: Whereabouts::Matched(receive),
            ..
        }) = self
            .messages
            .get(&message)
            .filter(|incoming| whole(incoming))
        else {
            return;
        };
        let bytes = self
            .messages
            .remove(&message)
            .map(|incoming| incoming.bytes)
            .unwrap_or_default();
        hash_list.end_receive(receive, RecvOutcome::Received { bytes });
    }

    pub(super) fn on_withdraw(
        &mut self,
        message: u64,
        pushed_bytes: u64,
        hash_list: &mut Operations,
    ) -> Read {
        let Some(incoming) = self.messages.get_mut(&message) else {
            if message < self.turn {
                return Read::Used;
            }
            if !self.account.admit(message, pushed_bytes) {
                return Read::Beyond;
            }
            let envelope = Envelope {
                tag: 0,
                pushed_bytes: 0,
                message_bytes: 0,
            };
            self.messages.insert(
                message,
                IncomingMessage {
                    envelope,
                    bytes: Vec::new(),
                    arrived: Ranges::default(),
                    place: Whereabouts::Withdrawn,
                },
            );
            self.account.release(pushed_bytes);
            self.take_turns(hash_list);
            return Read::Used;
        };
        let Envelope {
            tag, pushed_bytes, ..
        } = incoming.envelope;
        match incoming.place {
            Whereabouts::Withdrawn => {}
            Whereabouts::Matched(receive) => {
                self.messages.remove(&message);
                hash_list.end_receive(receive, RecvOutcome::Withdrawn);
            }
            Whereabouts::Held => {
                (incoming.place, incoming.bytes) = (Whereabouts::Withdrawn, Vec::new());
                if message < self.turn {
                    self.unexpected.remove(&(tag, message));
                    self.messages.remove(&message);
                }
                self.account.release(pushed_bytes.into());
            }
        }
        Read::Used
    }

    pub(super) fn abandon(&mut self, message: u64) {
        if self.messages.remove(&message).is_some() {
            self.words
                .retain(|&word| word != NoteCode::Grant { message });
            self.words.push_back(NoteCode::Refuse { message });
        }
    }

    pub(super) fn give_up(&mut self, hash_list: &mut Operations) {
        self.words.clear();
        let mut released = Vec::new();
        self.messages.retain(|_, incoming| {
            let whole = incoming.arrived.bytes() >= incoming.envelope.message_bytes;
            match incoming.place {
                Whereabouts::Matched(receive) => {
                    hash_list.end_receive(receive, RecvOutcome::PeerGone)
                }
                Whereabouts::Held if !whole => released.push(incoming.envelope.pushed_bytes),
                _ => {}
            }
            whole
        });
        released
            .into_iter()
            .for_each(|pushed_bytes| self.account.release(pushed_bytes.into()));
        self.unexpected
            .retain(|(_, message)| self.messages.contains_key(message));
    }

    pub(super) fn next_note(&mut self) -> Option<NoteCode> {
        self.words
            .pop_front()
            .or(self.account.is_due().then_some(NoteCode::Credit))
    }

    pub(super) fn announce(&mut self) -> Credit {
        self.account.announce()
    }

    pub(super) fn pushed(&self) -> (usize, usize) {
        let held = self
            .messages
            .values()
            .filter(|incoming| matches!(incoming.place, Whereabouts::Held));
        held.fold((0, 0), |(messages, bytes), incoming| {
            (messages + 1, bytes + incoming.bytes.capacity())
        })
    }

    pub(super) fn missing_bytes(&self) -> u64 {
        let matched = self
            .messages
            .values()
            .filter(|incoming| matches!(incoming.place, Whereabouts::Matched(_)));
        matched
            .map(|incoming| {
                incoming
                    .envelope
                    .message_bytes
                    .saturating_sub(incoming.arrived.bytes())
            })
            .sum()
    }

    pub(super) fn destination_bytes(&self) -> usize {
        let matched = self
            .messages
            .values()
            .filter(|incoming| matches!(incoming.place, Whereabouts::Matched(_)));
        matched.map(|incoming| incoming.bytes.capacity()).sum()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let records = self.messages.len() * size_of::<(u64, IncomingMessage)>()
            + self.unexpected.len() * size_of::<(u32, u64)>();
        records + self.words.capacity() * size_of::<NoteCode>()
    }

    pub(super) fn audit(&self) -> Result<(), AuditError> {
        let held = self
            .messages
            .values()
            .filter(|incoming| matches!(incoming.place, Whereabouts::Held));
        let one = |incoming: &IncomingMessage| Credit {
            messages: 1,
            bytes: incoming.envelope.pushed_bytes.into(),
        };
        self.account
            .audit(held.map(one).fold(Credit::default(), Credit::plus))?;
        let lost = self
            .unexpected
            .iter()
            .find(|(_, message)| !self.messages.contains_key(message));
        lost.map_or(Ok(()), |(tag, message)| {
            Err(AuditError::new(format!(
                "message {message} of tag {tag} waits for a receive and is not here"
            )))
        })
    }
}

/// Ranges of bytes that neither touch nor overlap; a single one as long as parts arrive in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges {
    ends: BTreeMap<u64, u64>,
    bytes: u64,
}

impl Ranges {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn add(&mut self, mut start: u64, mut end: u64) {
        while let Some((&from, &to)) = self.ends.range(..=end).next_back()
            && to >= start
        {
            self.ends.remove(&from);
            self.bytes -= to - from;
            (start, end) = (start.min(from), end.max(to));
        }
        if start < end {
            self.ends.insert(start, end);
            self.bytes += end - start;
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    New,
    Duplicate,
    Unwanted,
}

#[derive(Clone, Debug)]
pub(super) struct Arrivals {
    policy: Policy,
    every: u64,
    delay: Duration,
    arrived: Arrived,
    receipt: Receipt,
}

impl Arrivals {
    pub(super) fn new(tuning: &Tuning) -> Arrivals {
        Arrivals {
            policy: tuning.policy,
            every: tuning.ack.every_frames,
            delay: tuning.ack.delay,
            arrived: Arrived::new(SPAN_FRAMES),
            receipt: Receipt::default(),
        }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.receipt.due()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.arrived.bytes()
    }

    pub(super) fn note_stamp(&mut self, now: Instant, stamp: u32) {
        self.receipt.note_stamp(now, stamp);
    }

    pub(super) fn class(&self, sequence: u64) -> Class {
        let head = self.arrived.head();
        let unwanted = match self.policy {
            Policy::InOrderOnly => sequence > head,
            Policy::HolesAllowed => sequence >= head + SPAN_FRAMES,
        };
        match sequence {
            sequence if self.arrived.has(sequence) => Class::Duplicate,
            _ if unwanted => Class::Unwanted,
            _ => Class::New,
        }
    }

    pub(super) fn take(&mut self, now: Instant, sequence: u64) {
        if sequence > self.arrived.highest() {
            self.report_gap(now, sequence);
        }
        self.arrived.insert(sequence);
    }

    pub(super) fn owe(&mut self, now: Instant, at_once: bool) {
        let unacknowledged = self.receipt.count();
        let delay = if at_once || unacknowledged >= self.every {
            Duration::ZERO
        } else {
            self.delay
        };
        self.receipt.hasten(now + delay);
    }

    pub(super) fn report_gap(&mut self, now: Instant, at: u64) {
        let at = if self.policy == Policy::InOrderOnly {
            self.arrived.head()
        } else {
            at
        };
        if self.receipt.is_new_gap(at) {
            self.receipt.hasten(now);
        }
    }

    pub(super) fn on_request(&mut self, now: Instant, stamp: u32) {
        self.receipt.note_stamp(now, stamp);
        self.receipt.hasten(now);
    }

    pub(super) fn on_timeout(&mut self, now: Instant) {
        self.receipt.on_timeout(now);
    }

    pub(super) fn is_ready(&mut self, now: Instant) -> bool {
        self.receipt.on_timeout(now);
        self.receipt.is_ready()
    }

    pub(super) fn acknowledge(&mut self, now: Instant, body: &mut [u8]) -> (usize, u64, Stamp) {
        let (echo, held_us) = self.receipt.settle(now);
        let cursor = self.arrived.head();
        let fixed = AckBody {
            limit: cursor + SPAN_FRAMES,
            below: cursor,
            consumed: cursor,
            held_us,
        };
        let bitmap_bytes = self.arrived.write_holes(&mut body[AckBody::BYTES..]);
        (fixed.write(cursor, body, bitmap_bytes), cursor, echo)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_counts_once_in_whatever_pieces_and_order_they_come() {
        let mut pieces = Vec::new();
        for seed in 1..200_u64 {
            let (mut ranges, mut model) = (Ranges::default(), [false; 64]);
            pieces.clear();
            for step in 1..12_u64 {
                let start = (seed.wrapping_mul(step * 0x9E37_79B9) >> 7) & 63;
                let end = (start + ((seed * step * 7) & 15)).min(64);
                pieces.push((start, end));
                ranges.add(start, end);
                model[start as usize..end as usize].fill(true);
                assert_eq!(
                    ranges.bytes(),
                    model.iter().filter(|&&there| there).count() as u64,
                    "{pieces:?}"
                );
            }
        }
        let mut ordered = Ranges::default();
        (0..100).for_each(|part| ordered.add(part * 10, part * 10 + 10));
        assert_eq!((ordered.bytes(), ordered.ends.len()), (1000, 1));
    }

    #[test]
    fn every_order_in_which_seven_frames_arrive_ends_with_all_of_them_and_takes_each_once() {
        let mut order = [0_u64; 7];
        for mut number in 0..5040_usize {
            let mut left: Vec<u64> = (0..7).collect();
            for (at, slot) in order.iter_mut().enumerate() {
                *slot = left.remove(number % (7 - at));
                number /= 7 - at;
            }
            let mut arrivals = Arrivals::new(&Tuning::default());
            for (at, &sequence) in order.iter().enumerate() {
                assert_eq!(arrivals.class(sequence), Class::New, "{order:?}");
                arrivals.take(Instant::START, sequence);
                assert_eq!(arrivals.class(sequence), Class::Duplicate, "{order:?}");
                let missing = (0..7)
                    .find(|sequence| !order[..=at].contains(sequence))
                    .unwrap_or(7);
                assert_eq!(arrivals.arrived.head(), missing, "{order:?}");
            }
            assert_eq!(arrivals.arrived.count(), (0, 0), "{order:?}");
        }
    }

    #[test]
    fn no_frame_is_accepted_too_far_ahead_or_out_of_order_under_strict_presets() {
        let holes = Arrivals::new(&Tuning::default());
        assert_eq!(
            [0, SPAN_FRAMES - 1, SPAN_FRAMES].map(|at| holes.class(at)),
            [Class::New, Class::New, Class::Unwanted]
        );
        let strict = Arrivals::new(&Tuning::paper());
        assert_eq!(
            [0, 1].map(|at| strict.class(at)),
            [Class::New, Class::Unwanted]
        );
    }
}
