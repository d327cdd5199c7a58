//! Test that the code map in ARCHITECTURE.md has the first sentence of every module.
//!
//! `ETHBCAST_ACCEPT=1 cargo test -p ethbcast-tests --test tidy` writes it anew.

use crate::accepted;
use crate::source::{Source, files, root};
use std::fs;

const BEGIN: &str = "<!-- code map: made from the first sentence of each module; \
                     ETHBCAST_ACCEPT=1 cargo test -p ethbcast-tests --test tidy writes it anew -->";
const END: &str = "<!-- end of the code map -->";
/// Longest map that is read to its end.
const MAX_LINES: usize = 150;

/// A package in the map.
struct Package {
    folder: &'static str,
    /// Depth of the folders that are listed below `src`.
    depth: usize,
    /// Whether the files in `src` itself are listed.
    has_files: bool,
}

const PACKAGES: [Package; 13] = [
    Package {
        folder: "transport/",
        depth: 2,
        has_files: true,
    },
    Package {
        folder: "collectives/planning/",
        depth: 1,
        has_files: false,
    },
    Package {
        folder: "collectives/",
        depth: 2,
        has_files: true,
    },
    Package {
        folder: "collectives/c/",
        depth: 1,
        has_files: false,
    },
    Package {
        folder: "collectives/mpi/",
        depth: 1,
        has_files: false,
    },
    Package {
        folder: "collectives/python/",
        depth: 1,
        has_files: false,
    },
    Package {
        folder: "content/",
        depth: 1,
        has_files: true,
    },
    Package {
        folder: "tools/",
        depth: 1,
        has_files: false,
    },
    Package {
        folder: "tools/bench/",
        depth: 1,
        has_files: false,
    },
    Package {
        folder: "tools/lab/",
        depth: 1,
        has_files: false,
    },
    Package {
        folder: "tests/",
        depth: 1,
        has_files: false,
    },
    Package {
        folder: "tests/gate/",
        depth: 1,
        has_files: false,
    },
    Package {
        folder: "benches/",
        depth: 0,
        has_files: false,
    },
];
/// Folders of test programs, each of which is a file or a folder with `main.rs`.
const TESTS: [(&str, &str); 2] = [
    ("tools/tests/", "Tests of the program."),
    (
        "tests/tests/",
        "Tests of the whole, beside those in each library.",
    ),
];

/// Returns the map as it should stand in ARCHITECTURE.md.
fn map() -> String {
    let sources = files(&[".rs"]);
    let mut rows = vec!["| where | what |".to_owned(), "|---|---|".to_owned()];
    for package in &PACKAGES {
        let own = |name: &str| {
            sources
                .iter()
                .find(|source| source.path == format!("{}src/{name}", package.folder))
        };
        let head = own("lib.rs")
            .or_else(|| own("main.rs"))
            .expect("a package has a root module");
        rows.push(format!(
            "| **`{}`** | **{}** |",
            package.folder,
            first_sentence(head)
        ));
        let mut modules: Vec<(&str, &Source)> = sources
            .iter()
            .filter_map(|source| Some((package.lists(&source.path)?, source)))
            .collect();
        modules.sort_by_key(|(name, _)| *name);
        rows.extend(
            modules
                .iter()
                .map(|(name, source)| format!("| `{name}` | {} |", first_sentence(source))),
        );
    }
    for (folder, says) in TESTS {
        rows.push(format!("| **`{folder}`** | **{says}** |"));
        let programs = sources.iter().filter_map(|source| {
            let name = source.path.strip_prefix(folder)?;
            let name = name
                .strip_suffix("/main.rs")
                .or_else(|| name.strip_suffix(".rs"))?;
            (!name.contains('/')).then(|| format!("| `{name}` | {} |", first_sentence(source)))
        });
        rows.extend(programs);
    }
    rows.join("\n")
}

impl Package {
    /// Returns a module's name in the map, if its file is listed.
    fn lists<'a>(&self, path: &'a str) -> Option<&'a str> {
        let inside = path.strip_prefix(self.folder)?.strip_prefix("src/")?;
        match inside.strip_suffix("mod.rs") {
            Some(folder) => (folder.matches('/').count() <= self.depth
                && !folder.ends_with("tests/"))
            .then_some(folder),
            None => (self.has_files
                && !inside.contains('/')
                && !["lib.rs", "main.rs"].contains(&inside))
            .then_some(inside),
        }
    }
}

/// Returns the first sentence of a module's documentation, links as their texts.
fn first_sentence(source: &Source) -> String {
    let lines = source
        .text
        .lines()
        .map_while(|line| line.strip_prefix("//!"))
        .map(str::trim);
    let paragraph = lines
        .take_while(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join(" ");
    let end = paragraph.find(". ").map_or(paragraph.len(), |end| end + 1);
    let sentence = without_links(&paragraph[..end]);
    assert!(
        !sentence.is_empty(),
        "{}: a module begins with what it is",
        source.path
    );
    sentence.replace('|', "\\|")
}

/// Returns the text with `[text](target)` and `[text]` as `text`.
fn without_links(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('[') {
        plain.push_str(before);
        let Some((inside, behind)) = after.split_once(']') else {
            plain.push('[');
            rest = after;
            continue;
        };
        plain.push_str(inside);
        rest = match behind
            .strip_prefix('(')
            .and_then(|target| target.split_once(')'))
        {
            Some((_, behind)) => behind,
            None => behind,
        };
    }
    plain + rest
}

#[test]
fn the_code_map_is_made_from_the_modules_first_sentences() {
    let (path, map) = (root().join("ARCHITECTURE.md"), map());
    assert!(
        map.lines().count() <= MAX_LINES,
        "{} lines are too many to read",
        map.lines().count()
    );
    let page = fs::read_to_string(&path).expect("ARCHITECTURE.md");
    let (before, rest) = page
        .split_once(BEGIN)
        .expect("the mark where the code map begins");
    let (_, after) = rest
        .split_once(END)
        .expect("the mark where the code map ends");
    let whole = format!("{before}{BEGIN}\n\n{map}\n\n{END}{after}");
    accepted::compare(&path, &whole, "-p ethbcast-tests --test tidy");
}

#[test]
fn links_are_read_as_their_texts() {
    assert_eq!(
        without_links("a [`b`](super::b) c [`d`] e [f"),
        "a `b` c `d` e [f"
    );
}
