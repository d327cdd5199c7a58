//! A receiver of a transfer: joins it, receives and relays the stream, and reports the outcome.
//!
//! The module is the interface to its user and its driver. The receiver is `waiting` for a
//! session, `joining` one, and then `running` as a member; each phase has its own fields and
//! timers.

mod config;
mod fetching;
mod liveness;
mod roots;
mod running;
#[cfg(test)]
mod tests;
mod waiting;

pub use config::{Admission, Arrival, End, ReceiverConfig, ReceiverEvent};

use super::blocks::Blocks;
use super::endpoint::{ControlMemory, Endpoint, OtherBuilds};
use super::keyring::Keyring;
use super::kind::JOIN;
use super::message::{Behind, Done, Message, Needs, Outcome, Stage, Trailer};
use super::verified::{Form, Offered};
use super::view::View;
use crate::census::kind::{HERE, WHO};
use crate::census::{Busy, CensusReply, CensusResponder};
use crate::measure::kind::PROBE;
use crate::membership::timers::Wait;
use crate::membership::{ControlStats, KeyDifference};
use config::ReceiverEndpoint;
use ethbcast_transport::stream::{Ending, Run, StreamStats};
use ethbcast_transport::wire::{self, ETHERNET_BYTES, HEADER_BYTES, Rank, Reject};
use ethbcast_transport::{
    Deadline, Instant, Kept, LinkReading, MacAddr, Machine, Part, SplitFrame,
};
use roots::{AMPLIFICATION, KnownRoot};
use running::MemberPhase;
use std::ops::Range;
use waiting::{Waiting, WaitingStep};

#[derive(Clone, Debug)]
enum ReceiverPhase {
    Waiting(Box<Waiting>),
    Running(Box<MemberPhase>),
    Ended(Option<Box<MemberPhase>>),
}

/// Bytes of a final report without the hosts behind its member, and of what a key adds, at most.
const LONGEST_REPORT_BYTES: usize = 400;

/// State machine of a receiver.
#[derive(Clone, Debug)]
pub struct Receiver {
    endpoint: ReceiverEndpoint,
    phase: ReceiverPhase,
    root: Option<KnownRoot>,
    other_builds: OtherBuilds,
    began: Instant,
    responder: CensusResponder,
}

impl Receiver {
    /// Creates a receiver that listens from `now` on.
    ///
    /// # Panics
    /// If [`Tuning::check`](ethbcast_transport::Tuning::check) finds a wrong number.
    pub fn new(now: Instant, mut config: ReceiverConfig) -> Receiver {
        config
            .tuning
            .check()
            .expect("the receiver's tuning passes its check");
        let keyring = config.keys.take().map(|keys| {
            config.nonce = keys.nonce();
            Keyring::of_receiver(keys, &config.station)
        });
        config.station.guard = keyring
            .as_ref()
            .map(Keyring::cluster_guard)
            .unwrap_or_default();
        config.form = config.form.signed(keyring.is_some());
        let station = config.station.clone();
        let waiting = Waiting::new(now, keyring.is_some());
        Receiver {
            endpoint: Endpoint::new(config, station, 0, Rank::NONE, keyring),
            phase: ReceiverPhase::Waiting(Box::new(waiting)),
            root: None,
            other_builds: OtherBuilds::default(),
            began: now,
            responder: CensusResponder::default(),
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
            ReceiverPhase::Running(running) | ReceiverPhase::Ended(Some(running)) => {
                running.view_bytes()
            }
            ReceiverPhase::Ended(None) => 0,
        };
        ControlMemory {
            view_bytes,
            ..self.endpoint.memory()
        }
    }

    /// Takes a reading of the interface's counters, with which the root learns of other traffic.
    pub fn note_link(&mut self, now: Instant, reading: LinkReading) {
        self.endpoint.note_link(now, reading);
        if let ReceiverPhase::Running(running) = &mut self.phase {
            let timing = &self.endpoint.config().timing;
            running.note_link(now, self.endpoint.link_share(now).is_some(), timing);
        }
    }

