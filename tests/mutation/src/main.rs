//! Mutation testing: builds every change of cargo-mutants into one program, and records whether a
//! test fails.
//!
//! `mutation SCRATCH RESULTS [SEED [MS]]`, from the folder of the repository: copies it to SCRATCH,
//! compiles it there with each mutant behind a switch, runs the tests on each in an order drawn by
//! SEED, and writes a line for each to RESULTS. Tests that take longer than MS milliseconds, and
//! the random simulation, come only when all mutants have had the others. May be interrupted, and
//! continues from RESULTS. `mutation tell RESULTS` counts them.

mod rewrite;
mod scratch;

use crate::rewrite::Mutant;
use crate::scratch::Scratch;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

const JOBS: usize = 2;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: mutation SCRATCH RESULTS [SEED [MS]], or mutation tell RESULTS";
    let first = arguments.next().context(usage)?;
    let results = PathBuf::from(arguments.next().context(usage)?);
    if first == "tell" {
        return notify(&results);
    }
    let seed = arguments.next().map_or(Ok(1), |seed| seed.parse())?;
    let border_ms = arguments.next().map_or(Ok(u64::MAX), |ms| ms.parse())?;
    let mutants = rewrite::list(Path::new("."))?;
    let scratch = scratch::Scratch::make(Path::new("."), Path::new(&first), &mutants)?;
    let (uncompiled, unswitched) = (&scratch.uncompiled, &scratch.unswitched);
    println!(
        "{} changes, {} of them do not compile and {} have no switch",
        mutants.len(),
        uncompiled.len(),
        unswitched.len()
    );
    for (why, numbers) in [("no switch", unswitched), ("does not compile", uncompiled)] {
        numbers
            .iter()
            .for_each(|&number| println!("{why}: {}", mutants[number as usize].name));
    }
    let tried = (0..mutants.len() as u32)
        .filter(|number| !uncompiled.contains(number) && !unswitched.contains(number));
    let stages = stages(&scratch)?;
    let (scratch, mutants, stages, tried) = (&scratch, &mutants, &stages, tried.collect());
    let plan = Plan {
        scratch,
        mutants,
        tried,
        stages,
        border_ms,
        seed,
        jobs: JOBS,
    };
    run(&plan, &results)?;
    notify(&results)
}

const BINARIES: [&str; 4] = ["ethbcast_transport", "streams", "messages", "prices"];
/// Tests that together take no longer than this are one run.
const MAX_GROUP_TIME: Duration = Duration::from_millis(250);
/// Tests that take longer without a mutant are left out.
const MAX_TEST_TIME: Duration = Duration::from_secs(20);
/// Schedules of the swarm for mutants that have survived all tests.
const SCHEDULES: u32 = 1500;

#[derive(Clone, Debug)]
pub struct Stage {
    pub name: String,
    program: PathBuf,
    arguments: Vec<String>,
    folder: PathBuf,
    takes: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Passed,
    Failed,
    TimedOut,
}

impl Stage {
    fn run(&self, mutant: Option<u32>, limit: Duration) -> Result<End> {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .current_dir(&self.folder)
            .env("RUST_BACKTRACE", "0");
        command.env(
            "ETHBCAST_MUTANT",
            mutant.map_or("none".into(), |number| number.to_string()),
        );
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let end = wait(&mut child, limit)?;
        if end == End::TimedOut {
            child.kill()?;
            child.wait()?;
        }
        Ok(end)
    }

    /// Estimates the time to a failure, for the order: the price list fails early if any cost
    /// differs.
    fn until_failure(&self) -> Duration {
        if self.name.starts_with("prices") {
            self.takes / 12
        } else {
            self.takes
        }
    }

    fn limit(&self) -> Duration {
        self.takes * 10 + Duration::from_secs(4)
    }
}

