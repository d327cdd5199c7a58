//! Wire format of message frames: PUSH (data), PULL (request for data) and NOTE (control).

use super::credit::Credit;
use crate::wire::{Ack, Frame, Header, Kind};
use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Envelope {
    pub tag: u32,
    pub pushed_bytes: u32,
    pub message_bytes: u64,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawPush {
    message: U64,
    offset: U32,
    pushed_bytes: U32,
    message_bytes: U64,
    tag: U32,
    reserved: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawPull {
    message: U64,
    offset: U64,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawNote {
    what: u8,
    reserved: [u8; 3],
    echo: U32,
    message: U64,
    pushed_bytes: U64,
    limit_messages: U64,
    limit_bytes: U64,
    cursor: U64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Push<'a> {
    pub message: u64,
    pub envelope: Envelope,
    pub offset: u64,
    pub bytes: &'a [u8],
}

impl<'a> Push<'a> {
    pub(super) const HEAD_BYTES: usize = size_of::<RawPush>();

    /// Parses a body; `None` if it is malformed: a part must lie within the pushed bytes, and these
    /// within the message.
    pub(super) fn parse(payload: &'a [u8]) -> Option<Push<'a>> {
        let (raw, bytes) = RawPush::ref_from_prefix(payload).ok()?;
        let (pushed_bytes, message_bytes) = (raw.pushed_bytes.get(), raw.message_bytes.get());
        let offset = u64::from(raw.offset.get());
        let envelope = Envelope {
            tag: raw.tag.get(),
            pushed_bytes,
            message_bytes,
        };
        let sane = offset + bytes.len() as u64 <= u64::from(pushed_bytes)
            && u64::from(pushed_bytes) <= message_bytes;
        sane.then_some(Push {
            message: raw.message.get(),
            envelope,
            offset,
            bytes,
        })
    }

    pub(super) fn write(&self, payload: &mut [u8]) -> usize {
        let raw = RawPush {
            message: U64::new(self.message),
            offset: U32::new(
                u32::try_from(self.offset)
                    .expect("a pushed part lies within the push, which has 32 bits"),
            ),
            pushed_bytes: U32::new(self.envelope.pushed_bytes),
            message_bytes: U64::new(self.envelope.message_bytes),
            tag: U32::new(self.envelope.tag),
            reserved: U32::new(0),
        };
        write(payload, raw.as_bytes(), self.bytes)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Pull<'a> {
    pub message: u64,
    pub offset: u64,
    pub bytes: &'a [u8],
}

impl<'a> Pull<'a> {
    pub(super) const HEAD_BYTES: usize = size_of::<RawPull>();

    pub(super) fn parse(payload: &'a [u8]) -> Option<Pull<'a>> {
        let (raw, bytes) = RawPull::ref_from_prefix(payload).ok()?;
        Some(Pull {
            message: raw.message.get(),
            offset: raw.offset.get(),
            bytes,
        })
    }

    pub(super) fn write(&self, payload: &mut [u8]) -> usize {
        let raw = RawPull {
            message: U64::new(self.message),
            offset: U64::new(self.offset),
        };
        write(payload, raw.as_bytes(), self.bytes)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoteCode {
    Credit,
    Grant { message: u64 },
    Refuse { message: u64 },
    Withdraw { message: u64, pushed_bytes: u64 },
}

/// A note: one control message, the room available, and an acknowledgement (EQA §2: an "Ack, which
/// implicitly contains request information").
#[derive(Clone, Copy, Debug)]
pub(super) struct Note<'a> {
    pub word: NoteCode,
    pub limit: Credit,
    pub cursor: u64,
    pub echo: u32,
    pub ack: &'a [u8],
}

impl<'a> Note<'a> {
    pub(super) const HEAD_BYTES: usize = size_of::<RawNote>();

    pub(super) fn parse(payload: &'a [u8]) -> Option<Note<'a>> {
        let (raw, ack) = RawNote::ref_from_prefix(payload).ok()?;
        let message = raw.message.get();
        let word = match raw.what {
            0 => NoteCode::Credit,
            1 => NoteCode::Grant { message },
            2 => NoteCode::Refuse { message },
            3 => NoteCode::Withdraw {
                message,
                pushed_bytes: raw.pushed_bytes.get(),
            },
            _ => return None,
        };
        let limit = Credit {
            messages: raw.limit_messages.get(),
            bytes: raw.limit_bytes.get(),
        };
        Some(Note {
            word,
            limit,
            cursor: raw.cursor.get(),
            echo: raw.echo.get(),
            ack,
        })
    }

    pub(super) fn write(
        word: NoteCode,
        limit: Credit,
        cursor: u64,
        echo: u32,
        ack_bytes: usize,
        payload: &mut [u8],
    ) -> usize {
        let (what, message, pushed_bytes) = match word {
            NoteCode::Credit => (0, 0, 0),
            NoteCode::Grant { message } => (1, message, 0),
            NoteCode::Refuse { message } => (2, message, 0),
            NoteCode::Withdraw {
                message,
                pushed_bytes,
            } => (3, message, pushed_bytes),
        };
        let raw = RawNote {
            what,
            reserved: [0; 3],
            echo: U32::new(echo),
            message: U64::new(message),
            pushed_bytes: U64::new(pushed_bytes),
            limit_messages: U64::new(limit.messages),
            limit_bytes: U64::new(limit.bytes),
            cursor: U64::new(cursor),
        };
        payload[..Self::HEAD_BYTES].copy_from_slice(raw.as_bytes());
        Self::HEAD_BYTES + ack_bytes
    }
}

fn write(payload: &mut [u8], head: &[u8], bytes: &[u8]) -> usize {
    payload[..head.len()].copy_from_slice(head);
    payload[head.len()..][..bytes.len()].copy_from_slice(bytes);
    head.len() + bytes.len()
}

/// Whether a message frame's body is one of its kind.
pub fn is_well_formed(frame: &Frame<'_>) -> bool {
    match frame.header.kind {
        Kind::PUSH => Push::parse(frame.payload).is_some(),
        Kind::PULL => Pull::parse(frame.payload).is_some(),
        Kind::NOTE => Note::parse(frame.payload).is_some_and(|note| {
            let header = Header {
                sequence: note.cursor,
                stamp: note.echo,
                ..frame.header
            };
            let payload = note.ack;
            Ack::parse(&Frame {
                header,
                payload,
                ..*frame
            })
            .is_some()
        }),
        Kind::RECEIPT => Ack::parse(frame).is_some(),
        kind => kind == Kind::ASK,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::credit::Credit;

    #[test]
    fn bodies_are_read_as_they_were_written() {
        let mut buffer = [0; 200];
        let envelope = Envelope {
            tag: 7,
            pushed_bytes: 9,
            message_bytes: 1 << 40,
        };
        let length = Push {
            message: 3,
            envelope,
            offset: 4,
            bytes: b"fives",
        }
        .write(&mut buffer);
        let push = Push::parse(&buffer[..length]).expect("own bodies parse");
        assert_eq!(
            (push.message, push.envelope, push.offset, push.bytes),
            (3, envelope, 4, &b"fives"[..])
        );
        let length = Pull {
            message: 3,
            offset: 1 << 33,
            bytes: b"six",
        }
        .write(&mut buffer);
        let pull = Pull::parse(&buffer[..length]).expect("own bodies parse");
        assert_eq!(
            (pull.message, pull.offset, pull.bytes),
            (3, 1 << 33, &b"six"[..])
        );
        let words = [
            NoteCode::Credit,
            NoteCode::Grant { message: 5 },
            NoteCode::Refuse { message: 6 },
        ];
        for word in words.into_iter().chain([NoteCode::Withdraw {
            message: 8,
            pushed_bytes: 9,
        }]) {
            let length = Note::write(word, Credit::INITIAL, 12, 13, 32, &mut buffer);
            let note = Note::parse(&buffer[..length]).expect("own bodies parse");
            assert_eq!(
                (
                    note.word,
                    note.limit,
                    note.cursor,
                    note.echo,
                    note.ack.len()
                ),
                (word, Credit::INITIAL, 12, 13, 32)
            );
        }
    }

    #[test]
    fn a_part_beyond_the_push_or_a_push_beyond_the_message_is_malformed() {
        let mut buffer = [0; 100];
        for (pushed_bytes, message_bytes) in [(8, 100), (10, 9)] {
            let envelope = Envelope {
                tag: 0,
                pushed_bytes,
                message_bytes,
            };
            let length = Push {
                message: 0,
                envelope,
                offset: 4,
                bytes: b"fives",
            }
            .write(&mut buffer);
            assert!(Push::parse(&buffer[..length]).is_none(), "{envelope:?}");
        }
        assert!(
            Push::parse(&buffer[..31]).is_none()
                && Pull::parse(&buffer[..15]).is_none()
                && Note::parse(&buffer[..47]).is_none()
        );
    }
}
