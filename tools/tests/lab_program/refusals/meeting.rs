//! Tests of hosts that cannot work together: no sender, no receiver, another group name, version or
//! frame size.

use crate::harness::{Ethbcast, LIMIT, PROGRAM, Run, Site, content, names_in, one_switch, within};
use ethbcast_lab::LabConfig;
use ethbcast_transport::wire::VERSION;
use nix::sys::signal::Signal;
use std::ffi::OsStr;
use std::fs;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn when_nobody_is_there_both_sides_give_up_in_time() {
    let site = Site::beside("alone", one_switch(2));
    let source = site.file("source", "text");
    let sent = site.run(
        "n0",
        &["send", "-n", "1", "-i", "eth0", "--max-wait", "1"],
        &source,
    );
    sent.assert_refusal(
        3,
        &["0 of 1 receivers", "1 s", "ethbcast recv", "[E-NOBODY]"],
    );
    let received = site.run(
        "n1",
        &["recv", "-i", "eth0", "--max-wait", "1"],
        site.path("dest"),
    );
    received.assert_refusal(
        3,
        &["no sender was heard", "-g", "--max-wait", "[E-NOBODY]"],
    );
    for ended in [sent, received] {
        assert!(ended.took >= Duration::from_secs(1), "{:?}", ended.took);
    }
    // Different groups do not meet.
    let receiver = site.start(
        "n1",
        &["recv", "-i", "eth0", "-g", "red", "--max-wait", "1"],
        site.path("dest"),
    );
    site.run(
        "n0",
        &[
            "send",
            "-n",
            "1",
            "-i",
            "eth0",
            "-g",
            "blue",
            "--max-wait",
            "1",
        ],
        &source,
    )
    .assert_code(3);
    receiver.end(LIMIT).assert_code(3);
    assert_eq!(names_in(source.parent().expect("a directory")), ["source"]);
}

#[test]
fn sender_and_receiver_of_one_host_are_refused_at_once_and_others_are_served() {
    let site = Site::beside("same", one_switch(2));
    let source = site.file("source", "text");
    let sender = ["send", "-n", "1", "-i", "eth0", "--max-wait", "1"];
    let alone = site.run("n0", &sender, &source);
    assert!(
        !alone.stderr.contains("runs on this host"),
        "{}",
        alone.stderr
    );
    let receive = |host, dest| site.start(host, &["recv", "-i", "eth0"], site.path(dest));
    let receiver = receive("n0", "own");
    receiver.wait_for_line("waiting for a sender");
    let other = site.run("n0", &[&sender[..], &["-g", "blue"]].concat(), &source);
    assert!(
        !other.stderr.contains("runs on this host"),
        "{}",
        other.stderr
    );
    let sent = site.run(
        "n0",
        &["send", "-n", "1", "-i", "eth0", "--max-wait", "60"],
        &source,
    );
    sent.assert_refusal(
        2,
        &[
            "the receivers of group ethbcast run on this host",
            "eth0",
            "other hosts",
        ],
    );
    receiver.end(LIMIT).assert_refusal(
        2,
        &["the sender of group ethbcast runs on this host", "eth0"],
    );
    let named = site.run(
        "n0",
        &[
            "send",
            "--hosts",
            "n[0-1]",
            "-i",
            "eth0",
            "--max-wait",
            "60",
        ],
        &source,
    );
    named.assert_refusal(2, &["run on this host"]);
    // A sender that waits for one more host refuses its own and serves the other; a daemon waits
    // for other senders.
    let daemon = site.start(
        "n0",
        &["recv", "-i", "eth0", "--serve", "--no-key"],
        site.directory("daemon"),
    );
    daemon.wait_for_line("serving ");
    let sent = site.start(
        "n0",
        &[
            "send",
            "-n",
            "2",
            "--min-receivers",
            "1",
            "-i",
            "eth0",
            "--max-wait",
            "4",
        ],
        &source,
    );
    sent.wait_for_line("a receiver of group ethbcast runs on this host, too");
    receive("n0", "own")
        .end(LIMIT)
        .assert_refusal(2, &["the sender of group ethbcast runs on this host"]);
    let receiver = receive("n1", "other");
    [sent, receiver]
        .into_iter()
        .for_each(|run| run.end(LIMIT).assert_code(0));
    daemon.signal(Signal::SIGTERM);
    daemon.end(LIMIT).assert_code(0);
}

