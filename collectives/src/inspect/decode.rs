//! Decoding of a frame's body by the table of fields.

use super::table::{CONTENTS, Field, FieldForm, FrameKind, List, VIEWED, Words, message};
use crate::communicator::Signature;
use crate::membership::codec::{BodyReader, ranks};
use crate::session::{Message as Control, ViewAssembler, kind};
use crate::{census, communicator, measure};
use ethbcast_transport::wire::{Ack, Flags, Frame, Kind, Parity};
use ethbcast_transport::{MacAddr, messages};

/// Value of a field: a number, in the unit at the end of the field's name, if there is one; or a
/// name, or a digest in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldValue {
    Number(u64),
    Text(String),
}

/// Names and values of a body's fields, in wire order.
pub type Fields = Vec<(&'static str, FieldValue)>;

/// A decoded frame: its kind as named in `docs/protocol/frames.md`, and the fields of its body;
/// `None` if that is malformed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spelled {
    pub kind: &'static str,
    pub fields: Option<Fields>,
}

/// Returns the fields of a frame; `None` if there is no such kind.
pub(super) fn spell(frame: &Frame<'_>, views: &mut ViewAssembler) -> Option<Spelled> {
    let message = message(frame.header.kind.0)?;
    let fields = is_well_formed(frame).then(|| fields(message, frame, views));
    Some(Spelled {
        kind: message.body.name,
        fields: fields.flatten(),
    })
}

fn fields(message: &FrameKind, frame: &Frame<'_>, views: &mut ViewAssembler) -> Option<Fields> {
    let mut decoder = BodyDecoder::new(frame, frame.payload);
    decoder.list(&message.body)?;
    let mut fields = decoder.fields;
    if let Some(Control::View(part)) = Control::decode(frame.header.kind, frame.payload)
        && let Some(view) = views.take(&part)
    {
        let whole = view.encode();
        let mut decoder = BodyDecoder::new(frame, &whole);
        decoder.list(&VIEWED)?;
        fields.append(&mut decoder.fields);
    }
    Some(fields)
}

/// Whether hosts read the frame's body.
fn is_well_formed(frame: &Frame<'_>) -> bool {
    let (kind, body) = (frame.header.kind, frame.payload);
    match kind {
        // What is in KEYS is no business of a capture's reader.
        Kind::DATA | Kind::HEARTBEAT | kind::KEYS => true,
        Kind::PARITY => Parity::of(&frame.header).is_some(),
        Kind::ACK => Ack::parse(frame).is_some(),
        Kind::LANE => body.len() >= 9,
        _ => {
            Control::decode(kind, body).is_some()
                || messages::is_well_formed(frame)
                || measure::is_well_formed(kind, body)
                || communicator::is_well_formed(kind, body)
                || census::is_well_formed(kind, body)
        }
    }
}

struct BodyDecoder<'a> {
    frame: &'a Frame<'a>,
    body: &'a [u8],
    from: BodyReader<'a>,
    cursor: u64,
    bitmap_bytes: Option<usize>,
    fields: Fields,
}

