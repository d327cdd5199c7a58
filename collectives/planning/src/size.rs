//! Parsing and formatting of sizes with units.

use crate::decimal;

/// Reads a size in bytes, such as `1500`, `64K`, `1.5G` or `16MiB` (powers of 1024), or `5MB` (of
/// 1000), as rsync and dd do; fractions of a byte are dropped.
///
/// # Errors
/// A sentence that says how sizes are written.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let (number, unit) = text.trim().split_at(decimal::end(text.trim()));
    let scaled = unit_bytes(unit.trim_start()).and_then(|unit| decimal::scaled(number, unit));
    scaled.ok_or_else(|| format!("`{text}` is no size; write a number of bytes, such as 1500, 64K, 1.5G or 5MB"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024_and_those_in_kb_and_mb_of_1000() {
        let read = |texts: [&str; 5]| texts.map(parse_size);
        assert_eq!(read(["0", "256", "4K", "16m", "1GiB"]), [Ok(0), Ok(256), Ok(4 << 10), Ok(16 << 20), Ok(1 << 30)]);
        let others = [Ok(3 << 29), Ok(5_000_000), Ok(2_500), Ok(7), Ok(1 << 40)];
        assert_eq!(read(["1.5G", "5MB", "2.5 kB", "7b", "1T"]), others);
        for wrong in
            ["", "K", "4X", "-1", "1.", ".5K", "1.5.5K", "4iB", "1e3", "99999999999999999999", "18446744073709551615K"]
        {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
