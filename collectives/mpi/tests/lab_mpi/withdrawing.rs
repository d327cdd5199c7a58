//! Tests that MPI calls fall back to the MPI where ethbcast cannot be used or is slower.

use crate::{Bed, LIMIT, compiled, directory, drop_in, here, of_this_size, own, taken};
use ethbcast_lab::LabConfig;
use ethbcast_tests::lab::{COMPILE_LIMIT, Ended, Mpi, Run, one_switch};
use std::path::Path;
use std::process::Command;

/// Calls that outlast a meeting which fails, with [`slow_cables`]: each takes 30 ms or more. Ranks
/// look whether it is over when they have made twice as many as at their last look, so after twice
/// its ten seconds at most.
const MEETING_CALLS: &str = "750";

/// Cables on which a dozen calls of 256 KiB are worth a meeting, however fast this machine is.
fn slow_cables() -> LabConfig {
    LabConfig {
        rate_bits_per_second: Some(100_000_000),
        ..one_switch(3)
    }
}

fn with_change(change: &str, program: &Path) -> [String; 3] {
    let script = format!("if [ \"$(hostname)\" = q2 ]; then {change}; fi; exec \"$0\" \"$@\"");
    [
        "-c".to_owned(),
        script,
        program.to_str().expect("a path of the build").to_owned(),
    ]
}

#[test]
fn lab_one_rank_that_lacks_something_keeps_all_from_the_wire_and_nobody_waits() {
    let bed = Bed::new("mpi_lacking", one_switch(3), 1);
    for &mpi in of_this_size() {
        let program = compiled(
            mpi,
            "mpicc",
            "tests/correct.c",
            &["-std=gnu11", "-O1", "-lpthread"],
        );
        for (change, why) in [
            ("unset LD_PRELOAD", "rank 2 runs without the drop-in, or"),
            (
                "export ETHBCAST_MPI=off",
                "rank 2 runs without the drop-in, or",
            ),
            (
                "export ETHBCAST_MPI_INTERFACE=eth9",
                "there is no interface eth9: choose one of eth0 with ETHBCAST_MPI_INTERFACE",
            ),
            (
                "export ETHBCAST_MPI_MIN_BYTES=7",
                "rank 2 runs without the drop-in, or with other settings",
            ),
        ] {
            let words = with_change(change, &program);
            let words: Vec<&str> = words
                .iter()
                .map(String::as_str)
                .chain(["roots", "blocks", "arguments"])
                .collect();
            let ended = bed.preloaded(mpi, Path::new("/bin/sh"), &words, &[]);
            ended.assert_code(0);
            assert!(
                ended.stdout_text().contains("blocks: all is well"),
                "{}",
                ended.stderr
            );
            assert!(
                ended.stderr.contains(why),
                "{change} with {mpi:?}: {}",
                ended.stderr
            );
            assert_eq!(taken(&ended, "bcast"), 0, "{}", ended.stderr);
            let quiet = [("ETHBCAST_MPI_VERBOSE", "0"), ("ETHBCAST_MPI_STATS", "0")];
            let ended = bed.preloaded(mpi, Path::new("/bin/sh"), &words, &quiet);
            assert!(
                !ended.stderr.contains("ethbcast"),
                "{change} with {mpi:?}: {}",
                ended.stderr
            );
            // Nor where the ranks count their calls, and would agree on the wire after some.
            let words = with_change(change, &program);
            let words: Vec<&str> = words
                .iter()
                .map(String::as_str)
                .chain(["worth-it"])
                .collect();
            let trial = [("ETHBCAST_MPI_TRIAL", "on"), ("CORRECT_CALLS", "200")];
            let ended = bed.preloaded(mpi, Path::new("/bin/sh"), &words, &trial);
            ended.assert_code(0);
            assert_eq!(taken(&ended, "bcast"), 0, "{}", ended.stderr);
        }
    }
}

