//! The control messages of a session.

use super::kind;
use crate::membership::codec::{BodyReader, BodyWriter};
use ethbcast_transport::wire::{Kind, Rank};

/// A BLAKE3 digest.
pub type Digest = [u8; 32];

/// Stands for "not known in advance" where a size is announced.
const UNKNOWN_SIZE: u64 = u64::MAX;

/// In the features of a JOIN: no receiver asks to be a member, but another root whether this one is there.
pub(super) const ROOT_ASKS: u32 = 1 << 31;

/// Declares an enum whose values go over the wire as one byte, counted from 0.
macro_rules! wire_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[$about:meta])* $variant:ident = $value:literal,)* }) => {
        $(#[$meta])*
        #[repr(u8)]
        pub enum $name {
            $($(#[$about])* $variant = $value,)*
        }

        impl $name {
            const ALL: &[$name] = &[$($name::$variant),*];

            fn read(from: &mut BodyReader<'_>) -> Option<$name> {
                $name::ALL.get(usize::from(from.u8()?)).copied()
            }
        }
    };
}

wire_enum! {
    /// How a member fared.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    Outcome {
        /// Digest verified, on disk, visible under its name.
        Delivered = 0,
        /// No room for the announced size.
        NoSpace = 1,
        /// Writing, syncing or renaming failed.
        WriteFailed = 2,
        /// The bytes do not match the root's digest.
        Damaged = 3,
        /// Its user stopped it.
        Interrupted = 4,
        /// It fell silent.
        Silent = 5,
        /// The host it depended on died and took frames with it that nobody else kept.
        Orphaned = 6,
    }
}

impl Outcome {
    /// The word for it in reports.
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Delivered => "verified",
            Outcome::NoSpace => "no-space",
            Outcome::WriteFailed => "write-failed",
            Outcome::Damaged => "damaged",
            Outcome::Interrupted => "interrupted",
            Outcome::Silent => "silent",
            Outcome::Orphaned => "orphaned",
        }
    }
}

wire_enum! {
    /// Why the root turns a receiver away.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    Refusal {
        /// Its MTU is below the root's.
        SmallMtu = 0,
        /// It has less free space than the announced size.
        NoSpace = 1,
        /// The session has started, or is full.
        Late = 2,
        /// Another receiver on the same interface is there already.
        Twin = 3,
        /// The topology file does not name it.
        NotInTopology = 4,
        /// Short frames reach it, the longest do not.
        Path = 5,
        /// It is none of the hosts that the sender has named.
        NotWanted = 6,
    }
}

impl Refusal {
    /// The reason in two or three words.
    pub fn words(self) -> &'static str {
        match self {
            Refusal::SmallMtu => "MTU too small",
            Refusal::NoSpace => "no space",
            Refusal::Late => "too late",
            Refusal::Twin => "name or interface taken",
            Refusal::NotInTopology => "not in the topology",
            Refusal::Path => "smaller MTU on the way",
            Refusal::NotWanted => "not asked for",
        }
    }
}

wire_enum! {
    /// How far the session is that a root announces.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    Stage {
        /// It waits for receivers.
        #[default]
        Gathering = 0,
        /// It has started, and takes nobody in any more.
        Started = 1,
        /// It has started, and who comes late may still join.
        LateWelcome = 2,
    }
}

wire_enum! {
    /// What a member is busy with.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    MemberState {
        /// Nothing holds it up.
        #[default]
        Alive = 0,
        /// Its application takes frames more slowly than they come.
        Blocked = 1,
        /// It waits for frames.
        Starved = 2,
        /// It has everything and checks it.
        Verifying = 3,
    }
}

/// A slice of an encoded view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewPart {
    /// The view's number.
    pub epoch: u32,
    /// Digest of the whole encoded view.
    pub digest: Digest,
    /// Which slice, from 0.
    pub at: u16,
    /// How many slices there are.
    pub count: u16,
    /// The slice.
    pub bytes: Vec<u8>,
}

/// What became of the stream at a member, as it says itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// How it fared.
    pub outcome: Outcome,
    /// Bytes it received.
    pub bytes: u64,
    /// Their BLAKE3.
    pub digest: Digest,
    /// A sentence on a failure.
    pub text: String,
}

