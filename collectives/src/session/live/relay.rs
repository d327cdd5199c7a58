//! A relay between two networks: receives a content on one, and sends it on the other as it comes.

use super::content::{Content, Storage, StorageError};
use super::handles::{AdmissionHook, Cancel, StartHold};
use super::options::{OfferCheck, Progress, RecvOptions, SendOptions};
use super::read_ahead::DigestBefore;
use super::report::{Error, ReceiveReport, SendReport};
use super::write_behind::write_behind;
use super::{SentContent, Session, start};
use crate::session::application::Receiving;
use crate::session::message::{BEHIND, Digest, Outcome, Trailer};
use crate::session::receiver::ReceiverEvent;
use crate::session::root::RootFailure;
use crate::session::verified::{Cut, Offered};
use crossbeam_channel::{Receiver, Sender, bounded, select};
use ethbcast_planning::topology::nodeset;
use ethbcast_transport::MacAddr;
use ethbcast_transport::lock::Mutex;
use ethbcast_transport::packet::Waker;
use std::io::{self, Read};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

const CHANGED: &str = "this host has changed the bytes between two networks: their digest is not the \
                       sender's; test its memory, or relay by another host";

/// Pieces of 1 MiB at most that wait between the networks. Later ones stay in the near network's
/// buffer, which slows its sender down.
const PIECES_WAITING: usize = 2;

/// A host with a port in each of two networks: it receives on the near one what it sends on the far
/// one.
///
/// To the sender it is one receiver, which joins when those behind it are there, and reports their
/// outcomes; their session starts when the sender's has started. Their files and directories appear
/// only after the sender has confirmed the digest; pipes, devices and contents in place get each
/// chunk as it comes.
#[derive(Debug)]
pub struct Relay {
    near: Session,
    far: Session,
}

/// Report of a relay.
#[derive(Debug)]
#[non_exhaustive]
pub struct RelayReport {
    /// Report of this host as a receiver in the near network.
    pub received: Result<ReceiveReport, Error>,
    /// Report of the far network's session, if the near network offered something.
    pub sent: Option<SendReport>,
    /// Reason why the far session was given up, or did not start.
    pub failed: Option<Error>,
}

impl RelayReport {
    /// Returns the far network's report if all is well in both networks.
    ///
    /// # Errors
    /// The first cause.
    pub fn check(self) -> Result<SendReport, Error> {
        let RelayReport {
            received,
            sent,
            failed,
        } = self;
        match (failed, received, sent) {
            // It was cancelled because of the near network.
            (Some(Error::Cancelled { .. }), Err(error), _) | (None, Err(error), None) => Err(error),
            (Some(error), ..) => Err(error),
            (None, received, Some(sent)) => {
                let sent = sent.all_verified()?;
                received.map(|_| sent)
            }
            (None, Ok(_), None) => Err(Error::NoVerdict),
        }
    }
}

impl Relay {
    /// Opens a port for `group` on each network. The far one's options say for which receivers to
    /// wait there.
    ///
    /// # Errors
    /// The errors of [`Session::open_receiver`] and [`Session::open_sender`], and if both are the
    /// same interface, or the key may not send.
    pub fn open(group: &str, near: &RecvOptions, far: &SendOptions) -> Result<Relay, Error> {
        let keys = far.wire.keys.as_ref();
        if keys.is_some_and(|keys| !keys.may_send()) {
            return Err(Error::MayNotSend);
        }
        let relay = Relay {
            far: Session::open_sender(group, far)?,
            near: Session::open_receiver(group, near)?,
        };
        relay.far.check_topology(far)?;
        let [near, far] = [&relay.near, &relay.far]
            .map(|session| (session.interface().index, session.over().is_udp()));
        if near == far {
            return Err(relay.names().of_loop("every host"));
        }
        Ok(relay)
    }

    /// Returns the port in the near network, from which it receives.
    pub fn near(&self) -> &Session {
        &self.near
    }

    /// Returns the port in the far network, to which it sends.
    pub fn far(&self) -> &Session {
        &self.far
    }

