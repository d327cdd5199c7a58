//! Finding the switches between hosts, by flows that slow each other or do not.

mod trial;

use super::body::ReportBody;
use super::kind;
use super::probe::ProbeWriter;
use super::responder::{MAX_FLOW_FRAMES, Responder};
use super::settings::full_payload;
use crate::membership::timers::Wait;
use ethbcast_planning::topology::discovery::{Discovery, Question};
use ethbcast_transport::wire::{Frame, Identity};
use ethbcast_transport::{Deadline, Instant, MacAddr, Part};
use std::collections::BTreeMap;
use std::time::Duration;
use trial::{Flow, Trial};

/// What a flow is to take, alone: long beside what hosts begin apart, short beside a user's patience.
const FLOW: Duration = Duration::from_millis(10);
/// The first flow of two hosts, of whose rate nothing is known.
const FIRST_FRAMES: u32 = 64;
/// A trial that fails is repeated so often before somebody is said to be silent.
const TRIES: u32 = 4;
/// Two flows slow each other by nothing, 0, or as much as one cable makes them, 1. Between these it is tried again.
const UNCLEAR: std::ops::Range<f64> = 0.25..0.75;
/// What nobody can be slowed by, or gain: then what they do alone is measured again, so often for a question.
const POSSIBLE: std::ops::RangeInclusive<f64> = -0.3..=1.5;
const MOST_AGAIN: u32 = 3;
/// Where a shared cable would slow nobody by more than this, noise decides.
const LEAST_SLOWED: f64 = 0.3;
/// A survey that contradicts itself begins again, so often in all.
const MOST_BEGINNINGS: u32 = 3;
/// So often at most; the median counts.
const MOST_SCORES: usize = 5;

/// How a survey ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SurveyEnd {
    /// Everything has been asked.
    Whole,
    /// Time was up before.
    TimeUp,
    /// A host, by number, took no part (any more).
    Silent(usize),
    /// Too little of what the first host sent the second arrived, time and again.
    Lost(usize, usize),
}

/// Asks hosts that answer probes to send each other flows, until it is known which switches are between them.
///
/// It is a [`Part`]. Host 0 is this one, which sends and counts like the others.
#[derive(Debug)]
pub struct Surveyor {
    identity: Identity,
    writer: ProbeWriter,
    hosts: Vec<MacAddr>,
    payload_bytes: usize,
    local: Responder,
    discovery: Discovery,
    /// Nanoseconds from frame to frame of a flow that is alone, by who sends and who receives.
    alone: BTreeMap<(usize, usize), f64>,
    /// What the last one took.
    guess: Option<f64>,
    trial: Option<Trial>,
    scores: Vec<f64>,
    /// How often what hosts do alone has been measured again for the present question.
    again: u32,
    /// Questions that hosts of such different rates cannot answer.
    undecided: u32,
    /// What was found before it began again.
    finished: Option<Discovery>,
    failures: u32,
    /// How often it has begun.
    begun: u32,
    ends_at: Instant,
    end: Option<SurveyEnd>,
}

