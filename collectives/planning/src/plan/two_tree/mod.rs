//! Pairs of binary trees over the switches, each for one half of the message (Sanders, Speck and Träff 2009).
//!
//! In the original every host has children in at most one of the trees, two of them, so that it sends as much as it
//! receives. Between switches a cable may carry both halves once in each direction, one **copy**. Hosts below a switch
//! need each half from outside at least once: each tree enters there exactly once, and at most two sends lead out
//! again. Seen from the switch above, all hosts below a switch together are then like one host: they receive each half
//! once and make up to two sends. A pair is thus made switch by switch: the **parts** of a switch are its own hosts
//! and the switches below it, and each of its two trees is one over parts.
//!
//! No directed cable carries more than a copy in such a pair, whatever the topology: in the worst case both trees are
//! the same chain. Sends are tight: *p* parts below a switch need 2(*p* − 1) sends inside, and have 2*p*. So a host may
//! have one child in each tree, where numbers are odd or where it is alone on its switch.
//!
//! A switch has four arrangements, by the number of sends of each half that lead out ([`OUTS`]). They are made from
//! the leaves up. For each a few distributions of sends over the switches below and a few orders are tried, in units
//! of half a hop. The quickest is kept. Which of them is used follows from the root down.

use super::PlanError;
use super::line::rank_hosts;
use super::speeds::Speeds;
use super::tree::Plan;
use super::via::Via;
use crate::topology::{Topology, Walk};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};

/// Plans two trees over `members` (host ids; a member's rank is its index) from the member `root_host`. The plan is
/// the first half's tree; [`Plan::trees`] returns both.
///
/// No directed cable carries more than both halves once. Takes P·log P steps for P members, apart from a factor for
/// switches with several others below them.
///
/// # Errors
/// The errors of [`chain`](super::chain()).
pub fn two_tree(topology: &Topology, root_host: usize, members: &[usize]) -> Result<Plan, PlanError> {
    two_tree_sparing(topology, root_host, members, None)
}

/// Plans two trees where hosts that send slowly are, among those on their switch, the last to get a part in sending.
pub(super) fn two_tree_sparing(
    topology: &Topology,
    root_host: usize,
    members: &[usize],
    speeds: Option<&Speeds>,
) -> Result<Plan, PlanError> {
    let rank_of = rank_hosts(topology, members)?;
    let root = rank_of.get(root_host).copied().flatten().ok_or(PlanError::RootNotMember(root_host))?;
    let walk = Walk::from(topology, topology.switch_of(root_host));
    let children = walk.children();
    let mut racks: Vec<Rack> = (0..topology.switches().len()).map(|_| Rack::default()).collect();
    for &switch in walk.order().iter().rev() {
        let hosts = topology.hosts_on(switch).filter_map(|host| rank_of[host]).filter(|&rank| rank != root);
        let mut hosts: Vec<usize> = hosts.collect();
        // Stable, so that equal hosts stay in the order of their ids.
        hosts.sort_by_key(|&rank| speeds.map_or(0, |speeds| speeds.sending(members[rank])));
        let below = children[switch].iter().copied().filter(|&below| !racks[below].is_empty()).collect();
        racks[switch] = Rack::new(hosts, below, &racks);
    }
    let [first, second] = wire(&racks, walk.order(), root, members.len());
    Plan::from_children(Via::TwoTree, root, &first)?.paired(Plan::from_children(Via::TwoTree, root, &second)?)
}

/// Numbers of sends of the first and of the second half that may lead out of a switch; the others follow by exchange
/// of the halves.
const OUTS: [[usize; 2]; 4] = [[0, 0], [1, 0], [1, 1], [2, 0]];

/// Half hops from a host's receipt of a frame to the receipt by its first child on the same switch.
const FIRST_SEND: u32 = 2;
/// Half hops from there to the receipt by the next child.
const NEXT_SEND: u32 = 1;
/// Half hops over a cable between switches.
const CABLE: u32 = 1;

/// Members on one switch but the root, and those below it.
#[derive(Default)]
struct Rack {
    hosts: Vec<usize>,
    below: Vec<usize>,
    /// One for each entry of [`OUTS`].
    arrangements: Vec<Arrangement>,
}

