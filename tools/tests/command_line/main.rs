//! Tests of the program without a network or root: usage, topologies, broadcast trees, simulations.

mod documents;
mod dump;
mod keys;
mod plan;
mod simulate;

use ethbcast_tests::lab::{Ended, LIMIT, Run};
use std::process::Command;

/// Runs the program to its end.
fn ended_here(arguments: &[&str]) -> Ended {
    Run::here(env!("CARGO_BIN_EXE_ethbcast"), arguments).end(LIMIT)
}

/// The rows of a table of refusals: code, arguments, and words of stderr.
fn rows(table: &str) -> Vec<(i32, Vec<String>, Vec<&str>)> {
    let (mut first, mut rows) = ("", Vec::new());
    let word = |word: &str| match word.split_once('*') {
        Some((letter, count)) if count.parse::<usize>().is_ok() => {
            letter.repeat(count.parse().expect("a number"))
        }
        _ => word.replace("''", ""),
    };
    for line in table
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        if let Some(arguments) = line.strip_prefix('+') {
            first = arguments;
            continue;
        }
        let [code, arguments, words] = line.splitn(3, '|').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let arguments = first
            .split_whitespace()
            .chain(arguments.split_whitespace())
            .map(word)
            .collect();
        rows.push((
            code.trim().parse().expect("a code"),
            arguments,
            words[..].split(" + ").map(str::trim).collect(),
        ));
    }
    rows
}

#[test]
fn invalid_command_lines_are_refused_with_the_fault_on_one_line() {
    let rows = rows(include_str!("refusals.txt"));
    assert!(rows.len() > 140, "{} rows", rows.len());
    for (code, arguments, words) in rows {
        ended_here(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
            .assert_refusal(code, &words);
    }
}

#[test]
fn a_reader_that_closes_early_is_no_error() {
    for words in [
        &["completions", "bash"][..],
        &["--help"],
        &["explain", "E-PATH"],
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = Command::new(env!("CARGO_BIN_EXE_ethbcast"))
            .args(words)
            .stdout(writer)
            .output()
            .expect("it runs");
        assert_eq!(
            (output.status.code(), output.stderr.len()),
            (Some(0), 0),
            "{words:?}: {output:?}"
        );
    }
}

#[test]
fn help_and_version_are_answers_and_no_errors() {
    for asked in ["--help", "--version"] {
        let ended = ended_here(&[asked]);
        ended.assert_code(0);
        assert!(
            ended.stdout_text().contains("ethbcast") && ended.stderr.is_empty(),
            "{asked}: {ended:?}"
        );
    }
}

#[test]
fn with_json_a_failure_is_an_object_on_stdout_too() {
    for arguments in [
        &[
            "send",
            "--json",
            "-i",
            "nosuch",
            "-n",
            "1",
            "--no-probe",
            "Cargo.toml",
        ][..],
        &["recv", "--json", "-i", "nosuch", "/tmp"],
        &["send", "--json", "-n", "3", "--hosts", "n[1-2]", "file"],
        &["cp", "--json", "-i", "nosuch", "Cargo.toml", "n1:"],
        &["hosts", "--json", "-i", "nosuch"],
        &[
            "plan",
            "--json",
            "--topology",
            "fig9-1",
            "--root",
            "n16",
            "--size",
            "1",
        ],
        // Errors of the command-line parser.
        &["send", "--no-such-flag", "--json", "file"],
        &["send", "--json"],
        &["recv", "--json", "--stat-period", "0.05", "file"],
        &["perf", "--json", "-n", "many"],
    ] {
        let ended = ended_here(arguments);
        let object = ended.json();
        assert_eq!(object["schema"], 1, "{arguments:?}");
        assert_eq!(
            object["exit_code"].as_i64(),
            Some(i64::from(ended.code())),
            "{arguments:?}"
        );
        let reason = object["error"].as_str().expect("a reason");
        let said = ended
            .stderr
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        assert!(
            !reason.is_empty() && said.contains(reason),
            "{reason}: {said}"
        );
        if let Some(code) = object["finding"].as_str() {
            assert!(
                ended.stderr.contains(&format!("[{code}]")),
                "{}",
                ended.stderr
            );
        }
        let without: Vec<&str> = arguments
            .iter()
            .copied()
            .filter(|argument| *argument != "--json")
            .collect();
        assert_eq!(
            ended_here(&without).stdout_text(),
            "",
            "it was not asked for"
        );
    }
}

#[test]
fn with_json_stream_a_failure_is_the_last_event() {
    let ended = ended_here(&[
        "send",
        "--json-stream",
        "-i",
        "nosuch",
        "-n",
        "1",
        "--no-probe",
        "Cargo.toml",
    ]);
    ended.assert_code(4);
    for refused in [
        &["send", "--json", "--json-stream", "file"][..],
        &["recv", "--serve", "--json-stream", "/tmp"],
    ] {
        let ended = ended_here(refused);
        ended.assert_code(2);
        let error = &ended.json()["report"]["error"];
        assert!(
            error
                .as_str()
                .is_some_and(|error| error.contains("cannot be used with")),
            "{error}"
        );
    }
    assert_eq!(
        ended_here(&["recv", "--no-such-flag", "--json", "-"]).stdout_text(),
        "",
        "stdout is for data there"
    );
    let event = ended.json();
    assert_eq!(
        (&event["event"], &event["version"]),
        (&"done".into(), &1.into()),
        "{event}"
    );
    let report = &event["report"];
    assert_eq!(
        (&report["schema"], &report["exit_code"], &report["finding"]),
        (&1.into(), &4.into(), &"E-INTERFACE".into())
    );
    assert!(
        ended
            .stderr
            .contains(report["error"].as_str().expect("a reason")),
        "{report}: {}",
        ended.stderr
    );
}

#[test]
fn without_a_configuration_all_options_have_their_defaults_and_that_is_said() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ethbcast"));
    command.args(["config", "check"]).env("ETHBCAST_CONFIG", "");
    let ended = Run::to_end(command, LIMIT);
    ended.assert_code(0);
    assert!(
        ended
            .stdout_text()
            .contains("all options have their defaults"),
        "{}",
        ended.stdout_text()
    );
}

