//! `libethbcast`: communicators, sessions and plans for C and C++.
//!
//! Every function returns a [`Status`]; the sentence that goes with a failure is the thread's own
//! (`ethbcast_error_message`). No panic leaves a function. What a caller must hold to, it must hold to in C as well:
//! pointers are null or point to as many bytes as are said, a handle is one that this library made and has not freed,
//! texts end with a zero byte.
//!
//! The header, `include/ethbcast.h`, is what cbindgen makes of these files; a test keeps them together. All that is
//! unsafe in the doing stands in `raw`; elsewhere it is the names alone, which C must be able to read.
#![allow(unsafe_code)]
// C has no `unsafe`: the contract above is the header's.
#![allow(clippy::not_unsafe_ptr_arg_deref)]

mod communicator;
mod options;
mod plan;
mod raw;
mod session;
mod status;

pub use communicator::{Choice, Communicator};
pub use options::Options;
pub use plan::{Plan, Topology};
pub use session::Report;
pub use status::Status;
