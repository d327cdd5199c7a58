//! Measurement of the transport's own speed and processor time, by a stream as in real transfers.
//!
//! A train's receiver wakes up for every frame, and neither end runs the engine. A stream is
//! acknowledged and kept, and its receiver coalesces arrivals.

use super::{ProbeStep, ReplyWait, Report};
use crate::measure::body::{ProbeBody, Task};
use crate::measure::findings::{BulkFinding, Findings};
use crate::measure::probe::{Probe, ProbeWriter};
use crate::measure::processor::Processors;
use crate::measure::responder::{StreamPlace, stream_of, tuned};
use crate::measure::settings::ProbeSettings;
use ethbcast_transport::stream::{Ending, Outlet, Stream};
use ethbcast_transport::wire::{Flags, Frame, Identity, Peer};
use ethbcast_transport::{Deadline, Instant, Kept, MacAddr, Part, SplitFrame, Timer};
use std::ops::RangeInclusive;
use std::time::Duration;

/// Divisor of the leading part of the time, which does not count.
const LEAD_IN_PART: u32 = 3;
const REPORTS: usize = 3;
/// Factor of a chain's duration: every relay's feed fills first.
const CHAIN_TIMES: u32 = 6;
const TRIES: u32 = 3;
/// Plausible time per frame, in nanoseconds; other values are ignored.
const POSSIBLE: RangeInclusive<u64> = 1..=1_000_000_000;
const MIN_FRAMES: u64 = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::measure) enum BulkRoute {
    Chain,
    Cast(MacAddr),
}

#[derive(Clone, Debug)]
pub(in crate::measure) struct Bulk {
    bulk_receivers: Vec<BulkReceiver>,
    way: BulkRoute,
    payload: Vec<u8>,
    length: Duration,
    patience: Duration,
    processors: Option<Processors>,
    running: Option<BulkRun>,
    wait: ReplyWait,
    next_at: Option<Instant>,
    asked: usize,
    closing: bool,
    given_up: bool,
}

#[derive(Clone, Debug)]
struct BulkRun {
    test: u32,
    stream: Box<Stream>,
}

#[derive(Clone, Debug)]
struct BulkReceiver {
    target: usize,
    peer: Peer,
    marks: Vec<BulkMark>,
    needs_request: bool,
    closed: bool,
}

#[derive(Clone, Copy, Debug)]
struct BulkMark {
    taken: u64,
    last_nanos: u64,
    receiving_nanos: u64,
    sent: u64,
    sending_nanos: u64,
}

impl Bulk {
    pub(in crate::measure) fn new(
        targets: &[usize],
        way: BulkRoute,
        findings: &Findings,
        settings: &ProbeSettings,
    ) -> Bulk {
        let bulk_receiver = |target: usize| BulkReceiver {
            target,
            peer: findings.targets[target].peer,
            marks: Vec::new(),
            needs_request: false,
            closed: false,
        };
        Bulk {
            bulk_receivers: targets.iter().copied().map(bulk_receiver).collect(),
            way,
            payload: vec![0; findings.payload_bytes],
            length: if way == BulkRoute::Chain && targets.len() > 1 {
                settings.bulk * CHAIN_TIMES
            } else {
                settings.bulk
            },
            patience: settings.patience,
            processors: findings.processors,
            running: None,
            wait: ReplyWait::default(),
            next_at: None,
            asked: 1,
            closing: false,
            given_up: false,
        }
    }

    fn begin(&mut self, writer: &mut ProbeWriter) {
        let test = writer.draw();
        let identity = Identity {
            stream: stream_of(test),
            ..writer.identity().clone()
        };
        let peers = self
            .bulk_receivers
            .iter()
            .map(|bulk_receiver| bulk_receiver.peer);
        let (outlet, listeners) = match self.way {
            BulkRoute::Chain => (Outlet::Lanes(peers.take(1).collect()), 0),
            BulkRoute::Cast(group) => (
                Outlet::Cast {
                    group,
                    listeners: peers.collect(),
                },
                self.bulk_receivers.len(),
            ),
        };
        let stream = Box::new(Stream::origin(
            identity,
            self.payload.len(),
            &outlet,
            tuned(listeners, 0),
        ));
        self.running = Some(BulkRun { test, stream });
    }

