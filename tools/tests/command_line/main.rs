//! Behaviour of the program without a network: usage, plans, topologies, simulations. These tests
//! need no root.

mod documents;
mod dump;
mod plan;
mod simulate;

use ethbcast_tests::lab::{Ended, LIMIT, Run};
use std::process::Command;

/// Runs the program to its end.
fn ended_here(arguments: &[&str]) -> Ended {
    Run::here(env!("CARGO_BIN_EXE_ethbcast"), arguments).end(LIMIT)
}

#[test]
fn what_clap_does_not_understand_is_a_usage_error() {
    for (arguments, part) in [
        (&["frobnicate"][..], "frobnicate"),
        (&["send"], "SOURCE"),
        (&["recv"], "DEST"),
        (&["recv", "a", "b"], "unexpected"),
        (&["send", "--no-such-flag", "file"], "--no-such-flag"),
        (&["send", "-n", "0", "file"], "a whole number from 1 to 65534"),
        (&["send", "-n", "many", "file"], "a whole number from 1 to 65534"),
        (&["send", "--mtu", "large", "file"], "expected a whole number"),
        (&["recv", "-n", "3", "file"], "recv takes one DEST; the number of receivers is an option of send"),
        (&["lab", "up", "2", "--loss", "some"], "expected a number, such as 0.01"),
        (&["explain", "FOO"], "there is no code FOO: `ethbcast explain` lists them"),
        (&["send", "--min-receivers", "1", "file"], "--max-wait"),
        (&["send", "--max-wait=-1", "file"], "number of seconds"),
        (&["recv", "--max-wait", "soon", "file"], "number of seconds"),
        (&["recv", "--stat-period", "0.05", "file"], "at least 0.1 seconds"),
        (&["recv", "--serve", "--stat-period", "1", "/tmp"], "cannot be used with"),
        (&["recv", "--serve", "--metrics-file", "m.prom", "/tmp"], "cannot be used with"),
        (&["send", "--ether-type", "0800x", "file"], "hexadecimal"),
        (&["send", "--ether-type", "5ff", "file"], "not EtherTypes"),
        (&["send", "--ether-type", "0800", "file"], "IPv4's EtherType; 88b5 and 88b6"),
        (&["send", "--size", "1.5.5G", "-"], "1500, 64K, 1.5G or 5MB"),
        (&["send", "--preset", "strict", "file"], "paper"),
        (&["send", "--rate", "fast", "file"], "100mbit"),
        (&["send", "--rate", "400mbps", "file"], "50MB/s"),
        (&["send", "--rate", "64kbit", "file"], "at least 1mbit"),
        (&["send", "--rate=-5mbit", "file"], "100mbit"),
        (&["lab", "up"], "TOPOLOGY"),
        (&["lab", "exec", "n0"], "COMMAND"),
    ] {
        let ended = ended_here(arguments);
        ended.assert_code(2);
        assert!(ended.stderr.contains(part), "{arguments:?} should mention {part:?}: {}", ended.stderr);
        assert_eq!(ended.stdout_text(), "", "{arguments:?}");
    }
    ended_here(&[]).assert_code(2);
    for asked in ["--help", "--version"] {
        let ended = ended_here(&[asked]);
        ended.assert_code(0);
        assert!(
            ended.stdout_text().contains("ethbcast") && ended.stderr.is_empty(),
            "{asked} is an answer, not an error: {ended:?}"
        );
    }
}

#[test]
fn what_clap_lets_pass_and_cannot_be_meant_is_a_usage_error_too() {
    let long = "g".repeat(65);
    let expecting = ["recv", "--serve", "--expect", "image", "/tmp"];
    ended_here(&expecting).assert_refusal(2, &["--expect takes one thing", "leave out --serve"]);
    ended_here(&["send", "--via", "pigeon", "file"]).assert_refusal(2, &["pigeon", "chain", "cast", "auto"]);
    for via in [&[][..], &["--via", "auto"], &["--via", "chain"]] {
        for preset in ["paper", "push-pull"] {
            let command = [&["send", "--preset", preset, "file"], via].concat();
            ended_here(&command).assert_refusal(2, &[&format!("--preset {preset} "), "add --via cast"]);
        }
    }
    ended_here(&["send", "-n", "1", "-g", &long, "file"]).assert_refusal(2, &["65 bytes", "1 to 64", "-g"]);
    ended_here(&["recv", "-g", &long, "file"]).assert_refusal(2, &["65 bytes", "1 to 64", "-g"]);
    ended_here(&["recv", "-g", "", "file"]).assert_refusal(2, &["0 bytes", "1 to 64"]);
    for option in ["--json", "--json-stream"] {
        ended_here(&["recv", option, "-"]).assert_refusal(2, &["stdout", &format!("{option}:"), "into a file"]);
    }
    for (arguments, parts) in [
        (&["file"][..], &["for whom", "-n N", "--min-receivers", "--hosts n[1-31]"][..]),
        (&["-n", "1", "--min-receivers", "2", "--max-wait", "1", "file"], &["--min-receivers 2", "1 of -n"]),
        (&["-n", "3", "--hosts", "n[1-2]", "file"], &["-n 3", "2 of --hosts"]),
        (&["--hosts", "n[1-", "file"], &["--hosts", "character 5"]),
    ] {
        let ended = ended_here(&[&["send", "-i", "nosuch"], arguments].concat());
        ended.assert_refusal(2, parts);
    }
    for command in [&["send", "-n", "1"][..], &["recv"], &["cp", "-w", "n1"]] {
        let ended =
            ended_here(&[command, &["--metrics-file", "/nowhere/at/all.prom", "-i", "nosuch", "/tmp"]].concat());
        ended.assert_refusal(4, &["/nowhere/at/all.prom", "No such file", "--metrics-file"]);
    }
    let long = "n".repeat(256);
    ended_here(&["recv", "--host", &long, "file"]).assert_refusal(2, &["256 bytes", "1 to 255", "--host"]);
}