/// One way to send among the parts of a switch. Parts are its hosts, then the switches below it.
struct Arrangement {
    trees: [PartTree; 2],
    /// Sends of each part in each tree.
    sends: Vec<[usize; 2]>,
    /// Hosts here and below that send in both trees.
    in_both: usize,
}

/// Tree over the parts of a switch.
#[derive(Default)]
struct PartTree {
    /// Part that receives from outside.
    entry: usize,
    /// Sends between parts: the sender's, then the receiver.
    edges: Vec<(Send, usize)>,
    outward: Vec<Send>,
    /// Time from the entry's receipt to the last host's.
    finish: u32,
    /// Times from the entry's receipt to those that the outward sends would cause if they went to hosts on the switch.
    leaving: Vec<u32>,
}

/// One of the sends of a part, or of a rank.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Send {
    by: usize,
    number: usize,
}

/// Returns the arrangement's index for these numbers of outward sends, and whether the halves are exchanged.
fn arrangement_of(outs: [usize; 2]) -> (usize, bool) {
    let is_exchanged = outs[1] > outs[0];
    let sorted = if is_exchanged { [outs[1], outs[0]] } else { outs };
    (OUTS.iter().position(|&known| known == sorted).expect("a part makes at most two sends"), is_exchanged)
}

impl Rack {
    fn new(hosts: Vec<usize>, below: Vec<usize>, racks: &[Rack]) -> Self {
        let mut rack = Self { hosts, below, arrangements: Vec::new() };
        if !rack.is_empty() {
            rack.below.sort_by_key(|&switch| (racks[switch].finish(), switch));
            rack.arrangements = OUTS.iter().map(|&outs| rack.arrange(outs, racks)).collect();
        }
        rack
    }

    fn is_empty(&self) -> bool {
        self.hosts.is_empty() && self.below.is_empty()
    }

    /// Returns the tree of one half in the arrangement with these outward sends.
    fn tree(&self, outs: [usize; 2], half: usize) -> &PartTree {
        let (at, is_exchanged) = arrangement_of(outs);
        &self.arrangements[at].trees[half ^ usize::from(is_exchanged)]
    }

    fn finish(&self) -> u32 {
        (0..2).map(|half| self.tree([0, 0], half).finish).max().unwrap_or(0)
    }

    fn arrange(&self, outs: [usize; 2], racks: &[Rack]) -> Arrangement {
        let candidates = self.distributions(outs).into_iter().map(|sends| {
            let in_both = self.in_both(&sends, racks);
            let trees = [0, 1].map(|half| self.quickest_tree(half, &sends, outs[half], racks));
            let cost = trees.iter().map(PartTree::cost).max().unwrap_or(0);
            // Half a hop more is well spent where then no host sends in both trees.
            ((cost + u32::from(in_both > 0), in_both), Arrangement { trees, sends, in_both })
        });
        let quicker = |best: (_, _), next: (_, _)| if next.0 < best.0 { next } else { best };
        candidates.reduce(quicker).expect("a switch with members has a distribution").1
    }

    /// Returns how many hosts here and below send in both trees.
    fn in_both(&self, sends: &[[usize; 2]], racks: &[Rack]) -> usize {
        let (hosts, switches) = sends.split_at(self.hosts.len());
        let here = hosts.iter().filter(|sends| sends[0] > 0 && sends[1] > 0).count();
        let of_switch =
            |(&switch, &sends): (&usize, &[usize; 2])| racks[switch].arrangements[arrangement_of(sends).0].in_both;
        here + self.below.iter().zip(switches).map(of_switch).sum::<usize>()
    }

    /// Returns distributions of sends over the parts: `outs` outward, and those between parts. Switches below get about
    /// as few as the hosts cannot make, and the slowest of them the fewest.
    fn distributions(&self, outs: [usize; 2]) -> Vec<Vec<[usize; 2]>> {
        let (hosts, below) = (self.hosts.len(), self.below.len());
        let needed = outs.map(|out| hosts + below - 1 + out);
        let least = (needed[0] + needed[1]).saturating_sub(2 * hosts);
        // A spare send of a switch may save a host from sending in both trees.
        let counts = least..=(least + 1).min(2 * below);
        counts.flat_map(|of_switches| self.shared_out(needed, of_switches)).collect()
    }

