//! Program that runs transfers in the simulator under random faults: many seeds, or one again.

use clap::Parser;
use ethbcast_tests::swarm::{Schedule, Seed, TraceDetail, play_traced, run_all};
use std::process::ExitCode;

/// Plays schedules of the swarm, and looks whether a guarantee is broken.
#[derive(Debug, Parser)]
#[command(name = "swarm")]
struct Arguments {
    /// Seed of one schedule, such as small:17:v7, whose events are printed.
    #[arg(required_unless_present = "seeds", conflicts_with = "seeds")]
    seed: Option<Seed>,
    /// Print its frames, too.
    #[arg(long, requires = "seed")]
    frames: bool,
    /// Number of schedules.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: Option<u64>,
    /// First seed of many.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Play large ones.
    #[arg(long)]
    large: bool,
}

fn main() -> ExitCode {
    let Arguments {
        seed,
        frames,
        seeds,
        from,
        large,
    } = Arguments::parse();
    let is_broken = if let Some(seed) = seed {
        println!("{}", Schedule::of(seed));
        let (report, story) = play_traced(
            seed,
            if frames {
                TraceDetail::Frames
            } else {
                TraceDetail::Events
            },
        );
        story.iter().for_each(|line| println!("{line}"));
        println!("{report}");
        report.violation.is_some()
    } else {
        let seed = if large { Seed::large } else { Seed::small };
        let tally = run_all((from..from.saturating_add(seeds.unwrap_or_default())).map(seed));
        println!("{tally}");
        !tally.violations().is_empty()
    };
    ExitCode::from(u8::from(is_broken))
}
