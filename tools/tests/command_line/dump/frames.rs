//! Test helper: frames of every type, and capture files made of them.

use ethbcast_collectives::census::{About, Busy, CensusReply, CensusRequest, LastSession, kind};
use ethbcast_collectives::session::verified::ChunkSize;
use ethbcast_collectives::session::{
    Behind, ContentKind, Done, Fetch, FetchedPiece, FileAttributes, LinkShare, MemberRole,
    MemberState, Message, Needs, Outcome, Rate, Refusal, Stage, Status, Taken, Trailer, Verdict,
    View, ViewMember,
};
use ethbcast_planning::plan::Via;
use ethbcast_tests::fuzz::make_checksum_fit;
use ethbcast_tests::lab::{Ended, LIMIT, Run};
use ethbcast_transport::Policy;
use ethbcast_transport::stream::LostRange;
use ethbcast_transport::wire::{
    AckBody, EtherType, Flags, Guard, Header, Identity, Kind, MacAddr, OVERHEAD_BYTES, Rank,
    StreamId,
};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;

const ROOT: MacAddr = MacAddr::new(2, 0, 0, 0, 0, 1);
const MEMBER: MacAddr = MacAddr::new(2, 0, 0, 0, 0, 2);
/// Offset of the version.
const VERSION: usize = 16;
const KIND: usize = 17;

/// Returns a capture made in a lab: sessions by chain and by cast, a probe, and a group of ranks.
pub fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures/lab.pcap")
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Returns the lines of `dump --json`.
pub fn dumped(path: &Path, options: &[&str]) -> Vec<Value> {
    let arguments = [&["dump", "--json", text(path)][..], options].concat();
    let ended = Run::here(env!("CARGO_BIN_EXE_ethbcast"), &arguments).end(LIMIT);
    ended.assert_code(0);
    lines(&ended)
}

pub fn lines(ended: &Ended) -> Vec<Value> {
    ended
        .stdout_text()
        .lines()
        .map(|line| serde_json::from_str(line).expect("an object"))
        .collect()
}

/// Format of a capture.
#[derive(Clone, Copy, Debug, Default)]
pub struct Format {
    pub big_endian: bool,
    pub nanoseconds: bool,
    pub ng: bool,
}

pub struct Capture {
    format: Format,
    bytes: Vec<u8>,
    frames: u32,
}

/// A frame and its length on the wire.
pub type OnWire = (Vec<u8>, usize);

impl Capture {
    pub fn new(format: Format) -> Capture {
        let mut capture = Capture {
            format,
            bytes: Vec::new(),
            frames: 0,
        };
        if format.ng {
            // A section of unknown length, and an interface with a timestamp resolution.
            capture.block(0x0a0d_0d0a, |out| {
                out.words(&[0x1a2b_3c4d]);
                out.halves(&[1, 0]);
                out.words(&[u32::MAX; 2]);
            });
            let decimals = if format.nanoseconds { 9 } else { 6 };
            capture.block(1, |out| {
                out.halves(&[1, 0]);
                out.words(&[0]);
                out.halves(&[9, 1]);
                out.bytes.extend([decimals, 0, 0, 0]);
                out.words(&[0]);
            });
        } else {
            capture.words(&[if format.nanoseconds {
                0xa1b2_3c4d
            } else {
                0xa1b2_c3d4
            }]);
            capture.halves(&[2, 4]);
            capture.words(&[0, 0, 262_144, 1]);
        }
        capture
    }

    pub fn with(mut self, frames: &[OnWire]) -> Capture {
        for (bytes, wire_bytes) in frames {
            let (seconds, micros) = (1_700_000_000_u64, 2 + 1000 * u64::from(self.frames));
            self.frames += 1;
            let per_micro = if self.format.nanoseconds { 1000 } else { 1 };
            let lengths = [bytes.len() as u32, *wire_bytes as u32];
            if self.format.ng {
                let ticks = (seconds * 1_000_000 + micros) * per_micro;
                self.block(6, |out| {
                    out.words(&[0, (ticks >> 32) as u32, ticks as u32]);
                    out.words(&lengths);
                    out.bytes.extend(bytes);
                    out.bytes.resize(out.bytes.len().next_multiple_of(4), 0);
                });
            } else {
                self.words(&[seconds as u32, (micros * per_micro) as u32]);
                self.words(&lengths);
                self.bytes.extend(bytes);
            }
        }
        self
    }

