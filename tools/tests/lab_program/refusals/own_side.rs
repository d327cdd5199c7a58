//! Problems of the own interface are reported before others are blamed: no link, a bridge port, a
//! duplicate address, both roles on one host. An interface is found by each of its names.

use crate::harness::{Ethbcast, LIMIT, Run, Site, content, one_switch};
use std::fs;

fn at_switch(site: &Site, arguments: &[&str]) {
    let net = format!("--net=/run/netns/{}", site.lab().switches_namespace());
    site.set_up("n0", "nsenter", &[&[net.as_str()][..], arguments].concat());
}

#[test]
fn a_host_without_a_link_is_told_so_while_it_waits_and_at_its_end() {
    let site = Site::beside("nolink", one_switch(2));
    let source = site.file("source", "text");
    site.lab().set_port("n0", false).expect("down");
    for (command, path) in [(&["send", "-n", "1"][..], source.clone()), (&["recv"], site.path("dest"))] {
        let ended = site.run("n0", &[command, &["--max-wait", "1.5"]].concat(), &path);
        ended.assert_refusal(3, &["has no link", "[E-CARRIER]"]);
        let said = ended.stderr.lines().filter(|line| line.contains("has no link")).count();
        assert_eq!(said, 2, "while it waits, and at its end: {}", ended.stderr);
    }
    site.lab().set_port("n0", true).expect("up");
    let ended = site.run("n0", &["recv", "--max-wait", "0.2"], site.path("dest"));
    ended.assert_refusal(3, &["no sender was heard", "[E-NOBODY]"]);
}

#[test]
fn an_interface_is_found_by_another_name_its_address_and_what_a_boot_loader_says() {
    let site = Site::beside("names", one_switch(2));
    site.set_up("n0", "ip", &["link", "property", "add", "dev", "eth0", "altname", "enp1s0"]);
    site.set_up("n0", "ip", &["address", "add", "10.7.0.1/24", "dev", "eth0"]);
    let mac = site.lab().mac("n0").expect("it has one").to_string();
    let boot = format!("01-{}", mac.replace(':', "-"));
    for name in ["enp1s0", "eth0@if3", &mac, &boot, "10.7.0.1"] {
        let ended = site.run("n0", &["recv", "-i", name, "--max-wait", "0.1"], site.path("dest"));
        ended.assert_code(3);
        assert!(ended.stderr.contains("on eth0 of n0"), "{name}: {}", ended.stderr);
    }
    // A bridge receives its ports' frames: it is chosen, and a user who names the port is warned.
    for line in ["link add br0 type bridge", "link set eth0 master br0", "link set br0 up"] {
        site.set_up("n0", "ip", &line.split(' ').collect::<Vec<_>>());
    }
    let ended = site.run("n0", &["recv", "--max-wait", "0.1"], site.path("dest"));
    assert!(ended.stderr.contains("on br0 of n0"), "{}", ended.stderr);
    let ended = site.run("n0", &["recv", "-i", "eth0", "--max-wait", "0.1"], site.path("dest"));
    assert!(ended.stderr.contains("-i br0 [E-MEMBER]"), "{}", ended.stderr);
}

#[test]
fn two_hosts_of_one_address_and_both_sides_on_one_host_are_named_at_both_ends() {
    let site = Site::beside("twins", one_switch(2));
    let source = site.file("source", "text");
    let receiver = site.start("n0", &["recv", "--max-wait", "3"], site.path("dest"));
    receiver.wait_for_line("waiting for a sender");
    let sender = site.start("n0", &["send", "-n", "1", "--max-wait", "5"], &source);
    sender.wait_for_line("a receiver of group ethbcast runs on this host, too");
    receiver.end(LIMIT).assert_code(3);
    sender.wait_for_line("waiting: 0 of 1");
    let second = site.run("n0", &["recv", "--max-wait", "0.1"], site.path("dest"));
    assert!(second.stderr.contains("a sender of group ethbcast runs on this host, too"), "{}", second.stderr);
    sender.end(LIMIT).assert_code(3);
    let mac = site.lab().mac("n0").expect("it has one").to_string();
    site.set_up("n1", "ip", &["link", "set", "eth0", "address", &mac]);
    let receiver = site.start("n1", &["recv", "--max-wait", "3"], site.path("dest"));
    let sender = site.start("n0", &["send", "-n", "1", "--max-wait", "3"], &source);
    for run in [receiver, sender] {
        let ended = run.end(LIMIT);
        ended.assert_code(3);
        assert!(ended.stderr.contains("[E-TWIN]") && ended.stderr.contains(&mac), "{}", ended.stderr);
    }
}

#[test]
fn a_host_behind_a_switch_that_drops_frames_to_groups_gets_the_file() {
    let site = Site::beside("nogroups", one_switch(3));
    at_switch(&site, &["bridge", "link", "set", "dev", "p2", "mcast_flood", "off"]);
    let bytes = content(5, 1 << 20);
    let source = site.file("source", &bytes);
    let receivers = ["n1", "n2"].map(|host| site.start(host, &["recv"], site.path(host)));
    site.run("n0", &["send", "-n", "2", "--via", "chain", "--max-wait", "30"], &source).assert_code(0);
    receivers.into_iter().for_each(|receiver: Run| receiver.end(LIMIT).assert_code(0));
    assert!(["n1", "n2"].into_iter().all(|host| fs::read(site.path(host)).is_ok_and(|file| file == bytes)));
}

#[test]
fn two_receivers_whose_ports_a_switch_isolates_are_named_and_all_get_the_file() {
    let site = Site::beside("isolated", one_switch(4));
    for port in ["p1", "p2"] {
        at_switch(&site, &["bridge", "link", "set", "dev", port, "isolated", "on"]);
    }
    let bytes = content(6, 2 << 20);
    let source = site.file("source", &bytes);
    let hosts = ["n1", "n2", "n3"];
    let receivers = hosts.map(|host| site.start(host, &["recv"], site.path(host)));
    let sender = site.run("n0", &["send", "-n", "3", "--via", "scatter-allgather", "--max-wait", "30"], &source);
    sender.assert_code(0);
    assert!(sender.stderr.contains("nothing gets through between n1 and n2, though both"), "{}", sender.stderr);
    assert!(sender.stdout_text().contains("limited by: the way between n1 and n2, "), "{}", sender.stdout_text());
    receivers.into_iter().for_each(|receiver: Run| receiver.end(LIMIT).assert_code(0));
    assert!(hosts.into_iter().all(|host| fs::read(site.path(host)).is_ok_and(|file| file == bytes)));
}
