//! Consecutive and concurrent sessions, and failing ones.

use crate::{send, serve, wait_for_file};
use ethbcast_lab::LabConfig;
use ethbcast_tests::lab::{LIMIT, Site, content, names_in, one_switch, shown_in};
use nix::sys::signal::Signal;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

#[test]
fn one_session_after_another_and_those_of_several_groups_at_once() {
    let site = Site::beside("serve", one_switch(3));
    let dirs = ["d1", "d2"].map(|name| site.directory(name));
    let servers = ["n1", "n2"].map(|host| {
        let dir = if host == "n1" { &dirs[0] } else { &dirs[1] };
        serve(&site, host, &["--allow-group", "red,blue"], dir)
    });
    let files: Vec<_> = (0..6_u64).map(|number| (format!("f{number}"), content(number, 300_000))).collect();
    let paths: Vec<_> = files.iter().map(|(name, bytes)| site.file(name, bytes)).collect();
    for path in &paths[..3] {
        send(&site, "red", "2", &[], path).end(LIMIT).assert_code(0);
    }
    let red = send(&site, "red", "2", &["--via", "chain"], &paths[3]);
    let blue = send(&site, "blue", "2", &["--via", "cast"], &paths[4]);
    for run in [red, blue] {
        run.end(LIMIT).assert_code(0);
    }
    send(&site, "blue", "2", &[], &paths[5]).end(LIMIT).assert_code(0);
    for (dir, server) in dirs.iter().zip(servers) {
        files.iter().for_each(|(name, bytes)| wait_for_file(&dir.join(name), bytes));
        server.signal(Signal::SIGTERM);
        let ended = server.end(LIMIT);
        ended.assert_code(0);
        assert_eq!(ended.stdout_text().lines().count(), 6, "{}", ended.stdout_text());
        let is_of_last = |line: &str| line.starts_with("blue: ") && line.contains("/f5: 292.97 KiB verified");
        assert!(ended.stdout_text().lines().any(is_of_last), "{}", ended.stdout_text());
        assert!(ended.stderr.contains("0 sessions are cut off"), "{}", ended.stderr);
        assert_eq!(names_in(dir).len(), 6, "{:?}", names_in(dir));
    }
}

#[test]
fn more_sessions_than_there_may_be_wait_and_are_had_when_one_is_over() {
    let site = Site::beside("most", one_switch(2));
    let dir = site.directory("dest");
    let server = serve(&site, "n1", &["--allow-group", "a,b", "--max-sessions", "1", "--json"], &dir);
    let first = send(&site, "a", "1", &["--size", "4194304", "--pipe", "sleep 8; head -c 4M /dev/zero"], "--quiet");
    server.wait_for_line("group a: n0 offers");
    let small = site.file("small", "small");
    let second = send(&site, "b", "1", &[], &small);
    server.wait_for_line("group b: a sender invites, and waits: 1 sessions run");
    first.end(LIMIT).assert_code(0);
    second.end(LIMIT).assert_code(0);
    wait_for_file(&dir.join("small"), b"small");
    server.signal(Signal::SIGINT);
    let ended = server.end(LIMIT);
    ended.assert_code(0);
    let lines: Vec<serde_json::Value> =
        ended.stdout_text().lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    let groups: Vec<_> = lines.iter().map(|line| (line["group"].as_str(), line["status"].as_str())).collect();
    assert_eq!(groups, [(Some("a"), Some("verified")), (Some("b"), Some("verified"))]);
}

