//! Discovery of switches between hosts, by tests whether two flows slow each other.

use super::body::ReportBody;
use super::finder::{ProbeHost, tokens};
use super::kind;
use super::probe::{Probe, ProbeWriter};
use super::responder::{MAX_FLOW_FRAMES, Responder};
use super::settings::full_payload;
use crate::measure::body::{ProbeBody, Task};
use crate::measure::probe::header;
use crate::membership::timers::Wait;
use ethbcast_planning::topology::discovery::{Discovery, Question};
use ethbcast_transport::wire::{Flags, Frame, Identity};
use ethbcast_transport::{Deadline, Instant, MacAddr, Part, Timer};
use std::collections::BTreeMap;
use std::time::Duration;

/// Duration of a flow alone: long compared with differences in start times, short for a user.
const FLOW: Duration = Duration::from_millis(10);
/// Frames of the first flow between two hosts, whose rate is unknown.
const FIRST_FRAMES: u32 = 64;
/// Repetitions of a failed trial before a host counts as silent.
const TRIES: u32 = 4;
/// Unclear scores, which are measured again. Two flows that do not slow each other score 0, two on
/// one cable 1.
const UNCLEAR: std::ops::Range<f64> = 0.25..0.75;
/// Plausible scores. On others the flows alone are measured again, `MAX_AGAIN` times per question.
const POSSIBLE: std::ops::RangeInclusive<f64> = -0.3..=1.5;
const MAX_AGAIN: u32 = 3;
/// Slowdown by a shared cable below which noise decides.
const MIN_SLOWED: f64 = 0.3;
/// Limit of starts of a survey: one that contradicts itself begins again.
const MAX_BEGINNINGS: u32 = 3;
/// Limit of measurements of one question; the median counts.
const MAX_SCORES: usize = 5;

/// End of a survey, with hosts by number: one did not take part, or stopped, or too little of the
/// first's flow to the second arrived, repeatedly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SurveyEnd {
    Whole,
    TimeUp,
    Silent(usize),
    Lost(usize, usize),
}

/// Makes hosts send each other flows, until the switches between them are known. The hosts must run
/// a responder.
///
/// A surveyor is a [`Part`]. Host 0 is this one, which sends and counts like the others.
#[derive(Debug)]
pub struct Surveyor {
    identity: Identity,
    writer: ProbeWriter,
    hosts: Vec<MacAddr>,
    payload_bytes: usize,
    local: Responder,
    discovery: Discovery,
    alone: BTreeMap<(usize, usize), f64>,
    guess: Option<f64>,
    trial: Option<Trial>,
    scores: Vec<f64>,
    again: u32,
    undecided: u32,
    finished: Option<Discovery>,
    failures: u32,
    begun: u32,
    ends_at: Instant,
    end: Option<SurveyEnd>,
}

impl Surveyor {
    /// Begins to survey the network between this host and `others`, which must run a [`Responder`]
    /// with host information, on links of this MTU, for `budget` at most.
    pub fn new(
        now: Instant,
        identity: Identity,
        others: &[ProbeHost],
        mtu_bytes: usize,
        budget: Duration,
    ) -> Surveyor {
        let hosts: Vec<MacAddr> = std::iter::once(identity.mac)
            .chain(others.iter().map(|other| other.mac))
            .collect();
        let mut writer = ProbeWriter::new(identity.clone(), now.as_micros() as u32);
        writer.set_tokens(tokens(others));
        let mut surveyor = Surveyor {
            writer,
            payload_bytes: full_payload(&identity.guard, mtu_bytes),
            local: Responder::new(identity.clone(), mtu_bytes, None),
            identity,
            discovery: Discovery::new(hosts.len()),
            hosts,
            alone: BTreeMap::new(),
            guess: None,
            trial: None,
            scores: Vec::new(),
            again: 0,
            undecided: 0,
            finished: None,
            failures: 0,
            begun: 1,
            ends_at: now + budget,
            end: None,
        };
        surveyor.go_on();
        surveyor
    }

    pub fn end(&self) -> Option<SurveyEnd> {
        self.end
    }

    pub fn discovery(&self) -> &Discovery {
        &self.discovery
    }

