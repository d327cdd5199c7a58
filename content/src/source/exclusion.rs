//! Patterns of entries that are not sent, as in `.gitignore`.

use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

/// Patterns of entries that are not sent. The last matching pattern decides, and one that begins
/// with `!` includes.
#[derive(Clone, Debug, Default)]
pub struct Exclusion(Vec<Pattern>);

#[derive(Clone, Debug)]
struct Pattern {
    includes: bool,
    is_for_directories: bool,
    parts: Vec<PatternPart>,
}

#[derive(Clone, Debug)]
enum PatternPart {
    /// `**`: any number of directories; as the last part, all that is in one.
    Directories,
    Name(Vec<NamePiece>),
}

#[derive(Clone, Debug)]
enum NamePiece {
    Byte(u8),
    Any,
    /// `*`: any number of bytes.
    Bytes,
    OneOf {
        is_negated: bool,
        ranges: Vec<(u8, u8)>,
    },
}

impl Exclusion {
    /// Compiles patterns whose paths are relative to the directory that is sent. Empty ones and those that begin with
    /// `#` match nothing.
    ///
    /// # Errors
    /// The invalid pattern and the reason.
    pub fn new<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Exclusion, String> {
        let parsed = patterns.into_iter().filter_map(|text| {
            let pattern = Pattern::parse(text).transpose()?;
            Some(pattern.map_err(|why| format!("the pattern {text:?} is not valid: {why}")))
        });
        parsed.collect::<Result<_, _>>().map(Exclusion)
    }

    /// Whether the entry at `path`, relative to the directory that is sent, is excluded.
    pub fn leaves_out(&self, path: &Path, is_directory: bool) -> bool {
        let names: Vec<&[u8]> = path
            .components()
            .filter_map(|part| match part {
                Component::Normal(name) => Some(name.as_bytes()),
                _ => None,
            })
            .collect();
        let fits =
            |pattern: &&Pattern| (is_directory || !pattern.is_for_directories) && is_path(&pattern.parts, &names);
        self.0.iter().rev().find(fits).is_some_and(|pattern| !pattern.includes)
    }
}

impl Pattern {
    fn parse(text: &str) -> Result<Option<Pattern>, &'static str> {
        let text = if text.ends_with("\\ ") { text } else { text.trim_end() };
        if text.is_empty() || text.starts_with('#') {
            return Ok(None);
        }
        let (includes, text) = text.strip_prefix('!').map_or((false, text), |text| (true, text));
        let (is_at_top, text) = text.strip_prefix('/').map_or((false, text), |text| (true, text));
        let (is_for_directories, text) = text.strip_suffix('/').map_or((false, text), |text| (true, text));
        let mut parts = Vec::new();
        if !is_at_top && !text.contains('/') {
            parts.push(PatternPart::Directories);
        }
        for part in text.split('/') {
            parts.push(if part == "**" {
                PatternPart::Directories
            } else {
                PatternPart::Name(pieces(part.as_bytes())?)
            });
        }
        Ok(Some(Pattern { includes, is_for_directories, parts }))
    }
}

fn pieces(mut name: &[u8]) -> Result<Vec<NamePiece>, &'static str> {
    let mut pieces = Vec::new();
    while let Some((&byte, rest)) = name.split_first() {
        name = rest;
        pieces.push(match byte {
            b'?' => NamePiece::Any,
            b'*' => NamePiece::Bytes,
            b'[' => one_of(&mut name)?,
            b'\\' => {
                let (&byte, rest) = name.split_first().ok_or("it ends with a backslash")?;
                name = rest;
                NamePiece::Byte(byte)
            }
            byte => NamePiece::Byte(byte),
        });
    }
    Ok(pieces)
}

/// Reads a class behind its bracket: `a-z]`, `!a]` or `^a]`. A bracket or hyphen at its beginning is one of the bytes.
fn one_of(name: &mut &[u8]) -> Result<NamePiece, &'static str> {
    let is_negated = matches!(name.first(), Some(b'!' | b'^'));
    let class = &name[usize::from(is_negated)..];
    let end = class.iter().skip(1).position(|&byte| byte == b']').ok_or("a [ has no ]")? + 1;
    *name = &class[end + 1..];
    let (mut class, mut ranges) = (&class[..end], Vec::new());
    while let Some((&first, rest)) = class.split_first() {
        let (range, rest) = match rest {
            [b'-', last, rest @ ..] => ((first, *last), rest),
            _ => ((first, first), rest),
        };
        if range.0 > range.1 {
            return Err("a range in [ ] ends before it begins");
        }
        ranges.push(range);
        class = rest;
    }
    Ok(NamePiece::OneOf { is_negated, ranges })
}

fn is_path(parts: &[PatternPart], names: &[&[u8]]) -> bool {
    match (parts.split_first(), names.split_first()) {
        (None, _) => names.is_empty(),
        (Some((PatternPart::Directories, [])), _) => !names.is_empty(),
        (Some((PatternPart::Directories, rest)), _) => {
            (0..=names.len()).any(|skipped| is_path(rest, &names[skipped..]))
        }
        (Some((PatternPart::Name(pieces), rest)), Some((name, names))) => is_name(pieces, name) && is_path(rest, names),
        (Some((PatternPart::Name(_), _)), None) => false,
    }
}

