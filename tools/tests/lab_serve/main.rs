//! Tests of the receiver that runs as a daemon (`recv --serve`), in network namespaces. These tests
//! need root, and fail without it.

mod sessions;

use ethbcast_tests::lab::{LIMIT, Run, Site, content, one_switch, shown_in, within};
use nix::sys::signal::Signal;
use std::ffi::OsStr;
use std::fs;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The program, built by cargo for these tests.
const PROGRAM: &str = env!("CARGO_BIN_EXE_ethbcast");

/// Returns a command of the program on a host without any configuration.
fn ethbcast(site: &Site, host: &str, arguments: &[&str]) -> Command {
    let mut command = site.command(host, PROGRAM);
    command
        .args(arguments)
        .env_remove("ETHBCAST_HOST")
        .env("ETHBCAST_CONFIG", "");
    command
}

/// Returns the command of a server with these options that stores into a directory.
fn serve_command(site: &Site, host: &str, options: &[&str], directory: &Path) -> Command {
    let mut command = ethbcast(site, host, &["recv", "--serve", "-i", "eth0"]);
    command.args(options).arg(directory);
    command
}

/// Starts a server and waits until it is ready.
fn serve(site: &Site, host: &str, options: &[&str], directory: &Path) -> Run {
    let run = Run::start(host, serve_command(site, host, options, directory));
    run.wait_for_line("serving ");
    run
}

/// Starts a sender on n0 to `receivers` receivers of a group.
fn send(
    site: &Site,
    group: &str,
    receivers: &str,
    options: &[&str],
    source: impl AsRef<OsStr>,
) -> Run {
    let mut command = ethbcast(
        site,
        "n0",
        &[
            "send",
            "-i",
            "eth0",
            "-g",
            group,
            "-n",
            receivers,
            "--no-probe",
        ],
    );
    if !options.contains(&"--max-wait") {
        command.args(["--max-wait", "20"]);
    }
    command.args(options).arg(source);
    Run::start("n0", command)
}

/// Waits until a file has these bytes.
#[track_caller]
fn wait_for_file(path: &Path, bytes: &[u8]) {
    let seen = within(LIMIT, || {
        std::fs::read(path).ok().filter(|found| found == bytes)
    });
    assert!(seen.is_some(), "{} never had what was sent", path.display());
}

/// Returns the next notification to the supervisor.
fn hear(ear: &UnixDatagram) -> String {
    let mut buffer = [0; 4096];
    let bytes = ear
        .recv(&mut buffer)
        .expect("something is said within the time it takes");
    String::from_utf8(buffer[..bytes].to_vec()).expect("UTF-8")
}

