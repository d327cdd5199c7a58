//! Results of a simulation run: why it ended, counts of frames and bytes, and lost frames by
//! reason.

use crate::{Instant, Timer};

summed! {
    /// Frames that were lost, by reason.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Drops {
        /// Lost by the run's [`Faults`](super::Faults).
        pub fault: u64,
        /// The queue of a switch's output port was full.
        pub port_queue: u64,
        /// The receive ring of a host's network card was full.
        pub nic_ring: u64,
        /// Frames not for this host, or for an address behind the port they came from.
        pub filter: u64,
        /// Flooded frames above the ingress port's storm control.
        pub storm_control: u64,
        /// Frames to or from a crashed host, or over a cut cable.
        pub dead: u64,
    }
}

impl Drops {
    /// Returns all lost frames.
    pub fn total(&self) -> u64 {
        self.harmful() + self.filter
    }

    /// Returns the lost frames that were wanted: all but the filtered ones.
    pub fn harmful(&self) -> u64 {
        self.fault + self.port_queue + self.nic_ring + self.storm_control + self.dead
    }
}

/// Counters of one direction of a cable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectionStats {
    /// Frames queued for this direction.
    pub frames: u64,
    /// Bytes of these frames, header and padding included, preamble, checksum and gap not.
    pub bytes: u64,
    /// Most frames waiting or being sent at once.
    pub queue_peak_frames: usize,
    /// Frames lost in front of this direction (port queue), on it (dead) or at its far end (filter,
    /// storm control).
    pub drops: Drops,
}

impl DirectionStats {
    /// Returns the difference to an earlier copy of these counters, except that the peak is that of
    /// the whole run.
    ///
    /// # Panics
    /// If `earlier` is not earlier.
    pub fn since(&self, earlier: &DirectionStats) -> DirectionStats {
        DirectionStats {
            frames: self.frames - earlier.frames,
            bytes: self.bytes - earlier.bytes,
            queue_peak_frames: self.queue_peak_frames,
            drops: self.drops - earlier.drops,
        }
    }
}

/// Counters of both directions of a cable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CableStats {
    /// Direction from the host to its switch, or from the first switch of a pair to the second.
    pub forward: DirectionStats,
    /// Opposite direction.
    pub backward: DirectionStats,
}

summed! {
    /// Counters of a host.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct HostStats {
        /// Frames that the machine wrote into the transmit ring.
        pub sent_frames: u64,
        /// Bytes of these frames, header and padding included.
        pub sent_bytes: u64,
        /// Frames passed to the machine.
        pub received_frames: u64,
        /// Bytes of these frames, header and padding included.
        pub received_bytes: u64,
        /// Frames lost at this host's network card.
        pub drops: Drops,
    }
}

/// Copy of all counters of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Indexed by [`CableId::index`](super::CableId::index).
    pub cables: Vec<CableStats>,
    /// Indexed by host.
    pub hosts: Vec<HostStats>,
    /// Drops at all hosts and cables.
    pub drops: Drops,
    /// Frames that all machines wrote.
    pub sent_frames: u64,
    /// Bytes of these frames.
    pub sent_bytes: u64,
    /// Frames passed to all machines.
    pub received_frames: u64,
    /// Bytes of these frames.
    pub received_bytes: u64,
    /// Pause frames that switches and hosts have sent; they occupy no time on the wire.
    pub pauses: u64,
    /// Events processed.
    pub events: u64,
}

impl Stats {
    pub(super) fn sum(
        cables: Vec<CableStats>,
        hosts: Vec<HostStats>,
        pauses: u64,
        events: u64,
    ) -> Stats {
        let HostStats {
            sent_frames,
            sent_bytes,
            received_frames,
            received_bytes,
            drops,
        } = hosts
            .iter()
            .fold(HostStats::default(), |sum, &host| sum + host);
        let drops = cables.iter().fold(drops, |sum, cable| {
            sum + cable.forward.drops + cable.backward.drops
        });
        Stats {
            cables,
            hosts,
            drops,
            sent_frames,
            sent_bytes,
            received_frames,
            received_bytes,
            pauses,
            events,
        }
    }
}

/// Reason why a run has ended.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a run that has not gone quiet has shown nothing yet"]
#[non_exhaustive]
pub enum Outcome {
    /// The run has quiesced: no frame in flight, no deadline, no appointment.
    Quiet { at: Instant },
    /// The next event is after the time limit of the run.
    TimeLimit { at: Instant },
    /// The limit set by [`Simulation::set_event_limit`](super::Simulation::set_event_limit) is
    /// reached.
    EventLimit { at: Instant },
    /// A host requests calls endlessly at the present time, so that time does not pass.
    LiveLock {
        at: Instant,
        host: usize,
        /// The machine's timer; `None` if the application requests the calls.
        why: Option<Timer>,
    },
}

impl Outcome {
    /// Whether nothing was left to do.
    pub fn is_quiet(&self) -> bool {
        matches!(self, Outcome::Quiet { .. })
    }
}
