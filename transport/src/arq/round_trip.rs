//! Round trips for those who look at a stream from outside: what the acknowledgements of one receiver say of its way.

use super::echo::Newest;
use super::stamp::Stamp;
use crate::time::Instant;
use crate::wire::{Ack, Frame, Kind};
use std::time::Duration;

/// What one receiver's acknowledgements have echoed.
#[derive(Clone, Debug, Default)]
pub struct RoundTrip {
    newest: Newest,
}

impl RoundTrip {
    /// How long a frame to this receiver and the answer to it were on their way, without what the receiver held the
    /// answer for; `None` unless this is an acknowledgement that echoes something new.
    pub fn sample(&mut self, now: Instant, frame: &Frame<'_>) -> Option<Duration> {
        let ack = (frame.header.kind == Kind::ACK).then(|| Ack::parse(frame))??;
        self.newest.take(now, Stamp(ack.echo))?;
        let held = Duration::from_micros(ack.body.held_us.into());
        Some(Stamp(ack.echo).age(now).saturating_sub(held))
    }
}
