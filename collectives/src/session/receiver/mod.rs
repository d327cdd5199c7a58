//! A receiver of a session: answers an invitation, takes and relays the stream, reports what became of it.
//!
//! Here is what its user and its driver see. It listens for an invitation, is `joining` and then `running` as a
//! member; each phase has its own fields and timers.

mod config;
mod event;
mod joining;
mod roots;
mod running;

pub use config::ReceiverConfig;
pub use event::{Arrival, End, ReceiverEvent};

use super::blocks::Blocks;
use super::endpoint::Endpoint;
use super::is_of_stream;
use super::kind::ANNOUNCE;
use super::message::{Done, Message, Outcome, Refusal, Trailer, ViewPart};
use super::other_build::OtherBuilds;
use super::view::View;
use crate::measure::kind::PROBE;
use crate::membership::timers::Wait;
use crate::membership::{ControlStats, Timing};
use ethbcast_transport::stream::{Ending, StreamStats};
use ethbcast_transport::wire::{self, Frame, Rank};
use ethbcast_transport::{Deadline, Instant, MacAddr, Machine, Part};
use joining::Joining;
use roots::{Heard, Roots};
use running::Running;
use std::time::Duration;

type ReceiverEndpoint = Endpoint<ReceiverConfig, ReceiverEvent>;

/// A root that said no is asked again after so long, if it may say otherwise then.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// Never, for a session that is over before it began.
const NEVER: Duration = Duration::from_secs(100 * 365 * 86_400);

#[derive(Debug)]
enum Phase {
    /// Waits for an invitation; once there is one, for others until this moment.
    Listening(Option<Instant>),
    Joining(Box<Joining>),
    Running(Box<Running>),
    /// Nothing more will be said; what this host has of the stream stays, if it was a member.
    Ended(Option<Box<Running>>),
}

/// The root as this host knows it.
#[derive(Debug)]
struct KnownRoot {
    mac: MacAddr,
    heard_at: Instant,
    /// When its silence is to be spoken of next.
    missed_at: Instant,
}

/// After so much silence of the root its user is told, and again each time after as much.
const MISSED_AFTER: Duration = Duration::from_secs(2);

impl KnownRoot {
    fn new(now: Instant, mac: MacAddr) -> KnownRoot {
        KnownRoot { mac, heard_at: now, missed_at: now + MISSED_AFTER }
    }

    fn hear(&mut self, now: Instant) {
        (self.heard_at, self.missed_at) = (now, now + MISSED_AFTER);
    }

    /// Tells of its silence when it is time to.
    fn watch(&mut self, now: Instant, limit: Duration, endpoint: &mut ReceiverEndpoint) {
        let silence = now.since(self.heard_at);
        if self.missed_at <= now && silence < limit {
            self.missed_at = now + MISSED_AFTER;
            endpoint.tell(ReceiverEvent::RootSilent { silence, left: limit - silence });
        }
    }
}

/// The receiver's state machine.
#[derive(Debug)]
pub struct Receiver {
    endpoint: ReceiverEndpoint,
    phase: Phase,
    began: Instant,
    /// The root that this host has asked.
    root: Option<KnownRoot>,
    roots: Roots,
    /// The address and session that were asked last.
    asked: Option<(MacAddr, u32)>,
    other_builds: OtherBuilds,
    /// Why the last root that was asked did not take this host.
    left_out: Option<End>,
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
            phase: Phase::Listening(None),
            began: now,
            root: None,
            roots: Roots::default(),
            asked: None,
            other_builds: OtherBuilds::default(),
            left_out: None,
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

    /// This host's rank, once it is a member.
    pub fn rank(&self) -> Option<Rank> {
        self.running().map(Running::rank)
    }

    /// The present view, once this host is a member.
    pub fn view(&self) -> Option<&View> {
        self.running().map(Running::view)
    }

