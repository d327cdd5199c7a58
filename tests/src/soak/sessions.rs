//! Sessions in a row by the library, each from one host to three.

use std::fs::{self, File};
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use ethbcast_collectives::session::{RecvOptions, Route, SendOptions, Session, WireOptions};
use ethbcast_lab::Lab;
use ethbcast_planning::plan::Via;
use ethbcast_transport::sim::Random;

use super::{Course, HOSTS, Usage};
use crate::lab::content;

const MAX_BYTES: u64 = 512 << 10;
const WAIT: Duration = Duration::from_secs(30);

/// Runs `sessions` sessions in a row, with files in an empty `directory`, and samples the usage
/// after every `every`th.
///
/// # Errors
/// The first session that fails, or that delivers other bytes than were sent.
pub fn run_sessions(lab: &Lab, directory: &Path, sessions: u64, every: u64) -> anyhow::Result<Course> {
    let mut course = Course::default();
    for number in 0..sessions {
        session(lab, directory, number).with_context(|| format!("session {number}"))?;
        if (number + 1).is_multiple_of(every) {
            course.push(Usage::now(directory)?);
        }
    }
    Ok(course)
}

fn session(lab: &Lab, directory: &Path, number: u64) -> anyhow::Result<()> {
    let mut random = Random::new(number);
    let bytes = content(number, random.below(MAX_BYTES + 1) as usize);
    let via = [Via::Chain, Via::Cast, Via::Binary][random.below(3) as usize];
    thread::scope(|scope| {
        let receivers: Vec<_> = (1..HOSTS)
            .map(|host| (format!("n{host}"), directory.join(format!("n{host}"))))
            .map(|(host, dest)| scope.spawn(move || lab.run_on(&host, || receive(&host, &dest))?))
            .collect();
        lab.run_on("n0", || {
            let (route, size, wire) = (Route::Via(via), Some(bytes.len() as u64), wire("n0"));
            let options = SendOptions { wire, route, size, max_wait: Some(WAIT), ..SendOptions::new() };
            Session::send("soak", &bytes[..], &options.receivers(HOSTS - 1))?.all_verified()
        })??;
        receivers.into_iter().try_for_each(|receiver| receiver.join().expect("a receiver does not panic"))
    })?;
    for host in 1..HOSTS {
        let dest = directory.join(format!("n{host}"));
        if fs::read(&dest)? != bytes {
            bail!("n{host} has other bytes than were sent via {via}");
        }
        fs::remove_file(dest)?;
    }
    Ok(())
}

fn receive(host: &str, dest: &Path) -> anyhow::Result<()> {
    let options = RecvOptions { wire: wire(host), max_wait: Some(WAIT), once: true, ..RecvOptions::new() };
    Session::receive("soak", File::create(dest)?, &options)?;
    Ok(())
}

fn wire(host: &str) -> WireOptions {
    WireOptions { interface: Some("eth0".to_owned()), host: Some(host.to_owned()), ..WireOptions::default() }
}
