//! What packaging/ builds, installed and tried. These tests need root, and fail without it; the scripts need what
//! `.ci/run` installs, and run cargo: quickly, without optimising.

mod debian;
mod static_binary;

use ethbcast_tests::lab::require_root;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// How packages are built for these tests.
const PROFILE: &str = "packaging";

/// The root of the tree.
fn tree() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this package lies in the tree")
}

/// What a command printed, which must succeed.
#[track_caller]
fn printed(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let [stdout, stderr] = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(status.success(), "{command:?}: {status}\n{stdout}{stderr}");
    stdout
}

/// What a program in a root directory prints, with no environment to speak of, which must succeed.
#[track_caller]
fn inside(root: &Path, words: &[&str]) -> String {
    let path = "/usr/sbin:/usr/bin:/sbin:/bin";
    printed(Command::new("chroot").arg(root).args(words).env_clear().env("PATH", path).env("LC_ALL", "C"))
}

/// What a script of packaging/ has made: the path with which its last line begins.
#[track_caller]
fn packaged(script: &str) -> PathBuf {
    require_root();
    let said = printed(Command::new(tree().join("packaging").join(script)).arg(PROFILE));
    let last = said.lines().last().and_then(|line| line.split(':').next());
    tree().join(last.unwrap_or_else(|| panic!("{script} says nothing of what it made")))
}
