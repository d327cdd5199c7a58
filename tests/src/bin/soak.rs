//! A thousand sessions in a row, and ten minutes of collectives: no drift in memory, descriptors, threads or files.
//!
//! `cargo run --release -p ethbcast-tests --bin soak`, as root.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::bail;
use clap::Parser;
use ethbcast_lab::LabGuard;
use ethbcast_tests::lab::{lab_name, one_switch, scratch};
use ethbcast_tests::soak::{Course, HOSTS, run_sessions, run_traffic};
use nix::unistd::Uid;

/// How many times is looked what is used.
const SAMPLES: u32 = 100;

/// Uses the library for long, in a lab, and looks whether it grows.
#[derive(Debug, Parser)]
#[command(name = "soak")]
struct Arguments {
    /// Sessions in a row.
    #[arg(long, default_value_t = 1000)]
    sessions: u64,
    /// Minutes of collectives.
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    if !Uid::effective().is_root() {
        bail!("network namespaces need root: run this with `sudo -E`");
    }
    let directory = scratch();
    let lab = LabGuard::up(&ethbcast_lab::LabConfig { name: lab_name("soak"), ..one_switch(HOSTS) })?;
    let mut is_good = true;
    if arguments.sessions > 0 {
        let began = Instant::now();
        let every = (arguments.sessions / u64::from(SAMPLES)).max(1);
        let course = run_sessions(&lab, directory.path(), arguments.sessions, every)?;
        is_good &= tell(&format!("{} sessions in {:.0?}", arguments.sessions, began.elapsed()), &course);
    }
    if arguments.minutes > 0.0 {
        let lasts = Duration::from_secs_f64(arguments.minutes * 60.0);
        let (course, rounds) = run_traffic(&lab, directory.path(), lasts, lasts / SAMPLES)?;
        is_good &= tell(&format!("{rounds} rounds of collectives in {lasts:.0?}"), &course);
    }
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints what has been used; whether nothing has grown.
fn tell(what: &str, course: &Course) -> bool {
    println!("{what}");
    if let Some((first, last)) = course.ends() {
        println!("  first: {first}\n  last:  {last}");
    }
    let drift = course.drift();
    drift.iter().for_each(|line| println!("  {line}"));
    drift.is_empty()
}