#[test]
fn the_processes_of_another_user_on_the_own_host_end_no_wait() {
    let site = Site::beside("foreign", one_switch(2));
    let (source, nobody) = (site.file("source", "text"), Nobody::new());
    let start =
        |arguments: &[&str], path: &Path| nobody.start(&site, "n0", "+net_raw", arguments, path);
    let sender = start(&["send", "-n", "1", "-i", "eth0", "--no-key"], &source);
    sender.wait_for_line("waiting for 1 receiver");
    site.run(
        "n0",
        &["recv", "-i", "eth0", "--max-wait", "2"],
        site.path("dest"),
    )
    .assert_code(3);
    sender.signal(Signal::SIGTERM);
    sender.end(LIMIT);
    let receiver = start(
        &["recv", "-i", "eth0", "--no-key", "--max-wait", "20"],
        Path::new("-"),
    );
    receiver.wait_for_line("waiting for a sender");
    site.run(
        "n0",
        &["send", "-n", "1", "-i", "eth0", "--max-wait", "2"],
        &source,
    )
    .assert_code(3);
    receiver.signal(Signal::SIGTERM);
    receiver.end(LIMIT);
}

#[test]
fn too_few_receivers_are_sent_home_unless_fewer_will_do() {
    let site = Site::beside("few", one_switch(2));
    let source = site.file("source", "text");
    let start = |options: &[&str]| {
        site.start(
            "n1",
            &[&["recv", "-i", "eth0"], options].concat(),
            site.path("dest"),
        )
    };
    let once = start(&["--once"]);
    let root = site.run(
        "n0",
        &["send", "-i", "eth0", "-n", "2", "--max-wait", "1"],
        &source,
    );
    root.assert_refusal(3, &["1 of 2 receivers", "n1", "--min-receivers"]);
    once.end(LIMIT).assert_refusal(1, &["1 of 2 receivers"]);
    assert_eq!(names_in(source.parent().expect("a directory")), ["source"]);
    // A receiver that stays is notified, and takes part in the next session, which needs fewer.
    let receiver = start(&[]);
    let too_few = ["send", "-i", "eth0", "--hosts", "n[1-2]", "--max-wait", "1"];
    site.run("n0", &too_few, &source)
        .assert_refusal(3, &["1 of 2 receivers", "n1; not n2"]);
    receiver.wait_for_line("waiting for the next session");
    let root = site.run(
        "n0",
        &[
            "send",
            "-i",
            "eth0",
            "-n",
            "2",
            "--min-receivers",
            "1",
            "--max-wait",
            "1",
        ],
        &source,
    );
    root.assert_code(0);
    receiver.end(LIMIT).assert_code(0);
    assert_eq!(fs::read(site.path("dest")).expect("received"), b"text");
}

#[test]
fn a_receiver_whose_frames_are_too_small_is_refused_with_both_remedies() {
    let site = Site::beside(
        "mtu",
        LabConfig {
            mtu_bytes: 9000,
            ..one_switch(2)
        },
    );
    site.set_up("n1", "ip", &["link", "set", "eth0", "mtu", "1500"]);
    let source = site.file("source", "text");
    let receiver = site.start(
        "n1",
        &["recv", "--once", "-i", "eth0", "--max-wait", "10"],
        site.path("dest"),
    );
    let root = site.run(
        "n0",
        &["send", "-n", "1", "-i", "eth0", "--max-wait", "2"],
        &source,
    );
    receiver
        .end(LIMIT)
        .assert_refusal(4, &["MTU 1500", "9000", "raise it", "--mtu 1500"]);
    root.assert_refusal(3, &["0 of 1 receivers", "n1"]);
    assert!(
        root.stderr.contains("--mtu 1500"),
        "the root's user is the one who can type it: {}",
        root.stderr
    );
}

#[test]
fn two_receivers_on_one_interface_are_distinguished() {
    let site = Site::beside("twins", one_switch(2));
    let source = site.file("source", "text");
    let root = site.start(
        "n0",
        &["send", "-i", "eth0", "-n", "2", "--max-wait", "2"],
        &source,
    );
    let first = site.start("n1", &["recv", "--once", "-i", "eth0"], site.path("first"));
    root.wait_for_line("n1 joined");
    let second = site.run("n1", &["recv", "--once", "-i", "eth0"], site.path("second"));
    second.assert_refusal(4, &["another receiver", "-g"]);
    root.end(LIMIT).assert_code(3);
    first.end(LIMIT).assert_code(1);
}