    fn names(&self) -> Names {
        Names {
            host: self.near.station().host.clone(),
            near: self.near.interface().name.clone(),
            far: self.far.interface().name.clone(),
        }
    }

    /// Relays one content. A session that the sender ends before its start is followed by the next,
    /// as at the receivers behind. Once the sender has confirmed the content, only the far session
    /// can be cancelled: the near one reports the outcomes.
    ///
    /// # Panics
    /// If one of its threads does.
    pub fn run(&mut self, near: &RecvOptions, far: &SendOptions) -> RelayReport {
        let (began, mut own) = (self.near.now(), near.clone());
        loop {
            let (report, did_start) = self.run_once(&own, far);
            let is_given_up = near.run.cancel.is_cancelled() || far.run.cancel.is_cancelled();
            let text = match (&report.received, &report.failed) {
                (
                    Err(Error::Aborted(text) | Error::Write { text, .. }),
                    None | Some(Error::Cancelled { .. }),
                ) if may_be_replayed(&report.received) => text.clone(),
                _ => return report,
            };
            own.max_wait = near
                .max_wait
                .map(|limit| limit.saturating_sub(self.near.now().since(began)));
            if did_start || is_given_up || own.max_wait.is_some_and(|left| left.is_zero()) {
                return report;
            }
            let host = "the sender".to_owned();
            near.run
                .notify(Progress::Receiver(&ReceiverEvent::LeftOut { host, text }));
        }
    }

    fn run_once(&mut self, near: &RecvOptions, far: &SendOptions) -> (RelayReport, bool) {
        let ((offers, offer), (to_far, pieces)) = (bounded(1), bounded(PIECES_WAITING));
        let (alive, ended) = bounded(0);
        let passage = Arc::new(Passage::new(
            (self.names(), self.far.station().mac),
            offers,
            [Cancel::new(), far.run.cancel.child()],
            near.run.cancel.clone(),
            [&self.near, &self.far].map(|session| Arc::clone(session.waker())),
        ));
        let (near_waker, far_waker) = (self.near.waker(), self.far.waker());
        near.run.cancel.watch(near_waker);
        for (cancel, waker) in passage.cancels.iter().zip([near_waker, far_waker]) {
            cancel.watch(waker);
        }
        let storage = Onward {
            passage: Arc::clone(&passage),
            pieces: to_far,
            ended,
        };
        let mut sent = None;
        let received = thread::scope(|scope| {
            let (passage, sent) = (&passage, &mut sent);
            let (far_session, near_session) = (&mut self.far, &mut self.near);
            start(scope, "relay", move || {
                let _alive = alive;
                let _verdict = Verdict(passage);
                *sent = offer
                    .recv()
                    .ok()
                    .map(|offered| passage.send(far_session, far, offered, pieces));
            })?;
            passage.receive(near_session, near, storage)
        });
        let received = received.map_err(|error| passage.cause(error));
        let (sent, failed) = match sent {
            Some(Ok((sent, failed))) => (Some(sent), failed),
            Some(Err(error)) => (None, Some(error)),
            None => (None, None),
        };
        let report = RelayReport {
            received,
            sent,
            failed,
        };
        let did_start = passage.state.lock().has_started;
        (report, did_start)
    }
}

#[derive(Debug)]
struct Names {
    host: String,
    near: String,
    far: String,
}

impl Names {
    fn of_loop(&self, host: &str) -> Error {
        let (near, far, host) = (self.near.clone(), self.far.clone(), host.to_owned());
        Error::Loop { near, far, host }
    }
}

/// State that the two sessions of a relay share.
#[derive(Debug)]
struct Passage {
    names: Names,
    far_mac: MacAddr,
    /// Digest of the content, once all of it has come.
    digest: Arc<OnceLock<Digest>>,
    state: Mutex<PassageState>,
    /// Handles of the two sessions.
    cancels: [Cancel; 2],
    /// The caller's handle of the near session.
    cancel: Cancel,
    /// Wakers of the two sessions' loops.
    wakers: [Arc<Waker>; 2],
}

