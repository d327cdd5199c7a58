//! The kinds of frames that ask who listens: 49 and 50 of [`Kind`].

use ethbcast_transport::wire::Kind;

/// Who listens?
pub const WHO: Kind = Kind(49);
/// A receiver does: what it says of itself.
pub const HERE: Kind = Kind(50);
