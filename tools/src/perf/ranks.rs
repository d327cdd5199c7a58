//! `perf --op barrier|sendrecv|allgather`: calls of the library's communicator, timed at the root.
//!
//! All ranks join a communicator, find out which of them is the root, and get the terms from it. What is received is
//! compared byte by byte, outside the time that is taken.

use super::Op;
use super::report::{Report, Row};
use crate::args::PerfArgs;
use crate::exit::{Code, Failure, WithCode, fail};
use crate::signals::Interrupt;
use anyhow::bail;
use ethbcast_collectives::communicator::{Communicator, CommunicatorError, Error, Options};
use ethbcast_collectives::membership::live::StationError;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Iterations before the first that counts: buffers are taken and windows opened by them.
const WARM_UP: u32 = 10;
/// The tag of all messages.
const TAG: u32 = 0;
/// What an interrupted rank says.
const INTERRUPTED: &str = "interrupted; the others have been told";
/// The longest list of terms: one size each.
const MAX_SIZES: usize = 64;

/// Measures, or takes part.
///
/// # Errors
/// A [`Failure`] whose code is the exit code.
pub fn run(args: &PerfArgs) -> anyhow::Result<()> {
    check(args)?;
    let joined = Arc::new(OnceLock::new());
    let interrupt = watch(&joined).code(Code::System)?;
    let wire = &args.wire;
    let options = Options {
        interface: wire.interface.clone(),
        host: crate::lab::host_name(wire.host.as_deref()),
        ether_type: wire.ether_type,
        preset: args.preset,
        join_within: Duration::from_secs_f64(args.max_wait),
        ..Options::default()
    };
    let ranks = Communicator::join_with(&wire.group, args.ranks, &options).map_err(failure)?;
    let ranks = joined.get_or_init(|| ranks);
    interrupt.heed();
    let done = measure_all(ranks, args);
    // Who watches holds it for a moment while it makes the rank leave.
    while Arc::strong_count(&joined) > 1 {
        std::thread::yield_now();
    }
    done.map_err(|failure| interrupt.signal().map_or(failure, |signal| Interrupt::failure(signal, INTERRUPTED).into()))
}

/// Watches for Ctrl-C, which ends the call in progress: the rank leaves.
fn watch(joined: &Arc<OnceLock<Communicator>>) -> std::io::Result<Interrupt> {
    // The group is left in an orderly way when the last strong reference goes.
    let joined = Arc::downgrade(joined);
    Interrupt::watch(true, move || {
        let joined = joined.upgrade();
        if let Some(Err(error)) = joined.as_ref().and_then(|joined| joined.get()).map(Communicator::leave) {
            log::warn!("leaving the group: {error}");
        }
    })
}

fn measure_all(ranks: &Communicator, args: &PerfArgs) -> anyhow::Result<()> {
    let root = find_root(ranks, args)?;
    let (iterations, sizes) = agree(ranks, root, args)?;
    let mut report = Report::new(args);
    for size in sizes {
        let times = measure(ranks, args.op, size, iterations)?;
        if args.root {
            report.add(Row::new(args.op, size as u64, &times));
            report.progress();
        } else {
            log::info!("rank {}: {size} bytes done", ranks.rank());
        }
    }
    ranks.barrier().map_err(failure)?;
    if args.root { report.print() } else { Ok(()) }
}

