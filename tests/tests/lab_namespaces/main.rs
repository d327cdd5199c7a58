//! The lab itself: its setup and removal, and the behaviour of its cables.
//!
//! These tests need root, and fail without it: a skipped test proves nothing.

mod cables;
mod faults;
mod frames;
mod life;

use ethbcast_lab::{LabConfig, LabGuard};
use ethbcast_planning::topology::Topology;
use ethbcast_tests::lab::{process_name, require_root};

/// A lab of n0 and n1 on one switch, n2 and n3 on another, one cable between. `story` distinguishes
/// the labs of one test process.
fn two_switches(story: &str) -> LabConfig {
    require_root();
    let text = "schema = 1\n\
                [[switch]]\nname = \"left\"\nhosts = \"n[0-1]\"\nlinks = [\"right\"]\n\
                [[switch]]\nname = \"right\"\nhosts = \"n[2-3]\"\n";
    let mut config = LabConfig::new(Topology::parse(text, "two switches").expect("a good topology"));
    config.name = format!("test{}{story}", process_name());
    config
}

fn up(config: &LabConfig) -> LabGuard {
    LabGuard::up(config).unwrap_or_else(|error| panic!("bringing up `{}`: {error}", config.name))
}
