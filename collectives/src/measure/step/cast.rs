//! Test whether broadcast frames get through switches at full rate: bursts of rising rate.
//!
//! Each level is twice as fast as the one before, up to the link's rate. A policed level is
//! repeated at once, and longer: the switch's bucket is empty by then, so that the rate that now
//! gets through is its limit. A loss that does not recur was an accident, and the ramp goes on. A
//! gentle ramp has shorter trains and repeats none longer. It first sends a suspect train by
//! unicast, too, because the host's own cable may lose the frames.
//!
//! Arrival proves little: an overlay network copies broadcast frames at the sender's end, and a
//! radio cell sends them at its lowest rate. So the ramp ends with a train at the link's rate whose
//! first half goes to one host and whose second half goes to all; that host measures both gaps.

use super::{ProbeStep, ReplyWait, Report};
use crate::measure::body::{ProbeBody, ReportBody, Task};
use crate::measure::findings::{CastFinding, Findings};
use crate::measure::probe::{Probe, ProbeWriter};
use crate::measure::rate_comparison::{
    GENTLY_POLICED_BELOW, POLICED_BELOW, RampPace, UnicastKnowledge, policed,
};
use crate::measure::settings::ProbeSettings;
use ethbcast_transport::wire::Flags;
use ethbcast_transport::{Deadline, Instant, MacAddr, Timer};
use std::time::Duration;

const LEVELS: [f64; 4] = [0.125, 0.25, 0.5, 1.0];
/// Duration and frame limits of a level: enough to judge, fewer than a receive ring holds.
const LEVEL: Duration = Duration::from_millis(100);
const MIN_FRAMES: u64 = 128;
const MAX_FRAMES: u64 = 4096;
/// Frames of a gentle ramp's trains. It begins with the first level that reaches this number of
/// frames per second, or the third: no switch polices below, and slow links must be tested quickly,
/// too.
const GENTLE_FRAMES: [u64; 4] = [32, 32, 32, 64];
const GENTLE_FRAMES_PER_SECOND: f64 = 1000.0;
const GENTLE_LAST_BEGIN: usize = 2;
/// Frames that should get through in the second half of a repetition, which sets its length.
const WORTHWHILE_FRAMES: f64 = 64.0;
/// Frames that may leave at once to catch up after a late wake-up.
const BURST_FRAMES: u64 = 32;
/// Suspects whose unicast also fails before a gentle ramp goes on: each costs two trains.
const MAX_LOSSY: u32 = 3;
/// Requests before one silent host counts as silent, and before all do: frames sent to all may
/// delay the requests behind them.
const TRIES: u32 = 4;
const TRIES_OF_ALL: u32 = 9;
/// Time of one half of the last train, within the limits of its frames.
const HALF: Duration = Duration::from_millis(2);
const HALF_FRAMES: (u64, u64) = (32, 256);
/// Time by which a half may be longer because its receiver naps.
const NAP_NANOS: f64 = 1e6;
/// Factor between both gaps from which broadcast counts as slower.
const SLOWER: f64 = 1.5;
/// Share of the number of hosts by which the factor may differ if each host gets a copy of its own.
const COPIED_WITHIN: f64 = 0.25;

#[derive(Clone, Debug)]
pub(in crate::measure) struct CastStep {
    group: MacAddr,
    cast_receivers: Vec<CastReceiver>,
    link_frames_per_second: f64,
    payload_bytes: usize,
    patience: Duration,
    level: usize,
    gentle: bool,
    suspicion: Option<(f64, usize)>,
    lossy: u32,
    is_proving: bool,
    /// Factor between both gaps in the last train's first try.
    slower: Option<f64>,
    run: Run,
    finding: CastFinding,
    done: bool,
}

#[derive(Clone, Debug)]
struct CastReceiver {
    target: usize,
    mac: MacAddr,
    known: UnicastKnowledge,
    report: Option<(u64, ReportBody)>,
    has_answered: bool,
    needs_request: bool,
}

#[derive(Clone, Debug)]
struct Run {
    pace: RampPace,
    test: Option<u32>,
    sent: u64,
    /// Departure of frame 0, moved later when the train falls behind.
    origin: Instant,
    wait: ReplyWait,
    only: Option<usize>,
    /// Host that gets the first half alone.
    sample: Option<usize>,
}

