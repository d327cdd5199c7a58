//! Measuring the network between one host and others (Patarasuk 2008 §5.1): g(m), RTT(m), L(m) = RTT(m)/2 − g(m), the
//! link's rate, the path's MTU, the loss, and whether broadcast arrives at full rate.
//!
//! Four state machines: a [`Finder`] asks who is there, a [`Prober`] measures, a [`Surveyor`] finds the switches
//! between hosts, a [`Responder`] answers all three. Each is a [`Part`](ethbcast_transport::Part):
//! [alone](ethbcast_transport::Alone) under a driver, or embedded in a machine that hands it the PROBE, ECHO and REPORT
//! frames of its session. `docs/protocol/measurement.md` §14 describes the frames.
//!
//! **How the gap is measured.** The paper takes the time that M sends take at the sender; behind a kernel that buffers
//! frames that says little. Here a train of messages is sent with a bounded number of frames in flight, and the
//! *responder* says when frames arrived, by its own clock: the slope over the last three quarters of the train is the
//! gap, whatever the first frames found empty on their way (buffers, a shaper's bucket), and however many frames or
//! reports are lost.
//!
//! **What processors take.** If both ends are lent their [`Processors`], it is measured what trains take them, and, as
//! streams are not trains, what a stream of the engine does, to one and by cast to all, and how fast it is.

mod body;
mod calibrate;
mod finder;
mod findings;
pub mod kind;
mod knee;
mod listener;
mod parcel;
mod probe;
mod prober;
mod processor;
mod responder;
mod result;
mod settings;
mod spell;
mod step;
mod survey;
#[cfg(test)]
mod tests;

pub(crate) use calibrate::broadcast;
pub use calibrate::{calibrate, host_costs};
pub use finder::{Answerer, Finder, Search};
pub use findings::CastFinding;
pub(crate) use probe::{FIRST_PING, carries, write_ping};
pub use prober::Prober;
pub use processor::{Processors, WorkPoint};
pub use responder::{HostInfo, Responder};
pub use result::{Bulk, Point, ProbeResult, TargetResult};
pub use settings::{ProbeSettings, Unicast};
pub(crate) use spell::spell;
pub use survey::{SurveyEnd, Surveyor};
