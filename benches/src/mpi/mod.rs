//! Open MPI over TCP on the hosts of a lab, each a machine of its own for it: name, address, place for temporary files.
//!
//! `mpirun` starts its daemons with what it takes for `ssh`: a script that steps into the namespace of the address
//! instead.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use ethbcast_lab::Lab;
use tempfile::TempDir;

use crate::cluster::{NETWORK, address};
use crate::interrupt::Interrupt;
use crate::running::{Ended, Running};
use crate::times::Times;
use crate::tools::is_installed;

/// The program that runs on every rank.
const SOURCE: &str = include_str!("broadcast.c");
const MPIRUN: &str = "mpirun.openmpi";
const MPICC: &str = "mpicc.openmpi";
/// Iterations before any is timed: connections are made by the first ones.
const WARM_UPS: u32 = 100;

/// Which package is not here, in one sentence; `None` if nothing is missing.
pub fn missing() -> Option<String> {
    let needed =
        [(MPIRUN, "openmpi-bin"), (MPICC, "libopenmpi-dev"), ("unshare", "util-linux"), ("hostname", "hostname")];
    let (program, package) = needed.into_iter().find(|(program, _)| !is_installed(program))?;
    Some(format!("there is no {program} here: install the package {package}"))
}

/// Its name and version, such as `Open MPI 4.1.4`.
///
/// # Errors
/// If it cannot be run.
pub fn version() -> anyhow::Result<String> {
    let output = Command::new(MPIRUN).arg("--version").output().with_context(|| format!("running {MPIRUN}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    // mpirun.openmpi (OpenRTE) 4.1.4
    Ok(format!(
        "Open MPI {}",
        text.lines().next().and_then(|line| line.split_whitespace().last()).unwrap_or("of unknown version")
    ))
}

/// What one size took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Broadcasts with a barrier behind each.
    pub broadcast: Times,
    /// Barriers alone.
    pub barrier: Times,
}

/// Open MPI, ready to run on a lab whose hosts have addresses.
#[derive(Debug)]
pub struct Cluster<'a> {
    lab: &'a Lab,
    ranks_per_host: usize,
    /// The program, the script, the list of hosts, and a folder for each host's temporary files.
    directory: TempDir,
}

impl<'a> Cluster<'a> {
    /// Compiles the program and writes what `mpirun` needs for so many ranks on each host.
    ///
    /// # Errors
    /// If the compiler fails, or there is no place for files.
    pub fn prepare(lab: &'a Lab, ranks_per_host: usize) -> anyhow::Result<Self> {
        // Not in memory with the other benches' files: nothing may be run from there on many machines.
        let directory = tempfile::Builder::new().prefix("ethbcast-mpi-").tempdir()?;
        let cluster = Self { lab, ranks_per_host, directory };
        compile(&cluster.path("broadcast.c")?, &cluster.path("broadcast")?)?;
        let hosts = lab.hosts();
        let mut list = String::new();
        for (number, host) in hosts.iter().enumerate() {
            fs::create_dir(cluster.path(host)?)?;
            list += &format!("{} slots={ranks_per_host}\n", address(number));
        }
        fs::write(cluster.path("hosts")?, list)?;
        fs::write(cluster.path("agent.sh")?, cluster.agent(&hosts)?)?;
        Ok(cluster)
    }

    /// Runs all sizes once; what it failed of is an outcome, not an error.
    ///
    /// # Errors
    /// If it cannot be started, prints what is no measurement, or the user interrupts.
    pub fn measure(
        &self,
        sizes: &[u64],
        iterations: u32,
        limit: Duration,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Result<Vec<Measured>, String>> {
        let mut mpirun = Running::start("mpirun", self.mpirun(sizes, iterations)?)?;
        let ended: Ended = mpirun.wait(limit, interrupt)?;
        ended.map_or_else(|words| Ok(Err(words)), |output| read(&output, sizes, iterations).map(Ok))
    }

    /// `mpirun` on the first host. Ranks that wait yield: there are more of them than cores, and one that spins keeps
    /// its core from the one it waits for.
    fn mpirun(&self, sizes: &[u64], iterations: u32) -> anyhow::Result<Command> {
        let hosts = self.lab.hosts();
        let mut command = self.lab.command(&hosts[0], "unshare")?;
        command.args(["-u", "sh", "-c", r#"hostname "$0" && exec "$@""#, &own_name(0), MPIRUN, "--allow-run-as-root"]);
        let ranks = (hosts.len() * self.ranks_per_host).to_string();
        // Beside TCP its own shared memory, where ranks share a host.
        let ways = if self.ranks_per_host > 1 { "tcp,vader,self" } else { "tcp,self" };
        let agent = format!("sh {}", self.path("agent.sh")?);
        for (name, value) in [
            ("plm_rsh_agent", agent.as_str()),
            ("pml", "ob1"),
            ("btl", ways),
            ("btl_tcp_if_include", NETWORK),
            ("oob_tcp_if_include", NETWORK),
            ("mpi_yield_when_idle", "1"),
        ] {
            command.args(["--mca", name, value]);
        }
        command.args(["--bind-to", "none", "-np", &ranks, "--hostfile", &self.path("hosts")?]);
        command.args([self.path("broadcast")?, WARM_UPS.to_string(), iterations.to_string()]);
        command.args(sizes.iter().map(u64::to_string)).env("TMPDIR", self.path(&hosts[0])?);
        Ok(command)
    }

    /// The script in place of `ssh`: options, an address, and words for the shell there.
    fn agent(&self, hosts: &[String]) -> anyhow::Result<String> {
        let mut script =
            String::from("while [ \"${1#-}\" != \"$1\" ]; do shift; done\naddress=$1\nshift\ncase $address in\n");
        for (number, host) in hosts.iter().enumerate() {
            let (address, namespace, name) = (address(number), self.lab.namespace(host)?, own_name(number));
            script += &format!("{address}) namespace={namespace} name={name} TMPDIR={} ;;\n", self.path(host)?);
        }
        script += "*) echo \"$address is no host of this lab\" >&2; exit 1 ;;\nesac\nexport TMPDIR\n";
        script += "exec ip netns exec $namespace unshare -u sh -c \"hostname $name; $*\"\n";
        Ok(script)
    }

    fn path(&self, name: &str) -> anyhow::Result<String> {
        let path: PathBuf = self.directory.path().join(name);
        let text = path.to_str().filter(|path| !path.contains(char::is_whitespace));
        text.map(str::to_owned)
            .context("the folder for temporary files has a blank or no UTF-8 in its name: set TMPDIR")
    }
}

/// The name a host has for Open MPI, which names its folders by it.
fn own_name(number: usize) -> String {
    format!("q{number}")
}

fn compile(source: impl AsRef<Path>, program: impl AsRef<Path>) -> anyhow::Result<()> {
    fs::write(&source, SOURCE)?;
    let mut command = Command::new(MPICC);
    command.args(["-O2", "-o"]).arg(program.as_ref()).arg(source.as_ref()).stdin(Stdio::null());
    let output = command.output().with_context(|| format!("running {MPICC}"))?;
    if !output.status.success() {
        bail!("{MPICC} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// The times of the sizes, in the order of the sizes.
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
