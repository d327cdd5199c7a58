//! A receiver of a session: answers an invitation, takes and relays the stream, reports what became of it.
//!
//! Here is what its user and its driver see. It is `waiting` for a session, `joining` one, and then `running` as a
//! member; each phase has its own fields and timers.

mod admission;
mod config;
mod event;
mod fetching;
mod givers;
mod joining;
mod known_root;
mod machine;
mod needing;
mod proof;
mod roots;
mod running;
mod waiting;

pub use admission::Admission;
pub use config::ReceiverConfig;
pub use event::{Arrival, End, ReceiverEvent};

use super::ControlMemory;
use super::blocks::Blocks;
use super::endpoint::Endpoint;
use super::message::{Done, Message, Needs, Outcome, Stage, Trailer};
use super::other_build::OtherBuilds;
use super::view::View;
use crate::census::Answerer;
use crate::membership::ControlStats;
use ethbcast_transport::stream::{Ending, Run, StreamStats};
use ethbcast_transport::wire::Rank;
use ethbcast_transport::{Instant, MacAddr};
use known_root::KnownRoot;
use running::Running;
use std::ops::Range;
use waiting::{Waiting, WaitingStep};

type ReceiverEndpoint = Endpoint<ReceiverConfig, ReceiverEvent>;

#[derive(Clone, Debug)]
enum Phase {
    Waiting(Box<Waiting>),
    Running(Box<Running>),
    /// Nothing more will be said; what this host has of the stream stays, if it was a member.
    Ended(Option<Box<Running>>),
}

/// The receiver's state machine.
#[derive(Clone, Debug)]
pub struct Receiver {
    endpoint: ReceiverEndpoint,
    phase: Phase,
    /// The root that this host has asked.
    root: Option<KnownRoot>,
    other_builds: OtherBuilds,
    began: Instant,
    /// Who has asked who listens.
    answerer: Answerer,
}

impl Receiver {
    /// A receiver that listens from `now` on.
    ///
    /// # Panics
    /// If [`Tuning::check`](ethbcast_transport::Tuning::check) finds a wrong number.
    pub fn new(now: Instant, config: ReceiverConfig) -> Receiver {
        config.tuning.check().expect("the receiver's tuning passes its check");
        let station = config.station.clone();
        Receiver {
            endpoint: Endpoint::new(config, station, 0, Rank::NONE),
            phase: Phase::Waiting(Box::new(Waiting::new(now))),
            root: None,
            other_builds: OtherBuilds::default(),
            began: now,
            answerer: Answerer::default(),
        }
    }

    fn running(&self) -> Option<&Running> {
        match &self.phase {
            Phase::Running(running) | Phase::Ended(Some(running)) => Some(running),
            _ => None,
        }
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<ReceiverEvent> {
        self.endpoint.poll_event()
    }

    /// Whether everything has been said: nothing more will be sent.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Ended(_)) && self.endpoint.is_quiet()
    }

    /// This host's end of the streams, once it is a member.
    pub fn streams(&self) -> Option<&Blocks> {
        self.running().map(Running::blocks)
    }

    /// Frames of the streams so far.
    pub fn stream_stats(&self) -> StreamStats {
        self.streams().map(Blocks::stats).unwrap_or_default()
    }

    /// Control frames so far.
    pub fn control_stats(&self) -> ControlStats {
        self.endpoint.stats()
    }

    /// What is kept beside the streams.
    pub fn control_memory(&self) -> ControlMemory {
        let view_bytes = match &self.phase {
            Phase::Waiting(waiting) => waiting.view_bytes(),
            Phase::Running(running) | Phase::Ended(Some(running)) => running.view_bytes(),
            Phase::Ended(None) => 0,
        };
        ControlMemory { view_bytes, ..self.endpoint.memory() }
    }

    /// How it stands with the user's leave to ask a root, where [one is needed](ReceiverConfig::by_leave).
    pub fn admission(&self) -> Admission {
        match &self.phase {
            Phase::Waiting(waiting) => waiting.admission(),
            Phase::Running(_) => Admission::Given,
            Phase::Ended(_) => Admission::None,
        }
    }

    /// Gives the leave that is [wanted](Admission::Wanted).
    pub fn admit(&mut self, now: Instant) {
        if let Phase::Waiting(waiting) = &mut self.phase {
            waiting.admit(now);
        }
    }

    /// Whether somebody is to be answered who asks who listens: the room there is should be known.
    pub fn is_asked_who(&self) -> bool {
        self.answerer.next().is_some()
    }

    /// There is room for so many bytes by now.
    pub fn set_free_bytes(&mut self, free_bytes: u64) {
        self.endpoint.config_mut().free_bytes = free_bytes;
    }

    /// The address and session of the root that this host has asked.
    pub fn asked(&self) -> Option<(MacAddr, u32)> {
        self.root.as_ref().map(|root| (root.mac(), root.session()))
    }

    /// This host's rank, once it is a member.
    pub fn rank(&self) -> Option<Rank> {
        self.running().map(Running::rank)
    }

    /// The present view, once this host is a member.
    pub fn view(&self) -> Option<&View> {
        self.running().map(Running::view)
    }