    fn owes(&self, bulk_receiver: &BulkReceiver) -> bool {
        if self.closing {
            !bulk_receiver.closed
        } else {
            bulk_receiver.marks.len() < self.asked
        }
    }

    fn go_on(&mut self, now: Instant) {
        if self
            .bulk_receivers
            .iter()
            .any(|bulk_receiver| self.owes(bulk_receiver))
        {
            return;
        }
        self.wait = ReplyWait::default();
        let lead_in = self.length / LEAD_IN_PART;
        match self.asked {
            1 => self.next_at = Some(now + lead_in),
            REPORTS => self.closing = true,
            _ => self.next_at = Some(now + (self.length - lead_in)),
        }
    }

    fn question(&self) -> u64 {
        if self.closing {
            REPORTS as u64 + 1
        } else {
            self.asked as u64
        }
    }

    fn request(&mut self, now: Instant, writer: &ProbeWriter, buffer: &mut [u8]) -> Option<usize> {
        if self.next_at.is_none() && !self.wait.is_on() {
            self.wait.begin_doubled(now, self.patience);
            let owing: Vec<bool> = self
                .bulk_receivers
                .iter()
                .map(|bulk_receiver| self.owes(bulk_receiver))
                .collect();
            self.bulk_receivers
                .iter_mut()
                .zip(owing)
                .for_each(|(bulk_receiver, owes)| bulk_receiver.needs_request = owes);
        }
        let at = self
            .bulk_receivers
            .iter()
            .position(|bulk_receiver| bulk_receiver.needs_request)?;
        self.bulk_receivers[at].needs_request = false;
        let order = Probe {
            to: self.bulk_receivers[at].peer.mac,
            test: self.running.as_ref()?.test,
            index: self.question(),
            flags: if self.closing {
                Flags::LAST
            } else {
                Flags::default()
            },
            body: ProbeBody {
                task: Task::Bulk,
                payload_bytes: self.payload.len() as u16,
                number: self.bulk_receivers[at].peer.rank.0.into(),
            },
            payload_bytes: 0,
        };
        Some(writer.order(buffer, &order, self.place(at).behind(&order.body)))
    }

    fn place(&self, at: usize) -> StreamPlace {
        let peer = |at: Option<usize>| Some(self.bulk_receivers.get(at?)?.peer);
        match self.way {
            BulkRoute::Chain => StreamPlace {
                parent: peer(at.checked_sub(1)),
                child: peer(Some(at + 1)),
                listeners: 0,
                position: 0,
            },
            BulkRoute::Cast(_) => StreamPlace {
                listeners: self.bulk_receivers.len() as u16,
                position: at as u16,
                ..StreamPlace::default()
            },
        }
    }

    fn finding(&self, bulk_receiver: &BulkReceiver) -> Option<BulkFinding> {
        let [_, first, last] = bulk_receiver.marks[..] else {
            return None;
        };
        let (taken, sent) = (
            last.taken.checked_sub(first.taken)?,
            last.sent.checked_sub(first.sent)?,
        );
        let each = |nanos: Option<u64>, frames: u64| {
            nanos?
                .checked_div(frames)
                .filter(|nanos| POSSIBLE.contains(nanos))
        };
        let told = self.processors.is_some() && first.receiving_nanos > 0;
        let gap_nanos = each(last.last_nanos.checked_sub(first.last_nanos), taken)?;
        let sending_nanos = each(last.sending_nanos.checked_sub(first.sending_nanos), sent);
        let receiving_nanos = each(
            last.receiving_nanos.checked_sub(first.receiving_nanos),
            taken,
        );
        let work_nanos = sending_nanos.zip(receiving_nanos).filter(|_| told);
        (taken >= MIN_FRAMES).then_some(BulkFinding {
            gap_nanos,
            work_nanos,
        })
    }
}

impl ProbeStep for Bulk {
    fn boxed(&self) -> Box<dyn ProbeStep> {
        Box::new(self.clone())
    }

