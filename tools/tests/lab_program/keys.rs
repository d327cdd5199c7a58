//! Transfers among hosts with keys, beside hosts without one or with another.

use crate::harness::{Ethbcast, LIMIT, MEBIBYTE, Run, Site, content, one_switch, shown_in, within};
use nix::sys::signal::Signal;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// Makes the key of a cluster, and its receivers' form.
fn keys(site: &Site, name: &str) -> (String, String) {
    let path = site.path(name);
    let made = site.run("n0", &["key", "new"], &path);
    made.assert_code(0);
    let printed = site.run("n0", &["key", "receivers"], &path);
    printed.assert_code(0);
    let receivers = site.file(&format!("{name}-receivers"), printed.stdout_text());
    fs::set_permissions(&receivers, fs::Permissions::from_mode(0o600)).expect("its mode");
    (path.to_string_lossy().into_owned(), receivers.to_string_lossy().into_owned())
}

fn sent(site: &Site) -> (Vec<u8>, PathBuf) {
    let bytes = content(7, 3 * MEBIBYTE);
    let source = site.file("source.bin", &bytes);
    (bytes, source)
}

#[test]
fn hosts_with_the_key_get_the_file_by_chain_and_by_cast() {
    let site = Site::beside("keyed", one_switch(3));
    let (of_sender, of_receivers) = keys(&site, "key");
    let (bytes, source) = sent(&site);
    for via in ["chain", "cast"] {
        let receivers = ["n1", "n2"].map(|host| {
            let directory = site.directory(&format!("{host}-{via}"));
            (site.start(host, &["recv", "--key", &of_receivers], directory.join("dest")), directory)
        });
        let root = site.run("n0", &["send", "-n", "2", "--via", via, "--key", &of_sender], &source);
        root.assert_code(0);
        for (receiver, directory) in receivers {
            receiver.end(LIMIT).assert_code(0);
            assert!(fs::read(directory.join("dest")).expect("it is there") == bytes, "{via}");
        }
    }
}

#[test]
fn hosts_without_the_key_or_with_another_are_told_so_and_get_nothing() {
    let site = Site::beside("misfits", one_switch(4));
    let (of_sender, of_receivers) = keys(&site, "key");
    let (_, other) = keys(&site, "other");
    let (bytes, source) = sent(&site);
    let started = [("n1", &["--key", of_receivers.as_str()][..]), ("n2", &["--no-key"]), ("n3", &["--key", &other])];
    let receivers = started.map(|(host, key)| {
        let directory = site.directory(host);
        let arguments = [&["recv", "--max-wait", "8"], key].concat();
        (site.start(host, &arguments, directory.join("dest")), directory)
    });
    let root = site.run("n0", &["send", "-n", "1", "--key", &of_sender], &source);
    root.assert_code(0);
    let [with, without, another] = receivers.map(|(run, directory)| (run.end(LIMIT), directory));
    with.0.assert_code(0);
    assert!(fs::read(with.1.join("dest")).expect("it is there") == bytes);
    for ((ended, directory), code) in [(without, "[E-NOKEY]"), (another, "[E-KEY]")] {
        ended.assert_code(3);
        assert!(ended.stderr.contains(code), "{}", ended.stderr);
        assert_eq!(shown_in(&directory), [""; 0]);
    }
}

#[test]
fn a_phrase_is_a_key_and_others_commands_do_not_get_it() {
    let site = Site::beside("phrases", one_switch(2));
    let (bytes, source) = sent(&site);
    let phrase = site.run("n0", &["key", "new"], "--phrase").stdout_text();
    let directory = site.directory("n1");
    let told = site.path("told");
    let command = format!("env > {}", told.display());
    let mut receiver = site.ethbcast("n1", ["recv", "--exec", &command]);
    receiver.arg(directory.join("dest")).env("ETHBCAST_KEY", phrase.trim_end());
    let receiver = Run::start("n1", receiver);
    let mut sender = site.ethbcast("n0", ["send", "-n", "1"]);
    sender.arg(&source).env("ETHBCAST_KEY", phrase.trim_end().to_uppercase().replace('-', " "));
    Run::start("n0", sender).end(LIMIT).assert_code(0);
    receiver.end(LIMIT).assert_code(0);
    assert!(fs::read(directory.join("dest")).expect("it is there") == bytes);
    let told = fs::read_to_string(told).expect("the command ran");
    assert!(told.contains("ETHBCAST_PATH=") && !told.contains("ETHBCAST_KEY"), "{told}");
}

#[test]
fn the_key_of_another_user_is_refused() {
    let site = Site::beside("owners", one_switch(2));
    let (of_sender, _) = keys(&site, "key");
    std::os::unix::fs::chown(&of_sender, Some(65534), None).expect("root may");
    let ended = site.run("n0", &["key", "show"], &of_sender);
    ended.assert_refusal(4, &["is another user's", "[E-KEYMODE]"]);
}

#[test]
fn receivers_that_stay_are_found_and_served_by_who_has_their_key() {
    let site = Site::beside("served", one_switch(3));
    let (of_sender, of_receivers) = keys(&site, "key");
    let (bytes, source) = sent(&site);
    let servers = ["n1", "n2"].map(|host| {
        let directory = site.directory(host);
        (site.start(host, &["recv", "--serve", "--key", &of_receivers], &directory), directory)
    });
    let list = |key: &[&str]| {
        let mut command = site.ethbcast("n0", ["hosts", "--json", "--wait", "1"]);
        command.args(key);
        Run::start("n0", command).end(LIMIT).json()["hosts"].as_array().expect("a list").len()
    };
    let found = within(LIMIT, || (list(&["--key", &of_receivers]) == 2).then_some(()));
    assert!(found.is_some(), "both are found");
    assert_eq!(list(&["--no-key"]), 0, "a question without a key is none");
    let mut command = site.ethbcast("n0", ["cp", "--key", &of_sender, "-w", "n[1-2]"]);
    command.arg(&source);
    Run::start("n0", command).end(LIMIT).assert_code(0);
    for (server, directory) in servers {
        assert!(fs::read(directory.join("source.bin")).expect("it is there") == bytes);
        server.signal(Signal::SIGTERM);
        server.end(LIMIT).assert_code(0);
    }
}
