//! Expansion of ranges such as `n[1-8]` to host names, with a limit on their number. The size is
//! computed first, and names are written only if it is acceptable.

use super::{
    MAX_HOSTS, MAX_NAME_BYTES, MAX_NESTING, NodeSetError, NodeSetProblem, is_name_character,
};

/// Lists the hosts a node set names, in the order written; a host named twice is listed twice.
///
/// # Errors
/// [`NodeSetError`] with the position, when the string is not a node set, or names more than
/// [`MAX_HOSTS`] hosts or a host longer than [`MAX_NAME_BYTES`]: both are found by arithmetic,
/// before a name is stored.
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
            return Err(NodeSetError {
                position,
                problem: NodeSetProblem::TooManyHosts,
            });
        }
        if size.longest_bytes > MAX_NAME_BYTES {
            return Err(NodeSetError {
                position,
                problem: NodeSetProblem::NameTooLong,
            });
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
        pattern.iter().map(Self::of_part).fold(
            Self {
                names: 1,
                longest_bytes: 0,
            },
            |sum, part| Self {
                names: sum.names.saturating_mul(part.names),
                longest_bytes: sum.longest_bytes.saturating_add(part.longest_bytes),
            },
        )
    }

    fn of_part(part: &PatternPart) -> Self {
        match part {
            PatternPart::Text(text) => Self {
                names: 1,
                longest_bytes: text.len(),
            },
            PatternPart::Range(range) => {
                let more = (range.last - range.first) / range.step;
                Self {
                    names: usize::try_from(more)
                        .unwrap_or(usize::MAX)
                        .saturating_add(1),
                    longest_bytes: range.width_digits.max(decimal_digits(range.last)),
                }
            }
            PatternPart::Choice(patterns) => patterns.iter().map(Self::of_pattern).fold(
                Self {
                    names: 0,
                    longest_bytes: 0,
                },
                |sum, pattern| Self {
                    names: sum.names.saturating_add(pattern.names),
                    longest_bytes: sum.longest_bytes.max(pattern.longest_bytes),
                },
            ),
        }
    }
}

fn decimal_digits(number: u64) -> usize {
    number
        .checked_ilog10()
        .map_or(1, |exponent| exponent as usize + 1)
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
        .map(|index| {
            format!(
                "{:0width$}",
                range.first + index * range.step,
                width = range.width_digits
            )
        })
        .collect()
}

fn append_each(heads: &[String], tails: &[String]) -> Vec<String> {
    heads
        .iter()
        .flat_map(|head| tails.iter().map(move |tail| format!("{head}{tail}")))
        .collect()
}

pub(super) type NamePattern = Vec<PatternPart>;

#[derive(Debug)]
pub(super) enum PatternPart {
    Text(String),
    Range(Range),
    Choice(Vec<NamePattern>),
}

/// Numbers `first, first + step, …` up to `last`, zero-padded to `width_digits`.
#[derive(Debug)]
pub(super) struct Range {
    pub first: u64,
    pub last: u64,
    pub step: u64,
    pub width_digits: usize,
}

pub(super) struct Scanner<'a> {
    rest: &'a str,
    position: usize,
}

impl<'a> Scanner<'a> {
    pub fn new(text: &'a str) -> Self {
        Self {
            rest: text,
            position: 1,
        }
    }

    pub fn position(&self) -> usize {
        self.position
    }

    pub fn skip_blanks(&mut self) {
        self.take_while(char::is_whitespace);
    }

    /// Skips the separator of two patterns, a comma or blanks. Returns `false` at the end of the
    /// string, an error at anything else.
    pub fn next_pattern(&mut self) -> Result<bool, NodeSetError> {
        let has_blanks = !self.take_while(char::is_whitespace).is_empty();
        match self.peek() {
            None => Ok(false),
            Some(',') => {
                self.step_over(',');
                Ok(true)
            }
            Some(_) if has_blanks => Ok(true),
            Some(_) => Err(self.expected("`,`, `[` or the rest of a host name")),
        }
    }

    pub fn pattern(&mut self) -> Result<NamePattern, NodeSetError> {
        let mut parts = NamePattern::new();
        loop {
            match self.peek() {
                Some('[') => parts.push(self.bracket(1)?),
                Some(character)
                    if is_name_character(character) || character == '@' && !parts.is_empty() =>
                {
                    let is_text = |character| is_name_character(character) || character == '@';
                    parts.push(PatternPart::Text(self.take_while(is_text).to_string()));
                }
                _ if parts.is_empty() => return Err(self.expected("a host name such as n[0-7]")),
                _ => return Ok(parts),
            }
        }
    }

