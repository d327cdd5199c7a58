//! Decoding of a transfer's frames into named fields, for `ethbcast dump`.

use super::kind;
use super::message::{
    Challenge, ContentKind, Done, Fetch, FetchedPiece, FileAttributes, MemberState, Message, Needs,
    Stage, Status, Taken, Trailer, Verdict, ViewPart,
};
use super::throttle::Rate;
use super::verified::ChunkSize;
use super::view::{Assembler, MemberRole, View};
use crate::membership::codec::ranks;
use ethbcast_transport::wire::{Ack, Fields, Flags, Frame, Kind, Parity, Rank, Spelled};

#[derive(Clone, Debug, Default)]
pub(crate) struct Describer {
    views: Assembler,
}

impl Describer {
    pub(crate) fn spell(&mut self, frame: &Frame<'_>) -> Option<Spelled> {
        let name = name(frame.header.kind)?;
        let fields = match frame.header.kind {
            Kind::DATA => Some(data(frame)),
            Kind::PARITY => Parity::of(&frame.header).map(|parity| parity.fields()),
            Kind::ACK => Ack::parse(frame).map(|ack| ack.fields()),
            Kind::HEARTBEAT => {
                let designated = frame
                    .payload
                    .first_chunk()
                    .map(|&rank| u16::from_be_bytes(rank));
                Some(Fields::default().perhaps("designated", designated))
            }
            // What is in it is no business of a capture's reader.
            kind::KEYS => Some(Fields::default()),
            other => Message::decode(other, frame.payload).map(|message| self.message(&message)),
        };
        Some(Spelled { kind: name, fields })
    }

    fn message(&mut self, message: &Message) -> Fields {
        let fields = Fields::default();
        match message {
            Message::Announce { .. } | Message::Join { .. } => invitation(message),
            Message::Leave { nonce, text } => fields.text("nonce", hex(*nonce)).text("text", text),
            Message::Refuse { nonce, why, text } => fields
                .text("nonce", hex(*nonce))
                .text("refusal", why.words())
                .text("text", text),
            Message::View(part) => self.part(part),
            Message::Ready {
                epoch,
                digest,
                arrived,
            } => fields
                .number("epoch", *epoch)
                .hex("digest", digest)
                .number("arrived", *arrived),
            Message::Status(Status {
                state,
                waits_for,
                arrived,
                consumed,
                is_mute,
                link,
            }) => {
                let child = waits_for.map(|rank| rank.0);
                let fields = fields
                    .text("state", self::state(*state))
                    .perhaps("waits_for", child);
                let fields = fields
                    .number("arrived", *arrived)
                    .number("consumed", *consumed);
                let fields = fields.perhaps("mute", is_mute.then_some(1_u8));
                let fields = fields.perhaps("link_sent", link.map(|link| u8::from(link.is_sent)));
                let fields = fields.perhaps("own_kbit", link.map(|link| link.own));
                let fields = fields.perhaps("others_kbit", link.map(|link| link.others));
                fields.perhaps("ip_kbit", link.map(|link| link.ip))
            }
            Message::Orphan { stream, gap } => {
                let fields = fields
                    .number("of_stream", stream.0)
                    .number("child", gap.rank.0);
                fields.number("from", gap.from).number("to", gap.to)
            }
            Message::Fetch(Fetch {
                rank,
                bytes,
                attempt,
                blamed,
            }) => {
                let blamed = (*blamed != Rank::NONE).then_some(blamed.0);
                let fields = fields
                    .number("for_rank", rank.0)
                    .perhaps("blamed", blamed)
                    .number("attempt", *attempt);
                fields.number("from", bytes.start).number("to", bytes.end)
            }
            Message::Piece(FetchedPiece { from, end, bytes }) => fields
                .number("from", *from)
                .number("to", *end)
                .number("bytes", bytes.len() as u64),
            Message::Needs(Needs { stretch, set }) => fields
                .number("stretch", *stretch)
                .number("set_bytes", set.len() as u64),
            Message::Done(
                Done {
                    outcome,
                    bytes,
                    digest,
                    text,
                },
                taken,
                behind,
            ) => {
                let fields = fields
                    .text("outcome", outcome.word())
                    .number("bytes", *bytes);
                let fields = fields.hex("digest", digest).text("text", text);
                let fields = fields.perhaps("frames", taken.map(Taken::frames));
                let fields = fields.perhaps("repaired", taken.map(Taken::repaired));
                if behind.hosts() == 0 {
                    return fields;
                }
                let named = behind.named().iter();
                let named = named.map(|(name, outcome)| format!("{name} {}", outcome.word()));
                let named: Vec<String> = named.collect();
                fields
                    .number("behind", behind.hosts() as u64)
                    .text("hosts", named.join(", "))
            }
            Message::Verdict(verdict) => self::verdict(verdict),
            Message::Abort { text } => fields.text("text", text),
            Message::Challenge(Challenge { word, unanswered }) => fields
                .text("word", hex(*word))
                .number("unanswered", *unanswered),
            Message::Response(words) => {
                let words: Vec<String> = words.iter().map(|&word| hex(word)).collect();
                fields.text("words", words.join(" "))
            }
        }
    }

    fn part(&mut self, part: &ViewPart) -> Fields {
        let ViewPart {
            epoch,
            digest,
            at,
            count,
            bytes,
        } = part;
        let fields = Fields::default()
            .number("epoch", *epoch)
            .hex("digest", digest)
            .number("part", *at);
        let fields = fields
            .number("parts", *count)
            .number("bytes", bytes.len() as u64);
        match self.views.take(part) {
            Some(view) => fields.and(whole(&view)),
            None => fields,
        }
    }
}

