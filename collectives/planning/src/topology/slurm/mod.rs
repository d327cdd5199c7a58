//! Network topology from Slurm's configuration: `topology.conf` or `topology.yaml`.
//!
//! [`parse`] and [`parse_yaml`] read the files. If these are not readable, every process of a job
//! still finds the path from the top switch to its own host in `SLURM_TOPOLOGY_ADDR`;
//! [`from_topology_addrs`] makes a topology from those of all hosts. The formats are those of
//! topology.conf(5), topology.yaml(5) and sbatch(1).

#[cfg(feature = "slurm")]
mod yaml;

pub use super::SlurmProblem;
use super::build::{self, Draft, DraftHost, DraftLink, Loops};
use super::nodeset::{self, MAX_HOSTS};
use super::tree::Imported;
use super::{TopologyError, TopologyProblem};
use crate::{natural_order, parse_rate};
use std::collections::{BTreeMap, HashMap};
#[cfg(feature = "slurm")]
pub use yaml::parse_yaml;

/// Refuses a `topology.yaml`: this build has no YAML reader.
///
/// # Errors
/// Always.
#[cfg(not(feature = "slurm"))]
pub fn parse_yaml(_: &str, source_name: &str) -> Result<super::Imported, super::TopologyError> {
    let text = "this program is built without the feature `slurm`, which reads YAML".to_owned();
    Err(super::TopologyError::at(1, SlurmProblem::Yaml(text)).named(source_name))
}

/// Whether a text is meant to be a Slurm `topology.yaml`: a line begins with `topology:`, an entry
/// of its list.
pub fn looks_like_topology_yaml(text: &str) -> bool {
    text.lines().any(|line| {
        line.trim_start()
            .trim_start_matches("- ")
            .trim_start()
            .starts_with("topology:")
    })
}

/// Whether a text is meant to be a Slurm `topology.conf`: a line begins with `SwitchName=` (or the
/// block plugin's `BlockName=`, so that the refusal names that).
pub fn looks_like_topology_conf(text: &str) -> bool {
    let mut lines = text.lines().filter_map(|line| line.split_once('='));
    lines.any(|(key, _)| {
        ["SwitchName", "BlockName"]
            .iter()
            .any(|name| key.trim().eq_ignore_ascii_case(name))
    })
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
    let read = logical_lines(text)
        .iter()
        .try_for_each(|line| reader.read_line(line));
    read.map_err(|error| error.named(source_name))?;
    reader.build(source_name)
}

const MIN_MEGABITS_PER_SECOND: u64 = 10;

