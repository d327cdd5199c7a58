//! The topology of a lab: a number of hosts, a test bed's name, or a topology file.

use crate::exit::{Code, Failure, WithCode, fail};
use crate::topology_file::read_topology;
use ethbcast_planning::topology::{BUILTIN_NAMES, Topology};
use std::path::Path;

/// Limit on hosts; more namespaces take minutes to create.
const MAX_HOSTS: usize = 256;

/// Returns the topology that `shape` describes.
///
/// # Errors
/// A [`Failure`] with code 2, or 4 if a file cannot be read.
pub fn topology(shape: &str) -> anyhow::Result<Topology> {
    if let Ok(hosts) = shape.parse::<usize>() {
        if !(1..=MAX_HOSTS).contains(&hosts) {
            return fail(Code::Usage, format!("a lab of {hosts} hosts: choose 1 to {MAX_HOSTS}"));
        }
        return Topology::single_switch((0..hosts).map(|host| format!("n{host}"))).code(Code::Usage);
    }
    if !Path::new(shape).exists() && Topology::builtin(shape).is_none() {
        let text = format!(
            "{shape} is neither a number of hosts, nor a topology file, nor one of {}",
            BUILTIN_NAMES.join(", ")
        );
        return fail(Code::Usage, text);
    }
    read_topology(Path::new(shape))
}

/// Returns a built-in test bed.
///
/// # Errors
/// A [`Failure`] with code 2 that lists the names.
pub fn builtin(name: &str) -> anyhow::Result<Topology> {
    let unknown =
        || Failure::new(Code::Usage, format!("{name} is no test bed: choose one of {}", BUILTIN_NAMES.join(", ")));
    Ok(Topology::builtin(name).ok_or_else(unknown)?)
}