impl Run {
    fn new(pace: RampPace) -> Run {
        let (origin, wait) = (Instant::START, ReplyWait::default());
        Run {
            pace,
            test: None,
            sent: 0,
            origin,
            wait,
            only: None,
            sample: None,
        }
    }

    fn is_sent(&self) -> bool {
        self.sent >= self.pace.frames
    }

    fn due_at(&self, frame: u64) -> Instant {
        self.origin + Duration::from_secs_f64(frame as f64 / self.pace.frames_per_second)
    }
}

impl CastStep {
    pub(in crate::measure) fn new(
        group: MacAddr,
        findings: &Findings,
        settings: &ProbeSettings,
    ) -> CastStep {
        let present = findings
            .targets
            .iter()
            .enumerate()
            .filter(|(_, it)| it.present);
        let cast_receivers: Vec<CastReceiver> = present
            .filter_map(|(target, it)| {
                let frames_per_second = it.frames_per_second(findings.payload_bytes)?;
                let known = UnicastKnowledge {
                    frames_per_second,
                    loss: it.loss(),
                };
                Some(CastReceiver {
                    target,
                    mac: it.peer.mac,
                    known,
                    report: None,
                    has_answered: false,
                    needs_request: false,
                })
            })
            .collect();
        let link_frames_per_second = cast_receivers
            .iter()
            .map(|it| it.known.frames_per_second)
            .fold(0.0, f64::max);
        let gentle = settings.unicast.is_some();
        let worth = |part: &f64| part * link_frames_per_second >= GENTLE_FRAMES_PER_SECOND;
        let first = LEVELS
            .iter()
            .position(worth)
            .map_or(GENTLE_LAST_BEGIN, |first| first.min(GENTLE_LAST_BEGIN));
        let first = if gentle { first } else { 0 };
        CastStep {
            group,
            done: cast_receivers.is_empty(),
            cast_receivers,
            link_frames_per_second,
            payload_bytes: findings.payload_bytes,
            patience: settings.patience,
            level: first,
            gentle,
            suspicion: None,
            lossy: 0,
            is_proving: false,
            slower: None,
            run: Run::new(level(first, gentle, link_frames_per_second)),
            finding: CastFinding::NotMeasured,
        }
    }

    fn begin(&mut self, pace: RampPace, only: Option<usize>) {
        let sample = if self.is_proving && only.is_none() {
            self.sample()
        } else {
            None
        };
        self.run = Run {
            only,
            sample,
            ..Run::new(pace)
        };
        for cast_receiver in &mut self.cast_receivers {
            (cast_receiver.report, cast_receiver.needs_request) = (None, false);
        }
    }

    fn sample(&self) -> Option<usize> {
        let sound = self
            .cast_receivers
            .iter()
            .enumerate()
            .filter(|(_, it)| it.has_answered && it.known.loss < 1.0);
        let fastest = |one: &(usize, &CastReceiver), other: &(usize, &CastReceiver)| {
            one.1
                .known
                .frames_per_second
                .total_cmp(&other.1.known.frames_per_second)
        };
        sound.max_by(fastest).map(|(at, _)| at)
    }

    fn awaited(&self) -> impl Iterator<Item = (usize, &CastReceiver)> + Clone {
        let only = self.run.only;
        self.cast_receivers
            .iter()
            .enumerate()
            .filter(move |&(at, _)| only.is_none_or(|only| only == at))
    }

