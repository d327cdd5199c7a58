//! `topology.conf` of Slurm's tree plugin.

use super::lines::{LogicalLine, Pair, logical_lines};
use crate::topology::build::{self, Draft, DraftLink};
use crate::topology::error::{SlurmProblem, TopologyError};
use crate::topology::nodeset;
use crate::topology::tree::Imported;

/// Whether a text is meant to be a Slurm `topology.conf`: some line begins with `SwitchName=` (or the block plugin's
/// `BlockName=`, so that the refusal is about that).
pub fn looks_like_topology_conf(text: &str) -> bool {
    let mut lines = text.lines().filter_map(|line| line.split_once('='));
    lines.any(|(key, _)| ["SwitchName", "BlockName"].iter().any(|name| key.trim().eq_ignore_ascii_case(name)))
}

/// Reads a `topology.conf`; `source_name` is what errors and notes call it, usually its path.
///
/// Keys are read without regard to case. A switch may have hosts, child switches, both or (an empty one) neither.
/// `LinkSpeed` is ignored, as Slurm itself does, and a note says so.
///
/// # Errors
/// [`TopologyError`] with source and line, for anything that is not of this form or not a tree of switches.
pub fn parse(text: &str, source_name: &str) -> Result<Imported, TopologyError> {
    let named = |error: TopologyError| error.named(source_name);
    let mut reader = ConfReader::default();
    logical_lines(text).iter().try_for_each(|line| reader.read_line(line)).map_err(named)?;
    let notes = reader.link_speed_line.map(|line| {
        format!("{source_name}:{line}: LinkSpeed is ignored; what cables carry is measured by `ethbcast probe`")
    });
    let topology = reader.finish().and_then(build::build).map_err(named)?;
    Ok(Imported { topology, notes: notes.into_iter().collect() })
}

#[derive(Default)]
struct ConfReader {
    draft: Draft,
    /// The first line with a `LinkSpeed`.
    link_speed_line: Option<usize>,
}

impl ConfReader {
    fn read_line(&mut self, line: &LogicalLine) -> Result<(), TopologyError> {
        let refuse = |problem| Err(TopologyError::at(line.first_line(), problem));
        let first = line.first_word();
        if first.eq_ignore_ascii_case("Include") {
            return refuse(SlurmProblem::Include);
        }
        if ["BlockName", "BlockSizes"].iter().any(|key| first.eq_ignore_ascii_case(key)) {
            return refuse(SlurmProblem::BlockPlugin(first.to_string()));
        }
        let pairs = line.pairs()?;
        let [name, switches, nodes, link_speed] = sort(&pairs)?;
        let Some(name) = name.filter(|_| pairs[0].key.eq_ignore_ascii_case(SWITCH_NAME)) else {
            return refuse(SlurmProblem::NoSwitchName(pairs[0].key.to_string()));
        };
        self.link_speed_line = self.link_speed_line.or(link_speed.map(|pair| pair.line));
        self.add_switch(name, switches, nodes)
    }

    fn add_switch(&mut self, name: &Pair, switches: Option<&Pair>, nodes: Option<&Pair>) -> Result<(), TopologyError> {
        let id = self.draft.switches.len();
        if let Some(nodes) = nodes {
            self.draft.add_hosts(id, name.value, nodes.value, Some(nodes.line))?;
        }
        let switch = self.draft.add_switch(name.value.to_string(), Some(name.line));
        if let Some(Pair { value, line, .. }) = switches {
            let refuse =
                |error| TopologyError::at(*line, SlurmProblem::Switches { switch: name.value.to_string(), error });
            let children = nodeset::expand(value).map_err(refuse)?;
            switch.links = children.into_iter().map(|to| DraftLink { to, line: Some(*line) }).collect();
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Draft, TopologyError> {
        if self.draft.switches.is_empty() {
            return Err(TopologyError::nowhere(SlurmProblem::NoSwitch));
        }
        if self.draft.hosts.is_empty() {
            return Err(TopologyError::nowhere(SlurmProblem::NoNodes));
        }
        self.draft.sort_hosts();
        Ok(self.draft)
    }
}

/// The keys of a `SwitchName` line.
const KEYS: [&str; 4] = [SWITCH_NAME, "Switches", "Nodes", "LinkSpeed"];
const SWITCH_NAME: &str = "SwitchName";

/// The words of one line in the order of [`KEYS`].
fn sort<'a>(pairs: &'a [Pair<'a>]) -> Result<[Option<&'a Pair<'a>>; KEYS.len()], TopologyError> {
    let mut sorted = [None; KEYS.len()];
    for pair in pairs {
        let refuse = |problem: fn(String) -> SlurmProblem| TopologyError::at(pair.line, problem(pair.key.to_string()));
        let key = KEYS
            .iter()
            .position(|key| pair.key.eq_ignore_ascii_case(key))
            .ok_or_else(|| refuse(SlurmProblem::UnknownKey))?;
        if sorted[key].replace(pair).is_some() {
            return Err(refuse(SlurmProblem::KeyTwice));
        }
    }
    Ok(sorted)
}
