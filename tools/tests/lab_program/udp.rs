//! Tests of transfers beyond one Ethernet, on hosts in network namespaces: over UDP, also by a user
//! without privileges, and through relays.

use crate::harness::{Ended, Ethbcast, LIMIT, MEBIBYTE, PROGRAM, Run, Site, content, one_switch};
use ethbcast_lab::LabConfig;
use ethbcast_tests::lab::within;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
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
        ip(
            &site,
            &format!("n{host}"),
            &format!("address add {address} dev eth0"),
        );
    }
    open(site.scratch(), 0o777);
    fs::copy(PROGRAM, site.path("ethbcast")).expect("room for the program");
    open(&site.path("ethbcast"), 0o755);
    site
}

fn ip(site: &Site, host: &str, words: &str) {
    site.set_up(host, "ip", &words.split(' ').collect::<Vec<_>>());
}

fn open(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
}

/// Prepares the program on a host, as root or as a user without rights.
pub fn command(site: &Site, host: &str, is_root: bool, arguments: &[&str], path: &Path) -> Command {
    let mut command = if is_root {
        site.ethbcast(host, [""; 0])
    } else {
        let mut command = site.command(host, "setpriv");
        command.args(NOBODY).arg(site.path("ethbcast"));
        command
    };
    let carrier = if arguments.contains(&"--over") {
        &[][..]
    } else {
        &["--over", "udp"]
    };
    command
        .args(arguments)
        .args(carrier)
        .args(["--max-wait", "20"])
        .arg(path);
    command
}

/// Sends a file to all other hosts; returns the ends of all, the sender's first.
fn transfer(
    site: &Site,
    is_root: bool,
    options: &[&str],
    source: &Path,
) -> (Vec<Ended>, Vec<PathBuf>) {
    let hosts = site.lab().hosts().len();
    let dests: Vec<PathBuf> = (1..hosts)
        .map(|host| site.path(&format!("received-{host}")))
        .collect();
    let receive = |(at, dest): (usize, &PathBuf)| {
        let host = format!("n{}", at + 1);
        Run::start(&host, command(site, &host, is_root, &["recv"], dest))
    };
    let receivers: Vec<Run> = dests.iter().enumerate().map(receive).collect();
    let count = (hosts - 1).to_string();
    let arguments = [&["send", "--receivers", &count][..], options].concat();
    let sender = Run::start("n0", command(site, "n0", is_root, &arguments, source));
    let ended = std::iter::once(sender)
        .chain(receivers)
        .map(|run| run.end(LIMIT))
        .collect();
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
            assert!(
                fs::read(&dest).expect("received") == bytes,
                "{} bytes by {via} as root: {is_root}",
                bytes.len()
            );
            fs::remove_file(dest).expect("it is there");
        }
    }
}

#[test]
fn a_user_without_rights_is_told_of_udp_and_a_host_without_an_address_of_ethernet() {
    let site = site("udp_refused", 2);
    site.set_up("n1", "ip", &["address", "flush", "dev", "eth0"]);
    let mut raw = site.command("n0", "setpriv");
    raw.args(NOBODY)
        .arg(site.path("ethbcast"))
        .args(["recv", "--max-wait", "5"])
        .arg(site.path("dest"));
    Run::start("n0", raw)
        .end(LIMIT)
        .assert_refusal(4, &["raw Ethernet on eth0 is not permitted", "--over udp"]);
    let without = command(
        &site,
        "n1",
        true,
        &["recv", "-i", "eth0"],
        &site.path("dest"),
    );
    Run::start("n1", without)
        .end(LIMIT)
        .assert_refusal(4, &["no IPv4 address", "ip address add"]);
    let low = Run::start(
        "n0",
        site.ethbcast("n0", ["recv", "--over", "udp:80", "/dev/null"]),
    );
    low.end(LIMIT).assert_refusal(2, &["udp:PORT"]);
}

