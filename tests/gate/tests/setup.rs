//! Tests of what `./try` and `./test` check before they build (`tests/setup.sh`), on machines with
//! missing programs.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

const BASE: [&str; 16] = [
    "bash", "sh", "cat", "find", "head", "id", "sort", "tr", "df", "du", "mktemp", "chmod", "tail", "cut", "mkdir",
    "rm",
];

fn programs(scripts: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for name in BASE.iter().filter(|name| scripts.iter().all(|(script, _)| script != *name)) {
        let found = ["/usr/bin", "/bin"].iter().map(|bin| Path::new(bin).join(name)).find(|path| path.exists());
        symlink(found.expect("every system has it"), folder.path().join(name)).expect("a link");
    }
    for (name, text) in scripts {
        let path = folder.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("ours");
    }
    folder
}

fn said(programs: &TempDir, line: &str) -> String {
    let script = format!("set -euo pipefail; . ../setup.sh; target={}; {line}", programs.path().display());
    let mut command = Command::new("bash");
    command.args(["-c", &script, "./test"]).env("PATH", programs.path()).env("TMPDIR", programs.path());
    let output = command.output().expect("bash runs");
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn all_missing_packages_are_listed_once_in_one_line() {
    let line = said(&programs(&[]), "test_programs | missing");
    assert_eq!(line.lines().count(), 1, "{line}");
    for package in ["iproute2", "nftables", "udpcast", "chromium", "tshark", "openmpi-bin", "mpich"] {
        let times = line.split_whitespace().filter(|word| *word == package).count();
        // `mpich` is found by a header, which may be there.
        assert!(times == 1 || (package == "mpich" && times == 0), "{package} {times} times: {line}");
    }
    let nothing = programs(&["ip", "tc", "nft"].map(|name| (name, "")));
    assert_eq!(said(&nothing, "lab_programs | missing"), "");
}

#[test]
fn where_nothing_can_be_installed_one_line_says_what_would() {
    for apt in [&[][..], &[("apt-get", "echo no such host; exit 100")]] {
        let said = said(&programs(apt), "require_programs lab_programs");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains("apt-get install -y --no-install-recommends iproute2 nftables"), "{said}");
    }
    // A package whose program is somewhere else.
    let elsewhere = programs(&[("apt-get", ""), ("id", "echo 0")]);
    assert!(said(&elsewhere, "require_programs lab_programs").contains("not found on the PATH"));
}

#[test]
fn a_missing_kernel_feature_is_named_with_the_remedy() {
    for (refused, cure) in [("--pid", "container"), ("veth", "modprobe veth"), ("nft", "modprobe nf_tables")] {
        let unshare = format!("case \"$*\" in *{refused}*) exit 2 ;; esac");
        let said = said(&programs(&[("unshare", &unshare)]), "kernel_lacks");
        assert!(said.lines().count() == 1 && said.contains(cure), "{refused}: {said}");
    }
    assert_eq!(said(&programs(&[("unshare", "")]), "kernel_lacks"), "");
}

#[test]
fn where_tmp_is_unusable_a_folder_beside_the_build_is_used() {
    let there = programs(&[]);
    assert_eq!(said(&there, "require_room 1; echo $TMPDIR"), format!("{}\n", there.path().display()));
    let moved = said(&there, "TMPDIR=/no/such/place; require_room 1; echo $TMPDIR");
    assert_eq!(moved.lines().last(), Some(&*there.path().join("tmp").display().to_string()), "{moved}");
    let refused = said(&there, "(require_room 999999999 2>&1) || true");
    assert!(refused.contains("999999999 MiB") && refused.contains("CARGO_TARGET_DIR"), "{refused}");
}
