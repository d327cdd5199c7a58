//! `ethbcast hosts`: the list of receivers.

use crate::{ethbcast, send, serve, wait_for_file};
use ethbcast_tests::lab::{Ended, LIMIT, Run, Site, one_switch, within};
use nix::sys::signal::Signal;
use serde_json::Value;

fn hosts(site: &Site, options: &[&str]) -> Ended {
    Run::start("n0", ethbcast(site, "n0", &[&["hosts", "-i", "eth0"], options].concat())).end(LIMIT)
}

/// Returns host, group, state and last outcome of each line.
fn rows(ended: &Ended) -> Vec<(String, String, String, String)> {
    let report = ended.json();
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let row =
        |row: &Value| (text(&row["host"]), text(&row["group"]), text(&row["state"]), text(&row["last"]["status"]));
    report["hosts"].as_array().expect("a list").iter().map(row).collect()
}

fn row(host: &str, group: &str, state: &str, last: &str) -> (String, String, String, String) {
    (host.to_owned(), group.to_owned(), state.to_owned(), last.to_owned())
}

#[test]
fn everybody_who_listens_is_listed_with_group_state_and_last_session() {
    let site = Site::beside("hosts", one_switch(4));
    hosts(&site, &["--wait", "0.3"]).assert_refusal(3, &["nobody listens", "recv --serve", "[E-NOBODY]"]);
    let dir = site.directory("dest");
    let server = serve(&site, "n1", &["--allow-group", "a,b"], &dir);
    let receiver = Run::start("n2", ethbcast(&site, "n2", &["recv", "-i", "eth0", "-g", "c", "/dev/null/x"]));
    receiver.end(LIMIT).assert_code(4);
    let other = site.path("other");
    let mut receiver = ethbcast(&site, "n2", &["recv", "-i", "eth0", "-g", "c"]);
    receiver.arg(&other);
    let receiver = Run::start("n2", receiver);
    receiver.wait_for_line("waiting for a sender of group c");
    let waiting = |host, group| row(host, group, "waiting", "-");
    let ended = hosts(&site, &["--json"]);
    ended.assert_code(0);
    assert_eq!(rows(&ended), [waiting("n1", "a"), waiting("n1", "b"), waiting("n2", "c")]);
    assert!(
        ended.json()["hosts"][0]["free_bytes"].is_u64() && ended.json()["hosts"][0]["mtu"] == 1500,
        "{}",
        ended.json()
    );
    assert_eq!(rows(&hosts(&site, &["--json", "-g", "c"])), [waiting("n2", "c")]);
    // One host is in a session, another has finished one.
    let file = site.file("file", "bytes");
    send(&site, "b", "1", &[], &file).end(LIMIT).assert_code(0);
    wait_for_file(&dir.join("file"), b"bytes");
    let running = send(
        &site,
        "a",
        "1",
        &["--size", "1048576", "--pipe", "head -c 700K /dev/zero; sleep 10; head -c 324K /dev/zero"],
        "-q",
    );
    server.wait_for_line("group a: n0 offers");
    let is_in = || {
        let ended = hosts(&site, &["--json", "-g", "a"]);
        (rows(&ended) == [row("n1", "a", "receiving", "-")]).then(|| ended.json()["hosts"][0].clone())
    };
    let seen = ethbcast_tests::lab::within(LIMIT, is_in).expect("it receives for seconds");
    assert!(seen["size"] == 1 << 20 && seen["bytes"].as_u64().is_some_and(|bytes| bytes <= 1 << 20), "{seen}");
    running.end(LIMIT).assert_code(0);
    let topology = site.file("t.toml", "schema = 1\n[[switch]]\nname = \"rack7\"\nhosts = \"n[0-3]\"\n");
    let ended = hosts(&site, &["--topology", topology.to_str().expect("UTF-8"), "--expect", "n[1-3]"]);
    ended.assert_code(1);
    assert!(ended.stderr.contains("not there: n3"), "{}", ended.stderr);
    let text = ended.stdout_text();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() == 4 && lines[0].starts_with("HOST  GROUP"), "{text}");
    assert!(lines[2].contains("n1") && lines[2].contains("rack7") && lines[2].contains("has file, "), "{text}");
    for run in [server, receiver] {
        run.signal(Signal::SIGTERM);
        run.end(LIMIT);
    }
}

#[test]
fn a_list_that_is_watched_forgets_who_has_gone_and_ends_with_its_user() {
    let site = Site::beside("watch", one_switch(3));
    let dir = site.directory("dest");
    let servers = ["n1", "n2"].map(|host| serve(&site, host, &[], &dir));
    let mut command = ethbcast(&site, "n0", &["hosts", "-i", "eth0", "--watch", "--json", "--wait", "0.3"]);
    command.stderr(std::process::Stdio::inherit());
    let watch = Run::start("n0", command);
    // Number of hosts in the last list.
    let listed = || {
        let said = watch.stdout();
        let last = said.lines().rev().find_map(|line| serde_json::from_str::<Value>(line).ok())?;
        last["hosts"].as_array().map(Vec::len)
    };
    let wait_for = |count: usize| within(LIMIT, || (listed() == Some(count)).then_some(()));
    assert!(wait_for(2).is_some(), "both were never there: {}", watch.stdout());
    let [one, two] = servers;
    two.signal(Signal::SIGTERM);
    two.end(LIMIT).assert_code(0);
    assert!(wait_for(1).is_some(), "it was never forgotten: {}", watch.stdout());
    watch.signal(Signal::SIGINT);
    watch.end(LIMIT).assert_code(0);
    one.signal(Signal::SIGTERM);
    one.end(LIMIT).assert_code(0);
}