#[test]
fn a_firewall_that_drops_the_groups_port_is_named_at_both_ends_of_the_wait() {
    let site = site("udp_firewall", 2);
    let source = site.file("source", content(1, 1000));
    let send = |host: &str, wait: &str| {
        site.run(
            host,
            &[
                "send",
                "--over",
                "udp",
                "--receivers",
                "1",
                "--max-wait",
                wait,
            ],
            &source,
        )
    };
    let rule = |host: &str, hook: &str| {
        let rules = format!(
            "table inet t {{ chain c {{ type filter hook {hook} priority 0; udp dport {GROUP_PORT} counter drop; }}; }}"
        );
        site.set_up(host, "nft", &[&rules]);
    };
    rule("n1", "input");
    let receiver = site.start(
        "n1",
        &["recv", "--over", "udp", "--max-wait", "3"],
        site.path("dest"),
    );
    send("n0", "2").assert_refusal(3, &["18613", "nft", "239.19"]);
    receiver
        .end(LIMIT)
        .assert_refusal(3, &["18613", "nft", "--over udp"]);
    rule("n0", "output");
    send("n0", "4").assert_refusal(
        4,
        &[
            "no frame leaves over UDP on eth0",
            "EPERM",
            "nft list ruleset",
        ],
    );
}

#[test]
fn a_sender_and_its_receivers_on_one_host_reach_each_other() {
    let site = site("udp_one_host", 2);
    let bytes = content(7, 300_000);
    let source = site.file("source", &bytes);
    let receivers = ["a", "b"].map(|name| {
        let dest = site.path(name);
        let run = site.start(
            "n0",
            &["recv", "--over", "udp", "--host", name, "--max-wait", "20"],
            &dest,
        );
        (run, dest)
    });
    let arguments = [
        "send",
        "--over",
        "udp:50000",
        "--receivers",
        "2",
        "--max-wait",
        "20",
    ];
    site.run("n0", &arguments, &source).assert_code(0);
    for (run, dest) in receivers {
        run.end(LIMIT).assert_code(0);
        assert!(fs::read(dest).expect("received") == bytes);
    }
}

#[test]
fn frames_for_all_have_the_time_to_live_that_is_asked_for() {
    let site = site("udp_ttl", 2);
    let source = site.file("source", content(9, 100_000));
    open(&source, 0o644);
    let drops = format!("udp dport {GROUP_PORT} ip ttl != 3 counter drop;");
    let rules =
        format!("table ip t {{ chain c {{ type filter hook input priority 0; {drops} }}; }}");
    site.set_up("n1", "nft", &[&rules]);
    let (ended, _) = transfer(&site, false, &["--ttl", "3", "--via", "cast"], &source);
    ended.iter().for_each(|ended| ended.assert_code(0));
    let short = ["send", "--over", "udp", "-n", "1", "--max-wait", "1"];
    let receiver = site.start(
        "n1",
        &["recv", "--over", "udp", "--max-wait", "3"],
        site.path("d"),
    );
    site.run("n0", &short, &source).assert_code(3);
    receiver.end(LIMIT).assert_code(3);
    site.run("n0", &["send", "--ttl", "0"], &source)
        .assert_refusal(2, &["--ttl"]);
}

/// Three networks of two hosts, which are dealt round, behind one router, which counts what it
/// passes to each and from each. Nothing that is sent to a group arrives.
pub fn routed(story: &str) -> Site {
    const ROUTER: &str = "n6";
    let site = site(story, 7);
    for host in 0..6 {
        let (name, network) = (format!("n{host}"), host % 3);
        let own = routed_address(host);
        ip(&site, &name, "address flush dev eth0");
        ip(&site, &name, &format!("address add {own}/24 dev eth0"));
        ip(
            &site,
            &name,
            &format!("route add default via 10.254.{network}.1"),
        );
        site.set_up(
            &name,
            "nft",
            &["table ip t { chain c { type filter hook input priority 0; \
            ip daddr 224.0.0.0/4 counter drop; }; }"],
        );
    }
    let mut rules = String::new();
    for network in 0..3 {
        ip(
            &site,
            ROUTER,
            &format!("address add 10.254.{network}.1/24 dev eth0"),
        );
        let of = format!("10.254.{network}.0/24");
        rules += &format!(
            "ip daddr {of} counter name to{network}; ip saddr {of} counter name from{network};"
        );
    }
    let counters: String = (0..3)
        .map(|network| format!("counter to{network} {{ }}; counter from{network} {{ }};"))
        .collect();
    let chain = format!("chain f {{ type filter hook forward priority 0; {rules} }};");
    site.set_up(
        ROUTER,
        "nft",
        &[&format!("table ip t {{ {counters} {chain} }}")],
    );
    for setting in [
        "ip_forward=1",
        "conf.all.send_redirects=0",
        "conf.eth0.send_redirects=0",
    ] {
        site.set_up(ROUTER, "sysctl", &["-qw", &format!("net.ipv4.{setting}")]);
    }
    site
}