/// A control message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The root invites receivers.
    Announce {
        /// Name of the group.
        group: String,
        /// Name of the root.
        host: String,
        /// What is being sent.
        source: String,
        /// Its bytes, if known in advance.
        size: Option<u64>,
        /// The MTU its frames are made for, in bytes.
        mtu_bytes: u16,
        /// How far it is.
        stage: Stage,
        /// For how many milliseconds it has announced: of two roots of one group the older one stays.
        age_millis: u32,
    },
    /// A receiver asks to be a member.
    Join {
        /// Names this run of the receiver.
        nonce: u64,
        /// Name of the group.
        group: String,
        /// Its host name.
        host: String,
        /// Its MTU, in bytes.
        mtu_bytes: u16,
        /// Its room for data, in bytes.
        free_bytes: u64,
        /// What it can do beside what every receiver of its version can: a bit for each, none so far. Bit 31: it is a
        /// root that asks whether this one is there.
        features: u32,
    },
    /// A receiver has ended, or a process that outlives it says so for it.
    Leave {
        /// The run of the receiver that has ended.
        nonce: u64,
        /// Why.
        text: String,
    },
    /// The root says no.
    Refuse {
        /// The run of the receiver that is meant.
        nonce: u64,
        /// The reason.
        why: Refusal,
        /// The reason in words, and what to do.
        text: String,
    },
    /// A slice of an encoded view.
    View(ViewPart),
    /// A member holds a view.
    Ready {
        /// The view's number.
        epoch: u32,
        /// The view's digest.
        digest: Digest,
    },
    /// A sign of life.
    Status {
        /// What the member is busy with.
        state: MemberState,
        /// Frames its application has taken.
        frames: u64,
    },
    /// A relay cannot serve the child it was given: the frames it needs are gone.
    Orphan {
        /// The child.
        rank: Rank,
    },
    /// What became of the stream at a member.
    Done(Done),
    /// Whose verdicts the root has.
    Verdict {
        /// Whether the session is over.
        over: bool,
        /// A bit for each rank, least significant first.
        heard: Vec<u8>,
    },
    /// The root gives up.
    Abort {
        /// Why.
        text: String,
    },
}

impl Message {
    /// The kind that goes into the frame's header, and the body.
    pub fn encode(&self) -> (Kind, Vec<u8>) {
        let mut body = BodyWriter::default();
        let out = &mut body;
        let (kind, _) = match self {
            Message::Announce { group, host, source, size, mtu_bytes, stage, age_millis } => {
                out.u64(size.unwrap_or(UNKNOWN_SIZE)).u16(*mtu_bytes).u8(*stage as u8).zeros(1).u32(*age_millis);
                (kind::ANNOUNCE, out.name(group).name(host).name(source))
            }
            Message::Join { nonce, group, host, mtu_bytes, free_bytes, features } => {
                out.u64(*nonce).u64(*free_bytes).u16(*mtu_bytes).u32(*features);
                (kind::JOIN, out.name(group).name(host))
            }
            Message::Leave { nonce, text } => (kind::LEAVE, out.u64(*nonce).text(text)),
            Message::Refuse { nonce, why, text } => (kind::REFUSE, out.u64(*nonce).u8(*why as u8).text(text)),
            Message::View(ViewPart { epoch, digest, at, count, bytes }) => {
                (kind::VIEW, out.u32(*epoch).bytes(digest).u16(*at).u16(*count).bytes(bytes))
            }
            Message::Ready { epoch, digest } => (kind::READY, out.u32(*epoch).bytes(digest)),
            Message::Status { state, frames } => (kind::STATUS, out.u8(*state as u8).u64(*frames)),
            Message::Orphan { rank } => (kind::ORPHAN, out.u16(rank.0)),
            Message::Done(Done { outcome, bytes, digest, text }) => {
                (kind::DONE, out.u8(*outcome as u8).u64(*bytes).bytes(digest).text(text))
            }
            Message::Verdict { over, heard } => (kind::VERDICT, out.u8(u8::from(*over)).bytes(heard)),
            Message::Abort { text } => (kind::ABORT, out.text(text)),
        };
        (kind, body.into_bytes())
    }

