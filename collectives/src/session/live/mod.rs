//! Transfers between real hosts, as blocking calls over a packet socket.
//!
//! A sender takes a reader or another [`Content`], every receiver a writer or another [`Storage`];
//! both calls return when the session is over. They need root or `CAP_NET_RAW`.
//!
//! ```no_run
//! use ethbcast_collectives::session::{RecvOptions, SendOptions, Session};
//! use std::fs::File;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // On the host that has the bytes:
//! let report = Session::send_file("images", File::open("image.qcow2")?, &SendOptions::new().receivers(7))?;
//! println!("{} receivers have {} bytes after {:?}", report.verified(), report.bytes(), report.took);
//! // On each of the seven others:
//! let report = Session::receive("images", File::create("image.part")?, &RecvOptions::new())?;
//! std::fs::rename("image.part", "image.qcow2")?;
//! # Ok(()) }
//! ```
//!
//! The module connects the session's state machines with a socket, a clock, threads and random
//! numbers. Reader and writer run on threads of their own (`read_ahead`, `write_behind`), so
//! that a slow disk slows the stream down and nothing else.

mod content;
mod handles;
#[doc(hidden)]
mod history;
#[doc(hidden)]
mod notifier;
mod options;
mod own_host;
mod read_again;
#[doc(hidden)]
mod read_ahead;
#[doc(hidden)]
mod reader;
mod relay;
mod report;
#[doc(hidden)]
mod write_behind;

use super::application::{Coverage, Receiving, Sending, Sink, Source};
use super::message::Outcome;
use super::receiver::{Admission, Receiver, ReceiverConfig, ReceiverEvent};
use super::root::{Carousel, Root, RootConfig, RootFailure};
pub use super::verified::Offered;
use super::verified::{Cut, HaveSet};
use crate::census;
use crate::membership::Station;
use crate::membership::live::{HostAddresses, addresses_of};
use crate::membership::live::{Opener, Opening, RingRoom, StationError};
use content::Version;
pub use content::{Content, Output, Room, Storage, StorageError, is_full};
use ethbcast_planning::topology::nodeset;
use ethbcast_transport::packet::{
    Addresses, Clock, Interface, IpFamily, LaneUse, Over, Port, PortConfig, Waker, drive,
    random_u32, random_u64, stand_in,
};
use ethbcast_transport::{Instant, MacAddr, Subnet, Tuning};
pub use handles::{AbortNotice, AdmissionHook, Cancel, RateLimit, Start, StartHold};
use handles::{
    AbortNotifier, Callers, HookedAdmission, Limited, RECEIVER_ENDED, ROOT_ENDED, TIMED_OUT,
    networks, routed, tell_lanes,
};
#[doc(hidden)]
pub use history::{History, Incident, IncidentKind, Moment, Track};
use notifier::Notifier;
#[doc(hidden)]
pub use notifier::log_counters;
use options::too_few_served;
pub use options::{
    Callback, Expected, OfferCheck, OneOfTwo, Options, Progress, ProgressPlace, RecvOptions,
    RunOptions, SendOptions, WireOptions, processors,
};
use own_host::{OwnHost, ShownSender, check_named};
pub use read_again::{ReadAt, RestOfFile};
#[doc(hidden)]
pub use read_ahead::{ReadAhead, read_ahead};
#[doc(hidden)]
pub use reader::Reader;
pub use relay::{Relay, RelayReport};
pub use report::{Error, ReceiveReport, SendReport};
use report::{demoted, of_receivers};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, Scope};
use std::time::Duration;
#[doc(hidden)]
pub use write_behind::{OnThread, WriteBehind, Writer, write_behind};

const TOO_LONG: &str = "the session takes longer than this host allows";
const MIN_FEED_FRAMES: u64 = 64;

/// Outcome of [`Session::send_content`]: why the session was given up or did not start (`failed`),
/// the error of the content's reader (`cause`), and whether receivers were only asked what they
/// lack.
#[doc(hidden)]
#[derive(Debug)]
pub struct SentContent {
    pub report: SendReport,
    pub failed: Option<Error>,
    pub cause: Option<Error>,
    pub has_requested: bool,
}