#[derive(Debug, Default)]
struct PassageState {
    offers: Option<Sender<Offered>>,
    offered: Option<(MacAddr, Offered)>,
    /// Whether those behind are there: the near session may be joined.
    is_ready: bool,
    /// Whether the near session has started: the far one may.
    has_started: bool,
    /// Whether the sender has confirmed the digest: the near session ends the far one no more.
    is_confirmed: bool,
    has_near_ended: bool,
    /// Whether the sender has gone before the start.
    is_gone: bool,
    lost: Option<String>,
    /// Host of a sender that is heard in both networks.
    looped: Option<String>,
    far_failure: Option<(Outcome, String)>,
    /// Whether the far session has ended: without a failure, all is well there.
    has_concluded: bool,
    behind: Option<HostOutcomes>,
    /// Named hosts that are not in the far session.
    without: Vec<String>,
}

type HostOutcomes = (usize, Vec<(String, Outcome)>);
type Sent = Result<(SendReport, Option<Error>), Error>;

impl Passage {
    fn new(
        (names, far_mac): (Names, MacAddr),
        offers: Sender<Offered>,
        cancels: [Cancel; 2],
        cancel: Cancel,
        wakers: [Arc<Waker>; 2],
    ) -> Passage {
        Passage {
            names,
            far_mac,
            digest: Arc::default(),
            state: Mutex::new(PassageState {
                offers: Some(offers),
                ..PassageState::default()
            }),
            cancels,
            cancel,
            wakers,
        }
    }

    fn receive(
        self: &Arc<Passage>,
        near: &mut Session,
        options: &RecvOptions,
        storage: Onward,
    ) -> Result<ReceiveReport, Error> {
        let _end = NearEnd(self);
        if options.admission_hook.is_some() {
            return Err(Error::OwnHook);
        }
        let mut own = options.clone();
        own.run.cancel = self.cancels[0].clone();
        // Another sender would be offered to those behind in a second session.
        own.once = true;
        own.admission_hook = Some(Arc::clone(self) as Arc<dyn AdmissionHook>);
        let (passage, check) = (Arc::clone(self), options.offer_check.clone());
        own.offer_check = Some(OfferCheck::new(move |offered| {
            check
                .as_ref()
                .map_or(Ok(()), |check| check.check(offered))?;
            passage.check(offered)
        }));
        let (passage, outer) = (Arc::clone(self), options.run.clone());
        own.run.on_progress(move |progress| {
            match progress {
                Progress::Receiver(ReceiverEvent::Started { .. }) => {
                    passage.state.lock().has_started = true;
                    passage.wakers[1].wake();
                }
                Progress::Receiver(ReceiverEvent::Ended(_)) => {
                    passage.state.lock().has_near_ended = true;
                }
                _ => {}
            }
            outer.notify(progress);
        });
        thread::scope(|scope| {
            let _end = NearEnd(self);
            let (writer, sink) = write_behind(storage, near.waker());
            // When the last frame has come, its pieces still wait for the far network.
            let writer = writer.syncing();
            start(scope, "writer", || writer.run())?;
            let mut receiving = Receiving::new(sink);
            let report = match near.run_receiver(&own, &mut receiving) {
                Ok(receiver) => {
                    let report = ReceiveReport::new(&self.names.host, &receiver, &receiving);
                    let lost = report.check().map_err(|error| self.cause(error)).err();
                    lost.iter().for_each(|error| self.lose(error));
                    receiving.sink_mut().close(Duration::MAX);
                    receiving.request_verdict(near.now());
                    ReceiveReport::new(&self.names.host, &receiver, &receiving)
                }
                Err(error) => {
                    self.lose(&error);
                    return Err(error);
                }
            };
            report.check().map(|()| report)
        })
    }

