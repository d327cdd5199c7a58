//! Events of a small world, and their notation.

use std::fmt;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// The first frame in flight from one host to another arrives.
    Deliver(u8, u8),
    /// The first frame in flight from one host to another is lost.
    Lose(u8, u8),
    /// The first frame in flight arrives, and a copy goes to the end of the queue.
    Repeat(u8, u8),
    /// Time advances to the next timer of any host.
    Time,
    Kill(u8),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Deliver(from, to) => write!(f, "{from}>{to}"),
            Event::Lose(from, to) => write!(f, "{from}>{to}-"),
            Event::Repeat(from, to) => write!(f, "{from}>{to}+"),
            Event::Time => write!(f, "t"),
            Event::Kill(host) => write!(f, "k{host}"),
        }
    }
}

impl FromStr for Event {
    type Err = String;

    fn from_str(text: &str) -> Result<Event, String> {
        let unknown =
            || format!("`{text}` is no event: write 0>1, 0>1- (lost), 0>1+ (repeated), t (time) or k1 (kill)");
        let host = |text: &str| text.parse::<u8>().map_err(|_| unknown());
        if text == "t" {
            return Ok(Event::Time);
        }
        if let Some(dead) = text.strip_prefix('k') {
            return host(dead).map(Event::Kill);
        }
        let (from, to) = text.split_once('>').ok_or_else(unknown)?;
        let (to, make): (_, fn(u8, u8) -> Event) = match (to.strip_suffix('-'), to.strip_suffix('+')) {
            (Some(to), _) => (to, Event::Lose),
            (_, Some(to)) => (to, Event::Repeat),
            _ => (to, Event::Deliver),
        };
        Ok(make(host(from)?, host(to)?))
    }
}

pub(super) fn written(events: &[Event]) -> String {
    events.iter().map(Event::to_string).collect::<Vec<_>>().join(" ")
}

/// Parses a list of events.
///
/// # Errors
/// The first item that is no event.
pub fn parse_events(text: &str) -> Result<Vec<Event>, String> {
    text.split_whitespace().map(str::parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_as_they_are_written_and_what_is_none_is_refused() {
        let events = [Event::Deliver(0, 1), Event::Lose(1, 2), Event::Repeat(2, 0), Event::Time, Event::Kill(2)];
        assert_eq!(parse_events(&written(&events)).as_deref(), Ok(&events[..]));
        for wrong in ["0", "0>", ">1", "k", "kk", "0>1?", "time"] {
            assert!(parse_events(wrong).is_err_and(|why| why.contains("write 0>1")), "{wrong}");
        }
    }
}
