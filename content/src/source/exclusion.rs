//! Patterns of entries that are not sent, as in `.gitignore`.

use glob::Pattern;
use std::borrow::Cow;
use std::path::Path;

/// Patterns of entries that are not sent. The last matching pattern decides, and one that begins
/// with `!` includes.
#[derive(Clone, Debug, Default)]
pub struct Exclusion(Vec<Rule>);

#[derive(Clone, Debug)]
struct Rule {
    /// A pattern for each name of a path; `None` for `**`, any number of directories. The crate
    /// matches single names: across slashes its time would grow exponentially with the stars.
    names: Vec<Option<Pattern>>,
    includes: bool,
    is_for_directories: bool,
}

impl Exclusion {
    /// Compiles patterns whose paths are relative to the directory that is sent. Empty ones and
    /// those that begin with `#` match nothing.
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
        let names: Vec<_> = path.iter().map(|name| name.to_string_lossy()).collect();
        let fits =
            |rule: &&Rule| (is_directory || !rule.is_for_directories) && fits(&rule.names, &names);
        self.0
            .iter()
            .rev()
            .find(fits)
            .is_some_and(|rule| !rule.includes)
    }
}

impl Rule {
    fn parse(text: &str) -> Result<Option<Rule>, &'static str> {
        let text = if text.ends_with("\\ ") {
            text
        } else {
            text.trim_end()
        };
        if text.starts_with('#') {
            return Ok(None);
        }
        let (includes, text) = text
            .strip_prefix('!')
            .map_or((false, text), |text| (true, text));
        let (is_for_directories, text) = text
            .strip_suffix('/')
            .map_or((false, text), |text| (true, text));
        let is_anywhere = !text.contains('/');
        let text = text.strip_prefix('/').unwrap_or(text);
        if text.is_empty() {
            return Ok(None);
        }
        let names = text.split('/').map(|name| {
            if name == "**" {
                Ok(None)
            } else {
                pattern(name).map(Some)
            }
        });
        let anywhere = is_anywhere.then_some(Ok(None));
        let names = anywhere
            .into_iter()
            .chain(names)
            .collect::<Result<_, _>>()?;
        Ok(Some(Rule {
            names,
            includes,
            is_for_directories,
        }))
    }
}

fn fits(patterns: &[Option<Pattern>], names: &[Cow<'_, str>]) -> bool {
    match (patterns.split_first(), names.split_first()) {
        (None, _) => names.is_empty(),
        (Some((None, [])), _) => !names.is_empty(),
        (Some((None, rest)), _) => (0..=names.len()).any(|skipped| fits(rest, &names[skipped..])),
        (Some((Some(pattern), rest)), Some((name, names))) => {
            pattern.matches(name) && fits(rest, names)
        }
        (Some((Some(_), _)), None) => false,
    }
}

/// Writes a name of a pattern as the crate has it: without backslashes, `[^a]`, and `**` beside
/// letters.
fn pattern(text: &str) -> Result<Pattern, &'static str> {
    let (mut written, mut letters) = (String::new(), text.chars());
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => {
                let literal = letters.next().ok_or("it ends with a backslash")?;
                written += &Pattern::escape(&literal.to_string());
            }
            '[' => {
                let (class, rest) = class(letters.as_str())?;
                (written, letters) = (written + "[" + &class + "]", rest.chars());
            }
            '*' if written.ends_with('*') => {}
            letter => written.push(letter),
        }
    }
    Pattern::new(&written).map_err(|error| error.msg)
}

/// Returns what is in the brackets of which `text` is behind the first, and what is behind the
/// other. A bracket at the beginning is one of the letters.
fn class(text: &str) -> Result<(String, &str), &'static str> {
    let (negation, text) = text
        .strip_prefix(['!', '^'])
        .map_or(("", text), |text| ("!", text));
    let first = text.chars().next().map_or(0, char::len_utf8);
    let end = text[first..].find(']').ok_or("a [ has no ]")? + first;
    let (class, rest) = (&text[..end], &text[end + 1..]);
    if class.contains('\\') || class.starts_with("[:") {
        return Err("a [ ] takes letters and ranges alone, without backslashes and names");
    }
    let mut letters = class;
    while let Some(first) = letters.chars().next() {
        letters = &letters[first.len_utf8()..];
        let Some(last) = letters
            .strip_prefix('-')
            .and_then(|range| range.chars().next())
        else {
            continue;
        };
        letters = &letters[1 + last.len_utf8()..];
        if first > last {
            return Err("a range in [ ] ends before it begins");
        }
    }
    Ok((format!("{negation}{class}"), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ignore::gitignore::GitignoreBuilder;
    use proptest::prelude::*;

    fn leaves_out(patterns: &[&str], path: &str, is_directory: bool) -> bool {
        Exclusion::new(patterns.iter().copied())
            .expect("patterns")
            .leaves_out(Path::new(path), is_directory)
    }

    #[test]
    fn patterns_are_those_of_gitignore() {
        let exclusion =
            Exclusion::new(["*.o", "/top", "build/", "!keep.o", "# no pattern", "a/**/z"])
                .expect("good");
        let out = |path: &str, is_directory| exclusion.leaves_out(Path::new(path), is_directory);
        assert!(out("x.o", false) && out("deep/down/x.o", false) && !out("keep.o", false));
        assert!(out("top", false) && !out("deep/top", false));
        assert!(out("deep/build", true) && !out("deep/build", false));
        assert!(out("a/b/c/z", false) && !out("z", false));
        assert!(!Exclusion::default().leaves_out(Path::new("x.o"), false));
        assert!(
            Exclusion::new(["[z-a]"])
                .expect_err("no range")
                .contains("[z-a]")
        );
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
            ("[a-c-_]", "_", yes),
            ("[!]a]", "b", yes),
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
            assert_eq!(
                leaves_out(&[pattern], path, false),
                wanted,
                "{pattern} and {path}"
            );
        }
        assert!(leaves_out(&["a/"], "x/a", true) && !leaves_out(&["a/"], "x/a", false));
        assert!(
            leaves_out(&["*.o", "!b.o", "/b.o"], "b.o", false)
                && !leaves_out(&["*.o", "!b.o"], "x/b.o", false)
        );
        assert!(!leaves_out(&["", "  ", "/", "//"], "a", true) && !leaves_out(&[], "a", true));
        assert!(leaves_out(&["a", "!"], "a", false) && !leaves_out(&["a", "!/a"], "a", true));
        // Stars before a long name that does not match cost a moment.
        assert!(!leaves_out(
            &["*-*-*-*-*-*.tmp"],
            &format!("{0}/{0}/{0}", "-".repeat(255)),
            false
        ));
        for wrong in ["[", "a[b", "[z-a]", "a\\", "[a\\-z]", "[[:digit:]]"] {
            assert!(
                Exclusion::new([wrong]).is_err_and(|why| why.contains(&format!("{wrong:?}"))),
                "{wrong}"
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        /// The patterns that ripgrep's crate reads in the same way: braces are alternatives there,
        /// and `[!b]` can be a slash.
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
