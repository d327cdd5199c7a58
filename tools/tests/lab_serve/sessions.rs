//! Tests of transfers to receivers that run as daemons, by `send` and `cp`, and of `ethbcast
//! hosts`.

use super::{ethbcast, send, serve, wait_for_file};
use ethbcast_lab::LabConfig;
use ethbcast_tests::lab::{
    Ended, LIMIT, Run, Site, content, names_in, one_switch, shown_in, within,
};
use nix::sys::signal::Signal;
use serde_json::Value;
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
    let files: Vec<_> = (0..6_u64)
        .map(|number| (format!("f{number}"), content(number, 300_000)))
        .collect();
    let paths: Vec<_> = files
        .iter()
        .map(|(name, bytes)| site.file(name, bytes))
        .collect();
    for path in &paths[..3] {
        send(&site, "red", "2", &[], path).end(LIMIT).assert_code(0);
    }
    let red = send(&site, "red", "2", &["--via", "chain"], &paths[3]);
    let blue = send(&site, "blue", "2", &["--via", "cast"], &paths[4]);
    for run in [red, blue] {
        run.end(LIMIT).assert_code(0);
    }
    send(&site, "blue", "2", &[], &paths[5])
        .end(LIMIT)
        .assert_code(0);
    for (dir, server) in dirs.iter().zip(servers) {
        files
            .iter()
            .for_each(|(name, bytes)| wait_for_file(&dir.join(name), bytes));
        server.signal(Signal::SIGTERM);
        let ended = server.end(LIMIT);
        ended.assert_code(0);
        assert_eq!(
            ended.stdout_text().lines().count(),
            6,
            "{}",
            ended.stdout_text()
        );
        let is_of_last =
            |line: &str| line.starts_with("blue: ") && line.contains("/f5: 292.97 KiB verified");
        assert!(
            ended.stdout_text().lines().any(is_of_last),
            "{}",
            ended.stdout_text()
        );
        assert!(
            ended.stderr.contains("0 sessions are cut off"),
            "{}",
            ended.stderr
        );
        assert_eq!(names_in(dir).len(), 6, "{:?}", names_in(dir));
    }
}

#[test]
fn more_sessions_than_there_may_be_wait_and_are_had_when_one_is_over() {
    let site = Site::beside("most", one_switch(2));
    let dir = site.directory("dest");
    let server = serve(
        &site,
        "n1",
        &["--allow-group", "a,b", "--max-sessions", "1", "--json"],
        &dir,
    );
    let first = send(
        &site,
        "a",
        "1",
        &[
            "--size",
            "4194304",
            "--pipe",
            "sleep 8; head -c 4M /dev/zero",
        ],
        "--quiet",
    );
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
    let lines: Vec<serde_json::Value> = ended
        .stdout_text()
        .lines()
        .map(|line| serde_json::from_str(line).expect("an object"))
        .collect();
    let groups: Vec<_> = lines
        .iter()
        .map(|line| (line["group"].as_str(), line["status"].as_str()))
        .collect();
    assert_eq!(
        groups,
        [(Some("a"), Some("verified")), (Some("b"), Some("verified"))]
    );
}

#[test]
fn a_session_that_fails_is_named_and_the_next_one_is_had() {
    let site = Site::beside("fails", one_switch(2));
    let dir = site.directory("dest");
    fs::write(dir.join("there"), "old").expect("written");
    let note = site.path("note");
    let exec = format!(
        "echo $ETHBCAST_GROUP $ETHBCAST_SOURCE >> {}; exit 3",
        note.display()
    );
    let server = serve(&site, "n1", &["--exec", &exec], &dir);
    let (there, new) = (site.file("there", "new"), site.file("new", "new"));
    let refused = send(&site, "ethbcast", "1", &["--max-wait", "3"], &there).end(LIMIT);
    refused.assert_refusal(3, &["n1 says: DEST", "exists", "[E-DEST]"]);
    server.wait_for_line("there was not received: DEST");
    // A directory that would replace the served one.
    let tree = site.directory("tree");
    fs::write(tree.join("file"), "in a tree").expect("written");
    let content = format!("{}/", tree.display());
    let refused = send(&site, "ethbcast", "1", &["--max-wait", "3"], content).end(LIMIT);
    refused.assert_refusal(3, &["which is served: send DIR and not DIR/", "[E-DEST]"]);
    server.wait_for_line("n0 offers the content of tree/, ");
    server.wait_for_line("the content of tree/ was not received: ");
    server.wait_for_line("which is served: send DIR and not DIR/");
    send(&site, "ethbcast", "1", &[], &tree)
        .end(LIMIT)
        .assert_code(0);
    send(&site, "ethbcast", "1", &[], &new)
        .end(LIMIT)
        .assert_code(0);
    server.wait_for_lines(2, "all was delivered, but");
    server.signal(Signal::SIGTERM);
    server.end(LIMIT).assert_code(0);
    assert_eq!(fs::read_to_string(dir.join("there")).expect("there"), "old");
    assert_eq!(
        fs::read_to_string(dir.join("tree/file")).expect("there"),
        "in a tree"
    );
    assert_eq!(
        fs::read_to_string(note).expect("it ran"),
        "ethbcast tree\nethbcast new\n"
    );
    assert_eq!(shown_in(&dir), ["new", "there", "tree"]);
}

