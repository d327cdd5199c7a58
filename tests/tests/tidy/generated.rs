//! Tests that texts in the tree are made from its source: the code map in ARCHITECTURE.md from the
//! first sentence of every module, the dissector's lists and the tables of `docs/protocol` from the
//! table of fields.
//!
//! `ETHBCAST_ACCEPT=1 cargo test -p ethbcast-tests --test tidy` writes them anew.

use crate::accepted;
use crate::source::{Source, files, root};
use ethbcast_collectives::inspect::table::{
    FLAGS, Field, FieldForm, FrameKind, HEADER, INCLUDED, List, MESSAGES, WORDS, Words,
};
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

const fn package(folder: &'static str, depth: usize, has_files: bool) -> Package {
    Package {
        folder,
        depth,
        has_files,
    }
}

const PACKAGES: [Package; 13] = [
    package("transport/", 2, true),
    package("collectives/planning/", 1, false),
    package("collectives/", 2, true),
    package("collectives/c/", 1, false),
    package("collectives/mpi/", 1, false),
    package("collectives/python/", 1, false),
    package("content/", 1, true),
    package("tools/", 1, false),
    package("tools/bench/", 1, false),
    package("tools/lab/", 1, false),
    package("tests/", 1, false),
    package("tests/gate/", 1, false),
    package("benches/", 0, false),
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
    accepted::compare(&path, &whole, TEST);
}

#[test]
fn links_are_read_as_their_texts() {
    assert_eq!(
        without_links("a [`b`](super::b) c [`d`] e [f"),
        "a `b` c `d` e [f"
    );
}

const COLUMNS: usize = 100;
const FIELDS_BEGIN: &str = "-- Fields: made from collectives/src/inspect/table.rs.\n";
const FIELDS_END: &str = "-- End of the fields.\n";
/// Lists of a field that the text describes, and one that stands within another.
const IN_WORDS: [&str; 4] = ["ECHO", "HEARTBEAT", "MEMBER", "PROBE"];
const TEST: &str = "-p ethbcast-tests --test tidy";

/// Returns `items` between `head` and `tail`, in as many lines as they need.
fn filled(head: &str, items: impl Iterator<Item = String>, tail: &str) -> String {
    let (mut text, mut line) = (String::new(), head.to_owned());
    for item in items.chain([tail.to_owned()]) {
        if line.chars().count() + 1 + item.chars().count() > COLUMNS {
            text += &(line + "\n");
            line = format!("       {item}");
        } else {
            line += &format!(" {item}");
        }
    }
    text + &line + "\n"
}

/// Returns the lists of the dissector: a field is its name, its form and the form's arguments.
fn lua() -> String {
    let kinds = MESSAGES
        .iter()
        .map(|message| format!("[{}] = \"{}\",", message.number, message.body.name));
    let mut text = filled("local KINDS = {", kinds, "}");
    let flags = FLAGS.iter().map(|(name, _)| format!("\"{name}\","));
    text += &filled("local FLAGS = {", flags, "}");
    text += "local WORDS = {\n";
    for Words { name, first, words } in WORDS {
        let words = words.iter().map(|word| format!("\"{word}\","));
        let mut words = words.collect::<Vec<_>>();
        // Lua counts from 1.
        if first == 0 {
            words[0] = format!("[0] = {}", words[0]);
        }
        text += &filled(&format!("    {name} = {{"), words.into_iter(), "},");
    }
    text += "}\nlocal LISTS = {\n";
    let bodies = MESSAGES.iter().map(|message| message.body);
    for List { name, fields } in [HEADER].into_iter().chain(INCLUDED).chain(bodies) {
        let fields = fields.iter().map(|Field { name, form, .. }| {
            let form = format!("{form:?}").replace(['(', ')', '[', ']', ',', '"'], " ");
            let words = form.split_whitespace().collect::<Vec<_>>();
            format!("\"{name} {}\",", words.join(" "))
        });
        text += &filled(&format!("    {name} = {{"), fields, "},");
    }
    text + "}\n"
}

/// Returns the type of a field in the documentation; `None` for one without bytes of its own.
fn wire_type(form: &FieldForm) -> Option<String> {
    let number = |bytes: u8| match bytes {
        1 | 2 | 4 | 8 => format!("u{}", 8 * bytes),
        _ => bytes.to_string(),
    };
    Some(match *form {
        FieldForm::Hex(32) => "digest".to_owned(),
        FieldForm::Number(bytes)
        | FieldForm::Known(bytes)
        | FieldForm::Nonzero(bytes)
        | FieldForm::Most(bytes, _)
        | FieldForm::Hex(bytes)
        | FieldForm::Skip(bytes) => number(bytes),
        FieldForm::Part(bytes, _) => Some(number(bytes)).filter(|_| bytes > 0)?,
        FieldForm::Truth
        | FieldForm::Flags(_)
        | FieldForm::Word(_)
        | FieldForm::Content
        | FieldForm::Via(_) => number(1),
        FieldForm::Length | FieldForm::Piece => number(2),
        FieldForm::Ahead | FieldForm::Behind => number(4),
        FieldForm::Cursor | FieldForm::Rate => number(8),
        FieldForm::Host | FieldForm::MaybeHost => number(6),
        FieldForm::HexWords => "n × u64".to_owned(),
        FieldForm::Calls => "4 × 24".to_owned(),
        FieldForm::Text => "text".to_owned(),
        FieldForm::Rest | FieldForm::Hosts(_) => "bytes".to_owned(),
        FieldForm::Ones | FieldForm::Ranks => "bits".to_owned(),
        FieldForm::If(.., form) => wire_type(form)?,
        FieldForm::Include(list) => list.name.to_lowercase(),
        _ => return None,
    })
}

