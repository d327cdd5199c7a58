//! Program for soak tests: a thousand transfers in a row, watched for leaks of memory, descriptors
//! and files.
//!
//! `cargo run --release -p ethbcast-tests --bin soak`, as root.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::bail;
use clap::Parser;
use ethbcast_lab::LabGuard;
use ethbcast_tests::lab::{lab_name, one_switch, scratch};
use ethbcast_tests::soak::{Course, HOSTS, run_sessions, run_traffic};
use nix::unistd::Uid;

/// Makes the allocator always return large blocks to the system when they are freed (mallopt(3),
/// `M_MMAP_THRESHOLD`). The default later keeps more and more of them, which looks like a leak and
/// is none.
const ALLOCATOR: (&str, &str) = ("MALLOC_MMAP_THRESHOLD_", "65536");

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
    /// Number of times that resources are read.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(8..))]
    samples: u32,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    if !Uid::effective().is_root() {
        bail!("network namespaces need root: run this with `sudo -E`");
    }
    if std::env::var_os(ALLOCATOR.0).is_none() {
        // The allocator reads this before `main`.
        let mut again = Command::new(std::env::current_exe()?);
        return Err(again
            .args(std::env::args_os().skip(1))
            .env(ALLOCATOR.0, ALLOCATOR.1)
            .exec()
            .into());
    }
    let directory = scratch();
    let lab = LabGuard::up(&ethbcast_lab::LabConfig {
        name: lab_name("soak"),
        ..one_switch(HOSTS)
    })?;
    let mut is_good = true;
    if arguments.sessions > 0 {
        let began = Instant::now();
        let every = (arguments.sessions / u64::from(arguments.samples)).max(1);
        let course = run_sessions(&lab, directory.path(), arguments.sessions, every)?;
        is_good &= notify(
            &format!("{} sessions in {:.0?}", arguments.sessions, began.elapsed()),
            &course,
        );
    }
    if arguments.minutes > 0.0 {
        let lasts = Duration::from_secs_f64(arguments.minutes * 60.0);
        let (course, rounds) =
            run_traffic(&lab, directory.path(), lasts, lasts / arguments.samples)?;
        is_good &= notify(
            &format!("{rounds} rounds of collectives in {lasts:.0?}"),
            &course,
        );
    }
    Ok(if is_good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn notify(what: &str, course: &Course) -> bool {
    println!("{what}");
    if let Some((first, last)) = course.ends() {
        println!("  first: {first}\n  last:  {last}");
    }
    let drift = course.drift();
    drift.iter().for_each(|line| println!("  {line}"));
    drift.is_empty()
}
