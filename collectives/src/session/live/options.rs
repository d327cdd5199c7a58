//! What a session is told.

use super::{Cancel, Error, LastWords, Progress, RateLimit, Start, Usher};
use crate::Preset;
use crate::census::About;
use crate::measure::Processors;
use crate::membership::live::host;
use crate::session::ledger::Form;
use crate::session::{ContentKind, Digest, OnSlow, ReceiverConfig, RootConfig, Route, Station, Timing, Wanted};
use ethbcast_planning::model::Calibration;
use ethbcast_planning::topology::Topology;
use ethbcast_transport::packet::thread_time;
use ethbcast_transport::wire::EtherType;
use ethbcast_transport::{MacAddr, Tuning, with_defaults};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How long a sender waits for receivers unless it is told otherwise.
const DEFAULT_WAIT: Duration = Duration::from_secs(60);

/// What a receiver takes, and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// What is offered under this name.
    Name(String),
    /// What has this BLAKE3.
    Digest(Digest),
}

with_defaults! {
    /// How to send or receive. [`Options::new`] is right for one Ethernet interface and hosts with names of their own.
    /// A sender must say for whom it waits: [`receivers`](Options::receivers) or another of the four that follow it.
    #[derive(Clone, Debug)]
    pub struct Options {
        /// The interface; without it, the only Ethernet interface that is up.
        pub interface: Option<String> = None,
        /// This host's name in reports and topologies; without it, `$ETHBCAST_HOST`, the network namespace's name,
        /// the hostname, or a network card's address.
        pub host: Option<String> = None,
        /// The EtherType; all hosts of a group must use the same.
        pub ether_type: EtherType = EtherType::DEFAULT,
        /// A packet socket that was opened for this process by one that may, by its number; without it, one is opened.
        pub port_fd: Option<i32> = None,
        /// The MTU to send with, in bytes; without it, the interface's.
        pub mtu_bytes: Option<u32> = None,
        /// With so many receivers a sender starts at once.
        pub receivers: Option<usize> = None,
        /// With so many it starts when [`max_wait`](Options::max_wait) is over; without it, not with fewer than
        /// [`receivers`](Options::receivers).
        pub min_receivers: Option<usize> = None,
        /// The only hosts that a sender takes, by name; all of them, unless fewer are asked for.
        pub hosts: Vec<String> = Vec::new(),
        /// Starts a sender with those who are there.
        pub start: Option<Start> = None,
        /// A receiver ends when the first sender turns it away, gives up or has started without it; if not, it waits
        /// for the next.
        pub once: bool = false,
        /// What a receiver says of this host to those who ask who listens ([`census`](crate::census)); without it, it
        /// does not answer them.
        pub about: Option<About> = None,
        /// Decides when a receiver may ask a sender; without it, whenever one invites.
        pub usher: Option<Arc<dyn Usher>> = None,
        /// Senders and sessions that a receiver has had, or will not have: their invitations say nothing to it.
        pub had: Vec<(MacAddr, u32)> = Vec::new(),
        /// What a receiver takes, and nothing else; without it, whatever comes.
        pub expects: Option<Expected> = None,
        /// How long to wait for the others; without it, a sender waits a minute, a receiver as long as it takes.
        pub max_wait: Option<Duration> = None,
        /// How the bytes travel.
        pub route: Route = Route::Auto,
        /// The switches and hosts; without it all hosts are taken to be on one switch.
        pub topology: Option<Topology> = None,
        /// What the network costs.
        pub calibration: Option<Calibration> = None,
        /// Whether a sender without a calibration measures for up to 50 ms before it starts.
        pub probe: bool = true,
        /// The protocol of a cast.
        pub preset: Preset = Preset::Default,
        /// With [`Preset::PushPull`]: so many bytes of a message are pushed, in as few frames as carry them (all others
        /// are as long as these); without it 860, as in the paper.
        pub push_bytes: Option<u64> = None,
        /// The engine's numbers, in place of the preset's; the size of the buffer is decided by the interface's MTU.
        pub tuning: Option<Tuning> = None,
        /// Decide how to send and end there; receivers wait on for a sender.
        pub dry_run: bool = false,
        /// What receivers are told of the bytes: the name of a file, say.
        pub source: String = String::new(),
        /// What the bytes are.
        pub content: ContentKind = ContentKind::Stream,
        /// How many bytes a sender's reader has, if that is known; other than so many are an error.
        pub size: Option<u64> = None,
        /// Room for the bytes at a receiver: a sender with more is turned away.
        pub free_bytes: u64 = u64::MAX,
        /// The least time between two reports of [`Progress::Moved`].
        pub progress_every: Duration = Duration::from_millis(100),
        /// How long who is silent, or makes no progress, is waited for; also this host's interface, if it is away.
        pub timing: Timing = Timing::default(),
        /// Whether a receiver that comes after the start takes part; it finishes after the others.
        pub late: bool = false,
        /// What becomes of a receiver that holds up the others.
        pub on_slow: OnSlow = OnSlow::Demote,
        /// How much each host may send, the sender and receivers that hand on; without it, as much as its link takes.
        pub rate: Option<RateLimit> = None,
        /// How long the whole may take; without it, as long as it takes.
        pub time_limit: Option<Duration> = None,
        /// Ends the session before its time.
        pub cancel: Cancel = Cancel::new(),
        /// Told what another process is to say if this one ends without a word.
        pub last_words: Option<LastWords> = None,
        /// Told what happens: see [`on_progress`](Options::on_progress).
        pub progress: Option<Callback> = None,
    }
}

