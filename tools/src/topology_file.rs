//! Topologies from wherever they are: our own files, Slurm's, folders of LLDP outputs, and the test beds by name.

use crate::exit::{Code, Failure, WithCode, fail};
use ethbcast_planning::topology::lldp::{self, LldpFile};
use ethbcast_planning::topology::slurm::{self, Address};
use ethbcast_planning::topology::{Imported, Topology, nodeset};
use std::io::{ErrorKind, Read};
use std::path::Path;

/// Larger files than this are no topologies; a file of a million hosts by name has some 10 MB.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// Reads a topology, and prints on stderr what had to be ignored or assumed; what it is, is told by its content. The
/// name of a test bed will do if there is no such file.
///
/// # Errors
/// A [`Failure`] with code 2 (malformed) or 4 (unreadable).
pub fn read_topology(path: &Path) -> anyhow::Result<Topology> {
    let Imported { topology, notes } = load(path)?;
    print_notes(&notes);
    Ok(topology)
}

/// The host of the topology, which is called `name`, that `--root` names.
///
/// # Errors
/// A [`Failure`] with code 2.
pub fn find_root(topology: &Topology, name: &str, root: &str) -> anyhow::Result<usize> {
    let Some(host) = topology.host_named(root) else {
        let known = nodeset::fold(topology.hosts());
        let text = format!("the topology ({name}) has no host {root}, only {known}: choose one of them with --root");
        return fail(Code::Usage, text);
    };
    Ok(host)
}

/// Prints what had to be ignored or assumed.
pub fn print_notes(notes: &[String]) {
    notes.iter().for_each(|note| crate::exit::say(format_args!("ethbcast: note: {note}")));
}

/// Reads a topology as [`read_topology`] does, the notes left to the caller.
///
/// # Errors
/// A [`Failure`] with code 2 (malformed) or 4 (unreadable).
pub fn load(path: &Path) -> anyhow::Result<Imported> {
    let name = path.display().to_string();
    if let Some(topology) = Topology::builtin(&name).filter(|_| !path.exists()) {
        return Ok(Imported { topology, notes: Vec::new() });
    }
    if path.is_dir() {
        return load_lldp(path, None);
    }
    let text = read_text(path, "topology file")?;
    if slurm::looks_like_topology_conf(&text) {
        return slurm::parse(&text, &name).code(Code::Usage);
    }
    if slurm::looks_like_topology_yaml(&text) {
        return slurm::parse_yaml(&text, &name).code(Code::Usage);
    }
    let topology = Topology::parse(&text, &name).code(Code::Usage)?;
    Ok(Imported { topology, notes: Vec::new() })
}

/// Reads a folder of `lldpcli` outputs; hidden files and folders in it are skipped.
///
/// # Errors
/// A [`Failure`] with code 2 (malformed) or 4 (unreadable).
pub fn load_lldp(folder: &Path, interface: Option<&str>) -> anyhow::Result<Imported> {
    let unreadable =
        |error| Failure::new(Code::System, format!("cannot read the folder {}: {error}", folder.display()));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let file_name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if file_name.starts_with('.') || !path.is_file() {
            continue;
        }
        let text = read_text(&path, "LLDP output")?;
        files.push(LldpFile {
            name: LldpFile::name_of(&file_name).to_owned(),
            source_name: path.display().to_string(),
            text,
        });
    }
    // Folders are listed in any order; the first error should be the same one each time.
    files.sort_by(|left, right| left.source_name.cmp(&right.source_name));
    lldp::read(&files, interface, &folder.display().to_string()).code(Code::Usage)
}

