//! `ethbcast probe` on real frames, which must measure the settings of the lab's cables.

use crate::harness::{Ended, Ethbcast, LIMIT, Run, Site, one_switch};
use ethbcast_lab::LabConfig;
use ethbcast_planning::model::Calibration;
use ethbcast_planning::topology::Topology;
use ethbcast_tests::quiet::in_a_quiet_moment;
use nix::sys::signal::Signal;
use serde_json::Value;

/// Rate at which pauses of a busy machine leave no cable idle: 32 waiting frames take 19 ms.
const RATE_BITS_PER_SECOND: u64 = 20_000_000;
/// Measured sizes at MTU 1500: the paper's eight, a full frame, and twice the largest.
const SIZES: [u64; 10] = [256, 512, 1024, 1468, 2048, 4096, 8192, 16_384, 32_768, 65_536];

fn shaped(hosts: usize) -> LabConfig {
    LabConfig { rate_bits_per_second: Some(RATE_BITS_PER_SECOND), ..one_switch(hosts) }
}

/// Starts hosts that answer probes.
fn answerers(site: &Site, hosts: &[&str]) -> Vec<Run> {
    let start = |host: &&str| Run::start(host, site.ethbcast(host, ["probe", "--answer", "-i", "eth0"]));
    let answerers: Vec<Run> = hosts.iter().map(start).collect();
    answerers.iter().for_each(|answerer| answerer.wait_for_line("answers the probes"));
    answerers
}

/// Interrupts them, which gives no success code.
fn dismiss(answerers: Vec<Run>) {
    for answerer in answerers {
        answerer.signal(Signal::SIGTERM);
        answerer.end(LIMIT).assert_code(143);
    }
}