#[derive(Default)]
struct ConfReader {
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
        if ["BlockName", "BlockSizes"]
            .iter()
            .any(|key| first.eq_ignore_ascii_case(key))
        {
            return refuse(SlurmProblem::BlockPlugin(first.to_string()));
        }
        let pairs = line.pairs()?;
        let [name, switches, nodes, link_speed] = sort(&pairs)?;
        let Some(name) = name.filter(|_| pairs[0].key.eq_ignore_ascii_case(SWITCH_NAME)) else {
            return refuse(SlurmProblem::NoSwitchName(pairs[0].key.to_string()));
        };
        let rate = link_speed
            .map(|pair| self.read_speed(pair))
            .transpose()?
            .flatten();
        self.add_switch(name, switches, nodes, rate)
    }

    fn read_speed(&mut self, pair: &Pair) -> Result<Option<u64>, TopologyError> {
        let refuse =
            || TopologyError::at(pair.line, SlurmProblem::LinkSpeed(pair.value.to_string()));
        let (rate, line) = match pair.value.parse::<u64>() {
            Ok(megabits) if megabits < MIN_MEGABITS_PER_SECOND => {
                (None, &mut self.ignored_speed_line)
            }
            Ok(megabits) => {
                let rate = parse_rate(&format!("{megabits}mbit")).map_err(|_| refuse())?;
                (Some(rate), &mut self.read_speed_line)
            }
            Err(_) => return parse_rate(pair.value).map(Some).map_err(|_| refuse()),
        };
        line.get_or_insert(pair.line);
        Ok(rate)
    }

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
            self.draft
                .add_hosts(id, name.value, nodes.value, Some(nodes.line))?;
            self.draft.hosts[before..]
                .iter_mut()
                .for_each(|host| host.rate = rate);
        }
        let switch = self
            .draft
            .add_switch(name.value.to_string(), Some(name.line));
        if let Some(Pair { value, line, .. }) = switches {
            let refuse = |error| {
                TopologyError::at(
                    *line,
                    SlurmProblem::Switches {
                        switch: name.value.to_string(),
                        error,
                    },
                )
            };
            let children = nodeset::expand(value).map_err(refuse)?;
            switch.links = children
                .into_iter()
                .map(|to| DraftLink {
                    rate,
                    ..DraftLink::new(to, Some(*line))
                })
                .collect();
        }
        Ok(())
    }

    pub fn build(self, source_name: &str) -> Result<Imported, TopologyError> {
        let speeds = [
            (
                self.read_speed_line,
                "LinkSpeed is read as Mbit/s, of the cables to the hosts and switches of its line",
            ),
            (
                self.ignored_speed_line,
                "a LinkSpeed below 10 is ignored: it cannot be meant in Mbit/s",
            ),
        ];
        let speeds = speeds
            .into_iter()
            .filter_map(|(line, text)| Some(format!("{source_name}:{}: {text}", line?)));
        let mut notes: Vec<String> = speeds.collect();
        let topology = self
            .finish()
            .and_then(build::build)
            .map_err(|error| error.named(source_name))?;
        notes.extend(build::note(&topology).map(|note| format!("{source_name}: {note}")));
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
        let refuse = |problem: fn(String) -> SlurmProblem| {
            TopologyError::at(pair.line, problem(pair.key.to_string()))
        };
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

/// A line as Slurm sees it: without comments, with continued lines joined.
#[derive(Debug)]
struct LogicalLine {
    text: String,
    /// Offset in `text` and number (from 1) of each line of the file.
    pieces: Vec<(usize, usize)>,
}

#[derive(Debug)]
struct Pair<'a> {
    pub key: &'a str,
    pub value: &'a str,
    pub line: usize,
}

fn logical_lines(text: &str) -> Vec<LogicalLine> {
    let mut lines = Vec::new();
    let mut open: Option<LogicalLine> = None;
    for (index, line) in text.lines().enumerate() {
        let content = strip_comment(line).trim_end();
        let (content, continues) = content
            .strip_suffix('\\')
            .map_or((content, false), |content| (content, true));
        let mut joined = open.take().unwrap_or(LogicalLine {
            text: String::new(),
            pieces: Vec::new(),
        });
        joined.append(content, index + 1);
        if continues {
            open = Some(joined);
        } else {
            lines.push(joined);
        }
    }
    lines.extend(open);
    lines.retain(|line| !line.text.trim().is_empty());
    lines
}

/// Returns everything before a `#`; Slurm lets `\#` stand for a literal one.
fn strip_comment(line: &str) -> &str {
    let begins = line
        .match_indices('#')
        .find(|&(offset, _)| !line[..offset].ends_with('\\'));
    begins.map_or(line, |(offset, _)| &line[..offset])
}

impl LogicalLine {
    fn append(&mut self, content: &str, line: usize) {
        self.pieces.push((self.text.len(), line));
        // A list continued after a comma goes on even if the next line is indented, as people write
        // it.
        self.text += if self.text.ends_with(',') {
            content.trim_start()
        } else {
            content
        };
    }

    pub fn first_line(&self) -> usize {
        self.pieces[0].1
    }

    fn line_at(&self, offset: usize) -> usize {
        let piece = self.pieces.partition_point(|&(start, _)| start <= offset);
        self.pieces[piece.saturating_sub(1)].1
    }

    pub fn first_word(&self) -> &str {
        let text = self.text.trim_start();
        &text[..text.find(is_key_end).unwrap_or(text.len())]
    }

