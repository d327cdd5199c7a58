//! Example: a parallel Jacobi solver, whose ranks broadcast their rows in each step (Patarasuk 2008
//! §1).
//!
//! `ethbcast lab each -- target/release/examples/jacobi 8 512` solves 512 equations on 8 ranks. The
//! system is constructed with a known solution: every unknown is 1.
//!
//! `[dependencies]` of its Cargo.toml: `ethbcast-collectives = { path = "../ethbcast/collectives"
//! }`.

use ethbcast_collectives::communicator::Communicator;
use std::time::Instant;

/// Largest acceptable error of the solution.
const TOLERANCE: f64 = 1e-9;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let ranks: u16 = arguments
        .next()
        .ok_or("usage: jacobi RANKS [UNKNOWNS]")?
        .parse()?;
    let unknowns: usize = arguments.next().map_or(Ok(256), |text| text.parse())?;
    let all = Communicator::join("jacobi", ranks)?;
    let rows = |rank: u16| {
        let (rank, ranks) = (usize::from(rank), usize::from(ranks));
        unknowns * rank / ranks..unknowns * (rank + 1) / ranks
    };

    let mut solution = vec![0.0; unknowns];
    let began = Instant::now();
    let mut steps = 0;
    loop {
        let mine: Vec<f64> = rows(all.rank())
            .map(|row| relaxed(row, &solution))
            .collect();
        let before = std::mem::replace(&mut solution, vec![0.0; unknowns]);
        solution[rows(all.rank())].copy_from_slice(&mine);
        for rank in 0..ranks {
            share(&all, rank, &mut solution[rows(rank)])?;
        }
        all.barrier()?;
        steps += 1;
        let moved = before
            .iter()
            .zip(&solution)
            .map(|(old, new)| (old - new).abs())
            .fold(0.0, f64::max);
        if moved < TOLERANCE {
            break;
        }
    }
    if all.rank() == 0 {
        let error = solution
            .iter()
            .map(|value| (value - 1.0).abs())
            .fold(0.0, f64::max);
        let step = began.elapsed() / steps;
        println!(
            "{unknowns} unknowns on {ranks} ranks: {steps} steps of {step:.1?}, error {error:.1e}"
        );
        assert!(error < 1e-6, "the solution is known");
    }
    Ok(all.barrier()?)
}

/// Returns one row's new value. The matrix has `2 unknowns` on the diagonal and 1 elsewhere; the
/// right side is that of the solution of all ones.
fn relaxed(row: usize, solution: &[f64]) -> f64 {
    let size = solution.len() as f64;
    let others: f64 = solution.iter().sum::<f64>() - solution[row];
    (3.0 * size - 1.0 - others) / (2.0 * size)
}

/// Broadcasts one rank's values to all.
fn share(
    all: &Communicator,
    root: u16,
    values: &mut [f64],
) -> Result<(), Box<dyn std::error::Error>> {
    let mut bytes: Vec<u8> = values
        .iter()
        .flat_map(|value| value.to_be_bytes())
        .collect();
    all.broadcast(root, &mut bytes)?;
    for (value, bytes) in values.iter_mut().zip(bytes.chunks_exact(8)) {
        *value = f64::from_be_bytes(bytes.try_into()?);
    }
    Ok(())
}
