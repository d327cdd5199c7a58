//! Round trips measured from outside a stream, by the acknowledgements of one receiver.

use super::echo::Newest;
use super::stamp::Stamp;
use crate::time::Instant;
use crate::wire::{Ack, Frame, Kind};
use std::time::Duration;

/// Round-trip measurement for one receiver.
#[derive(Clone, Debug, Default)]
pub struct RoundTrip {
    newest: Newest,
}

impl RoundTrip {
    /// Returns the round trip to this receiver, without the time for which it held the answer back;
    /// `None` unless `frame` is an acknowledgement that echoes something new.
    pub fn sample(&mut self, now: Instant, frame: &Frame<'_>) -> Option<Duration> {
        let ack = (frame.header.kind == Kind::ACK).then(|| Ack::parse(frame))??;
        self.newest.take(now, Stamp(ack.echo))?;
        let held = Duration::from_micros(ack.body.held_us.into());
        Some(Stamp(ack.echo).age(now).saturating_sub(held))
    }
}