pub fn routed_address(host: usize) -> String {
    format!("10.254.{}.{}", host % 3, 10 + host / 3)
}

/// Returns the bytes that the router has passed to each network, then those from each.
fn passed_bytes(site: &Site) -> Vec<u64> {
    let listed = site
        .command("n6", "nft")
        .args(["-j", "list", "counters"])
        .output()
        .expect("nft runs");
    let listed: Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    let bytes = |name: String| {
        let counters = listed["nftables"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|one| &one["counter"]);
        let counter = counters
            .clone()
            .find(|counter| counter["name"] == name.as_str());
        counter.expect("it is listed")["bytes"]
            .as_u64()
            .expect("a number")
    };
    ["to", "from"]
        .iter()
        .flat_map(|way| (0..3).map(move |network| format!("{way}{network}")))
        .map(bytes)
        .collect()
}

#[test]
fn by_unicast_a_file_passes_a_router_once_for_each_network_and_needs_no_multicast_nor_right() {
    let site = routed("udp_routed");
    let bytes = content(3, 8 * MEBIBYTE);
    let source = site.file("source", &bytes);
    open(&source, 0o644);
    let order = [2, 4, 1, 3, 5];
    for via in ["chain", "auto"] {
        let before = passed_bytes(&site);
        let receivers: Vec<_> = order
            .iter()
            .map(|host| {
                let (name, dest) = (format!("n{host}"), site.path(&format!("{via}-{host}")));
                let command = command(&site, &name, false, &["recv", "--over", "unicast"], &dest);
                (Run::start(&name, command), dest)
            })
            .collect();
        let hosts = order.map(routed_address).join(",");
        let arguments = ["send", "--over", "unicast", "--via", via, "--hosts", &hosts];
        Run::start("n0", command(&site, "n0", false, &arguments, &source))
            .end(LIMIT)
            .assert_code(0);
        for (run, dest) in receivers {
            run.end(LIMIT).assert_code(0);
            assert!(
                fs::read(&dest).expect("received") == bytes,
                "{}",
                dest.display()
            );
        }
        let passed: Vec<u64> = passed_bytes(&site)
            .iter()
            .zip(before)
            .map(|(now, then)| now - then)
            .collect();
        let copies: Vec<f64> = passed
            .iter()
            .map(|&passed| passed as f64 / bytes.len() as f64)
            .collect();
        assert!(
            copies.iter().all(|&copies| copies <= 1.05),
            "{via}: {copies:?}"
        );
        assert!(copies[1] >= 1.0 && copies[2] >= 1.0, "{via}: {copies:?}");
    }
}

#[test]
fn by_unicast_receivers_that_name_their_sender_reach_one_that_knows_none_across_a_router() {
    let site = routed("udp_from");
    let bytes = content(4, 2 * MEBIBYTE);
    let source = site.file("source", &bytes);
    open(&source, 0o644);
    let arguments = ["send", "--over", "unicast", "-n", "3"];
    let mut senders: Vec<_> = ["n0", "n1"]
        .map(|host| Run::start(host, command(&site, host, false, &arguments, &source)))
        .into();
    let receivers: Vec<_> = [2, 3, 4]
        .map(|host| {
            let (name, dest) = (format!("n{host}"), site.path(&format!("received-{host}")));
            let from = ["recv", "--over", "unicast", "--from", &routed_address(0)];
            (
                Run::start(&name, command(&site, &name, false, &from, &dest)),
                dest,
            )
        })
        .into();
    let other = senders.pop().expect("two were started");
    for sender in senders {
        let sender = sender.end(LIMIT);
        sender.assert_code(0);
        assert!(
            sender.stderr.contains("--from 10.254.0.10"),
            "{}",
            sender.stderr
        );
    }
    for (run, dest) in receivers {
        run.end(LIMIT).assert_code(0);
        assert!(fs::read(&dest).expect("received") == bytes);
    }
    other.signal(Signal::SIGTERM);
    other.end(LIMIT).assert_code(128 + Signal::SIGTERM as i32);
}

