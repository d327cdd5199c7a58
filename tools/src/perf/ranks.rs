//! Timed calls of `ethbcast perf`: collectives such as broadcast, measured at the sending rank
//! (root).
//!
//! All ranks join a communicator, determine the root, and receive its parameters. Received data is
//! compared byte by byte outside the timed part.

use super::op::Pattern;
use super::{Op, PerfReport, PerfRow};
use crate::args::PerfArgs;
use crate::doctor::of_call;
use crate::exit::{Code, Failure, WithCode, fail, print_line};
use crate::signals::Interrupt;
use anyhow::bail;
use ethbcast_collectives::communicator::{Communicator, Error, Number, Options, Reduction};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Untimed iterations, in which buffers are allocated and windows grow.
const WARM_UP: u32 = 10;
/// Size above which one untimed iteration suffices.
const LONG_BYTES: usize = 64 << 10;
const TAG: u32 = 0;
const INTERRUPTED: &str = "interrupted; the others have been notified";
const MAX_SIZES: usize = 64;
/// Limit on a pause; other ranks give up a call after a minute without progress.
const MAX_PAUSE_SECONDS: f64 = 30.0;

pub fn run(args: &PerfArgs, options: &Options) -> anyhow::Result<()> {
    check(args)?;
    let joined = Arc::new(OnceLock::new());
    let interrupt = watch(&joined).code(Code::System)?;
    let ranks = Communicator::join_with(&args.wire.group, args.ranks, options).map_err(failure)?;
    let ranks = joined.get_or_init(|| ranks);
    interrupt.begin_polling();
    let done = measure_all(ranks, args);
    // The signal thread holds a reference while it makes the rank leave.
    while Arc::strong_count(&joined) > 1 {
        std::thread::yield_now();
    }
    done.map_err(|failure| {
        interrupt.signal().map_or(failure, |signal| {
            Interrupt::failure(signal, INTERRUPTED).into()
        })
    })
}

fn watch(joined: &Arc<OnceLock<Communicator>>) -> std::io::Result<Interrupt> {
    // The group is left in order when the last strong reference is dropped.
    let joined = Arc::downgrade(joined);
    Interrupt::watch(true, move || {
        let joined = joined.upgrade();
        if let Some(Err(error)) = joined
            .as_ref()
            .and_then(|joined| joined.get())
            .map(Communicator::leave)
        {
            log::warn!("leaving the group: {error}");
        }
    })
}

fn measure_all(ranks: &Communicator, args: &PerfArgs) -> anyhow::Result<()> {
    let root = find_root(ranks, args)?;
    let (iterations, sizes) = agree(ranks, root, args)?;
    let mut report = PerfReport::new(args);
    let pause = Duration::from_secs_f64(args.pause.filter(|_| args.root).unwrap_or(0.0));
    for size in sizes {
        let row = match args.op {
            Op::Bcast => measure_broadcasts(ranks, root, size, iterations, pause)?,
            op => PerfRow::new(
                op,
                size as u64,
                &measure(ranks, op, root, size, iterations)?,
            ),
        };
        if args.root {
            report.add(row);
            report.progress();
        } else if !args.wire.quiet {
            print_line(format_args!("{size:>10} bytes: {iterations} verified"));
        }
    }
    ranks.barrier().map_err(failure)?;
    if args.root { report.print() } else { Ok(()) }
}

fn check(args: &PerfArgs) -> anyhow::Result<()> {
    let refuse = |text: String| fail(Code::Usage, text);
    if args.op != Op::Bcast && (args.via != "auto" || args.plan.is_some()) {
        return refuse("--via and --plan are for --op bcast: leave them out".to_owned());
    }
    if args.pause.is_some() && (args.op != Op::Bcast || !args.root) {
        return refuse("--pause is for --op bcast and the root: leave it out".to_owned());
    }
    if let Some(pause) = args.pause.filter(|pause| *pause > MAX_PAUSE_SECONDS) {
        return refuse(format!(
            "--pause {pause} is longer than the others wait: give at most {MAX_PAUSE_SECONDS} seconds"
        ));
    }
    if args.sizes.len() > MAX_SIZES {
        return refuse(format!(
            "{} sizes are too many for one run: choose at most {MAX_SIZES} with --sizes",
            args.sizes.len()
        ));
    }
    Ok(())
}

