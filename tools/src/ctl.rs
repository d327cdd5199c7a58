//! `ethbcast ctl`: controls a running sender on this host.

use crate::args::{CtlArgs, CtlCommand};
use crate::exit::{Code, Failure, WithCode, fail, report};
use crate::send::control::{NAME, PATIENCE, SHOW, START, address};
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;

/// Runs the command.
///
/// # Errors
/// A [`Failure`] with code 2 if the sender cannot do it, or several senders run and none is named;
/// 3 if there is none.
pub fn run(args: &CtlArgs) -> anyhow::Result<()> {
    let pid = args.pid.map_or_else(only_one, Ok)?;
    let line = match args.command {
        CtlCommand::Show => SHOW.to_owned(),
        CtlCommand::Start => START.to_owned(),
        CtlCommand::Rate { rate } => rate.bits_per_second().to_string(),
    };
    let reply = ask(pid, &line)?;
    match reply.split_once(' ') {
        Some(("ok", text)) => report(&format!("process {pid}: {text}")),
        Some(("no", why)) => fail(Code::Usage, format!("process {pid}: {why}")),
        _ => fail(Code::System, format!("process {pid} answers what is no answer")),
    }
}

fn ask(pid: u32, line: &str) -> anyhow::Result<String> {
    let mut stream = address(pid).and_then(|address| UnixStream::connect_addr(&address)).map_err(|error| {
        Failure::new(Code::Nobody, format!("no `ethbcast send` of process {pid} listens here ({error})"))
    })?;
    let mut reply = String::new();
    stream
        .set_read_timeout(Some(PATIENCE * 2))
        .and_then(|()| stream.write_all(line.as_bytes()))
        .and_then(|()| stream.shutdown(Shutdown::Write))
        .and_then(|()| stream.take(1024).read_to_string(&mut reply))
        .code(Code::System)?;
    Ok(reply)
}

/// Returns the only sender of this network namespace.
fn only_one() -> anyhow::Result<u32> {
    let table = fs::read_to_string("/proc/net/unix").code(Code::System)?;
    let all = senders(&table);
    match all[..] {
        [one] => Ok(one),
        [] => fail(Code::Nobody, format!("no `ethbcast send` runs in this network namespace{}", elsewhere())),
        _ => fail(Code::Usage, format!("several senders run here: say which with --pid, one of {all:?}")),
    }
}

/// Returns a text about senders in other network namespaces.
fn elsewhere() -> String {
    let own = fs::read_link("/proc/self/ns/net").ok();
    let mut seen = BTreeSet::from_iter(own);
    let mut found = Vec::new();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
        // Each namespace is examined once.
        if !fs::read_link(format!("/proc/{pid}/ns/net")).is_ok_and(|namespace| seen.insert(namespace)) {
            continue;
        }
        let table = fs::read_to_string(format!("/proc/{pid}/net/unix")).unwrap_or_default();
        let way =
            || name_of(pid).map_or_else(|| format!("nsenter -n -t {pid}"), |name| format!("ip netns exec {name}"));
        found.extend(senders(&table).into_iter().map(|sender| format!("process {sender} (`{} …`)", way())));
    }
    if found.is_empty() { ": start one".to_owned() } else { format!("; in another: {}", found.join(", ")) }
}

/// Returns the name of a process's network namespace, if it has one.
fn name_of(pid: u32) -> Option<String> {
    let own = fs::metadata(format!("/proc/{pid}/ns/net")).ok()?;
    let is_own =
        |entry: &fs::DirEntry| entry.metadata().is_ok_and(|other| (other.ino(), other.dev()) == (own.ino(), own.dev()));
    let entry = fs::read_dir("/run/netns").ok()?.flatten().find(is_own)?;
    entry.file_name().into_string().ok()
}

/// Returns the processes whose sockets are in the table.
fn senders(table: &str) -> Vec<u32> {
    let numbers = table.lines().filter_map(|line| line.rsplit_once(&format!("@{NAME}"))?.1.trim().parse().ok());
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
