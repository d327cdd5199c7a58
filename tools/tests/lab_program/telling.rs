//! Output of a running transfer: lines for logs and terminals, metrics for Prometheus, events for
//! programs.

use crate::harness::{Ended, Ethbcast, LIMIT, MEBIBYTE, PROGRAM, Run, Site, Transfer, content, one_switch, within};
use ethbcast_lab::LabConfig;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// Parses a file in Prometheus' text format into samples by name and labels. Fails unless each
/// stands below its metric's type, which is given once.
#[track_caller]
fn samples(path: &Path) -> BTreeMap<String, f64> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (mut samples, mut named, mut metric) = (BTreeMap::new(), BTreeSet::new(), String::new());
    for line in text.lines() {
        if let Some(head) = line.strip_prefix("# TYPE ") {
            let (name, kind) = head.split_once(' ').expect("a type");
            assert!(["gauge", "counter"].contains(&kind) && named.insert(name.to_owned()), "{text}");
            metric = name.to_owned();
        } else if !line.starts_with("# HELP ") {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            assert!(series.strip_prefix(&metric).is_some_and(|labels| labels.starts_with('{')), "{line}: {text}");
            assert_eq!(samples.insert(series.to_owned(), value.parse().expect("a number")), None, "{text}");
        }
    }
    assert!(text.ends_with('\n'), "{text}");
    samples
}

/// Returns a metric of a host with this role.
#[track_caller]
fn sample(samples: &BTreeMap<String, f64>, role: &str, name: &str, more: &str) -> f64 {
    let series = format!("ethbcast_{name}{{group=\"ethbcast\",interface=\"eth0\",role=\"{role}\"{more}}}");
    *samples.get(&series).unwrap_or_else(|| panic!("no {series} in {samples:?}"))
}

#[test]
fn a_transfer_tells_how_far_it_is_while_it_runs() {
    // 0.8 s.
    let config = LabConfig { rate_bits_per_second: Some(50_000_000), ..one_switch(3) };
    let site = Site::beside("telling", config);
    let metrics = site.path("root.prom");
    let transfer = Transfer::new(&site, content(5, 4 * MEBIBYTE)).via("chain").both_options("--stat-period", "0.2");
    let session = transfer.send_option("--metrics-file").send_option(&metrics).start();
    let seen = within(LIMIT, || {
        let samples = metrics.exists().then(|| samples(&metrics))?;
        let is_on = |series: &&String| series.contains("state=\"transferring\"") && samples[*series] == 1.0;
        samples.keys().find(is_on).is_some().then_some(samples)
    });
    let seen = seen.expect("it is seen on its way");
    let of_root = |name: &str| sample(&seen, "root", name, "");
    assert_eq!((of_root("size_bytes"), of_root("receivers")), (4_194_304.0, 2.0));
    assert!(!seen.keys().any(|series| series.contains("end_time") || series.contains("exit_code")), "{seen:?}");
    let outcome = session.end(LIMIT);
    outcome.assert_verified();
    let samples = samples(&metrics);
    let of_root = |name: &str| sample(&samples, "root", name, "");
    assert_eq!(of_root("transferred_bytes_total"), 4_194_304.0);
    assert_eq!(["receivers_delivered", "receivers_failed", "exit_code"].map(of_root), [2.0, 0.0, 0.0]);
    let states = ["waiting", "transferring", "done", "failed"];
    let states = states.map(|state| sample(&samples, "root", "state", &format!(",state=\"{state}\"")));
    assert_eq!(states, [0.0, 0.0, 1.0, 0.0]);
    let took = of_root("end_time_seconds") - of_root("start_time_seconds");
    assert!((0.5..60.0).contains(&took), "it took {took} s");
    assert_eq!(metrics.metadata().expect("there").permissions().mode() & 0o777, 0o644);
    for (name, stderr, at) in
        [("n0", &outcome.root.stderr, " at all 2 receivers, "), ("n2", &outcome.receiver("n2").stderr, "%), ")]
    {
        let lines: Vec<&str> = stderr.lines().filter(|line| line.contains(" of 4.00 MiB (")).collect();
        let most = (took / 0.2) as usize + 3;
        assert!((2..=most).contains(&lines.len()), "{name} says {} times how far it is: {stderr}", lines.len());
        assert!(lines.iter().all(|line| line.contains(at)), "{name}: {stderr}");
        assert!(lines.iter().any(|line| line.contains("bit/s")), "{name}: {stderr}");
    }
}

