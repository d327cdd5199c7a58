//! Wire format of a transfer's control messages: status reports, content descriptions, requests for
//! missing bytes.

use crate::keys::VEIL_BYTES;
use crate::membership::codec::{BodyReader, BodyWriter};
use crate::session::link_share::LinkShare;
use crate::session::verified::{ChunkSet, ChunkSize};
use ethbcast_transport::wire::{Guard, Rank};
use std::ops::Range;

/// A BLAKE3 digest.
pub type Digest = [u8; 32];

/// Status report of a member: the frames that have arrived in order, those that its application has
/// consumed, the child that blocks it (mute if no frame of it ever came), and the rates on its link
/// if other traffic has part of it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    pub state: MemberState,
    pub waits_for: Option<Rank>,
    pub arrived: u64,
    pub consumed: u64,
    pub is_mute: bool,
    pub link: Option<LinkShare>,
}

/// Liveness challenge of a member: a random number (`word`), which the root must return and which
/// only it can know. `unanswered` counts how often it was sent before.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Challenge {
    pub word: u64,
    pub unanswered: u8,
}

impl Challenge {
    /// Number of unanswered challenges after which the response goes to the group, because unicast
    /// frames may not reach the member.
    const ALONE: u8 = 2;

    pub(in crate::session) fn is_for_all(self) -> bool {
        self.unanswered >= Challenge::ALONE
    }
}

/// Reports that the root has (`heard`) and those whose digest is correct (`accepted`), as bitmaps
/// of the ranks of equal length, least significant bit first.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub over: bool,
    pub trailer: Option<Trailer>,
    pub heard: Vec<u8>,
    pub accepted: Vec<u8>,
}

impl Verdict {
    pub(in crate::session) fn names(bitmap: &[u8], rank: Rank) -> bool {
        bitmap
            .get(rank.index() / 8)
            .is_some_and(|byte| byte >> (rank.0 % 8) & 1 == 1)
    }
}

/// Final report of a member about the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// Outcome of the transfer.
    pub outcome: Outcome,
    /// Bytes received.
    pub bytes: u64,
    /// BLAKE3 digest of the bytes received.
    pub digest: Digest,
    /// Description of a failure.
    pub text: String,
}

impl Done {
    pub(in crate::session) fn is_success(&self) -> bool {
        matches!(self.outcome, Outcome::Verified | Outcome::Delivered)
    }

    /// Turns a false claim of success into a failure: a member whose digest differs from the root's
    /// has damaged bytes.
    pub(in crate::session) fn into_failure(self) -> Done {
        if !self.is_success() {
            return self;
        }
        let text = "it claims delivery of other bytes than were sent".to_owned();
        Done {
            outcome: Outcome::Damaged,
            text,
            ..self
        }
    }
}

/// Reception counters of a member: data frames received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    frames: u64,
    repaired: u64,
}

impl Taken {
    /// Creates the counters: `frames` received, of which `repaired` only as a retransmission;
    /// `None` if that is impossible.
    pub fn new(frames: u64, repaired: u64) -> Option<Taken> {
        (repaired <= frames).then_some(Taken { frames, repaired })
    }

    /// Returns the number of frames received.
    pub fn frames(self) -> u64 {
        self.frames
    }

    /// Returns the number of frames received only as a retransmission.
    pub fn repaired(self) -> u64 {
        self.repaired
    }

    pub(super) fn write(self, behind: &Behind, out: &mut BodyWriter) {
        out.u64(self.frames).u64(self.repaired);
        behind.write(out);
    }

    /// Reads the counters behind a report; older builds do not send them.
    pub(super) fn read(from: &mut BodyReader<'_>) -> Option<Taken> {
        Taken::new(from.u64()?, from.u64()?)
    }
}

/// Hosts behind a member that relays to another network: how many, and of as many as fit a frame
/// name and outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Behind {
    hosts: u16,
    named: Vec<(String, Outcome)>,
}

