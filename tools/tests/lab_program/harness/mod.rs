//! The program under test: single runs on this machine or on a host of a lab, and whole transfers.

mod outcome;
mod transfer;

pub use ethbcast_tests::lab::{
    Ended, LIMIT, PAYLOAD_BYTES, Run, Site, content, lab_name, names_in, one_switch, require_root, scratch, shown_in,
    within,
};
pub use outcome::Outcome;
pub use transfer::{Reader, Session, Transfer};

use ethbcast_collectives::session::verified::Form;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// The program, built by cargo for these tests.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_ethbcast");
pub const MEBIBYTE: usize = 1 << 20;

pub trait Ethbcast {
    /// Returns a command of `ethbcast` on a host, without stdin.
    fn ethbcast(&self, host: &str, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command;

    /// Starts it on a host with these arguments, followed by a SOURCE or DEST.
    fn start(&self, host: &str, arguments: &[&str], path: impl AsRef<OsStr>) -> Run {
        let mut command = self.ethbcast(host, arguments);
        command.arg(path);
        Run::start(host, command)
    }

    /// Runs it like `start`, to its end.
    fn run(&self, host: &str, arguments: &[&str], path: impl AsRef<OsStr>) -> Ended {
        self.start(host, arguments, path).end(LIMIT)
    }
}

impl Ethbcast for Site {
    fn ethbcast(&self, host: &str, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut command = self.command(host, PROGRAM);
        // The program must find out its host by itself.
        command.args(arguments).env_remove("ETHBCAST_HOST");
        command
    }
}

/// Starts the program on this machine, outside every lab.
pub fn here(arguments: &[&str]) -> Run {
    Run::here(PROGRAM, arguments)
}

/// Runs the program on this machine to its end.
pub fn ended_here(arguments: &[&str]) -> Ended {
    here(arguments).end(LIMIT)
}

/// Returns the namespaces whose names begin with `prefix`.
pub fn namespaces(prefix: &str) -> Vec<String> {
    let mut names = if Path::new("/run/netns").exists() { names_in(Path::new("/run/netns")) } else { Vec::new() };
    names.retain(|name| name.starts_with(prefix));
    names
}

/// Returns the number of frames for a content with its ledgers, without the end.
pub fn full_frames(content_bytes: usize, payload_bytes: usize) -> u64 {
    Form::LEDGERED.stream_bytes(content_bytes as u64).div_ceil(payload_bytes as u64)
}
