//! `ethbcast probe`: measures the network between this host and others that run `ethbcast probe
//! --answer`.

mod answer;
mod discover;
mod measure;
mod report;

use crate::args::{ProbeArgs, WireArgs};
use crate::exit::{Code, WithCode};
use crate::session::{Wire, print_interface};
use crate::signals::Interrupt;
use ethbcast_transport::packet::{Clock, PortConfig, Waker, drive};
use ethbcast_transport::wire::{Identity, Rank};
use ethbcast_transport::{Instant, Machine};
pub use measure::{look_for, measure};
pub use report::host_of;
use std::ops::ControlFlow;
use std::time::Duration;

/// Runs the command.
///
/// # Errors
/// A [`Failure`](crate::exit::Failure) whose code is the exit code.
pub fn run(args: ProbeArgs) -> anyhow::Result<()> {
    let station = Station::open(&args.wire)?;
    print_interface(station.wire.port.interface(), args.wire.quiet);
    match () {
        () if args.answer => answer::run(&args, station),
        () if args.discover => discover::run(&args, station),
        () => measure::run(&args, station),
    }
}

/// An open port, on which machines run one after the other.
pub struct Station {
    /// The port with this host's identity.
    pub wire: Wire,
    clock: Clock,
    waker: Waker,
    interrupt: Interrupt,
}

impl Station {
    /// Opens the port.
    ///
    /// # Errors
    /// A [`Failure`](crate::exit::Failure) with code 2 (group name) or 4 (interface, permission).
    pub fn open(args: &WireArgs) -> anyhow::Result<Station> {
        let waker = Waker::new().code(Code::System)?;
        let interrupt = Interrupt::wake(&waker).code(Code::System)?;
        let mut port = PortConfig::new(args.ether_type);
        // Busy polling would be measured as part of the network, and so would receive coalescing,
        // unless it is what is measured.
        port.busy_poll = Duration::ZERO;
        let wire = Wire::open(args, port)?;
        interrupt.begin_polling();
        Ok(Station { wire, clock: Clock::start(), waker, interrupt })
    }

    /// Returns the identity that the frames of this run carry.
    fn identity(&self, session: u32, rank: Rank) -> Identity {
        self.wire.station.identity(session, rank)
    }

    /// Runs a machine until it is done, or fails if a signal interrupts it.
    fn drive<M: Machine>(
        &mut self,
        machine: &mut M,
        mut done: impl FnMut(&M, Instant) -> bool,
        what: &str,
    ) -> anyhow::Result<()> {
        let interrupt = &self.interrupt;
        let turn = |machine: &mut M, now: Instant| match interrupt.signal() {
            Some(signal) => ControlFlow::Break(Some(signal)),
            None if done(machine, now) => ControlFlow::Break(None),
            None => ControlFlow::Continue(()),
        };
        let signal = drive(&mut self.wire.port, machine, &self.waker, &self.clock, turn).code(Code::System)?;
        match signal {
            Some(signal) => Err(Interrupt::failure(signal, what).into()),
            None => Ok(()),
        }
    }
}