#[test]
fn a_receiver_whose_sender_never_comes_says_so_in_its_metrics() {
    let site = Site::beside("metrics", one_switch(2));
    let metrics = site.path("n1.prom");
    let file = metrics.to_str().expect("a path in UTF-8");
    let options = ["recv", "-i", "eth0", "--max-wait", "0.2", "--stat-period", "0", "--metrics-file", file];
    site.run("n1", &options, site.path("dest")).assert_code(3);
    let samples = samples(&metrics);
    assert_eq!(sample(&samples, "receiver", "exit_code", ""), 3.0);
    assert_eq!(sample(&samples, "receiver", "state", ",state=\"failed\""), 1.0);
    assert!(!samples.keys().any(|series| series.contains("receivers")), "it knows of none: {samples:?}");
}

/// Returns the events that a process has printed, one per line. Fails unless each has a name and
/// times ascend.
#[track_caller]
fn events(ended: &Ended) -> Vec<Value> {
    let read = |line: &str| -> Value { serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")) };
    let events: Vec<Value> = ended.stdout_text().lines().map(read).collect();
    assert!(events.iter().all(|event| event["version"] == 1 && event["event"].is_string()), "{events:?}");
    assert!(events.iter().map(|event| event["at"].as_f64().expect("a time")).is_sorted(), "{events:?}");
    events
}

/// Returns the events of this name.
fn named<'a>(events: &'a [Value], name: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["event"] == name).collect()
}