    /// Returns the state of admission, where [it is needed](ReceiverConfig::by_leave).
    pub fn admission(&self) -> Admission {
        match &self.phase {
            ReceiverPhase::Waiting(waiting) => waiting.admission(),
            ReceiverPhase::Running(_) => Admission::Given,
            ReceiverPhase::Ended(_) => Admission::None,
        }
    }

    /// Returns what is offered where the join request is [wanted](Admission::Wanted), by each root
    /// that may be asked, with its address and name.
    pub fn offers(&self, now: Instant) -> impl Iterator<Item = (MacAddr, &str, Offered)> {
        let waiting = match &self.phase {
            ReceiverPhase::Waiting(waiting) => Some(waiting),
            _ => None,
        };
        waiting
            .into_iter()
            .flat_map(move |waiting| waiting.offers(now, &self.endpoint))
    }

    /// Sets the hosts of another network, `all` in number, to which this one has passed the content
    /// on. The root learns their names and outcomes with the final report, as far as that is one
    /// frame.
    pub fn set_behind(&mut self, all: usize, named: Vec<(String, Outcome)>) {
        let payload_bytes = usize::from(self.endpoint.station().payload_bytes());
        let room = payload_bytes.saturating_sub(LONGEST_REPORT_BYTES);
        self.endpoint.config_mut().behind = Behind::new(all, named, room);
    }

    /// Permits the join request that is [wanted](Admission::Wanted).
    pub fn admit(&mut self, now: Instant) {
        if let ReceiverPhase::Waiting(waiting) = &mut self.phase {
            waiting.admit(now, self.endpoint.config());
        }
    }

    /// Whether a census query waits for a reply, which should include the current free space.
    pub fn has_census_query(&self) -> bool {
        self.responder.next().is_some()
    }

    /// Sets the free space in bytes.
    pub fn set_free_bytes(&mut self, free_bytes: u64) {
        self.endpoint.config_mut().free_bytes = free_bytes;
    }

    /// Returns the address and session of the root that was sent a join request.
    pub fn asked(&self) -> Option<(MacAddr, u32)> {
        self.root.as_ref().map(|root| (root.mac(), root.session()))
    }

    /// Returns the form of the stream, of the session that it was last invited to.
    pub fn form(&self) -> Form {
        self.endpoint.config().form
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
        let Run {
            bytes,
            frames,
            ending,
        } = self.streams()?.peek()?;
        let arrival = match ending {
            Ending::None => Arrival::Bytes(bytes),
            Ending::Message | Ending::Quiet => Arrival::Message(bytes),
            Ending::Stream => {
                let trailer = self.endpoint.open_trailer(bytes);
                Arrival::End(trailer.unwrap_or(Trailer {
                    bytes: u64::MAX,
                    digest: [0; 32],
                }))
            }
        };
        Some((arrival, frames))
    }

    /// Releases `frames` of the frames that [`peek`](Receiver::peek) showed, which gives the sender
    /// credit. Returns whether a message or the stream ended with them.
    ///
    /// # Panics
    /// If fewer were shown.
    pub fn consume(&mut self, now: Instant, frames: u64) -> Ending {
        match &mut self.phase {
            ReceiverPhase::Running(running) | ReceiverPhase::Ended(Some(running)) => {
                running.consume(now, frames)
            }
            _ => panic!("nothing was shown"),
        }
    }

