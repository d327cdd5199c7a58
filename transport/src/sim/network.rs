//! Description of a simulated network: switches, hosts, and the cables between them (a tree).

use crate::MacAddr;
use crate::wire::ETHERNET_BYTES;
use std::time::Duration;
use thiserror::Error;

/// Shortest frame of Ethernet, without its check sequence.
pub(super) const MINIMUM_BYTES: usize = 60;

/// Identifies a switch of a [`Network`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchId(u32);

impl SwitchId {
    /// Returns its number, in the order of [`Network::add_switch`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Identifies a cable of a [`Network`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CableId(u32);

impl CableId {
    /// Returns its number, in the order in which hosts and links were added.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Reason why a network cannot be built.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NetworkError {
    #[error(
        "switches {first} and {second} are connected already, and flooded frames would circle for ever: leave this \
         link out"
    )]
    Loop { first: usize, second: usize },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Switch(u32),
    Host(u32),
}

type Connection = ([Node; 2], Cable);

/// Bytes for which frames take time on a cable.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lengths {
    overhead_bytes: usize,
    long: Option<(usize, usize)>,
}

impl Lengths {
    pub(super) fn of(self, frame_bytes: usize) -> usize {
        let own_bytes = frame_bytes + self.overhead_bytes;
        match self.long {
            Some((least_bytes, counted_bytes)) if frame_bytes >= least_bytes => {
                own_bytes.max(counted_bytes)
            }
            _ => own_bytes,
        }
    }
}

#[derive(Clone, Debug)]
struct Attached {
    settings: HostSettings,
    cable: CableId,
}

with_defaults! {
    /// A network under construction.
    #[derive(Clone, Debug)]
    pub struct Network {
        switches: Vec<SwitchSettings> = Vec::new(),
        hosts: Vec<Attached> = Vec::new(),
        connections: Vec<Connection> = Vec::new(),
        mtu_bytes: usize = 1500,
        // Preamble and delimiter 8, checksum 4, gap 12 (IEEE 802.3).
        lengths: Lengths = Lengths { overhead_bytes: 24, long: None },
        /// A connected switch for each switch, or itself at the root of its tree (union-find).
        joined: Vec<u32> = Vec::new(),
    }
}

impl Network {
    /// Creates an empty network with MTU 1500, where each frame occupies 24 bytes more on the wire
    /// than its own length.
    pub fn new() -> Self {
        Network::default()
    }

    /// Creates `hosts` equal hosts on one switch.
    pub fn star(hosts: usize, cable: Cable, settings: &HostSettings) -> Self {
        Network::line(1, hosts, cable, settings)
    }

    /// Creates `switches` switches in a row with `hosts_each` equal hosts on each and equal cables;
    /// hosts are numbered switch by switch.
    pub fn line(switches: usize, hosts_each: usize, cable: Cable, settings: &HostSettings) -> Self {
        let mut network = Network::new();
        let mut previous = None;
        for _ in 0..switches {
            let switch = network.add_switch(SwitchSettings::default());
            if let Some(previous) = previous {
                network
                    .connect(previous, switch, cable)
                    .expect("a new switch is not connected to anything");
            }
            for _ in 0..hosts_each {
                network.add_host(switch, cable, settings.clone());
            }
            previous = Some(switch);
        }
        network
    }

    /// Sets the longest payload of a frame; the machines get a buffer of 14 bytes more.
    ///
    /// # Panics
    /// If it is below 46, the shortest payload of Ethernet.
    pub fn with_mtu_bytes(mut self, mtu_bytes: usize) -> Self {
        assert!(
            mtu_bytes + ETHERNET_BYTES >= MINIMUM_BYTES,
            "an MTU of {mtu_bytes} bytes is below the shortest payload of Ethernet: take 46 or more"
        );
        self.mtu_bytes = mtu_bytes;
        self
    }

    /// Sets the bytes that a frame occupies on the wire beside its own (default 24); 0 counts frame
    /// bytes only.
    pub fn with_overhead_bytes(mut self, overhead_bytes: usize) -> Self {
        self.lengths.overhead_bytes = overhead_bytes;
        self
    }

    /// Makes frames of `least_bytes` and more take the time of `counted_bytes`, overhead included,
    /// unless they are longer: short frames of data stand for full ones, and fill less memory.
    pub fn with_long_frames(mut self, least_bytes: usize, counted_bytes: usize) -> Self {
        self.lengths.long = Some((least_bytes, counted_bytes));
        self
    }

    /// Gives all switches added so far the same settings.
    pub fn with_switches(mut self, settings: SwitchSettings) -> Self {
        self.switches.fill(settings);
        self
    }

    /// Adds a switch.
    pub fn add_switch(&mut self, settings: SwitchSettings) -> SwitchId {
        let switch = SwitchId(number(self.switches.len()));
        self.switches.push(settings);
        self.joined.push(switch.0);
        switch
    }

