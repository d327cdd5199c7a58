//! What a frame carries: a number that belongs to whoever defined it.

/// What a frame carries, as it stands in the header.
///
/// The wire carries any kind and asks nothing about it; the number's owner declares it as a constant. 1–15 are streams'
/// and 32–39 messages', both below; 16–31 and 48–55 sessions' and 40–47 communicators', declared there; 128–255 are
/// free for the machines of others. No number means two things: who looks at frames tells them apart by it alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(pub u8);

impl Kind {
    /// One frame of a stream.
    pub const DATA: Kind = Kind(1);
    /// A reader's cursor, credit and holes.
    pub const ACK: Kind = Kind(2);
    /// The last sequence number sent, and a request for an acknowledgement.
    pub const HEARTBEAT: Kind = Kind(3);
    /// A parity frame of a block of a stream's frames.
    pub const PARITY: Kind = Kind(4);
    /// A part of a message that is pushed: sent before anybody asked for it.
    pub const PUSH: Kind = Kind(32);
    /// A part of a message that was pulled.
    pub const PULL: Kind = Kind(33);
    /// A word about a message or the room for messages: granted, refused, withdrawn; with an acknowledgement.
    pub const NOTE: Kind = Kind(34);
    /// Which frames of messages and notes have arrived.
    pub const RECEIPT: Kind = Kind(35);
    /// The last sequence number of messages and notes sent, and a request for a receipt.
    pub const ASK: Kind = Kind(36);
}
