//! Tests by model checking: all event sequences of small networks are explored (docs/testing.md).

use ethbcast_collectives::session::application::{Sink, SinkState};
use ethbcast_collectives::session::{Arrival, Done, Outcome, Trailer};
use ethbcast_planning::plan::Via;
use ethbcast_tests::in_full;
use ethbcast_tests::worlds::session::{
    Beginning, Compared, Comparing, PAYLOAD_BYTES, session_with,
};
use ethbcast_tests::worlds::{Bounds, Counterexample, Event, Explored, Named, World, explore};
use ethbcast_transport::Instant;
use std::time::Duration;

fn world(name: &str) -> Named {
    Named::find(name).unwrap_or_else(|| panic!("there is no world {name}"))
}

#[track_caller]
fn report(name: &str, explored: Result<Explored, Counterexample>) -> Explored {
    match explored {
        Ok(explored) => {
            println!("{name}: {explored}");
            explored
        }
        Err(violation) => {
            panic!(
                "{name}: {violation}\ncargo run -p ethbcast-tests --bin worlds -- {name} --replay '{}'",
                violation.line()
            )
        }
    }
}

#[track_caller]
fn to_the_end(name: &str, faults: usize) {
    let explored = report(name, world(name).to_the_end(faults.min(in_full(1, 2))));
    assert!(explored.is_complete && explored.depth >= 12, "{explored}");
}

#[track_caller]
fn a_fault_at_each_step(name: &str) {
    let named = world(name);
    let depth = in_full(named.depth - 2, named.depth);
    let explored = report(name, named.to_depth(depth));
    assert_eq!(explored.depth, depth);
}

#[test]
fn chain_to_the_end() {
    to_the_end("chain", 2);
}

#[test]
fn cast_to_the_end() {
    to_the_end("cast", 2);
}

#[test]
fn ack_tree_to_the_end() {
    to_the_end("ack-tree", 2);
}

#[test]
fn ranks_to_the_end() {
    to_the_end("ranks", in_full(0, 1));
}

#[test]
fn a_session_from_its_very_beginning_to_the_end() {
    to_the_end("chain-join", 1);
}

#[test]
fn chain_with_a_fault_at_each_step() {
    a_fault_at_each_step("chain");
}

#[test]
fn cast_with_a_fault_at_each_step() {
    a_fault_at_each_step("cast");
}

#[test]
fn first_frames_with_a_fault_at_each_step() {
    ["chain-data", "cast-data", "ack-tree"]
        .into_iter()
        .for_each(a_fault_at_each_step);
}

#[test]
fn ranks_with_a_fault_at_each_step() {
    a_fault_at_each_step("ranks");
}

fn found(name: &str) -> Counterexample {
    world(name).to_the_end(1).expect_err("the mistake is found")
}

#[test]
fn a_child_that_keeps_a_dead_parent_is_found_by_a_death() {
    let violation = found("mistake-parent");
    assert!(
        violation
            .events
            .iter()
            .any(|event| matches!(event, Event::Kill(_))),
        "{violation}"
    );
    let replayed = world("mistake-parent").replay(&violation.events);
    assert!(
        replayed.is_ok_and(|text| text.contains("host 2: Open") || text.contains("host 0: Open")),
        "{violation}"
    );
}

#[test]
fn a_host_that_never_asks_is_found_by_a_loss() {
    let violation = found("mistake-silence");
    assert!(
        violation
            .events
            .iter()
            .any(|event| matches!(event, Event::Lose(..))),
        "{violation}"
    );
}

#[derive(Clone, Debug)]
struct Careless {
    compared: Compared,
    writes: u32,
    verdict: Option<Done>,
}

impl Sink for Careless {
    fn take(&mut self, now: Instant, arrival: Arrival<'_>) {
        match arrival {
            Arrival::Bytes(bytes) | Arrival::Message(bytes) => {
                self.writes += 1;
                if self.writes == 1 {
                    // Only the first frame of each turn.
                    let first = &bytes[..bytes.len().min(PAYLOAD_BYTES)];
                    self.compared.take(now, Arrival::Bytes(first));
                }
            }
            Arrival::End(Trailer { bytes, digest }) => {
                let (outcome, text) = (Outcome::Verified, String::new());
                self.verdict = Some(Done {
                    outcome,
                    bytes,
                    digest,
                    text,
                });
            }
        }
    }

    fn turn(&mut self, _now: Instant) -> SinkState {
        self.writes = 0;
        self.verdict.take().into()
    }
}

impl Comparing for Careless {
    fn compared(&self) -> &Compared {
        &self.compared
    }
}

#[test]
fn a_claim_that_is_not_true_is_found_by_a_loss() {
    let careless = |_, compared| Careless {
        compared,
        writes: 0,
        verdict: None,
    };
    let mut world = World::new(session_with(Via::Cast, 2, 3, Beginning::View, careless));
    let bounds = Bounds {
        depth: 100,
        faults: 1,
        early: usize::MAX,
        deaths: 0,
        ends_within: Duration::from_secs(2),
        follow_one_in: 1,
    };
    let violation = explore(&mut world, bounds).expect_err("the mistake is found");
    assert!(violation.what.contains("Verified"), "{violation}");
    assert_eq!(
        explore(
            &mut World::new(session_with(Via::Cast, 2, 3, Beginning::View, careless)),
            Bounds {
                faults: 0,
                ..bounds
            }
        )
        .map(|explored| explored.is_complete),
        Ok(true),
        "without a fault it does not show"
    );
}
