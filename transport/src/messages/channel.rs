//! State of the point-to-point messages with one peer, in both directions.

use super::body::{Note, NoteCode, Pull, Push};
use super::credit::Credit;
use super::flight::{Flight, Piece};
use super::inbox::{Arrivals, Class, Inbox, Read};
use super::operations::{Label, MailboxCore, Operations};
use super::outbox::{Fit, Outbox};
use super::settings::{MailboxMemory, MailboxStats, RecvOutcome, SendId, Settings};
use crate::arq::stamp::Stamp;
use crate::machine::{AuditError, Deadline, Timer};
use crate::time::Instant;
use crate::wire::{Ack, Flags, Frame, Header, Kind, MacAddr, Peer};

/// Unacknowledged frames, or missing bytes, from which the traffic is bulk: the number of frames
/// per wake-up matters more than the latency of each. A driver then receives 64 frames at a time,
/// so twice as many bytes must be missing.
const BULK_FRAMES: u64 = 64;
const BULK_BYTES: u64 = 128 << 10;

#[derive(Clone, Debug)]
pub(super) struct Channel {
    peer: Peer,
    outbox: Outbox,
    inbox: Inbox,
    flight: Flight,
    arrivals: Arrivals,
    gone: bool,
}

impl Channel {
    pub(super) fn new(
        peer: Peer,
        payload_bytes: usize,
        share: Credit,
        settings: &Settings,
    ) -> Channel {
        let fit = Fit {
            push_bytes: payload_bytes - Push::HEAD_BYTES,
            pull_bytes: payload_bytes - Pull::HEAD_BYTES,
        };
        Channel {
            peer,
            outbox: Outbox::new(settings, fit),
            inbox: Inbox::new(peer.rank, share),
            flight: Flight::new(&settings.tuning),
            arrivals: Arrivals::new(&settings.tuning),
            gone: false,
        }
    }

    pub(super) fn takes_from(&self, source: MacAddr) -> bool {
        !self.gone && self.peer.mac == source
    }

    pub(super) fn is_gone(&self) -> bool {
        self.gone
    }

    pub(super) fn outbox(&mut self) -> &mut Outbox {
        &mut self.outbox
    }

    pub(super) fn inbox(&mut self) -> &mut Inbox {
        &mut self.inbox
    }

    pub(super) fn has_gone(&self, id: SendId) -> bool {
        self.outbox.has_gone(id)
    }

    pub(super) fn has_unexpected(&self, tag: u32) -> bool {
        self.inbox.has_unexpected(tag)
    }

    pub(super) fn queued_bytes(&self) -> usize {
        self.outbox.queued_bytes()
    }

    pub(super) fn on_frame(&mut self, now: Instant, frame: &Frame<'_>, endpoint: &mut MailboxCore) {
        self.flight.on_frame(now);
        match frame.header.kind {
            Kind::RECEIPT => match Ack::parse(frame) {
                Some(ack) => self.on_ack(now, &ack, endpoint),
                None => endpoint.stats.malformed += 1,
            },
            Kind::ASK => self.arrivals.on_request(now, frame.header.stamp),
            _ => self.on_numbered(now, frame, endpoint),
        }
    }

    fn on_ack(&mut self, now: Instant, ack: &Ack<'_>, endpoint: &mut MailboxCore) {
        let (outbox, hash_list) = (&mut self.outbox, &mut endpoint.hash_list);
        let honest = self.flight.on_ack(now, ack, &endpoint.stamps, |piece| {
            if let Piece::Part { message, .. } = piece {
                outbox.on_arrived(message, hash_list);
            }
        });
        endpoint.stats.forged_acks += u64::from(!honest);
    }

