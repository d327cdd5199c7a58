//! `ethbcast ctl`: shows or changes the rate limit of a running sender on this host, or starts it.

use crate::args::{CtlArgs, CtlCommand};
use crate::exit::{Code, Failure, WithCode, fail, one_line, report};
use crate::send::control::{FOREIGN, NAME, SHOW, START, call, is_trusted, request};
use nix::unistd::Uid;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;

pub fn run(args: &CtlArgs) -> anyhow::Result<()> {
    let pid = args.pid.map_or_else(only_one, Ok)?;
    let line = match args.command {
        CtlCommand::Show => SHOW.to_owned(),
        CtlCommand::Start => START.to_owned(),
        CtlCommand::Rate { rate } => rate.bits_per_second().to_string(),
    };
    let (stream, user) = call(pid).map_err(|error| {
        Failure::new(
            Code::Nobody,
            format!("no `ethbcast send` of process {pid} listens here ({error})"),
        )
    })?;
    if !is_trusted(user) && !Uid::effective().is_root() {
        return fail(Code::Usage, format!("process {pid}: {FOREIGN}"));
    }
    // Another program that has taken the name may reply anything.
    let reply = request(stream, &line).map_err(|error| {
        Failure::new(
            Code::System,
            format!("process {pid} did not answer completely ({error})"),
        )
    })?;
    let reply = one_line(&reply);
    match reply.split_once(' ') {
        Some(("ok", text)) => report(&format!("process {pid}: {text}")),
        Some(("no", why)) => fail(Code::Usage, format!("process {pid}: {why}")),
        _ => fail(Code::System, format!("process {pid} sent an invalid reply")),
    }
}

/// Returns the only sender of this network namespace or, if there are several, the only one of this
/// user's or of root's: a name that another user has taken does not hide it.
fn only_one() -> anyhow::Result<u32> {
    let table = fs::read_to_string("/proc/net/unix").code(Code::System)?;
    let all = senders(&table);
    let own: Vec<u32> = all
        .iter()
        .copied()
        .filter(|&pid| call(pid).is_ok_and(|(_, user)| is_trusted(user)))
        .collect();
    match (&all[..], &own[..]) {
        (&[one], _) | (_, &[one]) => Ok(one),
        ([], _) => fail(
            Code::Nobody,
            format!(
                "no `ethbcast send` runs in this network namespace{}",
                elsewhere()
            ),
        ),
        _ => fail(
            Code::Usage,
            format!("several senders run here: say which with --pid, one of {all:?}"),
        ),
    }
}

fn elsewhere() -> String {
    let own = fs::read_link("/proc/self/ns/net").ok();
    let mut seen = BTreeSet::from_iter(own);
    let mut found = Vec::new();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
        // Each namespace is examined once.
        if !fs::read_link(format!("/proc/{pid}/ns/net"))
            .is_ok_and(|namespace| seen.insert(namespace))
        {
            continue;
        }
        let table = fs::read_to_string(format!("/proc/{pid}/net/unix")).unwrap_or_default();
        let way = || {
            name_of(pid).map_or_else(
                || format!("nsenter -n -t {pid}"),
                |name| format!("ip netns exec {name}"),
            )
        };
        found.extend(
            senders(&table)
                .into_iter()
                .map(|sender| format!("process {sender} (`{} …`)", way())),
        );
    }
    if found.is_empty() {
        ": start one".to_owned()
    } else {
        format!("; in another: {}", found.join(", "))
    }
}

fn name_of(pid: u32) -> Option<String> {
    let own = fs::metadata(format!("/proc/{pid}/ns/net")).ok()?;
    let is_own = |entry: &fs::DirEntry| {
        entry
            .metadata()
            .is_ok_and(|other| (other.ino(), other.dev()) == (own.ino(), own.dev()))
    };
    let entry = fs::read_dir("/run/netns").ok()?.flatten().find(is_own)?;
    entry.file_name().into_string().ok()
}

fn senders(table: &str) -> Vec<u32> {
    let numbers = table
        .lines()
        .filter_map(|line| line.rsplit_once(&format!("@{NAME}"))?.1.trim().parse().ok());
    let mut all: Vec<u32> = numbers.collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_are_known_by_their_sockets_each_once() {
        let table = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                     0000000000000000: 00000002 00000000 00010000 0001 01 12 @ethbcast-send-4711\n\
                     0000000000000000: 00000003 00000000 00000000 0001 03 13 @ethbcast-send-4711\n\
                     0000000000000000: 00000002 00000000 00010000 0001 01 14 /run/x@y\n\
                     0000000000000000: 00000002 00000000 00010000 0001 01 15 @ethbcast-send-12\n";
        assert_eq!(senders(table), [12, 4711]);
    }
}