#[test]
fn a_server_takes_raw_frames_and_datagrams_at_the_same_time() {
    let site = Site::beside("both", one_switch(2));
    for (host, address) in [("n0", "10.254.0.10/24"), ("n1", "10.254.0.11/24")] {
        site.set_up(host, "ip", &["address", "add", address, "dev", "eth0"]);
    }
    let dir = site.directory("dest");
    let server = serve(&site, "n1", &["--also-over", "udp"], &dir);
    let bytes = content(1, 300_000);
    for (name, options) in [("raw", &[][..]), ("datagrams", &["--over", "udp"])] {
        let source = site.file(name, &bytes);
        send(&site, "ethbcast", "1", options, source)
            .end(LIMIT)
            .assert_code(0);
        wait_for_file(&dir.join(name), &bytes);
    }
    server.signal(Signal::SIGTERM);
    let ended = server.end(LIMIT);
    ended.assert_code(0);
    assert!(
        ended.stderr.contains("ethbcast over udp"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_supervisor_is_notified_of_start_liveness_reload_and_end() {
    let site = Site::beside("notify", one_switch(2));
    let (dir, path) = (site.directory("dest"), site.path("notify"));
    let ear = UnixDatagram::bind(&path).expect("bound");
    ear.set_read_timeout(Some(LIMIT)).expect("set");
    let mut command = serve_command(&site, "n1", &[], &dir);
    command
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "400000")
        .env("JOURNAL_STREAM", "1:2");
    let server = Run::start("n1", command);
    let next = |begin: &str| {
        let heard = within(LIMIT, || {
            Some(hear(&ear)).filter(|said| said.starts_with(begin))
        });
        heard.unwrap_or_else(|| panic!("{begin} was never said"))
    };
    assert!(
        next("READY=1").contains("STATUS=serving group ethbcast; sessions: 0 running, 0 received")
    );
    let file = site.file("file", "bytes");
    send(&site, "ethbcast", "1", &[], &file)
        .end(LIMIT)
        .assert_code(0);
    assert!(next("STATUS=").contains("1 received"));
    // Earlier notifications are read at once.
    ear.set_nonblocking(true).expect("set");
    while ear.recv(&mut [0; 4096]).is_ok() {}
    ear.set_nonblocking(false).expect("set");
    let began = std::time::Instant::now();
    (0..10).for_each(|_| drop(next("WATCHDOG=1")));
    let took = began.elapsed();
    assert!(
        (Duration::from_millis(700)..LIMIT).contains(&took),
        "every 100 ms: {took:?}"
    );
    server.signal(Signal::SIGHUP);
    assert!(next("RELOADING=1").contains("MONOTONIC_USEC="));
    next("READY=1");
    server.signal(Signal::SIGTERM);
    next("STOPPING=1");
    let ended = server.end(LIMIT);
    ended.assert_code(0);
    let marked =
        |line: &str| line.starts_with("<6>") || line.starts_with("<4>") || line.starts_with("<3>");
    assert!(ended.stderr.lines().all(marked), "{}", ended.stderr);
}

#[test]
fn an_interface_that_is_missing_yet_is_waited_for_and_reported() {
    let site = Site::beside("late", one_switch(2));
    let dir = site.directory("dest");
    site.set_up("n1", "ip", &["link", "set", "eth0", "down"]);
    let server = Run::start(
        "n1",
        serve_command(&site, "n1", &["--allow-group", "a"], &dir),
    );
    server.wait_for_line("group a: interface eth0 is down");
    server.wait_for_line("serving group a, 1 wait for their interface");
    site.set_up("n1", "ip", &["link", "set", "eth0", "up"]);
    let file = site.file("file", "bytes");
    send(&site, "a", "1", &[], &file).end(LIMIT).assert_code(0);
    wait_for_file(&dir.join("file"), b"bytes");
    server.signal(Signal::SIGTERM);
    server.end(LIMIT).assert_code(0);
}

#[test]
fn the_user_nobody_serves_with_sockets_that_root_has_opened() {
    let site = Site::beside("port_fd", one_switch(2));
    let dir = site.directory("dest");
    fs::set_permissions(&dir, Permissions::from_mode(0o777)).expect("allowed");
    fs::set_permissions(site.scratch(), Permissions::from_mode(0o755)).expect("allowed");
    // The user nobody needs access to the program's directory.
    let program = site.path("ethbcast");
    fs::copy(PROGRAM, &program).expect("copied");
    let script = "import os, socket, sys\n\
                  ports = [socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) for _ in range(2)]\n\
                  for port in ports: os.set_inheritable(port.fileno(), True)\n\
                  os.setgroups([]); os.setgid(65534); os.setuid(65534)\n\
                  fds = [word for port in ports for word in ('--port-fd', str(port.fileno()))]\n\
                  os.execv(sys.argv[1], sys.argv[1:] + fds)\n";
    let mut python = site.command("n1", "python3");
    python.args(["-c", script]).arg(&program);
    serves_as_nobody(&site, python, &dir);
}

#[test]
fn the_user_nobody_serves_with_the_one_capability_that_the_unit_gives() {
    let site = Site::beside("capability", one_switch(2));
    let dir = site.directory("dest");
    fs::set_permissions(&dir, Permissions::from_mode(0o777)).expect("allowed");
    fs::set_permissions(site.scratch(), Permissions::from_mode(0o755)).expect("allowed");
    let program = site.path("ethbcast");
    fs::copy(PROGRAM, &program).expect("copied");
    let unit = fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/systemd/ethbcast-recv@.service"
    ))
    .expect("there");
    for line in [
        "AmbientCapabilities=CAP_NET_RAW",
        "CapabilityBoundingSet=CAP_NET_RAW",
        "NoNewPrivileges=yes",
    ] {
        assert!(unit.lines().any(|own| own == line), "{line}");
    }
    let mut setpriv = site.command("n1", "setpriv");
    setpriv.args([
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--no-new-privs",
        "--inh-caps=-all,+net_raw",
    ]);
    setpriv
        .args([
            "--ambient-caps=-all,+net_raw",
            "--bounding-set=-all,+net_raw",
        ])
        .arg(&program);
    serves_as_nobody(&site, setpriv, &dir);
}

