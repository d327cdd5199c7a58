//! Common types of streams: receivers, message boundaries, frames in flight and counters.

use crate::feed::Feed;
use crate::wire::{Flags, MacAddr, Peer, Rank};

/// Remote readers of this host's feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outlet {
    /// Children, each by unicast, in sending order; none for a leaf.
    Lanes(Vec<Peer>),
    /// The receivers of a cast, all at once through the group address.
    Cast {
        /// The group address.
        group: MacAddr,
        /// Receivers that acknowledge to this host: all of them, or the first level of the ack
        /// tree.
        listeners: Vec<Peer>,
    },
    /// Receivers of the same cast that acknowledge to this one; it sends them repairs and nothing
    /// else.
    RepairChildren(Vec<Peer>),
}

impl Outlet {
    pub(super) fn peers(&self) -> &[Peer] {
        let (Outlet::Lanes(peers)
        | Outlet::Cast {
            listeners: peers, ..
        }
        | Outlet::RepairChildren(peers)) = self;
        peers
    }

    pub(super) fn without_peers(&self) -> Outlet {
        match self {
            Outlet::Lanes(_) => Outlet::Lanes(Vec::new()),
            Outlet::Cast { group, .. } => Outlet::Cast {
                group: *group,
                listeners: Vec::new(),
            },
            Outlet::RepairChildren(_) => Outlet::RepairChildren(Vec::new()),
        }
    }
}

/// Boundary after a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// Middle of a message: more follows.
    #[default]
    None,
    /// End of a message whose consumption needs no report of its own; later reports include it.
    Quiet,
    /// End of a message. The frame is sent without waiting for its segment to fill, and
    /// [`Stream::consumed`](super::Stream::consumed) soon reports when every application has
    /// consumed it.
    Message,
    /// End of the stream.
    Stream,
}

impl Ending {
    pub(super) fn flags(self) -> Flags {
        match self {
            Ending::None => Flags::default(),
            Ending::Quiet => Flags::FLUSH,
            Ending::Message => Flags::FLUSH.with(Flags::REPORT),
            Ending::Stream => Flags::LAST,
        }
    }
}

/// Frames sent to a remote reader for the first time, all below `next`, and those in flight, as far
/// as is known here.
///
/// Whenever a frame leaves, `in_flight` is at most `window`; a window that has just been cut may be
/// smaller. `window` is `u64::MAX` if only the reader's credit bounds the flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct Flight {
    pub rank: Rank,
    pub next: u64,
    pub in_flight: u64,
    pub window: u64,
}

summed! {
    /// Counters of one stream; all in frames.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct StreamStats {
        /// Data frames sent for the first time.
        pub data_sent: u64,
        /// Data frames sent again, and parity frames sent instead.
        pub data_resent: u64,
        /// Parity frames among `data_resent`.
        pub parity_sent: u64,
        /// Acknowledgements sent.
        pub acks_sent: u64,
        /// Acknowledgements among `acks_sent` that reported a loss.
        pub nacks_sent: u64,
        /// Heartbeats sent.
        pub heartbeats_sent: u64,
        /// Data frames received and stored, or brought back by parity frames.
        pub data_received: u64,
        /// Frames among `data_received` that came as a repeat or by parity: the first copy was
        /// lost.
        pub data_repaired: u64,
        /// Frames among `data_received` that parity recovered.
        pub data_recovered: u64,
        /// Parity frames received and kept.
        pub parity_received: u64,
        /// Acknowledgements received and used.
        pub acks_received: u64,
        /// Heartbeats received.
        pub heartbeats_received: u64,
        /// Data frames that had already arrived, and parity frames of complete blocks.
        pub duplicates: u64,
        /// Data frames beyond the credit.
        pub beyond_credit: u64,
        /// Data frames dropped because they were out of order (strict go-back-n only).
        pub out_of_order_dropped: u64,
        /// Acknowledgements for frames or stamps that were never sent.
        pub forged_acks: u64,
        /// Frames of this stream from a host that is neither parent nor child.
        pub non_members: u64,
        /// Frames whose body did not parse or did not fit.
        pub malformed: u64,
    }
}

summed! {
    /// Bytes of one stream's structures at this moment.
    ///
    /// The feed has payload slots (the retransmission buffer) and bookkeeping per slot: lengths,
    /// arrivals, readers at each position. The stamps are those of a cast's transmissions, with its
    /// queue of repairs, or arrival stamps where a receiver repairs for others. A reader has
    /// position, cursor, credit and round trip, and a lane also a window and stamps. The repairs
    /// are the queued ones, holes reported by receivers and stamps of repairs by unicast; the
    /// stream includes its message ends.
    ///
    /// Trees of the standard library do not report their size: for those it is an upper bound.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    #[doc(hidden)]
    pub struct Memory {
        pub payload_bytes: usize,
        pub slots_bytes: usize,
        pub stamps_bytes: usize,
        pub readers_bytes: usize,
        pub repairs_bytes: usize,
        pub stream_bytes: usize,
    }
}

