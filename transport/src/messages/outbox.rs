//! Sending half of the messages with one peer: its queue, and the choice of the next frame. (EQA
//! §2, arrows 1a and 1b.)
//!
//! A message gets its number when it is first sent, in the order of the calls. Its push is as long
//! as BTP1, BTP2 and the room in the peer's pushed buffer allow, possibly only its envelope; the
//! rest waits for the peer's grant.

use super::body::{Envelope, NoteCode};
use super::credit::Credit;
use super::flight::Piece;
use super::operations::Operations;
use super::settings::{SendId, SendOutcome, Settings};
use crate::machine::AuditError;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

#[derive(Clone, Debug)]
struct QueuedMessage {
    id: SendId,
    tag: u32,
    bytes: Arc<[u8]>,
    pushed: usize,
    /// Bytes that may be sent: the pushed ones; after the grant, all.
    allowed: usize,
    gone: usize,
    begun: bool,
    flying: usize,
}

impl QueuedMessage {
    fn is_done(&self) -> bool {
        self.begun && self.gone == self.bytes.len() && self.flying == 0
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Fit {
    pub push_bytes: usize,
    pub pull_bytes: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Outbox {
    btp1: usize,
    btp2: usize,
    fit: Fit,
    waiting: VecDeque<QueuedMessage>,
    begun: BTreeMap<u64, QueuedMessage>,
    pushing: Option<u64>,
    pulling: VecDeque<u64>,
    pulled_last: bool,
    withdrawn: VecDeque<NoteCode>,
    next_message: u64,
    pushed_bytes: u64,
    limit: Credit,
}

impl Outbox {
    pub(super) fn new(settings: &Settings, fit: Fit) -> Outbox {
        Outbox {
            btp1: settings.btp1_bytes,
            btp2: settings.btp2_bytes,
            fit,
            waiting: VecDeque::new(),
            begun: BTreeMap::new(),
            pushing: None,
            pulling: VecDeque::new(),
            pulled_last: false,
            withdrawn: VecDeque::new(),
            next_message: 0,
            pushed_bytes: 0,
            limit: Credit::INITIAL,
        }
    }

    pub(super) fn add(&mut self, id: SendId, tag: u32, bytes: Arc<[u8]>) {
        self.waiting.push_back(QueuedMessage {
            id,
            tag,
            bytes,
            pushed: 0,
            allowed: 0,
            gone: 0,
            begun: false,
            flying: 0,
        });
    }

    pub(super) fn next_note(&mut self) -> Option<NoteCode> {
        self.withdrawn.pop_front()
    }

    /// Returns the next part, which counts as sent; pushes and pulls take turns.
    pub(super) fn next_part(&mut self) -> Option<Piece> {
        let push = self.pushing.or_else(|| self.begin());
        let pull = self.pulling.front().copied();
        self.pulled_last = pull.is_some() && (push.is_none() || !self.pulled_last);
        let message = if self.pulled_last { pull } else { push }?;
        Some(self.cut(message))
    }

    fn begin(&mut self) -> Option<u64> {
        if self.next_message >= self.limit.messages {
            return None;
        }
        let room = usize::try_from(self.limit.bytes - self.pushed_bytes).unwrap_or(usize::MAX);
        let first = self.btp1.min(self.fit.push_bytes);
        let push = first
            .saturating_add(self.btp2)
            .min(u32::MAX as usize)
            .min(self.waiting.front()?.bytes.len());
        // An acknowledgement of the frames in flight may bring more room; a partly pushed message
        // would have to wait for its receive.
        if push > room && self.begun.values().any(|earlier| earlier.flying > 0) {
            return None;
        }
        let mut queued = self.waiting.pop_front()?;
        queued.pushed = push.min(room);
        queued.allowed = queued.pushed;
        let message = self.next_message;
        self.next_message += 1;
        self.pushed_bytes += queued.pushed as u64;
        self.begun.insert(message, queued);
        self.pushing = Some(message);
        Some(message)
    }

    fn cut(&mut self, message: u64) -> Piece {
        let queued = self
            .begun
            .get_mut(&message)
            .expect("what is pushed or pulled is there");
        let (offset, pushed) = (queued.gone, queued.pushed);
        let (end, longest) = if offset < pushed {
            (pushed, self.fit.push_bytes)
        } else {
            (queued.allowed, self.fit.pull_bytes)
        };
        // A message of one frame has nothing to overlap with: BTP1 cuts only longer ones.
        let alone = queued.bytes.len() == pushed && pushed <= longest;
        let longest = if offset == 0 && pushed > 0 && !alone {
            longest.min(self.btp1.max(1))
        } else {
            longest
        };
        let bytes = (end - offset).min(longest);
        queued.gone += bytes - usize::from(bytes > 0 && planted!("part-sent-one-short"));
        queued.begun = true;
        queued.flying += 1;
        if queued.gone >= pushed && self.pushing == Some(message) {
            self.pushing = None;
            if queued.allowed > queued.gone {
                self.pulling.push_back(message);
            }
        } else if queued.gone == queued.allowed && self.pulling.front() == Some(&message) {
            self.pulling.pop_front();
        }
        Piece::Part {
            message,
            offset: offset as u64,
            bytes: bytes as u32,
            pushed_bytes: pushed as u32,
        }
    }

    pub(super) fn content(
        &self,
        message: u64,
        offset: u64,
        bytes: u32,
    ) -> Option<(Envelope, &[u8])> {
        let queued = self.begun.get(&message)?;
        let envelope = Envelope {
            tag: queued.tag,
            pushed_bytes: queued.pushed as u32,
            message_bytes: queued.bytes.len() as u64,
        };
        Some((envelope, &queued.bytes[offset as usize..][..bytes as usize]))
    }

    pub(super) fn ends_pulled(&self, message: u64, offset: u64, bytes: u32) -> bool {
        let end = offset as usize + bytes as usize;
        self.begun
            .get(&message)
            .is_some_and(|queued| queued.pushed < end && end == queued.bytes.len())
    }

    pub(super) fn on_arrived(&mut self, message: u64, hash_list: &mut Operations) {
        let Some(queued) = self.begun.get_mut(&message) else {
            return;
        };
        queued.flying -= 1;
        if queued.is_done() {
            hash_list.end_send(queued.id, SendOutcome::Sent);
            self.begun.remove(&message);
        }
    }

    pub(super) fn on_credit(&mut self, limit: Credit) {
        self.limit = self.limit.max(limit);
    }

    pub(super) fn on_grant(&mut self, message: u64) -> bool {
        if let Some(queued) = self.begun.get_mut(&message) {
            let fresh = queued.allowed < queued.bytes.len();
            queued.allowed = queued.bytes.len();
            if fresh && self.pushing != Some(message) {
                self.pulling.push_back(message);
            }
        }
        message < self.next_message
    }

    pub(super) fn on_refuse(&mut self, message: u64, hash_list: &mut Operations) -> bool {
        if let Some(queued) = self.remove_begun(message) {
            hash_list.end_send(queued.id, SendOutcome::Refused);
        }
        message < self.next_message
    }

    pub(super) fn withdraw(&mut self, id: SendId) {
        if let Some(at) = self.waiting.iter().position(|queued| queued.id == id) {
            self.waiting.remove(at);
            return;
        }
        let found = self
            .begun
            .iter()
            .find(|(_, queued)| queued.id == id)
            .map(|(&message, _)| message);
        if let Some(message) = found
            && let Some(queued) = self.remove_begun(message)
        {
            self.withdrawn.push_back(NoteCode::Withdraw {
                message,
                pushed_bytes: queued.pushed as u64,
            });
        }
    }

    fn remove_begun(&mut self, message: u64) -> Option<QueuedMessage> {
        self.pushing = self.pushing.filter(|&pushing| pushing != message);
        self.pulling.retain(|&pulling| pulling != message);
        self.begun.remove(&message)
    }

    pub(super) fn give_up(&mut self, hash_list: &mut Operations) {
        for queued in self
            .waiting
            .drain(..)
            .chain(std::mem::take(&mut self.begun).into_values())
        {
            hash_list.end_send(queued.id, SendOutcome::PeerGone);
        }
        (self.pushing, self.pulling, self.withdrawn) = (None, VecDeque::new(), VecDeque::new());
    }

    pub(super) fn has_gone(&self, id: SendId) -> bool {
        let waits = self.waiting.iter().any(|queued| queued.id == id);
        let partly = |queued: &QueuedMessage| {
            queued.id == id && (!queued.begun || queued.gone < queued.bytes.len())
        };
        !waits && !self.begun.values().any(partly)
    }

    pub(super) fn queued_bytes(&self) -> usize {
        self.waiting
            .iter()
            .chain(self.begun.values())
            .map(|queued| queued.bytes.len())
            .sum()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let slots = self.waiting.capacity() + self.begun.len();
        slots * size_of::<QueuedMessage>()
            + self.pulling.capacity() * size_of::<u64>()
            + self.withdrawn.capacity() * size_of::<NoteCode>()
    }

    pub(super) fn audit(&self) -> Result<(), AuditError> {
        if self.next_message > self.limit.messages || self.pushed_bytes > self.limit.bytes {
            let (message, pushed) = (self.next_message, self.pushed_bytes);
            return Err(AuditError::new(format!(
                "{message} messages and {pushed} bytes pushed into room for {:?}",
                self.limit
            )));
        }
        for (message, queued) in &self.begun {
            let to_send = self.pushing == Some(*message) || self.pulling.contains(message);
            if to_send != (queued.gone < queued.allowed || !queued.begun) {
                return Err(AuditError::new(format!(
                    "message {message} to be sent: {to_send}, but {} of {} gone",
                    queued.gone, queued.allowed
                )));
            }
        }
        Ok(())
    }
}