/// Starts a receiver of two groups by this command, which becomes user nobody, and sends to both.
fn serves_as_nobody(site: &Site, mut command: std::process::Command, dir: &std::path::Path) {
    command
        .args(["recv", "--serve", "-i", "eth0", "--allow-group", "a,b"])
        .arg(dir);
    command
        .env_remove("ETHBCAST_HOST")
        .env("ETHBCAST_CONFIG", "");
    let server = Run::start("n1", command);
    server.wait_for_line("serving 2 groups (a,b)");
    let (one, two) = (site.file("one", "of a"), site.file("two", "of b"));
    send(site, "a", "1", &[], &one).end(LIMIT).assert_code(0);
    send(site, "b", "1", &[], &two).end(LIMIT).assert_code(0);
    wait_for_file(&dir.join("one"), b"of a");
    wait_for_file(&dir.join("two"), b"of b");
    assert_ne!(
        fs::metadata(dir.join("one"))
            .map(|file| std::os::unix::fs::MetadataExt::uid(&file))
            .ok(),
        Some(0)
    );
    server.signal(Signal::SIGTERM);
    server.end(LIMIT).assert_code(0);
}

#[test]
fn sighup_brings_new_groups_and_ends_old_ones_when_their_session_is_over() {
    let site = Site::beside("reload", one_switch(2));
    let dir = site.directory("dest");
    let configuration = site.file(
        "ethbcast.toml",
        "[recv]\nallow-group = [\"a\", \"b\"]\nforce = true\n",
    );
    let mut command = serve_command(&site, "n1", &[], &dir);
    command.env("ETHBCAST_CONFIG", &configuration);
    let server = Run::start("n1", command);
    server.wait_for_line("serving 2 groups (a,b)");
    let running = send(
        &site,
        "a",
        "1",
        &["--size", "3", "--pipe", "sleep 8; printf abc"],
        "--quiet",
    );
    server.wait_for_line("group a: n0 offers stdout");
    fs::write(
        &configuration,
        "[recv]\nallow-group = \"c\"\nforce = true\nmax-session = 3\n",
    )
    .expect("written");
    server.signal(Signal::SIGHUP);
    server.wait_for_line("is max-sessions meant?");
    fs::write(
        &configuration,
        "[recv]\nallow-group = \"c\"\nforce = true\n",
    )
    .expect("written");
    server.signal(Signal::SIGHUP);
    server.wait_for_line("group b is not served any more");
    running.end(LIMIT).assert_code(0);
    server.wait_for_line("group a is not served any more");
    let file = site.file("file", "bytes");
    send(&site, "c", "1", &[], &file).end(LIMIT).assert_code(0);
    wait_for_file(&dir.join("file"), b"bytes");
    wait_for_file(&dir.join("stdout"), b"abc");
    send(&site, "b", "1", &["--max-wait", "1"], &file)
        .end(LIMIT)
        .assert_code(3);
    server.signal(Signal::SIGTERM);
    server.end(LIMIT).assert_code(0);
}