    fn send(
        self: &Arc<Passage>,
        far: &mut Session,
        options: &SendOptions,
        offered: Offered,
        pieces: Receiver<Vec<u8>>,
    ) -> Sent {
        let mut own = options.clone();
        own.run.cancel = self.cancels[1].clone();
        own.hold = Some(Arc::clone(self) as Arc<dyn StartHold>);
        let (open, closed) = bounded(0);
        let pieces = Pieces {
            pieces,
            closed,
            piece: Vec::new(),
            taken: 0,
            is_last: false,
        };
        let content = Content::of(pieces)
            .named(&offered.source, "what comes from the other network")
            .sized(offered.size)
            .kind(offered.content)
            .chunked(offered.chunk)
            .of_digest(DigestBefore::new(&self.digest, CHANGED));
        content.describe(&mut own);
        let sent = thread::scope(|scope| {
            let sent = far.send_content(content, &own, Cut::None, |reader| {
                start(scope, "reader", || reader.run())
            });
            // The reader may wait for a piece.
            drop(open);
            sent
        });
        let sent = sent.map(
            |SentContent {
                 report,
                 failed,
                 cause,
                 ..
             }| (report, cause.or(failed).map(|error| self.named_loop(error))),
        );
        if let Ok((report, _)) = &sent {
            let is_there = |host: &&String| report.receivers.iter().any(|one| one.host == **host);
            let without = options.hosts.iter().filter(|host| !is_there(host));
            let refused = report.turned_away.iter().map(|one| &one.host);
            let mut without: Vec<String> = without.chain(refused).cloned().collect();
            without.sort_unstable();
            without.dedup();
            self.state.lock().without = without;
        }
        self.conclude(&sent);
        sent
    }

    /// Turns the refusal of the far network into that of a loop, if the same sender is in both.
    fn named_loop(&self, error: Error) -> Error {
        let state = self.state.lock();
        let offered = state.offered.as_ref().map(|(mac, _)| *mac);
        match error {
            _ if state.looped.is_some() => self
                .names
                .of_loop(&state.looped.clone().unwrap_or_default()),
            Error::NotStarted(RootFailure::GroupTaken { host, mac, .. })
                if Some(mac) == offered =>
            {
                self.names.of_loop(&host)
            }
            error => error,
        }
    }

    fn conclude(&self, sent: &Sent) {
        let (behind, failure) = match sent {
            Err(error) => (None, Some(error)),
            Ok((report, failed)) => (Some(report), failed.as_ref()),
        };
        let failure = failure
            .map(|error| (Outcome::WriteFailed, format!("{BEHIND}{error}")))
            .or_else(|| behind.and_then(failure_behind));
        let mut state = self.state.lock();
        (state.behind, state.far_failure) = (behind.map(hosts_behind), failure);
        state.has_concluded = true;
        drop(state);
        self.wakers[0].wake();
    }

    /// Ends the far session because of the near one, unless the sender has confirmed all bytes.
    fn lose(&self, why: &dyn std::fmt::Display) {
        let mut state = self.state.lock();
        if state.is_confirmed || state.lost.is_some() || state.far_failure.is_some() {
            return;
        }
        let why = why.to_string();
        let [_, far] = &self.cancels;
        far.cancel_because(&format!("the relay {} gave up: {why}", self.names.host));
        state.lost = Some(why);
    }

    /// Returns the reason for which this relay itself has cancelled the near session.
    fn cause(&self, error: Error) -> Error {
        match error {
            Error::Cancelled { .. } if self.state.lock().is_gone => Error::Aborted(GONE.to_owned()),
            error => error,
        }
    }

    fn check(&self, offered: &Offered) -> Result<(), String> {
        let state = self.state.lock();
        match (&state.far_failure, &state.offered) {
            (Some((_, why)), _) => Err(why.clone()),
            (None, Some((_, known))) if known == offered => Ok(()),
            _ => Err(ANOTHER.to_owned()),
        }
    }
}

/// Ensures that a far session which ends without a result, as by a panic, counts as failed.
struct Verdict<'a>(&'a Passage);

impl Drop for Verdict<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        if !state.has_concluded {
            state.has_concluded = true;
            let failure = || (Outcome::WriteFailed, NO_RESULT.to_owned());
            state.far_failure.get_or_insert_with(failure);
            drop(state);
            self.0.wakers[0].wake();
        }
    }
}

