//! Proof that the tests bite: each planted bug is looked for with seeded schedules until one finds it.
//!
//! `cargo run --release -p ethbcast-tests --bin mutants [-- NAME... --schedules N]` builds itself once more with
//! `--cfg planted`, in a target directory of its own, and runs that for each bug. It prints a table, and fails if a bug
//! survives or if the same schedules find something where nothing is planted.

use ethbcast_tests::mutants::{BUGS, Bug, Found, hunt};
use std::process::ExitCode;
use std::time::Duration;

/// A bug that survives so many schedules is not found.
const MOST_SCHEDULES: u64 = 10_000;

/// A schedule for which a processor is busy for longer goes on for ever.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is asked for.
struct Asked {
    bugs: Vec<Bug>,
    schedules: u64,
}

fn asked() -> Result<Asked, String> {
    let (mut bugs, mut schedules) = (Vec::new(), MOST_SCHEDULES);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--schedules" {
            let number = arguments.next().and_then(|number| number.parse().ok());
            schedules = number.ok_or("`--schedules` wants a number")?;
            continue;
        }
        let known = BUGS.iter().find(|bug| bug.name == argument);
        bugs.push(*known.ok_or_else(|| format!("there is no planted bug `{argument}`; without a name all are tried"))?);
    }
    if bugs.is_empty() {
        bugs = BUGS.to_vec();
    }
    Ok(Asked { bugs, schedules })
}

fn main() -> ExitCode {
    let done = asked().and_then(run);
    done.unwrap_or_else(|why| {
        eprintln!("{why}");
        ExitCode::from(2)
    })
}

/// In the build with planted bugs: hunts the one that is asked for, and says in a line what has come of it.
#[cfg(planted)]
fn run(asked: Asked) -> Result<ExitCode, String> {
    let [bug] = asked.bugs[..] else { return Err("the planted build hunts one bug at a time".to_owned()) };
    std::panic::set_hook(Box::new(|_| {}));
    ethbcast_transport::planted::choose(bug.name);
    match hunt(0, asked.schedules, PATIENCE) {
        Some(Found { schedules, what }) => println!("{schedules} {}", what.replace('\n', " ")),
        None => println!("survived"),
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(not(planted))]
use outside::run;

#[cfg(not(planted))]
mod outside {
    use super::{Asked, Bug, ExitCode, Found, PATIENCE, hunt};
    use std::path::{Path, PathBuf};
    use std::process::{Command, Stdio};
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Bugs hunted at the same time.
    const AT_ONCE: usize = 2;
    /// Schedules that are played with nothing planted: what they find is no bug of ours.
    const CLEAN_SCHEDULES: u64 = 800;

    /// Builds the planted program, has it hunt each bug, and prints the table.
    pub fn run(asked: Asked) -> Result<ExitCode, String> {
        let clean = hunt(0, CLEAN_SCHEDULES.min(asked.schedules), PATIENCE);
        if let Some(Found { schedules, what }) = clean {
            return Err(format!("schedule {} finds something where nothing is planted: {what}", schedules - 1));
        }
        let program = build()?;
        let (next, lines) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for _ in 0..AT_ONCE {
                scope.spawn(|| {
                    while let Some(&bug) = asked.bugs.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let found = hunt_in(&program, bug, asked.schedules);
                        print(bug, &found);
                        lines.lock().expect("no printing panics").push(found.is_ok());
                    }
                });
            }
        });
        let lines = lines.into_inner().expect("no printing panics");
        let found = lines.iter().filter(|&&found| found).count();
        println!("{found} of {} found within {} schedules", lines.len(), asked.schedules);
        Ok(if found == lines.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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

    /// This program with the bugs in it.
    fn build() -> Result<PathBuf, String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests stand in the workspace");
        let target = root.join("target/planted");
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let mut command = Command::new(cargo);
        command.current_dir(root).env("RUSTFLAGS", "--cfg planted").env("CARGO_TARGET_DIR", &target);
        command.args(["build", "--release", "--locked", "--quiet", "-p", "ethbcast-tests", "--bin", "mutants"]);
        let built = command.status().map_err(|error| format!("cargo cannot be run: {error}"))?;
        if built.success() {
            Ok(target.join("release/mutants"))
        } else {
            Err("the planted build has failed".to_owned())
        }
    }

    /// The schedules it took, and what was found; or why nothing was.
    fn hunt_in(program: &Path, bug: Bug, schedules: u64) -> Result<(u64, String), String> {
        let mut command = Command::new(program);
        command.args([bug.name, "--schedules", &schedules.to_string()]).stderr(Stdio::null());
        let output = command.output().map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&output.stdout);
        let (number, what) = said.trim().split_once(' ').ok_or_else(|| said.trim().to_owned())?;
        let number: u64 = number.parse().map_err(|_| format!("it ended with {}", output.status))?;
        // What a schedule finds where nothing is planted is no proof.
        match hunt(number - 1, 1, PATIENCE) {
            None => Ok((number, what.to_owned())),
            Some(Found { what, .. }) => Err(format!("schedule {} finds without any bug: {what}", number - 1)),
        }
    }
}
