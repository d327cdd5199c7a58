//! Receiving half of the messages with one peer: buffered ones, and those on their way to the
//! caller. (EQA §2, arrows 2a to 3b.)
//!
//! Messages are matched with receives in the order of their numbers, so in order for each tag.
//! Bytes that arrive before a message is matched are kept in the pushed buffer; those of a matched
//! message go straight to its destination, and the rest is granted at once.

use super::body::{Envelope, NoteCode, Pull, Push};
use super::credit::{Credit, CreditAccount};
use super::operations::Operations;
use super::outcome::{RecvId, RecvOutcome};
use super::ranges::Ranges;
use crate::audit::AuditError;
use crate::wire::Rank;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

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

    pub(super) fn on_push(&mut self, push: &Push<'_>, ledger: &mut Operations) -> Read {
        let Push { message, envelope, .. } = *push;
        if !self.messages.contains_key(&message) {
            if message < self.turn {
                return Read::Used;
            }
            if !self.account.admit(message, u64::from(envelope.pushed_bytes)) {
                return Read::Beyond;
            }
            let incoming =
                IncomingMessage { envelope, bytes: Vec::new(), arrived: Ranges::default(), place: Whereabouts::Held };
            self.messages.insert(message, incoming);
            self.take_turns(ledger);
        }
        match self.messages.get(&message) {
            Some(incoming) if matches!(incoming.place, Whereabouts::Withdrawn) => Read::Used,
            Some(incoming) if incoming.envelope != envelope => Read::Malformed,
            Some(_) => self.put(message, push.offset, push.bytes, ledger),
            None => Read::Used,
        }
    }

    pub(super) fn on_pull(&mut self, pull: &Pull<'_>, ledger: &mut Operations) -> Read {
        match self.messages.get(&pull.message) {
            // Only granted bytes may arrive.
            Some(IncomingMessage { place: Whereabouts::Held, .. }) => Read::Malformed,
            None if pull.message >= self.turn => Read::Malformed,
            Some(IncomingMessage { place: Whereabouts::Matched(_), .. }) => {
                self.put(pull.message, pull.offset, pull.bytes, ledger)
            }
            _ => Read::Used,
        }
    }

    fn take_turns(&mut self, ledger: &mut Operations) {
        while let Some(incoming) = self.messages.get(&self.turn) {
            let message = self.turn;
            self.turn += 1;
            if matches!(incoming.place, Whereabouts::Withdrawn) {
                self.messages.remove(&message);
                continue;
            }
            let tag = incoming.envelope.tag;
            match ledger.match_receive(self.from, tag, message) {
                Some((receive, max_bytes)) => self.match_with(message, receive, max_bytes, ledger),
                None => {
                    self.unexpected.insert((tag, message));
                }
            }
        }
    }

    pub(super) fn on_posted(&mut self, tag: u32, ledger: &mut Operations) {
        let oldest = self
            .unexpected
            .range((tag, 0)..=(tag, u64::MAX))
            .nth(usize::from(planted!("newest-message-first")))
            .copied();
        let Some((_, message)) = oldest else { return };
        if let Some((receive, max_bytes)) = ledger.match_receive(self.from, tag, message) {
            self.unexpected.remove(&(tag, message));
            self.match_with(message, receive, max_bytes, ledger);
        }
    }

    pub(super) fn has_unexpected(&self, tag: u32) -> bool {
        self.unexpected.range((tag, 0)..=(tag, u64::MAX)).next().is_some()
    }

    fn match_with(&mut self, message: u64, receive: RecvId, max_bytes: usize, ledger: &mut Operations) {
        let incoming = self.messages.get_mut(&message).expect("a message is matched while it is here");
        let Envelope { pushed_bytes, message_bytes, .. } = incoming.envelope;
        let rest = message_bytes > u64::from(pushed_bytes);
        if usize::try_from(message_bytes).is_ok_and(|length| length <= max_bytes) {
            incoming.bytes.reserve_exact(message_bytes as usize - incoming.bytes.len());
            incoming.place = Whereabouts::Matched(receive);
            self.words.extend(rest.then_some(NoteCode::Grant { message }));
            self.end_if_whole(message, ledger);
        } else {
            self.messages.remove(&message);
            self.words.extend(rest.then_some(NoteCode::Refuse { message }));
            ledger.end_receive(receive, RecvOutcome::TooShort { message_bytes });
        }
        self.account.release(if planted!("credit-never-returned") { 0 } else { pushed_bytes.into() });
    }

    /// Stores a part; parts mostly arrive in order, so the destination is not zeroed first.
    fn put(&mut self, message: u64, offset: u64, bytes: &[u8], ledger: &mut Operations) -> Read {
        let Some(incoming) = self.messages.get_mut(&message) else { return Read::Used };
        let end = offset.checked_add(bytes.len() as u64).filter(|&end| end <= incoming.envelope.message_bytes);
        let Some(end) = end else { return Read::Malformed };
        let (start, end) = (offset as usize, end as usize);
        if incoming.bytes.len() < start {
            incoming.bytes.resize(start, 0);
        }
        let known = (incoming.bytes.len() - start).min(bytes.len());
        incoming.bytes[start..start + known].copy_from_slice(&bytes[..known]);
        incoming.bytes.extend_from_slice(&bytes[known..]);
        debug_assert!(incoming.bytes.len() >= end);
        incoming.arrived.add(offset, offset + bytes.len() as u64);
        self.end_if_whole(message, ledger);
        Read::Used
    }

    fn end_if_whole(&mut self, message: u64, ledger: &mut Operations) {
        let whole = |incoming: &IncomingMessage| incoming.arrived.bytes() >= incoming.envelope.message_bytes;
        let Some(&IncomingMessage { place: Whereabouts::Matched(receive), .. }) =
            self.messages.get(&message).filter(|incoming| whole(incoming))
        else {
            return;
        };
        let bytes = self.messages.remove(&message).map(|incoming| incoming.bytes).unwrap_or_default();
        ledger.end_receive(receive, RecvOutcome::Received { bytes });
    }

    pub(super) fn on_withdraw(&mut self, message: u64, pushed_bytes: u64, ledger: &mut Operations) -> Read {
        let Some(incoming) = self.messages.get_mut(&message) else {
            if message < self.turn {
                return Read::Used;
            }
            if !self.account.admit(message, pushed_bytes) {
                return Read::Beyond;
            }
            let envelope = Envelope { tag: 0, pushed_bytes: 0, message_bytes: 0 };
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
            self.take_turns(ledger);
            return Read::Used;
        };
        let Envelope { tag, pushed_bytes, .. } = incoming.envelope;
        match incoming.place {
            Whereabouts::Withdrawn => {}
            Whereabouts::Matched(receive) => {
                self.messages.remove(&message);
                ledger.end_receive(receive, RecvOutcome::Withdrawn);
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
            self.words.retain(|&word| word != NoteCode::Grant { message });
            self.words.push_back(NoteCode::Refuse { message });
        }
    }

    pub(super) fn give_up(&mut self, ledger: &mut Operations) {
        self.words.clear();
        let mut released = Vec::new();
        self.messages.retain(|_, incoming| {
            let whole = incoming.arrived.bytes() >= incoming.envelope.message_bytes;
            match incoming.place {
                Whereabouts::Matched(receive) => ledger.end_receive(receive, RecvOutcome::PeerGone),
                Whereabouts::Held if !whole => released.push(incoming.envelope.pushed_bytes),
                _ => {}
            }
            whole
        });
        released.into_iter().for_each(|pushed_bytes| self.account.release(pushed_bytes.into()));
        self.unexpected.retain(|(_, message)| self.messages.contains_key(message));
    }

    pub(super) fn next_note(&mut self) -> Option<NoteCode> {
        self.words.pop_front().or(self.account.is_due().then_some(NoteCode::Credit))
    }

    pub(super) fn announce(&mut self) -> Credit {
        self.account.announce()
    }

    pub(super) fn pushed(&self) -> (usize, usize) {
        let held = self.messages.values().filter(|incoming| matches!(incoming.place, Whereabouts::Held));
        held.fold((0, 0), |(messages, bytes), incoming| (messages + 1, bytes + incoming.bytes.capacity()))
    }

    pub(super) fn missing_bytes(&self) -> u64 {
        let matched = self.messages.values().filter(|incoming| matches!(incoming.place, Whereabouts::Matched(_)));
        matched.map(|incoming| incoming.envelope.message_bytes.saturating_sub(incoming.arrived.bytes())).sum()
    }

    pub(super) fn destination_bytes(&self) -> usize {
        let matched = self.messages.values().filter(|incoming| matches!(incoming.place, Whereabouts::Matched(_)));
        matched.map(|incoming| incoming.bytes.capacity()).sum()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let records =
            self.messages.len() * size_of::<(u64, IncomingMessage)>() + self.unexpected.len() * size_of::<(u32, u64)>();
        records + self.words.capacity() * size_of::<NoteCode>()
    }

    pub(super) fn audit(&self) -> Result<(), AuditError> {
        let held = self.messages.values().filter(|incoming| matches!(incoming.place, Whereabouts::Held));
        let one = |incoming: &IncomingMessage| Credit { messages: 1, bytes: incoming.envelope.pushed_bytes.into() };
        self.account.audit(held.map(one).fold(Credit::default(), Credit::plus))?;
        let lost = self.unexpected.iter().find(|(_, message)| !self.messages.contains_key(message));
        lost.map_or(Ok(()), |(tag, message)| {
            Err(AuditError::new(format!("message {message} of tag {tag} waits for a receive and is not here")))
        })
    }
}
