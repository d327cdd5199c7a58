//! Reading of topology files, measured network costs and saved broadcast trees: the crate's only
//! file access.

use crate::model::{Calibration, CalibrationError};
use crate::plan::file::{SavedPlan, SavedPlanError};
use crate::topology::lldp::{self, LldpFile};
use crate::topology::{Imported, Topology, TopologyError, slurm};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Size limit of a file, in bytes; one of a million hosts by name has some 10 MB.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// Error of reading a file.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoadError {
    #[error("cannot read the {what} {}: {error}", path.display())]
    Unreadable {
        what: &'static str,
        path: PathBuf,
        error: io::Error,
    },
    #[error("the {what} {} is no text (UTF-8); name another file", path.display())]
    NoText { what: &'static str, path: PathBuf },
    #[error("the {what} {} is too large to be one; name another file", path.display())]
    TooLarge { what: &'static str, path: PathBuf },
    #[error(transparent)]
    Topology(#[from] TopologyError),
    #[error(transparent)]
    Calibration(#[from] CalibrationError),
    #[error(transparent)]
    Plan(#[from] SavedPlanError),
}

impl Topology {
    /// Reads a topology. The format is detected from the content: our own file, Slurm's
    /// `topology.conf` or `topology.yaml`, or a folder with the output of `lldpcli -f json0 show
    /// neighbors` of each host. If there is no such file, `path` may name a built-in test bed. The
    /// notes say what was ignored or assumed. `-` is stdin.
    ///
    /// # Errors
    /// If it cannot be read, or is invalid; with file and line.
    pub fn load(path: impl AsRef<Path>) -> Result<Imported, LoadError> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let known = |topology| Imported {
            topology,
            notes: Vec::new(),
        };
        if let Some(topology) = Topology::builtin(&name).filter(|_| !path.exists()) {
            return Ok(known(topology));
        }
        if path.is_dir() {
            return Topology::load_lldp(path, None);
        }
        let text = read_text(path, "topology file")?;
        if slurm::looks_like_topology_conf(&text) {
            return Ok(slurm::parse(&text, &name)?);
        }
        if slurm::looks_like_topology_yaml(&text) {
            return Ok(slurm::parse_yaml(&text, &name)?);
        }
        Ok(known(Topology::parse(&text, &name)?))
    }

    /// Reads a folder of `lldpcli` outputs, one for each host, restricted to `interface` if given.
    /// Hidden files and folders in it are skipped.
    ///
    /// # Errors
    /// The errors of [`load`](Topology::load).
    pub fn load_lldp(folder: &Path, interface: Option<&str>) -> Result<Imported, LoadError> {
        let unreadable = |error| LoadError::Unreadable {
            what: "folder",
            path: folder.to_owned(),
            error,
        };
        let mut files = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            let file_name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if file_name.starts_with('.') || !path.is_file() {
                continue;
            }
            let (name, source_name) = (
                LldpFile::name_of(&file_name).to_owned(),
                path.display().to_string(),
            );
            files.push(LldpFile {
                name,
                source_name,
                text: read_text(&path, "LLDP output")?,
            });
        }
        // Sorted, so that the first error does not depend on the order in which the folder is
        // listed.
        files.sort_by(|left, right| left.source_name.cmp(&right.source_name));
        Ok(lldp::read(
            &files,
            interface,
            &folder.display().to_string(),
        )?)
    }
}

impl Calibration {
    /// Reads a calibration that `ethbcast probe --out` wrote. `-` is stdin.
    ///
    /// # Errors
    /// If it cannot be read, or is invalid; with file and line.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        let path = path.as_ref();
        Ok(Self::parse(
            &read_text(path, "calibration file")?,
            &path.display().to_string(),
        )?)
    }
}

impl SavedPlan {
    /// Reads a plan that `ethbcast plan --out` wrote. `-` is stdin.
    ///
    /// # Errors
    /// If it cannot be read, or is invalid; with file and line.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        let path = path.as_ref();
        Ok(Self::parse(
            &read_text(path, "plan file")?,
            &path.display().to_string(),
        )?)
    }
}

