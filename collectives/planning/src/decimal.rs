//! Decimal numbers: digits with an optional fraction.

/// Parses a number with up to nine fractional digits and multiplies it by `unit`, rounded down.
/// Returns `None` if it is no number or does not fit. Uses no floating point.
pub(crate) fn scaled(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || !is_digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let parts = u128::from(fraction.parse::<u64>().ok()?) * u128::from(unit) / 10_u128.pow(fraction.len() as u32);
    whole.parse::<u64>().ok()?.checked_mul(unit)?.checked_add(u64::try_from(parts).ok()?)
}

pub(crate) fn end(text: &str) -> usize {
    text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len())
}
