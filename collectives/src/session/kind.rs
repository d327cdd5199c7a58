//! The kinds of a session's frames: 16–25, 29–31, 48, 51 and 52 of [`Kind`].

use ethbcast_transport::wire::Kind;

/// The root invites receivers of its group.
pub const ANNOUNCE: Kind = Kind(16);
/// A receiver asks to be a member.
pub const JOIN: Kind = Kind(17);
/// The root says no to a receiver, and why.
pub const REFUSE: Kind = Kind(18);
/// One part of the list of members.
pub const VIEW: Kind = Kind(19);
/// A member has the whole view and agrees with its digest.
pub const READY: Kind = Kind(20);
/// A member's state and progress; from the root: a sign of life.
pub const STATUS: Kind = Kind(21);
/// A member's own verdict on what it received.
pub const DONE: Kind = Kind(22);
/// Whose verdicts the root has, and whether the session is over.
pub const VERDICT: Kind = Kind(23);
/// The root gives up, and why.
pub const ABORT: Kind = Kind(24);
/// A relay cannot serve a child it was given.
pub const ORPHAN: Kind = Kind(25);
/// A receiver has ended.
pub const LEAVE: Kind = Kind(29);
/// Bytes of the stream are asked for again: by a member of the root, or by the root of a member that keeps them.
pub const FETCH: Kind = Kind(30);
/// Some of the bytes that a FETCH asked for.
pub const PIECE: Kind = Kind(31);
/// What a member lacks of a stretch of the content.
pub const NEEDS: Kind = Kind(48);
/// A member asks the root for a sign of life that is no repetition.
pub const CHALLENGE: Kind = Kind(51);
/// The root gives it.
pub const RESPONSE: Kind = Kind(52);
