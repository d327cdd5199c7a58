//! Expansion of a node set to names. The size is computed first, and names are written only if it
//! is acceptable.

use super::scan::{NamePattern, PatternPart, Range, Scanner};
use super::{MAX_HOSTS, MAX_NAME_BYTES, NodeSetError, NodeSetProblem};

/// Lists the hosts a node set names, in the order written; a host named twice is listed twice.
///
/// # Errors
/// [`NodeSetError`] with the position, when the string is not a node set, or names more than [`MAX_HOSTS`] hosts or a
/// host longer than [`MAX_NAME_BYTES`]: both are found by arithmetic, before a name is stored.
pub fn expand(text: &str) -> Result<Vec<String>, NodeSetError> {
    let mut scanner = Scanner::new(text);
    let mut patterns = Vec::new();
    let mut hosts = 0usize;
    loop {
        scanner.skip_blanks();
        let position = scanner.position();
        let pattern = scanner.pattern()?;
        let size = Size::of_pattern(&pattern);
        hosts = hosts.saturating_add(size.names);
        if hosts > MAX_HOSTS {
            return Err(NodeSetError { position, problem: NodeSetProblem::TooManyHosts });
        }
        if size.longest_bytes > MAX_NAME_BYTES {
            return Err(NodeSetError { position, problem: NodeSetProblem::NameTooLong });
        }
        patterns.push(pattern);
        if !scanner.next_pattern()? {
            return Ok(write_all(&patterns));
        }
    }
}

/// Cost of writing a pattern out; saturates instead of overflowing.
struct Size {
    names: usize,
    longest_bytes: usize,
}

impl Size {
    fn of_pattern(pattern: &NamePattern) -> Self {
        pattern.iter().map(Self::of_part).fold(Self { names: 1, longest_bytes: 0 }, |sum, part| Self {
            names: sum.names.saturating_mul(part.names),
            longest_bytes: sum.longest_bytes.saturating_add(part.longest_bytes),
        })
    }

    fn of_part(part: &PatternPart) -> Self {
        match part {
            PatternPart::Text(text) => Self { names: 1, longest_bytes: text.len() },
            PatternPart::Range(range) => {
                let more = (range.last - range.first) / range.step;
                Self {
                    names: usize::try_from(more).unwrap_or(usize::MAX).saturating_add(1),
                    longest_bytes: range.width_digits.max(decimal_digits(range.last)),
                }
            }
            PatternPart::Choice(patterns) => {
                patterns.iter().map(Self::of_pattern).fold(Self { names: 0, longest_bytes: 0 }, |sum, pattern| Self {
                    names: sum.names.saturating_add(pattern.names),
                    longest_bytes: sum.longest_bytes.max(pattern.longest_bytes),
                })
            }
        }
    }
}

fn decimal_digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |exponent| exponent as usize + 1)
}

fn write_all(patterns: &[NamePattern]) -> Vec<String> {
    patterns.iter().flat_map(write_pattern).collect()
}

fn write_pattern(pattern: &NamePattern) -> Vec<String> {
    let mut names = vec![String::new()];
    for part in pattern {
        match part {
            PatternPart::Text(text) => names.iter_mut().for_each(|name| name.push_str(text)),
            PatternPart::Range(range) => names = append_each(&names, &write_range(range)),
            PatternPart::Choice(patterns) => names = append_each(&names, &write_all(patterns)),
        }
    }
    names
}

fn write_range(range: &Range) -> Vec<String> {
    // Counting steps rather than comparing with `last` cannot overflow at the top of u64.
    let more = (range.last - range.first) / range.step;
    (0..=more)
        .map(|index| format!("{:0width$}", range.first + index * range.step, width = range.width_digits))
        .collect()
}

fn append_each(heads: &[String], tails: &[String]) -> Vec<String> {
    heads.iter().flat_map(|head| tails.iter().map(move |tail| format!("{head}{tail}"))).collect()
}

#[cfg(test)]
mod tests;