    fn judge(&mut self) {
        let least_part = if self.gentle {
            GENTLY_POLICED_BELOW
        } else {
            POLICED_BELOW
        };
        let reported = self
            .awaited()
            .filter_map(|(at, it)| it.report.as_ref().map(|(_, report)| (at, it.known, report)));
        let passed = reported.clone().filter_map(|(at, known, report)| {
            Some((policed(self.run.pace, known, report, least_part)?, at))
        });
        let by_rate = |one: &(f64, usize), other: &(f64, usize)| one.0.total_cmp(&other.0);
        // The target with the worst result may be slow or behind a bad cable; a gentle ramp does
        // not know that beforehand. A repetition is judged by the target that unicast reaches.
        let suspect = self
            .suspicion
            .filter(|_| self.gentle && self.run.only.is_none())
            .map(|(_, at)| at);
        let passed = passed.filter(|&(_, at)| suspect.is_none_or(|suspect| suspect == at));
        let passed = if self.gentle {
            passed.max_by(by_rate)
        } else {
            passed.min_by(by_rate)
        };
        let somebody = reported.count() > 0;
        match (passed, self.run.only, self.suspicion.take()) {
            (passed, Some(at), suspicion) => {
                self.judge_suspect(at, passed.is_some() || !somebody, suspicion)
            }
            _ if !somebody => self.end(CastFinding::NotMeasured),
            (Some((rate, _)), None, Some(_)) => {
                self.end(CastFinding::Policed {
                    threshold_frames_per_second: rate.round() as u64,
                });
            }
            (Some((rate, at)), None, None) => {
                self.suspicion = Some((rate, at));
                // A full probe knows each target's unicast result; otherwise the suspect gets an
                // equal train by unicast.
                self.begin(self.longer(rate), self.gentle.then_some(at));
            }
            (None, None, _) => self.rise(),
        }
    }

    fn judge_suspect(&mut self, at: usize, is_lossy: bool, suspicion: Option<(f64, usize)>) {
        if is_lossy {
            // A target that gets so few frames shows nothing about broadcast; the others do.
            self.cast_receivers[at].known.loss = 1.0;
            self.lossy += 1;
            if self.lossy >= MAX_LOSSY {
                return self.rise();
            }
            return self.begin(self.run.pace, None);
        }
        self.suspicion = suspicion;
        self.begin(self.run.pace, None);
    }

    fn rise(&mut self) {
        if self.level + 1 == LEVELS.len() {
            return self.prove();
        }
        (self.level, self.lossy) = (self.level + 1, 0);
        self.begin(
            level(self.level, self.gentle, self.link_frames_per_second),
            None,
        );
    }

    /// Compares both gaps, once the last train has arrived; a factor counts if it is measured
    /// twice.
    fn prove(&mut self) {
        if !self.is_proving {
            self.is_proving = true;
            let half = (self.link_frames_per_second * HALF.as_secs_f64()) as u64;
            let frames = 2 * half.clamp(HALF_FRAMES.0, HALF_FRAMES.1);
            return self.begin(
                RampPace {
                    frames_per_second: self.link_frames_per_second,
                    frames,
                },
                None,
            );
        }
        let seen = self.times_slower().filter(|&times| times >= SLOWER);
        match (seen, self.slower) {
            (None, _) => self.end(CastFinding::FullRate),
            (Some(times), None) => {
                self.slower = Some(times);
                self.begin(self.run.pace, None);
            }
            (Some(again), Some(first)) => {
                let (times, copies) = (again.min(first), self.cast_receivers.len() as f64);
                let rate = self
                    .run
                    .sample
                    .map_or(1.0, |at| self.cast_receivers[at].known.frames_per_second)
                    / times;
                let is_copied = copies > SLOWER && (times / copies - 1.0).abs() <= COPIED_WITHIN;
                self.end(CastFinding::Slower {
                    frames_per_second: rate.max(1.0) as u64,
                    times,
                    is_copied,
                });
            }
        }
    }

    /// Returns the gap of frames to all, divided by that of frames to one, from the sample's
    /// report.
    fn times_slower(&self) -> Option<f64> {
        let cast_receiver = &self.cast_receivers[self.run.sample?];
        let (seen, report) = cast_receiver.report.as_ref()?;
        let mark = self.run.pace.mark();
        let to_all = seen
            .checked_sub(mark + 1)
            .filter(|&frames| frames >= HALF_FRAMES.0 / 2)? as f64;
        let to_all = (report.last_nanos.saturating_sub(report.late_nanos) as f64 - NAP_NANOS)
            .max(0.0)
            / to_all;
        // The first frame to all comes its own gap after the last one to this host.
        let to_one = report.late_nanos.saturating_sub(report.first_nanos) as f64 - to_all;
        let to_one = to_one.max(0.0) / (mark - 1) as f64;
        Some(to_all / to_one.max(1e9 / cast_receiver.known.frames_per_second))
    }

