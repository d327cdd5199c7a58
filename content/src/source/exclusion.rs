//! Patterns of entries that are not sent, as in `.gitignore`.

use glob::{MatchOptions, Pattern};
use std::path::Path;

/// Patterns of entries that are not sent. The last matching pattern decides, and one that begins
/// with `!` includes.
#[derive(Clone, Debug, Default)]
pub struct Exclusion(Vec<Rule>);

#[derive(Clone, Debug)]
struct Rule {
    pattern: Pattern,
    includes: bool,
    is_for_directories: bool,
}

const AS_PATHS: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: false };

impl Exclusion {
    /// Compiles patterns whose paths are relative to the directory that is sent. Empty ones and those that begin with
    /// `#` match nothing.
    ///
    /// # Errors
    /// The invalid pattern and the reason.
    pub fn new<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Exclusion, String> {
        let parsed = patterns.into_iter().filter_map(|text| {
            let rule = Rule::parse(text).transpose()?;
            Some(rule.map_err(|why| format!("the pattern {text:?} is not valid: {why}")))
        });
        parsed.collect::<Result<_, _>>().map(Exclusion)
    }

    /// Whether the entry at `path`, relative to the directory that is sent, is excluded.
    pub fn leaves_out(&self, path: &Path, is_directory: bool) -> bool {
        let path = path.to_string_lossy();
        let fits =
            |rule: &&Rule| (is_directory || !rule.is_for_directories) && rule.pattern.matches_with(&path, AS_PATHS);
        self.0.iter().rev().find(fits).is_some_and(|rule| !rule.includes)
    }
}

impl Rule {
    fn parse(text: &str) -> Result<Option<Rule>, &'static str> {
        let text = if text.ends_with("\\ ") { text } else { text.trim_end() };
        if text.is_empty() || text.starts_with('#') {
            return Ok(None);
        }
        let (includes, text) = text.strip_prefix('!').map_or((false, text), |text| (true, text));
        let (is_for_directories, text) = text.strip_suffix('/').map_or((false, text), |text| (true, text));
        let anywhere = if text.contains('/') { "" } else { "**/" };
        let parts: Vec<_> = text.trim_start_matches('/').split('/').map(part).collect::<Result<_, _>>()?;
        let pattern = Pattern::new(&format!("{anywhere}{}", parts.join("/"))).map_err(|error| error.msg)?;
        Ok(Some(Rule { pattern, includes, is_for_directories }))
    }
}

/// Writes a name of a pattern as the crate has it: without backslashes, `[^a]`, and `**` beside letters.
fn part(text: &str) -> Result<String, &'static str> {
    let (mut part, mut letters) = (String::new(), text.chars());
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => {
                let literal = letters.next().ok_or("it ends with a backslash")?;
                part += &Pattern::escape(&literal.to_string());
            }
            '^' if part.ends_with('[') => part.push('!'),
            '*' if part.ends_with('*') && text != "**" => {}
            letter => part.push(letter),
        }
    }
    let mut classes = part.split('[').filter_map(|class| class.split_once(']')).map(|(class, _)| class);
    let is_backwards = |class: &str| class.as_bytes().windows(3).any(|range| range[1] == b'-' && range[0] > range[2]);
    if classes.any(is_backwards) {
        return Err("a range in [ ] ends before it begins");
    }
    Ok(part)
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
        for wrong in ["[", "a[b", "[z-a]", "a\\"] {
            assert!(Exclusion::new([wrong]).is_err_and(|why| why.contains(&format!("{wrong:?}"))), "{wrong}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        /// The patterns that ripgrep's crate reads in the same way: its braces are alternatives, and its `[!b]` can be a
        /// slash.
        #[test]
        fn patterns_match_as_those_of_ripgrep(
            pattern in "!?/?((a|b|\\*|\\?|\\[a-b\\]){1,3}|\\*\\*)(/((a|b|\\*|\\?){1,3}|\\*\\*)){0,2}/?",
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
