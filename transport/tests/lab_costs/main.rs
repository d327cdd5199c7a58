//! Tests of processor cost per frame: instructions, allocations and system calls, compared with a
//! reviewed table. Nothing here is timed.
//!
//! Instructions are counted by callgrind while single hosts replay their calls of a simulated
//! broadcast. The counts hold for one build: another compiler produces others, so the accepted
//! table binds only the build it was made with. To accept other tables, review the difference and
//! run `CARGO_INCREMENTAL=0 ETHBCAST_ACCEPT=1 cargo test --workspace --test lab_costs`.

#[path = "../common/accepted.rs"]
mod accepted;
mod callgrind;
#[path = "../common/case.rs"]
mod case;
#[path = "../common/guard.rs"]
mod guard;
mod loops;
mod tape;

use case::{Case, Path};
use ethbcast_transport::Tuning;
use ethbcast_transport::sim::RandomFaults;
use std::path::PathBuf;
use tape::Tape;

/// Frames of each broadcast; the first quarter is the start and not counted.
const FRAMES: u64 = 800;

type Counted = (Path, usize, f64, &'static [(usize, &'static str)]);

const CASES: [Counted; 9] = [
    (
        Path::Chain,
        3,
        0.0,
        &[(0, "root"), (1, "relay"), (2, "leaf")],
    ),
    (
        Path::Chain,
        3,
        0.02,
        &[(0, "root"), (1, "relay"), (2, "leaf")],
    ),
    (Path::Flat, 4, 0.0, &[(0, "root")]),
    (Path::Tree(2), 7, 0.0, &[(1, "relay")]),
    (Path::Cast, 4, 0.0, &[(0, "root")]),
    (Path::TunedCast, 8, 0.0, &[(0, "root"), (1, "listener")]),
    (Path::TunedCast, 8, 0.02, &[(0, "root"), (1, "listener")]),
    (
        Path::AckTree(2),
        7,
        0.0,
        &[(0, "root"), (1, "repairing host"), (3, "leaf")],
    ),
    (
        Path::AckTree(2),
        7,
        0.02,
        &[(0, "root"), (1, "repairing host"), (3, "leaf")],
    ),
];

fn snapshot(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/snapshots")
        .join(name)
}

fn tapes() -> Vec<(String, Tape)> {
    let of = |&(path, hosts, loss, counted): &Counted| {
        let tuning = Tuning::default().with_feed_frames(64);
        let case = Case {
            path,
            hosts,
            frames: FRAMES,
            tuning,
            lazy_frames: 0,
            last_takes: None,
            message_frames: 0,
        };
        let mut tapes = tape::record(&case, RandomFaults::new(11).loss(loss));
        let name = |what: &str| format!("{path:?} of {hosts}, {:.0} % lost: {what}", loss * 100.0);
        // Removed from the end, so that earlier indices stay valid.
        let mut named: Vec<_> = counted
            .iter()
            .rev()
            .map(|&(host, what)| (name(what), tapes.swap_remove(host)))
            .collect();
        named.reverse();
        named
    };
    CASES.iter().flat_map(of).collect()
}

/// Replays every host's calls, whose instructions callgrind counts; without it, shows only that
/// they succeed.
#[test]
fn every_host_does_again_what_it_did() {
    tape::allocate();
    for (name, tape) in tapes() {
        assert!(
            tape.play_again(),
            "{name}: the same frames leave at the same moments"
        );
    }
}

#[test]
fn a_frame_takes_the_instructions_that_were_accepted_and_no_allocation() {
    let names: Vec<String> = tapes().into_iter().map(|(name, _)| name).collect();
    let mut counted = callgrind::count("every_host_does_again_what_it_did").into_iter();
    let control = counted
        .next()
        .expect("an allocation on purpose is the first thing that is counted");
    assert_eq!(
        control.allocations(),
        1,
        "callgrind sees an allocation: its table would say nothing otherwise"
    );
    let rows: Vec<_> = names.into_iter().zip(counted.by_ref()).collect();
    assert!(
        counted.next().is_none()
            && rows.len() == CASES.iter().map(|case| case.3.len()).sum::<usize>()
    );
    callgrind::compare(&snapshot("costs.txt"), &rows, tape::counted_frames(FRAMES));
}

#[test]
fn a_mebibyte_takes_the_calls_of_the_system_that_were_accepted() {
    accepted::compare(
        &snapshot("loops.txt"),
        &loops::text(),
        "-p ethbcast-transport --test lab_costs",
    );
}
