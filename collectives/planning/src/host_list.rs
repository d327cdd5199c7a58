//! Hosts as a user names them: node sets, and files of them.

use crate::load::{LoadError, read_file};
use crate::topology::nodeset::{self, NodeSetError};
use std::collections::BTreeSet;
use std::path::Path;
use thiserror::Error;

/// Reason why a text names no hosts.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HostListError {
    /// A group of hosts, or an operation on groups, which ClusterShell's `nodeset` knows.
    #[error("{text} has a group, which ClusterShell's `nodeset` knows: name the hosts, or a file of them with ^FILE")]
    Group {
        /// All of it.
        text: String,
    },
    /// Text that is no node set.
    #[error("{place}{}: {error}", set.escape_debug())]
    NodeSet {
        /// The file and the line, with what parts them from the rest; empty outside files.
        place: String,
        /// The text.
        set: String,
        /// Reason why it is no node set.
        error: NodeSetError,
    },
    /// A file of hosts cannot be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A list without hosts.
    #[error("`{}` names no host", text.escape_debug())]
    Nobody {
        /// All of it.
        text: String,
    },
}

/// Lists the hosts of a text, each once, in the order written. Commas, blanks or lines are between node sets; `^FILE`,
/// or `@FILE` if there is such a file, stands for the hosts of a file, one or more on a line, with comments behind `#`.
///
/// # Errors
/// [`HostListError`], of a file with its line.
pub fn read(text: &str) -> Result<Vec<String>, HostListError> {
    if has_group(text) {
        return Err(HostListError::Group { text: text.to_owned() });
    }
    let mut names = Vec::new();
    for piece in pieces(text) {
        names.extend(match file_of(piece) {
            Some(path) => of_file(path)?,
            None => of_set(piece, String::new())?,
        });
    }
    if names.is_empty() {
        return Err(HostListError::Nobody { text: text.to_owned() });
    }
    let mut known = BTreeSet::new();
    names.retain(|name| known.insert(name.clone()));
    Ok(names)
}

/// The parts between commas and blanks outside brackets.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    let parts = move |letter: char| {
        depth += i32::from(letter == '[') - i32::from(letter == ']');
        depth <= 0 && (letter == ',' || letter.is_whitespace())
    };
    text.split(parts).filter(|piece| !piece.is_empty())
}

/// The file that a piece names.
fn file_of(piece: &str) -> Option<&Path> {
    let maybe = piece.strip_prefix('@').map(Path::new).filter(|path| path.is_file());
    maybe.or_else(|| piece.strip_prefix('^').map(Path::new))
}

/// Whether a piece is a group, or an operation on groups.
fn has_group(text: &str) -> bool {
    let is_group = |piece: &str| piece.split(['!', '&', '^']).any(|word| word.starts_with('@'));
    pieces(text).any(|piece| file_of(piece).is_none() && is_group(piece))
}

fn of_file(path: &Path) -> Result<Vec<String>, HostListError> {
    let text = read_file(path, "list of hosts")?;
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.split('#').next().unwrap_or_default()));
    let mut names = Vec::new();
    for (at, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        names.extend(of_set(line, format!("{}, line {at}: ", path.display()))?);
    }
    Ok(names)
}

fn of_set(set: &str, place: String) -> Result<Vec<String>, HostListError> {
    let is_between = |letter: char| letter == ',' || letter.is_ascii_whitespace();
    let refused = |error| HostListError::NodeSet { place, set: set.trim().to_owned(), error };
    nodeset::expand(set.trim_end_matches(is_between)).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn names(text: &str) -> Vec<String> {
        read(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn hosts_stand_between_commas_blanks_or_lines_each_counts_once() {
        assert_eq!(names("n[1-2],n2 x\nn[7,9]"), ["n1", "n2", "x", "n7", "n9"]);
        assert_eq!(
            names("pc@02:eb:00:00:00:0a, n1@02:eb:00:00:00:01"),
            ["pc@02:eb:00:00:00:0a", "n1@02:eb:00:00:00:01"]
        );
        for none in ["n[1-", "", " ,", "n1;n2"] {
            assert!(read(none).is_err(), "{none}");
        }
        assert!(matches!(read("n1,@rack"), Err(HostListError::Group { .. })));
    }

    #[test]
    fn a_file_of_hosts_has_comments_and_any_spelling() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("hosts");
        fs::write(&path, "# rack 1\nn[1-2], # two\r\n\n  n3 n4\nn1\n").expect("written");
        for sign in ["@", "^"] {
            assert_eq!(names(&format!("{sign}{},x", path.display())), ["n1", "n2", "n3", "n4", "x"], "{sign}");
        }
        fs::write(&path, "n1\nn[2-\n").expect("written");
        let why = read(&format!("^{}", path.display())).expect_err("no set").to_string();
        assert!(why.contains("hosts, line 2: n[2-: node set, character 5"), "{why}");
        let why = read("^/no/such/file").expect_err("no file");
        assert!(why.to_string().contains("/no/such/file"), "{why}");
    }
}
