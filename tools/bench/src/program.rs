//! Location of the program `ethbcast` for benches and tests.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use ethbcast_lab::Lab;

/// Path of `ethbcast`.
#[derive(Clone, Debug)]
pub struct Program {
    path: String,
}

impl Program {
    /// Finds the program at `given`, or beside this program.
    ///
    /// # Errors
    /// If there is none, or its path is not valid UTF-8.
    pub fn find(given: Option<&Path>) -> anyhow::Result<Self> {
        let path = match given {
            Some(path) => path.to_owned(),
            None => std::env::current_exe()?.with_file_name("ethbcast"),
        };
        if !path.is_file() {
            let shown = path.display();
            bail!(
                "there is no {shown}: build it with `cargo build --release -p ethbcast`, or say where it is with \
                 --ethbcast"
            );
        }
        let path = fs::canonicalize(&path).with_context(|| format!("looking for {}", path.display()))?;
        let path = path.to_str().context("the path of ethbcast is not valid UTF-8: give another with --ethbcast")?;
        Ok(Self { path: path.to_owned() })
    }

    /// Returns a command of the program on a host of a lab, to which arguments can be added.
    ///
    /// # Errors
    /// If there is no such host.
    pub fn on(&self, lab: &Lab, host: &str, subcommand: &str) -> anyhow::Result<Command> {
        let mut command = lab.command(host, &self.path)?;
        command.arg(subcommand);
        Ok(command)
    }

    /// Returns a command of the program that needs no network, to which arguments can be added.
    pub fn here(&self, subcommand: &str) -> Command {
        let mut command = Command::new(&self.path);
        command.arg(subcommand);
        command
    }
}
