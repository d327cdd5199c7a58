//! Reading of files and names given on the command line: topologies, broadcast trees, measured
//! costs, hosts.

use crate::doctor::text_of;
use crate::exit::{Code, Failure, WithCode, fail};
use ethbcast_collectives::Preset;
use ethbcast_collectives::session::Route;
use ethbcast_planning::host_list::HostListError;
use ethbcast_planning::load::LoadError;
use ethbcast_planning::model::Calibration;
use ethbcast_planning::plan::file::{Contention, SavedPlan};
use ethbcast_planning::plan::{CheckReport, UnknownVia, Via};
use ethbcast_planning::topology::slurm::Address;
use ethbcast_planning::topology::{Imported, Topology, nodeset};
use ethbcast_planning::{host_list, load};
use std::path::{Path, PathBuf};

/// Environment variable with the hosts of the Slurm job in which a program runs.
pub const SLURM_JOB: &str = "SLURM_JOB_NODELIST";
const SLURM_FOLDERS: [&str; 2] = ["/etc/slurm", "/run/slurm/conf"];

/// Reads a topology, whose format is detected by its content, and prints warnings on stderr. A test
/// bed's name works if there is no such file.
pub fn read_topology(path: &Path) -> anyhow::Result<Topology> {
    let Imported { topology, notes } = Topology::load(path).map_err(refused)?;
    print_notes(&notes);
    Ok(topology)
}

pub fn find_root(topology: &Topology, name: &str, root: &str) -> anyhow::Result<usize> {
    let Some(host) = topology.host_named(root) else {
        let known = nodeset::fold(topology.hosts());
        let text = format!(
            "the topology ({name}) has no host {root}, only {known}: choose one of them with --root"
        );
        return fail(Code::Usage, text);
    };
    Ok(host)
}

pub fn print_notes(notes: &[String]) {
    notes
        .iter()
        .for_each(|note| crate::exit::print_line(format_args!("ethbcast: note: {note}")));
}

pub fn refused(error: LoadError) -> Failure {
    let code = if matches!(error, LoadError::Unreadable { .. }) {
        Code::System
    } else {
        Code::Usage
    };
    Failure::new(code, error)
}

/// Reads a text file; `-` is stdin.
pub fn read_text(path: &Path, what: &'static str) -> anyhow::Result<String> {
    Ok(load::read_text(path, what).map_err(refused)?)
}

/// Returns the topology of the Slurm whose job this runs in, and its file's name. None unless it
/// names all these hosts.
pub fn slurms_topology(hosts: &[String]) -> Option<(Topology, String)> {
    std::env::var_os(SLURM_JOB)?;
    let told = std::env::var_os("SLURM_CONF").map(PathBuf::from);
    let folders = told
        .iter()
        .filter_map(|path| path.parent())
        .chain(SLURM_FOLDERS.map(Path::new));
    let mut files =
        folders.flat_map(|folder| ["topology.conf", "topology.yaml"].map(|name| folder.join(name)));
    let path = files.find(|path| path.exists())?;
    let name = path.display().to_string();
    match Topology::load(&path) {
        Err(error) => log::warn!("not used: {error}"),
        Ok(Imported { topology, .. }) => {
            match hosts
                .iter()
                .find(|host| topology.host_named(host).is_none())
            {
                Some(host) => log::info!("{name} is not used: it names no host {host}"),
                None => {
                    print_notes(&[format!("switches as in {name}")]);
                    return Some((topology, name));
                }
            }
        }
    }
    None
}

pub fn host_by_slurm(topology: &Topology) -> Option<usize> {
    let address = std::env::var("SLURM_TOPOLOGY_ADDR").ok()?;
    host_at(
        topology,
        &address,
        std::env::var("SLURM_TOPOLOGY_ADDR_PATTERN").ok().as_deref(),
    )
}

fn host_at(topology: &Topology, address: &str, pattern: Option<&str>) -> Option<usize> {
    topology.host_named(Address::parse(address, pattern).ok()?.host)
}

pub fn read_route(via: &str) -> anyhow::Result<Route> {
    match via {
        "auto" => Ok(Route::Auto),
        name => Ok(Route::Via(name.parse::<Via>().map_err(
            |error| match error {
                UnknownVia::Name(_) => Failure::new(Code::Usage, format!("{error}, auto")),
                UnknownVia::Children(_) => Failure::new(Code::Usage, error),
            },
        )?)),
    }
}

