//! What the tool says no to, with which code and which words; and what its `lab` commands do.

mod demo;
mod dest;
mod disk;
mod interface;
mod lab;
mod meeting;
mod nobody;
mod perf;
mod pipes;
mod plan;
mod printing;
mod probe;
mod source;
mod topo;
mod topology;
mod usage;

use ethbcast_tests::tool::{Ended, LIMIT, Run, names_in, program};
use std::path::Path;
use std::process::{Command, Stdio};

const MEBIBYTE: usize = 1 << 20;

/// The tool on this machine itself, outside every lab.
fn here(arguments: &[&str]) -> Run {
    let mut command = Command::new(program());
    command.args(arguments).env_remove("RUST_LOG").stdin(Stdio::null());
    Run::start(&arguments.join(" "), command)
}

fn ended_here(arguments: &[&str]) -> Ended {
    here(arguments).end(LIMIT)
}

/// The namespaces whose names begin so.
fn namespaces(prefix: &str) -> Vec<String> {
    let mut names = if Path::new("/run/netns").exists() { names_in(Path::new("/run/netns")) } else { Vec::new() };
    names.retain(|name| name.starts_with(prefix));
    names
}
