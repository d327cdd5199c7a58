//! Hosts named by the user: node sets, files of them, and ClusterShell groups.

use crate::doctor::text_of;
use crate::exit::{Code, Failure};
use ethbcast_planning::topology::nodeset;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Returns the hosts of a node set without duplicates. `^FILE`, or `@FILE` if there is such a file,
/// reads a file with one or more names per line and comments after `#`; other groups (`@group`) are
/// resolved by ClusterShell.
///
/// # Errors
/// A [`Failure`] with code 2, or 4 if a file cannot be read.
pub fn hosts(text: &str) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    if has_group(text) {
        names = of_set(&of_clustershell(text)?, "")?;
    } else {
        for piece in pieces(text) {
            names.extend(match file_of(piece) {
                Some(path) => of_file(path)?,
                None => of_set(piece, "")?,
            });
        }
    }
    if names.is_empty() {
        return Err(Failure::new(Code::Usage, format!("`{}` names no host", text.escape_debug())));
    }
    let mut known = BTreeSet::new();
    names.retain(|name| known.insert(name.clone()));
    Ok(names)
}

/// Splits at commas and blanks outside brackets.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    let parts = move |letter: char| {
        depth += i32::from(letter == '[') - i32::from(letter == ']');
        depth <= 0 && (letter == ',' || letter.is_whitespace())
    };
    text.split(parts).filter(|piece| !piece.is_empty())
}

fn file_of(piece: &str) -> Option<&Path> {
    let maybe = piece.strip_prefix('@').map(Path::new).filter(|path| path.is_file());
    maybe.or_else(|| piece.strip_prefix('^').map(Path::new))
}

fn has_group(text: &str) -> bool {
    let is_group = |piece: &str| piece.split(['!', '&', '^']).any(|word| word.starts_with('@'));
    pieces(text).any(|piece| file_of(piece).is_none() && is_group(piece))
}

fn of_clustershell(text: &str) -> Result<String, Failure> {
    text_of("nodeset", &["-e", "-S", "\n", text]).map_err(|why| {
        let help = "name the hosts, or a file of them with ^FILE";
        Failure::new(Code::Usage, format!("{text} has a group, which ClusterShell's `nodeset` knows: {why}; {help}"))
    })
}

fn of_file(path: &Path) -> Result<Vec<String>, Failure> {
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::new(Code::System, format!("cannot read the hosts of {}: {error}", path.display())))?;
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.split('#').next().unwrap_or_default()));
    let mut names = Vec::new();
    for (at, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        names.extend(of_set(line, &format!("{}, line {at}: ", path.display()))?);
    }
    Ok(names)
}

fn of_set(set: &str, place: &str) -> Result<Vec<String>, Failure> {
    nodeset::expand(set.trim_end_matches([',', ' ', '\t', '\n', '\r']))
        .map_err(|error| Failure::new(Code::Usage, format!("{place}{}: {error}", set.trim().escape_debug())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        hosts(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn hosts_stand_between_commas_blanks_or_lines_each_counts_once() {
        assert_eq!(names("n[1-2],n2 x\nn[7,9]"), ["n1", "n2", "x", "n7", "n9"]);
        assert_eq!(
            names("pc@02:eb:00:00:00:0a, n1@02:eb:00:00:00:01"),
            ["pc@02:eb:00:00:00:0a", "n1@02:eb:00:00:00:01"]
        );
        for none in ["n[1-", "", " ,", "n1;n2"] {
            assert!(hosts(none).is_err(), "{none}");
        }
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
        let why = hosts(&format!("^{}", path.display())).expect_err("no set").to_string();
        assert!(why.contains("hosts, line 2: n[2-: node set, character 5"), "{why}");
        let why = hosts("^/no/such/file").expect_err("no file");
        assert!(why.to_string().contains("/no/such/file"), "{why}");
    }
}
