//! A stream without a session.

use super::Stream;
use crate::machine::{Deadline, Machine};
use crate::time::Instant;
use crate::wire;

/// A stream alone under a driver, without a session: frames that do not parse or belong elsewhere change nothing.
#[derive(Debug)]
pub struct Lone {
    /// The stream.
    pub stream: Stream,
    now: Instant,
}

impl Lone {
    /// Puts `stream` under a driver.
    pub fn new(stream: Stream) -> Lone {
        Lone { stream, now: Instant::START }
    }
}

impl Machine for Lone {
    fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        self.now = now;
        match wire::parse(frame) {
            Ok(frame) if frame.header.session == self.stream.identity.session => self.stream.on_frame(now, &frame),
            Ok(_) => self.stream.stats.strangers += 1,
            Err(_) => self.stream.stats.malformed += 1,
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        self.stream.on_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        self.now = now;
        self.stream.poll(now, buffer)
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.stream.deadline(self.now)
    }
}
