//! Saved inputs of the fuzz targets: a text file per target, one `DIGEST HEX` line per input. A
//! change thus shows which input was added, and a line damaged by an editor or a merge is detected.

use ethbcast_transport::sim::Random;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const NAME_DIGITS: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// First digits of its digest.
    pub name: String,
    pub bytes: Vec<u8>,
}

fn name_of(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex()[..NAME_DIGITS].to_owned()
}

/// Formats a line without its end. An empty input's line is its digest alone, because editors strip
/// a space at the end.
fn line_of(name: &str, bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    if digits.is_empty() {
        name.to_owned()
    } else {
        format!("{name} {digits}")
    }
}

fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let value = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
    let byte = |pair: &[u8]| match *pair {
        [high, low] => Some(value(high)? << 4 | value(low)?),
        _ => None,
    };
    digits.as_bytes().chunks(2).map(byte).collect()
}

fn entry_of(line: &str) -> Result<Entry, String> {
    let (name, digits) = line.split_once(' ').unwrap_or((line, ""));
    let bytes = bytes_of(digits).ok_or("it is no digest and pairs of hexadecimal digits")?;
    let digest = name_of(&bytes);
    if digest != name {
        return Err(format!("its input has the digest {digest}"));
    }
    Ok(Entry {
        name: digest,
        bytes,
    })
}

