//! Helper of the cost tests: counts a test's instructions by callgrind, and compares them with the
//! accepted counts.

use crate::accepted;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const LIMIT: Duration = Duration::from_secs(600);
const MARK: &str = "*counting_mark*";

/// Parts of the engine, by substrings of their files' paths; the first match wins. All others are
/// `stream`.
const PARTS: [(&str, &[&str]); 8] = [
    ("parity", &["parity"]),
    ("wire", &["src/wire/"]),
    ("feed", &["src/feed/"]),
    ("arq", &["src/arq/"]),
    ("intake", &["src/stream/intake.rs"]),
    ("lane", &["src/stream/lane"]),
    ("cast", &["src/stream/cast/"]),
    ("stream", &[""]),
];
const LIBRARY: &str = "library";

pub fn parts() -> impl Iterator<Item = &'static str> {
    PARTS.iter().map(|&(part, _)| part).chain([LIBRARY])
}

#[derive(Debug, Default)]
pub struct Counts {
    instructions: BTreeMap<&'static str, u64>,
    allocations: u64,
}

impl Counts {
    /// Returns the instructions of a part of the engine. Copies and checksums are excluded: the C
    /// library and the checksum crate choose their code by the processor.
    pub fn instructions(&self, part: &str) -> u64 {
        self.instructions.get(part).copied().unwrap_or(0)
    }

    pub fn allocations(&self) -> u64 {
        self.allocations
    }

    fn read(text: &str, program: &str) -> Counts {
        let mut counts = Counts::default();
        let (mut object, mut home, mut file, mut callee, mut is_inclusive) =
            ("", "", "", "", false);
        for line in text.lines() {
            match line.split_once('=') {
                Some(("ob", name)) => object = name,
                Some(("fl" | "fi" | "fe", name)) => file = name,
                // The file of a function is given only if it differs from that of the line before.
                Some(("fn", _)) => home = file,
                Some(("cfn", name)) => callee = name,
                Some(("calls", call)) => {
                    let times = call
                        .split(' ')
                        .next()
                        .and_then(|times| times.parse().ok())
                        .unwrap_or(0);
                    counts.allocations += if is_allocation(callee) { times } else { 0 };
                    is_inclusive = true;
                }
                Some(_) => {}
                // The cost of a call is reported with the callee.
                None if std::mem::take(&mut is_inclusive) => {}
                // A source line and its cost, but not `totals: 922136`.
                None if line.starts_with(|first: char| first.is_ascii_digit()) => {
                    let cost = line
                        .split_once(' ')
                        .and_then(|(_, cost)| cost.parse().ok())
                        .unwrap_or(0);
                    if let Some(part) = part(file, home).filter(|_| object == program) {
                        *counts.instructions.entry(part).or_default() += cost;
                    }
                }
                None => {}
            }
        }
        counts
    }
}

fn is_allocation(function: &str) -> bool {
    [
        "malloc",
        "calloc",
        "realloc",
        "aligned_alloc",
        "posix_memalign",
    ]
    .contains(&function)
}

fn part(file: &str, home: &str) -> Option<&'static str> {
    let own = |path: &str| {
        let path = &path[path.find("transport/src/")? + "transport/".len()..];
        PARTS
            .iter()
            .find(|(_, places)| places.iter().any(|place| path.contains(place)))
            .map(|&(part, _)| part)
    };
    let foreign = |path: &str| path.contains("transport/tests/") || path.contains("crc32fast");
    if foreign(file) || foreign(home) {
        return own(file);
    }
    own(file).or_else(|| own(home)).or(Some(LIBRARY))
}

pub fn count(test: &str) -> Vec<Counts> {
    let program = std::env::current_exe()
        .expect("the test has a path")
        .display()
        .to_string();
    // Process ids are unique only within a namespace; two runs that begin at once are in one
    // namespace.
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos());
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("costs-{}-{now}", std::process::id()));
    fs::create_dir_all(&folder).expect("the folder of the target can be written");
    let mut command = Command::new("valgrind");
    command.args([
        "--tool=callgrind",
        "--compress-strings=no",
        "--compress-pos=no",
    ]);
    command.args([
        format!("--dump-before={MARK}"),
        format!("--callgrind-out-file={}", folder.join("out").display()),
    ]);
    command
        .args([program.as_str(), "--exact", test, "--test-threads=1"])
        .env_remove("ETHBCAST_ACCEPT");
    let log = folder.join("said");
    let file = fs::File::create(&log).expect("room");
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(file)
        .spawn();
    let ended = end(child.expect("valgrind is missing: ./test installs it"));
    let said = fs::read_to_string(log).unwrap_or_default();
    assert!(
        ended.is_some_and(|status| status.success()),
        "{test} under valgrind: {ended:?}\n{said}"
    );
    // Every second file is for the time between two marks.
    let files = (1..).map(|number| folder.join(format!("out.{}", 2 * number)));
    let counts = files
        .map_while(|path| Some(Counts::read(&fs::read_to_string(path).ok()?, &program)))
        .collect();
    fs::remove_dir_all(&folder).expect("the folder can be removed");
    counts
}

fn end(mut child: Child) -> Option<ExitStatus> {
    let deadline = Instant::now() + LIMIT;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().expect("our child") {
            return Some(status);
        }
        sleep(Duration::from_millis(20));
    }
    drop(child.kill());
    drop(child.wait());
    None
}