fn name(kind: Kind) -> Option<&'static str> {
    Some(match kind {
        Kind::DATA => "DATA",
        Kind::PARITY => "PARITY",
        Kind::ACK => "ACK",
        Kind::HEARTBEAT => "HEARTBEAT",
        kind::KEYS => "KEYS",
        kind::ANNOUNCE => "ANNOUNCE",
        kind::JOIN => "JOIN",
        kind::REFUSE => "REFUSE",
        kind::VIEW => "VIEW",
        kind::READY => "READY",
        kind::STATUS => "STATUS",
        kind::DONE => "DONE",
        kind::VERDICT => "VERDICT",
        kind::ABORT => "ABORT",
        kind::ORPHAN => "ORPHAN",
        kind::LEAVE => "LEAVE",
        kind::FETCH => "FETCH",
        kind::PIECE => "PIECE",
        kind::NEEDS => "NEEDS",
        kind::CHALLENGE => "CHALLENGE",
        kind::RESPONSE => "RESPONSE",
        _ => return None,
    })
}

fn data(frame: &Frame<'_>) -> Fields {
    let trailer = Some(frame).filter(|frame| frame.header.flags.has(Flags::LAST));
    match trailer.and_then(|frame| Trailer::decode(frame.payload)) {
        Some(Trailer { bytes, digest }) => Fields::default()
            .number("bytes", bytes)
            .hex("digest", &digest),
        None => Fields::default(),
    }
}

fn invitation(message: &Message) -> Fields {
    let fields = Fields::default();
    match message {
        Message::Announce {
            group,
            host,
            source,
            size,
            content,
            chunk,
            mtu_bytes,
            stage,
            age_millis,
        } => {
            let fields = fields
                .perhaps("size", *size)
                .number("mtu", *mtu_bytes)
                .text("stage", self::stage(*stage));
            let fields = fields
                .number("age_ms", *age_millis)
                .and(self::content(*content, *chunk));
            fields
                .text("group", group)
                .text("host", host)
                .text("source", source)
        }
        Message::Join {
            nonce,
            group,
            host,
            mtu_bytes,
            free_bytes,
            features,
        } => {
            let fields = fields
                .text("nonce", hex(*nonce))
                .number("free_bytes", *free_bytes)
                .number("mtu", *mtu_bytes);
            fields
                .number("features", *features)
                .text("group", group)
                .text("host", host)
        }
        _ => fields,
    }
}

fn content(content: ContentKind, chunk: ChunkSize) -> Fields {
    let (word, attributes) = match content {
        ContentKind::Stream => ("stream", None),
        ContentKind::File(attributes) => ("file", Some(attributes)),
        ContentKind::Tree => ("directory", None),
        ContentKind::Sparse(attributes) => ("sparse file", Some(attributes)),
        ContentKind::Packed(packing, attributes) => (packing.name(), Some(attributes)),
    };
    let fields = Fields::default().text("content", word);
    let fields = match attributes {
        Some(FileAttributes {
            mode,
            modified_seconds,
            ..
        }) => fields
            .text("mode", format!("{mode:04o}"))
            .text("modified", modified_seconds),
        None => fields,
    };
    fields.number("chunk_bytes", chunk.bytes() as u64)
}

fn whole(view: &View) -> Fields {
    let member = |(rank, member): (usize, &super::ViewMember)| {
        let parent = member
            .parent
            .map_or(String::new(), |parent| format!("<{parent}"));
        let standing = match member.standing {
            MemberRole::InPlace => "",
            MemberRole::Demoted => " (demoted)",
            MemberRole::Gone => " (gone)",
        };
        format!("{rank}:{}{parent}{standing}", member.host)
    };
    let members: Vec<String> = view.members.iter().enumerate().map(member).collect();
    let fields = Fields::default()
        .text("via", view.via)
        .number("segment", view.segment_frames);
    let fields = fields
        .number("payload", view.payload_bytes)
        .perhaps("size", view.size);
    let fields = fields
        .and(content(view.content, view.chunk))
        .number("selective", view.selective);
    let fields = fields
        .number("members", view.members.len() as u64)
        .text("tree", members.join(", "));
    let fields = fields.perhaps("rate", view.rate.and_then(Rate::limit));
    fields.perhaps(
        "yields",
        view.rate.filter(|rate| rate.is_yielding()).map(|_| 1_u8),
    )
}

fn verdict(verdict: &Verdict) -> Fields {
    let Verdict {
        over,
        trailer,
        heard,
        accepted,
    } = verdict;
    let mut fields = Fields::default().number("over", *over);
    if let Some(Trailer { bytes, digest }) = trailer {
        fields = fields.number("bytes", *bytes).hex("digest", digest);
    }
    fields
        .text("heard", ranks(heard))
        .text("accepted", ranks(accepted))
}

fn hex(number: u64) -> String {
    format!("{number:016x}")
}

fn stage(stage: Stage) -> &'static str {
    match stage {
        Stage::Gathering => "gathering",
        Stage::Started => "started",
        Stage::LateWelcome => "late-welcome",
    }
}

fn state(state: MemberState) -> &'static str {
    match state {
        MemberState::Alive => "alive",
        MemberState::Blocked => "blocked",
        MemberState::Starved => "starved",
        MemberState::Verifying => "verifying",
        MemberState::WaitsForChild => "waits-for-child",
        MemberState::Syncing => "syncing",
        MemberState::Settled => "settled",
        MemberState::Done => "done",
    }
}
