//! Planning how the blocks of a call travel. It is arithmetic over the group's network description,
//! with equal results at each rank.

use crate::communicator::signature::{Operation, Signature};
use ethbcast_planning::model::{self, Broadcast, Situation};
use ethbcast_planning::plan::{BlockGroup, Plan, Via, farthest_first, parcels};
use ethbcast_transport::wire::Rank;

/// Frames that may meet in front of a host at once: half of what a small switch buffers per port.
pub(in crate::communicator) const MEETING_FRAMES: u64 = 256;
/// Limit of a message's frames that arrive before the receiver grants them: see `btp2_bytes` of
/// [`Settings`](ethbcast_transport::messages::Settings).
const UNASKED_FRAMES: u64 = 13;

/// Bytes of a collective's message beside its blocks: the header of a push, and the signature.
const HEAD_BYTES: u64 = 32 + Signature::BYTES as u64;

/// Blocks that travel in one message between this rank and another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::communicator) struct Bundle {
    pub peer: Rank,
    pub blocks: Vec<Rank>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::communicator) struct Passage {
    pub arrivals: Vec<Bundle>,
    pub departures: Vec<Bundle>,
    pub is_long: bool,
}

#[derive(Clone, Debug)]
pub(in crate::communicator) struct BlockTree {
    plan: Plan,
    /// Ranks but the root, in the order in which their blocks pass.
    order: Vec<usize>,
    most: usize,
    is_gather: bool,
}

impl BlockTree {
    /// Returns the tree of least predicted time; of equal ones the one without relays, since a
    /// relay that calls late would delay others. Returns `None` if the situation's root is no
    /// member.
    pub(super) fn of(operation: Operation, situation: &Situation) -> Option<BlockTree> {
        let (ranks, is_gather) = (situation.members.len(), operation == Operation::Gather);
        let (most, unasked) = parcels_of(situation);
        // Frames that reach the root unrequested and at once must find room.
        let is_flat = !is_gather || unasked * (ranks as u64 - 1) <= MEETING_FRAMES;
        // If every block needs its own frames, a tree saves nothing.
        let is_tree = most > 1 || !is_flat;
        let candidates = [(Via::Flat, 1, is_flat), (Via::Binary, most, is_tree)].into_iter().filter(|way| way.2);
        let priced = candidates.filter_map(|(via, most, _)| {
            let plan = model::price(via, situation).ok()?.plan;
            Some((model::scatter(&plan, most, situation), plan, most))
        });
        let (_, plan, most) = priced.reduce(|best, next| if next.0 < best.0 { next } else { best })?;
        let mut order = farthest_first(&plan, situation.topology, situation.members);
        if is_gather {
            order.reverse();
        }
        Some(BlockTree { plan, order, most, is_gather })
    }

    pub(super) fn passage(&self, rank: Rank, block_bytes: usize, payload_bytes: usize) -> Passage {
        let parcels = |rank: usize| parcels(&self.plan, &self.order, rank, self.most).into_iter();
        let bundle = |peer: usize, BlockGroup { ranks, .. }: BlockGroup| Bundle {
            peer: Rank(peer as u16),
            blocks: ranks.into_iter().map(|rank| Rank(rank as u16)).collect(),
        };
        let below = parcels(rank.index()).map(|parcel| bundle(parcel.child, parcel)).collect();
        let own = |parent| {
            parcels(parent).filter(|parcel| parcel.child == rank.index()).map(move |parcel| bundle(parent, parcel))
        };
        let above = self.plan.parent(rank.index()).into_iter().flat_map(own).collect();
        let is_long = HEAD_BYTES as usize + block_bytes > payload_bytes;
        match self.is_gather {
            true => Passage { arrivals: below, departures: above, is_long },
            false => Passage { arrivals: above, departures: below, is_long },
        }
    }
}

/// Returns how many blocks fit one frame, and how many frames of a block are sent unrequested.
fn parcels_of(situation: &Situation) -> (usize, u64) {
    let (ranks, block_bytes) = (situation.members.len(), situation.size_bytes.unwrap_or_default());
    let room = situation.frame_payload_bytes.saturating_sub(HEAD_BYTES);
    let most = room.checked_div(block_bytes).map_or(ranks, |blocks| blocks.clamp(1, ranks as u64) as usize);
    (most, (HEAD_BYTES + block_bytes).div_ceil(situation.frame_payload_bytes).min(UNASKED_FRAMES))
}

/// Whether an allgather by casts of each rank takes no more time than round a ring. Policed casts
/// have to be faster by the margin that they need against trees; untried ones need no such margin.
pub(super) fn casts_are_best(situation: &Situation) -> bool {
    let model::Allgather { casts_seconds, ring_seconds, .. } = model::allgather(situation);
    let casts_seconds = match situation.calibration.broadcast() {
        Broadcast::Policed(_) => model::competing_seconds(Via::Cast, casts_seconds, situation.calibration),
        Broadcast::Untried | Broadcast::FullRate | Broadcast::Slower(_) => casts_seconds,
    };
    situation.members.len() as u64 <= MEETING_FRAMES && casts_seconds <= ring_seconds
}

#[cfg(test)]
mod tests {
    use super::*;
    use ethbcast_planning::model::Calibration;
    use ethbcast_planning::topology::Topology;

    #[test]
    fn policed_casts_have_to_take_half_as_long_as_the_ring() {
        let topology = Topology::single_switch((0..8).map(|host| format!("n{host}"))).expect("hosts");
        let members: Vec<usize> = (0..8).collect();
        let wins = |calibration: &Calibration| {
            let situation = Situation {
                topology: &topology,
                root_host: 0,
                members: &members,
                size_bytes: Some(100_000),
                frame_payload_bytes: 1468,
                calibration,
            };
            let model::Allgather { casts_seconds, ring_seconds } = model::allgather(&situation);
            (casts_seconds / ring_seconds, casts_are_best(&situation))
        };
        let free = Calibration::assumed(100_000_000, 1468);
        assert!(wins(&free).1, "nobody has tried them");
        let policed = |rate| wins(&free.clone().with_cast_max(rate).expect("a rate"));
        let (ratio, best) = policed(9_000);
        assert!((0.6..1.0).contains(&ratio) && !best, "{ratio} times the ring");
        assert!(!policed(100).1);
    }
}
