//! Bounds on a host's resources: frames in flight within the window, memory within its formula, and
//! views in which no two hosts send over one cable.

use ethbcast_collectives::session::{Blocks, ControlMemory, View};
use ethbcast_planning::plan::{Plan, Via, check};
use ethbcast_planning::topology::Topology;
use ethbcast_transport::stream::{Flight, Memory};

/// Bytes that a slot takes beside its payload, in a feed and in a cast's stamps and repairs.
const SLOT_BYTES: usize = 64;
/// Bytes of one reader: of a cast, or of a unicast child without its stamps.
const READER_BYTES: usize = 4096;
const STREAM_BYTES: usize = 4096;

/// Control messages queued at a host: a fixed number, and one for each host.
const SPARE_FRAMES: usize = 32;
const FRAMES_EACH: usize = 4;
/// Entries kept about non-members: a fixed number, and one for each host. An address has a few, of
/// one sort each.
const SPARE_ENTRIES: usize = 24;
const ENTRIES_EACH: usize = 6;
/// Incomplete views, and bytes of each: a fixed number, and one for each member.
const MAX_VIEWS: usize = 4;
const SPARE_VIEW_BYTES: usize = 256;
const MEMBER_BYTES: usize = 64;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InFlight {
    acknowledgements: u64,
    flights: Vec<Flight>,
}

impl InFlight {
    pub fn of(blocks: &Blocks) -> Vec<InFlight> {
        let one = |stats: ethbcast_transport::stream::StreamStats, flights| InFlight {
            acknowledgements: stats.acks_received + stats.forged_acks,
            flights,
        };
        blocks.streams().map(|stream| one(stream.stats(), stream.flights())).collect()
    }

    /// Checks that no reader was sent more than its window between two observations.
    /// Acknowledgements are excluded: they may show that less has arrived than assumed. Otherwise
    /// only departing frames increase the number in flight.
    pub fn check(&self, before: &InFlight) -> Result<(), String> {
        if self.acknowledgements != before.acknowledgements {
            return Ok(());
        }
        let known = |flight: &Flight| before.flights.iter().find(|known| known.rank == flight.rank).copied();
        let mut grown = self.flights.iter().filter_map(|flight| Some((flight, known(flight)?)));
        let wrong = |&(flight, known): &(&Flight, Flight)| {
            flight.in_flight > known.in_flight && flight.next >= known.next && flight.in_flight > known.window
        };
        match grown.find(wrong) {
            None => Ok(()),
            Some((flight, known)) => Err(format!("{flight:?} after {known:?}: more is in flight than the window")),
        }
    }
}

/// Checks the memory of a host's streams against its formula (docs/protocol/limits.md §12). `most` holds
/// the highest number of remote readers of each stream: their places are kept.
pub fn check_memory(blocks: &Blocks, most: &mut Vec<usize>) -> Result<(), String> {
    most.resize(blocks.streams().count(), 0);
    blocks.streams().zip(most).try_for_each(|(stream, most)| {
        let (slots, payload_bytes) = (stream.feed().slots() as usize, stream.payload_bytes());
        *most = stream.cursors().len().max(*most);
        judge_memory(&stream.memory(), (slots, payload_bytes), *most)
    })
}

fn judge_memory(memory: &Memory, (slots, payload_bytes): (usize, usize), readers: usize) -> Result<(), String> {
    let buffer = slots * (payload_bytes + SLOT_BYTES) + STREAM_BYTES;
    // A unicast reader has stamps of its own; a cast's readers share theirs, which the buffer
    // counts.
    let each = READER_BYTES + if memory.stamps_bytes == 0 { slots * SLOT_BYTES } else { 0 };
    let fits = memory.payload_bytes == slots * payload_bytes
        && memory.buffer_bytes() <= buffer
        && memory.added_bytes() <= (readers + 1) * each;
    if fits { Ok(()) } else { Err(format!("{slots} slots of {payload_bytes}, {readers} readers: {memory:?}")) }
}

pub fn check_control(memory: &ControlMemory, hosts: usize) -> Result<(), String> {
    let fits = memory.waiting_frames <= SPARE_FRAMES + hosts * FRAMES_EACH
        && memory.stranger_entries <= SPARE_ENTRIES + hosts * ENTRIES_EACH
        && memory.view_bytes <= MAX_VIEWS * (SPARE_VIEW_BYTES + hosts * MEMBER_BYTES);
    if fits { Ok(()) } else { Err(format!("{hosts} hosts, and beside the streams {memory:?}")) }
}