#[test]
fn the_command_line_counts_before_the_environment_and_that_before_the_file() {
    let site = Site::beside("precedence", one_switch(2));
    let text = "interface = \"nosuch0\"\n[recv]\ninterface = \"nosuch1\"\nmax-wait = 0.1\n";
    let configuration = site.file("ethbcast.toml", text);
    let says = |arguments: &[&str], environment: &[(&str, &str)]| {
        let mut command = ethbcast(&site, "n1", arguments);
        command
            .env("ETHBCAST_CONFIG", &configuration)
            .envs(environment.iter().copied());
        Run::start("n1", command).end(LIMIT).stderr
    };
    let dest = site.path("dest");
    let dest = dest.to_str().expect("UTF-8");
    assert!(says(&["recv", dest], &[]).contains("nosuch1"));
    assert!(says(&["send", "-n", "1", "/etc/hostname"], &[]).contains("nosuch0"));
    assert!(says(&["recv", dest], &[("ETHBCAST_INTERFACE", "nosuch2")]).contains("nosuch2"));
    let both = [
        ("ETHBCAST_INTERFACE", "nosuch2"),
        ("ETHBCAST_RECV_INTERFACE", "nosuch3"),
    ];
    assert!(says(&["recv", dest], &both).contains("nosuch3"));
    assert!(says(&["recv", "-i", "nosuch4", dest], &both).contains("nosuch4"));
    let ended = says(&["recv", "-i", "eth0", dest], &[]);
    assert!(
        ended.contains("no sender was heard"),
        "the file's --max-wait counts: {ended}"
    );
    let ended = says(
        &["recv", "-i", "eth0", dest],
        &[("ETHBCAST_RECV_MAX_WAIT", "soon")],
    );
    assert!(
        ended.contains("number of seconds") && ended.contains("$ETHBCAST_RECV_MAX_WAIT"),
        "{ended}"
    );
    let ended = says(
        &["recv", "-i", "eth0", dest],
        &[("ETHBCAST_RECV_FORCE", "perhaps")],
    );
    assert!(ended.contains("set it to 1 or 0"), "{ended}");
}

#[test]
fn a_file_is_checked_and_every_mistake_in_it_is_named() {
    let site = Site::beside("check", one_switch(2));
    let good = site.file(
        "good.toml",
        "interface = \"eth0\"\n[recv]\nserve = true\nmax-sessions = 2\n",
    );
    let bad = site.file(
        "bad.toml",
        "[recv]\nmax-session = 2\nforce = 3\n[sned]\nvia = \"cast\"\n",
    );
    let check = |path: &std::path::Path| {
        Run::here(PROGRAM, &["config", "check", path.to_str().expect("UTF-8")]).end(LIMIT)
    };
    check(&good).assert_code(0);
    let ended = check(&bad);
    ended.assert_code(2);
    for part in [
        "is max-sessions meant?",
        "is [send] meant?",
        "force is on or off",
        "3 things are wrong",
    ] {
        assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
    }
    check(&site.path("missing.toml")).assert_code(4);
    check(&site.file("broken.toml", "[recv\n")).assert_code(2);
}

#[test]
fn the_end_says_what_it_cuts_off_and_what_came_is_gone_on_with() {
    let site = Site::beside("cut", one_switch(2));
    let dir = site.directory("dest");
    let server = serve(&site, "n1", &[], &dir);
    let bytes = content(5, 8_000_000);
    let file = site.file("image", &bytes);
    let reader = format!(
        "head -c 5M {0}; sleep 15; tail -c +5242881 {0}",
        file.display()
    );
    let root = send(
        &site,
        "ethbcast",
        "1",
        &["--size", "8000000", "--pipe", &reader],
        "--quiet",
    );
    server.wait_for_line("offers");
    let came = || server.open_bytes(&dir).filter(|&bytes| bytes > 1_000_000);
    ethbcast_tests::lab::within(LIMIT, came).expect("most of what is there comes");
    server.signal(Signal::SIGTERM);
    let ended = server.end(LIMIT);
    ended.assert_code(1);
    assert!(
        ended
            .stderr
            .contains("SIGTERM: it ends; 1 session is cut off"),
        "{}",
        ended.stderr
    );
    assert!(
        ended
            .stderr
            .contains("group ethbcast: cut off: stdout of n0, "),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("of 7.63 MiB"), "{}", ended.stderr);
    assert!(
        ended
            .stderr
            .contains("the session was cut off; have it sent again"),
        "{}",
        ended.stderr
    );
    root.signal(Signal::SIGTERM);
    assert_ne!(root.end(LIMIT).code(), 0);
    assert_eq!(shown_in(&dir), [""; 0]);
}

