//! One transfer: started, timed from outside, bounded, compared, and cleared away.

use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use crate::cluster::set_offloads;
use crate::interrupt::Interrupt;
use crate::payload::same_bytes;
use crate::running::Running;
use crate::tools::{Job, Tool};

/// How long receivers get to come up before the sender starts.
const HEAD_START: Duration = Duration::from_millis(700);

/// How long receivers get to end after the sender has.
const AFTERWARDS: Duration = Duration::from_secs(5);

/// How often is looked: 0.1 % of 5 s.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What a sender says before the first data is less than this; what it has sent beyond belongs to the file.
const BULK_BYTES: u64 = 64 << 10;

/// How a transfer went.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The sender says that it succeeded.
    Finished(Finished),
    /// It did not, or not in time, and why.
    Failed(String),
}

/// The figures of a finished transfer.
#[derive(Clone, Copy, Debug)]
pub struct Finished {
    /// From the first data on the sender's cable to the end of the sender.
    pub data_seconds: f64,
    /// From the start of the sender to its end: how it finds its receivers is in this, too.
    pub whole_seconds: f64,
    /// Receivers whose file is the source, byte by byte.
    pub verified: usize,
    /// The time that processors spent in all its programs, their ends waited for: what they computed and their calls
    /// into the kernel, which carries a frame of a veth in its sender's call.
    pub processor_seconds: f64,
}

/// Runs a job in at most `limit` and compares what was received with what was sent.
///
/// # Errors
/// If a program cannot be started, the lab does not answer, or the user interrupts; a tool's failure is an [`Outcome`].
pub fn run(job: &Job, limit: Duration, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
    let is_cut = job.tool == Tool::TcpChainCut;
    if is_cut {
        set_offloads(job.lab, false)?;
    }
    let before = spent_by_children()?;
    // When this returns all its programs have ended, and what they spent is known.
    let outcome = run_programs(job, limit, interrupt)?;
    let processor_seconds = spent_by_children()? - before;
    if is_cut {
        set_offloads(job.lab, true)?;
    }
    Ok(match outcome {
        Outcome::Finished(finished) => Outcome::Finished(Finished { processor_seconds, ..finished }),
        failed => failed,
    })
}

/// Processor time of all programs that this one has started and waited for, in seconds.
fn spent_by_children() -> anyhow::Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    Ok((usage.user_time() + usage.system_time()).num_microseconds() as f64 * 1e-6)
}

fn run_programs(job: &Job, limit: Duration, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
    let (root, hosts) = job.hosts();
    let start = |host: &str, command| Running::start(format!("{} on {host}", job.tool.name()), command);
    let mut receivers = Vec::new();
    for (number, host) in hosts.iter().enumerate() {
        receivers.push(start(host, job.receiver(number, host)?)?);
    }
    pause(HEAD_START, interrupt)?;

    let (sent_before_bytes, _) = job.lab.sent_bytes(&root)?;
    let started = Instant::now();
    let mut sender = start(&root, job.sender()?)?;
    let mut data_started = None;
    let sent = loop {
        if let Some(sent) = sender.ended()? {
            break sent;
        }
        if started.elapsed() > limit {
            return Ok(Outcome::Failed(format!("not finished after {:.0} s", limit.as_secs_f64())));
        }
        if data_started.is_none() {
            data_started = first_data(job, &root, sent_before_bytes)?;
        }
        pause(LOOK_EVERY, interrupt)?;
    };
    let ended = Instant::now();
    if let Err(words) = sent {
        return Ok(Outcome::Failed(words));
    }
    if job.tool.receivers_end() {
        receivers.iter_mut().try_for_each(|receiver| receiver.wait(AFTERWARDS, interrupt).map(drop))?;
    }
    Ok(Outcome::Finished(Finished {
        data_seconds: (ended - data_started.unwrap_or(started).max(started)).as_secs_f64(),
        whole_seconds: (ended - started).as_secs_f64(),
        verified: hosts.iter().filter(|host| is_verified(job, host)).count(),
        processor_seconds: 0.0,
    }))
}

/// The moment data began to leave the root, if that is now past: a cable is full from then on, so what has gone over it
/// says how long ago that was.
fn first_data(job: &Job, root: &str, sent_before_bytes: u64) -> anyhow::Result<Option<Instant>> {
    let (sent_bytes, now) = job.lab.sent_bytes(root)?;
    let data_bytes = sent_bytes.saturating_sub(sent_before_bytes);
    let ago = Duration::from_secs_f64(data_bytes as f64 * 8.0 / job.rate_bits_per_second as f64);
    Ok((data_bytes > BULK_BYTES).then(|| now.checked_sub(ago).unwrap_or(now)))
}

/// Whether a receiver has the file; a file that is not there is not the file.
fn is_verified(job: &Job, host: &str) -> bool {
    same_bytes(job.source, &job.received(host)).unwrap_or(false)
}

/// Sleeps, and ends the bench if the user wants that.
fn pause(time: Duration, interrupt: &Interrupt) -> anyhow::Result<()> {
    std::thread::sleep(time);
    interrupt.check()
}
