//! Measurement of the gap g(m) between messages of a long one-way burst, and of the loss (Patarasuk
//! 2008 §5.1).

use super::{ProbeStep, ReplyWait, Report};
use crate::measure::body::{ProbeBody, ReportBody, Task};
use crate::measure::findings::Findings;
use crate::measure::probe::{FramedMessage, Probe, ProbeWriter};
use crate::measure::processor::{ProcessorTime, Processors, between};
use crate::measure::settings::ProbeSettings;
use ethbcast_transport::wire::Flags;
use ethbcast_transport::{Deadline, Instant, MacAddr};
use std::time::Duration;

/// Frames in flight, initially and at most: 1 ms of the fastest host here, a quarter of a
/// millisecond at 10 Gbit/s.
const WINDOW_START_FRAMES: u64 = 32;
const WINDOW_MAX_FRAMES: u64 = 256;
/// Frames in flight at first, as the time that they take: a slow link needs seconds for a fast
/// one's window.
const WINDOW_START: Duration = Duration::from_millis(32);
const WINDOW_MIN_FRAMES: u64 = 4;
/// Parts of a train that are compared with the whole. They agree below this relative difference, or
/// if a pause of the receiver explains the difference.
const PARTS: usize = 4;
const NAP_NANOS: f64 = 1e6;
const AGREE: f64 = 0.05;
const WINDOW_MAX_BYTES: u64 = 1 << 20;
/// Reports per window: the loss of three in a row does not stop the train.
const REPORTS_PER_WINDOW: u64 = 4;
/// Requests to a silent responder; the wait doubles each time.
const TRIES: u32 = 4;
/// Shortest wait for a report, which covers the delay of a busy host. Otherwise it is twice the
/// time of all frames in flight.
const PATIENCE_MIN: Duration = Duration::from_millis(10);
const PATIENCE_MAX: Duration = Duration::from_secs(1);
/// Longest plausible time of a message; longer ones are ignored.
const GAP_MAX_NANOS: f64 = 1e11;
/// Divisor of the leading part of a train, which does not count: it may have found empty buffers
/// and full buckets. It applies to time as well as to frames, because a bucket lets many frames
/// through at once.
const LEAD_IN_PART: u64 = 4;

#[derive(Clone, Debug, Default)]
pub(in crate::measure) struct Train {
    target: usize,
    to: MacAddr,
    framed: FramedMessage,
    length: Duration,
    least_messages: u64,
    patience: Duration,
    test: Option<u32>,
    began: Instant,
    next: u64,
    window_frames: u64,
    asked: u64,
    ended: bool,
    /// Reports, each as frames seen and time of the last arrival.
    reports: Vec<(u64, u64)>,
    first_nanos: u64,
    stalled: bool,
    work: Vec<ProcessorTime>,
    processors: Option<Processors>,
    latest: Option<(u64, ReportBody)>,
    closed: bool,
    ask: bool,
    wait: ReplyWait,
}

impl Train {
    pub(in crate::measure) fn new(
        target: usize,
        bytes: usize,
        findings: &Findings,
        settings: &ProbeSettings,
    ) -> Train {
        let framed = findings.framed(bytes);
        let expected = findings.targets[target]
            .expected_round_trip(bytes)
            .map(Duration::from_nanos);
        let frame = expected
            .map_or(1, |expected| {
                expected.as_nanos() as u64 / 2 / framed.frames()
            })
            .max(1);
        let window_frames = WINDOW_START.as_nanos() as u64 / frame;
        Train {
            target,
            to: findings.targets[target].peer.mac,
            framed,
            length: settings
                .train(findings.present())
                .max(settings.least_train(bytes)),
            least_messages: settings.train_messages,
            patience: settings.patience.max(expected.unwrap_or_default() * 2),
            window_frames: window_frames.clamp(WINDOW_MIN_FRAMES, WINDOW_START_FRAMES),
            processors: findings.processors,
            ..Train::default()
        }
    }

