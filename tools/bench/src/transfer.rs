//! A single transfer: it is started, timed from outside, limited, verified and cleaned up.

use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use crate::cluster::set_offloads;
use crate::interrupt::Interrupt;
use crate::payload::same_bytes;
use crate::running::Running;
use crate::tools::{Job, Tool};

/// Wait for receivers to start before the sender does.
const HEAD_START: Duration = Duration::from_millis(700);

/// Longest wait for the receivers' end after the sender's.
const AFTERWARDS: Duration = Duration::from_secs(5);

/// Polling interval: 0.1 % of 5 s.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Bytes that a sender may send before data begins; what exceeds them belongs to the file.
const BULK_BYTES: u64 = 64 << 10;

/// Result of a transfer.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The sender reported success.
    Finished(Finished),
    /// The transfer failed or exceeded its limit, with the reason.
    Failed(String),
}

/// Figures of a finished transfer.
#[derive(Clone, Copy, Debug)]
pub struct Finished {
    /// Seconds from the first data on the sender's cable to the sender's end.
    pub data_seconds: f64,
    /// Seconds from the sender's start to its end, including the discovery of receivers.
    pub whole_seconds: f64,
    /// Number of receivers whose file equals the source.
    pub verified: usize,
    /// Processor time of all its programs in seconds, user and system. A veth carries a frame
    /// within its sender's system call.
    pub processor_seconds: f64,
}

/// Runs a job within `limit` and compares the received files with the source. A tool's failure is
/// an [`Outcome`].
///
/// # Errors
/// If a program cannot be started, the lab cannot be used, or the user interrupts.
pub fn run(job: &Job, limit: Duration, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
    let is_cut = job.tool == Tool::TcpChainCut;
    if is_cut {
        set_offloads(job.lab, false)?;
    }
    let before = spent_by_children()?;
    // All programs have ended here, so that their processor time is known.
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

/// Returns the processor time of all programs that this process has started and waited for, in
/// seconds.
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

/// Returns the moment of the first data, if it has passed. It is computed from the bytes sent
/// since, because a cable is fully used from then on.
fn first_data(job: &Job, root: &str, sent_before_bytes: u64) -> anyhow::Result<Option<Instant>> {
    let (sent_bytes, now) = job.lab.sent_bytes(root)?;
    let data_bytes = sent_bytes.saturating_sub(sent_before_bytes);
    let ago = Duration::from_secs_f64(data_bytes as f64 * 8.0 / job.rate_bits_per_second as f64);
    Ok((data_bytes > BULK_BYTES).then(|| now.checked_sub(ago).unwrap_or(now)))
}

fn is_verified(job: &Job, host: &str) -> bool {
    same_bytes(job.source, &job.received(host)).unwrap_or(false)
}

/// Sleeps, and fails if the user interrupts.
fn pause(time: Duration, interrupt: &Interrupt) -> anyhow::Result<()> {
    std::thread::sleep(time);
    interrupt.check()
}
