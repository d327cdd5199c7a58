//! Tests that MPI calls by ethbcast give the same bytes and errors as the MPI itself.

use crate::{Bed, compiled, directory, here, of_this_size, own, taken};
use ethbcast_lab::LabConfig;
use ethbcast_tests::lab::{
    COMPILE_LIMIT, LIMIT, Mpi, Run, names_in, one_switch, power_off, within,
};
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn lab_every_call_gives_what_the_mpi_would() {
    let bed = Bed::new("mpi_correct", one_switch(4), 1);
    let parts = "roots named derived constructors blocks reductions communicators in-flight threads arguments large";
    let parts: Vec<&str> = parts.split(' ').collect();
    for &mpi in here() {
        let program = compiled(
            mpi,
            "mpicc",
            "tests/correct.c",
            &["-std=gnu11", "-O1", "-lpthread"],
        );
        // `CORRECT_COMMUNICATORS=200` is the long form; some of the simultaneous ones get no place.
        let turns = std::env::var("CORRECT_COMMUNICATORS").unwrap_or_else(|_| "8".into());
        let more = [
            ("CORRECT_COMMUNICATORS", turns.as_str()),
            ("ETHBCAST_MPI_COMMUNICATORS", "4"),
        ];
        let ended = bed.preloaded(mpi, &program, &parts, &more);
        ended.assert_code(0);
        let said = ended.stdout_text();
        if said.contains("large: there is no such call") {
            eprintln!(
                "NOT TESTED WITH {}: the _c forms, which it does not have",
                mpi.name().to_uppercase()
            );
        }
        for part in &parts {
            assert!(
                said.contains(&format!("{part}: all is well")),
                "{part} with {mpi:?}:\n{said}{}",
                ended.stderr
            );
        }
        assert!(
            ended.stderr.contains("4 ranks on 4 hosts"),
            "{}",
            ended.stderr
        );
        assert!(
            taken(&ended, "bcast") > 200 && taken(&ended, "allgather") > 5,
            "{}",
            ended.stderr
        );
        assert!(
            taken(&ended, "allreduce") >= 132 && taken(&ended, "reduce") >= 132,
            "{}",
            ended.stderr
        );
        for reason in [
            "floats, which are not asked for",
            "neither sum, minimum nor maximum",
            "a reduction in which MPIs differ",
        ] {
            assert!(ended.stderr.contains(reason), "{reason}: {}", ended.stderr);
        }
        assert!(
            ended.stderr.contains("an intercommunicator"),
            "{}",
            ended.stderr
        );
        assert!(
            ended.stderr.contains("too many communicators at a time"),
            "{}",
            ended.stderr
        );
    }
}

/// Sums of floats among them, of which those of whole numbers are exact in any order.
#[test]
fn lab_reductions_have_the_mpis_bits() {
    let bed = Bed::new("mpi_reductions", one_switch(5), 1);
    for &mpi in of_this_size() {
        let program = compiled(
            mpi,
            "mpicc",
            "tests/correct.c",
            &["-std=gnu11", "-O1", "-lpthread"],
        );
        let take = [("ETHBCAST_MPI_TAKE", "allreduce,reduce,floats")];
        let ended = bed.preloaded(mpi, &program, &["reductions"], &take);
        ended.assert_code(0);
        assert!(
            taken(&ended, "allreduce") >= 184 && taken(&ended, "reduce") >= 184,
            "{mpi:?}: {}",
            ended.stderr
        );
        assert!(!ended.stderr.contains("floats, which"), "{}", ended.stderr);
    }
}

/// Rare and legal programs end as they do with the MPI alone, with the drop-in on and off.
#[test]
fn lab_what_the_mpi_alone_does_the_drop_in_does() {
    let bed = Bed::new("mpi_edges", one_switch(4), 1);
    let parts = ["sessions", "bottom", "looked-up", "groups", "spawned"];
    for &mpi in here() {
        let program = compiled(
            mpi,
            "mpicc",
            "tests/edges.c",
            &["-std=gnu11", "-O1", "-ldl"],
        );
        let run = |words: &[&str], set: &[(&str, &str)]| {
            let ended = if set.is_empty() {
                bed.alone(mpi, &program, words)
            } else {
                bed.preloaded(mpi, &program, words, set)
            };
            (
                ended.code(),
                ended
                    .stdout_text()
                    .lines()
                    .filter(|line| line.contains("well"))
                    .count(),
                ended.stderr,
            )
        };
        for words in parts.map(|part| vec![part]).into_iter().chain([vec![
            "sessions",
            "bottom",
            "looked-up",
        ]]) {
            let (code, well, said) = run(&words, &[]);
            // MPICH 4.0 crashes in MPI_Init after a session, at one rank or another: nothing to
            // compare.
            let crashes = said.contains("Segmentation fault");
            for more in ["on", "off"].into_iter().filter(|_| !crashes) {
                let (with, well_with, said_with) = run(&words, &[("ETHBCAST_MPI", more)]);
                assert_eq!(
                    (with, well_with),
                    (code, well),
                    "{words:?} with {mpi:?}: {said}\n{more}: {said_with}"
                );
            }
        }
        let (code, well, said) = run(
            &["bottom", "looked-up", "groups"],
            &[("ETHBCAST_MPI", "on")],
        );
        assert_eq!((code, well), (0, 3), "{mpi:?}: {said}");
        assert!(
            said.contains("bcast: ") && said.contains("4 ranks on 4 hosts"),
            "{mpi:?}: {said}"
        );
    }
}

