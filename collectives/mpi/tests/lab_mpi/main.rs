//! Tests of MPI programs (MPICH and Open MPI) in network namespaces, with and without ethbcast's
//! library.

mod calls;
mod withdrawing;

use ethbcast_lab::LabConfig;
use ethbcast_tests::in_full;
use ethbcast_tests::lab::{
    COMPILE_LIMIT, Ended, Mpi, MpiCluster, Run, Site, TempDir, directory_in, put_whole,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(300);

fn own(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Returns the folder of programs and back ends. It is on disk, because many machines forbid
/// execution in memory file systems.
fn directory() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

fn drop_in() -> PathBuf {
    let beside = std::env::current_exe()
        .expect("a test knows where it is")
        .with_file_name("libethbcast_mpi.so");
    assert!(beside.is_file(), "Cargo has built no {}", beside.display());
    beside
}

/// Returns the MPIs whose compilers and headers are installed; prints the others.
fn here() -> &'static [Mpi] {
    static HERE: OnceLock<Vec<Mpi>> = OnceLock::new();
    HERE.get_or_init(|| {
        // Other tests may make or load these files, so they are moved into place when complete.
        let place = directory_in(directory());
        let mut make = Command::new(own("build-backends"));
        make.arg(place.path());
        let made = Run::to_end(make, COMPILE_LIMIT);
        let library = |mpi: &Mpi| format!("libethbcast_mpi_{}.so", mpi.name());
        let (here, missing): (Vec<_>, Vec<_>) = Mpi::ALL.into_iter().partition(|mpi| {
            std::fs::rename(
                place.path().join(library(mpi)),
                directory().join(library(mpi)),
            )
            .is_ok()
        });
        for mpi in missing {
            eprintln!(
                "NOT TESTED WITH {}: {}",
                mpi.name().to_uppercase(),
                made.stderr.trim()
            );
        }
        assert!(
            !here.is_empty(),
            "both MPIs are missing: ./test installs them"
        );
        here
    })
}

/// Returns one of them, or all of them in `./test --full`.
fn of_this_size() -> &'static [Mpi] {
    &here()[..in_full(1, here().len())]
}

/// Compiles a program, unless the last one of this name was compiled with identical arguments.
fn compiled(mpi: Mpi, compiler: &str, source: &str, more: &[&str]) -> PathBuf {
    static MADE: Mutex<BTreeMap<PathBuf, String>> = Mutex::new(BTreeMap::new());
    let name = Path::new(source)
        .file_name()
        .expect("a file")
        .to_string_lossy()
        .replace('.', "-");
    let program = directory().join(format!("{name}-{}", mpi.name()));
    let (mut made, way) = (
        MADE.lock().unwrap_or_else(PoisonError::into_inner),
        format!("{compiler} {more:?}"),
    );
    if made.get(&program) != Some(&way) {
        put_whole(&program, |made| {
            mpi.compile(compiler, &own(source), made, more)
                .unwrap_or_else(|error| panic!("{error}"));
        });
        made.insert(program.clone(), way);
    }
    program
}

struct Bed {
    site: Site,
    files: TempDir,
    ranks_per_host: usize,
    /// Whether the launcher lets the others live when a rank dies.
    outlives: bool,
    /// MPICH's launcher, if not the one on the path.
    hydra: Option<PathBuf>,
}

impl Bed {
    fn new(story: &str, config: LabConfig, ranks_per_host: usize) -> Bed {
        let files = directory_in(directory());
        Bed {
            site: Site::beside(story, config),
            files,
            ranks_per_host,
            outlives: false,
            hydra: None,
        }
    }

    /// Adds a rule to what each host's interface takes.
    fn filter(&self, rule: &str) {
        let chain = "add chain netdev test in { type filter hook ingress device eth0 priority 0; }";
        let file = self
            .site
            .file("rules", format!("add table netdev test\n{chain}\n{rule}"));
        for host in self.site.lab().hosts() {
            self.site
                .set_up(&host, "nft", &["-f", file.to_str().expect("a path")]);
        }
    }

    fn start(&self, mpi: Mpi, program: &Path, words: &[&str], set: &[(&str, &str)]) -> Run {
        let files = self.files.path();
        let cluster =
            MpiCluster::prepare(self.site.lab(), files, self.ranks_per_host).expect("a cluster");
        let cluster = if self.outlives {
            cluster.outliving()
        } else {
            cluster
        };
        let cluster = self
            .hydra
            .iter()
            .cloned()
            .fold(cluster, MpiCluster::launched_by);
        let command = cluster
            .command(mpi, set, program, words)
            .expect("the lab has hosts");
        Run::start(mpi.name(), command)
    }

    fn alone(&self, mpi: Mpi, program: &Path, words: &[&str]) -> Ended {
        self.start(mpi, program, words, &[]).end(LIMIT)
    }

    fn preloaded(&self, mpi: Mpi, program: &Path, words: &[&str], more: &[(&str, &str)]) -> Ended {
        self.start_preloaded(mpi, program, words, more).end(LIMIT)
    }

    fn start_preloaded(
        &self,
        mpi: Mpi,
        program: &Path,
        words: &[&str],
        more: &[(&str, &str)],
    ) -> Run {
        let (library, back_ends) = (drop_in(), directory());
        let text = |path: &Path| path.to_str().expect("a path of the build").to_owned();
        let (library, back_ends) = (text(&library), text(back_ends));
        let mut set = vec![
            ("LD_PRELOAD", library.as_str()),
            ("ETHBCAST_MPI_BACKENDS", &back_ends),
            ("ETHBCAST_MPI_INTERFACE", "eth0"),
            ("ETHBCAST_MPI_VERBOSE", "1"),
            ("ETHBCAST_MPI_STATS", "1"),
            // The test needs the wire, even where the MPI would be faster.
            ("ETHBCAST_MPI_TRIAL", "off"),
        ];
        set.extend_from_slice(more);
        self.start(mpi, program, words, &set)
    }
}

fn taken(ended: &Ended, operation: &str) -> u64 {
    let line = ended
        .stderr
        .lines()
        .find(|line| line.contains(&format!(" {operation}: ")) && line.contains("taken"));
    let count = line.and_then(|line| {
        line.split(&format!(" {operation}: "))
            .nth(1)?
            .split(' ')
            .next()?
            .parse()
            .ok()
    });
    count.unwrap_or(0)
}
