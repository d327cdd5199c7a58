//! The host that measures the network: runs its tests one after the other.

use super::body::ReportBody;
use super::finder::{ProbeHost, tokens};
use super::findings::{CastFinding, ChainFinding, Findings, Target};
use super::kind;
use super::probe::ProbeWriter;
use super::processor::Processors;
use super::result::ProbeResult;
use super::settings::{ProbeSettings, full_payload};
use super::step::{
    Bulk, BulkRoute, CastStep, EchoFrame, Largest, Ping, ProbeStep, Report, RollCall, Train,
};
use crate::membership::timers::Wait;
use ethbcast_transport::wire::{Flags, Frame, Identity, Kind, Peer};
use ethbcast_transport::{Deadline, Instant, Kept, Part, SplitFrame, Timer};
use std::collections::VecDeque;

/// Measures the network between this host and its targets, one target at a time, so that tests do
/// not disturb each other.
///
/// A prober is a [`Part`]: embedded in the machine of a session, or
/// [`Alone`](ethbcast_transport::Alone). [`result`](Prober::result) returns the findings so far at
/// any time.
#[derive(Clone, Debug)]
pub struct Prober {
    writer: ProbeWriter,
    settings: ProbeSettings,
    ends_at: Instant,
    /// End where the time was too short; `None` once it is used.
    slow_ends_at: Option<Instant>,
    /// Latest time with which the prober was called.
    told: Instant,
    findings: Findings,
    agenda: VecDeque<Item>,
    present: Option<Item>,
    step: Option<Box<dyn ProbeStep>>,
}

/// Queued test; later ones build on the findings of earlier ones. `EachLargest` expands to the
/// largest frame for every target, `EachSize` to round trips and trains of all sizes with every
/// target, `EachBulk` to a stream to each of the first targets.
#[derive(Clone, Copy, Debug)]
enum Item {
    RollCall,
    EachLargest,
    Largest { target: usize },
    EachSize,
    Ping { target: usize, bytes: usize },
    Train { target: usize, bytes: usize },
    EachBulk,
    Bulk { target: usize },
    ChainBulk,
    Cast,
    CastBulk,
}

/// Limit of targets that are sent a stream; the others are assumed to be alike.
const BULK_TARGETS: usize = 8;
/// Limit of receivers of a cast stream, who all acknowledge to this end.
const MAX_LISTENERS: usize = 16;

impl Prober {
    /// Begins to measure between this host and `targets`, which must run a
    /// [`Responder`](super::Responder).
    ///
    /// The session number goes into all frames and has to come back in all replies. Of two probers
    /// of one session the second must begin later by one clock.
    pub fn new(
        now: Instant,
        identity: Identity,
        targets: Vec<Peer>,
        settings: ProbeSettings,
    ) -> Prober {
        let settings = ProbeSettings {
            mtu_bytes: settings.mtu_bytes.min(usize::from(u16::MAX)),
            ..settings
        };
        let payload_bytes = full_payload(&settings.guard, settings.mtu_bytes);
        let target = |peer| match &settings.unicast {
            Some(unicast) => Target::known(peer, payload_bytes, unicast),
            None => Target::new(peer),
        };
        let all = [
            Item::RollCall,
            Item::EachLargest,
            Item::EachSize,
            Item::EachBulk,
            Item::ChainBulk,
            Item::Cast,
            Item::CastBulk,
        ];
        let mut prober = Prober {
            // A test takes far longer than a microsecond, so numbers from the clock never repeat.
            writer: ProbeWriter::new(identity, now.as_micros() as u32),
            ends_at: now + settings.budget,
            slow_ends_at: Some(now + settings.slow_budget).filter(|&at| at > now + settings.budget),
            told: now,
            findings: Findings {
                targets: targets.into_iter().map(target).collect(),
                payload_bytes,
                cast: CastFinding::NotMeasured,
                chain: ChainFinding::default(),
                casting_nanos: Vec::new(),
                processors: None,
            },
            agenda: if settings.unicast.is_some() {
                [Item::Cast].into()
            } else {
                all.into()
            },
            settings,
            present: None,
            step: None,
        };
        prober.go_on();
        prober
    }

