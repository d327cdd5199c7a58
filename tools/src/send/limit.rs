//! The rate limit of a running `send`.

use crate::progress::Bar;
use crate::units;
use ethbcast_collectives::session::{Rate, RateLimit, Start};
use std::sync::Arc;

pub const NO_LIMIT: &str = "there is no rate limit to change: start with one, such as --rate 400mbit";

/// The limit of a running session, if it has one, and the output for messages about changes.
#[derive(Clone)]
pub struct Limit {
    limit: Option<RateLimit>,
    start: Option<Start>,
    bar: Arc<Bar>,
}

impl Limit {
    pub fn new((limit, start): (Option<RateLimit>, Option<Start>), bar: &Arc<Bar>) -> Limit {
        Limit { limit, start, bar: Arc::clone(bar) }
    }

    pub fn print_none(&self) {
        self.bar.line(NO_LIMIT.to_owned());
    }

    pub fn rate(&self) -> Option<Rate> {
        self.limit.as_ref().map(RateLimit::rate).filter(|rate| rate.limit().is_some())
    }

    /// Sets the limit and returns the resulting one, if the session has a limit.
    pub fn set(&self, rate: Rate) -> Option<Rate> {
        let (limit, before) = (self.limit.as_ref()?, self.rate()?);
        limit.set(if before.is_yielding() { rate.yielding() } else { rate });
        self.bar.line(format!("the rate limit is {} now", units::rate(rate.bits_per_second() as f64)));
        Some(rate)
    }

    /// Starts with the present receivers and returns their number, or the reason why not.
    pub fn start(&self) -> Result<usize, &'static str> {
        let start = self.start.as_ref().ok_or("it starts at once")?;
        match (self.bar.has_started(), self.bar.joined()) {
            (true, _) => Err("it has started already"),
            (false, 0) => Err("nobody has joined yet"),
            (false, joined) => {
                start.now();
                self.bar.line(format!("started by `ethbcast ctl start`, with {}", crate::units::receivers(joined)));
                Ok(joined)
            }
        }
    }
}
