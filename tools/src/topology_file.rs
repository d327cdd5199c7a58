//! Reading of topologies: our own files, Slurm's, directories of LLDP outputs, and built-in test
//! beds.

use crate::exit::{Code, Failure, fail};
use ethbcast_planning::load::{self, LoadError};
use ethbcast_planning::topology::slurm::Address;
use ethbcast_planning::topology::{Imported, Topology, nodeset};
use std::path::Path;

/// Reads a topology, whose format is detected by its content, and prints warnings on stderr. A test
/// bed's name works if there is no such file.
///
/// # Errors
/// A [`Failure`] with code 2 (malformed) or 4 (unreadable).
pub fn read_topology(path: &Path) -> anyhow::Result<Topology> {
    let Imported { topology, notes } = Topology::load(path).map_err(refused)?;
    print_notes(&notes);
    Ok(topology)
}

/// Finds the host that `--root` names in the topology `name`.
///
/// # Errors
/// A [`Failure`] with code 2.
pub fn find_root(topology: &Topology, name: &str, root: &str) -> anyhow::Result<usize> {
    let Some(host) = topology.host_named(root) else {
        let known = nodeset::fold(topology.hosts());
        let text = format!("the topology ({name}) has no host {root}, only {known}: choose one of them with --root");
        return fail(Code::Usage, text);
    };
    Ok(host)
}

pub fn print_notes(notes: &[String]) {
    notes.iter().for_each(|note| crate::exit::print_line(format_args!("ethbcast: note: {note}")));
}

/// Converts a load error to a failure: code 2 if malformed, 4 if unreadable.
pub fn refused(error: LoadError) -> Failure {
    let code = if matches!(error, LoadError::Unreadable { .. }) { Code::System } else { Code::Usage };
    Failure::new(code, error)
}

/// Reads a text file; `-` is stdin.
///
/// # Errors
/// A [`Failure`] with code 2 (not text, or too large to be one) or 4 (unreadable).
pub fn read_text(path: &Path, what: &'static str) -> anyhow::Result<String> {
    Ok(load::read_text(path, what).map_err(refused)?)
}

/// Returns the topology's host on which this process runs, according to Slurm.
pub fn host_by_slurm(topology: &Topology) -> Option<usize> {
    let address = std::env::var("SLURM_TOPOLOGY_ADDR").ok()?;
    host_at(topology, &address, std::env::var("SLURM_TOPOLOGY_ADDR_PATTERN").ok().as_deref())
}

fn host_at(topology: &Topology, address: &str, pattern: Option<&str>) -> Option<usize> {
    topology.host_named(Address::parse(address, pattern).ok()?.host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_malformed_and_what_cannot_be_read_end_with_codes_of_their_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let code = |name: &str| {
            let error = read_topology(&folder.path().join(name)).expect_err("no topology");
            error.downcast_ref::<Failure>().expect("a code").code()
        };
        std::fs::write(folder.path().join("c"), "hosts: n0\n").expect("a file");
        std::fs::write(folder.path().join("d"), b"\xff\xfe").expect("a file");
        assert_eq!(["c", "d", "missing"].map(code), [Code::Usage, Code::Usage, Code::System]);
    }

    #[test]
    fn slurm_says_which_host_this_is() {
        let bed = Topology::builtin("fig9-1").expect("fig9-1");
        assert_eq!(host_at(&bed, "s0.n3", Some("switch.node")), Some(3));
        assert_eq!(host_at(&bed, "s0.login", Some("switch.node")), None);
        assert_eq!(host_at(&bed, "s0.n3", Some("nonsense")), None);
    }
}