    pub fn bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Writes a block of pcapng: its type, and its length on both sides.
    fn block(&mut self, kind: u32, body: impl FnOnce(&mut Capture)) {
        let mut inner = Capture {
            format: self.format,
            bytes: Vec::new(),
            frames: 0,
        };
        body(&mut inner);
        let length = inner.bytes.len() as u32 + 12;
        self.words(&[kind, length]);
        self.bytes.extend(inner.bytes);
        self.words(&[length]);
    }

    fn words(&mut self, words: &[u32]) {
        let big = self.format.big_endian;
        self.bytes.extend(words.iter().flat_map(|word| {
            if big {
                word.to_be_bytes()
            } else {
                word.to_le_bytes()
            }
        }));
    }

    fn halves(&mut self, halves: &[u16]) {
        let big = self.format.big_endian;
        self.bytes.extend(halves.iter().flat_map(|half| {
            if big {
                half.to_be_bytes()
            } else {
                half.to_le_bytes()
            }
        }));
    }
}

/// Creates a frame from the member to the root, padded as on Ethernet.
fn frame(kind: Kind, change: impl FnOnce(&mut Header), payload: &[u8]) -> OnWire {
    let (stream, rank, ether_type) = (StreamId(0), Rank(1), EtherType::DEFAULT);
    let identity = Identity {
        session: 0x5e55_0001,
        stream,
        rank,
        mac: MEMBER,
        ether_type,
        guard: Guard::Plain,
    };
    let mut header = identity.header(kind);
    change(&mut header);
    let mut bytes = vec![0; OVERHEAD_BYTES + payload.len()];
    let length = identity.write(&mut bytes, ROOT, &header, payload);
    bytes.truncate(length);
    bytes.resize(length.max(60), 0);
    let wire_bytes = bytes.len();
    (bytes, wire_bytes)
}

