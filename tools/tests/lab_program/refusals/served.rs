//! Ports for processes without the permission to open one.

use super::nobody::Nobody;
use crate::harness::{LIMIT, PROGRAM, Run, Site, content, one_switch, within};
use nix::sys::signal::Signal;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

fn serve(site: &Site, host: &str, socket: &Path, more: &[&str]) -> Run {
    let mut command = site.command(host, PROGRAM);
    command.args(["port", "--mode", "666", "--serve"]).arg(socket).args(more);
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
    nobody.start_with(site, "n1", "-all", &[&["recv", "-i", "eth0", "--max-wait", "20"], more].concat(), dest, around)
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
    assert!(ended.is_some_and(|status| status.success()) && !socket.exists(), "{}", server.stderr());

    // A server in another namespace has another network.
    let _elsewhere = serve(&site, "n0", &socket, &[]);
    let refused = receive(&nobody, &site, &socket, &[], &open.join("other")).end(LIMIT);
    refused.assert_refusal(4, &["another network namespace"]);
}
