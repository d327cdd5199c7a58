//! MPI programs in the benchmark: their launcher, and a loop of broadcasts and barriers over TCP.
//!
//! Both MPIs start their daemons by `ssh`, which is replaced by a script that enters the host's
//! namespace.

use crate::cluster::{INTERFACE, address};
use crate::perf::Measured;
use crate::process::{Ended, Interrupt, Running};
use crate::report::Times;
use crate::transfer::is_installed;
use anyhow::{Context, bail, ensure};
use ethbcast_lab::Lab;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mpi {
    OpenMpi,
    Mpich,
}

impl Mpi {
    pub const ALL: [Mpi; 2] = [Mpi::OpenMpi, Mpi::Mpich];

    /// Returns the name used by Debian's alternatives and the drop-in's back ends.
    pub const fn name(self) -> &'static str {
        match self {
            Mpi::OpenMpi => "openmpi",
            Mpi::Mpich => "mpich",
        }
    }

    pub fn compile(
        self,
        compiler: &str,
        source: &Path,
        program: &Path,
        more: &[&str],
    ) -> anyhow::Result<()> {
        let compiler = format!("{compiler}.{}", self.name());
        let mut command = Command::new(&compiler);
        command
            .args(more)
            .arg("-o")
            .arg(program)
            .arg(source)
            .stdin(Stdio::null());
        let output = command
            .output()
            .with_context(|| format!("running {compiler}: is it installed?"))?;
        if !output.status.success() {
            bail!(
                "{compiler} {}: {}",
                source.display(),
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        Ok(())
    }
}

#[derive(Debug)]
pub struct MpiCluster<'a> {
    lab: &'a Lab,
    directory: PathBuf,
    ranks_per_host: usize,
    outlives: bool,
    keeps_to_cables: bool,
    hydra: PathBuf,
}

