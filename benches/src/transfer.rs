//! One transfer: started, timed from outside, bounded, compared, and cleared away.

use std::fs::{self, File};
use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::cluster::sent_bytes;
use crate::interrupt::Interrupt;
use crate::payload::same_bytes;
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

/// Programs that are ended, by their process ids, when this is dropped.
#[derive(Default)]
struct Children(Vec<Child>);

impl Drop for Children {
    fn drop(&mut self) {
        // Both fail only for those that have ended by themselves and been waited for.
        self.0.iter_mut().for_each(|child| drop(child.kill()));
        self.0.iter_mut().for_each(|child| drop(child.wait()));
    }
}

/// Runs a job in at most `limit` and compares what was received with what was sent.
///
/// # Errors
/// If a program cannot be started, the lab does not answer, or the user interrupts; a tool's failure is an [`Outcome`].
pub fn run(job: &Job, limit: Duration, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
    let (root, hosts) = job.hosts();
    let mut receivers = Children::default();
    for (number, host) in hosts.iter().enumerate() {
        receivers.0.push(start(job, host, job.receiver(number, host)?)?);
    }
    pause(HEAD_START, interrupt)?;

    let mut sender = Children::default();
    let (sent_before_bytes, _) = sent_bytes(job.lab, &root)?;
    let started = Instant::now();
    sender.0.push(start(job, &root, job.sender()?)?);
    let mut data_started = None;
    let status = loop {
        if let Some(status) = sender.0[0].try_wait()? {
            break status;
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
    if !status.success() {
        return Ok(Outcome::Failed(failure(job, &root, status)));
    }
    if job.tool.receivers_end() {
        await_all(&mut receivers, interrupt)?;
    }
    Ok(Outcome::Finished(Finished {
        data_seconds: (ended - data_started.unwrap_or(started).max(started)).as_secs_f64(),
        whole_seconds: (ended - started).as_secs_f64(),
        verified: hosts.iter().filter(|host| is_verified(job, host)).count(),
    }))
}

/// Starts a program with its output in a log.
fn start(job: &Job, host: &str, mut command: Command) -> anyhow::Result<Child> {
    let log = File::create(job.directory.join(format!("{host}.log")))?;
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    command.spawn().with_context(|| format!("starting {} on {host}", job.tool.name()))
}

/// The moment data began to leave the root, if that is now past: a cable is full from then on, so what has gone over it
/// says how long ago that was.
fn first_data(job: &Job, root: &str, sent_before_bytes: u64) -> anyhow::Result<Option<Instant>> {
    let (sent_bytes, now) = sent_bytes(job.lab, root)?;
    let data_bytes = sent_bytes.saturating_sub(sent_before_bytes);
    let ago = Duration::from_secs_f64(data_bytes as f64 * 8.0 / job.rate_bits_per_second as f64);
    Ok((data_bytes > BULK_BYTES).then(|| now.checked_sub(ago).unwrap_or(now)))
}

/// Waits for all receivers to end, for a bounded time: what is missing then is seen in the files.
fn await_all(receivers: &mut Children, interrupt: &Interrupt) -> anyhow::Result<()> {
    let deadline = Instant::now() + AFTERWARDS;
    while Instant::now() < deadline {
        let running = receivers.0.iter_mut().map(Child::try_wait).collect::<io::Result<Vec<_>>>()?;
        if running.iter().all(Option::is_some) {
            break;
        }
        pause(LOOK_EVERY, interrupt)?;
    }
    Ok(())
}

/// Whether a receiver has the file; a file that is not there is not the file.
fn is_verified(job: &Job, host: &str) -> bool {
    same_bytes(job.source, &job.received(host)).unwrap_or(false)
}

/// Why a sender failed, in its own words if it has any.
fn failure(job: &Job, root: &str, status: ExitStatus) -> String {
    let log = fs::read(job.directory.join(format!("{root}.log"))).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let words = log.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing").trim();
    format!("{status}: {words}")
}

/// Sleeps, and ends the bench if the user wants that.
fn pause(time: Duration, interrupt: &Interrupt) -> anyhow::Result<()> {
    std::thread::sleep(time);
    interrupt.check()
}
