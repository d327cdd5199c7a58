//! Various names of one host, hosts that share a name, and hosts that did not take part.

use crate::harness::{Ethbcast, LIMIT, Run, Site, one_switch};
use serde_json::Value;
use std::fs;

/// Starts a receiver under another name.
fn called(site: &Site, host: &str, name: &str, options: &[&str]) -> Run {
    let arguments = [&["recv", "-i", "eth0", "--max-wait", "20", "--host", name], options].concat();
    site.start(host, &arguments, site.path(host))
}

fn address(site: &Site, host: &str) -> String {
    let mut command = site.command(host, "cat");
    command.arg("/sys/class/net/eth0/address");
    Run::start(host, command).end(LIMIT).stdout_text().trim().to_owned()
}

fn text<'a>(rows: &'a Value, key: &str) -> Vec<&'a str> {
    rows.as_array().expect("a list").iter().map(|row| row[key].as_str().unwrap_or("-")).collect()
}

#[test]
fn short_and_full_names_of_any_case_are_one_hosts_and_a_file_may_list_them() {
    let site = Site::beside("full", one_switch(3));
    let source = site.file("source", "text");
    let list = site.file("list", "# both\nn1 \n\nn2.cluster.local\n");
    let list = format!("^{}", list.display());
    for hosts in ["n[1-2]", list.as_str()] {
        let receivers =
            [called(&site, "n1", "n1.cluster.local", &[]), called(&site, "n2", "N2", &[])].map(|receiver| {
                receiver.wait_for_line("waiting for a sender");
                receiver
            });
        site.run("n0", &["hosts", "-i", "eth0", "--expect"], hosts).assert_code(0);
        let root = site.run("n0", &["send", "--json", "-i", "eth0", "--max-wait", "10", "--hosts", hosts], &source);
        root.assert_code(0);
        assert_eq!(text(&root.json()["receivers"], "host"), ["N2", "n1.cluster.local"]);
        assert_eq!(root.json()["left_out"], serde_json::json!([]), "both are known");
        for (host, receiver) in ["n1", "n2"].into_iter().zip(receivers) {
            receiver.end(LIMIT).assert_code(0);
            fs::remove_file(site.path(host)).expect("received");
        }
    }
}

#[test]
fn hosts_that_share_a_name_are_named_by_address_and_who_did_not_take_part_is_sent_to_next() {
    let site = Site::beside("shared", one_switch(4));
    let (source, report) = (site.file("source", "text"), site.path("report.json"));
    let report = report.to_str().expect("UTF-8");
    let nodes = ["n1", "n2", "n3"].map(|host| format!("pc@{}", address(&site, host)));
    let send = |options: &[&str]| {
        site.run("n0", &[&["send", "--json", "-i", "eth0", "--report", report], options].concat(), &source)
    };
    let receivers = ["n1", "n2"].map(|host| called(&site, host, "pc", &[]));
    let some = ["--hosts", &nodes.join(","), "--min-receivers", "2", "--max-wait", "3"];
    let root = send(&some);
    root.assert_code(0);
    assert_eq!(text(&root.json()["receivers"], "host"), nodes[..2]);
    assert_eq!(text(&root.json()["left_out"], "host"), nodes[2..]);
    assert_eq!(text(&root.json()["left_out"], "status"), ["absent"]);
    assert!(root.stderr.contains(&format!("{} has not got it", nodes[2])), "{}", root.stderr);
    receivers.into_iter().for_each(|receiver| receiver.end(LIMIT).assert_code(0));
    // Another host of that name is not among those that lack it.
    let line = ["send", "--json", "-i", "eth0", "--report", report, "--only-missing", "--max-wait", "20"];
    let root = site.start("n0", &line, &source);
    let other = called(&site, "n1", "pc", &["--once", "--force"]);
    root.wait_for_line(&format!("pc ({}) turned away: ", address(&site, "n1")));
    called(&site, "n3", "pc", &[]).end(LIMIT).assert_code(0);
    let root = root.end(LIMIT);
    root.assert_code(0);
    assert_eq!(text(&root.json()["receivers"], "host"), nodes[2..]);
    other.end(LIMIT).assert_code(2);
    send(&["--only-missing"]).assert_code(0);
}
