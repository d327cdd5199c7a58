//! Type numbers, in the frame header, of the messages that find waiting receivers ([`Kind`] 49 and 50).

use ethbcast_transport::wire::Kind;

/// Query for receivers.
pub const WHO: Kind = Kind(49);
/// Reply of a receiver, with its description.
pub const HERE: Kind = Kind(50);