fn check(args: &PerfArgs) -> anyhow::Result<()> {
    let refuse = |text: String| fail(Code::Usage, text);
    if args.via != "auto" {
        return refuse(format!(
            "--via {} is for --op bcast: the communicator chooses its own ways, leave it out",
            args.via
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

/// The one rank that was started with `--root`.
fn find_root(ranks: &Communicator, args: &PerfArgs) -> anyhow::Result<u16> {
    let mut roots = vec![0; usize::from(ranks.size())];
    ranks.allgather(&[u8::from(args.root) | (args.op as u8) << 1], &mut roots).map_err(failure)?;
    if let Some(rank) = roots.iter().position(|told| told >> 1 != args.op as u8) {
        let text = format!("{} measures another operation than this rank: give all the same --op", ranks.hosts()[rank]);
        return fail(Code::Usage, text);
    }
    let named: Vec<usize> = (0..roots.len()).filter(|&rank| roots[rank] & 1 == 1).collect();
    match named[..] {
        [root] => Ok(root as u16),
        [] => fail(Code::Usage, "no rank is the root: start `ethbcast perf` with --root on one host"),
        _ => {
            let hosts: Vec<&str> = named.iter().map(|&rank| ranks.hosts()[rank].as_str()).collect();
            let text = format!("{} ranks are roots ({}): give --root on one host only", hosts.len(), hosts.join(", "));
            fail(Code::Usage, text)
        }
    }
}

/// The root's iterations and sizes, on every rank.
fn agree(ranks: &Communicator, root: u16, args: &PerfArgs) -> anyhow::Result<(u32, Vec<usize>)> {
    let mut terms = [0; 8 * (1 + MAX_SIZES)];
    if args.root {
        let sizes = if args.op == Op::Barrier { &[0][..] } else { &args.sizes };
        let numbers = [u64::from(args.iterations)].into_iter().chain(sizes.iter().map(|size| size + 1));
        terms.chunks_exact_mut(8).zip(numbers).for_each(|(place, number)| place.copy_from_slice(&number.to_be_bytes()));
    }
    ranks.broadcast(root, &mut terms).map_err(failure)?;
    let (numbers, _) = terms.as_chunks::<8>();
    let mut numbers = numbers.iter().map(|bytes| u64::from_be_bytes(*bytes));
    let iterations = numbers.next().unwrap_or(0) as u32;
    // A size is sent as one more, so that zero ends the list.
    Ok((iterations, numbers.take_while(|&number| number > 0).map(|number| number as usize - 1).collect()))
}

/// Times `iterations` operations on blocks of `size` bytes.
fn measure(ranks: &Communicator, op: Op, size: usize, iterations: u32) -> anyhow::Result<Vec<Duration>> {
    let count = usize::from(ranks.size());
    let blocks = if op == Op::Allgather { count } else { 1 };
    let (mut own, mut all) = (vec![0; size], vec![0; size * blocks]);
    let (right, left) = ((ranks.rank() + 1) % ranks.size(), (ranks.rank() + ranks.size() - 1) % ranks.size());
    let mut times = Vec::with_capacity(iterations as usize);
    ranks.barrier().map_err(failure)?;
    for iteration in 0..WARM_UP + iterations {
        own.fill(mark(ranks.rank(), iteration));
        let began = Instant::now();
        match op {
            Op::Allgather => ranks.allgather(&own, &mut all),
            Op::Sendrecv => ranks.sendrecv(right, &own, left, &mut all, TAG).map(drop),
            Op::Barrier | Op::Bcast => ranks.barrier(),
        }
        .map_err(failure)?;
        if iteration >= WARM_UP {
            times.push(began.elapsed());
        }
        let origin = |block: usize| if op == Op::Allgather { block as u16 } else { left };
        if let Some(bad) =
            (0..blocks).find(|&at| all[size * at..][..size].iter().any(|&byte| byte != mark(origin(at), iteration)))
        {
            bail!(Failure::new(Code::Integrity, format!("the bytes from rank {} are not those it sent", origin(bad))));
        }
    }
    Ok(times)
}

/// What a rank's bytes are in an iteration.
fn mark(rank: u16, iteration: u32) -> u8 {
    (u32::from(rank) * 31 + iteration) as u8
}

fn failure(error: Error) -> anyhow::Error {
    let code = match &error {
        Error::Station(StationError::Interface(_) | StationError::Open(_)) => Code::System,
        Error::Station(_) => Code::Usage,
        Error::Drive(_) | Error::Thread(_) | Error::Random(_) => Code::System,
        Error::Call(CommunicatorError::Missing { .. } | CommunicatorError::Unconfirmed { .. }) => Code::Nobody,
        Error::Call(
            CommunicatorError::Name { .. }
            | CommunicatorError::Size { .. }
            | CommunicatorError::Mtu { .. }
            | CommunicatorError::SizesDiffer { .. }
            | CommunicatorError::PresetsDiffer { .. }
            | CommunicatorError::Namesakes { .. }
            | CommunicatorError::OtherBuild(_)
            | CommunicatorError::TwoProcesses { .. }
            | CommunicatorError::TooMany { .. }
            | CommunicatorError::Running { .. }
            | CommunicatorError::Mismatch { .. },
        ) => Code::Usage,
        Error::TimedOut { .. } | Error::Call(CommunicatorError::TimedOut { .. }) => Code::Nobody,
        _ => Code::SomeFailed,
    };
    Failure::new(code, error).into()
}
