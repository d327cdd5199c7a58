//! A communicator in use for minutes: collectives and messages of all sizes, with every byte
//! compared.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;
use ethbcast_collectives::communicator::{Communicator, Options};
use ethbcast_lab::Lab;
use ethbcast_transport::sim::Random;

use super::{Course, HOSTS, Usage};
use crate::lab::content;

const MAX_BYTES: u64 = 64 << 10;
const WAIT: Duration = Duration::from_secs(30);

/// Uses a communicator for `lasts`, and samples the usage every `every`; also returns the number of
/// rounds.
///
/// # Errors
/// The first call that fails, or that delivers other bytes.
pub fn run_traffic(lab: &Lab, directory: &Path, lasts: Duration, every: Duration) -> anyhow::Result<(Course, u64)> {
    thread::scope(|scope| {
        let ranks: Vec<_> = (0..HOSTS)
            .map(|number| {
                let host = format!("n{number}");
                scope.spawn(move || lab.run_on(&host, || rank(&host, directory, lasts, every))?)
            })
            .collect();
        let mut results = Vec::new();
        for rank in ranks {
            results.push(rank.join().expect("a rank does not panic")?);
        }
        Ok(results.swap_remove(0))
    })
}

fn rank(host: &str, directory: &Path, lasts: Duration, every: Duration) -> anyhow::Result<(Course, u64)> {
    let (interface, name) = (Some("eth0".to_owned()), Some(host.to_owned()));
    let options = Options { interface, host: name, join_within: WAIT, call_within: WAIT, ..Options::default() };
    let all = Communicator::join_with("soak", HOSTS as u16, &options)?;
    let (began, mut looked, mut course) = (Instant::now(), Instant::now(), Course::default());
    for round in 0.. {
        let mut goes_on = [u8::from(began.elapsed() < lasts)];
        all.broadcast(0, &mut goes_on)?;
        if goes_on == [0] {
            all.barrier()?;
            return Ok((course, round));
        }
        collectives(&all, round)?;
        if all.rank() == 0 && looked.elapsed() >= every {
            course.push(Usage::now(directory)?);
            looked = Instant::now();
        }
    }
    unreachable!("rounds do not run out");
}

fn collectives(all: &Communicator, round: u64) -> anyhow::Result<()> {
    let bytes = {
        let mut random = Random::new(round);
        let shift = random.below(17);
        1 + (random.below(MAX_BYTES) >> shift) as usize
    };
    let (rank, ranks) = (usize::from(all.rank()), HOSTS);
    let root = (round % ranks as u64) as u16;
    let block = |rank: usize| content(round << 8 | rank as u64, bytes);
    let mut buffer = if all.rank() == root { block(99) } else { vec![0; bytes] };
    all.broadcast(root, &mut buffer)?;
    ensure!(buffer == block(99), "round {round}: broadcast of {bytes} bytes");
    let everybodys: Vec<u8> = (0..ranks).flat_map(block).collect();
    let mut own = vec![0; bytes];
    all.scatter(root, if all.rank() == root { &everybodys } else { &[] }, &mut own)?;
    ensure!(own == block(rank), "round {round}: scatter of {bytes} bytes");
    let mut blocks = vec![0; bytes * ranks];
    all.allgather(&own, &mut blocks)?;
    ensure!(blocks == everybodys, "round {round}: allgather of {bytes} bytes");
    let (right, left) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
    let mut from_left = vec![0; bytes];
    let count = all.sendrecv(right as u16, &own, left as u16, &mut from_left, 7)?;
    ensure!(count == bytes && from_left == block(left), "round {round}: sendrecv of {bytes} bytes");
    all.barrier()?;
    Ok(())
}