#[test]
fn a_session_that_this_host_has_had_goes_on_for_others_without_it() {
    let site = Site::beside("had", one_switch(3));
    let dir = site.directory("dest");
    let server = serve(&site, "n1", &["--force"], &dir);
    // A slow reader keeps the sender running, so that a late receiver can join after n1 has
    // everything.
    let mut slow = super::ethbcast(
        &site,
        "n2",
        &["recv", "-i", "eth0", "--pipe", "sleep 3; cat > /dev/null"],
    );
    slow.stdout(std::process::Stdio::null());
    let slow = ethbcast_tests::lab::Run::start("n2", slow);
    let bytes = content(3, 6_000_000);
    let file = site.file("file", &bytes);
    let root = send(
        &site,
        "ethbcast",
        "2",
        &["--late", "--json", "--via", "cast"],
        &file,
    );
    let root = root.end(LIMIT);
    slow.end(LIMIT).assert_code(0);
    root.assert_code(0);
    wait_for_file(&dir.join("file"), &bytes);
    server.signal(Signal::SIGTERM);
    let ended = server.end(LIMIT);
    ended.assert_code(0);
    assert_eq!(
        ended.stdout_text().lines().count(),
        1,
        "{}\n{}",
        ended.stdout_text(),
        ended.stderr
    );
    assert_eq!(
        root.json()["receivers"].as_array().map(Vec::len),
        Some(2),
        "{}",
        root.json()
    );
}

#[test]
fn a_server_takes_part_with_the_mtu_that_its_interface_has_by_then() {
    let site = Site::beside(
        "servemtu",
        LabConfig {
            mtu_bytes: 9000,
            ..one_switch(2)
        },
    );
    let dir = site.directory("dest");
    site.set_up("n1", "ip", &["link", "set", "eth0", "mtu", "1500"]);
    let server = serve(&site, "n1", &["--allow-group", "a"], &dir);
    site.set_up("n1", "ip", &["link", "set", "eth0", "mtu", "9000"]);
    let file = site.file("file", "text");
    send(&site, "a", "1", &["--max-wait", "30"], &file)
        .end(LIMIT)
        .assert_code(0);
    wait_for_file(&dir.join("file"), b"text");
    server.signal(Signal::SIGTERM);
    server.end(LIMIT).assert_code(0);
}

/// Number of consecutive sessions; `ETHBCAST_SESSIONS` sets more.
const SESSIONS: usize = 40;
/// Permitted growth of the memory, in KiB.
const DRIFT_KIB: u64 = 1024;

/// Returns the process's private resident memory in KiB, and its open descriptors.
fn taken(run: &Run) -> (u64, usize) {
    let status = fs::read_to_string(format!("/proc/{}/status", run.pid())).expect("it runs");
    let line = status
        .lines()
        .find(|line| line.starts_with("RssAnon:"))
        .expect("a line of it");
    let kib = line
        .split_whitespace()
        .nth(1)
        .and_then(|number| number.parse().ok())
        .expect("a number");
    (
        kib,
        fs::read_dir(format!("/proc/{}/fd", run.pid()))
            .expect("it runs")
            .count(),
    )
}

