//! Tests of the Python package on hosts in network namespaces.

use ethbcast_lab::LabConfig;
use ethbcast_tests::lab::{Ended, LIMIT, Run, Site, names_in, one_switch, put_whole};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

/// Time limit of a file of tests on a machine with other work.
const PYTEST_LIMIT: Duration = Duration::from_secs(300);

const PYTEST: [&str; 6] = ["-m", "pytest", "-v", "-p", "no:cacheprovider", "--tb=short"];

fn own(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of the build")
}

/// Returns a Python with the tests' dependencies: the first on the path, or the system's own.
fn python() -> &'static str {
    static PYTHON: OnceLock<&str> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let needs = "import numpy, pytest, sys; assert sys.version_info >= (3, 11)";
        let does = |python: &&str| {
            let mut tried = Command::new("env");
            tried.args([python, "-c", needs]);
            Run::to_end(tried, LIMIT).code() == 0
        };
        let found = ["python3", "/usr/bin/python3"].into_iter().find(does);
        found.expect("Python from 3.11 on with NumPy and pytest is missing: ./test installs it")
    })
}

/// Returns a folder with the package as `pip` would install it: the Python files, and the module
/// beside this test.
fn packages() -> &'static Path {
    static PACKAGES: OnceLock<PathBuf> = OnceLock::new();
    PACKAGES.get_or_init(|| {
        let packages = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python");
        let package = packages.join("ethbcast");
        fs::create_dir_all(&package).expect("a directory");
        let mut names = vec!["_ethbcast.abi3.so".to_owned()];
        for file in fs::read_dir(own("python/ethbcast")).expect("the package") {
            let path = file.expect("a file").path();
            if path.is_file() {
                let name = path
                    .file_name()
                    .expect("a file")
                    .to_string_lossy()
                    .into_owned();
                put_whole(&package.join(&name), |made| {
                    assert!(fs::copy(&path, made).is_ok(), "{name} is not copied")
                });
                names.push(name);
            }
        }
        let test = std::env::current_exe().expect("a test knows where it is");
        let built = test.with_file_name("lib_ethbcast.so");
        assert!(built.is_file(), "Cargo has built no {}", built.display());
        put_whole(&package.join(&names[0]), |made| {
            std::os::unix::fs::symlink(built, made).expect("a link")
        });
        // Remove files of an older build; directories belong to a concurrent test that creates
        // equal ones.
        let old = names_in(&package)
            .into_iter()
            .map(|name| (package.join(&name), name));
        let old = old.filter(|(path, name)| path.is_file() && !names.contains(name));
        old.for_each(|(path, _)| drop(fs::remove_file(path)));
        packages
    })
}

/// Prepares Python to find the package and to leave no files in the tree.
fn prepared(mut command: Command, words: &[&str]) -> Command {
    command
        .env("PYTHONPATH", packages())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .args(words);
    command
}

/// Runs Python on `hosts` hosts of a site at once; each must succeed.
fn on_each(site: &Site, hosts: usize, words: &[&str]) -> Vec<Ended> {
    let start = |host: usize| {
        let name = format!("n{host}");
        let mut command = prepared(site.command(&name, python()), words);
        command
            .env("ETHBCAST_TEST_HOST", host.to_string())
            .env("ETHBCAST_TEST_HOSTS", hosts.to_string());
        Run::start(&name, command)
    };
    let runs: Vec<Run> = (0..hosts).map(start).collect();
    let ends: Vec<Ended> = runs.into_iter().map(|run| run.end(PYTEST_LIMIT)).collect();
    let said = |end: &Ended| format!("{}{}", end.stdout_text(), end.stderr);
    let all: Vec<String> = ends
        .iter()
        .filter(|end| end.code() != 0)
        .map(said)
        .collect();
    assert!(all.is_empty(), "{}", all.join("\n"));
    ends
}

