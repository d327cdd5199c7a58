//! Test helper: reads the source files as text, and finds the modules that they use. It also checks
//! for circular imports.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

pub struct Source {
    pub path: String,
    pub text: String,
    code: String,
}

pub struct Place<'a> {
    pub source: &'a Source,
    pub line: usize,
}

impl Place<'_> {
    pub fn says(&self, rule: &str) -> String {
        format!("{}:{}: {rule}", self.source.path, self.line)
    }
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("this package lies in the tree")
        .to_owned()
}

/// Lists all files below the root with these endings, without build outputs and git's own files.
pub fn files(endings: &[&str]) -> Vec<Source> {
    let root = root();
    let mut found = Vec::new();
    collect(&root, &root, endings, &mut found);
    found.sort_by(|one, other| one.path.cmp(&other.path));
    assert!(!found.is_empty(), "no files below {}", root.display());
    found
}

fn collect(root: &Path, directory: &Path, endings: &[&str], found: &mut Vec<Source>) {
    let entries =
        fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .expect("names are UTF-8");
        if path.is_dir() {
            if name != "target" && name != ".git" {
                collect(root, &path, endings, found);
            }
        } else if endings.iter().any(|ending| name.ends_with(ending)) {
            let text = fs::read_to_string(&path)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let path = path
                .strip_prefix(root)
                .expect("below the root")
                .to_str()
                .expect("names are UTF-8")
                .to_owned();
            let code = if path.ends_with(".rs") {
                blank(&text)
            } else {
                text.clone()
            };
            found.push(Source { path, text, code });
        }
    }
}

impl Source {
    /// Returns its lines with their numbers; comments and the insides of strings are blank.
    pub fn code(&self) -> impl Iterator<Item = (Place<'_>, &str)> {
        self.code.lines().enumerate().map(|(index, line)| {
            (
                Place {
                    source: self,
                    line: index + 1,
                },
                line,
            )
        })
    }

    /// Returns the crate that the file belongs to: a package's library or program, or one target of
    /// its tests, benches or examples.
    pub fn crate_name(&self) -> Option<String> {
        let parts: Vec<&str> = self.path.split('/').collect();
        let is_root = |part: &&str| matches!(*part, "src" | "tests" | "benches" | "examples");
        let at = parts.iter().skip(1).position(is_root)? + 1;
        let is_library = parts[at] == "src" && parts.get(at + 1) != Some(&"bin");
        let depth = match (is_library, parts[at]) {
            (true, _) => at + 1,
            (false, "src") => at + 3,
            (false, _) => at + 2,
        };
        Some(parts[..depth.min(parts.len())].join("/"))
    }

    pub fn is_test(&self) -> bool {
        let (directories, name) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        name == "tests.rs"
            || name.ends_with("_tests.rs")
            || directories.split('/').any(|part| part == "tests")
    }

    /// Lists every path that the code outside tests names. Uses are written out: `use a::{b, c::d}`
    /// names `a::b` and `a::c::d`.
    pub fn paths(&self) -> Vec<(Place<'_>, String)> {
        let mut found = Vec::new();
        let mut lines = self.code();
        while let Some((place, line)) = lines.next() {
            if line.starts_with("#[cfg(test)]") {
                skip_item(&mut lines);
                continue;
            }
            let Some(used) = used(line) else {
                found.extend(words(line).map(|path| (Place { ..place }, path.to_owned())));
                continue;
            };
            let mut tree = used.to_owned();
            while !tree.contains(';') {
                tree.push_str(lines.next().expect("a use ends").1);
            }
            let tree: String = tree
                .split(';')
                .next()
                .unwrap_or_default()
                .chars()
                .filter(|letter| *letter != ' ')
                .collect();
            let mut paths = Vec::new();
            write_out("", &tree, &mut paths);
            found.extend(paths.into_iter().map(|path| (Place { ..place }, path)));
        }
        found
    }

    /// Returns the module path of this file from the root of its crate, which is the folder `src`.
    pub fn modules(&self) -> Vec<&str> {
        let inside = self
            .path
            .split_once("/src/")
            .map_or("", |(_, inside)| inside);
        let mut modules: Vec<_> = inside.trim_end_matches(".rs").split('/').collect();
        if matches!(modules.last(), Some(&("mod" | "lib" | "main"))) {
            modules.pop();
        }
        modules
    }