impl<'a> BodyDecoder<'a> {
    fn new(frame: &'a Frame<'a>, body: &'a [u8]) -> BodyDecoder<'a> {
        BodyDecoder {
            frame,
            body,
            from: BodyReader::new(body),
            cursor: frame.header.sequence,
            bitmap_bytes: None,
            fields: Fields::new(),
        }
    }

    /// Reads fields until the body ends, as far as it may; `None` if it is malformed.
    fn list(&mut self, list: &List) -> Option<()> {
        for Field { name, form, .. } in list.fields {
            if self.may_end(form) {
                break;
            }
            self.field(name, form)?;
        }
        Some(())
    }

    fn may_end(&self, form: &FieldForm) -> bool {
        let rest = self.from.rest();
        let pair = || {
            let mut from = BodyReader::new(rest);
            Some((from.u64()?, from.u64()?))
        };
        match form {
            FieldForm::Optional(bytes) => rest.len() < usize::from(*bytes),
            FieldForm::OptionalPair => pair().is_none_or(|(most, number)| number > most),
            FieldForm::Trailer => !self.frame.header.flags.has(Flags::LAST) || rest.len() < 40,
            _ => false,
        }
    }

    fn field(&mut self, name: &'static str, form: &FieldForm) -> Option<()> {
        match *form {
            FieldForm::Number(bytes) => {
                let value = self.number(bytes)?;
                self.say(name, value);
            }
            FieldForm::Known(bytes) => {
                let value = self.number(bytes)?;
                self.say_if(
                    value != u64::MAX >> (64 - 8 * u32::from(bytes)),
                    name,
                    value,
                );
            }
            FieldForm::Nonzero(bytes) => {
                let value = self.number(bytes)?;
                self.say_if(value != 0, name, value);
            }
            FieldForm::Truth => {
                let value = self.from.u8()?;
                self.say(name, u64::from(value != 0));
            }
            FieldForm::Hex(bytes) => {
                let digits = hex(self.from.bytes(bytes.into())?);
                self.text(name, digits);
            }
            FieldForm::Word(words) => {
                let word = words.of(self.from.u8()?)?;
                self.text(name, word);
            }
            FieldForm::Text => {
                let text = self.from.text()?;
                self.text(name, text);
            }
            FieldForm::Rest => self.say(name, self.from.rest().len() as u64),
            FieldForm::Skip(bytes) => drop(self.from.bytes(bytes.into())?),
            FieldForm::At(offset, form) => {
                let behind = BodyReader::new(self.body.get(offset..)?);
                let here = std::mem::replace(&mut self.from, behind);
                let read = self.field(name, form);
                self.from = here;
                return read;
            }
            FieldForm::If(offset, low, high, form) => {
                if (low..=high).contains(self.body.get(offset)?) {
                    self.field(name, form)?;
                }
            }
            FieldForm::Include(list) => self.list(list)?,
            FieldForm::Part(..)
            | FieldForm::Optional(_)
            | FieldForm::OptionalPair
            | FieldForm::Trailer => {}
            _ => self.of_a_kind(name, form)?,
        }
        Some(())
    }

    /// Reads a field of a form that only one or two kinds of frames have.
    fn of_a_kind(&mut self, name: &'static str, form: &FieldForm) -> Option<()> {
        match *form {
            FieldForm::Most(bytes, most) => {
                let value = self.number(bytes)?;
                self.say(name, value.min(most));
            }
            FieldForm::Flags(names) => {
                let flags = self.from.u8()?;
                for (bit, name) in (0..).zip(names) {
                    self.say(name, u64::from(flags >> bit & 1));
                }
            }
            FieldForm::HexWords => {
                let words: Vec<String> = self.from.rest().chunks_exact(8).map(hex).collect();
                self.text(name, words.join(" "));
            }
            FieldForm::Length => self.bitmap_bytes = Some(self.from.u16()?.into()),
            FieldForm::Ones => {
                let ones = self
                    .bitmap()?
                    .iter()
                    .map(|byte| byte.count_ones())
                    .sum::<u32>();
                self.say(name, u64::from(ones));
            }
            FieldForm::Ranks => {
                let ranks = ranks(self.bitmap()?);
                self.text(name, ranks);
            }
            FieldForm::Ahead => {
                let distance = self.number(4)?;
                self.say(name, self.cursor.saturating_add(distance));
            }
            FieldForm::Behind => {
                let distance = self.number(4)?;
                self.say(name, self.cursor.checked_sub(distance)?);
            }
            FieldForm::Cursor => {
                self.cursor = self.from.u64()?;
                self.say(name, self.cursor);
            }
            FieldForm::Host => self.host(name, false)?,
            FieldForm::MaybeHost => self.host(name, true)?,
            FieldForm::Block => {
                let parity = Parity::of(&self.frame.header)?;
                self.say("from", parity.frames().start);
                self.say("to", parity.frames().end);
                self.say("parity", u64::from(parity.index()));
            }
            FieldForm::Content => self.content(name)?,
            FieldForm::Via(words) => {
                let via = self.from.u8()?;
                let children = match via {
                    4 => format!("={}", self.from.rest().first()?),
                    _ => String::new(),
                };
                self.text(name, words.of(via)?.to_owned() + &children);
            }
            FieldForm::Members(_, standings) => self.members(name, standings)?,
            FieldForm::Rate => {
                let (rate, limit) = (self.from.u64()?, u64::MAX >> 1);
                self.say_if(rate & limit != limit, name, rate & limit);
                self.say_if(rate > limit, "yields", 1);
            }
            FieldForm::Calls => {
                let calls = self.from.bytes(4 * 24)?;
                if calls[..24].iter().any(|&byte| byte != 0) {
                    let (call, _) = Signature::split(calls)?;
                    self.text(name, call.to_string());
                }
            }
            FieldForm::Piece => {
                let (at, count) = (self.from.u16()?, self.from.u16()?);
                self.say_if(at < count, name, at.into());
                self.say_if(at < count, "parts", count.into());
            }
            FieldForm::Hosts(outcomes) => {
                if let Some((hosts, named)) = self.hosts(outcomes).filter(|&(hosts, _)| hosts > 0) {
                    self.say("behind", hosts.into());
                    self.text(name, named.join(", "));
                }
            }
            _ => unreachable!("a form of several kinds"),
        }
        Some(())
    }

    fn number(&mut self, bytes: u8) -> Option<u64> {
        let bytes = self.from.bytes(bytes.into())?;
        Some(
            bytes
                .iter()
                .fold(0, |value, &byte| value << 8 | u64::from(byte)),
        )
    }

    fn bitmap(&mut self) -> Option<&'a [u8]> {
        let bytes = self.bitmap_bytes.unwrap_or(self.from.rest().len());
        self.from.bytes(bytes)
    }

