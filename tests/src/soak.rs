//! Soak tests: many transfers in a row and collectives for minutes, watched for leaks.

use crate::lab::content;
use anyhow::{Context, bail, ensure};
use ethbcast_collectives::communicator::{Communicator, Options};
use ethbcast_collectives::session::{RecvOptions, Route, SendOptions, Session, WireOptions};
use ethbcast_lab::Lab;
use ethbcast_planning::plan::Via;
use ethbcast_transport::sim::Random;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fmt, fs, thread};

/// Number of hosts; the first of them sends.
pub const HOSTS: usize = 4;

const MAX_FILE_BYTES: u64 = 512 << 10;
const WAIT: Duration = Duration::from_secs(30);

/// Runs `sessions` sessions in a row, with files in an empty `directory`, and samples the usage
/// after every `every`th.
pub fn run_sessions(
    lab: &Lab,
    directory: &Path,
    sessions: u64,
    every: u64,
) -> anyhow::Result<Course> {
    let mut course = Course::default();
    for number in 0..sessions {
        session(lab, directory, number).with_context(|| format!("session {number}"))?;
        if (number + 1).is_multiple_of(every) {
            course.push(Usage::now(directory)?);
        }
    }
    Ok(course)
}

fn session(lab: &Lab, directory: &Path, number: u64) -> anyhow::Result<()> {
    let mut random = Random::new(number);
    let bytes = content(number, random.below(MAX_FILE_BYTES + 1) as usize);
    let via = [Via::Chain, Via::Cast, Via::Binary][random.below(3) as usize];
    thread::scope(|scope| {
        let receivers: Vec<_> = (1..HOSTS)
            .map(|host| (format!("n{host}"), directory.join(format!("n{host}"))))
            .map(|(host, dest)| scope.spawn(move || lab.run_on(&host, || receive(&host, &dest))?))
            .collect();
        lab.run_on("n0", || {
            let (route, size, wire) = (Route::Via(via), Some(bytes.len() as u64), wire("n0"));
            let options = SendOptions {
                wire,
                route,
                size,
                max_wait: Some(WAIT),
                ..SendOptions::new()
            };
            Session::send("soak", &bytes[..], &options.receivers(HOSTS - 1))?.all_verified()
        })??;
        receivers
            .into_iter()
            .try_for_each(|receiver| receiver.join().expect("a receiver does not panic"))
    })?;
    for host in 1..HOSTS {
        let dest = directory.join(format!("n{host}"));
        if fs::read(&dest)? != bytes {
            bail!("n{host} has other bytes than were sent via {via}");
        }
        fs::remove_file(dest)?;
    }
    Ok(())
}

fn receive(host: &str, dest: &Path) -> anyhow::Result<()> {
    let options = RecvOptions {
        wire: wire(host),
        max_wait: Some(WAIT),
        once: true,
        ..RecvOptions::new()
    };
    Session::receive("soak", File::create(dest)?, &options)?;
    Ok(())
}

fn wire(host: &str) -> WireOptions {
    WireOptions {
        interface: Some("eth0".to_owned()),
        host: Some(host.to_owned()),
        ..WireOptions::default()
    }
}

const MAX_MESSAGE_BYTES: u64 = 64 << 10;

/// Uses a communicator for `lasts`, and samples the usage every `every`; also returns the number of
/// rounds.
pub fn run_traffic(
    lab: &Lab,
    directory: &Path,
    lasts: Duration,
    every: Duration,
) -> anyhow::Result<(Course, u64)> {
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

fn rank(
    host: &str,
    directory: &Path,
    lasts: Duration,
    every: Duration,
) -> anyhow::Result<(Course, u64)> {
    let (interface, name) = (Some("eth0".to_owned()), Some(host.to_owned()));
    let options = Options {
        interface,
        host: name,
        join_within: WAIT,
        call_within: WAIT,
        ..Options::default()
    };
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
        1 + (random.below(MAX_MESSAGE_BYTES) >> shift) as usize
    };
    let (rank, ranks) = (usize::from(all.rank()), HOSTS);
    let root = (round % ranks as u64) as u16;
    let block = |rank: usize| content(round << 8 | rank as u64, bytes);
    let mut buffer = if all.rank() == root {
        block(99)
    } else {
        vec![0; bytes]
    };
    all.broadcast(root, &mut buffer)?;
    ensure!(
        buffer == block(99),
        "round {round}: broadcast of {bytes} bytes"
    );
    let everybodys: Vec<u8> = (0..ranks).flat_map(block).collect();
    let mut own = vec![0; bytes];
    all.scatter(
        root,
        if all.rank() == root { &everybodys } else { &[] },
        &mut own,
    )?;
    ensure!(
        own == block(rank),
        "round {round}: scatter of {bytes} bytes"
    );
    let mut blocks = vec![0; bytes * ranks];
    all.allgather(&own, &mut blocks)?;
    ensure!(
        blocks == everybodys,
        "round {round}: allgather of {bytes} bytes"
    );
    let (right, left) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
    let mut from_left = vec![0; bytes];
    let count = all.sendrecv(right as u16, &own, left as u16, &mut from_left, 7)?;
    ensure!(
        count == bytes && from_left == block(left),
        "round {round}: sendrecv of {bytes} bytes"
    );
    all.barrier()?;
    Ok(())
}

