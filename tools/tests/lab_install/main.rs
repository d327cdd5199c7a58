//! Tests of the packages made by packaging/: built, installed and run. Long builds run in `./test
//! --full` only.

mod full;

use ethbcast_tests::lab::{Run, require_root};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Build profile of the packages.
const PROFILE: &str = "packaging";

/// Files that a package must contain beside the program and the libraries.
const PROMISED: [&str; 9] = [
    "usr/share/man/man8/ethbcast-send.8.gz",
    "usr/share/man/man5/ethbcast.toml.5.gz",
    "usr/share/bash-completion/completions/ethbcast",
    "usr/share/zsh/vendor-completions/_ethbcast",
    "usr/share/fish/vendor_completions.d/ethbcast.fish",
    "lib/systemd/system/ethbcast-recv@.service",
    "usr/include/ethbcast.hpp",
    "usr/share/doc/ethbcast/copyright",
    "usr/share/doc/ethbcast/docs/protocol/README.md",
];

/// Limit on a script's build time on a busy machine.
const BUILD_LIMIT: Duration = Duration::from_secs(3600);

fn tree() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("this package lies in the tree")
}

/// Returns the output of a command, which must succeed.
#[track_caller]
fn printed(command: Command) -> String {
    let ended = Run::to_end(command, BUILD_LIMIT);
    ended.assert_code(0);
    ended.stdout_text()
}

/// Returns the output of a program in a root directory with a minimal environment, which must
/// succeed.
#[track_caller]
fn inside(root: &Path, words: &[&str]) -> String {
    let path = "/usr/sbin:/usr/bin:/sbin:/bin";
    let mut command = Command::new("chroot");
    command
        .arg(root)
        .args(words)
        .env_clear()
        .env("PATH", path)
        .env("LC_ALL", "C");
    printed(command)
}

/// Returns the path of a package, with which the last line of the script begins.
#[track_caller]
fn packaged(script: &str) -> PathBuf {
    require_root();
    let mut command = Command::new(tree().join("packaging").join(script));
    command.arg(PROFILE);
    let said = printed(command);
    let last = said.lines().last().and_then(|line| line.split(':').next());
    tree().join(last.unwrap_or_else(|| panic!("{script} says nothing of what it made")))
}

/// Checks the files of the package, made by the tested program.
#[test]
fn the_tree_of_the_package_has_what_is_promised() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = folder.path().join("tree");
    let built = Path::new(env!("CARGO_BIN_EXE_ethbcast"))
        .parent()
        .expect("a folder");
    let mut script = Command::new(tree().join("packaging/tree"));
    script.args([built, &made]);
    printed(script);
    // cargo-deb adds the program and the licence.
    let missing: Vec<_> = PROMISED
        .iter()
        .filter(|file| !file.ends_with("/copyright") && !made.join(file).is_file())
        .collect();
    assert!(missing.is_empty(), "the tree lacks {missing:?}");
    let mut unpacker = Command::new("gzip");
    unpacker.arg("-dc").arg(made.join(PROMISED[0]));
    let page = printed(unpacker);
    assert!(page.contains(".TH") && page.contains("receivers"), "{page}");
}