    fn shared_out(&self, needed: [usize; 2], of_switches: usize) -> Vec<Vec<[usize; 2]>> {
        let (hosts, below) = (self.hosts.len(), self.below.len());
        let (two, one) = (of_switches / 2, of_switches % 2);
        let mut found = Vec::new();
        let mixed_counts = BTreeSet::from([0, 1.min(two), 2.min(two), two]);
        for (mixed, second) in mixed_counts.into_iter().flat_map(|mixed| BTreeSet::from([(mixed, 0), (mixed, one)])) {
            let pure = two - mixed;
            let sent = |first: usize| [2 * first + mixed + one - second, 2 * (pure - first) + mixed + second];
            let fits = |&first: &usize| sent(first)[0] <= needed[0] && sent(first)[1] <= needed[1];
            let Some(first) = (0..=pure).filter(fits).min_by_key(|first| (2 * first).abs_diff(pure)) else { continue };
            let of_switch = |at: usize| match at {
                at if at < pure && (at + 1) * first / pure > at * first / pure => [2, 0],
                at if at < pure => [0, 2],
                at if at < two => [1, 1],
                at if at < two + one => [one - second, second],
                _ => [0, 0],
            };
            let by_hosts = [needed[0] - sent(first)[0], needed[1] - sent(first)[1]];
            found.push(host_sends(hosts, by_hosts).into_iter().chain((0..below).map(of_switch)).collect());
        }
        found
    }

    fn quickest_tree(&self, half: usize, sends: &[[usize; 2]], out: usize, racks: &[Rack]) -> PartTree {
        let orders: &[Order] = if self.below.is_empty() { &ORDERS[..1] } else { &ORDERS };
        let trees = orders.iter().map(|&order| self.grow((half, out), sends, racks, order));
        trees.reduce(|best, next| if next.cost() < best.cost() { next } else { best }).expect("there is an order")
    }

    /// Grows a tree in which the next part, or the outside, takes the earliest send that is free.
    fn grow(&self, (half, out): (usize, usize), sends: &[[usize; 2]], racks: &[Rack], order: Order) -> PartTree {
        let mut tree = PartTree::default();
        let mut free = BinaryHeap::from([Reverse((0, None))]);
        let [mut senders, mut leaves] = self.in_order(half, sends, order);
        while let Some(Reverse((at, send))) = free.pop() {
            // The last free send goes to a part that has sends of its own, if there is one.
            let is_last = free.is_empty() && !senders.is_empty();
            let is_leaf = order.early_leaves && leaves.front().is_some_and(|&part| part >= self.hosts.len());
            let part = match send {
                Some(send) if tree.outward.len() < out && !(is_last || free.is_empty() && !leaves.is_empty()) => {
                    tree.outward.push(send);
                    tree.leaving.push(at);
                    continue;
                }
                _ if is_leaf && !is_last => leaves.pop_front(),
                _ => senders.pop_front().or_else(|| leaves.pop_front()),
            };
            let Some(part) = part else { continue };
            match send {
                Some(send) => tree.edges.push((send, part)),
                None => tree.entry = part,
            }
            let (receipt, times) = self.times(half, part, sends[part], racks);
            tree.finish = tree.finish.max(at + receipt);
            let numbered = times.into_iter().enumerate();
            free.extend(numbered.map(|(number, time)| Reverse((at + time, Some(Send { by: part, number })))));
        }
        tree
    }

    /// Returns the parts that send in the tree, and the others, each in the order of their turns.
    fn in_order(&self, half: usize, sends: &[[usize; 2]], order: Order) -> [VecDeque<usize>; 2] {
        let hosts = self.hosts.len();
        let (mut senders, leaves): (Vec<usize>, Vec<usize>) = (0..sends.len()).partition(|&part| sends[part][half] > 0);
        senders.sort_by_key(|&part| ((part < hosts) != order.hosts_first, Reverse(sends[part][half]), part));
        let (of_hosts, of_switches): (Vec<usize>, Vec<usize>) = leaves.into_iter().partition(|&part| part < hosts);
        [senders.into(), of_switches.into_iter().rev().chain(of_hosts).collect()]
    }