/// Reads a text file of bounded length; `-` is stdin. `what` names its kind in errors.
///
/// # Errors
/// If it cannot be read, or is no text.
pub fn read_text(path: &Path, what: &'static str) -> Result<String, LoadError> {
    match path.to_str() {
        Some("-") => text_of(Ok(io::stdin()), path, what),
        _ => read_file(path, what),
    }
}

/// Reads a text file of bounded length, whatever its name.
pub(crate) fn read_file(path: &Path, what: &'static str) -> Result<String, LoadError> {
    text_of(File::open(path), path, what)
}

fn text_of(
    opened: io::Result<impl Read>,
    path: &Path,
    what: &'static str,
) -> Result<String, LoadError> {
    let mut text = String::new();
    let read = opened.and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text));
    let path = || path.to_owned();
    match read {
        Ok(bytes) if bytes as u64 <= MAX_FILE_BYTES => Ok(text),
        Ok(_) => Err(LoadError::TooLarge { what, path: path() }),
        Err(error) if error.kind() == ErrorKind::InvalidData => {
            Err(LoadError::NoText { what, path: path() })
        }
        Err(error) => Err(LoadError::Unreadable {
            what,
            path: path(),
            error,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_of_a_file_is_recognised_by_its_content() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("a file");
            path
        };
        let own = Topology::load(path(
            "a",
            "schema = 1\n[[switch]]\nname = 's0'\nhosts = 'n[0-3]'\n",
        ))
        .expect("ours");
        let slurm = Topology::load(path(
            "b",
            "# racks\nSWITCHNAME=s0 Nodes=n[0-3] LinkSpeed=1\n",
        ))
        .expect("Slurm's");
        assert_eq!(own.topology, slurm.topology);
        let yaml =
            "- topology: t\n  tree:\n    switches:\n      - switch: s0\n        nodes: n[0-3]\n";
        assert_eq!(
            own.topology,
            Topology::load(path("e", yaml))
                .expect("Slurm's newer")
                .topology
        );
        assert_eq!((own.notes.len(), slurm.notes.len()), (0, 1));
        let refusal = Topology::load(path("c", "hosts: n0\n")).expect_err("no topology");
        assert!(
            matches!(&refusal, LoadError::Topology(error) if error.to_string().contains("/c:1: ")),
            "{refusal}"
        );
        let missing = Topology::load(folder.path().join("missing")).expect_err("nothing");
        assert!(matches!(missing, LoadError::Unreadable { .. }));
        std::fs::write(folder.path().join("d"), b"\xff\xfe").expect("a file");
        assert!(matches!(
            Topology::load(folder.path().join("d")),
            Err(LoadError::NoText { .. })
        ));
        assert_eq!(
            Topology::load("fig9-5")
                .expect("a test bed")
                .topology
                .hosts()
                .len(),
            32
        );
    }

    #[test]
    fn a_folder_is_one_of_lldp_outputs() {
        let folder = tempfile::tempdir().expect("a folder");
        let output = r#"{"lldp": [{"interface": [{"name": "eth0", "chassis": [{"name": [{"value": "sw1"}]}]}]}]}"#;
        for host in ["n0.json", "n1.json", ".hidden"] {
            std::fs::write(folder.path().join(host), output).expect("a file");
        }
        std::fs::create_dir(folder.path().join("old")).expect("a folder");
        let read = Topology::load(folder.path()).expect("a topology").topology;
        assert_eq!(
            (read.hosts(), read.switches()),
            (
                ["n0".to_owned(), "n1".to_owned()].as_slice(),
                ["sw1".to_owned()].as_slice()
            )
        );
        std::fs::write(folder.path().join("n2.json"), "{").expect("a file");
        let text = Topology::load(folder.path())
            .expect_err("no JSON")
            .to_string();
        assert!(
            text.contains("n2.json:1: expected the output of `lldpcli"),
            "{text}"
        );
    }
}
