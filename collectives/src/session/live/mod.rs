//! Sessions on real hosts: any content to any storages, over a packet socket.
//!
//! A sender is given a reader or another [`Content`], every receiver a writer or another [`Storage`]; both return when
//! the session is over. They need root or
//! `CAP_NET_RAW`.
//!
//! ```no_run
//! use ethbcast_collectives::session::{Options, Session};
//! use std::fs::File;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // On the host that has the bytes:
//! let report = Session::send_file("images", File::open("image.qcow2")?, &Options::new().receivers(7))?;
//! println!("{} receivers have {} bytes after {:?}", report.verified(), report.bytes(), report.took);
//! // On each of the seven others:
//! let report = Session::receive("images", File::create("image.part")?, &Options::new())?;
//! std::fs::rename("image.part", "image.qcow2")?;
//! # Ok(()) }
//! ```
//!
//! This folder is where the session's state machines meet a socket, a clock, threads and random numbers. Reader and
//! writer run on threads of their own ([`read_ahead`], [`write_behind`]), so that a slow disk slows the stream down and
//! nothing else.

mod cancel;
mod content;
mod hashers;
mod history;
mod last_words;
mod limited;
mod options;
mod progress;
mod rate_limit;
mod read_again;
mod read_ahead;
mod reader;
mod report;
mod select_ahead;
mod storage;
mod teller;
mod usher;
mod write_behind;

pub use crate::session::ledger::Offered;
pub use cancel::{Cancel, Start};
pub use content::Content;
pub use history::{History, Incident, IncidentKind, Moment, Track};
pub use last_words::LastWords;
pub use options::{Callback, Expected, Options, processors};
pub use progress::{Place, Progress};
pub use rate_limit::RateLimit;
pub use read_again::{ReadAt, RestOfFile};
pub use read_ahead::{ReadAhead, read_ahead};
pub use reader::Reader;
pub use report::{Error, ReceiveReport, SendReport};
pub use storage::{Output, Storage, StorageError, is_full};
pub use teller::log_counters;
pub use usher::Usher;
pub use write_behind::{OnThread, WriteBehind, Writer, write_behind};

use super::application::{Receiving, Sending, Sink, Source};
use super::{Admission, Outcome, Receiver, Root, Station};
use crate::census;
use crate::membership::live::{Opening, RingRoom};
use ethbcast_planning::topology::nodeset;
use ethbcast_transport::packet::{Clock, Interface, Port, PortConfig, Waker, drive, random_u32, random_u64};
use ethbcast_transport::{Instant, Tuning};
use last_words::{RECEIVER_ENDED, ROOT_ENDED, TIMED_OUT};
use limited::Limited;
use report::{aside, by_host, fates};
use std::fs::File;
use std::io::Write;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, Scope};
use std::time::Duration;
use teller::Teller;
use usher::Ushered;

/// An open port, on which sessions of one group are held one after the other.
///
/// [`Session::send`] and [`Session::receive`] do all that it takes. A program with a source or a sink of its own
/// ([`application`](super::application)) opens a session and runs roots and receivers on it.
#[derive(Debug)]
pub struct Session {
    port: Port,
    station: Station,
    /// The engine's numbers, with the buffer that the port's ring was made for.
    tuning: Tuning,
    waker: Arc<Waker>,
    clock: Clock,
}

