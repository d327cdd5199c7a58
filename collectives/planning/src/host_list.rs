//! Lists of hosts on the command line: names, ranges such as `n[1-8]`, and files of names.

use crate::load::{LoadError, read_file};
use crate::topology::nodeset::{self, NodeSetError};
use std::collections::HashSet;
use std::path::Path;
use thiserror::Error;

#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HostListError {
    /// A group of hosts, or an operation on groups, which ClusterShell's `nodeset` knows.
    #[error(
        "{text} has a group, which ClusterShell's `nodeset` knows: name the hosts, or a file of them with ^FILE"
    )]
    Group { text: String },
    #[error("{place}{}: {error}", set.escape_debug())]
    NodeSet {
        /// The file and the line, with the text that separates them from the rest; empty outside
        /// files.
        place: String,
        set: String,
        error: NodeSetError,
    },
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("`{}` has no hosts behind its `{operator}`: name them, or leave it out", text.escape_debug())]
    Operand { text: String, operator: char },
    #[error("`{}` names no host", text.escape_debug())]
    Nobody { text: String },
}

/// Lists the hosts of a text, each once, in the order written. Between node sets are commas, blanks
/// or lines, or ClusterShell's operators, which apply from left to right: `a!b` removes the hosts
/// of b, `a&b` keeps those of both, `a^b` those of one. `^FILE`, or `@FILE` if there is such a
/// file, stands for the hosts of a file, one or more on a line, with comments behind `#`.
///
/// # Errors
/// [`HostListError`], of a file with its line.
pub fn read(text: &str) -> Result<Vec<String>, HostListError> {
    if has_group(text) {
        return Err(HostListError::Group {
            text: text.to_owned(),
        });
    }
    let mut names = Vec::new();
    for Term { operator, set } in terms(text) {
        if set.is_empty() {
            return Err(HostListError::Operand {
                text: text.to_owned(),
                operator,
            });
        }
        let hosts = match file_of(set) {
            Some(path) => of_file(path)?,
            None => of_set(set, String::new())?,
        };
        apply(operator, &mut names, hosts);
    }
    if names.is_empty() {
        return Err(HostListError::Nobody {
            text: text.to_owned(),
        });
    }
    Ok(names)
}

/// A node set or a file, with the operator before it: `,` for the union.
struct Term<'a> {
    operator: char,
    set: &'a str,
}

fn terms(text: &str) -> Vec<Term<'_>> {
    let (mut terms, mut operator, mut start, mut depth) = (Vec::new(), ',', 0, 0_i32);
    for (at, letter) in text.char_indices() {
        let set = &text[start..at];
        depth += i32::from(letter == '[') - i32::from(letter == ']');
        let is_between = letter == ',' || letter.is_whitespace();
        // `^` before a set begins a file's name.
        let is_operator = matches!(letter, '!' | '&') || letter == '^' && !set.is_empty();
        if depth > 0 || !(is_between || is_operator) {
            continue;
        }
        if !set.is_empty() || operator != ',' && !letter.is_whitespace() {
            terms.push(Term { operator, set });
            operator = ',';
        }
        if is_operator {
            operator = letter;
        }
        start = at + letter.len_utf8();
    }
    if start < text.len() || operator != ',' {
        terms.push(Term {
            operator,
            set: &text[start..],
        });
    }
    terms
}

fn apply(operator: char, names: &mut Vec<String>, hosts: Vec<String>) {
    let other: HashSet<String> = hosts.iter().cloned().collect();
    let known: HashSet<String> = names.iter().cloned().collect();
    match operator {
        '!' | '^' => names.retain(|name| !other.contains(name)),
        '&' => names.retain(|name| other.contains(name)),
        _ => {}
    }
    if matches!(operator, ',' | '^') {
        let mut known = known;
        names.extend(hosts.into_iter().filter(|name| known.insert(name.clone())));
    }
}

fn file_of(piece: &str) -> Option<&Path> {
    let maybe = piece
        .strip_prefix('@')
        .map(Path::new)
        .filter(|path| path.is_file());
    maybe.or_else(|| piece.strip_prefix('^').map(Path::new))
}

fn has_group(text: &str) -> bool {
    terms(text)
        .iter()
        .any(|term| file_of(term.set).is_none() && term.set.starts_with('@'))
}

fn of_file(path: &Path) -> Result<Vec<String>, HostListError> {
    let text = read_file(path, "list of hosts")?;
    let lines = text
        .lines()
        .enumerate()
        .map(|(at, line)| (at + 1, line.split('#').next().unwrap_or_default()));
    let mut names = Vec::new();
    for (at, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        names.extend(of_set(line, format!("{}, line {at}: ", path.display()))?);
    }
    Ok(names)
}

fn of_set(set: &str, place: String) -> Result<Vec<String>, HostListError> {
    let is_between = |letter: char| letter == ',' || letter.is_ascii_whitespace();
    let refused = |error| HostListError::NodeSet {
        place,
        set: set.trim().to_owned(),
        error,
    };
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
    fn set_expressions_name_the_hosts_that_clustershell_s_nodeset_names() {
        // Lines of an expression, a tab, and what `nodeset -e -S ,` of ClusterShell 1.9 prints for
        // it.
        for line in include_str!("host_list.tsv").lines() {
            let (text, expected) = line.split_once('\t').expect("two columns");
            let hosts = read(text).map(|hosts| hosts.into_iter().collect::<HashSet<_>>());
            if expected.is_empty() {
                assert!(matches!(hosts, Err(HostListError::Nobody { .. })), "{text}");
            } else {
                let expected = expected.split(',').map(str::to_owned).collect();
                assert_eq!(hosts.expect("hosts"), expected, "{text}");
            }
        }
        assert_eq!(names("x2,x1!x2,x3"), ["x1", "x3"], "in the order written");
        for hanging in ["n1!", "n1,!n2&", "n1&!n2", "n1^ ,n2"] {
            assert!(
                matches!(read(hanging), Err(HostListError::Operand { .. })),
                "{hanging}"
            );
        }
    }

    #[test]
    fn a_file_of_hosts_has_comments_and_any_spelling() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("hosts");
        fs::write(&path, "# rack 1\nn[1-2], # two\r\n\n  n3 n4\nn1\n").expect("written");
        for sign in ["@", "^"] {
            assert_eq!(
                names(&format!("{sign}{},x", path.display())),
                ["n1", "n2", "n3", "n4", "x"],
                "{sign}"
            );
        }
        fs::write(&path, "n1\nn[2-\n").expect("written");
        let why = read(&format!("^{}", path.display()))
            .expect_err("no set")
            .to_string();
        assert!(
            why.contains("hosts, line 2: n[2-: node set, character 5"),
            "{why}"
        );
        let why = read("^/no/such/file").expect_err("no file");
        assert!(why.to_string().contains("/no/such/file"), "{why}");
    }
}