    /// Adds a host on `switch` and returns its index; [`cable_of`](Network::cable_of) returns its
    /// cable.
    ///
    /// # Panics
    /// If `switch` belongs to another network or a ring has no slot.
    pub fn add_host(&mut self, switch: SwitchId, cable: Cable, settings: HostSettings) -> usize {
        assert!(
            switch.index() < self.switches.len(),
            "{switch:?} belongs to another network: add it to this one first"
        );
        assert!(
            settings.nic_transmit_frames > 0 && settings.nic_receive_frames > 0,
            "a ring without slots carries nothing: give both rings at least one"
        );
        let host = number(self.hosts.len());
        let cable = self.add_cable(Node::Host(host), Node::Switch(switch.0), cable);
        self.hosts.push(Attached { settings, cable });
        host as usize
    }

    /// Adds a cable between two switches.
    ///
    /// # Errors
    /// [`NetworkError::Loop`] if they are connected already, directly or through others.
    ///
    /// # Panics
    /// If one belongs to another network.
    pub fn connect(
        &mut self,
        first: SwitchId,
        second: SwitchId,
        cable: Cable,
    ) -> Result<CableId, NetworkError> {
        let (first_root, second_root) = (self.tree_of(first.0), self.tree_of(second.0));
        if first_root == second_root {
            return Err(NetworkError::Loop {
                first: first.index(),
                second: second.index(),
            });
        }
        self.joined[first_root as usize] = second_root;
        Ok(self.add_cable(Node::Switch(first.0), Node::Switch(second.0), cable))
    }

    /// Returns all switches, in the order in which they were added.
    pub fn switches(&self) -> impl Iterator<Item = SwitchId> + use<> {
        (0..number(self.switches.len())).map(SwitchId)
    }

    /// Returns the number of hosts.
    pub fn hosts(&self) -> usize {
        self.hosts.len()
    }

    /// Returns the address of a host.
    pub fn mac_of(&self, host: usize) -> MacAddr {
        self.hosts[host]
            .settings
            .mac
            .unwrap_or_else(|| host_mac(host))
    }

    /// Returns the settings of a host for modification.
    pub fn host_mut(&mut self, host: usize) -> &mut HostSettings {
        &mut self.hosts[host].settings
    }

    /// Returns the cable between a host and its switch; its forward direction leaves the host.
    pub fn cable_of(&self, host: usize) -> CableId {
        self.hosts[host].cable
    }

    pub(super) fn settings_of(&self, host: usize) -> &HostSettings {
        &self.hosts[host].settings
    }

    pub(super) fn connections(&self) -> &[Connection] {
        &self.connections
    }

    pub(super) fn switch_settings(&self) -> impl Iterator<Item = &SwitchSettings> {
        self.switches.iter()
    }

    pub(super) fn queue_limit(&self, from: Node) -> QueueLimit {
        match from {
            Node::Switch(switch) => self.switches[switch as usize].port_queue,
            Node::Host(host) => {
                QueueLimit::Frames(self.settings_of(host as usize).nic_transmit_frames)
            }
        }
    }

    pub(super) fn frame_bytes(&self) -> usize {
        ETHERNET_BYTES + self.mtu_bytes
    }

    pub(super) fn lengths(&self) -> Lengths {
        self.lengths
    }

    fn add_cable(&mut self, from: Node, to: Node, cable: Cable) -> CableId {
        let id = CableId(number(self.connections.len()));
        self.connections.push(([from, to], cable));
        id
    }

    fn tree_of(&mut self, mut switch: u32) -> u32 {
        while self.joined[switch as usize] != switch {
            let next = self.joined[switch as usize];
            self.joined[switch as usize] = self.joined[next as usize];
            switch = next;
        }
        switch
    }
}

/// A cable; both directions are independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cable {
    rate_bits_per_second: u64,
    backward_bits_per_second: u64,
    delay: Duration,
    burst_bytes: u64,
}

impl Cable {
    /// 1 Gbit/s, 500 ns: some metres of copper and the transceivers at both ends.
    pub const GIGABIT: Cable = Cable {
        rate_bits_per_second: 1_000_000_000,
        backward_bits_per_second: 1_000_000_000,
        delay: Duration::from_nanos(500),
        burst_bytes: 0,
    };

    /// Creates a cable with a rate and a propagation delay.
    ///
    /// # Panics
    /// If the rate is zero: nothing would ever arrive.
    pub fn new(rate_bits_per_second: u64, delay: Duration) -> Self {
        assert!(
            rate_bits_per_second > 0,
            "a cable of 0 bit/s carries nothing: give it a rate, or cut it"
        );
        Cable {
            rate_bits_per_second,
            backward_bits_per_second: rate_bits_per_second,
            delay,
            burst_bytes: 0,
        }
    }

