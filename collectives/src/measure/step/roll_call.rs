//! First test of a measurement: which of the given hosts reply at all.

use super::{EchoFrame, ProbeStep};
use crate::measure::body::{ProbeBody, Task};
use crate::measure::findings::Findings;
use crate::measure::probe::{Probe, ProbeWriter};
use crate::measure::settings::{ProbeSettings, SMALL_BYTES};
use ethbcast_transport::wire::Flags;
use ethbcast_transport::{Deadline, Instant, MacAddr, Timer};
use std::time::Duration;

/// Calls after which silent targets are ignored if others have replied, because the wait grows.
const CALLS_TOGETHER: u32 = 3;
/// Part of the time for slow links that one wait may take.
const SLOW_PART: u32 = 8;

#[derive(Clone, Debug, Default)]
pub(in crate::measure) struct RollCall {
    targets: Vec<Called>,
    patience: Duration,
    longest: Duration,
    made: u32,
    calls: u32,
    next: usize,
    due: Option<Instant>,
    over: bool,
}

#[derive(Clone, Debug)]
struct Called {
    mac: MacAddr,
    calls: Vec<(u32, Instant)>,
    round_trip_nanos: Option<u64>,
}

impl RollCall {
    pub(in crate::measure) fn new(findings: &Findings, settings: &ProbeSettings) -> RollCall {
        let called = |mac| Called { mac, calls: Vec::new(), round_trip_nanos: None };
        RollCall {
            targets: findings.targets.iter().map(|target| called(target.peer.mac)).collect(),
            patience: settings.patience,
            longest: settings.patience.max(settings.slow_budget / SLOW_PART),
            calls: settings.roll_calls,
            ..RollCall::default()
        }
    }
}

impl ProbeStep for RollCall {
    fn boxed(&self) -> Box<dyn ProbeStep> {
        Box::new(self.clone())
    }

    fn on_echo(&mut self, now: Instant, echo: EchoFrame) {
        let called = &mut self.targets[echo.target];
        let sent = called.calls.iter().find(|(test, _)| *test == echo.test);
        if let (Some((_, at)), None) = (sent, called.round_trip_nanos) {
            called.round_trip_nanos = Some(now.since(*at).as_nanos() as u64);
        }
    }

    fn on_timeout(&mut self, now: Instant) {
        if self.due.is_some_and(|due| due <= now) {
            (self.due, self.next) = (None, 0);
            (self.calls, self.made) = (self.calls.saturating_sub(1), self.made + 1);
            self.patience = (self.patience * 2).min(self.longest);
            self.over = self.calls == 0;
        }
    }

    fn poll(&mut self, now: Instant, writer: &mut ProbeWriter, buffer: &mut [u8]) -> Option<usize> {
        if self.due.is_some() || self.over {
            return None;
        }
        let Some(skipped) = self.targets[self.next..].iter().position(|called| called.round_trip_nanos.is_none())
        else {
            self.due = Some(now + self.patience);
            return None;
        };
        let called = &mut self.targets[self.next + skipped];
        self.next += skipped + 1;
        let test = writer.draw();
        called.calls.push((test, now));
        let body = ProbeBody { task: Task::Ping, payload_bytes: SMALL_BYTES as u16, number: SMALL_BYTES as u32 };
        let probe = Probe { to: called.mac, test, index: 0, flags: Flags::LAST, body, payload_bytes: SMALL_BYTES };
        Some(writer.write(buffer, &probe))
    }

    fn deadline(&self, _now: Instant) -> Option<Deadline> {
        self.due.map(|at| Deadline { at, why: Timer::HEARTBEAT })
    }

    fn is_done(&self) -> bool {
        let mut answers = self.targets.iter().map(|called| called.round_trip_nanos.is_some());
        let is_growing = self.longest > self.patience;
        let is_enough = is_growing && self.made >= CALLS_TOGETHER && answers.clone().any(|answered| answered);
        self.over || is_enough || answers.all(|answered| answered)
    }

    fn conclude(&self, findings: &mut Findings) {
        for (called, target) in self.targets.iter().zip(&mut findings.targets) {
            target.present = called.round_trip_nanos.is_some();
            if let Some(nanos) = called.round_trip_nanos {
                target.round_trips.entry(SMALL_BYTES).or_default().push(nanos);
            }
        }
    }
}
