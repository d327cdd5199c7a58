//! Sizes as people write them.

/// Reads a size in bytes, such as `1500`, `64K`, `16M` or `1G` (powers of 1024).
///
/// # Errors
/// A sentence that says how sizes are written.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let help = || format!("`{text}` is no size; write a number of bytes, such as 1500, 64K, 16M or 1G");
    let trimmed = text.trim();
    let digits = trimmed.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let shift = match trimmed[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(help()),
    };
    let number: u64 = digits.parse().map_err(|_| help())?;
    number.checked_mul(1 << shift).ok_or_else(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        assert_eq!(
            ["0", "256", "4K", "16m", "1GiB"].map(parse_size),
            [Ok(0), Ok(256), Ok(4 << 10), Ok(16 << 20), Ok(1 << 30)]
        );
        for wrong in ["", "K", "4X", "-1", "99999999999999999999", "18446744073709551615K"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
