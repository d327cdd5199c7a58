//! Topology from LLDP: the outputs of `lldpcli -f json0 show neighbors`, one file per host.
//!
//! A switch announces itself on every port (IEEE 802.1AB), so each host hears the switch it hangs
//! on. Hosts do not hear the cables between switches; the outputs of the switches themselves, where
//! available, contain them. Without those, the switches are joined by an additional one, named
//! `core`, and a note says so.

mod bundle;
#[cfg(feature = "lldp")]
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
    /// Host or switch whose neighbours these are.
    pub name: String,
    /// Name of the file in errors, usually its path.
    pub source_name: String,
    /// Content of the file.
    pub text: String,
}

impl LldpFile {
    /// Returns the host whose output a file of this name is: the name without a usual file
    /// extension. Other last parts are kept, because `n1.cluster.example` is a whole name.
    pub fn name_of(file_name: &str) -> &str {
        let endings = [".json0", ".json", ".lldp", ".txt", ".out", ".log"];
        endings.iter().find_map(|ending| file_name.strip_suffix(ending)).unwrap_or(file_name)
    }
}

/// Makes a topology from the outputs of all hosts and any number of switches; `source_name` names
/// the whole, usually the folder, in errors that concern no single file.
///
/// A neighbour is identified by its chassis name, or by its chassis id if a topology cannot carry
/// that name. Neighbours that are hosts are ignored. If `interface` is given, hosts' other
/// interfaces are ignored, too, for hosts on a second network. Cables have the rates of the ports
/// at their ends; cables of one aggregation add up. Cables that close a loop are assumed to be
/// blocked by spanning tree, and a note names them.
///
/// # Errors
/// [`TopologyError`] if a file is no such output, a host hears no switch or several, the ends of a
/// cable report different rates, or the switches are not all connected.
pub fn read(files: &[LldpFile], interface: Option<&str>, source_name: &str) -> Result<Imported, TopologyError> {
    let neighbourhood = Neighbourhood::read(files, source_name)?;
    let (draft, notes) = neighbourhood.draft(interface)?;
    let topology = build::build(draft).map_err(|error| in_words_of_lldp(error, source_name))?;
    let notes =
        notes.into_iter().chain(spanning::note(&topology)).map(|note| format!("{source_name}: {note}")).collect();
    Ok(Imported { topology, notes })
}

/// Replaces advice that fits topology files, which can be edited, by advice for LLDP.
fn in_words_of_lldp(error: TopologyError, source_name: &str) -> TopologyError {
    let problem = match *error.problem {
        TopologyProblem::Disconnected { first, islands } => LldpProblem::Islands { first, islands }.into(),
        other => other,
    };
    TopologyError::nowhere(problem).named(source_name)
}

#[cfg(not(feature = "lldp"))]
mod neighbour {
    pub(super) fn read(_: &str) -> Result<Vec<super::bundle::Neighbour>, (usize, String)> {
        Err((1, "this program is built without the feature `lldp`".to_owned()))
    }
}

#[cfg(test)]
mod tests;
