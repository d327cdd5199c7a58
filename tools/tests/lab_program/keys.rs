//! Tests of transfers among hosts with keys, beside hosts without one or with another.

use crate::harness::{
    Ethbcast, LIMIT, MEBIBYTE, PROGRAM, Run, Site, content, one_switch, shown_in, within,
};
use ethbcast_tests::lab::Tap;
use ethbcast_transport::sim::Random;
use ethbcast_transport::wire::{ETHERNET_BYTES, KEYED_VERSION};
use nix::sys::signal::Signal;
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Makes the key of a cluster, and its receivers' form.
fn keys(site: &Site, name: &str) -> (String, String) {
    let path = site.path(name);
    site.run("n0", &["key", "new"], &path).assert_code(0);
    let printed = site.run("n0", &["key", "receivers"], &path);
    printed.assert_code(0);
    let receivers = site.file(&format!("{name}-receivers"), printed.stdout_text());
    fs::set_permissions(&receivers, fs::Permissions::from_mode(0o600)).expect("its mode");
    (
        path.to_string_lossy().into_owned(),
        receivers.to_string_lossy().into_owned(),
    )
}

fn sent(site: &Site) -> (Vec<u8>, PathBuf) {
    let bytes = content(7, 3 * MEBIBYTE);
    let source = site.file("source.bin", &bytes);
    (bytes, source)
}

/// Sends a file from n0 to n1 and n2, by keys of the sender and of the receivers. Each writes it in
/// a directory whose name ends with `to`.
fn assert_both_get_it(
    site: &Site,
    keys: (&str, &str),
    (bytes, source): (&[u8], &Path),
    via: &str,
    to: &str,
) {
    let receivers = ["n1", "n2"].map(|host| {
        let directory = site.directory(&format!("{host}-{to}"));
        (
            site.start(host, &["recv", "--key", keys.1], directory.join("dest")),
            directory,
        )
    });
    site.run(
        "n0",
        &["send", "-n", "2", "--via", via, "--key", keys.0],
        source,
    )
    .assert_code(0);
    for (receiver, directory) in receivers {
        receiver.end(LIMIT).assert_code(0);
        assert!(
            fs::read(directory.join("dest")).expect("it is there") == bytes,
            "{via}"
        );
    }
}

#[test]
fn hosts_with_the_key_get_the_file_by_chain_and_by_cast() {
    let site = Site::beside("keyed", one_switch(3));
    let (of_sender, of_receivers) = keys(&site, "key");
    let (bytes, source) = sent(&site);
    for via in ["chain", "cast"] {
        assert_both_get_it(
            &site,
            (&of_sender, &of_receivers),
            (&bytes[..], source.as_path()),
            via,
            via,
        );
    }
}

/// A cluster that is about to change its key: n1 understands both secrets.
#[test]
fn probe_and_doctor_measure_hosts_with_the_key_and_hear_no_others() {
    let site = Site::beside("keyedprobe", one_switch(4));
    let (of_sender, of_receivers) = keys(&site, "key");
    let (_, other) = keys(&site, "other");
    let added = site.path("added");
    fs::copy(&of_sender, &added).expect("copied");
    site.run("n1", &["key", "add"], &added).assert_code(0);
    let added = added.to_string_lossy().into_owned();
    let answer = |host: &str, key: &[&str]| {
        let answerer = site.start(host, &[&["probe"][..], key].concat(), "--answer");
        answerer.wait_for_line("answers the probes");
        answerer
    };
    let answerers = [
        answer("n1", &["--key", &added]),
        answer("n2", &["--key", &other]),
        answer("n3", &["--no-key"]),
    ];
    let probed = site.run(
        "n0",
        &["probe", "--max-wait", "5", "--key", &of_receivers],
        "n1",
    );
    probed.assert_code(0);
    // A frame has eight bytes less than one without a tag. A stream is received only by an order.
    let words = ["path MTU    1500", "a frame of a stream, with 1460 bytes,"];
    assert!(
        words.iter().all(|word| probed.stdout_text().contains(word)),
        "{}",
        probed.stdout_text()
    );
    for silent in ["n2", "n3"] {
        let ended = site.run(
            "n0",
            &["probe", "--max-wait", "1", "--key", &of_receivers],
            silent,
        );
        ended.assert_refusal(3, &["no answer from", silent]);
    }
    site.run("n0", &["probe", "--max-wait", "1", "--no-key"], "n1")
        .assert_refusal(3, &["no answer from n1"]);
    let looked = site.run(
        "n0",
        &["doctor", "--key", &of_receivers, "--json", "--peer"],
        "n1",
    );
    assert!(
        !looked.stdout_text().contains("E-NOBODY"),
        "{}",
        looked.stdout_text()
    );
    for answerer in answerers {
        answerer.signal(Signal::SIGTERM);
        answerer.end(LIMIT).assert_code(143);
    }
}

