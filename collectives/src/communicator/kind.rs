//! Frame types of a communicator's control messages: the numbers 40 to 43 in the frame header ([`Kind`]).

use ethbcast_transport::wire::Kind;

/// A process of a group without a root looks for the others, or replies to one that does.
pub const CALL: Kind = Kind(40);
/// Keepalive of a member, with its state.
pub const ALIVE: Kind = Kind(41);
pub const BYE: Kind = Kind(42);
/// Statement of a member that shrinks the group to the surviving ranks.
pub const SHRINK: Kind = Kind(43);
