//! Measurement of the round-trip time RTT(m), by messages of m bytes that come back (Patarasuk 2008
//! §5.1).

use super::{EchoFrame, ProbeStep};
use crate::measure::body::{ProbeBody, Task};
use crate::measure::findings::Findings;
use crate::measure::framed_message::FramedMessage;
use crate::measure::probe::{Probe, ProbeWriter};
use crate::measure::settings::ProbeSettings;
use ethbcast_transport::wire::Flags;
use ethbcast_transport::{Deadline, Instant, MacAddr, Timer};
use std::time::Duration;

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
    failures: u32,
    due: Option<Instant>,
}

impl Ping {
    pub(in crate::measure) fn new(target: usize, bytes: usize, findings: &Findings, settings: &ProbeSettings) -> Ping {
        let expected = findings.targets[target].expected_round_trip(bytes).map(Duration::from_nanos);
        Ping {
            target,
            to: findings.targets[target].peer.mac,
            framed: findings.framed(bytes),
            wanted: settings.pings,
            length: settings.train(findings.present()),
            patience: expected.map_or(settings.patience, |expected| PATIENCE_MIN.max(expected * PATIENCE_FACTOR)),
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
            (self.sent, self.failures, self.due) = (0, 0, None);
            let over_time = self.began.is_some_and(|began| now.since(began) >= self.length);
            self.enough = over_time || self.samples_nanos.len() >= self.wanted as usize;
        }
    }

    fn on_timeout(&mut self, now: Instant) {
        if self.due.is_some_and(|due| due <= now) {
            self.failures += 1;
            (self.sent, self.due) = (0, None);
        }
    }

    fn poll(&mut self, now: Instant, writer: &mut ProbeWriter, buffer: &mut [u8]) -> Option<usize> {
        if self.is_done() || self.due.is_some() {
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
            self.due = Some(now + self.patience * (1 << self.failures));
        }
        let body = ProbeBody {
            task: Task::Ping,
            payload_bytes: self.framed.payload_bytes as u16,
            number: u32::try_from(self.framed.bytes).unwrap_or(u32::MAX),
        };
        let flags = if last { Flags::LAST } else { Flags::default() };
        let payload_bytes = self.framed.payload_of(index);
        Some(writer.write(buffer, &Probe { to: self.to, test, index, flags, body, payload_bytes }))
    }

    fn deadline(&self, _now: Instant) -> Option<Deadline> {
        self.due.map(|at| Deadline { at, why: Timer::HEARTBEAT })
    }

    fn is_done(&self) -> bool {
        self.enough || self.failures >= TRIES
    }

    fn conclude(&self, findings: &mut Findings) {
        let target = &mut findings.targets[self.target];
        target.round_trips.entry(self.framed.bytes).or_default().extend(&self.samples_nanos);
        if self.is_done() {
            target.on_echo(!self.samples_nanos.is_empty());
        }
    }
}