impl Behind {
    /// Creates the list of `hosts` hosts, of which those `named` fill at most `most_bytes`, failures
    /// first.
    pub fn new(hosts: usize, mut named: Vec<(String, Outcome)>, most_bytes: usize) -> Behind {
        named.sort_by_key(|(_, outcome)| *outcome == Outcome::Delivered);
        let mut bytes = 0;
        let fitting = named.iter().take_while(|(name, _)| {
            bytes += 2 + name.len();
            bytes <= most_bytes
        });
        named.truncate(fitting.count());
        Behind {
            hosts: u16::try_from(hosts).unwrap_or(u16::MAX),
            named,
        }
    }

    /// Returns the number of hosts behind it.
    pub fn hosts(&self) -> usize {
        self.hosts.into()
    }

    /// Returns names and outcomes of the first of them. Those behind a further relay have the names
    /// of both, with a slash between them.
    pub fn named(&self) -> &[(String, Outcome)] {
        &self.named
    }

    fn write(&self, out: &mut BodyWriter) {
        if self.hosts == 0 {
            return;
        }
        out.u16(self.hosts);
        for (name, outcome) in &self.named {
            out.u8(*outcome as u8).text(name);
        }
    }

    /// Reads the list behind the counters of a report; a malformed list counts as absent.
    pub(super) fn read(from: &mut BodyReader<'_>) -> Option<Behind> {
        let (hosts, mut named) = (from.u16()?, Vec::new());
        while !from.rest().is_empty() && named.len() < usize::from(hosts) {
            let outcome = Outcome::read(from)?;
            named.push((from.text()?, outcome));
        }
        Some(Behind { hosts, named })
    }
}

/// Length and digest of a stream, carried by its last frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// Bytes in the stream, without the trailer.
    pub bytes: u64,
    /// BLAKE3 digest of those bytes.
    pub digest: Digest,
}

impl Trailer {
    /// Length on the wire, in bytes.
    pub const BYTES: usize = 40;

    pub(in crate::session) fn encode(&self) -> Vec<u8> {
        let mut out = BodyWriter::default();
        out.u64(self.bytes).bytes(&self.digest);
        out.into_bytes()
    }

    pub(in crate::session) fn decode(payload: &[u8]) -> Option<Trailer> {
        let mut from = BodyReader::new(payload);
        Some(Trailer {
            bytes: from.u64()?,
            digest: from.array()?,
        })
    }
}

/// Bits of a mode: permissions, set-user-id, set-group-id and sticky.
const MODE_BITS: u16 = 0o7777;
const STREAM: u8 = 0;
const FILE: u8 = 1;
const TREE: u8 = 2;
const SPARSE: u8 = 3;
const PACKED: u8 = 4;

/// Kind of a session's content, by which a receiver handles it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContentKind {
    /// Bytes of a pipe or a program.
    #[default]
    Stream,
    /// One file.
    File(FileAttributes),
    /// A directory, encoded by the crate `ethbcast-content`.
    Tree,
    /// One file with holes, encoded by the crate `ethbcast-content`: a map of the data, then the
    /// data.
    Sparse(FileAttributes),
    /// One file that receivers unpack.
    Packed(Packing, FileAttributes),
}

/// Compression format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Gzip, RFC 1952.
    Gzip,
    /// The .xz file format.
    Xz,
    /// Zstandard, RFC 8878.
    Zstd,
}

impl Packing {
    const ALL: [Packing; 3] = [Packing::Gzip, Packing::Xz, Packing::Zstd];

    /// Returns the name for people.
    pub fn name(self) -> &'static str {
        match self {
            Packing::Gzip => "gzip",
            Packing::Xz => "xz",
            Packing::Zstd => "zstd",
        }
    }
}

/// Attributes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileAttributes {
    /// Permissions, set-user-id, set-group-id and sticky bits.
    pub mode: u16,
    /// Modification time in seconds since 1970; negative before.
    pub modified_seconds: i64,
    /// Nanoseconds of the modification time.
    pub modified_nanoseconds: u32,
}

impl ContentKind {
    pub(in crate::session) fn write(
        self,
        chunk: ChunkSize,
        out: &mut BodyWriter,
    ) -> &mut BodyWriter {
        let (number, attributes) = match self {
            ContentKind::Stream => (STREAM, None),
            ContentKind::File(attributes) => (FILE, Some(attributes)),
            ContentKind::Tree => (TREE, None),
            ContentKind::Sparse(attributes) => (SPARSE, Some(attributes)),
            ContentKind::Packed(packing, attributes) => (PACKED + packing as u8, Some(attributes)),
        };
        let nothing = FileAttributes {
            mode: 0,
            modified_seconds: 0,
            modified_nanoseconds: 0,
        };
        let FileAttributes {
            mode,
            modified_seconds,
            modified_nanoseconds,
        } = attributes.unwrap_or(nothing);
        out.u8(number | (chunk.doublings() << 4) as u8)
            .u16(mode)
            .u64(modified_seconds as u64)
            .u32(modified_nanoseconds)
    }

