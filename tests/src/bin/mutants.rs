//! Program that checks the tests themselves: runs simulations with deliberate bugs until each is
//! found.
//!
//! `cargo run -p ethbcast-tests --bin mutants [-- NAME... --schedules N]` starts itself once for
//! each bug, with that bug on. It prints a table, and fails if a bug survives, or if these
//! schedules find a violation without any bug.

use ethbcast_tests::mutants::{BUGS, Bug, Found, hunt};
use ethbcast_transport::planted;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A bug that survives this number of schedules counts as not found.
const MAX_SCHEDULES: u64 = 10_000;

/// A schedule that uses more processor time counts as endless.
const PATIENCE: Duration = Duration::from_secs(60);

const AT_ONCE: usize = 2;

/// Schedules that are played without a bug: a violation there is a true one.
const CLEAN_SCHEDULES: u64 = 800;

const HUNTER: &str = "--hunter";

struct Request {
    bugs: Vec<Bug>,
    schedules: u64,
    is_hunter: bool,
}

fn asked() -> Result<Request, String> {
    let (mut bugs, mut schedules, mut is_hunter) = (Vec::new(), MAX_SCHEDULES, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            HUNTER => is_hunter = true,
            "--schedules" => {
                let number = arguments.next().and_then(|number| number.parse().ok());
                schedules = number.ok_or("`--schedules` wants a number")?;
            }
            name => bugs.push(*BUGS.iter().find(|bug| bug.name == name).ok_or_else(|| {
                format!("there is no planted bug `{name}`; without a name all are tried")
            })?),
        }
    }
    if bugs.is_empty() {
        bugs = BUGS.to_vec();
    }
    Ok(Request {
        bugs,
        schedules,
        is_hunter,
    })
}

fn main() -> ExitCode {
    let done = asked().and_then(|asked| match asked.bugs[..] {
        _ if !planted::ARE_PLANTED => {
            Err("nothing is planted in this build, which has no debug assertions: leave out `--release`, or add \
                 `--config profile.release.debug-assertions=true`"
                .to_owned())
        }
        [bug] if asked.is_hunter => Ok(hunt_here(bug, asked.schedules)),
        _ => run(&asked),
    });
    done.unwrap_or_else(|why| {
        eprintln!("{why}");
        ExitCode::from(2)
    })
}

fn hunt_here(bug: Bug, schedules: u64) -> ExitCode {
    std::panic::set_hook(Box::new(|_| {}));
    planted::choose(bug.name);
    match hunt(0, schedules, PATIENCE) {
        Some(Found { schedules, what }) => println!("{schedules} {}", what.replace('\n', " ")),
        None => println!("survived"),
    }
    ExitCode::SUCCESS
}

fn run(asked: &Request) -> Result<ExitCode, String> {
    let clean = hunt(0, CLEAN_SCHEDULES.min(asked.schedules), PATIENCE);
    if let Some(Found { schedules, what }) = clean {
        return Err(format!(
            "schedule {} finds something where no bug is on: {what}",
            schedules - 1
        ));
    }
    let program =
        std::env::current_exe().map_err(|error| format!("where this program is: {error}"))?;
    let (next, lines) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(&bug) = asked.bugs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = hunt_in(&program, bug, asked.schedules);
                    print(bug, &found);
                    lines
                        .lock()
                        .expect("no printing panics")
                        .push(found.is_ok());
                }
            });
        }
    });
    let lines = lines.into_inner().expect("no printing panics");
    let found = lines.iter().filter(|&&found| found).count();
    println!(
        "{found} of {} found within {} schedules",
        lines.len(),
        asked.schedules
    );
    Ok(if found == lines.len() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn print(bug: Bug, found: &Result<(u64, String), String>) {
    match found {
        Ok((schedules, what)) => {
            let what: String = what.chars().take(120).collect();
            println!("{:34} {schedules:6}  {what}", bug.name);
        }
        Err(why) => println!("{:34}      -  NOT FOUND ({why}): {}", bug.name, bug.what),
    }
}

fn hunt_in(program: &Path, bug: Bug, schedules: u64) -> Result<(u64, String), String> {
    let mut command = Command::new(program);
    command
        .args([HUNTER, bug.name, "--schedules", &schedules.to_string()])
        .stderr(Stdio::null());
    let output = command.output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stdout);
    let (number, what) = said
        .trim()
        .split_once(' ')
        .ok_or_else(|| said.trim().to_owned())?;
    let number: u64 = number
        .parse()
        .map_err(|_| format!("it ended with {}", output.status))?;
    // A violation that occurs without the bug is no proof.
    match hunt(number - 1, 1, PATIENCE) {
        None => Ok((number, what.to_owned())),
        Some(Found { what, .. }) => Err(format!(
            "schedule {} finds without any bug: {what}",
            number - 1
        )),
    }
}
