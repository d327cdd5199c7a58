//! Configuration of a process in a communicator, and the intervals of its control messages.

use super::error::CommunicatorError;
use crate::keys::Keys;
use crate::measure::Processors;
use crate::membership::{MAX_GROUP_BYTES, MIN_MTU_BYTES, Station};
use crate::{Preset, Route};
use ethbcast_planning::model::Calibration;
use ethbcast_planning::plan::file::Contention;
use ethbcast_planning::topology::Topology;
use ethbcast_transport::messages::Settings;
use ethbcast_transport::{Instant, Tuning};
use std::sync::Arc;
use std::time::Duration;

/// Longest name of a host, in bytes.
pub const MAX_HOST_BYTES: usize = 128;
/// Largest number of ranks: each keeps and compares the list of all.
pub const MAX_RANKS: u16 = 4096;

/// Largest feed, in slots. A broadcast may be this far ahead of the slowest rank: 12 ms at 1
/// Gbit/s.
const FEED_FRAMES: u64 = 1024;
/// Keepalives and calls that a host receives per second from all others together.
const SIGNS_PER_SECOND: u32 = 640;
const MIN_PERIOD: Duration = Duration::from_millis(100);
/// Periods of silence after which a member counts as gone: 1.5 s among up to 64 ranks.
const SILENCE_LIMIT_PERIODS: u32 = 15;
/// Fewest such periods: two keepalives in a row may be lost, and a third be late.
const LEAST_SILENCE_PERIODS: u32 = 5;

/// Configuration of a member.
#[derive(Clone, Debug)]
pub struct Config {
    /// The host, its interface and the group's name.
    pub station: Station,
    /// Number of ranks in the group.
    pub size: u16,
    /// Random number of this run of the process.
    pub nonce: u64,
    /// Preset of protocol parameters.
    pub preset: Preset,
    /// Topology with the group's hosts, under the names they join with. Default: one switch. One
    /// rank's topology, calibration, route, casts and probe settings apply to all; ranks that set
    /// them must agree.
    pub topology: Option<Topology>,
    /// Measured network costs, if known. Without these and a topology, every broadcast is cast.
    pub calibration: Option<Calibration>,
    /// Route of broadcasts.
    pub route: Route,
    /// Whether a saved plan may use a cable of the topology for several senders at a time.
    pub contention: Contention,
    /// Whether broadcasts and allgathers may use broadcast frames. Control messages always do.
    pub casts: bool,
    /// Whether rank 0 measures the network costs once all ranks have joined, unless there is a
    /// calibration.
    pub probe: bool,
    /// Processors of this host. If set, the processor time of frames is measured, too.
    pub processors: Option<Processors>,
    /// Keys that authenticate all frames; without them, no frame is authenticated.
    pub keys: Option<Arc<Keys>>,
    /// Silence after which another rank counts as gone. Default: 15 keepalives, 1.5 s among up to
    /// 64 ranks.
    pub dead_after: Option<Duration>,
    /// Deadline for all ranks to join.
    pub join_by: Option<Instant>,
    /// Memory limit for the feeds of all ranks' streams, in bytes, for each route. Each feed has at
    /// least 64 slots. Memory is allocated when a rank first broadcasts on a route.
    pub feed_bytes: u64,
}

impl Config {
    /// Default of `feed_bytes`: 1024 full frames for each of 44 ranks.
    pub const FEED_BYTES: u64 = 64 << 20;

    /// Returns the configuration of one of `size` ranks that waits indefinitely for the others and
    /// casts every broadcast.
    pub fn new(station: Station, size: u16, nonce: u64) -> Config {
        let (preset, feed_bytes) = (Preset::Default, Config::FEED_BYTES);
        let (topology, calibration, route, contention) =
            (None, None, Route::Auto, Contention::Refused);
        let (casts, probe, processors, keys, dead_after, join_by) =
            (true, false, None, None, None, None);
        Config {
            station,
            size,
            nonce,
            preset,
            topology,
            calibration,
            route,
            contention,
            casts,
            probe,
            processors,
            keys,
            dead_after,
            join_by,
            feed_bytes,
        }
    }

    /// Returns the silence after which a member of `size` ranks counts as gone.
    pub(super) fn silence_limit(&self, size: u16) -> Duration {
        self.dead_after.unwrap_or_else(|| silence_limit(size))
    }

