//! Tests of a transfer's progress output, reports and metrics.

use crate::faults::{half_way, slow};
use crate::harness::{
    Ended, Ethbcast, LIMIT, MEBIBYTE, PROGRAM, Run, Site, Transfer, content, ended_here, here,
    lab_name, names_in, namespaces, one_switch, require_root, scratch, shown_in, within,
};
use ethbcast_lab::{Lab, LabConfig};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Parses a file in Prometheus' text format into samples by name and labels. Fails unless each
/// stands below its metric's type, which is given once.
#[track_caller]
fn samples(path: &Path) -> BTreeMap<String, f64> {
    let text =
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (mut samples, mut named, mut metric) = (BTreeMap::new(), BTreeSet::new(), String::new());
    for line in text.lines() {
        if let Some(head) = line.strip_prefix("# TYPE ") {
            let (name, kind) = head.split_once(' ').expect("a type");
            assert!(
                ["gauge", "counter"].contains(&kind) && named.insert(name.to_owned()),
                "{text}"
            );
            metric = name.to_owned();
        } else if !line.starts_with("# HELP ") {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            assert!(
                series
                    .strip_prefix(&metric)
                    .is_some_and(|labels| labels.starts_with('{')),
                "{line}: {text}"
            );
            assert_eq!(
                samples.insert(series.to_owned(), value.parse().expect("a number")),
                None,
                "{text}"
            );
        }
    }
    assert!(text.ends_with('\n'), "{text}");
    samples
}

/// Returns a metric of a host with this role.
#[track_caller]
fn sample(samples: &BTreeMap<String, f64>, role: &str, name: &str, more: &str) -> f64 {
    let series =
        format!("ethbcast_{name}{{group=\"ethbcast\",interface=\"eth0\",role=\"{role}\"{more}}}");
    *samples
        .get(&series)
        .unwrap_or_else(|| panic!("no {series} in {samples:?}"))
}

#[test]
fn a_transfer_prints_its_progress_while_it_runs() {
    // 0.8 s.
    let config = LabConfig {
        rate_bits_per_second: Some(50_000_000),
        ..one_switch(3)
    };
    let site = Site::beside("telling", config);
    let metrics = site.path("root.prom");
    let transfer = Transfer::new(&site, content(5, 4 * MEBIBYTE))
        .via("chain")
        .both_options("--stat-period", "0.2");
    let session = transfer
        .send_option("--metrics-file")
        .send_option(&metrics)
        .start();
    let seen = within(LIMIT, || {
        let samples = metrics.exists().then(|| samples(&metrics))?;
        let is_on =
            |series: &&String| series.contains("state=\"transferring\"") && samples[*series] == 1.0;
        samples.keys().find(is_on).is_some().then_some(samples)
    });
    let seen = seen.expect("it is seen on its way");
    let of_root = |name: &str| sample(&seen, "root", name, "");
    assert_eq!(
        (of_root("size_bytes"), of_root("receivers")),
        (4_194_304.0, 2.0)
    );
    assert!(
        !seen
            .keys()
            .any(|series| series.contains("end_time") || series.contains("exit_code")),
        "{seen:?}"
    );
    let outcome = session.end(LIMIT);
    outcome.assert_verified();
    let samples = samples(&metrics);
    let of_root = |name: &str| sample(&samples, "root", name, "");
    assert_eq!(of_root("transferred_bytes_total"), 4_194_304.0);
    assert_eq!(
        ["receivers_delivered", "receivers_failed", "exit_code"].map(of_root),
        [2.0, 0.0, 0.0]
    );
    let states = ["waiting", "transferring", "done", "failed"];
    let states =
        states.map(|state| sample(&samples, "root", "state", &format!(",state=\"{state}\"")));
    assert_eq!(states, [0.0, 0.0, 1.0, 0.0]);
    let took = of_root("end_time_seconds") - of_root("start_time_seconds");
    assert!((0.5..60.0).contains(&took), "it took {took} s");
    assert_eq!(
        metrics.metadata().expect("there").permissions().mode() & 0o777,
        0o644
    );
    for (name, stderr, at) in [
        ("n0", &outcome.root.stderr, " at all 2 receivers, "),
        ("n2", &outcome.receiver("n2").stderr, "%), "),
    ] {
        let lines: Vec<&str> = stderr
            .lines()
            .filter(|line| line.contains(" of 4.00 MiB ("))
            .collect();
        let most = (took / 0.2) as usize + 3;
        assert!(
            (2..=most).contains(&lines.len()),
            "{name} says {} times how far it is: {stderr}",
            lines.len()
        );
        assert!(
            lines.iter().all(|line| line.contains(at)),
            "{name}: {stderr}"
        );
        assert!(
            lines.iter().any(|line| line.contains("bit/s")),
            "{name}: {stderr}"
        );
    }
}