    fn go_on(&mut self) {
        if self.discovery.next().is_none() && !self.is_sure() && self.begun < MAX_BEGINNINGS {
            // Other traffic interfered; earlier measurements may be as wrong.
            self.begin_again();
        }
        let Some(question) = self.discovery.next() else {
            self.end = Some(SurveyEnd::Whole);
            return;
        };
        let pairs = pairs(question);
        let unknown = pairs
            .into_iter()
            .find(|pair| !self.alone.contains_key(pair));
        let (flows, expected) = match unknown {
            Some((from, to)) => {
                let frames = self.guess.map_or(FIRST_FRAMES, frames_for);
                // A switch that has not learned the receiver's address floods its frames, so the
                // receiver sends first.
                (
                    vec![
                        TrialFlow {
                            from: to,
                            to: from,
                            frames: 1,
                        },
                        TrialFlow { from, to, frames },
                    ],
                    FLOW,
                )
            }
            None => {
                let flow = |(from, to)| TrialFlow {
                    from,
                    to,
                    frames: frames_for(self.alone[&(from, to)]),
                };
                (pairs.map(flow).to_vec(), 2 * FLOW)
            }
        };
        self.trial = Some(Trial::new(self.writer.draw(), flows, expected));
    }

    /// Whether all results agree: repeated measurements with the tree, and the hosts' rates with
    /// each other.
    pub fn is_sure(&self) -> bool {
        let sketch = self.discovery.sketch();
        self.undecided == 0
            && sketch.is_ok_and(|sketch| self.discovery.contradictions(&sketch) == 0)
    }

    fn begin_again(&mut self) {
        self.begun += 1;
        self.finished = Some(std::mem::replace(
            &mut self.discovery,
            Discovery::new(self.hosts.len()),
        ));
        self.alone.clear();
        self.undecided = 0;
    }

    fn end_because(&mut self, end: SurveyEnd) {
        self.end = Some(end);
        if let Some(finished) = self.finished.take() {
            (self.discovery, self.end) = (finished, Some(SurveyEnd::Whole));
            // The first run was unsure, if only because of differing rates.
            self.undecided += 1;
        }
    }

    fn conclude(&mut self, trial: &Trial) {
        let gaps: Option<Vec<f64>> = trial.gaps().collect();
        let Some(gaps) = gaps else {
            (self.failures, self.guess) = (self.failures + 1, None);
            if self.failures > TRIES {
                let lost = trial
                    .too_little()
                    .map_or(SurveyEnd::TimeUp, |(from, to)| SurveyEnd::Lost(from, to));
                self.end_because(trial.silent().map_or(lost, SurveyEnd::Silent));
            }
            return;
        };
        self.failures = 0;
        if let [TrialFlow { frames: 1, .. }, TrialFlow { from, to, frames }] = trial.flows[..] {
            let gap = gaps[0];
            self.guess = Some(gap);
            // A flow too short to measure is repeated, now that the necessary length is known.
            if frames_for(gap) <= frames.saturating_mul(2) {
                self.alone.insert((from, to), gap);
            }
            return;
        }
        let alone = Vec::from_iter(
            trial
                .flows
                .iter()
                .map(|flow| self.alone[&(flow.from, flow.to)]),
        );
        let score = score(&alone, &gaps);
        if !POSSIBLE.contains(&score) && self.again < MAX_AGAIN {
            // Other traffic interfered with the flows alone.
            self.again += 1;
            self.alone
                .retain(|pair, _| !trial.flows.iter().any(|flow| (flow.from, flow.to) == *pair));
            self.scores.clear();
            return;
        }
        self.scores.push(score);
        if self.scores.len() < MAX_SCORES && (self.scores.len() < 2 || !are_clear(&self.scores)) {
            return;
        }
        let score = median(&self.scores);
        (self.again, self.undecided) = (
            0,
            self.undecided + u32::from(slowed_at_most(&alone) < MIN_SLOWED),
        );
        self.scores.clear();
        let [one, other] = [&trial.flows[0], &trial.flows[1]];
        let question = Question {
            from: [one.from, other.from],
            to: [one.to, other.to],
        };
        log::debug!("flows {question:?} slow each other by {score:.2}");
        self.discovery.record(question, score > 0.5);
    }
}

fn pairs(Question { from, to }: Question) -> [(usize, usize); 2] {
    [(from[0], to[0]), (from[1], to[1])]
}

fn frames_for(gap_nanos: f64) -> u32 {
    ((FLOW.as_nanos() as f64 / gap_nanos) as u32).clamp(FIRST_FRAMES / 2, MAX_FLOW_FRAMES)
}

/// Returns the score of two flows from their times per frame alone and together: 0 if they do not
/// slow each other, 1 if they share a cable as fast as the faster of them. The one that is slowed
/// more counts, because a slow flow leaves room.
fn score(alone: &[f64], together: &[f64]) -> f64 {
    let slowed = alone
        .iter()
        .zip(together)
        .map(|(alone, now)| now / alone)
        .fold(0.0, f64::max);
    (slowed - 1.0) / slowed_at_most(alone)
}

