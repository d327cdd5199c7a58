//! Parsing of sizes, rates and durations as people write them: `64K`, `1gbit`, `2.5s`.

/// Parses a number with up to nine fractional digits and multiplies it by `unit`, rounded down.
/// Returns `None` if it is no number or does not fit. Uses no floating point.
fn scaled(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || !is_digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let parts = u128::from(fraction.parse::<u64>().ok()?) * u128::from(unit)
        / 10_u128.pow(fraction.len() as u32);
    whole
        .parse::<u64>()
        .ok()?
        .checked_mul(unit)?
        .checked_add(u64::try_from(parts).ok()?)
}

fn number_end(text: &str) -> usize {
    text.find(|letter: char| !letter.is_ascii_digit() && letter != '.')
        .unwrap_or(text.len())
}

/// Reads a size in bytes, such as `1500`, `64K`, `1.5G` or `16MiB` (powers of 1024), or `5MB` (of
/// 1000), as rsync and dd do; fractions of a byte are dropped.
///
/// # Errors
/// A sentence that says how sizes are written.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let (number, unit) = text.trim().split_at(number_end(text.trim()));
    let scaled = unit_bytes(unit.trim_start()).and_then(|unit| scaled(number, unit));
    scaled.ok_or_else(|| {
        format!("`{text}` is no size; write a number of bytes, such as 1500, 64K, 1.5G or 5MB")
    })
}

fn unit_bytes(text: &str) -> Option<u64> {
    let text = text.to_ascii_lowercase();
    let power = text.chars().next().and_then(|letter| "kmgt".find(letter));
    let (power, rest) = power.map_or((0, &text[..]), |at| (at as u32 + 1, &text[1..]));
    match rest {
        "" | "ib" if power > 0 => Some(1 << (10 * power)),
        "" => Some(1),
        "b" => Some(1000_u64.pow(power)),
        _ => None,
    }
}

pub const LOWEST_RATE_BITS_PER_SECOND: u64 = 64_000;

/// Highest rate of a cable, in bits per second; beyond any network card.
pub const HIGHEST_RATE_BITS_PER_SECOND: u64 = 1_000_000_000_000;

/// Units, largest first, in bits per second; decimal, as usual in networking.
const UNITS: [(&str, u64); 4] = [
    ("gbit", 1_000_000_000),
    ("mbit", 1_000_000),
    ("kbit", 1_000),
    ("bit", 1),
];

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

/// Writes a rate in the largest unit that needs no fraction, such that [`parse_rate`] reads it
/// back.
pub fn format_rate(rate_bits_per_second: u64) -> String {
    let (unit, scale) = UNITS
        .into_iter()
        .find(|&(_, scale)| {
            rate_bits_per_second >= scale && rate_bits_per_second.is_multiple_of(scale)
        })
        .unwrap_or(("bit", 1));
    format!("{}{unit}", rate_bits_per_second / scale)
}

fn parse_exactly(text: &str) -> Option<u64> {
    let (number, unit_text) = text.split_at(number_end(text));
    scaled(number, unit(unit_text.trim_start())?)
}

/// Returns a unit in bits per second. A capital B is a byte. `mbps` is refused: `tc` counts bytes
/// by it and others bits.
fn unit(text: &str) -> Option<u64> {
    let power = text
        .chars()
        .next()
        .and_then(|letter| "kmg".find(letter.to_ascii_lowercase()));
    let (power, rest) = power.map_or((0, text), |at| (at as u32 + 1, &text[1..]));
    match rest {
        "B/s" => Some(8 * 1000_u64.pow(power)),
        "iB/s" if power > 0 => Some(8 * 1024_u64.pow(power)),
        "" | "b/s" => Some(1000_u64.pow(power)),
        bit if bit.eq_ignore_ascii_case("bit") || bit.eq_ignore_ascii_case("bit/s") => {
            Some(1000_u64.pow(power))
        }
        _ => None,
    }
}

/// Formats seconds with three significant digits and a suitable unit: `5.61 s`, `48.2 ms` or `120
/// µs`.
pub fn duration(seconds: f64) -> String {
    let (value, unit) = match seconds {
        _ if seconds >= 0.9995 => (seconds, "s"),
        _ if seconds >= 0.000_999_5 => (seconds * 1e3, "ms"),
        _ => (seconds * 1e6, "µs"),
    };
    let decimals = match value {
        _ if value < 9.995 => 2,
        _ if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024_and_those_in_kb_and_mb_of_1000() {
        let read = |texts: [&str; 5]| texts.map(parse_size);
        assert_eq!(
            read(["0", "256", "4K", "16m", "1GiB"]),
            [Ok(0), Ok(256), Ok(4 << 10), Ok(16 << 20), Ok(1 << 30)]
        );
        let others = [Ok(3 << 29), Ok(5_000_000), Ok(2_500), Ok(7), Ok(1 << 40)];
        assert_eq!(read(["1.5G", "5MB", "2.5 kB", "7b", "1T"]), others);
        for wrong in [
            "",
            "K",
            "4X",
            "-1",
            "1.",
            ".5K",
            "1.5.5K",
            "4iB",
            "1e3",
            "99999999999999999999",
            "18446744073709551615K",
        ] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }

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
            "", "mbit", "fast", "-1mbit", "+1mbit", "1e9", "1.mbit", ".5gbit", "1..5mbit",
            "10mbps", "10MBps", "5iB/s", "5mB", "7t", "3 m bit", "0", "63kbit",
        ] {
            let error = parse_rate(text).expect_err(text);
            assert!(
                error.contains(&format!("`{text}`")) && error.contains("100mbit"),
                "{error}"
            );
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

    #[test]
    fn times_are_printed_with_three_digits() {
        let told = [
            0.0, 1.234e-6, 45.67e-6, 0.9996e-3, 5.614e-3, 99.96e-3, 0.9996, 12.34, 3601.0,
        ]
        .map(duration);
        assert_eq!(
            told,
            [
                "0.00 µs", "1.23 µs", "45.7 µs", "1.00 ms", "5.61 ms", "100 ms", "1.00 s",
                "12.3 s", "3601 s"
            ]
        );
    }
}
