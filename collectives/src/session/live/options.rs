//! Options of sending and receiving, and the progress that a transfer reports.

use super::handles::{AbortNotice, AdmissionHook, Cancel, RateLimit, Start, StartHold};
use super::report::{Error, SendReport};
use crate::Preset;
use crate::census::About;
use crate::keys::{ExchangePair, Keys, Secret};
use crate::measure::Processors;
use crate::membership::live::{StationError, host};
use crate::membership::{Station, Timing};
use crate::session::application::Coverage;
use crate::session::keyring::{ReceiverKeys, RootKeys};
use crate::session::message::{ContentKind, Digest, MemberState};
use crate::session::receiver::{ReceiverConfig, ReceiverEvent};
use crate::session::root::{
    Learnt, OnSlow, Root, RootConfig, RootEvent, RootFailure, Route, Wanted,
};
use crate::session::verified::{ChunkSize, Form, Offered};
use ethbcast_planning::HostNames;
use ethbcast_planning::model::Calibration;
use ethbcast_planning::topology::Topology;
use ethbcast_transport::packet::{Over, random_secret, thread_time, thread_waited};
use ethbcast_transport::wire::{EtherType, PayloadHash};
use ethbcast_transport::{Instant, MacAddr, Policy, Tuning, with_defaults};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

const DEFAULT_WAIT: Duration = Duration::from_secs(60);

/// The only content that a receiver accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Content offered under this name.
    Name(String),
    /// Content with this BLAKE3 digest.
    Digest(Digest),
}

