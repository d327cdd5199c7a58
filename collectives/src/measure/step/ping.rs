//! Network tests by frames that come back: reachability, round-trip time RTT(m) (Patarasuk 2008
//! §5.1), and path MTU.

use super::{EchoFrame, ProbeStep, ReplyWait};
use crate::measure::body::{ProbeBody, Task};
use crate::measure::findings::Findings;
use crate::measure::probe::{FramedMessage, Probe, ProbeWriter};
use crate::measure::settings::{ProbeSettings, SMALL_BYTES};
use crate::membership::MIN_MTU_BYTES;
use ethbcast_transport::wire::Flags;
use ethbcast_transport::{Deadline, Instant, MacAddr};
use std::time::Duration;

/// Tries before a step gives up. At 10 % loss each way one path in 800 is misjudged.
const TRIES: u32 = 4;
/// First wait as a multiple of the expected round trip, long enough for a busy host.
const PATIENCE_FACTOR: u32 = 3;
const PATIENCE_MIN: Duration = Duration::from_millis(10);

#[derive(Clone, Debug, Default)]
pub(in crate::measure) struct Ping {
    target: usize,
    to: MacAddr,
    framed: FramedMessage,
    wanted: u32,
    length: Duration,
    began: Option<Instant>,
    patience: Duration,
    enough: bool,
    samples_nanos: Vec<u64>,
    /// Number and time of every message since the last that came back: a late echo counts for its
    /// own message.
    unanswered: Vec<(u32, Instant)>,
    sent: u64,
    wait: ReplyWait,
}

impl Ping {
    pub(in crate::measure) fn new(
        target: usize,
        bytes: usize,
        findings: &Findings,
        settings: &ProbeSettings,
    ) -> Ping {
        let expected = findings.targets[target]
            .expected_round_trip(bytes)
            .map(Duration::from_nanos);
        Ping {
            target,
            to: findings.targets[target].peer.mac,
            framed: findings.framed(bytes),
            wanted: settings.pings,
            length: settings.train(findings.present()),
            patience: expected.map_or(settings.patience, |expected| {
                PATIENCE_MIN.max(expected * PATIENCE_FACTOR)
            }),
            ..Ping::default()
        }
    }
}

impl ProbeStep for Ping {
    fn boxed(&self) -> Box<dyn ProbeStep> {
        Box::new(self.clone())
    }

    fn on_echo(&mut self, now: Instant, echo: EchoFrame) {
        if echo.target != self.target || !echo.last {
            return;
        }
        if let Some((_, sent)) = self.unanswered.iter().find(|(test, _)| *test == echo.test) {
            self.samples_nanos.push(now.since(*sent).as_nanos() as u64);
            self.unanswered.clear();
            (self.sent, self.wait) = (0, ReplyWait::default());
            let over_time = self
                .began
                .is_some_and(|began| now.since(began) >= self.length);
            self.enough = over_time || self.samples_nanos.len() >= self.wanted as usize;
        }
    }

    fn on_timeout(&mut self, now: Instant) {
        if self.wait.on_timeout(now) {
            self.sent = 0;
        }
    }

    fn poll(&mut self, now: Instant, writer: &mut ProbeWriter, buffer: &mut [u8]) -> Option<usize> {
        if self.is_done() || self.wait.is_on() {
            return None;
        }
        self.began.get_or_insert(now);
        if self.sent == 0 {
            self.unanswered.push((writer.draw(), now));
        }
        let (test, _) = *self.unanswered.last()?;
        let index = self.sent;
        self.sent += 1;
        let last = self.sent == self.framed.frames();
        if last {
            self.wait.begin_doubled(now, self.patience);
        }
        let body = ProbeBody {
            task: Task::Ping,
            payload_bytes: self.framed.payload_bytes as u16,
            number: u32::try_from(self.framed.bytes).unwrap_or(u32::MAX),
        };
        let flags = if last { Flags::LAST } else { Flags::default() };
        let payload_bytes = self.framed.payload_of(index);
        Some(writer.write(
            buffer,
            &Probe {
                to: self.to,
                test,
                index,
                flags,
                body,
                payload_bytes,
            },
        ))
    }

    fn deadline(&self, _now: Instant) -> Option<Deadline> {
        self.wait.deadline()
    }

    fn is_done(&self) -> bool {
        self.enough || self.wait.misses >= TRIES
    }

    fn conclude(&self, findings: &mut Findings) {
        let target = &mut findings.targets[self.target];
        target
            .round_trips
            .entry(self.framed.bytes)
            .or_default()
            .extend(&self.samples_nanos);
        if self.is_done() {
            target.on_echo(!self.samples_nanos.is_empty());
        }
    }
}

/// Shortest wait for an echo; otherwise it is a multiple of a short frame's round trip.
const LARGEST_PATIENCE: Duration = Duration::from_millis(20);
const LARGEST_PATIENCE_FACTOR: u32 = 8;
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
    tests: Vec<u32>,
    /// Largest MTU. It is tried again if the next smaller one is the result: no path has such a
    /// limit, but a host may have paused.
    largest: usize,
    is_repeated: bool,
    wait: ReplyWait,
}

