//! All tests there are: which programs cargo builds of them, and what each holds.

use anyhow::{Context, bail};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What can make a test fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Nothing but the code.
    Deterministic,
    /// Real frames, processes and disks: the machine, too.
    Lab,
}

impl Kind {
    /// Whether it needs root and programs.
    pub fn is_lab(self) -> bool {
        self == Self::Lab
    }
}

/// The module of tests that only `--full` runs.
const FULL: &str = "::full::";

/// A program of tests.
#[derive(Clone, Debug)]
pub struct Target {
    /// The crate's name and the target's, `ethbcast::lab_serve`.
    pub name: String,
    program: PathBuf,
    /// Where cargo runs it: its package.
    package: PathBuf,
    kind: Kind,
}

/// One test, and how it is run.
#[derive(Clone, Debug)]
pub struct Test {
    /// Target and path, `ethbcast::lab_serve::start::it_says_so`.
    pub name: String,
    /// What can make it fail.
    pub kind: Kind,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Where it is run.
    pub directory: PathBuf,
}

impl Test {
    /// Whether only `--full` runs it.
    pub fn is_long(&self) -> bool {
        self.name.contains(FULL)
    }
}

/// Returns the programs of tests that cargo has built, by what it has said (`--message-format=json`).
///
/// # Errors
/// If that cannot be read.
pub fn targets(messages: &Path) -> anyhow::Result<Vec<Target>> {
    let text = fs::read_to_string(messages).with_context(|| format!("reading {}", messages.display()))?;
    let mut targets = Vec::new();
    for line in text.lines() {
        targets.extend(target(&serde_json::from_str(line).context("a message of cargo's")?));
    }
    targets.sort_by(|one: &Target, other| one.name.cmp(&other.name));
    Ok(targets)
}

/// The program of tests that a message of cargo's tells of.
fn target(message: &Value) -> Option<Target> {
    let is_test = message["reason"] == "compiler-artifact" && message["profile"]["test"] == true;
    let program = message["executable"].as_str().filter(|_| is_test)?;
    let target = message["target"]["name"].as_str()?;
    let package = PathBuf::from(message["manifest_path"].as_str()?).parent()?.to_owned();
    let crate_name = message["package_id"].as_str()?.rsplit(['/', '#']).find(|part| !part.starts_with('0'))?;
    let crate_name = crate_name.split('@').next()?;
    let is_bin = message["target"]["kind"][0] == "bin";
    let name = match (is_bin, target.replace('_', "-") == crate_name) {
        (true, _) => format!("{crate_name}::bin"),
        (false, true) => crate_name.to_owned(),
        (false, false) => format!("{crate_name}::{target}"),
    };
    let kind = if target.starts_with("lab_") { Kind::Lab } else { Kind::Deterministic };
    Some(Target { name, program: program.into(), package, kind })
}

/// The tests in these programs, and the examples in the documentation as one, as far as a filter takes them.
///
/// # Errors
/// If a program does not say what it holds.
pub fn list(targets: &[Target], filters: &[String]) -> anyhow::Result<Vec<Test>> {
    let mut tests = vec![documentation()?];
    for target in targets {
        let output = Command::new(&target.program).args(["--list", "--format", "terse"]).output();
        let output = output.with_context(|| format!("starting {}", target.program.display()))?;
        if !output.status.success() {
            bail!("{} does not list its tests:\n{}", target.name, String::from_utf8_lossy(&output.stderr));
        }
        let text = String::from_utf8(output.stdout).context("names of tests")?;
        let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
        tests.extend(names.map(|name| Test {
            name: format!("{}::{name}", target.name),
            kind: target.kind,
            command: vec![
                target.program.display().to_string(),
                name.into(),
                "--exact".into(),
                "--nocapture".into(),
                "--test-threads=1".into(),
            ],
            directory: target.package.clone(),
        }));
    }
    tests.retain(|test| filters.is_empty() || filters.iter().any(|filter| test.name.contains(filter)));
    Ok(tests)
}

/// The examples in the documentation, which rustdoc builds and runs.
fn documentation() -> anyhow::Result<Test> {
    let arguments = ["test", "--workspace", "--locked", "--doc", "--quiet"].map(str::to_owned);
    Ok(Test {
        name: "documentation::examples".into(),
        kind: Kind::Deterministic,
        command: [cargo()].into_iter().chain(arguments).collect(),
        directory: std::env::current_dir()?,
    })
}

/// Cargo, the one that runs this if there is one.
fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".into())
}
