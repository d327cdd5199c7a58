//! C and C++ library `libethbcast`: one-to-many transfers, MPI-like communicators, and broadcast
//! trees.
//!
//! Every function returns a [`Status`]; the message of a failure is kept per thread
//! (`ethbcast_error_message`). Panics never cross the boundary. Callers must keep these promises in
//! C as well: pointers are null or point to as many bytes as stated, texts end with a zero byte. A
//! handle that this library has freed is refused.
//!
//! cbindgen generates the header, `include/ethbcast.h`, from these files; a test compares them.
//! Unsafe operations are in `raw`; elsewhere only exported names are unsafe.
#![allow(unsafe_code)]
// C has no `unsafe`: the header states the contract above.
#![allow(clippy::not_unsafe_ptr_arg_deref)]

mod communicator;
mod plan;
mod raw;
mod session;
mod status;

pub use communicator::{Choice, Communicator};
pub use plan::{Plan, Topology};
pub use session::{Options, Report};
pub use status::Status;
