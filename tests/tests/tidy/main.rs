//! Tests of the source code itself: rules of ARCHITECTURE.md that no compiler checks. Needs no
//! root.

#[path = "../../../transport/tests/common/accepted.rs"]
mod accepted;
mod generated;
mod source;
mod words;

use source::{Crate, Place, Source, files};
use std::collections::{BTreeMap, HashSet};

/// Names reserved for drivers: a clock, a thread, a socket, a random source, and the crates for
/// Linux.
const DRIVERS_OWN: [&str; 11] = [
    "std::time::Instant",
    "std::time::SystemTime",
    "std::thread",
    "std::net",
    "std::os",
    "getrandom",
    "libc",
    "nix",
    "pnet_base",
    "pnet_datalink",
    "rustix",
];

/// Packages of the workspace that each package's libraries and programs may use. Tests and benches
/// see all libraries.
const MAY_USE: [(&str, &[&str]); 10] = [
    ("transport/", &["transport"]),
    ("collectives/planning/", &["planning"]),
    (
        "collectives/c/src/",
        &["collectives", "planning", "transport"],
    ),
    (
        "collectives/mpi/src/",
        &["collectives", "planning", "transport"],
    ),
    ("collectives/python/src/", &["collectives", "content"]),
    (
        "collectives/src/",
        &["collectives", "planning", "transport"],
    ),
    ("content/", &["collectives", "content", "transport"]),
    ("tools/lab/", &["lab", "planning"]),
    ("tools/bench/", &["bench", "lab", "planning", "transport"]),
    (
        "tools/src/",
        &[
            "bench",
            "collectives",
            "content",
            "lab",
            "planning",
            "transport",
        ],
    ),
];

/// The top modules of each library from the ground up: an import points to a lower floor or stays
/// in its module.
const FLOORS: [(&str, &[&[&str]]); 2] = [
    (
        "transport/src/",
        &[
            &["lock", "planted", "time"],
            &["wire"],
            &["machine", "parity", "tuning"],
            &["agenda", "link"],
            &["arq"],
            &["feed"],
            &["stream", "messages"],
            &["drive"],
            &["packet", "sim"],
        ],
    ),
    (
        "collectives/src/",
        &[
            &["keys", "membership", "preset"],
            &["measure", "census"],
            &["session", "communicator"],
            &["error_kind", "inspect", "named_options"],
        ],
    ),
];

#[track_caller]
fn assert_none(mut violations: Vec<String>) {
    violations.dedup();
    assert!(
        violations.is_empty(),
        "{} places:\n{}\n",
        violations.len(),
        violations.join("\n")
    );
}

fn libraries() -> Vec<Source> {
    let library = |source: &Source| {
        let inside = [
            "transport/src/",
            "collectives/src/",
            "collectives/planning/src/",
        ];
        inside.iter().any(|folder| source.path.starts_with(folder)) && !source.is_test()
    };
    files(&[".rs"]).into_iter().filter(library).collect()
}

fn is_driver(path: &str) -> bool {
    let live = |path: &str| path.split('/').any(|part| part.starts_with("live"));
    path.starts_with("transport/src/packet/")
        || path == "collectives/src/membership/host.rs"
        || path.starts_with("collectives/src/") && live(path)
}