#[test]
fn lab_where_the_wire_is_slower_than_the_mpi_all_leave_it_to_the_mpi() {
    let bed = Bed::new("mpi_slower", one_switch(4), 1);
    // Seven of eight of our long frames are lost, and no others. The MPI is not that slow on any
    // machine with other work.
    bed.filter("add rule netdev test in ether type 0x88b5 meta length > 1000 numgen random mod 8 != 0 drop");
    for &mpi in of_this_size() {
        let program = compiled(
            mpi,
            "mpicc",
            "tests/correct.c",
            &["-std=gnu11", "-O1", "-lpthread"],
        );
        let set = [("ETHBCAST_MPI_TRIAL", "on"), ("CORRECT_CALLS", "600")];
        let ended = bed.preloaded(mpi, &program, &["worth-it"], &set);
        ended.assert_code(0);
        assert!(
            ended.stderr.contains("4 ranks on 4 hosts"),
            "{}",
            ended.stderr
        );
        // A call by the wire may have been tried.
        assert!(taken(&ended, "bcast") <= 1, "{mpi:?}: {}", ended.stderr);
    }
}

#[test]
fn lab_where_the_wire_carries_nothing_it_is_tried_once_and_nobody_waits_for_it() {
    let bed = Bed::new("mpi_mute", slow_cables(), 1);
    bed.filter("add rule netdev test in ether type 0x88b5 drop");
    for &mpi in of_this_size() {
        let program = compiled(
            mpi,
            "mpicc",
            "tests/correct.c",
            &["-std=gnu11", "-O1", "-lpthread"],
        );
        // The hosts wait for each other for ten seconds, the program does not.
        let set = [
            ("ETHBCAST_MPI_TRIAL", "on"),
            ("CORRECT_CALLS", MEETING_CALLS),
        ];
        let ended = bed.preloaded(mpi, &program, &["worth-it", "brief"], &set);
        ended.assert_code(0);
        assert!(
            ended.stdout_text().contains("brief: all is well"),
            "{mpi:?}: {}",
            ended.stderr
        );
        let told = ended
            .stderr
            .matches("3 ranks stay with MPI: the ranks did not meet on the wire")
            .count();
        assert_eq!(
            (told, taken(&ended, "bcast")),
            (1, 0),
            "{mpi:?}: {}",
            ended.stderr
        );
    }
}

#[test]
fn lab_a_communicator_of_one_call_is_the_mpis_own() {
    let bed = Bed::new("mpi_brief", one_switch(3), 1);
    for &mpi in here() {
        let program = compiled(
            mpi,
            "mpicc",
            "tests/correct.c",
            &["-std=gnu11", "-O1", "-lpthread"],
        );
        let ended = bed.preloaded(
            mpi,
            &program,
            &["brief", "communicators"],
            &[("ETHBCAST_MPI_TRIAL", "on")],
        );
        ended.assert_code(0);
        assert!(
            !ended.stderr.contains("ranks on 3 hosts") && !ended.stderr.contains("stay with"),
            "{}",
            ended.stderr
        );
        assert!(
            ended.stderr.contains("the wire has not paid yet"),
            "{mpi:?}: {}",
            ended.stderr
        );
    }
}

/// The MPI's ranks join once: for thirty duplicates, and once more for ranks in another order.
#[test]
fn lab_hosts_that_have_met_need_not_meet_again_for_another_communicator() {
    for ranks_per_host in [1, 2] {
        let bed = Bed::new("mpi_again", one_switch(3), ranks_per_host);
        for &mpi in of_this_size() {
            let program = compiled(
                mpi,
                "mpicc",
                "tests/correct.c",
                &["-std=gnu11", "-O1", "-lpthread"],
            );
            let ended = bed.preloaded(mpi, &program, &["brief"], &[]);
            ended.assert_code(0);
            let ranks = 3 * ranks_per_host;
            let lines: Vec<&str> = ended
                .stderr
                .lines()
                .filter(|line| line.contains(&format!("{ranks} ranks on 3 hosts")))
                .collect();
            let again = lines.iter().filter(|line| line.ends_with(" again")).count();
            assert_eq!((lines.len(), again), (30, 29), "{mpi:?}: {}", ended.stderr);
            let ended = bed.preloaded(mpi, &program, &["communicators", "brief"], &[]);
            ended.assert_code(0);
            assert!(
                ended.stdout_text().contains("communicators: all is well"),
                "{mpi:?}: {}",
                ended.stderr
            );
            assert!(
                ended.stdout_text().contains("brief: all is well"),
                "{mpi:?}: {}",
                ended.stderr
            );
        }
    }
}