#[test]
fn by_unicast_receivers_of_a_sender_that_is_killed_end_at_once_and_say_why() {
    let site = site("udp_unicast_killed", 3);
    let dests = [1, 2].map(|host| site.path(&format!("received-{host}")));
    let receivers: Vec<Run> = dests
        .iter()
        .enumerate()
        .map(|(at, dest)| {
            site.start(
                &format!("n{}", at + 1),
                &["recv", "--over", "unicast", "--max-wait", "20"],
                dest,
            )
        })
        .collect();
    // The third host is not there, so the session does not start.
    let hosts = [
        "send",
        "--over",
        "unicast",
        "--max-wait",
        "60",
        "--hosts",
        "10.254.0.11,10.254.0.12,10.254.0.99",
    ];
    let sender = site.start("n0", &hosts, site.file("source", content(1, 1000)));
    sender.wait_for_line("2 of 3 receivers are there");
    sender.signal(Signal::SIGKILL);
    for receiver in receivers {
        receiver.wait_for_line("the sender's process has ended");
    }
}

#[test]
fn by_unicast_hosts_without_an_address_a_cast_and_a_second_receiver_are_refused_with_what_to_do() {
    let site = site("udp_unicast_refused", 2);
    let source = site.file("source", content(1, 1000));
    let send = |options: &[&str]| {
        let arguments = [&["send", "--over", "unicast", "--max-wait", "10"], options].concat();
        site.run("n0", &arguments, &source)
    };
    send(&["-n", "1", "--late"]).assert_refusal(2, &["unicast", "--hosts"]);
    let dest = site.path("dest");
    let elsewhere = ["recv", "--over", "udp", "--from", "10.254.0.10"];
    site.run("n1", &elsewhere, &dest)
        .assert_refusal(2, &["10.254.0.10", "--over unicast"]);
    send(&["--hosts", "no-such-name.invalid"])
        .assert_refusal(2, &["no-such-name.invalid", "/etc/hosts"]);
    let there = site.start(
        "n1",
        &["recv", "--over", "unicast", "--once", "--max-wait", "30"],
        site.path("dest"),
    );
    let is_bound = || {
        let bound = site
            .command("n1", "ss")
            .arg("-lunH")
            .output()
            .expect("ss runs");
        String::from_utf8_lossy(&bound.stdout)
            .contains(&format!("10.254.0.11:{GROUP_PORT}"))
            .then_some(())
    };
    within(LIMIT, is_bound).expect("it takes the port");
    let second = site.run(
        "n1",
        &["recv", "--over", "unicast", "--max-wait", "5"],
        site.path("second"),
    );
    second.assert_refusal(4, &["UDP port 18613 of 10.254.0.11", "ss -lunp"]);
    send(&["--hosts", "10.254.0.11", "--via", "cast"]).assert_refusal(2, &["--via", "unicast"]);
    there
        .end(LIMIT)
        .assert_refusal(1, &["nothing can be cast", "--via"]);
    site.run("n0", &["probe", "--over", "unicast"], "-n1")
        .assert_refusal(2, &["--over udp"]);
}

/// Gives all hosts of a lab addresses of IPv6 alone, each the one that `address` says or, without,
/// only that of its link.
fn of_ipv6(site: &Site, address: impl Fn(usize) -> Option<String>) {
    for host in 0..site.lab().hosts().len() {
        let name = format!("n{host}");
        ip(site, &name, "-4 address flush dev eth0");
        for setting in ["accept_dad=0", "disable_ipv6=1", "disable_ipv6=0"] {
            let setting = format!("net.ipv6.conf.eth0.{setting}");
            site.set_up(&name, "sysctl", &["-qw", &setting]);
        }
        if let Some(address) = address(host) {
            ip(
                site,
                &name,
                &format!("-6 address add {address}/64 dev eth0 nodad"),
            );
        }
    }
}

