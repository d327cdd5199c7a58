//! Control messages of a transfer: announcements, join requests, member lists, status, results.

mod bodies;

use super::kind;
use super::link_share::LinkShare;
use super::verified::ChunkSize;
use crate::membership::codec::{BodyReader, BodyWriter};
pub(super) use bodies::{BEHIND, MAX_ATTEMPTS, MAX_FETCH_BYTES};
pub use bodies::{
    Behind, Challenge, ContentKind, Digest, Done, Fetch, FetchedPiece, FileAttributes, MemberState,
    Needs, Outcome, Packing, Refusal, Stage, Status, Taken, Trailer, Verdict,
};
use ethbcast_transport::stream::LostRange;
use ethbcast_transport::wire::{Kind, Rank, StreamId};

const UNKNOWN_SIZE: u64 = u64::MAX;

/// Feature bit of a JOIN: another root checks whether this one is alive.
pub(super) const ROOT_ASKS: u32 = 1 << 31;
/// Feature bit of a JOIN: the receiver may already hold part of the content.
pub(super) const HOLDS: u32 = 1;

/// Slice number `at`, from 0, of an encoded view; `digest` is that of the whole.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewPart {
    pub epoch: u32,
    pub digest: Digest,
    pub at: u16,
    pub count: u16,
    pub bytes: Vec<u8>,
}

#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    Announce {
        group: String,
        host: String,
        source: String,
        size: Option<u64>,
        content: ContentKind,
        chunk: ChunkSize,
        mtu_bytes: u16,
        stage: Stage,
        /// Age of the announcement in milliseconds: of two roots of one group, the older one stays.
        age_millis: u32,
    },
    Join {
        nonce: u64,
        group: String,
        host: String,
        mtu_bytes: u16,
        free_bytes: u64,
        features: u32,
    },
    /// A receiver has ended; sent by itself or by its watcher.
    Leave {
        nonce: u64,
        text: String,
    },
    Refuse {
        nonce: u64,
        why: Refusal,
        text: String,
    },
    View(ViewPart),
    Ready {
        epoch: u32,
        digest: Digest,
        /// Frames that have arrived in order; a catch-up stream begins there.
        arrived: u64,
    },
    Status(Status),
    /// A relay cannot supply frames that a new child needs, because they were lost with the host
    /// between them.
    Orphan {
        stream: StreamId,
        gap: LostRange,
    },
    Fetch(Fetch),
    Piece(FetchedPiece),
    Needs(Needs),
    Done(Done, Option<Taken>, Behind),
    Verdict(Verdict),
    Challenge(Challenge),
    /// Response of the root to one or more challenges.
    Response(Vec<u64>),
    Abort {
        text: String,
    },
}