with_defaults! {
    /// Interface and name of a host in its group, for both roles.
    #[derive(Clone, Debug)]
    pub struct WireOptions {
        /// Interface, or two with a comma between them, by both of which data go; without it, the
        /// only Ethernet interface that is up.
        pub interface: Option<String> = None,
        /// Name of this host in reports and topologies; without it, `$ETHBCAST_HOST`, the name of
        /// the network namespace, the hostname, or the address of a network card.
        pub host: Option<String> = None,
        /// EtherType, which must be the same on all hosts of a group.
        pub ether_type: EtherType = EtherType::DEFAULT,
        /// Carrier of the frames, which must be the same on all hosts of a group; UDP needs no
        /// privilege.
        pub over: Over = Over::Ethernet,
        /// MTU to send with, in bytes; without it, the interface's.
        pub mtu_bytes: Option<u32> = None,
        /// File descriptor of a packet socket that was opened for this process by a privileged one;
        /// without it, one is opened.
        pub port_fd: Option<i32> = None,
        /// Keys that authenticate all frames; without them, no frame is authenticated.
        pub keys: Option<Arc<Keys>> = None,
        /// Priority of the frames, 0 to 7, for queueing disciplines and the tags of a VLAN
        /// interface (IEEE 802.1p).
        pub priority: Option<u8> = None,
        /// Time to live (hop limit) of frames over UDP by multicast, 1 to 255: networks that they
        /// reach one behind the other. Beyond the first nothing controls congestion.
        pub ttl: u8 = 1,
    }

    /// Limits, cancellation and progress of a session, for both roles.
    #[derive(Clone, Debug)]
    pub struct RunOptions {
        /// Longest waits for silent or stalled hosts, and for this host's interface if it is away.
        pub timing: Timing = Timing::default(),
        /// Longest total time of the session; without it, no limit.
        pub time_limit: Option<Duration> = None,
        /// Handle that ends the session early.
        pub cancel: Cancel = Cancel::new(),
        /// Callback for progress: see [`on_progress`](RunOptions::on_progress).
        pub progress: Option<Callback> = None,
        /// Minimum time between two reports of [`Progress::Moved`].
        pub progress_every: Duration = Duration::from_millis(100),
        /// Abort notification for another process to send if this one ends without notice.
        #[doc(hidden)]
        pub abort_notice: Option<AbortNotice> = None,
    }

    /// Options of sending. A sender must know for which receivers it waits: set
    /// [`receivers`](SendOptions::receivers) or another of the four fields that follow it.
    #[derive(Clone, Debug)]
    pub struct SendOptions {
        /// Interface and name of this host.
        pub wire: WireOptions = WireOptions::default(),
        /// Limits, cancellation and progress.
        pub run: RunOptions = RunOptions::default(),
        /// Number of receivers with which the session starts at once.
        pub receivers: Option<usize> = None,
        /// Minimum number of receivers with which the session starts when
        /// [`max_wait`](SendOptions::max_wait) ends; without it,
        /// [`receivers`](SendOptions::receivers).
        pub min_receivers: Option<usize> = None,
        /// The only hosts that are admitted, by name; all of them are waited for, unless fewer are
        /// required. Without them, those come over UDP by unicast that name this host in
        /// [`sender`](RecvOptions::sender).
        pub hosts: Vec<String> = Vec::new(),
        /// Handle that starts the session with the receivers present.
        pub start: Option<Start> = None,
        /// Longest wait for receivers; without it, a minute.
        pub max_wait: Option<Duration> = None,
        /// Whether receivers that come after the start are admitted; they finish after the others.
        pub late: bool = false,
        /// Time without a newcomer after which a carousel ends, whose rounds serve all that come
        /// meanwhile; it ends earlier once [`receivers`](SendOptions::receivers) have the content.
        /// The first round begins with [`min_receivers`](SendOptions::min_receivers), or one.
        pub carousel: Option<Duration> = None,
        /// Description of the bytes for receivers, such as a file name.
        pub source: String = String::new(),
        /// Kind of the content.
        pub content: ContentKind = ContentKind::Stream,
        /// Expected length of the content in bytes; another length is an error.
        pub size: Option<u64> = None,
        /// Size of the chunks in which the content is verified, and compared with an earlier
        /// version at receivers; without it, the content's.
        pub chunk: Option<ChunkSize> = None,
        /// Algorithm by which the bytes travel.
        pub route: Route = Route::Auto,
        /// Switches and hosts; without it all hosts are taken to be on one switch.
        pub topology: Option<Topology> = None,
        /// Measured cost of the network.
        pub calibration: Option<Calibration> = None,
        /// Facts that earlier transfers learnt, for sessions without a calibration.
        pub learnt: Vec<Learnt> = Vec::new(),
        /// Rate of this host's interface in bits per second, if its driver reports that of a cable:
        /// a measurement that finds more is not believed.
        pub interface_rate: Option<u64> = None,
        /// Whether to measure for up to 50 ms before the start, without a calibration.
        pub probe: bool = true,
        /// Protocol of a broadcast.
        pub preset: Preset = Preset::Default,
        /// Bytes of a message that are pushed with [`Preset::PushPull`], in as few frames as
        /// possible, which sets the length of all frames; without it 860, as in the paper.
        pub push_bytes: Option<u64> = None,
        /// Parameters of the transport instead of the preset's; the interface's MTU decides the
        /// buffer size.
        pub tuning: Option<Tuning> = None,
        /// Treatment of a straggler, a receiver that holds up the others.
        pub on_slow: OnSlow = OnSlow::Demote,
        /// Rate limit of each host, the sender and relays; without it, the link's rate.
        pub rate: Option<RateLimit> = None,
        /// Whether contents are in the clear also with keys; names and reports are not.
        pub auth_only: bool = false,
        /// Whether nothing is left to other traffic; by default up to half of each link is.
        pub greedy: bool = false,
        /// Whether to stop after planning; receivers wait on for a sender.
        pub dry_run: bool = false,
        /// Hold on the start, once enough receivers are there.
        #[doc(hidden)]
        pub hold: Option<Arc<dyn StartHold>> = None,
    }

    /// Options of receiving. The defaults suit hosts with names of their own and one Ethernet
    /// interface.
    #[derive(Clone, Debug)]
    pub struct RecvOptions {
        /// Interface and name of this host.
        pub wire: WireOptions = WireOptions::default(),
        /// Limits, cancellation and progress.
        pub run: RunOptions = RunOptions::default(),
        /// Name or IPv4 address of the only sender that is accepted, over UDP by unicast: this host
        /// asks it for its contents, so that it need not know its receivers.
        pub sender: Option<String> = None,
        /// Longest wait for a sender; without it, no limit.
        pub max_wait: Option<Duration> = None,
        /// Longest time of a session from its start; without it, no limit.
        pub session_limit: Option<Duration> = None,
        /// Whether to end when the first sender refuses this host, fails or has started without it;
        /// otherwise the next one is waited for.
        pub once: bool = false,
        /// The only content that is accepted; `None` accepts any.
        pub expects: Option<Expected> = None,
        /// Check of what an invitation offers; content that fails it is declined before this host
        /// joins.
        pub offer_check: Option<OfferCheck> = None,
        /// Free space, in bytes: a larger content is refused.
        pub free_bytes: u64 = u64::MAX,
        /// Description of this host for census queries ([`census`](crate::census)); without it,
        /// they are not answered.
        #[doc(hidden)]
        pub about: Option<About> = None,
        /// Admission hook, called before joining. `None`: join every announced session.
        #[doc(hidden)]
        pub admission_hook: Option<Arc<dyn AdmissionHook>> = None,
        /// (sender, session) pairs to ignore.
        #[doc(hidden)]
        pub had: Vec<(MacAddr, u32)> = Vec::new(),
    }
}

