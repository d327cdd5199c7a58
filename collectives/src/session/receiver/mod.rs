//! A receiver of a session: joins it, receives and relays the stream, and reports the outcome.
//!
//! This module is the interface to its user and its driver. The receiver is `waiting` for a
//! session, `joining` one, and then `running` as a member; each phase has its own fields and
//! timers.

mod admission;
mod config;
mod event;
mod fetching;
mod joining;
mod known_root;
mod liveness;
mod machine;
mod roots;
mod running;
mod upstreams;
mod waiting;
mod want_report;

pub use admission::Admission;
pub use config::ReceiverConfig;
pub use event::{Arrival, End, ReceiverEvent};

use super::ControlMemory;
use super::blocks::Blocks;
use super::endpoint::Endpoint;
use super::message::{Done, Message, Needs, Outcome, Stage, Trailer};
use super::other_build::OtherBuilds;
use super::view::View;
use crate::census::CensusResponder;
use crate::membership::ControlStats;
use ethbcast_transport::stream::{Ending, Run, StreamStats};
use ethbcast_transport::wire::Rank;
use ethbcast_transport::{Instant, MacAddr};
use known_root::KnownRoot;
use running::MemberPhase;
use std::ops::Range;
use waiting::{Waiting, WaitingStep};

type ReceiverEndpoint = Endpoint<ReceiverConfig, ReceiverEvent>;

#[derive(Clone, Debug)]
enum ReceiverPhase {
    Waiting(Box<Waiting>),
    Running(Box<MemberPhase>),
    Ended(Option<Box<MemberPhase>>),
}

/// State machine of a receiver.
#[derive(Clone, Debug)]
pub struct Receiver {
    endpoint: ReceiverEndpoint,
    phase: ReceiverPhase,
    root: Option<KnownRoot>,
    other_builds: OtherBuilds,
    began: Instant,
    answerer: CensusResponder,
}

impl Receiver {
    /// Creates a receiver that listens from `now` on.
    ///
    /// # Panics
    /// If [`Tuning::check`](ethbcast_transport::Tuning::check) finds a wrong number.
    pub fn new(now: Instant, config: ReceiverConfig) -> Receiver {
        config.tuning.check().expect("the receiver's tuning passes its check");
        let station = config.station.clone();
        Receiver {
            endpoint: Endpoint::new(config, station, 0, Rank::NONE),
            phase: ReceiverPhase::Waiting(Box::new(Waiting::new(now))),
            root: None,
            other_builds: OtherBuilds::default(),
            began: now,
            answerer: CensusResponder::default(),
        }
    }

    fn running(&self) -> Option<&MemberPhase> {
        match &self.phase {
            ReceiverPhase::Running(running) | ReceiverPhase::Ended(Some(running)) => Some(running),
            _ => None,
        }
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<ReceiverEvent> {
        self.endpoint.poll_event()
    }

    /// Whether the session is over: nothing more will be sent.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, ReceiverPhase::Ended(_)) && self.endpoint.is_quiet()
    }

    /// Returns this host's end of the streams, once it is a member.
    pub fn streams(&self) -> Option<&Blocks> {
        self.running().map(MemberPhase::blocks)
    }

    /// Returns the frame counters of the streams.
    pub fn stream_stats(&self) -> StreamStats {
        self.streams().map(Blocks::stats).unwrap_or_default()
    }

    /// Returns the counters of control frames.
    pub fn control_stats(&self) -> ControlStats {
        self.endpoint.stats()
    }

    /// Returns the amount of state kept beside the streams.
    pub fn control_memory(&self) -> ControlMemory {
        let view_bytes = match &self.phase {
            ReceiverPhase::Waiting(waiting) => waiting.view_bytes(),
            ReceiverPhase::Running(running) | ReceiverPhase::Ended(Some(running)) => running.view_bytes(),
            ReceiverPhase::Ended(None) => 0,
        };
        ControlMemory { view_bytes, ..self.endpoint.memory() }
    }