/// Waits for the child's end, or until it has used `limit` of processor time, which does not depend
/// on other load.
fn wait(child: &mut Child, limit: Duration) -> Result<End> {
    let (begun, mut pause) = (Instant::now(), Duration::from_micros(500));
    while processor_time(child).is_none_or(|spent| spent < limit) && begun.elapsed() < limit * 100 {
        if let Some(status) = child.try_wait()? {
            return Ok(if status.success() {
                End::Passed
            } else {
                End::Failed
            });
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
    Ok(End::TimedOut)
}

/// Returns the processor time of a process so far, in steps of 10 ms.
fn processor_time(child: &Child) -> Option<Duration> {
    let text = fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?;
    // After the name, which may hold anything: proc(5), fields 14 and 15, in hundredths of a
    // second.
    let fields: Vec<&str> = text.rsplit(')').next()?.split_whitespace().collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(Duration::from_millis(ticks * 10))
}

/// Compiles the tests, tries each without a mutant, and orders them: short ones in bundles first.
pub fn stages(scratch: &Scratch) -> Result<Vec<Stage>> {
    let mut command = scratch.cargo();
    let arguments = [
        "test",
        "-p",
        "ethbcast-transport",
        "--no-default-features",
        "--lib",
        "--tests",
    ];
    command
        .args(arguments)
        .args(["--locked", "--no-run", "--message-format=json"]);
    let output = command.stderr(Stdio::inherit()).output()?;
    ensure!(
        output.status.success(),
        "the tests of the copy do not compile"
    );
    let mut single = Vec::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let message: Value = serde_json::from_str(line)?;
        let (name, program) = (
            message["target"]["name"].as_str(),
            message["executable"].as_str(),
        );
        let (Some(name), Some(program)) = (name, program) else {
            continue;
        };
        if BINARIES.contains(&name) && message["profile"]["test"] == true {
            single.extend(tests(
                name,
                program.as_ref(),
                &scratch.root.join("transport"),
            )?);
        }
    }
    Ok(bundles(single))
}

fn tests(name: &str, program: &Path, folder: &Path) -> Result<Vec<Stage>> {
    let output = Command::new(program).arg("--list").output()?;
    let list = String::from_utf8(output.stdout)?;
    let mut stages = Vec::new();
    for test in list.lines().filter_map(|line| line.strip_suffix(": test")) {
        let arguments = vec![
            "--exact".to_string(),
            "--test-threads=1".to_string(),
            test.to_string(),
        ];
        let (program, folder) = (program.into(), folder.into());
        let mut stage = Stage {
            name: format!("{name} {test}"),
            program,
            arguments,
            folder,
            takes: Duration::ZERO,
        };
        if stage.measure()? {
            stages.push(stage);
        } else {
            eprintln!(
                "{}: fails without any change, or takes too long, and is left out",
                stage.name
            );
        }
    }
    Ok(stages)
}

impl Stage {
    fn measure(&mut self) -> Result<bool> {
        let before = children_time()?;
        let end = self.run(None, MAX_TEST_TIME)?;
        self.takes = children_time()? - before;
        Ok(end == End::Passed)
    }
}

/// Returns the processor time of all children that have ended, in steps of 10 ms.
fn children_time() -> Result<Duration> {
    let text = fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = text
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let ticks: u64 = fields[13].parse::<u64>()? + fields[14].parse::<u64>()?;
    Ok(Duration::from_millis(ticks * 10))
}

/// Bundles short tests of a binary, leaves the others alone, and puts the shortest first.
fn bundles(mut single: Vec<Stage>) -> Vec<Stage> {
    single.sort_by_key(|stage| stage.takes);
    let mut stages: Vec<Stage> = Vec::new();
    for stage in single {
        let fits = |other: &&mut Stage| {
            other.program == stage.program && other.takes + stage.takes <= MAX_GROUP_TIME
        };
        match stages.iter_mut().find(fits) {
            Some(other) => {
                other.takes += stage.takes;
                other.arguments.extend(stage.arguments.last().cloned());
                other.name = format!(
                    "{} and others",
                    stage.name.split(' ').next().unwrap_or_default()
                );
            }
            None => stages.push(stage),
        }
    }
    stages.sort_by_key(Stage::until_failure);
    stages
}

fn swarm(scratch: &Scratch) -> Result<Option<Stage>> {
    let mut command = scratch.cargo();
    let built = command
        .args([
            "build",
            "-p",
            "ethbcast-tests",
            "--bin",
            "swarm",
            "--locked",
        ])
        .status()?;
    ensure!(built.success(), "the swarm does not compile");
    let arguments = ["--seeds".to_string(), SCHEDULES.to_string()].into();
    let program = scratch.root.join("target/debug/swarm");
    let folder = scratch.root.clone();
    let mut stage = Stage {
        name: "swarm".into(),
        program,
        arguments,
        folder,
        takes: Duration::ZERO,
    };
    Ok(stage.measure()?.then_some(stage))
}

#[derive(Debug)]
pub struct Plan<'a> {
    pub scratch: &'a Scratch,
    pub mutants: &'a [Mutant],
    pub tried: Vec<u32>,
    pub stages: &'a [Stage],
    /// Stages that take longer than this number of milliseconds wait until all mutants have had the
    /// others.
    pub border_ms: u64,
    pub seed: u64,
    pub jobs: usize,
}