#[test]
fn where_there_is_no_ipv4_files_go_over_ipv6_by_cast_and_chain_with_addresses_of_the_link_too() {
    let site = site("udp_ipv6", 4);
    let bytes = content(5, 2 * MEBIBYTE);
    let source = site.file("source", &bytes);
    open(&source, 0o644);
    for (prefix, via) in [
        (Some("fd00:254::"), "cast"),
        (Some("fd00:254::"), "chain"),
        (None, "cast"),
        (None, "chain"),
    ] {
        of_ipv6(&site, |host| Some(format!("{}{}", prefix?, 10 + host)));
        let (ended, dests) = transfer(&site, false, &["--via", via], &source);
        ended.iter().for_each(|ended| ended.assert_code(0));
        for dest in dests {
            assert!(
                fs::read(&dest).expect("received") == bytes,
                "{prefix:?} {via}"
            );
            fs::remove_file(dest).expect("it is there");
        }
    }
}

/// Three networks of IPv6 of two hosts, which are dealt round, behind one router.
fn routed_ipv6(story: &str) -> Site {
    let site = site(story, 7);
    of_ipv6(&site, |host| (host < 6).then(|| routed_ipv6_address(host)));
    for network in 0..3 {
        let own = format!("fd00:254:{network}::1/64");
        ip(&site, "n6", &format!("-6 address add {own} dev eth0 nodad"));
    }
    site.set_up("n6", "sysctl", &["-qw", "net.ipv6.conf.all.forwarding=1"]);
    for host in 0..6 {
        let (name, by) = (format!("n{host}"), format!("fd00:254:{}::1", host % 3));
        let route = format!("-6 route add default via {by} dev eth0");
        ip(&site, &name, &route);
        // As where no multicast goes, but for the neighbours' own.
        site.set_up(
            &name,
            "nft",
            &[
                "table ip6 t { chain c { type filter hook input priority 0; \
            ip6 daddr ff15::/16 counter drop; }; }",
            ],
        );
    }
    site
}

fn routed_ipv6_address(host: usize) -> String {
    format!("fd00:254:{}::{}", host % 3, 10 + host / 3)
}

#[test]
fn over_ipv6_by_unicast_a_file_passes_a_router_to_hosts_that_are_named_and_to_those_that_call() {
    let site = routed_ipv6("udp_ipv6_routed");
    let bytes = content(6, 2 * MEBIBYTE);
    let source = site.file("source", &bytes);
    open(&source, 0o644);
    let order = [2, 4, 1, 3, 5];
    let named = order.map(routed_ipv6_address).join(",");
    let own = routed_ipv6_address(0);
    for (to, from) in [
        (
            ["--hosts", named.as_str()],
            &["recv", "--over", "unicast"][..],
        ),
        (["-n", "5"], &["recv", "--over", "unicast", "--from", &own]),
    ] {
        let receivers: Vec<_> = order
            .iter()
            .map(|host| {
                let (name, dest) = (format!("n{host}"), site.path(&format!("received-{host}")));
                let command = command(&site, &name, false, from, &dest);
                (Run::start(&name, command), dest)
            })
            .collect();
        let send = [&["send", "--over", "unicast", "--via", "chain"][..], &to].concat();
        let sender = Run::start("n0", command(&site, "n0", false, &send, &source)).end(LIMIT);
        sender.assert_code(0);
        for (run, dest) in receivers {
            run.end(LIMIT).assert_code(0);
            assert!(fs::read(&dest).expect("received") == bytes, "{to:?}");
            fs::remove_file(dest).expect("it is there");
        }
    }
    let (mixed, ipv4) = ("fd00:254:1::10,10.254.0.11", "10.254.0.11");
    for (hosts, code, words) in [
        (mixed, 2, ["no IPv4 address", "of one family"]),
        (ipv4, 4, ["eth0 has no IPv4 address", "ip address add"]),
    ] {
        let arguments = ["send", "--over", "unicast", "--hosts", hosts];
        Run::start("n0", command(&site, "n0", false, &arguments, &source))
            .end(LIMIT)
            .assert_refusal(code, &words);
    }
}

