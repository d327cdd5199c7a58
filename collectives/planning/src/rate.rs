//! Rates of cables in the spelling of `tc`: `100mbit`.

use crate::decimal;

/// Lowest rate of a cable, in bits per second.
pub const LOWEST_RATE_BITS_PER_SECOND: u64 = 64_000;

/// Highest rate of a cable, in bits per second; beyond any network card.
pub const HIGHEST_RATE_BITS_PER_SECOND: u64 = 1_000_000_000_000;

/// Units, largest first, in bits per second; decimal, as usual in networking.
const UNITS: [(&str, u64); 4] = [("gbit", 1_000_000_000), ("mbit", 1_000_000), ("kbit", 1_000), ("bit", 1)];

/// Reads a rate like `100mbit`, `2.5gbit`, `900m` or `1000000`, or `50MB/s` in bytes; returns bits
/// per second.
///
/// # Errors
/// A sentence that says how rates are written, for an invalid number, an unknown unit, or a rate
/// outside [`LOWEST_RATE_BITS_PER_SECOND`] to [`HIGHEST_RATE_BITS_PER_SECOND`].
pub fn parse_rate(text: &str) -> Result<u64, String> {
    parse_exactly(text.trim())
        .filter(|rate| (LOWEST_RATE_BITS_PER_SECOND..=HIGHEST_RATE_BITS_PER_SECOND).contains(rate))
        .ok_or_else(|| format!("`{text}` is no rate; write a number with its unit, such as 100mbit, 2.5gbit or 50MB/s"))
}

/// Writes a rate in the largest unit that needs no fraction, such that [`parse_rate`] reads it back.
pub fn format_rate(rate_bits_per_second: u64) -> String {
    let (unit, scale) = UNITS
        .into_iter()
        .find(|&(_, scale)| rate_bits_per_second >= scale && rate_bits_per_second.is_multiple_of(scale))
        .unwrap_or(("bit", 1));
    format!("{}{unit}", rate_bits_per_second / scale)
}

fn parse_exactly(text: &str) -> Option<u64> {
    let (number, unit_text) = text.split_at(decimal::end(text));
    decimal::scaled(number, unit(unit_text.trim_start())?)
}

/// Returns a unit in bits per second. A capital B is a byte. `mbps` is refused: `tc` counts bytes
/// by it and others bits.
fn unit(text: &str) -> Option<u64> {
    let power = text.chars().next().and_then(|letter| "kmg".find(letter.to_ascii_lowercase()));
    let (power, rest) = power.map_or((0, text), |at| (at as u32 + 1, &text[1..]));
    match rest {
        "B/s" => Some(8 * 1000_u64.pow(power)),
        "iB/s" if power > 0 => Some(8 * 1024_u64.pow(power)),
        "" | "b/s" => Some(1000_u64.pow(power)),
        bit if bit.eq_ignore_ascii_case("bit") || bit.eq_ignore_ascii_case("bit/s") => Some(1000_u64.pow(power)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_read_in_every_unit() {
        for (text, expected) in [
            ("64kbit", 64_000),
            ("100mbit", 100_000_000),
            ("100 Mbit", 100_000_000),
            ("2.5gbit", 2_500_000_000),
            ("0.5mbit", 500_000),
            ("1000000", 1_000_000),
            ("1000000bit", 1_000_000),
            ("1000gbit", HIGHEST_RATE_BITS_PER_SECOND),
            ("900m", 900_000_000),
            ("1G", 1_000_000_000),
            ("100 Mbit/s", 100_000_000),
            ("100Mb/s", 100_000_000),
            ("50MB/s", 400_000_000),
            ("1.5 GB/s", 12_000_000_000),
            ("64MiB/s", 8 << 26),
            ("8000B/s", 64_000),
        ] {
            assert_eq!(parse_rate(text).expect(text), expected, "{text}");
        }
    }

    #[test]
    fn a_rate_that_cannot_be_meant_is_refused_by_its_own_spelling() {
        for text in [
            "", "mbit", "fast", "-1mbit", "+1mbit", "1e9", "1.mbit", ".5gbit", "1..5mbit", "10mbps", "10MBps", "5iB/s",
            "5mB", "7t", "3 m bit", "0", "63kbit",
        ] {
            let error = parse_rate(text).expect_err(text);
            assert!(error.contains(&format!("`{text}`")) && error.contains("100mbit"), "{error}");
        }
        for text in ["1001gbit", "99999999999999999999", "99999999999gbit"] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_rate_is_written_in_the_largest_unit_and_reads_back() {
        for (rate, expected) in [
            (64_000, "64kbit"),
            (100_000_000, "100mbit"),
            (2_500_000_000, "2500mbit"),
            (64_001, "64001bit"),
            (10_000_000_000, "10gbit"),
        ] {
            assert_eq!(format_rate(rate), expected);
            assert_eq!(parse_rate(expected).expect(expected), rate);
        }
        assert_eq!(format_rate(0), "0bit");
    }
}
