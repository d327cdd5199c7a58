//! Automatic repeat request (ARQ): acknowledgement and retransmission logic that all senders and
//! receivers share.
//!
//! A sender of numbered frames keeps the [`echo`] of its timestamps, validates acknowledgements and
//! detects losses ([`loss_detection`]), and decides when to probe ([`probe_timer`]) and how much
//! may be in flight ([`window`]). A receiver keeps the frames that have [`arrived`], its sender's
//! timestamps as far as they are plausible, and the [`receipt`] that it owes. Where streams and
//! messages differ, the difference is a named parameter.

pub mod arrived;
pub mod echo;
pub mod loss_detection;
pub mod probe_timer;
pub mod receipt;
pub mod stamp;
pub mod window;
