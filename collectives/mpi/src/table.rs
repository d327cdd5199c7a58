//! Interface of a back end: the Rust side of `c/backend.h`.

use std::ffi::{CStr, c_char, c_int, c_void};

pub const VERSION: u32 = 2;

/// A handle of the MPI's, an address or a count, as the calling convention passes it.
pub type Word = usize;

/// Result of [`Table::look`]: the state of a communicator.
pub const KNOWN: c_int = 0;
pub const NEW: c_int = 1;
pub const NULL: c_int = 2;
pub const NOT_NOW: c_int = 3;
pub const INTER: c_int = 4;

/// Kind of failure passed to [`Table::fail`].
pub const OTHER: c_int = 0;
pub const TRUNCATED: c_int = 1;

/// Return value of a watched call that was ended; no MPI has an error of this number.
pub const GIVEN_UP: c_int = -1;

/// Callback of a watched call; 0 ends the call.
pub type GoesOn = extern "C" fn(state: *const c_void) -> c_int;

/// Functions of a back end; `c/backend.h` describes each. A function that returns an int returns 0
/// on success, unless it answers a question.
#[repr(C)]
pub struct Table {
    pub version: u32,
    pub(crate) library: *const c_char,
    pub start: extern "C" fn(closed: extern "C" fn(state: *mut c_void)) -> c_int,
    pub world_size: extern "C" fn() -> c_int,
    pub is_of_world: extern "C" fn(comm: Word) -> c_int,
    pub look: extern "C" fn(comm: Word, state: &mut *mut c_void, rank: &mut c_int, size: &mut c_int) -> c_int,
    pub keep: extern "C" fn(comm: Word, state: *mut c_void) -> c_int,
    pub type_of: extern "C" fn(datatype: Word, bytes: &mut i64, extent: &mut i64, is_plain: &mut c_int) -> c_int,
    pub pack: extern "C" fn(comm: Word, datatype: Word, count: i64, from: Word, to: *mut u8, bytes: i64) -> c_int,
    pub unpack: extern "C" fn(comm: Word, datatype: Word, count: i64, to: Word, from: *const u8, bytes: i64) -> c_int,
    pub is_in_place: extern "C" fn(address: Word) -> c_int,
    pub is_bottom: extern "C" fn(address: Word) -> c_int,
    pub allgather: extern "C" fn(comm: Word, own: *const u8, all: *mut u8, bytes: c_int) -> c_int,
    pub gather: extern "C" fn(comm: Word, own: *const u8, all: *mut u8, bytes: c_int, root: c_int) -> c_int,
    pub scatter: extern "C" fn(comm: Word, all: *const u8, own: *mut u8, bytes: c_int, root: c_int) -> c_int,
    pub least: extern "C" fn(comm: Word, own: c_int, least: &mut c_int) -> c_int,
    pub broadcast: extern "C" fn(comm: Word, buffer: *mut u8, bytes: c_int, root: c_int) -> c_int,
    pub barrier: extern "C" fn(comm: Word) -> c_int,
    pub watched_broadcast: extern "C" fn(
        comm: Word,
        buffer: *mut u8,
        bytes: c_int,
        root: c_int,
        goes_on: GoesOn,
        state: *const c_void,
    ) -> c_int,
    pub watched_barrier: extern "C" fn(comm: Word, goes_on: GoesOn, state: *const c_void) -> c_int,
    pub split: extern "C" fn(comm: Word, color: c_int, key: c_int, part: &mut Word) -> c_int,
    pub release: extern "C" fn(comm: Word) -> c_int,
    pub progress: extern "C" fn(),
    pub fail: extern "C" fn(comm: Word, failure: c_int) -> c_int,
    pub comm_of_fortran: extern "C" fn(handle: c_int) -> Word,
    pub type_of_fortran: extern "C" fn(handle: c_int) -> Word,
}

// SAFETY: a table is a constant of the back end, and the MPI's functions may be called from where the program itself
// has called one.
unsafe impl Sync for Table {}
// SAFETY: as above.
unsafe impl Send for Table {}

/// Converts the code of an MPI function; `MPI_SUCCESS` is 0 in every MPI.
pub fn done(code: c_int) -> Result<(), c_int> {
    if code == 0 { Ok(()) } else { Err(code) }
}

impl Table {
    pub fn library(&self) -> &str {
        // SAFETY: a back end of this version has a constant text here.
        unsafe { CStr::from_ptr(self.library) }.to_str().unwrap_or_default()
    }
}
