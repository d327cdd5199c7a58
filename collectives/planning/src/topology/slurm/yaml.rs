//! Parser of newer Slurm's `topology.yaml` (25.05 and on), as far as it describes switches.

use super::{ConfReader, Pair};
use crate::topology::tree::Imported;
use crate::topology::{SlurmProblem, TopologyError};
use saphyr::{LoadableYamlNode, MarkedYaml};

/// Reads a `topology.yaml`; `source_name` names it in errors and notes, usually its path.
///
/// Slurm's default is read if there are several topologies: the first that is `cluster_default`, or
/// else the first of all. Loops are treated as those of a `topology.conf`.
///
/// # Errors
/// [`TopologyError`] with source and line, for anything that is not of this form, a topology
/// without switches (`block`, `flat` and others), or switches that are not all connected.
pub fn parse_yaml(text: &str, source_name: &str) -> Result<Imported, TopologyError> {
    read(text)
        .map_err(|error| error.named(source_name))
        .and_then(|(reader, notes)| {
            let mut imported = reader.build(source_name)?;
            imported.notes.extend(
                notes
                    .into_iter()
                    .map(|note| format!("{source_name}: {note}")),
            );
            Ok(imported)
        })
}

fn read(text: &str) -> Result<(ConfReader, Option<String>), TopologyError> {
    let refuse =
        |line: usize, problem: String| TopologyError::at(line, SlurmProblem::Yaml(problem));
    let documents = MarkedYaml::load_from_str(text)
        .map_err(|error| refuse(error.marker().line(), error.info().to_owned()))?;
    let topologies = documents
        .first()
        .and_then(|document| document.data.as_vec())
        .filter(|list| !list.is_empty());
    let Some(topologies) = topologies else {
        return Err(refuse(
            1,
            "expected a list of topologies, such as `- topology: cluster`".to_owned(),
        ));
    };
    let is_default = |topology: &&MarkedYaml| {
        value(topology, "cluster_default").and_then(|flag| flag.data.as_bool()) == Some(true)
    };
    let topology = topologies.iter().find(is_default).unwrap_or(&topologies[0]);
    let name = value(topology, "topology")
        .and_then(|name| name.data.as_str())
        .unwrap_or("without a name");
    let Some(tree) = value(topology, "tree") else {
        let text = format!(
            "the topology `{name}` is no `tree`, which alone says what the switches are; make the one with \
                            a `tree` the `cluster_default`, or write a topology file by hand"
        );
        return Err(refuse(line(topology), text));
    };
    let Some(switches) = value(tree, "switches").and_then(|list| list.data.as_vec()) else {
        return Err(refuse(
            line(tree),
            "expected a list of `switches` in the `tree`".to_owned(),
        ));
    };
    let mut reader = ConfReader::default();
    for switch in switches {
        read_switch(&mut reader, switch)?;
    }
    let note = format!(
        "of {} topologies it is `{name}` that is read",
        topologies.len()
    );
    Ok((reader, (topologies.len() > 1).then_some(note)))
}

fn read_switch(reader: &mut ConfReader, switch: &MarkedYaml) -> Result<(), TopologyError> {
    let refuse = |line: usize, problem: &str| {
        TopologyError::at(line, SlurmProblem::Yaml(problem.to_owned()))
    };
    let Some(mapping) = switch.data.as_mapping() else {
        return Err(refuse(line(switch), "expected a switch as `- switch: s0`"));
    };
    let known = ["switch", "children", "nodes"];
    if let Some(key) = mapping
        .keys()
        .find(|key| !key.data.as_str().is_some_and(|key| known.contains(&key)))
    {
        return Err(refuse(
            line(key),
            "unknown key, expected one of `switch`, `children`, `nodes`",
        ));
    }
    let pair = |key: &'static str| match value(switch, key) {
        None => Ok(None),
        Some(node) => match node.data.as_str().filter(|text| !text.is_empty()) {
            Some(value) => Ok(Some(Pair {
                key,
                value,
                line: line(node),
            })),
            None => Err(refuse(
                line(node),
                "expected names such as n[0-7], in quotation marks if they are numbers",
            )),
        },
    };
    let Some(name) = pair("switch")? else {
        return Err(refuse(
            line(switch),
            "this switch has no name: `switch: s0`",
        ));
    };
    reader.add_switch(
        &name,
        pair("children")?.as_ref(),
        pair("nodes")?.as_ref(),
        None,
    )
}