/// Returns the relative slowdown by a shared cable of the flow that is slowed more: 1 for flows of
/// equal rates.
fn slowed_at_most(alone: &[f64]) -> f64 {
    let fastest = alone.iter().copied().fold(f64::INFINITY, f64::min);
    alone.iter().map(|gap| fastest / gap).sum::<f64>() - 1.0
}

fn are_clear(scores: &[f64]) -> bool {
    scores.iter().all(|score| *score <= UNCLEAR.start)
        || scores.iter().all(|score| *score >= UNCLEAR.end)
}

fn median(scores: &[f64]) -> f64 {
    let mut sorted = scores.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

impl Part for Surveyor {
    fn handle_frame(&mut self, now: Instant, frame: &Frame<'_>) {
        let header = &frame.header;
        let Some(from) = self.hosts.iter().position(|&mac| mac == frame.source) else {
            return;
        };
        if header.session != self.identity.session {
            return;
        }
        match header.kind {
            kind::PROBE => self.local.handle_frame(now, frame),
            kind::REPORT => {
                if let (Some(trial), Some(body)) =
                    (&mut self.trial, ReportBody::decode(frame.payload))
                {
                    trial.on_count(header.stamp, from, header.sequence, body);
                    self.handle_timeout(now);
                }
            }
            _ => {}
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.end.is_some() {
            return;
        }
        if let Some(trial) = &mut self.trial {
            trial.on_timeout(now, self.identity.session, &self.hosts, &self.local);
        }
        if now >= self.ends_at {
            self.end_because(SurveyEnd::TimeUp);
        } else if let Some(trial) = self.trial.take_if(|trial| trial.is_done(now)) {
            self.conclude(&trial);
            if self.end.is_none() {
                self.go_on();
            }
        }
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        if let (Some(trial), None) = (&mut self.trial, self.end) {
            let (wire, room) = (
                (&self.writer, &self.hosts[..]),
                (self.payload_bytes, &mut *buffer),
            );
            if let Some(length) = trial.poll(now, wire, &mut self.local, room) {
                return Some(length);
            }
        }
        self.local.poll_transmit(now, buffer)
    }

    fn poll_timeout(&self, _now: Instant) -> Option<Deadline> {
        if self.end.is_some() {
            return None;
        }
        let end = Wait::Silence.at(self.ends_at);
        Some(
            self.trial
                .as_ref()
                .and_then(Trial::deadline)
                .map_or(end, |deadline| deadline.min(end)),
        )
    }

    fn is_urgent(&self) -> bool {
        true
    }
}

/// Time after which a flow is over, however slow the link.
const PATIENCE: Duration = Duration::from_millis(300);
const REQUEST_INTERVAL: Duration = Duration::from_millis(2);
/// Unchanged counts after which a flow is over: its last frames are lost.
const UNCHANGED_COUNTS: u32 = 2;
const MIN_FRAMES: u64 = 8;

/// A flow from one host to another, by number. Host 0 is the surveying one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TrialFlow {
    pub from: usize,
    pub to: usize,
    pub frames: u32,
}

#[derive(Clone, Debug)]
struct Trial {
    test: u32,
    pub flows: Vec<TrialFlow>,
    ordered: usize,
    counts: Vec<(u64, ReportBody)>,
    answered: Vec<bool>,
    ask: Vec<usize>,
    request_at: Option<Instant>,
    request_interval: Duration,
    ends_at: Option<Instant>,
    seen: Vec<u64>,
    still: u32,
}

impl Trial {
    fn new(test: u32, flows: Vec<TrialFlow>, expected: Duration) -> Trial {
        let count = flows.len();
        Trial {
            test,
            flows,
            ordered: 0,
            counts: vec![Default::default(); count],
            answered: vec![false; count],
            ask: Vec::new(),
            request_at: None,
            request_interval: (expected / 4).max(REQUEST_INTERVAL),
            ends_at: None,
            seen: Vec::new(),
            still: 0,
        }
    }

    /// Whether a flow is complete. A single frame is not counted; it only has to be sent.
    fn is_whole(&self, at: usize) -> bool {
        let frames = u64::from(self.flows[at].frames);
        frames == 1 || self.counts[at].0 >= frames
    }

    fn is_done(&self, now: Instant) -> bool {
        let is_whole = (0..self.flows.len()).all(|at| self.is_whole(at));
        is_whole || self.still >= UNCHANGED_COUNTS || self.ends_at.is_some_and(|end| end <= now)
    }

    /// Returns each flow's nanoseconds per frame, single frames left out; `None` if too little
    /// arrived.
    fn gaps(&self) -> impl Iterator<Item = Option<f64>> {
        let gap = |(_, body): &(u64, ReportBody)| {
            let nanos = body.last_nanos.checked_sub(body.late_nanos)?;
            (body.arrived_late >= MIN_FRAMES && nanos > 0)
                .then(|| nanos as f64 / (body.arrived_late - 1) as f64)
        };
        let flows = self
            .flows
            .iter()
            .zip(&self.counts)
            .filter(|(flow, _)| flow.frames > 1);
        flows.map(move |(_, counted)| gap(counted))
    }

    fn silent(&self) -> Option<usize> {
        let is_missing = |&at: &usize| self.flows[at].frames > 1 && self.counts[at].1.arrived == 0;
        let nothing = (0..self.flows.len()).find(is_missing)?;
        let TrialFlow { from, to, .. } = self.flows[nothing];
        Some(if to == 0 || self.answered[nothing] {
            from
        } else {
            to
        })
    }

    fn too_little(&self) -> Option<(usize, usize)> {
        let flows = self.flows.iter().filter(|flow| flow.frames > 1);
        flows
            .zip(self.gaps())
            .find(|(_, gap)| gap.is_none())
            .map(|(flow, _)| (flow.from, flow.to))
    }

    fn on_count(&mut self, test: u32, to: usize, seen: u64, body: ReportBody) {
        let Some(at) = self
            .flows
            .iter()
            .position(|flow| flow.to == to)
            .filter(|_| test == self.test)
        else {
            return;
        };
        self.answered[at] = true;
        if seen <= self.flows[at].frames.into() && body.arrived <= seen && seen >= self.counts[at].0
        {
            self.counts[at] = (seen, body);
        }
    }

    fn on_timeout(&mut self, now: Instant, session: u32, hosts: &[MacAddr], local: &Responder) {
        if self.request_at.is_none_or(|at| now < at) {
            return;
        }
        self.request_at = Some(now + self.request_interval);
        let seen: Vec<u64> = self.counts.iter().map(|(seen, _)| *seen).collect();
        let has_all_begun =
            (0..self.flows.len()).all(|at| self.flows[at].frames == 1 || seen[at] > 0);
        self.still = if has_all_begun && seen == self.seen {
            self.still + 1
        } else {
            0
        };
        self.seen = seen;
        self.ask = (0..self.flows.len())
            .filter(|&at| !self.is_whole(at))
            .collect();
        for at in std::mem::take(&mut self.ask) {
            let TrialFlow { from, to, .. } = self.flows[at];
            if to == 0 {
                let (seen, body) = local.counted(hosts[from], (session, self.test));
                self.on_count(self.test, 0, seen, body);
            } else {
                self.ask.push(at);
            }
        }
    }

    fn poll(
        &mut self,
        now: Instant,
        (writer, hosts): (&ProbeWriter, &[MacAddr]),
        local: &mut Responder,
        (payload_bytes, buffer): (usize, &mut [u8]),
    ) -> Option<usize> {
        let test = self.test;
        while let Some(flow) = self.flows.get(self.ordered).copied() {
            self.ordered += 1;
            if self.ordered == self.flows.len() {
                (self.request_at, self.ends_at) = (
                    Some(now + 4 * self.request_interval),
                    Some(now + PATIENCE + 16 * self.request_interval),
                );
            }
            if flow.from == 0 {
                local.flow(
                    hosts[flow.to],
                    (writer.session(), test),
                    flow.frames,
                    payload_bytes,
                );
                continue;
            }
            let body = ProbeBody {
                task: Task::Flow,
                payload_bytes: payload_bytes as u16,
                number: flow.frames,
            };
            let order = Probe {
                body,
                ..Probe::request(hosts[flow.from], test, 0)
            };
            return Some(writer.order(
                buffer,
                &order,
                body.about(&[hosts[flow.to], hosts[flow.from]]),
            ));
        }
        let flow = self.flows[self.ask.pop()?];
        let header = header(writer.identity(), kind::PROBE, test, 0, Flags::default());
        let body = ProbeBody::plain(Task::Ask).about(&[hosts[flow.from]]);
        Some(
            writer
                .identity()
                .write(buffer, hosts[flow.to], &header, &body),
        )
    }

    fn deadline(&self) -> Option<Deadline> {
        let at = self.request_at?.min(self.ends_at?);
        Some(Deadline {
            at,
            why: Timer("survey"),
        })
    }
}
