//! Measurement of the network: gap, round trip, rate, MTU, loss (Patarasuk 2008 §5.1). It measures
//! g(m), RTT(m), L(m) = RTT(m)/2 − g(m), the link's rate, the path's MTU, the loss, and whether
//! broadcast arrives at full rate.
//!
//! Four state machines do this: a [`Finder`] discovers hosts, a [`Prober`] measures, a [`Surveyor`]
//! finds the switches between hosts, and a [`Responder`] replies to all three. Each is a
//! [`Part`](ethbcast_transport::Part). It runs [alone](ethbcast_transport::Alone) under a driver,
//! or in a machine that passes it the PROBE, ECHO and REPORT frames of its session.
//! `docs/protocol/measurement.md` §14 describes the frames.
//!
//! **Gap.** The paper measures the time of M sends at the sender, which shows little behind a
//! kernel that buffers frames. Here a train of messages is sent with a bounded number of frames in
//! flight, and the *responder* reports arrival times by its own clock. The slope over the last
//! three quarters of the train is the gap. It does not depend on buffers or a shaper's bucket,
//! which only the first frames find empty, nor on lost frames or reports.
//!
//! **Processor time.** If both ends have [`Processors`], the processor time of trains is measured.
//! Streams differ from trains, so the processor time and speed of an engine stream is measured,
//! too, to one receiver and by cast to all.

mod body;
mod calibrate;
mod finder;
mod findings;
mod probe;
mod prober;
mod processor;
mod rate_comparison;
mod responder;
mod result;
mod settings;
mod step;
mod survey;
#[cfg(test)]
mod tests;

pub(crate) use body::is_well_formed;
pub(crate) use calibrate::broadcast;
pub use calibrate::{calibrate, host_costs};
pub use finder::{Finder, ProbeHost, Search};
pub use findings::CastFinding;
pub(crate) use probe::{FIRST_PING, carries, write_ping};
pub use prober::Prober;
pub use processor::{Processors, WorkPoint};
pub(crate) use rate_comparison::{ComparedGaps, RateComparison};
pub use responder::{HostInfo, Responder};
pub use result::{BulkCost, Point, ProbeResult, TargetResult};
pub use settings::{ProbeSettings, Unicast};
pub use survey::{SurveyEnd, Surveyor};

pub mod kind {
    //! Frame kinds of measurements: 26–28 of [`Kind`].

    use ethbcast_transport::wire::Kind;

    /// A frame that measures the network, or invites hosts to reply.
    pub const PROBE: Kind = Kind(26);
    /// A frame that comes back.
    pub const ECHO: Kind = Kind(27);
    /// Count and times of a received train.
    pub const REPORT: Kind = Kind(28);
}
