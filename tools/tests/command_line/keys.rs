//! Tests of `ethbcast key`, and of the search for a transfer's key.

use crate::ended_here;
use ethbcast_tests::lab::{Run, scratch};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(20);
const PHRASE: &str = "babad-bamag-bibaj-bimal-boban-bomar-bubat-bumaz-domut";

fn mode(path: &Path) -> u32 {
    path.metadata().expect("it is there").permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its mode");
}

/// Makes a key file with this text that only this user can read.
fn file(directory: &Path, name: &str, text: &str) -> String {
    let path = directory.join(name);
    fs::write(&path, text).expect("written");
    set_mode(&path, 0o600);
    path.to_string_lossy().into_owned()
}

fn key(arguments: &[&str]) -> String {
    let ended = ended_here(&[&["key"], arguments].concat());
    ended.assert_code(0);
    ended.stdout_text()
}

#[test]
fn a_new_key_is_its_owners_alone_and_receivers_get_it_without_the_right_to_send() {
    let directory = scratch();
    let path = directory.path().join("key");
    let made = key(&["new", &path.to_string_lossy()]);
    assert_eq!(mode(&path), 0o600);
    let text = fs::read_to_string(&path).expect("read");
    assert!(
        text.starts_with("ethbcast-key 1\ncluster ") && text.contains("\nsign "),
        "{}",
        text.len()
    );
    let shown = key(&["show", &path.to_string_lossy()]);
    let name = shown
        .strip_prefix("key ")
        .and_then(|rest| rest.split(',').next())
        .expect("a name");
    assert!(
        made.contains(name) && shown.contains("may send") && name.len() == 9,
        "{shown}"
    );
    let receivers = directory.path().join("receivers");
    key(&[
        "receivers",
        &path.to_string_lossy(),
        &receivers.to_string_lossy(),
    ]);
    assert_eq!(mode(&receivers), 0o600);
    // A process that opened the file behind `>` before its mode was changed could still read it.
    for (open, code) in [(0o644, 2), (0o600, 0)] {
        let behind = directory.path().join(format!("{open:o}"));
        let stdout = fs::File::create(&behind).expect("made");
        set_mode(&behind, open);
        let mut command = Command::new(env!("CARGO_BIN_EXE_ethbcast"));
        let status = command
            .args(["key", "receivers"])
            .arg(&path)
            .stdout(stdout)
            .status()
            .expect("it starts");
        assert_eq!(status.code(), Some(code), "{open:o}");
        assert_eq!(
            fs::read_to_string(&behind).expect("read").is_empty(),
            code != 0,
            "{open:o}"
        );
    }
    let shown = key(&["show", &receivers.to_string_lossy()]);
    assert!(
        shown.contains(name) && shown.contains("receives"),
        "{shown}"
    );
    assert!(
        !fs::read_to_string(&receivers)
            .expect("read")
            .contains("sign ")
    );
    let again = ended_here(&["key", "new", &path.to_string_lossy()]);
    again.assert_refusal(2, &["is there, and was left as it was", "ethbcast key add"]);
    assert_eq!(fs::read_to_string(&path).expect("read"), text);
    let added = key(&["add", &path.to_string_lossy()]);
    assert!(
        added.contains(&format!("also understands key {name}")) && mode(&path) == 0o600,
        "{added}"
    );
}

