//! Sending of a directory, or of several files and directories, as one stream of bytes.

mod exclusion;
mod listing;
mod opened;
mod reader;

pub use exclusion::Exclusion;
pub(crate) use listing::extents_of;
pub use listing::{Owners, has_rights, has_xattrs};
pub(crate) use opened::SEVERAL;
pub use opened::{Opened, Opening, Unpack};
pub use reader::{SourceFiles, TreeReader};

use crate::layout::{Layout, Replay, Troubles};
use crate::manifest::{Manifest, ManifestError, Node};
use crate::name;
use ethbcast_collectives::OptionName;
use listing::Listing;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Selection of entries and attributes that are sent.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    pub exclusion: Exclusion,
    /// Representation of owners; none: owners are not sent.
    pub owners: Option<Owners>,
    pub xattrs: bool,
    /// Whether device nodes, fifos and sockets are sent; otherwise the first of them is an error.
    pub devices: bool,
    /// Whether files may change during the transfer; otherwise receivers omit the changed ones.
    pub allow_changing: bool,
    /// Whether mount points are sent as empty directories.
    pub one_file_system: bool,
    /// Whether links that lead out of the directory are replaced by their targets.
    pub follow: bool,
    /// Files whose data is sent before that of all others.
    pub order: Order,
}

/// Properties of the directory that are lost on the way: links that lead out of it and are sent as
/// links, by path and target, and capabilities and access lists that are not sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    pub links_out: Counted<(PathBuf, PathBuf)>,
    pub unsent_rights: Counted<PathBuf>,
}

/// The number of occurrences, and the first one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted<T> {
    pub count: usize,
    pub first: Option<T>,
}

impl<T> Default for Counted<T> {
    fn default() -> Counted<T> {
        Counted {
            count: 0,
            first: None,
        }
    }
}

impl<T> Counted<T> {
    fn note(&mut self, one: T) {
        self.count += 1;
        self.first.get_or_insert(one);
    }
}

/// A listed directory, which must not change from now on.
#[derive(Debug)]
pub struct Tree {
    layout: Arc<Layout>,
    encoded: Arc<Vec<u8>>,
    files: SourceFiles,
    troubles: Troubles,
    allow_changing: bool,
    losses: Losses,
}

impl Tree {
    /// Lists one directory, or several files and directories, each of which will be in DEST under
    /// its own name. A directory whose path ends with a slash or `.` stands for its contents.
    ///
    /// # Errors
    /// If something cannot be read, or may not be sent.
    pub fn list(sources: &[PathBuf], selection: &Selection) -> Result<Tree, SourceError> {
        let mut listed = Listing::new(selection).list(sources)?;
        if let Some(ranks) = selection.order.ranks(&listed.manifest) {
            listed.sort_by_ranks(&ranks);
        }
        let encoded = Arc::new(listed.manifest.encode());
        let layout = Arc::new(Layout::new(listed.manifest, encoded.len() as u64));
        let files = SourceFiles::new(listed.bases, Arc::clone(&layout), listed.stamps);
        let (troubles, allow_changing) = (Troubles::default(), selection.allow_changing);
        Ok(Tree {
            layout,
            encoded,
            files,
            troubles,
            allow_changing,
            losses: listed.losses,
        })
    }

    /// Returns the directory's own name for display, empty if only its contents are sent.
    pub fn name(&self) -> String {
        name::shown(&self.layout.manifest().root().name)
    }

    pub fn losses(&self) -> &Losses {
        &self.losses
    }

    /// Returns the number of entries, without the root directory.
    pub fn entries(&self) -> usize {
        self.layout.manifest().entries().len() - 1
    }

    pub fn bytes(&self) -> u64 {
        self.layout.bytes()
    }

    pub fn reader(&self) -> TreeReader {
        let files = self.files.clone();
        let (layout, encoded, troubles) = (
            Arc::clone(&self.layout),
            Arc::clone(&self.encoded),
            Arc::clone(&self.troubles),
        );
        TreeReader::new(layout, encoded, files, troubles, self.allow_changing)
    }

