//! Tests of a transfer's rate limit, and of its share of cables with other traffic. By the
//! interfaces' counters root and relays exceed a limit in no second by more than a quarter, on
//! cables of five times the rate (in the simulator it is 1 %). Beside a TCP flow or a second
//! session it takes its part.

use crate::harness::{
    Ended, Ethbcast, LIMIT, MEBIBYTE, Run, Session, Site, Transfer, content, one_switch, within,
};
use crate::udp::{command, routed, routed_address};
use ethbcast_lab::LabConfig;
use ethbcast_tests::lab::{StopOnDrop, in_a_quiet_moment};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

const LINK_BITS_PER_SECOND: u64 = 200_000_000;
const RATE: &str = "40mbit";
const RATE_BITS_PER_SECOND: f64 = 40e6;
/// Permitted excess within a second, because a busy kernel may send late what was queued in the
/// second before.
const MAX_EXCESS: f64 = 1.25;
const SECOND: Duration = Duration::from_secs(1);
const TCP_PORT: u16 = 5001;
/// Duration of reading a counter above which its time is uncertain.
const MAX_LOOK: Duration = Duration::from_micros(500);
/// Bytes at both ends of a transfer that are ignored: joining, the growth of the windows, the last
/// repairs.
const EDGE_BYTES: u64 = 400_000;
/// Bytes of a transfer of three and a half seconds.
const CONTENT_BYTES: usize = 17_500_000;

/// Bytes sent by a host, with the time of each reading.
type Samples = Vec<(Instant, u64)>;

fn site(story: &str) -> Site {
    Site::beside(
        story,
        LabConfig {
            rate_bits_per_second: Some(LINK_BITS_PER_SECOND),
            ..one_switch(4)
        },
    )
}

/// Reads a host's counters every 5 ms until `over` is set.
fn watch(site: &Site, host: &str, over: &AtomicBool) -> Samples {
    let look = || {
        let before = Instant::now();
        // As /sys/class/net/eth0/statistics/tx_bytes, but /sys shows the namespace in which it was
        // mounted.
        let table =
            fs::read_to_string("/proc/thread-self/net/dev").expect("the thread's own namespace");
        let row = table
            .lines()
            .find_map(|line| line.trim_start().strip_prefix("eth0:"))
            .expect("its interface");
        let sent = row
            .split_whitespace()
            .nth(8)
            .and_then(|bytes| bytes.parse().ok())
            .expect("tx_bytes");
        (before, before.elapsed(), sent)
    };
    let samples = || {
        let mut samples = Vec::new();
        while !over.load(Ordering::Relaxed) {
            let (at, took, sent) = look();
            if took <= MAX_LOOK {
                samples.push((at + took / 2, sent));
            }
            thread::sleep(Duration::from_millis(5));
        }
        samples
    };
    site.lab()
        .run_on(host, samples)
        .expect("a host of this lab")
}

/// Runs a transfer with an action meanwhile, and returns the samples of these hosts.
fn watched(
    site: &Site,
    transfer: Transfer<'_>,
    hosts: &[&str],
    meanwhile: impl FnOnce(&Session),
) -> Vec<Samples> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let over = &over;
        let watchers: Vec<_> = hosts
            .iter()
            .map(|&host| scope.spawn(move || watch(site, host, over)))
            .collect();
        let stopper = StopOnDrop(over);
        let session = transfer.start();
        meanwhile(&session);
        let outcome = session.end(LIMIT);
        drop(stopper);
        outcome.assert_verified();
        watchers
            .into_iter()
            .map(|watcher| watcher.join().expect("it looks"))
            .collect()
    })
}

/// Returns the rate of every window of at least a second, from `from` on, in bits per second.
fn windows(samples: &Samples, from: Option<Instant>) -> Vec<f64> {
    let (first, last) = (
        samples[0].1 + EDGE_BYTES,
        samples[samples.len() - 1].1 - EDGE_BYTES,
    );
    let bulk: Vec<_> = samples
        .iter()
        .filter(|(at, sent)| (first..=last).contains(sent) && from.is_none_or(|from| *at >= from))
        .collect();
    let window = |(place, &&(at, sent)): (usize, &&(Instant, u64))| {
        let &&(then, more) = bulk[place..]
            .iter()
            .find(|(then, _)| then.duration_since(at) >= SECOND)?;
        Some((more - sent) as f64 * 8.0 / then.duration_since(at).as_secs_f64())
    };
    bulk.iter().enumerate().filter_map(window).collect()
}

