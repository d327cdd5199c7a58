//! Node sets such as `n[1-8]`: many host names in a short string, as Slurm and ClusterShell write
//! them.
//!
//! `rack[1-2]n[01-08],login` is seventeen hosts. `expand` turns the string into names, [`fold`]
//! turns names back into a short string; `expand(fold(names)) == names`, order and repetitions
//! included.
//!
//! Understood: any number of bracket groups per name (the leftmost varies slowest), lists and
//! ranges inside brackets, zero padding (`01-08`), ClusterShell's steps (`0-8/2`), brackets inside
//! brackets (`1[0-3]`), blanks and lines instead of commas or around them, and `name@address` for
//! hosts that share a name.
//!
//! Refused are wildcards, and what [`host_list`](crate::host_list) understands: operators between
//! sets (`!`, `&`, `^`) and files.

mod expand;

pub use expand::expand;

use crate::names::take_piece;
use thiserror::Error;

/// Limit of hosts in one node set or topology; more are a typing error such as `n[0-10000000]`.
pub const MAX_HOSTS: usize = 1 << 20;

/// Longest name in bytes; DNS allows 253, Linux 64.
pub const MAX_NAME_BYTES: usize = 255;

/// Limit of nested brackets, so that a hostile string cannot exhaust the stack.
pub const MAX_NESTING: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("node set, character {position}: {problem}")]
#[non_exhaustive]
pub struct NodeSetError {
    /// Position of the character in the string, counted from 1.
    pub position: usize,
    pub problem: NodeSetProblem,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NodeSetProblem {
    #[error("expected {expected}, found {}", describe(.found))]
    Expected {
        expected: &'static str,
        /// Character found, or `None` at the end of the string.
        found: Option<char>,
    },
    #[error("the range {first}-{last} runs backwards; write {last}-{first}")]
    Backwards { first: String, last: String },
    #[error(
        "the range {first}-{last} pads its ends differently; give both ends the same number of digits"
    )]
    Padding { first: String, last: String },
    #[error("the number {0} is too large; use at most 19 digits in a bracket")]
    NumberTooLarge(String),
    #[error("a step of 0 never ends; use a step of 1 or more")]
    ZeroStep,
    #[error("the set names more than {MAX_HOSTS} hosts; check the ranges")]
    TooManyHosts,
    #[error("a name would be longer than {MAX_NAME_BYTES} bytes; shorten it")]
    NameTooLong,
    #[error("brackets are nested more than {MAX_NESTING} deep; write the groups side by side")]
    TooDeep,
}

/// Whether a character may be part of a name; all others have, or may one day have, a meaning in
/// node sets.
pub(super) fn is_name_character(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '-' | '_' | '.' | ':')
}

fn describe(found: &Option<char>) -> String {
    match found {
        Some(character) => format!("`{}`", character.escape_debug()),
        None => "the end".to_string(),
    }
}

/// Writes names as one compact node set; `expand(fold(names)) == names` for names made of letters,
/// digits and `-_.:@`.
///
/// Only neighbours are merged, so sorted names fold best: `n0 n1 n2` becomes `n[0-2]`, `n2 n0 n1`
/// becomes `n[2,0-1]`. An empty list gives an empty string, which is no node set.
pub fn fold<S: AsRef<str>>(names: &[S]) -> String {
    let mut items: Vec<MergedName> = names.iter().map(|name| cut(name.as_ref())).collect();
    let positions = items.iter().map(Vec::len).max().unwrap_or(0);
    for position in (0..positions).rev() {
        items = merge_at(items, position);
    }
    items.iter().map(render).collect::<Vec<_>>().join(",")
}

type MergedName = Vec<NamePart>;

#[derive(Debug, PartialEq)]
enum NamePart {
    Text(String),
    Numbers(Vec<DigitRange>),
}

/// Consecutive numbers, as digits: leading zeros are part of a name.
#[derive(Debug, PartialEq)]
struct DigitRange {
    first: String,
    last: String,
}

impl DigitRange {
    fn continues_with(&self, digits: &str) -> bool {
        let padded = self.first.len() > 1 && self.first.starts_with('0');
        let width = if padded { self.first.len() } else { 0 };
        let next = self
            .last
            .parse::<u64>()
            .ok()
            .and_then(|last| last.checked_add(1));
        next.is_some_and(|next| format!("{next:0width$}") == digits)
    }
}

fn cut(name: &str) -> MergedName {
    let mut parts = MergedName::new();
    // Numbers of an address are not folded.
    let (mut rest, address) = name.split_at(name.find('@').unwrap_or(name.len()));
    while let Some(head) = rest.chars().next() {
        let piece = take_piece(&mut rest);
        // A number that does not fit into 64 bits may not stand in a bracket: it stays text.
        if head.is_ascii_digit() && piece.parse::<u64>().is_ok() {
            parts.push(NamePart::Numbers(vec![DigitRange {
                first: piece.to_string(),
                last: piece.to_string(),
            }]));
        } else {
            parts.push(NamePart::Text(piece.to_string()));
        }
    }
    if !address.is_empty() {
        parts.push(NamePart::Text(address.to_owned()));
    }
    parts
}