#[test]
fn a_receiver_takes_what_it_expects_and_says_no_to_anything_else() {
    let site = Site::beside("expect", one_switch(2));
    let (first, second) = (site.file("first", "text"), site.file("second", "other"));
    let dest = site.path("dest");
    let digest = blake3::hash(b"text").to_hex().to_string();
    let line = |expected: &str, options: &[&str]| {
        site.start(
            "n1",
            &[
                &[
                    "recv",
                    "-i",
                    "eth0",
                    "--max-wait",
                    "20",
                    "--expect",
                    expected,
                ],
                options,
            ]
            .concat(),
            &dest,
        )
    };
    let send = |source| {
        site.start(
            "n0",
            &["send", "-i", "eth0", "-n", "1", "--max-wait", "20"],
            source,
        )
    };
    // A receiver that goes on waiting takes part in a later session.
    let (receiver, other) = (line("first", &[]), send(&second));
    receiver.wait_for_line(
        "n0 offers second, and only first is expected here; waiting for the next session",
    );
    other.signal(Signal::SIGTERM);
    other.end(LIMIT);
    send(&first).end(LIMIT).assert_code(0);
    receiver.end(LIMIT).assert_code(0);
    fs::remove_file(&dest).expect("it came");
    let (receiver, other) = (line("first", &["--once"]), send(&second));
    receiver
        .end(LIMIT)
        .assert_refusal(3, &["only first is expected"]);
    other.signal(Signal::SIGTERM);
    other.end(LIMIT);
    let (receiver, root) = (line(&digest, &[]), send(&second));
    root.end(LIMIT).assert_code(1);
    receiver
        .end(LIMIT)
        .assert_refusal(5, &["not the one that is expected"]);
    assert!(!dest.exists());
    let (receiver, root) = (line(&digest, &[]), send(&first));
    root.end(LIMIT).assert_code(0);
    receiver.end(LIMIT).assert_code(0);
}

#[test]
fn a_sender_starts_when_another_terminal_says_so_and_is_found_from_another_namespace() {
    let site = Site::beside("start", one_switch(2));
    let source = site.file("source", "text");
    let root = site.start(
        "n0",
        &["send", "-i", "eth0", "-n", "2", "--max-wait", "60"],
        &source,
    );
    root.wait_for_line("waiting for 2 receivers");
    site.run("n0", &["ctl"], "start")
        .assert_refusal(2, &["nobody has joined yet"]);
    let elsewhere = site.run("n1", &["ctl"], "start");
    elsewhere.assert_refusal(
        3,
        &[
            "in this network namespace; in another:",
            &root.pid().to_string(),
        ],
    );
    let receiver = site.start(
        "n1",
        &["recv", "-i", "eth0", "--max-wait", "20"],
        site.path("dest"),
    );
    root.wait_for_line("n1 joined");
    let told = site.run("n0", &["ctl"], "start");
    told.assert_code(0);
    assert!(
        told.stdout_text().contains("starts with 1 receiver"),
        "{}",
        told.stdout_text()
    );
    root.end(LIMIT).assert_code(0);
    receiver.end(LIMIT).assert_code(0);
}

#[test]
fn a_sender_that_gives_up_leaves_those_who_wait_on_as_if_none_had_come() {
    let site = Site::beside("gaveup", one_switch(2));
    let source = site.file("source", "text");
    let receiver = site.start(
        "n1",
        &["recv", "-i", "eth0", "--max-wait", "4"],
        site.path("dest"),
    );
    site.run(
        "n0",
        &["send", "-i", "eth0", "-n", "2", "--max-wait", "1"],
        &source,
    )
    .assert_code(3);
    receiver.end(LIMIT).assert_refusal(3, &["1 of 2 receivers"]);
    let other = site.path("other");
    for (host, line, path) in [
        ("n0", ["send", "-n1"], &source),
        ("n1", ["recv", "--once"], &other),
    ] {
        let arguments = [&line[..], &["-i", "eth0", "-g", "lab\r"]].concat();
        site.run(host, &arguments, path)
            .assert_refusal(2, &["lab\\r", "control characters"]);
    }
}

