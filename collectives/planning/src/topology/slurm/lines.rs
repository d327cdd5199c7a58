//! Slurm's lines: comments, continued lines, and `KEY=VALUE` words.

use crate::topology::error::{SlurmProblem, TopologyError};

/// A line as Slurm sees it: without comments, with continued lines joined.
#[derive(Debug)]
pub(super) struct LogicalLine {
    text: String,
    /// Offset in `text` and number (from 1) of each line of the file.
    pieces: Vec<(usize, usize)>,
}

#[derive(Debug)]
pub(super) struct Pair<'a> {
    pub key: &'a str,
    pub value: &'a str,
    pub line: usize,
}

pub(super) fn logical_lines(text: &str) -> Vec<LogicalLine> {
    let mut lines = Vec::new();
    let mut open: Option<LogicalLine> = None;
    for (index, line) in text.lines().enumerate() {
        let content = strip_comment(line).trim_end();
        let (content, continues) = content.strip_suffix('\\').map_or((content, false), |content| (content, true));
        let mut joined = open.take().unwrap_or(LogicalLine { text: String::new(), pieces: Vec::new() });
        joined.append(content, index + 1);
        if continues {
            open = Some(joined);
        } else {
            lines.push(joined);
        }
    }
    lines.extend(open);
    lines.retain(|line| !line.text.trim().is_empty());
    lines
}

/// Returns everything before a `#`; Slurm lets `\#` stand for a literal one.
fn strip_comment(line: &str) -> &str {
    let begins = line.match_indices('#').find(|&(offset, _)| !line[..offset].ends_with('\\'));
    begins.map_or(line, |(offset, _)| &line[..offset])
}

impl LogicalLine {
    fn append(&mut self, content: &str, line: usize) {
        self.pieces.push((self.text.len(), line));
        // A list continued after a comma goes on even if the next line is indented, as people write
        // it.
        self.text += if self.text.ends_with(',') { content.trim_start() } else { content };
    }

    pub fn first_line(&self) -> usize {
        self.pieces[0].1
    }

    fn line_at(&self, offset: usize) -> usize {
        let piece = self.pieces.partition_point(|&(start, _)| start <= offset);
        self.pieces[piece.saturating_sub(1)].1
    }

    pub fn first_word(&self) -> &str {
        let text = self.text.trim_start();
        &text[..text.find(is_key_end).unwrap_or(text.len())]
    }

    /// Reads the line as `KEY=VALUE` words; Slurm allows blanks around the `=` and quotation marks
    /// around the value.
    pub fn pairs(&self) -> Result<Vec<Pair<'_>>, TopologyError> {
        let mut pairs = Vec::new();
        let mut rest = self.text.trim_start();
        while !rest.is_empty() {
            let (pair, tail) = self.pair(rest)?;
            pairs.push(pair);
            rest = tail.trim_start();
        }
        Ok(pairs)
    }

    fn pair<'a>(&'a self, rest: &'a str) -> Result<(Pair<'a>, &'a str), TopologyError> {
        let line = self.line_at(self.text.len() - rest.len());
        let refuse = |problem| TopologyError::at(line, problem);
        let key = &rest[..rest.find(is_key_end).unwrap_or(rest.len())];
        let value = rest[key.len()..].trim_start().strip_prefix('=').filter(|_| !key.is_empty());
        let Some(value) = value.map(str::trim_start) else {
            let word = rest.split_whitespace().next().unwrap_or_default();
            return Err(refuse(SlurmProblem::NoKey(word.to_string())));
        };
        let (value, tail) = match value.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').ok_or_else(|| refuse(SlurmProblem::OpenQuote(key.to_string())))?,
            None => value.split_at(value.find(char::is_whitespace).unwrap_or(value.len())),
        };
        if value.trim().is_empty() {
            return Err(refuse(SlurmProblem::NoValue(key.to_string())));
        }
        Ok((Pair { key, value, line }, tail))
    }
}

fn is_key_end(character: char) -> bool {
    character.is_whitespace() || character == '='
}