/// Ends the far session with the near one, also if that panics.
struct NearEnd<'a>(&'a Passage);

impl Drop for NearEnd<'_> {
    fn drop(&mut self) {
        self.0.state.lock().offers = None;
        if thread::panicking() {
            self.0.lose(&"its receiver panicked");
        }
    }
}

const NO_RESULT: &str = "behind it, the session ended without a result";
const ANOTHER: &str = "it offers another content than a moment ago: send again";
const GONE: &str = "the sender has gone before the start; send again";

/// Whether the near session may have failed by an announcement that was replayed.
fn may_be_replayed(received: &Result<ReceiveReport, Error>) -> bool {
    match received {
        Err(Error::Write { text, .. }) => text.contains(ANOTHER),
        _ => true,
    }
}

impl AdmissionHook for Passage {
    fn admit(&self) -> bool {
        let state = self.state.lock();
        state.is_ready || state.far_failure.is_some()
    }

    fn may_take_long(&self) -> bool {
        true
    }

    fn free_bytes(&self) -> u64 {
        u64::MAX
    }

    fn came_round(&self) {
        if let Some(why) = self.cancel.reason()
            && !self.state.lock().is_confirmed
        {
            let [near, _] = &self.cancels;
            near.cancel_because(why);
        }
    }

    fn dismiss(&self) {
        let mut state = self.state.lock();
        let [near, _] = &self.cancels;
        if !state.has_near_ended && !near.is_cancelled() {
            // Those behind learn of it with the near session's end, which may have another cause.
            state.is_gone = true;
            drop(state);
            near.cancel_because(GONE);
        }
    }

    fn note_offer(&self, root: MacAddr, host: &str, offered: Offered) {
        let mut state = self.state.lock();
        if root == self.far_mac {
            let [_, far] = &self.cancels;
            far.cancel_because(&self.names.of_loop(host).to_string());
            state.looped = Some(host.to_owned());
        } else if state.offered.is_none() {
            let offers = state.offers.take();
            offers.iter().for_each(|offers| {
                // The thread that sends waits for it, or has ended.
                drop(offers.send(offered.clone()));
            });
            state.offered = Some((root, offered));
        }
    }

    fn failure(&self) -> Option<(Outcome, String)> {
        self.state.lock().far_failure.clone()
    }

    fn take_behind(&self) -> Option<(usize, Vec<(String, Outcome)>)> {
        self.state.lock().behind.take()
    }
}

impl StartHold for Passage {
    fn note_ready(&self) {
        if !std::mem::replace(&mut self.state.lock().is_ready, true) {
            self.wakers[0].wake();
        }
    }

    fn is_released(&self) -> bool {
        self.state.lock().has_started
    }
}

/// Returns the hosts that a far session has reached, and those behind further relays.
fn hosts_behind(sent: &SendReport) -> HostOutcomes {
    let (mut hosts, mut named) = (0, Vec::new());
    for report in &sent.receivers {
        hosts += 1 + report.behind.hosts();
        named.push((report.host.clone(), report.outcome));
        let further = report.behind.named().iter();
        named.extend(further.map(|(name, outcome)| (format!("{}/{name}", report.host), *outcome)));
    }
    (hosts, named)
}

fn failure_behind(sent: &SendReport) -> Option<(Outcome, String)> {
    let first = sent.failed().next()?;
    // A receiver does not report of itself what only a root finds out.
    let outcome = match first.outcome {
        outcome @ (Outcome::NoSpace | Outcome::Damaged | Outcome::Interrupted) => outcome,
        _ => Outcome::WriteFailed,
    };
    Some((outcome, format!("{BEHIND}{}", sent.failures())))
}

/// Storage of the near session, which hands what it gets to the far one.
#[derive(Debug)]
struct Onward {
    passage: Arc<Passage>,
    pieces: Sender<Vec<u8>>,
    /// Disconnected when the far session has ended.
    ended: Receiver<()>,
}

