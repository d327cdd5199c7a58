//! The tests a prober goes through, one after the other.

mod bulk;
mod cast;
mod largest;
mod ping;
mod roll_call;
mod train;

pub(super) use bulk::{Bulk, Way};
pub(super) use cast::CastStep;
pub(super) use largest::Largest;
pub(super) use ping::Ping;
pub(super) use roll_call::RollCall;
pub(super) use train::Train;

use super::body::ReportBody;
use super::findings::Findings;
use super::probe::ProbeWriter;
use ethbcast_transport::wire::Frame;
use ethbcast_transport::{Deadline, Instant, Kept, SplitFrame};
use std::fmt::Debug;

/// A frame that came back.
#[derive(Clone, Copy, Debug)]
pub(super) struct EchoFrame {
    /// Which target sent it, by place.
    pub target: usize,
    pub test: u32,
    /// Whether it is the last frame of its message.
    pub last: bool,
    pub payload_bytes: usize,
}

/// A report that came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    /// Which target sent it, by place.
    pub target: usize,
    pub test: u32,
    /// One past the highest frame that arrived.
    pub seen: u64,
    /// It answers a question, which came behind all frames, and not a frame of the train.
    pub asked: bool,
    pub body: ReportBody,
}

/// One test. The order of calls is that of [`Machine`](ethbcast_transport::Machine).
pub(super) trait Step: Debug + Send {
    /// The same test once more, where it stands.
    fn boxed(&self) -> Box<dyn Step>;

    /// Takes an echo of this or another test.
    fn on_echo(&mut self, _now: Instant, _echo: EchoFrame) {}

    /// Takes a report of this or another test.
    fn on_report(&mut self, _now: Instant, _report: Report) {}

    /// Takes a frame of a stream.
    fn on_frame(&mut self, _now: Instant, _frame: &Frame<'_>) {}

    /// Lets time pass.
    fn on_timeout(&mut self, now: Instant);

    /// Writes the next frame.
    fn poll(&mut self, now: Instant, writer: &mut ProbeWriter, buffer: &mut [u8]) -> Option<usize>;

    /// Does the same, but the payload may stay where it is kept.
    fn poll_split(&mut self, now: Instant, writer: &mut ProbeWriter, buffer: &mut [u8]) -> Option<SplitFrame> {
        self.poll(now, writer, buffer).map(SplitFrame::whole)
    }

    /// The payload of a frame that has been written without it.
    fn payload(&self, kept: Kept) -> &[u8] {
        panic!("frame {} of stream {} is not kept here", kept.sequence, kept.stream)
    }

    /// When to be called again.
    fn deadline(&self, now: Instant) -> Option<Deadline>;

    /// Whether what comes next is to be noticed at once.
    fn is_urgent(&self) -> bool {
        true
    }

    /// Whether there is nothing more to come.
    fn is_done(&self) -> bool;

    /// Adds what was found out, be the test done or cut short.
    fn conclude(&self, findings: &mut Findings);
}

impl Clone for Box<dyn Step> {
    fn clone(&self) -> Self {
        (**self).boxed()
    }
}