/// An open port, on which sessions of one group run one after the other.
///
/// [`Session::send`] and [`Session::receive`] do everything. A program with a source or sink of its
/// own ([`application`](super::application)) opens a session and runs roots and receivers on it.
#[derive(Debug)]
pub struct Session {
    port: Port,
    station: Station,
    /// Parameters of the transport, with the buffer for which the port's ring was made.
    tuning: Tuning,
    waker: Arc<Waker>,
    clock: Clock,
    opener: Opener,
    /// Hosts to which it sends what is for all, each with its name, where no multicast goes; a
    /// sender without any sends it to those that have joined.
    peers: BTreeMap<IpAddr, String>,
}

/// Passes an event on, and declines an invitation that fails the check.
fn pass_checked<K: Sink>(
    check: Option<&OfferCheck>,
    receiving: &mut Receiving<K>,
    now: Instant,
    event: ReceiverEvent,
) {
    let refusal = check.and_then(|check| check.refusal(&event));
    receiving.handle_event(now, event);
    if let Some(text) = refusal {
        receiving.decline(
            now,
            Outcome::WriteFailed,
            format!("{}: {text}", Outcome::REFUSED),
        );
    }
}

impl Session {
    /// Sends a content, for example any reader, to the receivers of `group`, and returns when all
    /// of them have verified it.
    ///
    /// The content is read on a thread of its own, which is waited for: a reader that blocks delays
    /// the end of the session, even after a cancellation.
    ///
    /// # Errors
    /// If the port cannot be opened, too few receivers join, the reader fails, or not all receivers
    /// have verified the bytes: [`Error::Undelivered`] has the report. All members are notified.
    pub fn send<'a>(
        group: &str,
        content: impl Into<Content<'a>>,
        options: &SendOptions,
    ) -> Result<SendReport, Error> {
        let (content, mut options) = (content.into(), options.clone());
        content.describe(&mut options);
        let mut session = Session::open_sender(group, &options)?;
        session.check_topology(&options)?;
        let SentContent {
            report,
            failed,
            cause,
            has_requested,
        } = thread::scope(|scope| {
            session.send_content(content, &options, Cut::None, |reader| {
                start(scope, "reader", || reader.run())
            })
        })?;
        // A dry run ends where the first byte would be due; its report tells what each receiver
        // lacks.
        if options.dry_run && has_requested && cause.is_none() {
            return Ok(report);
        }
        cause.or(failed).map_or(Ok(report), Err)?.all_verified()
    }

    /// Sends a content that [describes](Content::describe) the options, with fragments cut by
    /// `cut`. `begin` runs the reader on a thread, and does what else is due before receivers are
    /// invited.
    ///
    /// # Errors
    /// The errors of [`try_root`](Session::try_root), and those of `begin`.
    #[doc(hidden)]
    pub fn send_content<'a>(
        &mut self,
        content: Content<'a>,
        options: &SendOptions,
        cut: Cut,
        begin: impl FnOnce(Reader<Box<dyn Read + Send + 'a>>) -> Result<(), Error>,
    ) -> Result<SentContent, Error> {
        let content = options
            .chunk
            .into_iter()
            .fold(content.or_named(&options.source), Content::chunked);
        match options.carousel {
            Some(linger) => self.send_in_rounds(content, options, linger, cut, begin),
            None => self.send_once(content, (options, None), cut, begin),
        }
    }

    /// Sends the content in rounds: hosts that come during one take part in the next.
    fn send_in_rounds<'a>(
        &mut self,
        content: Content<'a>,
        options: &SendOptions,
        linger: Duration,
        cut: Cut,
        begin: impl FnOnce(Reader<Box<dyn Read + Send + 'a>>) -> Result<(), Error>,
    ) -> Result<SentContent, Error> {
        let wanted = options.wanted().ok_or(Error::ForWhom)?;
        let (began, mut carousel) = (self.clock.now(), Carousel::new(wanted, linger));
        let (content, rounds) = content.with_rounds()?;
        let mut sent = self.send_once(content, (options, Some(&carousel)), cut, begin)?;
        // The user has started the first round only.
        let mut options = SendOptions {
            start: None,
            ..options.clone()
        };
        let time_limit = options.run.time_limit;
        while !sent.has_failed() && carousel.take(sent.report.delivered()) {
            let passed = self.clock.now().since(began);
            options.run.time_limit = time_limit.map(|limit| limit.saturating_sub(passed));
            let content = rounds.next(sent.report.trailer);
            let next = self.send_once(content, (&options, Some(&carousel)), cut, |reader| {
                let thread = thread::Builder::new().name("reader".to_owned());
                let started = thread.spawn(move || reader.run());
                started.map(drop).map_err(Error::Resources)
            });
            match next {
                Ok(next) if next.report.receivers.is_empty() => {
                    sent.report.turn_away(next.report.turned_away);
                    let is_over = |failed: &Error| {
                        matches!(failed, Error::NotStarted(RootFailure::TooFew { .. }))
                    };
                    sent.failed = next.failed.filter(|failed| !is_over(failed));
                    break;
                }
                Ok(next) => {
                    sent = SentContent {
                        report: next.report.after(sent.report),
                        ..next
                    }
                }
                Err(error) => sent.failed = Some(error),
            }
        }
        if !sent.has_failed() {
            sent.failed = too_few_served(&sent.report, &options, linger);
        }
        sent.report.total = self.clock.now().since(began);
        Ok(sent)
    }

    fn send_once<'a>(
        &mut self,
        content: Content<'a>,
        (options, carousel): (&SendOptions, Option<&Carousel>),
        cut: Cut,
        begin: impl FnOnce(Reader<Box<dyn Read + Send + 'a>>) -> Result<(), Error>,
    ) -> Result<SentContent, Error> {
        let (reader, source) = content.read_ahead(options.size, &self.waker);
        begin(reader)?;
        let mut sending = Sending::new(source.naming(cut).with_requests_only(options.dry_run));
        let (report, failed) = self.try_round(options, carousel, &mut sending)?;
        let has_requested = sending.source().has_requested();
        Ok(SentContent {
            report,
            failed,
            cause: sending.source_mut().take_error(),
            has_requested,
        })
    }

    /// Sends a file from its present position on, like [`send`](Session::send). Bytes that were
    /// lost and that no host keeps are read again.
    ///
    /// # Errors
    /// The errors of [`send`](Session::send).
    pub fn send_file(group: &str, file: File, options: &SendOptions) -> Result<SendReport, Error> {
        Session::send(group, Content::of_file(file), options)
    }

    /// Receives the content sent to `group` and writes it to `writer` as it comes. Only a returned
    /// report confirms that the bytes are complete and the sender's: after an error `writer` may
    /// have taken some of them.
    ///
    /// The writer runs on a thread of its own, which is waited for: a writer that blocks slows the
    /// sender down, and delays the end of the session.
    ///
    /// # Errors
    /// If the port cannot be opened, no sender comes, it refuses this host or fails, the writer
    /// fails, or the bytes are not the sender's. The sender is notified.
    pub fn receive(
        group: &str,
        writer: impl Write + Send,
        options: &RecvOptions,
    ) -> Result<ReceiveReport, Error> {
        Session::receive_into(group, Output(writer), options)
    }

    /// Receives into a storage, like [`receive`](Session::receive). A storage makes the content
    /// visible as a whole, and only when the sender has accepted it. The crate `ethbcast-content`
    /// has storages for files, directories, block devices and commands.
    ///
    /// # Errors
    /// The errors of [`receive`](Session::receive).
    pub fn receive_into(
        group: &str,
        storage: impl Storage + Send,
        options: &RecvOptions,
    ) -> Result<ReceiveReport, Error> {
        Session::receive_held(group, (storage, None), options)
    }

    /// Receives into memory that holds an earlier version, in place. Only changed chunks come if
    /// the sender can re-read its content ([`Content::of_memory`], a file) and knows its length;
    /// otherwise all come. With smaller [chunks](SendOptions::chunk) at the sender, less is sent
    /// for few changes. Returns the memory; after an error it may have chunks of both versions.
    ///
    /// # Errors
    /// The errors of [`receive`](Session::receive). A sender that has more bytes than the memory is
    /// refused before the start.
    pub fn receive_over<M>(
        group: &str,
        memory: M,
        options: &RecvOptions,
    ) -> (M, Result<ReceiveReport, Error>)
    where
        M: AsRef<[u8]> + AsMut<[u8]> + Send + 'static,
    {
        let version = Arc::new(Version::of(memory));
        let free_bytes = options.free_bytes.min(version.bytes());
        let (storage, held): (_, Arc<dyn HaveSet>) =
            (Arc::clone(&version), Arc::clone(&version) as _);
        let report = Session::receive_held(
            group,
            (storage, Some(held)),
            &RecvOptions {
                free_bytes,
                ..options.clone()
            },
        );
        let version = Arc::into_inner(version)
            .expect("the writer, which has ended, had the only other handles");
        (version.into_memory(), report)
    }

    fn receive_held(
        group: &str,
        (storage, held): (impl Storage + Send, Option<Arc<dyn HaveSet>>),
        options: &RecvOptions,
    ) -> Result<ReceiveReport, Error> {
        let mut session = Session::open_receiver(group, options)?;
        thread::scope(|scope| {
            let (writer, sink) = write_behind(storage, &session.waker);
            let (writer, sink) = match held {
                Some(held) => (writer.holding(held), sink.held()),
                None => (writer, sink),
            };
            start(scope, "writer", || writer.run())?;
            let mut receiving = Receiving::new(sink);
            let receiver = session.run_receiver(options, &mut receiving)?;
            receiving.sink_mut().close(Duration::MAX);
            receiving.request_verdict(session.now());
            let report = ReceiveReport::new(&session.station.host, &receiver, &receiving);
            match report.check() {
                Ok(()) => Ok(report),
                Err(Error::Write { outcome, text, .. }) => Err(Error::Write {
                    outcome,
                    text,
                    cause: receiving.sink_mut().take_cause(),
                }),
                Err(error) => Err(error),
            }
        })
    }

    /// Opens a port for `group` to send on, with the interface, host name, EtherType and MTU of
    /// `options`.
    ///
    /// # Errors
    /// If the group's name or the MTU is invalid, there is no such interface, permission is denied,
    /// or too few of the named hosts are others than this one.
    pub fn open_sender(group: &str, options: &SendOptions) -> Result<Session, Error> {
        let is_unicast = options.wire.over.is_unicast();
        let is_called = is_unicast && options.hosts.is_empty();
        if is_called && options.late {
            return Err(StationError::LateCallers.into());
        }
        let peers = (is_unicast && !is_called)
            .then(|| addresses_of(&options.hosts))
            .transpose()?;
        options.check_interfaces()?;
        let family = peers.as_ref().and_then(HostAddresses::family);
        let listens = (None, is_called, family);
        let mut session = Session::open(group, &options.wire, &options.run, listens)?;
        if !session.over().is_udp() {
            let needed = options.wanted().map_or(0, |wanted| wanted.at_least);
            check_named(
                &options.hosts,
                needed,
                &session.station,
                session.interface(),
            )?;
        }
        if let Some(peers) = peers {
            let peers = peers.on(session.interface())?;
            session.port.name_peers(&peers);
            session.peers = peers
                .into_iter()
                .zip(options.hosts.iter().cloned())
                .collect();
        }
        options
            .start
            .iter()
            .for_each(|start| start.watch(&session.waker));
        options
            .rate
            .iter()
            .for_each(|limit| limit.watch(&session.waker));
        Ok(session)
    }

    /// Opens a port for `group` to receive on, like [`open_sender`](Session::open_sender).
    ///
    /// # Errors
    /// The errors of [`open_sender`](Session::open_sender).
    pub fn open_receiver(group: &str, options: &RecvOptions) -> Result<Session, Error> {
        let also = options.about.as_ref().map(|_| census::address());
        let is_unicast = options.wire.over.is_unicast();
        if let Some(host) = options.sender.as_ref().filter(|_| !is_unicast) {
            return Err(StationError::SenderElsewhere { host: host.clone() }.into());
        }
        let from: Vec<String> = options.sender.iter().cloned().collect();
        let senders = options.sender.as_ref().map(|_| addresses_of(&from));
        let senders = senders.transpose()?;
        let family = senders.as_ref().and_then(HostAddresses::family);
        let mut session = Session::open(group, &options.wire, &options.run, (also, true, family))?;
        if let Some(senders) = senders {
            let senders = senders.on(session.interface())?;
            *session.port.recipients().lock() = Some(senders.clone());
            session.peers = senders.into_iter().zip(from.iter().cloned()).collect();
        }
        if let Some(frames) = session.port.room_frames() {
            // No credit for more frames than the ring has room for.
            session.tuning.feed.frames = session
                .tuning
                .feed
                .frames
                .min(1 << frames.max(MIN_FEED_FRAMES).ilog2());
        }
        Ok(session)
    }

    fn with_addresses(&self, config: RootConfig) -> Result<RootConfig, Error> {
        let address_secret = self
            .over()
            .is_udp()
            .then(random_u64)
            .transpose()
            .map_err(Error::Random)?;
        Ok(RootConfig {
            routed: routed(self.interface(), self.over()),
            networks: networks(self.interface(), self.over(), self.peers()),
            named: self.named(),
            address_secret,
            ..config
        })
    }

    fn open(
        group: &str,
        wire: &WireOptions,
        run: &RunOptions,
        (also, is_called, family): (Option<MacAddr>, bool, Option<IpFamily>),
    ) -> Result<Session, Error> {
        let waker = Arc::new(Waker::new().map_err(Error::Resources)?);
        run.cancel.watch(&waker);
        let mut port = PortConfig::new(wire.ether_type);
        // The others wait for this host as long.
        port.outage_limit = run.timing.dead + run.timing.patience;
        (port.over, port.inherited, port.also, port.priority) =
            (wire.over, wire.port_fd, also, wire.priority);
        port.ttl = wire.ttl;
        port.is_called = is_called;
        let opening = Opening {
            interface: wire.interface.as_deref(),
            host: wire.host.as_deref(),
            mtu_bytes: wire.mtu_bytes,
            family,
            ..Opening::new(group, port)
        };
        let mut tuning = Tuning::default();
        // The ring has more frames than the feed grants credit for, so a stream cannot overflow it,
        // not even one of smaller frames.
        let (port, station) = opening.open_lanes(|payload_bytes| {
            tuning.feed.frames = tuning.feed_frames_for(payload_bytes);
            RingRoom::for_session(tuning.feed.frames)
        })?;
        let (clock, opener, peers) = (Clock::start(), Opener::here(), BTreeMap::new());
        let mut session = Session {
            port,
            station,
            tuning,
            waker,
            clock,
            opener,
            peers,
        };
        let host = session.station.mac;
        let of_prefix = |prefix_bits| Subnet { host, prefix_bits };
        session.tuning.subnet = routed(session.interface(), session.over()).map(of_prefix);
        Ok(session)
    }

    /// Sends the content of `sending` to the receivers of the group; the report gives the outcome
    /// of each. The error comes with it if the session was given up or did not start: the report
    /// then lists the receivers that had the bytes by then, and those that were requested to stop
    /// waiting.
    ///
    /// # Errors
    /// If there is nothing to report: [`SendOptions::tuning`] is wrong, or the socket fails.
    pub fn try_root<S: Source>(
        &mut self,
        options: &SendOptions,
        sending: &mut Sending<S>,
    ) -> Result<(SendReport, Option<Error>), Error> {
        self.try_round(options, None, sending)
    }

    fn try_round<S: Source>(
        &mut self,
        options: &SendOptions,
        carousel: Option<&Carousel>,
        sending: &mut Sending<S>,
    ) -> Result<(SendReport, Option<Error>), Error> {
        self.opener.check()?;
        let (session, began, form) = (
            random_u32().map_err(Error::Random)?,
            self.clock.now(),
            sending.source().form(),
        );
        let selects = sending
            .source_mut()
            .verified()
            .is_some_and(|verified| verified.selects());
        let config = options.root_config(&self.station, session, (form, selects), &self.tuning)?;
        let (form, config) = (
            form.signed(config.keys.is_some()),
            self.with_addresses(config)?,
        );
        let config = match carousel {
            Some(carousel) => config.in_round(carousel),
            None => config,
        };
        self.port.begin_anew();
        let mut shown = ShownSender::new(
            self.interface(),
            &self.station,
            self.over(),
            config.wanted.needed(),
        );
        let mut root = Limited::new(Root::new(began, config), began, options.run.time_limit);
        let mut notifier = Notifier::new(&options.run, form, &self.port);
        let mut watcher = AbortNotifier::new(options.run.abort_notice.clone());
        watcher.update(|| root.final_frame(ROOT_ENDED));
        let (mut stopped, mut given_up, hop, link) =
            (false, None, self.port.first_hop_flag(), self.port.meter());
        let are_unknown = self.over().is_unicast() && self.peers.is_empty();
        let mut callers = Callers::of(are_unknown.then(|| self.port.recipients()));
        let lanes = self.port.lane_terms();
        let driven = drive(
            &mut self.port,
            &mut root,
            &self.waker,
            &self.clock,
            |root, now| {
                if let Some(reason) = options
                    .run
                    .cancel
                    .reason()
                    .filter(|_| !std::mem::replace(&mut stopped, true))
                {
                    given_up = (!root.stop_waiting(now, reason))
                        .then_some(Error::Cancelled { delivered: false });
                }
                given_up = given_up.take().or_else(|| end_early(root, &mut shown, now));
                root.set_first_hop(hop.load(Ordering::Relaxed));
                link.take()
                    .into_iter()
                    .for_each(|reading| root.note_link(now, reading));
                options.steer(root, now);
                while let Some(event) = root.poll_event() {
                    tell_lanes(lanes.as_deref(), root.view());
                    callers.root_event(&event);
                    notifier.root_event(now, &event);
                    sending.handle_event(root, now, &event);
                    watcher.update(|| root.final_frame(ROOT_ENDED));
                }
                sending.turn(root, now);
                notifier.root_moved(
                    root,
                    |stream| sending.source_mut().verified()?.covered(stream),
                    now,
                );
                until(root.is_over())
            },
        );
        watcher.finish(driven, |error| {
            root.final_frame(&format!("at the sender, {error}"))
        })?;
        log_counters(&self.port.counters());
        let failed = self.why_failed((given_up, stopped), &root, sending);
        let report = SendReport {
            session,
            rounds: 1,
            choice: root.choice().cloned(),
            rerouted: root.rerouted(),
            proved: root.proved(),
            trailer: sending.content(),
            sent_bytes: root.sent_bytes(),
            lacking: root.lacking(),
            took: root.took(),
            total: self.clock.now().since(began),
            stream: root.stream_stats(),
            control: root.control_stats(),
            receivers: of_receivers(&root, failed.as_ref().map(|_| self.clock.now()), form),
            turned_away: root.turned_away().cloned().collect(),
            damages: root.damages(),
            demoted: demoted(&root),
            held_up_by: notifier.held_up_by(&root),
            history: notifier.take_history(),
            rate: root.rate(),
            other_traffic: root.other_traffic(),
            cut_off: self.port.cut_off(self.clock.now()),
            addresses: root.view().map_or_else(Vec::new, |view| {
                view.members.iter().map(|member| member.mac).collect()
            }),
        };
        Ok((report, failed))
    }

    fn why_failed<S: Source>(
        &self,
        (given_up, is_stopped): (Option<Error>, bool),
        root: &Root,
        sending: &Sending<S>,
    ) -> Option<Error> {
        let nobody_has_it = root
            .reports()
            .all(|report| report.outcome != Outcome::Delivered);
        let unable = self
            .check_interface()
            .err()
            .filter(|_| nobody_has_it && !is_stopped);
        given_up
            // The time may have run out because of this host's interface.
            .filter(|error| unable.is_none() || !matches!(error, Error::TimedOut))
            .or_else(|| sending.failed().map(|text| Error::GaveUp(text.to_owned())))
            .or(unable)
            .or_else(|| root.failure().cloned().map(Error::from))
    }

    /// Takes part as a receiver until the session is over; [`ReceiveReport::new`] makes the report.
    ///
    /// # Errors
    /// If the socket fails, or the sender runs on the same host. A receiver with
    /// [`RecvOptions::admission_hook`] waits for other senders, unless that may take long.
    pub fn run_receiver<K: Sink>(
        &mut self,
        options: &RecvOptions,
        receiving: &mut Receiving<K>,
    ) -> Result<Receiver, Error> {
        self.opener.check()?;
        let hook = options.admission_hook.as_ref();
        let waits_for_others = hook.is_some_and(|hook| !hook.may_take_long());
        let mut own_host = OwnHost::of(self.interface(), &self.station, self.over());
        let coverage = receiving.coverage();
        let config = self.receiver_config(options, coverage)?;
        self.port.begin_anew();
        let began = self.clock.now();
        let mut receiver =
            Limited::new(Receiver::new(began, config), began, options.run.time_limit);
        let mut notifier = Notifier::new(&options.run, coverage.form, &self.port);
        if let Some(Expected::Digest(digest)) = options.expects {
            receiving.expect(digest);
        }
        let mut watcher = AbortNotifier::new(options.run.abort_notice.clone());
        let mut hooked = HookedAdmission::new(options.admission_hook.as_ref());
        let (mut timed_out, mut has_own_sender, mut is_outdated) = (false, false, false);
        let (other_mtu, readings) = (self.port.other_mtu_flag(), self.port.meter());
        let lanes = self.port.lane_terms();
        let driven = drive(
            &mut self.port,
            &mut receiver,
            &self.waker,
            &self.clock,
            |receiver, now| {
                timed_out |= receiver.take_over(now);
                readings
                    .take()
                    .into_iter()
                    .for_each(|reading| receiver.note_link(now, reading));
                let look = own_host.look(
                    now,
                    !waits_for_others && receiver.admission() != Admission::Given,
                );
                has_own_sender = look.has_found;
                receiver.look_at(look.again_at);
                if let Some(why) = options
                    .run
                    .cancel
                    .reason()
                    .or(timed_out.then_some(TOO_LONG))
                {
                    receiving.cancel(receiver, now, why);
                }
                if receiver.take_session_over(now) {
                    receiving.give_up(TOO_LONG);
                }
                while let Some(event) = receiver.poll_event() {
                    tell_lanes(lanes.as_deref(), receiver.view());
                    if matches!(event, ReceiverEvent::Started { .. }) {
                        receiver.limit_session(options.session_limit.map(|limit| now + limit));
                    }
                    options.run.notify(Progress::Receiver(&event));
                    pass_checked(options.offer_check.as_ref(), receiving, now, event);
                    watcher.update(|| receiver.final_frame(RECEIVER_ENDED));
                }
                hooked.turn(receiver, now);
                hooked.end_failed(receiving, receiver, now);
                receiving.turn(receiver, now);
                hooked.report_behind(receiver);
                notifier.receiver_moved(receiver, receiving.coverage(), now);
                is_outdated = options.admission_hook.is_some()
                    && (other_mtu.load(Ordering::Relaxed)
                        && receiver.admission() != Admission::Given);
                until(receiver.is_over() || is_outdated || has_own_sender)
            },
        );
        watcher.finish(driven, |error| receiver.final_frame(&error.to_string()))?;
        let outdated = is_outdated.then(|| Error::OtherMtu {
            interface: self.interface().name.clone(),
        });
        if let Some(error) = outdated.or_else(|| has_own_sender.then(|| self.own_host_error())) {
            return Err(error);
        }
        log_counters(&self.port.counters());
        if receiving.verdict().is_none() && (timed_out || !receiving.is_cancelled()) {
            self.check_interface()?;
        }
        if timed_out {
            Err(Error::TimedOut)
        } else {
            Ok(receiver.into_inner())
        }
    }

    fn receiver_config(
        &self,
        options: &RecvOptions,
        coverage: Coverage,
    ) -> Result<ReceiverConfig, Error> {
        let random = || random_u64().map_err(Error::Random);
        let numbers = [random()?, random()?];
        let config = options.receiver_config(&self.station, numbers, coverage, &self.tuning)?;
        Ok(ReceiverConfig {
            sources_unproved: self.over().is_udp(),
            sought: self.peers.keys().next().map(|&ip| stand_in(ip).to_bits()),
            ..config
        })
    }

    fn own_host_error(&self) -> Error {
        Error::OwnHost {
            group: self.station.group.clone(),
            interface: self.interface().name.clone(),
        }
    }

    /// Fails if this host's interface is away, or takes no long frames: then all other hosts only
    /// seem silent.
    fn check_interface(&self) -> Result<(), Error> {
        self.port
            .outage(self.now())
            .map_or(Ok(()), |error| Err(error.into()))
    }

    /// Checks that the topology names this host, before any receiver is waited for.
    ///
    /// # Errors
    /// [`Error::NotInTopology`].
    pub fn check_topology(&self, options: &SendOptions) -> Result<(), Error> {
        let host = &self.station.host;
        let Some(topology) = options
            .topology
            .as_ref()
            .filter(|topology| topology.host_named(host).is_none())
        else {
            return Ok(());
        };
        Err(Error::NotInTopology {
            host: host.clone(),
            known: nodeset::fold(topology.hosts()),
        })
    }

    /// Returns the address, name and group of this host.
    pub fn station(&self) -> &Station {
        &self.station
    }

    /// Returns the interface of the port.
    pub fn interface(&self) -> &Interface {
        self.port.interface()
    }

    /// Returns the second interface of the port, if it has two.
    pub fn second_interface(&self) -> Option<&Interface> {
        self.port.second_interface()
    }

    /// Returns the use of each interface so far, if the port has two.
    #[doc(hidden)]
    pub fn lanes(&mut self) -> Option<[LaneUse; 2]> {
        let now = self.now();
        self.port.lanes(now)
    }

    /// Returns the carrier of its frames.
    pub fn over(&self) -> Over {
        self.port.over()
    }

    /// Returns the hosts to which it sends what is for all, where no multicast goes.
    pub fn peers(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.peers.keys().copied()
    }

    /// Returns the addresses of other hosts, over UDP.
    #[doc(hidden)]
    pub fn addresses(&self) -> Option<&Addresses> {
        self.port.addresses()
    }

    /// Returns the names that the user has given to hosts, by address.
    fn named(&self) -> BTreeMap<u32, String> {
        let is_name = |host: &str| host.parse::<Ipv4Addr>().is_err();
        let named = self.peers.iter().map(|(&ip, host)| {
            (
                stand_in(ip).to_bits(),
                host.split('@').next().unwrap_or(host),
            )
        });
        named
            .filter(|(_, name)| is_name(name))
            .map(|(ip, name)| (ip, name.to_owned()))
            .collect()
    }

    /// Whether the interface has a link at this moment.
    pub fn has_link(&self) -> bool {
        self.port.has_link()
    }

    /// Returns the waker of the session's loop, for threads that have data for its source or sink.
    pub fn waker(&self) -> &Arc<Waker> {
        &self.waker
    }

    /// Returns the time of the session's clock, which starts when the port is opened.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Returns the session's clock.
    pub fn clock(&self) -> Clock {
        self.clock
    }
}

impl SentContent {
    fn has_failed(&self) -> bool {
        self.failed.is_some() || self.cause.is_some()
    }
}

/// Ends a session whose time is over, or whose receivers all run on the sender's own host.
fn end_early(root: &mut Limited<Root>, shown: &mut ShownSender, now: Instant) -> Option<Error> {
    let (is_late, look) = (root.take_over(now), shown.look(now, root.awaits_first()));
    root.look_at(look.again_at);
    match (is_late, look.has_found) {
        (true, _) => (!root.stop_waiting(now, TIMED_OUT)).then_some(Error::TimedOut),
        (false, true) => (!root.stop_waiting(now, ROOT_ENDED)).then(|| shown.error()),
        (false, false) => None,
    }
}

fn until(is_over: bool) -> ControlFlow<()> {
    if is_over {
        ControlFlow::Break(())
    } else {
        ControlFlow::Continue(())
    }
}

fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() + Send + 'scope,
) -> Result<(), Error> {
    let thread = thread::Builder::new().name(name.to_owned());
    thread
        .spawn_scoped(scope, work)
        .map(drop)
        .map_err(Error::Resources)
}
