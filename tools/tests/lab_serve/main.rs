//! A receiver that stays (`recv --serve`), on the hosts of a lab. These tests need root, and fail
//! without it.

mod configuration;
mod cp;
mod ends;
mod hosts;
mod recipes;
mod sessions;
mod soak;
mod start;

use ethbcast_tests::lab::{LIMIT, Run, Site, within};
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// The program, built by cargo for these tests.
const PROGRAM: &str = env!("CARGO_BIN_EXE_ethbcast");

/// Returns a command of the program on a host without any configuration.
fn ethbcast(site: &Site, host: &str, arguments: &[&str]) -> Command {
    let mut command = site.command(host, PROGRAM);
    command.args(arguments).env_remove("ETHBCAST_HOST").env("ETHBCAST_CONFIG", "");
    command
}

/// Returns the command of a server with these options that stores into a directory.
fn serve_command(site: &Site, host: &str, options: &[&str], directory: &Path) -> Command {
    let mut command = ethbcast(site, host, &["recv", "--serve", "-i", "eth0"]);
    command.args(options).arg(directory);
    command
}

/// Starts a server and waits until it is ready.
fn serve(site: &Site, host: &str, options: &[&str], directory: &Path) -> Run {
    let run = Run::start(host, serve_command(site, host, options, directory));
    run.wait_for_line("serving ");
    run
}

/// Starts a sender on n0 to `receivers` receivers of a group.
fn send(site: &Site, group: &str, receivers: &str, options: &[&str], source: impl AsRef<OsStr>) -> Run {
    let mut command = ethbcast(site, "n0", &["send", "-i", "eth0", "-g", group, "-n", receivers, "--no-probe"]);
    if !options.contains(&"--max-wait") {
        command.args(["--max-wait", "20"]);
    }
    command.args(options).arg(source);
    Run::start("n0", command)
}

/// Waits until a file has these bytes.
#[track_caller]
fn wait_for_file(path: &Path, bytes: &[u8]) {
    let seen = within(LIMIT, || std::fs::read(path).ok().filter(|found| found == bytes));
    assert!(seen.is_some(), "{} never had what was sent", path.display());
}