    /// Reads kind and chunk size; `None` if the number is unknown or a value is out of range.
    pub(in crate::session) fn read(from: &mut BodyReader<'_>) -> Option<(ContentKind, ChunkSize)> {
        let (first, mode, modified_seconds) = (from.u8()?, from.u16()?, from.u64()? as i64);
        let modified_nanoseconds = from.u32()?;
        if mode & !MODE_BITS != 0 || modified_nanoseconds >= 1_000_000_000 {
            return None;
        }
        let attributes = FileAttributes {
            mode,
            modified_seconds,
            modified_nanoseconds,
        };
        let kind = match first & 0x0f {
            STREAM => ContentKind::Stream,
            FILE => ContentKind::File(attributes),
            TREE => ContentKind::Tree,
            SPARSE => ContentKind::Sparse(attributes),
            number => {
                ContentKind::Packed(*Packing::ALL.get(usize::from(number - PACKED))?, attributes)
            }
        };
        Some((kind, ChunkSize::of_doublings(first as i8 >> 4)?))
    }
}

/// Maximum bytes of a request; a multiple of every unit of the stream that can be verified alone.
pub(in crate::session) const MAX_FETCH_BYTES: u64 = 128 << 10;

pub(in crate::session) const MAX_ATTEMPTS: u8 = 3;

const MAX_SET_BYTES: usize = ChunkSet::MAX_BYTES;

/// Request for a range of the stream that the member `rank` lacks: from it to the root, or from the
/// root to a member that keeps the bytes.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    pub rank: Rank,
    pub bytes: Range<u64>,
    /// Number of this request for damaged bytes, from 1; 0 if the bytes were never sent to the
    /// member, which alone lacks them.
    pub attempt: u8,
    /// Host that sent them to the member; [`Rank::NONE`] if unknown, or if there were several.
    pub blamed: Rank,
}

impl Fetch {
    pub(super) fn write(&self, out: &mut BodyWriter) {
        let Fetch {
            rank,
            bytes,
            attempt,
            blamed,
        } = self;
        out.u16(rank.0)
            .u16(blamed.0)
            .u8(*attempt)
            .zeros(3)
            .u64(bytes.start)
            .u64(bytes.end);
    }

    pub(super) fn read(from: &mut BodyReader<'_>) -> Option<Fetch> {
        let (rank, blamed, attempt) = (Rank(from.u16()?), Rank(from.u16()?), from.u8()?);
        from.bytes(3)?;
        Some(Fetch {
            rank,
            bytes: from.u64()?..from.u64()?,
            attempt,
            blamed,
        })
    }

    pub(in crate::session) fn is_bounded(&self) -> bool {
        let bytes = self.bytes.end.checked_sub(self.bytes.start);
        bytes.is_some_and(|bytes| (1..=MAX_FETCH_BYTES).contains(&bytes))
            && self.attempt <= MAX_ATTEMPTS
    }
}

/// Want-bitmap of a member for one stretch of the content: its missing chunks, as encoded by
/// [`ChunkSet::write`].
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needs {
    pub stretch: u64,
    pub set: Vec<u8>,
}

impl Needs {
    pub(super) fn write(&self, out: &mut BodyWriter) {
        out.u64(self.stretch).bytes(&self.set);
    }

    pub(super) fn read(from: &mut BodyReader<'_>) -> Option<Needs> {
        let (stretch, set) = (from.u64()?, from.rest());
        (set.len() <= MAX_SET_BYTES).then(|| Needs {
            stretch,
            set: set.to_vec(),
        })
    }
}

/// Part of the reply to a [`Fetch`]: bytes of the stream, of a share that is sent at once up to
/// `end`. If there are no bytes and `end` is equal to `from`, they are unavailable.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedPiece {
    pub from: u64,
    pub end: u64,
    pub bytes: Vec<u8>,
}