/// Host of a lab that has a second interface, eth1, in another network.
const RELAY: &str = "n2";
const RELAYED_BITS_PER_SECOND: u64 = 100_000_000;

/// Two networks on shaped cables, n0 to n2 and n1 to n3. The cable of the second one's n0 is eth1 of
/// the first one's [`RELAY`].
fn joined(story: &str) -> [Site; 2] {
    let site = |(end, hosts)| {
        let config = LabConfig {
            rate_bits_per_second: Some(RELAYED_BITS_PER_SECOND),
            ..one_switch(hosts)
        };
        Site::beside(&format!("{story}_{end}"), config)
    };
    let [near, far] = [("near", 3), ("far", 4)].map(site);
    give_eth1(&near, &far, "n0");
    [near, far]
}

/// Makes the cable of `host` that of the relay's second interface, with an address and the shaper
/// that it loses on the way.
fn give_eth1(near: &Site, far: &Site, host: &str) {
    let relay = near.lab().namespace(RELAY).expect("a host of this lab");
    ip(far, host, &format!("link set eth0 netns {relay} name eth1"));
    ip(near, RELAY, "link set eth1 address 02:00:00:00:01:01");
    ip(near, RELAY, "link set eth1 up");
    let rate = RELAYED_BITS_PER_SECOND.to_string();
    let shaper = ["qdisc", "add", "dev", "eth1", "root", "tbf", "rate", &rate];
    let bucket = ["burst", "16k", "limit", "1m"];
    near.set_up(RELAY, "tc", &[&shaper[..], &bucket].concat());
}

fn start_relay(site: &Site, options: &[&str]) -> Run {
    let arguments = ["relay", "-i", "eth0", "--onto", "eth1", "--max-wait", "20"];
    let command = site.ethbcast(RELAY, [&arguments[..], options].concat());
    Run::start(RELAY, command)
}

/// Starts receivers, which leave nothing when they are killed.
fn start_receivers(site: &Site, hosts: &[&str]) -> Vec<(Run, PathBuf)> {
    let receive = |host: &&str| {
        let dest = site.path(&format!("received-{host}"));
        let options = ["recv", "--no-resume", "--max-wait", "20"];
        (site.start(host, &options, &dest), dest)
    };
    hosts.iter().map(receive).collect()
}

/// Returns the bytes that an interface has received and sent.
fn carried_bytes(site: &Site, host: &str, interface: &str) -> [u64; 2] {
    let read = || fs::read_to_string("/proc/thread-self/net/dev").expect("its own namespace");
    let table = site.lab().run_on(host, read).expect("a host of this lab");
    let row = table
        .lines()
        .find_map(|line| line.trim_start().strip_prefix(&format!("{interface}:")))
        .expect("its interface");
    let numbers: Vec<&str> = row.split_whitespace().collect();
    [0, 8].map(|column| numbers[column].parse().expect("a number"))
}

/// Returns the relay's row of a sender's report.
fn relay_row(report: &Value) -> &Value {
    let rows = report["receivers"].as_array().expect("a list");
    rows.iter()
        .find(|row| row["host"] == RELAY)
        .unwrap_or_else(|| panic!("no relay in {report}"))
}

fn row_behind(host: &str, status: &str) -> Value {
    json!({ "host": host, "status": status })
}

