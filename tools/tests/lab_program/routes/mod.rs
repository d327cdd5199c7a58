//! Every algorithm on real frames: exact bytes, the plan's number of frames, loss, a relay that
//! dies, plans from files, and refusals before the transfer.

mod plans;
mod ways;

use crate::harness::{Ended, Ethbcast, LIMIT, PAYLOAD_BYTES, Run, Site, Transfer, full_frames};
use ethbcast_lab::LabConfig;
use ethbcast_planning::topology::Topology;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Size that is no multiple of a frame, a segment or a block.
const BYTES: usize = 3_000_001;
/// Root in the middle of the row, so that plans must go both ways.
const ROOT: &str = "n2";
const OTHERS: [&str; 5] = ["n0", "n1", "n3", "n4", "n5"];
/// All algorithms, with the number of hosts to which the root sends each frame in a plan for 6
/// hosts in a row of switches, where it is known beforehand.
const WAYS: [(&str, Option<u64>); 11] = [
    ("chain", Some(1)),
    ("binary", Some(2)),
    ("kary=3", Some(3)),
    ("cast", Some(1)),
    ("flat", Some(5)),
    ("binomial", Some(3)),
    // Each block is sent once, to its first host.
    ("scatter-allgather", Some(1)),
    ("recursive-doubling", Some(1)),
    ("chain-unaware", Some(1)),
    ("binary-unaware", Some(2)),
    ("latency", None),
];

/// Two hosts on each of three switches in a row.
const ROW: &str = "schema = 1\n\
    [[switch]]\nname = \"s0\"\nhosts = \"n[0-1]\"\nlinks = [\"s1\"]\n\
    [[switch]]\nname = \"s1\"\nhosts = \"n[2-3]\"\nlinks = [\"s2\"]\n\
    [[switch]]\nname = \"s2\"\nhosts = \"n[4-5]\"\n";

/// A calibration of a network of about 1 Gbit/s.
const CALIBRATION: &str = "schema = 1\n\
    [[point]]\nbytes = 256\ngap_ns = 4000\nlatency_ns = 20000\n\
    [[point]]\nbytes = 1468\ngap_ns = 12000\nlatency_ns = 30000\n\
    [[point]]\nbytes = 65536\ngap_ns = 540000\nlatency_ns = 30000\n";

/// Returns the lab's configuration, unshaped and without loss.
fn row() -> LabConfig {
    LabConfig::new(Topology::parse(ROW, "row.toml").expect("a good topology"))
}

/// A lab with its topology and a calibration in files.
struct Row {
    site: Site,
    topology: PathBuf,
    calibration: PathBuf,
}

impl Row {
    fn up(story: &str, config: LabConfig) -> Row {
        let site = Site::beside(story, config);
        let (topology, calibration) = (site.file("row.toml", ROW), site.file("calibration.toml", CALIBRATION));
        Row { site, topology, calibration }
    }

    /// Creates a transfer from the root to all others with the topology.
    fn transfer(&self, via: &'static str, content: &Arc<Vec<u8>>) -> Transfer<'_> {
        let transfer = Transfer::new(&self.site, Arc::clone(content)).root(ROOT).via(via);
        transfer.send_option("--topology").send_option(&self.topology)
    }

    /// Creates a transfer with the calibration, and so without a probe.
    fn calibrated(&self, via: &'static str, content: &Arc<Vec<u8>>) -> Transfer<'_> {
        self.transfer(via, content).send_option("--calibration").send_option(&self.calibration)
    }

    /// Returns the output of `ethbcast plan` for an equal transfer, with further arguments.
    fn plan(&self, via: &str, bytes: usize, more: &[&str]) -> Value {
        let size = bytes.to_string();
        let network = ["--topology", text(&self.topology), "--calibration", text(&self.calibration)];
        let arguments = ["plan", "--root", ROOT, "--size", &size, "--via", via, "--json"];
        let arguments = arguments.iter().chain(&network).chain(more);
        let ended = Run::start("plan", self.site.ethbcast(ROOT, arguments)).end(LIMIT);
        ended.assert_code(0);
        ended.json()
    }

    /// Saves a plan for all six hosts.
    fn save(&self, via: &str, name: &str) -> PathBuf {
        let path = self.site.path(name);
        self.plan(via, BYTES, &["--out", text(&path)]);
        path
    }

    /// Starts a receiver on each of these hosts.
    fn receivers(&self, hosts: &[&'static str]) -> Vec<(&'static str, Run)> {
        self.start_receivers(hosts, &["recv", "-i", "eth0", "--max-wait", "30"])
    }

    /// Starts receivers that do not wait for a second session.
    fn receivers_of_one_session(&self, hosts: &[&'static str]) -> Vec<(&'static str, Run)> {
        self.start_receivers(hosts, &["recv", "--once", "-i", "eth0", "--max-wait", "30"])
    }

    fn start_receivers(&self, hosts: &[&'static str], arguments: &[&str]) -> Vec<(&'static str, Run)> {
        hosts.iter().map(|&host| (host, self.site.start(host, arguments, self.site.path(host)))).collect()
    }

    /// Sends a source from the root to `receivers` receivers, to the end.
    fn send(&self, receivers: usize, more: &[&str], source: &Path) -> Ended {
        let count = receivers.to_string();
        let arguments: Vec<&str> =
            ["send", "-i", "eth0", "--max-wait", "20", "-n", &count].iter().chain(more).copied().collect();
        self.site.run(ROOT, &arguments, source)
    }

    /// Fails unless all these receivers succeed with these bytes, and removes their files.
    fn assert_received(&self, receivers: Vec<(&'static str, Run)>, bytes: &[u8]) {
        for (host, run) in receivers {
            run.end(LIMIT).assert_code(0);
            let path = self.site.path(host);
            assert!(std::fs::read(&path).is_ok_and(|file| file == bytes), "the file on {host}");
            std::fs::remove_file(path).expect("removed");
        }
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Returns the number of full frames, the rest and the trailer; in blocks each of the six has a
/// trailer.
fn frames(via: &str, bytes: usize) -> u64 {
    let in_blocks = matches!(via, "scatter-allgather" | "recursive-doubling");
    full_frames(bytes, PAYLOAD_BYTES) + if in_blocks { 6 } else { 1 }
}

fn predicted_seconds(report: &Value) -> f64 {
    report["predicted_seconds"].as_f64().unwrap_or_else(|| panic!("no prediction in {report}"))
}
