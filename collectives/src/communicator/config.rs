//! What a member is told before it looks for the others, and how often it speaks.

use super::error::CommunicatorError;
use crate::measure::Processors;
use crate::membership::{LEAST_MTU_BYTES, MAX_GROUP_BYTES, Station};
use crate::{Preset, Route};
use ethbcast_planning::model::Calibration;
use ethbcast_planning::plan::file::Contention;
use ethbcast_planning::topology::Topology;
use ethbcast_transport::messages::Settings;
use ethbcast_transport::{Instant, Tuning};
use std::time::Duration;

/// The longest name of a host, in bytes.
pub const MAX_HOST_BYTES: usize = 128;
/// The most ranks: the list of all is kept and compared by each.
pub const MAX_RANKS: u16 = 4096;

/// The most slots of a feed. What a broadcast may run ahead of the slowest rank: 12 ms at 1 Gbit/s.
const FEED_FRAMES: u64 = 1024;
/// Signs of life and calls that a host hears in a second, from all others together.
const SIGNS_PER_SECOND: u32 = 640;
/// The least time between two signs of life of one member.
const LEAST_PERIOD: Duration = Duration::from_millis(100);
/// Periods of silence after which a member counts as gone: 1.5 s among up to 64 ranks.
const GONE_AFTER_PERIODS: u32 = 15;

/// What a member is told before it looks for the others.
#[derive(Clone, Debug)]
pub struct Config {
    /// The host, its interface and the group's name.
    pub station: Station,
    /// How many ranks there are to be.
    pub size: u16,
    /// Drawn at random by each run of a process.
    pub nonce: u64,
    /// The protocol's numbers.
    pub preset: Preset,
    /// Where the hosts are; the group's among them, by the names they join under. Without it, on one switch. What one
    /// rank is told of topology, calibration, route, casts and probe holds for all; if several are told, it must be the
    /// same.
    pub topology: Option<Topology>,
    /// What the network costs, if that is known. If neither that nor the topology is, every broadcast is cast.
    pub calibration: Option<Calibration>,
    /// Which way broadcasts take.
    pub route: Route,
    /// Whether a saved plan may use a cable of the topology for several senders at a time.
    pub contention: Contention,
    /// Whether broadcasts and allgathers may go by one frame to all; control messages always do.
    pub casts: bool,
    /// Whether rank 0 measures what the network costs once all are there, unless there is a calibration.
    pub probe: bool,
    /// This host's processors: then it is also measured what frames take them and another's.
    pub processors: Option<Processors>,
    /// When to give up waiting for the others.
    pub join_by: Option<Instant>,
    /// What the feeds of the streams of all ranks may take together, in bytes, for each way that broadcasts take; each
    /// has 64 slots at least. Memory is taken when a rank first broadcasts by a way.
    pub feed_bytes: u64,
}

impl Config {
    /// What `feed_bytes` is unless there is a reason: a feed of 1024 full frames for each of 44 ranks.
    pub const FEED_BYTES: u64 = 64 << 20;

    /// One of `size` ranks that waits for the others as long as it takes and casts every broadcast.
    pub fn new(station: Station, size: u16, nonce: u64) -> Config {
        let (preset, feed_bytes) = (Preset::Default, Config::FEED_BYTES);
        let (topology, calibration, route, contention) = (None, None, Route::Auto, Contention::Refused);
        let (casts, probe, processors, join_by) = (true, false, None, None);
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
            join_by,
            feed_bytes,
        }
    }

    /// Whether it says anything of the network or of the way, which then holds for all ranks.
    pub(super) fn describes_network(&self) -> bool {
        let Config { topology, calibration, route, casts, probe, .. } = self;
        topology.is_some() || calibration.is_some() || *route != Route::Auto || !casts || *probe
    }

    /// # Errors
    /// Names the first value that cannot be.
    pub(super) fn check(&self) -> Result<(), CommunicatorError> {
        let Station { group, host, mtu_bytes, .. } = &self.station;
        let names = [("group", group, MAX_GROUP_BYTES), ("host", host, MAX_HOST_BYTES)];
        if let Some((what, name, most)) =
            names.into_iter().find(|(_, name, most)| name.is_empty() || name.len() > *most)
        {
            return Err(CommunicatorError::Name { what, bytes: name.len(), most });
        }
        if !(1..=MAX_RANKS).contains(&self.size) {
            return Err(CommunicatorError::Size { size: self.size, most: MAX_RANKS });
        }
        if *mtu_bytes < LEAST_MTU_BYTES {
            return Err(CommunicatorError::Mtu { mtu_bytes: *mtu_bytes, least: LEAST_MTU_BYTES });
        }
        Ok(())
    }

    /// The numbers of messages, with room for those of collectives.
    pub(super) fn settings(&self) -> Settings {
        let mut settings = self.preset.settings();
        let ranks = usize::from(self.size);
        settings.send_messages += 2 * ranks;
        settings.receives += 2 * ranks;
        // Silence is found out by the missing signs of life.
        settings.silent_after = settings.silent_after.max(gone_after(self.size) * 2);
        settings
    }

    /// The numbers of streams, before those that depend on the number of receivers.
    pub(super) fn tuning(&self) -> Tuning {
        let mut tuning = self.preset.tuning().with_feed_frames(FEED_FRAMES);
        tuning.feed.bytes = self.feed_bytes / u64::from(self.size);
        tuning
    }
}

/// The time between two signs of life, and between two calls for the others.
pub(super) fn period(size: u16) -> Duration {
    LEAST_PERIOD.max(Duration::from_secs(1) * u32::from(size) / SIGNS_PER_SECOND)
}

/// The silence after which a member is asked alone whether it is there: what goes to all may not have come. It leaves
/// time for all in turn: an eighth of them in a period.
pub(super) fn asked_after(size: u16) -> Duration {
    gone_after(size) / 3
}

/// The silence after which a member counts as gone.
pub(super) fn gone_after(size: u16) -> Duration {
    period(size) * GONE_AFTER_PERIODS
}

#[cfg(test)]
mod tests {
    use super::*;
    use ethbcast_transport::MacAddr;

    #[test]
    fn the_engine_can_run_on_every_preset_in_whatever_room() {
        for preset in Preset::ALL {
            for (size, feed_bytes) in [(1, u64::MAX), (2, 0), (MAX_RANKS, 1)] {
                let station = Station::new("g", "n0", MacAddr::new(2, 0, 0, 0, 0, 1), 1500);
                let config = Config { preset, feed_bytes, ..Config::new(station, size, 1) };
                assert_eq!((config.tuning().check(), config.settings().tuning.check()), (Ok(()), Ok(())), "{config:?}");
            }
        }
    }

    #[test]
    fn signs_of_life_become_rarer_so_that_nobody_hears_more_than_it_can_take() {
        assert_eq!((period(2), gone_after(2)), (Duration::from_millis(100), Duration::from_millis(1500)));
        assert_eq!((period(64), period(640)), (Duration::from_millis(100), Duration::from_secs(1)));
    }
}
