//! Frames that somebody else has made: with the checksum that fits what they say, whatever that is.
//!
//! It is computed as docs/protocol/frames.md §3 has it, and shares no code with the engine.

use ethbcast_transport::wire::{Flags, OVERHEAD_BYTES};
use std::ops::Range;

/// Where the checksum lies in a frame: behind it is what the origin has sealed, before it what is of one hop.
pub const CHECKSUM: Range<usize> = 28..32;
const KIND_AT: usize = 17;
const FLAGS_AT: usize = 27;
const PAYLOAD_BYTES_AT: usize = 38;

/// Makes the checksum fit; nothing of what is shorter than it says it is.
pub fn make_checksum_fit(frame: &mut [u8]) {
    if frame.len() < OVERHEAD_BYTES {
        return;
    }
    let payload_bytes = u16::from_be_bytes([frame[PAYLOAD_BYTES_AT], frame[PAYLOAD_BYTES_AT + 1]]);
    let end = OVERHEAD_BYTES + usize::from(payload_bytes);
    let Some(sealed) = frame.get(CHECKSUM.end..end) else { return };
    let mut content = crc32fast::Hasher::new();
    content.update(&[frame[KIND_AT], frame[FLAGS_AT] & Flags::SEALED.0]);
    content.update(sealed);
    let mut whole = crc32fast::Hasher::new_with_initial(content.finalize());
    whole.update(&frame[..CHECKSUM.start]);
    frame[CHECKSUM].copy_from_slice(&whole.finalize().to_be_bytes());
}
