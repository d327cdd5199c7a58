//! Hosts named by the user: node sets, files of them, and ClusterShell groups.

use crate::doctor::text_of;
use crate::exit::{Code, Failure};
use ethbcast_planning::host_list::{self, HostListError};

/// Returns the hosts of a node set without duplicates. `^FILE`, or `@FILE` if there is such a file,
/// reads a file with one or more names per line and comments after `#`; other groups (`@group`) are
/// resolved by ClusterShell.
///
/// # Errors
/// A [`Failure`] with code 2, or 4 if a file cannot be read.
pub fn hosts(text: &str) -> Result<Vec<String>, Failure> {
    let read = match host_list::read(text) {
        Err(HostListError::Group { .. }) => host_list::read(&of_clustershell(text)?),
        read => read,
    };
    read.map_err(|error| {
        let code = if matches!(error, HostListError::Load(_)) { Code::System } else { Code::Usage };
        Failure::new(code, error)
    })
}

fn of_clustershell(text: &str) -> Result<String, Failure> {
    text_of("nodeset", &["-e", "-S", "\n", text]).map_err(|why| {
        let help = "name the hosts, or a file of them with ^FILE";
        Failure::new(Code::Usage, format!("{text} has a group, which ClusterShell's `nodeset` knows: {why}; {help}"))
    })
}