    /// Sets the range to request again. If this host alone is `lacking` it, positions are those of
    /// the whole content, else of the stream that came damaged. `None` cancels. Must be called in
    /// every turn.
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
        if let ReceiverPhase::Running(running) = &mut self.phase {
            running.take_fetched()
        } else {
            None
        }
    }

    /// Returns the range that the root requests on behalf of another member;
    /// [`supply`](Receiver::supply) takes the bytes.
    pub fn wants_again(&self) -> Option<Range<u64>> {
        if let ReceiverPhase::Running(running) = &self.phase {
            running.wants_again()
        } else {
            None
        }
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
        let declined = outcome.status_and_reason(&report.text).0 == Outcome::REFUSED;
        if let (ReceiverPhase::Waiting(waiting), true) =
            (&mut self.phase, declined && self.root.is_some())
        {
            return waiting.decline(now, report);
        }
        let noted = match &mut self.phase {
            ReceiverPhase::Running(running) => running.conclude(now, report, &self.endpoint),
            _ => false,
        };
        let is_member = matches!(self.phase, ReceiverPhase::Running(_));
        if !noted
            && (outcome == Outcome::Interrupted || (!is_member && outcome != Outcome::Delivered))
        {
            if let ReceiverPhase::Waiting(waiting) = &mut self.phase {
                waiting.leave("it has ended before the start", &mut self.endpoint);
            }
            self.end(now, End::Dropped);
        }
    }

    /// Whether the root that is asked can read a reason to leave: it takes the group's secret.
    pub fn can_leave(&self) -> bool {
        !matches!(self.phase, ReceiverPhase::Waiting(_)) || self.endpoint.has_keys()
    }

    /// Sets whether the application, which has everything, waits for its disk. The root learns it
    /// with the next status report.
    pub fn set_syncing(&mut self, syncing: bool) {
        if let ReceiverPhase::Running(running) = &mut self.phase {
            running.set_syncing(syncing);
        }
    }

    /// Returns a whole frame with which another process, which outlives this one, can report this
    /// one's end to the root; `None` before a join request.
    pub fn final_frame(&self, text: &str) -> Option<Vec<u8>> {
        let root = self.root.as_ref()?;
        let leave = Message::Leave {
            nonce: self.endpoint.config().nonce,
            text: text.to_owned(),
        };
        self.endpoint.frame(root.mac(), &leave)
    }

    fn end(&mut self, now: Instant, end: End) {
        if matches!(self.phase, ReceiverPhase::Ended(_)) {
            return;
        }
        log::debug!("session ended: {end:?}");
        let last = std::mem::replace(&mut self.phase, ReceiverPhase::Ended(None));
        self.phase = ReceiverPhase::Ended(if let ReceiverPhase::Running(running) = last {
            Some(running)
        } else {
            None
        });
        self.endpoint.end(now);
        if end == End::NobodyThere {
            // The start of a short session is announced too seldom to be credible.
            for other in self.other_builds.doubtful() {
                self.endpoint.push_event(ReceiverEvent::OtherVersion(other));
            }
        }
        self.endpoint.push_event(ReceiverEvent::Ended(end));
    }

    fn on_reject(&mut self, frame: &[u8], why: Reject) {
        self.endpoint.count_reject(why);
        // Another receiver, which asks its own root.
        if wire::parse_headers(frame).is_ok_and(|(frame, _)| frame.header.kind == JOIN) {
            return;
        }
        let Some(other) = self
            .other_builds
            .on_reject(frame, why, self.endpoint.keyring())
        else {
            return;
        };
        // A root with a key believes nothing of a host without one, but its user learns by several
        // requests who lacks it.
        if let (Some(KeyDifference::OnlyTheirs(_)), Ok((headers, _))) =
            (other.keys, wire::parse_headers(frame))
        {
            let config = self.endpoint.config();
            let (request, heard_bytes) = (config.request(), frame.len() - ETHERNET_BYTES);
            // The frame may be anybody's.
            if !config.sources_unproved
                || self.endpoint.frame_bytes(&request) <= AMPLIFICATION * heard_bytes
            {
                self.endpoint
                    .send_in(headers.header.session, other.mac, &request);
            }
        }
        if self.other_builds.is_credible(other.mac) {
            self.endpoint.push_event(ReceiverEvent::OtherVersion(other));
        }
    }

    fn on_control(&mut self, now: Instant, message: Message) {
        let ReceiverPhase::Running(running) = &mut self.phase else {
            return;
        };
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
                self.root
                    .iter_mut()
                    .for_each(|root| root.on_response(now, &words));
                None
            }
            // The root has no view yet, so the view that this host has was forged.
            Message::Announce {
                stage: Stage::Gathering,
                ..
            } if running.is_untouched() => {
                let root = self.root.as_ref().map(KnownRoot::mac);
                let request = self.endpoint.config().request();
                root.into_iter()
                    .for_each(|root| self.endpoint.send(root, &request));
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
                let view = (view, part.digest);
                let mut running = MemberPhase::new(now, view, rank, joining, &mut self.endpoint);
                running.confirm(now, &part, &self.endpoint);
                if let ReceiverPhase::Waiting(waiting) = &mut self.phase
                    && let Some(report) = waiting.take_declined()
                {
                    running.conclude(now, report, &self.endpoint);
                }
                let timing = self
                    .endpoint
                    .config()
                    .timing
                    .among(running.view().members.len() - 1);
                self.root
                    .iter_mut()
                    .for_each(|root| root.begin(now, &timing));
                self.phase = ReceiverPhase::Running(Box::new(running));
            }
        }
    }

    fn reply(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        let (to, nonce, (asked_by, asked_bytes)) = self.responder.poll(now)?;
        let is_unproved = self.endpoint.config().sources_unproved;
        let most_bytes = if is_unproved {
            AMPLIFICATION * asked_bytes - HEADER_BYTES
        } else {
            usize::MAX
        };
        let body = self.describe(now, nonce)?.within(most_bytes)?.encode();
        self.endpoint
            .write_reply(buffer, (to, asked_by), HERE, &body)
    }

    fn describe(&self, now: Instant, nonce: u64) -> Option<CensusReply> {
        let config = self.endpoint.config();
        let mut about = config.about.clone()?;
        if let Some(last) = &mut about.last {
            let since = u32::try_from(now.since(self.began).as_secs()).unwrap_or(u32::MAX);
            last.seconds_ago = last.seconds_ago.saturating_add(since);
        }
        let busy = match (&self.phase, &self.root) {
            (ReceiverPhase::Running(_), _) => Busy::Receiving,
            (_, Some(_)) => Busy::Joining,
            _ => Busy::Waiting,
        };
        let size = self.view().and_then(|view| view.size);
        let came = |streams: &super::Blocks| streams.frames() * streams.payload_bytes() as u64;
        let came = self.streams().map_or(0, came).min(size.unwrap_or(u64::MAX));
        let station = self.endpoint.station();
        Some(CensusReply {
            nonce,
            group: station.group.clone(),
            host: station.host.clone(),
            mtu_bytes: station.mtu_bytes,
            free_bytes: Some(config.free_bytes).filter(|&bytes| bytes != u64::MAX),
            busy,
            bytes: config.form.content_bytes(came),
            size: size.map(|bytes| config.form.content_bytes(bytes)),
            about,
        })
    }
}

