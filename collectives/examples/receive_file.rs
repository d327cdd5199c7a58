//! Example: receives the bytes sent to a group into a file, `receive_file GROUP DEST`, which
//! appears when all is verified.
//!
//! `[dependencies]` of its Cargo.toml: `ethbcast-collectives = { path = "../ethbcast/collectives"
//! }`.

use ethbcast_collectives::session::{RecvOptions, Session};
use std::fs::{self, File};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Err(error) = receive(&arguments) {
        eprintln!("receive_file: {error}");
        std::process::exit(1);
    }
}

fn receive(arguments: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let [group, dest] = arguments else {
        return Err("usage: receive_file GROUP DEST".into());
    };
    let part = format!("{dest}.part");
    let received = Session::receive(group, File::create(&part)?, &RecvOptions::new());
    let report = received.inspect_err(|_| drop(fs::remove_file(&part)))?;
    println!(
        "{} bytes from {} after {:?}",
        report.bytes(),
        report.source,
        report.took
    );
    Ok(fs::rename(part, dest)?)
}
