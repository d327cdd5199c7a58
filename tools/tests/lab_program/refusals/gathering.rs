//! Start of a session: two senders, a smaller MTU on the way, a terminal.

use crate::harness::{Ethbcast, LIMIT, PROGRAM, Run, Site, content, one_switch, within};
use ethbcast_lab::LabConfig;
use std::fs;
use std::process::Stdio;

#[test]
fn a_second_sender_of_a_group_is_refused_with_the_name_of_the_first() {
    let site = Site::beside("second", one_switch(4));
    let (source, other) = (site.file("first", "first"), site.file("second", "second"));
    let receivers = ["n2", "n3"].map(|host| site.start(host, &["recv", "-i", "eth0"], site.path(host)));
    let hosts = ["send", "-i", "eth0", "--hosts", "n[2-3],n9", "--min-receivers", "2", "--max-wait", "6"];
    let first = site.start("n0", &hosts, &source);
    first.wait_for_lines(2, "joined");
    let second = site.run("n1", &["send", "-n", "2", "-i", "eth0"], &other);
    second.assert_refusal(3, &["n0", "first", "group ethbcast", "choose another group with -g", "[E-GROUP]"]);
    // The user of the first hears of the other, and whom it waits for.
    first.wait_for_line("wants to send to this group, too: it was told that the group is taken");
    first.wait_for_line("waiting: 2 of 3 receivers are there, n[2-3]; missing: n9");
    first.end(LIMIT).assert_code(0);
    receivers.into_iter().for_each(|receiver| receiver.end(LIMIT).assert_code(0));
    assert!(["n2", "n3"].into_iter().all(|host| fs::read(site.path(host)).is_ok_and(|file| file == b"first")));
}

#[test]
fn a_switch_port_with_a_smaller_mtu_is_found_before_the_first_byte() {
    let site = Site::beside("jumbo", LabConfig { mtu_bytes: 9000, ..one_switch(4) });
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
    let receivers = ["n1", "n2", "n3"].map(|host| site.start(host, &["recv", "-i", "eth0"], site.path(host)));
    let send = ["send", "-i", "eth0", "--hosts", "n[1-3]", "--min-receivers", "2", "--max-wait", "4"];
    let root = site.run("n0", &send, &source);
    root.assert_code(0);
    assert!(
        root.stderr.contains("frames of 9014 bytes do not: look for a smaller MTU on the way to n2"),
        "{}",
        root.stderr
    );
    let [n1, n2, n3] = receivers;
    n2.wait_for_line("frames of 9014 bytes do not");
    [n1, n3].into_iter().for_each(|receiver| receiver.end(LIMIT).assert_code(0));
    assert!(["n1", "n3"].into_iter().all(|host| fs::read(site.path(host)).is_ok_and(|file| file == bytes)));
}

#[test]
fn on_a_terminal_the_user_sees_who_joins_and_starts_with_enter() {
    let site = Site::beside("enter", one_switch(3));
    let source = site.file("source", "text");
    let receivers = ["n1", "n2"].map(|host| site.start(host, &["recv", "-i", "eth0"], site.path(host)));
    let send = format!("{PROGRAM} send -i eth0 {}", source.display());
    let mut terminal = site.command("n0", "script");
    terminal.args(["-qefc", &send, "/dev/null"]).stdin(Stdio::piped());
    let mut terminal = Run::start("n0", terminal);
    let shows = |part: &str| within(LIMIT, || terminal.stdout().contains(part).then_some(()));
    assert!(shows("2 receivers are there").is_some(), "{}", terminal.stdout());
    terminal.say("\n");
    let sent = terminal.end(LIMIT);
    sent.assert_code(0);
    let said = sent.stdout_text();
    for part in ["press Enter", "n1 joined", "n2 joined", "2 receivers are there, n[1-2]", "2 of 2 receivers verified"]
    {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
    receivers.into_iter().for_each(|receiver| receiver.end(LIMIT).assert_code(0));
}
