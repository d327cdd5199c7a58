//! The network as its hosts hear it: the outputs of `lldpcli -f json0 show neighbors`, one file per host.
//!
//! A switch announces itself on every port (IEEE 802.1AB), so each host hears the switch it hangs on. Hosts do not hear
//! what joins the switches; the outputs of the switches themselves, where they can be had, do. Without any of those,
//! the switches are joined by one more, named `core`, and a note says so.

mod bundle;
mod neighbour;
mod neighbourhood;

pub use super::error::LldpProblem;

use super::build;
use super::error::{TopologyError, TopologyProblem};
use super::spanning;
use super::tree::Imported;
use neighbourhood::Neighbourhood;

/// One output of `lldpcli -f json0 show neighbors`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LldpFile {
    /// The host, or switch, whose neighbours these are.
    pub name: String,
    /// What errors call the file, usually its path.
    pub source_name: String,
    /// Its content.
    pub text: String,
}

impl LldpFile {
    /// Whose output a file of this name is: the name without the ending, if it has one of those people give such files.
    /// (Any last part would be too much: `n1.cluster.example` is a whole name.)
    pub fn name_of(file_name: &str) -> &str {
        let endings = [".json0", ".json", ".lldp", ".txt", ".out", ".log"];
        endings.iter().find_map(|ending| file_name.strip_suffix(ending)).unwrap_or(file_name)
    }
}

/// Makes a topology of the outputs of all hosts and any number of switches; `source_name` is what errors that concern
/// no single file call the whole, usually the folder.
///
/// A neighbour is known by its chassis name, or its chassis id if that name is none a topology can carry. Neighbours
/// that are hosts are ignored. If `interface` is given, hosts' other interfaces are ignored too: for hosts that hang on
/// a second network. Cables carry what the ports at their ends say; cables of one aggregation carry it together. Cables
/// that close a loop are taken to be blocked by spanning tree, and a note says which.
///
/// # Errors
/// [`TopologyError`] if a file is no such output, a host hears no switch or several, the ends of a cable say different
/// rates, or the switches are not all joined.
pub fn read(files: &[LldpFile], interface: Option<&str>, source_name: &str) -> Result<Imported, TopologyError> {
    let neighbourhood = Neighbourhood::read(files, source_name)?;
    let (draft, notes) = neighbourhood.draft(interface)?;
    let topology = build::build(draft).map_err(|error| in_words_of_lldp(error, source_name))?;
    let notes =
        notes.into_iter().chain(spanning::note(&topology)).map(|note| format!("{source_name}: {note}")).collect();
    Ok(Imported { topology, notes })
}

/// A topology file can be edited where the network is not whole; what LLDP tells needs other advice.
fn in_words_of_lldp(error: TopologyError, source_name: &str) -> TopologyError {
    let problem = match *error.problem {
        TopologyProblem::Disconnected { first, islands } => LldpProblem::Islands { first, islands }.into(),
        other => other,
    };
    TopologyError::nowhere(problem).named(source_name)
}

#[cfg(test)]
mod tests;
