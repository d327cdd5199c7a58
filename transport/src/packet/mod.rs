//! The AF_PACKET driver: runs any [`Machine`](crate::Machine) on a real Ethernet interface and the
//! real clock.
//!
//! Frames arrive through a TPACKET_V2 ring and are passed to the machine in place; they leave
//! through a staging area and `sendmmsg`. A [`Port`] is the [`Link`](crate::Link) over both and
//! [`drive`] the loop on it; [`Shared`] runs a machine for blocking calls of several threads, and
//! continues in the background. Only this folder uses file descriptors.
//!
//! A filter in the kernel drops every frame that is not of our EtherType, or not addressed to our
//! own MAC or our group's (a veth, a promiscuous NIC or a flooding switch delivers frames for other
//! hosts). Promiscuous mode is never turned on.
//!
//! ```no_run
//! use ethbcast_transport::packet::{Clock, Interface, Port, PortConfig, Waker, drive};
//! use ethbcast_transport::wire::EtherType;
//! use std::ops::ControlFlow;
//! # use ethbcast_transport::Machine;
//! # type Anything = Result<(), Box<dyn std::error::Error>>;
//! # fn run<M: Machine>(mut machine: M, done: impl Fn(&M) -> bool) -> Anything {
//! let interface = Interface::find(Some("eth0"))?;
//! let mut port = Port::open(&interface, PortConfig::new(EtherType::DEFAULT))?;
//! drive(&mut port, &mut machine, &Waker::new()?, &Clock::start(), |machine, _now| {
//!     if done(machine) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
//! })?;
//! # Ok(()) }
//! ```

mod capture;
mod clock;
mod counters;
mod drive;
mod error;
mod filter;
mod frame_sender;
mod interface;
mod links;
mod node;
mod outage;
mod port;
mod random;
mod refusals;
mod ring;
mod send_buffer;
mod sender;
mod served;
mod shared;
mod sleep;
mod staging;
mod syscall;

pub use capture::Capture;
pub use clock::{Clock, processor_time, thread_time};
pub use counters::Counters;
pub use drive::drive;
pub use error::{DriveError, Errno, OpenError};
pub use frame_sender::FrameSender;
pub use interface::{Interface, InterfaceError};
pub use node::{NodeConfig, NodeError, NodePort, NodeWaiter};
pub use port::{Port, PortConfig};
pub use random::{random_u32, random_u64};
pub use served::{PortClient, PortServer};
pub use shared::Shared;
pub use sleep::{Sleeper, SocketEvents, Waker};
pub use syscall::keep_little_memory;
