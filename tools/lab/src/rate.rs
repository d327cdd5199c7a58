//! Parsing of cable rates such as `100mbit`.

use crate::error::LabError;
pub use ethbcast_planning::format_rate;
pub(crate) use ethbcast_planning::{HIGHEST_RATE_BITS_PER_SECOND, LOWEST_RATE_BITS_PER_SECOND};

/// Parses a rate such as `100mbit`, `2.5gbit`, `64kbit` or `1000000` into bits per second. Below
/// the minimum, the burst of two 65 535-byte frames would exceed 275 s, the range of tbf's 32-bit
/// counter of 64 ns ticks.
///
/// # Errors
/// [`LabError::BadRate`] for an invalid number or unit, or a rate outside 64 kbit to 1000 gbit.
pub fn parse_rate(text: &str) -> Result<u64, LabError> {
    ethbcast_planning::parse_rate(text).map_err(|_| LabError::BadRate(text.to_owned()))
}

/// Parses the value of a `--rate` option: a rate, or `unlimited` for unshaped cables.
///
/// # Errors
/// The errors of [`parse_rate`].
pub fn parse_rate_or_unlimited(text: &str) -> Result<Option<u64>, LabError> {
    if text.trim().eq_ignore_ascii_case("unlimited") { Ok(None) } else { parse_rate(text).map(Some) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_rate_is_refused_with_its_own_spelling() {
        for text in ["", "fast", "1e9", "63kbit", "1001gbit", "unlimited"] {
            let error = parse_rate(text).expect_err(text).to_string();
            assert!(error.contains(&format!("`{text}`")) && error.contains("100mbit"), "{error}");
        }
    }

    #[test]
    fn unlimited_is_an_option_not_a_number() {
        assert_eq!(parse_rate_or_unlimited("Unlimited").expect("a word"), None);
        assert_eq!(parse_rate_or_unlimited("1gbit").expect("a rate"), Some(1_000_000_000));
        assert!(parse_rate_or_unlimited("limitless").is_err());
    }
}
