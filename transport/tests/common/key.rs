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

/// Number of runs of a test that draws them from seeds: all in `./test --full`, else half of them,
/// and with a key an eighth.
pub fn share_of(runs: u64) -> u64 {
    let is_set = |name| std::env::var_os(name).is_some();
    match (is_set("ETHBCAST_FULL"), is_set(KEYED)) {
        (true, _) => runs,
        (false, false) => runs / 2,
        (false, true) => runs / 8,
    }
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