#[test]
fn the_document_begins_with_the_example() {
    let document = std::fs::read_to_string(own("../../docs/mpi.md")).expect("it is there");
    let example = std::fs::read_to_string(own("examples/table.c")).expect("it is there");
    assert!(
        document
            .split("```c\n")
            .nth(1)
            .is_some_and(|rest| rest.starts_with(&example)),
        "docs/mpi.md has another"
    );
}

/// Compiled without any mention of ethbcast, and run as docs/mpi.md says, with cables that make the
/// wire worth it.
#[test]
fn lab_the_example_is_an_mpi_program_as_any() {
    let config = LabConfig {
        rate_bits_per_second: Some(100_000_000),
        ..one_switch(4)
    };
    let bed = Bed::new("mpi_example", config, 1);
    for &mpi in of_this_size() {
        let program = compiled(
            mpi,
            "mpicc",
            "examples/table.c",
            &["-O2", "-Wall", "-Wextra", "-Werror"],
        );
        let ended = bed.preloaded(mpi, &program, &[], &[]);
        ended.assert_code(0);
        for rank in 0..4 {
            let said = format!("rank {rank} of 4: sum 523641600, ");
            assert!(
                ended.stdout_text().contains(&said),
                "{said}? {}{}",
                ended.stdout_text(),
                ended.stderr
            );
        }
        assert!(
            ended.stderr.contains("bcast: 1 calls taken, 8388608 bytes"),
            "{mpi:?}: {}",
            ended.stderr
        );
    }
}

