//! Frames in flight to one peer: sent, not yet acknowledged, kept for retransmission.
//!
//! A frame is lost when one sent later has arrived (RFC 8985), as in a stream. A timeout requests
//! an acknowledgement and never repeats data. No payload is kept: a lost frame is written again
//! from the message, or from the present room for messages.

use super::body::NoteCode;
use super::settings::SPAN_FRAMES;
use crate::arq::echo::{Behind, Echo};
use crate::arq::loss_detection::{LossDetection, News, ProbeTimer, Sent};
use crate::arq::stamp::{Stamp, Stamps};
use crate::arq::window::{Congestion, Window};
use crate::machine::AuditError;
use crate::time::Instant;
use crate::tuning::{Policy, Tuning};
use crate::wire::Ack;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Part {
        message: u64,
        offset: u64,
        bytes: u32,
        pushed_bytes: u32,
    },
    Word(NoteCode),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameState {
    Flying,
    Lost,
    Arrived,
}

#[derive(Clone, Copy, Debug)]
struct Numbered {
    piece: Piece,
    stamp: Stamp,
    before: Stamp,
    state: FrameState,
}

const PATIENT_TRIES: u32 = 12;

#[derive(Clone, Debug)]
pub(super) struct Flight {
    policy: Policy,
    cursor: u64,
    frames: VecDeque<Numbered>,
    repairs: BTreeSet<u64>,
    flying: u64,
    window: Window,
    congestion: Congestion,
    echo: Echo,
    question: ProbeTimer,
    waiting_since: Instant,
    /// Time since which the peer reports frames as missing that it had acknowledged: another host
    /// has forged an acknowledgement.
    lacks_since: Option<Instant>,
}

impl Flight {
    pub(super) fn new(tuning: &Tuning) -> Flight {
        Flight {
            policy: tuning.policy,
            cursor: 0,
            frames: VecDeque::new(),
            repairs: BTreeSet::new(),
            flying: 0,
            window: Window::new(&tuning.window, SPAN_FRAMES),
            congestion: Congestion::default(),
            echo: Echo::new(tuning),
            question: ProbeTimer::default(),
            waiting_since: Instant::START,
            lacks_since: None,
        }
    }

    pub(super) fn next(&self) -> u64 {
        self.cursor + self.frames.len() as u64
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.question.due()
    }

    pub(super) fn flying(&self) -> u64 {
        self.flying
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.frames.capacity() * size_of::<Numbered>()
    }

    pub(super) fn has_span(&self) -> bool {
        (self.frames.len() as u64) < SPAN_FRAMES
    }

    pub(super) fn has_window(&self) -> bool {
        self.has_span() && self.flying < self.window.frames()
    }

    pub(super) fn repair(
        &mut self,
        now: Instant,
        stamp: impl FnOnce() -> Stamp,
    ) -> Option<(u64, Piece, Stamp)> {
        if self.flying >= self.window.frames() {
            return None;
        }
        let sequence = self.repairs.pop_first()?;
        let stamp = stamp();
        let frame = &mut self.frames[(sequence - self.cursor) as usize];
        (frame.before, frame.stamp, frame.state) = (frame.stamp, stamp, FrameState::Flying);
        let piece = frame.piece;
        self.flying += 1;
        self.arm(now);
        Some((sequence, piece, stamp))
    }

    pub(super) fn send(&mut self, now: Instant, piece: Piece, stamp: Stamp) -> u64 {
        let sequence = self.next();
        self.frames.push_back(Numbered {
            piece,
            stamp,
            before: stamp,
            state: FrameState::Flying,
        });
        self.flying += 1;
        self.arm(now);
        sequence
    }

    pub(super) fn is_blocked(&self) -> bool {
        !self.has_window() && self.repairs.is_empty()
    }

    pub(super) fn on_ack(
        &mut self,
        now: Instant,
        ack: &Ack<'_>,
        stamps: &Stamps,
        arrived: impl FnMut(Piece),
    ) -> bool {
        let sent = Sent {
            below: self.next(),
            newest: stamps.newest(),
            credit: SPAN_FRAMES,
        };
        let (ack, forged) = sent.believe(ack);
        let behind = if self.withdraws(&ack) {
            self.echo.judge_behind(&ack)
        } else {
            Behind::Late
        };
        if behind == Behind::Late && ack.cursor >= self.cursor {
            self.on_believed(now, &ack, stamps.newest(), arrived);
        } else {
            if behind == Behind::Contradiction {
                // Frames acknowledged before may still arrive, but this host no longer has them.
                self.lacks_since = self.lacks_since.or(Some(now));
            }
            self.question
                .doubt(now, behind, |tries| self.echo.rtt().timeout(tries));
        }
        !forged
    }

    fn withdraws(&self, ack: &Ack<'_>) -> bool {
        let arrived_beyond = self.frames.len() as u64 > self.flying + self.repairs.len() as u64;
        let lacks = |(sequence, frame): (u64, &Numbered)| {
            frame.state == FrameState::Arrived && !ack.has(sequence)
        };
        ack.cursor < self.cursor || (arrived_beyond && (self.cursor..).zip(&self.frames).any(lacks))
    }

