//! `ethbcast report`: the page of a report, including hostile ones.

use super::ended_here;
use ethbcast_tests::lab::{Ended, scratch};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Limit on the page of 100 hosts, in bytes.
const MAX_BYTES: usize = 500_000;
/// Names that would be harmful without escaping.
const HOSTILE: [&str; 7] = [
    "<script>alert(1)</script>",
    "\"><svg onload=alert(1)>",
    "n1' style='background:url(https://example.org)",
    "&amp;&lt;b&gt;]]>",
    "n\u{202E}1\u{7}\n2",
    "</title></style><iframe src=//example.org>",
    "\u{FFFF}\u{0}",
];

/// Creates the report of a run to these hosts with the maximum number of samples; the last host has
/// died.
fn run_of(hosts: &[String]) -> Value {
    let (bytes, seconds) = (1_u64 << 30, 20.0);
    let moments: Vec<f64> = (1..=200).map(|at| f64::from(at) * 0.1).collect();
    let died = hosts.len() - 1;
    let receivers = hosts.iter().enumerate().map(|(at, host)| {
        let status = if at == died { "died" } else { "verified" };
        json!({ "host": host, "rank": at + 1, "status": status, "bytes": if at == died { 0 } else { bytes },
                "seconds": if at == died { 11.0 } else { 19.0 + at as f64 / 100.0 }, "reason": host })
    });
    // No points on a straight line, so that all are drawn.
    let track = |(at, host): (usize, &String)| {
        let wiggle = |moment: usize| (moment * 7919 + at * 104_729) % 997 * 4000;
        let there: Vec<u64> = (1..=200).map(|moment| (moment * 5_000_000 + wiggle(moment)) as u64).collect();
        json!({ "host": host, "bytes": there, "states": "a".repeat(200) })
    };
    let chain = std::iter::once("n0").chain(hosts.iter().map(String::as_str)).collect::<Vec<_>>();
    let edges: Vec<Value> = chain.windows(2).map(|two| json!({ "from": two[0], "to": two[1], "order": 0 })).collect();
    json!({
        "schema": 1, "session": "0000002a", "bytes": bytes, "seconds": seconds, "total_seconds": 21.0,
        "goodput_bits_per_second": 4.3e8, "blake3": "ab", "via": "chain", "predicted_seconds": 18.0,
        "reason": hosts[0], "surprise": hosts[0], "segment_bytes": 1468,
        "frames": { "data_sent": 700_000, "data_resent": 70, "control_sent": 1, "control_received": 2 },
        "receivers": receivers.collect::<Vec<_>>(),
        "damaged": [{ "at": 0, "bytes": 65536, "from": hosts[0], "to": [hosts[1]] }],
        "left_out": [{ "host": hosts[0], "reason": hosts[1] }],
        "run": {
            "version": "0.1.0", "command": ["ethbcast", "send", hosts[0]], "began": "2026-01-01T00:00:00Z",
            "source": hosts[0], "group": hosts[0], "root": "n0", "interface": "eth0", "mtu_bytes": 1500,
            "topology": null, "plan": { "via": "chain", "hosts": chain, "edges": edges },
            "candidates": [
                { "via": "chain", "predicted_seconds": 18.0 }, { "via": hosts[0], "predicted_seconds": 19.0 },
            ],
            "timeline": {
                "seconds": moments, "sent_bytes": vec![bytes; 200], "resent_frames": vec![0; 200],
                "receivers": hosts.iter().enumerate().map(track).collect::<Vec<_>>(),
                "incidents": [{ "seconds": 11.0, "kind": "failed", "hosts": [hosts[died]], "text": hosts[0] }],
            },
        },
    })
}

fn hostile_hosts(count: usize) -> Vec<String> {
    (0..count).map(|at| format!("{}{at}", HOSTILE[at % HOSTILE.len()])).collect()
}

/// Runs `ethbcast report` on this text.
fn ended_with(directory: &Path, text: &str) -> Ended {
    let file = directory.join("run.json");
    fs::write(&file, text).expect("written");
    ended_here(&["report", file.to_str().expect("a path in UTF-8")])
}

fn page_of(report: &Value) -> String {
    let directory = scratch();
    let ended = ended_with(directory.path(), &report.to_string());
    ended.assert_code(0);
    ended.stdout_text()
}

/// Parses the pictures of a page as XML.
fn pictures(page: &str) -> Vec<roxmltree::Document<'_>> {
    let parts = page.split("<svg").skip(1).map(|part| {
        let end = part.find("</svg>").expect("a picture ends") + "</svg>".len();
        let at = part.as_ptr() as usize - page.as_ptr() as usize - "<svg".len();
        &page[at..at + "<svg".len() + end]
    });
    parts.map(|text| roxmltree::Document::parse(text).unwrap_or_else(|error| panic!("{error}: {text}"))).collect()
}