/// Check of an offered content, before the session is joined.
#[derive(Clone)]
pub struct OfferCheck(Arc<CheckOffered>);

type CheckOffered = dyn Fn(&Offered) -> Result<(), String> + Send + Sync;

impl fmt::Debug for OfferCheck {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("OfferCheck")
    }
}

impl OfferCheck {
    /// Creates a check, which returns why the content cannot be held. The session's thread calls it
    /// once per invitation that is accepted.
    pub fn new(
        check: impl Fn(&Offered) -> Result<(), String> + Send + Sync + 'static,
    ) -> OfferCheck {
        OfferCheck(Arc::new(check))
    }

    /// Checks the offer of an invitation. Other events pass.
    pub(super) fn refusal(&self, event: &ReceiverEvent) -> Option<String> {
        let ReceiverEvent::Invited {
            source,
            size,
            content,
            chunk,
            ..
        } = event
        else {
            return None;
        };
        let offered = Offered {
            source: source.clone(),
            size: *size,
            content: *content,
            chunk: *chunk,
        };
        self.check(&offered).err()
    }

    pub(super) fn check(&self, offered: &Offered) -> Result<(), String> {
        self.0(offered)
    }
}

/// Callback for progress.
#[derive(Clone)]
pub struct Callback(Arc<dyn Fn(Progress<'_>) + Send + Sync>);

impl fmt::Debug for Callback {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Callback")
    }
}

impl RunOptions {
    /// Sets the progress callback. It is called by the session's thread and must not block.
    pub fn on_progress(&mut self, callback: impl Fn(Progress<'_>) + Send + Sync + 'static) {
        self.progress = Some(Callback(Arc::new(callback)));
    }

    pub(super) fn notify(&self, progress: Progress<'_>) {
        if let Some(Callback(callback)) = &self.progress {
            callback(progress);
        }
    }
}

impl SendOptions {
    /// Returns the default options.
    pub fn new() -> SendOptions {
        SendOptions::default()
    }

    /// # Errors
    /// If there are two interfaces, whose frames overtake each other, and receivers drop those.
    pub(super) fn check_interfaces(&self) -> Result<(), StationError> {
        let (interfaces, preset) = (self.wire.interface.as_deref(), self.preset);
        match interfaces.filter(|named| named.contains(',')) {
            Some(interfaces) if preset.tuning().policy == Policy::InOrderOnly => {
                Err(StationError::Lanes {
                    interfaces: interfaces.to_owned(),
                    why: format!(
                        "with the preset {preset} receivers drop what comes out of order: name one interface"
                    ),
                })
            }
            _ => Ok(()),
        }
    }

    /// Sets the number of receivers: the session starts as soon as `count` have joined, and not
    /// with fewer.
    pub fn receivers(mut self, count: usize) -> SendOptions {
        (self.receivers, self.min_receivers) = (Some(count), None);
        self
    }

    /// Configuration of a root, with the buffer of `port`, for which the ring was made. Fails if
    /// the tuning is invalid, no receivers are waited for, or a name is too long.
    pub(super) fn root_config(
        &self,
        station: &Station,
        session: u32,
        (form, selects): (Form, bool),
        port: &Tuning,
    ) -> Result<RootConfig, Error> {
        let keys = self
            .wire
            .keys
            .as_ref()
            .map(|keys| root_keys(keys, !self.auth_only))
            .transpose()?;
        let guard = keys.as_ref().map(RootKeys::guard).unwrap_or_default();
        let station = Station {
            guard,
            ..station.clone()
        };
        let numbers = self.tuning.clone().unwrap_or_else(|| self.preset.tuning());
        let mut tuning = Tuning {
            feed: port.feed.clone(),
            subnet: port.subnet,
            ..numbers
        };
        if let Some(bytes) = self.push_bytes.or(tuning.cast.push_bytes) {
            tuning = tuning.with_push_bytes(bytes, station.payload_bytes().into(), 0);
        }
        tuning.check()?;
        let config = RootConfig {
            size: self.size,
            content: self.content,
            form,
            selects,
            wanted: self.wanted().ok_or(Error::ForWhom)?,
            hosts: self.hosts.clone(),
            route: self.route.clone(),
            calibration: self.calibration.clone(),
            learnt: self.learnt.clone(),
            probe: self.probe,
            // Processor time of the loop's thread alone: others read ahead and compute digests
            // meanwhile.
            processors: Some(processors(thread_time)),
            waited: Some(thread_waited),
            interface_rate: self.interface_rate,
            held: self.hold.is_some(),
            dry_run: self.dry_run,
            topology: self.topology.clone(),
            late: self.late,
            on_slow: self.on_slow,
            rate: self.rate.as_ref().map(RateLimit::rate),
            greedy: self.greedy,
            timing: self.run.timing,
            tuning,
            keys,
            ..RootConfig::new(station, session, &self.source)
        };
        config.check_names()?;
        Ok(config)
    }

    /// Applies a rate or a start that other threads have set meanwhile.
    pub(super) fn steer(&self, root: &mut Root, now: Instant) {
        self.start
            .iter()
            .filter(|start| start.is_now())
            .for_each(|_| root.start_now(now));
        self.rate.iter().for_each(|limit| limit.apply(root, now));
        if let Some(hold) = &self.hold {
            if root.is_ready() {
                hold.note_ready();
            }
            if hold.is_released() {
                root.release(now);
            }
        }
    }

    /// Returns the number of receivers without which a carousel has failed, if there is one.
    pub(super) fn needed_in_rounds(&self) -> Option<usize> {
        let named = Some(self.hosts.len()).filter(|&hosts| hosts > 0);
        self.min_receivers.or(self.receivers).or(named)
    }

    pub(super) fn wanted(&self) -> Option<Wanted> {
        let named = Some(self.hosts.len()).filter(|&hosts| hosts > 0);
        // The named hosts are all there can be.
        let at_most = |count: usize| named.map_or(count, |hosts| count.min(hosts));
        let enough = self.receivers.map(at_most).or(named);
        let on_demand = self.start.as_ref().map(|_| 1);
        let first = self.min_receivers.map(at_most);
        let first = first.or(self.carousel.map(|_| 1));
        let at_least = first.or(enough).or(on_demand)?;
        let by_user = enough.is_none() && first.is_none();
        let wait = if by_user {
            Wanted::FOREVER
        } else {
            DEFAULT_WAIT
        };
        Some(Wanted {
            at_least,
            enough,
            patience: self.max_wait.unwrap_or(wait),
        })
    }
}

impl RecvOptions {
    /// Returns the default options.
    pub fn new() -> RecvOptions {
        RecvOptions::default()
    }

    pub(super) fn receiver_config(
        &self,
        station: &Station,
        [nonce, secret]: [u64; 2],
        Coverage { form, holds, .. }: Coverage,
        port: &Tuning,
    ) -> Result<ReceiverConfig, Error> {
        Ok(ReceiverConfig {
            free_bytes: self.free_bytes,
            form,
            holds,
            patience: self.max_wait,
            once: self.once,
            processors: Some(processors(thread_time)),
            by_leave: self.admission_hook.is_some(),
            leave_takes_long: self
                .admission_hook
                .as_ref()
                .is_some_and(|hook| hook.may_take_long()),
            had: self.had.clone(),
            expects: match &self.expects {
                Some(Expected::Name(name)) => Some(name.clone()),
                _ => None,
            },
            secret,
            about: self.about.clone(),
            timing: self.run.timing,
            tuning: port.clone(),
            keys: self.wire.keys.as_ref().map(receiver_keys).transpose()?,
            ..ReceiverConfig::new(station.clone(), nonce)
        })
    }
}

/// The former name of both [`SendOptions`] and [`RecvOptions`]. Its use does not compile, and the
/// compiler's message names them:
///
/// ```compile_fail,E0277
/// use ethbcast_collectives::session::Options;
///
/// let options = Options::new().receivers(7);
/// ```
#[doc(hidden)]
#[derive(Debug)]
pub struct Options<'a>(std::marker::PhantomData<&'a ()>);

/// A trait that no type has.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "the options of a session are `SendOptions` at a sender and `RecvOptions` at a receiver",
    label = "use `SendOptions` or `RecvOptions`",
    note = "both hold `wire: WireOptions` (interface, host, ether_type, mtu_bytes, port_fd) and `run: RunOptions` \
            (timing, time_limit, cancel, progress)"
)]
pub trait OneOfTwo {}

