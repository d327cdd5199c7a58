//! `ethbcast cp`: a transfer to named hosts that run a server. Hosts without one are reported, and
//! the others receive.

mod target;

use crate::args::{Cli, Command, CpArgs, SendArgs};
use crate::exit::{Code, Failure, fail, print_line};
use crate::hosts::{self, Census, Search};
use crate::interface::chosen;
use crate::progress::{Bar, ProgressRole};
use crate::send;
use clap::Parser;
use ethbcast_planning::HostNames;
use ethbcast_planning::topology::nodeset;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;
use target::Target;

/// Runs the command.
///
/// # Errors
/// A [`Failure`] with code 1 if some hosts do not serve, or have not got it; 3 if none serves.
pub fn run(args: &CpArgs) -> anyhow::Result<()> {
    let bar = Bar::open(ProgressRole::Root, &args.wire, &args.progress)?;
    let result = copy(args, &bar);
    bar.conclude(&result);
    result
}

fn copy(args: &CpArgs, bar: &Arc<Bar>) -> anyhow::Result<()> {
    let Target { sources, nodes, name } = Target::of(args)?;
    if args.force {
        word(args, "-f does nothing here: what is there is replaced where `recv --serve --force` runs");
    }
    if args.fanout.is_some() {
        word(args, "--fanout does nothing here: everything is sent to all at once");
    }
    let own = crate::session::host_name(&args.wire);
    let own_names = HostNames::new([own.as_str()]);
    // A host given with an address is not identified by its name alone.
    let is_own = |host: &String| !host.contains('@') && own_names.find(host).is_some();
    let (here, wanted): (Vec<String>, Vec<String>) = nodes.into_iter().partition(is_own);
    if !here.is_empty() {
        word(args, &format!("{own} is this host: it is left out"));
    }
    if wanted.is_empty() {
        return fail(Code::Usage, "there is no other host to copy to: name some, `ethbcast cp SOURCE n[1-31]:`");
    }
    let (serving, missing) = find(args, &wanted)?;
    if serving.is_empty() {
        let text = format!("none of {} serves group {}: {HELP}", nodeset::fold(&wanted), args.wire.group);
        return Err(Failure::new(Code::Nobody, text).found(crate::doctor::Fault::Nobody).into());
    }
    if !missing.is_empty() {
        print_line(format_args!("ethbcast: not serving: {}; {HELP}", nodeset::fold(&missing)));
    }
    let left_out = send::transfer(send_args(args, sources, &serving, name)?, bar)?;
    let mut lacking = Vec::new();
    for (hosts, verb) in [(missing, "serve"), (left_out, "take part")] {
        if !hosts.is_empty() {
            let (does, fold) = (if hosts.len() == 1 { "does" } else { "do" }, nodeset::fold(&hosts));
            lacking.push(format!("{} of {} {} not {verb}: {fold}", hosts.len(), count(wanted.len()), does));
        }
    }
    if lacking.is_empty() {
        Ok(())
    } else {
        fail(Code::SomeFailed, format!("{}; the others have it", lacking.join("; ")))
    }
}

const HELP: &str = "start `ethbcast recv --serve DIR` there, or `systemctl start ethbcast-recv@INTERFACE`";

fn count(hosts: usize) -> String {
    if hosts == 1 { "1 host".to_owned() } else { format!("{hosts} hosts") }
}

fn word(args: &CpArgs, text: &str) {
    if !args.wire.quiet {
        print_line(format_args!("ethbcast: {text}"));
    }
}

/// Returns the wanted hosts that listen in the group, and those that do not.
fn find(args: &CpArgs, wanted: &[String]) -> anyhow::Result<(Vec<String>, Vec<String>)> {
    let interface = chosen(args.wire.interface.as_deref(), args.wire.quiet);
    let search = Search {
        interface: interface.as_deref(),
        group: Some(&args.wire.group),
        ether_type: args.wire.ether_type,
        wait: Duration::from_secs_f64(args.max_wait),
        enough: Some(wanted),
    };
    let present = Census::open(&search)?.round()?;
    let found = hosts::found(wanted, present.iter());
    if let Some((host, nodes)) = wanted.iter().zip(&found).find(|(_, nodes)| nodes.len() > 1) {
        let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
        let text = format!("{host} are {} hosts: name the one that is meant, {}", nodes.len(), nodes.join(" or "));
        return fail(Code::Usage, text);
    }
    let serves: Vec<bool> = found.iter().map(|nodes| !nodes.is_empty()).collect();
    let with = |there| wanted.iter().zip(&serves).filter(move |(_, serves)| **serves == there);
    Ok((with(true).map(|(host, _)| host.clone()).collect(), with(false).map(|(host, _)| host.clone()).collect()))
}

fn send_args(
    args: &CpArgs,
    sources: Vec<OsString>,
    hosts: &[String],
    name: Option<String>,
) -> anyhow::Result<SendArgs> {
    let mut line: Vec<OsString> = ["ethbcast", "send", "--hosts"].map(OsString::from).into();
    line.push(nodeset::fold(hosts).into());
    // A server that does not join is given up after a while.
    let wait = args.max_wait.max(1.0);
    line.extend(["--min-receivers", "1", "--max-wait", &wait.to_string(), "--via", &args.via].map(OsString::from));
    if args.nice {
        line.push("--nice".into());
    }
    if let Some(rate) = &args.rate {
        line.extend(["--rate", rate].map(OsString::from));
    }
    if let Some(topology) = &args.topology {
        line.extend([OsString::from("--topology"), topology.into()]);
    }
    if let Some(name) = name {
        line.extend([OsString::from("--as"), name.into()]);
    }
    line.push("--".into());
    line.extend(sources);
    let parsed = Cli::try_parse_from(line).map_err(|error| Failure::new(Code::Usage, error.to_string().trim_end()))?;
    let Command::Send(mut send) = parsed.command else { unreachable!("the line says so") };
    send.wire = args.wire.clone();
    Ok(*send)
}