    /// Reads the line as `KEY=VALUE` words; Slurm allows blanks around the `=` and quotation marks
    /// around the value.
    pub fn pairs(&self) -> Result<Vec<Pair<'_>>, TopologyError> {
        let mut pairs = Vec::new();
        let mut rest = self.text.trim_start();
        while !rest.is_empty() {
            let (pair, tail) = self.pair(rest)?;
            pairs.push(pair);
            rest = tail.trim_start();
        }
        Ok(pairs)
    }

    fn pair<'a>(&'a self, rest: &'a str) -> Result<(Pair<'a>, &'a str), TopologyError> {
        let line = self.line_at(self.text.len() - rest.len());
        let refuse = |problem| TopologyError::at(line, problem);
        let key = &rest[..rest.find(is_key_end).unwrap_or(rest.len())];
        let value = rest[key.len()..]
            .trim_start()
            .strip_prefix('=')
            .filter(|_| !key.is_empty());
        let Some(value) = value.map(str::trim_start) else {
            let word = rest.split_whitespace().next().unwrap_or_default();
            return Err(refuse(SlurmProblem::NoKey(word.to_string())));
        };
        let (value, tail) = match value.strip_prefix('"') {
            Some(quoted) => quoted
                .split_once('"')
                .ok_or_else(|| refuse(SlurmProblem::OpenQuote(key.to_string())))?,
            None => value.split_at(value.find(char::is_whitespace).unwrap_or(value.len())),
        };
        if value.trim().is_empty() {
            return Err(refuse(SlurmProblem::NoValue(key.to_string())));
        }
        Ok((Pair { key, value, line }, tail))
    }
}

fn is_key_end(character: char) -> bool {
    character.is_whitespace() || character == '='
}

/// Place of one host in the tree, with the switches from the top down to its own; none if Slurm has
/// no topology.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Address<'a> {
    pub switches: Vec<&'a str>,
    pub host: &'a str,
}

impl<'a> Address<'a> {
    /// Reads `SLURM_TOPOLOGY_ADDR`, and `SLURM_TOPOLOGY_ADDR_PATTERN` if known. The pattern shows
    /// where the switches end if the host's name contains dots.
    ///
    /// # Errors
    /// [`SlurmProblem`] if the two do not match, or the path is not one of a tree.
    pub fn parse(address: &'a str, pattern: Option<&str>) -> Result<Self, SlurmProblem> {
        let depth = match pattern {
            Some(pattern) => {
                depth_of(pattern).ok_or_else(|| SlurmProblem::Pattern(pattern.to_string()))?
            }
            None => address.matches('.').count(),
        };
        let mut parts: Vec<&str> = address.splitn(depth + 1, '.').collect();
        if parts.len() <= depth {
            let pattern = pattern.unwrap_or_default().to_string();
            return Err(SlurmProblem::ShortAddress {
                address: address.to_string(),
                pattern,
            });
        }
        let host = parts
            .pop()
            .filter(|host| !host.is_empty())
            .ok_or_else(|| SlurmProblem::NoHost(address.to_string()))?;
        // A level without a switch, above a leaf that hangs higher than others, is an empty part.
        parts.retain(|part| !part.is_empty());
        match parts.iter().find(|part| part.contains(['[', ','])) {
            Some(several) => Err(SlurmProblem::SeveralSwitches(several.to_string())),
            None => Ok(Self {
                switches: parts,
                host,
            }),
        }
    }
}

fn depth_of(pattern: &str) -> Option<usize> {
    let (node, switches) = pattern
        .rsplit_once('.')
        .map_or((pattern, None), |(switches, node)| (node, Some(switches)));
    let mut switches = switches
        .into_iter()
        .flat_map(|switches| switches.split('.'));
    let depth = switches.clone().count();
    (node == "node" && switches.all(|switch| switch == "switch")).then_some(depth)
}

