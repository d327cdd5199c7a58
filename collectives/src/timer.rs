//! What the timers of groups are for.

use ethbcast_transport::Timer;

/// An invitation to join, or the wait for one.
pub const ANNOUNCE: Timer = Timer("announce");
/// A request to join that is unanswered, or the wait for those who ask.
pub const JOIN: Timer = Timer("join");
/// A view not yet confirmed by all members.
pub const VIEW: Timer = Timer("view");
/// A member's periodic report to the root, or the root's sign of life.
pub const STATUS: Timer = Timer("status");
/// A peer about to be declared dead.
pub const DEAD: Timer = Timer("silence");
/// A report or verdict that is repeated.
pub const VERDICT: Timer = Timer("verdict");
/// The last moments of a receiver that leaves before the end.
pub const LEAVE: Timer = Timer("leaving");