impl Onward {
    /// Waits for the end of the far session and returns its failure.
    fn failure(&self) -> Option<StorageError> {
        // Nothing is ever sent.
        self.ended.recv().ok();
        let state = self.passage.state.lock();
        let none = || (Outcome::WriteFailed, NO_RESULT.to_owned());
        let failure = state.far_failure.clone();
        let (outcome, text) = failure.or_else(|| (!state.has_concluded).then(none))?;
        Some(StorageError::new(outcome, text))
    }
}

impl Storage for Onward {
    fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        // An empty piece is the end.
        if bytes.is_empty() || self.pieces.send(bytes.to_vec()).is_ok() {
            return Ok(());
        }
        let text = "the other network's session has ended";
        let other = || StorageError::new(Outcome::WriteFailed, text);
        Err(self.failure().unwrap_or_else(other))
    }

    fn settle(&mut self, trailer: Trailer) -> Result<(), StorageError> {
        // It is set once.
        self.passage.digest.set(trailer.digest).ok();
        Ok(())
    }

    fn note(&self) -> String {
        match self.passage.state.lock().without.as_slice() {
            [] => String::new(),
            hosts => format!("without {}", nodeset::fold(hosts)),
        }
    }

    /// Ends the far session's content: its receivers put it in place.
    fn publish(&mut self) -> Result<(), StorageError> {
        self.passage.state.lock().is_confirmed = true;
        // If that has failed, the far session has ended.
        self.pieces.send(Vec::new()).ok();
        self.failure().map_or(Ok(()), Err)
    }
}

/// Reader of the pieces, the last of which is empty. Without that one they end by an error.
struct Pieces {
    pieces: Receiver<Vec<u8>>,
    /// Disconnected when the session is over for which they are read.
    closed: Receiver<()>,
    piece: Vec<u8>,
    taken: usize,
    is_last: bool,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.piece.len() && !self.is_last {
            let next = select! {
                recv(self.pieces) -> piece => piece.ok(),
                recv(self.closed) -> _ => None,
            };
            let broken = || io::Error::other("it has ended too early");
            (self.piece, self.taken) = (next.ok_or_else(broken)?, 0);
            self.is_last = self.piece.is_empty();
        }
        let count = (&self.piece[self.taken..]).read(buffer)?;
        self.taken += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENDER: MacAddr = MacAddr::new(2, 0, 0, 0, 0, 1);
    const FAR: MacAddr = MacAddr::new(2, 0, 0, 0, 1, 1);

    fn passage() -> (Passage, Receiver<Offered>) {
        let (offers, offer) = bounded(1);
        let names = Names {
            host: "r".to_owned(),
            near: "eth0".to_owned(),
            far: "eth1".to_owned(),
        };
        let wakers = [(); 2].map(|()| Arc::new(Waker::new().expect("a descriptor")));
        let cancels = [Cancel::new(), Cancel::new()];
        (
            Passage::new((names, FAR), offers, cancels, Cancel::new(), wakers),
            offer,
        )
    }

    fn offered(source: &str) -> Offered {
        Offered {
            source: source.to_owned(),
            ..Offered::default()
        }
    }

    fn taken(mac: MacAddr) -> Error {
        Error::NotStarted(RootFailure::GroupTaken {
            host: "n0".to_owned(),
            mac,
            offer: "f".to_owned(),
            group: "g".to_owned(),
        })
    }

    #[test]
    fn the_first_offer_is_passed_on_and_joined_once_those_behind_are_there() {
        let (passage, offer) = passage();
        for source in ["first", "second"] {
            passage.note_offer(SENDER, "n0", offered(source));
        }
        assert_eq!(offer.try_iter().collect::<Vec<_>>(), [offered("first")]);
        assert!(!passage.admit(), "nobody is behind it yet");
        passage.note_ready();
        assert!(!passage.is_released(), "the sender has not started");
        assert!(passage.admit() && passage.check(&offered("first")).is_ok());
        let other = passage.check(&offered("second")).expect_err("another");
        assert!(other.contains("another content"), "{other}");
    }

