//! Program that keeps the saved inputs of the fuzz targets and runs them without a fuzzer.
//!
//! * `fuzz keep TARGET FOLDER`: puts every file of a folder, such as libFuzzer's, into the corpus
//!   of a target.
//! * `fuzz unpack TARGET FOLDER`: writes every input of the corpus of a target as a file into a
//!   folder, for libFuzzer.
//! * `fuzz show TARGET FILE`: gives a target one input.
//! * `fuzz run EXECUTIONS [TARGET...]`: gives these targets, or all, as many mutations of their
//!   corpus.

use ethbcast_tests::fuzz::{Mutator, TARGETS, Target, keep, load};
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["keep", target, folder] => named(target).and_then(|target| keep_all(&target, Path::new(folder))),
        ["unpack", target, folder] => named(target).and_then(|target| unpack(&target, Path::new(folder))),
        ["show", target, file] => named(target).and_then(|target| show(&target, Path::new(file))),
        ["run", executions] => run(executions, &TARGETS),
        ["run", executions, ref targets @ ..] => targets
            .iter()
            .map(|target| named(target))
            .collect::<Result<Vec<_>, _>>()
            .and_then(|targets| run(executions, &targets)),
        _ => {
            Err("keep TARGET FOLDER, unpack TARGET FOLDER, show TARGET FILE, or run EXECUTIONS [TARGET...]".to_owned())
        }
    };
    done.map_or_else(
        |why| {
            eprintln!("{why}");
            ExitCode::from(2)
        },
        |()| ExitCode::SUCCESS,
    )
}

fn named(name: &str) -> Result<Target, String> {
    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    let found = TARGETS.into_iter().find(|target| target.name == name);
    found.ok_or_else(|| format!("there is no target `{name}`: {}", names.join(", ")))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))
}

fn keep_all(target: &Target, folder: &Path) -> Result<(), String> {
    let unreadable =
        |error: std::io::Error| format!("{} cannot be read: {error}", folder.display());
    let files = fs::read_dir(folder).map_err(unreadable)?;
    let inputs = files
        .map(|file| read(&file.map_err(unreadable)?.path()))
        .collect::<Result<Vec<_>, _>>()?;
    let read = inputs.len();
    let new = keep(&target.corpus(), inputs)?;
    println!("{}: {read} read, {new} of them new", target.name);
    Ok(())
}

fn unpack(target: &Target, folder: &Path) -> Result<(), String> {
    let unwritable = |path: &Path, error: std::io::Error| {
        format!("{} cannot be written: {error}", path.display())
    };
    fs::create_dir_all(folder).map_err(|error| unwritable(folder, error))?;
    for entry in load(&target.corpus())? {
        let path = folder.join(entry.name);
        fs::write(&path, entry.bytes).map_err(|error| unwritable(&path, error))?;
    }
    Ok(())
}

fn show(target: &Target, file: &Path) -> Result<(), String> {
    (target.run)(&read(file)?);
    println!("{}: nothing is wrong", target.name);
    Ok(())
}

fn run(executions: &str, targets: &[Target]) -> Result<(), String> {
    let executions: u64 = executions
        .parse()
        .map_err(|_| format!("`{executions}` is no number"))?;
    // Another one for other mutations.
    let seed = std::env::var("ETHBCAST_SEED").map_or(Ok(1), |seed| seed.parse());
    let seed = seed.map_err(|_| "ETHBCAST_SEED is no number".to_owned())?;
    for target in targets {
        let corpus = load(&target.corpus())?;
        let begun = Instant::now();
        let mut mutator = Mutator::new(&corpus, seed);
        (0..executions).for_each(|_| (target.run)(&mutator.next_input()));
        println!(
            "{:12} {executions} executions in {:.0?}",
            target.name,
            begun.elapsed()
        );
    }
    Ok(())
}
