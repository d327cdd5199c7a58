//! Whether frames to the group address arrive as fast as unicast: a ramp of paced trains.
//!
//! Each level is twice as fast as the one before, up to the link's rate. When a level is policed, it is repeated at
//! once, longer: the switch's bucket is empty by then, so what gets through now is the rate it allows. A loss that does
//! not happen again was an accident, and the ramp goes on.

use super::{Report, Step};
use crate::measure::body::{ProbeBody, ReportBody, Task};
use crate::measure::findings::{CastFinding, Findings};
use crate::measure::knee::{Known, RampPace, policed};
use crate::measure::probe::{Probe, ProbeWriter};
use crate::measure::settings::ProbeSettings;
use ethbcast_transport::wire::Flags;
use ethbcast_transport::{Deadline, Instant, MacAddr, Timer};
use std::time::Duration;

/// Levels, as parts of the link's rate.
const LEVELS: [f64; 4] = [0.125, 0.25, 0.5, 1.0];
/// How long a level lasts, and how many frames it has: enough to judge, fewer than a receive ring holds.
const LEVEL: Duration = Duration::from_millis(100);
const LEAST_FRAMES: u64 = 128;
const MOST_FRAMES: u64 = 4096;
/// A repetition is so long that this many frames should get through in its second half.
const WORTHWHILE_FRAMES: f64 = 64.0;
/// Frames that may leave at once to catch up after a late wake-up.
const BURST_FRAMES: u64 = 32;
/// Targets that do not report are asked so often.
const TRIES: u32 = 4;

/// The ramp, and what it has shown.
#[derive(Clone, Debug)]
pub(in crate::measure) struct CastStep {
    group: MacAddr,
    hearers: Vec<Hearer>,
    link_frames_per_second: f64,
    payload_bytes: usize,
    patience: Duration,
    level: usize,
    /// What got through at the first try, if the present run is a repetition.
    suspicion: Option<f64>,
    run: Run,
    finding: CastFinding,
    done: bool,
}

#[derive(Clone, Debug)]
struct Hearer {
    target: usize,
    mac: MacAddr,
    known: Known,
    report: Option<ReportBody>,
    to_ask: bool,
}

/// One train.
#[derive(Clone, Debug)]
struct Run {
    pace: RampPace,
    test: Option<u32>,
    sent: u64,
    /// When frame 0 left, or should have left to be on time now.
    origin: Instant,
    tries: u32,
    due: Option<Instant>,
}

impl Run {
    fn new(pace: RampPace) -> Run {
        Run { pace, test: None, sent: 0, origin: Instant::START, tries: 0, due: None }
    }

    fn is_sent(&self) -> bool {
        self.sent >= self.pace.frames
    }

    fn due_at(&self, frame: u64) -> Instant {
        self.origin + Duration::from_secs_f64(frame as f64 / self.pace.frames_per_second)
    }
}

impl CastStep {
    pub(in crate::measure) fn new(group: MacAddr, findings: &Findings, settings: &ProbeSettings) -> CastStep {
        let present = findings.targets.iter().enumerate().filter(|(_, it)| it.present);
        let hearers: Vec<Hearer> = present
            .filter_map(|(target, it)| {
                let frames_per_second = it.frames_per_second(findings.payload_bytes)?;
                let known = Known { frames_per_second, loss: it.loss() };
                Some(Hearer { target, mac: it.peer.mac, known, report: None, to_ask: false })
            })
            .collect();
        let link_frames_per_second = hearers.iter().map(|it| it.known.frames_per_second).fold(0.0, f64::max);
        CastStep {
            group,
            done: hearers.is_empty(),
            hearers,
            link_frames_per_second,
            payload_bytes: findings.payload_bytes,
            patience: settings.patience,
            level: 0,
            suspicion: None,
            run: Run::new(level(0, link_frames_per_second)),
            finding: CastFinding::NotMeasured,
        }
    }

    fn begin(&mut self, pace: RampPace) {
        self.run = Run::new(pace);
        for hearer in &mut self.hearers {
            (hearer.report, hearer.to_ask) = (None, false);
        }
    }