impl<'a> Options<'a> {
    #[doc(hidden)]
    pub fn new() -> Options<'a>
    where
        Options<'a>: OneOfTwo,
    {
        unreachable!("no type is `OneOfTwo`")
    }

    #[doc(hidden)]
    #[must_use]
    pub fn receivers(self, _: usize) -> Options<'a> {
        self
    }
}

/// Describes this computer's processors for measurements; `time` returns the processor time of a
/// process or thread so far.
pub fn processors(time: fn() -> Duration) -> Processors {
    Processors::new(time, host::computer(), host::cores())
}

/// A progress report.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// An event of a sender.
    Sender(&'a RootEvent),
    /// An event of a receiver.
    Receiver(&'a ReceiverEvent),
    /// The interface of this host went away (switched off, reset, pulled out) and is waited for; or
    /// it is back.
    Interface {
        /// Whether the interface is away.
        away: bool,
    },
    /// The interface of this host lost its link (no cable, or its other end is off); or it has one
    /// again.
    Link {
        /// Whether the link is lost.
        lost: bool,
    },
    /// Bytes of the content present so far: at a sender, those of the slowest receiver.
    Moved {
        /// Number of bytes, including those present before the session.
        bytes: u64,
        /// Number of bytes that came in this session.
        came: u64,
        /// Slowest receiver and its state, at a sender.
        slowest: Option<(&'a str, MemberState)>,
        /// Progress of each receiver that is not gone, by rank, at a sender.
        members: &'a [ProgressPlace<'a>],
        /// Data frames re-sent by this host.
        resent_frames: u64,
    },
}

/// Progress of a receiver, by its own report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProgressPlace<'a> {
    /// Name of the receiver.
    pub host: &'a str,
    /// State of the receiver.
    pub state: MemberState,
    /// Bytes of the content that it has consumed, or had before the session.
    pub bytes: u64,
    /// Bytes that it has consumed of those that came in this session.
    pub came: u64,
}

