//! SIGTERM, and its effect on running sessions.

use crate::{ethbcast, send, serve, wait_for_file};
use ethbcast_tests::lab::{LIMIT, Run, Site, content, one_switch, shown_in};
use nix::sys::signal::Signal;

#[test]
fn the_end_says_what_it_cuts_off_and_what_came_is_gone_on_with() {
    let site = Site::beside("cut", one_switch(2));
    let dir = site.directory("dest");
    let server = serve(&site, "n1", &[], &dir);
    let bytes = content(5, 8_000_000);
    let file = site.file("image", &bytes);
    let reader = format!("head -c 5M {0}; sleep 15; tail -c +5242881 {0}", file.display());
    let root = send(&site, "ethbcast", "1", &["--size", "8000000", "--pipe", &reader], "--quiet");
    server.wait_for_line("offers");
    let came = || server.open_bytes(&dir).filter(|&bytes| bytes > 1_000_000);
    ethbcast_tests::lab::within(LIMIT, came).expect("most of what is there comes");
    server.signal(Signal::SIGTERM);
    let ended = server.end(LIMIT);
    ended.assert_code(1);
    assert!(ended.stderr.contains("SIGTERM: it ends; 1 session is cut off"), "{}", ended.stderr);
    assert!(ended.stderr.contains("group ethbcast: cut off: stdout of n0, "), "{}", ended.stderr);
    assert!(ended.stderr.contains("of 7.63 MiB"), "{}", ended.stderr);
    assert!(ended.stderr.contains("the session was cut off; have it sent again"), "{}", ended.stderr);
    root.signal(Signal::SIGTERM);
    assert_ne!(root.end(LIMIT).code(), 0);
    assert_eq!(shown_in(&dir), [""; 0]);
}

#[test]
fn an_end_in_a_quiet_moment_loses_nothing() {
    let site = Site::beside("quiet", one_switch(2));
    let dir = site.directory("dest");
    let server = serve(&site, "n1", &["--allow-group", "g[1-20]"], &dir);
    server.signal(Signal::SIGTERM);
    server.end(LIMIT).assert_code(0);
}

#[test]
fn who_is_started_again_is_there_for_the_next_session() {
    let site = Site::beside("again", one_switch(2));
    let dir = site.directory("dest");
    let file = site.file("file", "bytes");
    for _ in 0..2 {
        let server = serve(&site, "n1", &["--force"], &dir);
        send(&site, "ethbcast", "1", &[], &file).end(LIMIT).assert_code(0);
        wait_for_file(&dir.join("file"), b"bytes");
        server.signal(Signal::SIGTERM);
        server.end(LIMIT).assert_code(0);
    }
}

#[test]
fn what_cannot_be_served_is_refused_at_once() {
    let site = Site::beside("refused", one_switch(2));
    let dir = site.directory("dest");
    let path = dir.to_str().expect("UTF-8");
    for (arguments, code, parts) in [
        (&["--serve", "-i", "eth0", "/no/such"][..], 4, &["--serve", "mkdir -p /no/such"][..]),
        (&["--serve", "-i", "eth0", "-"], 4, &["--serve", "is none"]),
        (&["--serve", "-i", "lo", path], 4, &["group ethbcast", "lo is not an Ethernet interface"]),
        (&["--serve", "-i", "eth0", "--once", path], 2, &["--once"]),
        (&["--allow-group", "a", path], 2, &["--serve"]),
        (
            &["--serve", "-i", "eth0", "--allow-group", "a,b", "--port-fd", "0", path],
            2,
            &["1 packet sockets for 2 groups"],
        ),
        (&["-i", "eth0", "--port-fd", "0", path], 4, &["descriptor 0 is no packet socket"]),
        (&["-i", "eth0", "--port-fd", "99", path], 4, &["descriptor 99 is no packet socket"]),
    ] {
        let command = ethbcast(&site, "n1", &[&["recv"], arguments].concat());
        let ended = Run::start("n1", command).end(LIMIT);
        ended.assert_code(code);
        parts.iter().for_each(|part| assert!(ended.stderr.contains(part), "{arguments:?}: {}", ended.stderr));
    }
}

#[test]
fn a_server_whose_time_is_up_ends_as_if_it_were_asked_to() {
    let site = Site::beside("timed", one_switch(2));
    let dir = site.directory("dest");
    let server = serve(&site, "n1", &["--timeout", "1"], &dir);
    let ended = server.end(LIMIT);
    ended.assert_code(0);
    assert!(ended.stderr.contains("its time is up: it ends; 0 sessions are cut off"), "{}", ended.stderr);
}

#[test]
fn a_session_that_takes_too_long_is_given_up_and_the_next_one_is_received() {
    let site = Site::beside("long", one_switch(2));
    let dir = site.directory("dest");
    let server = serve(&site, "n1", &["--max-session-time", "1"], &dir);
    let slow = send(&site, "ethbcast", "1", &["--pipe", "echo begin; sleep 600"], "--quiet");
    server.wait_for_line("takes longer than this host allows");
    slow.end(LIMIT).assert_code(1);
    let file = site.file("file", "bytes");
    send(&site, "ethbcast", "1", &[], &file).end(LIMIT).assert_code(0);
    wait_for_file(&dir.join("file"), b"bytes");
}
