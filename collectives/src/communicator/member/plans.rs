//! Broadcast trees of a communicator, computed identically at each rank, and the choice of the
//! fastest.

use super::way::{KARY, MessagePath, StreamName};
use crate::communicator::network::{Chosen, Network, SavedTree, most_ranks};
use crate::communicator::roster::Nodes;
use crate::communicator::signature::{Operation, Signature};
use ethbcast_planning::model::{
    Broadcast, Calibration, Choice, Quote, Situation, candidates, given, price,
};
use ethbcast_planning::plan::{
    BlockGroup, MIN_SEGMENT_BYTES, Plan, Via, farthest_first, grouped_blocks,
};
use ethbcast_planning::topology::{ASSUMED_RATE_BITS_PER_SECOND, Place, Topology};
use ethbcast_planning::{model, plan};
use ethbcast_transport::wire::Rank;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Limit of remembered decisions and plans: programs broadcast a few lengths again and again.
const REMEMBERED: usize = 64;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::communicator) struct TreePlace {
    pub parent: Option<Rank>,
    pub children: Vec<Rank>,
}

#[derive(Clone, Debug)]
pub(in crate::communicator) struct Plans {
    network: Arc<Network>,
    topology: Topology,
    calibration: Calibration,
    is_known: bool,
    are_hosts_shared: bool,
    members: Vec<usize>,
    payload_bytes: u64,
    segment_bytes: u64,
    made: BTreeMap<StreamName, Plan>,
    decided: BTreeMap<(Rank, usize), Decision>,
    block_trees: BTreeMap<(u8, Rank, usize), Option<BlockTree>>,
    exchanges: BTreeMap<usize, bool>,
    ascents: BTreeMap<(Option<Rank>, usize), Option<MessagePath>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::communicator) struct Decision {
    pub way: MessagePath,
    pub frame_bytes: usize,
}

impl Plans {
    pub(super) fn new(
        network: Arc<Network>,
        nodes: &Nodes,
        size: u16,
        payload_bytes: usize,
        segment_frames: u64,
    ) -> Plans {
        let payload_bytes = payload_bytes as u64;
        let assumed = || Calibration::assumed(ASSUMED_RATE_BITS_PER_SECOND, payload_bytes);
        let one_switch = || {
            let place = Place {
                switch: 0,
                rate: None,
                injection_ns: None,
            };
            nodes
                .topology(Vec::new(), &vec![place; usize::from(nodes.count())])
                .expect("a group has ranks")
        };
        Plans {
            topology: network.topology().cloned().unwrap_or_else(one_switch),
            calibration: network.calibration().cloned().unwrap_or_else(assumed),
            is_known: network.is_known(),
            are_hosts_shared: nodes.are_shared(),
            members: (0..usize::from(size)).collect(),
            payload_bytes,
            segment_bytes: segment_frames * payload_bytes,
            made: BTreeMap::new(),
            decided: BTreeMap::new(),
            block_trees: BTreeMap::new(),
            exchanges: BTreeMap::new(),
            ascents: BTreeMap::new(),
            network,
        }
    }

    fn size(&self) -> u16 {
        self.members.len() as u16
    }

    pub(in crate::communicator) fn blocks_are_cast(&mut self, block_bytes: usize) -> bool {
        if !self.network.casts() {
            return false;
        }
        if let Some(&known) = self.exchanges.get(&block_bytes) {
            return known;
        }
        let are_cast = casts_are_best(&self.situation(Rank::ROOT, block_bytes as u64));
        forget_one(&mut self.exchanges);
        log::info!(
            "blocks of {block_bytes} bytes go {}",
            if are_cast {
                "by a cast of each rank"
            } else {
                "round a ring"
            }
        );
        self.exchanges.insert(block_bytes, are_cast);
        are_cast
    }

    pub(in crate::communicator) fn passage(
        &mut self,
        rank: Rank,
        (operation, root): (Operation, Rank),
        block_bytes: usize,
    ) -> Passage {
        let (key, payload_bytes) = (
            (operation.code(), root, block_bytes),
            self.payload_bytes as usize,
        );
        if !self.block_trees.contains_key(&key) {
            let tree = BlockTree::of(operation, &self.situation(root, block_bytes as u64));
            forget_one(&mut self.block_trees);
            self.block_trees.insert(key, tree);
        }
        let tree = self.block_trees.get(&key).and_then(Option::as_ref);
        tree.map(|tree| tree.passage(rank, block_bytes, payload_bytes))
            .unwrap_or_default()
    }

