//! `ethbcast`: copies files and directories to all hosts of an Ethernet cluster, over raw frames.

mod args;
mod bench;
mod config;
mod cp;
mod doctor;
mod dump;
mod exit;
mod hosts;
mod inputs;
mod interface;
mod key;
mod lab;
mod manual;
mod mpi_env;
mod perf;
mod plan;
mod probe;
mod progress;
mod recv;
mod relay;
mod report;
mod rights;
mod send;
mod serve;
mod session;
mod signals;
mod simulate;
mod topo;
mod udpcast;
mod units;
mod watcher;
mod whole_file;

use crate::args::{Cli, Command};
use crate::exit::Form;
use ethbcast_collectives::spell_options;
use ethbcast_content::command::Unfinished;
use std::ffi::OsString;
use std::fs::File;
use std::process::ExitCode;

fn main() -> ExitCode {
    spell_options(option);
    let (cli, log) = match command_line() {
        Ok(read) => read,
        Err(error) => {
            return exit::finish(
                Err(error),
                Form::requested(&std::env::args_os().collect::<Vec<_>>()),
            );
        }
    };
    log_to(log);
    let form = cli.command.form();
    let result = match cli.command {
        Command::Send(args) => send::run(*args),
        Command::Recv(args) if args.serve.serve => serve::run(*args),
        Command::Recv(args) => recv::run(*args),
        Command::Relay(args) => relay::run(&args),
        Command::Cp(args) => cp::run(&args),
        Command::Ctl(args) => send::control::run(&args),
        Command::Hosts(args) => hosts::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Topo(args) => topo::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Probe(args) => probe::run(args),
        Command::Simulate(args) => simulate::run(args),
        Command::Perf(args) => perf::run(args),
        Command::Bench(args) => bench::run(&args),
        Command::TcpChain(args) => bench::tcp_chain(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Explain(args) => doctor::explain(&args),
        Command::Config(args) => config::run(&args),
        Command::Key(args) => key::run(&args),
        Command::Dump(args) => dump::run(&args),
        Command::Lab(args) => lab::run(args),
        Command::Man(args) => manual::write_pages(&args),
        Command::Completions(args) => manual::print_completions(&args),
        Command::MpiEnv(args) => mpi_env::run(&args),
        Command::Port(args) => mpi_env::serve_ports(&args),
        Command::Watch(args) => watcher::run(&args),
    };
    // The command of a SOURCE that says nothing more does not see that nobody reads it.
    Unfinished::end_groups();
    exit::finish(result, form)
}

fn option(name: &str) -> String {
    match name {
        "interface" => "-i".to_owned(),
        "group" => "-g".to_owned(),
        _ => format!("--{name}"),
    }
}

fn command_line() -> anyhow::Result<(Cli, Option<File>)> {
    let own: Vec<OsString> = std::env::args_os().collect();
    match own.first().and_then(|program| args::Role::of(program)) {
        Some(role) => udpcast::command_line(role, &own),
        None => {
            let cli = config::command_line(own)?;
            let log = cli.command.log().map(udpcast::open_log).transpose()?;
            Ok((cli, log))
        }
    }
}

fn log_to(file: Option<File>) {
    let least = if file.is_some() { "info" } else { "error" };
    let mut logger =
        env_logger::Builder::from_env(env_logger::Env::default().default_filter_or(least));
    if let Some(file) = file {
        logger.target(env_logger::Target::Pipe(Box::new(file)));
    }
    logger.format_timestamp_millis().init();
}