fn assert_limited(samples: &Samples, from: Option<Instant>, rate: f64, what: &str) {
    let mut windows = windows(samples, from);
    assert!(
        windows.len() >= 5,
        "{what}: {} seconds were looked at",
        windows.len()
    );
    windows.sort_by(f64::total_cmp);
    let (least, middle, most) = (
        windows[0],
        windows[windows.len() / 2],
        windows[windows.len() - 1],
    );
    println!(
        "{what}: {:.2} to {:.2} % of the limit in {} windows",
        least / rate * 100.0,
        most / rate * 100.0,
        windows.len()
    );
    // A frame at each end of a window, and the delay of a reading.
    let boundary = 2.0 * 1514.0 * 8.0 + rate * MAX_LOOK.as_secs_f64();
    assert!(
        most <= rate * MAX_EXCESS + boundary,
        "{what}: {most:.0} bit/s"
    );
    // If others occupy the processors for longer than the limiter makes up for, less is sent. In
    // the simulator no second has less.
    assert!(middle >= rate / 10.0, "{what}: mostly {middle:.0} bit/s");
}

#[test]
fn root_and_relays_put_the_limit_on_their_cables_in_every_second() {
    let site = site("rates");
    for (via, senders) in [
        ("chain", &["n0", "n1", "n2"][..]),
        ("cast", &["n0"]),
        ("kary=3", &["n0"]),
    ] {
        let transfer = Transfer::new(&site, content(40, CONTENT_BYTES)).via(via);
        let transfer = transfer.send_option("--rate").send_option(RATE);
        for (samples, host) in watched(&site, transfer, senders, |_| {})
            .iter()
            .zip(senders)
        {
            assert_limited(
                samples,
                None,
                RATE_BITS_PER_SECOND,
                &format!("{via}, {host}"),
            );
        }
    }
}

#[test]
fn a_lossy_cable_does_not_lift_a_relay_above_the_limit() {
    let site = site("lossy_rates");
    site.lab().set_loss("n2", 0.02).expect("a host of this lab");
    for via in ["chain", "cast"] {
        let transfer = Transfer::new(&site, content(41, CONTENT_BYTES / 2)).via(via);
        let transfer = transfer.send_option("--rate").send_option(RATE);
        let hosts = ["n0", "n1", "n2", "n3"];
        for (samples, host) in watched(&site, transfer, &hosts, |_| {}).iter().zip(hosts) {
            if samples[samples.len() - 1].1 - samples[0].1 < 4 * EDGE_BYTES {
                continue; // It hands on nothing.
            }
            let most = windows(samples, None).into_iter().fold(0.0, f64::max);
            println!(
                "{via}, {host}, 2 % lost at n2: at most {:.2} % of the limit",
                most / RATE_BITS_PER_SECOND * 100.0
            );
            assert!(
                most > 0.0 && most <= RATE_BITS_PER_SECOND * MAX_EXCESS + 2.0 * 1514.0 * 8.0,
                "{via}, {host}: {most:.0} bit/s"
            );
        }
    }
}