    /// Returns the times from a part's receipt to that by its last host, and to those by the receivers of its sends.
    fn times(&self, half: usize, part: usize, sends: [usize; 2], racks: &[Rack]) -> (u32, Vec<u32>) {
        match part.checked_sub(self.hosts.len()) {
            None => (0, [FIRST_SEND, FIRST_SEND + NEXT_SEND][..sends[half]].to_vec()),
            Some(at) => {
                let tree = racks[self.below[at]].tree(sends, half);
                (CABLE + tree.finish, tree.leaving.iter().map(|time| CABLE + time + CABLE).collect())
            }
        }
    }
}

impl PartTree {
    fn cost(&self) -> u32 {
        self.finish + self.leaving.iter().sum::<u32>()
    }
}

/// Order of turns when a tree over parts grows.
#[derive(Clone, Copy)]
struct Order {
    hosts_first: bool,
    /// Whether switches that send nothing come before hosts that do.
    early_leaves: bool,
}

const ORDERS: [Order; 4] = [
    Order { hosts_first: true, early_leaves: true },
    Order { hosts_first: true, early_leaves: false },
    Order { hosts_first: false, early_leaves: true },
    Order { hosts_first: false, early_leaves: false },
];

/// Distributes sends over hosts: two of one half each, one of each to at most one host.
fn host_sends(hosts: usize, [first, second]: [usize; 2]) -> Vec<[usize; 2]> {
    let (pairs, odd) = ([first / 2, second / 2], [first % 2, second % 2]);
    let mut sends = Vec::with_capacity(hosts);
    for at in 0..pairs[0].max(pairs[1]) {
        sends.extend((0..2).filter(|&half| at < pairs[half]).map(|half| if half == 0 { [2, 0] } else { [0, 2] }));
    }
    if sends.len() + odd[0] + odd[1] <= hosts {
        sends.extend((0..odd[0]).map(|_| [1, 0]).chain((0..odd[1]).map(|_| [0, 1])));
    } else {
        sends.push(odd);
    }
    sends.resize(hosts, [0, 0]);
    sends
}

/// Returns the children of every rank in both trees.
fn wire(racks: &[Rack], order: &[usize], root: usize, ranks: usize) -> [Vec<Vec<usize>>; 2] {
    let mut outs = vec![[0, 0]; racks.len()];
    for &switch in order {
        let rack = &racks[switch];
        if rack.is_empty() {
            continue;
        }
        let (at, is_exchanged) = arrangement_of(outs[switch]);
        for (&below, &[first, second]) in rack.below.iter().zip(&rack.arrangements[at].sends[rack.hosts.len()..]) {
            outs[below] = if is_exchanged { [second, first] } else { [first, second] };
        }
    }
    [0, 1].map(|half| {
        // For each switch the rank that receives from outside, and the sends that lead out.
        let mut ends: Vec<(usize, Vec<Send>)> = vec![(root, Vec::new()); racks.len()];
        let mut sends: Vec<Vec<(usize, usize)>> = vec![Vec::new(); ranks];
        for &switch in order.iter().rev().filter(|&&switch| !racks[switch].is_empty()) {
            let (rack, tree) = (&racks[switch], racks[switch].tree(outs[switch], half));
            let below = |part: usize| rack.below[part - rack.hosts.len()];
            let receiver = |part: usize| rack.hosts.get(part).copied().unwrap_or_else(|| ends[below(part)].0);
            let by_rank = |send: &Send| match rack.hosts.get(send.by) {
                Some(&by) => Send { by, ..*send },
                None => ends[below(send.by)].1[send.number],
            };
            for (send, part) in &tree.edges {
                let Send { by, number } = by_rank(send);
                sends[by].push((number, receiver(*part)));
            }
            let outward = tree.outward.iter().map(by_rank).collect();
            ends[switch] = (receiver(tree.entry), outward);
        }
        if let Some(&start) = order.first().filter(|&&start| !racks[start].is_empty()) {
            sends[root].push((0, ends[start].0));
        }
        let in_turn = |mut list: Vec<(usize, usize)>| {
            list.sort_unstable();
            list.into_iter().map(|(_, child)| child).collect()
        };
        sends.into_iter().map(in_turn).collect()
    })
}

#[cfg(test)]
mod tests;