/// Returns both once nothing is under way.
fn settled(run: &Run) -> (u64, usize) {
    let mut last = taken(run);
    let still = within(LIMIT, || {
        std::thread::sleep(std::time::Duration::from_millis(200));
        let now = taken(run);
        (std::mem::replace(&mut last, now) == now).then_some(now)
    });
    still.expect("it comes to rest")
}

#[test]
fn many_sessions_in_a_row_take_no_more_memory_and_leave_no_descriptor() {
    let site = Site::alone("in_a_row", one_switch(2));
    let dir = site.directory("dest");
    let server = serve(&site, "n1", &["--force"], &dir);
    let sessions = std::env::var("ETHBCAST_SESSIONS")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(SESSIONS);
    let files: Vec<_> = (0..4)
        .map(|kind| site.file(&format!("f{kind}"), content(kind, 1000 << (4 * kind))))
        .collect();
    let (mut first, warm) = ((0, 0), sessions / 4);
    for number in 0..sessions {
        send(&site, "ethbcast", "1", &[], &files[number % files.len()])
            .end(LIMIT)
            .assert_code(0);
        if number + 1 == warm {
            first = settled(&server);
        }
    }
    let last = settled(&server);
    println!(
        "{sessions} sessions: KiB and descriptors after {warm} {first:?}, in the end {last:?}"
    );
    assert!(
        last.0 <= first.0 + DRIFT_KIB && last.1 == first.1,
        "{first:?} after {warm} sessions, {last:?} in the end"
    );
    server.signal(Signal::SIGTERM);
    let ended = server.end(LIMIT);
    ended.assert_code(0);
    assert_eq!(ended.stdout_text().lines().count(), sessions);
}

#[test]
fn twenty_groups_at_once_take_no_more_memory_the_fifth_time_than_the_second() {
    let site = Site::alone("at_once", one_switch(2));
    let dir = site.directory("dest");
    let server = serve(&site, "n1", &["--force", "--allow-group", "g[1-20]"], &dir);
    let files: Vec<_> = (1..=20)
        .map(|group| site.file(&format!("f{group}"), content(group, 400_000)))
        .collect();
    let mut taken = Vec::new();
    for _ in 0..6 {
        let runs: Vec<_> = files
            .iter()
            .enumerate()
            .map(|(number, file)| {
                send(
                    &site,
                    &format!("g{}", number + 1),
                    "1",
                    &["--max-wait", "60"],
                    file,
                )
            })
            .collect();
        runs.into_iter()
            .for_each(|run| run.end(LIMIT * 3).assert_code(0));
        taken.push(settled(&server));
    }
    println!("20 groups at once, six times: KiB and descriptors {taken:?}");
    let (second, last) = (taken[1], taken[5]);
    assert!(
        last.0 <= second.0 + DRIFT_KIB && last.1 == second.1,
        "{taken:?}"
    );
    server.signal(Signal::SIGTERM);
    server.end(LIMIT).assert_code(0);
}

fn cp(site: &Site, arguments: &[&str], environment: &[(&str, &str)]) -> Ended {
    let mut command = ethbcast(
        site,
        "n0",
        &[&["cp", "-i", "eth0", "--max-wait", "2"], arguments].concat(),
    );
    command
        .env_remove("SLURM_JOB_NODELIST")
        .envs(environment.iter().copied());
    Run::start("n0", command).end(LIMIT)
}