    fn on_numbered(&mut self, now: Instant, frame: &Frame<'_>, endpoint: &mut MailboxCore) {
        let Header {
            sequence,
            flags,
            stamp,
            ..
        } = frame.header;
        self.arrivals.note_stamp(now, stamp);
        match self.arrivals.class(sequence) {
            Class::Duplicate => endpoint.stats.duplicates += 1,
            Class::Unwanted => {
                endpoint.stats.beyond_credit += 1;
                self.arrivals.report_gap(now, sequence);
                return;
            }
            Class::New => match self.read(now, frame, endpoint) {
                Read::Used => {
                    endpoint.stats.received += 1;
                    self.arrivals.take(now, sequence);
                }
                Read::Beyond => endpoint.stats.beyond_credit += 1,
                Read::Malformed => endpoint.stats.malformed += 1,
            },
        }
        self.arrivals.owe(now, flags.has(Flags::ACK_NOW));
    }

    fn read(&mut self, now: Instant, frame: &Frame<'_>, endpoint: &mut MailboxCore) -> Read {
        let ranks = [self.peer.rank, endpoint.identity.rank];
        let (hash_list, cipher) = (&mut endpoint.hash_list, endpoint.cipher.as_deref());
        let decrypt = |message, offset, bytes: &[u8]| {
            let cipher = cipher?;
            let mut plain = bytes.to_vec();
            cipher.apply(ranks, message, offset, &mut plain);
            Some(plain)
        };
        match frame.header.kind {
            Kind::PUSH => Push::parse(frame.payload).map(|push| {
                let plain = decrypt(push.message, push.offset, push.bytes);
                let bytes = plain.as_deref().unwrap_or(push.bytes);
                self.inbox.on_push(&Push { bytes, ..push }, hash_list)
            }),
            Kind::PULL => Pull::parse(frame.payload).map(|pull| {
                let plain = decrypt(pull.message, pull.offset, pull.bytes);
                let bytes = plain.as_deref().unwrap_or(pull.bytes);
                self.inbox.on_pull(&Pull { bytes, ..pull }, hash_list)
            }),
            Kind::NOTE => Note::parse(frame.payload)
                .and_then(|note| self.on_note(now, frame, &note, endpoint)),
            _ => None,
        }
        .unwrap_or(Read::Malformed)
    }

    fn on_note(
        &mut self,
        now: Instant,
        frame: &Frame<'_>,
        note: &Note<'_>,
        endpoint: &mut MailboxCore,
    ) -> Option<Read> {
        let header = Header {
            sequence: note.cursor,
            stamp: note.echo,
            ..frame.header
        };
        let ack = Ack::parse(&Frame {
            header,
            payload: note.ack,
            ..*frame
        })?;
        self.on_ack(now, &ack, endpoint);
        self.outbox.on_credit(note.limit);
        Some(self.on_note_code(note.word, &mut endpoint.hash_list, &mut endpoint.stats))
    }

    fn on_note_code(
        &mut self,
        word: NoteCode,
        hash_list: &mut Operations,
        stats: &mut MailboxStats,
    ) -> Read {
        let honest = match word {
            NoteCode::Credit => true,
            NoteCode::Grant { message } => self.outbox.on_grant(message),
            NoteCode::Refuse { message } => self.outbox.on_refuse(message, hash_list),
            NoteCode::Withdraw {
                message,
                pushed_bytes,
            } => {
                return self.inbox.on_withdraw(message, pushed_bytes, hash_list);
            }
        };
        stats.forged_acks += u64::from(!honest);
        Read::Used
    }

    pub(super) fn pump_local(&mut self, endpoint: &mut MailboxCore) {
        loop {
            if let Some(word) = self.outbox.next_note().or_else(|| self.inbox.next_note()) {
                let limit = self.inbox.announce();
                self.outbox.on_credit(limit);
                self.on_note_code(word, &mut endpoint.hash_list, &mut endpoint.stats);
            } else if let Some(Piece::Part {
                message,
                offset,
                bytes,
                ..
            }) = self.outbox.next_part()
            {
                if let Some((envelope, content)) = self.outbox.content(message, offset, bytes) {
                    if is_push(offset, bytes, envelope.pushed_bytes) {
                        self.inbox.on_push(
                            &Push {
                                message,
                                envelope,
                                offset,
                                bytes: content,
                            },
                            &mut endpoint.hash_list,
                        );
                    } else {
                        self.inbox.on_pull(
                            &Pull {
                                message,
                                offset,
                                bytes: content,
                            },
                            &mut endpoint.hash_list,
                        );
                    }
                }
                self.outbox.on_arrived(message, &mut endpoint.hash_list);
            } else {
                return;
            }
        }
    }