#[test]
fn with_json_a_failure_is_an_object_on_stdout_too() {
    for arguments in [
        &["send", "--json", "-i", "nosuch", "-n", "1", "--no-probe", "Cargo.toml"][..],
        &["recv", "--json", "-i", "nosuch", "/tmp"],
        &["send", "--json", "-n", "3", "--hosts", "n[1-2]", "file"],
        &["cp", "--json", "-i", "nosuch", "Cargo.toml", "n1:"],
        &["hosts", "--json", "-i", "nosuch"],
        &["plan", "--json", "--topology", "fig9-1", "--root", "n16", "--size", "1"],
        // Errors of the command-line parser.
        &["send", "--no-such-flag", "--json", "file"],
        &["send", "--json"],
        &["recv", "--json", "--stat-period", "0.05", "file"],
        &["perf", "--json", "-n", "many"],
    ] {
        let ended = ended_here(arguments);
        let object = ended.json();
        assert_eq!(object["schema"], 1, "{arguments:?}");
        assert_eq!(object["exit_code"].as_i64(), Some(i64::from(ended.code())), "{arguments:?}");
        let reason = object["error"].as_str().expect("a reason");
        let said = ended.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(!reason.is_empty() && said.contains(reason), "{reason}: {said}");
        if let Some(code) = object["finding"].as_str() {
            assert!(ended.stderr.contains(&format!("[{code}]")), "{}", ended.stderr);
        }
        let without: Vec<&str> = arguments.iter().copied().filter(|argument| *argument != "--json").collect();
        assert_eq!(ended_here(&without).stdout_text(), "", "it was not asked for");
    }
}

#[test]
fn with_json_stream_a_failure_is_the_last_event() {
    let ended = ended_here(&["send", "--json-stream", "-i", "nosuch", "-n", "1", "--no-probe", "Cargo.toml"]);
    ended.assert_code(4);
    for refused in [&["send", "--json", "--json-stream", "file"][..], &["recv", "--serve", "--json-stream", "/tmp"]] {
        let ended = ended_here(refused);
        ended.assert_code(2);
        let error = &ended.json()["report"]["error"];
        assert!(error.as_str().is_some_and(|error| error.contains("cannot be used with")), "{error}");
    }
    assert_eq!(ended_here(&["recv", "--no-such-flag", "--json", "-"]).stdout_text(), "", "stdout is for data there");
    let event = ended.json();
    assert_eq!((&event["event"], &event["version"]), (&"done".into(), &1.into()), "{event}");
    let report = &event["report"];
    assert_eq!(
        (&report["schema"], &report["exit_code"], &report["finding"]),
        (&1.into(), &4.into(), &"E-INTERFACE".into())
    );
    assert!(ended.stderr.contains(report["error"].as_str().expect("a reason")), "{report}: {}", ended.stderr);
}

#[test]
fn an_option_of_the_environment_is_named_where_it_is_at_fault_and_nowhere_else() {
    let stderr = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ethbcast"));
        command.args(arguments).env("ETHBCAST_CONFIG", "").env("ETHBCAST_HOST", "n0").env("ETHBCAST_SEND_MTU", "large");
        String::from_utf8(command.output().expect("it runs").stderr).expect("UTF-8")
    };
    let own = stderr(&["recv", "--no-such-flag", "file"]);
    assert!(own.contains("--no-such-flag") && !own.contains("n0"), "{own}");
    let other = stderr(&["send", "-n", "1", "file"]);
    assert!(other.ends_with("ethbcast: also in force: --mtu=large, from $ETHBCAST_SEND_MTU\n"), "{other}");
}

#[test]
fn every_launcher_gives_every_rank_the_drop_in() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let library = directory.path().join("libethbcast_mpi.so");
    std::fs::write(&library, "").expect("written");
    let library = library.canonicalize().expect("it is there");
    let path = library.to_str().expect("a plain path");
    let all = ended_here(&["mpi-env", "--library", path, "-i", "eth1", "--port", "/run/e.port", "--stats"]);
    all.assert_code(0);
    let set = [("LD_PRELOAD", path), ("ETHBCAST_MPI_INTERFACE", "eth1"), ("ETHBCAST_PORT", "/run/e.port")];
    let each = |form: &dyn Fn(&str, &str) -> String| {
        set.iter().chain(&[("ETHBCAST_MPI_STATS", "1")]).map(|(name, value)| form(name, value)).collect::<String>()
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
    assert_eq!(one.stdout_text(), format!("srun --export=ALL,LD_PRELOAD={path} PROGRAM\n"));
    ended_here(&["mpi-env", "--library", "/nonexistent"]).assert_refusal(4, &["no /nonexistent", "--library"]);
    ended_here(&["mpi-env", "--library", path, "-i", "eth 1"]).assert_refusal(2, &["launchers take apart"]);
    ended_here(&["port"]).assert_refusal(2, &["--serve"]);
}