fn find_root(ranks: &Communicator, args: &PerfArgs) -> anyhow::Result<u16> {
    let mut roots = vec![0; usize::from(ranks.size())];
    ranks
        .allgather(&[u8::from(args.root) | (args.op as u8) << 1], &mut roots)
        .map_err(failure)?;
    if let Some(rank) = roots.iter().position(|told| told >> 1 != args.op as u8) {
        let text = format!(
            "{} measures another operation than this rank: give all the same --op",
            ranks.hosts()[rank]
        );
        return fail(Code::Usage, text);
    }
    let named: Vec<usize> = (0..roots.len())
        .filter(|&rank| roots[rank] & 1 == 1)
        .collect();
    match named[..] {
        [root] => Ok(root as u16),
        [] => fail(
            Code::Usage,
            "no rank is the root: start `ethbcast perf` with --root on one host",
        ),
        _ => {
            let hosts: Vec<&str> = named
                .iter()
                .map(|&rank| ranks.hosts()[rank].as_str())
                .collect();
            let text = format!(
                "{} ranks are roots ({}): give --root on one host only",
                hosts.len(),
                hosts.join(", ")
            );
            fail(Code::Usage, text)
        }
    }
}

fn agree(ranks: &Communicator, root: u16, args: &PerfArgs) -> anyhow::Result<(u32, Vec<usize>)> {
    let mut terms = [0; 8 * (1 + MAX_SIZES)];
    if args.root {
        let sizes = if args.op == Op::Barrier {
            &[0][..]
        } else {
            &args.sizes
        };
        let numbers = [u64::from(args.iterations)]
            .into_iter()
            .chain(sizes.iter().map(|size| size + 1));
        terms
            .chunks_exact_mut(8)
            .zip(numbers)
            .for_each(|(place, number)| place.copy_from_slice(&number.to_be_bytes()));
    }
    ranks.broadcast(root, &mut terms).map_err(failure)?;
    let (numbers, _) = terms.as_chunks::<8>();
    let mut numbers = numbers.iter().map(|bytes| u64::from_be_bytes(*bytes));
    let iterations = numbers.next().unwrap_or(0) as u32;
    // Sizes are sent incremented, so that zero ends the list.
    Ok((
        iterations,
        numbers
            .take_while(|&number| number > 0)
            .map(|number| number as usize - 1)
            .collect(),
    ))
}

/// Times `iterations` barriers, then as many broadcasts each followed by a barrier (Patarasuk 2008,
/// Figure 10). Every rank compares every byte between iterations, and this rank pauses before each.
fn measure_broadcasts(
    ranks: &Communicator,
    root: u16,
    size: usize,
    iterations: u32,
    pause: Duration,
) -> anyhow::Result<PerfRow> {
    let (pattern, mut buffer) = (Pattern::new(size as u64), vec![0; size]);
    let choice = ranks.choice(root, size).map_err(failure)?;
    ranks.barrier().map_err(failure)?;
    let mut barriers = Vec::with_capacity(iterations as usize);
    for _ in 0..iterations {
        rest(pause);
        let began = Instant::now();
        ranks.barrier().map_err(failure)?;
        barriers.push(began.elapsed());
    }
    let warm_up = if size > LONG_BYTES { 1 } else { WARM_UP };
    let mut broadcasts = Vec::with_capacity(iterations as usize);
    for iteration in 0..warm_up + iterations {
        if ranks.rank() == root {
            pattern.fill(iteration, &mut buffer);
        }
        rest(pause);
        let began = Instant::now();
        ranks.broadcast(root, &mut buffer).map_err(failure)?;
        ranks.barrier().map_err(failure)?;
        if iteration >= warm_up {
            broadcasts.push(began.elapsed());
        }
        if let Some(at) = pattern.mismatch(iteration, &buffer) {
            let text = format!(
                "broadcast {iteration} is not what the root sent, from byte {at} on; please report this"
            );
            bail!(Failure::new(Code::Integrity, text));
        }
    }
    Ok(PerfRow::new(Op::Bcast, size as u64, &broadcasts)
        .beside(&barriers)
        .along(Some(&choice)))
}

