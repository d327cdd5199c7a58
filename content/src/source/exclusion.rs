//! Exclusion of entries by patterns as in `.gitignore`.

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use std::fmt;
use std::path::Path;

/// Patterns of entries that are not sent. The last matching pattern decides, and one that begins
/// with `!` includes.
#[derive(Clone)]
pub struct Exclusion(Gitignore);

impl fmt::Debug for Exclusion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Exclusion({} patterns)", self.0.len())
    }
}

impl Default for Exclusion {
    fn default() -> Exclusion {
        Exclusion(Gitignore::empty())
    }
}

impl Exclusion {
    /// Compiles patterns whose paths are relative to the directory that is sent.
    ///
    /// # Errors
    /// The invalid pattern and the reason.
    pub fn new<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Exclusion, String> {
        let mut builder = GitignoreBuilder::new("/");
        for pattern in patterns {
            builder.add_line(None, pattern).map_err(|error| format!("the pattern {pattern:?} is none: {error}"))?;
        }
        builder.build().map(Exclusion).map_err(|error| format!("the patterns cannot be used: {error}"))
    }

    /// Whether the entry at `path`, relative to the directory that is sent, is excluded.
    pub fn leaves_out(&self, path: &Path, is_directory: bool) -> bool {
        self.0.matched(path, is_directory).is_ignore()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