    #[test]
    fn a_far_session_that_fails_is_the_reason_to_decline() {
        let (passage, _offer) = passage();
        passage.note_offer(SENDER, "n0", offered("f"));
        assert_eq!(passage.failure(), None);
        passage.conclude(&Err(taken(MacAddr::new(2, 0, 0, 0, 1, 7))));
        assert!(passage.admit(), "the sender is to hear of it");
        assert!(passage.failure().is_some(), "also after the start, at once");
        let why = passage.check(&offered("f")).expect_err("it has failed");
        assert!(
            why.starts_with("behind it, n0 (02:00:00:00:01:07)"),
            "{why}"
        );
    }

    #[test]
    fn a_far_session_without_a_result_is_no_success() {
        for panics in [false, true] {
            let (passage, _offer) = passage();
            let passage = Arc::new(passage);
            let ((alive, ended), (pieces, _taken)) = (bounded(0), bounded(1));
            let mut onward = Onward {
                passage: Arc::clone(&passage),
                pieces,
                ended,
            };
            let far = thread::spawn(move || {
                let _alive = alive;
                let _verdict = Verdict(&passage);
                assert!(!panics, "as a fault of the program does");
            });
            assert_eq!(far.join().is_err(), panics);
            let error = onward.publish().expect_err("nobody has got anything");
            assert_eq!(error.to_string(), NO_RESULT);
        }
    }

    #[test]
    fn a_lost_sender_ends_the_far_session_only_before_it_has_confirmed_the_bytes() {
        for is_confirmed in [false, true] {
            let (passage, _offer) = passage();
            passage.state.lock().is_confirmed = is_confirmed;
            passage.lose(&"its process has ended");
            let [near, far] = &passage.cancels;
            let told = (!is_confirmed).then_some("the relay r gave up: its process has ended");
            assert_eq!((near.is_cancelled(), far.reason()), (false, told));
            passage.cancel.cancel();
            passage.came_round();
            assert_eq!(near.is_cancelled(), !is_confirmed, "by the user");
        }
        let (passage, _offer) = passage();
        passage.dismiss();
        let cancelled = Error::Cancelled { delivered: false };
        assert_eq!(passage.cause(cancelled).to_string(), GONE);
        let [near, far] = &passage.cancels;
        assert!(near.is_cancelled() && !far.is_cancelled());
        passage.lose(&Error::NoVerdict);
        let told = format!("the relay r gave up: {}", Error::NoVerdict);
        assert_eq!(far.reason(), Some(told.as_str()));
    }

    #[test]
    fn one_network_at_both_ends_is_a_loop_and_another_sender_behind_is_not() {
        let (own, _offer) = passage();
        own.note_offer(SENDER, "n0", offered("f"));
        own.note_offer(FAR, "r", offered("f"));
        let told = own.cancels[1].reason().unwrap_or_default().to_owned();
        assert!(told.contains("loops back to its own network: r"), "{told}");
        let cancelled = Error::Cancelled { delivered: false };
        assert!(matches!(own.named_loop(cancelled), Error::Loop { .. }));
        let (heard, _offer) = passage();
        heard.note_offer(SENDER, "n0", offered("f"));
        assert!(matches!(
            heard.named_loop(taken(SENDER)),
            Error::Loop { .. }
        ));
        assert!(matches!(heard.named_loop(taken(FAR)), Error::NotStarted(_)));
    }

    #[test]
    fn pieces_end_by_an_empty_one_and_else_by_an_error() {
        for is_whole in [true, false] {
            let ((to_far, pieces), (_open, closed)) = (bounded(3), bounded(0));
            for piece in [&b"some"[..], b" bytes", b""]
                .iter()
                .take(2 + usize::from(is_whole))
            {
                to_far.send(piece.to_vec()).expect("there is room");
            }
            drop(to_far);
            let mut reader = Pieces {
                pieces,
                closed,
                piece: Vec::new(),
                taken: 0,
                is_last: false,
            };
            let mut text = String::new();
            assert_eq!(reader.read_to_string(&mut text).is_ok(), is_whole);
            assert_eq!(text, "some bytes");
        }
    }
}