    fn host(&mut self, name: &'static str, may_lack: bool) -> Option<()> {
        let host = self.from.array::<6>().map(MacAddr::from);
        match host.filter(|&host| host != MacAddr::ZERO) {
            Some(host) => self.text(name, host.to_string()),
            None if may_lack => {}
            None => return None,
        }
        Some(())
    }

    fn content(&mut self, name: &'static str) -> Option<()> {
        let (first, mode) = (self.from.u8()?, self.from.u16()?);
        let (seconds, _) = (self.from.u64()?.cast_signed(), self.from.u32()?);
        let kind = first & 0x0f;
        self.text(name, CONTENTS.of(kind)?);
        if ![0, 2].contains(&kind) {
            self.text("mode", format!("{mode:04o}"));
            self.text("modified", seconds.to_string());
        }
        let doublings = i32::from(first.cast_signed() >> 4);
        self.say("chunk_bytes", 1 << (16 + doublings));
        Some(())
    }

    fn members(&mut self, name: &'static str, standings: &Words) -> Option<()> {
        let (mut rank, mut members) = (0, Vec::new());
        // A rate of eight bytes may follow; a member is longer.
        while self.from.rest().len() > 8 {
            self.from.bytes(14)?;
            let parent = match self.from.u16()? {
                u16::MAX => String::new(),
                parent => format!("<{parent}"),
            };
            self.from.u16()?;
            let (standing, host) = (standings.of(self.from.u8()?)?, self.from.text()?);
            members.push(format!("{rank}:{host}{parent}{standing}"));
            rank += 1;
        }
        self.text(name, members.join(", "));
        Some(())
    }

    fn hosts(&mut self, outcomes: &Words) -> Option<(u16, Vec<String>)> {
        let (hosts, mut named) = (self.from.u16()?, Vec::new());
        while !self.from.rest().is_empty() && named.len() < usize::from(hosts) {
            let outcome = outcomes.of(self.from.u8()?)?;
            named.push(format!("{} {outcome}", self.from.text()?));
        }
        Some((hosts, named))
    }

    fn say(&mut self, name: &'static str, value: u64) {
        self.fields.push((name, FieldValue::Number(value)));
    }

    fn say_if(&mut self, is_shown: bool, name: &'static str, value: u64) {
        if is_shown {
            self.say(name, value);
        }
    }

