//! Sessions whose receivers have some of the content already: missing bytes alone are sent, once,
//! and bytes that a single receiver lacks are fetched.

mod prices;
mod scene;
mod troubles;
