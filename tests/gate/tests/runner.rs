//! Tests of the test runner, with scripts in place of test programs. The checks by `./try` and
//! `./test` before they build anything (`tests/setup.sh`) are tested too, on machines with missing
//! programs.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A test program: lists its tests, and runs one.
const PROGRAM: &str = r#"#!/bin/sh
case $1 in
    --list) printf '%s: test\n' passes fails hangs leaves stays crowded lonely ;;
    passes) echo 'all is well'; echo 'NOT TESTED WITH SMOKE SIGNALS: no fire here' ;;
    fails) echo 'seven is not eight'; exit 101 ;;
    hangs) sleep 600 ;;
    leaves) sleep 600 & echo $! >"$LEFT" ;;
    stays) sleep 600 >"$LEFT" ;;
    crowded) [ -z "$ETHBCAST_ALONE_EXIT" ] || { echo 'too many here'; exit 101; } ;;
    lonely) [ -z "$ETHBCAST_ALONE_EXIT" ] || exit "$ETHBCAST_ALONE_EXIT"; echo 'at last' ;;
esac
"#;

fn message(target: &str, program: &Path, package: &Path) -> String {
    let said = serde_json::json!({
        "reason": "compiler-artifact",
        "profile": { "test": true },
        "executable": program,
        "manifest_path": package.join("Cargo.toml"),
        "package_id": format!("path+file://{}#fake@0.1.0", package.display()),
        "target": { "name": target, "kind": ["test"] },
    });
    said.to_string()
}

fn runner(arguments: &[&str]) -> (TempDir, Command) {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("program");
    fs::write(&program, PROGRAM).expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("ours");
    let messages = folder.path().join("targets");
    let texts = ["sums", "lab_wires"].map(|target| message(target, &program, folder.path()));
    fs::write(&messages, texts.join("\n")).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_gate"));
    command
        .args(["--targets".as_ref(), messages.as_os_str()])
        .args(arguments);
    command
        .env("LEFT", folder.path().join("left"))
        .env_remove("ETHBCAST_ALONE_EXIT");
    (folder, command)
}