impl FetchedPiece {
    pub(in crate::session) fn fitting(payload_bytes: usize, guard: &Guard) -> usize {
        let veil_bytes = if guard.is_keyed() { VEIL_BYTES } else { 0 };
        payload_bytes
            .saturating_sub(size_of::<[u64; 2]>() + veil_bytes)
            .max(1)
    }

    pub(in crate::session) fn denial(from: u64) -> FetchedPiece {
        FetchedPiece {
            from,
            end: from,
            bytes: Vec::new(),
        }
    }

    pub(in crate::session) fn is_denial(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(in crate::session) fn range(&self) -> Option<Range<u64>> {
        let to = self.from.checked_add(self.bytes.len() as u64)?;
        (to <= self.end).then_some(self.from..to)
    }

    pub(super) fn write(&self, out: &mut BodyWriter) {
        out.u64(self.from).u64(self.end).bytes(&self.bytes);
    }

    pub(super) fn read(from: &mut BodyReader<'_>) -> Option<FetchedPiece> {
        Some(FetchedPiece {
            from: from.u64()?,
            end: from.u64()?,
            bytes: from.rest().to_vec(),
        })
    }
}

/// Declares an enum whose values are one byte on the wire, counted from 0.
macro_rules! wire_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[$about:meta])* $variant:ident = $value:literal,)* }) => {
        $(#[$meta])*
        #[repr(u8)]
        pub enum $name {
            $($(#[$about])* $variant = $value,)*
        }

        impl $name {
            pub(super) const ALL: &[$name] = &[$($name::$variant),*];

            pub(super) fn read(from: &mut BodyReader<'_>) -> Option<$name> {
                $name::ALL.get(usize::from(from.u8()?)).copied()
            }
        }
    };
}

wire_enum! {
    /// Outcome of a transfer at a member.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    Outcome {
        /// Verified, confirmed by the root, on disk, visible under its name.
        Delivered = 0,
        /// Too little room for the announced size.
        NoSpace = 1,
        /// Writing, syncing or renaming failed.
        WriteFailed = 2,
        /// The bytes do not match the root's digest.
        Damaged = 3,
        /// Its user stopped it.
        Interrupted = 4,
        /// The member fell silent.
        Silent = 5,
        /// Missing bytes were lost with other hosts, and the root cannot re-read them.
        Lost = 6,
        /// The bytes are all on stable storage and match the trailer; they become visible when the
        /// root confirms them.
        Verified = 7,
        /// The member made no progress for too long, although its reports arrived.
        Stalled = 8,
        /// Its process has ended.
        Died = 9,
    }
}

impl Outcome {
    pub(crate) const WORDS: [&str; 10] = [
        "verified",
        "no-space",
        "write-failed",
        "damaged",
        "interrupted",
        "silent",
        "lost",
        "unconfirmed",
        "stalled",
        "died",
    ];

    /// Name of the outcome of a receiver that took no data, because its DEST does not permit it.
    pub const REFUSED: &'static str = "refused";

    /// Returns the outcome's name in reports, and the reason, from a receiver's text. The text of a
    /// receiver that took no data begins with that fact (protocol.md §10).
    pub fn status_and_reason(self, text: &str) -> (&'static str, &str) {
        let reason = text
            .strip_prefix(Outcome::REFUSED)
            .and_then(|rest| rest.strip_prefix(": "));
        match reason.filter(|_| self == Outcome::WriteFailed) {
            Some(reason) => (Outcome::REFUSED, reason),
            None => (self.word(), text),
        }
    }

    /// Returns the name used in reports.
    pub fn word(self) -> &'static str {
        Outcome::WORDS[self as usize]
    }
}

wire_enum! {
    /// Reason why the root refuses a receiver.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    Refusal {
        /// Its MTU is below the root's.
        SmallMtu = 0,
        /// The free space is less than the announced size.
        NoSpace = 1,
        /// The session has started, or is full.
        Late = 2,
        /// Another receiver on the same interface is there already.
        Twin = 3,
        /// The topology file does not name it.
        NotInTopology = 4,
        /// Short frames reach it, the longest do not.
        Path = 5,
        /// The sender's list of hosts does not include it.
        NotWanted = 6,
        /// Refusal by itself, as its DEST cannot hold what is sent. Never sent.
        Declined = 7,
        /// Refusal by a relay, whose own receivers did not come. Never sent.
        Behind = 8,
    }
}

