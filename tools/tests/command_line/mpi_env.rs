//! Output of `ethbcast mpi-env`.

use super::ended_here;

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
