//! The swarm: schedules of whole machines under drawn faults, each held to every promise.

use ethbcast_tests::swarm::{Schedule, Seed, Told, run_all, tell};

const SMALL: u64 = 2000;
const LARGE: u64 = 20;

#[test]
fn every_schedule_keeps_every_promise() {
    let seeds = (0..LARGE).map(Seed::large).chain((0..SMALL).map(Seed::small));
    let tally = run_all(seeds);
    println!("{tally}");
    assert!(tally.violations().is_empty(), "{tally}");
}

#[test]
fn replay() {
    let Ok(seed) = std::env::var("ETHBCAST_SEED") else { return };
    let seed: Seed = seed.parse().unwrap_or_else(|why| panic!("{why}"));
    println!("{}", Schedule::of(seed));
    let (report, story) = tell(seed, Told::Events);
    story.iter().for_each(|line| println!("{line}"));
    println!("{report}");
    if let Some(violation) = report.violation {
        panic!("{violation}");
    }
}