#[test]
fn a_key_that_cannot_be_used_is_an_error_that_tells_no_secret() {
    let directory = scratch();
    let text = {
        let path = directory.path().join("good");
        key(&["new", &path.to_string_lossy()]);
        fs::read_to_string(path).expect("read")
    };
    let lines: Vec<&str> = text.lines().collect();
    let twice = text.replace(lines[1], &format!("{0}\n{0}", lines[1]));
    let secret = lines[1].split(' ').nth(1).expect("a secret");
    let wrong = |name: &str, text: &str, code: i32, words: &[&str]| {
        let path = file(directory.path(), name, text);
        for command in [
            &["send", "-n", "1", "-i", "lo", "--key", &path, "Cargo.toml"][..],
            &["key", "show", &path],
        ] {
            let ended = ended_here(command);
            ended.assert_refusal(code, words);
            assert!(!ended.stderr.contains(secret), "{name}");
        }
    };
    wrong(
        "later",
        &format!("{text}host n1 00\n"),
        2,
        &["line 5: unknown item"],
    );
    wrong("cut", text.trim_end(), 2, &["the last line has no end"]);
    wrong("twice", &twice, 2, &["line 3: the same `cluster`"]);
    wrong("empty", "", 2, &["this is no key file"]);
    wrong("binary", "\u{0}", 2, &["this is no key file"]);
    let open = file(directory.path(), "open", &text);
    for mode in [0o640, 0o604, 0o660, 0o777] {
        set_mode(Path::new(&open), mode);
        ended_here(&["key", "show", &open])
            .assert_refusal(4, &["others can read", "chmod 600", "[E-KEYMODE]"]);
    }
    let folder = directory.path().to_string_lossy().into_owned();
    ended_here(&["key", "show", &folder]).assert_refusal(4, &["is no file", "[E-KEYMODE]"]);
    ended_here(&["key", "show", "/nowhere/key"])
        .assert_refusal(4, &["/nowhere/key", "No such file"]);
}

/// Starts a sender that finds its key by itself.
fn sends(variables: &[(&str, &str)], more: &[&str]) -> ethbcast_tests::lab::Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ethbcast"));
    command
        .args(["send", "-n", "1", "-i", "nosuch0"])
        .args(more)
        .arg("Cargo.toml");
    command
        .envs(variables.iter().copied())
        .env("ETHBCAST_CONFIG", "");
    Run::start("sender", command).end(LIMIT)
}

#[test]
fn the_key_is_the_first_of_those_that_there_are() {
    let directory = scratch();
    let good = directory.path().join("good");
    key(&["new", &good.to_string_lossy()]);
    let receivers = key(&["receivers", &good.to_string_lossy()]);
    let receivers = file(directory.path(), "receivers", &receivers);
    let (good, wrong) = (
        good.to_string_lossy().into_owned(),
        PHRASE.replace("bibaj", "bibab"),
    );
    let credentials = scratch();
    file(credentials.path(), "ethbcast.key", "no key");
    let credentials = credentials.path().to_string_lossy().into_owned();
    let no_interface = &["there is no interface nosuch0"][..];
    let may_not = &["[E-NOSEND]"][..];
    let mistyped = &["word 3", "[E-PHRASE]"][..];
    for (variables, more, code, words) in [
        (&[][..], &["--key", good.as_str()][..], 4, no_interface),
        (&[], &["--key", receivers.as_str()], 2, may_not),
        (
            &[("ETHBCAST_KEY_FILE", receivers.as_str())],
            &[],
            2,
            may_not,
        ),
        (
            &[("ETHBCAST_KEY_FILE", receivers.as_str())],
            &["--no-key"],
            4,
            no_interface,
        ),
        (
            &[("ETHBCAST_KEY_FILE", receivers.as_str())],
            &["--key", good.as_str()],
            4,
            no_interface,
        ),
        (&[("ETHBCAST_KEY", PHRASE)], &[], 4, no_interface),
        (&[("ETHBCAST_KEY", wrong.as_str())], &[], 2, mistyped),
        (&[("ETHBCAST_KEY", "")], &[], 2, &["[E-PHRASE]"]),
        (
            &[],
            &["--key", PHRASE],
            2,
            &["is a key phrase", "--key-phrase", "[E-PHRASE]"],
        ),
        (
            &[
                ("ETHBCAST_KEY", wrong.as_str()),
                ("CREDENTIALS_DIRECTORY", credentials.as_str()),
            ],
            &[],
            2,
            mistyped,
        ),
        (
            &[("CREDENTIALS_DIRECTORY", credentials.as_str())],
            &[],
            2,
            &["ethbcast.key", "this is no key file"],
        ),
        (
            &[("ETHBCAST_NO_KEY", "1"), ("ETHBCAST_KEY", wrong.as_str())],
            &[],
            2,
            mistyped,
        ),
        (
            &[("ETHBCAST_NO_KEY", "1")],
            &["--key", receivers.as_str()],
            2,
            may_not,
        ),
        (
            &[
                ("ETHBCAST_NO_KEY", "1"),
                ("CREDENTIALS_DIRECTORY", credentials.as_str()),
            ],
            &[],
            4,
            no_interface,
        ),
        (
            &[("ETHBCAST_NO_KEY", "maybe")],
            &[],
            2,
            &["ETHBCAST_NO_KEY", "1 or 0"],
        ),
        (&[], &["--require-key"], 2, &["--require-key", "[E-NOKEY]"]),
    ] {
        sends(variables, more).assert_refusal(code, words);
    }
}