#[test]
fn a_capture_is_read_by_a_log_of_secrets_alone_that_others_may_not_read() {
    let site = Site::beside("keylog", one_switch(2));
    let (of_sender, of_receivers) = keys(&site, "key");
    let source = site.file("a-name-to-find", content(7, MEBIBYTE));
    let (log, capture, plain) = (site.path("log"), site.path("capture"), site.path("plain"));
    let shown = |path: &Path| path.to_string_lossy().into_owned();
    let (log_name, to) = (shown(&log), site.directory("n1"));
    let listener = site.start("n1", &["dump", "-q", "-i", "eth0", "-w"], &capture);
    listener.wait_for_line("ethbcast: frames of EtherType");
    let receiver = site.start(
        "n1",
        &["recv", "--key", &of_receivers, "--key-log", &log_name],
        to.join("dest"),
    );
    let root = site.run("n0", &["send", "-n", "1", "--key", &of_sender], &source);
    root.assert_code(0);
    receiver.end(LIMIT).assert_code(0);
    listener.signal(Signal::SIGINT);
    listener.end(LIMIT).assert_code(0);
    assert_eq!(
        fs::metadata(&log).expect("it is there").mode() & 0o777,
        0o600
    );
    let dump = |words: &[&str], file: &Path| {
        let mut run = Command::new(PROGRAM);
        run.arg("dump").args(words).arg(file);
        let ended = Run::start("dump", run).end(LIMIT);
        ended.assert_code(0);
        ended.stdout_text().to_owned()
    };
    let words = ["VIEW", "DONE", "VERDICT", "tree \"0:n0, 1:n1<0\""];
    let sealed = dump(&[], &capture);
    assert!(
        words.iter().all(|word| !sealed.contains(word)) && sealed.contains("protected by a key"),
        "{sealed}"
    );
    let opened = dump(&["--key-log", &log_name, "-w", &shown(&plain)], &capture);
    assert!(words.iter().all(|word| opened.contains(word)), "{opened}");
    let again = dump(&[], &plain);
    assert!(words.iter().all(|word| again.contains(word)), "{again}");
    fs::set_permissions(&log, fs::Permissions::from_mode(0o644)).expect("its mode");
    let refused = site.run(
        "n1",
        &["recv", "--key", &of_receivers, "--key-log", &log_name],
        to.join("dest"),
    );
    refused.assert_refusal(4, &["others can read it", "[E-KEYMODE]"]);
}

#[test]
fn hosts_without_the_key_or_with_another_are_told_so_and_get_nothing() {
    let site = Site::beside("misfits", one_switch(4));
    let (of_sender, of_receivers) = keys(&site, "key");
    let (_, other) = keys(&site, "other");
    let (bytes, source) = sent(&site);
    let started = [
        ("n1", &["--key", of_receivers.as_str()][..]),
        ("n2", &["--no-key"]),
        ("n3", &["--key", &other]),
    ];
    let receivers = started.map(|(host, key)| {
        let directory = site.directory(host);
        let arguments = [&["recv", "--max-wait", "8"], key].concat();
        (
            site.start(host, &arguments, directory.join("dest")),
            directory,
        )
    });
    let root = site.run("n0", &["send", "-n", "1", "--key", &of_sender], &source);
    root.assert_code(0);
    let [with, without, another] = receivers.map(|(run, directory)| (run.end(LIMIT), directory));
    with.0.assert_code(0);
    assert!(fs::read(with.1.join("dest")).expect("it is there") == bytes);
    for ((ended, directory), code) in [(without, "[E-NOKEY]"), (another, "[E-KEY]")] {
        ended.assert_code(3);
        let last = ended.stderr.lines().last().unwrap_or_default();
        assert!(
            last.contains("no sender was heard") && last.ends_with(code),
            "{}",
            ended.stderr
        );
        assert_eq!(shown_in(&directory), [""; 0]);
    }
}