#[test]
fn a_receiver_whose_sender_never_comes_says_so_in_its_metrics() {
    let site = Site::beside("metrics", one_switch(2));
    let metrics = site.path("n1.prom");
    let file = metrics.to_str().expect("a path in UTF-8");
    let options = [
        "recv",
        "-i",
        "eth0",
        "--max-wait",
        "0.2",
        "--stat-period",
        "0",
        "--metrics-file",
        file,
    ];
    site.run("n1", &options, site.path("dest")).assert_code(3);
    let samples = samples(&metrics);
    assert_eq!(sample(&samples, "receiver", "exit_code", ""), 3.0);
    assert_eq!(
        sample(&samples, "receiver", "state", ",state=\"failed\""),
        1.0
    );
    assert!(
        !samples.keys().any(|series| series.contains("receivers")),
        "it knows of none: {samples:?}"
    );
}

/// Returns the events that a process has printed, one per line. Fails unless each has a name and
/// times ascend.
#[track_caller]
fn events(ended: &Ended) -> Vec<Value> {
    let read = |line: &str| -> Value {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
    };
    let events: Vec<Value> = ended.stdout_text().lines().map(read).collect();
    assert!(
        events
            .iter()
            .all(|event| event["version"] == 1 && event["event"].is_string()),
        "{events:?}"
    );
    assert!(
        events
            .iter()
            .map(|event| event["at"].as_f64().expect("a time"))
            .is_sorted(),
        "{events:?}"
    );
    events
}

fn named<'a>(events: &'a [Value], name: &str) -> Vec<&'a Value> {
    events
        .iter()
        .filter(|event| event["event"] == name)
        .collect()
}

