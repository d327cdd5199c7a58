//! Changes of a running `send`'s rate limit by signals and `ethbcast ctl`. SIGUSR1 raises it by a
//! tenth, SIGUSR2 lowers it.

use super::limit::Limit;
use super::{GIVEN_UP, control};
use crate::exit::{Code, WithCode};
use crate::progress::Bar;
use crate::session;
use crate::signals::{self, Interrupt};
use ethbcast_collectives::session::{Rate, SendOptions, Session};
use ethbcast_planning::HIGHEST_RATE_BITS_PER_SECOND;
use nix::sys::signal::Signal;
use std::io;
use std::sync::Arc;

const RAISE: Signal = Signal::SIGUSR1;
const LOWER: Signal = Signal::SIGUSR2;

/// Opens the session's port as [`open`](session::open()) does, and lets signals and `ethbcast ctl`
/// change the rate limit.
///
/// # Errors
/// A failure with code 2 or 4.
pub fn open(group: &str, options: &SendOptions, bar: &Arc<Bar>) -> anyhow::Result<(Session, Interrupt)> {
    // Blocked before the first thread starts, which would otherwise receive a signal and end the
    // process.
    signals::block(&[RAISE, LOWER]).code(Code::System)?;
    let opened = session::open(group, options, GIVEN_UP)?;
    let limit = Limit::new((options.rate.clone(), options.start.clone()), bar);
    heed(limit.clone()).code(Code::System)?;
    // Without the socket, signals still work.
    if let Err(error) = control::listen(limit) {
        log::warn!("`ethbcast ctl` will not reach this process: {error}");
    }
    Ok(opened)
}

/// Changes the limit at each signal with a message, or explains how to set a limit.
fn heed(limit: Limit) -> io::Result<()> {
    signals::listen(&[RAISE, LOWER], move |signal| {
        let changed = limit.rate().and_then(|rate| limit.set(changed(rate, signal == RAISE)));
        if changed.is_none() {
            limit.print_none();
        }
    })
}

fn changed(rate: Rate, raise: bool) -> Rate {
    let tenth = rate.bits_per_second() / 10;
    let bits = if raise { rate.bits_per_second() + tenth } else { rate.bits_per_second() - tenth };
    Rate::new(bits.min(HIGHEST_RATE_BITS_PER_SECOND)).unwrap_or(Rate::LOWEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_goes_up_and_down_by_a_tenth_between_the_lowest_and_the_highest() {
        let rate = |bits| Rate::new(bits).expect("above the lowest");
        assert_eq!(changed(rate(400_000_000), true), rate(440_000_000));
        assert_eq!(changed(rate(400_000_000), false), rate(360_000_000));
        assert_eq!(changed(rate(1_050_000), false), Rate::LOWEST);
        assert_eq!(changed(rate(HIGHEST_RATE_BITS_PER_SECOND), true), rate(HIGHEST_RATE_BITS_PER_SECOND));
    }
}
