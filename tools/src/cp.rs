//! `ethbcast cp`: copies files to hosts given by name, on which a receiver runs as a daemon. Hosts
//! without one are reported, and the others receive.

use crate::args::{Cli, Command, CpArgs, SendArgs};
use crate::exit::{Code, Failure, fail, print_line};
use crate::hosts::{Census, Search};
use crate::interface::chosen;
use crate::progress::{Bar, ProgressRole};
use crate::{hosts, inputs, key, send};
use clap::Parser;
use ethbcast_planning::HostNames;
use ethbcast_planning::topology::nodeset;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub fn run(args: &CpArgs) -> anyhow::Result<()> {
    let bar = Bar::open(ProgressRole::Root, &args.wire, &args.progress)?;
    let result = copy(args, &bar);
    bar.conclude(&result);
    result
}

fn copy(args: &CpArgs, bar: &Arc<Bar>) -> anyhow::Result<()> {
    let Target {
        sources,
        nodes,
        name,
    } = Target::of(args)?;
    if args.force {
        word(
            args,
            "-f does nothing here: existing files are replaced where `recv --serve --force` runs",
        );
    }
    if args.fanout.is_some() {
        word(
            args,
            "--fanout does nothing here: everything is sent to all at once",
        );
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
        return fail(
            Code::Usage,
            "there is no other host to copy to: name some, `ethbcast cp SOURCE n[1-31]:`",
        );
    }
    let (serving, missing) = find(args, &wanted)?;
    if serving.is_empty() {
        let text = format!(
            "none of {} serves group {}: {HELP}",
            nodeset::fold(&wanted),
            args.wire.group
        );
        return Err(Failure::new(Code::Nobody, text)
            .found(crate::doctor::Fault::Nobody)
            .into());
    }
    if !missing.is_empty() {
        print_line(format_args!(
            "ethbcast: not serving: {}; {HELP}",
            nodeset::fold(&missing)
        ));
    }
    let left_out = send::transfer(send_args(args, sources, &serving, name)?, bar)?;
    let mut lacking = Vec::new();
    for (hosts, verb) in [(missing, "serve"), (left_out, "take part")] {
        if !hosts.is_empty() {
            let (does, fold) = (
                if hosts.len() == 1 { "does" } else { "do" },
                nodeset::fold(&hosts),
            );
            lacking.push(format!(
                "{} of {} {} not {verb}: {fold}",
                hosts.len(),
                count(wanted.len()),
                does
            ));
        }
    }
    if lacking.is_empty() {
        Ok(())
    } else {
        fail(
            Code::SomeFailed,
            format!("{}; the others have it", lacking.join("; ")),
        )
    }
}

const HELP: &str =
    "start `ethbcast recv --serve DIR` there, or `systemctl start ethbcast-recv@INTERFACE`";

fn count(hosts: usize) -> String {
    if hosts == 1 {
        "1 host".to_owned()
    } else {
        format!("{hosts} hosts")
    }
}

fn word(args: &CpArgs, text: &str) {
    if !args.wire.quiet {
        print_line(format_args!("ethbcast: {text}"));
    }
}

/// Returns the wanted hosts that listen in the group, and those that do not.
fn find(args: &CpArgs, wanted: &[String]) -> anyhow::Result<(Vec<String>, Vec<String>)> {
    let interface = chosen(
        args.wire.interface.as_deref(),
        args.wire.over,
        args.wire.quiet,
    );
    let search = Search {
        interface: interface.as_deref(),
        group: Some(&args.wire.group),
        ether_type: args.wire.ether_type,
        over: args.wire.over,
        wait: Duration::from_secs_f64(args.max_wait),
        keys: key::sending(&args.key)?,
        enough: Some(wanted),
    };
    let present = Census::open(&search)?.round()?;
    let found = hosts::found(wanted, present.iter());
    if let Some((host, nodes)) = wanted.iter().zip(&found).find(|(_, nodes)| nodes.len() > 1) {
        let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
        let text = format!(
            "{host} are {} hosts: name the one that is meant, {}",
            nodes.len(),
            nodes.join(" or ")
        );
        return fail(Code::Usage, text);
    }
    let serves: Vec<bool> = found.iter().map(|nodes| !nodes.is_empty()).collect();
    let with = |there| {
        wanted
            .iter()
            .zip(&serves)
            .filter(move |(_, serves)| **serves == there)
    };
    Ok((
        with(true).map(|(host, _)| host.clone()).collect(),
        with(false).map(|(host, _)| host.clone()).collect(),
    ))
}

