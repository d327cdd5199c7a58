//! Handles that C programs hold: kept here while they are alive, so that a freed or foreign one is refused.

use crate::status::Failure;
use ethbcast_collectives::lock::Mutex;
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

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
pub fn of<T: Send + Sync + 'static>(handle: *const T, what: &str) -> Result<Arc<T>, Failure> {
    if handle.is_null() {
        return Err(Failure::usage(format_args!("the {what} is a null pointer: pass one")));
    }
    some(handle).ok_or_else(|| freed(what))
}

/// Returns the value of a handle; `None` for null, and for one that is not alive or of another kind.
pub fn some<T: Send + Sync + 'static>(handle: *const T) -> Option<Arc<T>> {
    let kept = ALIVE.lock().get(&handle.addr()).cloned();
    kept?.downcast().ok()
}

/// Takes a handle out of those that are alive; returns its value, `None` for null.
pub fn free<T: Send + Sync + 'static>(handle: *const T, what: &str) -> Result<Option<Arc<T>>, Failure> {
    if handle.is_null() {
        return Ok(None);
    }
    let value = some(handle).ok_or_else(|| freed(what))?;
    let mut alive = ALIVE.lock();
    // Of two threads that free it at once, one gets the error.
    let taken = alive.remove(&handle.addr()).ok_or_else(|| freed(what));
    drop(alive);
    taken.map(|_| Some(value))
}

fn freed(what: &str) -> Failure {
    Failure::usage(format_args!("the {what} is none: it was freed, or is no {what} at all"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_alive_until_it_is_freed_and_of_one_kind() {
        let (number, text) = (keep(7_u32), keep(String::from("seven")));
        assert_eq!(of(number, "number").ok().as_deref(), Some(&7));
        assert!(of(text.cast::<u32>(), "number").is_err() && of(std::ptr::null::<u32>(), "number").is_err());
        assert!(free(text.cast::<u32>(), "number").is_err() && some(text).is_some(), "it is no number");
        let used = of(number, "number").ok();
        assert_eq!(free(number, "number").ok().flatten().as_deref(), Some(&7));
        assert!(of(number, "number").is_err() && free(number, "number").is_err());
        assert_eq!(used.as_deref(), Some(&7), "who uses it keeps it");
        assert!(free(std::ptr::null::<u32>(), "number").is_ok_and(|none| none.is_none()));
        assert!(free(text, "text").is_ok());
    }
}
