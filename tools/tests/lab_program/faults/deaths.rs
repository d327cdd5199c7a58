//! Hosts that die in the middle of a transfer: the others get the file, and the dead are named.

use super::{QUARTER_BYTES, begun, half_way, relays, sixteen_mebibytes, slow, twelve_mebibytes};
use crate::harness::{LIMIT, Site};
use ethbcast_lab::LabConfig;
use nix::sys::signal::Signal;
use std::time::Duration;

#[test]
fn when_a_relay_dies_the_others_are_served_and_the_root_names_it() {
    let site = Site::beside("relay", slow(6));
    // n1 … n5 are ranks 1 … 5 of the chain: n3 has two hosts before and two behind it.
    let session = half_way(&site, "chain", "n5");
    session.receiver("n3").signal(Signal::SIGKILL);
    let outcome = session.end(LIMIT);
    ["n1", "n2", "n4", "n5"].into_iter().for_each(|host| outcome.assert_delivered(host));
    outcome.root.assert_code(1);
    assert!(outcome.root.stderr.contains("1 of 5 receivers failed: n3 (died)"), "{}", outcome.root.stderr);
    assert_eq!(outcome.status("n3"), "died");
    assert_eq!(outcome.status("n4"), "verified");
    outcome.forget_dead("n3");
}

#[test]
fn when_two_neighbours_of_a_chain_die_together_nobody_ends_up_with_half_a_file() {
    let site = Site::beside("pair", slow(7));
    let session = half_way(&site, "chain", "n6");
    ["n3", "n4"].into_iter().for_each(|host| session.receiver(host).signal(Signal::SIGKILL));
    let outcome = session.end(LIMIT);
    ["n1", "n2"].into_iter().for_each(|host| outcome.assert_delivered(host));
    // Frames that only n3 and n4 had kept are lost: hosts that need them cannot be served.
    for host in ["n5", "n6"] {
        match outcome.status(host).as_str() {
            "verified" => outcome.assert_delivered(host),
            "orphaned" => outcome.assert_nothing(host, 1),
            status => panic!("{host} is {status}: {}", outcome.root.stderr),
        }
    }
    outcome.root.assert_code(1);
    ["n3", "n4"].into_iter().for_each(|host| outcome.forget_dead(host));
}

#[test]
fn when_neighbours_of_a_chain_die_while_frames_are_lost_everybody_else_gets_the_file() {
    let site = Site::beside("lossypair", LabConfig { loss: 0.01, ..relays() });
    for pause in [Duration::ZERO, Duration::from_millis(100)] {
        let session = twelve_mebibytes(&site, "chain").start();
        session.wait_for_sent(2 * QUARTER_BYTES);
        session.receiver("n2").signal(Signal::SIGKILL);
        std::thread::sleep(pause);
        session.receiver("n3").signal(Signal::SIGKILL);
        let outcome = session.end(LIMIT);
        ["n1", "n4", "n5"].into_iter().for_each(|host| outcome.assert_delivered(host));
        outcome.root.assert_code(1);
        for host in ["n2", "n3"] {
            outcome.assert_named(host, &["silent", "died", "killed"]);
            outcome.forget_dead(host);
        }
    }
}

#[test]
fn a_receiver_that_is_killed_is_known_before_its_silence_is() {
    for via in ["chain", "cast"] {
        let site = Site::beside("killed", relays());
        let session = twelve_mebibytes(&site, via).start();
        session.wait_for_sent(QUARTER_BYTES);
        session.receiver("n3").signal(Signal::SIGKILL);
        // A silent host has no known cause; the death of this one was announced by another process.
        session.root.wait_for_line("n3 failed: died");
        let outcome = session.end(LIMIT);
        ["n1", "n2", "n4", "n5"].into_iter().for_each(|host| outcome.assert_delivered(host));
        outcome.root.assert_code(1);
        assert_eq!(outcome.status("n3"), "died");
        // With what it has of it, which the next run goes on with.
        assert!(outcome.row("n3")["bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{}", outcome.row("n3"));
        for word in ["n3 had ", " of it; start `recv` there again, then send again to it"] {
            assert!(outcome.root.stderr.contains(word), "{word}: {}", outcome.root.stderr);
        }
        outcome.forget_dead("n3");
    }
}

#[test]
fn when_a_receiver_of_a_cast_dies_the_others_are_served_and_the_root_names_it() {
    let site = Site::beside("listener", slow(5));
    let session = half_way(&site, "cast", "n2");
    session.receiver("n2").signal(Signal::SIGKILL);
    let outcome = session.end(LIMIT);
    ["n1", "n3", "n4"].into_iter().for_each(|host| outcome.assert_delivered(host));
    outcome.root.assert_code(1);
    assert!(outcome.root.stderr.contains("1 of 4 receivers failed: n2 (died)"), "{}", outcome.root.stderr);
    outcome.forget_dead("n2");
}

#[test]
fn when_the_last_of_a_chain_dies_nobody_else_notices() {
    let site = Site::beside("tail", slow(4));
    let session = half_way(&site, "chain", "n3");
    session.receiver("n3").signal(Signal::SIGKILL);
    let outcome = session.end(LIMIT);
    ["n1", "n2"].into_iter().for_each(|host| outcome.assert_delivered(host));
    outcome.root.assert_code(1);
    assert_eq!(outcome.status("n3"), "died");
    outcome.forget_dead("n3");
}

#[test]
fn when_the_root_dies_receivers_end_soon_and_leave_nothing() {
    let site = Site::beside("root", slow(5));
    for via in ["chain", "cast"] {
        let session = half_way(&site, via, "n4");
        session.root.signal(Signal::SIGKILL);
        let outcome = session.end(LIMIT);
        for host in ["n1", "n2", "n3", "n4"] {
            outcome.assert_nothing(host, 1);
            assert!(
                outcome.receiver(host).stderr.contains("the sender's process has ended"),
                "{}",
                outcome.receiver(host).stderr
            );
        }
    }
}

#[test]
fn when_the_interface_of_a_receiver_goes_down_it_says_so_and_the_others_are_served() {
    let site = Site::beside("unplug", slow(4));
    let session = begun(sixteen_mebibytes(&site, "chain").both_options("--patience", "5"), "n3");
    site.set_up("n2", "ip", &["link", "set", "eth0", "down"]);
    // It is waited for: without --patience as long as a switch takes to restart.
    let outcome = session.end(LIMIT);
    outcome.assert_nothing("n2", 4);
    assert!(outcome.receiver("n2").stderr.contains("ip link set eth0 up"), "{}", outcome.receiver("n2").stderr);
    ["n1", "n3"].into_iter().for_each(|host| outcome.assert_delivered(host));
    outcome.root.assert_code(1);
    assert_eq!(outcome.status("n2"), "silent");
}