/// The MPI's ranks meet once; later communicators of all or some of them, in whatever order, are
/// numbers in that group, also where another rank of a host leads it.
#[test]
fn lab_a_communicator_of_the_same_or_fewer_hosts_needs_no_meeting() {
    for (hosts, ranks_per_host) in [(4, 1), (3, 2)] {
        let bed = Bed::new("mpi_fewer", one_switch(hosts), ranks_per_host);
        for &mpi in of_this_size() {
            let program = compiled(
                mpi,
                "mpicc",
                "tests/correct.c",
                &["-std=gnu11", "-O1", "-lpthread"],
            );
            let ended = bed.preloaded(mpi, &program, &["communicators"], &[]);
            ended.assert_code(0);
            let is_met = |line: &&str| !line.contains(" within ") && !line.ends_with(" again");
            let on = || {
                ended
                    .stderr
                    .lines()
                    .filter(|line| line.contains(" ranks on ") && line.contains(" hosts"))
            };
            assert_eq!(on().filter(is_met).count(), 1, "{mpi:?}: {}", ended.stderr);
            // Five duplicates live at a time; of all ranks but one there are four lists.
            let ranks = hosts * ranks_per_host;
            let within = |ranks: usize| {
                on().filter(|line| {
                    line.contains(" within ") && line.contains(&format!(" {ranks} ranks on "))
                })
                .count()
            };
            assert!(
                within(ranks) >= 4 && within(ranks - 1) >= 1,
                "{mpi:?}: {}",
                ended.stderr
            );
        }
    }
}

/// The others wait for it on the wire, and it takes part in all calls of the MPI meanwhile.
#[test]
fn lab_a_rank_that_cannot_begin_to_join_hangs_nobody() {
    let bed = Bed::new("mpi_unready", slow_cables(), 1);
    for &mpi in of_this_size() {
        let program = compiled(
            mpi,
            "mpicc",
            "tests/correct.c",
            &["-std=gnu11", "-O1", "-lpthread"],
        );
        let words = with_change("export ETHBCAST_MPI_TOPOLOGY=/there-is-none", &program);
        let words: Vec<&str> = words
            .iter()
            .map(String::as_str)
            .chain(["worth-it", "brief"])
            .collect();
        let set = [
            ("ETHBCAST_MPI_TRIAL", "on"),
            ("CORRECT_CALLS", MEETING_CALLS),
        ];
        let ended = bed.preloaded(mpi, Path::new("/bin/sh"), &words, &set);
        ended.assert_code(0);
        assert!(
            ended.stdout_text().contains("brief: all is well"),
            "{mpi:?}: {}",
            ended.stderr
        );
        let told = ended
            .stderr
            .matches("3 ranks stay with MPI: the ranks did not meet on the wire")
            .count();
        assert_eq!(
            (told, taken(&ended, "bcast")),
            (1, 0),
            "{mpi:?}: {}",
            ended.stderr
        );
    }
}

