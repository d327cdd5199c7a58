//! Runs one test of this binary under callgrind, and parses the counts.

use std::collections::BTreeMap;
use std::fs;
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
        let (mut object, mut home, mut file, mut callee, mut is_inclusive) = ("", "", "", "", false);
        for line in text.lines() {
            match line.split_once('=') {
                Some(("ob", name)) => object = name,
                Some(("fl" | "fi" | "fe", name)) => file = name,
                // The file of a function is given only if it differs from that of the line before.
                Some(("fn", _)) => home = file,
                Some(("cfn", name)) => callee = name,
                Some(("calls", call)) => {
                    let times = call.split(' ').next().and_then(|times| times.parse().ok()).unwrap_or(0);
                    counts.allocations += if is_allocation(callee) { times } else { 0 };
                    is_inclusive = true;
                }
                Some(_) => {}
                // The cost of a call is reported with the callee.
                None if std::mem::take(&mut is_inclusive) => {}
                // A source line and its cost, but not `totals: 922136`.
                None if line.starts_with(|first: char| first.is_ascii_digit()) => {
                    let cost = line.split_once(' ').and_then(|(_, cost)| cost.parse().ok()).unwrap_or(0);
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
    ["malloc", "calloc", "realloc", "aligned_alloc", "posix_memalign"].contains(&function)
}

fn part(file: &str, home: &str) -> Option<&'static str> {
    let own = |path: &str| {
        let path = &path[path.find("transport/src/")? + "transport/".len()..];
        PARTS.iter().find(|(_, places)| places.iter().any(|place| path.contains(place))).map(|&(part, _)| part)
    };
    let foreign = |path: &str| path.contains("transport/tests/") || path.contains("crc32fast");
    if foreign(file) || foreign(home) {
        return own(file);
    }
    own(file).or_else(|| own(home)).or(Some(LIBRARY))
}

pub fn count(test: &str) -> Vec<Counts> {
    let program = std::env::current_exe().expect("the test has a path").display().to_string();
    // Process ids are unique only within a namespace; two runs that begin at once are in one
    // namespace.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("costs-{}-{now}", std::process::id()));
    fs::create_dir_all(&folder).expect("the folder of the target can be written");
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--compress-strings=no", "--compress-pos=no"]);
    command.args([format!("--dump-before={MARK}"), format!("--callgrind-out-file={}", folder.join("out").display())]);
    command.args([program.as_str(), "--exact", test, "--test-threads=1"]).env_remove("ETHBCAST_ACCEPT");
    let log = folder.join("said");
    let file = fs::File::create(&log).expect("room");
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file).spawn();
    let ended = end(child.expect("valgrind is missing: ./test installs it"));
    let said = fs::read_to_string(log).unwrap_or_default();
    assert!(ended.is_some_and(|status| status.success()), "{test} under valgrind: {ended:?}\n{said}");
    // Every second file is for the time between two marks.
    let files = (1..).map(|number| folder.join(format!("out.{}", 2 * number)));
    let counts = files.map_while(|path| Some(Counts::read(&fs::read_to_string(path).ok()?, &program))).collect();
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
