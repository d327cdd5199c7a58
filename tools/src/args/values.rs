//! Parsers of option values such as sizes and rates, with messages that say what is expected.

use clap::Arg;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use ethbcast_collectives::Preset;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

pub fn presets() -> impl TypedValueParser<Value = Preset> {
    PossibleValuesParser::new(Preset::ALL.map(Preset::name))
        .map(|name| name.parse::<Preset>().expect("other names do not pass"))
}

pub fn receivers(text: &str) -> Result<u16, String> {
    number(1..=65534)(text)
}

pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && (0.0..=1e9).contains(&value) => Ok(value),
        _ => Err("expected a number of seconds, such as 30 or 0.5".to_owned()),
    }
}

pub fn number<T>(
    range: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + Display + Copy + Send + Sync + 'static,
{
    move |text| {
        let value = text.parse().ok().filter(|value| range.contains(value));
        value.ok_or_else(|| {
            format!(
                "expected a whole number from {} to {}",
                range.start(),
                range.end()
            )
        })
    }
}

/// Parses a whole number, negative only where the type is signed.
pub fn whole<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| "expected a whole number".to_owned())
}

pub fn decimal(text: &str) -> Result<f64, String> {
    text.parse()
        .map_err(|_| "expected a number, such as 0.01".to_owned())
}

/// Returns the refusal of an option that belongs to another command.
pub fn misplaced(
    why: &'static str,
) -> impl Fn(&str) -> Result<String, String> + Clone + Send + Sync + 'static {
    move |_| Err(why.to_owned())
}

pub const WHO: &str = "Who takes part";
pub const WHAT: &str = "What is sent";
pub const WRITTEN: &str = "What is written";
pub const MEASURED: &str = "What is measured";
pub const HOW: &str = "How it travels";
pub const TROUBLE: &str = "When something goes wrong";
pub const PRINTED: &str = "What is printed";

/// Hides every option from `-h` except those with an id in `shown`.
pub fn everyday(shown: &'static [&'static str]) -> impl Fn(Arg) -> Arg {
    |arg| {
        let is_shown = shown.contains(&arg.get_id().as_str());
        if is_shown {
            arg
        } else {
            arg.hide_short_help(true)
        }
    }
}
