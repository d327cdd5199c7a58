//! Program for model checking: explores all event sequences of small networks, or replays one.

use anyhow::{Context, Error};
use clap::Parser;
use ethbcast_tests::worlds::{Bounds, Named, WORLDS, parse_events};
use std::time::Duration;

/// Explores a bounded model.
#[derive(Debug, Parser)]
#[command(name = "worlds")]
struct Arguments {
    /// Name of the model.
    name: String,
    /// Frames that may be lost or repeated in all. Without it one may at each step, and --depth
    /// says how many steps there are.
    #[arg(long)]
    faults: Option<usize>,
    /// Timers that fall due at most while frames are on their way.
    #[arg(long)]
    early: Option<usize>,
    #[arg(long, default_value_t = 1)]
    deaths: u32,
    #[arg(long)]
    depth: Option<usize>,
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    follow_one_in: u64,
    /// Events to replay instead.
    #[arg(long)]
    replay: Option<String>,
}

fn main() -> anyhow::Result<()> {
    let Arguments {
        name,
        faults,
        early,
        deaths,
        depth,
        follow_one_in,
        replay,
    } = Arguments::parse();
    let names = || WORLDS.map(|world| world.name).join(", ");
    let world = Named::find(&name)
        .with_context(|| format!("there is no world `{name}`: choose one of {}", names()))?;
    if let Some(events) = replay {
        print!(
            "{}",
            parse_events(&events)
                .and_then(|events| world.replay(&events))
                .map_err(Error::msg)?
        );
        return Ok(());
    }
    let depth = depth.unwrap_or(if faults.is_some() {
        usize::MAX
    } else {
        world.depth
    });
    let (faults, early, ends_within) = (
        faults.unwrap_or(usize::MAX),
        early.unwrap_or(usize::MAX),
        Duration::from_secs(10),
    );
    let explored = world.explore(Bounds {
        depth,
        faults,
        early,
        deaths,
        ends_within,
        follow_one_in,
    });
    println!(
        "{name}: {}",
        explored.map_err(|violation| Error::msg(format!("{name}: {violation}")))?
    );
    Ok(())
}