#[test]
fn what_measures_uses_the_key_of_its_host_and_refuses_one_that_cannot_be_used() {
    for command in [
        &["probe"][..],
        &["probe", "--answer"],
        &["doctor", "--peer"],
    ] {
        let run = |variables: &[(&str, &str)], more: &[&str]| {
            let mut run = Command::new(env!("CARGO_BIN_EXE_ethbcast"));
            run.args(command)
                .args(["-i", "nosuch0"])
                .args(more)
                .env("ETHBCAST_CONFIG", "");
            run.envs(variables.iter().copied());
            Run::start("host", run).end(LIMIT)
        };
        run(&[], &["--require-key"]).assert_refusal(2, &["[E-NOKEY]"]);
        let meant = run(&[("ETHBCAST_KEY", PHRASE)], &[]);
        assert!(
            !meant.stderr.contains("[E-UNKEYED]") && meant.code() != 2,
            "{}",
            meant.stderr
        );
        let missing = run(&[("ETHBCAST_KEY_FILE", "/nowhere")], &[]);
        assert!(missing.stderr.contains("/nowhere"), "{}", missing.stderr);
    }
}

#[test]
fn the_configuration_file_names_a_key_that_the_environment_precedes() {
    let directory = scratch();
    let good = directory.path().join("good");
    key(&["new", &good.to_string_lossy()]);
    let receivers = file(
        directory.path(),
        "receivers",
        &key(&["receivers", &good.to_string_lossy()]),
    );
    let config = file(
        directory.path(),
        "ethbcast.toml",
        &format!("[send]\nkey = \"{receivers}\"\n"),
    );
    let run = |variables: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ethbcast"));
        command
            .args(["send", "-n", "1", "-i", "nosuch0", "Cargo.toml"])
            .env("ETHBCAST_CONFIG", &config);
        command.envs(variables.iter().copied());
        Run::start("sender", command).end(LIMIT)
    };
    run(&[]).assert_refusal(2, &["[E-NOSEND]"]);
    run(&[("ETHBCAST_NO_KEY", "1")]).assert_refusal(4, &["there is no interface nosuch0"]);
    run(&[("ETHBCAST_NO_KEY", "0")]).assert_refusal(2, &["[E-NOSEND]"]);
    run(&[("ETHBCAST_KEY", PHRASE)]).assert_refusal(4, &["there is no interface nosuch0"]);
    run(&[("ETHBCAST_KEY_FILE", &good.to_string_lossy())])
        .assert_refusal(4, &["there is no interface nosuch0"]);
    file(directory.path(), "ethbcast.toml", "[send]\nno-key = true\n");
    run(&[("ETHBCAST_KEY_FILE", &receivers)]).assert_refusal(2, &["[E-NOSEND]"]);
    run(&[("ETHBCAST_KEY", "babad")]).assert_refusal(2, &["[E-PHRASE]"]);
    run(&[]).assert_refusal(4, &["there is no interface nosuch0"]);
}

#[test]
fn a_phrase_is_nine_words_each_time_others() {
    let phrases = [key(&["new", "--phrase"]), key(&["new", "--phrase"])];
    assert_ne!(phrases[0], phrases[1]);
    assert!(
        phrases
            .iter()
            .all(|phrase| phrase.trim_end().split('-').count() == 9 && phrase.len() == 54),
        "{phrases:?}"
    );
}

#[test]
fn a_key_that_grows_stays_its_owners() {
    let directory = scratch();
    let path = directory.path().join("key");
    key(&["new", &path.to_string_lossy()]);
    let own = path.metadata().expect("it is there").uid();
    if own == 0 {
        std::os::unix::fs::chown(&path, Some(0), Some(65534)).expect("root may");
    }
    let before = path.metadata().expect("it is there");
    key(&["add", &path.to_string_lossy()]);
    let after = path.metadata().expect("it is there");
    assert_eq!(
        (before.uid(), before.gid(), mode(&path)),
        (after.uid(), after.gid(), 0o600)
    );
}