/// Checks that no two members in place send over one cable, if the plan's kind promises that.
/// `host_of` maps a rank to its host in the topology.
pub fn check_contention(view: &View, topology: &Topology, host_of: impl Fn(usize) -> usize) -> Result<(), String> {
    if !view.via.is_contention_free() {
        return Ok(());
    }
    let ranks: Vec<usize> = view.ranks().map(|rank| rank.index()).collect();
    let place = |rank: usize| ranks.iter().position(|&other| other == rank);
    let parent = |&rank: &usize| {
        let mut at = view.members[rank].parent?.index();
        while !view.members[at].is_in_place() {
            at = view.members[at].parent?.index();
        }
        place(at)
    };
    let parents: Vec<Option<usize>> = ranks.iter().map(parent).collect();
    // A member that takes over another's children may have more than the plan's kind allows: the
    // shape is not judged.
    let plan = Plan::from_parents(Via::Latency, 0, &parents).map_err(|why| why.to_string())?;
    let report = check(topology, &plan, &ranks.iter().map(|&rank| host_of(rank)).collect::<Vec<usize>>());
    let good = report.is_spanning() && report.is_contention_free();
    if good { Ok(()) } else { Err(format!("view {} is not free of contention: {}", view.epoch, report.contention())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ethbcast_collectives::session::verified::ChunkSize;
    use ethbcast_collectives::session::{ContentKind, Standing, ViewMember};
    use ethbcast_transport::Policy;
    use ethbcast_transport::sim::host_mac;
    use ethbcast_transport::wire::Rank;

    fn in_flight(acknowledgements: u64, in_flight: u64, window: u64) -> InFlight {
        let flight = Flight { rank: Rank(1), next: in_flight, in_flight, window };
        InFlight { acknowledgements, flights: vec![flight] }
    }

    #[test]
    fn one_frame_more_than_the_window_is_seen_and_a_window_that_was_cut_is_not() {
        assert_eq!(in_flight(3, 32, 32).check(&in_flight(3, 30, 32)), Ok(()));
        assert_eq!(in_flight(3, 30, 20).check(&in_flight(3, 30, 20)), Ok(()));
        assert_eq!(in_flight(4, 33, 32).check(&in_flight(3, 32, 32)), Ok(()), "an acknowledgement counts anew");
        assert!(in_flight(3, 33, 32).check(&in_flight(3, 32, 32)).is_err());
        assert!(in_flight(3, 33, 40).check(&in_flight(3, 32, 32)).is_err(), "it has grown since");
    }

    #[test]
    fn memory_beyond_the_formula_is_seen() {
        let mut memory = Memory::default();
        (memory.payload_bytes, memory.slots_bytes, memory.readers_bytes) = (64 * 268, 64 * 12, 3000);
        assert_eq!(judge_memory(&memory, (64, 268), 1), Ok(()));
        memory.payload_bytes += 268;
        assert!(judge_memory(&memory, (64, 268), 1).is_err(), "a slot too many");
        memory.payload_bytes -= 268;
        memory.repairs_bytes = 2 * (READER_BYTES + 64 * SLOT_BYTES);
        assert!(judge_memory(&memory, (64, 268), 1).is_err(), "repairs without end");
    }

    #[test]
    fn queues_out_of_proportion_to_the_hosts_are_seen() {
        let kept = ControlMemory { waiting_frames: 20, waiting_bytes: 2000, stranger_entries: 60, view_bytes: 4 * 700 };
        assert_eq!(check_control(&kept, 8), Ok(()));
        assert!(check_control(&ControlMemory { waiting_frames: 65, ..kept }, 8).is_err(), "repeated without end");
        assert!(check_control(&ControlMemory { stranger_entries: 73, ..kept }, 8).is_err(), "an entry for each JOIN");
        assert!(check_control(&ControlMemory { view_bytes: 4 * 800, ..kept }, 8).is_err(), "views without end");
    }

    #[test]
    fn a_chain_that_crosses_a_cable_twice_is_seen_and_one_whose_relay_has_gone_is_not() {
        let text = "schema = 1\n[[switch]]\nname = \"s0\"\nhosts = \"n0,n2\"\nlinks = [\"s1\"]\n\
                    [[switch]]\nname = \"s1\"\nhosts = \"n1,n3\"\n";
        let topology = Topology::parse(text, "test").expect("a topology");
        let chain = |order: [usize; 4]| {
            let parent =
                |rank: usize| Some(Rank(order[order.iter().position(|&at| at == rank)?.checked_sub(1)?] as u16));
            let members = (0..4).map(|rank| ViewMember {
                host: format!("n{rank}"),
                mac: host_mac(rank),
                nonce: 0,
                parent: parent(rank),
                order: 0,
                standing: Standing::InPlace,
            });
            View {
                epoch: 1,
                via: Via::Chain,
                segment_frames: 1,
                policy: Policy::HolesAllowed,
                push_frames: None,
                payload_bytes: 268,
                size: None,
                content: ContentKind::default(),
                chunk: ChunkSize::default(),
                selective: false,
                members: members.collect(),
                rate: None,
            }
        };
        let judge = |view: &View| check_contention(view, &topology, |rank| rank);
        let mut good = chain([0, 2, 1, 3]);
        assert_eq!(judge(&good), Ok(()));
        good.members[2].standing = Standing::Gone;
        assert_eq!(judge(&good), Ok(()));
        // From n0 to n1, back to n2, and to n3: both n0 and n2 send over the cable between the switches.
        assert!(judge(&chain([0, 1, 2, 3])).is_err_and(|why| why.contains("not free of contention")));
    }
}
