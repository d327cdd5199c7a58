//! Type numbers, in the frame header, of the messages that measure a network ([`Kind`] 26–28).

use ethbcast_transport::wire::Kind;

/// A frame that measures the network, or invites hosts to reply.
pub const PROBE: Kind = Kind(26);
/// A frame that comes back.
pub const ECHO: Kind = Kind(27);
/// Count and times of a received train.
pub const REPORT: Kind = Kind(28);
