//! What a session is told.

use super::{Cancel, Progress};
use crate::Preset;
use crate::session::{ReceiverConfig, RootConfig, Route, Station, Wanted};
use ethbcast_planning::model::Calibration;
use ethbcast_planning::topology::Topology;
use ethbcast_transport::wire::EtherType;
use ethbcast_transport::{Tuning, TuningError, with_defaults};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How long a sender waits for receivers unless it is told otherwise.
const DEFAULT_WAIT: Duration = Duration::from_secs(60);

with_defaults! {
    /// How to send or receive. [`Options::new`] is right for one Ethernet interface, hosts with names of their own, and
    /// one receiver.
    #[derive(Clone, Debug)]
    pub struct Options {
        /// The interface; without it, the only Ethernet interface that is up.
        pub interface: Option<String> = None,
        /// This host's name in reports and topologies; without it, `$ETHBCAST_HOST`, the network namespace's name or
        /// the hostname.
        pub host: Option<String> = None,
        /// The EtherType; all hosts of a group must use the same.
        pub ether_type: EtherType = EtherType::DEFAULT,
        /// The MTU to send with, in bytes; without it, the interface's.
        pub mtu_bytes: Option<u32> = None,
        /// How many receivers a sender needs.
        pub receivers: usize = 1,
        /// Whether it starts as soon as that many are there; if not, it takes as many more as come while it waits.
        pub exactly: bool = true,
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
        /// The engine's numbers, in place of the preset's; the size of the buffer is decided by the interface's MTU.
        pub tuning: Option<Tuning> = None,
        /// Decide how to send and end there; receivers wait on for a sender.
        pub dry_run: bool = false,
        /// What receivers are told of the bytes: the name of a file, say.
        pub source: String = String::new(),
        /// How many bytes a sender's reader has, if that is known; other than so many are an error.
        pub size: Option<u64> = None,
        /// Room for the bytes at a receiver: a sender with more is turned away.
        pub free_bytes: u64 = u64::MAX,
        /// The least time between two reports of [`Progress::Moved`].
        pub progress_every: Duration = Duration::from_millis(100),
        /// How long this host's interface may be away before that is an error.
        pub outage_limit: Duration = Duration::from_secs(30),
        /// Ends the session before its time.
        pub cancel: Cancel = Cancel::new(),
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
        (self.receivers, self.exactly) = (count, true);
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
    /// If the engine cannot run on the numbers asked for.
    pub(super) fn root_config(
        &self,
        station: &Station,
        session: u32,
        port: &Tuning,
    ) -> Result<RootConfig, TuningError> {
        let numbers = self.tuning.clone().unwrap_or_else(|| self.preset.tuning());
        let tuning = Tuning { feed: port.feed.clone(), ..numbers };
        tuning.check()?;
        let patience = self.max_wait.unwrap_or(DEFAULT_WAIT);
        Ok(RootConfig {
            size: self.size,
            wanted: Wanted { at_least: self.receivers, enough: self.exactly.then_some(self.receivers), patience },
            route: self.route.clone(),
            calibration: self.calibration.clone(),
            probe: self.probe,
            dry_run: self.dry_run,
            topology: self.topology.clone(),
            tuning,
            ..RootConfig::new(station.clone(), session, &self.source)
        })
    }

    /// A receiver's configuration.
    pub(super) fn receiver_config(&self, station: &Station, nonce: u64, port: &Tuning) -> ReceiverConfig {
        let (free_bytes, patience, tuning) = (self.free_bytes, self.max_wait, port.clone());
        ReceiverConfig { free_bytes, patience, tuning, ..ReceiverConfig::new(station.clone(), nonce) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Error;
    use super::*;
    use ethbcast_transport::{MacAddr, Policy};

    #[test]
    fn a_protocol_leaves_the_buffer_as_large_as_the_ring() {
        let station = Station::new("g", "n0", MacAddr::new(2, 0, 0, 0, 0, 1), 1500);
        let port = Tuning::default().with_feed_frames(256);
        let tuning = |preset| {
            let config = Options { preset, ..Options::new() }.root_config(&station, 1, &port);
            config.expect("a preset's numbers are right").tuning
        };
        let paper = tuning(Preset::Paper);
        assert_eq!((paper.policy, paper.window.max_frames, paper.feed.frames), (Policy::InOrderOnly, 16, 256));
        assert_eq!(tuning(Preset::Default), port);
        assert_eq!(tuning(Preset::PushPull), Tuning::push_pull().with_feed_frames(256));
    }

    #[test]
    fn a_number_that_the_engine_cannot_run_on_is_named() {
        let station = Station::new("g", "n0", MacAddr::new(2, 0, 0, 0, 0, 1), 1500);
        let mut wrong = Tuning::default();
        wrong.window.min_frames = 0;
        let options = Options { tuning: Some(wrong), ..Options::new() };
        let error = options.root_config(&station, 1, &Tuning::default()).expect_err("no frame would be on its way");
        assert!(error.to_string().starts_with("window.min_frames = "), "{error}");
        assert!(matches!(Error::from(error), Error::Tuning(_)));
    }

    #[test]
    fn a_number_of_receivers_is_exact_or_the_least() {
        let station = Station::new("g", "n0", MacAddr::new(2, 0, 0, 0, 0, 1), 1500);
        let wanted = |options: Options| {
            options.root_config(&station, 1, &Tuning::default()).expect("the usual numbers are right").wanted
        };
        assert_eq!(wanted(Options::new().receivers(7)), Wanted::exactly(7));
        let patience = Duration::from_secs(3);
        let least = wanted(Options { receivers: 2, exactly: false, max_wait: Some(patience), ..Options::new() });
        assert_eq!(least, Wanted { at_least: 2, enough: None, patience });
    }
}
