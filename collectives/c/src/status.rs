//! Errors of the C interface: status codes, and the message of each thread's last error.

use ethbcast_collectives::{ErrorKind, NamedOptions, spell_options};
use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The result of a call. Up to 5 the numbers are the exit codes of the program ethbcast.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Success.
    Ok = 0,
    /// Some receivers lack the bytes, or the group's work has failed at others.
    SomeFailed = 1,
    /// An argument, a file or an option is invalid, or contradicts that of other hosts.
    Usage = 2,
    /// Timed out: nobody was there, some did not come, or the time was up.
    Nobody = 3,
    /// The system: interface, permission, memory, a file.
    System = 4,
    /// The bytes are not the sender's.
    Integrity = 5,
    /// The ranks' calls differ.
    Mismatch = 6,
    /// A rank is silent, cut off or has left.
    Gone = 7,
    /// A message, or a text, is longer than the buffer for it.
    TooLong = 8,
    /// The call was interrupted.
    Cancelled = 9,
    /// A fault of this library: please report it.
    Internal = 10,
}

pub struct Failure {
    status: Status,
    text: String,
}

impl Failure {
    pub fn new(status: Status, text: impl Display) -> Failure {
        Failure {
            status,
            text: text.to_string(),
        }
    }

    pub fn usage(text: impl Display) -> Failure {
        Failure::new(Status::Usage, text)
    }
}

impl From<ErrorKind> for Status {
    fn from(kind: ErrorKind) -> Status {
        match kind {
            ErrorKind::SomeFailed => Status::SomeFailed,
            ErrorKind::Usage => Status::Usage,
            ErrorKind::Nobody => Status::Nobody,
            ErrorKind::Integrity => Status::Integrity,
            ErrorKind::Mismatch => Status::Mismatch,
            ErrorKind::Gone => Status::Gone,
            ErrorKind::TooLong => Status::TooLong,
            ErrorKind::Cancelled => Status::Cancelled,
            _ => Status::System,
        }
    }
}

impl From<ethbcast_collectives::OptionError> for Failure {
    fn from(error: ethbcast_collectives::OptionError) -> Failure {
        Failure::usage(error)
    }
}

impl From<ethbcast_collectives::communicator::Error> for Failure {
    fn from(error: ethbcast_collectives::communicator::Error) -> Failure {
        Failure::new(error.kind().into(), error)
    }
}

impl From<ethbcast_collectives::session::Error> for Failure {
    fn from(error: ethbcast_collectives::session::Error) -> Failure {
        Failure::new(error.kind().into(), error)
    }
}

fn option(name: &str) -> String {
    match name {
        "group" => "the argument group".to_owned(),
        _ if NamedOptions::names().any(|known| known == name) => format!("the option {name}"),
        _ => format!("the program's --{name}"),
    }
}

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::default();
}

/// Runs a call. A failure or a panic becomes a status, and its text this thread's message.
pub fn call(work: impl FnOnce() -> Result<(), Failure>) -> Status {
    spell_options(option);
    let failure = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return Status::Ok,
        Ok(Err(failure)) => failure,
        Err(panic) => Failure::new(
            Status::Internal,
            format!("a fault of ethbcast: {}", words(&*panic)),
        ),
    };
    let text = CString::new(failure.text.replace('\0', "\u{fffd}")).unwrap_or_default();
    MESSAGE.with(|message| message.replace(text));
    failure.status
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("it panicked without a message")
}

/// Returns the message of the last failed call in this thread: one sentence that says what to do,
/// in UTF-8; empty if none has failed. It stays until the next failure in this thread.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_error_message() -> *const c_char {
    MESSAGE.with(|message| message.borrow().as_ptr())
}

/// The name of a status, such as "nobody"; "unknown" for any other number.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_status_name(status: i32) -> *const c_char {
    const NAMES: [&CStr; 11] = [
        c"ok",
        c"some failed",
        c"usage",
        c"nobody",
        c"system",
        c"integrity",
        c"mismatch",
        c"gone",
        c"too long",
        c"cancelled",
        c"internal",
    ];
    let name = usize::try_from(status)
        .ok()
        .and_then(|status| NAMES.get(status));
    name.copied().unwrap_or(c"unknown").as_ptr()
}

/// The library's version, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