#[test]
fn an_end_in_a_quiet_moment_loses_nothing() {
    let site = Site::beside("quiet", one_switch(2));
    let dir = site.directory("dest");
    let server = serve(&site, "n1", &["--allow-group", "g[1-20]"], &dir);
    server.signal(Signal::SIGTERM);
    server.end(LIMIT).assert_code(0);
}

#[test]
fn a_restarted_server_joins_the_next_session() {
    let site = Site::beside("again", one_switch(2));
    let dir = site.directory("dest");
    let file = site.file("file", "bytes");
    for _ in 0..2 {
        let server = serve(&site, "n1", &["--force"], &dir);
        send(&site, "ethbcast", "1", &[], &file)
            .end(LIMIT)
            .assert_code(0);
        wait_for_file(&dir.join("file"), b"bytes");
        server.signal(Signal::SIGTERM);
        server.end(LIMIT).assert_code(0);
    }
}

#[test]
fn invalid_options_of_a_server_are_refused_at_once() {
    let site = Site::beside("refused", one_switch(2));
    let dir = site.directory("dest");
    let path = dir.to_str().expect("UTF-8");
    for (arguments, code, parts) in [
        (
            &["--serve", "-i", "eth0", "/no/such"][..],
            4,
            &["--serve", "mkdir -p /no/such"][..],
        ),
        (&["--serve", "-i", "eth0", "-"], 4, &["--serve", "is none"]),
        (
            &["--serve", "-i", "lo", path],
            4,
            &["group ethbcast", "lo is not an Ethernet interface"],
        ),
        (&["--serve", "-i", "eth0", "--once", path], 2, &["--once"]),
        (&["--allow-group", "a", path], 2, &["--serve"]),
        (
            &[
                "--serve",
                "-i",
                "eth0",
                "--allow-group",
                "a,b",
                "--port-fd",
                "0",
                path,
            ],
            2,
            &["1 packet sockets for 2 groups"],
        ),
        (
            &["--serve", "--over", "unicast", "--allow-group", "a,b", path],
            2,
            &["by unicast", "--over udp"],
        ),
        (
            &["--serve", "--over", "udp", "--also-over", "unicast", path],
            2,
            &["--also-over is another carrier"],
        ),
        (
            &["-i", "eth0", "--port-fd", "0", path],
            4,
            &["descriptor 0 is no packet socket"],
        ),
        (
            &["-i", "eth0", "--port-fd", "99", path],
            4,
            &["descriptor 99 is no packet socket"],
        ),
    ] {
        let command = ethbcast(&site, "n1", &[&["recv"], arguments].concat());
        let ended = Run::start("n1", command).end(LIMIT);
        ended.assert_code(code);
        parts.iter().for_each(|part| {
            assert!(
                ended.stderr.contains(part),
                "{arguments:?}: {}",
                ended.stderr
            )
        });
    }
}

const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/clusters.md"));

/// Returns the rest of the code block behind `begin`, at its first occurrence after `heading`.
fn block(heading: &str, begin: &str) -> String {
    let (_, rest) = PAGE
        .split_once(heading)
        .unwrap_or_else(|| panic!("no {heading}"));
    let (_, rest) = rest
        .split_once(begin)
        .unwrap_or_else(|| panic!("no {begin} under {heading}"));
    rest.split_once("\n```").expect("its end").0.to_owned()
}

fn program(directory: &Path, name: &str, text: &str) {
    let path = directory.join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}")).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("allowed");
}