    /// Returns all ranks along the switches in depth-first order. A ring over them uses every cable
    /// once in each direction.
    pub(in crate::communicator) fn line(&self) -> Vec<Rank> {
        let Some(chain) = self.plan(Rank::ROOT, MessagePath::Tree(Via::Chain)) else {
            return (0..self.size()).map(Rank).collect();
        };
        let next = |&rank: &usize| chain.children(rank).first().copied();
        std::iter::successors(Some(chain.root()), next)
            .map(|rank| Rank(rank as u16))
            .collect()
    }

    pub(super) fn set_calibration(&mut self, calibration: Calibration) {
        (self.calibration, self.is_known) = (calibration, true);
        self.made.clear();
        self.decided.clear();
        self.block_trees.clear();
        self.exchanges.clear();
        self.ascents.clear();
    }

    /// Returns the tree up which a reduction goes: that of a broadcast from `root`, in reverse. An
    /// allreduce has no root, and `None` if it goes round a ring.
    pub(in crate::communicator) fn ascent(
        &mut self,
        root: Option<Rank>,
        bytes: usize,
    ) -> Option<MessagePath> {
        if let Some(&known) = self.ascents.get(&(root, bytes)) {
            return known;
        }
        let top = root.unwrap_or(Rank::ROOT);
        let way = self.ascent_to(top, bytes);
        let is_ring = root.is_none() && self.size() > 2 && self.is_ring_best(top, way, bytes);
        let way = Some(way).filter(|_| !is_ring);
        forget_one(&mut self.ascents);
        self.ascents.insert((root, bytes), way);
        log::info!(
            "a reduction of {bytes} bytes goes {}",
            way.map_or("round a ring".to_owned(), |way| format!(
                "up by {}",
                self.via(way)
            ))
        );
        way
    }

    fn ascent_to(&mut self, root: Rank, bytes: usize) -> MessagePath {
        let frames = (bytes as u64).div_ceil(self.payload_bytes).max(1);
        let goes_up = |way: &MessagePath| match way {
            MessagePath::Cast => false,
            MessagePath::Blocks(via) => !via.is_scattered(),
            _ => true,
        };
        if let Some(way) = self.chosen(root, frames).filter(goes_up) {
            return way;
        }
        // Frames that reach the root from all ranks at once must find room.
        let is_flood = frames.min(UNASKED_FRAMES) * u64::from(self.size()) > MEETING_FRAMES;
        let ways = self.candidates(frames).into_iter().filter(goes_up);
        let ways: Vec<MessagePath> = ways
            .filter(|way| !(is_flood && *way == MessagePath::Tree(Via::Flat)))
            .collect();
        if ways.is_empty() {
            return MessagePath::Tree(Via::Chain);
        }
        self.best(root, bytes, ways).way
    }

    /// Whether round a ring an allreduce takes less time than up a tree and, by a broadcast, down
    /// again. A configured tree is always used.
    fn is_ring_best(&mut self, root: Rank, way: MessagePath, bytes: usize) -> bool {
        let frames = (bytes as u64).div_ceil(self.payload_bytes).max(1);
        if self.chosen(root, frames) == Some(way) {
            return false;
        }
        let block_bytes = (bytes as u64).div_ceil(self.size().into());
        let ring = 2.0 * model::allgather(&self.situation(root, block_bytes)).ring_seconds;
        let down = self.decide(root, bytes).way;
        let prices = [way, down].map(|way| self.price(root, way, bytes));
        let tree = prices
            .into_iter()
            .flatten()
            .map(|one| one.predicted_seconds);
        ring < tree.sum::<f64>() * PIECEWISE
    }

    fn chosen(&self, origin: Rank, frames: u64) -> Option<MessagePath> {
        match self.network.chosen() {
            Chosen::Via(via) => Some(MessagePath::of(*via, frames)),
            Chosen::Saved(saved) if saved.plan.root() == origin.index() => Some(MessagePath::Saved),
            Chosen::Saved(_) | Chosen::Auto => None,
        }
    }

    pub(super) fn network_among(&self, kept: &[usize]) -> Network {
        self.network.among(kept, Some(&self.calibration))
    }

    pub(super) fn admits(&self, name: StreamName) -> bool {
        let fits = |via: Via| self.size() <= most_ranks(via);
        let asked = |via: Via| matches!(self.network.chosen(), Chosen::Via(asked) if *asked == via);
        match name.way {
            MessagePath::Cast => true,
            MessagePath::Saved => self.saved(name.origin).is_some(),
            MessagePath::Latency(_) => fits(Via::Latency),
            MessagePath::Blocks(via) => fits(via),
            MessagePath::Tree(via @ (Via::ChainUnaware | Via::BinaryUnaware | Via::BinaryBest)) => {
                asked(via)
            }
            MessagePath::Tree(via) => fits(via),
        }
    }

