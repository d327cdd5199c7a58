//! Automatic repeat request: what every reliable sender and receiver here decides by evidence.
//!
//! A sender of numbered frames keeps the [`echo`] of its stamps, judges what an acknowledgement can say and proves
//! ([`evidence`]), and knows when to ask ([`question`]) and how much may be in flight ([`window`]). A receiver keeps
//! what has [`arrived`], its sender's stamps as far as they can be true ([`sender_clock`]), and the [`receipt`] that it
//! owes. Where streams and messages differ, the difference is a named parameter.

pub mod arrived;
pub mod bits;
pub mod disorder;
pub mod echo;
pub mod evidence;
pub mod question;
pub mod receipt;
pub mod round_trip;
pub mod rtt;
pub mod sender_clock;
pub mod stamp;
pub mod window;
