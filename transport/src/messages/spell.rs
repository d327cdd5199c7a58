//! Decoding of message frames into named fields, for `ethbcast dump`.

use super::body::{Note, NoteCode, Pull, Push};
use crate::wire::{Ack, Fields, Frame, Header, Kind, Spelled};

/// Returns the fields of a message frame; `None` if it is of another kind.
pub fn spell(frame: &Frame<'_>) -> Option<Spelled> {
    let (kind, fields) = match frame.header.kind {
        Kind::PUSH => ("PUSH", push(frame.payload)),
        Kind::PULL => ("PULL", pull(frame.payload)),
        Kind::NOTE => ("NOTE", note(frame)),
        Kind::RECEIPT => ("RECEIPT", Ack::parse(frame).map(|ack| ack.fields())),
        Kind::ASK => ("ASK", Some(Fields::default())),
        _ => return None,
    };
    Some(Spelled { kind, fields })
}

fn push(payload: &[u8]) -> Option<Fields> {
    let Push { message, envelope, offset, bytes: _ } = Push::parse(payload)?;
    let fields = Fields::default().number("message", message).number("offset", offset);
    let fields = fields.number("pushed_bytes", envelope.pushed_bytes);
    Some(fields.number("message_bytes", envelope.message_bytes).number("tag", envelope.tag))
}

fn pull(payload: &[u8]) -> Option<Fields> {
    let Pull { message, offset, bytes: _ } = Pull::parse(payload)?;
    Some(Fields::default().number("message", message).number("offset", offset))
}

fn note(frame: &Frame<'_>) -> Option<Fields> {
    let Note { word, limit, cursor, echo, ack } = Note::parse(frame.payload)?;
    let fields = Fields::default();
    let fields = match word {
        NoteCode::Credit => fields.text("word", "room"),
        NoteCode::Grant { message } => fields.text("word", "grant").number("message", message),
        NoteCode::Refuse { message } => fields.text("word", "refuse").number("message", message),
        NoteCode::Withdraw { message, pushed_bytes } => {
            fields.text("word", "withdraw").number("message", message).number("pushed_bytes", pushed_bytes)
        }
    };
    let fields = fields.number("room_messages", limit.messages).number("room_bytes", limit.bytes);
    let header = Header { sequence: cursor, stamp: echo, ..frame.header };
    let ack = Ack::parse(&Frame { header, payload: ack, ..*frame })?;
    Some(fields.number("cursor", cursor).number("echo", echo).and(ack.fields()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::credit::Credit;
    use crate::wire::{AckBody, ContentChecksum, Flags, MacAddr, Rank, StreamId};

    #[test]
    fn a_note_shows_its_code_its_room_and_what_has_arrived() {
        let mut payload = [0; 200];
        let body = AckBody { limit: 40, below: 7, consumed: 7, held_us: 5 };
        payload[Note::HEAD_BYTES + AckBody::BYTES] = 0b101;
        let ack_bytes = body.write(7, &mut payload[Note::HEAD_BYTES..], 1);
        let word = NoteCode::Withdraw { message: 3, pushed_bytes: 860 };
        let bytes = Note::write(word, Credit { messages: 16, bytes: 9 }, 7, 1000, ack_bytes, &mut payload);
        let header = Header {
            kind: Kind::NOTE,
            session: 1,
            stream: StreamId(0),
            rank: Rank(1),
            epoch: 0,
            flags: Flags::default(),
            sequence: 2,
            stamp: 3,
        };
        let content = ContentChecksum::default();
        let spelled =
            |bytes: usize| spell(&Frame { source: MacAddr::ZERO, header, payload: &payload[..bytes], content });
        let fields =
            Fields::default().text("word", "withdraw").number("message", 3_u64).number("pushed_bytes", 860_u64);
        let fields = fields.number("room_messages", 16_u64).number("room_bytes", 9_u64).number("cursor", 7_u64);
        let fields = fields.number("echo", 1000_u64).number("limit", 40_u64).number("below", 7_u64);
        let fields = fields.number("consumed", 7_u64).number("held_us", 5_u64).number("arrived_beyond", 2_u64);
        assert_eq!(spelled(bytes), Some(Spelled { kind: "NOTE", fields: Some(fields) }));
        assert_eq!(spelled(bytes - 1), Some(Spelled { kind: "NOTE", fields: None }), "cut short");
    }
}
