//! Formatting of durations for people.

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
    fn times_are_printed_with_three_digits() {
        let told = [0.0, 1.234e-6, 45.67e-6, 0.9996e-3, 5.614e-3, 99.96e-3, 0.9996, 12.34, 3601.0].map(duration);
        assert_eq!(
            told,
            ["0.00 µs", "1.23 µs", "45.7 µs", "1.00 ms", "5.61 ms", "100 ms", "1.00 s", "12.3 s", "3601 s"]
        );
    }
}