/// A copy of the program that every user can run, and the way to run it as user nobody.
pub struct Nobody {
    directory: tempfile::TempDir,
}

impl Nobody {
    pub fn new() -> Nobody {
        // Not in /dev/shm, which may be mounted `noexec`.
        let directory = tempfile::tempdir().expect("a temporary directory");
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755))
            .expect("it is ours");
        fs::copy(PROGRAM, directory.path().join("ethbcast")).expect("copied");
        Nobody { directory }
    }

    /// Starts the program on a host as nobody, with these capabilities in `setpriv`'s syntax.
    pub fn start(
        &self,
        site: &Site,
        host: &str,
        capabilities: &str,
        arguments: &[&str],
        path: impl AsRef<OsStr>,
    ) -> Run {
        self.start_with(site, host, capabilities, arguments, path, |_| {})
    }

    /// Starts it with further settings of the command.
    pub fn start_with(
        &self,
        site: &Site,
        host: &str,
        capabilities: &str,
        arguments: &[&str],
        path: impl AsRef<OsStr>,
        more: impl FnOnce(&mut Command),
    ) -> Run {
        let mut command = site.command(host, "setpriv");
        command.args([
            "--reuid",
            "65534",
            "--regid",
            "65534",
            "--clear-groups",
            "--inh-caps",
            capabilities,
        ]);
        command
            .args(["--ambient-caps", capabilities])
            .arg(self.directory.path().join("ethbcast"))
            .args(arguments)
            .arg(path);
        more(&mut command);
        Run::start(host, command)
    }
}

fn at_switch(site: &Site, arguments: &[&str]) {
    let net = format!("--net=/run/netns/{}", site.lab().switches_namespace());
    site.set_up("n0", "nsenter", &[&[net.as_str()][..], arguments].concat());
}

#[test]
fn a_host_without_a_link_prints_that_while_it_waits_and_at_its_end() {
    let site = Site::beside("nolink", one_switch(2));
    let source = site.file("source", "text");
    site.lab().set_port("n0", false).expect("down");
    for (command, path) in [
        (&["send", "-n", "1"][..], source.clone()),
        (&["recv"], site.path("dest")),
    ] {
        let ended = site.run("n0", &[command, &["--max-wait", "1.5"]].concat(), &path);
        ended.assert_refusal(3, &["has no link", "[E-CARRIER]"]);
        let said = ended
            .stderr
            .lines()
            .filter(|line| line.contains("has no link"))
            .count();
        assert_eq!(said, 2, "while it waits, and at its end: {}", ended.stderr);
    }
    site.lab().set_port("n0", true).expect("up");
    let ended = site.run("n0", &["recv", "--max-wait", "0.2"], site.path("dest"));
    ended.assert_refusal(3, &["no sender was heard", "[E-NOBODY]"]);
}

#[test]
fn an_interface_is_found_by_another_name_its_address_and_what_a_boot_loader_says() {
    let site = Site::beside("names", one_switch(2));
    site.set_up(
        "n0",
        "ip",
        &[
            "link", "property", "add", "dev", "eth0", "altname", "enp1s0",
        ],
    );
    site.set_up(
        "n0",
        "ip",
        &["address", "add", "10.7.0.1/24", "dev", "eth0"],
    );
    let mac = site.lab().mac("n0").expect("it has one").to_string();
    let boot = format!("01-{}", mac.replace(':', "-"));
    for name in ["enp1s0", "eth0@if3", &mac, &boot, "10.7.0.1", "10.7.0.0/16"] {
        let ended = site.run(
            "n0",
            &["recv", "-i", name, "--max-wait", "0.1"],
            site.path("dest"),
        );
        ended.assert_code(3);
        assert!(
            ended.stderr.contains("on eth0 of n0"),
            "{name}: {}",
            ended.stderr
        );
    }
    // A bridge receives its ports' frames: it is chosen, and a user who names the port is warned.
    for line in [
        "link add br0 type bridge",
        "link set eth0 master br0",
        "link set br0 up",
    ] {
        site.set_up("n0", "ip", &line.split(' ').collect::<Vec<_>>());
    }
    let ended = site.run("n0", &["recv", "--max-wait", "0.1"], site.path("dest"));
    assert!(ended.stderr.contains("on br0 of n0"), "{}", ended.stderr);
    for command in [
        &["recv", "--max-wait", "0.1", "-", "-i"][..],
        &["hosts", "--wait", "0.1", "-i"],
    ] {
        let ended = site.run("n0", command, "eth0");
        assert!(
            ended.stderr.contains("-i br0 [E-MEMBER]"),
            "{command:?}: {}",
            ended.stderr
        );
    }
}