    fn on_report(&mut self, now: Instant, report: Report) {
        let Some(running) = self
            .running
            .as_ref()
            .filter(|running| running.test == report.test)
        else {
            return;
        };
        let (asked, stats) = (self.asked, running.stream.stats());
        let (question, closing) = (self.question(), self.closing);
        let Some(bulk_receiver) = self
            .bulk_receivers
            .iter_mut()
            .find(|bulk_receiver| bulk_receiver.target == report.target)
        else {
            return;
        };
        // The reply belongs to an earlier request.
        if report.body.late_nanos != question || report.seen > running.stream.feed().head() {
            return;
        }
        if closing {
            bulk_receiver.closed = true;
            self.go_on(now);
        } else if bulk_receiver.marks.len() < asked {
            bulk_receiver.marks.push(BulkMark {
                taken: report.seen,
                last_nanos: report.body.last_nanos,
                receiving_nanos: report.body.worked_nanos,
                sent: stats.data_sent + stats.data_resent,
                sending_nanos: self.processors.map_or(0, Processors::nanos),
            });
            self.go_on(now);
        }
    }

    fn on_frame(&mut self, now: Instant, frame: &Frame<'_>) {
        self.running
            .iter_mut()
            .for_each(|running| running.stream.handle_frame(now, frame));
    }

    fn on_timeout(&mut self, now: Instant) {
        self.running
            .iter_mut()
            .for_each(|running| running.stream.handle_timeout(now));
        if self.next_at.is_some_and(|at| at <= now) {
            (self.next_at, self.asked) = (None, self.asked + 1);
        }
        self.wait.on_timeout(now);
        match (self.wait.misses >= TRIES, self.closing) {
            // Receivers of the stream must be notified that it is over.
            (true, false) => (self.closing, self.wait.misses) = (true, 0),
            (true, true) => self.given_up = true,
            (false, _) => {}
        }
    }

    fn poll(&mut self, now: Instant, writer: &mut ProbeWriter, buffer: &mut [u8]) -> Option<usize> {
        let split = self.poll_split(now, writer, buffer)?;
        Some(split.join(buffer, |kept| self.payload(kept)))
    }

    fn poll_split(
        &mut self,
        now: Instant,
        writer: &mut ProbeWriter,
        buffer: &mut [u8],
    ) -> Option<SplitFrame> {
        if self.is_done() {
            return None;
        }
        if self.running.is_none() {
            self.begin(writer);
        }
        if let Some(length) = self.request(now, writer, buffer) {
            return Some(SplitFrame::whole(length));
        }
        let are_ready = self
            .bulk_receivers
            .iter()
            .all(|bulk_receiver| !bulk_receiver.marks.is_empty());
        let running = self.running.as_mut().filter(|_| !self.closing)?;
        while are_ready && running.stream.push(&self.payload, Ending::None) {}
        running.stream.poll_transmit_split(now, buffer)
    }

    fn payload(&self, kept: Kept) -> &[u8] {
        self.running
            .as_ref()
            .map_or(&[], |running| running.stream.payload(kept))
    }

    fn deadline(&self, now: Instant) -> Option<Deadline> {
        if self.is_done() {
            return None;
        }
        let next = self.next_at.map(|at| Deadline {
            at,
            why: Timer::HEARTBEAT,
        });
        let own = [self.wait.deadline(), next].into_iter().flatten();
        own.chain(
            self.running
                .as_ref()
                .and_then(|running| running.stream.poll_timeout(now)),
        )
        .min()
    }

    fn is_urgent(&self) -> bool {
        self.running
            .as_ref()
            .is_none_or(|running| running.stream.is_urgent())
    }

    fn is_done(&self) -> bool {
        self.given_up
            || self.closing
                && self
                    .bulk_receivers
                    .iter()
                    .all(|bulk_receiver| bulk_receiver.closed)
    }

    fn conclude(&self, findings: &mut Findings) {
        let last = self.bulk_receivers.len() - 1;
        for (at, bulk_receiver) in self.bulk_receivers.iter().enumerate() {
            let Some(finding) = self.finding(bulk_receiver) else {
                continue;
            };
            let work = finding.work_nanos.into_iter();
            match self.way {
                BulkRoute::Cast(_) => findings
                    .casting_nanos
                    .extend(work.map(|(sending, _)| sending)),
                BulkRoute::Chain if last == 0 => {
                    findings.targets[bulk_receiver.target].bulk = Some(finding)
                }
                // A relay's work is to receive a frame and to send it.
                BulkRoute::Chain if at < last => findings
                    .chain
                    .relaying_nanos
                    .extend(work.map(|(_, relaying)| relaying)),
                BulkRoute::Chain => {
                    findings.chain.copies = self.bulk_receivers.len() as u64;
                    findings.chain.gap_nanos = Some(finding.gap_nanos);
                }
            }
        }
    }
}
