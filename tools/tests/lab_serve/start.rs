//! Start of a server: under a supervisor, before its interface exists, and with a socket that root
//! has opened.

use crate::{PROGRAM, send, serve_command, wait_for_file};
use ethbcast_tests::lab::{LIMIT, Run, Site, one_switch, within};
use nix::sys::signal::Signal;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

/// Returns the next notification to the supervisor.
fn hear(ear: &UnixDatagram) -> String {
    let mut buffer = [0; 4096];
    let bytes = ear.recv(&mut buffer).expect("something is said within the time it takes");
    String::from_utf8(buffer[..bytes].to_vec()).expect("UTF-8")
}

#[test]
fn a_supervisor_hears_that_it_is_ready_lives_reads_again_and_ends() {
    let site = Site::beside("notify", one_switch(2));
    let (dir, path) = (site.directory("dest"), site.path("notify"));
    let ear = UnixDatagram::bind(&path).expect("bound");
    ear.set_read_timeout(Some(LIMIT)).expect("set");
    let mut command = serve_command(&site, "n1", &[], &dir);
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "400000").env("JOURNAL_STREAM", "1:2");
    let server = Run::start("n1", command);
    let next = |begin: &str| {
        let heard = within(LIMIT, || Some(hear(&ear)).filter(|said| said.starts_with(begin)));
        heard.unwrap_or_else(|| panic!("{begin} was never said"))
    };
    assert!(next("READY=1").contains("STATUS=serving group ethbcast; sessions: 0 running, 0 received"));
    let file = site.file("file", "bytes");
    send(&site, "ethbcast", "1", &[], &file).end(LIMIT).assert_code(0);
    assert!(next("STATUS=").contains("1 received"));
    // Earlier notifications are read at once.
    ear.set_nonblocking(true).expect("set");
    while ear.recv(&mut [0; 4096]).is_ok() {}
    ear.set_nonblocking(false).expect("set");
    let began = std::time::Instant::now();
    (0..10).for_each(|_| drop(next("WATCHDOG=1")));
    let took = began.elapsed();
    assert!((Duration::from_millis(700)..LIMIT).contains(&took), "every 100 ms: {took:?}");
    server.signal(Signal::SIGHUP);
    assert!(next("RELOADING=1").contains("MONOTONIC_USEC="));
    next("READY=1");
    server.signal(Signal::SIGTERM);
    next("STOPPING=1");
    let ended = server.end(LIMIT);
    ended.assert_code(0);
    let marked = |line: &str| line.starts_with("<6>") || line.starts_with("<4>") || line.starts_with("<3>");
    assert!(ended.stderr.lines().all(marked), "{}", ended.stderr);
}

#[test]
fn an_interface_that_is_not_there_yet_is_waited_for_and_said_so() {
    let site = Site::beside("late", one_switch(2));
    let dir = site.directory("dest");
    site.set_up("n1", "ip", &["link", "set", "eth0", "down"]);
    let server = Run::start("n1", serve_command(&site, "n1", &["--allow-group", "a"], &dir));
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
fn nobody_serves_with_sockets_that_root_has_opened() {
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
fn nobody_serves_with_the_one_capability_that_the_unit_gives() {
    let site = Site::beside("capability", one_switch(2));
    let dir = site.directory("dest");
    fs::set_permissions(&dir, Permissions::from_mode(0o777)).expect("allowed");
    fs::set_permissions(site.scratch(), Permissions::from_mode(0o755)).expect("allowed");
    let program = site.path("ethbcast");
    fs::copy(PROGRAM, &program).expect("copied");
    let unit =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/systemd/ethbcast-recv@.service")).expect("there");
    for line in ["AmbientCapabilities=CAP_NET_RAW", "CapabilityBoundingSet=CAP_NET_RAW", "NoNewPrivileges=yes"] {
        assert!(unit.lines().any(|own| own == line), "{line}");
    }
    let mut setpriv = site.command("n1", "setpriv");
    setpriv.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs", "--inh-caps=-all,+net_raw"]);
    setpriv.args(["--ambient-caps=-all,+net_raw", "--bounding-set=-all,+net_raw"]).arg(&program);
    serves_as_nobody(&site, setpriv, &dir);
}

/// Starts a receiver of two groups by this command, which becomes user nobody, and sends to both.
fn serves_as_nobody(site: &Site, mut command: std::process::Command, dir: &std::path::Path) {
    command.args(["recv", "--serve", "-i", "eth0", "--allow-group", "a,b"]).arg(dir);
    command.env_remove("ETHBCAST_HOST").env("ETHBCAST_CONFIG", "");
    let server = Run::start("n1", command);
    server.wait_for_line("serving 2 groups (a,b)");
    let (one, two) = (site.file("one", "of a"), site.file("two", "of b"));
    send(site, "a", "1", &[], &one).end(LIMIT).assert_code(0);
    send(site, "b", "1", &[], &two).end(LIMIT).assert_code(0);
    wait_for_file(&dir.join("one"), b"of a");
    wait_for_file(&dir.join("two"), b"of b");
    assert_ne!(fs::metadata(dir.join("one")).map(|file| std::os::unix::fs::MetadataExt::uid(&file)).ok(), Some(0));
    server.signal(Signal::SIGTERM);
    server.end(LIMIT).assert_code(0);
}