impl Machine for Receiver {
    fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        let mut plain = Vec::new();
        let frame = match self.endpoint.open(now, frame, &mut plain) {
            Ok(frame) => frame,
            Err(why) => return self.on_reject(frame, why),
        };
        if let (true, is_news) = self.endpoint.is_own(&frame) {
            self.endpoint.count_non_member();
            if is_news {
                self.endpoint
                    .push_event(ReceiverEvent::OwnAddress(frame.source));
                // Sent to the group so that a root with this address receives it too: a switch
                // would not deliver a unicast frame to it.
                let (request, all) = (
                    self.endpoint.config().request(),
                    self.endpoint.station().group_mac,
                );
                self.endpoint.send_in(frame.header.session, all, &request);
            }
            return;
        }
        if frame.header.kind == WHO && self.endpoint.config().about.is_some() {
            if !self.responder.on_frame(
                now,
                &frame,
                self.endpoint.station(),
                self.endpoint.requested_by(),
            ) {
                self.endpoint.count_malformed();
            }
            return;
        }
        if let ReceiverPhase::Waiting(waiting) = &mut self.phase {
            let step = waiting.handle_frame(now, &frame, &mut self.root, &mut self.endpoint);
            self.go_on(now, step);
            return;
        }
        let of_stream = frame.header.kind.is_of_stream();
        let named = || {
            self.view()
                .is_some_and(|view| view.names(frame.header.rank, frame.source))
        };
        let from_member = of_stream && named();
        let session = self.endpoint.session();
        let Some(root) = self
            .root
            .as_mut()
            .filter(|_| session == frame.header.session)
        else {
            self.endpoint.count_non_member();
            return;
        };
        if frame.source == root.mac() {
            if self.endpoint.shows_life(&frame) {
                root.on_frame(now);
            }
        } else if !from_member {
            self.endpoint.count_non_member();
            return;
        }
        match &mut self.phase {
            ReceiverPhase::Running(running) if of_stream => {
                running.on_stream_frame(now, &frame, root.mac(), &mut self.endpoint);
            }
            ReceiverPhase::Running(running) if frame.header.kind == PROBE => {
                running.on_probe(now, &frame)
            }
            _ if of_stream => {}
            _ => {
                if let Some(message) = self.endpoint.read(&frame) {
                    self.on_control(now, message);
                }
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.endpoint.throttle_mut().handle_timeout(now);
        let end = match (&mut self.phase, &mut self.root) {
            (ReceiverPhase::Waiting(waiting), root) => {
                waiting.handle_timeout(now, root, &mut self.endpoint)
            }
            (ReceiverPhase::Running(running), Some(root)) => {
                let end = running.handle_timeout(
                    now,
                    (root.mac(), root.silence(now)),
                    &mut self.endpoint,
                );
                root.watch(now, running.blocks().frames(), &mut self.endpoint);
                let silent = root.is_dead(now);
                if silent {
                    // Nobody receives the remaining messages, and it may be impossible to send
                    // them.
                    self.endpoint.silence();
                }
                if silent {
                    Some(running.end(End::RootSilent))
                } else {
                    end
                }
            }
            _ => {
                self.endpoint.handle_end(now);
                None
            }
        };
        end.into_iter().for_each(|end| self.end(now, end));
    }

    fn poll_transmit_split(&mut self, now: Instant, buffer: &mut [u8]) -> Option<SplitFrame> {
        let first = self
            .endpoint
            .poll_transmit(now, buffer)
            .or_else(|| self.reply(now, buffer));
        let frame = first
            .map(SplitFrame::whole)
            .or_else(|| match &mut self.phase {
                ReceiverPhase::Waiting(waiting) => {
                    waiting.poll_transmit(now, buffer).map(SplitFrame::whole)
                }
                ReceiverPhase::Running(running) => {
                    running.poll_transmit_split(now, buffer, &mut self.endpoint)
                }
                ReceiverPhase::Ended(_) => None,
            })?;
        self.endpoint.throttle_mut().spend(now, frame.bytes());
        Some(frame)
    }

    /// # Panics
    /// If this host is not a running member, or `kept` is no longer kept.
    fn payload(&self, kept: Kept) -> &[u8] {
        let ReceiverPhase::Running(running) = &self.phase else {
            panic!("only what is handed on is kept")
        };
        running.payload(kept)
    }

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        let config = self.endpoint.config();
        let own = match &self.phase {
            ReceiverPhase::Waiting(waiting) => waiting.poll_timeout(config),
            ReceiverPhase::Running(running) => {
                let silence = self
                    .root
                    .as_ref()
                    .map(|root| Wait::Silence.at(root.look_at()));
                running.poll_timeout(now).into_iter().chain(silence).min()
            }
            // A host that has left sends no replies.
            ReceiverPhase::Ended(_) => return self.endpoint.next_end(),
        };
        self.endpoint
            .throttle()
            .deadline(own.into_iter().chain(self.responder.next()).min())
    }

    fn is_urgent(&self) -> bool {
        self.streams().is_some_and(Part::is_urgent)
    }
}
