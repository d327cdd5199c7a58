//! What sessions and communicators share of the real host: its name, and the port they open. Like every `live` folder this one knows
//! sockets and the system; the rest of `membership` does not.

pub mod host;
mod open;

pub use open::{Opening, RingRoom, StationError, check_group};