    fn bracket(&mut self, depth: usize) -> Result<PatternPart, NodeSetError> {
        if depth > MAX_NESTING {
            return Err(self.error(NodeSetProblem::TooDeep));
        }
        self.step_over('[');
        let mut choices = vec![self.choice(depth)?];
        loop {
            match self.peek() {
                Some(',') => {
                    self.step_over(',');
                    choices.push(self.choice(depth)?);
                }
                Some(']') => {
                    self.step_over(']');
                    return Ok(PatternPart::Choice(choices));
                }
                _ => return Err(self.expected("`-`, `,` or `]` after a number in a bracket")),
            }
        }
    }

    fn choice(&mut self, depth: usize) -> Result<NamePattern, NodeSetError> {
        let mut parts = NamePattern::new();
        loop {
            match self.peek() {
                Some('[') => parts.push(self.bracket(depth + 1)?),
                Some('0'..='9') => parts.push(PatternPart::Range(self.range()?)),
                _ if parts.is_empty() => return Err(self.expected("a number in a bracket")),
                _ => return Ok(parts),
            }
        }
    }

    fn range(&mut self) -> Result<Range, NodeSetError> {
        let start = self.position;
        let (first_digits, first) = self.number("a number in a bracket")?;
        let padded = |digits: &str| digits.len() > 1 && digits.starts_with('0');
        let width_digits = if padded(first_digits) {
            first_digits.len()
        } else {
            0
        };
        if !self.step_over('-') {
            return Ok(Range {
                first,
                last: first,
                step: 1,
                width_digits,
            });
        }
        let (last_digits, last) = self.number("the last number of the range")?;
        let ends = || (first_digits.to_string(), last_digits.to_string());
        if padded(last_digits) && last_digits.len() != first_digits.len() {
            let (first, last) = ends();
            return Err(NodeSetError {
                position: start,
                problem: NodeSetProblem::Padding { first, last },
            });
        }
        if first > last {
            let (first, last) = ends();
            return Err(NodeSetError {
                position: start,
                problem: NodeSetProblem::Backwards { first, last },
            });
        }
        let step = self.step()?;
        Ok(Range {
            first,
            last,
            step,
            width_digits,
        })
    }

    fn step(&mut self) -> Result<u64, NodeSetError> {
        if !self.step_over('/') {
            return Ok(1);
        }
        let start = self.position;
        match self.number("the step of the range")? {
            (_, 0) => Err(NodeSetError {
                position: start,
                problem: NodeSetProblem::ZeroStep,
            }),
            (_, step) => Ok(step),
        }
    }

    fn number(&mut self, expected: &'static str) -> Result<(&'a str, u64), NodeSetError> {
        let start = self.position;
        let digits = self.take_while(|character| character.is_ascii_digit());
        if digits.is_empty() {
            return Err(self.expected(expected));
        }
        match digits.parse() {
            Ok(value) => Ok((digits, value)),
            Err(_) => Err(NodeSetError {
                position: start,
                problem: NodeSetProblem::NumberTooLarge(digits.to_string()),
            }),
        }
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn step_over(&mut self, wanted: char) -> bool {
        let Some(rest) = self.rest.strip_prefix(wanted) else {
            return false;
        };
        self.rest = rest;
        self.position += 1;
        true
    }

    fn take_while(&mut self, accept: impl Fn(char) -> bool) -> &'a str {
        let end = self
            .rest
            .find(|character| !accept(character))
            .unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        self.position += taken.chars().count();
        taken
    }

    fn expected(&self, expected: &'static str) -> NodeSetError {
        self.error(NodeSetProblem::Expected {
            expected,
            found: self.peek(),
        })
    }