#[test]
fn hosts_that_serve_have_it_and_those_that_do_not_are_named() {
    let site = Site::beside("cp", one_switch(5));
    let dirs = ["d1", "d2", "d3"].map(|name| site.directory(name));
    let servers =
        [1, 2, 3].map(|host| serve(&site, &format!("n{host}"), &["--force"], &dirs[host - 1]));
    let file = site.file("image", "an image");
    let path = file.to_str().expect("UTF-8");
    // n3 serves and is not wanted; n4 does not serve; n0 is the sender.
    let ended = cp(&site, &[path, "n[0-2,4]:"], &[]);
    ended.assert_code(1);
    for part in [
        "n0 is this host",
        "not serving: n4",
        "1 of 3 hosts does not serve: n4; the others have it",
    ] {
        assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
    }
    dirs[..2]
        .iter()
        .for_each(|dir| wait_for_file(&dir.join("image"), b"an image"));
    assert_eq!(shown_in(&dirs[2]), [""; 0]);
    cp(&site, &["-p", "-w", "n[1-3]", path, "copy"], &[]).assert_code(0);
    dirs.iter()
        .for_each(|dir| wait_for_file(&dir.join("copy"), b"an image"));
    let slurm = site.directory("slurm");
    let conf = slurm.join("slurm.conf");
    let in_a_job = |name: &str, switches: &str| {
        fs::write(slurm.join("topology.conf"), switches).expect("written");
        let job = [
            ("SLURM_JOB_NODELIST", "n[1,3]"),
            ("SLURM_CONF", conf.to_str().expect("UTF-8")),
        ];
        let ended = cp(&site, &["-f", "--fanout", "4", path, name], &job);
        ended.assert_code(0);
        ended
    };
    let ended = in_a_job("elsewhere", "SwitchName=s0 Nodes=n[1-2],n0\n");
    assert!(!ended.stderr.contains("switches as in"), "n3 is not named");
    let ended = in_a_job("in-a-job", "SwitchName=s0 Nodes=n[0-4]\n");
    assert!(ended.stderr.contains("switches as in"), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("-f does nothing here")
            && ended.stderr.contains("--fanout does nothing")
    );
    wait_for_file(&dirs[2].join("in-a-job"), b"an image");
    assert!(!dirs[1].join("in-a-job").exists(), "n2 is not in the job");
    let ended = cp(&site, &[path, "n4:"], &[]);
    ended.assert_refusal(
        3,
        &[
            "none of n4 serves group ethbcast",
            "recv --serve",
            "[E-NOBODY]",
        ],
    );
    let tree = site.directory("tree");
    fs::write(tree.join("file"), "in a tree").expect("written");
    cp(&site, &[tree.to_str().expect("UTF-8"), "n1:"], &[]).assert_code(0);
    wait_for_file(&dirs[0].join("tree/file"), b"in a tree");
    let (one, two) = (site.file("one", "the first"), site.directory("two"));
    fs::write(two.join("file"), "the second").expect("written");
    let several = [one.to_str().expect("UTF-8"), two.to_str().expect("UTF-8")];
    // Several sources would replace the served directory, unless they are put into it.
    let refused = cp(&site, &[several[0], several[1], "n1:"], &[]);
    assert!(
        refused.code() != 0 && !dirs[0].join("one").exists(),
        "{refused:?}"
    );
    let inside = site.directory("d4");
    let fourth = serve(&site, "n4", &["--in-place"], &inside);
    cp(&site, &[several[0], several[1], "n4:"], &[]).assert_code(0);
    wait_for_file(&inside.join("two/file"), b"the second");
    wait_for_file(&inside.join("one"), b"the first");
    cp(&site, &["-w", "n4", several[0], several[1], ":"], &[]).assert_code(0);
    for (arguments, part) in [
        (&[path][..], "to which hosts?"),
        (
            &[several[0], several[1], "n1:other"],
            "several sources keep their own names",
        ),
        (&[path, "n1:/tmp/x"], "is a path"),
        (&["-w", "n1", path, "n2:"], "hosts twice"),
        (&[path, "n0:"], "no other host"),
        (
            &[tree.to_str().expect("UTF-8"), "n1:other"],
            "directories keep theirs",
        ),
    ] {
        cp(&site, arguments, &[]).assert_refusal(2, &[part]);
    }
    for server in servers.into_iter().chain([fourth]) {
        server.signal(Signal::SIGTERM);
        server.end(LIMIT).assert_code(0);
    }
}

