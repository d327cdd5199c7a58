//! Tests of a transfer beside other traffic: a TCP flow, or a second transfer.

use crate::harness::{Ethbcast, LIMIT, MEBIBYTE, Run, Site, content, one_switch, within};
use ethbcast_lab::LabConfig;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const LINK_BITS_PER_SECOND: u64 = 100_000_000;
const BYTES: usize = 24 * MEBIBYTE;

fn site(story: &str, hosts: usize) -> Site {
    Site::beside(story, LabConfig { rate_bits_per_second: Some(LINK_BITS_PER_SECOND), ..one_switch(hosts) })
}

/// Starts a sender and its receivers on hosts of a group.
fn start(site: &Site, group: &str, root: &str, receivers: &[&str], options: &[&str]) -> (Run, Vec<Run>) {
    let count = receivers.len().to_string();
    let receivers =
        receivers.iter().map(|host| site.start(host, &["recv", "-g", group], site.path(&format!("{group}.{host}"))));
    let receivers = receivers.collect();
    let file = site.file(group, content(7, BYTES));
    let sent = [&["send", "-g", group, "-n", &count, "--json"], options].concat();
    (site.start(root, &sent, file), receivers)
}

/// Waits until all have ended well; returns the sender's report.
fn report((root, receivers): (Run, Vec<Run>)) -> Value {
    let root = root.end(LIMIT);
    receivers.into_iter().for_each(|one| one.end(LIMIT).assert_code(0));
    root.assert_code(0);
    root.json()
}

fn again(report: &Value) -> f64 {
    let frames = |name: &str| report["frames"][name].as_f64().expect("a number");
    frames("data_resent") / frames("data_sent")
}

#[test]
fn two_casts_at_once_share_the_links_and_each_names_the_other() {
    let site = site("casts", 8);
    let both = [("one", "n0", ["n2", "n3", "n4"]), ("two", "n1", ["n5", "n6", "n7"])];
    let both = both.map(|(group, root, receivers)| start(&site, group, root, &receivers, &["--via", "cast"]));
    for (report, other) in both.map(report).iter().zip(["n1", "n0"]) {
        let (others, seconds) = (&report["run"]["others"], report["seconds"].as_f64().expect("a number"));
        println!("{seconds:.2} s, {:.3} sent again, {others}, {}", again(report), report["limited_by"]);
        assert_eq!((&report["via"], &report["rerouted"]), (&"cast".into(), &false.into()), "{report}");
        assert_eq!(others["sessions"], serde_json::json!([other]), "{report}");
        assert!(again(report) < 0.05, "{report}");
        let limit = report["limited_by"].as_str().expect("a cause");
        assert!(!limit.contains("switches") && !limit.contains("loss"), "{limit}");
    }
}

/// Runs `during` beside a TCP flow between two hosts; returns its result, and the share of a link that the flow took
/// after two seconds.
fn beside_tcp<T>(site: &Site, (from, to): (&str, &str), during: impl FnOnce() -> T) -> (T, f64) {
    for (host, address) in [(from, "10.9.0.1/24"), (to, "10.9.0.2/24")] {
        site.set_up(host, "ip", &["address", "add", address, "dev", "eth0"]);
    }
    let (over, came) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let (over, came) = (&over, &came);
        let sink = move || {
            let listener = TcpListener::bind("10.9.0.2:5001").expect("a port");
            listener.set_nonblocking(true).expect("a socket");
            let mut stream = within(LIMIT, || listener.accept().ok()).expect("a flow").0;
            stream.set_nonblocking(false).expect("a socket");
            stream.set_read_timeout(Some(LIMIT)).expect("a socket");
            let mut buffer = vec![0; 1 << 16];
            while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
                came.fetch_add(bytes as u64, Ordering::Relaxed);
            }
        };
        let source = move || {
            let begun = Instant::now();
            let mut stream = loop {
                match TcpStream::connect("10.9.0.2:5001") {
                    Ok(stream) => break stream,
                    Err(error) => assert!(begun.elapsed() < LIMIT, "{error}"),
                }
                thread::sleep(Duration::from_millis(20));
            };
            while !over.load(Ordering::Relaxed) && stream.write_all(&[0; 1 << 14]).is_ok() {}
        };
        scope.spawn(move || site.lab().run_on(to, sink).expect("a host of this lab"));
        scope.spawn(move || site.lab().run_on(from, source).expect("a host of this lab"));
        let share = scope.spawn(move || {
            thread::sleep(Duration::from_secs(2));
            let (begun, first) = (Instant::now(), came.load(Ordering::Relaxed));
            while !over.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(5));
            }
            let bits = (came.load(Ordering::Relaxed) - first) as f64 * 8.0;
            bits / begun.elapsed().as_secs_f64() / LINK_BITS_PER_SECOND as f64
        });
        let result = during();
        over.store(true, Ordering::Relaxed);
        (result, share.join().expect("it looks"))
    })
}

#[test]
fn a_tcp_flow_beside_a_transfer_gets_its_part_of_the_link() {
    for (via, greedy) in [("cast", false), ("chain", false), ("cast", true)] {
        let site = site("tcp", 5);
        let options = if greedy { vec!["--via", via, "--greedy"] } else { vec!["--via", via] };
        let during = || report(start(&site, "one", "n0", &["n1", "n2", "n3"], &options));
        let (report, share) = beside_tcp(&site, ("n4", "n2"), during);
        let others = &report["run"]["others"];
        println!(
            "{via}, greedy {greedy}: {share:.2} of the link; {} s, {others}, {}",
            report["seconds"], report["limited_by"]
        );
        assert!(others["share"].as_f64().is_some_and(|share| share > 0.0), "{report}");
        assert_eq!(others["sessions"], serde_json::json!([]), "{report}");
        // Three tenths at any load; two fifths on an idle machine.
        assert!(greedy || share > 0.3, "{via}: {share}");
    }
}
