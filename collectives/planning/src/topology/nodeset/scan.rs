//! The grammar of node sets, read by recursive descent into a small tree of parts.
//!
//! ```text
//! set     = pattern { ( "," | blanks ) pattern }
//! pattern = ( name-characters | bracket ) { name-characters | bracket }
//! bracket = "[" choice { "," choice } "]"
//! choice  = ( range | bracket ) { range | bracket }
//! range   = digits [ "-" digits [ "/" digits ] ]
//! ```

use super::{MAX_NESTING, NodeSetError, NodeSetProblem, is_name_character};

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
        Self { rest: text, position: 1 }
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
                Some(character) if is_name_character(character) || character == '@' && !parts.is_empty() => {
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
        let width_digits = if padded(first_digits) { first_digits.len() } else { 0 };
        if !self.step_over('-') {
            return Ok(Range { first, last: first, step: 1, width_digits });
        }
        let (last_digits, last) = self.number("the last number of the range")?;
        let ends = || (first_digits.to_string(), last_digits.to_string());
        if padded(last_digits) && last_digits.len() != first_digits.len() {
            let (first, last) = ends();
            return Err(NodeSetError { position: start, problem: NodeSetProblem::Padding { first, last } });
        }
        if first > last {
            let (first, last) = ends();
            return Err(NodeSetError { position: start, problem: NodeSetProblem::Backwards { first, last } });
        }
        let step = self.step()?;
        Ok(Range { first, last, step, width_digits })
    }

    fn step(&mut self) -> Result<u64, NodeSetError> {
        if !self.step_over('/') {
            return Ok(1);
        }
        let start = self.position;
        match self.number("the step of the range")? {
            (_, 0) => Err(NodeSetError { position: start, problem: NodeSetProblem::ZeroStep }),
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
            Err(_) => {
                Err(NodeSetError { position: start, problem: NodeSetProblem::NumberTooLarge(digits.to_string()) })
            }
        }
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn step_over(&mut self, wanted: char) -> bool {
        let Some(rest) = self.rest.strip_prefix(wanted) else { return false };
        self.rest = rest;
        self.position += 1;
        true
    }

    fn take_while(&mut self, accept: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|character| !accept(character)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        self.position += taken.chars().count();
        taken
    }

    fn expected(&self, expected: &'static str) -> NodeSetError {
        self.error(NodeSetProblem::Expected { expected, found: self.peek() })
    }

    fn error(&self, problem: NodeSetProblem) -> NodeSetError {
        NodeSetError { position: self.position, problem }
    }
}