impl<'a> ProgressPlace<'a> {
    /// Creates the progress of `host`, which had nothing before the session.
    pub fn new(host: &'a str, state: MemberState, bytes: u64) -> ProgressPlace<'a> {
        ProgressPlace {
            host,
            state,
            bytes,
            came: bytes,
        }
    }
}

/// Draws a root's keys for one session, whose contents it encrypts or not. Fails if the keys are a
/// receiver's.
fn root_keys(keys: &Arc<Keys>, encrypts: bool) -> Result<RootKeys, Error> {
    if !keys.may_send() {
        return Err(Error::MayNotSend);
    }
    let (random, exchange) = (*secret()?.expose(), ExchangePair::new(secret()?));
    Ok(RootKeys {
        keys: keys.clone(),
        random,
        exchange,
        group: secret()?,
        hash: payload_hash(),
        encrypts,
    })
}

fn receiver_keys(keys: &Arc<Keys>) -> Result<ReceiverKeys, Error> {
    Ok(ReceiverKeys {
        keys: keys.clone(),
        exchange: ExchangePair::new(secret()?),
    })
}

fn secret() -> Result<Secret, Error> {
    random_secret()
        .map(|bytes| Secret::new(*bytes))
        .map_err(Error::Random)
}

/// Returns the hash that this processor computes faster; all hosts of its sessions use it.
fn payload_hash() -> PayloadHash {
    #[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
    let has_products = std::arch::is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    let has_products = std::arch::is_aarch64_feature_detected!("pmull");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "x86", target_arch = "aarch64")))]
    let has_products = false;
    if has_products {
        PayloadHash::Polyval
    } else {
        PayloadHash::Poly1305
    }
}

