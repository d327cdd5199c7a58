//! Broadcast trees (*plans*): who sends to whom, and the algorithms that make them.
//!
//! A [`Plan`] is a tree over ranks `0..n`. Planners compute it from a topology and a list of
//! members, with integers only and every tie broken by number, so that all hosts derive an equal
//! plan and its digest proves it. [`make`] is the entry point to all of them: `by_rank` has those
//! that ignore switches, `chain`, `binary`, `two_tree` and `latency` those that do not. [`blocks`]
//! lists the trees of routes that split the message over all ranks. [`check`] checks any plan
//! against a topology and shares no code with the planners.

#[doc(hidden)]
mod best;
#[doc(hidden)]
mod binary;
#[doc(hidden)]
mod by_rank;
mod check;
pub mod file;
#[doc(hidden)]
mod latency;
mod layers;
#[doc(hidden)]
mod line;
mod make;
mod partial;
mod tree;
#[doc(hidden)]
mod two_tree;
mod via;

#[doc(hidden)]
pub use best::binary_best;
#[doc(hidden)]
pub use binary::{ALGORITHM_2_RANKS, binary, kary};
#[doc(hidden)]
pub use by_rank::{
    BlockGroup, block, block_children, block_parent, block_parents, blocks, by_rank,
    farthest_first, grouped_blocks,
};
pub use check::{CableEnd, CableLoad, CheckReport, Fault, check, check_all, check_message};
#[doc(hidden)]
pub use check::{LossyCables, Passage, lossy_cables};
#[doc(hidden)]
pub use latency::{completion_time, latency};
#[doc(hidden)]
pub use line::chain;
pub use make::{Costs, make};
pub use tree::Plan;
#[doc(hidden)]
pub use two_tree::two_tree;
pub use via::{UnknownVia, Via};

use crate::topology::{Topology, Walk};
use thiserror::Error;

/// Shortest segment of a message that has more than one, in bytes: below it a frame is padded, or
/// has no room for the message's end.
pub const MIN_SEGMENT_BYTES: u64 = 64;

/// Reason why a plan cannot be made. Ranks and hosts are named by number.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// Also the error for a plan over no ranks.
    #[error(
        "rank {root} cannot be the root of a plan over {ranks} ranks; use a rank below {ranks}"
    )]
    NoSuchRoot { root: usize, ranks: usize },
    #[error("rank {root} is the root but has the parent {parent}; the root has none")]
    RootWithParent { root: usize, parent: usize },
    #[error("rank {0} has no parent; every rank but the root needs one")]
    NoParent(usize),
    #[error(
        "rank {rank} has the parent {parent}, but there are only {ranks} ranks; use a parent below {ranks}"
    )]
    NoSuchParent {
        rank: usize,
        parent: usize,
        ranks: usize,
    },
    #[error(
        "rank {0} is not reached from the root; its parents run in a circle and must lead to the root"
    )]
    Circle(usize),
    #[error("rank {rank} has {children} children; with {via} give every rank at most {most}")]
    TooManyChildren {
        via: Via,
        rank: usize,
        children: usize,
        most: usize,
    },
    #[error("rank {rank} receives from rank {sender}; with {via} everybody receives from the root")]
    Relayed {
        via: Via,
        rank: usize,
        sender: usize,
    },
    #[error(
        "rank {parent} sends to rank {rank}, but there are only {ranks} ranks; use ranks below {ranks}"
    )]
    NoSuchChild {
        rank: usize,
        parent: usize,
        ranks: usize,
    },
    #[error("rank {rank} receives from rank {first} and from rank {second}; give it one parent")]
    TwoParents {
        rank: usize,
        first: usize,
        second: usize,
    },
    #[error("the trees of both halves need the root {root} and {ranks} ranks")]
    OtherTree { root: usize, ranks: usize },
    #[error("the root, host {0}, is not a member; name it among the members")]
    RootNotMember(usize),
    #[error(
        "member {host} is no host of the topology, which has {hosts}; use host ids below {hosts}"
    )]
    NoSuchHost { host: usize, hosts: usize },
    #[error("host {0} is a member twice; name every member once")]
    MemberTwice(usize),
    /// The pair is one that the topology says cannot talk, and the hosts could not be exchanged so
    /// that nobody needs it.
    #[error(
        "{from} and {to} cannot talk directly, as the topology says, and with {via} the one sends to the other; choose \
         another way, such as latency or auto"
    )]
    CannotTalk { via: Via, from: String, to: String },
    #[error(
        "no way leads from {root} to {host}: the topology says that it can talk to none of those that are reached"
    )]
    NoRoad { root: String, host: String },
    #[error(
        "injection_ns {injection_ns} of host {host} is less than the {frame_ns} ns that a full frame takes on its \
         cable; give at least that, or leave it out"
    )]
    ShortInjection {
        host: String,
        injection_ns: u64,
        frame_ns: u64,
    },
    #[error("a tree cannot be planned for {0} children each; use a number from {low} to \
             {high}", low = Via::KARY_CHILDREN.start(), high = Via::KARY_CHILDREN.end())]
    Children(u8),
}