#[test]
fn signals_and_ctl_change_the_limit_of_root_and_relays_while_it_runs() {
    let site = site("signals");
    // Seconds remain after the last change, however long a busy machine takes to start programs.
    let transfer = Transfer::new(&site, content(42, 2 * CONTENT_BYTES)).via("chain");
    let mut lowered = None;
    let samples = watched(
        &site,
        transfer.send_option("--rate").send_option(RATE),
        &["n0", "n1"],
        |session| {
            session.wait_for_sent(2_000_000);
            for _ in 0..3 {
                session.root.signal(Signal::SIGUSR2);
                session.root.wait_for_line("the rate limit is");
                thread::sleep(Duration::from_millis(50));
            }
            session.root.signal(Signal::SIGUSR1);
            session
                .root
                .wait_for_line("the rate limit is 32.1 Mbit/s now");
            let told = site.run("n0", &["ctl", "rate"], "20mbit");
            told.assert_code(0);
            assert!(told.stdout_text().contains("20000000 bit/s"), "{told:?}");
            session
                .root
                .wait_for_line("the rate limit is 20.0 Mbit/s now");
            site.run("n1", &["ctl"], "show").assert_code(3);
            lowered = Some(Instant::now() + Duration::from_millis(700));
        },
    );
    for (samples, host) in samples.iter().zip(["n0", "n1"]) {
        assert_limited(samples, lowered, 20e6, host);
    }
}

#[test]
fn the_report_names_the_limit_and_the_prediction_knows_it() {
    let site = site("limited");
    let outcome = Transfer::new(&site, content(43, 5_000_000))
        .via("chain")
        .send_option("--rate=5MB/s")
        .run();
    outcome.assert_verified();
    let report = outcome.root.json();
    assert_eq!(report["rate_limit_bits_per_second"], 40_000_000);
    // The cables would need 0.2 s. The probe measures lower rates where hosts wait for processors.
    let (took, predicted) = (
        outcome.seconds(),
        report["predicted_seconds"].as_f64().expect("a number"),
    );
    assert!(
        (0.9..10.0).contains(&predicted) && took >= 0.9,
        "{took:.3} s, {predicted:.3} s predicted"
    );
}

const SHARED_BITS_PER_SECOND: u64 = 100_000_000;
const BYTES: usize = 24 * MEBIBYTE;

fn shared(story: &str, hosts: usize) -> Site {
    Site::beside(
        story,
        LabConfig {
            rate_bits_per_second: Some(SHARED_BITS_PER_SECOND),
            ..one_switch(hosts)
        },
    )
}

/// Starts a sender and its receivers on hosts of a group.
fn start(
    site: &Site,
    group: &str,
    root: &str,
    receivers: &[&str],
    options: &[&str],
) -> (Run, Vec<Run>) {
    let count = receivers.len().to_string();
    let receivers = receivers.iter().map(|host| {
        site.start(
            host,
            &["recv", "-g", group],
            site.path(&format!("{group}.{host}")),
        )
    });
    let receivers = receivers.collect();
    let file = site.file(group, content(7, BYTES));
    let sent = [&["send", "-g", group, "-n", &count, "--json"], options].concat();
    (site.start(root, &sent, file), receivers)
}

/// Waits until all have ended well; returns the sender's report.
fn report((root, receivers): (Run, Vec<Run>)) -> Value {
    let root = root.end(LIMIT);
    receivers
        .into_iter()
        .for_each(|one| one.end(LIMIT).assert_code(0));
    root.assert_code(0);
    root.json()
}

fn again(report: &Value) -> f64 {
    let frames = |name: &str| report["frames"][name].as_f64().expect("a number");
    frames("data_resent") / frames("data_sent")
}

#[test]
fn two_casts_at_once_share_the_links_and_each_names_the_other() {
    let site = shared("casts", 8);
    let both = [
        ("one", "n0", ["n2", "n3", "n4"]),
        ("two", "n1", ["n5", "n6", "n7"]),
    ];
    let both = both
        .map(|(group, root, receivers)| start(&site, group, root, &receivers, &["--via", "cast"]));
    for (report, other) in both.map(report).iter().zip(["n1", "n0"]) {
        let (others, seconds) = (
            &report["run"]["others"],
            report["seconds"].as_f64().expect("a number"),
        );
        println!(
            "{seconds:.2} s, {:.3} sent again, {others}, {}",
            again(report),
            report["limited_by"]
        );
        assert_eq!(
            (&report["via"], &report["rerouted"]),
            (&"cast".into(), &false.into()),
            "{report}"
        );
        assert_eq!(others["sessions"], serde_json::json!([other]), "{report}");
        // Without turns, each fills the link and about half of all frames are lost. Idle hosts see
        // 0.01; a busy processor alone has made 0.052 of it.
        assert!(again(report) < 0.25, "{report}");
        let limit = report["limited_by"].as_str().expect("a cause");
        assert!(
            !limit.contains("switches") && !limit.contains("loss"),
            "{limit}"
        );
    }
}