    /// What has arrived and not been consumed.
    pub fn peek(&self) -> Option<Arrival<'_>> {
        Some(match self.streams()?.peek()? {
            (payload, Ending::None) => Arrival::Bytes(payload),
            (payload, Ending::Message | Ending::Quiet) => Arrival::Message(payload),
            (payload, Ending::Stream) => {
                Arrival::End(Trailer::decode(payload).unwrap_or(Trailer { bytes: u64::MAX, digest: [0; 32] }))
            }
        })
    }

    /// The application is done with what [`peek`](Receiver::peek) showed; what ended with it. The others learn of the
    /// room.
    ///
    /// # Panics
    /// If it showed nothing.
    pub fn consume(&mut self, now: Instant) -> Ending {
        match &mut self.phase {
            Phase::Running(running) | Phase::Ended(Some(running)) => running.consume(now),
            _ => panic!("nothing was shown"),
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
            self.leave("it has ended before the start");
            self.end(End::Dropped);
        }
    }

    /// Whether the application, which has everything, waits for its disk: the root is told with the next sign of life.
    pub fn set_syncing(&mut self, syncing: bool) {
        if let Phase::Running(running) = &mut self.phase {
            running.set_syncing(syncing);
        }
    }

    /// Tells the root that was asked that this host does not wait any more.
    fn leave(&mut self, text: &str) {
        if let (Phase::Joining(_), Some(root)) = (&self.phase, &self.root) {
            let nonce = self.endpoint.config().nonce;
            self.endpoint.send(root.mac, &Message::Leave { nonce, text: text.to_owned() });
        }
    }

    /// A whole frame by which another process, which outlives this one, can tell the root that it has ended; none
    /// before a root has been asked.
    pub fn farewell(&self, text: &str) -> Option<Vec<u8>> {
        let root = self.root.as_ref()?;
        let leave = Message::Leave { nonce: self.endpoint.config().nonce, text: text.to_owned() };
        Some(self.endpoint.frame(root.mac, &leave))
    }

    fn end(&mut self, end: End) {
        if matches!(self.phase, Phase::Ended(_)) {
            return;
        }
        log::debug!("session ended: {end:?}");
        let last = std::mem::replace(&mut self.phase, Phase::Ended(None));
        self.phase = Phase::Ended(if let Phase::Running(running) = last { Some(running) } else { None });
        self.endpoint.tell(ReceiverEvent::Ended(end));
    }

    /// A root invites whoever listens, or says that its session goes on without this host.
    fn on_announce(&mut self, now: Instant, frame: &Frame<'_>) {
        let Some(message) = self.endpoint.read(frame) else { return };
        let Message::Announce { group, host, .. } = &message else { return };
        if *group != self.endpoint.station().group {
            return;
        }
        let bound = self.root.as_ref().map(|root| root.mac);
        let heard = self.roots.hear(now, (frame.source, frame.header.session), &message, bound);
        let Phase::Listening(decide_at) = &mut self.phase else { return };
        match heard {
            // There may be another: whichever is heard first would be the one that repeats itself most often.
            Heard::Open => _ = decide_at.get_or_insert(now + self.endpoint.config().timing.announce),
            Heard::Running { is_news, tell_root } => {
                if tell_root {
                    // So that it knows who waits in vain, and that a member which was started again is gone.
                    let request = self.endpoint.config().request();
                    self.endpoint.send_in(frame.header.session, frame.source, &request);
                }
                if is_news {
                    let text = format!("a session of group {group} is running without this host");
                    self.stay_out(host.clone(), End::Refused(Refusal::Late, text));
                }
            }
            Heard::Closed => {}
        }
    }

    /// Asks the root whose turn it is.
    fn ask(&mut self, now: Instant) {
        self.phase = Phase::Listening(None);
        self.root = None;
        let Some(root) = self.roots.choose(now, self.endpoint.config().timing.dead) else { return };
        log::info!("{} invites: {}, {:?} bytes", root.host, root.source, root.size);
        let is_news = self.asked.replace((root.mac, root.session)) != Some((root.mac, root.session));
        self.endpoint.enter(root.session);
        self.root = Some(KnownRoot::new(now, root.mac));
        if is_news {
            let (host, source, size) = (root.host.clone(), root.source.clone(), root.size);
            self.endpoint.tell(ReceiverEvent::Invited { host, source, size });
        }
        self.phase = Phase::Joining(Box::new(Joining::new(now, root, &self.endpoint)));
    }

    /// The root that was asked has said no, or does not come to a session.
    fn on_left_out(&mut self, now: Instant, why: End) {
        let Phase::Joining(joining) = &self.phase else { return };
        let (mac, host) = (joining.root().mac, joining.root().host.clone());
        let again = match &why {
            End::Refused(Refusal::Late | Refusal::Twin | Refusal::Path, _) => ASK_AGAIN,
            End::RootSilent => Duration::ZERO,
            _ => NEVER,
        };
        self.roots.close(mac, now + again);
        (self.phase, self.root) = (Phase::Listening(None), None);
        self.stay_out(host, why);
    }

    /// This host is no part of a session: another is waited for, unless the first is the only one.
    fn stay_out(&mut self, host: String, why: End) {
        if self.endpoint.config().once {
            self.end(why);
            return;
        }
        let text = match &why {
            End::Refused(_, text) | End::Aborted(text) => text.clone(),
            _ => "it fell silent before it started".to_owned(),
        };
        if self.left_out.as_ref() != Some(&why) {
            self.endpoint.tell(ReceiverEvent::LeftOut { host, text });
        }
        self.left_out = Some(why);
    }

    /// Before a session: asks, repeats, or turns to another root.
    fn wait_on(&mut self, now: Instant) {
        let Timing { dead, patience, .. } = self.endpoint.config().timing;
        match (&mut self.phase, &self.root) {
            (Phase::Listening(decide_at), _) => {
                if decide_at.is_some_and(|at| at <= now) {
                    self.ask(now);
                }
            }
            (Phase::Joining(joining), Some(root)) => {
                let silence = now.since(root.heard_at);
                let in_vain = silence >= dead || joining.is_in_vain(now);
                if in_vain && self.roots.has_other(now, joining.root(), dead) {
                    self.leave("it asks another root, as this one did not answer");
                    self.ask(now);
                } else if silence >= dead + patience {
                    self.on_left_out(now, End::RootSilent);
                } else {
                    // Its list may name this host already: it is asked until it comes back, or another comes.
                    joining.handle_timeout(now, root.mac, &mut self.endpoint);
                }
            }
            _ => {}
        }
    }

    /// Whether no root has answered for as long as its user will wait.
    fn is_out_of_patience(&self, now: Instant) -> bool {
        let waits = match &self.phase {
            Phase::Listening(_) => true,
            Phase::Joining(joining) => !joining.is_answered(),
            _ => false,
        };
        waits && self.endpoint.config().patience.is_some_and(|patience| now.since(self.began) >= patience)
    }

    fn on_control(&mut self, now: Instant, message: Message) {
        let end = match (&mut self.phase, message) {
            (Phase::Joining(_), Message::Refuse { nonce, why, text }) if nonce == self.endpoint.config().nonce => {
                self.on_left_out(now, End::Refused(why, text));
                None
            }
            (Phase::Joining(_), Message::Abort { text }) => {
                self.on_left_out(now, End::Aborted(text));
                None
            }
            (Phase::Joining(_), Message::View(part)) => {
                self.on_first_view_part(now, &part);
                None
            }
            (Phase::Running(running), Message::View(part)) => running.on_view_part(now, &part, &mut self.endpoint),
            (Phase::Running(running), Message::Verdict(verdict)) => running.on_verdict(&verdict, &mut self.endpoint),
            (Phase::Running(_), Message::Abort { text }) => Some(End::Aborted(text)),
            _ => None,
        };
        end.into_iter().for_each(|end| self.end(end));
    }

    /// This host is a member as soon as there is a view that names it.
    fn on_first_view_part(&mut self, now: Instant, part: &ViewPart) {
        let Phase::Joining(joining) = &mut self.phase else { return };
        let Some(view) = joining.on_view_part(part) else { return };
        let config = self.endpoint.config();
        if !view.fits(config.station.mtu_bytes) {
            self.endpoint.count_malformed();
        } else if let Some(rank) = view.rank_of(config.nonce, config.station.mac) {
            let mut running = Running::new(now, view, rank, &mut self.endpoint);
            running.confirm(now, part, &self.endpoint);
            self.phase = Phase::Running(Box::new(running));
        }
    }
}

