//! The kinds of frames that measure: 26–28 of [`Kind`].

use ethbcast_transport::wire::Kind;

/// A frame that measures the network, or asks who is there.
pub const PROBE: Kind = Kind(26);
/// A frame that comes back.
pub const ECHO: Kind = Kind(27);
/// What arrived of a train of probes, and when.
pub const REPORT: Kind = Kind(28);
