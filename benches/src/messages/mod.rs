//! Messages between two hosts of a lab: how long they take and how many pass, beside what the kernel alone needs for
//! the same frames.
//!
//! `hop`: the two hosts; `place`: their CPUs; `plain`: a packet socket without anything around it; `post`: a mailbox
//! with blocking calls; `ping_pong` and `bulk`: what is measured.

pub mod bulk;
pub mod hop;
pub mod ping_pong;
pub mod place;
pub mod plain;
pub mod post;

/// Content that differs from message to message and from place to place.
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
