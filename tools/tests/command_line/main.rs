//! Behaviour of the program without a network: usage, plans, topologies, simulations. These tests
//! need no root.

mod documents;
mod dump;
mod explain;
mod manual;
mod mpi_env;
mod plan;
mod report;
mod simulate;
mod topo;
mod usage;

use ethbcast_tests::lab::{Ended, LIMIT, Run};

/// Runs the program to its end.
fn ended_here(arguments: &[&str]) -> Ended {
    Run::here(env!("CARGO_BIN_EXE_ethbcast"), arguments).end(LIMIT)
}
