//! `ethbcast lab`: a cluster of network namespaces on this machine.

mod children;
mod demo;
mod each;
mod shape;

use crate::args::{CableArgs, LabArgs, LabCommand};
use crate::exit::{Code, Failure, WithCode, fail, report};
use ethbcast_lab::{Lab, LabConfig, LabError, parse_rate_or_unlimited};
use ethbcast_planning::topology::nodeset;
use std::ffi::OsString;

pub fn run(args: LabArgs) -> anyhow::Result<()> {
    match args.command {
        LabCommand::Up { shape, topology, cables } => up(shape.or(topology).as_deref().unwrap_or_default(), &cables),
        LabCommand::Exec { lab, host, command } => exec(&lab, &host, &command),
        LabCommand::Each { lab, except, label, command } => each::run(&lab, &except, label, &command),
        LabCommand::Down { lab, all } => down(&lab, all),
        LabCommand::List => list(),
        LabCommand::Topology { name } => topology(&name),
        LabCommand::Demo { mebibytes, hosts, rate, loss } => demo::run(mebibytes, hosts, &rate, loss),
    }
}

/// Classifies a lab's error: usage if the caller can correct it, otherwise system.
fn code(error: &LabError) -> Code {
    use LabError::*;
    match error {
        NotRoot
        | ToolMissing { .. }
        | KernelLacks { .. }
        | ProcessesRemain { .. }
        | NamespacesRemain { .. }
        | Tool { .. } => Code::System,
        System { .. } | NoInterface { .. } => Code::System,
        Interrupted => Code::Interrupted,
        _ => Code::Usage,
    }
}

fn lab_failure(error: LabError) -> Failure {
    Failure::new(code(&error), error)
}

/// Returns this host's name: the given one or, without `$ETHBCAST_HOST`, that of the lab host on
/// which this process runs.
pub fn host_name(given: Option<&str>) -> Option<String> {
    let told = std::env::var("ETHBCAST_HOST").is_ok();
    given.map(str::to_owned).or_else(|| Lab::own_host().filter(|_| !told))
}

fn up(shape: &str, cables: &CableArgs) -> anyhow::Result<()> {
    let topology = shape::topology(shape)?;
    let config = LabConfig {
        name: cables.lab.clone(),
        rate_bits_per_second: cables.rate.as_deref().map_or(Ok(None), parse_rate_or_unlimited).code(Code::Usage)?,
        mtu_bytes: cables.mtu,
        loss: cables.loss,
        ..LabConfig::new(topology)
    };
    let lab = Lab::up(&config).map_err(lab_failure)?;
    let hosts = lab.hosts();
    let option = if lab.name() == ethbcast_lab::DEFAULT_LAB { String::new() } else { format!(" --lab {}", lab.name()) };
    eprintln!(
        "lab {} is up: hosts {}; run things with `ethbcast lab exec{option} {} -- CMD`, end it with `ethbcast lab \
         down{option}`",
        lab.name(),
        nodeset::fold(&hosts),
        hosts.first().map_or("HOST", String::as_str)
    );
    Ok(())
}

fn exec(lab: &str, host: &str, command: &[OsString]) -> anyhow::Result<()> {
    use std::os::unix::process::CommandExt;
    let lab = Lab::open(lab).map_err(lab_failure)?;
    let mut process = prepare(&lab, host, command)?;
    // Returns only after a failure: the command replaces this process, so that exit code and
    // signals are its own.
    let error = process.exec();
    fail(Code::System, format!("cannot run {:?} on {host}: {error}", command[0]))
}

fn prepare(lab: &Lab, host: &str, command: &[OsString]) -> anyhow::Result<std::process::Command> {
    let (program, arguments) =
        command.split_first().ok_or_else(|| Failure::new(Code::Usage, "give a command after --"))?;
    let program = program.to_str().ok_or_else(|| Failure::new(Code::Usage, "the command's name is not valid UTF-8"))?;
    let mut process = lab.command(host, program).map_err(lab_failure)?;
    process.args(arguments);
    Ok(process)
}

fn down(name: &str, all: bool) -> anyhow::Result<()> {
    let names = if all { Lab::list().map_err(lab_failure)? } else { vec![name.to_owned()] };
    for name in names {
        let removed = Lab::remove(&name).map_err(lab_failure)?;
        match removed.namespaces {
            0 => eprintln!("lab {name} is not up: nothing to do"),
            count => eprintln!("lab {name} is down: {count} namespaces and {} processes ended", removed.processes),
        }
    }
    Ok(())
}

fn list() -> anyhow::Result<()> {
    for name in Lab::list().map_err(lab_failure)? {
        match Lab::open(&name) {
            Ok(lab) => report(&format!("{name}: {}", nodeset::fold(&lab.hosts())))?,
            Err(error) => report(&format!("{name}: {error}"))?,
        }
    }
    Ok(())
}

fn topology(name: &str) -> anyhow::Result<()> {
    report(shape::builtin(name)?.to_toml().trim_end())
}