    fn text(&mut self, name: &'static str, value: impl Into<String>) {
        self.fields.push((name, FieldValue::Text(value.into())));
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ethbcast_transport::wire::{AckBody, ContentChecksum, Header, Rank, StreamId};

    /// Returns the fields of a frame by name and value; `None` if it is malformed.
    fn shown(kind: u8, payload: &[u8]) -> Option<Vec<String>> {
        let header = Header {
            kind: Kind(kind),
            session: 1,
            stream: StreamId(0),
            rank: Rank(1),
            epoch: 0,
            flags: Flags::default(),
            sequence: 2,
            stamp: 3,
        };
        let content = ContentChecksum::default();
        let source = MacAddr::ZERO;
        let frame = Frame {
            source,
            header,
            payload,
            content,
        };
        let spelled = spell(&frame, &mut ViewAssembler::default()).expect("a kind");
        let value = |(name, value): (&str, FieldValue)| match value {
            FieldValue::Number(number) => format!("{name} {number}"),
            FieldValue::Text(text) => format!("{name} {text}"),
        };
        Some(spelled.fields?.into_iter().map(value).collect())
    }

    #[test]
    fn a_note_shows_its_code_its_room_and_what_has_arrived() {
        let numbers = [3_u64, 860, 16, 9, 7].map(u64::to_be_bytes).concat();
        let mut payload = [&[3, 0, 0, 0, 0, 0, 3, 232][..], &numbers, &[0; 100]].concat();
        let body = AckBody {
            limit: 40,
            below: 7,
            consumed: 7,
            held_us: 5,
        };
        payload[48 + AckBody::BYTES] = 0b101;
        let bytes = 48 + body.write(7, &mut payload[48..], 1);
        let fields = "word withdraw,message 3,pushed_bytes 860,room_messages 16,room_bytes 9,cursor 7,\
                      echo 1000,limit 40,below 7,consumed 7,held_us 5,arrived_beyond 2";
        assert_eq!(
            shown(34, &payload[..bytes]).expect("whole").join(","),
            fields
        );
        assert_eq!(shown(34, &payload[..bytes - 1]), None, "cut short");
    }

    #[test]
    fn a_member_that_leaves_shows_what_it_called_and_why_nothing_goes_on() {
        let mut payload = [&[2, 0, 255, 255, 0, 9, 0, 0][..], &[0; 96 + 64]].concat();
        // Barrier 4, then: rank 700 is gone, and collectives fail from 5.
        (payload[15], payload[16]) = (4, 2);
        payload[104] = 2;
        payload[106..108].copy_from_slice(&[2, 188]);
        payload[119] = 5;
        let fields = "repeats 2,moved 9,call barrier #4,failure gone,about 700,from 5";
        assert_eq!(shown(42, &payload).expect("whole").join(","), fields);
        assert_eq!(shown(42, &payload[..167]), None, "cut short");
        let shrink = [2, 0, 0, 0, 0b1110, 2];
        assert_eq!(
            shown(43, &shrink).expect("whole").join(","),
            "stage agreed,lost 1-3,9"
        );
    }

    #[test]
    fn a_report_of_a_relay_names_the_hosts_behind_it() {
        let head = [&[0, 0, 0, 0, 0, 0, 0, 0, 3][..], &[0; 32], &[0]].concat();
        let counts = [2_u64, 1].map(u64::to_be_bytes).concat();
        let named = [0, 2, 9, 2, b'n', b'2'];
        let whole = [&head[..], &counts, &named].concat();
        let digest = format!("outcome verified,bytes 3,digest {},text ", "0".repeat(64));
        let own = digest.clone() + ",frames 2,repaired 1";
        let cases = [
            (whole.len(), own.clone() + ",behind 2,hosts n2 died"),
            (whole.len() - 1, own),
            (head.len() + 8, digest),
        ];
        for (bytes, fields) in cases {
            assert_eq!(shown(22, &whole[..bytes]).expect("whole").join(","), fields);
        }
    }
}
