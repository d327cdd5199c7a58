//! Conversion of C pointers and lengths to Rust slices, strings and handles, checked as far as
//! possible. The crate's description says what callers must guarantee. Handles are kept here while
//! they are alive, so that a freed or foreign one is refused.

use crate::status::{Failure, Status};
use ethbcast_collectives::lock::Mutex;
use std::any::Any;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fs::File;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

pub fn there<T>(handle: Option<T>, what: &str) -> Result<T, Failure> {
    handle.ok_or_else(|| Failure::usage(format_args!("the {what} is a null pointer: pass one")))
}

pub fn text<'a>(text: *const c_char, what: &str) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(Failure::usage(format_args!(
            "the {what} is a null pointer: pass a text"
        )));
    }
    // SAFETY: it is not null, and the caller has promised that a text ends with a zero byte and
    // outlives the call.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| {
        Failure::usage(format_args!(
            "the {what} is not valid UTF-8: pass a text that is"
        ))
    })
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
        return Err(Failure::usage(format_args!(
            "{bytes} bytes at a null pointer: pass where they are"
        )));
    }
    if isize::try_from(bytes).is_err() {
        return Err(Failure::usage(format_args!(
            "no buffer has {bytes} bytes: pass its length"
        )));
    }
    Ok(())
}

/// Duplicates a descriptor; the original stays the caller's.
pub fn file(descriptor: c_int) -> Result<File, Failure> {
    if descriptor < 0 {
        return Err(Failure::usage(format_args!(
            "{descriptor} is no file descriptor: pass one that is open"
        )));
    }
    // SAFETY: it is not -1, and it is borrowed for the one call that copies it.
    let copied = unsafe { BorrowedFd::borrow_raw(descriptor) }.try_clone_to_owned();
    let system = |error| {
        Failure::new(
            Status::System,
            format_args!("cannot use file descriptor {descriptor}: {error}"),
        )
    };
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

type Handle = Arc<dyn Any + Send + Sync>;

/// All handles that are alive, by their addresses. The memory of a freed one is never touched.
static ALIVE: Mutex<BTreeMap<usize, Handle>> = Mutex::new(BTreeMap::new());

/// Keeps a value until it is freed; returns its address.
pub fn keep<T: Send + Sync + 'static>(value: T) -> *mut T {
    let kept = Arc::new(value);
    let handle = Arc::as_ptr(&kept).cast_mut();
    ALIVE.lock().insert(handle.addr(), kept);
    handle
}

/// Returns the value of a handle, which stays in memory while it is used.
pub fn handle<T: Send + Sync + 'static>(handle: *const T, what: &str) -> Result<Arc<T>, Failure> {
    if handle.is_null() {
        return Err(Failure::usage(format_args!(
            "the {what} is a null pointer: pass one"
        )));
    }
    handle_or_none(handle).ok_or_else(|| freed(what))
}

/// Returns the value of a handle; `None` for null, and for one that is not alive or of another
/// kind.
pub fn handle_or_none<T: Send + Sync + 'static>(handle: *const T) -> Option<Arc<T>> {
    let kept = ALIVE.lock().get(&handle.addr()).cloned();
    kept?.downcast().ok()
}

/// Takes a handle out of those that are alive; returns its value, `None` for null.
pub fn free<T: Send + Sync + 'static>(
    handle: *const T,
    what: &str,
) -> Result<Option<Arc<T>>, Failure> {
    if handle.is_null() {
        return Ok(None);
    }
    let value = handle_or_none(handle).ok_or_else(|| freed(what))?;
    let mut alive = ALIVE.lock();
    // Of two threads that free it at once, one gets the error.
    let taken = alive.remove(&handle.addr()).ok_or_else(|| freed(what));
    drop(alive);
    taken.map(|_| Some(value))
}

fn freed(what: &str) -> Failure {
    Failure::usage(format_args!(
        "the {what} is none: it was freed, or is no {what} at all"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_alive_until_it_is_freed_and_of_one_kind() {
        let (number, text) = (keep(7_u32), keep(String::from("seven")));
        assert_eq!(handle(number, "number").ok().as_deref(), Some(&7));
        assert!(
            handle(text.cast::<u32>(), "number").is_err()
                && handle(std::ptr::null::<u32>(), "number").is_err()
        );
        assert!(
            free(text.cast::<u32>(), "number").is_err() && handle_or_none(text).is_some(),
            "it is no number"
        );
        let used = handle(number, "number").ok();
        assert_eq!(free(number, "number").ok().flatten().as_deref(), Some(&7));
        assert!(handle(number, "number").is_err() && free(number, "number").is_err());
        assert_eq!(used.as_deref(), Some(&7), "who uses it keeps it");
        assert!(free(std::ptr::null::<u32>(), "number").is_ok_and(|none| none.is_none()));
        assert!(free(text, "text").is_ok());
    }
}
