//! Frames of older protocol versions (1 to 5): parsed just enough to name the hosts that send them.

use super::{ETHERNET_BYTES, OVERHEAD_BYTES};
use std::ops::Range;

const LAST_VERSION: u8 = 5;
const VERSION_AT: usize = ETHERNET_BYTES + 2;
const PAYLOAD_BYTES: Range<usize> = ETHERNET_BYTES + 14..ETHERNET_BYTES + 16;
const CHECKSUM: Range<usize> = OVERHEAD_BYTES - 4..OVERHEAD_BYTES;

/// Returns the payload of an intact frame of an older version. Its checksum was CRC-32 of both
/// headers, with the checksum's own bytes as zero, and the payload.
pub fn older_payload(frame: &[u8]) -> Option<&[u8]> {
    let (headers, rest) = frame.split_first_chunk::<OVERHEAD_BYTES>()?;
    let known = (1..=LAST_VERSION).contains(&headers[VERSION_AT]);
    let payload_bytes = u16::from_be_bytes([headers[PAYLOAD_BYTES.start], headers[PAYLOAD_BYTES.start + 1]]);
    let payload = rest.get(..payload_bytes.into()).filter(|_| known)?;
    let mut hasher = crc32fast::Hasher::new();
    [&headers[..CHECKSUM.start], &[0; 4], payload].into_iter().for_each(|part| hasher.update(part));
    (headers[CHECKSUM] == hasher.finalize().to_be_bytes()).then_some(payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> Vec<u8> {
        let ethernet = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xB5];
        let header = [[0x45, 0x42, 5, 17, 0x5E, 0x55, 0, 1], [0, 0, 0xFF, 0xFF, 0, 0, 0, 3], [0; 8], [0; 8]].concat();
        let mut frame = [&ethernet[..], &header, b"old"].concat();
        frame[CHECKSUM].copy_from_slice(&CHECKSUM_THEN);
        frame
    }

    const CHECKSUM_THEN: [u8; 4] = [0xA9, 0x54, 0x8C, 0x06];

    #[test]
    fn whole_frames_of_older_versions_are_recognised() {
        let mut padded = frame();
        padded.extend([0xAA; 10]);
        assert_eq!(older_payload(&padded), Some(&b"old"[..]));
        assert_eq!(older_payload(&frame()[..48]), None, "cut");
        for at in [0, VERSION_AT, PAYLOAD_BYTES.end - 1, CHECKSUM.start, OVERHEAD_BYTES] {
            let mut damaged = frame();
            damaged[at] ^= 8;
            assert_eq!(older_payload(&damaged), None, "byte {at}");
        }
    }
}