    /// What has arrived next and not been consumed, and how many frames that is.
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

    /// The application is done with so many of the frames that [`peek`](Receiver::peek) showed; what ended with them.
    /// The others learn of the room.
    ///
    /// # Panics
    /// If it did not show so many.
    pub fn consume(&mut self, now: Instant, frames: u64) -> Ending {
        match &mut self.phase {
            Phase::Running(running) | Phase::Ended(Some(running)) => running.consume(now, frames),
            _ => panic!("nothing was shown"),
        }
    }

    /// The bytes of the stream that are to be fetched again, or of the whole content those that this host alone lacks:
    /// these are `lacking`, the others came damaged; none: nothing is, any more. To be called in every turn.
    pub fn fetch(&mut self, now: Instant, wanted: Option<Range<u64>>, lacking: bool) {
        if let Phase::Running(running) = &mut self.phase {
            running.fetch(now, wanted, lacking);
        }
    }

    /// Says what this host lacks of a stretch, until [`settle_needs`](Receiver::settle_needs) is called for it.
    pub fn say_needs(&mut self, now: Instant, needs: Needs) {
        if let Phase::Running(running) = &mut self.phase {
            running.say_needs(now, needs);
        }
    }

    /// What all are sent of the stretches below this one is decided.
    pub fn settle_needs(&mut self, below: u64) {
        if let Phase::Running(running) = &mut self.phase {
            running.settle_needs(below);
        }
    }

    /// Bytes that were fetched, and where the first of them is; or why they cannot be had. All of what was wanted, or
    /// its first 128 KiB.
    pub fn poll_fetched(&mut self) -> Option<Result<(u64, Vec<u8>), String>> {
        if let Phase::Running(running) = &mut self.phase { running.take_fetched() } else { None }
    }

    /// The bytes of the stream that the root asks for, on behalf of a member that lacks them:
    /// [`supply`](Receiver::supply) takes them.
    pub fn wants_again(&self) -> Option<Range<u64>> {
        if let Phase::Running(running) = &self.phase { running.wants_again() } else { None }
    }

    /// Takes the bytes that [`wants_again`](Receiver::wants_again) named.
    ///
    /// # Panics
    /// If there are more or fewer.
    pub fn supply(&mut self, bytes: &[u8]) {
        if let Phase::Running(running) = &mut self.phase {
            running.supply(bytes);
        }
    }

    /// This host does not have what [`wants_again`](Receiver::wants_again) named, and never will.
    pub fn deny(&mut self) {
        if let Phase::Running(running) = &mut self.phase {
            running.deny();
        }
    }

    /// The application's verdict on what it received. Anything but [`Outcome::Delivered`] makes this host leave the
    /// session.
    pub fn conclude(&mut self, now: Instant, report: Done) {
        let outcome = report.outcome;
        let noted = match &mut self.phase {
            Phase::Running(running) => running.conclude(now, report, &self.endpoint),
            _ => false,
        };
        let is_member = matches!(self.phase, Phase::Running(_));
        if !noted && (outcome == Outcome::Interrupted || (!is_member && outcome != Outcome::Delivered)) {
            if let (Phase::Waiting(_), Some(root)) = (&self.phase, &self.root) {
                waiting::leave(root, "it has ended before the start", &mut self.endpoint);
            }
            self.end(now, End::Dropped);
        }
    }

    /// Whether the application, which has everything, waits for its disk: the root is told with the next sign of life.
    pub fn set_syncing(&mut self, syncing: bool) {
        if let Phase::Running(running) = &mut self.phase {
            running.set_syncing(syncing);
        }
    }

    /// A whole frame by which another process, which outlives this one, can tell the root that it has ended; none
    /// before a root has been asked.
    pub fn farewell(&self, text: &str) -> Option<Vec<u8>> {
        let root = self.root.as_ref()?;
        let leave = Message::Leave { nonce: self.endpoint.config().nonce, text: text.to_owned() };
        Some(self.endpoint.frame(root.mac(), &leave))
    }

    fn end(&mut self, now: Instant, end: End) {
        if matches!(self.phase, Phase::Ended(_)) {
            return;
        }
        log::debug!("session ended: {end:?}");
        let last = std::mem::replace(&mut self.phase, Phase::Ended(None));
        self.phase = Phase::Ended(if let Phase::Running(running) = last { Some(running) } else { None });
        self.endpoint.end(now);
        self.endpoint.tell(ReceiverEvent::Ended(end));
    }

    fn on_control(&mut self, now: Instant, message: Message) {
        let Phase::Running(running) = &mut self.phase else { return };
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
            // There is no view yet, and the one that this host has is somebody else's.
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

    /// Goes on from waiting.
    fn go_on(&mut self, now: Instant, step: WaitingStep) {
        match step {
            WaitingStep::Wait => {}
            WaitingStep::End(end) => self.end(now, end),
            WaitingStep::Start(view, rank, part, joining) => {
                let mut running = Running::new(now, view, rank, joining, &mut self.endpoint);
                running.confirm(now, &part, &self.endpoint);
                self.root.iter_mut().for_each(|root| root.begin(now));
                self.phase = Phase::Running(Box::new(running));
            }
        }
    }
}
