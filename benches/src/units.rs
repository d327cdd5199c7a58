//! Sizes and times on the command line of a bench and in its tables.

use ethbcast_transport::wire::{HEADER_BYTES, OVERHEAD_BYTES};

/// Bytes of a message that one frame carries at the lab's MTU of 1500.
pub const FRAME_PAYLOAD_BYTES: u64 = 1500 - HEADER_BYTES as u64;

/// Reads a size above zero in `ethbcast`'s notation.
pub fn parse_size(text: &str) -> Result<u64, String> {
    match ethbcast_planning::parse_size(text)? {
        0 => Err(format!("`{text}` is no size to measure: write one above 0")),
        bytes => Ok(bytes),
    }
}

/// Formats a size for [`parse_size`], in the largest unit that needs no fraction.
pub fn size(bytes: u64) -> String {
    match bytes {
        _ if bytes.is_multiple_of(1 << 20) => format!("{}M", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{}K", bytes >> 10),
        _ => bytes.to_string(),
    }
}

/// Formats seconds as milliseconds, with three significant digits.
pub fn milliseconds(seconds: f64) -> String {
    let value = seconds * 1e3;
    let decimals = match value.abs() {
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// Returns the word for a bound that was met, or not.
pub fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "MISSED" }
}

/// Returns the seconds that one copy of a message in full frames occupies a cable, with Ethernet
/// headers as the lab counts them: the least time of any plan, T(msize) of the papers.
pub fn copy_seconds(bytes: u64, rate_bits_per_second: u64) -> f64 {
    let frame_bytes = bytes + bytes.div_ceil(FRAME_PAYLOAD_BYTES) * OVERHEAD_BYTES as u64;
    frame_bytes as f64 * 8.0 / rate_bits_per_second as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_as_they_are_read() {
        for text in ["1", "1500", "8K", "96K", "1M", "64M"] {
            assert_eq!(parse_size(text).map(size).as_deref(), Ok(text));
        }
        assert_eq!(parse_size("1024k"), Ok(1 << 20));
        for text in ["", "K", "0", "-1", "1.5X", "99999999999999M"] {
            assert!(parse_size(text).is_err_and(|error| error.starts_with(&format!("`{text}` is no size"))), "{text}");
        }
    }

    #[test]
    fn times_have_the_digits_that_count_and_a_copy_is_all_its_frames() {
        assert_eq!([0.000_123_4, 0.022_18, 0.346_02, 10.7].map(milliseconds), ["0.12", "22.2", "346", "10700"]);
        assert_eq!([copy_seconds(1468, 8), copy_seconds(1469, 8)], [1514.0, 1469.0 + 92.0]);
    }
}
