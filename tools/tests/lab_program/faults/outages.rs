//! Temporary outages of ports, interfaces and processes: no host is lost.

use super::{CULPRIT, QUARTER_BYTES, impatient, relays, twelve_mebibytes};
use crate::harness::{LIMIT, Site};
use ethbcast_lab::Lab;
use nix::sys::signal::Signal;
use std::thread;
use std::time::Duration;

/// Runs a transfer with an outage that begins in its first quarter and lasts `seconds`.
fn outage(story: &str, via: &'static str, seconds: f64, away: impl Fn(&Lab, bool)) {
    let site = Site::beside(story, relays());
    let session = twelve_mebibytes(&site, via).start();
    session.wait_for_sent(QUARTER_BYTES);
    away(site.lab(), true);
    thread::sleep(Duration::from_secs_f64(seconds));
    away(site.lab(), false);
    session.end(LIMIT).assert_verified();
}

/// Runs a transfer in which a host's process is stopped for 3 s in its first quarter.
fn stopped(story: &str, via: &'static str, host: &str) {
    let site = Site::beside(story, relays());
    let session = twelve_mebibytes(&site, via).start();
    session.wait_for_sent(QUARTER_BYTES);
    let run = if host == "n0" { &session.root } else { session.receiver(host) };
    run.signal(Signal::SIGSTOP);
    thread::sleep(Duration::from_secs(3));
    run.signal(Signal::SIGCONT);
    session.end(LIMIT).assert_verified();
}

#[test]
fn a_relay_whose_switch_port_is_out_for_3_s_gets_the_file() {
    outage("port", "chain", 3.0, |lab, away| lab.set_port(CULPRIT, !away).expect("a port"));
}

#[test]
fn a_receiver_of_a_cast_whose_switch_port_is_out_for_3_s_gets_the_file() {
    outage("castport", "cast", 3.0, |lab, away| lab.set_port(CULPRIT, !away).expect("a port"));
}

#[test]
fn when_the_roots_switch_port_is_out_for_3_s_all_get_the_file() {
    outage("rootport", "chain", 3.0, |lab, away| lab.set_port("n0", !away).expect("a port"));
}

#[test]
fn a_relay_whose_interface_is_switched_off_and_on_again_gets_the_file() {
    outage("interface", "chain", 0.5, |lab, away| lab.set_link(CULPRIT, !away).expect("an interface"));
}

#[test]
fn a_relay_whose_interface_stays_off_ends_with_its_patience() {
    let site = Site::beside("off", relays());
    let session = impatient(&site, "chain").start();
    session.wait_for_sent(QUARTER_BYTES);
    site.lab().set_link(CULPRIT, false).expect("an interface");
    let outcome = session.end(LIMIT);
    ["n1", "n2", "n4", "n5"].into_iter().for_each(|host| outcome.assert_delivered(host));
    outcome.assert_named(CULPRIT, &["silent"]);
    outcome.root.assert_code(1);
    let ended = outcome.receiver(CULPRIT);
    assert!([3, 4].contains(&ended.code()), "{}: {}", ended.code(), ended.stderr);
}

#[test]
fn when_the_roots_interface_is_switched_off_and_on_again_all_get_the_file() {
    outage("rootlink", "cast", 0.5, |lab, away| lab.set_link("n0", !away).expect("an interface"));
}

#[test]
fn a_relay_that_is_stopped_for_3_s_gets_the_file() {
    stopped("stopped", "chain", CULPRIT);
}

#[test]
fn a_receiver_of_a_cast_that_is_stopped_for_3_s_gets_the_file() {
    stopped("caststop", "cast", CULPRIT);
}

#[test]
fn when_the_root_is_stopped_for_3_s_all_get_the_file() {
    stopped("rootstop", "chain", "n0");
}

#[test]
fn a_relay_whose_interface_gets_another_name_gets_the_file() {
    let site = Site::beside("renamed", relays());
    let session = twelve_mebibytes(&site, "chain").start();
    session.wait_for_sent(QUARTER_BYTES);
    for line in ["link set eth0 down", "link set eth0 name lan0", "link set lan0 up"] {
        site.set_up(CULPRIT, "ip", &line.split(' ').collect::<Vec<_>>());
    }
    session.end(LIMIT).assert_verified();
}

#[test]
fn a_host_that_ends_for_its_own_interface_tells_the_sender_why() {
    let site = Site::beside("ownreason", relays());
    let session = impatient(&site, "chain").start();
    session.wait_for_sent(QUARTER_BYTES);
    site.set_up(CULPRIT, "ip", &["link", "set", "eth0", "mtu", "1400"]);
    let outcome = session.end(LIMIT);
    ["n1", "n2", "n4", "n5"].into_iter().for_each(|host| outcome.assert_delivered(host));
    outcome.assert_named(CULPRIT, &["its MTU was lowered", "MTU of interface eth0 was lowered"]);
    outcome.assert_nothing(CULPRIT, 4);
}
