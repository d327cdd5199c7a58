//! Output on stdout and stderr.

use crate::harness::{Ethbcast, LIMIT, MEBIBYTE, Site, Transfer, content, one_switch};
use ethbcast_lab::LabConfig;

#[test]
fn stdout_has_the_report_alone_and_stderr_no_bar_when_it_is_no_terminal() {
    let site = Site::beside("print", LabConfig { rate_bits_per_second: Some(100_000_000), ..one_switch(3) });
    // Long enough for several redraws of a progress bar, if there were one.
    let outcome = Transfer::new(&site, content(3, 16 * MEBIBYTE)).run();
    outcome.assert_verified();
    for (name, stderr) in [("n0", &outcome.root.stderr), ("n1", &outcome.receiver("n1").stderr)] {
        assert!(!stderr.contains(['\r', '\u{1b}']), "{name} draws: {stderr:?}");
        assert!(stderr.lines().count() < 10, "{name} says too much: {stderr}");
    }
    let source = site.file("source", "text");
    let receivers = ["n1", "n2"].map(|host| site.start(host, &["recv", "-i", "eth0"], site.path(host)));
    let root = site.run("n0", &["send", "-i", "eth0", "-n", "2"], &source);
    let report = root.stdout_text();
    let lines: Vec<_> = report.lines().collect();
    assert!(
        lines.len() == 5 && lines[0].starts_with("n1 ") && lines[1].starts_with("n2 "),
        "a line for each receiver: {report}"
    );
    assert!(lines[2].starts_with("2 of 2 receivers verified"), "and a total: {report}");
    assert!(lines[3].contains("predicted"), "and why it went this way: {report}");
    assert!(lines[4].starts_with("limited by: "), "and what limited it: {report}");
    for receiver in receivers {
        let ended = receiver.end(LIMIT);
        assert!(ended.stdout_text().lines().count() == 1 && ended.stdout_text().contains("verified"), "{ended:?}");
    }
    let receiver = site.start("n1", &["recv", "--quiet", "-i", "eth0", "--force"], site.path("n1"));
    let root = site.run("n0", &["send", "-n", "1", "--quiet", "-i", "eth0"], &source);
    for ended in [root, receiver.end(LIMIT)] {
        ended.assert_code(0);
        assert_eq!((ended.stdout_text().as_str(), ended.stderr.as_str()), ("", ""), "quiet is quiet");
    }
}
