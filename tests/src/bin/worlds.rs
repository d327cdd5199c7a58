//! Program for model checking: explores all event sequences of small networks, or replays one.

use ethbcast_tests::worlds::{Bounds, Named, WORLDS, parse_events};
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str =
    "worlds NAME [--faults N] [--early N] [--deaths N] [--depth N] [--follow-one-in N] | worlds NAME --replay 'EVENTS'
Without --faults one frame may be lost or repeated at each step, and --depth says how many steps there are. With --early
so many timers at most fall due while frames are on their way.";

fn main() -> ExitCode {
    match run(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    let names = || WORLDS.map(|world| world.name).join(", ");
    let (name, mut options) = arguments.split_first().ok_or_else(|| format!("{USAGE}\nWorlds: {}", names()))?;
    let world = Named::find(name).ok_or_else(|| format!("there is no world `{name}`: choose one of {}", names()))?;
    let (mut faults, mut early, mut deaths, mut depth, mut follow_one_in) = (usize::MAX, usize::MAX, 1, None, 1000);
    while let [option, value, rest @ ..] = options {
        if option == "--replay" {
            print!("{}", world.replay(&parse_events(value)?)?);
            return Ok(());
        }
        let number: usize = value.parse().map_err(|_| format!("{option} {value}: write a number"))?;
        match option.as_str() {
            "--faults" => faults = number,
            "--early" => early = number,
            "--deaths" => deaths = number as u32,
            "--depth" => depth = Some(number),
            "--follow-one-in" => follow_one_in = number.max(1) as u64,
            _ => return Err(format!("there is no option {option}\n{USAGE}")),
        }
        options = rest;
    }
    if !options.is_empty() {
        return Err(format!("{} has no value\n{USAGE}", options[0]));
    }
    let to_the_end = if faults < usize::MAX { usize::MAX } else { world.depth };
    let (depth, ends_within) = (depth.unwrap_or(to_the_end), Duration::from_secs(10));
    let explored = world.explore(Bounds { depth, faults, early, deaths, ends_within, follow_one_in });
    println!("{name}: {}", explored.map_err(|violation| format!("{name}: {violation}"))?);
    Ok(())
}