impl Session {
    /// Sends a content, which is whatever can be read, to the receivers of `group`, and returns when every one of them
    /// has verified it.
    ///
    /// It is read on a thread of its own, which is waited for: a reader that blocks holds up the end of the session,
    /// also of one that was cancelled.
    ///
    /// # Errors
    /// If the port cannot be opened, too few receivers come, the reader fails, or not all receivers have verified the
    /// bytes: [`Error::Undelivered`] has the report. Whoever takes part is told.
    pub fn send<'a>(group: &str, content: impl Into<Content<'a>>, options: &Options) -> Result<SendReport, Error> {
        let (content, mut options) = (content.into(), options.clone());
        content.describe(&mut options);
        let content = content.or_named(&options.source);
        let mut session = Session::open(group, &options)?;
        session.check_topology(&options)?;
        thread::scope(|scope| {
            let (reader, source) = content.read_ahead(options.size, &session.waker);
            start(scope, "reader", || reader.run())?;
            let mut sending = Sending::new(source);
            let report = session.run_root(&options, &mut sending);
            sending.source_mut().take_error().map_or(report, Err)?.all_verified()
        })
    }

    /// As [`send`](Session::send), all that `file` has from its present position on. What is lost on the way when
    /// nobody keeps it any more is read again.
    ///
    /// # Errors
    /// As for [`send`](Session::send).
    pub fn send_file(group: &str, file: File, options: &Options) -> Result<SendReport, Error> {
        Session::send(group, Content::of_file(file), options)
    }

    /// Receives what is sent to `group` and gives it to `writer` as it comes. Only a returned report says that the
    /// bytes are all there and are the sender's: after an error the writer may have taken some of them.
    ///
    /// The writer runs on a thread of its own, which is waited for: a writer that blocks slows the sender down, and
    /// holds up the end of the session.
    ///
    /// # Errors
    /// If the port cannot be opened, no sender comes, it turns this host away or gives up, the writer fails, or the
    /// bytes are not the sender's. Whoever takes part is told.
    pub fn receive(group: &str, writer: impl Write + Send, options: &Options) -> Result<ReceiveReport, Error> {
        Session::receive_into(group, Output(writer), options)
    }

    /// As [`receive`](Session::receive), into a storage: what it shows it shows whole, and only when the sender has
    /// accepted it. The crate `ethbcast-content` has storages for files, directories, block devices and commands.
    ///
    /// # Errors
    /// As for [`receive`](Session::receive).
    pub fn receive_into(group: &str, storage: impl Storage + Send, options: &Options) -> Result<ReceiveReport, Error> {
        let mut session = Session::open(group, options)?;
        thread::scope(|scope| {
            let (writer, sink) = write_behind(storage, &session.waker);
            start(scope, "writer", || writer.run())?;
            let mut receiving = Receiving::new(sink);
            let receiver = session.run_receiver(options, &mut receiving)?;
            receiving.sink_mut().close(Duration::MAX);
            receiving.ask_verdict(session.now());
            let report = ReceiveReport::new(&session.station.host, &receiver, &receiving);
            match report.check() {
                Ok(()) => Ok(report),
                Err(Error::Write { outcome, text, .. }) => {
                    Err(Error::Write { outcome, text, cause: receiving.sink_mut().take_cause() })
                }
                Err(error) => Err(error),
            }
        })
    }

    /// Opens a port for `group`, as interface, host, EtherType and MTU of the options say.
    ///
    /// # Errors
    /// If the group's name or the MTU cannot be, there is no such interface, or no permission.
    pub fn open(group: &str, options: &Options) -> Result<Session, Error> {
        let waker = Arc::new(Waker::new().map_err(Error::Resources)?);
        options.cancel.watch(&waker);
        let mut port = PortConfig::new(options.ether_type);
        // As long as others wait for this host.
        port.outage_limit = options.timing.dead + options.timing.patience;
        port.inherited = options.port_fd;
        port.also = options.about.as_ref().map(|_| census::address());
        options.start.iter().for_each(|start| start.watch(&waker));
        options.rate.iter().for_each(|limit| limit.watch(&waker));
        let opening = Opening {
            interface: options.interface.as_deref(),
            host: options.host.as_deref(),
            mtu_bytes: options.mtu_bytes,
            ..Opening::new(group, port)
        };
        let mut tuning = Tuning::default();
        // The ring has more frames than the feed grants credit for: a stream cannot overflow it, not even one of
        // smaller frames.
        let (port, station) = opening.open(|payload_bytes| {
            tuning.feed.frames = tuning.feed_frames_for(payload_bytes);
            RingRoom::for_session(tuning.feed.frames)
        })?;
        Ok(Session { port, station, tuning, waker, clock: Clock::start() })
    }

    /// Sends what the source of `sending` has to the receivers of the group; however they fared is in the report.
    ///
    /// # Errors
    /// If [`Options::tuning`] is wrong, the session does not come about, the source gives up ([`Error::GaveUp`]), or it
    /// is cancelled.
    pub fn run_root<S: Source>(&mut self, options: &Options, sending: &mut Sending<S>) -> Result<SendReport, Error> {
        match self.try_root(options, sending)? {
            (report, None) => Ok(report),
            (_, Some(error)) => Err(error),
        }
    }

    /// The same; of a session that was given up, or did not come about, why, and beside it a report: who had the bytes
    /// by then, and who was told that there are no more.
    ///
    /// # Errors
    /// If there is nothing to report: [`Options::tuning`] is wrong, or the socket fails.
    pub fn try_root<S: Source>(
        &mut self,
        options: &Options,
        sending: &mut Sending<S>,
    ) -> Result<(SendReport, Option<Error>), Error> {
        let (session, began) = (random_u32().map_err(Error::Random)?, self.clock.now());
        let (form, selects) = (sending.source().form(), sending.source().selects());
        let config = options.root_config(&self.station, session, (form, selects), &self.tuning)?;
        self.port.begin_anew();
        let mut root = Limited::new(Root::new(began, config), began, options.time_limit);
        let mut teller = Teller::new(options, form, &self.port);
        let mut watcher = last_words::Teller::new(options.last_words.clone());
        watcher.tell(|| root.farewell(ROOT_ENDED));
        let (mut stopped, mut given_up, first_hop) = (false, None, self.port.first_hop_flag());
        let driven = drive(&mut self.port, &mut root, &self.waker, &self.clock, |root, now| {
            if let Some(reason) = options.cancel.reason().filter(|_| !std::mem::replace(&mut stopped, true)) {
                let decided = root.stop_waiting(now, reason);
                given_up = (!decided).then_some(Error::Cancelled { delivered: false });
            }
            if root.take_over(now) && !root.stop_waiting(now, TIMED_OUT) {
                given_up.get_or_insert(Error::TimedOut);
            }
            root.set_first_hop(first_hop.load(Ordering::Relaxed));
            options.start.iter().filter(|start| start.is_now()).for_each(|_| root.start_now(now));
            options.rate.iter().for_each(|limit| limit.apply(root, now));
            while let Some(event) = root.poll_event() {
                teller.root_event(now, &event);
                sending.handle_event(root, now, &event);
                watcher.tell(|| root.farewell(ROOT_ENDED));
            }
            sending.turn(root, now);
            teller.root_moved(root, now);
            if root.is_over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        watcher.tell_end(driven, |error| root.farewell(&format!("the sender's {error}")))?;
        log_counters(&self.port.counters());
        let failed = self.why_failed(given_up, &root, sending);
        let reports = if failed.is_some() { fates(&root, form) } else { root.reports().cloned().collect() };
        let report = SendReport {
            session,
            choice: root.choice().cloned(),
            rerouted: root.rerouted(),
            trailer: sending.content(),
            sent_bytes: root.sent_bytes(),
            lacking: root.lacking(),
            took: root.took(),
            total: self.clock.now().since(began),
            stream: root.stream_stats(),
            control: root.control_stats(),
            receivers: by_host(&root, reports),
            turned_away: root.turned_away().cloned().collect(),
            damages: root.damages(),
            aside: aside(&root),
            held_up_by: teller.held_up_by(&root),
            history: teller.take_history(),
            rate: root.rate(),
            cut_off: self.port.cut_off(self.clock.now()),
        };
        Ok((report, failed))
    }

    /// Why a session came to nothing, if it did: by what its loop says, its source, this host's interface or the root.
    fn why_failed<S: Source>(&self, given_up: Option<Error>, root: &Root, sending: &Sending<S>) -> Option<Error> {
        let nobody_has_it = root.reports().all(|report| report.outcome != Outcome::Delivered);
        let unable = self.check_interface().err().filter(|_| nobody_has_it);
        given_up
            // What time ran out for may lie here.
            .filter(|error| unable.is_none() || !matches!(error, Error::TimedOut))
            .or_else(|| sending.failed().map(|text| Error::GaveUp(text.to_owned())))
            .or(unable)
            .or_else(|| root.failure().cloned().map(Error::from))
    }

    /// Takes part as a receiver until the session is over; [`ReceiveReport::new`] says what it came to.
    ///
    /// # Errors
    /// If the socket fails.
    pub fn run_receiver<K: Sink>(
        &mut self,
        options: &Options,
        receiving: &mut Receiving<K>,
    ) -> Result<Receiver, Error> {
        let random = || random_u64().map_err(Error::Random);
        let (numbers, form) = ([random()?, random()?], receiving.sink().form());
        let config = options.receiver_config(&self.station, numbers, (form, receiving.sink().holds()), &self.tuning);
        let began = self.clock.now();
        self.port.begin_anew();
        let mut receiver = Limited::new(Receiver::new(began, config), began, options.time_limit);
        let mut teller = Teller::new(options, form, &self.port);
        if let Some(Expected::Digest(digest)) = options.expects {
            receiving.expect(digest);
        }
        let mut watcher = last_words::Teller::new(options.last_words.clone());
        let mut timed_out = false;
        let mut ushered = Ushered::new(options.usher.as_ref());
        let (other_mtu, mut is_outdated) = (self.port.other_mtu_flag(), false);
        let driven = drive(&mut self.port, &mut receiver, &self.waker, &self.clock, |receiver, now| {
            timed_out |= receiver.take_over(now);
            if options.cancel.is_cancelled() || timed_out {
                receiving.cancel(receiver, now);
            }
            while let Some(event) = receiver.poll_event() {
                options.tell(Progress::Receiver(&event));
                receiving.handle_event(now, event);
                watcher.tell(|| receiver.farewell(RECEIVER_ENDED));
            }
            ushered.turn(receiver, now);
            receiving.turn(receiver, now);
            teller.receiver_moved(receiver, receiving.sink().form(), now);
            is_outdated = options.usher.is_some()
                && (other_mtu.load(Ordering::Relaxed) && receiver.admission() != Admission::Given);
            if receiver.is_over() || is_outdated { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        watcher.tell_end(driven, |error| receiver.farewell(&format!("its {error}")))?;
        if is_outdated {
            return Err(Error::OtherMtu { interface: self.interface().name.clone() });
        }
        log_counters(&self.port.counters());
        if receiving.verdict().is_none() && (timed_out || !receiving.is_cancelled()) {
            self.check_interface()?;
        }
        if timed_out {
            return Err(Error::TimedOut);
        }
        Ok(receiver.into_inner())
    }

    /// Fails if it is this host's interface that is away, or takes no long frames, when all others seem silent.
    fn check_interface(&self) -> Result<(), Error> {
        self.port.outage(self.now()).map_or(Ok(()), |error| Err(error.into()))
    }

    /// Checks that the topology names this host, before anybody is waited for.
    ///
    /// # Errors
    /// [`Error::NotInTopology`].
    pub fn check_topology(&self, options: &Options) -> Result<(), Error> {
        let host = &self.station.host;
        let Some(topology) = options.topology.as_ref().filter(|topology| topology.host_named(host).is_none()) else {
            return Ok(());
        };
        Err(Error::NotInTopology { host: host.clone(), known: nodeset::fold(topology.hosts()) })
    }

    /// This host's place on the wire.
    pub fn station(&self) -> &Station {
        &self.station
    }

    /// The interface that it is on.
    pub fn interface(&self) -> &Interface {
        self.port.interface()
    }

    /// Whether the interface has a link at this moment.
    pub fn has_link(&self) -> bool {
        self.port.has_link()
    }

    /// Wakes the session's loop: for threads that have something for its source or sink.
    pub fn waker(&self) -> &Arc<Waker> {
        &self.waker
    }

    /// The time by the session's clock, which starts when the port is opened.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// The session's clock.
    pub fn clock(&self) -> Clock {
        self.clock
    }
}

/// Starts a thread that ends with the session.
fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() + Send + 'scope,
) -> Result<(), Error> {
    let thread = thread::Builder::new().name(name.to_owned());
    thread.spawn_scoped(scope, work).map(drop).map_err(Error::Resources)
}