/// Relative difference below which measurements are noise.
const MIN_DIFFERENCE: f64 = 0.1;

/// Slowness of a usual cable. Slowness is in thousandths of its time for a frame, so that planners
/// compute with integers.
#[doc(hidden)]
pub const USUAL: u64 = 1_000;

/// The usual cable, like most of a cluster's, and the time in which it carries a full frame.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UsualCable {
    pub frame_ns: f64,
    pub frame_bits: f64,
}

/// Slowness of each cable, and into and out of each host, in thousandths of the usual; at least
/// [`USUAL`], because faster ones give no advantage. For networks where speeds differ (Mateescu and
/// Taylor §3).
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Speeds {
    sending: Vec<u64>,
    receiving: Vec<u64>,
    cables: Vec<u64>,
}

#[doc(hidden)]
impl Speeds {
    /// Combines the topology's rates and injection times with `measured`, which returns each host's
    /// time for a frame in nanoseconds. Returns `None` if all are about alike.
    pub fn new(
        topology: &Topology,
        usual: &UsualCable,
        measured: impl Fn(usize) -> Option<u64>,
    ) -> Option<Self> {
        let of_time = |nanoseconds: f64| {
            let times = nanoseconds / usual.frame_ns.max(1.0);
            if times < 1.0 + MIN_DIFFERENCE {
                USUAL
            } else {
                (times * USUAL as f64).round() as u64
            }
        };
        let of_rate = |rate: Option<u64>| {
            rate.map_or(USUAL, |rate| of_time(usual.frame_bits * 1e9 / rate as f64))
        };
        let of_known = |time: Option<u64>| time.map_or(USUAL, |time| of_time(time as f64));
        let hosts = 0..topology.hosts().len();
        // A measured time is that of the path to the host, and is used for both directions.
        let receiving: Vec<u64> = hosts
            .clone()
            .map(|host| of_rate(topology.host_rate(host)).max(of_known(measured(host))))
            .collect();
        let sending = hosts
            .map(|host| receiving[host].max(of_known(topology.injection_ns(host))))
            .collect();
        let cables = topology
            .cables()
            .iter()
            .map(|&(low, high)| of_rate(topology.cable_rate(low, high)))
            .collect();
        let speeds = Self {
            sending,
            receiving,
            cables,
        };
        let all = speeds
            .sending
            .iter()
            .chain(&speeds.receiving)
            .chain(&speeds.cables);
        let is_even = all.into_iter().all(|&slowness| slowness == USUAL);
        (!is_even).then_some(speeds)
    }

    pub fn sending(&self, host: usize) -> u64 {
        self.sending[host]
    }

    pub fn receiving(&self, host: usize) -> u64 {
        self.receiving[host]
    }