/// What is told what happens.
#[derive(Clone)]
pub struct Callback(Arc<dyn Fn(Progress<'_>) + Send + Sync>);

impl fmt::Debug for Callback {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Callback")
    }
}

impl Options {
    /// The usual ones.
    pub fn new() -> Options {
        Options::default()
    }

    /// Sends as soon as so many receivers are there, and not to fewer.
    pub fn receivers(mut self, count: usize) -> Options {
        (self.receivers, self.min_receivers) = (Some(count), None);
        self
    }

    /// Tells `callback` what happens. It is called by the thread that runs the session and must not block.
    pub fn on_progress(mut self, callback: impl Fn(Progress<'_>) + Send + Sync + 'static) -> Options {
        self.progress = Some(Callback(Arc::new(callback)));
        self
    }

    pub(super) fn tell(&self, progress: Progress<'_>) {
        if let Some(Callback(callback)) = &self.progress {
            callback(progress);
        }
    }

    /// A root's configuration, with the buffer of `port`, whose ring was made for it.
    ///
    /// # Errors
    /// If the engine cannot run on the numbers asked for, nobody is waited for, or a name is too long.
    pub(super) fn root_config(
        &self,
        station: &Station,
        session: u32,
        (form, selects): (Form, bool),
        port: &Tuning,
    ) -> Result<RootConfig, Error> {
        let numbers = self.tuning.clone().unwrap_or_else(|| self.preset.tuning());
        let mut tuning = Tuning { feed: port.feed.clone(), ..numbers };
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
            probe: self.probe,
            // The loop's thread alone: others read ahead and compute digests meanwhile.
            processors: Some(processors(thread_time)),
            dry_run: self.dry_run,
            topology: self.topology.clone(),
            late: self.late,
            on_slow: self.on_slow,
            rate: self.rate.as_ref().map(RateLimit::rate),
            timing: self.timing,
            tuning,
            ..RootConfig::new(station.clone(), session, &self.source)
        };
        config.check_names()?;
        Ok(config)
    }

    /// Whom a sender waits for, and how long; `None` if it was not told.
    fn wanted(&self) -> Option<Wanted> {
        let named = Some(self.hosts.len()).filter(|&hosts| hosts > 0);
        // The hosts named are all there can be.
        let at_most = |count: usize| named.map_or(count, |hosts| count.min(hosts));
        let enough = self.receivers.map(at_most).or(named);
        let on_demand = self.start.as_ref().map(|_| 1);
        let at_least = self.min_receivers.map(at_most).or(enough).or(on_demand)?;
        let by_user = enough.is_none() && self.min_receivers.is_none();
        let wait = if by_user { Wanted::FOREVER } else { DEFAULT_WAIT };
        Some(Wanted { at_least, enough, patience: self.max_wait.unwrap_or(wait) })
    }

    /// A receiver's configuration.
    pub(super) fn receiver_config(
        &self,
        station: &Station,
        [nonce, secret]: [u64; 2],
        (form, holds): (Form, bool),
        port: &Tuning,
    ) -> ReceiverConfig {
        ReceiverConfig {
            free_bytes: self.free_bytes,
            form,
            holds,
            patience: self.max_wait,
            once: self.once,
            processors: Some(processors(thread_time)),
            by_leave: self.usher.is_some(),
            had: self.had.clone(),
            expects: match &self.expects {
                Some(Expected::Name(name)) => Some(name.clone()),
                _ => None,
            },
            secret,
            about: self.about.clone(),
            timing: self.timing,
            tuning: port.clone(),
            ..ReceiverConfig::new(station.clone(), nonce)
        }
    }
}

/// This computer's for those who measure; `time` tells what a process or thread has had of them.
pub fn processors(time: fn() -> Duration) -> Processors {
    Processors::new(time, host::computer(), host::cores())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ethbcast_transport::Policy;

    #[test]
    fn a_protocol_leaves_the_buffer_as_large_as_the_ring() {
        let station = Station::new("g", "n0", MacAddr::new(2, 0, 0, 0, 0, 1), 1500);
        let port = Tuning::default().with_feed_frames(256);
        let tuning = |preset| {
            let config =
                Options { preset, ..Options::new().receivers(1) }.root_config(&station, 1, (Form::Plain, false), &port);
            config.expect("a preset's numbers are right").tuning
        };
        let paper = tuning(Preset::Paper);
        assert_eq!((paper.policy, paper.window.max_frames, paper.feed.frames), (Policy::InOrderOnly, 16, 256));
        assert_eq!(tuning(Preset::Default), port);
        assert_eq!(tuning(Preset::PushPull), Tuning::push_pull().with_feed_frames(256));
    }

    #[test]
    fn bytes_are_pushed_in_as_few_frames_as_carry_them() {
        let station = Station::new("g", "n0", MacAddr::new(2, 0, 0, 0, 0, 1), 1500);
        let pushed = |preset, push_bytes| {
            let options = Options { preset, push_bytes, ..Options::new().receivers(1) };
            let config = options.root_config(&station, 1, (Form::Plain, false), &Tuning::default());
            let cast = config.expect("a preset's numbers are right").tuning.cast;
            cast.push_frames.zip(cast.push_bytes)
        };
        let pulled = [None, Some(0), Some(1468), Some(1469)].map(|bytes| pushed(Preset::PushPull, bytes));
        assert_eq!(
            pulled,
            [Some((1, 860)), Some((1, 0)), Some((1, 1468)), Some((2, 1469))],
            "the paper's, unless told"
        );
        assert_eq!(pushed(Preset::Paper, Some(860)), None, "nothing is pushed");
    }

    #[test]
    fn a_number_that_the_engine_cannot_run_on_is_named() {
        let station = Station::new("g", "n0", MacAddr::new(2, 0, 0, 0, 0, 1), 1500);
        let mut wrong = Tuning::default();
        wrong.window.min_frames = 0;
        let options = Options { tuning: Some(wrong), ..Options::new() };
        let error = options
            .root_config(&station, 1, (Form::Plain, false), &Tuning::default())
            .expect_err("no frame would be on its way");
        assert!(error.to_string().starts_with("window.min_frames = "), "{error}");
        assert!(matches!(error, Error::Tuning(_)));
    }

    #[test]
    fn a_sender_says_for_whom_it_waits_and_how_long() {
        let station = Station::new("g", "n0", MacAddr::new(2, 0, 0, 0, 0, 1), 1500);
        let config = |options: &Options| options.root_config(&station, 1, (Form::Plain, false), &Tuning::default());
        let wanted =
            |options: Options| config(&options).map(|config| config.wanted).expect("the usual numbers are right");
        assert!(matches!(config(&Options::new()), Err(Error::ForWhom)));
        assert_eq!(wanted(Options::new().receivers(7)), Wanted::exactly(7));
        let patience = Duration::from_secs(3);
        let least = Options { min_receivers: Some(2), max_wait: Some(patience), ..Options::new() };
        assert_eq!(wanted(least.clone()), Wanted { at_least: 2, enough: None, patience });
        let both = Options { receivers: Some(7), ..least };
        assert_eq!(wanted(both), Wanted { at_least: 2, enough: Some(7), patience });
        let hosts = Options { hosts: ["n1", "n2"].map(str::to_owned).into(), ..Options::new() };
        assert_eq!(wanted(hosts.clone()), Wanted::exactly(2));
        assert_eq!(wanted(hosts.receivers(7)), Wanted::exactly(2), "there are no more");
        let by_user = wanted(Options { start: Some(Start::new()), ..Options::new() });
        assert_eq!(by_user, Wanted { at_least: 1, enough: None, patience: Wanted::FOREVER });
    }

    #[test]
    fn names_that_do_not_fit_are_refused_and_not_cut() {
        let station = |host: &str, mtu_bytes| Station::new("g", host, MacAddr::new(2, 0, 0, 0, 0, 1), mtu_bytes);
        let check = |host_bytes, source_bytes, mtu_bytes| {
            let options = Options { source: "s".repeat(source_bytes), ..Options::new().receivers(1) };
            let config = options.root_config(
                &station(&"h".repeat(host_bytes), mtu_bytes),
                1,
                (Form::Plain, false),
                &Tuning::default(),
            );
            config.map(drop).map_err(|error| error.to_string())
        };
        assert_eq!((check(255, 255, 1500), check(255, 255, 576)), (Ok(()), Ok(())));
        let text = check(2, 256, 1500).expect_err("too long");
        assert!(text.contains("256 bytes") && text.contains("255"), "{text}");
        assert!(check(256, 2, 1500).is_err());
    }
}