    fn seen(&self) -> u64 {
        self.latest.map_or(0, |(seen, _)| seen)
    }

    fn window_frames(&self) -> u64 {
        let affordable = WINDOW_MAX_BYTES / self.framed.payload_bytes.max(1) as u64;
        self.window_frames.min(affordable.max(2))
    }

    fn may_send(&self) -> bool {
        !self.ended && self.next < self.seen() + self.window_frames()
    }

    fn patience(&self) -> Duration {
        let Some((seen, body)) = self.latest.filter(|(seen, _)| *seen > 0) else {
            return self.patience;
        };
        let frame_nanos = (body.last_nanos - body.first_nanos) / seen;
        let drain = Duration::from_nanos(frame_nanos.saturating_mul(2 * (self.next - seen)));
        drain.clamp(PATIENCE_MIN, PATIENCE_MAX)
    }

    fn is_enough(&self, now: Instant) -> bool {
        let messages = self.next / self.framed.frames();
        messages >= self.least_messages && now.since(self.began) >= self.length
    }

    fn flags(&mut self, now: Instant) -> Flags {
        self.ended = self.next.is_multiple_of(self.framed.frames()) && self.is_enough(now);
        let spacing = self.window_frames() / REPORTS_PER_WINDOW;
        match (self.ended, self.next - self.asked >= spacing.max(1)) {
            (true, _) => Flags::LAST.with(Flags::ACK_NOW),
            (false, true) => {
                self.asked = self.next;
                Flags::ACK_NOW
            }
            (false, false) => Flags::default(),
        }
    }

    fn note_work(&mut self, report: &Report) {
        if let Some(processors) = self.processors {
            let (sending_nanos, receiving_nanos) = (processors.nanos(), report.body.worked_nanos);
            self.work.push(ProcessorTime {
                seen: report.seen,
                sent: self.next,
                receiving_nanos,
                sending_nanos,
            });
        }
    }

    fn work_nanos(&self) -> Option<(u64, u64)> {
        let ((first, _), (last, _)) = steady_part(&self.reports, None)?;
        let at = |seen| self.work.iter().find(|work| work.seen == seen);
        between(at(first)?, at(last)?, self.framed)
    }

    /// Returns the time of a message: the slope from the end of the lead-in to the last frame that
    /// arrived.
    fn gap_nanos(&self) -> Option<u64> {
        let ((first, first_nanos), (last, last_nanos)) =
            steady_part(&self.reports, (!self.stalled).then_some(self.first_nanos))?;
        let wire_bytes = self.framed.wire_bytes(last) - self.framed.wire_bytes(first);
        let nanos = last_nanos
            .checked_sub(first_nanos)
            .filter(|&nanos| nanos > 0 && wire_bytes > 0)?;
        let gap_nanos = nanos as f64 * self.framed.message_wire_bytes() as f64 / wire_bytes as f64;
        (gap_nanos <= GAP_MAX_NANOS).then_some(gap_nanos as u64)
    }
}

/// Returns the share by which parts of a train with this gap differ from the whole; `None` if it is
/// too short to tell. A difference below a receiver's usual pause counts as none.
fn spread(reports: &[(u64, u64)], first_nanos: Option<u64>) -> Option<f64> {
    let ((first, began), (last, ended)) = steady_part(reports, first_nanos)?;
    let frame_nanos = ended.checked_sub(began)? as f64
        / last.checked_sub(first).filter(|&frames| frames > 0)? as f64;
    let steady = reports
        .iter()
        .filter(|&&(seen, _)| seen > first && seen <= last);
    let marks: Vec<(u64, u64)> = std::iter::once((first, began))
        .chain(steady.copied())
        .collect();
    let part = |at: usize| marks[at * (marks.len() - 1) / PARTS];
    let differs = |at: usize| {
        let ((from, left), (to, reached)) = (part(at), part(at + 1));
        let (expected, took) = (
            (to - from) as f64 * frame_nanos,
            reached.saturating_sub(left) as f64,
        );
        ((took - NAP_NANOS) / expected).max(expected / (took + NAP_NANOS)) - 1.0
    };
    let most = (0..PARTS).map(differs).fold(0.0, f64::max);
    (marks.len() > PARTS).then_some(if most < AGREE { 0.0 } else { most })
}