    /// Reads a body of the given kind; `None` if it is malformed or of a kind that is no control message.
    pub fn decode(kind: Kind, body: &[u8]) -> Option<Message> {
        let mut from = BodyReader::new(body);
        let from = &mut from;
        Some(match kind {
            kind::ANNOUNCE => {
                let size = Some(from.u64()?).filter(|&size| size != UNKNOWN_SIZE);
                let (mtu_bytes, stage, _, age_millis) = (from.u16()?, Stage::read(from)?, from.u8()?, from.u32()?);
                let (group, host, source) = (from.text()?, from.text()?, from.text()?);
                Message::Announce { group, host, source, size, mtu_bytes, stage, age_millis }
            }
            kind::JOIN => {
                let (nonce, free_bytes, mtu_bytes, features) = (from.u64()?, from.u64()?, from.u16()?, from.u32()?);
                Message::Join { nonce, group: from.text()?, host: from.text()?, mtu_bytes, free_bytes, features }
            }
            kind::LEAVE => Message::Leave { nonce: from.u64()?, text: from.text()? },
            kind::REFUSE => Message::Refuse { nonce: from.u64()?, why: Refusal::read(from)?, text: from.text()? },
            kind::VIEW => {
                let (epoch, digest, at, count) = (from.u32()?, from.array()?, from.u16()?, from.u16()?);
                Message::View(ViewPart { epoch, digest, at, count, bytes: from.rest().to_vec() })
            }
            kind::READY => Message::Ready { epoch: from.u32()?, digest: from.array()? },
            kind::STATUS => Message::Status { state: MemberState::read(from)?, frames: from.u64()? },
            kind::ORPHAN => Message::Orphan { rank: Rank(from.u16()?) },
            kind::DONE => {
                let (outcome, bytes) = (Outcome::read(from)?, from.u64()?);
                Message::Done(Done { outcome, bytes, digest: from.array()?, text: from.text()? })
            }
            kind::VERDICT => Message::Verdict { over: from.u8()? != 0, heard: from.rest().to_vec() },
            kind::ABORT => Message::Abort { text: from.text()? },
            _ => return None,
        })
    }
}

/// What the last frame of every stream carries: what all the others add up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// Bytes in the stream, this trailer not counted.
    pub bytes: u64,
    /// BLAKE3 of those bytes.
    pub digest: Digest,
}

impl Trailer {
    /// Bytes on the wire.
    pub const BYTES: usize = 40;

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = BodyWriter::default();
        out.u64(self.bytes).bytes(&self.digest);
        out.into_bytes()
    }

    pub(super) fn decode(payload: &[u8]) -> Option<Trailer> {
        let mut from = BodyReader::new(payload);
        Some(Trailer { bytes: from.u64()?, digest: from.array()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn announce() -> impl Strategy<Value = Message> {
        let (size, stage) = (prop::option::of(0..u64::MAX - 1), prop::sample::select(Stage::ALL.to_vec()));
        let names = ["[a-z]{1,40}", "[a-zäß]{0,255}", "[a-zäß]{0,40}"];
        (names, size, any::<u16>(), stage, any::<u32>()).prop_map(
            |([group, mut host, source], size, mtu_bytes, stage, age_millis)| {
                while host.len() > 255 {
                    host.pop();
                }
                Message::Announce { group, host, source, size, mtu_bytes, stage, age_millis }
            },
        )
    }

    fn message() -> impl Strategy<Value = Message> {
        let text = || "[a-zäß]{0,40}";
        prop_oneof![
            announce(),
            (any::<u64>(), text(), text(), any::<u16>(), any::<u64>(), any::<u32>()).prop_map(
                |(nonce, group, host, mtu_bytes, free_bytes, features)| {
                    Message::Join { nonce, group, host, mtu_bytes, free_bytes, features }
                }
            ),
            (any::<u64>(), text()).prop_map(|(nonce, text)| Message::Leave { nonce, text }),
            (any::<u64>(), prop::sample::select(Refusal::ALL.to_vec()), text())
                .prop_map(|(nonce, why, text)| Message::Refuse { nonce, why, text }),
            (any::<u32>(), any::<Digest>(), any::<u16>(), any::<u16>(), prop::collection::vec(any::<u8>(), 0..99))
                .prop_map(|(epoch, digest, at, count, bytes)| Message::View(ViewPart {
                    epoch,
                    digest,
                    at,
                    count,
                    bytes
                })),
            (prop::sample::select(MemberState::ALL.to_vec()), any::<u64>())
                .prop_map(|(state, frames)| Message::Status { state, frames }),
            (prop::sample::select(Outcome::ALL.to_vec()), any::<u64>(), any::<Digest>(), text())
                .prop_map(|(outcome, bytes, digest, text)| Message::Done(Done { outcome, bytes, digest, text })),
            (any::<bool>(), prop::collection::vec(any::<u8>(), 0..9))
                .prop_map(|(over, heard)| Message::Verdict { over, heard }),
        ]
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