#[test]
fn a_transfer_of_which_a_receiver_dies_is_printed_event_by_event_and_ends_with_the_report() {
    // 1.7 s.
    let site = Site::beside(
        "events",
        LabConfig {
            rate_bits_per_second: Some(20_000_000),
            ..one_switch(3)
        },
    );
    let (source, kept) = (
        site.file("source", content(6, 4 * MEBIBYTE)),
        site.path("run.json"),
    );
    let receive = [
        "recv",
        "-i",
        "eth0",
        "--json-stream",
        "--no-resume",
        "--max-wait",
        "20",
    ];
    let [first, second] = ["n1", "n2"].map(|host| site.start(host, &receive, site.path(host)));
    let kept_at = kept.to_str().expect("a path in UTF-8");
    let send = [
        "send",
        "-i",
        "eth0",
        "-n",
        "2",
        "--json-stream",
        "--patience",
        "0",
        "--report",
        kept_at,
    ];
    let root = site.start("n0", &send, &source);
    root.wait_for_line("sending 4.00 MiB");
    std::thread::sleep(Duration::from_millis(250));
    second.signal(Signal::SIGKILL);
    let root = root.end(LIMIT);
    root.assert_code(1);
    let told = events(&root);
    let order = ["opened", "joined", "planned", "progress", "host", "done"];
    let begins = order.map(|name| {
        told.iter()
            .position(|event| event["event"] == name)
            .expect(name)
    });
    assert!(
        begins.is_sorted() && begins[0] == 0 && begins[5] == told.len() - 1,
        "{told:?}"
    );
    let opened = json!({ "role": "root", "host": "n0", "group": "ethbcast", "interface": "eth0", "mtu_bytes": 1500 });
    assert!(
        opened
            .as_object()
            .expect("fields")
            .iter()
            .all(|(name, value)| told[0][name] == *value),
        "{}",
        told[0]
    );
    let joined: BTreeSet<&str> = named(&told, "joined")
        .iter()
        .filter_map(|event| event["host"].as_str())
        .collect();
    assert_eq!(joined, BTreeSet::from(["n1", "n2"]));
    let planned = named(&told, "planned")[0];
    assert_eq!(
        (&planned["receivers"], &planned["bytes"]),
        (&json!(2), &json!(4 * MEBIBYTE)),
        "{planned}"
    );
    let progress = named(&told, "progress");
    let seconds = root.took.as_secs_f64();
    assert!(
        (3..=2 + (seconds * 10.0) as usize).contains(&progress.len()),
        "{} in {seconds} s",
        progress.len()
    );
    assert!(
        progress
            .iter()
            .any(|event| event["rate_bits_per_second"].as_f64() > Some(1e6)),
        "{progress:?}"
    );
    let host = |name: &str| {
        *named(&told, "host")
            .iter()
            .find(|event| event["host"] == name)
            .expect("it is told of")
    };
    assert_eq!(
        (&host("n1")["status"], &host("n1")["delivered"]),
        (&json!("verified"), &json!(true))
    );
    assert_eq!(
        (&host("n2")["status"], &host("n2")["delivered"]),
        (&json!("died"), &json!(false))
    );
    assert!(
        host("n2")["reason"]
            .as_str()
            .is_some_and(|reason| !reason.is_empty()),
        "{}",
        host("n2")
    );
    let report: Value =
        serde_json::from_str(&fs::read_to_string(&kept).expect("written")).expect("an object");
    assert_eq!(
        told[told.len() - 1]["report"],
        report,
        "it is the object of --json"
    );
    let first = first.end(LIMIT);
    first.assert_code(0);
    let told = events(&first);
    let begins = ["opened", "invited", "planned", "progress", "done"];
    let begins = begins.map(|name| {
        told.iter()
            .position(|event| event["event"] == name)
            .expect(name)
    });
    assert!(
        begins.is_sorted() && begins[4] == told.len() - 1,
        "{told:?}"
    );
    assert_eq!(told[begins[4]]["report"]["status"], "verified");
}

/// Removes colours and cursor movements from a text.
fn without_escapes(text: &str) -> String {
    let mut pieces = text.split('\u{1b}');
    let first = pieces.next().unwrap_or_default().to_owned();
    let rest = pieces.map(|piece| {
        piece
            .split_once(|letter: char| letter.is_ascii_alphabetic())
            .map_or("", |two| two.1)
    });
    rest.fold(first, |text, piece| text + piece)
}

/// Width of the terminal in the next test.
const COLUMNS: usize = 60;

#[test]
fn a_terminal_has_a_line_for_each_of_few_hosts_no_wider_than_it_is_and_no_colours_if_it_wants_none()
{
    let site = Site::beside(
        "terminal",
        LabConfig {
            rate_bits_per_second: Some(50_000_000),
            ..one_switch(3)
        },
    );
    let source = site.file("source", content(7, 4 * MEBIBYTE));
    let receivers =
        ["n1", "n2"].map(|host| site.start(host, &["recv", "-i", "eth0"], site.path(host)));
    let send = format!(
        "stty rows 24 cols {COLUMNS}; {PROGRAM} send -i eth0 -n 2 {}",
        source.display()
    );
    let mut terminal = site.command("n0", "script");
    terminal
        .args(["-qefc", &send, "/dev/null"])
        .env("TERM", "xterm")
        .env("NO_COLOR", "1")
        .stdin(Stdio::null());
    let sent = Run::start("n0", terminal).end(LIMIT);
    sent.assert_code(0);
    let shown = sent.stdout_text();
    assert!(
        shown.contains('\u{1b}') && !shown.contains("\u{1b}[32m"),
        "drawn, without green: {shown:?}"
    );
    // The drawn lines follow each other, each padded to the terminal's edge.
    let shown: Vec<char> = without_escapes(&shown).chars().collect();
    let drawings = shown
        .split(|letter| ['\r', '\n'].contains(letter))
        .filter(|drawing| drawing.len() >= COLUMNS);
    let drawings: Vec<Vec<String>> = drawings
        .map(|all| all.chunks(COLUMNS).map(String::from_iter).collect())
        .collect();
    let drawings: Vec<&Vec<String>> = drawings
        .iter()
        .filter(|lines| lines[0].starts_with("n1  ["))
        .collect();
    for lines in &drawings {
        assert!(
            lines.len() == 3 && lines[1].starts_with("n2  [") && lines[2].starts_with('['),
            "{drawings:?}"
        );
        assert!(lines[2].contains(" of 4.00 MiB ("), "{lines:?}");
    }
    let most = (sent.took.as_secs_f64() * 10.0) as usize + 1;
    assert!(
        (3..=most).contains(&drawings.len()),
        "drawn {} times in {:?}",
        drawings.len(),
        sent.took
    );
    receivers
        .into_iter()
        .for_each(|receiver| receiver.end(LIMIT).assert_code(0));
}