/// Returns the first and the last report, as frames and time, of the part with a steady rate. A
/// train cut short may have a single report; it is then paired with the first frame, if known.
fn steady_part(
    reports: &[(u64, u64)],
    began_nanos: Option<u64>,
) -> Option<((u64, u64), (u64, u64))> {
    let &(last, last_nanos) = reports.last()?;
    let began = began_nanos.unwrap_or(reports[0].1);
    let lead_in_nanos = began + last_nanos.saturating_sub(began) / LEAD_IN_PART;
    let before = |&&(seen, _): &&(u64, u64)| seen < last;
    let counts =
        |&(seen, nanos): &(u64, u64)| seen >= last.div_ceil(LEAD_IN_PART) && nanos >= lead_in_nanos;
    let lead_in = reports.iter().filter(before).find(|report| counts(report));
    // If all other reports came at once, only the interval before the last is left.
    let first = lead_in
        .or_else(|| reports.iter().rev().find(before))
        .copied();
    Some((
        first.or(began_nanos.map(|nanos| (1, nanos)))?,
        (last, last_nanos),
    ))
}

impl ProbeStep for Train {
    fn boxed(&self) -> Box<dyn ProbeStep> {
        Box::new(self.clone())
    }

    fn on_report(&mut self, now: Instant, report: Report) {
        let own = report.target == self.target
            && self.test == Some(report.test)
            && report.seen <= self.next;
        if !own || report.seen < self.seen() {
            return;
        }
        self.wait.misses = 0;
        self.closed = self.ended && (report.seen == self.next || report.asked);
        self.window_frames =
            (self.window_frames + report.seen - self.seen()).min(WINDOW_MAX_FRAMES);
        if report.asked && !self.ended {
            // The train stalled because reports were lost. Only the time since counts.
            self.reports.clear();
            self.work.clear();
            self.stalled = true;
        } else if report.seen > self.seen() {
            self.reports.push((report.seen, report.body.last_nanos));
            self.first_nanos = report.body.first_nanos;
            self.note_work(&report);
        }
        self.latest = Some((report.seen, report.body));
        self.wait.begin(now, self.patience());
    }

    fn on_timeout(&mut self, now: Instant) {
        self.ask |= !self.is_done() && self.wait.on_timeout(now);
    }

    fn poll(&mut self, now: Instant, writer: &mut ProbeWriter, buffer: &mut [u8]) -> Option<usize> {
        if self.is_done() {
            return None;
        }
        let test = *self.test.get_or_insert_with(|| {
            self.began = now;
            writer.draw()
        });
        if std::mem::take(&mut self.ask) {
            self.wait.begin_doubled(now, self.patience());
            return Some(writer.write(buffer, &Probe::request(self.to, test, self.next)));
        }
        if !self.may_send() {
            return None;
        }
        let index = self.next;
        let payload_bytes = self.framed.payload_of(index % self.framed.frames());
        self.next += 1;
        let flags = self.flags(now);
        self.wait.begin(now, self.patience());
        Some(writer.write(
            buffer,
            &Probe {
                to: self.to,
                test,
                index,
                flags,
                body: ProbeBody::plain(Task::Train),
                payload_bytes,
            },
        ))
    }

    fn deadline(&self, _now: Instant) -> Option<Deadline> {
        self.wait.deadline()
    }

    fn is_done(&self) -> bool {
        self.closed || self.wait.misses > TRIES
    }