/// Makes a topology of the addresses of all hosts, one `ADDRESS [PATTERN]` per line, in any order;
/// `source_name` names the text in errors and notes.
///
/// Blank lines and text after a `#` are skipped. A host may repeat its line, once for each task on
/// it. If no address names a switch (Slurm knows no topology), all hosts are put on one switch and
/// a note says so.
///
/// # Errors
/// [`TopologyError`] with source and line, for invalid addresses, and if the switches are not all
/// connected.
pub fn from_topology_addrs(text: &str, source_name: &str) -> Result<Imported, TopologyError> {
    read(text, source_name).map_err(|error| error.named(source_name))
}

fn read(text: &str, source_name: &str) -> Result<Imported, TopologyError> {
    let lines = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.split('#').next().unwrap_or_default().trim()));
    let mut paths = Vec::new();
    for (line, words) in lines.filter(|(_, words)| !words.is_empty()) {
        let address = read_line(words).map_err(|problem| TopologyError::at(line, problem))?;
        paths.push((line, address));
    }
    if paths.is_empty() {
        return Err(TopologyError::nowhere(SlurmProblem::NoAddress));
    }
    let flat = paths.iter().all(|(_, address)| address.switches.is_empty());
    let mut notes = Vec::new();
    if flat {
        notes.push(format!(
            "{source_name}: the addresses name no switch; all hosts are taken to be on one, s0"
        ));
        paths
            .iter_mut()
            .for_each(|(_, address)| address.switches.push("s0"));
    }
    let topology = build::build(draft(&paths)?)?;
    notes.extend(build::note(&topology).map(|note| format!("{source_name}: {note}")));
    Ok(Imported { topology, notes })
}

fn read_line(words: &str) -> Result<Address<'_>, SlurmProblem> {
    let mut words = words.split_whitespace();
    let (address, pattern) = (words.next().unwrap_or_default(), words.next());
    match words.next() {
        Some(third) => Err(SlurmProblem::ThirdWord(third.to_string())),
        None => Address::parse(address, pattern),
    }
}

/// Builds the draft, with switches in natural order of their names: jobs print their lines in any
/// order, and the topology must not depend on it.
fn draft(paths: &[(usize, Address)]) -> Result<Draft, TopologyError> {
    let mut cables: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut first_lines: HashMap<&str, usize> = HashMap::new();
    for (line, address) in paths {
        address
            .switches
            .iter()
            .for_each(|&switch| _ = first_lines.entry(switch).or_insert(*line));
        address
            .switches
            .windows(2)
            .for_each(|pair| _ = cables.entry((pair[0], pair[1])).or_insert(*line));
    }
    let mut names: Vec<&str> = first_lines.keys().copied().collect();
    names.sort_by(|left, right| natural_order(left, right));
    let ids: HashMap<&str, usize> = names
        .iter()
        .enumerate()
        .map(|(id, &name)| (name, id))
        .collect();

    let mut draft = Draft {
        loops: Loops::Blocked,
        ..Draft::default()
    };
    for &name in &names {
        draft.add_switch(name.to_string(), first_lines.get(name).copied());
    }
    for ((upper, lower), line) in cables {
        draft.switches[ids[upper]]
            .links
            .push(DraftLink::new(lower.to_string(), Some(line)));
    }
    add_hosts(&mut draft, paths, &ids)?;
    Ok(draft)
}

fn add_hosts(
    draft: &mut Draft,
    paths: &[(usize, Address)],
    ids: &HashMap<&str, usize>,
) -> Result<(), TopologyError> {
    let mut known: HashMap<&str, usize> = HashMap::new();
    for (line, address) in paths {
        let Some(switch) = address.switches.last().map(|last| ids[last]) else {
            return Err(TopologyError::at(
                *line,
                SlurmProblem::NoSwitches(address.host.to_string()),
            ));
        };
        if known.insert(address.host, switch) != Some(switch) {
            draft.hosts.push(DraftHost::new(
                address.host.to_string(),
                switch,
                Some(*line),
            ));
        }
        if draft.hosts.len() > MAX_HOSTS {
            return Err(TopologyError::at(*line, TopologyProblem::TooManyHosts));
        }
    }
    draft.sort_hosts();
    Ok(())
}

#[cfg(test)]
mod tests;