#[test]
fn lab_where_the_mpi_is_far_slower_a_length_is_tried_once_and_stays_on_the_wire() {
    let bed = Bed::new("mpi_faster", one_switch(4), 1);
    // On a busy machine ranks of MPICH may spend what a trial may cost on its first short call.
    for &mpi in of_this_size() {
        let program = compiled(
            mpi,
            "mpicc",
            "tests/slow.c",
            &["-std=gnu11", "-O1", "-rdynamic", "-lpthread", "-ldl"],
        );
        // How many calls come before the trial depends on how soon the hosts meet, and on other
        // work of the machine.
        let ended = bed.preloaded(
            mpi,
            &program,
            &["until-fast"],
            &[("ETHBCAST_MPI_TRIAL", "on")],
        );
        ended.assert_code(0);
        assert_eq!(
            ended
                .stderr
                .matches("tried: bcast, up to 262144 bytes")
                .count(),
            1,
            "{mpi:?}: {}",
            ended.stderr
        );
        assert!(taken(&ended, "bcast") >= 5, "{mpi:?}: {}", ended.stderr);
    }
}

#[test]
fn lab_another_mpis_back_end_and_an_mpi_without_a_version_are_left_alone() {
    let bed = Bed::new("mpi_strange", one_switch(3), 1);
    let swapped = directory().join("swapped");
    std::fs::create_dir_all(&swapped).expect("a directory");
    if let [one, other] = here() {
        for (from, to) in [(one, other), (other, one)] {
            let name = |mpi: &Mpi| format!("libethbcast_mpi_{}.so", mpi.name());
            std::fs::copy(directory().join(name(from)), swapped.join(name(to))).expect("copied");
        }
        for &mpi in here() {
            let program = compiled(
                mpi,
                "mpicc",
                "tests/correct.c",
                &["-std=gnu11", "-O1", "-lpthread"],
            );
            let set = [("ETHBCAST_MPI_BACKENDS", swapped.to_str().expect("a path"))];
            let ended = bed.preloaded(mpi, &program, &["roots", "arguments"], &set);
            ended.assert_code(0);
            let said = &ended.stderr;
            assert!(
                said.contains("was compiled for") || said.contains("no back end"),
                "{mpi:?}: {said}"
            );
            assert_eq!(taken(&ended, "bcast"), 0, "{said}");
        }
    }
    let (library, program) = (
        directory().join("libold_mpi.so"),
        directory().join("old_mpi"),
    );
    let gcc = |more: &[&str], to: &Path| {
        let mut gcc = Command::new("gcc");
        gcc.args(["-O1", "-Wall"])
            .arg(own("tests/old_mpi.c"))
            .args(more)
            .arg("-o")
            .arg(to);
        Run::to_end(gcc, COMPILE_LIMIT).assert_code(0);
    };
    gcc(&["-shared", "-fPIC", "-DLIBRARY"], &library);
    gcc(
        &[library.to_str().expect("a path"), "-Wl,-rpath,$ORIGIN"],
        &program,
    );
    let mut command = bed.site.command("n0", program.to_str().expect("a path"));
    command
        .env("LD_PRELOAD", drop_in())
        .env("ETHBCAST_MPI_VERBOSE", "1");
    let ended = Run::start("old", command).end(LIMIT);
    ended.assert_code(0);
    assert!(
        ended
            .stderr
            .contains("this MPI has no MPI_Get_library_version"),
        "{}",
        ended.stderr
    );
    // The first rank says so unless it has to be quiet, and no other rank.
    for (set, is_said) in [
        (("PMI_RANK", "0"), true),
        (("PMI_RANK", "1"), false),
        (("ETHBCAST_MPI_VERBOSE", "0"), false),
    ] {
        let mut command = bed.site.command("n0", program.to_str().expect("a path"));
        command.env("LD_PRELOAD", drop_in()).env(set.0, set.1);
        let ended = Run::start("old", command).end(LIMIT);
        ended.assert_code(0);
        assert_eq!(
            ended.stderr.matches("this MPI has no").count(),
            usize::from(is_said),
            "{set:?}: {}",
            ended.stderr
        );
    }
}