fn run(arguments: &[&str]) -> (TempDir, Output) {
    let (folder, mut command) = runner(arguments);
    let output = command.output().expect("it is run");
    (folder, output)
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[track_caller]
fn assert_says(output: &Output, lines: &[&str]) {
    let said = text(output);
    // Columns do not matter.
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let said_lines: Vec<_> = said.lines().map(words).collect();
    for line in lines {
        assert!(
            said_lines.iter().any(|one| one.contains(line)),
            "no line has {line:?}:\n{said}"
        );
    }
}

#[test]
fn passed_tests_are_counted_and_the_run_is_green() {
    let (_folder, output) = run(&["passes"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert_says(
        &output,
        &["deterministic 1 0 0", "labs 1 0 0", "2 passed, 0 failed"],
    );
    // Both programs print it; it is listed once below the table.
    assert_eq!(
        text(&output)
            .matches("NOT TESTED WITH SMOKE SIGNALS: no fire here")
            .count(),
        1
    );
}

#[test]
fn a_failed_test_is_listed_with_its_message_and_a_deterministic_one_is_not_run_again() {
    let (_folder, output) = run(&["fails"]);
    assert_eq!(output.status.code(), Some(1));
    assert_says(
        &output,
        &[
            "exit code 101",
            "seven is not eight",
            "alone, too: exit code 101",
            "0 passed, 2 failed",
        ],
    );
    let (_folder, output) = run(&["sums::crowded"]);
    assert_says(&output, &["too many here", "0 passed, 1 failed"]);
}

#[test]
fn a_lab_that_fails_beside_others_and_not_alone_is_green_and_listed_with_its_first_words() {
    let (_folder, output) = run(&["lab_wires::crowded", "lab_wires::lonely"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert_says(
        &output,
        &[
            "Passed alone",
            "too many here",
            "labs 1 1 0",
            "2 passed, 0 failed",
        ],
    );
}

#[test]
fn a_test_that_hangs_is_ended_at_its_deadline_and_named() {
    let (_folder, output) = run(&["sums::hangs", "--deadline", "1"]);
    assert_eq!(output.status.code(), Some(1));
    assert_says(
        &output,
        &["fake::sums::hangs", "it had not ended after 1 s"],
    );
}

#[test]
fn no_process_of_a_test_is_left_behind() {
    for name in ["sums::leaves", "lab_wires::leaves"] {
        let (folder, output) = run(&[name]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        let left = fs::read_to_string(folder.path().join("left")).expect("it was there");
        // In a cell with process ids of its own the number is another process's, or unused.
        let line =
            || fs::read_to_string(format!("/proc/{}/cmdline", left.trim())).unwrap_or_default();
        // A killed process may take a moment to end.
        assert!(comes(|| !line().contains("sleep")), "{name}: {}", line());
    }
}

fn comes(mut is_true: impl FnMut() -> bool) -> bool {
    (0..6000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        is_true()
    })
}

#[test]
fn a_runner_that_is_ended_takes_its_tests_with_it() {
    for name in ["sums::stays", "lab_wires::stays"] {
        let (folder, mut command) = runner(&[name]);
        let pipe = folder.path().join("left");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        let flags = nix::fcntl::OFlag::O_NONBLOCK.bits();
        let mut pipe = fs::File::options()
            .read(true)
            .custom_flags(flags)
            .open(pipe)
            .expect("ours");
        // Never written: a read blocks while any process could write, and ends at once when none
        // can.
        let mut is_held = || pipe.read(&mut [0]).is_err();
        let mut child = command.stdout(Stdio::null()).spawn().expect("it is run");
        assert!(comes(&mut is_held), "{name} never began");
        child.kill().expect("ours");
        child.wait().expect("ours");
        assert!(comes(|| !is_held()), "{name} goes on");
    }
}

#[test]
fn where_labs_cannot_run_one_line_says_so_and_the_run_is_red() {
    let (_folder, output) = run(&["passes", "--without-labs", "no wires here"]);
    assert_eq!(output.status.code(), Some(1));
    assert_says(&output, &["1 passed, 0 failed"]);
    assert_eq!(
        text(&output)
            .matches("THE LAB TESTS WERE NOT RUN: no wires here")
            .count(),
        1
    );
}

#[test]
fn a_filter_that_takes_nothing_is_refused() {
    let (_folder, output) = run(&["nothing"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no test is called so: nothing"));
}

const BASE: [&str; 16] = [
    "bash", "sh", "cat", "find", "head", "id", "sort", "tr", "df", "du", "mktemp", "chmod", "tail",
    "cut", "mkdir", "rm",
];

fn programs(scripts: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for name in BASE
        .iter()
        .filter(|name| scripts.iter().all(|(script, _)| script != *name))
    {
        let found = ["/usr/bin", "/bin"]
            .iter()
            .map(|bin| Path::new(bin).join(name))
            .find(|path| path.exists());
        symlink(
            found.expect("every system has it"),
            folder.path().join(name),
        )
        .expect("a link");
    }
    for (name, text) in scripts {
        let path = folder.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("ours");
    }
    folder
}

fn said(programs: &TempDir, line: &str) -> String {
    let script = format!(
        "set -euo pipefail; . ../setup.sh; target={}; {line}",
        programs.path().display()
    );
    let mut command = Command::new("bash");
    command
        .args(["-c", &script, "./test"])
        .env("PATH", programs.path())
        .env("TMPDIR", programs.path());
    let output = command.output().expect("bash runs");
    assert!(
        output.status.success(),
        "{line}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn all_missing_packages_are_listed_once_in_one_line() {
    let line = said(&programs(&[]), "test_programs | missing");
    assert_eq!(line.lines().count(), 1, "{line}");
    for package in [
        "iproute2",
        "nftables",
        "udpcast",
        "chromium",
        "tshark",
        "openmpi-bin",
        "mpich",
    ] {
        let times = line
            .split_whitespace()
            .filter(|word| *word == package)
            .count();
        // `mpich` is found by a header, which may be there.
        assert!(
            times == 1 || (package == "mpich" && times == 0),
            "{package} {times} times: {line}"
        );
    }
    let nothing = programs(&["ip", "tc", "nft"].map(|name| (name, "")));
    assert_eq!(said(&nothing, "lab_programs | missing"), "");
}

#[test]
fn where_nothing_can_be_installed_one_line_says_what_would() {
    for apt in [&[][..], &[("apt-get", "echo no such host; exit 100")]] {
        let said = said(&programs(apt), "require_programs lab_programs");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(
            said.contains("apt-get install -y --no-install-recommends iproute2 nftables"),
            "{said}"
        );
    }
    // A package whose program is somewhere else.
    let elsewhere = programs(&[("apt-get", ""), ("id", "echo 0")]);
    assert!(said(&elsewhere, "require_programs lab_programs").contains("not found on the PATH"));
}

#[test]
fn a_missing_kernel_feature_is_named_with_the_remedy() {
    for (refused, cure) in [
        ("--pid", "container"),
        ("veth", "modprobe veth"),
        ("nft", "modprobe nf_tables"),
    ] {
        let unshare = format!("case \"$*\" in *{refused}*) exit 2 ;; esac");
        let said = said(&programs(&[("unshare", &unshare)]), "kernel_lacks");
        assert!(
            said.lines().count() == 1 && said.contains(cure),
            "{refused}: {said}"
        );
    }
    assert_eq!(said(&programs(&[("unshare", "")]), "kernel_lacks"), "");
}

#[test]
fn where_tmp_is_unusable_a_folder_beside_the_build_is_used() {
    let there = programs(&[]);
    assert_eq!(
        said(&there, "require_room 1; echo $TMPDIR"),
        format!("{}\n", there.path().display())
    );
    let moved = said(
        &there,
        "TMPDIR=/no/such/place; require_room 1; echo $TMPDIR",
    );
    assert_eq!(
        moved.lines().last(),
        Some(&*there.path().join("tmp").display().to_string()),
        "{moved}"
    );
    let refused = said(&there, "(require_room 999999999 2>&1) || true");
    assert!(
        refused.contains("999999999 MiB") && refused.contains("CARGO_TARGET_DIR"),
        "{refused}"
    );
}