/// Returns the failure of a carousel to which fewer came than its user needs.
pub(super) fn too_few_served(
    report: &SendReport,
    options: &SendOptions,
    linger: Duration,
) -> Option<Error> {
    let joined: Vec<String> = report
        .receivers
        .iter()
        .map(|one| one.host.clone())
        .collect();
    let names = HostNames::new(joined.iter().map(String::as_str));
    let is_missing = |host: &&String| names.find(host).is_none();
    // Most were turned away from a round and took part in the next.
    let turned_away = report.turned_away.iter();
    let refused = turned_away.filter(|away| {
        let node = format!("{}@{}", away.host, away.mac);
        names.find(&node).is_none()
    });
    let needed = options.needed_in_rounds();
    let wanted = needed.filter(|&needed| joined.len() < needed)?;
    Some(Error::NotStarted(RootFailure::TooFew {
        missing: options.hosts.iter().filter(is_missing).cloned().collect(),
        refused: refused.cloned().collect(),
        joined,
        wanted,
        patience: linger,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Signer;
    use ethbcast_transport::Policy;

    #[test]
    fn a_protocol_leaves_the_buffer_as_large_as_the_ring() {
        let station = Station::new("g", "n0", MacAddr::new(2, 0, 0, 0, 0, 1), 1500);
        let port = Tuning::default().with_feed_frames(256);
        let tuning = |preset| {
            let config = SendOptions {
                preset,
                ..SendOptions::new().receivers(1)
            }
            .root_config(&station, 1, (Form::Plain, false), &port);
            config.expect("a preset's numbers are right").tuning
        };
        let paper = tuning(Preset::Paper);
        assert_eq!(
            (paper.policy, paper.window.max_frames, paper.feed.frames),
            (Policy::InOrderOnly, 16, 256)
        );
        assert_eq!(tuning(Preset::Default), port);
        assert_eq!(
            tuning(Preset::PushPull),
            Tuning::push_pull().with_feed_frames(256)
        );
    }

    #[test]
    fn bytes_are_pushed_in_as_few_frames_as_carry_them() {
        let station = Station::new("g", "n0", MacAddr::new(2, 0, 0, 0, 0, 1), 1500);
        let pushed = |preset, push_bytes| {
            let options = SendOptions {
                preset,
                push_bytes,
                ..SendOptions::new().receivers(1)
            };
            let config = options.root_config(&station, 1, (Form::Plain, false), &Tuning::default());
            let cast = config.expect("a preset's numbers are right").tuning.cast;
            cast.push_frames.zip(cast.push_bytes)
        };
        let pulled =
            [None, Some(0), Some(1468), Some(1469)].map(|bytes| pushed(Preset::PushPull, bytes));
        assert_eq!(
            pulled,
            [
                Some((1, 860)),
                Some((1, 0)),
                Some((1, 1468)),
                Some((2, 1469))
            ],
            "the paper's, unless told"
        );
        assert_eq!(pushed(Preset::Paper, Some(860)), None, "nothing is pushed");
    }

    #[test]
    fn a_number_that_the_engine_cannot_run_on_is_named() {
        let station = Station::new("g", "n0", MacAddr::new(2, 0, 0, 0, 0, 1), 1500);
        let mut wrong = Tuning::default();
        wrong.window.min_frames = 0;
        let options = SendOptions {
            tuning: Some(wrong),
            ..SendOptions::new()
        };
        let error = options
            .root_config(&station, 1, (Form::Plain, false), &Tuning::default())
            .expect_err("no frame would be on its way");
        assert!(
            error.to_string().starts_with("window.min_frames = "),
            "{error}"
        );
        assert!(matches!(error, Error::Tuning(_)));
    }

    #[test]
    fn each_session_and_each_run_has_secrets_of_its_own() {
        let secret = |byte| Secret::new([byte; 32]);
        let keys = Arc::new(Keys::new(secret(1), Signer::new(&secret(2)), "n0").expect("a name"));
        let [one, two] = [(); 2].map(|()| root_keys(&keys, true).expect("it may send"));
        assert_ne!(one.group, two.group);
        assert_ne!(
            (one.random, one.exchange.public()),
            (two.random, two.exchange.public())
        );
        assert_ne!(
            one.group.expose(),
            &one.random,
            "what is in the announcement"
        );
        let [one, two] = [(); 2].map(|()| receiver_keys(&keys).expect("random numbers"));
        assert_ne!(
            (one.nonce(), one.exchange.public()),
            (two.nonce(), two.exchange.public())
        );
    }

    #[test]
    fn a_sender_says_for_whom_it_waits_and_how_long() {
        let station = Station::new("g", "n0", MacAddr::new(2, 0, 0, 0, 0, 1), 1500);
        let config = |options: &SendOptions| {
            options.root_config(&station, 1, (Form::Plain, false), &Tuning::default())
        };
        let wanted = |options: SendOptions| {
            config(&options)
                .map(|config| config.wanted)
                .expect("the usual numbers are right")
        };
        assert!(matches!(config(&SendOptions::new()), Err(Error::ForWhom)));
        assert_eq!(wanted(SendOptions::new().receivers(7)), Wanted::exactly(7));
        let patience = Duration::from_secs(3);
        let least = SendOptions {
            min_receivers: Some(2),
            max_wait: Some(patience),
            ..SendOptions::new()
        };
        assert_eq!(
            wanted(least.clone()),
            Wanted {
                at_least: 2,
                enough: None,
                patience
            }
        );
        let both = SendOptions {
            receivers: Some(7),
            ..least
        };
        assert_eq!(
            wanted(both),
            Wanted {
                at_least: 2,
                enough: Some(7),
                patience
            }
        );
        let hosts = SendOptions {
            hosts: ["n1", "n2"].map(str::to_owned).into(),
            ..SendOptions::new()
        };
        assert_eq!(wanted(hosts.clone()), Wanted::exactly(2));
        assert_eq!(
            wanted(hosts.receivers(7)),
            Wanted::exactly(2),
            "there are no more"
        );
        let by_user = wanted(SendOptions {
            start: Some(Start::new()),
            ..SendOptions::new()
        });
        assert_eq!(
            by_user,
            Wanted {
                at_least: 1,
                enough: None,
                patience: Wanted::FOREVER
            }
        );
    }

    #[test]
    fn names_that_do_not_fit_are_refused_and_not_cut() {
        let station = |host: &str, mtu_bytes| {
            Station::new("g", host, MacAddr::new(2, 0, 0, 0, 0, 1), mtu_bytes)
        };
        let check = |host_bytes, source_bytes, mtu_bytes| {
            let options = SendOptions {
                source: "s".repeat(source_bytes),
                ..SendOptions::new().receivers(1)
            };
            let config = options.root_config(
                &station(&"h".repeat(host_bytes), mtu_bytes),
                1,
                (Form::Plain, false),
                &Tuning::default(),
            );
            config.map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(
            (check(255, 255, 1500), check(255, 255, 576)),
            (Ok(()), Ok(()))
        );
        let text = check(2, 256, 1500).expect_err("too long");
        assert!(text.contains("256 bytes") && text.contains("255"), "{text}");
        assert!(check(256, 2, 1500).is_err());
    }
}