pub fn load(file: &Path) -> Result<Vec<Entry>, String> {
    let shown = file.display();
    let text = fs::read(file).map_err(|error| {
        format!("the corpus {shown} cannot be read: {error}. Restore it with git, or begin it with `fuzz keep`")
    })?;
    let mut entries: Vec<Entry> = Vec::new();
    // Invalid UTF-8 is no digit either, so its line is named.
    for (line, number) in String::from_utf8_lossy(&text).lines().zip(1..) {
        let entry = entry_of(line).map_err(|why| {
            format!(
                "{shown}, line {number} is damaged: {why}. Restore it with git, or delete it and take its input into \
                 the corpus with `fuzz keep`"
            )
        })?;
        if entries
            .last()
            .is_some_and(|before| before.name >= entry.name)
        {
            return Err(format!(
                "{shown}, line {number} does not come after the line before it by digest, as after a merge. Sort \
                 the file: LC_ALL=C sort -u -o {shown} {shown}"
            ));
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// Adds inputs to a corpus, creating it if necessary; returns the number of new ones. Without any
/// the file is not written.
pub fn keep(file: &Path, inputs: impl IntoIterator<Item = Vec<u8>>) -> Result<usize, String> {
    let there = if file.exists() {
        load(file)?
    } else {
        Vec::new()
    };
    let count = there.len();
    let mut kept: BTreeMap<String, Vec<u8>> = there
        .into_iter()
        .map(|entry| (entry.name, entry.bytes))
        .collect();
    kept.extend(inputs.into_iter().map(|bytes| (name_of(&bytes), bytes)));
    if kept.len() > count {
        let text: String = kept
            .iter()
            .map(|(name, bytes)| line_of(name, bytes) + "\n")
            .collect();
        let folder = file.parent().unwrap_or(Path::new(""));
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(file, text))
            .map_err(|error| {
                format!(
                    "{} cannot be written: {error}. Restore it with git once that is mended",
                    file.display()
                )
            })?;
    }
    Ok(kept.len() - count)
}

const MAX_BYTES: usize = 4096;

const EDGES: [u64; 8] = [0, 1, 0x7F, 0xFF, 0xFFFF, 0x7FFF_FFFF, 0xFFFF_FFFF, u64::MAX];

#[derive(Debug)]
pub struct Mutator<'a> {
    corpus: &'a [Entry],
    random: Random,
}

impl Mutator<'_> {
    /// Creates a mutator whose results depend on `seed` only.
    pub fn new(corpus: &[Entry], seed: u64) -> Mutator<'_> {
        Mutator {
            corpus,
            random: Random::new(seed),
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound.max(1) as u64) as usize
    }

    fn one_of_all(&mut self) -> &[u8] {
        let at = self.below(self.corpus.len());
        self.corpus.get(at).map_or(&[], |entry| &entry.bytes)
    }

    pub fn next_input(&mut self) -> Vec<u8> {
        let mut bytes = self.one_of_all().to_vec();
        for _ in 0..1 + self.below(6) {
            self.change(&mut bytes);
        }
        bytes.truncate(MAX_BYTES);
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        let (at, byte) = (self.below(bytes.len()), self.random.next_u64() as u8);
        let end = (at + 1 + self.below(16)).min(bytes.len());
        match self.below(7) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << (byte % 8),
            1 if !bytes.is_empty() => bytes[at] = byte,
            2 if !bytes.is_empty() => drop(bytes.drain(at..end)),
            3 if !bytes.is_empty() => {
                let copy = bytes[at..end].to_vec();
                let to = self.below(bytes.len() + 1);
                bytes.splice(to..to, copy);
            }
            4 => {
                let other = self.one_of_all().to_vec();
                let from = self.below(other.len());
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from.min(other.len())..]);
            }
            5 => {
                let edge = EDGES[self.below(EDGES.len())].to_be_bytes();
                let width = [1, 2, 4, 8][self.below(4)];
                for (place, &value) in bytes.iter_mut().skip(at).zip(&edge[8 - width..]) {
                    *place = value;
                }
            }
            _ => bytes.insert(at.min(bytes.len()), byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::time::UNIX_EPOCH;
    use tempfile::TempDir;

    fn corpus() -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("there is a temporary folder");
        let file = folder.path().join("corpus/target.hex");
        let inputs = [b"one".to_vec(), Vec::new(), vec![0x00, 0xFF]];
        assert_eq!(keep(&file, inputs), Ok(3));
        (folder, file)
    }

    fn text_of(file: &Path) -> String {
        fs::read_to_string(file).expect("it is text")
    }

    #[track_caller]
    fn refusal(file: &Path, text: impl AsRef<[u8]>) -> String {
        fs::write(file, text).expect("it can be written");
        let why = load(file).expect_err("it is damaged");
        assert!(
            why.starts_with(&format!("{}, line ", file.display())),
            "{why}"
        );
        why
    }

    #[test]
    fn kept_inputs_are_loaded_one_per_line_by_digest() {
        let (_folder, file) = corpus();
        let loaded = load(&file).expect("all is well");
        let empty = Entry {
            name: "af1349b9f5f9a1a6".to_owned(),
            bytes: Vec::new(),
        };
        assert!(loaded.len() == 3 && loaded.contains(&empty), "{loaded:?}");
        assert!(
            loaded.is_sorted_by(|one, other| one.name < other.name),
            "{loaded:?}"
        );
        let text = text_of(&file);
        assert!(
            text.lines().any(|line| line == "af1349b9f5f9a1a6") && text.contains(" 6f6e65\n"),
            "{text}"
        );
        fs::write(&file, text.replace('\n', "\r\n")).expect("it can be written");
        assert_eq!(load(&file), Ok(loaded), "ends of lines as on other systems");
    }

    #[test]
    fn a_known_input_changes_nothing_and_a_new_one_adds_one_line() {
        let (_folder, file) = corpus();
        let before = text_of(&file);
        let opened = fs::File::options()
            .write(true)
            .open(&file)
            .expect("it is ours");
        opened.set_modified(UNIX_EPOCH).expect("it is ours");
        assert_eq!(keep(&file, [b"one".to_vec(), Vec::new()]), Ok(0));
        let modified = opened
            .metadata()
            .and_then(|about| about.modified())
            .expect("it is there");
        assert_eq!(
            (text_of(&file), modified),
            (before.clone(), UNIX_EPOCH),
            "it is not even written"
        );
        assert_eq!(
            keep(&file, [b"two".to_vec(), b"one".to_vec(), b"two".to_vec()]),
            Ok(1)
        );
        let after = text_of(&file);
        let came: Vec<&str> = after
            .lines()
            .filter(|line| !before.lines().any(|old| old == *line))
            .collect();
        assert!(came.len() == 1 && came[0].ends_with(" 74776f"), "{came:?}");
        assert_eq!(after.lines().count(), 4);
    }

    #[test]
    fn a_damaged_line_is_refused_with_its_number_and_words() {
        let (_folder, file) = corpus();
        let text = text_of(&file);
        let number = 1 + text
            .lines()
            .position(|line| line.ends_with("6f6e65"))
            .expect("it is kept");
        let place = format!(", line {number} is damaged");
        for damage in [
            "6f6e66",
            "6f6e6",
            "6f6e",
            "6f6e6g",
            "6f6e65 ",
            "6f6e65\n\n",
            "",
            "é",
        ] {
            let why = refusal(&file, text.replace("6f6e65", damage));
            let place = if damage.ends_with('\n') {
                format!(", line {} is", number + 1)
            } else {
                place.clone()
            };
            assert!(
                why.contains(&place) && why.contains("with git"),
                "{damage:?}: {why}"
            );
        }
        let mut not_text = text.clone().into_bytes();
        not_text[text.find("6f6e65").expect("it is kept")] = 0xFF;
        assert!(
            refusal(&file, not_text).contains(&place),
            "what is no UTF-8"
        );
        let why = refusal(&file, text.replace("af1349b9", "af1349b8"));
        assert!(
            why.contains("its input has the digest af1349b9f5f9a1a6"),
            "{why}"
        );
        assert!(
            keep(&file, [b"two".to_vec()]).is_err_and(|why| why.contains("damaged")),
            "nothing is written over it"
        );
        let none = file.with_file_name("none.hex");
        assert!(
            load(&none)
                .is_err_and(|why| why.contains("cannot be read") && why.contains("`fuzz keep`"))
        );
    }

    #[test]
    fn lines_out_of_order_or_repeated_are_refused_with_the_command_that_sorts_them() {
        let (_folder, file) = corpus();
        let text = text_of(&file);
        let mut lines: Vec<&str> = text.lines().collect();
        lines.swap(1, 2);
        for text in [lines.join("\n"), format!("{text}{}\n", lines[1])] {
            let why = refusal(&file, text);
            assert!(
                why.contains(" does not come after ") && why.contains("LC_ALL=C sort -u -o "),
                "{why}"
            );
        }
    }
}
