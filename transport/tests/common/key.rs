//! Test helper: makes and parses frames with a valid checksum or authentication tag
//! ([`guard`](super::guard)). It also starts the run with a key.

use super::guard::{KEYED, guard};
use ethbcast_transport::wire::{EthernetHeader, Frame, Header, Reject};
use ethbcast_transport::{Alone, Part};
use std::process::Command;

pub fn parse(frame: &[u8]) -> Result<Frame<'_>, Reject> {
    guard().parse(frame)
}

pub fn sealed(link: EthernetHeader, header: &Header, body: &[u8]) -> Vec<u8> {
    let guard = guard();
    let mut frame = [&vec![0; guard.overhead_bytes()][..], body].concat();
    guard.seal(&mut frame, link, header, body.len());
    frame
}

pub fn alone<P: Part>(part: P) -> Alone<P> {
    Alone::guarded(part, guard())
}

/// Number of runs of a test that draws them from seeds: the second run plays a fifth of them, but
/// all in `./test --full`.
pub fn share_of(runs: u64) -> u64 {
    let all = std::env::var_os(KEYED).is_none() || std::env::var_os("ETHBCAST_FULL").is_some();
    runs / if all { 1 } else { 5 }
}

/// Runs all other tests of this program again, with a key; `test` is the one that calls this.
pub fn run_again(test: &str) {
    if std::env::var_os(KEYED).is_some() {
        return;
    }
    let program = std::env::current_exe().expect("this program is a file");
    let output = Command::new(program)
        .args(["--skip", test])
        .env(KEYED, "1")
        .output()
        .expect("it runs once more");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "with {KEYED}=1:\n{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        said.contains("test result: ok") && !said.contains(" 0 passed"),
        "{said}"
    );
}
