//! MPI programs of both MPIs on the hosts of a lab, with the drop-in preloaded, and without.

use ethbcast_lab::LabConfig;
use ethbcast_tests::lab::{Ended, Mpi, MpiCluster, Run, Site, one_switch};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

/// How long a program may take; whatever hangs is killed then.
const LIMIT: Duration = Duration::from_secs(300);

fn own(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Where programs and back ends are: not in memory, where nothing may be run on many machines.
fn directory() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// The drop-in, where Cargo has put it: beside this test.
fn drop_in() -> PathBuf {
    let beside = std::env::current_exe().expect("a test knows where it is").with_file_name("libethbcast_mpi.so");
    assert!(beside.is_file(), "Cargo has built no {}", beside.display());
    beside
}

/// The MPIs whose compilers and headers are here; the others are named loudly.
fn here() -> &'static [Mpi] {
    static HERE: OnceLock<Vec<Mpi>> = OnceLock::new();
    HERE.get_or_init(|| {
        let mut made = Command::new(own("build-backends"));
        let output = made.arg(directory()).output().expect("a shell");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let (here, missing): (Vec<_>, Vec<_>) =
            Mpi::ALL.into_iter().partition(|mpi| said.contains(&format!("_mpi_{}.so", mpi.name())));
        for mpi in missing {
            let why = String::from_utf8_lossy(&output.stderr);
            eprintln!("NOT TESTED WITH {}: {}", mpi.name().to_uppercase(), why.trim());
        }
        assert!(!here.is_empty(), "neither MPI is here: install the packages of .ci/run");
        here
    })
}

fn compiled(mpi: Mpi, compiler: &str, source: &str, more: &[&str]) -> PathBuf {
    let name = Path::new(source).file_name().expect("a file").to_string_lossy().replace('.', "-");
    let program = directory().join(format!("{name}-{}", mpi.name()));
    mpi.compile(compiler, &own(source), &program, more).unwrap_or_else(|error| panic!("{error}"));
    program
}

struct Bed {
    site: Site,
    ranks_per_host: usize,
}

impl Bed {
    fn new(story: &str, config: LabConfig, ranks_per_host: usize) -> Bed {
        Bed { site: Site::alone(story, config), ranks_per_host }
    }

    /// Runs a program on all ranks with these variables.
    fn run(&self, mpi: Mpi, program: &Path, words: &[&str], set: &[(&str, &str)]) -> Ended {
        let files = directory().join(self.site.lab().name());
        std::fs::create_dir_all(&files).expect("a directory");
        let cluster = MpiCluster::prepare(self.site.lab(), &files, self.ranks_per_host).expect("a cluster");
        let command = cluster.command(mpi, set, program, words).expect("the lab has hosts");
        let ended = Run::start(mpi.name(), command).end(LIMIT);
        std::fs::remove_dir_all(&files).expect("what was made");
        ended
    }

    /// The same with the drop-in, which says what it did.
    fn preloaded(&self, mpi: Mpi, program: &Path, words: &[&str], more: &[(&str, &str)]) -> Ended {
        let (library, back_ends) = (drop_in(), directory());
        let text = |path: &Path| path.to_str().expect("a path of the build").to_owned();
        let (library, back_ends) = (text(&library), text(back_ends));
        let mut set = vec![
            ("LD_PRELOAD", library.as_str()),
            ("ETHBCAST_MPI_BACKENDS", &back_ends),
            ("ETHBCAST_MPI_INTERFACE", "eth0"),
            ("ETHBCAST_MPI_VERBOSE", "1"),
            ("ETHBCAST_MPI_STATS", "1"),
            // What is to be seen is the wire, also where the MPI would be faster.
            ("ETHBCAST_MPI_TRIAL", "off"),
        ];
        set.extend_from_slice(more);
        self.run(mpi, program, words, &set)
    }
}

/// How many calls of an operation were taken.
fn taken(ended: &Ended, operation: &str) -> u64 {
    let line = ended.stderr.lines().find(|line| line.contains(&format!(" {operation}: ")) && line.contains("taken"));
    let count = line.and_then(|line| line.split(&format!(" {operation}: ")).nth(1)?.split(' ').next()?.parse().ok());
    count.unwrap_or(0)
}

#[test]
fn lab_every_call_gives_what_the_mpi_would() {
    let bed = Bed::new("mpi_correct", one_switch(4), 1);
    let parts = ["roots", "named", "derived", "blocks", "communicators", "in-flight", "threads", "arguments"];
    for &mpi in here() {
        let program = compiled(mpi, "mpicc", "tests/correct.c", &["-std=gnu11", "-O1", "-Wall", "-lpthread"]);
        // `CORRECT_COMMUNICATORS=200` is the long form; some of those that are there at a time have no place.
        let turns = std::env::var("CORRECT_COMMUNICATORS").unwrap_or_else(|_| "8".into());
        let more = [("CORRECT_COMMUNICATORS", turns.as_str()), ("ETHBCAST_MPI_COMMUNICATORS", "4")];
        let ended = bed.preloaded(mpi, &program, &parts, &more);
        ended.assert_code(0);
        let said = ended.stdout_text();
        for part in parts.iter().filter(|part| **part != "threads") {
            assert!(said.contains(&format!("{part}: all is well")), "{part} with {mpi:?}:\n{said}{}", ended.stderr);
        }
        assert!(ended.stderr.contains("4 ranks on 4 hosts"), "{}", ended.stderr);
        assert!(taken(&ended, "bcast") > 200 && taken(&ended, "allgather") > 5, "{}", ended.stderr);
        assert!(ended.stderr.contains("an intercommunicator"), "{}", ended.stderr);
        assert!(ended.stderr.contains("too many communicators at a time"), "{}", ended.stderr);
    }
}

