//! The protocols of a cast on real frames: each delivers under loss, and is the requested one.

use crate::harness::{Ethbcast, LIMIT, Outcome, PAYLOAD_BYTES, Run, Site, Transfer, content, one_switch};
use ethbcast_lab::LabConfig;
use serde_json::Value;
use std::sync::Arc;

const BYTES: usize = 4 << 20;
const RECEIVERS: [&str; 3] = ["n1", "n2", "n3"];
/// Fraction of frames lost at every host.
const LOSS: f64 = 0.01;
/// Expected number of frames lost in a transfer, over all receivers.
const LOST_FRAMES: f64 = (BYTES / PAYLOAD_BYTES * RECEIVERS.len()) as f64 * LOSS;

fn lossy() -> LabConfig {
    LabConfig { loss: LOSS, ..one_switch(1 + RECEIVERS.len()) }
}

/// Returns a frame count of a receiver's report.
fn frames(outcome: &Outcome, host: &str, name: &str) -> u64 {
    outcome.receiver(host).json()["frames"][name].as_u64().expect("a number")
}

/// Runs a transfer by cast that all receivers have verified. Returns the frames discarded as out of
/// order as well.
fn cast(site: &Site, preset: &str, content: &Arc<Vec<u8>>) -> (Outcome, u64) {
    let outcome =
        Transfer::new(site, Arc::clone(content)).via("cast").send_option("--preset").send_option(preset).run();
    outcome.assert_verified();
    assert_eq!(outcome.root.json()["preset"], preset);
    let dropped = RECEIVERS.map(|host| frames(&outcome, host, "out_of_order_dropped")).iter().sum();
    let (sent, resent) = (outcome.frames("data_sent"), outcome.frames("data_resent"));
    println!("{preset}: {:.3} s, {sent} frames sent, {resent} again, {dropped} thrown away", outcome.seconds());
    (outcome, dropped)
}

#[test]
fn the_papers_broadcasts_deliver_over_a_lossy_wire_by_going_back_and_the_default_by_filling_holes() {
    let site = Site::beside("preset", lossy());
    let content = Arc::new(content(1, BYTES));
    let (default, kept_everything) = cast(&site, "default", &content);
    assert_eq!(kept_everything, 0, "the default keeps what is out of order");
    // A lost frame costs a repair, by unicast or by cast, which may be lost as well. On a busy
    // machine rings also overrun and acknowledgements are late. (The exact cost is tested in
    // simulations.)
    let budget = 6.0 * LOST_FRAMES + (BYTES / PAYLOAD_BYTES) as f64 / 2.0 + 50.0;
    assert!((default.frames("data_resent") as f64) < budget, "{budget}: {}", default.root.json());

    for preset in ["paper", "push-pull"] {
        let (strict, thrown_away) = cast(&site, preset, &content);
        // Most losses leave the rest of a window of 16 out of order, and all of it is
        // retransmitted.
        assert!(thrown_away as f64 > LOST_FRAMES, "{thrown_away} frames thrown away of some {LOST_FRAMES:.0} lost");
        let resent = strict.frames("data_resent") as f64;
        assert!(resent > 2.0 * LOST_FRAMES, "it goes back by up to a window: {resent}");
        assert_eq!(strict.root.json()["surprise"], Value::Null, "the prediction is one of the default");
    }
}

#[test]
fn the_papers_broadcasts_are_measured_and_say_so() {
    let site = Site::beside("presetperf", lossy());
    let measured = |preset: &str, more: &[&str]| {
        // All ranks of a communicator use one protocol.
        let member = ["perf", "-i", "eth0", "-n", "4", "--max-wait", "20", "--preset", preset];
        let members = RECEIVERS.map(|host| Run::start(host, site.ethbcast(host, member)));
        let arguments =
            ["perf", "-i", "eth0", "-n", "4", "--root", "--via", "cast", "--preset", preset, "--sizes", "256,64K"];
        let arguments = arguments.iter().chain(&["--iterations", "20"]).chain(more);
        let root = Run::start("n0", site.ethbcast("n0", arguments)).end(LIMIT);
        root.assert_code(0);
        members.into_iter().for_each(|member| member.end(LIMIT).assert_code(0));
        root
    };
    for preset in ["paper", "push-pull"] {
        let report = measured(preset, &["--json"]).json();
        println!("{report}");
        assert_eq!((&report["via"], &report["preset"]), (&"cast".into(), &preset.into()), "{report}");
        let results = report["results"].as_array().expect("a list");
        assert_eq!(
            results.iter().map(|result| result["size"].as_u64()).collect::<Vec<_>>(),
            [Some(256), Some(64 << 10)]
        );
        for name in ["median", "barrier_median", "middle_80_percent_mean", "barrier_middle_80_percent_mean"] {
            assert!(
                results.iter().all(|result| result[name].as_f64().is_some_and(|seconds| seconds > 0.0)),
                "{name}: {report}"
            );
        }
    }
    let table = measured("paper", &[]).stdout_text();
    assert!(table.starts_with("4 ranks, preset paper, every broadcast verified"), "{table}");
}