/// Verdict of a mutant that has survived the short stages.
const SO_FAR: &str = "survived so far";

/// Tries the mutants in an order drawn by the seed, so that the results at any moment are a fair
/// sample. Writes a line for each to `results`; mutants listed there are not tried again.
pub fn run(plan: &Plan<'_>, results: &Path) -> Result<()> {
    let is_short = |stage: &&Stage| stage.until_failure() <= Duration::from_millis(plan.border_ms);
    let (short, mut long) = plan.stages.iter().partition::<Vec<&Stage>, _>(is_short);
    pass(plan, &short, |verdict| verdict.is_none(), SO_FAR, results)?;
    let swarm = swarm(plan.scratch)?;
    long.extend(&swarm);
    pass(
        plan,
        &long,
        |verdict| verdict == Some(SO_FAR),
        "survived",
        results,
    )
}

/// Runs stages on all mutants whose verdict so far is open.
fn pass(
    plan: &Plan<'_>,
    stages: &[&Stage],
    is_open: impl Fn(Option<&str>) -> bool,
    survived: &str,
    results: &Path,
) -> Result<()> {
    let (known, mut left) = (newest(results), plan.tried.clone());
    shuffle(&mut left, plan.seed);
    left.retain(|&number| {
        is_open(
            known
                .get(&plan.mutants[number as usize].name)
                .map(|row| &*row[0]),
        )
    });
    left.reverse();
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(results)
        .context("the results can be written")?;
    let (left, file) = (Mutex::new(left), Mutex::new(file));
    let work = || -> Result<()> {
        loop {
            let Some(number) = left.lock().expect("no panic").pop() else {
                return Ok(());
            };
            let mutant = &plan.mutants[number as usize];
            let (mut verdict, begun) = (survived.to_string(), Instant::now());
            for stage in stages {
                match stage.run(Some(number), stage.limit())? {
                    End::Passed => continue,
                    End::Failed => verdict = stage.name.clone(),
                    End::TimedOut => verdict = format!("{} (time)", stage.name),
                }
                break;
            }
            let (folder, took) = (mutant.folder(), begun.elapsed().as_secs_f64());
            let line = format!("{verdict}\t{folder}\t{took:.1}\t{}\n", mutant.name);
            file.lock().expect("no panic").write_all(line.as_bytes())?;
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..plan.jobs).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().expect("no panic"))
    })
}

fn newest(results: &Path) -> BTreeMap<String, Vec<String>> {
    let text = fs::read_to_string(results).unwrap_or_default();
    let rows = text
        .lines()
        .map(|line| line.split('\t').map(String::from).collect::<Vec<_>>());
    rows.map(|row| (row[3].clone(), row)).collect()
}

fn shuffle(numbers: &mut [u32], mut seed: u64) {
    for last in (1..numbers.len()).rev() {
        seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        numbers.swap(last, ((mixed ^ (mixed >> 31)) % (last as u64 + 1)) as usize);
    }
}

/// Prints the numbers of mutants tried and killed in each folder, and the killing tests.
pub fn notify(results: &Path) -> Result<()> {
    let rows: Vec<Vec<String>> = newest(results).into_values().collect();
    for folder in crate::rewrite::FOLDERS.into_iter().chain([""]) {
        let of: Vec<&Vec<String>> = rows
            .iter()
            .filter(|row| folder.is_empty() || row[1] == folder)
            .collect();
        let killed = of
            .iter()
            .filter(|row| !row[0].starts_with("survived"))
            .count();
        let by = |binary: &str| {
            of.iter()
                .filter(|row| row[0].split(' ').next() == Some(binary))
                .count()
        };
        let timed_out = of.iter().filter(|row| row[0].ends_with("(time)")).count();
        let percent = 100.0 * killed as f64 / of.len().max(1) as f64;
        let by: Vec<String> = BINARIES
            .iter()
            .chain(&["swarm"])
            .map(|binary| format!("{binary} {}", by(binary)))
            .collect();
        let folder = if folder.is_empty() {
            "together"
        } else {
            folder
        };
        println!(
            "{folder}: {} tried, {killed} killed ({percent:.1} %), {timed_out} of them by time; {}",
            of.len(),
            by.join(", ")
        );
    }
    Ok(())
}