    /// Gives orders to hosts with the numbers that they have drawn.
    pub fn with_tokens(mut self, hosts: &[ProbeHost]) -> Prober {
        self.writer.set_tokens(tokens(hosts));
        self
    }

    /// Also measures the processor time of trains at both ends, if `processors` are given.
    pub fn with_processors(mut self, processors: Option<Processors>) -> Prober {
        self.findings.processors = processors;
        self
    }

    pub fn is_done(&self) -> bool {
        self.step.is_none()
    }

    pub fn result(&self) -> ProbeResult {
        ProbeResult::new(&self.findings)
    }

    /// Goes on to the second time limit, if the settings have one and too little has been measured.
    /// The longest messages are then omitted.
    fn hurry(&mut self) -> bool {
        let lacks = |target: &Target| target.gaps.len() < 2;
        let Some(end) = self
            .slow_ends_at
            .take()
            .filter(|_| self.findings.targets.iter().all(lacks))
        else {
            return false;
        };
        self.ends_at = end;
        let is_long = |item: &Item| {
            let (Item::Ping { bytes, .. } | Item::Train { bytes, .. }) = *item else {
                return false;
            };
            bytes > self.findings.payload_bytes
        };
        self.agenda.retain(|item| !is_long(item));
        if self.present.as_ref().is_some_and(is_long)
            && let Some(step) = self.step.take()
        {
            step.conclude(&mut self.findings);
        }
        self.go_on();
        true
    }

    fn is_hurried(&self) -> bool {
        self.slow_ends_at.is_none() && self.settings.slow_budget > self.settings.budget
    }

    /// Ends at the time limit: the present test's findings count, the rest is skipped.
    fn cut_short(&mut self) {
        if let Some(step) = self.step.take() {
            step.conclude(&mut self.findings);
        }
        self.agenda.clear();
    }

    fn go_on(&mut self) {
        while self.step.as_ref().is_none_or(|step| step.is_done()) {
            if let Some(step) = self.step.take() {
                step.conclude(&mut self.findings);
            }
            let Some(item) = self.agenda.pop_front() else {
                return;
            };
            self.present = Some(item);
            self.begin(item);
        }
    }

    fn begin(&mut self, item: Item) {
        let (findings, settings) = (&self.findings, &self.settings);
        self.step = match item {
            Item::RollCall => Some(Box::new(RollCall::new(findings, settings))),
            Item::EachLargest => {
                let targets = if settings.seeks_mtu {
                    0..findings.targets.len()
                } else {
                    0..0
                };
                targets
                    .rev()
                    .for_each(|target| self.agenda.push_front(Item::Largest { target }));
                None
            }
            Item::EachSize => {
                self.sizes()
                    .into_iter()
                    .rev()
                    .for_each(|item| self.agenda.push_front(item));
                None
            }
            Item::EachBulk => {
                let targets = if settings.bulk.is_zero() {
                    0
                } else {
                    findings.targets.len().min(BULK_TARGETS)
                };
                (0..targets)
                    .rev()
                    .for_each(|target| self.agenda.push_front(Item::Bulk { target }));
                None
            }
            Item::Largest { target }
            | Item::Ping { target, .. }
            | Item::Train { target, .. }
            | Item::Bulk { target }
                if !findings.targets[target].present =>
            {
                None
            }
            Item::Largest { target } => Some(Box::new(Largest::new(target, findings, settings))),
            Item::Ping { target, bytes } => {
                Some(Box::new(Ping::new(target, bytes, findings, settings)))
            }
            Item::Train { target, bytes } => {
                Some(Box::new(Train::new(target, bytes, findings, settings)))
            }
            Item::Bulk { target } => Some(Box::new(Bulk::new(
                &[target],
                BulkRoute::Chain,
                findings,
                settings,
            ))),
            Item::ChainBulk => self.bulk(BULK_TARGETS, BulkRoute::Chain),
            Item::CastBulk => {
                let tried =
                    findings.cast == CastFinding::FullRate && findings.present() <= MAX_LISTENERS;
                settings
                    .cast
                    .filter(|_| tried)
                    .and_then(|group| self.bulk(MAX_LISTENERS, BulkRoute::Cast(group)))
            }
            Item::Cast => settings
                .cast
                .map(|group| Box::new(CastStep::new(group, findings, settings)) as _),
        };
    }

