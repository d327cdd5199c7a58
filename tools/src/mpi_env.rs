//! `ethbcast mpi-env`: prints how to start an MPI program with ethbcast's library. `ethbcast port`
//! opens sockets for its unprivileged processes.

use crate::args::{Launcher, MpiEnvArgs, PortArgs};
use crate::exit;
use crate::exit::{Code, Failure, WithCode, fail, print_line};
use crate::signals::Interrupt;
use ethbcast_transport::packet::PortServer;
use nix::unistd::{Gid, chown};
use std::fs;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const LIBRARY: &str = "libethbcast_mpi.so";

pub fn run(args: &MpiEnvArgs) -> anyhow::Result<()> {
    let mut variables = vec![("LD_PRELOAD", word(&library(args)?)?)];
    if let Some(interface) = &args.interface {
        variables.push(("ETHBCAST_MPI_INTERFACE", word(Path::new(interface))?));
    }
    if let Some(port) = &args.port {
        variables.push(("ETHBCAST_PORT", word(port)?));
    }
    if args.stats {
        variables.push(("ETHBCAST_MPI_STATS", "1".to_owned()));
    }
    let all = [
        (Launcher::Openmpi, "Open MPI"),
        (Launcher::Hydra, "MPICH, Intel MPI (Hydra)"),
        (Launcher::Srun, "Slurm"),
    ];
    let lines = all
        .into_iter()
        .filter(|(launcher, _)| args.launcher.is_none_or(|wanted| wanted == *launcher));
    for (launcher, heading) in lines {
        if args.launcher.is_none() {
            exit::report(&format!("# {heading}"))?;
        }
        exit::report(&line(launcher, &variables))?;
    }
    Ok(())
}

fn line(launcher: Launcher, variables: &[(&str, String)]) -> String {
    let each = |form: &dyn Fn(&str, &str) -> String| -> String {
        variables
            .iter()
            .map(|(name, value)| form(name, value))
            .collect()
    };
    match launcher {
        Launcher::Openmpi => format!(
            "mpirun{} PROGRAM",
            each(&|name, value| format!(" -x {name}={value}"))
        ),
        Launcher::Hydra => format!(
            "mpiexec{} PROGRAM",
            each(&|name, value| format!(" -genv {name} {value}"))
        ),
        Launcher::Srun => format!(
            "srun --export=ALL{} PROGRAM",
            each(&|name, value| format!(",{name}={value}"))
        ),
    }
}

fn library(args: &MpiEnvArgs) -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let folder = program.parent().unwrap_or(Path::new("/"));
    let found = match &args.library {
        Some(given) => Some(given.clone()),
        None => [folder.join(LIBRARY), folder.join("../lib").join(LIBRARY)]
            .into_iter()
            .find(|path| path.is_file()),
    };
    match found.and_then(|path| path.canonicalize().ok()) {
        Some(path) => Ok(path),
        None => fail(
            Code::System,
            format!(
                "there is no {} here: build it with `cargo build --release -p ethbcast-mpi`, or say where it is with \
                 --library",
                args.library
                    .as_deref()
                    .unwrap_or(Path::new(LIBRARY))
                    .display()
            ),
        ),
    }
}

/// Returns a path that needs no quoting in shells and launchers.
fn word(value: &Path) -> anyhow::Result<String> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+:@".contains(letter);
    match value
        .to_str()
        .filter(|text| !text.is_empty() && text.chars().all(plain))
    {
        Some(text) => Ok(text.to_owned()),
        None => fail(
            Code::Usage,
            format!(
                "{} has letters that launchers take apart: give it another name or place",
                value.display()
            ),
        ),
    }
}

const MAX_AT_A_TIME: usize = 64;

pub fn serve_ports(args: &PortArgs) -> anyhow::Result<()> {
    let path = &args.serve;
    let (at, file) = (path.display(), path.clone());
    let interrupt = Interrupt::watch(false, move || {
        // The last action; clients wait in the kernel.
        drop(fs::remove_file(&file));
        print_line("ethbcast: no more ports are served");
        std::process::exit(0);
    });
    let interrupt = interrupt.code(Code::System)?;
    interrupt.begin_polling();
    let server = PortServer::bind(path, args.ether_type).map_err(|error| {
        Failure::new(
            Code::System,
            format!(
                "cannot serve ports at {at}: {error}; remove the file there, or name another place"
            ),
        )
    })?;
    chown(path, None, args.gid.map(Gid::from_raw)).code(Code::System)?;
    fs::set_permissions(path, Permissions::from_mode(args.mode)).code(Code::System)?;
    print_line(format_args!(
        "ethbcast: ports are served at {at}: give processes ETHBCAST_PORT={at}"
    ));
    let all = Arc::new(());
    loop {
        let client = server.accept().code(Code::System)?;
        let own = Arc::clone(&all);
        let serve = move || {
            let served = client.serve();
            log::info!("{served}");
            drop(own);
        };
        // A slow client does not delay the others, unless there are very many.
        if Arc::strong_count(&all) > MAX_AT_A_TIME {
            serve();
        } else {
            std::thread::Builder::new()
                .name("port".to_owned())
                .spawn(serve)
                .code(Code::System)?;
        }
    }
}