#[test]
fn a_sender_with_a_key_whom_only_hosts_without_one_hear_says_so_in_the_end() {
    let site = Site::beside("unkeyed", one_switch(2));
    let (of_sender, _) = keys(&site, "key");
    let (_, source) = sent(&site);
    let receiver = site.start(
        "n1",
        &["recv", "-q", "--no-key", "--max-wait", "6"],
        site.path("dest"),
    );
    let root = site.run(
        "n0",
        &[
            "send",
            "-q",
            "-n",
            "1",
            "--max-wait",
            "4",
            "--key",
            &of_sender,
        ],
        &source,
    );
    root.assert_refusal(
        3,
        &[
            "were heard from n1 (",
            "frames without a key",
            "--key FILE",
            "[E-NOKEY]",
        ],
    );
    receiver.end(LIMIT).assert_refusal(
        3,
        &["no sender was heard", "this host has none", "[E-NOKEY]"],
    );
}

#[test]
fn a_session_without_a_key_says_so_once_unless_that_is_meant() {
    let site = Site::beside("keyless", one_switch(2));
    let (bytes, source) = sent(&site);
    for (number, (option, told)) in [(&[][..], 1), (&["--no-key"], 0), (&["-q"], 0)]
        .into_iter()
        .enumerate()
    {
        let directory = site.directory(&format!("n1-{number}"));
        let run = |host: &str, arguments: &[&str], path: &std::path::Path| {
            let mut command = site.ethbcast(host, [arguments, option].concat());
            Run::start(host, {
                command.arg(path).env_remove("ETHBCAST_NO_KEY");
                command
            })
        };
        let receiver = run("n1", &["recv"], &directory.join("dest"));
        let ends = [run("n0", &["send", "-n", "1"], &source), receiver].map(|run| run.end(LIMIT));
        for end in ends {
            end.assert_code(0);
            assert_eq!(
                end.stderr.matches("no key: ").count(),
                told,
                "{option:?}: {}",
                end.stderr
            );
        }
        assert!(fs::read(directory.join("dest")).expect("it is there") == bytes);
    }
}

#[test]
fn a_receiver_that_stays_needs_a_key_as_root() {
    let site = Site::beside("rootly", one_switch(2));
    let (_, of_receivers) = keys(&site, "key");
    let serve = |more: &[&str]| {
        let mut command = site.ethbcast("n1", [&["recv", "--serve", "-i", "eth0"], more].concat());
        Run::start("n1", {
            command.arg(site.scratch()).env_remove("ETHBCAST_NO_KEY");
            command
        })
    };
    serve(&[]).end(LIMIT).assert_refusal(
        2,
        &[
            "as root",
            "ethbcast key new",
            "--key FILE",
            "--no-key",
            "[E-NOKEY]",
        ],
    );
    for more in [&["--no-key"][..], &["--key", &of_receivers]] {
        let server = serve(more);
        server.wait_for_line("serving ");
        server.signal(Signal::SIGTERM);
        let ended = server.end(LIMIT);
        ended.assert_code(0);
        assert!(!ended.stderr.contains("no key"), "{}", ended.stderr);
    }
    // The packaged unit runs as a user of its own.
    let mut other = as_user(&site, "n1", PROGRAM);
    let folder = site.directory("theirs");
    other
        .args(["recv", "--serve", "-i", "eth0"])
        .arg(&folder)
        .env_remove("ETHBCAST_NO_KEY");
    let other = Run::start("n1", other);
    other.wait_for_line("serving ");
    other.signal(Signal::SIGTERM);
    let ended = other.end(LIMIT);
    ended.assert_code(0);
    assert!(ended.stderr.contains("no key: "), "{}", ended.stderr);
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
    receiver
        .arg(directory.join("dest"))
        .env("ETHBCAST_KEY", phrase.trim_end());
    let receiver = Run::start("n1", receiver);
    let mut sender = site.ethbcast("n0", ["send", "-n", "1"]);
    sender.arg(&source).env(
        "ETHBCAST_KEY",
        phrase.trim_end().to_uppercase().replace('-', " "),
    );
    Run::start("n0", sender).end(LIMIT).assert_code(0);
    receiver.end(LIMIT).assert_code(0);
    assert!(fs::read(directory.join("dest")).expect("it is there") == bytes);
    let told = fs::read_to_string(told).expect("the command ran");
    assert!(
        told.contains("ETHBCAST_PATH=") && !told.contains("ETHBCAST_KEY"),
        "{told}"
    );
}

