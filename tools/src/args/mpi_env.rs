//! The arguments of `ethbcast mpi-env` and `ethbcast port`.

use super::whole;
use clap::{Args, ValueEnum};
use ethbcast_transport::wire::EtherType;
use std::path::PathBuf;

/// `ethbcast mpi-env`.
#[derive(Debug, Args)]
pub struct MpiEnvArgs {
    /// Print only the command of this launcher, without a heading.
    #[arg(long, value_name = "LAUNCHER")]
    pub launcher: Option<Launcher>,
    /// Drop-in library. Default: the one next to this program or in ../lib.
    #[arg(long, value_name = "FILE")]
    pub library: Option<PathBuf>,
    /// Network interface of every host. Default: the only Ethernet interface that is up.
    #[arg(short, long, value_name = "IFACE")]
    pub interface: Option<String>,
    /// Unix socket of `ethbcast port --serve` on every host, for ranks without CAP_NET_RAW.
    #[arg(long, value_name = "SOCKET")]
    pub port: Option<PathBuf>,
    /// Let rank 0 print at the end which calls used ethbcast.
    #[arg(long)]
    pub stats: bool,
}

/// Program that starts the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Launcher {
    /// Open MPI's mpirun.
    Openmpi,
    /// MPICH's and Intel MPI's mpiexec.
    Hydra,
    /// Slurm's srun.
    Srun,
}

/// `ethbcast port`.
#[derive(Debug, Args)]
pub struct PortArgs {
    /// Unix socket over which processes get packet sockets. It is created, and removed at the end. The packet sockets
    /// receive only frames of ethbcast's EtherType, but whoever may connect may send any frame: give the socket a group
    /// of its own.
    #[arg(long, value_name = "SOCKET", required = true)]
    pub serve: PathBuf,
    /// Permissions of the Unix socket, in octal: they decide who may connect.
    #[arg(long, value_name = "MODE", default_value = "660", value_parser = mode)]
    pub mode: u32,
    /// Group of the Unix socket, by number.
    #[arg(long, value_name = "GID", value_parser = whole::<u32>)]
    pub gid: Option<u32>,
    /// EtherType of the frames, in hexadecimal.
    #[arg(long, value_name = "HEX", default_value = "88b5")]
    pub ether_type: EtherType,
}

fn mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| format!("{text} is no mode: give one such as 660"))
}