    /// Returns the state of admission, where [it is needed](ReceiverConfig::by_leave).
    pub fn admission(&self) -> Admission {
        match &self.phase {
            ReceiverPhase::Waiting(waiting) => waiting.admission(),
            ReceiverPhase::Running(_) => Admission::Given,
            ReceiverPhase::Ended(_) => Admission::None,
        }
    }

    /// Permits the join request that is [wanted](Admission::Wanted).
    pub fn admit(&mut self, now: Instant) {
        if let ReceiverPhase::Waiting(waiting) = &mut self.phase {
            waiting.admit(now);
        }
    }

    /// Whether a query about listening hosts is due an answer, which should include the current
    /// free space.
    pub fn is_asked_who(&self) -> bool {
        self.answerer.next().is_some()
    }

    /// Sets the free space in bytes.
    pub fn set_free_bytes(&mut self, free_bytes: u64) {
        self.endpoint.config_mut().free_bytes = free_bytes;
    }

    /// Returns the address and session of the root that this host has asked.
    pub fn asked(&self) -> Option<(MacAddr, u32)> {
        self.root.as_ref().map(|root| (root.mac(), root.session()))
    }

    /// Returns this host's rank, once it is a member.
    pub fn rank(&self) -> Option<Rank> {
        self.running().map(MemberPhase::rank)
    }

    /// Returns the current view, once this host is a member.
    pub fn view(&self) -> Option<&View> {
        self.running().map(MemberPhase::view)
    }

    /// Returns the next data that arrived and was not consumed, and the number of frames in it.
    pub fn peek(&self) -> Option<(Arrival<'_>, u64)> {
        let Run { bytes, frames, ending } = self.streams()?.peek()?;
        let arrival = match ending {
            Ending::None => Arrival::Bytes(bytes),
            Ending::Message | Ending::Quiet => Arrival::Message(bytes),
            Ending::Stream => {
                Arrival::End(Trailer::decode(bytes).unwrap_or(Trailer { bytes: u64::MAX, digest: [0; 32] }))
            }
        };
        Some((arrival, frames))
    }

    /// Releases `frames` of the frames that [`peek`](Receiver::peek) showed, which gives the sender
    /// credit. Returns what ended with them.
    ///
    /// # Panics
    /// If fewer were shown.
    pub fn consume(&mut self, now: Instant, frames: u64) -> Ending {
        match &mut self.phase {
            ReceiverPhase::Running(running) | ReceiverPhase::Ended(Some(running)) => running.consume(now, frames),
            _ => panic!("nothing was shown"),
        }
    }

    /// Sets the range to request again: of the whole content if this host alone is `lacking` it,
    /// else bytes of the stream that came damaged. `None` cancels. Must be called in every turn.
    pub fn fetch(&mut self, now: Instant, wanted: Option<Range<u64>>, lacking: bool) {
        if let ReceiverPhase::Running(running) = &mut self.phase {
            running.fetch(now, wanted, lacking);
        }
    }

    /// Sends this host's want-bitmap of a stretch, repeated until
    /// [`settle_needs`](Receiver::settle_needs) is called for it.
    pub fn report_needs(&mut self, now: Instant, needs: Needs) {
        if let ReceiverPhase::Running(running) = &mut self.phase {
            running.report_needs(now, needs);
        }
    }

    /// Stops the want-bitmaps of all stretches below this one, because they are decided.
    pub fn settle_needs(&mut self, below: u64) {
        if let ReceiverPhase::Running(running) = &mut self.phase {
            running.settle_needs(below);
        }
    }

    /// Returns fetched bytes with their position, or the reason why they are unavailable: all of
    /// the wanted range, or its first 128 KiB.
    pub fn poll_fetched(&mut self) -> Option<Result<(u64, Vec<u8>), String>> {
        if let ReceiverPhase::Running(running) = &mut self.phase { running.take_fetched() } else { None }
    }

    /// Returns the range that the root requests on behalf of another member;
    /// [`supply`](Receiver::supply) takes the bytes.
    pub fn wants_again(&self) -> Option<Range<u64>> {
        if let ReceiverPhase::Running(running) = &self.phase { running.wants_again() } else { None }
    }

