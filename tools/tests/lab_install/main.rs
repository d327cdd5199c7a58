//! What packaging/ builds, installed and tried. These tests need root, and fail without it; the scripts need what
//! `./test` installs, and run cargo: quickly, without optimising.

mod debian;
mod static_binary;

use ethbcast_tests::lab::{Run, require_root};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How packages are built for these tests.
const PROFILE: &str = "packaging";

/// How long a script may build, on a machine that has other work, too.
const BUILD_LIMIT: Duration = Duration::from_secs(3600);

/// The root of the tree.
fn tree() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this package lies in the tree")
}

/// What a command printed, which must succeed.
#[track_caller]
fn printed(command: Command) -> String {
    let ended = Run::to_end(command, BUILD_LIMIT);
    ended.assert_code(0);
    ended.stdout_text()
}

/// What a program in a root directory prints, with no environment to speak of, which must succeed.
#[track_caller]
fn inside(root: &Path, words: &[&str]) -> String {
    let path = "/usr/sbin:/usr/bin:/sbin:/bin";
    let mut command = Command::new("chroot");
    command.arg(root).args(words).env_clear().env("PATH", path).env("LC_ALL", "C");
    printed(command)
}

/// What a script of packaging/ has made: the path with which its last line begins.
#[track_caller]
fn packaged(script: &str) -> PathBuf {
    require_root();
    let mut command = Command::new(tree().join("packaging").join(script));
    command.arg(PROFILE);
    let said = printed(command);
    let last = said.lines().last().and_then(|line| line.split(':').next());
    tree().join(last.unwrap_or_else(|| panic!("{script} says nothing of what it made")))
}
