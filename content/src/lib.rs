//! Directories as one stream, and back.
//!
//! A session carries bytes and does not ask what they are. This crate makes them of a directory: a manifest of all that
//! is in it, and the data of its files one after the other, so that many small files go at the rate of a large one. At
//! the other end a storage builds the same directory beside DEST and shows it whole.

pub mod command;
pub mod dest;
pub mod image;
pub mod layout;
pub mod manifest;
pub mod name;
pub mod page_cache;
pub mod replay;
pub mod source;
pub mod sparse;
pub mod storage;
pub mod syncer;
mod trouble;
pub mod unchanged;
pub mod unfinished;

pub use trouble::trouble;