    /// Takes the bytes that [`wants_again`](Receiver::wants_again) named.
    ///
    /// # Panics
    /// If the length differs.
    pub fn supply(&mut self, bytes: &[u8]) {
        if let ReceiverPhase::Running(running) = &mut self.phase {
            running.supply(bytes);
        }
    }

    /// Reports that this host does not have the range that [`wants_again`](Receiver::wants_again)
    /// named, and never will.
    pub fn deny(&mut self) {
        if let ReceiverPhase::Running(running) = &mut self.phase {
            running.deny();
        }
    }

    /// Records the application's verdict on what it received. Anything but [`Outcome::Delivered`]
    /// makes this host leave the session.
    pub fn conclude(&mut self, now: Instant, report: Done) {
        let outcome = report.outcome;
        let noted = match &mut self.phase {
            ReceiverPhase::Running(running) => running.conclude(now, report, &self.endpoint),
            _ => false,
        };
        let is_member = matches!(self.phase, ReceiverPhase::Running(_));
        if !noted && (outcome == Outcome::Interrupted || (!is_member && outcome != Outcome::Delivered)) {
            if let (ReceiverPhase::Waiting(_), Some(root)) = (&self.phase, &self.root) {
                waiting::leave(root, "it has ended before the start", &mut self.endpoint);
            }
            self.end(now, End::Dropped);
        }
    }

    /// Sets whether the application, which has everything, waits for its disk. The root learns it
    /// with the next status report.
    pub fn set_syncing(&mut self, syncing: bool) {
        if let ReceiverPhase::Running(running) = &mut self.phase {
            running.set_syncing(syncing);
        }
    }

    /// Returns a whole frame with which another process, which outlives this one, can report this
    /// one's end to the root; `None` before a root has been asked.
    pub fn farewell(&self, text: &str) -> Option<Vec<u8>> {
        let root = self.root.as_ref()?;
        let leave = Message::Leave { nonce: self.endpoint.config().nonce, text: text.to_owned() };
        Some(self.endpoint.frame(root.mac(), &leave))
    }

    fn end(&mut self, now: Instant, end: End) {
        if matches!(self.phase, ReceiverPhase::Ended(_)) {
            return;
        }
        log::debug!("session ended: {end:?}");
        let last = std::mem::replace(&mut self.phase, ReceiverPhase::Ended(None));
        self.phase =
            ReceiverPhase::Ended(if let ReceiverPhase::Running(running) = last { Some(running) } else { None });
        self.endpoint.end(now);
        self.endpoint.push_event(ReceiverEvent::Ended(end));
    }

    fn on_control(&mut self, now: Instant, message: Message) {
        let ReceiverPhase::Running(running) = &mut self.phase else { return };
        let end = match message {
            Message::View(part) => running.on_view_part(now, &part, &mut self.endpoint),
            Message::Verdict(verdict) => running.on_verdict(&verdict, &mut self.endpoint),
            Message::Piece(piece) => {
                running.on_piece(now, &piece);
                None
            }
            Message::Fetch(question) => {
                running.on_question(&question);
                None
            }
            Message::Abort { text } => Some(End::Aborted(text)),
            Message::Response(words) => {
                self.root.iter_mut().for_each(|root| root.on_response(now, &words));
                None
            }
            // The root has no view yet, so the one that this host has was forged.
            Message::Announce { stage: Stage::Gathering, .. } if running.is_untouched() => {
                let root = self.root.as_ref().map(KnownRoot::mac);
                let request = self.endpoint.config().request();
                root.into_iter().for_each(|root| self.endpoint.send(root, &request));
                None
            }
            _ => None,
        };
        end.into_iter().for_each(|end| self.end(now, end));
    }

    fn go_on(&mut self, now: Instant, step: WaitingStep) {
        match step {
            WaitingStep::Wait => {}
            WaitingStep::End(end) => self.end(now, end),
            WaitingStep::Start(view, rank, part, joining) => {
                let mut running = MemberPhase::new(now, view, rank, joining, &mut self.endpoint);
                running.confirm(now, &part, &self.endpoint);
                self.root.iter_mut().for_each(|root| root.begin(now));
                self.phase = ReceiverPhase::Running(Box::new(running));
            }
        }
    }
}
