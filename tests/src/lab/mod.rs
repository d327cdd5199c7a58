//! Test helper: hosts in network namespaces, their processes and files.
//!
//! Lab tests need root, and fail without it: a skipped test proves nothing. Files are kept in
//! memory if possible, because all hosts of a lab share one disk.

mod cable;
mod disk;
mod process;
mod site;

use anyhow::Context;
use blake3::Hasher;
pub use cable::{KIND_BYTE, Tap, Way, Which, destination, faults};
pub use disk::{LoopDevice, SharedDirectory, SmallDisk, ThinDisk};
pub use ethbcast_bench::mpi::{Mpi, MpiCluster};
pub use ethbcast_bench::process::{Interrupt, Program};
use nix::unistd::Uid;
pub use process::{Ended, Line, Process, Run, Stdout, power_off, processes_on};
use serde_json::Value;
pub use site::{Site, lab_name, one_switch, process_name};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};
pub use tempfile::TempDir;

/// Time limit of a transfer, on a machine that has other work: its processes are then killed and
/// the test fails. Receivers wait for a sender as long.
pub const LIMIT: Duration = Duration::from_secs(120);
/// Time limit of a compiler on a machine that has other work.
pub const COMPILE_LIMIT: Duration = Duration::from_secs(600);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Bytes of payload in a full frame at MTU 1500.
pub const PAYLOAD_BYTES: usize = 1468;

/// Panics with one sentence if the test is not run as root.
pub fn require_root() {
    assert!(
        Uid::effective().is_root(),
        "tests called `lab_*` make network namespaces and raw sockets: run them as root, or leave them out \
         (CONTRIBUTING.md)"
    );
}

/// Returns `bytes` bytes that differ everywhere, so that a misplaced frame shows; each `seed` gives
/// other bytes.
pub fn content(seed: u64, bytes: usize) -> Vec<u8> {
    let mut content = vec![0; bytes];
    Hasher::new()
        .update(&seed.to_be_bytes())
        .finalize_xof()
        .fill(&mut content);
    content
}

/// Creates a directory that is removed on drop, in memory if possible, and open to every user.
pub fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() {
        memory.to_owned()
    } else {
        std::env::temp_dir()
    };
    let directory = tempfile::Builder::new()
        .prefix("ethbcast-tests-")
        .tempdir_in(parent)
        .expect("a temporary directory");
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
    directory
}

/// Creates a file by `make` and moves it to `path` atomically: other tests may create or run the
/// file, too.
pub fn put_whole(path: &Path, make: impl FnOnce(&Path)) {
    let directory = directory_in(path.parent().expect("it lies in a directory"));
    let made = directory.path().join(path.file_name().expect("a file"));
    make(&made);
    fs::rename(made, path).expect("beside it");
}

/// Creates a directory in `parent` that is removed on drop and that no other test uses.
pub fn directory_in(parent: &Path) -> TempDir {
    tempfile::tempdir_in(parent).unwrap_or_else(|error| panic!("{}: {error}", parent.display()))
}

/// Polls `found` until it returns a value; `None` if it does not within `limit`.
pub fn within<T>(limit: Duration, mut found: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + limit;
    loop {
        match found() {
            None if Instant::now() < deadline => thread::sleep(LOOK_EVERY),
            result => return result,
        }
    }
}

pub fn names_in(directory: &Path) -> Vec<String> {
    let entries =
        fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut names: Vec<_> = entries
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    names
}

/// Returns the names that a user sees in a directory: all but a receiver's hidden files for
/// resuming.
pub fn shown_in(directory: &Path) -> Vec<String> {
    let mut names = names_in(directory);
    names.retain(|name| !is_hidden(name));
    names
}

/// Whether a name is that of a receiver's hidden file.
pub fn is_hidden(name: &str) -> bool {
    name.starts_with(".ethbcast-")
        && [".part", ".tree", ".journal"]
            .iter()
            .any(|suffix| name.ends_with(suffix))
}

/// Sets a flag on drop, also when an assertion fails: a scope waits for its threads.
#[derive(Debug)]
pub struct StopOnDrop<'a>(pub &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[derive(Debug, clap::Args)]
pub struct Records {
    /// Add every run to this file, as a line of JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Append all output of failed runs to this file.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

impl Records {
    pub fn add(&self, run: impl Fn() -> Value) -> anyhow::Result<()> {
        self.json
            .iter()
            .try_for_each(|path| Ok(writeln!(appended(path)?, "{}", run())?))
    }

    /// Adds the output of a failed run, under these headings.
    pub fn complain(&self, headings: &[&str], said: &str) -> anyhow::Result<()> {
        let headings: String = headings
            .iter()
            .map(|heading| format!("== {heading}\n"))
            .collect();
        self.log
            .iter()
            .try_for_each(|path| Ok(writeln!(appended(path)?, "{headings}{said}")?))
    }
}

fn appended(path: &Path) -> anyhow::Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("opening {}", path.display()))
}

/// Waits between attempts, in milliseconds: other load may have ended by then. Beside other tests
/// on a machine of two processors that takes up to half a minute.
const PAUSES_MS: [u64; 7] = [200, 400, 800, 1600, 3200, 6400, 12_800];

/// Returns the first successful result of `measure`, in up to eight attempts. Other load only slows
/// a measurement down and never speeds it up, so a true error fails every attempt.
#[track_caller]
pub fn in_a_quiet_moment<T>(measure: impl FnMut() -> Result<T, String>) -> T {
    in_one_of(PAUSES_MS, measure)
}

#[track_caller]
fn in_one_of<T, const PAUSES: usize>(
    pauses_ms: [u64; PAUSES],
    mut measure: impl FnMut() -> Result<T, String>,
) -> T {
    let mut wrong = Vec::new();
    for pause in pauses_ms
        .map(Duration::from_millis)
        .into_iter()
        .map(Some)
        .chain([None])
    {
        match measure() {
            Ok(measured) => return measured,
            Err(why) => wrong.push(why),
        }
        pause.into_iter().for_each(std::thread::sleep);
    }
    panic!("in each of {} moments: {}", wrong.len(), wrong.join("; "));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_good_attempt_is_enough_and_failed_ones_are_all_reported() {
        let mut attempts = 0;
        let third = || {
            attempts += 1;
            if attempts == 3 {
                Ok(attempts)
            } else {
                Err(format!("attempt {attempts}"))
            }
        };
        assert_eq!(in_a_quiet_moment(third), 3);
        let never =
            std::panic::catch_unwind(|| in_one_of([0; 4], || Err::<(), _>("too late".to_owned())));
        let told = *never
            .expect_err("it is wrong")
            .downcast::<String>()
            .expect("a text");
        assert_eq!(
            told,
            "in each of 5 moments: too late; too late; too late; too late; too late"
        );
    }
}