    /// Returns the top module of a path within the crate, following `crate`, `self` and `super`;
    /// `None` if the path leads elsewhere.
    pub fn room_of(&self, path: &str) -> Option<String> {
        let mut modules = self.modules();
        let mut words = path.split("::").peekable();
        match words.next()? {
            "crate" => modules.clear(),
            "self" => {}
            "super" => {
                modules.pop();
            }
            _ => return None,
        }
        while words.next_if(|word| *word == "super").is_some() {
            modules.pop();
        }
        modules.extend(words);
        modules.first().map(|module| (*module).to_owned())
    }
}

fn skip_item<'a>(lines: &mut impl Iterator<Item = (Place<'a>, &'a str)>) {
    let is_declaration = lines
        .next()
        .is_some_and(|(_, item)| item.trim_end().ends_with(';'));
    while !is_declaration && lines.next().is_some_and(|(_, line)| !line.starts_with('}')) {}
}

fn used(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = line.strip_prefix("pub").map_or(line, |line| {
        line.split_once(' ').map_or(line, |(_, rest)| rest)
    });
    line.strip_prefix("use ")
}

fn write_out(before: &str, tree: &str, paths: &mut Vec<String>) {
    let Some((head, rest)) = tree.split_once('{') else {
        return paths.push(format!(
            "{before}{}",
            tree.split("as_").next().unwrap_or(tree)
        ));
    };
    let inside = rest.rsplit_once('}').map_or(rest, |(inside, _)| inside);
    let before = format!("{before}{head}");
    let (mut depth, mut begin) = (0, 0);
    for (at, letter) in inside.char_indices().chain([(inside.len(), ',')]) {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let part = &inside[begin..at];
                begin = at + 1;
                if !part.is_empty() {
                    write_out(&before, part, paths);
                }
            }
            _ => {}
        }
    }
}

/// Returns the paths of two or more segments in a line of code.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    line.split(move |letter| !is_part(letter))
        .filter(|word| word.contains("::"))
        .map(|word| word.trim_matches(':'))
}

/// Replaces comments and the insides of strings and characters by spaces, line for line.
fn blank(text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    let (mut blanked, mut at) = (String::with_capacity(text.len()), 0);
    let spaces = |letters: &[char]| {
        letters
            .iter()
            .map(|&letter| if letter == '\n' { '\n' } else { ' ' })
            .collect::<String>()
    };
    while at < letters.len() {
        let end = hidden(&letters, at);
        if end > at {
            blanked.push_str(&spaces(&letters[at..end]));
            at = end;
        } else {
            blanked.push(letters[at]);
            at += 1;
        }
    }
    blanked
}

/// Returns the end of the comment, string or character that begins at `at`, or `at` if none does.
fn hidden(letters: &[char], at: usize) -> usize {
    let starts = |text: &str| {
        text.chars()
            .eq(letters[at..].iter().copied().take(text.len()))
    };
    let find = |from: usize, end: &[char]| {
        let found = (from..letters.len()).find(|&at| letters[at..].starts_with(end));
        found.map_or(letters.len(), |at| at + end.len())
    };
    let after_word = at > 0 && (letters[at - 1].is_alphanumeric() || letters[at - 1] == '_');
    if starts("//") {
        find(at, &['\n']) - 1
    } else if starts("/*") {
        find(at, &['*', '/'])
    } else if starts("\"") {
        let mut end = at + 1;
        while end < letters.len() && letters[end] != '"' {
            end += if letters[end] == '\\' { 2 } else { 1 };
        }
        end + 1
    } else if !after_word && (starts("r\"") || starts("r#")) {
        let hashes = letters[at + 1..]
            .iter()
            .take_while(|letter| **letter == '#')
            .count();
        let end: Vec<char> = std::iter::once('"')
            .chain(std::iter::repeat_n('#', hashes))
            .collect();
        find(at + hashes + 2, &end)
    } else if starts("'\\") {
        find(at + 3, &['\''])
    } else if starts("'") && letters.get(at + 2) == Some(&'\'') {
        at + 3
    } else {
        at
    }
}

pub struct Crate<'a> {
    files: BTreeMap<Vec<&'a str>, &'a Source>,
    /// Re-exports, by module and name.
    handed_on: BTreeMap<(Vec<String>, String), Vec<String>>,
}

