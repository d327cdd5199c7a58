//! The kinds of a communicator's frames: 40–42 of [`Kind`].

use ethbcast_transport::wire::Kind;

/// A process of a group without a root looks for the others, or answers one that does.
pub const CALL: Kind = Kind(40);
/// A member of such a group is there; what it is busy with.
pub const ALIVE: Kind = Kind(41);
/// It has left.
pub const BYE: Kind = Kind(42);