#[test]
fn two_hosts_of_one_address_are_named_at_both_ends() {
    let site = Site::beside("twins", one_switch(2));
    let source = site.file("source", "text");
    let mac = site.lab().mac("n0").expect("it has one").to_string();
    site.set_up("n1", "ip", &["link", "set", "eth0", "address", &mac]);
    let receiver = site.start("n1", &["recv", "--max-wait", "3"], site.path("dest"));
    let sender = site.start("n0", &["send", "-n", "1", "--max-wait", "3"], &source);
    for run in [receiver, sender] {
        let ended = run.end(LIMIT);
        ended.assert_code(3);
        assert!(
            ended.stderr.contains("[E-TWIN]") && ended.stderr.contains(&mac),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn a_host_behind_a_switch_that_drops_frames_to_groups_gets_the_file() {
    let site = Site::beside("nogroups", one_switch(3));
    at_switch(
        &site,
        &["bridge", "link", "set", "dev", "p2", "mcast_flood", "off"],
    );
    let bytes = content(5, 1 << 20);
    let source = site.file("source", &bytes);
    let receivers = ["n1", "n2"].map(|host| site.start(host, &["recv"], site.path(host)));
    site.run(
        "n0",
        &["send", "-n", "2", "--via", "chain", "--max-wait", "30"],
        &source,
    )
    .assert_code(0);
    receivers
        .into_iter()
        .for_each(|receiver: Run| receiver.end(LIMIT).assert_code(0));
    assert!(
        ["n1", "n2"]
            .into_iter()
            .all(|host| fs::read(site.path(host)).is_ok_and(|file| file == bytes))
    );
}

#[test]
fn two_receivers_whose_ports_a_switch_isolates_are_named_and_all_get_the_file() {
    let site = Site::beside("isolated", one_switch(4));
    for port in ["p1", "p2"] {
        at_switch(
            &site,
            &["bridge", "link", "set", "dev", port, "isolated", "on"],
        );
    }
    let bytes = content(6, 2 << 20);
    let source = site.file("source", &bytes);
    let hosts = ["n1", "n2", "n3"];
    let receivers = hosts.map(|host| site.start(host, &["recv"], site.path(host)));
    let sender = site.run(
        "n0",
        &[
            "send",
            "-n",
            "3",
            "--via",
            "scatter-allgather",
            "--max-wait",
            "30",
        ],
        &source,
    );
    sender.assert_code(0);
    assert!(
        sender
            .stderr
            .contains("nothing gets through between n1 and n2, though both"),
        "{}",
        sender.stderr
    );
    assert!(
        sender
            .stdout_text()
            .contains("limited by: the path between n1 and n2, "),
        "{}",
        sender.stdout_text()
    );
    receivers
        .into_iter()
        .for_each(|receiver: Run| receiver.end(LIMIT).assert_code(0));
    assert!(
        hosts
            .into_iter()
            .all(|host| fs::read(site.path(host)).is_ok_and(|file| file == bytes))
    );
}

#[test]
fn a_second_sender_of_a_group_is_refused_with_the_name_of_the_first() {
    let site = Site::beside("second", one_switch(4));
    let (source, other) = (site.file("first", "first"), site.file("second", "second"));
    let receivers =
        ["n2", "n3"].map(|host| site.start(host, &["recv", "-i", "eth0"], site.path(host)));
    let hosts = [
        "send",
        "-i",
        "eth0",
        "--hosts",
        "n[2-3],n9",
        "--min-receivers",
        "2",
        "--max-wait",
        "6",
    ];
    let first = site.start("n0", &hosts, &source);
    first.wait_for_lines(2, "joined");
    let second = site.run("n1", &["send", "-n", "2", "-i", "eth0"], &other);
    second.assert_refusal(
        3,
        &[
            "n0",
            "first",
            "group ethbcast",
            "choose another group with -g",
            "[E-GROUP]",
        ],
    );
    // The user of the first is shown the other one, and whom it waits for.
    first.wait_for_line("wants to send to this group, too: it was refused, as the group is taken");
    first.wait_for_line("waiting: 2 of 3 receivers are there, n[2-3]; missing: n9");
    first.end(LIMIT).assert_code(0);
    receivers
        .into_iter()
        .for_each(|receiver| receiver.end(LIMIT).assert_code(0));
    assert!(
        ["n2", "n3"]
            .into_iter()
            .all(|host| fs::read(site.path(host)).is_ok_and(|file| file == b"first"))
    );
}

#[test]
fn a_switch_port_with_a_smaller_mtu_is_found_before_the_first_byte() {
    let site = Site::beside(
        "jumbo",
        LabConfig {
            mtu_bytes: 9000,
            ..one_switch(4)
        },
    );
    // Drop frames as such a port would: the kernel counts the bytes behind the Ethernet header.
    for command in [
        "add table netdev port",
        "add chain netdev port in { type filter hook ingress device eth0 priority 0; }",
        "add rule netdev port in meta length gt 1500 drop",
    ] {
        site.set_up("n2", "nft", &[command]);
    }
    let bytes = content(3, 1 << 20);
    let source = site.file("source", &bytes);
    let receivers =
        ["n1", "n2", "n3"].map(|host| site.start(host, &["recv", "-i", "eth0"], site.path(host)));
    let send = [
        "send",
        "-i",
        "eth0",
        "--hosts",
        "n[1-3]",
        "--min-receivers",
        "2",
        "--max-wait",
        "4",
    ];
    let root = site.run("n0", &send, &source);
    root.assert_code(0);
    assert!(
        root.stderr
            .contains("frames of 9014 bytes do not: look for a smaller MTU on the way to n2"),
        "{}",
        root.stderr
    );
    let [n1, n2, n3] = receivers;
    n2.wait_for_line("frames of 9014 bytes do not");
    [n1, n3]
        .into_iter()
        .for_each(|receiver| receiver.end(LIMIT).assert_code(0));
    assert!(
        ["n1", "n3"]
            .into_iter()
            .all(|host| fs::read(site.path(host)).is_ok_and(|file| file == bytes))
    );
}

#[test]
fn on_a_terminal_the_user_sees_who_joins_and_starts_with_enter() {
    let site = Site::beside("enter", one_switch(3));
    let source = site.file("source", "text");
    let receivers =
        ["n1", "n2"].map(|host| site.start(host, &["recv", "-i", "eth0"], site.path(host)));
    let send = format!("{PROGRAM} send -i eth0 {}", source.display());
    let mut terminal = site.command("n0", "script");
    terminal
        .args(["-qefc", &send, "/dev/null"])
        .stdin(Stdio::piped());
    let mut terminal = Run::start("n0", terminal);
    let shows = |part: &str| within(LIMIT, || terminal.stdout().contains(part).then_some(()));
    assert!(
        shows("2 receivers are there").is_some(),
        "{}",
        terminal.stdout()
    );
    terminal.say("\n");
    let sent = terminal.end(LIMIT);
    sent.assert_code(0);
    let said = sent.stdout_text();
    for part in [
        "press Enter",
        "n1 joined",
        "n2 joined",
        "2 receivers are there, n[1-2]",
        "2 of 2 receivers verified",
    ] {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
    receivers
        .into_iter()
        .for_each(|receiver| receiver.end(LIMIT).assert_code(0));
}

fn serve(site: &Site, host: &str, socket: &Path, more: &[&str]) -> Run {
    let mut command = site.command(host, PROGRAM);
    command
        .args(["port", "--mode", "666", "--serve"])
        .arg(socket)
        .args(more);
    let run = Run::start("port", command);
    run.wait_for_line("ports are served");
    run
}

/// Starts a receiver without any capability.
fn receive(nobody: &Nobody, site: &Site, socket: &Path, more: &[&str], dest: &Path) -> Run {
    let socket = socket.to_str().expect("a path of the test");
    let around = |command: &mut Command| {
        command.env("ETHBCAST_PORT", socket);
    };
    nobody.start_with(
        site,
        "n1",
        "-all",
        &[&["recv", "-i", "eth0", "--max-wait", "20"], more].concat(),
        dest,
        around,
    )
}

#[test]
fn a_process_without_capability_receives_by_a_port_that_is_served() {
    let site = Site::beside("served", one_switch(2));
    let (nobody, bytes) = (Nobody::new(), content(1, 300_000));
    let (source, open) = (site.file("source", &bytes), site.directory("open"));
    fs::set_permissions(&open, Permissions::from_mode(0o777)).expect("it is ours");
    let (socket, dest) = (open.join("port"), open.join("dest"));
    let refused = receive(&nobody, &site, &socket, &[], &dest).end(LIMIT);
    refused.assert_refusal(4, &["no port on eth0", "ethbcast port --serve"]);

    let mut server = serve(&site, "n1", &socket, &[]);
    let refused = receive(&nobody, &site, &socket, &["--ether-type", "88b6"], &dest).end(LIMIT);
    refused.assert_refusal(4, &["only EtherType"]);
    let receiver = receive(&nobody, &site, &socket, &[], &dest);
    let mut sender = site.command("n0", PROGRAM);
    sender.args(["send", "-n", "1", "-i", "eth0"]).arg(&source);
    Run::start("send", sender).end(LIMIT).assert_code(0);
    receiver.end(LIMIT).assert_code(0);
    assert!(fs::read(&dest).expect("received") == bytes);

    server.signal(Signal::SIGTERM);
    let ended = within(LIMIT, || server.ended_by(std::time::Instant::now()));
    assert!(
        ended.is_some_and(|status| status.success()) && !socket.exists(),
        "{}",
        server.stderr()
    );

    // A server in another namespace has another network.
    let _elsewhere = serve(&site, "n0", &socket, &[]);
    let refused = receive(&nobody, &site, &socket, &[], &open.join("other")).end(LIMIT);
    refused.assert_refusal(4, &["another network namespace"]);
}

/// Rewrites the version of all frames on a host's cable in one direction to the previous one.
fn speaks_an_older_version(site: &Site, host: &str, hook: &str) {
    let rules = format!(
        "table netdev older {{ chain of {{ type filter hook {hook} device eth0 priority 0; \
         ether type 0x88b5 @nh,16,8 set {}; }}; }};",
        VERSION - 1
    );
    let file = site.file(&format!("{host}.nft"), rules);
    site.set_up(host, "nft", &["-f", file.to_str().expect("ours")]);
}

#[test]
fn an_older_build_is_named_on_both_sides_and_the_others_have_everything() {
    let site = Site::beside("versions", one_switch(4));
    // The frames sent by n2 are of another version, and those received by n3.
    speaks_an_older_version(&site, "n2", "egress");
    speaks_an_older_version(&site, "n3", "ingress");
    let (source, dest) = (site.file("source", "text"), |host: &str| site.path(host));
    let receive = |host: &str, wait: &str| {
        site.start(
            host,
            &["recv", "-i", "eth0", "--max-wait", wait],
            dest(host),
        )
    };
    let receivers = [receive("n1", "20"), receive("n2", "4"), receive("n3", "4")];
    receivers
        .iter()
        .for_each(|receiver| receiver.wait_for_line("waiting for a sender"));
    let arguments = [
        "send",
        "-n",
        "3",
        "--min-receivers",
        "1",
        "--max-wait",
        "2",
        "-i",
        "eth0",
    ];
    let root = site.run("n0", &arguments, &source);
    let [good, unheard, deaf] = receivers.map(|receiver| receiver.end(LIMIT));
    root.assert_code(0);
    good.assert_code(0);
    assert_eq!(fs::read(dest("n1")).expect("received"), b"text");
    let speaks = |host: &str| {
        let mac = site.lab().mac(host).expect("a host of this lab");
        format!(
            "{mac} speaks version {} of the protocol, this ethbcast {VERSION}: install the same build",
            VERSION - 1
        )
    };
    for (ended, other) in [(&root, "n2"), (&deaf, "n0")] {
        let told = ended
            .stderr
            .lines()
            .filter(|line| line.contains(&speaks(other)))
            .count();
        assert_eq!(told, 1, "once: {}", ended.stderr);
    }
    unheard.assert_code(3);
    deaf.assert_code(3);
    assert!(!dest("n2").exists() && !dest("n3").exists());
}
