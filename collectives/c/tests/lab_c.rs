//! Tests of the C library: programs in C and C++ on simulated hosts (network namespaces), its
//! symbols and header.

#[path = "../../../transport/tests/common/accepted.rs"]
mod accepted;

use ethbcast_collectives::NamedOptions;
use ethbcast_collectives::communicator::Communicator;
use ethbcast_tests::lab::{COMPILE_LIMIT, LIMIT, Run, Site, content, one_switch, put_whole};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Warnings are errors, and C is standard C.
const STRICT: [&str; 4] = ["-O1", "-Wall", "-Wextra", "-Werror"];
const SANITIZED: [&str; 3] = [
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-g",
];
/// System libraries that a Rust library needs, from `rustc --print native-static-libs`.
const STATIC_NEEDS: [&str; 4] = ["-lpthread", "-ldl", "-lm", "-lgcc_s"];

fn own(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn library(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows where it is");
    let beside = test.with_file_name(name);
    assert!(beside.is_file(), "Cargo has built no {}", beside.display());
    beside
}

fn compiled(name: &str, source: &str, more: &[&str]) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("c");
    fs::create_dir_all(&directory).expect("a directory");
    let program = directory.join(name);
    let is_plus = source.ends_with(".cpp");
    let mut compiler = Command::new(if is_plus { "g++" } else { "gcc" });
    compiler
        .arg(if is_plus { "-std=c++11" } else { "-std=gnu11" })
        .args(STRICT)
        .arg("-Wpedantic");
    compiler.arg("-I").arg(own("include")).arg(own(source));
    if more.contains(&"-static-libgcc") {
        compiler
            .arg(library("libethbcast.a"))
            .args(more)
            .args(STATIC_NEEDS);
    } else {
        let shared = library("libethbcast.so");
        let directory = shared.parent().expect("it lies in one").display();
        compiler
            .args(more)
            .arg(&shared)
            .arg(format!("-Wl,-rpath,{directory}"))
            .arg("-lpthread");
    }
    put_whole(&program, |made| {
        compiler.arg("-o").arg(made);
        Run::to_end(compiler, COMPILE_LIMIT).assert_code(0);
    });
    program
}

/// Runs a program once on each host; returns the outputs.
fn on_each(site: &Site, hosts: usize, program: &Path, words: &[&str]) -> Vec<String> {
    let runs: Vec<Run> = (0..hosts)
        .map(|host| start(site, host, program, words))
        .collect();
    let ends: Vec<_> = runs.into_iter().map(|run| run.end(LIMIT)).collect();
    ends.iter().for_each(|end| end.assert_code(0));
    ends.iter().map(|end| end.stdout_text()).collect()
}

fn start(site: &Site, host: usize, program: &Path, words: &[&str]) -> Run {
    let host = format!("n{host}");
    let mut command = site.command(&host, program.to_str().expect("a path of the build"));
    command.args(words);
    Run::start(&host, command)
}

fn declared(header: &str) -> BTreeSet<String> {
    let words = header.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let is_call =
        |word: &&str| word.starts_with("ethbcast_") && header.contains(&format!("{word}("));
    words.filter(is_call).map(str::to_owned).collect()
}

#[test]
fn the_library_exports_what_the_header_declares_and_nothing_else() {
    let header =
        fs::read_to_string(own("include/ethbcast.h")).expect("the header is kept in the tree");
    let mut nm = Command::new("nm");
    nm.args(["-D", "--defined-only", "--format=just-symbols"]);
    nm.arg(library("libethbcast.so"));
    let exported: BTreeSet<String> = Run::to_end(nm, LIMIT)
        .stdout_text()
        .lines()
        .map(str::to_owned)
        .collect();
    assert_eq!(exported, declared(&header));
    assert!(exported.len() > 30, "{exported:?}");
}

#[test]
fn the_header_is_what_cbindgen_makes_of_the_library() {
    let config = cbindgen::Config::from_file(own("cbindgen.toml")).expect("it can be read");
    let made = cbindgen::generate_with_config(own(""), config).expect("the library can be read");
    let mut text = Vec::new();
    made.write(&mut text);
    let text = String::from_utf8(text).expect("a header is text");
    accepted::compare(
        &own("include/ethbcast.h"),
        &text,
        "-p ethbcast-c --test lab_c",
    );
}

