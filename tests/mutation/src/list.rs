//! List of code mutations, as `cargo mutants --list --json` prints it.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::path::Path;
use std::process::Command;

pub const FOLDERS: [&str; 4] = ["feed", "arq", "stream", "wire"];

/// A place in a file: line and character, from 1.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub line: usize,
    pub column: usize,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Span {
    pub start: Place,
    pub end: Place,
}

/// One mutant: the text in `span` is replaced.
#[derive(Clone, Debug, Deserialize)]
pub struct Mutant {
    pub name: String,
    pub file: String,
    pub genre: String,
    pub replacement: String,
    pub span: Span,
}

impl Mutant {
    pub fn folder(&self) -> &str {
        self.file.split('/').nth(2).unwrap_or_default()
    }
}

/// Lists the mutants of the workspace in `root`; a mutant's number is its index.
pub fn list(root: &Path) -> Result<Vec<Mutant>> {
    let mut command = Command::new("cargo");
    command.args(["mutants", "--list", "--json", "-p", "ethbcast-transport", "--no-default-features"]);
    for folder in FOLDERS {
        command.args(["-f", &format!("transport/src/{folder}/**")]);
    }
    let output = command.current_dir(root).output().context("cargo mutants: cargo install cargo-mutants --locked")?;
    ensure!(output.status.success(), "cargo mutants: {}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}
