//! Every algorithm: the exact bytes, the plan's number of frames, loss, and a relay that dies.

use super::{BYTES, OTHERS, ROOT, Row, WAYS, frames, predicted_seconds, row};
use crate::harness::{LIMIT, MEBIBYTE, Outcome, PAYLOAD_BYTES, content, full_frames};
use ethbcast_collectives::session::verified::Form;
use ethbcast_lab::LabConfig;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::sync::Arc;

/// Returns the number of hosts to which a plan's root sends.
fn roots_children(plan: &Value) -> u64 {
    let edges = plan["edges"].as_array().expect("a list");
    edges.iter().filter(|edge| edge["from"] == ROOT).count() as u64
}

#[test]
fn every_way_delivers_the_exact_bytes_with_the_frames_its_plan_promises() {
    let row = Row::up("ways", row());
    let content = Arc::new(content(1, BYTES));
    for (via, promised) in WAYS {
        let plan = row.plan(via, BYTES, &[]);
        let outcome = row.calibrated(via, &content).run();
        outcome.assert_verified();
        let report = outcome.root.json();
        println!(
            "{via}: {:.3} s, {} frames, {} again",
            outcome.seconds(),
            outcome.frames("data_sent"),
            outcome.frames("data_resent")
        );
        let children = promised.unwrap_or_else(|| roots_children(&plan));
        assert_eq!(outcome.frames("data_sent"), frames(via, BYTES) * children, "{via}: {report}\nby plan {plan}");
        assert_eq!(predicted_seconds(&report), predicted_seconds(&plan), "what is run is what was planned: {via}");
        assert!(predicted_seconds(&report) > 0.0, "{via}: {report}");
        assert_eq!(report["segment_bytes"], plan["segment_bytes"], "{via}");
        // A cable without loss is not free of drops: on a busy machine acknowledgements are late,
        // and a ring overruns now and then.
        let resent = outcome.frames("data_resent");
        assert!(resent <= outcome.frames("data_sent") / 2, "{resent} frames sent again without loss via {via}");
    }
}

#[test]
fn nothing_one_byte_and_a_single_receiver_go_every_way_too() {
    let row = Row::up("least", row());
    for bytes in [0, 1, PAYLOAD_BYTES + 1] {
        let content = Arc::new(content(8, bytes));
        for (via, _) in WAYS {
            row.calibrated(via, &content).run().assert_verified();
        }
    }
    let content = Arc::new(content(9, 100_000));
    for (via, _) in WAYS {
        let outcome = row.calibrated(via, &content).receivers(&["n5"]).run();
        outcome.assert_verified();
        let blocks = if matches!(via, "scatter-allgather" | "recursive-doubling") { 2 } else { 1 };
        assert_eq!(outcome.frames("data_sent"), full_frames(content.len(), PAYLOAD_BYTES) + blocks, "{via}");
    }
}

#[test]
fn four_hosts_double_what_they_have() {
    let row = Row::up("doubling", row());
    // Two blocks of 256 frames for each of the four, including ledgers.
    let bytes = Form::LEDGERED.content_bytes(8 * 256 * PAYLOAD_BYTES as u64);
    let content = Arc::new(content(10, bytes as usize));
    let outcome = row.calibrated("recursive-doubling", &content).receivers(&["n0", "n3", "n5"]).run();
    outcome.assert_verified();
    assert_eq!(outcome.root.json()["segment_bytes"], 256 * PAYLOAD_BYTES);
    // The root sends its own blocks and its neighbour's to two other hosts each, the rest to one;
    // all with their end.
    assert_eq!(outcome.frames("data_sent"), (2 + 2 + 1 + 1) * (2 * 256 + 1), "{}", outcome.root.json());
}

#[test]
fn without_a_calibration_the_network_is_probed_and_one_way_of_the_list_is_chosen() {
    let row = Row::up("auto", row());
    let content = Arc::new(content(2, BYTES));
    let outcome = row.transfer("auto", &content).run();
    outcome.assert_verified();
    let report = outcome.root.json();
    assert!(WAYS.iter().any(|(via, _)| report["via"] == *via), "{report}");
    assert!(predicted_seconds(&report) > 0.0, "{report}");
    let unprobed = row.transfer("auto", &content).send_option("--no-probe").run();
    unprobed.assert_verified();
    let unprobed = unprobed.root.json();
    assert!(unprobed["predicted_seconds"].is_null(), "nothing was measured: {unprobed}");
}

#[test]
fn trees_and_blocks_survive_the_loss_of_one_frame_in_a_hundred() {
    let row = Row::up("loss", LabConfig { loss: 0.01, ..row() });
    let content = Arc::new(content(3, BYTES));
    for (via, children) in [("binary", 2), ("binomial", 3), ("scatter-allgather", 1)] {
        let outcome = row.transfer(via, &content).run();
        outcome.assert_verified();
        let (sent, resent) = (outcome.frames("data_sent"), outcome.frames("data_resent"));
        println!("{via}: {:.3} s, {sent} frames, {resent} again", outcome.seconds());
        assert_eq!(sent, frames(via, BYTES) * children, "{via}");
        // Each lost frame costs about one more, beside the losses of a busy machine. (The exact
        // cost is tested in simulations.)
        let lost = sent as f64 * 0.01 / 0.99;
        let budget = 5.0 * lost + sent as f64 / 2.0 + 50.0;
        assert!(resent > 0 && resent as f64 <= budget, "{resent} frames sent again, budget {budget:.0}: {via}");
    }
}

/// Returns a host that forwards its data.
fn relay(plan: &Value) -> &str {
    let edges = plan["edges"].as_array().expect("a list");
    let relay = edges.iter().map(|edge| edge["from"].as_str().expect("a name")).find(|&from| from != ROOT);
    relay.expect("somebody relays")
}

fn assert_all_but_one_are_served(outcome: &Outcome, dead: &str) {
    OTHERS.into_iter().filter(|&host| host != dead).for_each(|host| outcome.assert_delivered(host));
    outcome.root.assert_code(1);
    let blamed = format!("1 of 5 receivers failed: {dead} (died)");
    assert!(outcome.root.stderr.contains(&blamed), "{}", outcome.root.stderr);
    assert_eq!(outcome.status(dead), "died");
    outcome.forget_dead(dead);
}

#[test]
fn when_a_relay_of_a_tree_or_of_blocks_dies_the_others_are_served() {
    let row = Row::up("relay", LabConfig { rate_bits_per_second: Some(50_000_000), ..row() });
    let content = Arc::new(content(4, 8 * MEBIBYTE));
    for via in ["binary", "scatter-allgather"] {
        let plan = row.plan(via, content.len(), &[]);
        let dead = relay(&plan);
        let session = row.calibrated(via, &content).start();
        // In the middle of the transfer.
        session.wait_for_bytes(dead, 2 << 20);
        session.receiver(dead).signal(Signal::SIGKILL);
        let outcome = session.end(LIMIT);
        println!("{via} without {dead}: {:.3} s", outcome.seconds());
        assert_all_but_one_are_served(&outcome, dead);
    }
}