#[doc(hidden)]
impl Memory {
    pub(super) fn of_feed(feed: &Feed) -> Memory {
        Memory {
            payload_bytes: feed.payloads_memory_bytes(),
            slots_bytes: feed.slots_memory_bytes(),
            readers_bytes: feed.readers_memory_bytes(),
            ..Memory::default()
        }
    }

    /// Returns the bytes allocated once, however many readers there are.
    pub fn buffer_bytes(&self) -> usize {
        self.payload_bytes + self.slots_bytes + self.stamps_bytes + self.stream_bytes
    }

    pub fn added_bytes(&self) -> usize {
        self.readers_bytes + self.repairs_bytes
    }

    pub fn total_bytes(&self) -> usize {
        self.buffer_bytes() + self.added_bytes()
    }
}

/// Returns the most that a standard library's tree (`BTreeMap`, `BTreeSet`) of `entries` takes.
///
/// Its nodes have room for 11 entries, a parent and two counts; all but the root hold at least 5
/// (Bayer and McCreight 1972). A node above the leaves has 12 edges more, and at least 6 children.
pub(super) fn tree_bytes(entries: usize, entry_bytes: usize) -> usize {
    if entries == 0 {
        return 0;
    }
    let nodes = entries.div_ceil(5);
    let inner = if nodes == 1 && entries <= 11 {
        0
    } else {
        nodes.div_ceil(6)
    };
    nodes * (11 * entry_bytes + 16) + inner * 12 * size_of::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{Cable, HostSettings, Network, RandomFaults, Simulation, host_mac};
    use crate::stream::{Ending, Outlet, Stream};
    use crate::wire::{EtherType, Guard, Identity, Peer, Rank, StreamId, group_mac};
    use crate::{Alone, Instant, Tuning};
    use std::time::Duration;

    const PAYLOAD_BYTES: usize = 1468;

    fn peer(host: usize) -> Peer {
        Peer {
            rank: Rank(host as u16),
            mac: host_mac(host),
        }
    }

    fn identity(host: usize) -> Identity {
        Identity {
            session: 9,
            stream: StreamId(1),
            rank: Rank(host as u16),
            mac: host_mac(host),
            ether_type: EtherType::DEFAULT,
            guard: Guard::Plain,
        }
    }

    fn cast(receivers: usize, payload_bytes: usize) -> Stream {
        let outlet = Outlet::Cast {
            group: group_mac("memory"),
            listeners: (1..=receivers).map(peer).collect(),
        };
        Stream::origin(identity(0), payload_bytes, &outlet, Tuning::default())
    }

    fn channel(receiver: usize) -> Stream {
        Stream::origin(
            identity(0),
            PAYLOAD_BYTES,
            &Outlet::Lanes(vec![peer(receiver)]),
            Tuning::default(),
        )
    }

    fn peak_added_bytes(receivers: usize, frames: u64, faults: RandomFaults) -> usize {
        let short_payload_bytes = 64;
        let settings = HostSettings {
            groups: vec![group_mac("memory")],
            ..HostSettings::default()
        };
        let network = Network::star(receivers + 1, Cable::GIGABIT, &settings);
        let receiver = |host| {
            let leaf = Outlet::Lanes(Vec::new());
            Stream::receiver(
                identity(host),
                short_payload_bytes,
                peer(0),
                &leaf,
                Tuning::default(),
            )
        };
        let root = std::iter::once(cast(receivers, short_payload_bytes));
        let machines = root
            .chain((1..=receivers).map(receiver))
            .map(Alone::new)
            .collect();
        let mut simulation = Simulation::new(&network, machines, faults);
        let (mut pushed, mut peak) = (0, 0);
        let outcome = simulation.run(
            Instant::START + Duration::from_secs(60),
            |host, machine, now| {
                let stream = &mut machine.part;
                if host == 0 {
                    let ending = |pushed| {
                        if pushed + 1 == frames {
                            Ending::Stream
                        } else {
                            Ending::None
                        }
                    };
                    while pushed < frames && stream.push(b"frame", ending(pushed)) {
                        pushed += 1;
                    }
                    peak = peak.max(stream.memory().added_bytes());
                }
                while stream.peek().is_some() {
                    stream.consume(now);
                }
                None
            },
        );
        assert!(outcome.is_quiet(), "{outcome:?}");
        peak
    }

    #[test]
    fn a_receiver_costs_the_root_of_a_cast_less_than_4_kib_beside_the_buffer() {
        for receivers in [1, 7, 127, 1023] {
            let memory = cast(receivers, PAYLOAD_BYTES).memory();
            assert_eq!(memory.payload_bytes, 4096 * PAYLOAD_BYTES);
            assert!(
                memory.added_bytes() <= receivers * 4096,
                "{receivers}: {memory:?}"
            );
            assert!(
                memory.added_bytes() >= receivers * 100,
                "{receivers}: {memory:?}"
            );
        }
    }

    #[test]
    fn a_receiver_costs_no_more_memory_at_one_percent_loss_everywhere() {
        for (receivers, frames) in [(1, 20_000), (16, 10_000), (127, 5000)] {
            let peak = peak_added_bytes(receivers, frames, RandomFaults::new(3).loss(0.01));
            assert!(
                peak <= receivers * 4096,
                "{receivers} receivers: {peak} bytes"
            );
        }
    }

    #[test]
    fn a_receiver_costs_no_more_memory_behind_a_cable_that_loses_a_third() {
        for (receivers, frames) in [(1, 20_000), (16, 10_000)] {
            let peak = peak_added_bytes(
                receivers,
                frames,
                RandomFaults::new(3).loss(0.01).loss_at(1, 0.3),
            );
            assert!(
                peak <= receivers * 4096,
                "{receivers} receivers: {peak} bytes"
            );
        }
    }

    #[test]
    fn a_repair_child_costs_as_much_as_a_listener_and_the_moments_of_arrival_once() {
        let repairs = |count: usize| {
            let outlet = Outlet::RepairChildren((2..2 + count).map(peer).collect());
            Stream::receiver(
                identity(1),
                PAYLOAD_BYTES,
                peer(0),
                &outlet,
                Tuning::default(),
            )
            .memory()
        };
        assert!(repairs(16).added_bytes() <= 16 * 4096, "{:?}", repairs(16));
        assert_eq!(repairs(16).stamps_bytes, 4096 * 4);
        assert_eq!(repairs(16).buffer_bytes(), repairs(8).buffer_bytes());
    }

    #[test]
    fn a_cast_to_128_hosts_saves_98_percent_of_one_buffer_per_channel() {
        let shared = cast(127, PAYLOAD_BYTES).memory().total_bytes();
        // One at a time: together they would take three quarters of a gigabyte.
        let channels: usize = (1..=127)
            .map(|receiver| channel(receiver).memory().total_bytes())
            .sum();
        assert!(shared * 100 <= channels * 2, "{shared} of {channels} bytes");
    }

    #[test]
    fn each_slot_and_each_child_takes_the_same_and_nothing_else_does() {
        let lanes = |slots: u64, children: usize| {
            let outlet = Outlet::Lanes((1..=children).map(peer).collect());
            Stream::origin(
                identity(0),
                64,
                &outlet,
                Tuning::default().with_feed_frames(slots),
            )
            .memory()
        };
        let [four, eight, sixteen] = [4, 8, 16].map(|children| lanes(64, children).added_bytes());
        assert_eq!((eight, sixteen), (2 * four, 4 * four));
        assert_eq!(lanes(128, 4).slots_bytes, 2 * lanes(64, 4).slots_bytes);
        assert_eq!(lanes(128, 4).payload_bytes, 2 * 64 * 64);
        let messages = |count: usize| {
            let mut stream = Stream::origin(
                identity(0),
                64,
                &Outlet::Lanes(vec![peer(1)]),
                Tuning::default(),
            );
            (0..count)
                .for_each(|_| assert!(stream.push(b"message", Ending::Message), "there is room"));
            stream.memory().stream_bytes
        };
        assert_eq!(messages(0), size_of::<Stream>());
        assert_eq!(messages(40), size_of::<Stream>() + tree_bytes(40, 8));
    }

    #[test]
    fn total_memory_is_the_sum_of_its_parts() {
        let memory = Memory {
            payload_bytes: 2,
            slots_bytes: 3,
            stamps_bytes: 5,
            readers_bytes: 7,
            repairs_bytes: 11,
            stream_bytes: 13,
        };
        assert_eq!(
            (
                memory.buffer_bytes(),
                memory.added_bytes(),
                memory.total_bytes()
            ),
            (23, 18, 41)
        );
    }

    #[test]
    fn a_tree_of_many_entries_takes_at_least_its_entries_and_at_most_a_few_times_that() {
        assert_eq!((tree_bytes(0, 12), tree_bytes(1, 12)), (0, 148));
        assert_eq!(
            [5, 11, 31].map(|entries| tree_bytes(entries, 8)),
            [104, 3 * 104 + 96, 7 * 104 + 2 * 96]
        );
        for entries in [12, 100, 4096] {
            let bytes = tree_bytes(entries, 12);
            assert!(
                (entries * 12..entries * 60).contains(&bytes),
                "{entries} entries: {bytes} bytes"
            );
        }
    }
}
