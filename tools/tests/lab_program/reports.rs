//! The reports of `send --report`, as an object and as a page.

use crate::faults::{half_way, slow};
use crate::harness::{LIMIT, Site, Transfer, content, ended_here, one_switch, scratch};
use ethbcast_lab::LabConfig;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;

/// Returns the numbers of a list.
#[track_caller]
fn numbers(list: &Value) -> Vec<f64> {
    let list = list.as_array().unwrap_or_else(|| panic!("{list} is no list"));
    list.iter().map(|one| one.as_f64().unwrap_or_else(|| panic!("{one} is no number"))).collect()
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
    assert_eq!((&run["root"], &run["interface"], &run["plan"]["via"]), (&"n0".into(), &"eth0".into(), &"chain".into()));
    let words = run["command"].as_array().expect("a list");
    assert!(["send", "--json", "--via", "chain"].iter().all(|word| words.iter().any(|other| other == word)), "{run}");
    assert_eq!(run["plan"]["edges"][0], serde_json::json!({ "from": "n0", "to": "n1", "order": 0 }));
    let seconds = numbers(&timeline["seconds"]);
    assert!(seconds.len() >= 5 && seconds.is_sorted(), "{seconds:?}");
    let end = report["seconds"].as_f64().expect("a number");
    assert!((seconds[seconds.len() - 1] - end).abs() < 0.1 * end, "{seconds:?} ends at {end}");
    for track in timeline["receivers"].as_array().expect("a list") {
        let bytes = numbers(&track["bytes"]);
        let states = track["states"].as_str().expect("letters");
        assert_eq!((bytes.len(), states.len()), (seconds.len(), seconds.len()), "{track}");
        assert!(bytes.is_sorted(), "{track}");
        let is_dead = track["host"] == "n2";
        assert_eq!(bytes[bytes.len() - 1] == report["bytes"].as_f64().expect("a number"), !is_dead, "{track}");
        assert_eq!(states.ends_with('-'), is_dead, "{track}");
        let half = bytes[bytes.len() / 2];
        assert!(half > 0.0, "nothing was seen on its way: {track}");
    }
    let incident = &timeline["incidents"][0];
    assert_eq!((&incident["kind"], &incident["hosts"][0]), (&"failed".into(), &"n2".into()), "{timeline}");
    let file = scratch();
    let path = file.path().join("run.json");
    fs::write(&path, report.to_string()).expect("written");
    let page = ended_here(&["report", path.to_str().expect("a path in UTF-8")]);
    page.assert_code(0);
    let page = page.stdout_text();
    assert!(page.contains("1 of 3 receivers have not got the bytes") && page.contains("✕ died"), "{page}");
    assert!(page.contains("Limited by </strong>"), "{page}");
    outcome.forget_dead("n2");
}

#[test]
fn a_report_names_the_cable_that_lost_frames_and_says_how_many_came_again_at_each_host() {
    let site = Site::beside("lossycable", LabConfig { rate_bits_per_second: Some(100_000_000), ..one_switch(4) });
    site.lab().set_loss("n2", 0.05).expect("a host of this lab");
    let outcome = Transfer::new(&site, content(9, 3_000_000)).via("cast").start().end(LIMIT);
    outcome.assert_verified();
    let report = outcome.root.json();
    let loss = |receiver: &Value| {
        let count = |name: &str| receiver[name].as_f64().unwrap_or_else(|| panic!("no {name}: {receiver}"));
        assert!(count("frames") >= 2000.0, "{receiver}");
        count("repaired_frames") / count("frames")
    };
    let receivers = report["receivers"].as_array().expect("a list");
    let (lossy, sound): (Vec<_>, Vec<_>) = receivers.iter().partition(|receiver| receiver["host"] == "n2");
    let most = loss(lossy[0]);
    assert!((0.025..0.5).contains(&most), "{report}");
    assert!(sound.into_iter().all(|receiver| loss(receiver) < most / 2.0), "{report}");
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
    let outcome = Transfer::new(&site, content(9, 300_000)).send_option("--report").send_option(&page).start();
    outcome.end(LIMIT).assert_verified();
    let text = fs::read_to_string(&page).expect("written");
    assert!(text.starts_with("<!DOCTYPE html>") && text.contains("all 2 receivers have verified"), "{text}");
    assert!(["source.bin to 2 hosts", ">n1<", ">n2<", "--report"].iter().all(|part| text.contains(part)), "{text}");
}