fn meaning(field: &Field) -> String {
    match field.form {
        FieldForm::Word(Words { first, words, .. }) if field.meaning.is_empty() => {
            let words = words.iter().zip(*first..);
            let words: Vec<_> = words
                .map(|(word, value)| format!("{value} {word}"))
                .collect();
            words.join(", ")
        }
        _ => field.meaning.to_owned(),
    }
}

/// Returns type, name and meaning of each documented field.
fn rows(list: &List, indent: &str) -> Vec<[String; 3]> {
    let mut all = Vec::new();
    for field in list.fields.iter().filter(|field| field.name != "_") {
        if let FieldForm::Members(members, _) = field.form {
            all.extend(rows(members, "  "));
        } else if let Some(wire_type) = wire_type(&field.form) {
            all.push([
                format!("{indent}{wire_type}"),
                field.name.to_owned(),
                meaning(field),
            ]);
        }
    }
    all
}

/// Returns rows with aligned columns, the last of which is wrapped.
fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let length = |text: &String| text.chars().count();
    let widths: Vec<usize> = (0..N - 1)
        .map(|column| {
            rows.iter()
                .map(|row| length(&row[column]))
                .max()
                .unwrap_or(0)
                + 2
        })
        .collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, &width) in row.iter().zip(&widths) {
            line += &format!("{cell:<width$}");
        }
        let indent = line.chars().count();
        for word in row[N - 1].split(' ') {
            if line.chars().count() + word.chars().count() > COLUMNS {
                text += &format!("{}\n", line.trim_end());
                line = " ".repeat(indent);
            }
            line += &format!("{word} ");
        }
        text += &format!("{}\n", line.trim_end());
    }
    text
}

/// Returns the header with the offset of each field in the frame and in ethbcast's header.
fn header() -> String {
    const ETHERNET_BYTES: usize = 14;
    let mut rows = vec![["frame", "header", "size", "field", ""].map(str::to_owned)];
    let mut at = 0_usize;
    for field in HEADER.fields {
        let bytes = match field.form {
            FieldForm::Number(bytes)
            | FieldForm::Known(bytes)
            | FieldForm::Hex(bytes)
            | FieldForm::Skip(bytes) => bytes,
            form => panic!("{form:?} in the header"),
        };
        let inside = at.checked_sub(ETHERNET_BYTES).map(|at| at.to_string());
        rows.push([
            at.to_string(),
            inside.unwrap_or_default(),
            bytes.to_string(),
            field.name.to_owned(),
            field.meaning.to_owned(),
        ]);
        at += usize::from(bytes);
    }
    let inside = (at - ETHERNET_BYTES).to_string();
    rows.push([
        at.to_string(),
        inside,
        "…".to_owned(),
        "payload".to_owned(),
        String::new(),
    ]);
    aligned(&rows)
}

/// Returns the table that stands in the documentation under this name.
fn table(name: &str) -> Option<String> {
    match name {
        "HEADER" => return Some(header()),
        "KINDS" => {
            let row = |message: &FrameKind| {
                let number = format!("{:>2}", message.number);
                [&number, message.body.name, message.way, message.part].map(str::to_owned)
            };
            return Some(aligned(&MESSAGES.iter().map(row).collect::<Vec<_>>()));
        }
        "FLAGS" => {
            let row = |(bit, (name, meaning)): (usize, &(&str, &str))| {
                [
                    format!("{:>2}", 1 << bit),
                    (*name).to_owned(),
                    (*meaning).to_owned(),
                ]
            };
            return Some(aligned(
                &FLAGS.iter().enumerate().map(row).collect::<Vec<_>>(),
            ));
        }
        _ => {}
    }
    let bodies = MESSAGES.iter().map(|message| message.body);
    let list = bodies.chain(INCLUDED).find(|list| list.name == name)?;
    Some(aligned(&rows(&list, "")))
}

#[test]
fn the_dissectors_lists_are_made_from_the_table_of_fields() {
    let path = root().join("tools/wireshark/ethbcast.lua");
    let script = fs::read_to_string(&path).expect("the dissector");
    let (before, rest) = script
        .split_once(FIELDS_BEGIN)
        .expect("the mark where the lists begin");
    let (_, after) = rest
        .split_once(FIELDS_END)
        .expect("the mark where the lists end");
    accepted::compare(
        &path,
        &format!("{before}{FIELDS_BEGIN}{}{FIELDS_END}{after}", lua()),
        TEST,
    );
}

#[test]
fn the_tables_of_the_protocol_are_made_from_the_table_of_fields() {
    let mut missing: Vec<&str> = MESSAGES
        .iter()
        .map(|message| &message.body)
        .chain(&INCLUDED)
        .filter(|list| !rows(list, "").is_empty() && !IN_WORDS.contains(&list.name))
        .map(|list| list.name)
        .chain(["HEADER", "KINDS", "FLAGS"])
        .collect();
    for page in files(&[".md"]) {
        if !page.path.starts_with("docs/protocol/") {
            continue;
        }
        let mut whole = String::new();
        let mut blocks = page.text.split("```");
        whole += blocks.next().unwrap_or_default();
        while let (Some(block), after) = (blocks.next(), blocks.next().unwrap_or_default()) {
            let (name, _) = block.split_once('\n').unwrap_or_default();
            let made = table(name).map(|table| format!("{name}\n{table}"));
            missing.retain(|missing| *missing != name);
            whole += &format!("```{}```{after}", made.as_deref().unwrap_or(block));
        }
        accepted::compare(&root().join(&page.path), &whole, TEST);
    }
    assert!(missing.is_empty(), "not documented: {missing:?}");
}
