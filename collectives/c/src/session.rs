//! Sessions for C: bytes from one host to all others, verified.

use crate::options::Options;
use crate::raw::{bytes, bytes_mut, file, text};
use crate::status::{Failure, Status, call};
use ethbcast_collectives::session::live::{Content, Room};
use ethbcast_collectives::session::{ReceiveReport, SendReport, Session};
use std::ffi::{c_char, c_int, c_void};

/// The result of a session.
#[repr(C)]
#[derive(Default)]
pub struct Report {
    /// Bytes that were sent or received.
    pub bytes: u64,
    /// Seconds from the first data frame to the last verdict.
    pub seconds: f64,
    /// BLAKE3 of them.
    pub blake3: [u8; 32],
    /// At a sender: the receivers that have verified them.
    pub receivers: u32,
}

/// Sends what the file descriptor has from its present position on to the receivers of `group`, and returns when every
/// one of them has verified it. The descriptor stays open. `options` says for whom to wait (receivers, min-receivers or
/// hosts); `report` may be null.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_send_fd(
    group: *const c_char,
    descriptor: c_int,
    options: Option<&Options>,
    report: Option<&mut Report>,
) -> Status {
    call(|| {
        let (group, options) = (text(group, "group's name")?, Options::send(options)?);
        sent(Session::send_file(group, file(descriptor)?, &options)?, report)
    })
}

/// Sends a buffer, like `ethbcast_send_fd`.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_send_buffer(
    group: *const c_char,
    data: *const c_void,
    length: usize,
    options: Option<&Options>,
    report: Option<&mut Report>,
) -> Status {
    call(|| {
        let (group, options) = (text(group, "group's name")?, Options::send(options)?);
        let content = Content::of(bytes(data, length)?).sized(Some(length as u64));
        sent(Session::send(group, content, &options)?, report)
    })
}

/// Receives what is sent to `group` and writes it to the file descriptor as it comes, which stays open. Only
/// ETHBCAST_STATUS_OK says that the bytes are all there and are the sender's. `options` and `report` may be null.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_receive_fd(
    group: *const c_char,
    descriptor: c_int,
    options: Option<&Options>,
    report: Option<&mut Report>,
) -> Status {
    call(|| {
        let (group, options) = (text(group, "group's name")?, Options::receive(options)?);
        received(&Session::receive(group, file(descriptor)?, &options)?, report)
    })
}

/// Receives into a buffer; a sender that has more bytes is refused.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_receive_buffer(
    group: *const c_char,
    buffer: *mut c_void,
    length: usize,
    options: Option<&Options>,
    report: Option<&mut Report>,
) -> Status {
    call(|| {
        let (group, mut options) = (text(group, "group's name")?, Options::receive(options)?);
        options.free_bytes = options.free_bytes.min(length as u64);
        received(&Session::receive_into(group, Room::of(bytes_mut(buffer, length)?), &options)?, report)
    })
}

fn sent(from: SendReport, report: Option<&mut Report>) -> Result<(), Failure> {
    if let Some(report) = report {
        let blake3 = from.trailer.map_or([0; 32], |trailer| trailer.digest);
        let (seconds, receivers) = (from.took.as_secs_f64(), from.verified() as u32);
        *report = Report { bytes: from.bytes(), seconds, blake3, receivers };
    }
    Ok(())
}

fn received(from: &ReceiveReport, report: Option<&mut Report>) -> Result<(), Failure> {
    if let Some(report) = report {
        let blake3 = from.verdict.as_ref().map_or([0; 32], |verdict| verdict.digest);
        *report = Report { bytes: from.bytes(), seconds: from.took.as_secs_f64(), blake3, receivers: 0 };
    }
    Ok(())
}
