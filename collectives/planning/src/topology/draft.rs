//! A topology as its source states it, unchecked.

use super::error::{TopologyError, TopologyProblem};
use super::nodeset::{self, MAX_HOSTS};
use crate::natural_order;

#[derive(Debug, Default)]
pub(super) struct Draft {
    pub switches: Vec<DraftSwitch>,
    /// Hosts in the order of their future ids.
    pub hosts: Vec<DraftHost>,
    pub loops: Loops,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Loops {
    /// They are refused: the author of the source can mark blocked ones.
    #[default]
    Refused,
    /// The switches block some of them by their spanning tree protocol.
    Blocked,
}

#[derive(Debug)]
pub(super) struct DraftSwitch {
    pub name: String,
    pub line: Option<usize>,
    pub links: Vec<DraftLink>,
    pub blocked: Vec<DraftLink>,
    /// Address as a number, which decides the root of a spanning tree; if none is known, the name
    /// does.
    pub address: Option<u64>,
}

#[derive(Debug)]
pub(super) struct DraftLink {
    pub to: String,
    pub line: Option<usize>,
    pub rate: Option<u64>,
}

#[derive(Debug)]
pub(super) struct DraftHost {
    pub name: String,
    pub switch: usize,
    pub line: Option<usize>,
    pub rate: Option<u64>,
    pub injection_ns: Option<u64>,
}

impl DraftHost {
    pub fn new(name: String, switch: usize, line: Option<usize>) -> Self {
        Self { name, switch, line, rate: None, injection_ns: None }
    }
}

impl DraftLink {
    pub fn new(to: String, line: Option<usize>) -> Self {
        Self { to, line, rate: None }
    }
}

impl Draft {
    pub fn add_switch(&mut self, name: String, line: Option<usize>) -> &mut DraftSwitch {
        self.switches.push(DraftSwitch { name, line, links: Vec::new(), blocked: Vec::new(), address: None });
        self.switches.last_mut().expect("a switch was just pushed")
    }

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

    /// Sorts hosts by the natural order of their names. The sort is stable: of a host named twice,
    /// the later one in the source is the error.
    pub fn sort_hosts(&mut self) {
        self.hosts.sort_by(|left, right| natural_order(&left.name, &right.name));
    }
}

pub(super) struct DraftCable {
    pub ends: (usize, usize),
    pub line: Option<usize>,
    pub rate: Option<u64>,
}
