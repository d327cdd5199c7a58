//! Model checking: explores every order of arrivals, losses, timeouts and deaths among a few hosts.
//!
//! A [`World`] consists of [`Host`]s. [`explore`] visits its states breadth first, checks each, and
//! follows each to its end without further faults.
//!
//! A state is the `Debug` output of each machine, but for counters on which no decision depends,
//! the ordered frames in flight between each pair of hosts, and the time. Frames take no time
//! unless a timer fires first.

pub mod ack_tree;
mod explore;
pub mod member;
pub mod session;
mod state;
mod world;

use ack_tree::{Mistake, ack_tree};
use ethbcast_planning::plan::Via;
pub use explore::{Bounds, Counterexample, Explored, explore, replay};
use member::communicator;
use session::{Beginning, session};
pub use state::Shared;
use std::time::Duration;
pub use world::{Event, Fate, Host, World, parse_events};

const FRAMES: usize = 3;
/// Ack parents: the first receiver acknowledges to the origin, the second to the first.
const PARENTS: &[usize] = &[0, 0, 1];

#[derive(Clone, Copy, Debug)]
pub struct Named {
    pub name: &'static str,
    /// Depth to which it is explored with a loss or repetition at each step.
    pub depth: usize,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Session(Via, Beginning),
    AckTree(Option<Mistake>),
    Communicator,
}

pub const WORLDS: [Named; 9] = [
    Named {
        name: "chain",
        depth: 11,
        kind: Kind::Session(Via::Chain, Beginning::View),
    },
    Named {
        name: "cast",
        depth: 11,
        kind: Kind::Session(Via::Cast, Beginning::View),
    },
    Named {
        name: "chain-join",
        depth: 8,
        kind: Kind::Session(Via::Chain, Beginning::Nothing),
    },
    Named {
        name: "chain-data",
        depth: 8,
        kind: Kind::Session(Via::Chain, Beginning::Data),
    },
    Named {
        name: "cast-data",
        depth: 8,
        kind: Kind::Session(Via::Cast, Beginning::Data),
    },
    Named {
        name: "ack-tree",
        depth: 8,
        kind: Kind::AckTree(None),
    },
    Named {
        name: "ranks",
        depth: 6,
        kind: Kind::Communicator,
    },
    Named {
        name: "mistake-parent",
        depth: 8,
        kind: Kind::AckTree(Some(Mistake::KeepsParent)),
    },
    Named {
        name: "mistake-silence",
        depth: 8,
        kind: Kind::AckTree(Some(Mistake::NeverAsks)),
    },
];

impl Named {
    pub fn find(name: &str) -> Option<Named> {
        WORLDS.into_iter().find(|world| world.name == name)
    }

    /// Explores it to the last state, with at most `faults` faults and one death.
    pub fn to_the_end(self, faults: usize) -> Result<Explored, Counterexample> {
        let (depth, early, ends_within) = (usize::MAX, usize::MAX, self.ends_within());
        self.explore(Bounds {
            depth,
            faults,
            early,
            deaths: 1,
            ends_within,
            follow_one_in: 1,
        })
    }

    /// Explores it to a depth, with a fault at each step and at most one death.
    pub fn to_depth(self, depth: usize) -> Result<Explored, Counterexample> {
        let ends_within = self.ends_within();
        let (faults, early) = (usize::MAX, usize::MAX);
        self.explore(Bounds {
            depth,
            faults,
            early,
            deaths: 1,
            ends_within,
            follow_one_in: 1000,
        })
    }

    pub fn explore(self, bounds: Bounds) -> Result<Explored, Counterexample> {
        match self.kind {
            Kind::Session(via, begins) => {
                explore(&mut World::new(session(via, 2, FRAMES, begins)), bounds)
            }
            Kind::AckTree(mistake) => explore(
                &mut World::new(ack_tree(PARENTS, FRAMES as u64, mistake)),
                bounds,
            ),
            Kind::Communicator => explore(&mut World::new(communicator(3, FRAMES)), bounds),
        }
    }

    pub fn replay(self, events: &[Event]) -> Result<String, String> {
        fn play<H: Host>(hosts: Vec<H>, events: &[Event]) -> Result<String, String> {
            replay(&mut World::new(hosts), events)
        }
        match self.kind {
            Kind::Session(via, begins) => play(session(via, 2, FRAMES, begins), events),
            Kind::AckTree(mistake) => play(ack_tree(PARENTS, FRAMES as u64, mistake), events),
            Kind::Communicator => play(communicator(3, FRAMES), events),
        }
    }

    /// Returns the time to an end without further faults. A session waits for silent members for
    /// the dead limit and its patience, 0.5 s here, and as long for stalled ones; before the start,
    /// for a second. A communicator detects silence after 1.5 s, and a leaving rank then waits for
    /// 0.5 s.
    fn ends_within(self) -> Duration {
        match self.kind {
            Kind::Session(_, Beginning::Nothing) => Duration::from_millis(2000),
            Kind::Session(..) => Duration::from_millis(1500),
            Kind::AckTree(..) => Duration::from_millis(500),
            Kind::Communicator => Duration::from_millis(2500),
        }
    }
}
