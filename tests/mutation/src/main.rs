//! Mutation testing: builds every change of cargo-mutants into one program, and records whether a
//! test fails.
//!
//! `mutation SCRATCH RESULTS [SEED [MS]]`, from the folder of the repository: copies it to SCRATCH,
//! compiles it there with each mutant behind a switch, runs the tests on each in an order drawn by
//! SEED, and writes a line for each to RESULTS. Tests that take longer than MS milliseconds, and
//! the random simulation, come only when all mutants have had the others. May be interrupted, and
//! continues from RESULTS. `mutation tell RESULTS` counts them.

mod rewrite;
mod run;
mod scratch;

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

const JOBS: usize = 2;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: mutation SCRATCH RESULTS [SEED [MS]], or mutation tell RESULTS";
    let first = arguments.next().context(usage)?;
    let results = PathBuf::from(arguments.next().context(usage)?);
    if first == "tell" {
        return run::notify(&results);
    }
    let seed = arguments.next().map_or(Ok(1), |seed| seed.parse())?;
    let border_ms = arguments.next().map_or(Ok(u64::MAX), |ms| ms.parse())?;
    let mutants = rewrite::list(Path::new("."))?;
    let scratch = scratch::Scratch::make(Path::new("."), Path::new(&first), &mutants)?;
    let (uncompiled, unswitched) = (&scratch.uncompiled, &scratch.unswitched);
    println!(
        "{} changes, {} of them do not compile and {} have no switch",
        mutants.len(),
        uncompiled.len(),
        unswitched.len()
    );
    for (why, numbers) in [("no switch", unswitched), ("does not compile", uncompiled)] {
        numbers.iter().for_each(|&number| println!("{why}: {}", mutants[number as usize].name));
    }
    let tried = (0..mutants.len() as u32).filter(|number| !uncompiled.contains(number) && !unswitched.contains(number));
    let stages = run::stages(&scratch)?;
    let (scratch, mutants, stages, tried) = (&scratch, &mutants, &stages, tried.collect());
    let plan = run::Plan { scratch, mutants, tried, stages, border_ms, seed, jobs: JOBS };
    run::run(&plan, &results)?;
    run::notify(&results)
}