/// Runs a script on n0 in a directory that has a subdirectory for each host.
fn run(site: &Site, script: &str) {
    let bin = site.directory("bin");
    std::os::unix::fs::symlink(PROGRAM, bin.join("ethbcast")).expect("linked");
    let lab = site.lab().name();
    let each = |hosts: &str| {
        format!(
            "for host in {hosts}; do\n\
             (cd $host && export SLURMD_NODENAME=$host && exec ethbcast lab exec --lab {lab} $host -- \"$@\") &\n\
             pids=\"$pids $!\"\ndone\nfor pid in $pids; do wait $pid || exit 1; done\n"
        )
    };
    program(&bin, "scontrol", "printf 'n0\\nn1\\nn2\\n'\n");
    program(
        &bin,
        "srun",
        &format!(
            "test \"$1\" = --ntasks-per-node=1 || exit 9\nshift\n{}",
            each("n0 n1 n2")
        ),
    );
    program(
        &bin,
        "clush",
        &format!(
            "test \"$1 $2\" = '-bw n[1-2]' || exit 9\nshift 2\n{}",
            each("n1 n2")
        ),
    );
    (0..3).for_each(|host| drop(site.directory(&format!("n{host}"))));
    let path = format!(
        "{}:{}",
        bin.display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let mut command = site.command("n0", "sh");
    command
        .args(["-ec", script])
        .current_dir(site.scratch())
        .env("PATH", path)
        .env("ETHBCAST_CONFIG", "");
    command
        .env("SLURM_JOB_NODELIST", "n[0-2]")
        .env("SLURM_JOB_ID", "7")
        .env_remove("ETHBCAST_HOST");
    Run::start("n0", command).end(LIMIT).assert_code(0);
}

#[test]
fn in_a_slurm_job_the_first_host_sends_and_the_others_receive() {
    let site = Site::beside("srun", one_switch(3));
    let bytes = content(1, 300_000);
    let script = block("## In a Slurm job", "```sh\nfirst=").replace("/tmp/data.bin", "data.bin");
    assert!(script.contains("srun --ntasks-per-node=1"), "{script}");
    fs::create_dir(site.path("n0-data")).expect("made");
    let sender = site.file("n0-data/data.bin", &bytes);
    let script = script.replace(
        "$SLURM_JOB_ID\" data.bin\n    else",
        &format!("$SLURM_JOB_ID\" {}\n    else", sender.display()),
    );
    run(&site, &format!("first={script}"));
    for host in ["n1", "n2"] {
        assert!(
            fs::read(site.path(host).join("data.bin")).expect("it came") == bytes,
            "{host}"
        );
    }
}

#[test]
fn clush_starts_the_receivers_and_the_sender_names_them() {
    let site = Site::beside("clush", one_switch(3));
    let bytes = content(2, 300_000);
    let source = site.file("source.img", &bytes);
    let script = block("## clush and pdsh", "```sh\n").replace("n[1-500]", "n[1-2]");
    let script = script.replace("/srv/disk.img", "disk.img");
    let script = script.replace(
        "--max-wait 60 disk.img",
        &format!("--max-wait 60 {}", source.display()),
    );
    run(&site, &script);
    for host in ["n1", "n2"] {
        assert!(
            fs::read(site.path(host).join("disk.img")).expect("it came") == bytes,
            "{host}"
        );
    }
}

#[test]
fn the_configuration_that_cloud_init_writes_is_one() {
    let site = Site::beside("cloud", one_switch(2));
    let text = block("## cloud-init", "content: |\n");
    let (text, _) = text
        .split_once("runcmd:")
        .expect("what runs comes behind it");
    let file = site.file("ethbcast.toml", text.replace("\n      ", "\n"));
    let ended = Run::here(PROGRAM, &["config", "check", file.to_str().expect("UTF-8")]).end(LIMIT);
    ended.assert_code(0);
}

#[test]
fn a_server_whose_time_is_up_ends_as_if_it_were_asked_to() {
    let site = Site::beside("timed", one_switch(2));
    let dir = site.directory("dest");
    let server = serve(&site, "n1", &["--timeout", "1"], &dir);
    let ended = server.end(LIMIT);
    ended.assert_code(0);
    assert!(
        ended
            .stderr
            .contains("its time is up: it ends; 0 sessions are cut off"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_session_that_takes_too_long_is_given_up_and_the_next_one_is_received() {
    let site = Site::beside("long", one_switch(2));
    let dir = site.directory("dest");
    let server = serve(&site, "n1", &["--max-session-time", "1"], &dir);
    let slow = send(
        &site,
        "ethbcast",
        "1",
        &["--pipe", "while echo more; do sleep 0.5; done 2>/dev/null"],
        "--quiet",
    );
    server.wait_for_line("takes longer than this host allows");
    slow.end(LIMIT).assert_code(1);
    let file = site.file("file", "bytes");
    send(&site, "ethbcast", "1", &[], &file)
        .end(LIMIT)
        .assert_code(0);
    wait_for_file(&dir.join("file"), b"bytes");
}