impl<'a> Crate<'a> {
    pub fn of(sources: impl Iterator<Item = &'a Source>) -> Crate<'a> {
        let files: BTreeMap<_, _> = sources.map(|source| (source.modules(), source)).collect();
        let mut found = Crate {
            files,
            handed_on: BTreeMap::new(),
        };
        let mut handed_on = BTreeMap::new();
        for (modules, source) in &found.files {
            for (_, path) in source.paths() {
                let Some((from, name)) = found.absolute(modules, &path).and_then(|path| {
                    let (name, from) = path.split_last()?;
                    Some((from.to_vec(), name.clone()))
                }) else {
                    continue;
                };
                let own: Vec<String> = modules.iter().map(|word| (*word).to_owned()).collect();
                if from != own {
                    handed_on.entry((own, name)).or_insert(from);
                }
            }
        }
        found.handed_on = handed_on;
        found
    }

    /// Resolves a path of this crate from its root; `None` if it leads elsewhere.
    fn absolute(&self, modules: &[&str], path: &str) -> Option<Vec<String>> {
        let mut words = path.split("::").peekable();
        let mut from: Vec<String> = modules.iter().map(|word| (*word).to_owned()).collect();
        match *words.peek()? {
            "crate" => from.clear(),
            "self" => {}
            "super" => drop(from.pop()),
            word => {
                let child: Vec<&str> = modules.iter().copied().chain([word]).collect();
                return self.files.contains_key(&child).then(|| {
                    from.extend(words.map(str::to_owned));
                    from
                });
            }
        }
        words.next();
        while words.next_if(|word| *word == "super").is_some() {
            from.pop();
        }
        from.extend(words.map(str::to_owned));
        Some(from)
    }

    /// Returns the file where a path from the root ends, following re-exports.
    fn file_of(&self, path: &[String]) -> Option<&'a Source> {
        let mut path = path.to_vec();
        for _ in 0..8 {
            let depth = (0..=path.len()).rev().find(|&depth| {
                let words: Vec<&str> = path[..depth].iter().map(String::as_str).collect();
                self.files.contains_key(&words)
            })?;
            let Some(name) = path.get(depth) else { break };
            let Some(from) = self.handed_on.get(&(path[..depth].to_vec(), name.clone())) else {
                break;
            };
            let followed: Vec<String> = from.iter().chain(&path[depth..]).cloned().collect();
            if followed == path {
                break;
            }
            path = followed;
        }
        (0..=path.len()).rev().find_map(|depth| {
            let words: Vec<&str> = path[..depth].iter().map(String::as_str).collect();
            self.files.get(&words).copied()
        })
    }

    /// Imports of each file from the others. Imports from a module's own submodules are left out.
    fn imports(&self) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
        let mut imports: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (modules, source) in &self.files {
            let own = imports.entry(&source.path).or_default();
            for (_, path) in source.paths() {
                let to = self
                    .absolute(modules, &path)
                    .and_then(|path| self.file_of(&path));
                own.extend(
                    to.filter(|to| !to.modules().starts_with(modules))
                        .map(|to| to.path.as_str()),
                );
            }
        }
        imports
    }

    pub fn circles(&self) -> Vec<Vec<&'a str>> {
        let imports = self.imports();
        let reached: BTreeMap<&str, BTreeSet<&str>> = imports
            .keys()
            .map(|from| (*from, reach(&imports, from)))
            .collect();
        let mut circles: Vec<Vec<&str>> = Vec::new();
        for (from, beyond) in &reached {
            let circle: Vec<&str> = beyond
                .iter()
                .copied()
                .filter(|to| reached[to].contains(from))
                .collect();
            if circle.len() > 1 && !circles.contains(&circle) {
                circles.push(circle);
            }
        }
        circles
    }

    pub fn ties(&self, circle: &[&str]) -> Vec<String> {
        let imports = self.imports();
        let inside = |from: &&str| {
            imports[from]
                .iter()
                .filter(|to| circle.contains(to))
                .map(|to| format!("{from} -> {to}"))
                .collect::<Vec<_>>()
        };
        circle.iter().flat_map(inside).collect()
    }
}

fn reach<'a>(imports: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &'a str) -> BTreeSet<&'a str> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(from) = next.pop() {
        next.extend(
            imports
                .get(from)
                .into_iter()
                .flatten()
                .filter(|to| reached.insert(**to)),
        );
    }
    reached
}