/// Runs `during` beside a TCP flow between two hosts, to one of its addresses; returns its result,
/// and the bits that the flow carried in a second after the first two.
pub fn beside_tcp<T>(
    site: &Site,
    (from, to, address): (&str, &str, &str),
    during: impl FnOnce() -> T,
) -> (T, f64) {
    let (over, came) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let (over, came) = (&over, &came);
        let sink = move || {
            let listener = TcpListener::bind((address, TCP_PORT)).expect("a port");
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
                match TcpStream::connect((address, TCP_PORT)) {
                    Ok(stream) => break stream,
                    Err(error) => assert!(begun.elapsed() < LIMIT, "{error}"),
                }
                thread::sleep(Duration::from_millis(20));
            };
            while !over.load(Ordering::Relaxed) && stream.write_all(&[0; 1 << 14]).is_ok() {}
        };
        scope.spawn(move || site.lab().run_on(to, sink).expect("a host of this lab"));
        scope.spawn(move || site.lab().run_on(from, source).expect("a host of this lab"));
        let rate = scope.spawn(move || {
            thread::sleep(Duration::from_secs(2));
            let (begun, first) = (Instant::now(), came.load(Ordering::Relaxed));
            while !over.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(5));
            }
            let bits = (came.load(Ordering::Relaxed) - first) as f64 * 8.0;
            bits / begun.elapsed().as_secs_f64()
        });
        let result = during();
        over.store(true, Ordering::Relaxed);
        (result, rate.join().expect("it looks"))
    })
}

#[test]
fn a_tcp_flow_beside_a_transfer_gets_its_part_of_the_link() {
    for (via, greedy) in [("cast", false), ("chain", false), ("cast", true)] {
        let site = shared("tcp", 5);
        let options = if greedy {
            vec!["--via", via, "--greedy"]
        } else {
            vec!["--via", via]
        };
        let during = || report(start(&site, "one", "n0", &["n1", "n2", "n3"], &options));
        for (host, address) in [("n4", "10.9.0.1/24"), ("n2", "10.9.0.2/24")] {
            site.set_up(host, "ip", &["address", "add", address, "dev", "eth0"]);
        }
        let (report, rate) = beside_tcp(&site, ("n4", "n2", "10.9.0.2"), during);
        let share = rate / SHARED_BITS_PER_SECOND as f64;
        let others = &report["run"]["others"];
        println!(
            "{via}, greedy {greedy}: {share:.2} of the link; {} s, {others}, {}",
            report["seconds"], report["limited_by"]
        );
        assert!(
            others["share"].as_f64().is_some_and(|share| share > 0.0),
            "{report}"
        );
        assert_eq!(others["sessions"], serde_json::json!([]), "{report}");
        // Three tenths at any load; two fifths on an idle machine.
        assert!(greedy || share > 0.3, "{via}: {share}");
    }
}

/// A lab of three receivers with two networks of this rate. A link of the second network goes down
/// with its port.
fn two_networks(story: &str, rate: &str) -> Site {
    let config = LabConfig {
        rate_bits_per_second: Some(ethbcast_lab::parse_rate(rate).expect("a rate")),
        ..one_switch(4)
    };
    let site = Site::beside(story, config);
    let switches = site.lab().switches_namespace();
    let ip = |host: &str, command: String| {
        let words: Vec<&str> = command.split(' ').collect();
        site.set_up(host, words[0], &words[1..]);
    };
    let bridge = "second type bridge mcast_snooping 0";
    ip("n0", format!("ip -n {switches} link add {bridge}"));
    ip("n0", format!("ip -n {switches} link set second up"));
    for host in site.lab().hosts() {
        let port = format!("second.{host}");
        let veth = format!("ip link add eth1 type veth peer name {port} netns {switches}");
        ip(&host, veth);
        ip(&host, "ip link set eth1 up".to_owned());
        ip(
            &host,
            format!("ip -n {switches} link set {port} master second up"),
        );
        let shaped = format!("root tbf rate {rate} burst 6250b limit");
        ip(&host, format!("tc qdisc add dev eth1 {shaped} 1048576b"));
        let on_port = format!("tc -n {switches} qdisc add dev {port} {shaped} 262144b");
        ip(&host, on_port);
    }
    site
}

