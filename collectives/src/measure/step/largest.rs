//! Measurement of the path MTU: the largest single frame that comes back.

use super::{EchoFrame, ProbeStep};
use crate::measure::body::{ProbeBody, Task};
use crate::measure::findings::Findings;
use crate::measure::probe::{Probe, ProbeWriter};
use crate::measure::settings::{ProbeSettings, SMALL_BYTES};
use crate::membership::MIN_MTU_BYTES;
use ethbcast_transport::wire::Flags;
use ethbcast_transport::{Deadline, Instant, MacAddr, Timer};
use std::time::Duration;

/// Tries of a size before it counts as too large. At 10 % loss each way one path in 800 is
/// misjudged.
const TRIES: u32 = 4;
/// Shortest wait for an echo; otherwise it is a multiple of a short frame's round trip.
const PATIENCE: Duration = Duration::from_millis(20);
const PATIENCE_FACTOR: u32 = 8;
/// Common MTUs, tried before the bisection.
const COMMON_MTU_BYTES: [usize; 3] = [9000, 1500, MIN_MTU_BYTES as usize];

#[derive(Clone, Debug, Default)]
pub(in crate::measure) struct Largest {
    target: usize,
    to: MacAddr,
    patience: Duration,
    header_bytes: usize,
    passes: usize,
    fails: usize,
    tried: usize,
    tries: u32,
    tests: Vec<u32>,
    /// Largest MTU. It is tried again if the next smaller one is the result: no path has such a
    /// limit, but a host may have paused.
    largest: usize,
    is_repeated: bool,
    due: Option<Instant>,
}

impl Largest {
    pub(in crate::measure) fn new(target: usize, findings: &Findings, settings: &ProbeSettings) -> Largest {
        // Frames too large for one target are not needed for the others.
        let known = findings.targets.iter().filter_map(|target| target.mtu_bytes).min();
        let largest = known.unwrap_or(settings.mtu_bytes);
        let it = &findings.targets[target];
        let expected = it.expected_round_trip(SMALL_BYTES).map(Duration::from_nanos).unwrap_or_default();
        Largest {
            target,
            to: it.peer.mac,
            patience: PATIENCE.max(expected * PATIENCE_FACTOR),
            header_bytes: settings.guard.header_bytes(),
            fails: largest + 1,
            tried: largest,
            largest,
            ..Largest::default()
        }
    }

    fn choose(&mut self) {
        self.tries = 0;
        if self.passes + 1 == self.largest && self.fails == self.largest && !self.is_repeated {
            (self.fails, self.tried, self.is_repeated) = (self.largest + 1, self.largest, true);
            return;
        }
        let common = COMMON_MTU_BYTES.into_iter().find(|&mtu_bytes| mtu_bytes < self.fails);
        self.tried = match (self.passes, common) {
            (0, Some(mtu_bytes)) => mtu_bytes,
            // If even the smallest frame fails, there is no result.
            (0, None) => 0,
            (passes, _) => passes.midpoint(self.fails),
        };
    }
}

impl ProbeStep for Largest {
    fn boxed(&self) -> Box<dyn ProbeStep> {
        Box::new(self.clone())
    }

    fn on_echo(&mut self, _now: Instant, echo: EchoFrame) {
        let bytes = echo.payload_bytes + self.header_bytes;
        let is_own = echo.target == self.target && echo.last && self.tests.contains(&echo.test);
        // A late echo of a longer frame proves more.
        if is_own && bytes > self.passes && bytes <= self.largest {
            if bytes >= self.fails {
                self.fails = self.largest + 1;
            }
            self.passes = bytes;
            if bytes >= self.tried {
                self.due = None;
                self.choose();
            }
        }
    }

    fn on_timeout(&mut self, now: Instant) {
        if self.due.is_some_and(|due| due <= now) {
            self.due = None;
            if self.tries >= TRIES {
                self.fails = self.tried;
                self.choose();
            }
        }
    }

    fn poll(&mut self, now: Instant, writer: &mut ProbeWriter, buffer: &mut [u8]) -> Option<usize> {
        if self.is_done() || self.due.is_some() {
            return None;
        }
        let test = writer.draw();
        self.tests.push(test);
        self.tries += 1;
        self.due = Some(now + self.patience);
        let payload_bytes = self.tried - self.header_bytes;
        let body = ProbeBody { task: Task::Ping, payload_bytes: payload_bytes as u16, number: payload_bytes as u32 };
        Some(writer.write(buffer, &Probe { to: self.to, test, index: 0, flags: Flags::LAST, body, payload_bytes }))
    }

    fn deadline(&self, _now: Instant) -> Option<Deadline> {
        self.due.map(|at| Deadline { at, why: Timer::HEARTBEAT })
    }

    fn is_done(&self) -> bool {
        self.passes + 1 == self.fails || self.tried == 0
    }

    fn conclude(&self, findings: &mut Findings) {
        let target = &mut findings.targets[self.target];
        if self.passes > 0 {
            target.mtu_bytes = Some(self.passes);
            findings.payload_bytes = findings.payload_bytes.min(self.passes - self.header_bytes);
        }
    }
}