#[test]
fn a_relay_passes_everything_on_once_and_the_sender_names_every_host_behind_it() {
    let [near, far] = joined("relay");
    let bytes = content(1, 64 * MEBIBYTE);
    let source = near.directory("source");
    fs::write(source.join("file"), &bytes).expect("written");
    fs::create_dir(source.join("empty")).expect("made");
    let links = [
        (&near, "n0", "eth0"),
        (&near, "n1", "eth0"),
        (&near, RELAY, "eth0"),
        (&near, RELAY, "eth1"),
        (&far, "n1", "eth0"),
        (&far, "n3", "eth0"),
    ];
    let look = || links.map(|(site, host, interface)| carried_bytes(site, host, interface));
    let before = look();
    let receivers = [
        start_receivers(&near, &["n1"]),
        start_receivers(&far, &["n1", "n3"]),
    ];
    let relay = start_relay(&near, &["-n", "2", "--json"]);
    let options = [
        "send",
        "--json",
        "--no-probe",
        "-n",
        "2",
        "--max-wait",
        "20",
    ];
    let sender = near.run("n0", &options, &source);
    sender.assert_code(0);
    let relay = relay.end(LIMIT);
    relay.assert_code(0);
    for (run, dest) in receivers.into_iter().flatten() {
        run.end(LIMIT).assert_code(0);
        assert!(fs::read(dest.join("file")).expect("received") == bytes);
        assert!(dest.join("empty").is_dir(), "{}", dest.display());
    }
    let report = sender.json();
    let named = [row_behind("n1", "verified"), row_behind("n3", "verified")];
    let row = relay_row(&report);
    assert_eq!(row["status"], "verified", "{report}");
    assert_eq!(
        row["behind"],
        json!({ "hosts": 2, "named": named }),
        "{report}"
    );
    assert_eq!(relay.json()["blake3"], report["blake3"], "the same content");
    for (link, (after, before)) in links.iter().zip(look().into_iter().zip(before)) {
        for (after, before) in after.into_iter().zip(before) {
            let copies = (after - before) as f64 / bytes.len() as f64;
            assert!(copies <= 1.05, "{copies} at {} {}", link.1, link.2);
        }
    }
}

#[test]
fn a_receiver_that_dies_behind_a_relay_is_named_by_the_sender_and_the_others_go_on() {
    let [near, far] = joined("relay_death");
    let bytes = content(2, 16 * MEBIBYTE);
    let source = near.file("source", &bytes);
    let mut behind = start_receivers(&far, &["n1", "n3"]);
    let own = start_receivers(&near, &["n1"]);
    let relay = start_relay(&near, &["-n", "2"]);
    let options = ["send", "--json", "-n", "2", "--max-wait", "20"];
    let sender = near.start("n0", &options, &source);
    let (victim, _) = behind.remove(0);
    kill_amid(&victim, far.scratch());
    let sender = sender.end(LIMIT);
    sender.assert_code(1);
    let report = sender.json();
    let row = relay_row(&report);
    assert!(
        row["reason"]
            .as_str()
            .is_some_and(|why| why.contains("n1 (died)")),
        "{report}"
    );
    let named = [row_behind("n1", "died"), row_behind("n3", "verified")];
    assert_eq!(
        row["behind"],
        json!({ "hosts": 2, "named": named }),
        "{report}"
    );
    let relay = relay.end(LIMIT);
    relay.assert_code(1);
    assert!(relay.stderr.contains("n1 (died)"), "{}", relay.stderr);
    victim.end(LIMIT).assert_code(128 + Signal::SIGKILL as i32);
    for (run, dest) in behind.into_iter().chain(own) {
        run.end(LIMIT).assert_code(0);
        assert!(fs::read(&dest).expect("received") == bytes);
    }
}

/// Kills a receiver when some of the content has come.
fn kill_amid(victim: &Run, directory: &Path) {
    let has_some = || {
        let bytes = victim.open_bytes(directory)?;
        (bytes > MEBIBYTE as u64).then_some(())
    };
    within(LIMIT, has_some).expect("data comes");
    victim.signal(Signal::SIGKILL);
}

#[test]
fn the_death_of_a_sender_or_of_a_relay_reaches_the_other_network_with_its_reason() {
    let [near, far] = joined("relay_ends");
    let source = near.file("source", content(3, 16 * MEBIBYTE));
    for (killed, said) in [
        ("n0", "the relay n2 gave up: the sender's process"),
        (RELAY, "process"),
    ] {
        let behind = start_receivers(&far, &["n1"]);
        let relay = start_relay(&near, &["-n", "1"]);
        let options = ["send", "--json", "-n", "1", "--max-wait", "20"];
        let sender = near.start("n0", &options, &source);
        let (receiver, _) = &behind[0];
        let has_some = || {
            let bytes = receiver.open_bytes(far.scratch())?;
            (bytes > MEBIBYTE as u64).then_some(())
        };
        within(LIMIT, has_some).expect("data comes");
        let victim = if killed == RELAY { &relay } else { &sender };
        victim.signal(Signal::SIGKILL);
        for (run, _) in behind {
            run.end(LIMIT).assert_refusal(1, &[said, "has ended"]);
        }
        let (relay, sender) = (relay.end(LIMIT), sender.end(LIMIT));
        if killed == RELAY {
            sender.assert_code(1);
            assert_eq!(relay_row(&sender.json())["status"], "died");
        } else {
            relay.assert_refusal(1, &["the sender's process has ended"]);
        }
    }
}

