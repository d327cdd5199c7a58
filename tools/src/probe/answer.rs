//! `ethbcast probe --answer`: answers others' probes.

use super::Station;
use crate::args::ProbeArgs;
use crate::exit::report;
use ethbcast_collectives::measure::{HostInfo, Responder};
use ethbcast_collectives::session::live::{log_counters, processors};
use ethbcast_transport::packet::processor_time;
use ethbcast_transport::wire::{Frame, Rank};
use ethbcast_transport::{Alone, Deadline, Instant, Kept, Part, SplitFrame, Timer};
use serde_json::json;
use std::time::Duration;

/// Runs the command.
///
/// # Errors
/// A failure whose code is the exit code.
pub fn run(args: &ProbeArgs, mut station: Station) -> anyhow::Result<()> {
    let (host, group) = (station.wire.station.host.clone(), station.wire.station.group.clone());
    // A probe's session is its prober's, so that this host has none.
    let identity = station.identity(0, Rank::NONE);
    let info = HostInfo { group: group.clone(), host: host.clone() };
    let responder = Responder::new(identity, usize::from(station.wire.station.mtu_bytes), Some(info))
        .with_processors(Some(processors(processor_time)));
    let end = args.max_wait.map(|seconds| station.clock.now() + Duration::from_secs_f64(seconds));
    let mut answering = Alone::new(Answering { responder, end });
    if !args.wire.quiet {
        crate::exit::print_line(format_args!(
            "{host} answers the probes of group {group} on {}",
            station.wire.port.interface().name
        ));
    }
    let over = |now| end.is_some_and(|end| end <= now);
    let ended = station.drive(&mut answering, |_, now| over(now), "interrupted; answers no more probes");
    log_counters(&station.wire.port.counters());
    if args.wire.json {
        let frames_sent = answering.part.responder.frames_sent();
        report(&json!({ "schema": 1, "host": host, "frames_sent": frames_sent }).to_string())?;
    }
    ended
}

/// A responder with a time limit.
struct Answering {
    responder: Responder,
    end: Option<Instant>,
}

impl Part for Answering {
    fn handle_frame(&mut self, now: Instant, frame: &Frame<'_>) {
        self.responder.handle_frame(now, frame);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.responder.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        self.responder.poll_transmit(now, buffer)
    }

    fn poll_transmit_split(&mut self, now: Instant, buffer: &mut [u8]) -> Option<SplitFrame> {
        self.responder.poll_transmit_split(now, buffer)
    }

    fn payload(&self, kept: Kept) -> &[u8] {
        self.responder.payload(kept)
    }

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        let end = self.end.map(|at| Deadline { at, why: Timer("end") });
        [end, self.responder.poll_timeout(now)].into_iter().flatten().min()
    }

    fn is_urgent(&self) -> bool {
        self.responder.is_urgent()
    }
}
