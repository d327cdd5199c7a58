//! MPI programs on the hosts of a lab over TCP: a loop of broadcast and barrier as in `ethbcast
//! perf`.

mod launcher;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use ethbcast_lab::Lab;
pub use launcher::{Mpi, MpiCluster};
use tempfile::TempDir;

use crate::interrupt::Interrupt;
use crate::running::{Ended, Running};
use crate::times::Times;
use crate::tools::is_installed;

const SOURCE: &str = include_str!("broadcast.c");

/// Untimed iterations for short messages; the first ones establish connections.
pub const WARM_UPS: u32 = 100;

/// Returns a sentence about the missing package, or `None`.
pub fn missing(mpi: Mpi) -> Option<String> {
    let own = match mpi {
        Mpi::OpenMpi => [("mpirun.openmpi", "openmpi-bin"), ("mpicc.openmpi", "libopenmpi-dev")],
        Mpi::Mpich => [("mpiexec.hydra", "mpich"), ("mpicc.mpich", "libmpich-dev")],
    };
    let needed = own.into_iter().chain([("unshare", "util-linux"), ("hostname", "hostname")]);
    let (program, package) = needed.into_iter().find(|(program, _)| !is_installed(program))?;
    Some(format!("there is no {program} here: install the package {package}"))
}

/// Returns name and version, such as `Open MPI 4.1.4`.
///
/// # Errors
/// If it cannot be run.
pub fn version(mpi: Mpi) -> anyhow::Result<String> {
    let (program, name) = match mpi {
        Mpi::OpenMpi => ("mpirun.openmpi", "Open MPI"),
        Mpi::Mpich => ("mpiexec.hydra", "MPICH"),
    };
    let output = Command::new(program).arg("--version").output().with_context(|| format!("running {program}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // "mpirun.openmpi (OpenRTE) 4.1.4", or among other lines "    Version:    4.0.2".
    let line = text.lines().find(|line| line.contains("Version:")).or_else(|| text.lines().next());
    let number = line.and_then(|line| line.split_whitespace().last()).unwrap_or("of unknown version");
    Ok(format!("{name} {number}"))
}

/// Times of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Broadcasts, each followed by a barrier.
    pub broadcast: Times,
    /// Barriers alone.
    pub barrier: Times,
}

/// An MPI that is ready to run the loop on a lab.
#[derive(Debug)]
pub struct Cluster<'a> {
    mpi: Mpi,
    launcher: MpiCluster<'a>,
    program: PathBuf,
    _directory: TempDir,
}

/// Parameters of a run of the loop.
#[derive(Clone, Copy, Debug)]
pub struct Loop<'s> {
    /// Untimed iterations; the first ones establish connections.
    pub warm_ups: u32,
    /// Timed iterations.
    pub iterations: u32,
    /// Sizes of the messages, in bytes.
    pub sizes: &'s [u64],
}

impl<'a> Cluster<'a> {
    /// Compiles the program and writes the launcher's files for `ranks_per_host`.
    ///
    /// # Errors
    /// If the compiler fails, or the files cannot be written.
    pub fn prepare(lab: &'a Lab, mpi: Mpi, ranks_per_host: usize) -> anyhow::Result<Self> {
        // Not in memory: many systems mount /dev/shm with `noexec`.
        let directory = tempfile::Builder::new().prefix("ethbcast-mpi-").tempdir()?;
        let (source, program) = (directory.path().join("broadcast.c"), directory.path().join("broadcast"));
        std::fs::write(&source, SOURCE)?;
        mpi.compile("mpicc", &source, &program, &["-O2"])?;
        let launcher = MpiCluster::prepare(lab, directory.path(), ranks_per_host)?;
        Ok(Self { mpi, launcher, program, _directory: directory })
    }

    /// Returns the MPI.
    pub fn mpi(&self) -> Mpi {
        self.mpi
    }

    /// Runs all sizes once with the given environment variables on every rank. Returns the times or
    /// the failure of the program.
    ///
    /// # Errors
    /// If it cannot be started, its output cannot be read, or the user interrupts.
    pub fn measure(
        &self,
        set: &[(&str, &str)],
        what: Loop,
        limit: Duration,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Result<Vec<Measured>, String>> {
        let Loop { warm_ups, iterations, sizes } = what;
        let words: Vec<String> = [warm_ups, iterations].iter().map(u32::to_string).collect();
        let words: Vec<String> = words.into_iter().chain(sizes.iter().map(u64::to_string)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let command = self.launcher.command(self.mpi, set, Path::new(&self.program), &words)?;
        let ended: Ended = Running::start(self.mpi.name(), command)?.wait(limit, interrupt)?;
        ended.map_or_else(|words| Ok(Err(words)), |output| read(&output, sizes, iterations).map(Ok))
    }
}

fn read(output: &str, sizes: &[u64], iterations: u32) -> anyhow::Result<Vec<Measured>> {
    let mut lines = output.lines();
    let mut times = |what: &str, size: u64| -> anyhow::Result<Times> {
        let line = lines.next().with_context(|| format!("the MPI program said nothing of a {what} of {size} bytes"))?;
        let rest = line
            .strip_prefix(&format!("{what} {size} "))
            .with_context(|| format!("not a {what} of {size} bytes: {line}"))?;
        let seconds =
            rest.split(' ').map(|word| word.parse::<f64>().map(|ns| ns * 1e-9)).collect::<Result<Vec<_>, _>>()?;
        ensure!(
            seconds.len() == iterations as usize,
            "{} times of {iterations} of a {what} of {size} bytes",
            seconds.len()
        );
        Times::of(seconds).context("there is at least one iteration")
    };
    sizes
        .iter()
        .map(|&size| Ok(Measured { broadcast: times("broadcast", size)?, barrier: times("barrier", size)? }))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_program_prints_is_read_and_anything_else_refused() {
        let output = "broadcast 256 3000 1000 2000\nbarrier 256 500 500 500\n";
        let measured = read(output, &[256], 3).expect("good");
        assert!(
            (measured[0].broadcast.middle80 - 2e-6).abs() < 1e-12 && (measured[0].barrier.p99 - 5e-7).abs() < 1e-12
        );
        for (wrong, part) in [
            ("", "said nothing of a broadcast of 256 bytes"),
            ("broadcast 4096 1 2 3\n", "not a broadcast of 256 bytes"),
            ("broadcast 256 1 2\n", "2 times of 3"),
            ("broadcast 256 1 2 3\n", "nothing of a barrier"),
        ] {
            let error = read(wrong, &[256], 3).expect_err(wrong).to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