    /// Returns the stream for random access.
    pub fn again(&self) -> Replay<SourceFiles> {
        let (layout, encoded) = (Arc::clone(&self.layout), Arc::clone(&self.encoded));
        Replay::new(
            layout,
            encoded,
            Arc::clone(&self.troubles),
            self.files.clone(),
        )
    }

    /// Returns the files that receivers omit, with the reason: they changed, vanished, or could not
    /// be read.
    pub fn left_out(&self) -> Vec<String> {
        let troubles = self.troubles.lock();
        let line = |(&entry, trouble): (&usize, &crate::layout::Trouble)| {
            format!("{}: {}", self.files.path(entry).display(), trouble.why)
        };
        troubles.iter().map(line).collect()
    }
}

#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error(
        "cannot read SOURCE {path}: {cause}; leave it out with {}, or send as a user who may read it",
        OptionName("exclude")
    )]
    Read {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("cannot read SOURCE {path}: {cause}")]
    NoSource {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    /// A followed link leads to a directory that contains it.
    #[error(
        "{path} leads to {target}, which it is in: leave it out with {}, or send it as a link, without {}",
        OptionName("exclude"),
        OptionName("follow")
    )]
    Loop { path: PathBuf, target: PathBuf },
    #[error(
        "{path} is a {kind}: leave it out with {}, or send it as such with {}",
        OptionName("exclude"),
        OptionName("devices")
    )]
    Special { path: PathBuf, kind: &'static str },
    /// An entry at the top of a directory, which no receiver takes.
    #[error(
        "{path} is named as data of transfers that were broken off: remove it, or leave it out with {}",
        OptionName("exclude")
    )]
    Hidden { path: PathBuf },
    #[error(
        "two SOURCEs are called {name:?}: send them one after the other, or from a directory that holds both"
    )]
    Twice { name: String },
    #[error("SOURCE {path} does not end in a name for DEST: give its whole path, or send it alone")]
    NoName { path: PathBuf },
    #[error("{0}")]
    Refused(String),
    #[error("cannot read {what}: {cause}")]
    Unreadable {
        what: String,
        #[source]
        cause: io::Error,
    },
    #[error("{0}")]
    Manifest(#[from] ManifestError),
}

impl SourceError {
    /// Whether the caller's arguments are the cause, and not the system.
    pub fn is_usage(&self) -> bool {
        !matches!(
            self,
            SourceError::Read { .. }
                | SourceError::NoSource { .. }
                | SourceError::Unreadable { .. }
        )
    }
}

/// Patterns of files that are sent first: those of the first pattern, then those of the second, and
/// so on.
#[derive(Clone, Debug, Default)]
pub struct Order(Vec<Exclusion>);

impl Order {
    /// Compiles patterns as those of [`Exclusion`].
    ///
    /// # Errors
    /// The invalid pattern and the reason.
    pub fn new<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Order, String> {
        patterns
            .into_iter()
            .map(|pattern| Exclusion::new([pattern]))
            .collect::<Result<_, _>>()
            .map(Order)
    }

