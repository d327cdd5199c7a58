//! Type numbers, in the frame header, of the control messages of a transfer ([`Kind`] 16–25, 29–31, 48, 51–53).

use ethbcast_transport::wire::Kind;

pub const ANNOUNCE: Kind = Kind(16);
pub const JOIN: Kind = Kind(17);
pub const REFUSE: Kind = Kind(18);
/// One part of the list of members.
pub const VIEW: Kind = Kind(19);
pub const READY: Kind = Kind(20);
/// Status report of a member; from the root: a sign of life.
pub const STATUS: Kind = Kind(21);
pub const DONE: Kind = Kind(22);
/// Reports that the root has, and whether the session is over.
pub const VERDICT: Kind = Kind(23);
pub const ABORT: Kind = Kind(24);
/// Gap that a relay cannot supply to a new child.
pub const ORPHAN: Kind = Kind(25);
pub const LEAVE: Kind = Kind(29);
/// Request for bytes of the stream, from a member to the root, or from the root to a member that
/// keeps them.
pub const FETCH: Kind = Kind(30);
/// Part of the reply to a FETCH.
pub const PIECE: Kind = Kind(31);
/// Want-bitmap of a member for a stretch of the content.
pub const NEEDS: Kind = Kind(48);
/// Liveness challenge of a member.
pub const CHALLENGE: Kind = Kind(51);
pub const RESPONSE: Kind = Kind(52);
/// Secret of the group, from the root to a receiver that has sent a join request.
pub const KEYS: Kind = Kind(53);