/// First words of what a relay says of its own receivers.
pub const BEHIND: &str = "behind it, ";

impl Refusal {
    pub(crate) const WORDS: [&str; 9] = [
        "MTU too small",
        "no space",
        "too late",
        "name or interface taken",
        "not in the topology",
        "smaller MTU on the way",
        "not asked for",
        "cannot hold it",
        "not ready behind it",
    ];

    /// Returns the refusal of a receiver that says why.
    pub fn by_receiver(text: &str) -> Refusal {
        if text.starts_with(BEHIND) {
            Refusal::Behind
        } else {
            Refusal::Declined
        }
    }

    /// Whether the receiver itself refuses.
    pub fn is_by_receiver(self) -> bool {
        matches!(self, Refusal::Declined | Refusal::Behind)
    }

    /// Returns the reason in two or three words.
    pub fn words(self) -> &'static str {
        Refusal::WORDS[self as usize]
    }
}

wire_enum! {
    /// Stage of an announced session.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    Stage {
        /// Waiting for receivers.
        #[default]
        Gathering = 0,
        /// Started, without further admission.
        Started = 1,
        /// Started, with late receivers still admitted.
        LateWelcome = 2,
    }
}

wire_enum! {
    /// State of a member.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    MemberState {
        /// Receiving, and not blocked.
        #[default]
        Alive = 0,
        /// Its application takes frames more slowly than they come.
        Blocked = 1,
        /// Waiting for frames.
        Starved = 2,
        /// Verification is in progress; everything has come.
        Verifying = 3,
        /// A child takes frames more slowly than they come.
        WaitsForChild = 4,
        /// Waiting for the disk; everything has come.
        Syncing = 5,
        /// Waiting for the root's confirmation; everything is verified.
        Settled = 6,
        /// The last report has been sent.
        Done = 7,
    }
}

impl MemberState {
    /// Returns the state in words that follow the host's name.
    pub fn words(self) -> &'static str {
        match self {
            MemberState::Alive => "is receiving",
            MemberState::Blocked => "waits for its disk or for the reader of its output",
            MemberState::Starved => "waits for frames",
            MemberState::Verifying => "is verifying",
            MemberState::WaitsForChild => "waits for a host behind it",
            MemberState::Syncing => "is syncing to its disk",
            MemberState::Settled => "has verified everything and waits for the verdict",
            MemberState::Done => "is done",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contents_description_reads_back_equal_and_invalid_ones_are_refused() {
        let file = FileAttributes {
            mode: 0o4600,
            modified_seconds: -7,
            modified_nanoseconds: 999_999_999,
        };
        let kinds = [
            ContentKind::Stream,
            ContentKind::File(file),
            ContentKind::Tree,
            ContentKind::Sparse(file),
        ];
        let packed = Packing::ALL.map(|packing| ContentKind::Packed(packing, file));
        let sizes = [(14, 0xe0), (15, 0xf0), (16, 0), (17, 0x10)];
        for (kind, (log2, first)) in kinds
            .into_iter()
            .chain(packed)
            .zip(sizes.into_iter().cycle())
        {
            let (mut out, chunk) = (
                BodyWriter::default(),
                ChunkSize::of_bytes(1 << log2).expect("one of them"),
            );
            kind.write(chunk, &mut out);
            let bytes = out.into_bytes();
            assert_eq!((bytes.len(), bytes[0] & 0xf0), (15, first));
            assert_eq!(
                ContentKind::read(&mut BodyReader::new(&bytes)),
                Some((kind, chunk))
            );
            for (at, wrong) in [
                (0, 7),
                (0, 255),
                (0, 0x21),
                (0, 0xd1),
                (0, 0x81),
                (1, 0x10),
                (11, 0x3c),
            ] {
                let mut bytes = bytes.clone();
                bytes[at] = wrong;
                assert_eq!(
                    ContentKind::read(&mut BodyReader::new(&bytes)),
                    None,
                    "byte {at} is {wrong}"
                );
            }
        }
    }
}