/// Sends a file to all by these interfaces; `during` runs meanwhile. Returns the ends of sender and
/// receivers, who have the file.
fn over(
    site: &Site,
    interfaces: &str,
    via: &str,
    bytes: usize,
    during: impl FnOnce(),
) -> (Ended, Vec<Ended>) {
    let content = content(7, bytes);
    let source = site.file("source.bin", &content);
    let path = |host: &str| site.path(&format!("{host}.bin"));
    let options = ["-i", interfaces, "--json", "--max-wait", "20"];
    let hosts = ["n1", "n2", "n3"];
    let receivers = hosts.map(|host| {
        // What is there would not be sent again.
        drop(fs::remove_file(path(host)));
        let arguments = [&["recv"], &options[..]].concat();
        site.start(host, &arguments, path(host))
    });
    let arguments = [&["send", "--via", via, "-n", "3"], &options[..]].concat();
    let sender = site.start("n0", &arguments, &source);
    during();
    let sender = sender.end(LIMIT);
    sender.assert_code(0);
    let receivers = receivers.map(|run| run.end(LIMIT));
    for (host, ended) in hosts.iter().zip(&receivers) {
        ended.assert_code(0);
        assert!(
            fs::read(path(host)).expect("it is there") == content,
            "{host}"
        );
    }
    (sender, receivers.into())
}

/// Returns the part of the sender's bytes that left by the second interface.
fn part_of_second(ended: &Ended) -> f64 {
    let report = ended.json();
    let sent = |at: usize| {
        report["interfaces"][at]["sent_bytes"]
            .as_f64()
            .expect("bytes")
    };
    sent(1) / (sent(0) + sent(1))
}

#[test]
fn two_interfaces_halve_the_time_and_carry_about_half_each() {
    let site = two_networks("lanes", "50mbit");
    for via in ["chain", "cast", "two-tree"] {
        in_a_quiet_moment(|| {
            let [(one, _), (two, _)] =
                ["eth0", "eth0,eth1"].map(|by| over(&site, by, via, 16 * MEBIBYTE, || ()));
            let seconds = |ended: &Ended| ended.json()["seconds"].as_f64().expect("a number");
            let (ratio, part) = (seconds(&one) / seconds(&two), part_of_second(&two));
            println!(
                "{via}: {ratio:.2} times as fast, {:.0} % by eth1",
                part * 100.0
            );
            if ratio >= 1.5 && (0.4..0.6).contains(&part) {
                Ok(())
            } else {
                Err(format!("via {via} {ratio:.2} times, {part:.2} by eth1"))
            }
        });
    }
    let refused = site.run("n1", &["recv", "-i", "eth0,eth0"], site.path("none"));
    refused.assert_refusal(2, &["eth0,eth0 cannot carry one transfer", "name it once"]);
    let unequal = ["link", "set", "eth1", "mtu", "1400"];
    site.set_up("n1", "ip", &unequal);
    let refused = site.run("n1", &["recv", "-i", "eth0,eth1"], site.path("none"));
    refused.assert_refusal(
        2,
        &["their MTUs are 1500 and 1400", "ip link set eth1 mtu 1500"],
    );
}

