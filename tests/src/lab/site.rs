//! Test helper: the environment of one test that runs as root: hosts in network namespaces, and a
//! directory.

use super::{LIMIT, Run, names_in, processes_on, require_root, scratch, within};
use ethbcast_lab::{Lab, LabConfig, LabGuard};
use ethbcast_planning::topology::Topology;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// Time for which the child of a killed process may outlive it.
const OUTPUT_GRACE: Duration = Duration::from_secs(5);
const TURN_LIMIT: Duration = Duration::from_secs(3600);

/// Configures a lab of `hosts` hosts `n0…` on one switch: unshaped, MTU 1500, no loss.
pub fn one_switch(hosts: usize) -> LabConfig {
    LabConfig::new(
        Topology::single_switch((0..hosts).map(|host| format!("n{host}"))).expect("good names"),
    )
}

/// Returns a name for a lab that no other test of this or another process has.
pub fn lab_name(story: &str) -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    format!(
        "t{}.{}.{story}",
        process_name(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    )
}

/// Returns a name that no other process of this machine has, also across PID namespaces.
pub fn process_name() -> String {
    let namespace = fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino());
    format!("{:x}.{}", namespace & 0xffff_ffff, std::process::id())
}

/// A lab and a directory for files. On drop, also in a panic, the lab is taken down. A test that
/// has succeeded so far fails if a process or a temporary file is left.
pub struct Site {
    lab: LabGuard,
    scratch: TempDir,
    _turn: Flock<File>,
}

impl Site {
    /// Brings up a lab for a test that measures memory, or locates a slow part of a network: no
    /// other site is up meanwhile, in this or another test process.
    pub fn alone(story: &str, config: LabConfig) -> Site {
        alone_later();
        Site::up(story, config, FlockArg::LockExclusiveNonblock)
    }

    /// Brings up a lab for a test that moves few bytes, or many slowly, beside others of this kind.
    pub fn beside(story: &str, config: LabConfig) -> Site {
        Site::up(story, config, FlockArg::LockSharedNonblock)
    }

    fn up(story: &str, config: LabConfig, turn: FlockArg) -> Site {
        require_root();
        // A directory can be locked like a file, and all test processes of a build share this one.
        let tests = std::env::current_exe().expect("a test knows where it is");
        let directory = File::open(tests.parent().expect("it lies in a directory"))
            .expect("the test lies in it");
        let mut waiting = Some(directory);
        let turn = within(TURN_LIMIT, || match Flock::lock(waiting.take()?, turn) {
            Ok(turn) => Some(turn),
            Err((directory, errno)) => {
                assert_eq!(errno, Errno::EWOULDBLOCK, "a lock to wait for");
                waiting = Some(directory);
                None
            }
        });
        let turn = turn.unwrap_or_else(|| panic!("other labs are still up after {TURN_LIMIT:?}"));
        let config = LabConfig {
            name: lab_name(story),
            ..config
        };
        let lab = LabGuard::up(&config)
            .unwrap_or_else(|error| panic!("bringing up `{}`: {error}", config.name));
        Site {
            lab,
            scratch: scratch(),
            _turn: turn,
        }
    }

    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    pub fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Writes a file in the directory.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).expect("written");
        path
    }

    pub fn directory(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir(&path).expect("made");
        path
    }

    /// Prepares `program` to run on a host, without stdin.
    pub fn command(&self, host: &str, program: &str) -> Command {
        let mut command = self.lab.command(host, program).expect("a host of this lab");
        command.env_remove("RUST_LOG").stdin(Stdio::null());
        command
    }

    pub fn set_up(&self, host: &str, program: &str, arguments: &[&str]) {
        let mut command = self.command(host, program);
        command.args(arguments);
        Run::start(host, command).end(LIMIT).assert_code(0);
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if thread::panicking() {
            return;
        }
        let is_empty = |host: &String| {
            processes_on(&self.lab, host).is_ok_and(|processes| processes.is_empty())
        };
        within(OUTPUT_GRACE, || {
            self.lab.hosts().iter().all(is_empty).then_some(())
        });
        let removed = Lab::remove(self.lab.name()).expect("the lab goes down");
        assert_eq!(removed.processes, 0, "processes were left in the lab");
        let left = temporary_files(self.scratch.path());
        assert!(left.is_empty(), "temporary files were left: {left:?}");
    }
}

/// Ends this process if it runs beside others in `./test`, which later runs it again when no other
/// lab test runs.
fn alone_later() {
    if let Some(code) = std::env::var("ETHBCAST_ALONE_EXIT")
        .ok()
        .and_then(|code| code.parse().ok())
    {
        std::process::exit(code);
    }
}

fn temporary_files(directory: &Path) -> Vec<PathBuf> {
    let paths = names_in(directory)
        .into_iter()
        .map(|name| directory.join(name));
    let (directories, files): (Vec<_>, Vec<_>) = paths.partition(|path| path.is_dir());
    let is_temporary = |path: &PathBuf| {
        path.extension()
            .is_some_and(|extension| extension == "part")
    };
    files
        .into_iter()
        .filter(is_temporary)
        .chain(
            directories
                .iter()
                .flat_map(|directory| temporary_files(directory)),
        )
        .collect()
}
