//! Thirty of the transfers that `chaos` plays (docs/testing.md): the program on the hosts of labs,
//! with random faults drawn from a seed.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ethbcast_tests::chaos::{Campaign, Terms};
use ethbcast_tests::lab::Program;
use ethbcast_tests::lab::{lab_name, require_root};

#[test]
fn thirty_transfers_with_troubles_end_as_they_must() {
    require_root();
    let program = Program::find(Some(Path::new(env!("CARGO_BIN_EXE_ethbcast")))).expect("cargo has built it");
    let seconds = Duration::from_secs;
    // A machine that builds and tests is busy.
    let terms =
        Terms { stall: seconds(4), patience: seconds(5), send_wait: seconds(4), receive_wait: seconds(7), slack: 10.0 };
    let (lab, interrupted) = (lab_name("chaos"), AtomicBool::new(false));
    let campaign = Campaign { program: &program, lab: &lab, jobs: 2, terms, only: None, interrupted: &interrupted };
    let results = campaign
        .run(5000..5030, |scenario, result| match result {
            Ok(verdict) if verdict.wrong.is_empty() => {}
            Ok(verdict) => eprintln!("{scenario}: {}\n{}", verdict.wrong.join("; "), verdict.said),
            Err(error) => eprintln!("{scenario}: {error:#}"),
        })
        .expect("labs come up");
    print!("{}", results.tally.text());
    assert!(results.failures.is_empty(), "{}", results.failures.join("\n"));
}
