//! The program under test: one run of it on this machine or on a host of a lab, and whole transfers.

mod outcome;
mod transfer;

pub use ethbcast_tests::lab::{
    Ended, LIMIT, PAYLOAD_BYTES, Run, Site, content, lab_name, names_in, one_switch, require_root, scratch, shown_in,
    within,
};
pub use outcome::Outcome;
pub use transfer::{Reader, Session, Transfer};

use ethbcast_collectives::session::ledger::Form;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// The program, which cargo has built for these tests.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_ethbcast");
/// Bytes of 1 MiB.
pub const MEBIBYTE: usize = 1 << 20;

/// `ethbcast` on the hosts of a site.
pub trait Ethbcast {
    /// `ethbcast` on a host, with nothing on its stdin.
    fn ethbcast(&self, host: &str, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command;

    /// Starts it on a host, with these arguments and, last, a SOURCE or DEST.
    fn start(&self, host: &str, arguments: &[&str], path: impl AsRef<OsStr>) -> Run {
        let mut command = self.ethbcast(host, arguments);
        command.arg(path);
        Run::start(host, command)
    }

    /// The same, to its end.
    fn run(&self, host: &str, arguments: &[&str], path: impl AsRef<OsStr>) -> Ended {
        self.start(host, arguments, path).end(LIMIT)
    }
}

impl Ethbcast for Site {
    fn ethbcast(&self, host: &str, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut command = self.command(host, PROGRAM);
        // The program has to find out by itself which host it is on.
        command.args(arguments).env_remove("ETHBCAST_HOST");
        command
    }
}

/// The program on this machine itself, outside every lab.
pub fn here(arguments: &[&str]) -> Run {
    Run::here(PROGRAM, arguments)
}

/// The same, to its end.
pub fn ended_here(arguments: &[&str]) -> Ended {
    here(arguments).end(LIMIT)
}

/// The namespaces whose names begin so.
pub fn namespaces(prefix: &str) -> Vec<String> {
    let mut names = if Path::new("/run/netns").exists() { names_in(Path::new("/run/netns")) } else { Vec::new() };
    names.retain(|name| name.starts_with(prefix));
    names
}

/// The frames that carry a content with its ledgers; the end is one more.
pub fn full_frames(content_bytes: usize, payload_bytes: usize) -> u64 {
    Form::LEDGERED.stream_bytes(content_bytes as u64).div_ceil(payload_bytes as u64)
}