const USER: u32 = 65534;

/// Prepares a program to run on a host as an ordinary user who may send frames.
fn as_user(site: &Site, host: &str, program: &str) -> Command {
    let mut command = site.command(host, "setpriv");
    let user = USER.to_string();
    command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]);
    command.args(["--ambient-caps=+net_raw", "--inh-caps=+net_raw", program]);
    command
}

/// Reads a field of a process's status (proc_pid_status(5)).
fn status(run: &Run, field: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{}/status", run.pid())).ok()?;
    let value = status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    Some(value.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn no_new_rights(run: &Run) -> Option<bool> {
    status(run, "NoNewPrivs").map(|flag| flag == "1")
}

const NET_RAW: u64 = 1 << 13;
/// CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER and FSETID.
const FILES: u64 = 0x1f;

fn assert_status(run: &Run, expected: &[(&str, &str)]) {
    for &(field, value) in expected {
        assert_eq!(status(run, field).as_deref(), Some(value), "{field}");
    }
}

#[test]
fn with_user_only_the_right_to_packet_sockets_is_kept() {
    let site = Site::beside("user", one_switch(2));
    let (bytes, source) = sent(&site);
    fs::set_permissions(&source, fs::Permissions::from_mode(0o600)).expect("its mode");
    let group = USER.to_string();
    let user = [group.as_str(); 4].join(" ");
    let net_raw = format!("{NET_RAW:016x}");
    let rights = [
        ("Uid", &*user),
        ("Groups", &*group),
        ("CapPrm", &net_raw),
        ("CapEff", &net_raw),
        ("CapBnd", &net_raw),
    ];
    let nobody = NOBODY;
    for (name, serves) in [("once", false), ("serving", true)] {
        let directory = site.directory(name);
        chown(&directory, Some(USER), Some(USER)).expect("root may");
        let (mode, line): (&[_], _) = if serves {
            (&["recv", "--serve"], "serving ")
        } else {
            (&["recv"], "waiting for")
        };
        let receiver = site.start("n1", &[mode, &nobody].concat(), &directory);
        receiver.wait_for_line(line);
        assert_status(&receiver, &rights);
        assert_status(&receiver, &[("NoNewPrivs", "1")]);
        site.run("n0", &[&["send", "-n", "1"], &nobody[..]].concat(), &source)
            .assert_code(0);
        let dest = directory.join("source.bin");
        let came = within(LIMIT, || fs::read(&dest).ok());
        assert!(came.expect("it is there") == bytes, "{name}");
        assert_eq!(fs::metadata(&dest).expect("it is there").uid(), USER);
        if serves {
            receiver.signal(Signal::SIGTERM);
        }
        receiver.end(LIMIT).assert_code(0);
    }
    let refused = site.run(
        "n1",
        &[&["recv"], &nobody[..]].concat(),
        site.directory("roots").join("dest"),
    );
    refused.assert_refusal(4, &["roots", "[E-DEST]"]);
    let report = site
        .path("roots")
        .join("run.json")
        .to_string_lossy()
        .into_owned();
    let refused = site.run(
        "n0",
        &[&["send", "-n", "1", "--report", &report], &nobody[..]].concat(),
        &source,
    );
    refused.assert_refusal(4, &["run.json", "Permission denied"]);
    let nobody_there = site.run("n1", &["recv", "--no-key", "--user", "nosuchuser"], "dest");
    nobody_there.assert_refusal(2, &["no such user"]);
}

const NOBODY: [&str; 3] = ["--no-key", "--user", "nobody"];

/// Creates a directory of nobody's. Returns a command that writes there what rights it has, and the
/// file's path.
fn tells_its_rights(site: &Site, directory: &str) -> (String, PathBuf) {
    let directory = site.directory(directory);
    chown(&directory, Some(USER), Some(USER)).expect("root may");
    let path = directory.join("rights");
    (
        format!(
            "(id -u; grep CapEff /proc/self/status) > {}",
            path.display()
        ),
        path,
    )
}

fn assert_rights(rights: &Path, capabilities: u64) {
    let told = within(LIMIT, || {
        fs::read_to_string(rights)
            .ok()
            .filter(|told| told.lines().count() == 2)
    });
    let expected = format!("{USER}\nCapEff:\t{capabilities:016x}\n");
    assert_eq!(told.as_deref(), Some(&*expected), "{rights:?}");
}

#[test]
fn with_user_the_command_whose_output_is_sent_has_that_users_rights() {
    let site = Site::beside("piping", one_switch(2));
    let (bytes, source) = sent(&site);
    let (command, rights) = tells_its_rights(&site, "theirs");
    let dest = site.path("dest");
    let receiver = site.start("n1", &["recv", "--no-key"], &dest);
    receiver.wait_for_line("waiting for");
    let arguments = [&["send", "-n", "1"], &NOBODY[..], &["--pipe"]].concat();
    site.run(
        "n0",
        &arguments,
        format!("{command}; cat {}", source.display()),
    )
    .assert_code(0);
    receiver.end(LIMIT).assert_code(0);
    assert!(fs::read(&dest).expect("it is there") == bytes);
    assert_rights(&rights, 0);
}

#[test]
fn with_user_the_commands_of_a_server_get_no_capability() {
    let site = Site::beside("executing", one_switch(2));
    let (_, source) = sent(&site);
    let (command, rights) = tells_its_rights(&site, "theirs");
    let directory = rights.parent().expect("it is in one");
    let receiver = site.start(
        "n1",
        &[&["recv", "--serve", "--exec", &command], &NOBODY[..]].concat(),
        directory,
    );
    receiver.wait_for_line("serving ");
    site.run("n0", &[&["send", "-n", "1"], &NOBODY[..]].concat(), &source)
        .assert_code(0);
    assert_rights(&rights, 0);
    receiver.signal(Signal::SIGTERM);
    receiver.end(LIMIT).assert_code(0);
}

#[test]
fn without_user_a_command_keeps_what_the_administrator_gave() {
    let site = Site::beside("given", one_switch(2));
    let (_, source) = sent(&site);
    let (command, rights) = tells_its_rights(&site, "theirs");
    let mut receiver = as_user(&site, "n1", PROGRAM);
    receiver
        .args(["recv", "--no-key", "-i", "eth0", "--exec", &command])
        .arg(rights.with_file_name("dest"));
    let receiver = Run::start("n1", receiver);
    receiver.wait_for_line("waiting for");
    site.run("n0", &["send", "-n", "1", "--no-key"], &source)
        .assert_code(0);
    receiver.end(LIMIT).assert_code(0);
    assert_rights(&rights, NET_RAW);
}

/// Returns the processes that `run` has started, by their parent in proc_pid_stat(5).
fn children(run: &Run) -> Vec<u32> {
    let parent = |number: u32| {
        let stat = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
        stat.rsplit(')')
            .next()?
            .split_whitespace()
            .nth(1)?
            .parse::<u32>()
            .ok()
    };
    let entries = fs::read_dir("/proc").expect("it is mounted").flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers
        .filter(|&number| parent(number) == Some(run.pid()))
        .collect()
}

#[test]
fn the_watcher_keeps_no_capability_and_gains_none() {
    let site = Site::beside("watching", one_switch(2));
    let receiver = site.start("n1", &["recv", "--no-key"], site.path("dest"));
    receiver.wait_for_line("waiting for");
    let is_bare = |child: &u32| {
        let status = fs::read_to_string(format!("/proc/{child}/status")).unwrap_or_default();
        let capabilities =
            ["CapPrm", "CapEff", "CapBnd"].map(|set| format!("{set}:\t{:016x}\n", 0));
        capabilities.iter().all(|line| status.contains(line)) && status.contains("NoNewPrivs:\t1\n")
    };
    let watchers = within(LIMIT, || {
        Some(children(&receiver)).filter(|all| all.iter().all(is_bare))
    });
    assert_eq!(watchers.map(|all| all.len()), Some(1));
    receiver.signal(Signal::SIGINT);
    receiver.end(LIMIT).assert_code(130);
}

#[test]
fn root_with_a_key_keeps_what_files_and_their_owners_need() {
    let site = Site::beside("keeping", one_switch(2));
    let (of_sender, of_receivers) = keys(&site, "key");
    let source = site.directory("source");
    fs::write(source.join("theirs"), "x").expect("room");
    chown(source.join("theirs"), Some(USER), Some(USER)).expect("root may");
    let mut receiver = site.ethbcast("n1", ["recv", "--key", &of_receivers]);
    let dest = site.path("dest");
    receiver.arg(&dest).env("RUST_LOG", "ethbcast=debug");
    let receiver = Run::start("n1", receiver);
    // A kernel may have all of it, part of it, or none.
    receiver.wait_for_line("Landlock");
    receiver.wait_for_line("waiting for");
    fs::remove_file(&of_receivers).expect("it is there");
    let kept = format!("{:016x}", FILES | NET_RAW);
    assert_status(
        &receiver,
        &[
            ("CapPrm", &kept),
            ("CapEff", &kept),
            ("CapBnd", &kept),
            ("NoNewPrivs", "1"),
        ],
    );
    let root = site.run(
        "n0",
        &["send", "-n", "1", "--numeric", "--key", &of_sender],
        &source,
    );
    root.assert_code(0);
    receiver.end(LIMIT).assert_code(0);
    assert_eq!(
        fs::metadata(dest.join("theirs"))
            .expect("it is there")
            .uid(),
        USER
    );
}

#[test]
fn who_has_a_key_hides_it_from_processes_of_its_user_and_starts_none_with_more_rights() {
    let site = Site::beside("rights", one_switch(2));
    let phrase = site.run("n0", &["key", "new"], "--phrase").stdout_text();
    let (bytes, source) = sent(&site);
    // The key, more options, and whether the environment can be read and rights be gained.
    let (keyed, unkeyed) = (
        ("ETHBCAST_KEY", phrase.trim_end()),
        ("ETHBCAST_NO_KEY", "1"),
    );
    for (name, (key, value), more, is_open, may_gain) in [
        ("keyed", keyed, &[][..], false, false),
        ("commanding", keyed, &["--exec", "true"][..], false, true),
        ("unkeyed", unkeyed, &[][..], true, true),
    ] {
        let directory = site.directory(name);
        chown(&directory, Some(USER), Some(USER)).expect("root may");
        let mut receiver = as_user(&site, "n1", PROGRAM);
        receiver
            .args(["recv", "-i", "eth0"])
            .args(more)
            .arg(directory.join("dest"))
            .env(key, value);
        let receiver = Run::start("n1", receiver);
        receiver.wait_for_line("waiting for");
        let mut reader = as_user(&site, "n1", "cat");
        reader.arg(format!("/proc/{}/environ", receiver.pid()));
        let read = Run::start("n1", reader).end(LIMIT);
        assert_eq!(
            read.stdout_text().contains(&format!("{key}={value}")),
            is_open,
            "{name}: {}",
            read.stderr
        );
        let gains = within(LIMIT, || {
            no_new_rights(&receiver).filter(|&none| none != may_gain)
        });
        assert!(
            gains.is_some(),
            "{name}: it keeps to its rights: {}",
            !may_gain
        );
        let mut sender = site.ethbcast("n0", ["send", "-n", "1"]);
        sender.arg(&source).env(key, value);
        Run::start("n0", sender).end(LIMIT).assert_code(0);
        receiver.end(LIMIT).assert_code(0);
        assert!(fs::read(directory.join("dest")).expect("it is there") == bytes);
    }
}

#[test]
fn the_key_of_another_user_is_refused() {
    let site = Site::beside("owners", one_switch(2));
    let (of_sender, _) = keys(&site, "key");
    chown(&of_sender, Some(USER), None).expect("root may");
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
        (
            site.start(
                host,
                &["recv", "--serve", "--key", &of_receivers],
                &directory,
            ),
            directory,
        )
    });
    let list = |key: &[&str]| {
        let mut command = site.ethbcast("n0", ["hosts", "--json", "--wait", "1"]);
        command.args(key);
        Run::start("n0", command).end(LIMIT).json()["hosts"]
            .as_array()
            .expect("a list")
            .len()
    };
    let found = within(LIMIT, || {
        (list(&["--key", &of_receivers]) == 2).then_some(())
    });
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

/// Options of both ends, more of the sender's, and whether contents and names are seen.
type Way<'a> = ([&'a [&'a str]; 2], &'a [&'a str], [bool; 2]);

/// Sends a directory to hosts that update theirs; returns all frames on the cables.
fn captured(site: &Site, source: &Path, keys: [&[&str]; 2], more: &[&str]) -> Vec<Vec<u8>> {
    let tap = site
        .lab()
        .run_at_switches(Tap::everywhere)
        .expect("a lab")
        .expect("a socket");
    let [of_sender, of_receivers] = keys;
    let receivers = ["n1", "n2"].map(|host| {
        site.start(
            host,
            &[&["recv", "-q", "--in-place"], of_receivers].concat(),
            site.path(&format!("{host}-dest")),
        )
    });
    let arguments = [
        &["send", "-q", "-n", "2", "--no-probe", "--via", "chain"],
        of_sender,
        more,
    ]
    .concat();
    let mut sender = site.start("n0", &arguments, source.join(""));
    let (mut frames, mut buffer) = (Vec::new(), vec![0; 2048]);
    let deadline = Instant::now() + LIMIT;
    // What comes between an empty socket and the sender's end is read after the end.
    let mut has_ended = false;
    loop {
        match tap.receive(&mut buffer).expect("frames") {
            Some(length) => frames.push(buffer[..length].to_vec()),
            None if has_ended => break,
            None => {
                has_ended = sender
                    .ended_by(Instant::now() + Duration::from_millis(1))
                    .is_some()
            }
        }
        assert!(Instant::now() < deadline, "the sender has not ended");
    }
    sender.end(LIMIT).assert_code(0);
    receivers
        .into_iter()
        .for_each(|receiver| receiver.end(LIMIT).assert_code(0));
    frames
}

#[test]
fn a_capture_of_a_directory_and_its_update_has_nothing_of_contents_and_names() {
    let site = Site::beside("captured", one_switch(3));
    let (of_sender, of_receivers) = keys(&site, "key");
    let keys = [
        ["--key", of_sender.as_str()],
        ["--key", of_receivers.as_str()],
    ];
    let source = site.directory("source");
    let (name, mut bytes) = ("a-name-of-more-than-sixteen-bytes", content(9, 900_000));
    let ways: [Way<'_>; 3] = [
        ([&keys[0], &keys[1]], &[], [false, false]),
        ([&keys[0], &keys[1]], &["--auth-only"], [true, true]),
        ([&["--no-key"], &["--no-key"]], &[], [true, true]),
    ];
    for (keys, more, shown) in ways {
        // The second time it is an update of a part. A busy machine may capture too little of it.
        for _ in 0..2 {
            let mut changed = || {
                bytes[300_000..300_100]
                    .iter_mut()
                    .for_each(|byte| *byte ^= 0x55);
                fs::write(source.join(name), &bytes).expect("written");
                captured(&site, &source, keys, more)
            };
            let has_data = |frames: &Vec<Vec<u8>>| {
                frames.iter().filter(|frame| frame.len() > 1000).count() > 40
            };
            let frames = (0..3)
                .map(|_| changed())
                .find(has_data)
                .expect("a capture with the changed chunk");
            let parts: HashSet<&[u8]> = bytes.windows(16).collect();
            let names: HashSet<&[u8]> = name.as_bytes().windows(16).collect();
            let has = |parts: &HashSet<&[u8]>| {
                frames
                    .iter()
                    .any(|one| one.windows(16).any(|part| parts.contains(part)))
            };
            assert_eq!([has(&parts), has(&names)], shown, "{more:?}");
            for host in ["n1", "n2"] {
                let dest = site.path(&format!("{host}-dest"));
                assert!(
                    fs::read(dest.join(name)).expect("it is there") == bytes,
                    "{host} {more:?}"
                );
            }
        }
    }
}

/// Frames that an attacker remembers.
const MEMORY: usize = 20_000;

/// Hears all frames on the cables of a lab, and sends them again from n3, every second one altered,
/// until `is_over` says so. Counts them.
fn attack(site: &Site, sent: &AtomicU64, is_over: impl Fn() -> bool) {
    // Borrowed addresses must stay on their own ports.
    site.lab().set_learning("n3", false).expect("a host");
    let ear = site
        .lab()
        .run_at_switches(Tap::everywhere)
        .expect("a lab")
        .expect("a socket");
    let mouth = site
        .lab()
        .run_on("n3", || Tap::on("eth0"))
        .expect("a host")
        .expect("a socket");
    let (mut random, mut heard, mut buffer) = (Random::new(1), Vec::new(), vec![0; 2048]);
    while !is_over() {
        while let Some(length) = ear.receive(&mut buffer).expect("frames") {
            let is_keyed = buffer[..length].get(ETHERNET_BYTES + 2) == Some(&KEYED_VERSION);
            if is_keyed && heard.len() < MEMORY {
                heard.push(buffer[..length].to_vec());
            }
        }
        for _ in 0..8 {
            let Some(at) = random.below(heard.len() as u64 + 1).checked_sub(1) else {
                continue;
            };
            let mut frame: Vec<u8> = heard[at as usize].clone();
            if random.chance(0.5) {
                let bit = random.below(8 * frame.len() as u64) as usize;
                frame[bit / 8] ^= 1 << (bit % 8);
            }
            sent.fetch_add(
                u64::from(mouth.send(&frame).expect("a cable")),
                Ordering::Relaxed,
            );
        }
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn whatever_a_host_without_the_key_sends_again_or_alters_has_no_effect() {
    let site = Site::beside("attacked", one_switch(4));
    let (of_sender, of_receivers) = keys(&site, "key");
    let (bytes, source) = sent(&site);
    let (sent, deadline, is_over) = (
        AtomicU64::new(0),
        Instant::now() + LIMIT,
        AtomicBool::new(false),
    );
    thread::scope(|scope| {
        scope.spawn(|| {
            attack(&site, &sent, || {
                is_over.load(Ordering::Relaxed) || Instant::now() > deadline
            })
        });
        for round in 0.. {
            let via = ["chain", "cast"][round % 2];
            let file = (&bytes[..], source.as_path());
            assert_both_get_it(
                &site,
                (&of_sender, &of_receivers),
                file,
                via,
                &round.to_string(),
            );
            if round > 2 && sent.load(Ordering::Relaxed) > 5000 {
                break;
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
}
