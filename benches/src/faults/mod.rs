//! Whole transfers with one trouble each, by host and moment, and their results.

mod cell;
mod cells;
mod judged;
mod moment;
mod play;
mod trouble;

pub use cell::{Cell, Promise, Terms};
pub use cells::{all, undisturbed};
pub use judged::{Judged, Summary};
pub use play::Stage;

use std::fs;

use ethbcast_lab::{LabConfig, LabGuard};
use ethbcast_planning::topology::Topology;
use play::Play;

/// Plays a cell once.
///
/// # Errors
/// Fails if the lab or a program does not come up, or if the user interrupts.
pub fn play(stage: &Stage, cell: &Cell, number: u64, seed: u64) -> anyhow::Result<Judged> {
    let topology = Topology::single_switch((0..stage.hosts).map(|host| format!("n{host}")))?;
    let name = format!("faults{}.{number}", std::process::id());
    let rate_bits_per_second = Some(stage.rate_bits_per_second);
    let (loss, mtu_bytes) = (cell.loss, cell.mtu_bytes);
    let lab = LabGuard::up(&LabConfig { name, rate_bits_per_second, loss, mtu_bytes, ..LabConfig::new(topology) })?;
    let directory = stage.directory.join(number.to_string());
    fs::create_dir(&directory)?;
    let mut play = Play::start(stage, cell, lab, &directory, seed)?;
    play.watch(stage)?;
    let judged = Judged::new(&mut play, stage.source, seed)?;
    fs::remove_dir_all(&directory)?;
    Ok(judged)
}