#[test]
fn what_an_interface_would_have_carried_leaves_by_the_other_when_its_link_is_lost() {
    let site = two_networks("lanedown", "20mbit");
    let switches = site.lab().switches_namespace();
    for (via, lost, host) in [
        ("chain", "second.n2", "n2"),
        ("cast", "second.n1", "n1"),
        ("chain", "second.n0", "n0"),
    ] {
        let set = |state: &str| {
            site.set_up("n0", "ip", &["-n", &switches, "link", "set", lost, state]);
        };
        let before = site.lab().counters("n0").expect("its counters").sent_bytes;
        let (sender, receivers) = over(&site, "eth0,eth1", via, 8 * MEBIBYTE, || {
            let sent = || site.lab().counters("n0").expect("its counters").sent_bytes;
            let begun = within(LIMIT, || (sent() - before > MEBIBYTE as u64).then_some(()));
            begun.expect("it sends");
            set("down");
        });
        set("up");
        let ended = if host == "n0" {
            &sender
        } else {
            let at = ["n1", "n2", "n3"].iter().position(|name| *name == host);
            &receivers[at.expect("a receiver")]
        };
        let lane = &ended.json()["interfaces"][1];
        assert_eq!(lane["interface"], "eth1");
        assert!(
            lane["cut_off_seconds"].as_f64() > Some(0.0),
            "{via}: {lane}"
        );
        assert!(lane["sent_bytes"].as_u64() > Some(0), "{via}: {lane}");
    }
}

#[test]
fn a_receiver_with_one_interface_gets_all_from_a_sender_with_two() {
    let site = two_networks("laneone", "50mbit");
    for via in ["chain", "cast"] {
        let source = site.file("source.bin", content(8, 4 * MEBIBYTE));
        let common = ["--json", "--max-wait", "20"];
        let receivers = [("n1", "eth0"), ("n2", "eth0,eth1"), ("n3", "eth0,eth1")];
        let receivers = receivers.map(|(host, by)| {
            drop(fs::remove_file(site.path(&format!("{host}.bin"))));
            let arguments = [&["recv", "-i", by], &common[..]].concat();
            site.start(host, &arguments, site.path(&format!("{host}.bin")))
        });
        let options = ["send", "--via", via, "-n", "3", "-i", "eth0,eth1"];
        let sent = site.run("n0", &[&options, &common[..]].concat(), source);
        sent.assert_code(0);
        for run in receivers {
            run.end(LIMIT).assert_code(0);
        }
        let again = sent.json()["frames"]["data_resent"].as_u64();
        assert!(again < Some(300), "via {via}: {again:?} frames again");
    }
}

/// A cable's rate behind the router, and the bytes that its queue holds: 24 ms.
const BOTTLENECK_BITS_PER_SECOND: u64 = 40_000_000;
const QUEUE_BYTES: u64 = 120_000;

#[test]
fn by_unicast_a_transfer_and_a_tcp_flow_share_what_a_router_passes() {
    let site = routed("udp_beside_tcp");
    let (rate, limit) = (
        BOTTLENECK_BITS_PER_SECOND.to_string(),
        QUEUE_BYTES.to_string(),
    );
    let shaper = ["qdisc", "add", "dev", "eth0", "root", "tbf", "rate", &rate];
    let bucket = ["burst", "16k", "limit", &limit];
    site.set_up("n6", "tc", &[&shaper[..], &bucket].concat());
    let bytes = content(5, 24 * MEBIBYTE);
    let (source, dest) = (site.file("source", &bytes), site.path("dest"));
    let receive = command(&site, "n1", true, &["recv", "--over", "unicast"], &dest);
    let receiver = Run::start("n1", receive);
    let (host, sink) = (routed_address(1), routed_address(4));
    let arguments = ["send", "--over", "unicast", "--json", "--hosts", &host];
    let send = command(&site, "n0", true, &arguments, &source);
    let (sender, rate) = beside_tcp(&site, ("n3", "n4", &sink), || {
        Run::start("n0", send).end(LIMIT)
    });
    sender.assert_code(0);
    receiver.end(LIMIT).assert_code(0);
    let (share, report) = (rate / BOTTLENECK_BITS_PER_SECOND as f64, sender.json());
    println!("{share:.2} beside {} s", report["seconds"]);
    // A quarter on an idle machine; without congestion control a fiftieth.
    assert!((0.06..=0.94).contains(&share), "{share}: {report}");
}
