//! Frames made by others, with a valid checksum for any content.
//!
//! The checksum is computed as docs/protocol/frames.md §3 defines it, and shares no code with the engine.

use ethbcast_transport::wire::{Flags, OVERHEAD_BYTES};
use std::ops::Range;

/// Position of the checksum in a frame: the bytes behind it are sealed by the origin, those before
/// it belong to one hop.
pub const CHECKSUM: Range<usize> = 28..32;
const KIND_AT: usize = 17;
const FLAGS_AT: usize = 27;
const PAYLOAD_BYTES_AT: usize = 38;

/// Sets a valid checksum. A frame shorter than its stated length is left unchanged.
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