    pub(super) fn on_timeout(&mut self, now: Instant, settings: &Settings) -> bool {
        self.arrivals.on_timeout(now);
        self.flight.on_timeout(now, settings.silent_after)
    }

    pub(super) fn deadline(&self) -> Option<Deadline> {
        let ack = self.arrivals.due().map(|at| Deadline {
            at,
            why: Timer::ACK,
        });
        let ask = self.flight.due().map(|at| Deadline {
            at,
            why: Timer::HEARTBEAT,
        });
        [ack, ask]
            .into_iter()
            .flatten()
            .min()
            .filter(|_| !self.gone)
    }

    /// Writes the next frame into `buffer`: notes and receipts first, as other hosts wait for them.
    pub(super) fn poll(
        &mut self,
        now: Instant,
        endpoint: &mut MailboxCore,
        buffer: &mut [u8],
    ) -> Option<usize> {
        if self.gone {
            return None;
        }
        if self.flight.take_request() {
            endpoint.stats.asks_sent += 1;
            let stamp = endpoint.stamps.draw(now);
            return Some(endpoint.seal(
                self.peer.mac,
                Label(Kind::ASK, Flags::default(), self.flight.next(), stamp),
                buffer,
                0,
            ));
        }
        if self.flight.has_span()
            && let Some(word) = self.outbox.next_note().or_else(|| self.inbox.next_note())
        {
            endpoint.stats.notes_sent += 1;
            let stamp = endpoint.stamps.draw(now);
            let sequence = self.flight.send(now, Piece::Word(word), stamp);
            return Some(self.write_note(now, endpoint, sequence, word, (stamp, false), buffer));
        }
        if self.arrivals.is_ready(now) {
            endpoint.stats.receipts_sent += 1;
            let body = &mut endpoint.identity.payload_of(buffer)[..endpoint.payload_bytes];
            let (length, cursor, echo) = self.arrivals.acknowledge(now, body);
            return Some(endpoint.seal(
                self.peer.mac,
                Label(Kind::RECEIPT, Flags::default(), cursor, echo),
                buffer,
                length,
            ));
        }
        if let Some((sequence, piece, stamp)) =
            self.flight.repair(now, || endpoint.stamps.draw(now))
        {
            endpoint.stats.resent += 1;
            return Some(self.write(now, endpoint, sequence, piece, (stamp, true), buffer));
        }
        let piece = if self.flight.has_window() {
            self.outbox.next_part()?
        } else {
            return None;
        };
        let stamp = endpoint.stamps.draw(now);
        let sequence = self.flight.send(now, piece, stamp);
        Some(self.write(now, endpoint, sequence, piece, (stamp, false), buffer))
    }

