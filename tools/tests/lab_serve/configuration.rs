//! The configuration file and the environment, and their reload.

use crate::{PROGRAM, ethbcast, send, serve_command, wait_for_file};
use ethbcast_tests::lab::{LIMIT, Run, Site, one_switch};
use nix::sys::signal::Signal;
use std::fs;

#[test]
fn sighup_brings_new_groups_and_ends_old_ones_when_their_session_is_over() {
    let site = Site::beside("reload", one_switch(2));
    let dir = site.directory("dest");
    let configuration = site.file("ethbcast.toml", "[recv]\nallow-group = [\"a\", \"b\"]\nforce = true\n");
    let mut command = serve_command(&site, "n1", &[], &dir);
    command.env("ETHBCAST_CONFIG", &configuration);
    let server = Run::start("n1", command);
    server.wait_for_line("serving 2 groups (a,b)");
    let running = send(&site, "a", "1", &["--size", "3", "--pipe", "sleep 8; printf abc"], "--quiet");
    server.wait_for_line("group a: n0 offers stdout");
    fs::write(&configuration, "[recv]\nallow-group = \"c\"\nforce = true\nmax-session = 3\n").expect("written");
    server.signal(Signal::SIGHUP);
    server.wait_for_line("is max-sessions meant?");
    fs::write(&configuration, "[recv]\nallow-group = \"c\"\nforce = true\n").expect("written");
    server.signal(Signal::SIGHUP);
    server.wait_for_line("group b is not served any more");
    running.end(LIMIT).assert_code(0);
    server.wait_for_line("group a is not served any more");
    let file = site.file("file", "bytes");
    send(&site, "c", "1", &[], &file).end(LIMIT).assert_code(0);
    wait_for_file(&dir.join("file"), b"bytes");
    wait_for_file(&dir.join("stdout"), b"abc");
    send(&site, "b", "1", &["--max-wait", "1"], &file).end(LIMIT).assert_code(3);
    server.signal(Signal::SIGTERM);
    server.end(LIMIT).assert_code(0);
}

#[test]
fn the_command_line_counts_before_the_environment_and_that_before_the_file() {
    let site = Site::beside("precedence", one_switch(2));
    let text = "interface = \"nosuch0\"\n[recv]\ninterface = \"nosuch1\"\nmax-wait = 0.1\n";
    let configuration = site.file("ethbcast.toml", text);
    let says = |arguments: &[&str], environment: &[(&str, &str)]| {
        let mut command = ethbcast(&site, "n1", arguments);
        command.env("ETHBCAST_CONFIG", &configuration).envs(environment.iter().copied());
        Run::start("n1", command).end(LIMIT).stderr
    };
    let dest = site.path("dest");
    let dest = dest.to_str().expect("UTF-8");
    assert!(says(&["recv", dest], &[]).contains("nosuch1"));
    assert!(says(&["send", "-n", "1", "/etc/hostname"], &[]).contains("nosuch0"));
    assert!(says(&["recv", dest], &[("ETHBCAST_INTERFACE", "nosuch2")]).contains("nosuch2"));
    let both = [("ETHBCAST_INTERFACE", "nosuch2"), ("ETHBCAST_RECV_INTERFACE", "nosuch3")];
    assert!(says(&["recv", dest], &both).contains("nosuch3"));
    assert!(says(&["recv", "-i", "nosuch4", dest], &both).contains("nosuch4"));
    let ended = says(&["recv", "-i", "eth0", dest], &[]);
    assert!(ended.contains("no sender was heard"), "the file's --max-wait counts: {ended}");
    let ended = says(&["recv", "-i", "eth0", dest], &[("ETHBCAST_RECV_MAX_WAIT", "soon")]);
    assert!(ended.contains("number of seconds") && ended.contains("$ETHBCAST_RECV_MAX_WAIT"), "{ended}");
    let ended = says(&["recv", "-i", "eth0", dest], &[("ETHBCAST_RECV_FORCE", "perhaps")]);
    assert!(ended.contains("set it to 1 or 0"), "{ended}");
}

#[test]
fn a_file_is_checked_and_every_mistake_in_it_is_named() {
    let site = Site::beside("check", one_switch(2));
    let good = site.file("good.toml", "interface = \"eth0\"\n[recv]\nserve = true\nmax-sessions = 2\n");
    let bad = site.file("bad.toml", "[recv]\nmax-session = 2\nforce = 3\n[sned]\nvia = \"cast\"\n");
    let check =
        |path: &std::path::Path| Run::here(PROGRAM, &["config", "check", path.to_str().expect("UTF-8")]).end(LIMIT);
    check(&good).assert_code(0);
    let ended = check(&bad);
    ended.assert_code(2);
    for part in ["is max-sessions meant?", "is [send] meant?", "force is on or off", "3 things are wrong"] {
        assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
    }
    check(&site.path("missing.toml")).assert_code(4);
    check(&site.file("broken.toml", "[recv\n")).assert_code(2);
}