#[track_caller]
fn numbers(list: &Value) -> Vec<f64> {
    let list = list
        .as_array()
        .unwrap_or_else(|| panic!("{list} is no list"));
    list.iter()
        .map(|one| one.as_f64().unwrap_or_else(|| panic!("{one} is no number")))
        .collect()
}

#[test]
fn a_report_has_the_course_of_all_hosts_and_what_it_takes_to_repeat_the_run() {
    let site = Site::beside("course", slow(4));
    let session = half_way(&site, "chain", "n2");
    session.receiver("n2").signal(Signal::SIGKILL);
    let outcome = session.end(LIMIT);
    outcome.root.assert_code(1);
    let report = outcome.root.json();
    let (run, timeline) = (&report["run"], &report["run"]["timeline"]);
    assert_eq!(
        (&run["root"], &run["interface"], &run["plan"]["via"]),
        (&"n0".into(), &"eth0".into(), &"chain".into())
    );
    let words = run["command"].as_array().expect("a list");
    assert!(
        ["send", "--json", "--via", "chain"]
            .iter()
            .all(|word| words.iter().any(|other| other == word)),
        "{run}"
    );
    assert_eq!(
        run["plan"]["edges"][0],
        serde_json::json!({ "from": "n0", "to": "n1", "order": 0 })
    );
    let seconds = numbers(&timeline["seconds"]);
    assert!(seconds.len() >= 5 && seconds.is_sorted(), "{seconds:?}");
    let end = report["seconds"].as_f64().expect("a number");
    assert!(
        (seconds[seconds.len() - 1] - end).abs() < 0.1 * end,
        "{seconds:?} ends at {end}"
    );
    for track in timeline["receivers"].as_array().expect("a list") {
        let bytes = numbers(&track["bytes"]);
        let states = track["states"].as_str().expect("letters");
        assert_eq!(
            (bytes.len(), states.len()),
            (seconds.len(), seconds.len()),
            "{track}"
        );
        assert!(bytes.is_sorted(), "{track}");
        let is_dead = track["host"] == "n2";
        assert_eq!(
            bytes[bytes.len() - 1] == report["bytes"].as_f64().expect("a number"),
            !is_dead,
            "{track}"
        );
        assert_eq!(states.ends_with('-'), is_dead, "{track}");
        let half = bytes[bytes.len() / 2];
        assert!(half > 0.0, "nothing was seen on its way: {track}");
    }
    let incident = &timeline["incidents"][0];
    assert_eq!(
        (&incident["kind"], &incident["hosts"][0]),
        (&"failed".into(), &"n2".into()),
        "{timeline}"
    );
    let file = scratch();
    let path = file.path().join("run.json");
    fs::write(&path, report.to_string()).expect("written");
    let page = ended_here(&["report", path.to_str().expect("a path in UTF-8")]);
    page.assert_code(0);
    let page = page.stdout_text();
    assert!(
        page.contains("1 of 3 receivers have not got the bytes") && page.contains("✕ died"),
        "{page}"
    );
    assert!(page.contains("Limited by </strong>"), "{page}");
    outcome.forget_dead("n2");
}