/// Runs a file of tests on `hosts` hosts at once, as one program on each. The first failure ends a
/// host's run: its peers would wait for it in each of the following tests. A call that lasts is
/// printed with its stack.
fn pytest_on_each(site: &Site, hosts: usize, tests: &str) {
    let tests = own(tests);
    let each = [
        &PYTEST[..],
        &["-x", "-o", "faulthandler_timeout=60", text(&tests)],
    ]
    .concat();
    for end in on_each(site, hosts, &each) {
        println!("{}", end.stdout_text().lines().last().unwrap_or_default());
        assert!(
            !end.stdout_text().contains("skipped"),
            "{}",
            end.stdout_text()
        );
    }
}

#[test]
fn tests_that_need_no_network() {
    let tests = own("tests/test_alone.py");
    let words = [&PYTEST[..], &[text(&tests)]].concat();
    let ended = Run::start("pytest", prepared(Command::new(python()), &words)).end(PYTEST_LIMIT);
    let said = ended.stdout_text();
    assert_eq!(ended.code(), 0, "{said}{}", ended.stderr);
    let skipped: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("SKIPPED"))
        .collect();
    if let [one] = skipped[..]
        && one.contains("as_a_type_checker_wants_them")
    {
        eprintln!(
            "NOT TESTED WITH MYPY: the Python stub (pip install mypy, for {})",
            python()
        );
    } else {
        assert!(skipped.is_empty(), "{skipped:?}");
    }
}

/// The program was written independently, from the papers and RFCs.
#[test]
fn a_second_implementation_of_the_keys_has_the_same_vectors() {
    let keys = own("../src/keys");
    let [program, vectors] = ["vectors.py", "vectors.txt"].map(|name| keys.join(name));
    let words = ["-B", text(&program), text(&vectors)];
    Run::start("vectors", prepared(Command::new(python()), &words))
        .end(PYTEST_LIMIT)
        .assert_code(0);
}

#[test]
fn lab_ranks_call_each_other() {
    pytest_on_each(
        &Site::beside("python_ranks", one_switch(3)),
        3,
        "tests/test_ranks.py",
    );
}

#[test]
fn lab_sessions_move_files_and_memory() {
    // At this rate a session takes a quarter of a second, long enough to be cancelled.
    let shaped = LabConfig {
        rate_bits_per_second: Some(100_000_000),
        ..one_switch(3)
    };
    pytest_on_each(
        &Site::beside("python_sessions", shaped),
        3,
        "tests/test_sessions.py",
    );
}

#[test]
fn lab_the_example_has_the_tensors_of_one_host_on_all() {
    let site = Site::beside("python_example", one_switch(3));
    let header = r#"{"bias":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},
        "weight":{"dtype":"F64","shape":[2,3],"data_offsets":[16,64]},"__metadata__":{"format":"np"}}"#;
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    (0..4).for_each(|value| file.extend_from_slice(&(value as f32).to_le_bytes()));
    (0..6).for_each(|value| file.extend_from_slice(&(value as f64).to_le_bytes()));
    let source = site.file("model.safetensors", &file);
    let example = own("examples/weights.py");
    let said = on_each(&site, 3, &[text(&example), "weights", "3", text(&source)]);
    for (host, end) in said.iter().enumerate() {
        let lines = [
            format!("n{host}: bias float32 (4,), sum 6\n"),
            format!("n{host}: weight float64 (2, 3), sum 15\n"),
        ];
        assert_eq!(end.stdout_text(), lines.concat(), "{}", end.stderr);
    }
}

#[test]
fn the_document_begins_with_the_example() {
    let document = fs::read_to_string(own("../../docs/python.md")).expect("it is there");
    let example = fs::read_to_string(own("examples/weights.py")).expect("it is there");
    let first = document.split("```python\n").nth(1);
    assert!(
        first.is_some_and(|rest| rest.starts_with(&example)),
        "docs/python.md has another"
    );
}
