//! Mutation testing: a copy of the source tree with all changes in it, made to compile.

use crate::rewrite::{FOLDERS, Mutant, Rewritten, rewrite};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Source of the engine's switch, which reads the number of the active mutant at its first call.
const SWITCH: &str = r#"
/// The number of the change that this process makes; none is `u32::MAX - 1`, not read yet
/// `u32::MAX`.
static MUTANT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(u32::MAX);

#[doc(hidden)]
#[inline(always)]
pub fn mutant(number: u32) -> bool {
    let chosen = MUTANT.load(std::sync::atomic::Ordering::Relaxed);
    chosen == number || (chosen == u32::MAX && read_mutant() == number)
}

#[cold]
fn read_mutant() -> u32 {
    let chosen = std::env::var("ETHBCAST_MUTANT").ok().and_then(|text| text.parse().ok()).unwrap_or(u32::MAX - 1);
    MUTANT.store(chosen, std::sync::atomic::Ordering::Relaxed);
    chosen
}
"#;

const NOTES: &str = "uncompiled.txt";

/// Functions that constants call stay `const fn`; all others become plain ones, so that they can
/// have switches.
const CONSTANT: [&str; 1] = ["new"];

/// Reductions of tests with many seeds: file, text, replacement.
const REDUCED_SEEDS: [(&str, &str, &str); 11] = [
    ("streams/main.rs", "0..1_u64 << 14", "0..1_u64 << 9"),
    ("streams/main.rs", "0..200", "0..16"),
    ("streams/hostile/mod.rs", "step_by(step)", "step_by(29)"),
    ("streams/passing_on.rs", "RUNS: u64 = 600", "RUNS: u64 = 60"),
    ("streams/eqa.rs", "0..40", "0..4"),
    ("streams/eqa.rs", "0..200", "0..20"),
    ("streams/alone.rs", "RUNS: u64 = 300", "RUNS: u64 = 40"),
    ("streams/deaths.rs", "RUNS: u64 = 500", "RUNS: u64 = 50"),
    (
        "streams/deaths.rs",
        "RETURN_RUNS: u64 = 400",
        "RETURN_RUNS: u64 = 40",
    ),
    ("messages/bad_input.rs", "RUNS: u64 = 600", "RUNS: u64 = 60"),
    ("messages/main.rs", "0..2000", "0..150"),
];

type Changed<'a> = (String, Vec<(u32, &'a Mutant)>);

#[derive(Debug)]
pub struct Scratch {
    pub root: PathBuf,
    pub uncompiled: BTreeSet<u32>,
    pub unswitched: BTreeSet<u32>,
}

impl Scratch {
    /// Copies the files of the repository `from` to `root`, with those of `mutants` that compile.
    pub fn make(from: &Path, root: &Path, mutants: &[Mutant]) -> Result<Scratch> {
        copy(from, root)?;
        let mut scratch = Scratch {
            root: root.into(),
            uncompiled: BTreeSet::new(),
            unswitched: BTreeSet::new(),
        };
        // Mutants that an earlier run has excluded are not tried again.
        let notes = root.join(NOTES);
        let known = fs::read_to_string(&notes).unwrap_or_default();
        let known: BTreeSet<&str> = known.lines().collect();
        let names = (0..).zip(mutants);
        scratch.uncompiled = names
            .filter(|(_, mutant)| known.contains(&*mutant.name))
            .map(|(number, _)| number)
            .collect();
        let mut files: BTreeMap<&str, Changed<'_>> = BTreeMap::new();
        for (number, mutant) in (0..).zip(mutants) {
            let entry = files.entry(&mutant.file);
            let (_, list) = entry.or_insert((
                plain(&fs::read_to_string(from.join(&mutant.file))?),
                Vec::new(),
            ));
            list.push((number, mutant));
        }
        loop {
            let mut rewritten = BTreeMap::new();
            for (&file, (source, list)) in &files {
                let kept: Vec<_> = list
                    .iter()
                    .filter(|(number, _)| !scratch.uncompiled.contains(number))
                    .copied()
                    .collect();
                let out = rewrite(source, &kept).context(file.to_string())?;
                write(&root.join(file), out.text.as_bytes())?;
                rewritten.insert(file, out);
            }
            scratch.unswitched = rewritten
                .values()
                .flat_map(|out| out.left_out.clone())
                .collect();
            let wrong = scratch.errors(&rewritten)?;
            if wrong.is_empty() {
                let names = scratch
                    .uncompiled
                    .iter()
                    .map(|&number| format!("{}\n", mutants[number as usize].name));
                fs::write(&notes, names.collect::<String>())?;
                return Ok(scratch);
            }
            eprintln!("{} changes do not compile", wrong.len());
            scratch.uncompiled.extend(wrong);
        }
    }