#[test]
fn the_header_and_the_document_name_every_option() {
    let header = fs::read_to_string(own("include/ethbcast.h")).expect("it is there");
    let comment = header
        .split("ethbcast_status ethbcast_options_set(")
        .next()
        .expect("it is declared");
    let comment = comment.rsplit("/*").next().expect("it has a comment");
    let document = fs::read_to_string(own("../../docs/c.md")).expect("it is there");
    let options = document
        .split("## Options")
        .nth(1)
        .and_then(|rest| rest.split("\n## ").next());
    let options = options.expect("it has this part");
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    for name in NamedOptions::names() {
        assert!(
            comment
                .split(|letter| !is_letter(letter))
                .any(|word| word == name),
            "the header lacks {name}"
        );
        assert!(
            options.contains(&format!("`{name}`")),
            "docs/c.md lacks {name}"
        );
    }
}

#[test]
fn the_document_begins_with_the_example() {
    let document = fs::read_to_string(own("../../docs/c.md")).expect("it is there");
    let example = fs::read_to_string(own("examples/broadcast.c")).expect("it is there");
    assert!(
        document
            .split("```c\n")
            .nth(1)
            .is_some_and(|rest| rest.starts_with(&example)),
        "docs/c.md has another"
    );
}

#[test]
fn lab_the_example_of_sixty_lines_says_hello_on_every_rank() {
    let lines = fs::read_to_string(own("examples/broadcast.c"))
        .expect("it is there")
        .lines()
        .count();
    assert!(lines <= 60, "{lines} lines");
    let site = Site::beside("c_example", one_switch(4));
    for (name, more) in [
        ("broadcast", &[][..]),
        ("broadcast-sanitized", &SANITIZED[..]),
    ] {
        let said = on_each(
            &site,
            4,
            &compiled(name, "examples/broadcast.c", more),
            &["4"],
        );
        for (rank, text) in said.iter().enumerate() {
            let token = if rank == 0 { 5 } else { rank + 1 };
            assert_eq!(
                text,
                &format!("rank {rank} of 4, n{rank}: hello, cluster, token {token}\n")
            );
        }
    }
}

#[test]
fn lab_cpp_calls_everything_a_communicator_has() {
    let site = Site::beside("cpp_ranks", one_switch(3));
    let program = compiled("ranks", "tests/ranks.cpp", &SANITIZED);
    let said = on_each(&site, 3, &program, &["3"]);
    assert_eq!(
        said,
        (0..3)
            .map(|rank| format!("rank {rank} is content\n"))
            .collect::<Vec<_>>()
    );
}

#[test]
fn lab_a_forked_child_has_no_part_in_its_parents_group() {
    let site = Site::beside("c_fork", one_switch(2));
    let said = on_each(&site, 2, &compiled("fork", "tests/fork.c", &[]), &[]);
    assert_eq!(said, ["done\n", "done\n"]);
}

