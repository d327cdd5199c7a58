//! A topology as its source states it, unchecked.

use super::error::{TopologyError, TopologyProblem};
use super::nodeset::{self, MAX_HOSTS};
use crate::natural_order;

/// The statements of a source, unchecked, each with its line.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub switches: Vec<DraftSwitch>,
    /// In the order of the ids they shall have.
    pub hosts: Vec<DraftHost>,
    /// The treatment of cables that close a loop.
    pub loops: Loops,
}

/// The treatment of cables that close a loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Loops {
    /// They are refused: whoever wrote the source can say which are blocked.
    #[default]
    Refused,
    /// The switches block some of them, as their spanning tree protocol does.
    Blocked,
}

#[derive(Debug)]
pub(super) struct DraftSwitch {
    pub name: String,
    pub line: Option<usize>,
    pub links: Vec<DraftLink>,
    /// Cables that are there and carry nothing.
    pub blocked: Vec<DraftLink>,
    /// Its address as a number, which decides who is the root of a spanning tree; where none is known, the name does.
    pub address: Option<u64>,
}

#[derive(Debug)]
pub(super) struct DraftLink {
    pub to: String,
    pub line: Option<usize>,
    /// In bits per second.
    pub rate: Option<u64>,
}

#[derive(Debug)]
pub(super) struct DraftHost {
    pub name: String,
    pub switch: usize,
    pub line: Option<usize>,
    /// In bits per second.
    pub rate: Option<u64>,
    /// Time to send a frame, in nanoseconds.
    pub injection_ns: Option<u64>,
}

impl DraftHost {
    /// A host of whose cable nothing is known.
    pub fn new(name: String, switch: usize, line: Option<usize>) -> Self {
        Self { name, switch, line, rate: None, injection_ns: None }
    }
}

impl DraftLink {
    /// A link of unknown rate.
    pub fn new(to: String, line: Option<usize>) -> Self {
        Self { to, line, rate: None }
    }
}

impl Draft {
    pub fn add_switch(&mut self, name: String, line: Option<usize>) -> &mut DraftSwitch {
        self.switches.push(DraftSwitch { name, line, links: Vec::new(), blocked: Vec::new(), address: None });
        self.switches.last_mut().expect("a switch was just pushed")
    }

    /// Adds the hosts of one node set, which stands in `line`, to the switch with the id `switch`, called `name`.
    pub fn add_hosts(
        &mut self,
        switch: usize,
        name: &str,
        set: &str,
        line: Option<usize>,
    ) -> Result<(), TopologyError> {
        let refuse = |error| TopologyError::at(line, TopologyProblem::Hosts { switch: name.to_string(), error });
        let hosts = nodeset::expand(set).map_err(refuse)?;
        if self.hosts.len() + hosts.len() > MAX_HOSTS {
            return Err(TopologyError::at(line, TopologyProblem::TooManyHosts));
        }
        self.hosts.extend(hosts.into_iter().map(|name| DraftHost::new(name, switch, line)));
        Ok(())
    }

    /// Gives hosts their ids by the natural order of their names. Stable: of a host named twice, the one further down
    /// in the source is the error.
    pub fn sort_hosts(&mut self) {
        self.hosts.sort_by(|left, right| natural_order(&left.name, &right.name));
    }
}

/// A cable and the line that first named it.
pub(super) struct DraftCable {
    /// Its switches, the lower id first.
    pub ends: (usize, usize),
    pub line: Option<usize>,
    /// In bits per second.
    pub rate: Option<u64>,
}
