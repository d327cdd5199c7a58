//! Common parts of transfers and communicators on a real host: its name and the packet socket. Like
//! every `live` folder this one uses sockets and the system; the rest of `membership` does not.

pub mod host;
mod key;
mod open;

pub use key::{
    KeyError, KeyFault, UnusedKey, check_unkeyed, key_of_file, key_of_host, key_of_phrase,
    key_of_system,
};
pub use open::addresses_of;
pub use open::{Forked, Opener};
pub use open::{Opening, RingRoom, StationError, check_group};