impl<'a> MpiCluster<'a> {
    pub fn prepare(
        lab: &'a Lab,
        directory: &Path,
        ranks_per_host: usize,
    ) -> anyhow::Result<MpiCluster<'a>> {
        let (directory, hydra) = (directory.to_owned(), "mpiexec.hydra".into());
        let cluster = MpiCluster {
            lab,
            directory,
            ranks_per_host,
            outlives: false,
            keeps_to_cables: false,
            hydra,
        };
        let mut script = String::from(
            "#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\naddress=$1\nshift\ncase $address in\n",
        );
        let (mut slots, mut counts) = (String::new(), String::new());
        for (number, host) in lab.hosts().iter().enumerate() {
            let address = address(number);
            let arguments = [
                "address",
                "replace",
                &format!("{address}/24"),
                "broadcast",
                "+",
                "dev",
                "eth0",
            ];
            let output = lab
                .command(host, "ip")?
                .args(arguments)
                .stdin(Stdio::null())
                .output()?;
            if !output.status.success() {
                bail!(
                    "no address for {host}: {}",
                    String::from_utf8_lossy(&output.stderr).trim()
                );
            }
            let own = cluster.own_directory(host);
            fs::create_dir_all(&own)?;
            let (namespace, own) = (lab.namespace(host)?, own.display());
            script += &format!("{address}) namespace={namespace} name=q{number} TMPDIR={own} ;;\n");
            slots += &format!("{address} slots={ranks_per_host}\n");
            counts += &format!("{address}:{ranks_per_host}\n");
        }
        script +=
            "*) echo \"$address is no host of this lab\" >&2; exit 1 ;;\nesac\nexport TMPDIR\n";
        script += "exec ip netns exec $namespace unshare -u sh -c \"hostname $name; $*\"\n";
        for (name, text) in [
            ("agent", &script),
            ("hosts.openmpi", &slots),
            ("hosts.mpich", &counts),
        ] {
            fs::write(cluster.directory.join(name), text)?;
        }
        fs::set_permissions(
            cluster.directory.join("agent"),
            fs::Permissions::from_mode(0o755),
        )?;
        Ok(cluster)
    }

    /// Keeps the other ranks alive when one dies.
    pub fn outliving(self) -> MpiCluster<'a> {
        MpiCluster {
            outlives: true,
            ..self
        }
    }

    /// Keeps UCX and OFI to the cables between hosts: they would find the memory that all hosts of
    /// a lab share. MPICH 4.0 over UCX then does not end by `MPI_Finalize`.
    pub fn by_cables(self) -> MpiCluster<'a> {
        MpiCluster {
            keeps_to_cables: true,
            ..self
        }
    }

    pub fn launched_by(self, hydra: PathBuf) -> MpiCluster<'a> {
        MpiCluster { hydra, ..self }
    }

    fn own_directory(&self, host: &str) -> PathBuf {
        self.directory.join(format!("host-{host}"))
    }

    /// Returns the command that runs a program on all hosts with MPI over TCP. `set` are
    /// environment variables of each rank. Waiting ranks yield, because there are more of them than
    /// cores.
    pub fn command(
        &self,
        mpi: Mpi,
        set: &[(&str, &str)],
        program: &Path,
        words: &[&str],
    ) -> anyhow::Result<Command> {
        let hosts = self.lab.hosts();
        let first = hosts.first().context("a lab has hosts")?;
        let mut command = self.lab.command(first, "unshare")?;
        command.args(["-u", "sh", "-c", r#"hostname "$0" && exec "$@""#, "q0"]);
        let (ranks, list) = (
            (hosts.len() * self.ranks_per_host).to_string(),
            format!("hosts.{}", mpi.name()),
        );
        let (agent, list) = (self.directory.join("agent"), self.directory.join(list));
        match mpi {
            Mpi::OpenMpi => {
                command.args([
                    "mpirun.openmpi",
                    "--allow-run-as-root",
                    "--bind-to",
                    "none",
                    "-np",
                    &ranks,
                ]);
                let ways = if self.ranks_per_host > 1 {
                    "tcp,vader,self"
                } else {
                    "tcp,self"
                };
                for (name, value) in [
                    ("plm_rsh_agent", agent.to_str().context("UTF-8")?),
                    ("pml", "ob1"),
                    ("btl", ways),
                    ("btl_tcp_if_include", NETWORK),
                    ("oob_tcp_if_include", NETWORK),
                    ("mpi_yield_when_idle", "1"),
                ] {
                    command.args(["--mca", name, value]);
                }
                if self.outlives {
                    command.args([
                        "--enable-recovery",
                        "--mca",
                        "orte_abort_on_non_zero_status",
                        "0",
                    ]);
                    command.args(["--mca", "orte_allowed_exit_without_sync", "1"]);
                }
                command.arg("--hostfile").arg(list);
                for (name, value) in set {
                    command.arg("-x").arg(format!("{name}={value}"));
                }
            }
            Mpi::Mpich => {
                command.arg(&self.hydra);
                command
                    .args(["-np", &ranks, "-launcher", "ssh", "-launcher-exec"])
                    .arg(agent);
                command
                    .args(["-iface", "eth0", "-bind-to", "none", "-f"])
                    .arg(list);
                if self.outlives {
                    command.arg("-disable-auto-cleanup");
                }
                // UCX or OFI over TCP; ranks of one host have the MPI's own shared memory.
                let transports = if self.keeps_to_cables {
                    "tcp,self"
                } else {
                    "tcp,self,sm"
                };
                let ways = [("UCX_TLS", transports), ("FI_PROVIDER", "tcp")];
                let device = self
                    .keeps_to_cables
                    .then_some(("UCX_NET_DEVICES", INTERFACE));
                let alone = (self.keeps_to_cables && self.ranks_per_host == 1)
                    .then_some(("MPIR_CVAR_NOLOCAL", "1"));
                for (name, value) in ways.iter().chain(&device).chain(&alone).chain(set) {
                    command.args(["-genv", name, value]);
                }
            }
        }
        command
            .arg(program)
            .args(words)
            .env("TMPDIR", self.own_directory(first))
            .stdin(Stdio::null());
        Ok(command)
    }
}

const NETWORK: &str = "10.77.0.0/24";

const SOURCE: &str = include_str!("broadcast.c");

pub fn missing(mpi: Mpi) -> Option<String> {
    let own = match mpi {
        Mpi::OpenMpi => [
            ("mpirun.openmpi", "openmpi-bin"),
            ("mpicc.openmpi", "libopenmpi-dev"),
        ],
        Mpi::Mpich => [("mpiexec.hydra", "mpich"), ("mpicc.mpich", "libmpich-dev")],
    };
    let needed = own
        .into_iter()
        .chain([("unshare", "util-linux"), ("hostname", "hostname")]);
    let (program, package) = needed
        .into_iter()
        .find(|(program, _)| !is_installed(program))?;
    Some(format!(
        "there is no {program} here: install the package {package}"
    ))
}

pub fn version(mpi: Mpi) -> anyhow::Result<String> {
    let (program, name) = match mpi {
        Mpi::OpenMpi => ("mpirun.openmpi", "Open MPI"),
        Mpi::Mpich => ("mpiexec.hydra", "MPICH"),
    };
    let output = Command::new(program)
        .arg("--version")
        .output()
        .with_context(|| format!("running {program}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // "mpirun.openmpi (OpenRTE) 4.1.4", or among other lines "    Version:    4.0.2".
    let line = text
        .lines()
        .find(|line| line.contains("Version:"))
        .or_else(|| text.lines().next());
    let number = line
        .and_then(|line| line.split_whitespace().last())
        .unwrap_or("of unknown version");
    Ok(format!("{name} {number}"))
}

#[derive(Debug)]
pub struct Cluster<'a> {
    pub(crate) mpi: Mpi,
    launcher: MpiCluster<'a>,
    program: PathBuf,
    _directory: TempDir,
}

#[derive(Clone, Copy, Debug)]
pub struct Loop<'s> {
    /// Untimed iterations; the first ones establish connections.
    pub warm_ups: u32,
    pub iterations: u32,
    pub sizes: &'s [u64],
}

impl<'a> Cluster<'a> {
    pub fn prepare(lab: &'a Lab, mpi: Mpi, ranks_per_host: usize) -> anyhow::Result<Self> {
        // Not in memory: many systems mount /dev/shm with `noexec`.
        let directory = tempfile::Builder::new().prefix("ethbcast-mpi-").tempdir()?;
        let (source, program) = (
            directory.path().join("broadcast.c"),
            directory.path().join("broadcast"),
        );
        std::fs::write(&source, SOURCE)?;
        mpi.compile("mpicc", &source, &program, &["-O2"])?;
        let launcher = MpiCluster::prepare(lab, directory.path(), ranks_per_host)?.by_cables();
        Ok(Self {
            mpi,
            launcher,
            program,
            _directory: directory,
        })
    }

    pub fn measure(
        &self,
        set: &[(&str, &str)],
        what: Loop,
        limit: Duration,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Result<Vec<Measured>, String>> {
        let Loop {
            warm_ups,
            iterations,
            sizes,
        } = what;
        let words: Vec<String> = [warm_ups, iterations].iter().map(u32::to_string).collect();
        let words: Vec<String> = words
            .into_iter()
            .chain(sizes.iter().map(u64::to_string))
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let command = self
            .launcher
            .command(self.mpi, set, Path::new(&self.program), &words)?;
        let ended: Ended = Running::start(self.mpi.name(), command)?.wait(limit, interrupt)?;
        ended.map_or_else(
            |words| Ok(Err(words)),
            |output| read(&output, sizes, iterations).map(Ok),
        )
    }
}

fn read(output: &str, sizes: &[u64], iterations: u32) -> anyhow::Result<Vec<Measured>> {
    let mut lines = output.lines();
    let mut times = |what: &str, size: u64| -> anyhow::Result<Times> {
        let line = lines
            .next()
            .with_context(|| format!("the MPI program printed no {what} of {size} bytes"))?;
        let rest = line
            .strip_prefix(&format!("{what} {size} "))
            .with_context(|| format!("not a {what} of {size} bytes: {line}"))?;
        let seconds = rest
            .split(' ')
            .map(|word| word.parse::<f64>().map(|ns| ns * 1e-9))
            .collect::<Result<Vec<_>, _>>()?;
        ensure!(
            seconds.len() == iterations as usize,
            "{} times of {iterations} of a {what} of {size} bytes",
            seconds.len()
        );
        Times::of(seconds).context("there is at least one iteration")
    };
    sizes
        .iter()
        .map(|&size| {
            Ok(Measured {
                via: String::new(),
                segment_bytes: 0,
                predicted_seconds: None,
                broadcast: times("broadcast", size)?,
                barrier: times("barrier", size)?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_output_is_read_and_anything_else_refused() {
        let output = "broadcast 256 3000 1000 2000\nbarrier 256 500 500 500\n";
        let measured = read(output, &[256], 3).expect("good");
        assert!(
            (measured[0].broadcast.middle80 - 2e-6).abs() < 1e-12
                && (measured[0].barrier.p99 - 5e-7).abs() < 1e-12
        );
        for (wrong, part) in [
            ("", "printed no broadcast of 256 bytes"),
            ("broadcast 4096 1 2 3\n", "not a broadcast of 256 bytes"),
            ("broadcast 256 1 2\n", "2 times of 3"),
            ("broadcast 256 1 2 3\n", "no barrier of 256 bytes"),
        ] {
            let error = read(wrong, &[256], 3).expect_err(wrong).to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
