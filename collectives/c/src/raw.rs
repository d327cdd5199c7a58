//! Conversion of C pointers and lengths to Rust slices and strings, checked as far as possible. The
//! crate's description says what callers must guarantee.

use crate::status::{Failure, Status};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fs::File;
use std::os::fd::BorrowedFd;

pub fn there<T>(handle: Option<T>, what: &str) -> Result<T, Failure> {
    handle.ok_or_else(|| Failure::usage(format_args!("the {what} is a null pointer: pass one")))
}

pub fn text<'a>(text: *const c_char, what: &str) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(Failure::usage(format_args!("the {what} is a null pointer: pass a text")));
    }
    // SAFETY: it is not null, and the caller has promised that a text ends with a zero byte and
    // outlives the call.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| Failure::usage(format_args!("the {what} is not valid UTF-8: pass a text that is")))
}

/// Returns bytes for reading; a null pointer stands for none.
pub fn bytes<'a>(data: *const c_void, bytes: usize) -> Result<&'a [u8], Failure> {
    check(data, bytes)?;
    if bytes == 0 {
        return Ok(&[]);
    }
    // SAFETY: it is not null and not too long; the caller has promised that this many bytes are
    // there, and unchanged until the call returns.
    Ok(unsafe { std::slice::from_raw_parts(data.cast(), bytes) })
}

pub fn bytes_mut<'a>(data: *mut c_void, bytes: usize) -> Result<&'a mut [u8], Failure> {
    check(data, bytes)?;
    if bytes == 0 {
        return Ok(&mut []);
    }
    // SAFETY: as above, and the caller has promised exclusive use until the call returns.
    Ok(unsafe { std::slice::from_raw_parts_mut(data.cast(), bytes) })
}

fn check(data: *const c_void, bytes: usize) -> Result<(), Failure> {
    if data.is_null() && bytes > 0 {
        return Err(Failure::usage(format_args!("{bytes} bytes at a null pointer: pass where they are")));
    }
    if isize::try_from(bytes).is_err() {
        return Err(Failure::usage(format_args!("no buffer has {bytes} bytes: pass its length")));
    }
    Ok(())
}

/// Duplicates a descriptor; the original stays the caller's.
pub fn file(descriptor: c_int) -> Result<File, Failure> {
    if descriptor < 0 {
        return Err(Failure::usage(format_args!("{descriptor} is no file descriptor: pass one that is open")));
    }
    // SAFETY: it is not -1, and it is borrowed for the one call that copies it.
    let copied = unsafe { BorrowedFd::borrow_raw(descriptor) }.try_clone_to_owned();
    let system = |error| Failure::new(Status::System, format_args!("cannot use file descriptor {descriptor}: {error}"));
    copied.map(File::from).map_err(system)
}

/// Pointer passed through to the caller's callback, from any thread.
#[derive(Clone, Copy)]
pub struct UserData(pub *mut c_void);

// SAFETY: this library never dereferences it; the header states that the callback is called from
// another thread of the session.
unsafe impl Send for UserData {}
// SAFETY: as above.
unsafe impl Sync for UserData {}