impl Machine for Receiver {
    fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        let frame = match wire::parse(frame) {
            Ok(frame) => frame,
            Err(why) => {
                self.endpoint.count_malformed();
                let other = self.other_builds.hear(frame, why);
                other.into_iter().for_each(|other| self.endpoint.tell(ReceiverEvent::OtherVersion(other)));
                return;
            }
        };
        let waits = matches!(self.phase, Phase::Listening(_) | Phase::Joining(_));
        if waits && frame.header.kind == ANNOUNCE {
            let from_own = |root: &&mut KnownRoot| root.mac == frame.source;
            self.root.as_mut().filter(from_own).into_iter().for_each(|root| root.heard_at = now);
            self.on_announce(now, &frame);
            return;
        }
        let of_stream = is_of_stream(&frame);
        let named = || self.view().is_some_and(|view| view.names(frame.header.rank, frame.source));
        let from_member = of_stream && named();
        let session = self.endpoint.identity().session;
        let Some(root) = self.root.as_mut().filter(|_| session == frame.header.session) else {
            self.endpoint.count_stranger();
            return;
        };
        if frame.source == root.mac {
            root.hear(now);
        } else if !from_member {
            self.endpoint.count_stranger();
            return;
        }
        if let Phase::Joining(joining) = &mut self.phase {
            joining.hear_answer(now);
        }
        match &mut self.phase {
            Phase::Running(running) if of_stream => running.on_stream_frame(now, &frame, root.mac, &mut self.endpoint),
            _ if of_stream => {}
            Phase::Joining(joining) if frame.header.kind == PROBE => joining.on_probe(now, &frame),
            _ => {
                if let Some(message) = self.endpoint.read(&frame) {
                    self.on_control(now, message);
                }
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        let timing = self.endpoint.config().timing;
        let end = match (&mut self.phase, &mut self.root) {
            (Phase::Listening(_) | Phase::Joining(_), _) => {
                self.wait_on(now);
                self.is_out_of_patience(now).then(|| self.left_out.take().unwrap_or(End::NobodyThere))
            }
            (Phase::Running(running), Some(root)) => {
                let end = running.handle_timeout(now, root.mac, &mut self.endpoint);
                let limit = timing.dead + timing.patience;
                root.watch(now, limit, &mut self.endpoint);
                if now.since(root.heard_at) >= limit { Some(running.end(End::RootSilent)) } else { end }
            }
            _ => None,
        };
        end.into_iter().for_each(|end| self.end(end));
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        self.endpoint.poll_transmit(now, buffer).or_else(|| match &mut self.phase {
            Phase::Joining(joining) => joining.poll_transmit(now, buffer),
            Phase::Running(running) => running.poll_transmit(now, buffer),
            Phase::Listening(_) | Phase::Ended(_) => None,
        })
    }

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        let ReceiverConfig { patience, timing, .. } = self.endpoint.config();
        let patience = patience.map(|patience| Wait::Announce.at(self.began + patience));
        let own = match &self.phase {
            Phase::Listening(decide_at) => {
                return decide_at.map(|at| Wait::Join.at(at)).into_iter().chain(patience).min();
            }
            Phase::Joining(joining) if joining.is_answered() => joining.poll_timeout(),
            Phase::Joining(joining) => joining.poll_timeout().into_iter().chain(patience).min(),
            Phase::Running(running) => running.poll_timeout(now),
            Phase::Ended(_) => return None,
        };
        let running = matches!(self.phase, Phase::Running(_));
        let silence = self.root.as_ref().map(|root| {
            let limit = root.heard_at + timing.dead + timing.patience;
            Wait::Silence.at(if running { limit.min(root.missed_at) } else { limit })
        });
        own.into_iter().chain(silence).min()
    }

    fn is_urgent(&self) -> bool {
        self.streams().is_some_and(Part::is_urgent)
    }
}