#[test]
fn a_relay_that_loops_or_has_nobody_behind_it_is_named_at_both_ends() {
    let near = Site::beside("relay_loop", one_switch(4));
    give_eth1(&near, &near, "n3");
    let source = near.file("source", content(4, 1000));
    let send = [
        "send",
        "--json",
        "-n",
        "2",
        "--min-receivers",
        "1",
        "--max-wait",
        "8",
    ];
    let meet = |host: &str, wait: &str| {
        let receivers = start_receivers(&near, &["n1"]);
        let command = near.ethbcast(
            RELAY,
            [
                "relay",
                "-i",
                "eth0",
                "--onto",
                host,
                "-n",
                "1",
                "--max-wait",
                wait,
            ],
        );
        let relay = Run::start(RELAY, command);
        let sender = near.run("n0", &send, &source);
        sender.assert_code(0);
        for (run, dest) in receivers {
            run.end(LIMIT).assert_code(0);
            fs::remove_file(dest).expect("it is there");
        }
        let report = sender.json();
        let left_out = report["left_out"].as_array().expect("a list").clone();
        let of_relay = left_out.into_iter().find(|one| one["host"] == RELAY);
        let why = of_relay.unwrap_or_else(|| panic!("no relay in {report}"))["reason"].clone();
        (relay.end(LIMIT), why.as_str().expect("a text").to_owned())
    };
    let (relay, told) = meet("eth1", "20");
    relay.assert_refusal(2, &["loops back to its own network", "eth0", "eth1"]);
    assert!(told.contains("loops back to its own network"), "{told}");
    near.set_up(
        RELAY,
        "ip",
        &[
            "link", "add", "eth2", "type", "veth", "peer", "name", "eth3",
        ],
    );
    near.set_up(RELAY, "ip", &["link", "set", "eth2", "up"]);
    near.set_up(RELAY, "ip", &["link", "set", "eth3", "up"]);
    let (relay, told) = meet("eth2", "1");
    relay.assert_refusal(3, &["0 of 1 receivers joined within 1 s"]);
    assert!(told.contains("0 of 1 receivers joined"), "{told}");
}

#[test]
fn a_dry_run_or_a_sender_that_gives_up_before_the_start_leaves_a_relay_and_those_behind_waiting() {
    let [near, far] = joined("relay_waits");
    let bytes = content(5, MEBIBYTE);
    let source = near.file("source", &bytes);
    let behind = start_receivers(&far, &["n1", "n3"]);
    let relay = start_relay(&near, &["-n", "2"]);
    let send = |options: &[&str]| {
        let arguments = [&["send", "--json", "--no-probe"][..], options].concat();
        near.run("n0", &arguments, &source)
    };
    send(&["-n", "1", "--dry-run"]).assert_code(0);
    relay.wait_for_line("--dry-run");
    let too_few = send(&["-n", "2", "--max-wait", "3"]);
    too_few.assert_code(3);
    assert!(too_few.stdout_text().contains("1 of 2 receivers joined"));
    let sender = send(&["-n", "1", "--max-wait", "15"]);
    sender.assert_code(0);
    let row = relay_row(&sender.json()).clone();
    assert_eq!(row["behind"]["hosts"], 2, "{row}");
    relay.end(LIMIT).assert_code(0);
    for (run, dest) in behind {
        run.end(LIMIT).assert_code(0);
        assert!(fs::read(dest).expect("received") == bytes);
    }
    let again = start_relay(&near, &["-n", "1"]);
    let own = near.start(
        RELAY,
        &["send", "-i", "eth0", "-n", "1", "--max-wait", "20"],
        &source,
    );
    again
        .end(LIMIT)
        .assert_refusal(2, &["runs on this host, behind the same interface eth0"]);
    own.end(LIMIT).assert_refusal(2, &["run on this host"]);
}