    /// Sets another rate for the backward direction, which leads to a host, or to the first of two
    /// switches.
    ///
    /// # Panics
    /// If the rate is zero: nothing would ever arrive.
    pub fn with_backward_rate(mut self, bits_per_second: u64) -> Self {
        assert!(
            bits_per_second > 0,
            "a cable of 0 bit/s carries nothing: give it a rate, or cut it"
        );
        self.backward_bits_per_second = bits_per_second;
        self
    }

    /// Makes the cable a token bucket: after a pause `burst_bytes` pass in no time, and only then
    /// the rate limits.
    ///
    /// A shaper such as Linux's tbf behaves like this, while a real cable needs time for every bit.
    pub fn with_burst_bytes(mut self, burst_bytes: u64) -> Self {
        self.burst_bytes = burst_bytes;
        self
    }

    /// Returns bits per second forward and backward, counting preamble, checksum and gap.
    pub fn rates_bits_per_second(self) -> [u64; 2] {
        [self.rate_bits_per_second, self.backward_bits_per_second]
    }

    /// Returns the propagation delay.
    pub fn delay(self) -> Duration {
        self.delay
    }

    /// Returns the bytes that pass in no time after a pause; 0 for a real cable.
    pub fn burst_bytes(self) -> u64 {
        self.burst_bytes
    }
}

/// Capacity of an output queue, including the frame being sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLimit {
    /// Number of frames.
    Frames(usize),
    /// Number of bytes, header and padding included; an empty queue takes any one frame.
    Bytes(u64),
}

/// Storm control: the flooded frames (broadcast, multicast, unknown destination) that a switch
/// takes from one port; the rest is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StormControl {
    /// Sustained rate.
    pub frames_per_second: u64,
    /// Frames that may come at once after a pause.
    pub burst_frames: u64,
}

/// Flow control by pause frames (IEEE 802.3 annex 31B): a long queue pauses the ports that feed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PauseFrames {
    /// Queue length, in frames, from which pause frames are sent.
    pub high_frames: usize,
    /// Time for which the other end of the cable stops after each pause frame.
    pub lasts: Duration,
}

with_defaults! {
    /// Settings of a switch.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SwitchSettings {
        /// Queue in front of each output port; tail drop.
        // 512 frames of 1500 bytes: the 0.75 MB that a small store-and-forward switch can give one
        // congested port.
        pub port_queue: QueueLimit = QueueLimit::Frames(512),
        /// Policer behind each input port; none by default.
        pub storm_control: Option<StormControl> = None,
        /// Bytes in all ports' queues together, in addition to each queue's own limit; a flooded
        /// frame counts once. By default each port has its own buffer.
        pub shared_bytes: Option<u64> = None,
        /// Thresholds at which a long output queue pauses the input ports that feed it; none by
        /// default.
        pub pause: Option<PauseFrames> = None,
    }

    /// Settings of a host.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct HostSettings {
        /// Address; `None` for [`host_mac`] of its index.
        pub mac: Option<MacAddr> = None,
        /// Accepted group addresses; broadcast only if listed here.
        pub groups: Vec<MacAddr> = Vec::new(),
        /// Slots of the transmit ring, including the frame being sent.
        // The default of Linux drivers for a 1 Gbit/s card.
        pub nic_transmit_frames: usize = 256,
        /// Slots of the receive ring, including the frame being processed.
        pub nic_receive_frames: usize = 256,
        /// Time that the process needs for a received frame before the machine sees it.
        pub per_frame_cost: Duration = Duration::ZERO,
        /// Time that the process needs for each byte received, in picoseconds.
        pub per_byte_cost_picos: u64 = 0,
        /// Time that the process needs to send a frame; it does nothing else meanwhile.
        pub per_sent_frame_cost: Duration = Duration::ZERO,
        /// Time that the process needs for each byte sent, in picoseconds.
        pub per_sent_byte_cost_picos: u64 = 0,
        /// Delay after a frame before an idle process notices it; later arrivals wait in the ring.
        /// The delay models an interrupt and a context switch, interrupt moderation, or a driver
        /// that sleeps through arrivals.
        pub wake_up: Duration = Duration::ZERO,
        /// Granularity of timers: they fire only at multiples of it, as with the kernel's timer
        /// slack and a busy scheduler.
        pub timer_slack: Duration = Duration::ZERO,
        /// Thresholds at which a long receive ring pauses the switch; none by default.
        pub pause: Option<PauseFrames> = None,
    }
}

pub(super) fn number(index: usize) -> u32 {
    u32::try_from(index).expect("memory ends long before four billion hosts")
}

/// Returns the default address of host number `host`: locally administered, the index in its last
/// four bytes.
pub fn host_mac(host: usize) -> MacAddr {
    let [a, b, c, d] = number(host).to_be_bytes();
    MacAddr::new(0x02, 0xEB, a, b, c, d)
}