#[test]
fn groups_of_hosts_are_clustershells_to_know() {
    let site = Site::beside("groups", one_switch(3));
    let dir = site.directory("dest");
    let server = serve(&site, "n1", &[], &dir);
    let bin = site.directory("bin");
    // As in ClusterShell: -e expands, -S separates.
    fs::write(
        bin.join("nodeset"),
        "#!/bin/sh\ntest \"$1 $2\" = '-e -S' && test \"$4\" = @rack && echo n1\n",
    )
    .expect("written");
    fs::set_permissions(bin.join("nodeset"), fs::Permissions::from_mode(0o755)).expect("allowed");
    let path = format!(
        "{}:{}",
        bin.display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let file = site.file("file", "bytes");
    let file = file.to_str().expect("UTF-8");
    cp(&site, &["-w", "@rack", file], &[("PATH", &path)]).assert_code(0);
    wait_for_file(&dir.join("file"), b"bytes");
    cp(&site, &["-w", "@row", file], &[("PATH", &path)])
        .assert_refusal(2, &["@row has a group", "nodeset"]);
    server.signal(Signal::SIGTERM);
    server.end(LIMIT).assert_code(0);
}

#[test]
fn hosts_that_share_a_name_are_named_by_their_addresses() {
    let site = Site::beside("shared", one_switch(3));
    let dirs = ["d1", "d2"].map(|name| site.directory(name));
    let servers = [1, 2].map(|host| {
        serve(
            &site,
            &format!("n{host}"),
            &["--host", "pc"],
            &dirs[host - 1],
        )
    });
    let file = site.file("image", "an image");
    let path = file.to_str().expect("UTF-8");
    let listed = Run::start("n0", ethbcast(&site, "n0", &["hosts", "-i", "eth0"]))
        .end(LIMIT)
        .stdout_text();
    let nodes: Vec<&str> = listed
        .split_whitespace()
        .filter(|word| word.starts_with("pc@"))
        .collect();
    assert_eq!(nodes.len(), 2, "{listed}");
    // A late reply is found by the next attempt.
    let refused = within(LIMIT, || {
        Some(cp(&site, &[path, "pc:"], &[])).filter(|ended| ended.code() != 0)
    });
    refused
        .expect("refused")
        .assert_refusal(2, &["pc are 2 hosts", &nodes.join(" or ")]);
    cp(&site, &[path, &format!("{}:copy", nodes[1])], &[]).assert_code(0);
    let dir = dirs
        .iter()
        .find(|dir| dir.join("copy").exists())
        .expect("one has it");
    assert_eq!(fs::read(dir.join("copy")).expect("read"), b"an image");
    for server in servers {
        server.signal(Signal::SIGTERM);
        server.end(LIMIT).assert_code(0);
    }
}

fn hosts(site: &Site, options: &[&str]) -> Ended {
    Run::start(
        "n0",
        ethbcast(site, "n0", &[&["hosts", "-i", "eth0"], options].concat()),
    )
    .end(LIMIT)
}

/// Returns host, group, state and last outcome of each line.
fn rows(ended: &Ended) -> Vec<(String, String, String, String)> {
    let report = ended.json();
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let row = |row: &Value| {
        (
            text(&row["host"]),
            text(&row["group"]),
            text(&row["state"]),
            text(&row["last"]["status"]),
        )
    };
    report["hosts"]
        .as_array()
        .expect("a list")
        .iter()
        .map(row)
        .collect()
}

fn row(host: &str, group: &str, state: &str, last: &str) -> (String, String, String, String) {
    (
        host.to_owned(),
        group.to_owned(),
        state.to_owned(),
        last.to_owned(),
    )
}

#[test]
fn all_listening_receivers_are_listed_with_group_state_and_last_session() {
    let site = Site::beside("hosts", one_switch(4));
    hosts(&site, &["--wait", "0.3"])
        .assert_refusal(3, &["nobody listens", "recv --serve", "[E-NOBODY]"]);
    let dir = site.directory("dest");
    let server = serve(&site, "n1", &["--allow-group", "a,b"], &dir);
    let receiver = Run::start(
        "n2",
        ethbcast(
            &site,
            "n2",
            &["recv", "-i", "eth0", "-g", "c", "/dev/null/x"],
        ),
    );
    receiver.end(LIMIT).assert_code(4);
    let other = site.path("other");
    let mut receiver = ethbcast(&site, "n2", &["recv", "-i", "eth0", "-g", "c"]);
    receiver.arg(&other);
    let receiver = Run::start("n2", receiver);
    receiver.wait_for_line("waiting for a sender of group c");
    let waiting = |host, group| row(host, group, "waiting", "-");
    let ended = hosts(&site, &["--json"]);
    ended.assert_code(0);
    assert_eq!(
        rows(&ended),
        [waiting("n1", "a"), waiting("n1", "b"), waiting("n2", "c")]
    );
    assert!(
        ended.json()["hosts"][0]["free_bytes"].is_u64() && ended.json()["hosts"][0]["mtu"] == 1500,
        "{}",
        ended.json()
    );
    assert_eq!(
        rows(&hosts(&site, &["--json", "-g", "c"])),
        [waiting("n2", "c")]
    );
    // One host is in a session, another has finished one.
    let file = site.file("file", "bytes");
    send(&site, "b", "1", &[], &file).end(LIMIT).assert_code(0);
    wait_for_file(&dir.join("file"), b"bytes");
    let running = send(
        &site,
        "a",
        "1",
        &[
            "--size",
            "1048576",
            "--pipe",
            "head -c 700K /dev/zero; sleep 10; head -c 324K /dev/zero",
        ],
        "-q",
    );
    server.wait_for_line("group a: n0 offers");
    let is_in = || {
        let ended = hosts(&site, &["--json", "-g", "a"]);
        (rows(&ended) == [row("n1", "a", "receiving", "-")])
            .then(|| ended.json()["hosts"][0].clone())
    };
    let seen = ethbcast_tests::lab::within(LIMIT, is_in).expect("it receives for seconds");
    assert!(
        seen["size"] == 1 << 20 && seen["bytes"].as_u64().is_some_and(|bytes| bytes <= 1 << 20),
        "{seen}"
    );
    running.end(LIMIT).assert_code(0);
    let topology = site.file(
        "t.toml",
        "schema = 1\n[[switch]]\nname = \"rack7\"\nhosts = \"n[0-3]\"\n",
    );
    let ended = hosts(
        &site,
        &[
            "--topology",
            topology.to_str().expect("UTF-8"),
            "--expect",
            "n[1-3]",
        ],
    );
    ended.assert_code(1);
    assert!(ended.stderr.contains("not there: n3"), "{}", ended.stderr);
    let text = ended.stdout_text();
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines.len() == 4 && lines[0].starts_with("HOST  GROUP"),
        "{text}"
    );
    assert!(
        lines[2].contains("n1") && lines[2].contains("rack7") && lines[2].contains("has file, "),
        "{text}"
    );
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
    let mut command = ethbcast(
        &site,
        "n0",
        &["hosts", "-i", "eth0", "--watch", "--json", "--wait", "0.3"],
    );
    command.stderr(std::process::Stdio::inherit());
    let watch = Run::start("n0", command);
    // Number of hosts in the last list.
    let listed = || {
        let said = watch.stdout();
        let last = said
            .lines()
            .rev()
            .find_map(|line| serde_json::from_str::<Value>(line).ok())?;
        last["hosts"].as_array().map(Vec::len)
    };
    let wait_for = |count: usize| within(LIMIT, || (listed() == Some(count)).then_some(()));
    assert!(
        wait_for(2).is_some(),
        "both were never there: {}",
        watch.stdout()
    );
    let [one, two] = servers;
    two.signal(Signal::SIGTERM);
    two.end(LIMIT).assert_code(0);
    assert!(
        wait_for(1).is_some(),
        "it was never forgotten: {}",
        watch.stdout()
    );
    watch.signal(Signal::SIGINT);
    watch.end(LIMIT).assert_code(0);
    one.signal(Signal::SIGTERM);
    one.end(LIMIT).assert_code(0);
}

#[test]
fn the_sender_to_a_server_decides_about_no_privileges() {
    let site = Site::beside("privileges", one_switch(2));
    let (dir, tree) = (site.directory("dir"), site.directory("tree"));
    fs::write(tree.join("file"), "text").expect("room");
    std::os::unix::fs::chown(tree.join("file"), Some(12), Some(12)).expect("root may");
    fs::set_permissions(tree.join("file"), fs::Permissions::from_mode(0o4755)).expect("ours");
    let server = serve(&site, "n1", &["--json"], &dir);
    send(&site, "ethbcast", "1", &["--owner"], &tree)
        .end(LIMIT)
        .assert_code(0);
    wait_for_file(&dir.join("tree/file"), b"text");
    server.signal(Signal::SIGTERM);
    let ended = server.end(LIMIT);
    let there = fs::metadata(dir.join("tree/file")).expect("there");
    assert_eq!((there.uid(), there.mode() & 0o7777), (0, 0o755));
    assert!(
        ended
            .stderr
            .contains("2 owners of files and directories were left out: --accept owner"),
        "{}",
        ended.stderr
    );
    assert_eq!(ended.json()["not_accepted"]["setid"], 1);
}