    pub(super) fn describes_network(&self) -> bool {
        let Config {
            topology,
            calibration,
            route,
            casts,
            probe,
            ..
        } = self;
        topology.is_some() || calibration.is_some() || *route != Route::Auto || !casts || *probe
    }

    pub(super) fn check(&self) -> Result<(), CommunicatorError> {
        let Station {
            group,
            host,
            mtu_bytes,
            ..
        } = &self.station;
        let names = [
            ("group", group, MAX_GROUP_BYTES),
            ("host", host, MAX_HOST_BYTES),
        ];
        if let Some((what, name, most)) = names
            .into_iter()
            .find(|(_, name, most)| name.is_empty() || name.len() > *most)
        {
            return Err(CommunicatorError::Name {
                what,
                bytes: name.len(),
                most,
            });
        }
        if !(1..=MAX_RANKS).contains(&self.size) {
            return Err(CommunicatorError::Size {
                size: self.size,
                most: MAX_RANKS,
            });
        }
        if *mtu_bytes < MIN_MTU_BYTES {
            return Err(CommunicatorError::Mtu {
                mtu_bytes: *mtu_bytes,
                least: MIN_MTU_BYTES,
            });
        }
        let least = period(self.size) * LEAST_SILENCE_PERIODS;
        if let Some(given) = self.dead_after.filter(|given| *given < least) {
            return Err(CommunicatorError::DeadAfter {
                given,
                size: self.size,
                least,
            });
        }
        Ok(())
    }

    pub(super) fn settings(&self) -> Settings {
        let mut settings = self.preset.settings();
        let ranks = usize::from(self.size);
        settings.send_messages += 2 * ranks;
        settings.receives += 2 * ranks;
        // Missing keepalives, not the mailbox, detect silence.
        settings.silent_after = settings.silent_after.max(self.silence_limit(self.size) * 2);
        settings
    }

    pub(super) fn tuning(&self) -> Tuning {
        let mut tuning = self.preset.tuning().with_feed_frames(FEED_FRAMES);
        tuning.feed.bytes = self.feed_bytes / u64::from(self.size);
        tuning
    }
}

pub(super) fn period(size: u16) -> Duration {
    MIN_PERIOD.max(Duration::from_secs(1) * u32::from(size) / SIGNS_PER_SECOND)
}

fn silence_limit(size: u16) -> Duration {
    period(size) * SILENCE_LIMIT_PERIODS
}

#[cfg(test)]
mod config_tests {
    use super::*;
    use ethbcast_transport::MacAddr;

    #[test]
    fn the_engine_can_run_on_every_preset_in_whatever_room() {
        for preset in Preset::ALL {
            for (size, feed_bytes) in [(1, u64::MAX), (2, 0), (MAX_RANKS, 1)] {
                let station = Station::new("g", "n0", MacAddr::new(2, 0, 0, 0, 0, 1), 1500);
                let config = Config {
                    preset,
                    feed_bytes,
                    ..Config::new(station, size, 1)
                };
                assert_eq!(
                    (config.tuning().check(), config.settings().tuning.check()),
                    (Ok(()), Ok(())),
                    "{config:?}"
                );
            }
        }
    }

    #[test]
    fn silence_counts_after_some_missing_signs_at_the_least() {
        let station = Station::new("g", "n0", MacAddr::new(2, 0, 0, 0, 0, 1), 1500);
        let after = |millis, size| {
            let dead_after = Some(Duration::from_millis(millis));
            Config {
                dead_after,
                ..Config::new(station.clone(), size, 1)
            }
            .check()
            .map_err(|error| error.to_string())
        };
        assert_eq!(
            (after(500, 64), after(5000, 640), after(60_000, 2)),
            (Ok(()), Ok(()), Ok(()))
        );
        let said = after(499, 64).expect_err("too short");
        assert_eq!(
            said,
            "64 ranks cannot be missed after 0.499 s of silence: give dead-after 0.5 or more"
        );
        assert!(after(4999, 640).is_err());
    }

    #[test]
    fn signs_of_life_become_rarer_with_the_number_of_members() {
        assert_eq!(
            (period(2), silence_limit(2)),
            (Duration::from_millis(100), Duration::from_millis(1500))
        );
        assert_eq!(
            (period(64), period(640)),
            (Duration::from_millis(100), Duration::from_secs(1))
        );
    }
}