#[test]
fn a_transfer_of_which_a_receiver_dies_is_told_event_by_event_and_ends_with_the_report() {
    // 1.7 s.
    let site = Site::beside("events", LabConfig { rate_bits_per_second: Some(20_000_000), ..one_switch(3) });
    let (source, kept) = (site.file("source", content(6, 4 * MEBIBYTE)), site.path("run.json"));
    let receive = ["recv", "-i", "eth0", "--json-stream", "--no-resume", "--max-wait", "20"];
    let [first, second] = ["n1", "n2"].map(|host| site.start(host, &receive, site.path(host)));
    let kept_at = kept.to_str().expect("a path in UTF-8");
    let send = ["send", "-i", "eth0", "-n", "2", "--json-stream", "--patience", "0", "--report", kept_at];
    let root = site.start("n0", &send, &source);
    root.wait_for_line("sending 4.00 MiB");
    std::thread::sleep(Duration::from_millis(250));
    second.signal(Signal::SIGKILL);
    let root = root.end(LIMIT);
    root.assert_code(1);
    let told = events(&root);
    let order = ["opened", "joined", "planned", "progress", "host", "done"];
    let begins = order.map(|name| told.iter().position(|event| event["event"] == name).expect(name));
    assert!(begins.is_sorted() && begins[0] == 0 && begins[5] == told.len() - 1, "{told:?}");
    let opened = json!({ "role": "root", "host": "n0", "group": "ethbcast", "interface": "eth0", "mtu_bytes": 1500 });
    assert!(opened.as_object().expect("fields").iter().all(|(name, value)| told[0][name] == *value), "{}", told[0]);
    let joined: BTreeSet<&str> = named(&told, "joined").iter().filter_map(|event| event["host"].as_str()).collect();
    assert_eq!(joined, BTreeSet::from(["n1", "n2"]));
    let planned = named(&told, "planned")[0];
    assert_eq!((&planned["receivers"], &planned["bytes"]), (&json!(2), &json!(4 * MEBIBYTE)), "{planned}");
    let progress = named(&told, "progress");
    let seconds = root.took.as_secs_f64();
    assert!((3..=2 + (seconds * 10.0) as usize).contains(&progress.len()), "{} in {seconds} s", progress.len());
    assert!(progress.iter().any(|event| event["rate_bits_per_second"].as_f64() > Some(1e6)), "{progress:?}");
    let host = |name: &str| *named(&told, "host").iter().find(|event| event["host"] == name).expect("it is told of");
    assert_eq!((&host("n1")["status"], &host("n1")["delivered"]), (&json!("verified"), &json!(true)));
    assert_eq!((&host("n2")["status"], &host("n2")["delivered"]), (&json!("died"), &json!(false)));
    assert!(host("n2")["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{}", host("n2"));
    let report: Value = serde_json::from_str(&fs::read_to_string(&kept).expect("written")).expect("an object");
    assert_eq!(told[told.len() - 1]["report"], report, "it is the object of --json");
    let first = first.end(LIMIT);
    first.assert_code(0);
    let told = events(&first);
    let begins = ["opened", "invited", "planned", "progress", "done"];
    let begins = begins.map(|name| told.iter().position(|event| event["event"] == name).expect(name));
    assert!(begins.is_sorted() && begins[4] == told.len() - 1, "{told:?}");
    assert_eq!(told[begins[4]]["report"]["status"], "verified");
}

/// Removes colours and cursor movements from a text.
fn without_escapes(text: &str) -> String {
    let mut pieces = text.split('\u{1b}');
    let first = pieces.next().unwrap_or_default().to_owned();
    let rest =
        pieces.map(|piece| piece.split_once(|letter: char| letter.is_ascii_alphabetic()).map_or("", |two| two.1));
    rest.fold(first, |text, piece| text + piece)
}

/// Width of the terminal in the next test.
const COLUMNS: usize = 60;

#[test]
fn a_terminal_has_a_line_for_each_of_few_hosts_no_wider_than_it_is_and_no_colours_if_it_wants_none() {
    let site = Site::beside("terminal", LabConfig { rate_bits_per_second: Some(50_000_000), ..one_switch(3) });
    let source = site.file("source", content(7, 4 * MEBIBYTE));
    let receivers = ["n1", "n2"].map(|host| site.start(host, &["recv", "-i", "eth0"], site.path(host)));
    let send = format!("stty rows 24 cols {COLUMNS}; {PROGRAM} send -i eth0 -n 2 {}", source.display());
    let mut terminal = site.command("n0", "script");
    terminal.args(["-qefc", &send, "/dev/null"]).env("TERM", "xterm").env("NO_COLOR", "1").stdin(Stdio::null());
    let sent = Run::start("n0", terminal).end(LIMIT);
    sent.assert_code(0);
    let shown = sent.stdout_text();
    assert!(shown.contains('\u{1b}') && !shown.contains("\u{1b}[32m"), "drawn, without green: {shown:?}");
    // The drawn lines follow each other, each padded to the terminal's edge.
    let shown: Vec<char> = without_escapes(&shown).chars().collect();
    let drawings = shown.split(|letter| ['\r', '\n'].contains(letter)).filter(|drawing| drawing.len() >= COLUMNS);
    let drawings: Vec<Vec<String>> = drawings.map(|all| all.chunks(COLUMNS).map(String::from_iter).collect()).collect();
    let drawings: Vec<&Vec<String>> = drawings.iter().filter(|lines| lines[0].starts_with("n1  [")).collect();
    for lines in &drawings {
        assert!(lines.len() == 3 && lines[1].starts_with("n2  [") && lines[2].starts_with('['), "{drawings:?}");
        assert!(lines[2].contains(" of 4.00 MiB ("), "{lines:?}");
    }
    let most = (sent.took.as_secs_f64() * 10.0) as usize + 1;
    assert!((3..=most).contains(&drawings.len()), "drawn {} times in {:?}", drawings.len(), sent.took);
    receivers.into_iter().for_each(|receiver| receiver.end(LIMIT).assert_code(0));
}
