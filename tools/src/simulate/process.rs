//! The application of simulated hosts, with memory in place of files.

use ethbcast_collectives::session::application::{MemoryContent, Next, Participant, Sink, Source};
use ethbcast_collectives::session::{Done, Outcome, RootEvent, Trailer};
use ethbcast_transport::Instant;
use ethbcast_transport::sim::Random;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

pub type SimulatedHost = Participant<Sender, Taker>;

/// The content and its digest, of which all simulated hosts share one copy.
pub type Shared = MemoryContent<Rc<[u8]>>;

pub fn content(bytes: u64, seed: u64) -> Shared {
    let mut content: Rc<[u8]> = std::iter::repeat_n(0, bytes as usize).collect();
    Random::new(seed).fill(Rc::get_mut(&mut content).expect("it is not shared yet"));
    MemoryContent::new(content)
}

#[derive(Debug)]
pub struct Sender {
    content: Shared,
    began: Option<Instant>,
    pushing: bool,
    all_reported: bool,
}

impl Sender {
    pub fn new(content: Shared) -> Sender {
        Sender { content, began: None, pushing: false, all_reported: false }
    }

    pub fn began(&self) -> Option<Instant> {
        self.began
    }

    pub fn has_all_verdicts(&self) -> bool {
        self.all_reported
    }
}

impl Source for Sender {
    fn next(&mut self, now: Instant, consumed: bool) -> Next<'_> {
        if !std::mem::replace(&mut self.pushing, true) {
            // A separate step at the same time, so that counters can be read before the first data
            // frame.
            return Next::Until(now);
        }
        self.content.next(now, consumed)
    }

    fn advance(&mut self, bytes: usize) {
        self.content.advance(bytes);
    }

    fn on_event(&mut self, now: Instant, event: &RootEvent) -> ControlFlow<String> {
        match event {
            RootEvent::Started { .. } => self.began = Some(now),
            RootEvent::AllReported => self.all_reported = true,
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Compares received bytes with the sent ones, which is as strict as a digest and faster.
#[derive(Debug)]
pub struct Taker {
    content: Shared,
    taken: usize,
    taken_at: Instant,
    equal: bool,
    /// Time needed for the verdict after the last byte.
    conclusion: Duration,
    concludes_at: Option<(Instant, Trailer)>,
}

impl Taker {
    /// Expects `content`, and takes `conclusion` for its verdict.
    pub fn new(content: Shared, conclusion: Duration) -> Taker {
        Taker { content, taken: 0, taken_at: Instant::START, equal: true, conclusion, concludes_at: None }
    }

    pub fn taken_at(&self) -> Instant {
        self.taken_at
    }
}

impl Sink for Taker {
    fn write(&mut self, now: Instant, bytes: &[u8], _message_end: bool) {
        self.equal &= self.content.bytes().get(self.taken..).unwrap_or_default().starts_with(bytes);
        self.taken += bytes.len();
        self.taken_at = now;
    }

    fn finish(&mut self, now: Instant, trailer: Trailer) {
        self.concludes_at = Some((now + self.conclusion, trailer));
    }

    fn verdict(&mut self, now: Instant) -> Option<Done> {
        let (_, trailer) = self.concludes_at.take_if(|(at, _)| *at <= now)?;
        let bytes = self.taken as u64;
        let sound = self.equal && trailer == self.content.trailer() && trailer.bytes == bytes;
        let outcome = if sound { Outcome::Verified } else { Outcome::Damaged };
        Some(Done { outcome, bytes, digest: trailer.digest, text: String::new() })
    }

    fn verdict_at(&self) -> Option<Instant> {
        self.concludes_at.map(|(at, _)| at)
    }
}