fn merge_at(items: Vec<MergedName>, position: usize) -> Vec<MergedName> {
    let mut merged: Vec<MergedName> = Vec::new();
    for mut item in items {
        match merged.last_mut() {
            Some(previous) if differ_only_at(previous, &item, position) => {
                let next = item.swap_remove(position);
                if let (NamePart::Numbers(runs), NamePart::Numbers(more)) =
                    (&mut previous[position], next)
                {
                    append_runs(runs, more);
                }
            }
            _ => merged.push(item),
        }
    }
    merged
}

fn differ_only_at(left: &MergedName, right: &MergedName, position: usize) -> bool {
    let numbers = |item: &MergedName| matches!(item.get(position), Some(NamePart::Numbers(_)));
    numbers(left)
        && numbers(right)
        && left[..position] == right[..position]
        && left[position + 1..] == right[position + 1..]
}

fn append_runs(runs: &mut Vec<DigitRange>, more: Vec<DigitRange>) {
    for run in more {
        match runs.last_mut() {
            Some(open) if open.continues_with(&run.first) => open.last = run.last,
            _ => runs.push(run),
        }
    }
}

fn render(item: &MergedName) -> String {
    item.iter()
        .map(|part| match part {
            NamePart::Text(text) => text.clone(),
            NamePart::Numbers(runs) => match runs.as_slice() {
                [run] if run.first == run.last => run.first.clone(),
                runs => format!(
                    "[{}]",
                    runs.iter().map(render_run).collect::<Vec<_>>().join(",")
                ),
            },
        })
        .collect()
}

fn render_run(run: &DigitRange) -> String {
    if run.first == run.last {
        run.first.clone()
    } else {
        format!("{}-{}", run.first, run.last)
    }
}

/// Formats names in backquotes; a long list is truncated, so that a message stays readable on a
/// cluster of 400 switches.
pub(crate) fn list(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let mut text = names
        .iter()
        .take(SHOWN)
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ");
    if names.len() > SHOWN {
        text += &format!(" and {} more", names.len() - SHOWN);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refold(text: &str) -> String {
        fold(&expand(text).expect(text))
    }

    #[test]
    fn folded_names_expand_again_and_are_written_as_people_do() {
        for text in [
            "login",
            "n[0-7]",
            "rack[1-2]n[01-08],login",
            "n[08-11]",
            "n[2,0-1]",
            "n[0,4,8]",
            "n1,n1x",
            "a,b,c",
        ] {
            assert_eq!(refold(text), text);
        }
        assert_eq!(refold("n[9-10],n11"), "n[9-11]");
        assert_eq!(refold("n[1[0-3]]"), "n[10-13]");
        assert_eq!(refold("r[1-2]c[1-2]n[1-2]"), "r[1-2]c[1-2]n[1-2]");
        assert_eq!(fold::<&str>(&[]), "");
    }

    #[test]
    fn padding_order_and_repetition_survive() {
        assert_eq!(fold(&["n08", "n9"]), "n[08,9]");
        assert_eq!(fold(&["n1", "n1"]), "n[1,1]");
        assert_eq!(fold(&["pc@02:09", "pc@02:10"]), "pc@02:09,pc@02:10");
        assert_eq!(fold(&["n1@02:0a", "n2@02:0a"]), "n[1-2]@02:0a");
        assert_eq!(
            fold(&["n99999999999999999999", "n1"]),
            "n99999999999999999999,n1"
        );
        assert_eq!(fold(&["a1b1", "a2b1", "a1b2"]), "a[1-2]b1,a1b2");
    }

    proptest! {
        #[test]
        fn fold_then_expand_is_identity(
            names in prop::collection::vec("[a-c]{0,1}[0-9]{0,3}[-_.:é]?[0-2]{1,2}(@[0-2]:[0-2])?", 1..60),
        ) {
            prop_assert_eq!(expand(&fold(&names)), Ok(names));
        }

        #[test]
        fn a_grid_of_racks_folds_to_one_pattern(racks in 2u32..9, hosts in 2u32..30, width in 1usize..4) {
            let names: Vec<String> = (1..=racks)
                .flat_map(|rack| (1..=hosts).map(move |host| format!("rack{rack}n{host:0width$}")))
                .collect();
            let text = fold(&names);
            prop_assert_eq!(expand(&text), Ok(names));
            prop_assert!(!text.contains("rack1n"), "{} should be one pattern", text);
        }

        #[test]
        fn any_text_is_expanded_or_refused_without_a_panic(text in "[n0-9,/ \\[\\]-]{0,24}") {
            if let Err(error) = expand(&text) {
                prop_assert!((1..=text.chars().count() + 1).contains(&error.position), "{}: {}", text, error);
            }
        }
    }
}
