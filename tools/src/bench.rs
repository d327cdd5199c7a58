//! `ethbcast bench`: times transfers and broadcasts between network namespaces of this machine. On
//! request it runs other tools (udpcast, MPI) too.

use crate::args::{BenchArgs, TcpChainArgs};
use crate::exit::{Code, Failure, WithCode, fail, print_line, report};
use crate::topo;
use ethbcast_bench::process::{Interrupt, Interrupted};
use ethbcast_bench::report::{self as bench_report, Report};
use ethbcast_bench::transfer::Link;
use ethbcast_bench::{Options, page};
use ethbcast_lab::LabError;
use nix::sys::signal::Signal;
use nix::unistd::Uid;
use std::time::Duration;

pub fn run(args: &BenchArgs) -> anyhow::Result<()> {
    let options = options(args)?;
    if !Uid::effective().is_root() {
        return fail(
            Code::System,
            "a bench makes network namespaces, which needs root: run it with sudo",
        );
    }
    // From now on signals are polled between steps, and the lab is removed on every path out.
    let interrupt = Interrupt::hold().code(Code::System)?;
    let measured =
        ethbcast_bench::run(&options, &interrupt, &mut |line| print_line(line)).map_err(failure)?;
    if let Some(path) = &args.html {
        topo::write(path, &page::page(&measured))?;
        print_line(format_args!("the page is {}", path.display()));
    }
    print(&measured, args.json)?;
    match measured.all_verified() {
        true => Ok(()),
        false => fail(Code::SomeFailed, "some runs of ours failed; see above"),
    }
}

pub fn tcp_chain(args: &TcpChainArgs) -> anyhow::Result<()> {
    Link {
        listen: args.listen,
        next: args.next,
        file: &args.file,
    }
    .run()
    .code(Code::System)
}

fn options(args: &BenchArgs) -> anyhow::Result<Options> {
    let options = Options {
        ways: args.ways.clone(),
        over: args.over.clone(),
        receivers: args.receivers.clone(),
        sizes: args.sizes.clone(),
        mtus: args.mtu.clone(),
        losses: args.loss.clone(),
        rates: args.rate.iter().map(|rate| rate.0).collect(),
        peers: args.peers,
        iterations: args.iterations,
        runs: args.runs,
        limit: args.limit.map(Duration::from_secs_f64),
        program: Some(std::env::current_exe().code(Code::System)?),
        ..Options::short(format!("bench{}", std::process::id()))
    };
    options.check().code(Code::Usage)?;
    Ok(options)
}

fn print(measured: &Report, as_json: bool) -> anyhow::Result<()> {
    match as_json {
        true => report(&bench_report::json(measured).to_string()),
        false => report(&bench_report::text(measured)),
    }
}

fn failure(error: anyhow::Error) -> anyhow::Error {
    if let Some(interrupted) = error.downcast_ref::<Interrupted>() {
        let code = if interrupted.signal() == Signal::SIGTERM {
            Code::Terminated
        } else {
            Code::Interrupted
        };
        return Failure::new(code, interrupted).into();
    }
    let is_interrupt = matches!(
        error.downcast_ref::<LabError>(),
        Some(LabError::Interrupted)
    );
    let code = if is_interrupt {
        Code::Interrupted
    } else {
        Code::System
    };
    Failure::new(code, format!("{error:#}")).into()
}