impl Message {
    pub fn encode(&self) -> (Kind, Vec<u8>) {
        let mut body = BodyWriter::default();
        let out = &mut body;
        let (kind, _) = match self {
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
                out.u64(size.unwrap_or(UNKNOWN_SIZE))
                    .u16(*mtu_bytes)
                    .u8(*stage as u8)
                    .u32(*age_millis);
                content.write(*chunk, out);
                (kind::ANNOUNCE, out.name(group).name(host).name(source))
            }
            Message::Join {
                nonce,
                group,
                host,
                mtu_bytes,
                free_bytes,
                features,
            } => {
                out.u64(*nonce)
                    .u64(*free_bytes)
                    .u16(*mtu_bytes)
                    .u32(*features);
                (kind::JOIN, out.name(group).name(host))
            }
            Message::Leave { nonce, text } => (kind::LEAVE, out.u64(*nonce).text(text)),
            Message::Refuse { nonce, why, text } => {
                (kind::REFUSE, out.u64(*nonce).u8(*why as u8).text(text))
            }
            Message::View(ViewPart {
                epoch,
                digest,
                at,
                count,
                bytes,
            }) => (
                kind::VIEW,
                out.u32(*epoch)
                    .bytes(digest)
                    .u16(*at)
                    .u16(*count)
                    .bytes(bytes),
            ),
            Message::Ready {
                epoch,
                digest,
                arrived,
            } => (kind::READY, out.u32(*epoch).bytes(digest).u64(*arrived)),
            Message::Status(Status {
                state,
                waits_for,
                arrived,
                consumed,
                is_mute,
                link,
            }) => {
                out.u8(*state as u8)
                    .u16(waits_for.unwrap_or(Rank::NONE).0)
                    .u64(*arrived)
                    .u64(*consumed);
                if *is_mute || link.is_some() {
                    out.u8(u8::from(*is_mute));
                }
                link.iter().for_each(|link| link.write(out));
                (kind::STATUS, out)
            }
            Message::Orphan {
                stream,
                gap: LostRange { rank, from, to },
            } => (
                kind::ORPHAN,
                out.u16(stream.0).u16(rank.0).u64(*from).u64(*to),
            ),
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
                out.u8(*outcome as u8).u64(*bytes).bytes(digest).text(text);
                taken.iter().for_each(|taken| taken.write(behind, out));
                (kind::DONE, out)
            }
            Message::Verdict(Verdict {
                over,
                trailer,
                heard,
                accepted,
            }) => {
                let known = u8::from(trailer.is_some());
                let Trailer { bytes, digest } = trailer.unwrap_or(Trailer {
                    bytes: 0,
                    digest: [0; 32],
                });
                out.u8(u8::from(*over))
                    .u8(known)
                    .u64(bytes)
                    .bytes(&digest)
                    .u16(heard.len() as u16);
                (kind::VERDICT, out.bytes(heard).bytes(accepted))
            }
            Message::Abort { text } => (kind::ABORT, out.text(text)),
            Message::Challenge(Challenge { word, unanswered }) => {
                (kind::CHALLENGE, out.u64(*word).u8(*unanswered))
            }
            Message::Response(words) => (
                kind::RESPONSE,
                words.iter().fold(out, |out, word| out.u64(*word)),
            ),
            Message::Fetch(fetch) => {
                fetch.write(out);
                (kind::FETCH, out)
            }
            Message::Piece(piece) => {
                piece.write(out);
                (kind::PIECE, out)
            }
            Message::Needs(needs) => {
                needs.write(out);
                (kind::NEEDS, out)
            }
        };
        (kind, body.into_bytes())
    }

    /// Decodes a body of the given kind; `None` if it is malformed or the kind is no control
    /// message.
    pub fn decode(kind: Kind, body: &[u8]) -> Option<Message> {
        let mut from = BodyReader::new(body);
        let from = &mut from;
        Some(match kind {
            kind::ANNOUNCE => {
                let size = Some(from.u64()?).filter(|&size| size != UNKNOWN_SIZE);
                let (mtu_bytes, stage, age_millis) = (from.u16()?, Stage::read(from)?, from.u32()?);
                let (content, chunk) = ContentKind::read(from)?;
                let (group, host, source) = (from.text()?, from.text()?, from.text()?);
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
                }
            }
            kind::JOIN => {
                let (nonce, free_bytes, mtu_bytes, features) =
                    (from.u64()?, from.u64()?, from.u16()?, from.u32()?);
                Message::Join {
                    nonce,
                    group: from.text()?,
                    host: from.text()?,
                    mtu_bytes,
                    free_bytes,
                    features,
                }
            }
            kind::LEAVE => Message::Leave {
                nonce: from.u64()?,
                text: from.text()?,
            },
            kind::REFUSE => Message::Refuse {
                nonce: from.u64()?,
                why: Refusal::read(from)?,
                text: from.text()?,
            },
            kind::VIEW => {
                let (epoch, digest, at, count) =
                    (from.u32()?, from.array()?, from.u16()?, from.u16()?);
                Message::View(ViewPart {
                    epoch,
                    digest,
                    at,
                    count,
                    bytes: from.rest().to_vec(),
                })
            }
            kind::READY => Message::Ready {
                epoch: from.u32()?,
                digest: from.array()?,
                arrived: from.u64()?,
            },
            kind::STATUS => {
                let (state, child) = (MemberState::read(from)?, Rank(from.u16()?));
                let waits_for = Some(child).filter(|&child| child != Rank::NONE);
                let (arrived, consumed) = (from.u64()?, from.u64()?);
                // Older builds send neither of the two.
                let is_mute = from.u8().is_some_and(|mute| mute != 0);
                let link = LinkShare::read(from);
                Message::Status(Status {
                    state,
                    waits_for,
                    arrived,
                    consumed,
                    is_mute,
                    link,
                })
            }
            kind::ORPHAN => {
                let (stream, rank) = (StreamId(from.u16()?), Rank(from.u16()?));
                Message::Orphan {
                    stream,
                    gap: LostRange {
                        rank,
                        from: from.u64()?,
                        to: from.u64()?,
                    },
                }
            }
            kind::DONE => {
                let (outcome, bytes) = (Outcome::read(from)?, from.u64()?);
                let done = Done {
                    outcome,
                    bytes,
                    digest: from.array()?,
                    text: from.text()?,
                };
                let taken = Taken::read(from);
                let behind = taken.and_then(|_| Behind::read(from)).unwrap_or_default();
                Message::Done(done, taken, behind)
            }
            kind::VERDICT => {
                let (over, known) = (from.u8()? != 0, from.u8()? != 0);
                let trailer = Trailer {
                    bytes: from.u64()?,
                    digest: from.array()?,
                };
                let bytes = usize::from(from.u16()?);
                let (heard, accepted) = (from.bytes(bytes)?.to_vec(), from.bytes(bytes)?.to_vec());
                Message::Verdict(Verdict {
                    over,
                    trailer: known.then_some(trailer),
                    heard,
                    accepted,
                })
            }
            kind::ABORT => Message::Abort { text: from.text()? },
            kind::CHALLENGE => Message::Challenge(Challenge {
                word: from.u64()?,
                unanswered: from.u8()?,
            }),
            kind::RESPONSE => {
                let (words, _) = from.rest().as_chunks::<8>();
                let words: Vec<u64> = words.iter().map(|&word| u64::from_be_bytes(word)).collect();
                Message::Response(Some(words).filter(|words| !words.is_empty())?)
            }
            kind::FETCH => Message::Fetch(Fetch::read(from)?),
            kind::PIECE => Message::Piece(FetchedPiece::read(from)?),
            kind::NEEDS => Message::Needs(Needs::read(from)?),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn announce() -> impl Strategy<Value = Message> {
        let (size, stage) = (
            prop::option::of(0..u64::MAX - 1),
            prop::sample::select(Stage::ALL.to_vec()),
        );
        let names = ["[a-z]{1,40}", "[a-zäß]{0,255}", "[a-zäß]{0,40}"];
        (names, size, any::<u16>(), stage, any::<u32>()).prop_map(
            |([group, mut host, source], size, mtu_bytes, stage, age_millis)| {
                while host.len() > 255 {
                    host.pop();
                }
                let (content, chunk) = (ContentKind::Tree, ChunkSize::SHORTEST);
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
                }
            },
        )
    }

    fn message() -> impl Strategy<Value = Message> {
        let text = || "[a-zäß]{0,40}";
        prop_oneof![
            announce(),
            (
                any::<u64>(),
                text(),
                text(),
                any::<u16>(),
                any::<u64>(),
                any::<u32>()
            )
                .prop_map(|(nonce, group, host, mtu_bytes, free_bytes, features)| {
                    Message::Join {
                        nonce,
                        group,
                        host,
                        mtu_bytes,
                        free_bytes,
                        features,
                    }
                }),
            (any::<u64>(), text()).prop_map(|(nonce, text)| Message::Leave { nonce, text }),
            (any::<u64>(), any::<u8>())
                .prop_map(|(word, unanswered)| Message::Challenge(Challenge { word, unanswered })),
            prop::collection::vec(any::<u64>(), 1..9).prop_map(Message::Response),
            (
                any::<u64>(),
                prop::sample::select(Refusal::ALL.to_vec()),
                text()
            )
                .prop_map(|(nonce, why, text)| Message::Refuse { nonce, why, text }),
            (
                any::<u32>(),
                any::<Digest>(),
                any::<u16>(),
                any::<u16>(),
                prop::collection::vec(any::<u8>(), 0..99)
            )
                .prop_map(|(epoch, digest, at, count, bytes)| Message::View(
                    ViewPart {
                        epoch,
                        digest,
                        at,
                        count,
                        bytes
                    }
                )),
            (
                prop::sample::select(MemberState::ALL.to_vec()),
                prop::option::of(0..u16::MAX),
                any::<[u64; 2]>(),
                any::<bool>(),
                prop::option::of((any::<bool>(), any::<[u32; 3]>()))
            )
                .prop_map(|(state, child, [arrived, consumed], is_mute, link)| {
                    let link = link.map(|(is_sent, [own, others, ip])| LinkShare {
                        is_sent,
                        own,
                        others,
                        ip,
                    });
                    Message::Status(Status {
                        state,
                        waits_for: child.map(Rank),
                        arrived,
                        consumed,
                        is_mute,
                        link,
                    })
                }),
            (any::<[u16; 2]>(), any::<[u64; 2]>(), any::<u8>()).prop_map(
                |([rank, blamed], [from, to], attempt)| {
                    Message::Fetch(Fetch {
                        rank: Rank(rank),
                        bytes: from..to,
                        attempt,
                        blamed: Rank(blamed),
                    })
                }
            ),
            (any::<[u64; 2]>(), prop::collection::vec(any::<u8>(), 0..99))
                .prop_map(|([from, end], bytes)| Message::Piece(FetchedPiece { from, end, bytes })),
            (any::<u64>(), prop::collection::vec(any::<u8>(), 0..129))
                .prop_map(|(stretch, set)| Message::Needs(Needs { stretch, set })),
            (any::<u16>(), any::<u16>(), any::<u64>(), any::<u64>()).prop_map(
                |(stream, rank, from, to)| {
                    Message::Orphan {
                        stream: StreamId(stream),
                        gap: LostRange {
                            rank: Rank(rank),
                            from,
                            to,
                        },
                    }
                }
            ),
            (
                prop::sample::select(Outcome::ALL.to_vec()),
                any::<u64>(),
                any::<Digest>(),
                text(),
                any::<[u64; 2]>(),
                prop::collection::vec((text(), prop::sample::select(Outcome::ALL.to_vec())), 0..4)
            )
                .prop_map(
                    |(outcome, bytes, digest, text, [frames, repaired], named)| {
                        let taken = Taken::new(frames, repaired);
                        let behind = taken.map(|_| Behind::new(named.len(), named, 1000));
                        let done = Done {
                            outcome,
                            bytes,
                            digest,
                            text,
                        };
                        Message::Done(done, taken, behind.unwrap_or_default())
                    }
                ),
            (
                any::<bool>(),
                prop::option::of((any::<u64>(), any::<Digest>())),
                prop::collection::vec(any::<u8>(), 0..9)
            )
                .prop_map(|(over, trailer, heard)| {
                    let trailer = trailer.map(|(bytes, digest)| Trailer { bytes, digest });
                    let accepted = heard.iter().map(|byte| !byte).collect();
                    Message::Verdict(Verdict {
                        over,
                        trailer,
                        heard,
                        accepted,
                    })
                }),
        ]
    }

    #[test]
    fn hosts_behind_a_relay_are_named_as_far_as_there_is_room_and_failures_first() {
        let named = |outcome, name: &str| (name.to_owned(), outcome);
        let all = vec![
            named(Outcome::Delivered, "n1"),
            named(Outcome::Died, "n2"),
            named(Outcome::Delivered, "n3/n1"),
        ];
        let behind = Behind::new(4, all.clone(), 8);
        assert_eq!(behind.hosts(), 4);
        assert_eq!(behind.named(), [all[1].clone(), all[0].clone()]);
        let done = Done {
            outcome: Outcome::Delivered,
            bytes: 3,
            digest: [1; 32],
            text: String::new(),
        };
        let (kind, body) = Message::Done(done.clone(), Taken::new(2, 1), behind.clone()).encode();
        let own = Message::Done(done, Taken::new(2, 1), Behind::default());
        let (_, short) = own.encode();
        assert!(body.starts_with(&short), "older builds read what they know");
        assert_eq!(body.len(), short.len() + 2 + 2 * 4);
        // What is cut short names nobody, and fewer than there are is no mistake.
        assert_eq!(Message::decode(kind, &body[..body.len() - 1]), Some(own));
        let Some(Message::Done(.., read)) = Message::decode(kind, &body) else {
            panic!("it is one")
        };
        assert_eq!(read, behind);
    }

    proptest! {
        #[test]
        fn what_is_encoded_decodes_to_the_same(message in message()) {
            let (kind, body) = message.encode();
            prop_assert_eq!(Message::decode(kind, &body), Some(message));
        }

        #[test]
        fn a_body_cut_short_is_refused_or_read_as_something_else_but_never_panics(
            message in message(), keep in 0..60usize,
        ) {
            let (kind, body) = message.encode();
            let cut = &body[..keep.min(body.len())];
            let _read = Message::decode(kind, cut);
        }
    }
}
