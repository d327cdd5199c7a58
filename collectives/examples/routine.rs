//! Example: a broadcast along a tree that was made and saved before (Patarasuk 2008 §5, the
//! customised routine):
//!
//! ```sh
//! ethbcast plan --topology cluster.toml --root n0 --size 1M --out plan.toml
//! ethbcast lab each -- target/release/examples/routine 8 plan.toml cluster.toml
//! ```
//!
//! The tree is checked with the topology before it runs: one that uses a cable twice is refused,
//! naming the cable.
//!
//! `[dependencies]` of its Cargo.toml:
//!
//! ```toml
//! ethbcast-collectives = { path = "../ethbcast/collectives" }
//! ethbcast-planning = { path = "../ethbcast/collectives/planning" }
//! ```

use ethbcast_collectives::Route;
use ethbcast_collectives::communicator::{Communicator, Options};
use ethbcast_planning::plan::file::SavedPlan;
use ethbcast_planning::topology::Topology;
use std::time::Instant;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Err(error) = broadcast(&arguments) {
        eprintln!("routine: {error}");
        std::process::exit(1);
    }
}

fn broadcast(arguments: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let (size, plan, topology) = match arguments {
        [size, plan] => (size.parse()?, SavedPlan::load(plan)?, None),
        [size, plan, topology] => (
            size.parse()?,
            SavedPlan::load(plan)?,
            Some(Topology::load(topology)?.topology),
        ),
        _ => return Err("usage: routine RANKS PLAN [TOPOLOGY]".into()),
    };
    let root = plan.root().to_owned();
    let all = match topology {
        None => Communicator::with_plan("routine", size, plan)?,
        Some(topology) => {
            let route = Route::Saved(Box::new(plan));
            let options = Options {
                route,
                topology: Some(topology),
                ..Options::default()
            };
            Communicator::join_with("routine", size, &options)?
        }
    };
    let root = all
        .hosts()
        .iter()
        .position(|host| *host == root)
        .ok_or("the plan's root is a rank")? as u16;
    let mut data = vec![if all.rank() == root { 7 } else { 0 }; 1 << 20];
    let began = Instant::now();
    all.broadcast(root, &mut data)?;
    all.barrier()?;
    if all.rank() == root {
        println!(
            "{}; took {:?}",
            all.choice(root, data.len())?.reason,
            began.elapsed()
        );
    }
    if data.iter().all(|&byte| byte == 7) {
        Ok(())
    } else {
        Err("other bytes came than were sent".into())
    }
}
