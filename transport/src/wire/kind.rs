//! Frame types, numbered in one byte of the header.

/// Kind of a frame, as in the header.
///
/// The wire format carries any kind; the owner of a number declares it as a constant. 1–15 are
/// streams' and 32–39 messages', both below; 16–31 and 48–55 sessions' and 40–47 communicators',
/// declared there; 128–255 are free for other machines. Each number has one meaning, so that tools
/// can decode a frame by its kind alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(pub u8);

impl Kind {
    /// One frame of a stream.
    pub const DATA: Kind = Kind(1);
    /// Acknowledgement: a reader's cursor, credit and holes.
    pub const ACK: Kind = Kind(2);
    /// Last sequence number sent, and a request for an acknowledgement.
    pub const HEARTBEAT: Kind = Kind(3);
    /// Parity frame of a block of a stream's frames.
    pub const PARITY: Kind = Kind(4);
    /// Pushed part of a message, sent without a grant.
    pub const PUSH: Kind = Kind(32);
    /// Pulled part of a message, sent after a grant.
    pub const PULL: Kind = Kind(33);
    /// Control message about a message or the room for messages: grant, refusal, withdrawal; with
    /// an acknowledgement.
    pub const NOTE: Kind = Kind(34);
    /// Acknowledgement of frames of messages and notes.
    pub const RECEIPT: Kind = Kind(35);
    /// Last sequence number of messages and notes sent, and a request for a receipt.
    pub const ASK: Kind = Kind(36);
}