#[test]
fn a_page_of_100_hosts_is_small_asks_for_nothing_and_names_all() {
    let hosts: Vec<String> = (1..=100).map(|at| format!("node-{at}.cluster")).collect();
    let page = page_of(&run_of(&hosts));
    assert!(page.len() <= MAX_BYTES, "{} bytes", page.len());
    for host in &hosts {
        assert!(page.matches(&format!(">{host}<")).count() >= 3, "{host}: in the course, the plan and the table");
    }
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("default-src 'none'"));
    let outside = ["http:", "https:", "src=", "href=", "@import", "<script", "<link", "javascript:"];
    let without_names = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    assert_eq!(outside.map(|word| without_names.matches(word).count()), [0; 8]);
    assert_eq!(page.matches("url(").count(), page.matches("url(#head)").count());
    let pictures = pictures(&page);
    // All together, each host, the plan, and the four signs of its legend.
    assert_eq!(pictures.len(), 106);
    let points = |picture: &roxmltree::Document<'_>| {
        let paths = picture.descendants().filter_map(|node| node.attribute("d")).map(|path| path.matches('L').count());
        paths.max().unwrap_or_default()
    };
    assert!(points(&pictures[1]) > 150, "the course of a host is drawn: {}", points(&pictures[1]));
}

#[test]
fn no_name_and_no_text_is_anything_but_text() {
    let page = page_of(&run_of(&hostile_hosts(21)));
    for forbidden in ["<script", "<iframe", "onload=alert(1)>", "]]>", "\u{202E}", "\u{7}", "\u{0}", "\u{FFFF}"] {
        assert!(!page.contains(forbidden), "{forbidden:?}");
    }
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;0"), "it is shown as it is");
    assert!(page.contains("n\u{FFFD}1\u{FFFD}\u{FFFD}24"), "what is not seen is replaced");
    assert_eq!(page.matches("</title>").count(), page.matches("<title>").count());
    let tags = page.split('<').skip(1).filter_map(|part| part.split_once('>')).map(|(tag, _)| tag);
    assert_eq!(tags.filter(|tag| tag.contains("example.org")).count(), 0, "a name is in no tag");
    let pictures = pictures(&page);
    assert_eq!(pictures.len(), 27);
    let elements = pictures.iter().flat_map(|picture| picture.descendants()).filter(roxmltree::Node::is_element);
    let known = ["svg", "title", "path", "rect", "g", "text", "defs", "marker"];
    let mut names: Vec<String> = elements.map(|element| element.tag_name().name().to_owned()).collect();
    names.retain(|name| !known.contains(&name.as_str()));
    assert_eq!(names, [""; 0]);
}

#[test]
fn what_is_no_report_of_this_version_is_refused_by_name() {
    let directory = scratch();
    let refused = |text: &str, parts: &[&str]| ended_with(directory.path(), text).assert_refusal(2, parts);
    refused(r#"{"schema":2,"receivers":[{"host":"n1"}]}"#, &["run.json is a report of version 2", "reads version 1"]);
    refused("{}", &["names no schema", "send --report run.json"]);
    refused("no json", &["is no report of `send`"]);
    refused(r#"{"schema":1,"error":"nobody","exit_code":3}"#, &["names no receivers"]);
    refused(r#"{"schema":1,"receivers":[]}"#, &["without receivers"]);
    refused(r#"{"schema":1,"receivers":[{"host":3}]}"#, &["is no report of `send`"]);
    ended_here(&["report", "/nowhere/run.json"]).assert_refusal(4, &["/nowhere/run.json"]);
    let page = ["send", "--report", "run.html", "--only-missing", "-i", "lo", "source"];
    ended_here(&page).assert_refusal(2, &["a page is for people", "ethbcast report run.json"]);
}

#[test]
fn numbers_and_plans_that_cannot_be_draw_no_page_that_breaks() {
    let hosts: Vec<String> = (1..=3).map(|at| format!("n{at}")).collect();
    let good = run_of(&hosts);
    let changes: [(&str, Value); 11] = [
        ("/seconds", json!(-1.0)),
        ("/seconds", json!(1e300)),
        ("/bytes", json!(u64::MAX)),
        ("/receivers/0/seconds", json!(-1e300)),
        ("/run/timeline/seconds", json!([3.0, 1.0, -2.0, 1e300])),
        ("/run/timeline/receivers/0/bytes", json!([u64::MAX, 0, u64::MAX])),
        ("/run/timeline/receivers/0/states", json!("ä")),
        ("/run/plan/edges/0/to", json!("n0")),
        ("/run/plan/hosts", json!([])),
        ("/run/plan/via", json!("scatter-allgather")),
        ("/run/topology", json!("schema = 1\n[[switch]]\nname = \"s0\"\nhosts = \"m[1-9]\"\n")),
    ];
    for (at, value) in changes {
        let mut report = good.clone();
        *report.pointer_mut(at).expect("it is there") = value;
        let page = page_of(&report);
        assert!(page.contains("</html>") && !page.contains("NaN") && !page.contains("inf "), "{at}");
        assert!(pictures(&page).len() >= 4, "{at}");
    }
    let mut earlier = good;
    earlier.as_object_mut().expect("an object").remove("run");
    assert!(page_of(&earlier).contains("of an earlier ethbcast"));
}

#[test]
fn a_page_goes_into_a_file_that_can_be_written() {
    let directory = scratch();
    let report = directory.path().join("run.json");
    fs::write(&report, run_of(&["n1".to_owned(), "n2".to_owned()]).to_string()).expect("written");
    let page: PathBuf = directory.path().join("run.html");
    let text = |path: &Path| path.to_str().expect("a path in UTF-8").to_owned();
    let ended = ended_here(&["report", &text(&report), "--out", &text(&page)]);
    ended.assert_code(0);
    assert!(ended.stdout_text().is_empty() && fs::read_to_string(&page).expect("written").contains("</html>"));
    ended_here(&["report", &text(&report), "--out", "/nowhere/run.html"]).assert_refusal(4, &["/nowhere/run.html"]);
}
