//! The interface, and the permission to use it.

use super::nobody::Nobody;
use crate::harness::{Ethbcast, LIMIT, Site, lab_name, names_in, one_switch};
use nix::sys::signal::Signal;
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[test]
fn an_interface_that_will_not_do_is_refused_with_what_to_type_instead() {
    let site = Site::beside("iface", one_switch(2));
    let source = site.file("source", "text");
    let commands = [(&["send", "-n", "1"][..], source.as_path()), (&["recv"], &site.path("dest"))];
    for (command, path) in commands {
        let on = |host, interface: &[&str]| site.run(host, &[command, interface].concat(), path);
        on("n0", &["-i", "eth7"]).assert_refusal(4, &["no interface eth7", "eth0", "-i", "[E-INTERFACE]"]);
        on("n0", &["-i", "lo"]).assert_refusal(4, &["lo is not an Ethernet interface", "-i", "[E-INTERFACE]"]);
        site.set_up("n1", "ip", &["link", "set", "eth0", "down"]);
        on("n1", &["-i", "eth0"]).assert_refusal(4, &["eth0 is down", "ip link set eth0 up", "[E-DOWN]"]);
        on("n1", &[]).assert_refusal(4, &["no Ethernet interface is up", "ip link set"]);
        site.set_up("n1", "ip", &["link", "set", "eth0", "up"]);
    }
    site.set_up("n0", "ip", &["link", "add", "eth1", "type", "veth", "peer", "name", "eth2"]);
    ["eth1", "eth2"].into_iter().for_each(|name| site.set_up("n0", "ip", &["link", "set", name, "up"]));
    site.run("n0", &["send", "-n", "1"], &source).assert_refusal(4, &["several", "eth0", "eth1", "eth2", "-i"]);
    // The interface of the default route is chosen, if there is one.
    site.set_up("n0", "ip", &["route", "add", "default", "dev", "eth1"]);
    let chosen = site.run("n0", &["send", "-n", "1", "--max-wait", "0.1"], &source);
    chosen.assert_refusal(3, &["0 of 1 receivers"]);
    let said = ["takes eth1, which has the default route", " on eth1, MTU 1500"];
    assert!(said.iter().all(|part| chosen.stderr.contains(part)), "{}", chosen.stderr);
    let quiet = site.run("n0", &["send", "-q", "-n", "1", "--max-wait", "0.1"], &source);
    quiet.assert_refusal(3, &["0 of 1 receivers"]);
    assert_eq!(quiet.stderr.lines().count(), 1, "{}", quiet.stderr);
    site.run("n0", &["send", "-n", "1", "-i", "eth0", "--mtu", "1501"], &source)
        .assert_refusal(2, &["--mtu 1501", "at most 1500", "[E-MTU]"]);
    site.run("n0", &["send", "-n", "1", "-i", "eth0", "--mtu", "100"], &source)
        .assert_refusal(2, &["100", "at least 576"]);
    // The only interface that is up needs no name.
    site.run("n1", &["send", "-n", "1", "--max-wait", "0.1"], &source).assert_code(3);
}

#[test]
fn recv_waits_for_its_interface_as_long_as_for_a_sender() {
    let site = Site::beside("lateiface", one_switch(2));
    let source = site.file("source", "text");
    site.set_up("n1", "ip", &["link", "set", "eth0", "down"]);
    for (interface, words) in [("eth0", "eth0 is down"), ("eth7", "no interface eth7")] {
        let recv = ["recv", "-i", interface, "--max-wait", "0.5"];
        site.run("n1", &recv, site.path("never")).assert_refusal(4, &[words]);
    }
    // Under its present name, and under one that it gets later.
    for (name, before) in [("eth0", "eth0 is down"), ("lan0", "no interface lan0")] {
        let dest = site.path(name);
        let receiver = site.start("n1", &["recv", "-i", name, "--max-wait", "30"], &dest);
        receiver.wait_for_line(before);
        if name == "lan0" {
            site.set_up("n1", "ip", &["link", "set", "eth0", "name", "lan0"]);
        }
        site.set_up("n1", "ip", &["link", "set", name, "up"]);
        site.run("n0", &["send", "-n", "1", "--max-wait", "30"], &source).assert_code(0);
        receiver.end(LIMIT).assert_code(0);
        assert_eq!(fs::read(&dest).expect("received"), b"text");
        site.set_up("n1", "ip", &["link", "set", name, "down"]);
    }
    let receiver = site.start("n1", &["recv", "--max-wait", "30"], site.path("never"));
    receiver.wait_for_line("it is waited for");
    receiver.signal(Signal::SIGTERM);
    receiver.end(LIMIT).assert_code(143);
}

#[test]
fn without_root_the_tool_names_the_capability_it_needs_and_with_it_it_works() {
    let site = Site::beside("nobody", one_switch(2));
    let nobody = Nobody::new();
    let (source, directory) = (site.file("source", "text"), site.directory("open"));
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).expect("it is ours");
    let dest = directory.join("dest");
    for (command, path) in [(&["send", "-n", "1", "-i", "eth0"][..], &source), (&["recv", "-i", "eth0"], &dest)] {
        let refused = nobody.start(&site, "n0", "-all", command, path).end(LIMIT);
        refused.assert_refusal(4, &["not permitted", "root", "cap_net_raw", "[E-CAPABILITY]"]);
    }
    nobody
        .start(&site, "n0", "-all", &["lab", "up", "--lab", &lab_name("never")], "2")
        .end(LIMIT)
        .assert_refusal(4, &["root", "sudo"]);
    assert_eq!(names_in(&directory), [""; 0]);
    let raw = "-all,+net_raw";
    let receiver = nobody.start(&site, "n1", raw, &["recv", "-i", "eth0", "--max-wait", "10"], &dest);
    nobody
        .start(&site, "n0", raw, &["send", "-n", "1", "-i", "eth0", "--max-wait", "10"], &source)
        .end(LIMIT)
        .assert_code(0);
    receiver.end(LIMIT).assert_code(0);
    assert_eq!(fs::read(&dest).expect("received"), b"text");
}