/// Number of parts of a run: the first is a warm-up, the second is compared with the last.
const QUARTERS: usize = 4;
/// Permitted growth of memory in KiB: the allocator keeps freed memory for each thread.
const ALLOWED_KIB: u64 = 2048;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub resident_kib: u64,
    pub descriptors: usize,
    pub threads: usize,
    /// Files in a directory and below.
    pub files: usize,
}

impl Usage {
    /// Samples the usage, with the files of `directory`.
    pub fn now(directory: &Path) -> anyhow::Result<Self> {
        let status = fs::read_to_string("/proc/self/status")?;
        let resident = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next());
        Ok(Self {
            resident_kib: resident
                .context("the kernel says how much is resident")?
                .parse()?,
            descriptors: fs::read_dir("/proc/self/fd")?.count(),
            threads: fs::read_dir("/proc/self/task")?.count(),
            files: count_files(directory)?,
        })
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Usage {
            resident_kib,
            descriptors,
            threads,
            files,
        } = self;
        write!(
            to,
            "{resident_kib} KiB, {descriptors} descriptors, {threads} threads, {files} files"
        )
    }
}

fn count_files(directory: &Path) -> anyhow::Result<usize> {
    let mut count = 0;
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        count += if path.is_dir() {
            count_files(&path)?
        } else {
            1
        };
    }
    Ok(count)
}

#[derive(Clone, Debug, Default)]
pub struct Course {
    samples: Vec<Usage>,
}

impl Course {
    pub fn push(&mut self, usage: Usage) {
        self.samples.push(usage);
    }

    /// Returns the first and the last sample.
    pub fn ends(&self) -> Option<(Usage, Usage)> {
        Some((*self.samples.first()?, *self.samples.last()?))
    }

    fn compared(&self) -> [Usage; 2] {
        let quarter = self.samples.len() / QUARTERS;
        let most = |samples: &[Usage]| {
            samples.iter().fold(Usage::default(), |most, usage| Usage {
                resident_kib: most.resident_kib.max(usage.resident_kib),
                descriptors: most.descriptors.max(usage.descriptors),
                threads: most.threads.max(usage.threads),
                files: most.files.max(usage.files),
            })
        };
        [
            most(&self.samples[quarter..2 * quarter]),
            most(&self.samples[self.samples.len() - quarter..]),
        ]
    }

    /// Returns a sentence for each resource that has grown.
    pub fn drift(&self) -> Vec<String> {
        let mut drift = self.counted_drift();
        if self.samples.len() >= 2 * QUARTERS {
            let [before, after] = self.compared().map(|usage| usage.resident_kib);
            drift.extend(
                (after > before + ALLOWED_KIB)
                    .then(|| format!("memory grew from {before} to {after} KiB")),
            );
        }
        drift
    }

    /// Returns a sentence for each counted resource that has grown; memory is left out because it
    /// grows until every buffer has been used once.
    pub fn counted_drift(&self) -> Vec<String> {
        if self.samples.len() < 2 * QUARTERS {
            return vec![format!(
                "{} samples are too few to tell",
                self.samples.len()
            )];
        }
        let [before, after] = self.compared();
        let mut drift = Vec::new();
        let counted = [
            ("descriptors", before.descriptors, after.descriptors),
            ("threads", before.threads, after.threads),
            ("files", before.files, after.files),
        ];
        for (what, before, after) in counted {
            drift.extend((after > before).then(|| format!("{what} grew from {before} to {after}")));
        }
        drift
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(resident_kib: impl Fn(u64) -> u64, descriptors: impl Fn(u64) -> usize) -> Course {
        let usage = |at| Usage {
            resident_kib: resident_kib(at),
            descriptors: descriptors(at),
            threads: 2,
            files: 0,
        };
        Course {
            samples: (0..40).map(usage).collect(),
        }
    }

    #[test]
    fn a_warm_up_is_no_drift_and_one_descriptor_in_the_end_is() {
        assert_eq!(
            course(|at| 20_000 + 3000 * at.min(8), |_| 7).drift(),
            Vec::<String>::new()
        );
        assert_eq!(
            course(|_| 20_000, |at| 7 + usize::from(at > 38)).drift(),
            ["descriptors grew from 7 to 8"]
        );
        assert_eq!(
            course(|at| 20_000 + 100 * at, |_| 7).drift(),
            Vec::<String>::new(),
            "what the allocator may keep"
        );
        assert_eq!(
            course(|at| 20_000 + 200 * at, |_| 7).drift(),
            ["memory grew from 23800 to 27800 KiB"]
        );
        assert_eq!(Course::default().drift(), ["0 samples are too few to tell"]);
    }

    #[test]
    fn the_resources_of_a_process_are_counted() {
        let directory = tempfile::tempdir().expect("a directory");
        let before = Usage::now(directory.path()).expect("it can be read");
        let _file = fs::File::create(directory.path().join("file")).expect("made");
        let after = Usage::now(directory.path()).expect("it can be read");
        assert_eq!(after.files, before.files + 1);
        assert!(
            before.resident_kib > 100 && before.descriptors > 2 && before.threads > 0,
            "{before}"
        );
    }
}