    pub fn cable(&self, topology: &Topology, one: usize, other: usize) -> u64 {
        let cable = topology
            .cables()
            .binary_search(&(one.min(other), one.max(other)));
        cable.map_or(USUAL, |cable| self.cables[cable])
    }

    fn along(&self, topology: &Topology, walk: &Walk) -> Vec<u64> {
        let mut slowest = vec![USUAL; topology.switches().len()];
        for &switch in walk.order() {
            if let Some(above) = walk.above()[switch] {
                slowest[switch] = slowest[above].max(self.cable(topology, above, switch));
            }
        }
        slowest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Topology;
    use nix::time::{ClockId, clock_gettime};
    use std::time::Duration;

    pub(crate) fn all_of(topology: &Topology) -> Vec<usize> {
        (0..topology.hosts().len()).collect()
    }

    /// Returns switches with these numbers of hosts, counted on from one to the next, each linked
    /// to an earlier one.
    pub(crate) fn network(hosts: &[usize], link: impl Fn(usize) -> usize) -> Topology {
        let (mut text, mut names) = (
            "schema = 1\n".to_owned(),
            (0..).map(|host| format!("'n{host}'")),
        );
        for (id, &count) in hosts.iter().enumerate() {
            let names: Vec<String> = names.by_ref().take(count).collect();
            let link = if id == 0 {
                String::new()
            } else {
                format!("'s{}'", link(id))
            };
            text += &format!(
                "[[switch]]\nname = 's{id}'\nhosts = [{}]\nlinks = [{link}]\n",
                names.join(", ")
            );
        }
        Topology::parse(&text, "network").expect("a tree")
    }

    fn time(work: &impl Fn()) -> Duration {
        let now = || {
            Duration::from(
                clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every Linux has it"),
            )
        };
        let started = now();
        work();
        now() - started
    }

    /// Compares the least times of `tenth` and `whole`: other load on the machine only adds to a
    /// time. Work that grows quadratically never meets the bound.
    #[track_caller]
    pub(crate) fn assert_about_ten_times(tenth: impl Fn(), whole: impl Fn()) {
        let few = (0..5)
            .map(|_| time(&tenth))
            .min()
            .expect("five")
            .max(Duration::from_micros(10));
        let mut least = Duration::MAX;
        let is_met = (0..100).any(|_| {
            least = least.min(time(&whole));
            least < 40 * few
        });
        assert!(
            is_met,
            "{few:?} for a tenth of the hosts, {least:?} for all"
        );
    }

    const GIGABIT: UsualCable = UsualCable {
        frame_ns: 12_112.0,
        frame_bits: 12_112.0,
    };

    fn pair(extra: &str) -> Topology {
        let text = format!(
            "schema = 1\nswitch = [{{name='a', hosts='n[0-1]', links=[{{to='b', rate='100mbit'}}]}}, {{name='b', \
             hosts='n[2-3]'}}]\n{extra}"
        );
        Topology::parse(&text, "pair").expect("a topology")
    }

    #[test]
    fn slowness_follows_from_the_rate_or_the_time() {
        let topology = pair(
            "host = [{name='n1', rate='10gbit'}, {name='n2', injection_ns=36336}, {name='n3', rate='10mbit'}]",
        );
        let speeds = Speeds::new(&topology, &GIGABIT, |host| (host == 0).then_some(24_224))
            .expect("they differ");
        assert_eq!(
            [0, 1, 2, 3].map(|host| speeds.sending(host)),
            [2_000, 1_000, 3_000, 100_000]
        );
        assert_eq!(
            [0, 1, 2, 3].map(|host| speeds.receiving(host)),
            [2_000, 1_000, 1_000, 100_000]
        );
        assert_eq!(speeds.cable(&topology, 1, 0), 10_000);
    }

    #[test]
    fn nearly_equal_speeds_count_as_equal() {
        let bed = Topology::builtin("fig9-4").expect("fig9-4");
        assert_eq!(
            Speeds::new(&bed, &GIGABIT, |host| Some(12_000 + host as u64 * 10)),
            None
        );
    }
}
