//! Messages between two hosts of a lab: latency and throughput, beside the kernel's own costs for
//! these frames.
//!
//! `hop`: the two hosts; `place`: their CPUs; `plain`: a bare packet socket; `post`: a mailbox with
//! blocking calls; `ping_pong` and `bulk`: the measurements.

pub mod bulk;
pub mod hop;
pub mod ping_pong;
pub mod place;
pub mod plain;
pub mod post;

/// Returns content that differs from message to message and from place to place.
pub fn content(number: u64, bytes: usize) -> Vec<u8> {
    let mut word = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
        (word ^ word >> 29).to_le_bytes()
    };
    let mut content = Vec::with_capacity(bytes + 8);
    while content.len() < bytes {
        content.extend(next());
    }
    content.truncate(bytes);
    content
}