#[test]
fn a_session_that_fails_is_named_and_the_next_one_is_had() {
    let site = Site::beside("fails", one_switch(2));
    let dir = site.directory("dest");
    fs::write(dir.join("there"), "old").expect("written");
    let note = site.path("note");
    let exec = format!("echo $ETHBCAST_GROUP $ETHBCAST_SOURCE >> {}; exit 3", note.display());
    let server = serve(&site, "n1", &["--exec", &exec], &dir);
    let (there, new) = (site.file("there", "new"), site.file("new", "new"));
    send(&site, "ethbcast", "1", &[], &there).end(LIMIT).assert_code(1);
    server.wait_for_line("there was not received: DEST");
    // A directory that would replace the served one.
    let tree = site.directory("tree");
    fs::write(tree.join("file"), "in a tree").expect("written");
    send(&site, "ethbcast", "1", &[], format!("{}/", tree.display())).end(LIMIT).assert_code(1);
    server.wait_for_line("n0 offers the content of tree/, ");
    server.wait_for_line("the content of tree/ was not received: ");
    server.wait_for_line("which is served: send DIR and not DIR/");
    send(&site, "ethbcast", "1", &[], &tree).end(LIMIT).assert_code(0);
    send(&site, "ethbcast", "1", &[], &new).end(LIMIT).assert_code(0);
    server.wait_for_lines(2, "all was delivered, but");
    server.signal(Signal::SIGTERM);
    server.end(LIMIT).assert_code(0);
    assert_eq!(fs::read_to_string(dir.join("there")).expect("there"), "old");
    assert_eq!(fs::read_to_string(dir.join("tree/file")).expect("there"), "in a tree");
    assert_eq!(fs::read_to_string(note).expect("it ran"), "ethbcast tree\nethbcast new\n");
    assert_eq!(shown_in(&dir), ["new", "there", "tree"]);
}

#[test]
fn a_session_that_this_host_has_had_goes_on_for_others_without_it() {
    let site = Site::beside("had", one_switch(3));
    let dir = site.directory("dest");
    let server = serve(&site, "n1", &["--force"], &dir);
    // A slow reader keeps the sender running, so that a late receiver can join after n1 has
    // everything.
    let mut slow = crate::ethbcast(&site, "n2", &["recv", "-i", "eth0", "--pipe", "sleep 3; cat > /dev/null"]);
    slow.stdout(std::process::Stdio::null());
    let slow = ethbcast_tests::lab::Run::start("n2", slow);
    let bytes = content(3, 6_000_000);
    let file = site.file("file", &bytes);
    let root = send(&site, "ethbcast", "2", &["--late", "--json", "--via", "cast"], &file);
    let root = root.end(LIMIT);
    slow.end(LIMIT).assert_code(0);
    root.assert_code(0);
    wait_for_file(&dir.join("file"), &bytes);
    server.signal(Signal::SIGTERM);
    let ended = server.end(LIMIT);
    ended.assert_code(0);
    assert_eq!(ended.stdout_text().lines().count(), 1, "{}\n{}", ended.stdout_text(), ended.stderr);
    assert_eq!(root.json()["receivers"].as_array().map(Vec::len), Some(2), "{}", root.json());
}

#[test]
fn a_server_takes_part_with_the_mtu_that_its_interface_has_by_then() {
    let site = Site::beside("servemtu", LabConfig { mtu_bytes: 9000, ..one_switch(2) });
    let dir = site.directory("dest");
    site.set_up("n1", "ip", &["link", "set", "eth0", "mtu", "1500"]);
    let server = serve(&site, "n1", &["--allow-group", "a"], &dir);
    site.set_up("n1", "ip", &["link", "set", "eth0", "mtu", "9000"]);
    let file = site.file("file", "text");
    send(&site, "a", "1", &["--max-wait", "30"], &file).end(LIMIT).assert_code(0);
    wait_for_file(&dir.join("file"), b"text");
    server.signal(Signal::SIGTERM);
    server.end(LIMIT).assert_code(0);
}

#[test]
fn who_sends_to_a_receiver_that_stays_decides_about_no_privileges() {
    let site = Site::beside("privileges", one_switch(2));
    let (dir, tree) = (site.directory("dir"), site.directory("tree"));
    fs::write(tree.join("file"), "text").expect("room");
    std::os::unix::fs::chown(tree.join("file"), Some(12), Some(12)).expect("root may");
    fs::set_permissions(tree.join("file"), fs::Permissions::from_mode(0o4755)).expect("ours");
    let server = serve(&site, "n1", &["--json"], &dir);
    send(&site, "ethbcast", "1", &["--owner"], &tree).end(LIMIT).assert_code(0);
    wait_for_file(&dir.join("tree/file"), b"text");
    server.signal(Signal::SIGTERM);
    let ended = server.end(LIMIT);
    let there = fs::metadata(dir.join("tree/file")).expect("there");
    assert_eq!((there.uid(), there.mode() & 0o7777), (0, 0o755));
    assert!(
        ended.stderr.contains("2 owners of files and directories were left out: --accept owner"),
        "{}",
        ended.stderr
    );
    assert_eq!(ended.json()["not_accepted"]["setid"], 1);
}
