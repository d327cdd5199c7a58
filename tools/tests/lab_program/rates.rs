//! Tests of rate limits, by the interface counters of sender and relays. Root and relays exceed it
//! in no second by more than a quarter, on cables of five times the rate. (In the simulator it is 1
//! %.)

use crate::harness::{Ethbcast, LIMIT, Session, Site, Transfer, content, one_switch};
use ethbcast_lab::LabConfig;
use ethbcast_tests::lab::StopOnDrop;
use nix::sys::signal::Signal;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const LINK_BITS_PER_SECOND: u64 = 200_000_000;
const RATE: &str = "40mbit";
const RATE_BITS_PER_SECOND: f64 = 40e6;
/// Permitted excess within a second, because a busy kernel may send late what was queued in the
/// second before.
const MOST: f64 = 1.25;
const SECOND: Duration = Duration::from_secs(1);
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
    Site::beside(story, LabConfig { rate_bits_per_second: Some(LINK_BITS_PER_SECOND), ..one_switch(4) })
}

/// Reads a host's counters every 5 ms until `over` is set.
fn watch(site: &Site, host: &str, over: &AtomicBool) -> Samples {
    let look = || {
        let before = Instant::now();
        // As /sys/class/net/eth0/statistics/tx_bytes, but /sys shows the namespace in which it was
        // mounted.
        let table = fs::read_to_string("/proc/thread-self/net/dev").expect("the thread's own namespace");
        let row = table.lines().find_map(|line| line.trim_start().strip_prefix("eth0:")).expect("its interface");
        let sent = row.split_whitespace().nth(8).and_then(|bytes| bytes.parse().ok()).expect("tx_bytes");
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
    site.lab().run_on(host, samples).expect("a host of this lab")
}

/// Runs a transfer with an action meanwhile, and returns the samples of these hosts.
fn watched(site: &Site, transfer: Transfer<'_>, hosts: &[&str], meanwhile: impl FnOnce(&Session)) -> Vec<Samples> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let over = &over;
        let watchers: Vec<_> = hosts.iter().map(|&host| scope.spawn(move || watch(site, host, over))).collect();
        let stopper = StopOnDrop(over);
        let session = transfer.start();
        meanwhile(&session);
        let outcome = session.end(LIMIT);
        drop(stopper);
        outcome.assert_verified();
        watchers.into_iter().map(|watcher| watcher.join().expect("it looks")).collect()
    })
}

/// Returns the rate of every window of at least a second, from `from` on, in bits per second.
fn windows(samples: &Samples, from: Option<Instant>) -> Vec<f64> {
    let (first, last) = (samples[0].1 + EDGE_BYTES, samples[samples.len() - 1].1 - EDGE_BYTES);
    let bulk: Vec<_> = samples
        .iter()
        .filter(|(at, sent)| (first..=last).contains(sent) && from.is_none_or(|from| *at >= from))
        .collect();
    let window = |(place, &&(at, sent)): (usize, &&(Instant, u64))| {
        let &&(then, more) = bulk[place..].iter().find(|(then, _)| then.duration_since(at) >= SECOND)?;
        Some((more - sent) as f64 * 8.0 / then.duration_since(at).as_secs_f64())
    };
    bulk.iter().enumerate().filter_map(window).collect()
}

fn assert_limited(samples: &Samples, from: Option<Instant>, rate: f64, what: &str) {
    let mut windows = windows(samples, from);
    assert!(windows.len() >= 5, "{what}: {} seconds were looked at", windows.len());
    windows.sort_by(f64::total_cmp);
    let (least, middle, most) = (windows[0], windows[windows.len() / 2], windows[windows.len() - 1]);
    println!(
        "{what}: {:.2} to {:.2} % of the limit in {} windows",
        least / rate * 100.0,
        most / rate * 100.0,
        windows.len()
    );
    // A frame at each end of a window, and the delay of a reading.
    let boundary = 2.0 * 1514.0 * 8.0 + rate * MAX_LOOK.as_secs_f64();
    assert!(most <= rate * MOST + boundary, "{what}: {most:.0} bit/s");
    // If others occupy the processors for longer than the limiter makes up for, less is sent. In
    // the simulator no second has less.
    assert!(middle >= rate / 10.0, "{what}: mostly {middle:.0} bit/s");
}

#[test]
fn root_and_relays_put_the_limit_on_their_cables_in_every_second() {
    let site = site("rates");
    for (via, senders) in [("chain", &["n0", "n1", "n2"][..]), ("cast", &["n0"]), ("kary=3", &["n0"])] {
        let transfer = Transfer::new(&site, content(40, CONTENT_BYTES)).via(via);
        let transfer = transfer.send_option("--rate").send_option(RATE);
        for (samples, host) in watched(&site, transfer, senders, |_| {}).iter().zip(senders) {
            assert_limited(samples, None, RATE_BITS_PER_SECOND, &format!("{via}, {host}"));
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
                most > 0.0 && most <= RATE_BITS_PER_SECOND * MOST + 2.0 * 1514.0 * 8.0,
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
    let samples = watched(&site, transfer.send_option("--rate").send_option(RATE), &["n0", "n1"], |session| {
        session.wait_for_sent(2_000_000);
        for _ in 0..3 {
            session.root.signal(Signal::SIGUSR2);
            session.root.wait_for_line("the rate limit is");
            thread::sleep(Duration::from_millis(50));
        }
        session.root.signal(Signal::SIGUSR1);
        session.root.wait_for_line("the rate limit is 32.1 Mbit/s now");
        let told = site.run("n0", &["ctl", "rate"], "20mbit");
        told.assert_code(0);
        assert!(told.stdout_text().contains("20000000 bit/s"), "{told:?}");
        session.root.wait_for_line("the rate limit is 20.0 Mbit/s now");
        site.run("n1", &["ctl"], "show").assert_code(3);
        lowered = Some(Instant::now() + Duration::from_millis(700));
    });
    for (samples, host) in samples.iter().zip(["n0", "n1"]) {
        assert_limited(samples, lowered, 20e6, host);
    }
}

#[test]
fn the_report_names_the_limit_and_the_prediction_knows_it() {
    let site = site("limited");
    let outcome = Transfer::new(&site, content(43, 5_000_000)).via("chain").send_option("--rate=5MB/s").run();
    outcome.assert_verified();
    let report = outcome.root.json();
    assert_eq!(report["rate_limit_bits_per_second"], 40_000_000);
    // The cables would need 0.2 s. The probe measures lower rates where hosts wait for processors.
    let (took, predicted) = (outcome.seconds(), report["predicted_seconds"].as_f64().expect("a number"));
    assert!((0.9..10.0).contains(&predicted) && took >= 0.9, "{took:.3} s, {predicted:.3} s predicted");
}
