//! Contents and disks of simulated sessions.

use ethbcast_collectives::session::application::{Again, Collected, MemoryContent, Next, Sink, Source};
use ethbcast_collectives::session::{Done, Outcome, RootEvent, Trailer};
use ethbcast_transport::Instant;
use std::ops::ControlFlow;
use std::time::Duration;

/// Bytes that can be read once or repeatedly, and the events that their sender receives.
#[derive(Clone, Debug)]
pub struct Sent<B = Vec<u8>> {
    content: MemoryContent<B>,
    pipe: bool,
    told: Option<Vec<(Instant, RootEvent)>>,
}

impl<B: AsRef<[u8]>> Sent<B> {
    /// Creates a file, or a `pipe`, which can be read only once.
    pub fn new(bytes: B, pipe: bool) -> Sent<B> {
        Sent { content: MemoryContent::new(bytes), pipe, told: None }
    }

    pub fn listening(self) -> Sent<B> {
        Sent { told: Some(Vec::new()), ..self }
    }

    pub fn bytes(&self) -> &[u8] {
        self.content.bytes()
    }

    /// Returns the sender's events with their moments, if kept.
    pub fn told(&self) -> &[(Instant, RootEvent)] {
        self.told.as_deref().unwrap_or_default()
    }
}

impl<B: AsRef<[u8]>> Source for Sent<B> {
    fn next(&mut self, now: Instant, consumed: bool) -> Next<'_> {
        self.content.next(now, consumed)
    }

    fn advance(&mut self, bytes: usize) {
        self.content.advance(bytes);
    }

    fn read_again(&mut self, now: Instant, offset: u64, bytes: usize) -> Again<'_> {
        if self.pipe { Again::Impossible("a pipe".to_owned()) } else { self.content.read_again(now, offset, bytes) }
    }

    fn on_event(&mut self, now: Instant, event: &RootEvent) -> ControlFlow<String> {
        self.told.iter_mut().for_each(|told| told.push((now, event.clone())));
        ControlFlow::Continue(())
    }
}

/// Collects received bytes and notes whether they were published; with limits on size and rate.
#[derive(Clone, Debug)]
pub struct Disk {
    collected: Collected,
    capacity_bytes: usize,
    stops_at_bytes: usize,
    keeps: bool,
    published: bool,
    bytes_per_second: Option<u64>,
    now: Instant,
    busy_until: Instant,
}

/// Time's worth of data that a slow disk takes at once.
const BUFFER: Duration = Duration::from_millis(10);

impl Default for Disk {
    fn default() -> Disk {
        Disk {
            collected: Collected::default(),
            capacity_bytes: usize::MAX,
            stops_at_bytes: usize::MAX,
            keeps: false,
            published: false,
            bytes_per_second: None,
            now: Instant::START,
            busy_until: Instant::START,
        }
    }
}

impl Disk {
    /// Sets the size after which it is full.
    pub fn with_capacity(self, capacity_bytes: usize) -> Disk {
        Disk { capacity_bytes, ..self }
    }

    /// Sets the size after which it takes nothing more.
    pub fn stopping_at(self, stops_at_bytes: usize) -> Disk {
        Disk { stops_at_bytes, ..self }
    }

    /// Sets whether others can read back its bytes.
    pub fn keeping(self, keeps: bool) -> Disk {
        Disk { keeps, ..self }
    }

    /// Sets its rate, which needs [`Disk::set_now`].
    pub fn with_rate(self, bytes_per_second: u64) -> Disk {
        Disk { bytes_per_second: Some(bytes_per_second), ..self }
    }

    pub fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    pub fn bytes(&self) -> &[u8] {
        self.collected.bytes()
    }

    pub fn is_full(&self) -> bool {
        self.bytes().len() >= self.capacity_bytes
    }

    /// Whether its bytes were published.
    pub fn is_published(&self) -> bool {
        self.published
    }
}

impl Sink for Disk {
    fn has_room(&self) -> bool {
        self.bytes().len() < self.stops_at_bytes && self.busy_until <= self.now + BUFFER
    }

    fn write(&mut self, now: Instant, bytes: &[u8], message_end: bool) {
        self.collected.write(now, bytes, message_end);
        if let Some(rate) = self.bytes_per_second {
            self.busy_until = self.busy_until.max(now) + Duration::from_secs_f64(bytes.len() as f64 / rate as f64);
        }
        if self.is_full() {
            self.collected.refuse(Outcome::NoSpace, "full");
        }
    }

    fn finish(&mut self, now: Instant, trailer: Trailer) {
        self.collected.finish(now, trailer);
    }

    fn publish(&mut self, _now: Instant) -> bool {
        self.published = true;
        true
    }

    fn verdict(&mut self, now: Instant) -> Option<Done> {
        self.collected.verdict(now)
    }

    fn verdict_at(&self) -> Option<Instant> {
        Some(self.busy_until).filter(|&at| at > self.now)
    }

    fn read_again(&mut self, _now: Instant, offset: u64, bytes: usize) -> Again<'_> {
        let range = offset as usize..offset as usize + bytes;
        let bytes = self.bytes().get(range).filter(|_| self.keeps);
        bytes.map_or_else(|| Again::Impossible("it is not kept".to_owned()), Again::Bytes)
    }
}
