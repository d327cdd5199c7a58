//! `topology.conf` of Slurm's tree plugin.

use super::lines::{LogicalLine, Pair, logical_lines};
use crate::parse_rate;
use crate::topology::draft::{Draft, DraftLink, Loops};
use crate::topology::error::{SlurmProblem, TopologyError};
use crate::topology::tree::Imported;
use crate::topology::{build, nodeset, spanning};

/// Whether a text is meant to be a Slurm `topology.yaml`: a line begins with `topology:`, an entry
/// of its list.
pub fn looks_like_topology_yaml(text: &str) -> bool {
    text.lines().any(|line| line.trim_start().trim_start_matches("- ").trim_start().starts_with("topology:"))
}

/// Whether a text is meant to be a Slurm `topology.conf`: a line begins with `SwitchName=` (or the
/// block plugin's `BlockName=`, so that the refusal names that).
pub fn looks_like_topology_conf(text: &str) -> bool {
    let mut lines = text.lines().filter_map(|line| line.split_once('='));
    lines.any(|(key, _)| ["SwitchName", "BlockName"].iter().any(|name| key.trim().eq_ignore_ascii_case(name)))
}

/// Reads a `topology.conf`; `source_name` names it in errors and notes, usually its path.
///
/// Keys are case-insensitive. A switch may have hosts, child switches, both or neither. Where
/// switches have several parents, as in Slurm's own example, some cables are assumed to be blocked
/// by spanning tree, and a note names them.
///
/// Slurm gives `LinkSpeed` no unit. Here it is the rate of the cables to the line's hosts and child
/// switches in Mbit/s, or with its own unit such as `10gbit`, and a note says so. A value below 10
/// cannot be an Ethernet's, and is ignored.
///
/// # Errors
/// [`TopologyError`] with source and line, for anything that is not of this form, or switches that
/// are not all connected.
pub fn parse(text: &str, source_name: &str) -> Result<Imported, TopologyError> {
    let mut reader = ConfReader::default();
    let read = logical_lines(text).iter().try_for_each(|line| reader.read_line(line));
    read.map_err(|error| error.named(source_name))?;
    reader.build(source_name)
}

const MIN_MEGABITS_PER_SECOND: u64 = 10;

#[derive(Default)]
pub(super) struct ConfReader {
    draft: Draft,
    read_speed_line: Option<usize>,
    ignored_speed_line: Option<usize>,
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
        let rate = link_speed.map(|pair| self.read_speed(pair)).transpose()?.flatten();
        self.add_switch(name, switches, nodes, rate)
    }

    fn read_speed(&mut self, pair: &Pair) -> Result<Option<u64>, TopologyError> {
        let refuse = || TopologyError::at(pair.line, SlurmProblem::LinkSpeed(pair.value.to_string()));
        let (rate, line) = match pair.value.parse::<u64>() {
            Ok(megabits) if megabits < MIN_MEGABITS_PER_SECOND => (None, &mut self.ignored_speed_line),
            Ok(megabits) => {
                let rate = parse_rate(&format!("{megabits}mbit")).map_err(|_| refuse())?;
                (Some(rate), &mut self.read_speed_line)
            }
            Err(_) => return parse_rate(pair.value).map(Some).map_err(|_| refuse()),
        };
        line.get_or_insert(pair.line);
        Ok(rate)
    }

    /// Adds a switch with its child switches and hosts, whose cables carry `rate`.
    pub fn add_switch(
        &mut self,
        name: &Pair,
        switches: Option<&Pair>,
        nodes: Option<&Pair>,
        rate: Option<u64>,
    ) -> Result<(), TopologyError> {
        let id = self.draft.switches.len();
        if let Some(nodes) = nodes {
            let before = self.draft.hosts.len();
            self.draft.add_hosts(id, name.value, nodes.value, Some(nodes.line))?;
            self.draft.hosts[before..].iter_mut().for_each(|host| host.rate = rate);
        }
        let switch = self.draft.add_switch(name.value.to_string(), Some(name.line));
        if let Some(Pair { value, line, .. }) = switches {
            let refuse =
                |error| TopologyError::at(*line, SlurmProblem::Switches { switch: name.value.to_string(), error });
            let children = nodeset::expand(value).map_err(refuse)?;
            switch.links = children.into_iter().map(|to| DraftLink { to, line: Some(*line), rate }).collect();
        }
        Ok(())
    }

    pub fn build(self, source_name: &str) -> Result<Imported, TopologyError> {
        let speeds = [
            (self.read_speed_line, "LinkSpeed is read as Mbit/s, of the cables to the hosts and switches of its line"),
            (self.ignored_speed_line, "a LinkSpeed below 10 is ignored: it cannot be meant in Mbit/s"),
        ];
        let speeds = speeds.into_iter().filter_map(|(line, text)| Some(format!("{source_name}:{}: {text}", line?)));
        let mut notes: Vec<String> = speeds.collect();
        let topology = self.finish().and_then(build::build).map_err(|error| error.named(source_name))?;
        notes.extend(spanning::note(&topology).map(|note| format!("{source_name}: {note}")));
        Ok(Imported { topology, notes })
    }

    fn finish(mut self) -> Result<Draft, TopologyError> {
        if self.draft.switches.is_empty() {
            return Err(TopologyError::nowhere(SlurmProblem::NoSwitch));
        }
        if self.draft.hosts.is_empty() {
            return Err(TopologyError::nowhere(SlurmProblem::NoNodes));
        }
        self.draft.sort_hosts();
        self.draft.loops = Loops::Blocked;
        Ok(self.draft)
    }
}

const KEYS: [&str; 4] = [SWITCH_NAME, "Switches", "Nodes", "LinkSpeed"];
const SWITCH_NAME: &str = "SwitchName";

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
