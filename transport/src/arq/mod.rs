//! Automatic repeat request (ARQ): acknowledgement and retransmission logic that all senders and
//! receivers share.
//!
//! A sender of numbered frames keeps the [`echo`] of its stamps, validates acknowledgements and
//! detects losses and decides when to probe ([`loss_detection`]) and how much may be in flight
//! ([`window`]). A receiver keeps the frames that have arrived, its sender's stamps as far as they
//! are plausible, and the acknowledgement that it owes ([`receipt`]). Where streams
//! and messages differ, the difference is a named parameter.

pub mod echo;
pub mod loss_detection;
pub mod receipt;
pub mod stamp;
pub mod window;
