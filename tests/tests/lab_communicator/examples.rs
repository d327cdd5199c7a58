//! The library's examples, which this package builds for its tests.

use ethbcast_tests::lab::{LIMIT, Run, Site, one_switch};

fn run_example(story: &str, program: &str, ranks: usize, more: &[&str]) -> Vec<String> {
    let site = Site::beside(story, one_switch(ranks));
    let runs: Vec<Run> = (0..ranks)
        .map(|rank| {
            let host = format!("n{rank}");
            let mut command = site.command(&host, program);
            command.arg(ranks.to_string()).args(more);
            Run::start(&host, command)
        })
        .collect();
    let ends: Vec<_> = runs.into_iter().map(|run| run.end(LIMIT)).collect();
    ends.iter().for_each(|end| end.assert_code(0));
    ends.iter().map(|end| String::from_utf8_lossy(&end.stdout).into_owned()).collect()
}

#[test]
fn hello_reaches_every_rank() {
    let said = run_example("example_hello", env!("CARGO_BIN_EXE_hello"), 4, &[]);
    for (rank, text) in said.iter().enumerate() {
        assert_eq!(text, &format!("rank {rank} of 4, n{rank}: hello, cluster\n"));
    }
}

#[test]
fn jacobi_finds_the_solution_that_is_known() {
    let said = run_example("example_jacobi", env!("CARGO_BIN_EXE_jacobi"), 4, &["128"]);
    assert!(said[0].starts_with("128 unknowns on 4 ranks:"), "{said:?}");
}

#[test]
fn throughput_moves_every_byte() {
    let said = run_example("example_throughput", env!("CARGO_BIN_EXE_throughput"), 3, &[]);
    assert_eq!(said[0].lines().count(), 2, "{said:?}");
}