pub fn version() -> String {
    let output = Command::new("valgrind").arg("--version").output();
    let output = output.expect("valgrind is missing: ./test installs it");
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

const HEADING: &str = "\
Instructions for each frame of a stream, by the part of the engine they are in, of single hosts of simulated broadcasts
after their start: of the tests' build, without the copies of the C library and without checksums. `library` is what
stands by itself of the standard library. Allocations are all there were, in all frames together.

Within 5 % this binds the build named here; any other may take twice as many in all. Allocations bind all.
";
const BUILD: &str = "build: ";
/// Allowed deviation from the accepted figure: in percent, and in instructions for small figures.
const TOLERANCE: (u64, u64) = (5, 4);
/// Factor that another build may exceed a figure by.
const OTHER_BUILD: u64 = 2;
const ACCEPT: &str =
    "CARGO_INCREMENTAL=0 ETHBCAST_ACCEPT=1 cargo test --workspace --test lab_costs";

fn build() -> String {
    let compiler = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let output = Command::new(compiler)
        .arg("-vV")
        .output()
        .expect("the compiler that has made this is still there");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let word = |key: &str| {
        said.lines()
            .find_map(|line| line.strip_prefix(key))
            .unwrap_or("?")
            .trim()
    };
    let rustc = said.lines().next().unwrap_or("?");
    let assertions = if cfg!(debug_assertions) {
        "with"
    } else {
        "without"
    };
    let wide = if cfg!(target_feature = "avx") {
        ", for this processor"
    } else {
        ""
    };
    // Incremental compilation splits code into more units and inlines less of it.
    let units = if option_env!("CARGO_INCREMENTAL") == Some("0") {
        "at once"
    } else {
        "by increments"
    };
    let (llvm, counter) = (word("LLVM version:"), version());
    let arch = std::env::consts::ARCH;
    format!("{rustc}, LLVM {llvm}, {arch}, {units}, {assertions} debug assertions{wide}, {counter}")
}

type Rows = BTreeMap<String, Vec<u64>>;

fn figures(counts: &Counts, frames: u64) -> Vec<u64> {
    let parts: Vec<u64> = parts().map(|part| counts.instructions(part)).collect();
    let all = parts.iter().sum();
    let each = [all]
        .into_iter()
        .chain(parts)
        .map(|count: u64| (count + frames / 2) / frames);
    each.chain([counts.allocations()]).collect()
}

fn columns() -> Vec<&'static str> {
    ["all"]
        .into_iter()
        .chain(parts())
        .chain(["allocations"])
        .collect()
}

fn text(build: &str, rows: &[(String, Vec<u64>)]) -> String {
    let mut text = format!("{HEADING}\n{BUILD}{build}\n\n{:<48}", "");
    columns()
        .iter()
        .for_each(|column| write!(text, " {column:>7}").expect("text"));
    for (name, figures) in rows {
        write!(text, "\n{name:<48}").expect("text");
        figures
            .iter()
            .for_each(|figure| write!(text, " {figure:>7}").expect("text"));
    }
    text + "\n"
}

fn rows(text: &str) -> Rows {
    let table = text
        .lines()
        .skip_while(|line| !line.starts_with(BUILD))
        .skip(3);
    let row = |line: &str| {
        let (name, figures) = line.split_at_checked(48)?;
        Some((
            name.trim().to_string(),
            figures
                .split_whitespace()
                .map_while(|figure| figure.parse().ok())
                .collect(),
        ))
    };
    table.filter_map(row).collect()
}

pub fn compare(path: &Path, counted: &[(String, Counts)], frames: u64) {
    let now: Vec<_> = counted
        .iter()
        .map(|(name, counts)| (name.clone(), figures(counts, frames)))
        .collect();
    let (build, allocations) = (build(), columns().len() - 1);
    let now_text = text(&build, &now);
    let Some(accepted) = accepted::read(path, &now_text) else {
        return;
    };
    let is_same = accepted
        .lines()
        .any(|line| line.strip_prefix(BUILD) == Some(&build));
    if !is_same {
        // Not by a macro, whose output the test harness captures.
        let said = format!(
            "INSTRUCTIONS ARE NOT COMPARED WITHIN {} %: {} is of another build than this one, {build}.\n\
             Where this is the one that everybody uses now, accept its figures: {ACCEPT}\n{now_text}",
            TOLERANCE.0,
            path.display()
        );
        std::io::stderr()
            .write_all(said.as_bytes())
            .expect("somebody hears it");
    }
    let kept = rows(&accepted);
    assert_eq!(
        kept.len(),
        now.len(),
        "{} has other rows. If that is right, accept it: {ACCEPT}",
        path.display()
    );
    let mut wrong = String::new();
    for (name, figures) in &now {
        let none = Vec::new();
        let kept = kept.get(name).unwrap_or(&none);
        for (at, &column) in columns().iter().enumerate() {
            let (figure, kept) = (figures[at], kept.get(at).copied());
            let fits = kept.is_some_and(|kept| match at {
                _ if at == allocations => figure == kept,
                _ if is_same => {
                    figure.abs_diff(kept) <= (kept * TOLERANCE.0 / 100).max(TOLERANCE.1)
                }
                0 => figure <= OTHER_BUILD * kept,
                _ => true,
            });
            if !fits {
                writeln!(wrong, "{name}: {column} {figure}, accepted {kept:?}").expect("text");
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{}:\n{wrong}If that is right, accept it: {ACCEPT}",
        path.display()
    );
}