/// Reads a text file; `-` is stdin.
///
/// # Errors
/// A [`Failure`] with code 2 (not text, or too large to be one) or 4 (unreadable).
pub fn read_text(path: &Path, what: &str) -> anyhow::Result<String> {
    let name = path.display();
    let unreadable = |error: std::io::Error| match error.kind() {
        ErrorKind::InvalidData => {
            Failure::new(Code::Usage, format!("the {what} {name} is no text (UTF-8); name another file"))
        }
        _ => Failure::new(Code::System, format!("cannot read the {what} {name}: {error}")),
    };
    let mut text = String::new();
    let read = match path.to_str() {
        Some("-") => std::io::stdin().take(MAX_FILE_BYTES + 1).read_to_string(&mut text),
        _ => std::fs::File::open(path).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)),
    };
    match read.map_err(unreadable)? as u64 {
        0..=MAX_FILE_BYTES => Ok(text),
        _ => fail(Code::Usage, format!("the {what} {name} is too large to be one; name another file")),
    }
}

/// The host of the topology that this process runs on, where Slurm says which one that is.
pub fn host_by_slurm(topology: &Topology) -> Option<usize> {
    let address = std::env::var("SLURM_TOPOLOGY_ADDR").ok()?;
    host_at(topology, &address, std::env::var("SLURM_TOPOLOGY_ADDR_PATTERN").ok().as_deref())
}

fn host_at(topology: &Topology, address: &str, pattern: Option<&str>) -> Option<usize> {
    topology.host_named(Address::parse(address, pattern).ok()?.host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(result: anyhow::Result<Imported>) -> (Code, String) {
        let error = result.expect_err("a failure");
        (error.downcast_ref::<Failure>().expect("a code").code(), error.to_string())
    }

    #[test]
    fn what_a_file_is_is_told_by_its_content() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("a file");
            path
        };
        let own = load(&path("a", "schema = 1\n[[switch]]\nname = 's0'\nhosts = 'n[0-3]'\n")).expect("our own");
        let slurm = load(&path("b", "# racks\nSWITCHNAME=s0 Nodes=n[0-3] LinkSpeed=1\n")).expect("Slurm's");
        assert_eq!(own.topology, slurm.topology);
        let yaml = "- topology: t\n  tree:\n    switches:\n      - switch: s0\n        nodes: n[0-3]\n";
        assert_eq!(own.topology, load(&path("e", yaml)).expect("Slurm's newer").topology);
        assert_eq!((own.notes.len(), slurm.notes.len()), (0, 1));
        let (code, text) = failure(load(&path("c", "hosts: n0\n")));
        assert_eq!(code, Code::Usage);
        assert!(text.contains("/c:1: "), "{text}");
        assert_eq!(failure(load(&folder.path().join("missing"))).0, Code::System);
        std::fs::write(folder.path().join("d"), b"\xff\xfe").expect("a file");
        assert_eq!(failure(load(&folder.path().join("d"))).0, Code::Usage);
    }

    #[test]
    fn a_folder_is_one_of_lldp_outputs() {
        let folder = tempfile::tempdir().expect("a folder");
        let output = r#"{"lldp": [{"interface": [{"name": "eth0", "chassis": [{"name": [{"value": "sw1"}]}]}]}]}"#;
        for host in ["n0.json", "n1.json", ".hidden"] {
            std::fs::write(folder.path().join(host), output).expect("a file");
        }
        std::fs::create_dir(folder.path().join("old")).expect("a folder");
        let read = load(folder.path()).expect("a topology").topology;
        assert_eq!(
            (read.hosts(), read.switches()),
            (["n0".to_owned(), "n1".to_owned()].as_slice(), ["sw1".to_owned()].as_slice())
        );
        std::fs::write(folder.path().join("n2.json"), "{").expect("a file");
        let (code, text) = failure(load(folder.path()));
        assert_eq!(code, Code::Usage);
        assert!(text.contains("n2.json:1: expected the output of `lldpcli"), "{text}");
    }

    #[test]
    fn slurm_says_which_host_this_is() {
        let bed = Topology::builtin("fig9-1").expect("fig9-1");
        assert_eq!(host_at(&bed, "s0.n3", Some("switch.node")), Some(3));
        assert_eq!(host_at(&bed, "s0.login", Some("switch.node")), None);
        assert_eq!(host_at(&bed, "s0.n3", Some("nonsense")), None);
    }
}
