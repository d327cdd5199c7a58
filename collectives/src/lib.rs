//! Who is there, and who sends to whom: sessions, communicators and measurements on streams over Ethernet frames.

pub mod communicator;
pub mod measure;
pub mod membership;
mod preset;
pub mod session;
mod timer;

pub use preset::{Preset, UnknownPreset};