fn is_or_below(path: &str, of: &str) -> bool {
    path.strip_prefix(of)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

#[test]
fn only_drivers_know_a_clock_a_thread_a_socket_or_chance() {
    let mut violations = Vec::new();
    for source in libraries().iter().filter(|source| !is_driver(&source.path)) {
        for (place, path) in source.paths() {
            let owned = DRIVERS_OWN.iter().find(|owned| is_or_below(&path, owned));
            violations.extend(owned.map(|owned| {
                place.says(&format!(
                    "`{owned}` belongs to a driver: packet/, live/, the tools"
                ))
            }));
        }
    }
    assert_none(violations);
}

/// Clocks are in 1970 where none has been set, as in an initramfs: no session, key or replay
/// depends on the date.
#[test]
fn no_library_knows_the_date() {
    let mut violations = Vec::new();
    for source in libraries() {
        let dates = source
            .paths()
            .into_iter()
            .filter(|(_, path)| path.contains("SystemTime") || path.contains("UNIX_EPOCH"));
        violations
            .extend(dates.map(|(place, _)| {
                place.says("a date, which a host without a clock does not have")
            }));
    }
    assert_none(violations);
}

#[test]
fn packages_import_one_way() {
    let mut violations = Vec::new();
    for source in files(&[".rs"]) {
        let Some((folder, allowed)) = MAY_USE
            .iter()
            .find(|(folder, _)| source.path.starts_with(folder))
        else {
            continue;
        };
        for (place, path) in source.paths() {
            let package = path
                .split("::")
                .next()
                .and_then(|word| word.strip_prefix("ethbcast_"));
            let wrong = package.filter(|package| !allowed.contains(package));
            violations.extend(wrong.map(|package| {
                place.says(&format!("{folder} must not import ethbcast_{package}"))
            }));
        }
    }
    assert_none(violations);
}

#[test]
fn no_files_of_a_crate_import_each_other_in_a_circle() {
    let sources = files(&[".rs"]);
    let shipped = |source: &&Source| !source.is_test() && source.path.contains("/src/");
    let mut crates: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in sources.iter().filter(shipped) {
        let folder = source
            .path
            .split_once("/src/")
            .map_or("", |(folder, _)| folder);
        crates.entry(folder).or_default().push(source);
    }
    let mut violations = Vec::new();
    for sources in crates.values() {
        let files = Crate::of(sources.iter().copied());
        for circle in files.circles() {
            violations.push(format!(
                "a circle of {} files:\n  {}",
                circle.len(),
                files.ties(&circle).join("\n  ")
            ));
        }
    }
    assert_none(violations);
}

#[test]
fn rooms_import_downwards() {
    let mut violations = Vec::new();
    for source in libraries() {
        let Some((_, floors)) = FLOORS
            .iter()
            .find(|(folder, _)| source.path.starts_with(folder))
        else {
            continue;
        };
        let Some(&own) = source.modules().first() else {
            continue;
        };
        let floor_of = |room: &str| floors.iter().position(|rooms| rooms.contains(&room));
        let Some(floor) = floor_of(own) else {
            violations.push(format!(
                "{}:1: `{own}` has no floor: give it one in FLOORS",
                source.path
            ));
            continue;
        };
        for (place, path) in source.paths() {
            let Some(other) = source.room_of(&path).filter(|room| room != own) else {
                continue;
            };
            let points_up = floor_of(&other).is_some_and(|other| other >= floor)
                && !(floor == 0 && floor_of(&other) == Some(0));
            violations.extend(points_up.then(|| {
                place.says(&format!(
                    "`{own}` must not import `{other}`, which is not below it"
                ))
            }));
        }
    }
    assert_none(violations);
}

#[test]
fn fields_are_their_types_own() {
    let mut violations = Vec::new();
    for source in libraries() {
        for (place, line) in source.code() {
            if opens_a_field(line) {
                violations.push(place.says(
                    "a field is its type's own or its folder's: private, pub(super), or pub",
                ));
            }
        }
    }
    assert_none(violations);
}

#[test]
fn unsafe_code_stands_in_few_files() {
    // Memory shared with the kernel, system calls, memory shared with other processes.
    let packet = ["ring.rs", "syscall.rs", "node/memory.rs"]
        .map(|file| format!("transport/src/packet/{file}"));
    // Exported names of the C and MPI interfaces: an attribute of each, allowed for the package as
    // a whole.
    let bindings = ["c", "mpi"].map(|package| format!("collectives/{package}/src/lib.rs"));
    // Python's memory, which its protocols give as pointers.
    let python = ["buffers", "tensor"].map(|file| format!("collectives/python/src/{file}.rs"));
    // One call of an instruction that some processors lack.
    let products = ["transport/src/parity/products.rs".to_owned()];
    // Rings that only a bench measures.
    let benches = ["benches/src/rings.rs".to_owned()];
    let allowed = [&packet[..], &bindings, &python, &products, &benches].concat();
    let mut violations = Vec::new();
    for source in files(&[".rs"])
        .iter()
        .filter(|source| !allowed.contains(&source.path))
    {
        let allows = source
            .code()
            .filter(|(_, line)| line.contains("allow(unsafe_code)"));
        violations.extend(
            allows.map(|(place, _)| place.says("unsafe code stands in few files, and not here")),
        );
    }
    assert_none(violations);
}

#[test]
fn bindings_touch_foreign_memory_in_thin_files() {
    // C pointers; the loader, a back end's table, states kept with communicators, buffers,
    // Fortran's integers.
    let memory = ["dynamic.rs", "group.rs", "buffers.rs", "exports.rs"];
    // The launcher's descriptor and library; processes by descriptors; signals.
    let system = ["presence/hydra.rs", "presence/pmix.rs", "neighbours.rs"];
    let mpi = [&memory[..], &system]
        .concat()
        .into_iter()
        .map(|file| format!("collectives/mpi/src/{file}"));
    let allowed = [vec!["collectives/c/src/raw.rs".to_owned()], mpi.collect()];
    let allowed = allowed.concat();
    let mut violations = Vec::new();
    for source in files(&[".rs"])
        .iter()
        .filter(|source| !allowed.contains(&source.path))
    {
        let inside = ["collectives/c/src/", "collectives/mpi/src/"];
        if inside.iter().any(|folder| source.path.starts_with(folder)) {
            let blocks = source
                .code()
                .filter(|(_, line)| line.contains("unsafe {") || line.contains("unsafe impl"));
            violations.extend(
                blocks.map(|(place, _)| place.says("foreign memory is touched in thin files")),
            );
        }
    }
    assert_none(violations);
}

#[test]
fn files_functions_and_lines_fit() {
    let mut violations = Vec::new();
    for source in files(&[".rs"]) {
        violations.extend(too_long_a_file(&source));
        violations.extend(too_long_functions(&source));
        violations.extend(too_long_lines(&source));
    }
    assert_none(violations);
}

#[test]
fn comments_begin_with_a_noun_or_a_verb_and_names_are_the_fields() {
    let mut violations = Vec::new();
    for source in files(&[".rs"]) {
        violations.extend(words::poor_beginnings(&source));
        violations.extend(words::private_names(&source));
    }
    assert_none(violations);
}

#[test]
fn a_name_of_a_type_means_one_thing() {
    let all = files(&[".rs"]);
    let mut crates: BTreeMap<String, Vec<&Source>> = BTreeMap::new();
    for source in &all {
        if let Some(name) = source.crate_name() {
            crates.entry(name).or_default().push(source);
        }
    }
    assert_none(
        crates
            .iter()
            .filter_map(|(name, sources)| words::ambiguous_types(name, sources))
            .collect(),
    );
}

#[test]
fn prose_uses_the_words_of_the_field() {
    assert_none(
        files(&[".rs", ".md"])
            .iter()
            .flat_map(words::private_words)
            .collect(),
    );
}

#[test]
fn prose_in_markdown_is_not_too_wide() {
    assert_none(
        files(&[".md"])
            .iter()
            .flat_map(words::too_wide_prose)
            .collect(),
    );
}

#[test]
fn nothing_cites_a_document_that_is_not_in_the_tree() {
    // In two parts, or this line would cite it.
    let document = concat!("DES", "IGN");
    let mut violations = Vec::new();
    for source in files(&[".rs", ".md", ".toml", ".txt", "run"]) {
        for (index, line) in source.text.lines().enumerate() {
            if line.contains(document) {
                violations.push(format!(
                    "{}:{}: cites {document}: say the reason, or docs/design.md",
                    source.path,
                    index + 1
                ));
            }
        }
    }
    assert_none(violations);
}

/// Underscores above which a word in a page's backticks is the name of a test.
const UNDERSCORES: usize = 4;

#[test]
fn every_test_that_a_page_names_is_in_the_tree() {
    let (mut tests, mut violations, mut named) = (HashSet::new(), Vec::new(), 0);
    for source in files(&[".rs", ".py"]) {
        let words: Vec<&str> = source
            .text
            .split(|letter: char| !letter.is_alphanumeric() && letter != '_')
            .collect();
        let functions = words
            .windows(2)
            .filter(|pair| matches!(pair[0], "fn" | "def"));
        tests.extend(functions.map(|pair| pair[1].to_owned()));
    }
    for page in files(&[".md"]) {
        for (index, line) in page.text.lines().enumerate() {
            let words = line.split('`').skip(1).step_by(2);
            for name in
                words.filter(|word| word.matches('_').count() > UNDERSCORES && !word.contains(' '))
            {
                named += 1;
                if !tests.contains(name) {
                    violations.push(format!(
                        "{}:{}: there is no test `{name}`",
                        page.path,
                        index + 1
                    ));
                }
            }
        }
    }
    assert!(named > 50, "{named} names");
    assert_none(violations);
}

/// Maximum lines of a file with a letter or a digit: a longer one holds two concepts.
const FILE_LINES: usize = 750;
/// Maximum lines of a function with a letter or a digit.
const FUNCTION_LINES: usize = 115;
/// Maximum columns of a line: rustfmt wraps code at 100, but neither texts nor tables.
const COLUMNS: usize = 120;

/// Whether a line has more than brackets, to which rustfmt often gives a line of their own.
fn has_words(line: &str) -> bool {
    line.contains(char::is_alphanumeric)
}

/// Whether a line of code declares a field that a part of the crate wider than a folder may access.
fn opens_a_field(line: &str) -> bool {
    let named = |rest: &str| {
        let name =
            rest.trim_start_matches(|letter: char| letter.is_alphanumeric() || letter == '_');
        name.len() < rest.len() && name.starts_with(':') && !name.starts_with("::")
    };
    let line = &line.replace("pub(super) ", "");
    let in_tuple = line.contains("struct ") && (line.contains("(pub(") || line.contains(", pub("));
    let restricted = line
        .trim_start()
        .strip_prefix("pub(")
        .and_then(|rest| rest.split_once(") "));
    in_tuple || restricted.is_some_and(|(_, rest)| named(rest))
}

fn too_long_a_file(source: &Source) -> Option<String> {
    let lines = source.text.lines().filter(|line| has_words(line)).count();
    (lines > FILE_LINES).then(|| format!("{}:1: {lines} lines, at most {FILE_LINES}", source.path))
}

fn too_long_lines(source: &Source) -> impl Iterator<Item = String> {
    source.text.lines().enumerate().filter_map(|(index, line)| {
        let columns = line.chars().count();
        let place = Place {
            source,
            line: index + 1,
        };
        (columns > COLUMNS).then(|| place.says(&format!("{columns} columns, at most {COLUMNS}")))
    })
}

/// Returns the functions that are too long, from `fn` to the brace in that column, as rustfmt
/// writes it.
fn too_long_functions(source: &Source) -> Vec<String> {
    let lines: Vec<(Place<'_>, &str)> = source.code().collect();
    let mut found = Vec::new();
    for (index, (place, line)) in lines.iter().enumerate() {
        if !begins_function(line) || line.trim_end().ends_with([';', '}']) {
            continue;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        let in_column = |line: &str, mark: char| {
            line.strip_prefix(indent)
                .is_some_and(|rest| rest.starts_with(mark))
        };
        let is_end = |line: &&str| {
            in_column(line, '}') || in_column(line, ')') && line.trim_end().ends_with(';')
        };
        let length = lines[index + 1..]
            .iter()
            .position(|(_, line)| is_end(line))
            .map_or(0, |further| {
                let inside = &lines[index..index + further + 2];
                inside.iter().filter(|(_, line)| has_words(line)).count()
            });
        if length > FUNCTION_LINES {
            found.push(place.says(&format!(
                "a function of {length} lines, at most {FUNCTION_LINES}"
            )));
        }
    }
    found
}

fn begins_function(line: &str) -> bool {
    let words = line.split_whitespace().take_while(|word| *word != "fn");
    let is_modifier = |word: &str| {
        word.starts_with("pub")
            || matches!(word, "const" | "async" | "unsafe" | "extern")
            || word.ends_with(')')
    };
    line.split_whitespace().any(|word| word == "fn") && words.into_iter().all(is_modifier)
}

#[test]
fn the_rules_tell_fields_and_functions_from_what_looks_like_them() {
    for field in [
        "    pub(crate) slots: usize,",
        "pub(in a) x: u8,",
        "pub(crate) struct Rank(pub(crate) u16);",
    ] {
        assert!(opens_a_field(field), "{field}");
    }
    for other in [
        "    pub(super) const MOST: usize = 4;",
        "pub(crate) fn x(a: u8) {",
        "    pub(super) mod a;",
        "    pub slots: usize,",
        "    pub(super) slots: usize,",
        "pub(crate) struct Rank(pub(super) u16);",
    ] {
        assert!(!opens_a_field(other), "{other}");
    }
    assert!(begins_function("    pub(in a) const fn f(") && begins_function("fn main() {"));
    assert!(!begins_function("    let f: fn() = main;") && !begins_function("// no fn here"));
}
