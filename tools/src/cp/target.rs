//! What is copied to whom, under which name.

use crate::args::CpArgs;
use crate::doctor::text_of;
use crate::exit::{Code, Failure, fail};
use ethbcast_planning::topology::nodeset;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Where Slurm says which hosts a job has.
const JOB: &str = "SLURM_JOB_NODELIST";

/// What is copied to whom, under which name.
#[derive(Debug, PartialEq, Eq)]
pub struct Target {
    /// What.
    pub sources: Vec<OsString>,
    /// To whom, each host once.
    pub nodes: Vec<String>,
    /// Under this name in the directory that is served; without it, its own.
    pub name: Option<String>,
}

impl Target {
    /// As the arguments say: `SOURCE… HOSTS:[NAME]`, or with -w or in a job `SOURCE [NAME]`, `SOURCE… :`.
    ///
    /// # Errors
    /// A failure with code 2.
    pub fn of(args: &CpArgs) -> anyhow::Result<Target> {
        let job = std::env::var(JOB).ok();
        let (sources, nodes, dest) = split(&args.paths, args.nodes.as_deref(), job.as_deref())?;
        let name = name_of(&dest, &sources)?;
        Ok(Target { nodes: expand(&nodes)?, sources, name })
    }
}

/// SOURCEs, hosts and DEST.
fn split(
    paths: &[OsString],
    given: Option<&str>,
    job: Option<&str>,
) -> anyhow::Result<(Vec<OsString>, String, String)> {
    let (last, sources) = paths.split_last().expect("one at least is required");
    let text = last.to_str();
    let colon = text.and_then(|text| text.split_once(':')).filter(|_| !sources.is_empty());
    match (colon, given.or(job)) {
        (Some((hosts, _)), _) if given.is_some() && !hosts.is_empty() => {
            fail(Code::Usage, format!("hosts twice, -w and {hosts}: leave one out"))
        }
        (Some(("", dest)), Some(nodes)) => Ok((sources.to_vec(), nodes.to_owned(), dest.to_owned())),
        (Some((hosts, dest)), _) if !hosts.is_empty() => Ok((sources.to_vec(), hosts.to_owned(), dest.to_owned())),
        // As `sbcast SOURCE DEST`.
        (None, Some(nodes)) if sources.len() == 1 => {
            let dest = text.map(str::to_owned);
            let dest =
                dest.ok_or_else(|| Failure::new(Code::Usage, "DEST is no text in UTF-8: choose another name"))?;
            Ok((sources.to_vec(), nodes.to_owned(), dest))
        }
        (None, Some(nodes)) => Ok((paths.to_vec(), nodes.to_owned(), String::new())),
        _ => fail(Code::Usage, "to which hosts? `ethbcast cp SOURCE n[1-31]:`, or -w n[1-31], or in a Slurm job"),
    }
}

/// The name that DEST gives; the hosts decide in which directory.
fn name_of(dest: &str, sources: &[OsString]) -> anyhow::Result<Option<String>> {
    // A directory that is meant to be there already is where everything goes anyway.
    if dest.is_empty() || dest == "." || dest == "./" {
        return Ok(None);
    }
    let own = sources.first().and_then(|source| Path::new(source).file_name());
    let help = "hosts that serve put everything into the directory that they serve: give a name alone, or none";
    if dest.contains('/') || dest == ".." {
        return fail(Code::Usage, format!("DEST {dest} is a path: {help}"));
    }
    if own == Some(OsStr::new(dest)) && sources.len() == 1 {
        return Ok(None);
    }
    let is_one_file = sources.len() == 1 && !Path::new(&sources[0]).is_dir();
    if !is_one_file {
        return fail(Code::Usage, format!("DEST {dest} is a name for one file: directories keep theirs, leave it out"));
    }
    Ok(Some(dest.to_owned()))
}

/// The hosts of a node set, each once; groups are ClusterShell's to know.
fn expand(nodes: &str) -> anyhow::Result<Vec<String>> {
    let expanded = if nodes.contains('@') {
        text_of("nodeset", &["-e", "-S", "\n", nodes]).map_err(|why| {
            let text = format!("{nodes} has a group, which ClusterShell's `nodeset` knows: {why}; name the hosts");
            Failure::new(Code::Usage, text)
        })?
    } else {
        nodes.to_owned()
    };
    let sets = expanded
        .split_whitespace()
        .map(|set| nodeset::expand(set).map_err(|error| Failure::new(Code::Usage, format!("{set}: {error}"))));
    let names: Vec<Vec<String>> = sets.collect::<Result<_, _>>()?;
    let mut known = BTreeSet::new();
    Ok(names.into_iter().flatten().filter(|name| known.insert(name.clone())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    type Split = (Vec<OsString>, String, String);

    fn split_of(paths: &[&str], given: Option<&str>, job: Option<&str>) -> Result<Split, String> {
        let paths: Vec<OsString> = paths.iter().map(OsString::from).collect();
        split(&paths, given, job).map_err(|error| error.to_string())
    }

    #[test]
    fn hosts_stand_before_a_colon_behind_w_or_in_the_job() {
        let says = |sources: &[&str], nodes: &str, dest: &str| {
            Ok((sources.iter().map(OsString::from).collect(), nodes.to_owned(), dest.to_owned()))
        };
        assert_eq!(split_of(&["a", "n[1-3]:"], None, None), says(&["a"], "n[1-3]", ""));
        assert_eq!(split_of(&["a", "b", "n1:"], None, Some("n9")), says(&["a", "b"], "n1", ""));
        assert_eq!(split_of(&["a", "n1:x"], None, None), says(&["a"], "n1", "x"));
        assert_eq!(split_of(&["a", ":x"], Some("n1"), None), says(&["a"], "n1", "x"));
        assert_eq!(split_of(&["a", "x"], Some("n1"), Some("n9")), says(&["a"], "n1", "x"));
        assert_eq!(split_of(&["a"], None, Some("n9")), says(&["a"], "n9", ""));
        assert_eq!(split_of(&["a", "b", "c"], Some("n1"), None), says(&["a", "b", "c"], "n1", ""));
        for (paths, given) in
            [(&["a"][..], None), (&["a", "b"], None), (&["a", ":x"], None), (&["a", "n2:"], Some("n1"))]
        {
            assert!(split_of(paths, given, None).is_err(), "{paths:?} {given:?}");
        }
    }

    #[test]
    fn dest_is_a_name_for_one_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let name = |dest: &str, sources: &[&OsStr]| {
            let sources: Vec<OsString> = sources.iter().map(OsString::from).collect();
            name_of(dest, &sources).map_err(|error| error.to_string())
        };
        let file = OsStr::new("/etc/hostname");
        assert_eq!(name("", &[file]), Ok(None));
        assert_eq!((name("hostname", &[file]), name("x", &[file])), (Ok(None), Ok(Some("x".to_owned()))));
        for (dest, sources) in [
            ("/tmp/x", &[file][..]),
            ("a/b", &[file]),
            ("..", &[file]),
            ("x", &[file, file]),
            ("x", &[directory.path().as_os_str()]),
        ] {
            assert!(name(dest, sources).is_err(), "{dest} {sources:?}");
        }
    }

    #[test]
    fn each_host_counts_once() {
        assert_eq!(expand("n[1-2],n2 x").expect("names"), ["n1", "n2", "x"]);
        assert!(expand("n[1-").is_err());
    }
}