#[test]
fn lab_ranks_that_share_hosts_are_served_by_one_of_them() {
    let bed = Bed::new("mpi_nodes", one_switch(3), 2);
    for &mpi in of_this_size() {
        let program = compiled(
            mpi,
            "mpicc",
            "tests/correct.c",
            &["-std=gnu11", "-O1", "-lpthread"],
        );
        let mut parts = vec!["roots", "derived", "blocks", "in-flight"];
        // MPICH 4.0 crashes in a reduction in place to a rank other than a host's first.
        if mpi != Mpi::Mpich {
            parts.push("reductions");
        }
        let ended = bed.preloaded(mpi, &program, &parts, &[]);
        ended.assert_code(0);
        assert!(
            ended.stderr.contains("6 ranks on 3 hosts"),
            "{}",
            ended.stderr
        );
        assert!(taken(&ended, "bcast") > 40, "{}", ended.stderr);
        assert!(
            ended.stderr.contains("ranks that share hosts"),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn lab_fortran_reaches_the_drop_in_by_both_modules() {
    let bed = Bed::new("mpi_fortran", one_switch(3), 1);
    for &mpi in of_this_size() {
        for module in ["MPI", "F08"] {
            let program = compiled(
                mpi,
                "mpifort",
                "tests/correct.F90",
                &["-O1", &format!("-D{module}")],
            );
            let ended = bed.preloaded(mpi, &program, &[], &[]);
            ended.assert_code(0);
            assert!(
                ended.stdout_text().contains("fortran: all is well"),
                "{}",
                ended.stderr
            );
            assert!(
                taken(&ended, "bcast") >= 3,
                "{module} with {mpi:?}: {}",
                ended.stderr
            );
            assert_eq!(
                (taken(&ended, "allreduce"), taken(&ended, "reduce")),
                (2, 1),
                "{module} with {mpi:?}: {}",
                ended.stderr
            );
            assert!(
                !ended.stderr.contains("this MPI has no"),
                "{module} with {mpi:?}: {}",
                ended.stderr
            );
            let ended = bed.preloaded(mpi, &program, &[], &[("ETHBCAST_MPI_TRIAL", "on")]);
            ended.assert_code(0);
        }
    }
}

#[test]
fn lab_cpp_reaches_the_drop_in_as_c_does() {
    let bed = Bed::new("mpi_cpp", one_switch(3), 1);
    for &mpi in of_this_size() {
        let program = compiled(
            mpi,
            "mpicxx",
            "tests/correct.cpp",
            &["-std=c++11", "-O1", "-Wall"],
        );
        let ended = bed.preloaded(mpi, &program, &[], &[]);
        ended.assert_code(0);
        assert!(
            ended.stdout_text().contains("c++: all is well"),
            "{}",
            ended.stderr
        );
        assert!(
            taken(&ended, "bcast") >= 9 && taken(&ended, "allgather") == 1,
            "{mpi:?}: {}",
            ended.stderr
        );
    }
}

#[test]
fn lab_failures_name_hosts_and_ranks_of_the_world() {
    let bed = Bed::new("mpi_named", one_switch(4), 1);
    for &mpi in of_this_size() {
        let program = compiled(
            mpi,
            "mpicc",
            "tests/correct.c",
            &["-std=gnu11", "-O1", "-lpthread"],
        );
        let ended = bed.preloaded(mpi, &program, &["lengths-of-some"], &[]);
        for words in [
            "rank 1 of 3 (rank 2 of MPI_COMM_WORLD)",
            "calls differ",
            "rank 2 of MPI_COMM_WORLD (q2)",
        ] {
            assert!(
                ended.stderr.contains(words),
                "{mpi:?}, {words}: {}{}",
                ended.stdout_text(),
                ended.stderr
            );
        }
        assert!(!ended.stderr.contains("(0000"), "{}", ended.stderr);
    }
}

#[test]
fn lab_lengths_that_differ_are_an_error_and_no_hang() {
    let bed = Bed::new("mpi_lengths", one_switch(3), 1);
    for &mpi in of_this_size() {
        let program = compiled(
            mpi,
            "mpicc",
            "tests/correct.c",
            &["-std=gnu11", "-O1", "-lpthread"],
        );
        let ended = bed.preloaded(mpi, &program, &["lengths"], &[]);
        assert!(
            ended.stderr.contains("calls differ"),
            "{mpi:?}: {}{}",
            ended.stdout_text(),
            ended.stderr
        );
        let ended = bed.preloaded(mpi, &program, &["differing-twice"], &[]);
        ended.assert_code(0);
        assert!(
            ended.stderr.contains("calls differ"),
            "{mpi:?}: {}",
            ended.stderr
        );
        // By their lengths some ranks' calls are the MPI's own, and others' use the wire.
        let split = [
            ("ETHBCAST_MPI_MIN_BYTES", "4096"),
            ("ETHBCAST_MPI_MAX_BYTES", "1000000"),
        ];
        for part in ["decided", "stuck-elsewhere", "stuck-root"] {
            let ended = bed.preloaded(mpi, &program, &[part], &split);
            assert!(
                ended.stderr.contains("calls differ"),
                "{mpi:?}, {part}: {}{}",
                ended.stdout_text(),
                ended.stderr
            );
            assert!(
                !ended.stderr.contains(", line "),
                "{mpi:?}, {part}: {}{}",
                ended.stdout_text(),
                ended.stderr
            );
        }
        // As long as the wire has not paid, all calls are the MPI's, and end as they do without.
        let (alone, more) = (
            bed.alone(mpi, &program, &["lengths"]),
            [("ETHBCAST_MPI_TRIAL", "on")],
        );
        let ended = bed.preloaded(mpi, &program, &["lengths"], &more);
        assert_eq!(
            ended.code(),
            alone.code(),
            "{mpi:?}: {}{}",
            ended.stdout_text(),
            ended.stderr
        );
    }
}

#[test]
fn lab_who_is_through_leaves_nobody_who_comes_late_without_the_bytes() {
    let bed = Bed::new("mpi_late", one_switch(3), 1);
    for &mpi in of_this_size() {
        let program = compiled(
            mpi,
            "mpicc",
            "tests/correct.c",
            &["-std=gnu11", "-O1", "-lpthread"],
        );
        let ended = bed.preloaded(mpi, &program, &["late"], &[]);
        ended.assert_code(0);
        assert!(taken(&ended, "bcast") == 2, "{mpi:?}: {}", ended.stderr);
    }
}

#[test]
fn lab_a_rank_that_dies_in_a_broadcast_is_reported_to_all_others() {
    // Slow enough that the rank dies in the middle of a call.
    let config = LabConfig {
        rate_bits_per_second: Some(100_000_000),
        ..one_switch(3)
    };
    for ranks_per_host in [1, 2] {
        let mut bed = Bed::new("mpi_dying", config.clone(), ranks_per_host);
        bed.outlives = true;
        for &mpi in of_this_size() {
            let program = compiled(
                mpi,
                "mpicc",
                "tests/dying.c",
                &["-std=gnu11", "-O1", "-Wall"],
            );
            // The root, and the last rank, which is not on the wire where two ranks share a host.
            for dies in [0, 3 * ranks_per_host - 1] {
                let told = bed.site.directory(&format!("told-{}-{dies}", mpi.name()));
                let number = dies.to_string();
                let words = [number.as_str(), told.to_str().expect("a path of the test")];
                let run = bed.start_preloaded(mpi, &program, &words, &[]);
                let others = (0..3 * ranks_per_host).filter(|rank| *rank != dies);
                // Hydra ends everything on the dead rank's host anyway, sooner or later than
                // instructed.
                let host = |rank: usize| rank / ranks_per_host;
                let lives = |rank: &usize| mpi == Mpi::OpenMpi || host(*rank) != host(dies);
                let name = |rank: usize| format!("other-{rank}");
                let seen = within(LIMIT, || {
                    let told = names_in(&told);
                    others
                        .clone()
                        .filter(lives)
                        .all(|rank| told.contains(&name(rank)))
                        .then_some(told)
                });
                let seen = seen.unwrap_or_else(|| {
                    panic!(
                        "{dies} dies, {mpi:?}: {:?}\n{}",
                        names_in(&told),
                        run.stderr()
                    );
                });
                let non_member = seen
                    .iter()
                    .find(|told| !others.clone().any(|rank| name(rank) == **told));
                assert_eq!(non_member, None, "{dies} dies, {mpi:?}: {seen:?}");
                // The launcher's exit after losing a rank does not matter; everything that it
                // started ends now.
                drop(run);
                (0..3).for_each(|host| {
                    power_off(bed.site.lab(), &format!("n{host}")).expect("ended")
                });
            }
        }
    }
}

/// One binary, with a stand-in that turns the standard's interface into MPICH's, and with a real
/// MPI of that interface if there is one: `ETHBCAST_MPI_STANDARD` is its installation folder (`pip
/// install mpich` puts it into that of a virtual environment).
#[test]
fn lab_an_mpi_of_the_standards_own_interface_needs_no_back_end_beside_the_library() {
    let mut bed = Bed::new("mpi_standard", one_switch(3), 1);
    let folder = directory().join("standard");
    std::fs::create_dir_all(&folder).expect("a directory");
    let text = |path: &Path| path.to_str().expect("a path").to_owned();
    let (library, program) = (folder.join("libmpi_abi.so.1"), folder.join("program"));
    let flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra"];
    let shared = ["-shared", "-fPIC", "-Wl,-soname,libmpi_abi.so.1", "-ldl"];
    let mut places = Vec::new();
    if here().contains(&Mpi::Mpich) {
        let more = [&flags[..], &shared].concat();
        // The header only; the stand-in loads MPICH's library itself.
        let mut mpicc = Command::new("mpicc.mpich");
        mpicc.arg("-compile_info");
        let header = Run::to_end(mpicc, COMPILE_LIMIT).stdout_text();
        let header = header
            .split_whitespace()
            .filter(|word| word.starts_with("-I"));
        let mut gcc = Command::new("gcc");
        gcc.arg(own("tests/standard/library.c"))
            .args(header)
            .args(more)
            .arg("-o")
            .arg(&library);
        Run::to_end(gcc, COMPILE_LIMIT).assert_code(0);
        let mut gcc = Command::new("gcc");
        gcc.arg(own("tests/standard/program.c"))
            .args(flags)
            .arg(&library)
            .arg("-o")
            .arg(&program);
        Run::to_end(gcc, COMPILE_LIMIT).assert_code(0);
        places.push((None, text(&folder)));
    }
    match std::env::var_os("ETHBCAST_MPI_STANDARD").map(PathBuf::from) {
        Some(real) => places.push((Some(real.join("bin/mpiexec")), text(&real.join("lib")))),
        None => eprintln!(
            "NOT TESTED WITH A REAL MPI OF THE STANDARD'S BINARY INTERFACE: set ETHBCAST_MPI_STANDARD to where one is \
             installed, such as a virtual environment with `pip install mpich`"
        ),
    }
    for (hydra, libraries) in places {
        bed.hydra = hydra;
        let ended = bed.preloaded(
            Mpi::Mpich,
            &program,
            &[],
            &[("LD_LIBRARY_PATH", &libraries)],
        );
        ended.assert_code(0);
        assert!(
            ended.stdout_text().contains("standard: all is well"),
            "{libraries}: {}",
            ended.stderr
        );
        assert!(
            ended.stderr.contains("3 ranks on 3 hosts"),
            "{libraries}: {}",
            ended.stderr
        );
        assert!(
            taken(&ended, "bcast") > 10
                && taken(&ended, "allgather") > 1
                && taken(&ended, "allreduce") == 1
                && taken(&ended, "reduce") == 1,
            "{libraries}: {}",
            ended.stderr
        );
    }
}
