//! `ethbcast mpi-env`: prints the command line that starts an MPI program with the drop-in on every
//! rank.

use crate::args::{Launcher, MpiEnvArgs};
use crate::exit::{self, Code, fail};
use std::path::{Path, PathBuf};

const LIBRARY: &str = "libethbcast_mpi.so";

/// Runs the command.
///
/// # Errors
/// If the drop-in is missing, or a path needs quoting.
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
    let all =
        [(Launcher::Openmpi, "Open MPI"), (Launcher::Hydra, "MPICH, Intel MPI (Hydra)"), (Launcher::Srun, "Slurm")];
    let lines = all.into_iter().filter(|(launcher, _)| args.launcher.is_none_or(|wanted| wanted == *launcher));
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
        variables.iter().map(|(name, value)| form(name, value)).collect()
    };
    match launcher {
        Launcher::Openmpi => format!("mpirun{} PROGRAM", each(&|name, value| format!(" -x {name}={value}"))),
        Launcher::Hydra => format!("mpiexec{} PROGRAM", each(&|name, value| format!(" -genv {name} {value}"))),
        Launcher::Srun => format!("srun --export=ALL{} PROGRAM", each(&|name, value| format!(",{name}={value}"))),
    }
}

fn library(args: &MpiEnvArgs) -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let folder = program.parent().unwrap_or(Path::new("/"));
    let found = match &args.library {
        Some(given) => Some(given.clone()),
        None => [folder.join(LIBRARY), folder.join("../lib").join(LIBRARY)].into_iter().find(|path| path.is_file()),
    };
    match found.and_then(|path| path.canonicalize().ok()) {
        Some(path) => Ok(path),
        None => fail(
            Code::System,
            format!(
                "there is no {} here: build it with `cargo build --release -p ethbcast-mpi`, or say where it is with \
                 --library",
                args.library.as_deref().unwrap_or(Path::new(LIBRARY)).display()
            ),
        ),
    }
}

/// Returns a path that needs no quoting in shells and launchers.
fn word(value: &Path) -> anyhow::Result<String> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+:@".contains(letter);
    match value.to_str().filter(|text| !text.is_empty() && text.chars().all(plain)) {
        Some(text) => Ok(text.to_owned()),
        None => fail(
            Code::Usage,
            format!("{} has letters that launchers take apart: give it another name or place", value.display()),
        ),
    }
}