/// Returns every kind of session message and stream frame, some with names that need escaping.
pub fn every_message() -> Vec<OnWire> {
    let digest = *blake3::hash(b"").as_bytes();
    let mut frames = vec![
        frame(
            Kind::DATA,
            |header| (header.stream, header.flags) = (StreamId(1), Flags::LAST),
            &{
                let mut trailer = vec![0; 8];
                trailer.extend(digest);
                trailer
            },
        ),
        frame(
            Kind::DATA,
            |header| (header.stream, header.sequence) = (StreamId(1), 1 << 40),
            b"bytes of a file",
        ),
        frame(
            Kind::PARITY,
            |header| (header.flags, header.sequence) = (Flags(7 << 5 | 2), (1 << 40) + 5),
            &[9; 100],
        ),
        frame(Kind::HEARTBEAT, |header| header.sequence = 3, &[0, 2]),
        frame(Kind::HEARTBEAT, |header| header.stamp = u32::MAX, &[]),
        frame(Kind::ACK, |header| header.sequence = 10, &{
            let mut payload = [0; AckBody::BYTES + 1];
            payload[AckBody::BYTES] = 5;
            AckBody {
                limit: 4105,
                below: 10,
                consumed: 8,
                held_us: 250,
            }
            .write(10, &mut payload, 1);
            payload
        }),
        // A flow of 81 frames of 1468 bytes to a host, and the queries for its result and for a
        // train of its own.
        frame(
            Kind(26),
            |header| header.stamp = 7,
            &[
                4, 0, 5, 0xBC, 0, 0, 0, 81, 2, 0xEB, 0, 0, 0, 3, 2, 0xEB, 0, 0, 0, 1,
            ],
        ),
        frame(
            Kind(26),
            |header| header.stamp = 7,
            &[3, 0, 0, 0, 0, 0, 0, 0, 2, 0xEB, 0, 0, 0, 1],
        ),
        frame(
            Kind(26),
            |header| header.stamp = 8,
            &[3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        ),
    ];
    let control = |message: Message| {
        let (kind, body) = message.encode();
        frame(
            kind,
            |header| {
                if kind.0 == 17 {
                    header.rank = Rank::NONE
                }
            },
            &body,
        )
    };
    frames.extend(messages(digest).into_iter().map(control));
    frames.extend(census());
    frames
}

/// Returns a census query and two replies, a full and a minimal one.
fn census() -> Vec<OnWire> {
    let question = CensusRequest {
        nonce: 7,
        spread: Duration::from_millis(150),
        group: "ethbcast".to_owned(),
    };
    let last = LastSession {
        is_delivered: true,
        source: "größe.iso".to_owned(),
        seconds_ago: 77,
    };
    let about = About {
        version: "ethbcast 0.1.0".to_owned(),
        megabits_per_second: Some(10_000),
        last: Some(last),
    };
    let full = CensusReply {
        nonce: 7,
        group: "ethbcast".to_owned(),
        host: "n1".to_owned(),
        mtu_bytes: 1500,
        free_bytes: Some(1 << 40),
        busy: Busy::Receiving,
        bytes: 9,
        size: Some(70_000),
        about,
    };
    let bare = CensusReply {
        free_bytes: None,
        size: None,
        busy: Busy::Waiting,
        about: About::default(),
        bytes: 0,
        ..full.clone()
    };
    let mut frames = vec![frame(
        kind::WHO,
        |header| header.rank = Rank::NONE,
        &question.encode(),
    )];
    frames.extend([full, bare].map(|answer| {
        frame(
            kind::HERE,
            |header| header.rank = Rank::NONE,
            &answer.encode(),
        )
    }));
    frames
}

fn messages(digest: [u8; 32]) -> Vec<Message> {
    let (group, host) = (|| "ethbcast".to_owned(), |name: &str| name.to_owned());
    let text = || "it is full: free 3 MiB, “now”".to_owned();
    let attributes = FileAttributes {
        mode: 0o644,
        modified_seconds: -7,
        modified_nanoseconds: 5,
    };
    let content = ContentKind::File(attributes);
    let announce = |size, content, stage| Message::Announce {
        group: group(),
        host: host("n0"),
        source: host("größe.iso"),
        size,
        content,
        chunk: ChunkSize::SHORTEST,
        mtu_bytes: 1500,
        stage,
        age_millis: 250,
    };
    let verdict = |trailer| {
        Message::Verdict(Verdict {
            over: trailer,
            trailer: trailer.then_some(Trailer { bytes: 9, digest }),
            heard: vec![0b1111_0110, 2],
            accepted: vec![0b0000_0110, 2],
        })
    };
    let status = |waits_for: Option<Rank>| {
        let (state, is_mute) = (MemberState::WaitsForChild, waits_for.is_some());
        let link = waits_for.map(|_| LinkShare {
            is_sent: true,
            own: 48_000,
            others: u32::MAX,
            ip: 40_000,
        });
        Message::Status(Status {
            state,
            waits_for,
            arrived: 1 << 40,
            consumed: 7,
            is_mute,
            link,
        })
    };
    let mut messages = vec![
        announce(Some(1 << 40), content, Stage::Gathering),
        announce(None, ContentKind::Tree, Stage::LateWelcome),
        Message::Join {
            nonce: 7,
            group: group(),
            host: host("n1"),
            mtu_bytes: 1500,
            free_bytes: u64::MAX,
            features: 1 << 31,
        },
        Message::Leave {
            nonce: u64::MAX,
            text: text(),
        },
        Message::Refuse {
            nonce: 7,
            why: Refusal::NotWanted,
            text: String::new(),
        },
        Message::Ready {
            epoch: 2,
            digest,
            arrived: 12,
        },
        status(Some(Rank(2))),
        status(None),
        Message::Orphan {
            stream: StreamId(1),
            gap: LostRange {
                rank: Rank(3),
                from: 5,
                to: 1 << 33,
            },
        },
        Message::Fetch(Fetch {
            rank: Rank(1),
            bytes: 0..1 << 17,
            attempt: 3,
            blamed: Rank::NONE,
        }),
        Message::Fetch(Fetch {
            rank: Rank(1),
            bytes: 9..10,
            attempt: 0,
            blamed: Rank(4),
        }),
        Message::Piece(FetchedPiece {
            from: 9,
            end: 10,
            bytes: vec![1],
        }),
        Message::Piece(FetchedPiece {
            from: 9,
            end: 9,
            bytes: Vec::new(),
        }),
        Message::Needs(Needs {
            stretch: 3,
            set: vec![1, 0, 1],
        }),
        Message::Done(
            Done {
                outcome: Outcome::WriteFailed,
                bytes: 3,
                digest,
                text: text(),
            },
            None,
            Behind::default(),
        ),
        Message::Done(
            Done {
                outcome: Outcome::Verified,
                bytes: 3,
                digest,
                text: text(),
            },
            Taken::new(1 << 33, 9),
            Behind::default(),
        ),
        verdict(false),
        verdict(true),
        Message::Abort { text: text() },
    ];
    messages.extend(views(content));
    messages
}

/// Returns a view in three parts, last one first, and one with each kind of rate.
fn views(content: ContentKind) -> Vec<Message> {
    let mut messages: Vec<_> = view(content).parts(100).map(Message::View).collect();
    messages.reverse();
    let limit = Rate::new(40_000_000).expect("above the lowest");
    for rate in [limit, limit.yielding(), Rate::HIGHEST.yielding()] {
        let limited = View {
            rate: Some(rate),
            ..view(ContentKind::Stream)
        };
        messages.extend(limited.parts(1468).map(Message::View));
    }
    messages
}

fn view(content: ContentKind) -> View {
    let member = |at: u8, standing| ViewMember {
        host: format!("n{at}"),
        mac: MacAddr::new(2, 0, 0, 0, 0, 1 + at),
        nonce: at.into(),
        parent: at.checked_sub(1).map(|parent| Rank(parent.into())),
        order: 0,
        standing,
    };
    View {
        epoch: 300,
        via: Via::Kary(3),
        segment_frames: 16,
        policy: Policy::HolesAllowed,
        push_frames: None,
        payload_bytes: 1468,
        size: Some(70_000),
        content,
        chunk: ChunkSize::LONGEST,
        selective: false,
        members: vec![
            member(0, MemberRole::InPlace),
            member(1, MemberRole::InPlace),
            member(2, MemberRole::Gone),
        ],
        rate: None,
    }
}

/// Returns frames that a host rejects or that the capture has truncated, each with its defect, and
/// one of another protocol.
pub fn faulty() -> (Vec<OnWire>, Vec<&'static str>) {
    let (sound, _) = frame(Kind::DATA, |_| {}, &[7; 400]);
    let changed = |at: usize, to: u8| {
        let mut bytes = sound.clone();
        bytes[at] = to;
        // The checksum alone does not reveal the defect.
        make_checksum_fit(&mut bytes);
        (bytes.clone(), bytes.len())
    };
    let mut damaged = sound.clone();
    damaged[100] ^= 1;
    let mut tagged = sound.clone();
    drop(tagged.splice(12..12, [0x81, 0x00, 0xe0, 0x2a]));
    let wire_bytes = sound.len();
    let ip = [&sound[..12], &[0x08, 0x00], &[0; 46]].concat();
    let malformed = frame(Kind::ACK, |_| {}, &[0; 5]);
    let frames = vec![
        (damaged, wire_bytes),
        changed(VERSION, 5),
        changed(KIND, 99),
        changed(14, 0),
        malformed,
        (sound[..200].to_vec(), wire_bytes),
        (ip, 60),
        (sound[..30].to_vec(), wire_bytes),
        (sound[..200].to_vec(), 200),
        (tagged, wire_bytes + 4),
    ];
    let faults = vec![
        "its checksum is wrong",
        "of version 5 of the protocol",
        "of kind 99, which there is not",
        "of another protocol",
        "malformed",
        "cut by the capture: 154 of 400 bytes of payload",
        "cut to 30 bytes by the capture",
        "shorter than it says it is",
        "tagged for VLAN 42",
    ];
    (frames, faults)
}