    pub(super) fn place(&self, name: StreamName, rank: Rank) -> TreePlace {
        if let MessagePath::Blocks(via) = name.way
            && via.is_scattered()
        {
            return self.place_in_blocks(via, name, rank);
        }
        // A plan that was checked on receipt can be made.
        let Some(plan) = self.plan(name.origin, name.way) else {
            return TreePlace::default();
        };
        let plan = plan.trees()[usize::from(name.share)];
        TreePlace {
            parent: plan.parent(rank.index()).map(|parent| Rank(parent as u16)),
            children: plan
                .children(rank.index())
                .iter()
                .map(|&child| Rank(child as u16))
                .collect(),
        }
    }

    fn place_in_blocks(&self, via: Via, name: StreamName, rank: Rank) -> TreePlace {
        let (size, share) = (self.size(), usize::from(name.share));
        let steps = usize::from((rank.0 + size - name.origin.0) % size);
        let rank = |steps: usize| name.origin.ahead(steps as u16, size);
        let children = plan::block_children(via, size.into(), share, steps);
        TreePlace {
            parent: plan::block_parent(via, size.into(), share, steps).map(rank),
            children: children.into_iter().map(rank).collect(),
        }
    }

    pub(super) fn segment_frames(&self, name: StreamName) -> u64 {
        self.segment_bytes(name.origin, name.way)
            .div_ceil(self.payload_bytes)
    }

    fn segment_bytes(&self, origin: Rank, way: MessagePath) -> u64 {
        match (way, self.saved(origin)) {
            (MessagePath::Saved, Some(saved)) => saved.segment_bytes.min(self.segment_bytes),
            (way, _) if way.is_streamed() => self.payload_bytes,
            (MessagePath::Cast, _) => self.payload_bytes,
            _ => self.segment_bytes,
        }
    }

    fn saved(&self, origin: Rank) -> Option<&SavedTree> {
        match self.network.chosen() {
            Chosen::Saved(saved) if saved.plan.root() == origin.index() => Some(saved),
            _ => None,
        }
    }

    fn via(&self, way: MessagePath) -> Via {
        match (way, self.network.chosen()) {
            (MessagePath::Tree(KARY), Chosen::Via(kary @ Via::Kary(_))) => *kary,
            (MessagePath::Saved, Chosen::Saved(saved)) => saved.plan.via(),
            (MessagePath::Tree(via) | MessagePath::Blocks(via), _) => via,
            (MessagePath::Latency(_), _) => Via::Latency,
            (MessagePath::Cast | MessagePath::Saved, _) => Via::Cast,
        }
    }