fn send_args(
    args: &CpArgs,
    sources: Vec<OsString>,
    hosts: &[String],
    name: Option<String>,
) -> anyhow::Result<SendArgs> {
    let mut line: Vec<OsString> = ["ethbcast", "send", "--hosts"].map(OsString::from).into();
    line.push(nodeset::fold(hosts).into());
    // The wait for a server that does not join is limited.
    let wait = args.max_wait.max(1.0);
    line.extend(
        [
            "--min-receivers",
            "1",
            "--max-wait",
            &wait.to_string(),
            "--via",
            &args.via,
        ]
        .map(OsString::from),
    );
    if args.nice {
        line.push("--nice".into());
    }
    if args.greedy {
        line.push("--greedy".into());
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
    let parsed = Cli::try_parse_from(line)
        .map_err(|error| Failure::new(Code::Usage, error.to_string().trim_end()))?;
    let Command::Send(mut send) = parsed.command else {
        unreachable!("the line says so")
    };
    send.wire = args.wire.clone();
    (send.key, send.auth_only) = (args.key.clone(), args.auth_only);
    Ok(*send)
}

#[derive(Debug, PartialEq, Eq)]
pub struct Target {
    pub sources: Vec<OsString>,
    pub nodes: Vec<String>,
    /// Name in the served directory; by default the source's own.
    pub name: Option<String>,
}

impl Target {
    /// Parses the arguments: `SOURCE HOSTS:[NAME]`, or with -w or in a job `SOURCE [[:]NAME]`;
    /// several SOURCEs with `HOSTS:` or `:` behind them.
    pub fn of(args: &CpArgs) -> anyhow::Result<Target> {
        let job = std::env::var(inputs::SLURM_JOB).ok();
        let (sources, dest) = parted(&args.paths);
        let (nodes, name) = split(dest, args.nodes.as_deref(), job.as_deref())?;
        let name = match sources {
            [source] => name_of(&name, Path::new(source))?,
            _ if is_there_anyway(&name) => None,
            _ => {
                let text = format!(
                    "several sources keep their own names, so the name {name} cannot be used: give HOSTS: last, or \
                     with -w a colon alone, as in `ethbcast cp -w n[1-31] a b :`"
                );
                return fail(Code::Usage, text);
            }
        };
        Ok(Target {
            nodes: inputs::hosts(&nodes)?,
            sources: sources.to_vec(),
            name,
        })
    }
}

fn parted(paths: &[OsString]) -> (&[OsString], Option<&OsStr>) {
    match paths {
        [source @ .., dest] if !source.is_empty() => (source, Some(dest)),
        alone => (alone, None),
    }
}

fn is_there_anyway(name: &str) -> bool {
    name.is_empty() || name == "." || name == "./"
}

fn split(
    dest: Option<&OsStr>,
    given: Option<&str>,
    job: Option<&str>,
) -> anyhow::Result<(String, String)> {
    let text = dest.map(|dest| {
        dest.to_str().ok_or_else(|| {
            Failure::new(Code::Usage, "DEST is no text in UTF-8: choose another name")
        })
    });
    let (hosts, name) = match text.transpose()? {
        None => ("", ""),
        Some(text) => match end_of_hosts(text) {
            Some(end) => (&text[..end], &text[end + 1..]),
            None => ("", text),
        },
    };
    match (hosts, given) {
        ("", _) => match given.or(job) {
            Some(nodes) => Ok((nodes.to_owned(), name.to_owned())),
            None => fail(
                Code::Usage,
                "to which hosts? `ethbcast cp SOURCE n[1-31]:`, or -w n[1-31], or in a Slurm job",
            ),
        },
        (hosts, Some(_)) => fail(
            Code::Usage,
            format!("hosts twice, -w and {hosts}: leave one out"),
        ),
        (hosts, None) => Ok((hosts.to_owned(), name.to_owned())),
    }
}

/// Returns the position of the colon that ends the hosts, the first that is not part of an address.
fn end_of_hosts(text: &str) -> Option<usize> {
    let mut begin = 0;
    loop {
        let colon = begin + text[begin..].find(':')?;
        let word = text[..colon]
            .rfind(|letter: char| ",@ ".contains(letter))
            .map_or(0, |at| at + 1);
        match address_bytes(&text[word..]) {
            Some(bytes) if word + bytes > colon => begin = word + bytes,
            _ => return Some(colon),
        }
    }
}

/// Returns the length of the address at the beginning of a text: six pairs of digits, some of which
/// may be in brackets.
fn address_bytes(text: &str) -> Option<usize> {
    let mut at = 0;
    for pair in 0..6 {
        at += usize::from(pair > 0);
        let rest = text.get(at..)?;
        if pair > 0 && text.as_bytes().get(at - 1) != Some(&b':') {
            return None;
        }
        at += if rest.starts_with('[') {
            rest.find(']')? + 1
        } else {
            rest.get(..2)
                .filter(|pair| pair.bytes().all(|byte| byte.is_ascii_hexdigit()))?
                .len()
        };
    }
    Some(at)
}

/// Returns the name given by DEST. The directory is chosen by the hosts.
fn name_of(dest: &str, source: &Path) -> anyhow::Result<Option<String>> {
    if is_there_anyway(dest) || source.file_name() == Some(OsStr::new(dest)) {
        return Ok(None);
    }
    let help = "hosts that serve put everything into the directory that they serve: give a name alone, or none";
    if dest.contains('/') || dest == ".." {
        return fail(Code::Usage, format!("DEST {dest} is a path: {help}"));
    }
    if source.is_dir() {
        return fail(
            Code::Usage,
            format!("DEST {dest} is a name for one file: directories keep theirs, leave it out"),
        );
    }
    Ok(Some(dest.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_stand_before_a_colon_behind_w_or_in_the_job() {
        let split = |dest: Option<&str>, given, job| {
            split(dest.map(OsStr::new), given, job).map_err(|error| error.to_string())
        };
        let says = |nodes: &str, name: &str| Ok((nodes.to_owned(), name.to_owned()));
        assert_eq!(split(Some("n[1-3]:"), None, None), says("n[1-3]", ""));
        assert_eq!(split(Some("n1:x"), None, Some("n9")), says("n1", "x"));
        assert_eq!(split(Some(":x"), Some("n1"), None), says("n1", "x"));
        assert_eq!(split(Some("x"), Some("n1"), Some("n9")), says("n1", "x"));
        assert_eq!(split(None, None, Some("n9")), says("n9", ""));
        for hosts in [
            "pc@02:eb:00:00:00:0a",
            "02:eb:00:00:00:[01-03]",
            "n1,pc@02:eb:00:00:00:0a,n2",
            "^/a/hosts",
        ] {
            for name in ["", "x", "a:b"] {
                assert_eq!(
                    split(Some(&format!("{hosts}:{name}")), None, None),
                    says(hosts, name)
                );
            }
        }
        assert_eq!(
            split(Some("02:eb"), None, None),
            says("02", "eb"),
            "no address"
        );
        for (dest, given) in [
            (None, None),
            (Some("b"), None),
            (Some(":x"), None),
            (Some("n2:"), Some("n1")),
        ] {
            assert!(split(dest, given, None).is_err(), "{dest:?} {given:?}");
        }
    }

    #[test]
    fn all_but_the_last_are_copied() {
        let words = |line: &str| -> Vec<OsString> { line.split(' ').map(OsString::from).collect() };
        for (line, count, dest) in [
            ("a", 1, None),
            ("a n1:", 1, Some("n1:")),
            ("a b :", 2, Some(":")),
        ] {
            let paths = words(line);
            let (sources, found) = parted(&paths);
            assert_eq!(
                (sources.len(), found),
                (count, dest.map(OsStr::new)),
                "{line}"
            );
        }
    }

    #[test]
    fn dest_is_a_name_for_one_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = Path::new("/etc/hostname");
        let name =
            |dest: &str, source: &Path| name_of(dest, source).map_err(|error| error.to_string());
        assert_eq!(
            (name("", file), name("hostname", file)),
            (Ok(None), Ok(None))
        );
        assert_eq!(
            (name("x", file), name(".", directory.path())),
            (Ok(Some("x".to_owned())), Ok(None))
        );
        for (dest, source) in [
            ("/tmp/x", file),
            ("a/b", file),
            ("..", file),
            ("x", directory.path()),
        ] {
            assert!(name(dest, source).is_err(), "{dest} {source:?}");
        }
    }
}
