//! Tests with an MPI that has the standard's own binary interface (MPI 5.0).

use crate::bed::{Bed, directory, here, own, taken};
use ethbcast_tests::lab::{COMPILE_LIMIT, Mpi, Run, one_switch};
use std::path::{Path, PathBuf};
use std::process::Command;

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
        let header = header.split_whitespace().filter(|word| word.starts_with("-I"));
        let mut gcc = Command::new("gcc");
        gcc.arg(own("tests/standard/library.c")).args(header).args(more).arg("-o").arg(&library);
        Run::to_end(gcc, COMPILE_LIMIT).assert_code(0);
        let mut gcc = Command::new("gcc");
        gcc.arg(own("tests/standard/program.c")).args(flags).arg(&library).arg("-o").arg(&program);
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
        let ended = bed.preloaded(Mpi::Mpich, &program, &[], &[("LD_LIBRARY_PATH", &libraries)]);
        ended.assert_code(0);
        assert!(ended.stdout_text().contains("standard: all is well"), "{libraries}: {}", ended.stderr);
        assert!(ended.stderr.contains("3 ranks on 3 hosts"), "{libraries}: {}", ended.stderr);
        assert!(taken(&ended, "bcast") > 10 && taken(&ended, "allgather") > 1, "{libraries}: {}", ended.stderr);
    }
}
