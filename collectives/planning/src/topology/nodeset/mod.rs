//! Node sets: many host names in one short string, as Slurm and ClusterShell spell them.
//!
//! `rack[1-2]n[01-08],login` is seventeen hosts. [`expand`] turns the string into names, [`fold`] turns names back into
//! a short string; `expand(fold(names)) == names`, order and repetitions included.
//!
//! Understood: any number of bracket groups per name (the leftmost varies slowest), lists and ranges inside brackets,
//! zero padding (`01-08`), ClusterShell's steps (`0-8/2`), brackets inside brackets (`1[0-3]`), blanks and lines
//! instead of commas or around them, and `name@address`, as hosts are called that share a name.
//!
//! Not understood, and refused: wildcards, and what [`host_list`](crate::host_list) understands: operators between
//! sets (`!`, `&`, `^`) and files.

mod expand;
mod fold;
mod scan;

pub use expand::expand;
pub use fold::fold;
pub(crate) use fold::list;

use thiserror::Error;

/// Limit of hosts in one node set or topology; more are a typing error such as `n[0-10000000]`.
pub const MAX_HOSTS: usize = 1 << 20;

/// Longest name in bytes; DNS allows 253, Linux 64.
pub const MAX_NAME_BYTES: usize = 255;

/// Limit of nested brackets, so that a hostile string cannot exhaust the stack.
pub const MAX_NESTING: usize = 8;

/// Error in a node set: position and problem.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("node set, character {position}: {problem}")]
#[non_exhaustive]
pub struct NodeSetError {
    /// Position of the character in the string, counted from 1.
    pub position: usize,
    /// The problem there.
    pub problem: NodeSetProblem,
}

/// Problem of a node set.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NodeSetProblem {
    /// An unexpected character.
    #[error("expected {expected}, found {}", describe(.found))]
    Expected {
        /// Expected characters.
        expected: &'static str,
        /// Character found, or `None` at the end of the string.
        found: Option<char>,
    },
    /// The first number of a range exceeds its last.
    #[error("the range {first}-{last} runs backwards; write {last}-{first}")]
    Backwards {
        /// First number of the range as written.
        first: String,
        /// Last number of the range as written.
        last: String,
    },
    /// The ends of a range are zero-padded to different widths.
    #[error("the range {first}-{last} pads its ends differently; give both ends the same number of digits")]
    Padding {
        /// First number of the range as written.
        first: String,
        /// Last number of the range as written.
        last: String,
    },
    /// A number does not fit into 64 bits.
    #[error("the number {0} is too large; use at most 19 digits in a bracket")]
    NumberTooLarge(String),
    /// The step of a range is zero.
    #[error("a step of 0 never ends; use a step of 1 or more")]
    ZeroStep,
    /// The number of names exceeds [`MAX_HOSTS`].
    #[error("the set names more than {MAX_HOSTS} hosts; check the ranges")]
    TooManyHosts,
    /// A name exceeds [`MAX_NAME_BYTES`].
    #[error("a name would be longer than {MAX_NAME_BYTES} bytes; shorten it")]
    NameTooLong,
    /// Brackets are nested deeper than [`MAX_NESTING`].
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