    pub fn cargo(&self) -> Command {
        let mut command = Command::new("cargo");
        // Lints do not apply to mutants.
        command
            .current_dir(&self.root)
            .env("RUSTFLAGS", "--cap-lints=allow")
            .env("CARGO_INCREMENTAL", "0");
        command
    }

    fn errors(&self, rewritten: &BTreeMap<&str, Rewritten>) -> Result<BTreeSet<u32>> {
        let mut command = self.cargo();
        command.args([
            "check",
            "-p",
            "ethbcast-transport",
            "--locked",
            "--message-format=json",
        ]);
        let output = command.stderr(Stdio::inherit()).output()?;
        let (mut wrong, mut strange) = (BTreeSet::new(), Vec::new());
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let message = &serde_json::from_str::<Value>(line)?["message"];
            if message["level"] != "error" {
                continue;
            }
            let spans = message["spans"].as_array().cloned().unwrap_or_default();
            let mut found = false;
            // The primary place first; some errors are only reported together with the places they
            // lead to.
            for span in spans
                .iter()
                .filter(|span| span["is_primary"] == true)
                .chain(&spans)
            {
                let (file, line) = (
                    span["file_name"].as_str().unwrap_or_default(),
                    &span["line_start"],
                );
                let line = line.as_u64().unwrap_or_default() as usize;
                let lines = rewritten.get(file).into_iter().flat_map(|out| &out.lines);
                let here: Vec<u32> = lines
                    .filter(|(_, lines)| lines.contains(&line))
                    .map(|(&id, _)| id)
                    .collect();
                found |= !here.is_empty();
                wrong.extend(here);
                if found {
                    break;
                }
            }
            if !found && !spans.is_empty() {
                strange.push(message["rendered"].as_str().unwrap_or_default().to_string());
            }
        }
        if wrong.is_empty() && !output.status.success() {
            bail!(
                "the copy does not compile, and no change is to blame:\n{}",
                strange.concat()
            );
        }
        Ok(wrong)
    }
}

/// Returns the source, in equal length, with plain functions instead of `const` ones.
fn plain(source: &str) -> String {
    let keep = |line: &str| {
        CONSTANT
            .iter()
            .any(|name| line.contains(&format!("const fn {name}(")))
    };
    let lines = source.split_inclusive('\n');
    lines
        .map(|line| {
            if keep(line) {
                line.into()
            } else {
                line.replace("const fn ", "      fn ")
            }
        })
        .collect()
}

/// Copies the files that git tracks, without build outputs and the files to be rewritten.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let output = Command::new("git")
        .current_dir(from)
        .args(["ls-files", "-z"])
        .output()?;
    ensure!(
        output.status.success(),
        "git ls-files: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let is_rewritten = |file: &str| {
        FOLDERS
            .iter()
            .any(|folder| file.starts_with(&format!("transport/src/{folder}/")))
    };
    for file in String::from_utf8(output.stdout)?.split_terminator('\0') {
        let source = from.join(file);
        if source.is_file() && !(is_rewritten(file) && to.join(file).exists()) {
            write(
                &to.join(file),
                &in_copy(file, fs::read(&source).with_context(|| file.to_string())?)?,
            )?;
        }
    }
    Ok(())
}

fn in_copy(file: &str, bytes: Vec<u8>) -> Result<Vec<u8>> {
    if file == "transport/src/lib.rs" {
        return Ok([&bytes, SWITCH.as_bytes()].concat());
    }
    let mut few = REDUCED_SEEDS
        .iter()
        .filter(|(tests, ..)| file == format!("transport/tests/{tests}"));
    few.try_fold(bytes, |bytes, (_, many, few)| {
        let text = String::from_utf8(bytes)?;
        ensure!(
            text.contains(many),
            "{file} has no {many} any more: say here what it is now"
        );
        Ok(text.replace(many, few).into_bytes())
    })
}

/// Writes a file, unless it is unchanged: unchanged files are not recompiled.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    if fs::read(path).is_ok_and(|present| present == bytes) {
        return Ok(());
    }
    fs::write(path, bytes).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reduction_finds_its_text_in_a_test_of_the_tree() {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../transport/tests");
        for (file, many, _) in REDUCED_SEEDS {
            let text = fs::read_to_string(tests.join(file))
                .unwrap_or_else(|error| panic!("{file}: {error}"));
            assert!(text.contains(many), "{file} has no {many}");
        }
    }
}