#[test]
fn a_report_names_the_cable_that_lost_frames_and_says_how_many_came_again_at_each_host() {
    let site = Site::beside(
        "lossycable",
        LabConfig {
            rate_bits_per_second: Some(100_000_000),
            ..one_switch(4)
        },
    );
    site.lab().set_loss("n2", 0.05).expect("a host of this lab");
    let outcome = Transfer::new(&site, content(9, 3_000_000))
        .via("cast")
        .start()
        .end(LIMIT);
    outcome.assert_verified();
    let report = outcome.root.json();
    let loss = |receiver: &Value| {
        let count = |name: &str| {
            receiver[name]
                .as_f64()
                .unwrap_or_else(|| panic!("no {name}: {receiver}"))
        };
        assert!(count("frames") >= 2000.0, "{receiver}");
        count("repaired_frames") / count("frames")
    };
    let receivers = report["receivers"].as_array().expect("a list");
    let (lossy, sound): (Vec<_>, Vec<_>) = receivers
        .iter()
        .partition(|receiver| receiver["host"] == "n2");
    let most = loss(lossy[0]);
    assert!((0.025..0.5).contains(&most), "{report}");
    assert!(
        sound
            .into_iter()
            .all(|receiver| loss(receiver) < most / 2.0),
        "{report}"
    );
    let file = scratch();
    let path = file.path().join("run.json");
    fs::write(&path, report.to_string()).expect("written");
    let page = ended_here(&["report", path.to_str().expect("a path in UTF-8")]).stdout_text();
    assert!(page.contains("<li>the cable of n2: "), "{page}");
}

#[test]
fn a_report_is_written_as_a_page_if_it_is_called_one() {
    let site = Site::beside("page", one_switch(3));
    let directory = scratch();
    let page = directory.path().join("run.html");
    let outcome = Transfer::new(&site, content(9, 300_000))
        .send_option("--report")
        .send_option(&page)
        .start();
    outcome.end(LIMIT).assert_verified();
    let text = fs::read_to_string(&page).expect("written");
    assert!(
        text.starts_with("<!DOCTYPE html>") && text.contains("all 2 receivers have verified"),
        "{text}"
    );
    assert!(
        ["source.bin to 2 hosts", ">n1<", ">n2<", "--report"]
            .iter()
            .all(|part| text.contains(part)),
        "{text}"
    );
}

#[test]
fn stdout_has_the_report_alone_and_stderr_no_bar_when_it_is_no_terminal() {
    let site = Site::beside(
        "print",
        LabConfig {
            rate_bits_per_second: Some(100_000_000),
            ..one_switch(3)
        },
    );
    // Long enough for several redraws of a progress bar, if there were one.
    let outcome = Transfer::new(&site, content(3, 16 * MEBIBYTE)).run();
    outcome.assert_verified();
    for (name, stderr) in [
        ("n0", &outcome.root.stderr),
        ("n1", &outcome.receiver("n1").stderr),
    ] {
        assert!(
            !stderr.contains(['\r', '\u{1b}']),
            "{name} draws: {stderr:?}"
        );
        assert!(
            stderr.lines().count() < 10,
            "{name} says too much: {stderr}"
        );
    }
    let source = site.file("source", "text");
    let receivers =
        ["n1", "n2"].map(|host| site.start(host, &["recv", "-i", "eth0"], site.path(host)));
    let root = site.run("n0", &["send", "-i", "eth0", "-n", "2"], &source);
    let report = root.stdout_text();
    let lines: Vec<_> = report.lines().collect();
    assert!(
        lines.len() == 5 && lines[0].starts_with("n1 ") && lines[1].starts_with("n2 "),
        "a line for each receiver: {report}"
    );
    assert!(
        lines[2].starts_with("2 of 2 receivers verified"),
        "and a total: {report}"
    );
    assert!(
        lines[3].starts_with("cast: "),
        "and why it went this way: {report}"
    );
    assert!(
        lines[4].starts_with("limited by: "),
        "and what limited it: {report}"
    );
    for receiver in receivers {
        let ended = receiver.end(LIMIT);
        assert!(
            ended.stdout_text().lines().count() == 1 && ended.stdout_text().contains("verified"),
            "{ended:?}"
        );
    }
    let receiver = site.start(
        "n1",
        &["recv", "--quiet", "-i", "eth0", "--force"],
        site.path("n1"),
    );
    let root = site.run("n0", &["send", "-n", "1", "--quiet", "-i", "eth0"], &source);
    for ended in [root, receiver.end(LIMIT)] {
        ended.assert_code(0);
        assert_eq!(
            (ended.stdout_text().as_str(), ended.stderr.as_str()),
            ("", ""),
            "quiet is quiet"
        );
    }
}

