//! Program that runs transfers in the simulator under random faults. `swarm --seeds N [--from S]
//! [--large]` runs many, `swarm SEED [--frames]` one.

use ethbcast_tests::swarm::{Schedule, Seed, TraceDetail, run_all, tell};
use std::ops::Range;
use std::process::ExitCode;

const USAGE: &str =
    "usage: swarm --seeds N [--from S] [--large], or swarm SEED [--frames] with a seed such as small:17:v7";

enum Order {
    One(Seed, TraceDetail),
    Many { seeds: Range<u64>, large: bool },
}

fn main() -> ExitCode {
    match order(std::env::args().skip(1)) {
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
        Ok(Order::One(seed, told)) => {
            println!("{}", Schedule::of(seed));
            let (report, story) = tell(seed, told);
            story.iter().for_each(|line| println!("{line}"));
            println!("{report}");
            ExitCode::from(u8::from(report.violation.is_some()))
        }
        Ok(Order::Many { seeds, large }) => {
            let seed = if large { Seed::large } else { Seed::small };
            let tally = run_all(seeds.map(seed));
            println!("{tally}");
            ExitCode::from(u8::from(!tally.violations().is_empty()))
        }
    }
}

fn order(mut arguments: impl Iterator<Item = String>) -> Result<Order, String> {
    let (mut seeds, mut from, mut large) = (None, 0, false);
    while let Some(argument) = arguments.next() {
        let mut number = || {
            let text = arguments.next().ok_or_else(|| format!("{argument} needs a number; {USAGE}"))?;
            text.parse().map_err(|_| format!("{argument} {text}: not a whole number; {USAGE}"))
        };
        match argument.as_str() {
            "--seeds" => seeds = Some(number()?),
            "--from" => from = number()?,
            "--large" => large = true,
            seed => {
                let seed = seed.parse().map_err(|why| format!("{why}\n{USAGE}"))?;
                return match arguments.next().as_deref() {
                    None => Ok(Order::One(seed, TraceDetail::Events)),
                    Some("--frames") => Ok(Order::One(seed, TraceDetail::Frames)),
                    Some(other) => Err(format!("{other}: not known; {USAGE}")),
                };
            }
        }
    }
    let seeds: u64 = seeds.ok_or(USAGE)?;
    let to = from.checked_add(seeds).filter(|_| seeds > 0).ok_or_else(|| {
        format!(
            "--from {from} --seeds {seeds}: there is none; seeds are the numbers below {}, and one at least",
            u64::MAX
        )
    })?;
    Ok(Order::Many { seeds: from..to, large })
}