    /// Returns the rank of each entry, lowest first; none without a pattern.
    fn ranks(&self, manifest: &Manifest) -> Option<Vec<usize>> {
        if self.0.is_empty() {
            return None;
        }
        let entries = manifest.entries();
        let mut ranks = vec![self.0.len(); entries.len()];
        for (at, entry) in entries.iter().enumerate().skip(1) {
            let path = manifest.path(at);
            let own = self
                .0
                .iter()
                .position(|pattern| pattern.leaves_out(&path, entry.is_directory()));
            // What is in a directory is sent with it.
            let inherited = ranks[entry.parent.unwrap_or(0) as usize];
            ranks[at] = own.unwrap_or(inherited).min(inherited);
        }
        // A link comes after its file, and everything after its directory.
        for (at, entry) in entries.iter().enumerate() {
            if let Node::HardLink(file) = entry.node {
                ranks[file as usize] = ranks[file as usize].min(ranks[at]);
            }
        }
        for (at, entry) in entries.iter().enumerate().skip(1).rev() {
            let parent = entry.parent.unwrap_or(0) as usize;
            ranks[parent] = ranks[parent].min(ranks[at]);
        }
        Some(ranks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Verdict;
    use ethbcast_collectives::session::SendOptions;
    use ethbcast_collectives::session::live::ReadAt;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use tempfile::TempDir;

    fn directory(files: &[(&str, &[u8])]) -> TempDir {
        let directory = tempfile::tempdir().expect("a directory");
        for (path, content) in files {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().expect("it is below")).expect("room");
            fs::write(path, content).expect("room");
        }
        directory
    }

    fn list(path: &Path, selection: &Selection) -> Tree {
        Tree::list(&[path.to_owned()], selection).expect("readable")
    }

    fn paths(tree: &Tree) -> Vec<String> {
        let manifest = tree.layout.manifest();
        (1..manifest.entries().len())
            .map(|entry| manifest.shown(entry))
            .collect()
    }

    fn stream(tree: &Tree) -> Vec<u8> {
        let mut bytes = Vec::new();
        tree.reader()
            .read_to_end(&mut bytes)
            .expect("it never fails");
        assert_eq!(bytes.len() as u64, tree.bytes());
        let (again, mut at) = (tree.again(), 0);
        let mut buffer = [0; 1237];
        loop {
            match again.read_at(&mut buffer, at as u64).expect("it is there") {
                0 => break,
                count => {
                    assert_eq!(buffer[..count], bytes[at..at + count], "at {at}");
                    at += count;
                }
            }
        }
        assert_eq!(at, bytes.len());
        bytes
    }

    #[test]
    fn data_of_a_transfer_that_was_broken_off_is_named_before_anything_is_sent() {
        let directory = directory(&[
            (".ethbcast-1-2.part", b"half"),
            (".ethbcast-notes", b"a user's"),
        ]);
        let all = Tree::list(&[directory.path().to_owned()], &Selection::default());
        let refused = all
            .err()
            .map(|error| error.to_string())
            .expect("no receiver takes it");
        assert!(
            [".ethbcast-1-2.part", "with exclude"]
                .iter()
                .all(|word| refused.contains(word)),
            "{refused}"
        );
        let exclusion = Exclusion::new(["*.part"]).expect("a pattern");
        let tree = list(
            directory.path(),
            &Selection {
                exclusion,
                ..Selection::default()
            },
        );
        assert_eq!(paths(&tree), [".ethbcast-notes"]);
    }

    #[test]
    fn files_follow_each_other_in_the_order_of_their_names() {
        let directory = directory(&[
            ("b/2", b"two"),
            ("b/1", b"one"),
            ("a", b""),
            ("c", b"three"),
        ]);
        let tree = list(directory.path(), &Selection::default());
        assert_eq!(paths(&tree), ["a", "b", "b/1", "b/2", "c"]);
        let stream = stream(&tree);
        assert!(
            stream.ends_with(b"\0one\0two\0three\0"),
            "{:?}",
            String::from_utf8_lossy(&stream)
        );
        assert!(tree.left_out().is_empty());
    }

    #[test]
    fn files_that_match_a_pattern_are_first_in_the_order_of_the_patterns() {
        let files = [
            ("a.json", &b"a"[..]),
            ("model-1.safetensors", b"M1"),
            ("model-2.safetensors", b"M2"),
            ("other/x", b"x"),
            ("sub/deep/model.safetensors", b"M"),
            ("sub/readme", b"r"),
            ("tokenizer.json", b"t"),
        ];
        let directory = directory(&files);
        let at = |name: &str| directory.path().join(name);
        // A further name that comes first takes the file's data with it.
        fs::hard_link(at("other/x"), at("zz.json")).expect("room");
        let patterns = ["*.json", "*.safetensors", "/sub/"];
        let order = Order::new(patterns).expect("patterns");
        let tree = list(
            directory.path(),
            &Selection {
                order,
                ..Selection::default()
            },
        );
        let sorted = [
            "a.json",
            "other",
            "other/x",
            "tokenizer.json",
            "zz.json",
            "model-1.safetensors",
            "model-2.safetensors",
            "sub",
            "sub/deep",
            "sub/deep/model.safetensors",
            "sub/readme",
        ];
        assert_eq!(paths(&tree), sorted);
        assert!(stream(&tree).ends_with(b"a\0x\0t\0M1\0M2\0M\0r\0"));
        assert!(
            tree.left_out().is_empty(),
            "each file is compared with its own listing: {:?}",
            tree.left_out()
        );
        let manifest = tree.layout.manifest();
        assert_eq!(
            manifest.entries()[5].node,
            crate::manifest::Node::HardLink(3)
        );
        let encoded = manifest.encode();
        let (head, body) = encoded.split_at(crate::manifest::HEAD_BYTES);
        let head = crate::manifest::Head::read(head.try_into().expect("so long")).expect("ours");
        assert_eq!(
            crate::manifest::Manifest::decode(&head, body).as_ref(),
            Ok(manifest)
        );
        assert!(
            Order::new(["[z-a]"])
                .expect_err("no range")
                .contains("[z-a]")
        );
    }

    #[test]
    fn a_slash_at_the_end_stands_for_what_is_in_the_directory() {
        let directory = directory(&[("sub/x", b"1")]);
        let sub = directory.path().join("sub");
        assert_eq!(list(&sub, &Selection::default()).name(), "sub");
        for contents in [sub.join(""), sub.join(".")] {
            assert_eq!(
                list(&contents, &Selection::default()).name(),
                "",
                "{}",
                contents.display()
            );
            let opened = Opened::tree(std::slice::from_ref(&contents), &Selection::default())
                .expect("a directory");
            let mut options = SendOptions::new();
            opened.content.describe(&mut options);
            assert_eq!(
                options.source,
                "the content of sub/",
                "{}",
                contents.display()
            );
        }
    }

    #[test]
    fn several_sources_are_in_one_directory_and_no_two_have_one_name() {
        let directory = directory(&[("a/x", b"1"), ("b/x", b"2"), ("file", b"3")]);
        let at = |path: &str| directory.path().join(path);
        symlink("file", at("link")).expect("room");
        let several = [at("link"), at("b"), at("file"), at("a/")];
        let tree = Tree::list(&several, &Selection::default()).expect("four names");
        assert_eq!(
            (paths(&tree), tree.name()),
            (
                ["a", "a/x", "b", "b/x", "file", "link"]
                    .map(str::to_owned)
                    .into(),
                String::new()
            )
        );
        assert!(
            stream(&tree).ends_with(b"1\x002\x003\x003\0"),
            "a SOURCE that is a link is the file"
        );
        let twice = Tree::list(&[at("a/x"), at("b/x")], &Selection::default()).expect_err("two x");
        assert!(
            twice.to_string().contains("\"x\"") && twice.is_usage(),
            "{twice}"
        );
        let missing =
            Tree::list(&[at("a"), at("no")], &Selection::default()).expect_err("it is not there");
        assert!(
            missing.to_string().contains("no: No such file") && !missing.is_usage(),
            "{missing}"
        );
    }

    #[test]
    fn excluded_directories_are_not_entered() {
        let directory = directory(&[
            ("keep/x.o", b"1"),
            ("keep/y", b"2"),
            ("drop/z", b"3"),
            ("w.o", b"4"),
        ]);
        let exclusion = Exclusion::new(["*.o", "/drop/", "!/w.o"]).expect("patterns");
        let tree = list(
            directory.path(),
            &Selection {
                exclusion,
                ..Selection::default()
            },
        );
        assert_eq!(paths(&tree), ["keep", "keep/y", "w.o"]);
    }

    const LARGE: usize = 300_000;
    const SHORTER: usize = 180_000;

    #[test]
    fn a_file_that_vanishes_shrinks_or_changes_is_named_and_the_rest_is_read() {
        let large = vec![7; LARGE];
        let files = ["1-gone", "2-shrinks", "3-changes", "4-late", "5-whole"]
            .map(|name| (name, &large[..]));
        let directory = directory(&files);
        let at = |name: &str| directory.path().join(name);
        let tree = list(directory.path(), &Selection::default());
        fs::remove_file(at("1-gone")).expect("ours");
        let mut reader = tree.reader();
        let begin = tree.bytes() as usize - 5 * (LARGE + 1);
        // Into the middle of the second file.
        let mut bytes = vec![0; begin + LARGE * 3 / 2];
        reader.read_exact(&mut bytes).expect("it never fails");
        std::thread::sleep(std::time::Duration::from_millis(20));
        fs::write(at("2-shrinks"), &large[..SHORTER]).expect("ours");
        fs::write(at("3-changes"), vec![8; LARGE]).expect("ours");
        reader.read_to_end(&mut bytes).expect("it never fails");
        let verdicts: Vec<_> = (1..=5)
            .map(|file| Verdict::of(bytes[begin + file * (LARGE + 1) - 1]))
            .collect();
        let (lost, changed, whole) = (Verdict::Lost, Verdict::Changed, Verdict::Whole);
        assert_eq!(verdicts, [lost, changed, changed, whole, whole]);
        let second = &bytes[begin + (LARGE + 1)..][..LARGE];
        assert!(
            second[..SHORTER].iter().all(|&byte| byte == 7)
                && second[SHORTER..].iter().all(|&byte| byte == 0)
        );
        let left_out = tree.left_out();
        assert_eq!(left_out.len(), 3, "{left_out:?}");
        assert!(
            left_out[0].contains("1-gone: No such file") && left_out[1].contains("shorter"),
            "{left_out:?}"
        );
        // Retransmission reads the same bytes.
        let (again, mut rest) = (tree.again(), vec![0; 1]);
        for at in [
            begin,
            begin + LARGE,
            begin + LARGE * 17 / 10,
            begin + 2 * LARGE + 1,
            bytes.len() - 1,
        ] {
            assert_eq!(again.read_at(&mut rest, at as u64).expect("there"), 1);
            assert_eq!(rest[0], bytes[at], "at {at}");
        }
    }

    #[test]
    fn small_files_are_read_before_their_turn_and_those_that_changed_are_named() {
        let small: Vec<(String, Vec<u8>)> = (0..300_u32)
            .map(|at| (format!("{at:03}"), vec![at as u8; at as usize]))
            .collect();
        let files: Vec<(&str, &[u8])> = small
            .iter()
            .map(|(name, bytes)| (&**name, &**bytes))
            .collect();
        let directory = directory(&files);
        let at = |name: &str| directory.path().join(name);
        let tree = list(directory.path(), &Selection::default());
        fs::remove_file(at("100")).expect("ours");
        fs::write(at("200"), [1; 7]).expect("ours");
        let mut expected: Vec<u8> = Vec::new();
        for (name, bytes) in &small {
            let verdict = match &**name {
                "100" => Verdict::Lost,
                "200" => Verdict::Changed,
                _ => Verdict::Whole,
            };
            expected.extend(
                bytes
                    .iter()
                    .map(|&byte| if verdict == Verdict::Whole { byte } else { 0 }),
            );
            expected.push(verdict.byte());
        }
        assert!(stream(&tree).ends_with(&expected));
        let left_out = tree.left_out();
        assert!(
            left_out.len() == 2 && left_out[0].contains("No such file"),
            "{left_out:?}"
        );
        // A reader that stops early leaves no thread behind.
        tree.reader()
            .read_exact(&mut vec![0; expected.len() / 2])
            .expect("it never fails");
    }

    #[test]
    fn a_fifo_is_refused_by_name_unless_it_may_be_sent() {
        let directory = directory(&[("a", b"1")]);
        mknodat(
            CWD,
            directory.path().join("pipe"),
            FileType::Fifo,
            Mode::RWXU,
            0,
        )
        .expect("room");
        let refused =
            Tree::list(&[directory.path().to_owned()], &Selection::default()).expect_err("a fifo");
        let text = refused.to_string();
        assert!(
            text.contains("pipe is a fifo")
                && text.contains("with devices")
                && text.contains("with exclude"),
            "{text}"
        );
        let tree = list(
            directory.path(),
            &Selection {
                devices: true,
                ..Selection::default()
            },
        );
        assert_eq!(paths(&tree), ["a", "pipe"]);
    }

    #[test]
    fn holes_are_not_sent_and_a_second_name_is_no_second_file() {
        use std::os::unix::fs::FileExt;
        let directory = directory(&[("a", b"twice")]);
        fs::hard_link(directory.path().join("a"), directory.path().join("b")).expect("room");
        let sparse = fs::File::create(directory.path().join("sparse")).expect("room");
        sparse.set_len(1 << 30).expect("a hole");
        sparse.write_all_at(&[9; 100], 500 << 20).expect("room");
        let tree = list(directory.path(), &Selection::default());
        let stream = stream(&tree);
        assert!(stream.len() < 1 << 20, "{} bytes of a hole", stream.len());
        assert_eq!(stream.windows(5).filter(|part| part == b"twice").count(), 1);
    }

    #[test]
    fn links_that_lead_out_are_counted_or_followed_and_a_loop_is_named() {
        let hub = directory(&[
            ("blobs/aa", b"model"),
            ("blobs/dir/x", b"x"),
            ("snap/own", b"own"),
        ]);
        let snap = hub.path().join("snap");
        symlink("../blobs/aa", snap.join("model")).expect("made");
        symlink("../blobs/dir", snap.join("tree")).expect("made");
        symlink("own", snap.join("inside")).expect("made");
        symlink("/no/such/file", snap.join("zz")).expect("made");
        let tree = list(&snap, &Selection::default());
        let losses = tree.losses();
        assert_eq!(losses.links_out.count, 3);
        assert_eq!(
            losses.links_out.first,
            Some(("model".into(), "../blobs/aa".into()))
        );
        let follow = Selection {
            follow: true,
            ..Selection::default()
        };
        let tree = list(&snap, &follow);
        assert_eq!(
            paths(&tree),
            ["inside", "model", "own", "tree", "tree/x", "zz"]
        );
        assert_eq!(
            (
                tree.losses().links_out.count,
                tree.losses().links_out.first.clone().map(|(at, _)| at)
            ),
            (1, Some("zz".into()))
        );
        assert!(
            stream(&tree).ends_with(b"model\0own\0x\0"),
            "{:?}",
            String::from_utf8_lossy(&stream(&tree))
        );
        assert!(tree.left_out().is_empty());
        // The links of a whole system lead nowhere else.
        assert_eq!(
            list(hub.path(), &Selection::default())
                .losses()
                .links_out
                .count,
            1,
            "only /no/such/file"
        );
        symlink("..", hub.path().join("blobs/dir/up")).expect("made");
        assert_eq!(
            list(hub.path(), &follow).losses().links_out.count,
            1,
            "it stays inside"
        );
        symlink(hub.path(), hub.path().join("blobs/dir/home")).expect("made");
        let error = Tree::list(&[hub.path().to_owned()], &follow).expect_err("a loop");
        assert!(
            error.is_usage() && error.to_string().contains("which it is in"),
            "{error}"
        );
        let error = Tree::list(&[snap], &follow)
            .map(|tree| paths(&tree))
            .expect_err("a loop through what is followed");
        assert!(error.to_string().contains("home leads to"), "{error}");
    }

    #[test]
    fn a_root_s_absolute_links_stay_inside() {
        let root = directory(&[("etc/alternatives/awk", b""), ("usr/bin/x", b"")]);
        symlink("/etc/alternatives/awk", root.path().join("usr/bin/awk")).expect("made");
        assert_eq!(
            list(root.path(), &Selection::default()).losses(),
            &Losses::default()
        );
    }
}
