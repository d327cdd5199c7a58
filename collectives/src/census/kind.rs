//! Numbers of the frame types of the query for listening receivers: 49 and 50 of [`Kind`].

use ethbcast_transport::wire::Kind;

/// Query for receivers.
pub const WHO: Kind = Kind(49);
/// Reply of a receiver, with its description.
pub const HERE: Kind = Kind(50);