fn value<'a, 'input>(node: &'a MarkedYaml<'input>, key: &str) -> Option<&'a MarkedYaml<'input>> {
    node.data.as_mapping_get(key)
}

fn line(node: &MarkedYaml) -> usize {
    node.span.start.line()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::slurm;
    use crate::topology::slurm::looks_like_topology_yaml;

    const EXAMPLE: &str = "\
---
- topology: blocks
  block:
    block_sizes: [4, 16]
    blocks:
      - block: b1
        nodes: node[01-04]
- topology: topo1
  cluster_default: true
  tree:
    switches:
      - switch: sw_root   # the top
        children: s[1-2]
      - switch: s1
        nodes: node[01-02]
      - switch: s2
        nodes: \"node[03-04]\"
";

    fn refusal(from: &str, to: &str) -> String {
        assert!(EXAMPLE.contains(from), "{from}");
        parse_yaml(&EXAMPLE.replacen(from, to, 1), "topology.yaml")
            .expect_err("refused")
            .to_string()
    }

    #[test]
    fn the_default_tree_is_read_as_a_topology_conf_would_be() {
        let Imported { topology, notes } =
            parse_yaml(EXAMPLE, "topology.yaml").expect("a topology");
        let conf = "SwitchName=sw_root Switches=s[1-2]\nSwitchName=s1 \
            Nodes=node[01-02]\nSwitchName=s2 Nodes=node[03-04]";
        assert_eq!(
            topology,
            slurm::parse(conf, "topology.conf")
                .expect("a topology")
                .topology
        );
        assert_eq!(
            notes,
            ["topology.yaml: of 2 topologies it is `topo1` that is read"]
        );
        assert!(looks_like_topology_yaml(EXAMPLE) && !looks_like_topology_yaml(conf));
        assert!(!looks_like_topology_yaml(
            "schema = 1\n[[switch]]\nname = 'topology'"
        ));
    }

    #[test]
    fn a_file_that_is_no_topology_yaml_is_refused_with_its_line() {
        let cases = [
            (
                "children: s[1-2]",
                "childs: s[1-2]",
                "13: unknown key, expected one of `switch`, `children`, `nodes`",
            ),
            (
                "children: s[1-2]",
                "children: s[1-3]",
                "13: switch `sw_root` links to `s3`, which is not a switch; expected \
              one of `sw_root`, `s1`, `s2`",
            ),
            (
                "nodes: node[01-02]",
                "nodes: 7",
                "15: expected names such as n[0-7], in quotation marks if they are numbers",
            ),
            (
                "nodes: node[01-02]",
                "nodes: node[01-",
                "15: hosts of switch `s1`: node set, character 9: expected the last \
              number of the range, found the end",
            ),
            (
                "- switch: s1\n        nodes",
                "- nodes",
                "14: this switch has no name: `switch: s0`",
            ),
            (
                "  cluster_default: true\n",
                "",
                "2: the topology `blocks` is no `tree`, which alone says what the switches \
              are; make the one with a `tree` the `cluster_default`, or write a topology file by hand",
            ),
        ];
        for (from, to, message) in cases {
            let refused = refusal(from, to);
            if refused.contains("node[01-") || message.contains("node set") {
                assert!(
                    refused.starts_with(&format!("topology.yaml:{}", &message[..2])),
                    "{refused}"
                );
            } else {
                assert_eq!(refused, format!("topology.yaml:{message}"));
            }
        }
        assert!(refusal("children: s[1-2]", "children: [").starts_with("topology.yaml:"));
        let none = parse_yaml("topology: x\n", "topology.yaml")
            .expect_err("no list")
            .to_string();
        assert_eq!(
            none,
            "topology.yaml:1: expected a list of topologies, such as `- topology: cluster`"
        );
    }
}
