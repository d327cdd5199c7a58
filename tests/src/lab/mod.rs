//! Labs for tests: hosts with processes on them, files, and what a test must leave behind (nothing).
//!
//! These tests need root, and fail without it: a test that skips itself says nothing. Files live in memory where there
//! is such a place, because all hosts of a lab share one disk.

mod cable;
mod disk;
mod process;
mod records;
mod run;
mod site;
mod stop;
mod tap;

pub use ethbcast_bench::mpi::{Mpi, MpiCluster};
pub use ethbcast_bench::{interrupt, program};

pub use cable::{KIND_BYTE, Way, Which, faults};
pub use disk::{LoopDevice, SharedDirectory, SmallDisk, ThinDisk};
pub use process::{Line, Process, Stdout, power_off, processes_on};
pub use records::Records;
pub use run::{Ended, Run};
pub use site::{Site, lab_name, one_switch, process_name};
pub use stop::StopOnDrop;
pub use tap::{Tap, destination};

use blake3::Hasher;
use nix::unistd::Uid;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
pub use tempfile::TempDir;

/// How long a transfer may take before its processes are killed and the test fails, on a machine that has other work,
/// too; also what receivers wait for a sender.
pub const LIMIT: Duration = Duration::from_secs(120);
/// How long a compiler may take on a machine that has other work, too.
pub const COMPILE_LIMIT: Duration = Duration::from_secs(600);
/// How often a process, a file or a text is looked at while it is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Bytes of payload in a full frame at MTU 1500.
pub const PAYLOAD_BYTES: usize = 1468;

/// Fails a test that is not run as root, in one sentence.
pub fn require_root() {
    assert!(
        Uid::effective().is_root(),
        "tests called `lab_*` make network namespaces and raw sockets: run them as root, or leave them out \
         (CONTRIBUTING.md)"
    );
}

/// `bytes` bytes that differ everywhere, so that a frame in the wrong place shows; another `seed`, other bytes.
pub fn content(seed: u64, bytes: usize) -> Vec<u8> {
    let mut content = vec![0; bytes];
    Hasher::new().update(&seed.to_be_bytes()).finalize_xof().fill(&mut content);
    content
}

/// A directory that is gone when it is dropped, in memory if there is a place for it, and open to every user.
pub fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let directory =
        tempfile::Builder::new().prefix("ethbcast-tests-").tempdir_in(parent).expect("a temporary directory");
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
    directory
}

/// Has `make` make a file, and puts it where it belongs whole: other tests may make, or run, the same one.
pub fn put_whole(path: &Path, make: impl FnOnce(&Path)) {
    let directory = directory_in(path.parent().expect("it lies in a directory"));
    let made = directory.path().join(path.file_name().expect("a file"));
    make(&made);
    fs::rename(made, path).expect("beside it");
}

/// A directory in another that is gone when it is dropped, and that no other test has.
pub fn directory_in(parent: &Path) -> TempDir {
    tempfile::tempdir_in(parent).unwrap_or_else(|error| panic!("{}: {error}", parent.display()))
}

/// Waits until `found` says something; `None` if it does not within `limit`.
pub fn within<T>(limit: Duration, mut found: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + limit;
    loop {
        match found() {
            None if Instant::now() < deadline => thread::sleep(LOOK_EVERY),
            result => return result,
        }
    }
}

/// What is in a directory, hidden files included.
pub fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// What a user sees in a directory: all but what a receiver hides there, so that the next one goes on with it.
pub fn shown_in(directory: &Path) -> Vec<String> {
    let mut names = names_in(directory);
    names.retain(|name| !is_hidden(name));
    names
}

/// Whether a name is that of something that a receiver hides.
pub fn is_hidden(name: &str) -> bool {
    name.starts_with(".ethbcast-") && [".part", ".tree", ".journal"].iter().any(|suffix| name.ends_with(suffix))
}