    fn situation(&self, origin: Rank, size_bytes: u64) -> Situation<'_> {
        Situation {
            topology: &self.topology,
            root_host: origin.index(),
            members: &self.members,
            size_bytes: Some(size_bytes),
            frame_payload_bytes: self.payload_bytes,
            calibration: &self.calibration,
        }
    }

    fn plan(&self, origin: Rank, way: MessagePath) -> Option<Plan> {
        if let (MessagePath::Saved, Some(saved)) = (way, self.saved(origin)) {
            return Some(saved.plan.clone());
        }
        // The length matters only for the tree of least latency.
        let frames = if let MessagePath::Latency(class) = way {
            MessagePath::latency_frames(class)
        } else {
            1
        };
        price(
            self.via(way),
            &self.situation(origin, frames * self.payload_bytes),
        )
        .ok()
        .map(|priced| priced.plan)
    }

    pub(super) fn price(&mut self, origin: Rank, way: MessagePath, bytes: usize) -> Option<Choice> {
        let name = StreamName::new(origin, way);
        let plan = match self.made.get(&name) {
            Some(plan) => plan.clone(),
            None => {
                let plan = self.plan(origin, way)?;
                forget_one(&mut self.made);
                self.made.entry(name).or_insert(plan).clone()
            }
        };
        let situation = self.situation(origin, bytes as u64);
        let segment_bytes = match way {
            MessagePath::Blocks(via) if via.is_scattered() => (bytes as u64)
                .div_ceil(self.size().into())
                .clamp(1, self.segment_bytes),
            way if way.is_streamed() => {
                // A relay forwards frames as they arrive: a segment is at most one frame.
                let best = given(plan.clone(), None, &situation);
                best.segment_bytes.min(self.payload_bytes)
            }
            way => self.segment_bytes(origin, way),
        };
        Some(given(plan, Some(segment_bytes), &situation))
    }

    pub(in crate::communicator) fn decide(&mut self, origin: Rank, bytes: usize) -> Decision {
        let frames = (bytes as u64).div_ceil(self.payload_bytes).max(1);
        let chosen = self.chosen(origin, frames);
        // Between two ranks every tree equals a cast; and a message of one frame is not worth
        // planning, unless broadcast is policed.
        let is_small = self.size() <= 2 || frames == 1 && !self.is_policed() || !self.is_known;
        let is_cast = chosen.map_or(is_small && self.network.casts(), |way| {
            way == MessagePath::Cast
        });
        if is_cast {
            return Decision {
                way: MessagePath::Cast,
                frame_bytes: self.payload_bytes as usize,
            };
        }
        if let Some(&decision) = self.decided.get(&(origin, bytes)) {
            return decision;
        }
        let ways = chosen.map_or_else(|| self.candidates(frames), |way| vec![way]);
        let decision = self.best(origin, bytes, ways);
        forget_one(&mut self.decided);
        self.decided.insert((origin, bytes), decision);
        log::info!(
            "{bytes} bytes from rank {origin} go by {}",
            self.via(decision.way)
        );
        decision
    }

    /// Returns the route of a barrier's release. Where broadcast is policed or not allowed, rank 0
    /// sends to each rank itself: a relay may leave before it has forwarded the release.
    pub(in crate::communicator) fn release(&self) -> MessagePath {
        if self.is_policed() || !self.network.casts() {
            MessagePath::Tree(Via::Flat)
        } else {
            MessagePath::Cast
        }
    }

    fn is_policed(&self) -> bool {
        self.calibration.cast_max_frames_per_second().is_some()
    }

    fn candidates(&self, frames: u64) -> Vec<MessagePath> {
        let casts = self.network.casts();
        // Block-wise routes ignore shared hosts, and would cross their cables repeatedly.
        let is_wasteful = |via: Via| self.are_hosts_shared && via.is_scattered();
        let is_fit = |via: Via| self.size() <= most_ranks(via) && !is_wasteful(via);
        let vias = candidates(self.members.len())
            .filter(|&via| (casts || via != Via::Cast) && is_fit(via));
        vias.map(|via| MessagePath::of(via, frames)).collect()
    }

    fn best(&mut self, origin: Rank, bytes: usize, ways: Vec<MessagePath>) -> Decision {
        let frame_bytes = self.payload_bytes as usize;
        let full = Decision {
            way: ways[0],
            frame_bytes,
        };
        let (mut quotes, mut decisions) = (Vec::new(), Vec::new());
        for way in ways {
            let Some(choice) = self.price(origin, way, bytes) else {
                continue;
            };
            // A plan saved for a short message must not cut a long one into as many frames.
            let segment_bytes = choice.segment_bytes.max(MIN_SEGMENT_BYTES);
            let frame_bytes =
                frame_bytes.min(usize::try_from(segment_bytes).unwrap_or(frame_bytes));
            quotes.push(Quote::exact(self.via(way), choice.predicted_seconds));
            decisions.push(Decision { way, frame_bytes });
        }
        if quotes.is_empty() {
            return full;
        }
        let best = decisions[model::best(&quotes, self.members.len(), &self.calibration)];
        // Frames are full in block-wise routes and where a relay waits for the whole message.
        let is_cut = best.way.is_streamed() || best.way == MessagePath::Saved;
        if is_cut {
            best
        } else {
            Decision {
                frame_bytes,
                ..best
            }
        }
    }
}

fn forget_one<K: Ord, V>(remembered: &mut BTreeMap<K, V>) {
    if remembered.len() == REMEMBERED {
        remembered.pop_first();
    }
}

/// Frames that may meet in front of a host at once: half of what a small switch buffers per port.
pub(in crate::communicator) const MEETING_FRAMES: u64 = 256;
/// Limit of a message's frames that arrive before the receiver grants them: see `btp2_bytes` of
/// [`Settings`](ethbcast_transport::messages::Settings).
pub(in crate::communicator) const UNASKED_FRAMES: u64 = 13;

/// Ratio of the time that an allreduce takes up and down a tree to the predicted one: a rank sends
/// whole pieces, each with a signature.
const PIECEWISE: f64 = 1.1;

/// Bytes of a collective's message beside its blocks: the header of a push, and the signature.
const HEAD_BYTES: u64 = 32 + Signature::BYTES as u64;