#[test]
fn lab_where_it_cannot_it_says_why_and_mpi_does_the_work() {
    let bed = Bed::new("mpi_aside", one_switch(3), 1);
    let elsewhere = directory().join("no-back-ends");
    let elsewhere = elsewhere.to_str().expect("a path");
    for &mpi in here() {
        let program = compiled(
            mpi,
            "mpicc",
            "tests/correct.c",
            &["-std=gnu11", "-O1", "-lpthread"],
        );
        for (name, value, why) in [
            (
                "ETHBCAST_MPI_INTERFACE",
                "eth7",
                "there is no interface eth7",
            ),
            ("ETHBCAST_MPI_MIN_HOSTS", "4", "3 hosts, fewer than 4"),
            ("ETHBCAST_MPI_BACKENDS", elsewhere, "no back end"),
            ("ETHBCAST_MPI_TAKE", "scan", "there is no scan"),
            ("ETHBCAST_MPI", "off", "switched off"),
        ] {
            let ended = bed.preloaded(mpi, &program, &["roots", "blocks"], &[(name, value)]);
            ended.assert_code(0);
            assert!(
                ended.stderr.contains(why),
                "{name}={value} with {mpi:?}: {}",
                ended.stderr
            );
            assert_eq!(taken(&ended, "bcast"), 0, "{}", ended.stderr);
        }
    }
}

/// The least of many batches counts, which excludes other load. On a quiet machine it is less than
/// a microsecond, a hundredth of the shortest call between hosts; the limit is ten times that.
#[test]
fn lab_a_call_that_is_the_mpis_own_costs_hardly_more() {
    let bed = Bed::new("mpi_price", one_switch(3), 1);
    for &mpi in here() {
        let program = compiled(
            mpi,
            "mpicc",
            "tests/correct.c",
            &["-std=gnu11", "-O1", "-lpthread"],
        );
        let nanoseconds = |ended: &Ended| {
            ended.assert_code(0);
            let said = ended.stdout_text();
            let price = said
                .split("price of a call: ")
                .nth(1)
                .and_then(|rest| rest.split(' ').next()?.parse().ok());
            price.unwrap_or_else(|| panic!("{said}{}", ended.stderr))
        };
        let alone: f64 = nanoseconds(&bed.alone(mpi, &program, &["price"]));
        let refused = bed.preloaded(
            mpi,
            &program,
            &["roots", "price"],
            &[("ETHBCAST_MPI_INTERFACE", "eth7")],
        );
        let refused: f64 = nanoseconds(&refused);
        println!(
            "{}: {alone:.0} ns alone, {refused:.0} ns preloaded",
            mpi.name()
        );
        assert!(
            refused <= alone + 10_000.0,
            "{mpi:?}: {alone} ns alone, {refused} ns preloaded"
        );
    }
}

#[test]
fn a_program_without_mpi_runs_as_ever() {
    let mut echo = Command::new("echo");
    echo.arg("nothing of MPI").env("LD_PRELOAD", drop_in());
    let run = Run::to_end(echo, LIMIT);
    assert_eq!(
        (run.code(), run.stdout_text().trim()),
        (0, "nothing of MPI")
    );
    assert_eq!(run.stderr, "");
    let mut readelf = Command::new("readelf");
    readelf.arg("-d").arg(drop_in());
    let needs = Run::to_end(readelf, LIMIT).stdout_text();
    assert!(
        !needs
            .lines()
            .any(|line| line.contains("NEEDED") && line.contains("mpi")),
        "{needs}"
    );
    let mut nm = Command::new("nm");
    nm.args(["-D", "--defined-only", "--format=just-symbols"])
        .arg(drop_in());
    let names = Run::to_end(nm, LIMIT).stdout_text();
    let is_mpi = |name: &str| name.starts_with("MPI_") || name.starts_with("mpi_");
    assert!(
        names.lines().count() >= 22 && names.lines().all(is_mpi),
        "{names}"
    );
}