/// Sleeps, except for a zero pause, which would still cause a context switch.
fn rest(pause: Duration) {
    if pause > Duration::ZERO {
        std::thread::sleep(pause);
    }
}

fn measure(
    ranks: &Communicator,
    op: Op,
    root: u16,
    size: usize,
    iterations: u32,
) -> anyhow::Result<Vec<Duration>> {
    let (rank, count) = (ranks.rank(), ranks.size());
    let has_all = op == Op::Allgather || (matches!(op, Op::Scatter | Op::Gather) && rank == root);
    let blocks = if has_all { usize::from(count) } else { 1 };
    let (mut own, mut all) = (vec![0; size], vec![0; size * blocks]);
    let (right, left) = ((rank + 1) % count, (rank + count - 1) % count);
    let warm_up = if size > LONG_BYTES { 1 } else { WARM_UP };
    let mut times = Vec::with_capacity(iterations as usize);
    ranks.barrier().map_err(failure)?;
    for iteration in 0..warm_up + iterations {
        let fill = |block: &mut [u8], rank| block.fill(mark(rank, iteration));
        if op == Op::Scatter && rank == root {
            all.chunks_exact_mut(size.max(1))
                .zip(0..)
                .for_each(|(block, rank)| fill(block, rank));
        } else {
            fill(&mut own, rank);
        }
        let began = Instant::now();
        match op {
            Op::Allgather => ranks.allgather(&own, &mut all),
            Op::Sendrecv => ranks.sendrecv(right, &own, left, &mut all, TAG).map(drop),
            Op::Scatter => ranks
                .scatter(root, &all, &mut own)
                .and_then(|()| ranks.barrier()),
            Op::Gather => ranks.gather(root, &own, &mut all),
            Op::Allreduce => ranks.allreduce(Reduction::Sum(Number::U8), &mut own),
            Op::Barrier | Op::Bcast => ranks.barrier(),
        }
        .map_err(failure)?;
        if iteration >= warm_up {
            times.push(began.elapsed());
        }
        let came = |bytes: &[u8], from| bytes.iter().all(|&byte| byte == mark(from, iteration));
        let bad = match op {
            Op::Allgather => {
                (0..count).find(|&from| !came(&all[size * usize::from(from)..][..size], from))
            }
            Op::Gather if rank == root => {
                (0..count).find(|&from| !came(&all[size * usize::from(from)..][..size], from))
            }
            Op::Sendrecv => Some(left).filter(|&from| !came(&all, from)),
            Op::Scatter => Some(root).filter(|_| !came(&own, rank)),
            Op::Gather | Op::Barrier | Op::Bcast | Op::Allreduce => None,
        };
        let sum = (0..count).fold(0, |sum: u8, from| sum.wrapping_add(mark(from, iteration)));
        if op == Op::Allreduce && own.iter().any(|&byte| byte != sum) {
            let text = format!("rank {rank} has other sums than those of all ranks' bytes");
            bail!(Failure::new(Code::Integrity, text));
        }
        if let Some(bad) = bad {
            bail!(Failure::new(
                Code::Integrity,
                format!("the bytes from rank {bad} are not those it sent")
            ));
        }
    }
    Ok(times)
}

fn mark(rank: u16, iteration: u32) -> u8 {
    (u32::from(rank) * 31 + iteration) as u8
}

fn failure(error: Error) -> anyhow::Error {
    let fault = of_call(&error);
    Failure::new(error.kind().into(), error).found(fault).into()
}