    fn bulk(&self, most: usize, way: BulkRoute) -> Option<Box<dyn ProbeStep>> {
        let (findings, settings) = (&self.findings, &self.settings);
        // A target that took no stream alone would delay the others.
        let takes = |at: usize, target: &Target| {
            target.present && (at >= BULK_TARGETS || target.bulk.is_some())
        };
        let present = (0..)
            .zip(&findings.targets)
            .filter(|&(at, target)| takes(at, target))
            .map(|(at, _)| at);
        let present: Vec<_> = present.take(most).collect();
        let tried = !settings.bulk.is_zero() && present.len() > 1;
        tried.then(|| Box::new(Bulk::new(&present, way, findings, settings)) as _)
    }

    /// Returns all sizes with all targets, round by round, so that every target is measured before
    /// time runs out. Trains come last: they may make a driver coalesce arrivals, which would
    /// lengthen round trips.
    fn sizes(&self) -> Vec<Item> {
        let (assumed, found) = (
            full_payload(&self.settings.guard, self.settings.mtu_bytes),
            self.findings.payload_bytes,
        );
        let mut sizes: Vec<usize> = self
            .settings
            .sizes_bytes
            .iter()
            .map(|&bytes| if bytes == assumed { found } else { bytes })
            .collect();
        sizes.sort_unstable();
        sizes.dedup();
        if self.is_hurried() {
            sizes.retain(|&bytes| bytes <= found);
        }
        let targets = self.findings.targets.len();
        let turns = (0..self.settings.rounds).flat_map(|_| 0..targets);
        turns
            .flat_map(|target| {
                let pings = sizes.iter().map(move |&bytes| Item::Ping { target, bytes });
                pings.chain(
                    sizes
                        .iter()
                        .map(move |&bytes| Item::Train { target, bytes }),
                )
            })
            .collect()
    }
}

impl Part for Prober {
    fn handle_frame(&mut self, now: Instant, frame: &Frame<'_>) {
        let header = &frame.header;
        let from = self
            .findings
            .targets
            .iter()
            .position(|target| target.peer.mac == frame.source);
        let (Some(target), Some(step), true) = (
            from,
            &mut self.step,
            header.session == self.writer.session(),
        ) else {
            return;
        };
        let (test, last) = (header.stamp, header.flags.has(Flags::LAST));
        match header.kind {
            kind::ECHO => {
                let payload_bytes = frame.payload.len();
                step.on_echo(
                    now,
                    EchoFrame {
                        target,
                        test,
                        last,
                        payload_bytes,
                    },
                );
            }
            kind::REPORT => {
                let Some(body) = ReportBody::decode(frame.payload) else {
                    return;
                };
                step.on_report(
                    now,
                    Report {
                        target,
                        test,
                        seen: header.sequence,
                        asked: last,
                        body,
                    },
                );
            }
            Kind::ACK => step.on_frame(now, frame),
            _ => return,
        }
        self.handle_timeout(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.told = now;
        if let Some(step) = &mut self.step {
            step.on_timeout(now);
            if now >= self.ends_at && !self.hurry() {
                self.cut_short();
            } else {
                self.go_on();
            }
        }
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        self.step.as_mut()?.poll(now, &mut self.writer, buffer)
    }

    fn poll_transmit_split(&mut self, now: Instant, buffer: &mut [u8]) -> Option<SplitFrame> {
        self.step
            .as_mut()?
            .poll_split(now, &mut self.writer, buffer)
    }

    fn payload(&self, kept: Kept) -> &[u8] {
        self.step.as_ref().map_or(&[], |step| step.payload(kept))
    }

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        let end = Wait::Silence.at(self.ends_at);
        let step = self.step.as_ref()?;
        // Frames due by the last call wait for room, not for a timer. Frames that became due later,
        // between two looks at the clock, have had no turn yet.
        let deadline = step
            .deadline(now)
            .filter(|deadline| deadline.why != Timer::PACE || deadline.at > self.told);
        Some(deadline.map_or(end, |deadline| deadline.min(end)))
    }

    fn is_urgent(&self) -> bool {
        self.step.as_ref().is_some_and(|step| step.is_urgent())
    }
}
