//! Content of transfers: files, directories and devices as a stream, and their storage at
//! receivers.
//!
//! A session transports bytes of any kind. This crate turns a directory into bytes: a manifest of
//! all its entries, and the data of its files one after the other, so that many small files go at
//! the rate of a large one. At the receiver a storage builds the directory beside DEST and renames
//! it into place when it is complete.
//!
//! A program sends and stores as the command-line tool does:
//!
//! ```no_run
//! use ethbcast_collectives::session::{RecvOptions, SendOptions, Session};
//! use ethbcast_content::dest::{Arrival, Dest, Handling};
//! use ethbcast_content::source::{Opened, Opening, Selection};
//! use ethbcast_content::storage::Target;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // On the sending host:
//! let models = Opened::tree(&["/data/models".into()], &Selection::default())?;
//! Session::send("models", models.content, &SendOptions::new().receivers(7))?;
//! let image = Opened::file("/dev/sdb".as_ref(), Opening::default())?;
//! Session::send("image", image.content, &SendOptions::new().receivers(7))?;
//! // On each of the seven receivers:
//! let dest = Dest::resolve("/data/models".as_ref(), false)?;
//! let target = Target { dest: "/data/models".into(), ..Target::default() };
//! let (arrival, landed) = Arrival::new(dest, target, Handling::default());
//! Session::receive_into("models", arrival, &RecvOptions::new())?;
//! println!("{:?}", landed.path());
//! let dest = Dest::resolve("/dev/sdb".as_ref(), true)?;
//! let options = RecvOptions { free_bytes: dest.free_bytes(), ..RecvOptions::new() };
//! let (arrival, _) = Arrival::new(dest, Target::default(), Handling { read_back: true, ..Handling::default() });
//! Session::receive_into("image", arrival, &options)?;
//! # Ok(()) }
//! ```

#![expect(missing_docs, reason = "names that say it need no comment")]

// Modules and names with `#[doc(hidden)]` are for the crates of this workspace, without promise of
// stability.
pub mod command;
pub mod dest;
pub mod disk;
pub mod have_set;
mod hidden_names;
#[doc(hidden)]
pub mod image;
#[doc(hidden)]
pub mod journal;
#[doc(hidden)]
pub mod layout;
#[doc(hidden)]
pub mod manifest;
mod mounts;
#[doc(hidden)]
pub mod name;
pub mod source;
#[doc(hidden)]
pub mod sparse;
pub mod storage;
#[doc(hidden)]
pub mod syncer;
mod trial;

#[doc(hidden)]
pub use disk::trouble;
