//! Order in which the depth-first walk visits the children of a switch, which Algorithm 1 of
//! Patarasuk 2008 leaves open.
//!
//! The order decides the height of a tree over the line. A rank on a switch can pass the runs below that
//! switch only whole, from the first on. Seen from the switch, the run visited last can hang one
//! step down, the one before it two, and so on. The height is least if the run that needs the most
//! steps is visited last. This holds where every switch has more hosts than switches below it, as
//! in clusters. With two hosts each, runs must often be reached through the run before, and the
//! opposite order would be better, by a tenth on random trees of switches; with four it is worse.

use crate::plan::speeds::{Speeds, USUAL};
use crate::topology::{Topology, Walk};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Below {
    steps: usize,
    members: usize,
}

impl Below {
    fn of(members_here: usize, next: impl DoubleEndedIterator<Item = Below> + Clone) -> Self {
        let members = members_here + next.clone().map(|below| below.members).sum::<usize>();
        let at_least = members.checked_ilog2().map_or(0, |steps| steps as usize);
        let hung = next.rev().filter(|below| below.members > 0).zip(1..).map(|(below, step)| below.steps + step);
        Self { steps: hung.fold(at_least, usize::max), members }
    }
}

/// Returns for every switch its neighbours away from `start`: those first that need the fewest
/// steps, then those with fewer members, then by id. Slow cables come last of all: fewer hosts wait
/// for a later visit.
///
/// Takes S·log S steps for S switches, and no recursion: a row of switches may be thousands long.
pub(super) fn onward(
    topology: &Topology,
    start: usize,
    speeds: Option<&Speeds>,
    is_member: impl Fn(usize) -> bool,
) -> Vec<Vec<usize>> {
    let walk = Walk::from(topology, start);
    let mut onward = walk.children();
    let mut below = vec![Below::default(); onward.len()];
    for &switch in walk.order().iter().rev() {
        let slowness = |next: usize| speeds.map_or(USUAL, |speeds| speeds.cable(topology, switch, next));
        onward[switch].sort_unstable_by_key(|&next| (slowness(next), below[next], next));
        let members_here = topology.hosts_on(switch).filter(|&host| is_member(host)).count();
        below[switch] = Below::of(members_here, onward[switch].iter().map(|&next| below[next]));
    }
    onward
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns switches with these numbers of hosts, joined in pairs.
    pub fn network(hosts: &[usize], cables: &[(usize, usize)]) -> Topology {
        let mut text = "schema = 1\n".to_owned();
        for (id, &count) in hosts.iter().enumerate() {
            let links = cables.iter().filter(|cable| cable.0 == id).map(|cable| format!("'s{}'", cable.1));
            let names = (0..count).map(|host| format!("'s{id}n{host}'"));
            let [links, names] = [links.collect::<Vec<_>>(), names.collect()].map(|list| list.join(", "));
            text += &format!("[[switch]]\nname = 's{id}'\nhosts = [{names}]\nlinks = [{links}]\n");
        }
        Topology::parse(&text, "network").expect("a tree")
    }

    #[test]
    fn the_switch_with_the_most_steps_comes_last() {
        // Below s0: the row s1, s2 and the switches s3 to s6, of which s4 has no hosts.
        let network = network(&[1, 2, 2, 7, 0, 5, 2], &[(0, 1), (1, 2), (0, 3), (0, 4), (0, 5), (0, 6)]);
        // In order: none; two hosts; four in a row of two switches, which takes two steps as five
        // and seven do, but has fewer hosts.
        assert_eq!(onward(&network, 0, None, |_| true)[0], [4, 6, 1, 5, 3]);
        let without_s3 = |host| network.switch_of(host) != 3;
        assert_eq!(onward(&network, 0, None, without_s3)[0], [3, 4, 6, 1, 5]);
    }

    #[test]
    fn runs_below_a_switch_take_a_step_each() {
        let leaf = Below { steps: 0, members: 1 };
        let none = Below::default();
        assert_eq!(Below::of(1, [none, leaf, leaf, leaf].into_iter()), Below { steps: 3, members: 4 });
        assert_eq!(Below::of(9, [none].into_iter()), Below { steps: 3, members: 9 });
        assert_eq!(Below::of(0, [none, none].into_iter()), none);
    }
}
