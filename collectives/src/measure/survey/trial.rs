//! One test of switch discovery: one or two flows between hosts, and their rates.

use crate::measure::body::{ProbeBody, ReportBody, Task};
use crate::measure::kind;
use crate::measure::probe::header;
use crate::measure::responder::Responder;
use ethbcast_transport::wire::{Flags, Identity};
use ethbcast_transport::{Deadline, Instant, MacAddr, Timer};
use std::time::Duration;

/// Time after which a flow is over, however slow the link.
const PATIENCE: Duration = Duration::from_millis(300);
const REQUEST_INTERVAL: Duration = Duration::from_millis(2);
/// Unchanged counts after which a flow is over: its last frames are lost.
const STILL: u32 = 2;
const MIN_FRAMES: u64 = 8;

/// A flow from one host to another, by number. Host 0 is the surveying one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TrialFlow {
    pub from: usize,
    pub to: usize,
    pub frames: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Trial {
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
    pub(super) fn new(test: u32, flows: Vec<TrialFlow>, expected: Duration) -> Trial {
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

    pub(super) fn is_done(&self, now: Instant) -> bool {
        let is_whole = (0..self.flows.len()).all(|at| self.is_whole(at));
        is_whole || self.still >= STILL || self.ends_at.is_some_and(|end| end <= now)
    }

    /// Returns each flow's nanoseconds per frame, single frames left out; `None` if too little
    /// arrived.
    pub(super) fn gaps(&self) -> impl Iterator<Item = Option<f64>> {
        let gap = |(_, body): &(u64, ReportBody)| {
            let nanos = body.last_nanos.checked_sub(body.late_nanos)?;
            (body.arrived_late >= MIN_FRAMES && nanos > 0).then(|| nanos as f64 / (body.arrived_late - 1) as f64)
        };
        let flows = self.flows.iter().zip(&self.counts).filter(|(flow, _)| flow.frames > 1);
        flows.map(move |(_, counted)| gap(counted))
    }

    pub(super) fn silent(&self) -> Option<usize> {
        let is_missing = |&at: &usize| self.flows[at].frames > 1 && self.counts[at].1.arrived == 0;
        let nothing = (0..self.flows.len()).find(is_missing)?;
        let TrialFlow { from, to, .. } = self.flows[nothing];
        Some(if to == 0 || self.answered[nothing] { from } else { to })
    }

    pub(super) fn too_little(&self) -> Option<(usize, usize)> {
        let flows = self.flows.iter().filter(|flow| flow.frames > 1);
        flows.zip(self.gaps()).find(|(_, gap)| gap.is_none()).map(|(flow, _)| (flow.from, flow.to))
    }

    pub(super) fn on_count(&mut self, test: u32, to: usize, seen: u64, body: ReportBody) {
        let Some(at) = self.flows.iter().position(|flow| flow.to == to).filter(|_| test == self.test) else { return };
        self.answered[at] = true;
        if seen <= self.flows[at].frames.into() && body.arrived <= seen && seen >= self.counts[at].0 {
            self.counts[at] = (seen, body);
        }
    }

    pub(super) fn on_timeout(&mut self, now: Instant, session: u32, hosts: &[MacAddr], local: &Responder) {
        if self.request_at.is_none_or(|at| now < at) {
            return;
        }
        self.request_at = Some(now + self.request_interval);
        let seen: Vec<u64> = self.counts.iter().map(|(seen, _)| *seen).collect();
        let has_all_begun = (0..self.flows.len()).all(|at| self.flows[at].frames == 1 || seen[at] > 0);
        self.still = if has_all_begun && seen == self.seen { self.still + 1 } else { 0 };
        self.seen = seen;
        self.ask = (0..self.flows.len()).filter(|&at| !self.is_whole(at)).collect();
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

    pub(super) fn poll(
        &mut self,
        now: Instant,
        (identity, hosts): (&Identity, &[MacAddr]),
        local: &mut Responder,
        (payload_bytes, buffer): (usize, &mut [u8]),
    ) -> Option<usize> {
        let test = self.test;
        let write = |buffer: &mut [u8], to, body: &[u8]| {
            let header = header(identity, kind::PROBE, test, 0, Flags::default());
            identity.write(buffer, to, &header, body)
        };
        while let Some(flow) = self.flows.get(self.ordered).copied() {
            self.ordered += 1;
            if self.ordered == self.flows.len() {
                (self.request_at, self.ends_at) =
                    (Some(now + 4 * self.request_interval), Some(now + PATIENCE + 16 * self.request_interval));
            }
            if flow.from == 0 {
                local.flow(hosts[flow.to], (identity.session, test), flow.frames, payload_bytes);
                continue;
            }
            let body = ProbeBody { task: Task::Flow, payload_bytes: payload_bytes as u16, number: flow.frames };
            return Some(write(buffer, hosts[flow.from], &body.about(&[hosts[flow.to], hosts[flow.from]])));
        }
        let flow = self.flows[self.ask.pop()?];
        Some(write(buffer, hosts[flow.to], &ProbeBody::plain(Task::Ask).about(&[hosts[flow.from]])))
    }

    pub(super) fn deadline(&self) -> Option<Deadline> {
        let at = self.request_at?.min(self.ends_at?);
        Some(Deadline { at, why: Timer("survey") })
    }
}
