//! MPI programs on the hosts of a lab. Both MPIs start their daemons by `ssh`, which is replaced by
//! a script that enters the host's namespace.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use ethbcast_lab::Lab;

/// MPI implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mpi {
    /// Open MPI.
    OpenMpi,
    /// MPICH.
    Mpich,
}

impl Mpi {
    /// All implementations.
    pub const ALL: [Mpi; 2] = [Mpi::OpenMpi, Mpi::Mpich];

    /// Returns the name used by Debian's alternatives and the drop-in's back ends.
    pub const fn name(self) -> &'static str {
        match self {
            Mpi::OpenMpi => "openmpi",
            Mpi::Mpich => "mpich",
        }
    }

    /// Compiles a program with the MPI's compiler for C (`mpicc`) or Fortran (`mpifort`).
    ///
    /// # Errors
    /// The compiler's message.
    pub fn compile(self, compiler: &str, source: &Path, program: &Path, more: &[&str]) -> anyhow::Result<()> {
        let compiler = format!("{compiler}.{}", self.name());
        let mut command = Command::new(&compiler);
        command.args(more).arg("-o").arg(program).arg(source).stdin(Stdio::null());
        let output = command.output().with_context(|| format!("running {compiler}: is it installed?"))?;
        if !output.status.success() {
            bail!("{compiler} {}: {}", source.display(), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(())
    }
}

/// A lab whose hosts have addresses and can run MPI programs.
#[derive(Debug)]
pub struct MpiCluster<'a> {
    lab: &'a Lab,
    directory: PathBuf,
    ranks_per_host: usize,
    outlives: bool,
    hydra: PathBuf,
}

impl<'a> MpiCluster<'a> {
    /// Gives the hosts addresses, and writes the launcher's files into `directory`, which must
    /// permit execution.
    ///
    /// # Errors
    /// If an address cannot be set or a file cannot be written.
    pub fn prepare(lab: &'a Lab, directory: &Path, ranks_per_host: usize) -> anyhow::Result<MpiCluster<'a>> {
        let (directory, hydra) = (directory.to_owned(), "mpiexec.hydra".into());
        let cluster = MpiCluster { lab, directory, ranks_per_host, outlives: false, hydra };
        let mut script = String::from(
            "#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\naddress=$1\nshift\ncase $address in\n",
        );
        let (mut slots, mut counts) = (String::new(), String::new());
        for (number, host) in lab.hosts().iter().enumerate() {
            let address = address(number);
            let arguments = ["address", "replace", &format!("{address}/24"), "broadcast", "+", "dev", "eth0"];
            let output = lab.command(host, "ip")?.args(arguments).stdin(Stdio::null()).output()?;
            if !output.status.success() {
                bail!("no address for {host}: {}", String::from_utf8_lossy(&output.stderr).trim());
            }
            let own = cluster.own_directory(host);
            fs::create_dir_all(&own)?;
            let (namespace, own) = (lab.namespace(host)?, own.display());
            script += &format!("{address}) namespace={namespace} name=q{number} TMPDIR={own} ;;\n");
            slots += &format!("{address} slots={ranks_per_host}\n");
            counts += &format!("{address}:{ranks_per_host}\n");
        }
        script += "*) echo \"$address is no host of this lab\" >&2; exit 1 ;;\nesac\nexport TMPDIR\n";
        script += "exec ip netns exec $namespace unshare -u sh -c \"hostname $name; $*\"\n";
        for (name, text) in [("agent", &script), ("hosts.openmpi", &slots), ("hosts.mpich", &counts)] {
            fs::write(cluster.directory.join(name), text)?;
        }
        fs::set_permissions(cluster.directory.join("agent"), fs::Permissions::from_mode(0o755))?;
        Ok(cluster)
    }

    /// Keeps the other ranks alive when one dies.
    pub fn outliving(self) -> MpiCluster<'a> {
        MpiCluster { outlives: true, ..self }
    }

    /// Replaces MPICH's launcher with another Hydra.
    pub fn launched_by(self, hydra: PathBuf) -> MpiCluster<'a> {
        MpiCluster { hydra, ..self }
    }

    fn own_directory(&self, host: &str) -> PathBuf {
        self.directory.join(format!("host-{host}"))
    }

    /// Returns the command that runs a program on all hosts with MPI over TCP. `set` are
    /// environment variables of each rank. Waiting ranks yield, because there are more of them than
    /// cores.
    ///
    /// # Errors
    /// If the lab has no hosts.
    pub fn command(&self, mpi: Mpi, set: &[(&str, &str)], program: &Path, words: &[&str]) -> anyhow::Result<Command> {
        let hosts = self.lab.hosts();
        let first = hosts.first().context("a lab has hosts")?;
        let mut command = self.lab.command(first, "unshare")?;
        command.args(["-u", "sh", "-c", r#"hostname "$0" && exec "$@""#, "q0"]);
        let (ranks, list) = ((hosts.len() * self.ranks_per_host).to_string(), format!("hosts.{}", mpi.name()));
        let (agent, list) = (self.directory.join("agent"), self.directory.join(list));
        match mpi {
            Mpi::OpenMpi => {
                command.args(["mpirun.openmpi", "--allow-run-as-root", "--bind-to", "none", "-np", &ranks]);
                let ways = if self.ranks_per_host > 1 { "tcp,vader,self" } else { "tcp,self" };
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
                    command.args(["--enable-recovery", "--mca", "orte_abort_on_non_zero_status", "0"]);
                    command.args(["--mca", "orte_allowed_exit_without_sync", "1"]);
                }
                command.arg("--hostfile").arg(list);
                for (name, value) in set {
                    command.arg("-x").arg(format!("{name}={value}"));
                }
            }
            Mpi::Mpich => {
                command.arg(&self.hydra);
                command.args(["-np", &ranks, "-launcher", "ssh", "-launcher-exec"]).arg(agent);
                command.args(["-iface", "eth0", "-bind-to", "none", "-f"]).arg(list);
                if self.outlives {
                    command.arg("-disable-auto-cleanup");
                }
                // UCX or OFI over TCP.
                for (name, value) in [("UCX_TLS", "tcp,self,sm"), ("FI_PROVIDER", "tcp")].iter().chain(set) {
                    command.args(["-genv", name, value]);
                }
            }
        }
        command.arg(program).args(words).env("TMPDIR", self.own_directory(first)).stdin(Stdio::null());
        Ok(command)
    }
}

const NETWORK: &str = "10.77.0.0/24";

fn address(number: usize) -> String {
    format!("10.77.0.{}", number + 1)
}