/// Probes from n0 to the end.
fn probe(site: &Site, arguments: &[&str]) -> Ended {
    Run::start("n0", site.ethbcast("n0", ["probe", "-i", "eth0"].iter().chain(arguments))).end(LIMIT)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Permitted factor of measured times on a busy machine.
const BUSY: f64 = 10.0;

/// Fails if a time is shorter than the true one by more than a tenth, or many times as long.
fn lasts(measured: f64, truth: f64, what: &str) -> Result<(), String> {
    let is_near = (0.9..BUSY).contains(&(measured / truth));
    if is_near { Ok(()) } else { Err(format!("{what}: {measured}, in truth {truth}")) }
}

/// Returns the time of a message on a cable: tbf counts a frame without preamble and checksum, 46
/// bytes on top of the payload.
fn gap_nanos(bytes: u64) -> f64 {
    (bytes + 46 * bytes.div_ceil(1468)) as f64 * 8e9 / RATE_BITS_PER_SECOND as f64
}

#[test]
fn the_rate_of_the_cables_is_found_and_written_as_a_calibration() {
    let site = Site::beside("probe", shaped(3));
    let answering = answerers(&site, &["n1", "n2"]);
    let file = site.path("calibration.toml");
    let measure = || {
        let ended = probe(&site, &["-n", "2", "--json", "--out", file.to_str().expect("UTF-8")]);
        ended.assert_code(0);
        println!("{}", ended.json());
        let report = ended.json();
        lasts(1.0 / number(&report["rate_bits_per_second"]), 1.0 / RATE_BITS_PER_SECOND as f64, "a bit")?;
        for point in report["points"].as_array().expect("a list") {
            let bytes = point["bytes"].as_u64().expect("a size");
            if bytes >= 1468 {
                lasts(number(&point["gap_ns"]), gap_nanos(bytes), &format!("g({bytes})"))?;
            }
        }
        let is_clean = report["cast"]["status"] == "full-rate" && number(&report["loss"]) < 0.001;
        if is_clean { Ok(report) } else { Err(report.to_string()) }
    };
    let report = in_a_quiet_moment(measure);
    assert_eq!(report["path_mtu_bytes"], 1500);
    let names: Vec<_> =
        report["hosts"].as_array().expect("a list").iter().map(|host| host["host"].as_str().expect("a name")).collect();
    assert_eq!(names, ["n1", "n2"]);

    let text = std::fs::read_to_string(&file).expect("it was written");
    let calibration =
        Calibration::parse(&text, "calibration.toml").unwrap_or_else(|error| panic!("{error} in\n{text}"));
    let sizes: Vec<u64> = calibration.points().iter().map(|point| point.bytes).collect();
    assert_eq!(sizes, SIZES);
    let reported = report["points"].as_array().expect("a list").iter().map(|point| point["gap_ns"].as_u64());
    assert!(calibration.points().iter().map(|point| Some(point.gap_ns)).eq(reported), "{text}");
    dismiss(answering);
}

#[test]
fn the_table_has_all_sizes_and_every_host() {
    let site = Site::beside("probetab", shaped(3));
    let answering = answerers(&site, &["n1", "n2"]);
    let ended = probe(&site, &["n1", "n2"]);
    ended.assert_code(0);
    let table = ended.stdout_text();
    println!("{table}");
    for size in SIZES {
        assert!(
            table.lines().any(|line| line.split_whitespace().next() == Some(&size.to_string())),
            "{size} in\n{table}"
        );
    }
    for row in ["link rate", "path MTU", "loss", "broadcast", "n1", "n2"] {
        assert!(table.lines().any(|line| line.starts_with(row)), "{row} in\n{table}");
    }
    dismiss(answering);
}

#[test]
fn a_host_that_answers_no_probe_is_named() {
    let site = Site::beside("probesil", one_switch(3));
    let answering = answerers(&site, &["n1"]);
    probe(&site, &["n1", "n2", "--max-wait", "1"]).assert_refusal(3, &["no answer from n2", "ethbcast probe --answer"]);
    probe(&site, &["-n", "2", "--max-wait", "1"]).assert_refusal(3, &["only 1 of 2 hosts answered", "n1"]);
    probe(&site, &["-g", "other", "--max-wait", "1"])
        .assert_refusal(3, &["no host of group other answers", "--answer -g other"]);
    dismiss(answering);
}

#[test]
fn a_host_with_a_smaller_mtu_limits_the_path() {
    let site = Site::beside("probemtu", one_switch(3));
    site.set_up("n2", "ip", &["link", "set", "eth0", "mtu", "1400"]);
    let answering = answerers(&site, &["n1", "n2"]);
    let ended = probe(&site, &["-n", "2", "--json"]);
    ended.assert_code(0);
    assert_eq!(ended.json()["path_mtu_bytes"], 1400);
    dismiss(answering);
}

#[test]
fn policed_broadcast_is_found_and_its_rate_written() {
    const FRAMES_PER_SECOND: f64 = 1000.0;
    let site = Site::beside("storm", LabConfig { rate_bits_per_second: Some(100_000_000), ..one_switch(3) });
    let police = "add table netdev storm; \
                  add chain netdev storm in { type filter hook ingress device eth0 priority 0; }; \
                  add rule netdev storm in meta pkttype multicast limit rate over 1000/second burst 20 packets drop";
    ["n1", "n2"].into_iter().for_each(|host| site.set_up(host, "nft", &[police]));
    let answering = answerers(&site, &["n1", "n2"]);
    let file = site.path("calibration.toml");
    in_a_quiet_moment(|| {
        let ended = probe(&site, &["--out", file.to_str().expect("UTF-8")]);
        ended.assert_code(0);
        assert!(ended.stdout_text().contains("likely storm control on the switch"), "{}", ended.stdout_text());
        let text = std::fs::read_to_string(&file).expect("it was written");
        let mut lines = text.lines();
        let knee = lines.find_map(|line| line.strip_prefix("cast_max_frames_per_second = ")).expect("it is policed");
        // The policer's limit; hosts that wait for processors get fewer.
        lasts(1.0 / knee.parse::<f64>().expect("a number"), 1.0 / FRAMES_PER_SECOND / 1.2, "a frame")
    });
    dismiss(answering);
}

#[test]
fn every_host_has_its_own_time_and_a_re_measure_renews_what_it_measured() {
    let text =
        "schema = 1\n[[switch]]\nname = \"s0\"\nhosts = \"n[0-3]\"\n\n[[host]]\nname = \"n2\"\nrate = \"5mbit\"\n";
    let uneven = Topology::parse(text, "uneven").expect("a topology");
    let site = Site::beside(
        "probeall",
        LabConfig { rate_bits_per_second: Some(RATE_BITS_PER_SECOND), ..LabConfig::new(uneven) },
    );
    let answering = answerers(&site, &["n1", "n2", "n3"]);
    let file = site.path("calibration.toml");
    let path = file.to_str().expect("UTF-8");
    let read = || Calibration::parse(&std::fs::read_to_string(&file).expect("written"), "c.toml").expect("it parses");
    // A full frame of 1514 bytes.
    let truths = [("n1", 20e6), ("n2", 5e6), ("n3", 20e6)].map(|(host, rate)| (host, 1514.0 * 8e9 / rate));
    let known = |measured: &Calibration, host| measured.injection_ns(host).unwrap_or_else(|| panic!("{host}")) as f64;
    let first = in_a_quiet_moment(|| {
        probe(&site, &["-n", "3", "--out", path]).assert_code(0);
        let measured = read();
        truths.iter().try_for_each(|&(host, truth)| lasts(known(&measured, host), truth, host))?;
        // Its cable has a quarter of the others' rate.
        let is_slow = ["n1", "n3"].iter().all(|host| known(&measured, "n2") > 2.0 * known(&measured, host));
        if is_slow { Ok(measured) } else { Err(truths.map(|(host, _)| known(&measured, host).to_string()).join(", ")) }
    });
    assert_eq!(first.measured_from(), Some("n0"));
    // A second measurement of one host changes nothing about the others or the network.
    probe(&site, &["--update", path, "n2"]).assert_code(0);
    let second = read();
    assert_eq!((second.points(), second.hosts().len()), (first.points(), 3));
    assert_eq!(second.injection_ns("n1"), first.injection_ns("n1"));
    // A file about another cluster is refused before anything is measured or sent.
    let others = site.file("others.toml", text.replace("n[0-3]", "m[0-3]").replace("n2", "m2"));
    let plan = ["plan", "--root", "m0", "--size", "1M", "--calibration", path, "--topology"];
    let plan = site.ethbcast("n0", plan.iter().copied().chain([others.to_str().expect("UTF-8")]));
    Run::start("plan", plan)
        .end(LIMIT)
        .assert_refusal(2, &["calibration.toml:", "measured on host `n1`", "ethbcast probe"]);
    let elsewhere =
        Run::start("n1", site.ethbcast("n1", ["probe", "-i", "eth0", "--update", path, "--host", "x", "n3"]));
    elsewhere.end(LIMIT).assert_refusal(2, &["measured from host `n0`", "this one is `x`", "--out"]);
    dismiss(answering);
}

#[test]
fn answering_ends_when_its_time_is_over() {
    let site = Site::beside("probeend", one_switch(2));
    let answerer =
        Run::start("n1", site.ethbcast("n1", ["probe", "--answer", "-i", "eth0", "--max-wait", "0.5", "--json"]));
    let ended = answerer.end(LIMIT);
    ended.assert_code(0);
    assert_eq!(ended.json()["frames_sent"], 0);
}
