//! The program under test, built on demand.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

/// The program, built once for each test process, with the profile and into the target directory of the test itself.
pub fn program() -> &'static Path {
    static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| build(&["--package", "ethbcast", "--bin", "ethbcast"]).join("ethbcast"));
    &PROGRAM
}

/// An example of the library, built likewise.
pub fn example(name: &str) -> PathBuf {
    static EXAMPLES: LazyLock<PathBuf> = LazyLock::new(|| build(&["--package", "ethbcast-collectives", "--examples"]));
    EXAMPLES.join("examples").join(name)
}

/// `<target>/<profile>`; the test is `<target>/<profile>/deps/<test>-<hash>`.
pub(super) fn profile_directory() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows where it is");
    test.ancestors().nth(2).expect("cargo puts tests two directories deep").to_owned()
}

/// Cargo builds the programs of another package for nobody's tests, so it is asked to; the directory they are in.
fn build(what: &[&str]) -> PathBuf {
    let directory = profile_directory();
    let profile = match directory.file_name().and_then(OsStr::to_str).expect("profiles have ASCII names") {
        "debug" => "dev",
        profile => profile,
    };
    let target = directory.parent().expect("a profile's directory is in the target directory");
    let cargo = |network: &[&str]| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.arg("build").args(what).args(["--profile", profile, "--target-dir"]).arg(target);
        cargo.args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml")]).args(network);
        cargo.stdin(Stdio::null()).output().expect("cargo starts")
    };
    // Without the network first: it is not needed once the dependencies are there, and a machine without one is not held up.
    if !cargo(&["--offline"]).status.success() {
        let output = cargo(&[]);
        assert!(output.status.success(), "cannot build {what:?}:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    directory
}