#[test]
fn lab_ranks_that_share_hosts_are_served_by_one_of_them() {
    let bed = Bed::new("mpi_nodes", one_switch(3), 2);
    for &mpi in here() {
        let program = compiled(mpi, "mpicc", "tests/correct.c", &["-std=gnu11", "-O1", "-lpthread"]);
        let ended = bed.preloaded(mpi, &program, &["roots", "derived", "blocks", "in-flight"], &[]);
        ended.assert_code(0);
        assert!(ended.stderr.contains("6 ranks on 3 hosts"), "{}", ended.stderr);
        assert!(taken(&ended, "bcast") > 40, "{}", ended.stderr);
        assert!(ended.stderr.contains("ranks that share hosts"), "{}", ended.stderr);
    }
}

#[test]
fn lab_fortran_reaches_the_drop_in_by_both_modules() {
    let bed = Bed::new("mpi_fortran", one_switch(3), 1);
    for &mpi in here() {
        for module in ["MPI", "F08"] {
            let program = compiled(mpi, "mpifort", "tests/correct.F90", &["-O1", &format!("-D{module}")]);
            let ended = bed.preloaded(mpi, &program, &[], &[]);
            ended.assert_code(0);
            assert!(ended.stdout_text().contains("fortran: all is well"), "{}", ended.stderr);
            assert!(taken(&ended, "bcast") >= 3, "{module} with {mpi:?}: {}", ended.stderr);
            assert!(!ended.stderr.contains("this MPI has no"), "{module} with {mpi:?}: {}", ended.stderr);
        }
    }
}

#[test]
fn lab_lengths_that_differ_are_an_error_and_no_hang() {
    let bed = Bed::new("mpi_lengths", one_switch(3), 1);
    for &mpi in here() {
        let program = compiled(mpi, "mpicc", "tests/correct.c", &["-std=gnu11", "-O1", "-lpthread"]);
        let ended = bed.preloaded(mpi, &program, &["lengths"], &[]);
        assert!(ended.stderr.contains("calls differ"), "{mpi:?}: {}{}", ended.stdout_text(), ended.stderr);
    }
}

#[test]
fn lab_where_it_cannot_it_says_why_and_mpi_does_the_work() {
    let bed = Bed::new("mpi_aside", one_switch(3), 1);
    let elsewhere = directory().join("no-back-ends");
    let elsewhere = elsewhere.to_str().expect("a path");
    for &mpi in here() {
        let program = compiled(mpi, "mpicc", "tests/correct.c", &["-std=gnu11", "-O1", "-lpthread"]);
        for (name, value, why) in [
            ("ETHBCAST_MPI_INTERFACE", "eth7", "there is no interface eth7"),
            ("ETHBCAST_MPI_MIN_HOSTS", "4", "3 hosts, fewer than 4"),
            ("ETHBCAST_MPI_BACKENDS", elsewhere, "no back end"),
            ("ETHBCAST_MPI_TAKE", "reduce", "there is no reduce"),
            ("ETHBCAST_MPI", "off", "switched off"),
        ] {
            let ended = bed.preloaded(mpi, &program, &["roots", "blocks"], &[(name, value)]);
            ended.assert_code(0);
            assert!(ended.stderr.contains(why), "{name}={value} with {mpi:?}: {}", ended.stderr);
            assert_eq!(taken(&ended, "bcast"), 0, "{}", ended.stderr);
        }
    }
}

#[test]
fn a_program_without_mpi_runs_as_ever() {
    let run = Command::new("echo").arg("nothing of MPI").env("LD_PRELOAD", drop_in()).output().expect("echo is there");
    assert_eq!((run.status.code(), String::from_utf8_lossy(&run.stdout).trim()), (Some(0), "nothing of MPI"));
    assert_eq!(String::from_utf8_lossy(&run.stderr), "");
    let needs = Command::new("readelf").arg("-d").arg(drop_in()).output().expect("readelf comes with gcc");
    let needs = String::from_utf8_lossy(&needs.stdout).into_owned();
    assert!(!needs.lines().any(|line| line.contains("NEEDED") && line.contains("mpi")), "{needs}");
    let names = Command::new("nm").args(["-D", "--defined-only", "--format=just-symbols"]).arg(drop_in()).output();
    let names = String::from_utf8_lossy(&names.expect("nm comes with gcc").stdout).into_owned();
    let is_mpi = |name: &str| name.starts_with("MPI_") || name.starts_with("mpi_");
    assert!(names.lines().count() >= 22 && names.lines().all(is_mpi), "{names}");
}
