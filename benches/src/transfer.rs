//! One transfer: started, timed from outside, bounded, compared, and cleared away.

use std::time::{Duration, Instant};

use crate::interrupt::Interrupt;
use crate::payload::same_bytes;
use crate::running::Running;
use crate::tools::Job;

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
}

/// Runs a job in at most `limit` and compares what was received with what was sent.
///
/// # Errors
/// If a program cannot be started, the lab does not answer, or the user interrupts; a tool's failure is an [`Outcome`].
pub fn run(job: &Job, limit: Duration, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
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