    fn on_believed(
        &mut self,
        now: Instant,
        ack: &Ack<'_>,
        newest: Stamp,
        arrived: impl FnMut(Piece),
    ) {
        let limiting = self.window.is_limiting(self.flying);
        let newly = self.mark_arrived(ack, arrived);
        if limiting {
            self.window.grow(newly);
        }
        let fresh = self.echo.take(now, ack).is_some();
        if fresh {
            self.lacks_since = None;
            self.find_lost(now, ack.covered(), newest);
        }
        let news = News::new(fresh, newly > 0, false);
        self.question
            .on_ack(now, news, !self.frames.is_empty(), |tries| {
                self.echo.rtt().timeout(tries)
            });
    }

    fn mark_arrived(&mut self, ack: &Ack<'_>, mut arrived: impl FnMut(Piece)) -> u64 {
        let mut newly = 0;
        let covered = (ack.covered() - self.cursor) as usize;
        let first = self
            .frames
            .front()
            .filter(|_| self.policy == Policy::HolesAllowed && ack.cursor > self.cursor);
        if first.is_some_and(|frame| self.echo.on_arrival(frame.before, frame.stamp, ack)) {
            self.window.undo_cut();
        }
        for (sequence, frame) in (self.cursor..).zip(self.frames.iter_mut().take(covered)) {
            if frame.state == FrameState::Arrived || !ack.has(sequence) {
                continue;
            }
            match frame.state {
                FrameState::Flying => self.flying -= 1,
                _ => {
                    self.repairs.remove(&sequence);
                }
            }
            frame.state = FrameState::Arrived;
            newly += 1;
            arrived(frame.piece);
        }
        while self
            .frames
            .front()
            .is_some_and(|frame| frame.state == FrameState::Arrived)
        {
            self.frames.pop_front();
            self.cursor += 1;
        }
        newly
    }

    /// Finds the frames that the echo proves lost. Under `InOrderOnly` only the first frame is
    /// judged, and all that follow it are lost with it.
    fn find_lost(&mut self, now: Instant, covered: u64, newest: Stamp) {
        let evidence = LossDetection {
            echo: self.echo.newest(),
            tolerance: self.echo.tolerance(),
            covered,
        };
        let strict = self.policy == Policy::InOrderOnly;
        let proves =
            |frame: &Numbered| frame.state == FrameState::Flying && evidence.overtook(frame.stamp);
        if strict && !self.frames.front().is_some_and(proves) {
            return;
        }
        let sent_at = |sequence: u64| self.frames[(sequence - self.cursor) as usize].stamp;
        let judged = evidence.search(self.cursor..self.next(), |evidence, sequence| {
            strict || evidence.overtook(sent_at(sequence))
        });
        let lost: Vec<u64> = judged
            .filter(|&(_, lost)| lost)
            .map(|(sequence, _)| sequence)
            .collect();
        for sequence in lost {
            let frame = &mut self.frames[(sequence - self.cursor) as usize];
            if frame.state == FrameState::Flying {
                frame.state = FrameState::Lost;
                self.flying -= 1;
                self.repairs.insert(sequence);
                if self.congestion.is_new(now, frame.stamp, newest) {
                    self.window.cut();
                }
            }
        }
    }

    pub(super) fn on_frame(&mut self, now: Instant) {
        self.waiting_since = now;
    }

    /// Requests a receipt if it is overdue. Returns true if several requests over `silent_after`
    /// had no reply (a host that was itself suspended for that time has requested only once), or if
    /// the peer has lacked frames for as long that no longer exist here.
    pub(super) fn on_timeout(&mut self, now: Instant, silent_after: Duration) -> bool {
        let overdue = self
            .question
            .on_timeout(now, |tries| self.echo.rtt().timeout(tries));
        let lacks = self
            .lacks_since
            .is_some_and(|since| now.since(since) >= silent_after);
        overdue
            && (lacks
                || self.question.tries >= PATIENT_TRIES
                    && now.since(self.waiting_since) >= silent_after)
    }

    pub(super) fn take_request(&mut self) -> bool {
        self.question.take()
    }

    fn arm(&mut self, now: Instant) {
        if self
            .question
            .arm(now, |tries| self.echo.rtt().timeout(tries))
        {
            self.waiting_since = now;
        }
    }

    pub(super) fn audit(&self) -> Result<(), AuditError> {
        let count = |state| {
            self.frames
                .iter()
                .filter(|frame| frame.state == state)
                .count() as u64
        };
        if (count(FrameState::Flying), count(FrameState::Lost))
            != (self.flying, self.repairs.len() as u64)
        {
            return Err(AuditError::new(format!(
                "{} flying and {} lost counted, {:?}",
                self.flying,
                self.repairs.len(),
                self.frames
            )));
        }
        if self.frames.len() as u64 > SPAN_FRAMES
            || (!self.frames.is_empty() && self.due().is_none())
        {
            return Err(AuditError::new(format!(
                "{} frames unacknowledged, the next question due {:?}",
                self.frames.len(),
                self.due()
            )));
        }
        Ok(())
    }
}