impl Largest {
    pub(in crate::measure) fn new(
        target: usize,
        findings: &Findings,
        settings: &ProbeSettings,
    ) -> Largest {
        // Frames too large for one target are not needed for the others.
        let known = findings
            .targets
            .iter()
            .filter_map(|target| target.mtu_bytes)
            .min();
        let largest = known.unwrap_or(settings.mtu_bytes);
        let it = &findings.targets[target];
        let expected = it
            .expected_round_trip(SMALL_BYTES)
            .map(Duration::from_nanos)
            .unwrap_or_default();
        Largest {
            target,
            to: it.peer.mac,
            patience: LARGEST_PATIENCE.max(expected * LARGEST_PATIENCE_FACTOR),
            header_bytes: settings.guard.header_bytes(),
            fails: largest + 1,
            tried: largest,
            largest,
            ..Largest::default()
        }
    }

    fn choose(&mut self) {
        self.wait = ReplyWait::default();
        if self.passes + 1 == self.largest && self.fails == self.largest && !self.is_repeated {
            (self.fails, self.tried, self.is_repeated) = (self.largest + 1, self.largest, true);
            return;
        }
        let common = COMMON_MTU_BYTES
            .into_iter()
            .find(|&mtu_bytes| mtu_bytes < self.fails);
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
                self.choose();
            }
        }
    }

    fn on_timeout(&mut self, now: Instant) {
        if self.wait.on_timeout(now) && self.wait.misses >= TRIES {
            self.fails = self.tried;
            self.choose();
        }
    }

    fn poll(&mut self, now: Instant, writer: &mut ProbeWriter, buffer: &mut [u8]) -> Option<usize> {
        if self.is_done() || self.wait.is_on() {
            return None;
        }
        let test = writer.draw();
        self.tests.push(test);
        self.wait.begin(now, self.patience);
        let payload_bytes = self.tried - self.header_bytes;
        let body = ProbeBody {
            task: Task::Ping,
            payload_bytes: payload_bytes as u16,
            number: payload_bytes as u32,
        };
        Some(writer.write(
            buffer,
            &Probe {
                to: self.to,
                test,
                index: 0,
                flags: Flags::LAST,
                body,
                payload_bytes,
            },
        ))
    }

    fn deadline(&self, _now: Instant) -> Option<Deadline> {
        self.wait.deadline()
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

/// Calls after which silent targets are ignored if others have replied, because the wait grows.
const CALLS_TOGETHER: u32 = 3;
/// Part of the time for slow links that one wait may take.
const SLOW_PART: u32 = 8;

#[derive(Clone, Debug, Default)]
pub(in crate::measure) struct RollCall {
    targets: Vec<Called>,
    patience: Duration,
    longest: Duration,
    calls: u32,
    next: usize,
    wait: ReplyWait,
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
        let called = |mac| Called {
            mac,
            calls: Vec::new(),
            round_trip_nanos: None,
        };
        RollCall {
            targets: findings
                .targets
                .iter()
                .map(|target| called(target.peer.mac))
                .collect(),
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
        if self.wait.on_timeout(now) {
            (self.next, self.calls) = (0, self.calls.saturating_sub(1));
            self.patience = (self.patience * 2).min(self.longest);
            self.over = self.calls == 0;
        }
    }

    fn poll(&mut self, now: Instant, writer: &mut ProbeWriter, buffer: &mut [u8]) -> Option<usize> {
        if self.wait.is_on() || self.over {
            return None;
        }
        let Some(skipped) = self.targets[self.next..]
            .iter()
            .position(|called| called.round_trip_nanos.is_none())
        else {
            self.wait.begin(now, self.patience);
            return None;
        };
        let called = &mut self.targets[self.next + skipped];
        self.next += skipped + 1;
        let test = writer.draw();
        called.calls.push((test, now));
        let body = ProbeBody {
            task: Task::Ping,
            payload_bytes: SMALL_BYTES as u16,
            number: SMALL_BYTES as u32,
        };
        let probe = Probe {
            to: called.mac,
            test,
            index: 0,
            flags: Flags::LAST,
            body,
            payload_bytes: SMALL_BYTES,
        };
        Some(writer.write(buffer, &probe))
    }

    fn deadline(&self, _now: Instant) -> Option<Deadline> {
        self.wait.deadline()
    }

    fn is_done(&self) -> bool {
        let mut answers = self
            .targets
            .iter()
            .map(|called| called.round_trip_nanos.is_some());
        let is_growing = self.longest > self.patience;
        let is_enough = is_growing
            && self.wait.misses >= CALLS_TOGETHER
            && answers.clone().any(|answered| answered);
        self.over || is_enough || answers.all(|answered| answered)
    }

    fn conclude(&self, findings: &mut Findings) {
        for (called, target) in self.targets.iter().zip(&mut findings.targets) {
            target.present = called.round_trip_nanos.is_some();
            if let Some(nanos) = called.round_trip_nanos {
                target
                    .round_trips
                    .entry(SMALL_BYTES)
                    .or_default()
                    .push(nanos);
            }
        }
    }
}