/// Returns the bytes of a collective's message that fills `frames` pushed frames.
pub(in crate::communicator) fn message_bytes(payload_bytes: usize, frames: usize) -> usize {
    let (first, other) = (HEAD_BYTES as usize, HEAD_BYTES as usize - Signature::BYTES);
    payload_bytes.saturating_sub(first) + (frames - 1) * payload_bytes.saturating_sub(other)
}

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
        let (most, unasked) = block_group_limits(situation);
        // Frames that reach the root unrequested and at once must find room.
        let is_flat = !is_gather || unasked * (ranks as u64 - 1) <= MEETING_FRAMES;
        // If every block needs its own frames, a tree saves nothing.
        let is_tree = most > 1 || !is_flat;
        let candidates = [(Via::Flat, 1, is_flat), (Via::Binary, most, is_tree)]
            .into_iter()
            .filter(|way| way.2);
        let priced = candidates.filter_map(|(via, most, _)| {
            let plan = model::price(via, situation).ok()?.plan;
            Some((model::scatter(&plan, most, situation), plan, most))
        });
        let (_, plan, most) =
            priced.reduce(|best, next| if next.0 < best.0 { next } else { best })?;
        let mut order = farthest_first(&plan, situation.topology, situation.members);
        if is_gather {
            order.reverse();
        }
        Some(BlockTree {
            plan,
            order,
            most,
            is_gather,
        })
    }

    pub(super) fn passage(&self, rank: Rank, block_bytes: usize, payload_bytes: usize) -> Passage {
        let grouped_blocks =
            |rank: usize| grouped_blocks(&self.plan, &self.order, rank, self.most).into_iter();
        let bundle = |peer: usize, BlockGroup { ranks, .. }: BlockGroup| Bundle {
            peer: Rank(peer as u16),
            blocks: ranks.into_iter().map(|rank| Rank(rank as u16)).collect(),
        };
        let below = grouped_blocks(rank.index())
            .map(|block_group| bundle(block_group.child, block_group))
            .collect();
        let own = |parent| {
            grouped_blocks(parent)
                .filter(|block_group| block_group.child == rank.index())
                .map(move |block_group| bundle(parent, block_group))
        };
        let above = self
            .plan
            .parent(rank.index())
            .into_iter()
            .flat_map(own)
            .collect();
        let is_long = HEAD_BYTES as usize + block_bytes > payload_bytes;
        match self.is_gather {
            true => Passage {
                arrivals: below,
                departures: above,
                is_long,
            },
            false => Passage {
                arrivals: above,
                departures: below,
                is_long,
            },
        }
    }
}

/// Returns how many blocks fit one frame, and how many frames of a block are sent unrequested.
fn block_group_limits(situation: &Situation) -> (usize, u64) {
    let (ranks, block_bytes) = (
        situation.members.len(),
        situation.size_bytes.unwrap_or_default(),
    );
    let room = situation.frame_payload_bytes.saturating_sub(HEAD_BYTES);
    let most = room
        .checked_div(block_bytes)
        .map_or(ranks, |blocks| blocks.clamp(1, ranks as u64) as usize);
    (
        most,
        (HEAD_BYTES + block_bytes)
            .div_ceil(situation.frame_payload_bytes)
            .min(UNASKED_FRAMES),
    )
}

/// Whether an allgather by casts of each rank takes no more time than round a ring. Policed casts
/// have to be faster by the margin that they need against trees; untried ones need no such margin.
pub(super) fn casts_are_best(situation: &Situation) -> bool {
    let model::Allgather {
        casts_seconds,
        ring_seconds,
        ..
    } = model::allgather(situation);
    let casts_seconds = match situation.calibration.broadcast() {
        Broadcast::Policed(_) => {
            model::competing_seconds(Via::Cast, casts_seconds, situation.calibration)
        }
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
        let topology =
            Topology::single_switch((0..8).map(|host| format!("n{host}"))).expect("hosts");
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
            let model::Allgather {
                casts_seconds,
                ring_seconds,
            } = model::allgather(&situation);
            (casts_seconds / ring_seconds, casts_are_best(&situation))
        };
        let free = Calibration::assumed(100_000_000, 1468);
        assert!(wins(&free).1, "nobody has tried them");
        let policed = |rate| wins(&free.clone().with_cast_max(rate).expect("a rate"));
        let (ratio, best) = policed(9_000);
        assert!(
            (0.6..1.0).contains(&ratio) && !best,
            "{ratio} times the ring"
        );
        assert!(!policed(100).1);
    }
}