    /// Writes the frame of a piece. If its message has left the queue its bytes are no longer
    /// wanted, but its frame number must be acknowledged: a note of the room is sent instead.
    fn write(
        &mut self,
        now: Instant,
        endpoint: &mut MailboxCore,
        sequence: u64,
        piece: Piece,
        how: (Stamp, bool),
        buffer: &mut [u8],
    ) -> usize {
        let (message, offset, bytes, pushed_bytes) = match piece {
            Piece::Part {
                message,
                offset,
                bytes,
                pushed_bytes,
            } => (message, offset, bytes, pushed_bytes),
            Piece::Word(word) => {
                return self.write_note(now, endpoint, sequence, word, how, buffer);
            }
        };
        let Some((envelope, content)) = self.outbox.content(message, offset, bytes) else {
            return self.write_note(now, endpoint, sequence, NoteCode::Credit, how, buffer);
        };
        let (stamp, again) = how;
        let payload = endpoint.identity.payload_of(buffer);
        let (kind, length) = if is_push(offset, bytes, pushed_bytes) {
            endpoint.stats.pushes_sent += u64::from(!again);
            (
                Kind::PUSH,
                Push {
                    message,
                    envelope,
                    offset,
                    bytes: content,
                }
                .write(payload),
            )
        } else {
            endpoint.stats.pulls_sent += u64::from(!again);
            (
                Kind::PULL,
                Pull {
                    message,
                    offset,
                    bytes: content,
                }
                .write(payload),
            )
        };
        if let Some(cipher) = &endpoint.cipher {
            let content = &mut endpoint.identity.payload_of(buffer)[..length];
            let content = content.split_at_mut(length - bytes as usize).1;
            let ranks = [endpoint.identity.rank, self.peer.rank];
            cipher.apply(ranks, message, offset, content);
        }
        let urgent = self.flight.is_blocked() || self.outbox.ends_pulled(message, offset, bytes);
        let bits = [(urgent, Flags::ACK_NOW), (again, Flags::RESENT)];
        let flags = bits
            .iter()
            .filter(|(set, _)| *set)
            .fold(Flags::default(), |flags, (_, bit)| flags.with(*bit));
        endpoint.seal(
            self.peer.mac,
            Label(kind, flags, sequence, stamp),
            buffer,
            length,
        )
    }

    fn write_note(
        &mut self,
        now: Instant,
        endpoint: &MailboxCore,
        sequence: u64,
        word: NoteCode,
        (stamp, again): (Stamp, bool),
        buffer: &mut [u8],
    ) -> usize {
        let payload = &mut endpoint.identity.payload_of(buffer)[..endpoint.payload_bytes];
        let (ack_bytes, cursor, echo) = self
            .arrivals
            .acknowledge(now, &mut payload[Note::HEAD_BYTES..]);
        let length = Note::write(
            word,
            self.inbox.announce(),
            cursor,
            echo.0,
            ack_bytes,
            payload,
        );
        let flags = if again {
            Flags::RESENT
        } else {
            Flags::default()
        };
        endpoint.seal(
            self.peer.mac,
            Label(Kind::NOTE, flags, sequence, stamp),
            buffer,
            length,
        )
    }

    pub(super) fn is_urgent(&self) -> bool {
        self.flight.flying() < BULK_FRAMES && self.inbox.missing_bytes() < BULK_BYTES
    }

    pub(super) fn give_up(&mut self, hash_list: &mut Operations) {
        self.gone = true;
        self.outbox.give_up(hash_list);
        self.inbox.give_up(hash_list);
        for receive in hash_list.posted_from(self.peer.rank) {
            hash_list.end_receive(receive, RecvOutcome::PeerGone);
        }
    }

    pub(super) fn memory(&self) -> MailboxMemory {
        let (pushed_messages, pushed_bytes) = self.inbox.pushed();
        MailboxMemory {
            send_message_bytes: self.outbox.queued_bytes(),
            send_queue_bytes: self.outbox.memory_bytes(),
            receive_queue_bytes: 0,
            pushed_bytes,
            pushed_messages,
            destination_bytes: self.inbox.destination_bytes(),
            bookkeeping_bytes: self.flight.memory_bytes() + self.inbox.memory_bytes(),
            peer_bytes: size_of::<Channel>() + self.arrivals.memory_bytes(),
        }
    }

    pub(super) fn audit(&self) -> Result<(), AuditError> {
        let parts = [self.flight.audit(), self.outbox.audit(), self.inbox.audit()];
        let first = parts.into_iter().find(Result::is_err).unwrap_or(Ok(()));
        first.map_err(|error| error.within(format_args!("peer {}", self.peer.rank)))
    }
}

fn is_push(offset: u64, bytes: u32, pushed_bytes: u32) -> bool {
    bytes == 0 || offset < u64::from(pushed_bytes)
}