    /// The present run is over: what it says, and what comes next.
    fn judge(&mut self) {
        let reported = self.hearers.iter().filter_map(|it| it.report.as_ref().map(|report| (it.known, report)));
        let passed =
            reported.clone().filter_map(|(known, report)| policed(self.run.pace, known, report)).reduce(f64::min);
        let somebody = reported.count() > 0;
        match (passed, self.suspicion.take()) {
            _ if !somebody => self.end(CastFinding::NotMeasured),
            (Some(rate), Some(_)) => self.end(CastFinding::Policed { knee_frames_per_second: rate.round() as u64 }),
            (Some(rate), None) => {
                self.suspicion = Some(rate);
                self.begin(self.longer(rate));
            }
            (None, _) if self.level + 1 == LEVELS.len() => self.end(CastFinding::FullRate),
            (None, _) => {
                self.level += 1;
                self.begin(level(self.level, self.link_frames_per_second));
            }
        }
    }

    /// The same pace, for as long as it takes to see enough frames arrive at `rate`.
    fn longer(&self, rate: f64) -> RampPace {
        let RampPace { frames_per_second, frames } = self.run.pace;
        let wanted = 2.0 * WORTHWHILE_FRAMES * frames_per_second / rate.max(1.0);
        RampPace { frames_per_second, frames: (wanted as u64).clamp(frames, MOST_FRAMES) }
    }

    fn end(&mut self, finding: CastFinding) {
        self.finding = finding;
        self.done = true;
    }

    fn poll_frame(&mut self, now: Instant, writer: &mut ProbeWriter, buffer: &mut [u8]) -> Option<usize> {
        let run = &mut self.run;
        let test = *run.test.get_or_insert_with(|| {
            run.origin = now;
            writer.draw()
        });
        if run.due_at(run.sent) > now {
            return None;
        }
        // What could not be sent in time is not sent all at once later.
        if run.due_at(run.sent + BURST_FRAMES) < now {
            run.origin += now.since(run.due_at(run.sent));
        }
        let index = run.sent;
        run.sent += 1;
        let body = ProbeBody { task: Task::Train, payload_bytes: 0, number: run.pace.mark() as u32 };
        let payload_bytes = self.payload_bytes;
        Some(writer.write(buffer, &Probe { to: self.group, test, index, flags: Flags::default(), body, payload_bytes }))
    }

    fn poll_question(&mut self, now: Instant, writer: &ProbeWriter, buffer: &mut [u8]) -> Option<usize> {
        if self.run.due.is_none() {
            self.run.due = Some(now + self.patience);
            self.run.tries += 1;
            self.hearers.iter_mut().for_each(|it| it.to_ask = it.report.is_none());
        }
        let hearer = self.hearers.iter_mut().find(|it| it.to_ask)?;
        hearer.to_ask = false;
        let (to, test, index) = (hearer.mac, self.run.test?, self.run.sent);
        Some(writer.write(buffer, &Probe::ask(to, test, index)))
    }
}

/// The ramp's trains.
fn level(level: usize, link_frames_per_second: f64) -> RampPace {
    let frames_per_second = (link_frames_per_second * LEVELS[level]).max(1.0);
    let frames = (frames_per_second * LEVEL.as_secs_f64()) as u64;
    RampPace { frames_per_second, frames: frames.clamp(LEAST_FRAMES, MOST_FRAMES) }
}

impl Step for CastStep {
    fn boxed(&self) -> Box<dyn Step> {
        Box::new(self.clone())
    }

    fn on_report(&mut self, _now: Instant, report: Report) {
        let own = report.asked && self.run.is_sent() && self.run.test == Some(report.test);
        if let Some(hearer) = self.hearers.iter_mut().find(|it| own && it.target == report.target) {
            hearer.report = Some(report.body);
            if self.hearers.iter().all(|it| it.report.is_some()) {
                self.judge();
            }
        }
    }

    fn on_timeout(&mut self, now: Instant) {
        if self.run.due.is_some_and(|due| due <= now) && !self.done {
            self.run.due = None;
            if self.run.tries >= TRIES {
                self.judge();
            }
        }
    }

    fn poll(&mut self, now: Instant, writer: &mut ProbeWriter, buffer: &mut [u8]) -> Option<usize> {
        match (self.done, self.run.is_sent()) {
            (true, _) => None,
            (false, false) => self.poll_frame(now, writer, buffer),
            (false, true) => self.poll_question(now, writer, buffer),
        }
    }

    fn deadline(&self) -> Option<Deadline> {
        if self.done || self.run.test.is_none() {
            return None;
        }
        if !self.run.is_sent() {
            return Some(Deadline { at: self.run.due_at(self.run.sent), why: Timer::PACE });
        }
        self.run.due.map(|at| Deadline { at, why: Timer::HEARTBEAT })
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn conclude(&self, findings: &mut Findings) {
        findings.cast = self.finding;
    }
}
