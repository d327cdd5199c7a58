//! Circular imports between the files of a crate.

use crate::source::Source;
use std::collections::{BTreeMap, BTreeSet};

pub struct Crate<'a> {
    files: BTreeMap<Vec<&'a str>, &'a Source>,
    /// Re-exports, by module and name.
    handed_on: BTreeMap<(Vec<String>, String), Vec<String>>,
}

impl<'a> Crate<'a> {
    pub fn of(sources: impl Iterator<Item = &'a Source>) -> Crate<'a> {
        let files: BTreeMap<_, _> = sources.map(|source| (source.modules(), source)).collect();
        let mut found = Crate { files, handed_on: BTreeMap::new() };
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
            let Some(from) = self.handed_on.get(&(path[..depth].to_vec(), name.clone())) else { break };
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
                let to = self.absolute(modules, &path).and_then(|path| self.file_of(&path));
                own.extend(to.filter(|to| !to.modules().starts_with(modules)).map(|to| to.path.as_str()));
            }
        }
        imports
    }

    pub fn circles(&self) -> Vec<Vec<&'a str>> {
        let imports = self.imports();
        let reached: BTreeMap<&str, BTreeSet<&str>> =
            imports.keys().map(|from| (*from, reach(&imports, from))).collect();
        let mut circles: Vec<Vec<&str>> = Vec::new();
        for (from, beyond) in &reached {
            let circle: Vec<&str> = beyond.iter().copied().filter(|to| reached[to].contains(from)).collect();
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
        next.extend(imports.get(from).into_iter().flatten().filter(|to| reached.insert(**to)));
    }
    reached
}