#[test]
fn an_option_of_the_environment_is_named_where_it_is_at_fault_and_nowhere_else() {
    let stderr = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ethbcast"));
        command
            .args(arguments)
            .env("ETHBCAST_CONFIG", "")
            .env("ETHBCAST_HOST", "n0")
            .env("ETHBCAST_SEND_MTU", "large");
        String::from_utf8(command.output().expect("it runs").stderr).expect("UTF-8")
    };
    let own = stderr(&["recv", "--no-such-flag", "file"]);
    assert!(
        own.contains("--no-such-flag") && !own.contains("n0"),
        "{own}"
    );
    let other = stderr(&["send", "-n", "1", "file"]);
    assert!(
        other.ends_with("ethbcast: also in force: --mtu=large, from $ETHBCAST_SEND_MTU\n"),
        "{other}"
    );
}

#[test]
fn an_option_of_the_environment_that_means_nothing_here_hinders_nothing() {
    let given = [
        ("ETHBCAST_RECV_FORCE", "true"),
        ("ETHBCAST_SEND_EXCLUDE", "*.o"),
    ];
    for arguments in [&["recv", "-"][..], &["send", "-n", "1", "Cargo.toml"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ethbcast"));
        command.args(arguments).args(["-i", "nosuch0"]);
        command.env("ETHBCAST_CONFIG", "").envs(given);
        let said = command.output().expect("it runs").stderr;
        let said = String::from_utf8(said).expect("UTF-8");
        assert!(said.contains("there is no interface nosuch0"), "{said}");
    }
}

#[test]
fn every_launcher_gives_every_rank_the_drop_in() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let library = directory.path().join("libethbcast_mpi.so");
    std::fs::write(&library, "").expect("written");
    let library = library.canonicalize().expect("it is there");
    let path = library.to_str().expect("a plain path");
    let all = ended_here(&[
        "mpi-env",
        "--library",
        path,
        "-i",
        "eth1",
        "--port",
        "/run/e.port",
        "--stats",
    ]);
    all.assert_code(0);
    let set = [
        ("LD_PRELOAD", path),
        ("ETHBCAST_MPI_INTERFACE", "eth1"),
        ("ETHBCAST_PORT", "/run/e.port"),
    ];
    let each = |form: &dyn Fn(&str, &str) -> String| {
        set.iter()
            .chain(&[("ETHBCAST_MPI_STATS", "1")])
            .map(|(name, value)| form(name, value))
            .collect::<String>()
    };
    let wanted = format!(
        "# Open MPI\nmpirun{} PROGRAM\n# MPICH, Intel MPI (Hydra)\nmpiexec{} PROGRAM\n\
         # Slurm\nsrun --export=ALL{} PROGRAM\n",
        each(&|name, value| format!(" -x {name}={value}")),
        each(&|name, value| format!(" -genv {name} {value}")),
        each(&|name, value| format!(",{name}={value}")),
    );
    assert_eq!(all.stdout_text(), wanted);
    let one = ended_here(&["mpi-env", "--library", path, "--launcher", "srun"]);
    assert_eq!(
        one.stdout_text(),
        format!("srun --export=ALL,LD_PRELOAD={path} PROGRAM\n")
    );
    ended_here(&["mpi-env", "--library", path, "-i", "eth 1"])
        .assert_refusal(2, &["launchers take apart"]);
}
