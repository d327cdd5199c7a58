//! `ethbcast`: the same bytes on every host of an Ethernet cluster, over raw frames.

mod args;
mod config;
mod cp;
mod doctor;
mod dump;
mod exit;
mod hosts;
mod lab;
mod manual;
mod mpi_env;
mod perf;
mod plan;
mod port;
mod probe;
mod program;
mod progress;
mod recv;
mod route;
mod send;
mod serve;
mod session;
mod signals;
mod simulate;
mod topo;
mod topology_file;
mod units;
mod watcher;

use args::Command;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match config::command_line() {
        Ok(cli) => cli,
        Err(error) => return exit::finish(Err(error)),
    };
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("error"))
        .format_timestamp_millis()
        .init();
    let result = match cli.command {
        Command::Send(args) => send::run(*args),
        Command::Recv(args) => recv::run(*args),
        Command::Cp(args) => cp::run(&args),
        Command::Hosts(args) => hosts::run(&args),
        Command::Topo(args) => topo::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Probe(args) => probe::run(args),
        Command::Simulate(args) => simulate::run(args),
        Command::Perf(args) => perf::run(args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Explain(args) => doctor::explain(&args),
        Command::Config(args) => config::run(&args),
        Command::Dump(args) => dump::run(&args),
        Command::Lab(args) => lab::run(args),
        Command::Man(args) => manual::write_pages(&args),
        Command::Completions(args) => manual::print_completions(&args),
        Command::MpiEnv(args) => mpi_env::run(&args),
        Command::Port(args) => port::run(&args),
        Command::Watch(args) => watcher::run(&args),
    };
    exit::finish(result)
}
