//! `ethbcast probe`: measures the network to other hosts: rates, round trips, loss, MTU.

mod discover;
mod measure;

use crate::args::{ProbeArgs, WireArgs};
use crate::exit::{Code, WithCode, report};
use crate::key;
use crate::session::{Wire, print_interface};
use crate::signals::Interrupt;
use ethbcast_collectives::keys::Keys;
use ethbcast_collectives::measure::{HostInfo, Responder};
use ethbcast_collectives::session::live::{log_counters, processors};
use ethbcast_transport::packet::{Clock, PortConfig, Waker, drive, processor_time, random_u64};
use ethbcast_transport::wire::{Guard, Identity, Rank};
use ethbcast_transport::{Alone, Deadline, Instant, Machine, Part, Timer};
pub use measure::{host_of, look_for, measure};
use serde_json::json;
use std::ops::ControlFlow;
use std::time::Duration;

pub fn run(args: ProbeArgs) -> anyhow::Result<()> {
    let station = Station::open(&args.wire, key::resolve(&args.key)?.as_deref())?;
    print_interface(station.wire.port.interface(), args.wire.quiet);
    match () {
        () if args.answer => run_answering(&args, station),
        () if args.discover => discover::run(&args, station),
        () => measure::run(&args, station),
    }
}

/// An open port, on which machines run one after the other.
pub struct Station {
    pub wire: Wire,
    clock: Clock,
    waker: Waker,
    interrupt: Interrupt,
    /// Guards of frames that are accepted; the first is sent with.
    guards: Vec<Guard>,
}

impl Station {
    pub fn open(args: &WireArgs, keys: Option<&Keys>) -> anyhow::Result<Station> {
        let guards = keys.map_or_else(|| vec![Guard::Plain], Keys::probe_guards);
        let waker = Waker::new().code(Code::System)?;
        let interrupt = Interrupt::wake(&waker).code(Code::System)?;
        let mut port = PortConfig::new(args.ether_type);
        // Busy polling would be measured as part of the network, and so would receive coalescing,
        // unless the latter is the subject of the measurement.
        port.busy_poll = Duration::ZERO;
        let mut wire = Wire::open(args, port)?;
        wire.station.guard = guards[0].clone();
        interrupt.begin_polling();
        Ok(Station {
            wire,
            clock: Clock::start(),
            waker,
            interrupt,
            guards,
        })
    }

    fn identity(&self, session: u32, rank: Rank) -> Identity {
        self.wire.station.identity(session, rank)
    }

    fn machine<P: Part>(&self, part: P) -> Alone<P> {
        Alone::guarded(part, self.guards[0].clone())
    }

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
        let signal = drive(&mut self.wire.port, machine, &self.waker, &self.clock, turn)
            .code(Code::System)?;
        match signal {
            Some(signal) => Err(Interrupt::failure(signal, what).into()),
            None => Ok(()),
        }
    }
}

pub fn run_answering(args: &ProbeArgs, mut station: Station) -> anyhow::Result<()> {
    let (host, group) = (
        station.wire.station.host.clone(),
        station.wire.station.group.clone(),
    );
    // A probe's session is its prober's, so this host has none.
    let identity = station.identity(0, Rank::NONE);
    let info = HostInfo {
        group: group.clone(),
        host: host.clone(),
    };
    let mut responder = Responder::new(
        identity,
        usize::from(station.wire.station.mtu_bytes),
        Some(info),
    )
    .with_processors(Some(processors(processor_time)));
    if station.guards[0].is_keyed() {
        responder = responder.with_token(random_u64().code(Code::System)?);
    }
    let end = args
        .max_wait
        .map(|seconds| station.clock.now() + Duration::from_secs_f64(seconds));
    let mut answering = Answering {
        responder,
        end,
        guards: station.guards.clone(),
    };
    if !args.wire.quiet {
        crate::exit::print_line(format_args!(
            "{host} answers the probes of group {group} on {}",
            station.wire.port.interface().name
        ));
    }
    let over = |now| end.is_some_and(|end| end <= now);
    let ended = station.drive(
        &mut answering,
        |_, now| over(now),
        "interrupted; answers no more probes",
    );
    log_counters(&station.wire.port.counters());
    if args.wire.json {
        let frames_sent = answering.responder.frames_sent();
        report(&json!({ "schema": 1, "host": host, "frames_sent": frames_sent }).to_string())?;
    }
    ended
}

struct Answering {
    responder: Responder,
    end: Option<Instant>,
    guards: Vec<Guard>,
}

impl Machine for Answering {
    ethbcast_transport::forward!(self => self.responder; handle_timeout, poll_transmit);
    ethbcast_transport::forward!(self => self.responder; poll_transmit_split, payload, is_urgent);

    /// Takes a frame under any of the cluster's secrets; its replies are made under the same.
    fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        let parsed = self
            .guards
            .iter()
            .find_map(|guard| Some((guard, guard.parse(frame).ok()?)));
        if let Some((guard, frame)) = parsed {
            self.responder.set_guard(guard.clone());
            self.responder.handle_frame(now, &frame);
        }
    }

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        let end = self.end.map(|at| Deadline {
            at,
            why: Timer("end"),
        });
        [end, self.responder.poll_timeout(now)]
            .into_iter()
            .flatten()
            .min()
    }
}