    fn longer(&self, rate: f64) -> RampPace {
        let RampPace {
            frames_per_second,
            frames,
        } = self.run.pace;
        if self.gentle {
            return self.run.pace;
        }
        let wanted = 2.0 * WORTHWHILE_FRAMES * frames_per_second / rate.max(1.0);
        RampPace {
            frames_per_second,
            frames: (wanted as u64).clamp(frames, MAX_FRAMES),
        }
    }

    fn end(&mut self, finding: CastFinding) {
        self.finding = finding;
        self.done = true;
    }

    fn poll_frame(
        &mut self,
        now: Instant,
        writer: &mut ProbeWriter,
        buffer: &mut [u8],
    ) -> Option<usize> {
        let run = &mut self.run;
        let test = *run.test.get_or_insert_with(|| {
            run.origin = now;
            writer.draw()
        });
        if run.due_at(run.sent) > now {
            return None;
        }
        // Frames that could not leave in time are not sent in one burst later.
        if run.due_at(run.sent + BURST_FRAMES) < now {
            run.origin += now.since(run.due_at(run.sent));
        }
        let index = run.sent;
        run.sent += 1;
        let body = ProbeBody {
            task: Task::Train,
            payload_bytes: 0,
            number: run.pace.mark() as u32,
        };
        let payload_bytes = self.payload_bytes;
        let alone = run.only.or(run.sample.filter(|_| index < run.pace.mark()));
        let to = alone.map_or(self.group, |at| self.cast_receivers[at].mac);
        Some(writer.write(
            buffer,
            &Probe {
                to,
                test,
                index,
                flags: Flags::default(),
                body,
                payload_bytes,
            },
        ))
    }

    fn poll_question(
        &mut self,
        now: Instant,
        writer: &ProbeWriter,
        buffer: &mut [u8],
    ) -> Option<usize> {
        if !self.run.wait.is_on() {
            let again = self.run.wait.misses.saturating_sub(TRIES - 1);
            self.run.wait.begin(now, self.patience * (1 << again));
            let only = self.run.only;
            for (at, cast_receiver) in self.cast_receivers.iter_mut().enumerate() {
                cast_receiver.needs_request =
                    cast_receiver.report.is_none() && only.is_none_or(|only| only == at);
            }
        }
        let cast_receiver = self.cast_receivers.iter_mut().find(|it| it.needs_request)?;
        cast_receiver.needs_request = false;
        let (to, test, index) = (cast_receiver.mac, self.run.test?, self.run.sent);
        Some(writer.write(buffer, &Probe::request(to, test, index)))
    }
}

fn level(level: usize, gentle: bool, link_frames_per_second: f64) -> RampPace {
    let frames_per_second = (link_frames_per_second * LEVELS[level]).max(1.0);
    if gentle {
        return RampPace {
            frames_per_second,
            frames: GENTLE_FRAMES[level],
        };
    }
    let frames = (frames_per_second * LEVEL.as_secs_f64()) as u64;
    RampPace {
        frames_per_second,
        frames: frames.clamp(MIN_FRAMES, MAX_FRAMES),
    }
}

impl ProbeStep for CastStep {
    fn boxed(&self) -> Box<dyn ProbeStep> {
        Box::new(self.clone())
    }

    fn on_report(&mut self, _now: Instant, report: Report) {
        let own = report.asked && self.run.is_sent() && self.run.test == Some(report.test);
        if let Some(cast_receiver) = self
            .cast_receivers
            .iter_mut()
            .find(|it| own && it.target == report.target)
        {
            (cast_receiver.report, cast_receiver.has_answered) =
                (Some((report.seen, report.body)), true);
            if self.awaited().all(|(_, it)| it.report.is_some()) {
                self.judge();
            }
        }
    }

    fn on_timeout(&mut self, now: Instant) {
        if !self.done && self.run.wait.on_timeout(now) {
            let is_silent = self.awaited().all(|(_, it)| it.report.is_none());
            if self.run.wait.misses >= if is_silent { TRIES_OF_ALL } else { TRIES } {
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

    fn deadline(&self, _now: Instant) -> Option<Deadline> {
        if self.done || self.run.test.is_none() {
            return None;
        }
        if !self.run.is_sent() {
            return Some(Deadline {
                at: self.run.due_at(self.run.sent),
                why: Timer::PACE,
            });
        }
        self.run.wait.deadline()
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn conclude(&self, findings: &mut Findings) {
        findings.cast = self.finding;
    }
}