    fn error(&self, problem: NodeSetProblem) -> NodeSetError {
        NodeSetError {
            position: self.position,
            problem,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        expand(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn refusal(text: &str) -> String {
        expand(text).expect_err(text).to_string()
    }

    #[test]
    fn the_spellings_of_slurm_and_clustershell() {
        assert_eq!(names("login"), ["login"]);
        assert_eq!(names("n[0-3]"), ["n0", "n1", "n2", "n3"]);
        assert_eq!(names("n[0-1,5,8-9]"), ["n0", "n1", "n5", "n8", "n9"]);
        assert_eq!(names("n[08-11]"), ["n08", "n09", "n10", "n11"]);
        assert_eq!(
            names("n[08-11,3]x"),
            ["n08x", "n09x", "n10x", "n11x", "n3x"]
        );
        assert_eq!(names("n[001-2]"), ["n001", "n002"]);
        assert_eq!(names("n[0-8/4]"), ["n0", "n4", "n8"]);
        assert_eq!(names(" n1 ,  n3,n2 "), ["n1", "n3", "n2"]);
        assert_eq!(names("n1 n[2-3]\n"), ["n1", "n2", "n3"]);
        assert_eq!(
            names("pc@02:eb:00:00:00:0a, n[1-2]@x"),
            ["pc@02:eb:00:00:00:0a", "n1@x", "n2@x"]
        );
        assert_eq!(names("10.0.0.[1-2]"), ["10.0.0.1", "10.0.0.2"]);
        assert_eq!(
            names("n[18446744073709551614-18446744073709551615]").len(),
            2
        );
    }

    #[test]
    fn several_brackets_vary_the_leftmost_slowest() {
        assert_eq!(
            names("r[1-2]n[01-02],login"),
            ["r1n01", "r1n02", "r2n01", "r2n02", "login"]
        );
        assert_eq!(names("rack[1-2]n[01-08],login").len(), 17);
    }

    #[test]
    fn brackets_inside_brackets() {
        assert_eq!(names("n[1[0-2],7]"), ["n10", "n11", "n12", "n7"]);
        assert_eq!(names("n[0-1[0-1]]"), ["n00", "n01", "n10", "n11"]);
        assert_eq!(names("n[[[4]]]"), ["n4"]);
    }

    #[test]
    fn errors_name_the_character_and_what_was_expected() {
        let cases = [
            (
                "",
                "node set, character 1: expected a host name such as n[0-7], found the end",
            ),
            (
                "n1,",
                "node set, character 4: expected a host name such as n[0-7], found the end",
            ),
            (
                "n1,,n2",
                "node set, character 4: expected a host name such as n[0-7], found `,`",
            ),
            (
                "n1;n2",
                "node set, character 3: expected `,`, `[` or the rest of a host name, found `;`",
            ),
            (
                "n]",
                "node set, character 2: expected `,`, `[` or the rest of a host name, found `]`",
            ),
            (
                "n[0-7]!n3",
                "node set, character 7: expected `,`, `[` or the rest of a host name, found `!`",
            ),
            (
                "@all",
                "node set, character 1: expected a host name such as n[0-7], found `@`",
            ),
            (
                "é[",
                "node set, character 3: expected a number in a bracket, found the end",
            ),
            (
                "n[]",
                "node set, character 3: expected a number in a bracket, found `]`",
            ),
            (
                "n[1,]",
                "node set, character 5: expected a number in a bracket, found `]`",
            ),
            (
                "n[a-b]",
                "node set, character 3: expected a number in a bracket, found `a`",
            ),
            (
                "n[0-7",
                "node set, character 6: expected `-`, `,` or `]` after a number in a bracket, found the end",
            ),
            (
                "n[0-7a]",
                "node set, character 6: expected `-`, `,` or `]` after a number in a bracket, found `a`",
            ),
            (
                "n[0-]",
                "node set, character 5: expected the last number of the range, found `]`",
            ),
            (
                "n[0-8/]",
                "node set, character 7: expected the step of the range, found `]`",
            ),
            (
                "n[0-8/0]",
                "node set, character 7: a step of 0 never ends; use a step of 1 or more",
            ),
            (
                "n[7-0]",
                "node set, character 3: the range 7-0 runs backwards; write 0-7",
            ),
            (
                "n[1-010]",
                "node set, character 3: the range 1-010 pads its ends differently; give both ends the same number of \
             digits",
            ),
            (
                "n[99999999999999999999]",
                "node set, character 3: the number 99999999999999999999 is too large; use at most 19 digits in a \
                 bracket",
            ),
        ];
        for (text, message) in cases {
            assert_eq!(refusal(text), message, "{text}");
        }
    }

    #[test]
    fn expansion_beyond_the_limit_is_refused_by_arithmetic() {
        assert_eq!(names("n[1-1048576]").len(), MAX_HOSTS);
        let too_many = "the set names more than 1048576 hosts; check the ranges";
        assert_eq!(
            refusal("a,n[1-1048576]"),
            format!("node set, character 3: {too_many}")
        );
        // 10^19 × 10^19 names: only a refusal before the first allocation returns at all.
        let huge = "n[0-9999999999999999999][0-9999999999999999999]";
        assert_eq!(refusal(huge), format!("node set, character 1: {too_many}"));
        assert_eq!(
            refusal("n[0-18446744073709551615]"),
            format!("node set, character 1: {too_many}")
        );
    }

    #[test]
    fn long_names_and_deep_brackets_are_refused() {
        let padded = format!("n[{}1]", "0".repeat(254));
        assert_eq!(
            refusal(&padded),
            "node set, character 1: a name would be longer than 255 bytes; shorten it"
        );
        let deepest = format!("n{}1{}", "[".repeat(8), "]".repeat(8));
        assert_eq!(names(&deepest), ["n1"]);
        let too_deep = "n".to_string() + &"[".repeat(100_000);
        let message = "node set, character 10: brackets are nested more than 8 deep; write the groups side by side";
        assert_eq!(refusal(&too_deep), message);
    }
}