/// Returns the README's code block that contains a text.
fn block_with(text: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the tree")
        .join("README.md");
    let readme = fs::read_to_string(path).expect("the README is there");
    let block = readme
        .split("```")
        .find(|block| block.starts_with("sh\n") && block.contains(text));
    block.unwrap_or_else(|| panic!("no block of README.md has {text}"))["sh\n".len()..].to_owned()
}

#[test]
fn the_lab_of_the_readme_brings_an_image_to_seven_hosts() {
    require_root();
    let (directory, name) = (scratch(), lab_name("readme"));
    let image = content(1, 2 * MEBIBYTE);
    fs::write(directory.path().join("image.qcow2"), &image).expect("there is room");
    let place = directory.path().to_str().expect("ours");
    let block = block_with("ethbcast lab up");
    // The name of the tests' lab differs from that of a lab that the user may have up.
    let named = ["up", "each", "exec", "down"]
        .iter()
        .fold(block, |block, command| {
            block.replace(
                &format!("ethbcast lab {command}"),
                &format!("ethbcast lab {command} --lab {name}"),
            )
        });
    // ... and the script waits for the receivers' last lines, as a reader would.
    let script = named
        .replace("/tmp/", &format!("{place}/"))
        .replace("ethbcast lab down", "wait\nethbcast lab down");
    let mut command = Command::new("sh");
    let path = std::env::var("PATH").unwrap_or_default();
    let programs = Path::new(PROGRAM)
        .parent()
        .expect("in a directory")
        .to_str()
        .expect("UTF-8");
    command
        .args(["-ec", &script])
        .current_dir(directory.path())
        .env("PATH", format!("{programs}:{path}"));
    let ended = Run::start("the README", command).end(2 * LIMIT);
    drop(Lab::remove(&name));
    ended.assert_code(0);
    assert!(
        ended.stdout_text().contains("7 of 7 receivers verified"),
        "{}",
        ended.stdout_text()
    );
    let mut expected: Vec<_> = (1..8).map(|host| format!("n{host}.img")).collect();
    expected.push("image.qcow2".into());
    expected.sort();
    assert_eq!(shown_in(directory.path()), expected);
    for name in expected {
        assert!(
            fs::read(directory.path().join(&name)).is_ok_and(|bytes| bytes == image),
            "{name}"
        );
    }
}

/// Returns the files of running demos in memory.
fn demo_files() -> Vec<String> {
    let places = [Path::new("/dev/shm"), &std::env::temp_dir()].map(Path::to_owned);
    let names = places
        .iter()
        .filter(|place| place.is_dir())
        .flat_map(|place| names_in(place));
    names
        .filter(|name| name.starts_with("ethbcast-demo-"))
        .collect()
}

#[test]
fn the_demo_shows_both_paths_and_cleans_up_also_when_interrupted() {
    require_root();
    let before = demo_files();
    let demo = here(&["lab", "demo", "--mebibytes", "1", "--hosts", "3"]);
    let prefix = format!("ethbcast-demo{}-", demo.pid());
    let demo = demo.end(LIMIT);
    demo.assert_code(0);
    let table = demo.stdout_text();
    for via in ["chain", "cast"] {
        assert!(
            table
                .lines()
                .any(|line| line.starts_with(via) && line.ends_with("2 of 2")),
            "{table}"
        );
    }
    assert_eq!(namespaces(&prefix), [""; 0]);
    let demo = here(&["lab", "demo", "--mebibytes", "256", "--hosts", "3"]);
    let prefix = format!("ethbcast-demo{}-", demo.pid());
    demo.wait_for_line("via chain");
    assert_eq!(namespaces(&prefix).len(), 4, "three hosts and the switches");
    demo.signal(Signal::SIGINT);
    demo.end(LIMIT)
        .assert_refusal(130, &["interrupted", "taken down"]);
    assert_eq!(namespaces(&prefix), [""; 0]);
    // Other demos may run meanwhile.
    let clean = within(LIMIT, || {
        demo_files()
            .iter()
            .all(|name| before.contains(name))
            .then_some(())
    });
    assert!(clean.is_some(), "{:?}", demo_files());
}
