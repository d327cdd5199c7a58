//! Labs for tests: hosts with processes on them, files, and a check that a test leaves nothing
//! behind.
//!
//! These tests need root, and fail without it: a skipped test proves nothing. Files are kept in
//! memory if possible, because all hosts of a lab share one disk.

mod cable;
mod disk;
mod process;
mod records;
mod run;
mod site;
mod stop;
mod tap;

pub use ethbcast_bench::mpi::{Mpi, MpiCluster};
pub use ethbcast_bench::process::{Interrupt, Program};

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
    Hasher::new().update(&seed.to_be_bytes()).finalize_xof().fill(&mut content);
    content
}

/// Creates a directory that is removed on drop, in memory if possible, and open to every user.
pub fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let directory =
        tempfile::Builder::new().prefix("ethbcast-tests-").tempdir_in(parent).expect("a temporary directory");
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

/// Returns the names in a directory, hidden files included.
pub fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
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
    name.starts_with(".ethbcast-") && [".part", ".tree", ".journal"].iter().any(|suffix| name.ends_with(suffix))
}
