//! Example: sends a file to a number of receivers of a group (`send_file GROUP RECEIVERS FILE`).
//!
//! `[dependencies]` of its Cargo.toml: `ethbcast-collectives = { path = "../ethbcast/collectives"
//! }`.

use ethbcast_collectives::session::{SendOptions, Session};
use std::fs::File;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Err(error) = send(&arguments) {
        eprintln!("send_file: {error}");
        std::process::exit(1);
    }
}

fn send(arguments: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let [group, receivers, path] = arguments else {
        return Err("usage: send_file GROUP RECEIVERS FILE".into());
    };
    let report = Session::send_file(
        group,
        File::open(path)?,
        &SendOptions::new().receivers(receivers.parse()?),
    )?;
    println!(
        "{} bytes at {} receivers after {:?}",
        report.bytes(),
        report.verified(),
        report.took
    );
    Ok(())
}
