//! What a run has cost: frames and bytes per cable and host, and every lost frame with its reason.

summed! {
    /// Frames that got no further, by reason.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Drops {
        /// Lost because the run's [`Faults`](super::Faults) said so.
        pub fault: u64,
        /// The queue of a switch's output port was full.
        pub port_queue: u64,
        /// The receive ring of a host's network card was full.
        pub nic_ring: u64,
        /// Not for this host, or for an address behind the port it came from.
        pub filter: u64,
        /// More flooded frames than the ingress port's storm control allows.
        pub storm_control: u64,
        /// To or from a crashed host, or over a cut cable.
        pub dead: u64,
    }
}

impl Drops {
    /// Lost frames, whatever the reason.
    pub fn total(&self) -> u64 {
        self.harmful() + self.filter
    }

    /// Lost frames that somebody wanted: all but those filtered away.
    pub fn harmful(&self) -> u64 {
        self.fault + self.port_queue + self.nic_ring + self.storm_control + self.dead
    }
}

/// One direction of a cable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectionStats {
    /// Frames taken into the queue in front of this direction.
    pub frames: u64,
    /// Their bytes, header and padding included, preamble, checksum and gap not.
    pub bytes: u64,
    /// The most frames that ever waited or were being sent at once.
    pub queue_peak_frames: usize,
    /// Frames lost in front of this direction (port queue), on it (dead) or at its far end (filter, storm control).
    pub drops: Drops,
}

impl DirectionStats {
    /// What has come since an earlier copy of these counters, except that the peak is that of the whole time.
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

/// Both directions of a cable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CableStats {
    /// From the host to its switch, or from the first switch of a pair to the second.
    pub forward: DirectionStats,
    /// The other way.
    pub backward: DirectionStats,
}

summed! {
    /// One host.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct HostStats {
        /// Frames the machine wrote into the transmit ring.
        pub sent_frames: u64,
        /// Their bytes, header and padding included.
        pub sent_bytes: u64,
        /// Frames handed to the machine.
        pub received_frames: u64,
        /// Their bytes, header and padding included.
        pub received_bytes: u64,
        /// Frames lost at this host's network card.
        pub drops: Drops,
    }
}

/// A copy of all counters of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// By [`CableId::index`](super::CableId::index).
    pub cables: Vec<CableStats>,
    /// By host index.
    pub hosts: Vec<HostStats>,
    /// All drops at hosts and on cables together.
    pub drops: Drops,
    /// Frames all machines wrote.
    pub sent_frames: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Frames handed to all machines.
    pub received_frames: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Pause frames that switches and hosts have sent; they cost nothing on the wire.
    pub pauses: u64,
    /// Events the simulation has gone through.
    pub events: u64,
}

impl Stats {
    /// Adds up the totals.
    pub(super) fn sum(cables: Vec<CableStats>, hosts: Vec<HostStats>, pauses: u64, events: u64) -> Stats {
        let HostStats { sent_frames, sent_bytes, received_frames, received_bytes, drops } =
            hosts.iter().fold(HostStats::default(), |sum, &host| sum + host);
        let drops = cables.iter().fold(drops, |sum, cable| sum + cable.forward.drops + cable.backward.drops);
        Stats { cables, hosts, drops, sent_frames, sent_bytes, received_frames, received_bytes, pauses, events }
    }
}