fn is_name(pieces: &[NamePiece], name: &[u8]) -> bool {
    // The last `*`, and the first byte behind what it stands for: it may stand for more.
    let (mut piece, mut at, mut star) = (0, 0, None);
    loop {
        match (pieces.get(piece), name.get(at)) {
            (None, None) => return true,
            (Some(NamePiece::Bytes), _) => {
                star = Some((piece, at));
                piece += 1;
                continue;
            }
            (Some(one), Some(&byte)) if one.is(byte) => {
                (piece, at) = (piece + 1, at + 1);
                continue;
            }
            _ => {}
        }
        let Some((begin, behind)) = star.filter(|(_, behind)| *behind < name.len()) else { return false };
        star = Some((begin, behind + 1));
        (piece, at) = (begin + 1, behind + 1);
    }
}

impl NamePiece {
    fn is(&self, byte: u8) -> bool {
        match self {
            NamePiece::Byte(own) => *own == byte,
            NamePiece::Any | NamePiece::Bytes => true,
            NamePiece::OneOf { is_negated, ranges } => {
                ranges.iter().any(|(first, last)| (first..=last).contains(&&byte)) != *is_negated
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ignore::gitignore::GitignoreBuilder;
    use proptest::prelude::*;

    fn leaves_out(patterns: &[&str], path: &str, is_directory: bool) -> bool {
        Exclusion::new(patterns.iter().copied()).expect("patterns").leaves_out(Path::new(path), is_directory)
    }

    #[test]
    fn patterns_are_those_of_gitignore() {
        let exclusion = Exclusion::new(["*.o", "/top", "build/", "!keep.o", "# no pattern", "a/**/z"]).expect("good");
        let out = |path: &str, is_directory| exclusion.leaves_out(Path::new(path), is_directory);
        assert!(out("x.o", false) && out("deep/down/x.o", false) && !out("keep.o", false));
        assert!(out("top", false) && !out("deep/top", false));
        assert!(out("deep/build", true) && !out("deep/build", false));
        assert!(out("a/b/c/z", false) && !out("z", false));
        assert!(!Exclusion::default().leaves_out(Path::new("x.o"), false));
        assert!(Exclusion::new(["[z-a]"]).expect_err("no range").contains("[z-a]"));
    }

    #[test]
    fn patterns_match_as_gitignore_documents() {
        let (yes, no) = (true, false);
        let cases = [
            ("*.o", "a/b.o", yes),
            ("*.o", "b.o.c", no),
            ("/b.o", "b.o", yes),
            ("/b.o", "a/b.o", no),
            ("a/b", "a/b", yes),
            ("a/b", "c/a/b", no),
            ("**/a/b", "c/d/a/b", yes),
            ("a/**/b", "a/b", yes),
            ("a/**/b", "a/c/d/b", yes),
            ("a/**", "a", no),
            ("a/**", "a/b/c", yes),
            ("**", "a/b", yes),
            ("a**b", "axyb", yes),
            ("a*/b", "ax/y/b", no),
            ("?[!a-c]", "xd", yes),
            ("?[^a-c]", "xb", no),
            ("[]-]", "]", yes),
            ("[]-]", "-", yes),
            ("\\!a", "!a", yes),
            ("\\#a", "#a", yes),
            ("#a", "#a", no),
            ("a\\ ", "a ", yes),
            ("a ", "a", yes),
            ("*a*b*c", "xaybzc", yes),
            ("*a*b*c", "xaybz", no),
            ("{a,b}", "a", no),
            ("{a,b}", "{a,b}", yes),
        ];
        for (pattern, path, wanted) in cases {
            assert_eq!(leaves_out(&[pattern], path, false), wanted, "{pattern} and {path}");
        }
        assert!(leaves_out(&["a/"], "x/a", true) && !leaves_out(&["a/"], "x/a", false));
        assert!(leaves_out(&["*.o", "!b.o", "/b.o"], "b.o", false) && !leaves_out(&["*.o", "!b.o"], "x/b.o", false));
        assert!(!leaves_out(&["", "  "], "a", false) && !leaves_out(&[], "a", true));
        for wrong in ["a[b", "[z-a]", "a\\"] {
            assert!(Exclusion::new([wrong]).is_err_and(|why| why.contains(&format!("{wrong:?}"))), "{wrong}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        /// The patterns that ripgrep's crate reads in the same way: without braces, and slashes in classes.
        #[test]
        fn patterns_match_as_those_of_ripgrep(
            pattern in "!?/?((a|b|\\*|\\?|\\[a-b\\]|\\[!b\\]){1,3}|\\*\\*)(/((a|b|\\*|\\?){1,3}|\\*\\*)){0,2}/?",
            path in "[abc]{1,3}(/[abc]{1,3}){0,3}",
            is_directory: bool,
        ) {
            let mut builder = GitignoreBuilder::new("/");
            builder.add_line(None, "c*").expect("a pattern").add_line(None, &pattern).expect("a pattern");
            let theirs = builder.build().expect("patterns").matched(&path, is_directory).is_ignore();
            prop_assert_eq!(leaves_out(&["c*", &pattern], &path, is_directory), theirs, "{} and {}", pattern, path);
        }
    }
}