impl Surveyor {
    /// Begins to survey the network between this host and `others`, which must run a [`Responder`] that says who it
    /// is, on links of this MTU, for `budget` at most.
    pub fn new(now: Instant, identity: Identity, others: &[MacAddr], mtu_bytes: usize, budget: Duration) -> Surveyor {
        let hosts: Vec<MacAddr> = std::iter::once(identity.mac).chain(others.iter().copied()).collect();
        let mut surveyor = Surveyor {
            identity,
            writer: ProbeWriter::new(identity, now.as_micros() as u32),
            payload_bytes: full_payload(mtu_bytes),
            local: Responder::new(identity, mtu_bytes, None),
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

    /// How it ended, once it has.
    pub fn end(&self) -> Option<SurveyEnd> {
        self.end
    }

    /// What it has found out.
    pub fn discovery(&self) -> &Discovery {
        &self.discovery
    }

    /// Begins the next trial, if there is one.
    fn go_on(&mut self) {
        if self.discovery.next().is_none() && !self.is_sure() && self.begun < MOST_BEGINNINGS {
            // Something else was in the way: what was measured beside it may be as wrong.
            self.begin_again();
        }
        let Some(question) = self.discovery.next() else {
            self.end = Some(SurveyEnd::Whole);
            return;
        };
        let pairs = pairs(question);
        let unknown = pairs.into_iter().find(|pair| !self.alone.contains_key(pair));
        let (flows, expected) = match unknown {
            Some((from, to)) => {
                let frames = self.guess.map_or(FIRST_FRAMES, frames_for);
                // Switches that do not know where a receiver is send what is for it to everybody: it speaks first.
                (vec![Flow { from: to, to: from, frames: 1 }, Flow { from, to, frames }], FLOW)
            }
            None => {
                let flow = |(from, to)| Flow { from, to, frames: frames_for(self.alone[&(from, to)]) };
                (pairs.map(flow).to_vec(), 2 * FLOW)
            }
        };
        self.trial = Some(Trial::new(self.writer.draw(), flows, expected));
    }

    /// Whether all that was asked agrees: what was asked again at the end with the tree, and the hosts' rates with the
    /// questions.
    pub fn is_sure(&self) -> bool {
        let sketch = self.discovery.sketch();
        self.undecided == 0 && sketch.is_ok_and(|sketch| self.discovery.contradictions(&sketch) == 0)
    }

    fn begin_again(&mut self) {
        self.begun += 1;
        self.finished = Some(std::mem::replace(&mut self.discovery, Discovery::new(self.hosts.len())));
        self.alone.clear();
        self.undecided = 0;
    }

    /// It ends; what was found before it began again is worth more than that this failed.
    fn end_because(&mut self, end: SurveyEnd) {
        self.end = Some(end);
        if let Some(finished) = self.finished.take() {
            (self.discovery, self.end) = (finished, Some(SurveyEnd::Whole));
            // It was begun again because this was not sure, be it only by rates that differ.
            self.undecided += 1;
        }
    }

    /// Takes what a trial has shown.
    fn conclude(&mut self, trial: &Trial) {
        let gaps: Option<Vec<f64>> = trial.gaps().collect();
        let Some(gaps) = gaps else {
            (self.failures, self.guess) = (self.failures + 1, None);
            if self.failures > TRIES {
                let lost = trial.too_little().map_or(SurveyEnd::TimeUp, |(from, to)| SurveyEnd::Lost(from, to));
                self.end_because(trial.silent().map_or(lost, SurveyEnd::Silent));
            }
            return;
        };
        self.failures = 0;
        if let [Flow { frames: 1, .. }, Flow { from, to, frames }] = trial.flows[..] {
            let gap = gaps[0];
            self.guess = Some(gap);
            // A flow that was too short to tell is sent again, now that it is known how long it must be.
            if frames_for(gap) <= frames.saturating_mul(2) {
                self.alone.insert((from, to), gap);
            }
            return;
        }
        let alone = Vec::from_iter(trial.flows.iter().map(|flow| self.alone[&(flow.from, flow.to)]));
        let score = score(&alone, &gaps);
        if !POSSIBLE.contains(&score) && self.again < MOST_AGAIN {
            // What they do alone was measured beside something else.
            self.again += 1;
            self.alone.retain(|pair, _| !trial.flows.iter().any(|flow| (flow.from, flow.to) == *pair));
            self.scores.clear();
            return;
        }
        self.scores.push(score);
        if self.scores.len() < MOST_SCORES && (self.scores.len() < 2 || !are_clear(&self.scores)) {
            return;
        }
        let score = median(&self.scores);
        (self.again, self.undecided) = (0, self.undecided + u32::from(slowed_at_most(&alone) < LEAST_SLOWED));
        self.scores.clear();
        let [one, other] = [&trial.flows[0], &trial.flows[1]];
        let question = Question { from: [one.from, other.from], to: [one.to, other.to] };
        log::debug!("flows {question:?} slow each other by {score:.2}");
        self.discovery.answer(question, score > 0.5);
    }
}

fn pairs(Question { from, to }: Question) -> [(usize, usize); 2] {
    [(from[0], to[0]), (from[1], to[1])]
}

/// The frames that a flow with this gap, in nanoseconds, is made of.
fn frames_for(gap_nanos: f64) -> u32 {
    ((FLOW.as_nanos() as f64 / gap_nanos) as u32).clamp(FIRST_FRAMES / 2, MAX_FLOW_FRAMES)
}

/// How much two flows slow each other, from what each takes from frame to frame when it is alone and now: 0 if they do
/// not, 1 if they share a cable that is as fast as the faster of them. What counts is the one that is slowed more: a
/// slow one leaves room for itself.
fn score(alone: &[f64], together: &[f64]) -> f64 {
    let slowed = alone.iter().zip(together).map(|(alone, now)| now / alone).fold(0.0, f64::max);
    (slowed - 1.0) / slowed_at_most(alone)
}

/// By what part of its own time a shared cable slows the flow that is slowed more: 1 for flows of one rate.
fn slowed_at_most(alone: &[f64]) -> f64 {
    let fastest = alone.iter().copied().fold(f64::INFINITY, f64::min);
    alone.iter().map(|gap| fastest / gap).sum::<f64>() - 1.0
}

/// Whether all say the same, and none is between.
fn are_clear(scores: &[f64]) -> bool {
    scores.iter().all(|score| *score <= UNCLEAR.start) || scores.iter().all(|score| *score >= UNCLEAR.end)
}

fn median(scores: &[f64]) -> f64 {
    let mut sorted = scores.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

impl Part for Surveyor {
    /// Takes flows to this host, and what others have counted.
    fn handle_frame(&mut self, now: Instant, frame: &Frame<'_>) {
        let header = &frame.header;
        let Some(from) = self.hosts.iter().position(|&mac| mac == frame.source) else { return };
        if header.session != self.identity.session {
            return;
        }
        match header.kind {
            kind::PROBE => self.local.handle_frame(now, frame),
            kind::REPORT => {
                if let (Some(trial), Some(body)) = (&mut self.trial, ReportBody::decode(frame.payload)) {
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
            let (wire, room) = ((&self.identity, &self.hosts[..]), (self.payload_bytes, &mut *buffer));
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
        Some(self.trial.as_ref().and_then(Trial::deadline).map_or(end, |deadline| deadline.min(end)))
    }

    /// What is counted here is timed, too.
    fn is_urgent(&self) -> bool {
        true
    }
}