    fn conclude(&self, findings: &mut Findings) {
        let target = &mut findings.targets[self.target];
        if let Some(gap_nanos) = self.gap_nanos() {
            target
                .gaps
                .entry(self.framed.bytes)
                .or_default()
                .push(gap_nanos);
            let spread = spread(&self.reports, (!self.stalled).then_some(self.first_nanos));
            target
                .spreads
                .entry(self.framed.bytes)
                .or_default()
                .extend(spread);
        }
        if let Some((sending, receiving)) = self.work_nanos() {
            target
                .sending
                .entry(self.framed.bytes)
                .or_default()
                .push(sending);
            target
                .receiving
                .entry(self.framed.bytes)
                .or_default()
                .push(receiving);
        }
        if let Some((seen, body)) = self.latest {
            target.computer = body.computer.or(target.computer);
            // Once the end is known, frames after the last arrival count as lost, too.
            let sent = if self.closed { self.next } else { seen };
            target.sent += sent;
            target.lost += sent.saturating_sub(body.arrived);
        }
        if self.is_done() {
            target.on_echo(self.latest.is_some());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns reports after every 16th of `frames` frames. The first `burst` arrive at once, the
    /// others every 120 µs.
    fn behind_a_bucket(frames: u64, burst: u64) -> Vec<(u64, u64)> {
        let nanos = |seen: u64| 1_000 * seen.min(burst) + 120_000 * seen.saturating_sub(burst);
        (16..=frames)
            .step_by(16)
            .map(|seen| (seen, nanos(seen)))
            .collect()
    }

    #[test]
    fn the_burst_of_a_token_bucket_is_not_the_rate_of_the_link() {
        for burst in [0, 4, 40, 100, 170] {
            let reports = behind_a_bucket(burst + 64, burst);
            let ((first, began), (last, ended)) =
                steady_part(&reports, Some(1_000)).expect("enough");
            let gap_nanos = (ended - began) / (last - first);
            assert!(
                (119_000..=120_000).contains(&gap_nanos),
                "{gap_nanos} ns behind a bucket of {burst} frames"
            );
        }
    }

    #[test]
    fn a_train_whose_parts_differ_says_by_how_much() {
        let steady: Vec<(u64, u64)> = (1..=40).map(|at| (8 * at, 960_000 * at)).collect();
        assert_eq!(spread(&steady, Some(120_000)), Some(0.0));
        assert_eq!(
            spread(&behind_a_bucket(400, 100), Some(1_000)),
            Some(0.0),
            "only the steady part counts"
        );
        // A receiver that pauses for a millisecond at times is as good as steady.
        let naps: Vec<(u64, u64)> = steady
            .iter()
            .map(|&(seen, at)| (seen, at.next_multiple_of(1_000_000)))
            .collect();
        assert_eq!(spread(&naps, Some(120_000)), Some(0.0));
        // A busy host takes its processor away for 20 ms.
        let late = |&(seen, at): &(u64, u64)| (seen, if seen > 200 { at + 20_000_000 } else { at });
        let stolen = spread(&steady.iter().map(late).collect::<Vec<_>>(), Some(120_000))
            .expect("long enough");
        assert!((0.5..3.0).contains(&stolen), "{stolen}");
        assert_eq!(spread(&steady[..4], Some(120_000)), None, "too few reports");
    }

    #[test]
    fn a_train_cut_short_has_what_it_has() {
        assert_eq!(steady_part(&[], Some(5)), None);
        assert_eq!(
            steady_part(&[(8, 800)], Some(100)),
            Some(((1, 100), (8, 800)))
        );
        assert_eq!(
            steady_part(&[(8, 800)], None),
            None,
            "it stood still before"
        );
        assert_eq!(
            steady_part(&[(8, 10), (16, 20), (24, 9_000)], Some(1)),
            Some(((16, 20), (24, 9_000)))
        );
    }
}
