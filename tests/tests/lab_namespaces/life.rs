//! Setup and removal of labs.

use std::process::Stdio;

use ethbcast_planning::topology::Topology;
use ethbcast_tests::lab::{LIMIT, Run, processes_on, within};
use nix::sys::signal::{SigSet, Signal, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use super::{two_switches, up};
use ethbcast_lab::{Lab, LabError, LabGuard, Removed};

fn ip(words: &[&str]) -> String {
    let ended = Run::here("ip", words).end(LIMIT);
    ended.assert_code(0);
    ended.stdout_text()
}

fn namespaces_of(lab: &str) -> Vec<String> {
    let prefix = format!("ethbcast-{lab}-");
    let text = ip(&["netns", "list"]);
    text.lines()
        .filter_map(|line| line.split(' ').next())
        .filter(|name| name.starts_with(&prefix))
        .map(str::to_owned)
        .collect()
}

fn delete_by_hand(namespace: &str) {
    ip(&["netns", "delete", namespace]);
}

fn output_on(lab: &Lab, host: &str, program: &str, arguments: &[&str]) -> String {
    let mut command = lab.command(host, program).expect("a host");
    command.args(arguments);
    let ended = Run::to_end(command, LIMIT);
    ended.assert_code(0);
    ended.stdout_text()
}

#[test]
fn a_program_on_a_host_sees_that_host_alone() {
    let lab = up(&two_switches("inside"));
    assert_eq!(output_on(&lab, "n2", "ls", &["/sys/class/net"]), "eth0\nlo\n");
    assert_eq!(output_on(&lab, "n2", "cat", &["/sys/class/net/eth0/address"]), "02:eb:00:00:00:02\n");
    assert_eq!(output_on(&lab, "n2", "cat", &["/sys/class/net/lo/flags"]), "0x9\n", "lo is up");
    assert_eq!(output_on(&lab, "n2", "cat", &["/proc/net/if_inet6"]), "", "no IPv6 anywhere");
    let mut exits = lab.command("n0", "sh").expect("a host");
    exits.args(["-c", "exit 7"]);
    // The program's exit status is passed on.
    Run::to_end(exits, LIMIT).assert_code(7);
    let error = lab.command("n9", "true").expect_err("there is none").to_string();
    assert!(error.contains("`n9`") && error.contains("n0, n1, n2, n3"), "{error}");
}

#[test]
fn the_machines_own_namespace_stays_as_it_was() {
    let outside = || {
        let links = ip(&["-o", "link", "show"]);
        links.lines().map(|line| line.split(' ').nth(1).map(str::to_owned)).collect::<Vec<_>>()
    };
    let before = outside();
    let _lab = up(&two_switches("outside"));
    assert_eq!(outside(), before);
}

#[test]
fn a_running_lab_is_found_by_name_and_cannot_be_brought_up_twice() {
    let config = two_switches("twice");
    let lab = up(&config);
    assert_eq!(Lab::open(&config.name).expect("it is up"), *lab);
    assert!(Lab::list().expect("the labs").contains(&config.name));
    let error = Lab::up(&config).expect_err("it is up already");
    assert!(error.to_string().contains("ethbcast lab down"), "{error}");
    assert_eq!(lab.hosts(), ["n0", "n1", "n2", "n3"]);
    assert_eq!(namespaces_of(&config.name).len(), 5, "the refusal took nothing away");
    let error = Lab::open("nosuchlab").expect_err("nobody made it").to_string();
    assert!(error.contains("`nosuchlab`") && error.contains(&config.name), "{error}");
}

#[test]
fn down_ends_the_polite_and_the_stubborn_and_leaves_nothing() {
    let config = two_switches("down");
    let lab = LabGuard::up(&config).expect("up");
    let start = |host: &str, program: &str, words: &[&str]| {
        let mut command = lab.command(host, program).expect("a host");
        command.args(words).stdin(Stdio::null());
        Run::start(program, command)
    };
    let polite = start("n0", "sleep", &["1000"]);
    let stubborn = start("n3", "sh", &["-c", "trap '' TERM; echo ready >&2; while :; do sleep 1000; done"]);
    stubborn.wait_for_line("ready");
    wait_until_inside(&lab, "n0", polite.pid());
    let removed = Lab::remove(&config.name).expect("down");
    assert_eq!(removed.namespaces, 5);
    assert!(removed.processes >= 3, "sleep, sh and its sleep: {removed:?}");
    polite.end(LIMIT).assert_code(128 + Signal::SIGTERM as i32);
    stubborn.end(LIMIT).assert_code(128 + Signal::SIGKILL as i32);
    assert_eq!(namespaces_of(&config.name), [""; 0]);
    assert_eq!(Lab::remove(&config.name).expect("nothing to do is no error"), Removed::default());
}

fn wait_until_inside(lab: &Lab, host: &str, pid: u32) {
    let inside = || processes_on(lab, host).expect("a host").iter().any(|inside| inside.as_raw() as u32 == pid);
    within(LIMIT, || inside().then_some(())).unwrap_or_else(|| panic!("process {pid} never came inside"));
}

#[test]
fn what_a_crash_left_is_told_apart_and_goes_down_all_the_same() {
    let config = two_switches("crash");
    let lab = LabGuard::up(&config).expect("up");
    for gone in [lab.switches_namespace(), lab.namespace("n1").expect("a host")] {
        delete_by_hand(&gone);
    }
    // `ip netns add` leaves this when it is killed half-way: a file with no namespace mounted on
    // it.
    std::fs::write(format!("/run/netns/ethbcast-{}-n7", config.name), "").expect("an empty file");
    assert!(matches!(Lab::open(&config.name), Err(LabError::Incomplete(..))));
    assert!(matches!(Lab::up(&config), Err(LabError::LabExists(..))));
    let removed = Lab::remove(&config.name).expect("down");
    assert_eq!(removed, Removed { namespaces: 4, processes: 0 });
    assert_eq!(namespaces_of(&config.name), [""; 0]);
}

#[test]
fn an_interrupt_while_coming_up_leaves_nothing_and_is_not_swallowed() {
    let config = two_switches("interrupt");
    // Blocked in this test as well, so that the signal waits instead of ending the test.
    let interrupt: SigSet = [Signal::SIGTERM].into_iter().collect();
    interrupt.thread_block().expect("holding back");
    raise(Signal::SIGTERM).expect("raise goes to this thread");
    assert!(matches!(Lab::up(&config), Err(LabError::Interrupted)));
    assert_eq!(namespaces_of(&config.name), [""; 0]);
    let waiting = SignalFd::with_flags(&interrupt, SfdFlags::SFD_NONBLOCK).expect("a descriptor");
    let heard = waiting.read_signal().expect("it can be read").expect("it is still there");
    assert_eq!(heard.ssi_signo, Signal::SIGTERM as u32);
    interrupt.thread_unblock().expect("as before");
}

#[test]
fn the_guard_takes_its_lab_down_also_when_a_test_panics() {
    let config = two_switches("guard");
    let name = config.name.clone();
    let panicked = std::thread::spawn(move || {
        let _lab = up(&config);
        panic!("this panic is part of the test");
    });
    assert!(panicked.join().is_err());
    assert_eq!(namespaces_of(&name), [""; 0]);
}

#[test]
fn thirty_two_shaped_lossy_hosts_come_up_and_go_down() {
    let mut config = two_switches("large");
    config.topology = Topology::builtin("fig9-5").expect("a test bed");
    config.rate_bits_per_second = Some(100_000_000);
    config.loss = 0.01;
    let lab = up(&config);
    assert_eq!(lab.hosts().len(), 32);
    assert_eq!(Lab::remove(&config.name).expect("down").namespaces, 33);
}