#[test]
fn lab_sessions_move_files_and_memory() {
    let site = Site::beside("c_session", one_switch(3));
    let program = compiled("session", "tests/session.c", &SANITIZED);
    let bytes = content(1, 3_000_001);
    let source = site.file("source", &bytes);
    let dests = [site.path("one"), site.path("two")];
    let path = |path: &Path| path.to_str().expect("a path of the test").to_owned();
    let receivers: Vec<Run> = (0..2)
        .map(|at| {
            start(
                &site,
                at + 1,
                &program,
                &["receive", "files", &path(&dests[at])],
            )
        })
        .collect();
    let sender = start(&site, 0, &program, &["send", "files", &path(&source)]).end(LIMIT);
    sender.assert_code(0);
    let digest = sender.stdout_text();
    assert!(
        digest.starts_with("3000001 bytes, first of the digest ")
            && digest.contains(", 2 receivers"),
        "{digest}"
    );
    assert!(digest.ends_with(", 3000001 travelled\n"), "{digest}");
    for (receiver, dest) in receivers.into_iter().zip(&dests) {
        receiver.end(LIMIT).assert_code(0);
        assert!(
            fs::read(dest).expect("written") == bytes,
            "other bytes in {}",
            dest.display()
        );
    }

    // Memory to memory, where one receiver has no room: it is refused, and the sender waits in vain
    // for two.
    let receivers = [(1, "100"), (2, "100")]
        .map(|(host, room)| start(&site, host, &program, &["receive-buffer", "m", room]));
    start(
        &site,
        0,
        &program,
        &["send-buffer", "m", "from memory to memory"],
    )
    .end(LIMIT)
    .assert_code(0);
    for receiver in receivers {
        let end = receiver.end(LIMIT);
        end.assert_code(0);
        assert!(
            end.stdout_text()
                .starts_with("from memory to memory\n21 bytes"),
            "{}",
            end.stdout_text()
        );
    }
    // The same with the option delta, over the buffers' earlier bytes.
    let receivers = [(1, "100"), (2, "30")]
        .map(|(host, room)| start(&site, host, &program, &["receive-buffer", "delta", room]));
    start(
        &site,
        0,
        &program,
        &["send-buffer", "delta", "from memory to memory"],
    )
    .end(LIMIT)
    .assert_code(0);
    receivers
        .into_iter()
        .for_each(|receiver| assert!(receiver.end(LIMIT).stdout_text().starts_with("from memory")));
    // A receiver without room for a file is refused before the start, with both lengths.
    let sender = start(&site, 0, &program, &["send", "small", &path(&source)]);
    let end = start(&site, 1, &program, &["receive-buffer", "small", "10"]).end(LIMIT);
    end.assert_code(4);
    assert!(
        end.stderr.contains("room for 10 bytes") && end.stderr.contains("has 2.86 MiB"),
        "{}",
        end.stderr
    );
    drop(sender);
    // A receiver on the sender's own host gets nothing.
    let receiver = start(&site, 0, &program, &["receive-buffer", "own", "100"]);
    let sender = start(&site, 0, &program, &["send-buffer", "own", "to nobody"]);
    receiver
        .end(LIMIT)
        .assert_refusal(2, &["runs on this host, behind the same interface eth0"]);
    let late = start(&site, 0, &program, &["receive-buffer", "own", "100"]).end(LIMIT);
    late.assert_refusal(2, &["the sender of group own"]);
    sender
        .end(LIMIT)
        .assert_refusal(2, &["the receivers of group own run on this host", "eth0"]);
    let end = start(&site, 1, &program, &["cancelled", "nobody", "-"]).end(LIMIT);
    end.assert_refusal(9, &["cancelled"]);
}

#[test]
fn plans_and_bad_input_need_no_network() {
    for (name, more) in [
        ("alone", &["-static-libgcc"][..]),
        ("alone-sanitized", &SANITIZED[..]),
    ] {
        let program = compiled(name, "tests/session.c", more);
        let ended =
            Run::here(program.to_str().expect("a path of the build"), &["alone"]).end(LIMIT);
        ended.assert_code(0);
        assert!(
            ended.stdout_text().ends_with("hosts planned\n"),
            "{name}: {ended:?}"
        );
    }
}

/// The least of many short batches shows the cost of the call itself, without other load. The limit
/// of ten microseconds is ten times the cost on a quiet machine.
#[test]
fn lab_a_call_from_c_costs_hardly_more() {
    let site = Site::beside("c_overhead", one_switch(1));
    let said = on_each(
        &site,
        1,
        &compiled("overhead", "tests/overhead.c", &[]),
        &[],
    );
    let from_c: f64 = said[0].trim().parse().expect("nanoseconds");
    let from_rust = site.lab().run_on("n0", || {
        let alone = Communicator::join("alone", 1).expect("nobody else is needed");
        let batch = || {
            let began = Instant::now();
            for _ in 0..100 {
                alone
                    .broadcast(0, &mut [0; 256])
                    .expect("there is nobody to wait for");
            }
            began.elapsed().as_nanos() as f64 / 100.0
        };
        (0..50).map(|_| batch()).fold(f64::MAX, f64::min)
    });
    let from_rust = from_rust.expect("the lab has this host");
    println!("256 bytes: {from_c:.0} ns from C, {from_rust:.0} ns from Rust");
    assert!(
        from_c <= from_rust + 10_000.0,
        "{from_c} ns from C, {from_rust} ns from Rust"
    );
}
