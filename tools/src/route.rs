//! Resolution of `--via`, `--preset`, `--plan` and `--calibration`.

use crate::exit::{Code, Failure, WithCode, fail};
use crate::topology_file::{print_notes, refused};
use ethbcast_collectives::Preset;
use ethbcast_collectives::session::Route;
use ethbcast_planning::model::Calibration;
use ethbcast_planning::plan::file::{Contention, SavedPlan};
use ethbcast_planning::plan::{CheckReport, UnknownVia, Via};
use ethbcast_planning::topology::Topology;
use std::path::Path;

/// Parses the value of `--via`.
///
/// # Errors
/// A [`Failure`] with code 2.
pub fn read_route(via: &str) -> anyhow::Result<Route> {
    match via {
        "auto" => Ok(Route::Auto),
        name => Ok(Route::Via(name.parse::<Via>().map_err(|error| match error {
            UnknownVia::Name(_) => Failure::new(Code::Usage, format!("{error}, auto")),
            UnknownVia::Children(_) => Failure::new(Code::Usage, error),
        })?)),
    }
}

/// Checks that a preset applies to `route`: the default to every one, the others to casts only.
///
/// # Errors
/// A [`Failure`] with code 2.
pub fn check_preset(preset: Preset, route: &Route) -> anyhow::Result<()> {
    if preset == Preset::Default || matches!(route, Route::Via(Via::Cast)) {
        return Ok(());
    }
    fail(Code::Usage, format!("--preset {preset} is a protocol of the cast and of nothing else: add --via cast"))
}

/// Reads a plan that `ethbcast plan --out` wrote.
///
/// # Errors
/// A [`Failure`] with code 2 (malformed) or 4 (unreadable).
pub fn read_plan(path: &Path) -> anyhow::Result<SavedPlan> {
    Ok(SavedPlan::load(path).map_err(refused)?)
}

/// Checks a saved plan on its topology and prints the result on stderr. Nothing is checked without
/// a topology.
///
/// # Errors
/// A [`Failure`] with code 2 if hosts of the plan are not in the topology, or if it is contended
/// and may not be.
pub fn admit(
    plan: &SavedPlan,
    topology: Option<&Topology>,
    contention: Contention,
) -> anyhow::Result<Option<CheckReport>> {
    let Some(topology) = topology else {
        let unjudged =
            "the plan is run unjudged: name the switches with --topology to know whether it uses a cable twice";
        if !matches!(plan.via(), Via::Cast | Via::Flat) {
            print_notes(&[unjudged.to_owned()]);
        }
        return Ok(None);
    };
    let report = plan.admit(topology, contention).code(Code::Usage)?;
    if !report.is_contention_free() {
        let cables = report.contention();
        print_notes(&[format!("the plan sends over one cable from several hosts at a time: {cables}")]);
    }
    Ok(Some(report))
}

/// Reads a calibration that `ethbcast probe --out` wrote.
///
/// # Errors
/// A [`Failure`] with code 2 (malformed) or 4 (unreadable).
pub fn read_calibration(path: &Path) -> anyhow::Result<Calibration> {
    Ok(Calibration::load(path).map_err(refused)?)
}

/// Reads a calibration for the hosts of a topology.
///
/// # Errors
/// As [`read_calibration`], and a [`Failure`] with code 2 if it was measured on other hosts.
pub fn read_calibration_for(path: &Path, topology: Option<&Topology>) -> anyhow::Result<Calibration> {
    let calibration = read_calibration(path)?;
    if let Some(topology) = topology {
        calibration.check_hosts(|host| topology.host_named(host).is_some()).code(Code::Usage)?;
    }
    Ok(calibration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_cast_has_a_choice_of_protocols() {
        let routes = [Route::Auto, Route::Via(Via::Chain), Route::Via(Via::Cast)];
        let allowed = |preset: Preset| routes.each_ref().map(|route| check_preset(preset, route).is_ok());
        assert_eq!(allowed(Preset::Default), [true, true, true]);
        for preset in [Preset::Paper, Preset::PushPull] {
            assert_eq!(allowed(preset), [false, false, true]);
        }
        let refusal = check_preset(Preset::Paper, &Route::Auto).expect_err("auto may not be a cast").to_string();
        assert_eq!(refusal, "--preset paper is a protocol of the cast and of nothing else: add --via cast");
    }
}