/// Checks that a preset applies to `route`: the default to every one, the others to casts only.
pub fn check_preset(preset: Preset, route: &Route) -> anyhow::Result<()> {
    if preset == Preset::Default || matches!(route, Route::Via(Via::Cast)) {
        return Ok(());
    }
    fail(
        Code::Usage,
        format!("--preset {preset} is a protocol of the cast and of nothing else: add --via cast"),
    )
}

pub fn read_plan(path: &Path) -> anyhow::Result<SavedPlan> {
    Ok(SavedPlan::load(path).map_err(refused)?)
}

/// Checks a saved plan on its topology and prints the result on stderr. Nothing is checked without
/// a topology.
pub fn admit(
    plan: &SavedPlan,
    topology: Option<&Topology>,
    contention: Contention,
) -> anyhow::Result<Option<CheckReport>> {
    let Some(topology) = topology else {
        let unjudged = "the plan is run unjudged: name the switches with --topology to know \
            whether it uses a cable twice";
        if !matches!(plan.via(), Via::Cast | Via::Flat) {
            print_notes(&[unjudged.to_owned()]);
        }
        return Ok(None);
    };
    let report = plan.admit(topology, contention).code(Code::Usage)?;
    if !report.is_contention_free() {
        let cables = report.contention();
        print_notes(&[format!(
            "the plan sends over one cable from several hosts at a time: {cables}"
        )]);
    }
    Ok(Some(report))
}

pub fn read_calibration(path: &Path) -> anyhow::Result<Calibration> {
    Ok(Calibration::load(path).map_err(refused)?)
}

pub fn read_calibration_for(
    path: &Path,
    topology: Option<&Topology>,
) -> anyhow::Result<Calibration> {
    let calibration = read_calibration(path)?;
    if let Some(topology) = topology {
        calibration
            .check_hosts(|host| topology.host_named(host).is_some())
            .code(Code::Usage)?;
    }
    Ok(calibration)
}

/// Returns the hosts of a node set without duplicates. `^FILE`, or `@FILE` if there is such a file,
/// reads a file with one or more names per line and comments after `#`; other groups (`@group`) are
/// resolved by ClusterShell.
pub fn hosts(text: &str) -> Result<Vec<String>, Failure> {
    let read = match host_list::read(text) {
        Err(HostListError::Group { .. }) => host_list::read(&of_clustershell(text)?),
        read => read,
    };
    read.map_err(|error| {
        let code = if matches!(error, HostListError::Load(_)) {
            Code::System
        } else {
            Code::Usage
        };
        Failure::new(code, error)
    })
}

fn of_clustershell(text: &str) -> Result<String, Failure> {
    text_of("nodeset", &["-e", "-S", "\n", text]).map_err(|why| {
        let help = "name the hosts, or a file of them with ^FILE";
        Failure::new(
            Code::Usage,
            format!("{text} has a group, which ClusterShell's `nodeset` knows: {why}; {help}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_and_unreadable_files_have_exit_codes_of_their_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let code = |name: &str| {
            let error = read_topology(&folder.path().join(name)).expect_err("no topology");
            error.downcast_ref::<Failure>().expect("a code").code()
        };
        std::fs::write(folder.path().join("c"), "hosts: n0\n").expect("a file");
        std::fs::write(folder.path().join("d"), b"\xff\xfe").expect("a file");
        assert_eq!(
            ["c", "d", "missing"].map(code),
            [Code::Usage, Code::Usage, Code::System]
        );
    }

    #[test]
    fn slurm_says_which_host_this_is() {
        let bed = Topology::builtin("fig9-1").expect("fig9-1");
        assert_eq!(host_at(&bed, "s0.n3", Some("switch.node")), Some(3));
        assert_eq!(host_at(&bed, "s0.login", Some("switch.node")), None);
        assert_eq!(host_at(&bed, "s0.n3", Some("nonsense")), None);
    }

    #[test]
    fn only_a_cast_has_a_choice_of_protocols() {
        let routes = [Route::Auto, Route::Via(Via::Chain), Route::Via(Via::Cast)];
        let allowed = |preset: Preset| {
            routes
                .each_ref()
                .map(|route| check_preset(preset, route).is_ok())
        };
        assert_eq!(allowed(Preset::Default), [true, true, true]);
        for preset in [Preset::Paper, Preset::PushPull] {
            assert_eq!(allowed(preset), [false, false, true]);
        }
        let refusal = check_preset(Preset::Paper, &Route::Auto)
            .expect_err("auto may not be a cast")
            .to_string();
        assert_eq!(
            refusal,
            "--preset paper is a protocol of the cast and of nothing else: add --via cast"
        );
    }
}
