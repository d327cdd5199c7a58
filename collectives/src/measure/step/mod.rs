//! The tests that a network measurement consists of, run one after the other.

mod bulk;
mod cast;
mod ping;
mod train;

use super::body::ReportBody;
use super::findings::Findings;
use super::probe::ProbeWriter;
pub(super) use bulk::{Bulk, BulkRoute};
pub(super) use cast::CastStep;
use ethbcast_transport::wire::Frame;
use ethbcast_transport::{Deadline, Instant, Kept, SplitFrame, Timer};
pub(super) use ping::{Largest, Ping, RollCall};
use std::fmt::Debug;
use std::time::Duration;
pub(super) use train::Train;

#[derive(Clone, Copy, Debug)]
pub(super) struct EchoFrame {
    pub target: usize,
    pub test: u32,
    pub last: bool,
    pub payload_bytes: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    pub target: usize,
    pub test: u32,
    pub seen: u64,
    /// Whether the report replies to a request behind all frames, not to a frame of the train.
    pub asked: bool,
    pub body: ReportBody,
}

/// Wait for the reply to a request, which is sent again when it ends. `misses` counts the waits
/// that ended without.
#[derive(Clone, Copy, Debug, Default)]
struct ReplyWait {
    due: Option<Instant>,
    misses: u32,
}

impl ReplyWait {
    fn is_on(&self) -> bool {
        self.due.is_some()
    }

    fn begin(&mut self, now: Instant, patience: Duration) {
        self.due = Some(now + patience);
    }

    fn begin_doubled(&mut self, now: Instant, patience: Duration) {
        self.begin(now, patience * (1 << self.misses));
    }

    fn on_timeout(&mut self, now: Instant) -> bool {
        let is_missed = self.due.take_if(|due| *due <= now).is_some();
        self.misses += u32::from(is_missed);
        is_missed
    }

    fn deadline(&self) -> Option<Deadline> {
        self.due.map(|at| Deadline {
            at,
            why: Timer::HEARTBEAT,
        })
    }
}

/// One test. The order of calls is that of [`Machine`](ethbcast_transport::Machine).
pub(super) trait ProbeStep: Debug + Send {
    fn boxed(&self) -> Box<dyn ProbeStep>;

    fn on_echo(&mut self, _now: Instant, _echo: EchoFrame) {}

    fn on_report(&mut self, _now: Instant, _report: Report) {}

    fn on_frame(&mut self, _now: Instant, _frame: &Frame<'_>) {}

    fn on_timeout(&mut self, now: Instant);

    fn poll(&mut self, now: Instant, writer: &mut ProbeWriter, buffer: &mut [u8]) -> Option<usize>;

    /// Writes the next frame; its payload may stay in the feed or message that keeps it.
    fn poll_split(
        &mut self,
        now: Instant,
        writer: &mut ProbeWriter,
        buffer: &mut [u8],
    ) -> Option<SplitFrame> {
        self.poll(now, writer, buffer).map(SplitFrame::whole)
    }

    fn payload(&self, kept: Kept) -> &[u8] {
        panic!(
            "frame {} of stream {} is not kept here",
            kept.sequence, kept.stream
        )
    }

    fn deadline(&self, now: Instant) -> Option<Deadline>;

    fn is_urgent(&self) -> bool {
        true
    }

    fn is_done(&self) -> bool;

    fn conclude(&self, findings: &mut Findings);
}

impl Clone for Box<dyn ProbeStep> {
    fn clone(&self) -> Self {
        (**self).boxed()
    }
}
