//! Tests of transfers over UDP on the hosts of a lab, also by a user without privileges.

use crate::harness::{Ended, Ethbcast, LIMIT, MEBIBYTE, PROGRAM, Run, Site, content, one_switch};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Port of all groups with the usual EtherType.
const GROUP_PORT: &str = "18613";
/// No route to groups, no privilege, no capability.
const NOBODY: [&str; 7] = [
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    "--inh-caps=-all",
    "--bounding-set=-all",
    "--no-new-privs",
    "--",
];

/// A lab whose hosts have addresses, and a directory for everybody.
fn site(story: &str, hosts: usize) -> Site {
    let site = Site::beside(story, one_switch(hosts));
    for host in 0..hosts {
        let address = format!("10.254.0.{}/24", 10 + host);
        site.set_up(&format!("n{host}"), "ip", &["address", "add", &address, "dev", "eth0"]);
    }
    open(site.scratch(), 0o777);
    fs::copy(PROGRAM, site.path("ethbcast")).expect("room for the program");
    open(&site.path("ethbcast"), 0o755);
    site
}

fn open(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
}

/// Prepares the program on a host, as root or as a user without rights.
fn command(site: &Site, host: &str, is_root: bool, arguments: &[&str], path: &Path) -> Command {
    let mut command = if is_root {
        site.ethbcast(host, [""; 0])
    } else {
        let mut command = site.command(host, "setpriv");
        command.args(NOBODY).arg(site.path("ethbcast"));
        command
    };
    command.args(arguments).args(["--over", "udp", "--max-wait", "20"]).arg(path);
    command
}

/// Sends a file to all other hosts; returns the ends of all, the sender's first.
fn transfer(site: &Site, is_root: bool, options: &[&str], source: &Path) -> (Vec<Ended>, Vec<PathBuf>) {
    let hosts = site.lab().hosts().len();
    let dests: Vec<PathBuf> = (1..hosts).map(|host| site.path(&format!("received-{host}"))).collect();
    let receive = |(at, dest): (usize, &PathBuf)| {
        let host = format!("n{}", at + 1);
        Run::start(&host, command(site, &host, is_root, &["recv"], dest))
    };
    let receivers: Vec<Run> = dests.iter().enumerate().map(receive).collect();
    let count = (hosts - 1).to_string();
    let arguments = [&["send", "--receivers", &count][..], options].concat();
    let sender = Run::start("n0", command(site, "n0", is_root, &arguments, source));
    let ended = std::iter::once(sender).chain(receivers).map(|run| run.end(LIMIT)).collect();
    (ended, dests)
}

#[test]
fn files_of_all_lengths_reach_three_hosts_by_cast_and_chain_whoever_sends_and_receives() {
    let site = site("udp", 4);
    for (bytes, via, is_root) in [
        (0, "cast", true),
        (MEBIBYTE, "cast", true),
        (2 * MEBIBYTE, "chain", true),
        (0, "chain", false),
        (2 * MEBIBYTE, "cast", false),
        (MEBIBYTE + 1, "chain", false),
    ] {
        let bytes = content(bytes as u64, bytes);
        let source = site.file("source", &bytes);
        open(&source, 0o644);
        let (ended, dests) = transfer(&site, is_root, &["--via", via], &source);
        ended.iter().for_each(|ended| ended.assert_code(0));
        for dest in dests {
            assert!(fs::read(&dest).expect("received") == bytes, "{} bytes by {via} as root: {is_root}", bytes.len());
            fs::remove_file(dest).expect("it is there");
        }
    }
}

#[test]
fn a_user_without_rights_is_told_of_udp_and_a_host_without_an_address_of_ethernet() {
    let site = site("udp_refused", 2);
    site.set_up("n1", "ip", &["address", "flush", "dev", "eth0"]);
    let mut raw = site.command("n0", "setpriv");
    raw.args(NOBODY).arg(site.path("ethbcast")).args(["recv", "--max-wait", "5"]).arg(site.path("dest"));
    Run::start("n0", raw).end(LIMIT).assert_refusal(4, &["raw Ethernet on eth0 is not permitted", "--over udp"]);
    let without = command(&site, "n1", true, &["recv", "-i", "eth0"], &site.path("dest"));
    Run::start("n1", without).end(LIMIT).assert_refusal(4, &["no IPv4 address", "ip address add"]);
    let low = Run::start("n0", site.ethbcast("n0", ["recv", "--over", "udp:80", "/dev/null"]));
    low.end(LIMIT).assert_refusal(2, &["udp:PORT"]);
}

#[test]
fn a_firewall_that_drops_the_groups_port_is_named_at_both_ends_of_the_wait() {
    let site = site("udp_firewall", 2);
    let source = site.file("source", content(1, 1000));
    let send = |host: &str, wait: &str| {
        site.run(host, &["send", "--over", "udp", "--receivers", "1", "--max-wait", wait], &source)
    };
    let rule = |host: &str, hook: &str| {
        let rules = format!(
            "table inet t {{ chain c {{ type filter hook {hook} priority 0; udp dport {GROUP_PORT} counter drop; }}; }}"
        );
        site.set_up(host, "nft", &[&rules]);
    };
    rule("n1", "input");
    let receiver = site.start("n1", &["recv", "--over", "udp", "--max-wait", "3"], site.path("dest"));
    send("n0", "2").assert_refusal(3, &["18613", "nft", "239.19"]);
    receiver.end(LIMIT).assert_refusal(3, &["18613", "nft", "--over udp"]);
    rule("n0", "output");
    send("n0", "4").assert_refusal(4, &["no frame leaves over UDP on eth0", "EPERM", "nft list ruleset"]);
}

#[test]
fn a_sender_and_its_receivers_on_one_host_reach_each_other() {
    let site = site("udp_one_host", 2);
    let bytes = content(7, 300_000);
    let source = site.file("source", &bytes);
    let receivers = ["a", "b"].map(|name| {
        let dest = site.path(name);
        let run = site.start("n0", &["recv", "--over", "udp", "--host", name, "--max-wait", "20"], &dest);
        (run, dest)
    });
    let arguments = ["send", "--over", "udp:50000", "--receivers", "2", "--max-wait", "20"];
    site.run("n0", &arguments, &source).assert_code(0);
    for (run, dest) in receivers {
        run.end(LIMIT).assert_code(0);
        assert!(fs::read(dest).expect("received") == bytes);
    }
}
