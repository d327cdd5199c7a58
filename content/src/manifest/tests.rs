//! Tests of a directory's manifest: refused names and entries, and its encoding.

use super::*;
use crate::name::NameError;
use proptest::prelude::*;
use std::collections::HashSet;

fn entry(parent: impl Into<Option<u32>>, name: &[u8], node: Node) -> Entry {
    Entry {
        parent: parent.into(),
        name: name.into(),
        attributes: Attributes::default(),
        node,
    }
}

fn root() -> Entry {
    entry(None, b"top", Node::Directory)
}

fn file(parent: u32, name: &[u8]) -> Entry {
    entry(parent, name, Node::File(FileData::dense(3)))
}

fn received(entries: Vec<Entry>) -> Result<Manifest, ManifestError> {
    decode(
        &Manifest {
            entries,
            owners: Vec::new(),
        }
        .encode(),
    )
}

fn decode(stream: &[u8]) -> Result<Manifest, ManifestError> {
    let (head, body) = stream.split_at(HEAD_BYTES);
    Manifest::decode(&Head::read(head.try_into().expect("so long"))?, body)
}

#[track_caller]
fn assert_refused(entries: Vec<Entry>, fault: Fault) {
    let error = received(entries).expect_err("it is hostile");
    assert_eq!(error.fault(), fault, "{error}");
}

#[test]
fn a_name_that_leads_out_of_its_directory_is_refused() {
    for (name, why) in [
        (&b".."[..], NameError::Dots),
        (b".", NameError::Dots),
        (b"", NameError::Empty),
        (b"/etc/passwd", NameError::Path),
        (b"../../etc/passwd", NameError::Path),
        (b"a\0b", NameError::Nul),
    ] {
        assert_refused(vec![root(), file(0, name)], Fault::Name(why));
    }
    assert_refused(
        vec![entry(None, b"..", Node::Directory)],
        Fault::Name(NameError::Dots),
    );
    assert_refused(
        vec![entry(None, b"/", Node::Directory)],
        Fault::Name(NameError::Path),
    );
}

#[test]
fn a_name_of_300_bytes_cannot_even_be_written_and_one_of_no_utf8_is_taken_as_it_is() {
    let mut builder = Builder::default();
    builder.add(root()).expect("a directory");
    let long = builder.add(file(0, &[b'n'; 300])).expect_err("too long");
    assert_eq!(long.fault(), Fault::Name(NameError::Long(300)));
    let odd = received(vec![root(), file(0, b"\xff\xfe\x80")]).expect("a name is bytes");
    assert_eq!(&*odd.entries()[1].name, b"\xff\xfe\x80");
    assert_eq!(odd.shown(1), "\\xff\\xfe\\x80");
}

#[test]
fn two_entries_of_one_name_are_refused_wherever_they_stand() {
    assert_refused(vec![root(), file(0, b"a"), file(0, b"a")], Fault::Twice);
    assert_refused(
        vec![root(), file(0, b"b"), file(0, b"a"), file(0, b"b")],
        Fault::Twice,
    );
    let between = vec![
        root(),
        entry(0, b"a", Node::Directory),
        file(1, b"x"),
        file(0, b"a"),
    ];
    assert_refused(between, Fault::Twice);
    // Equal names in two directories, and names that differ in case only, are different files.
    let fine = [
        entry(0, b"A", Node::Directory),
        file(1, b"x"),
        entry(0, b"a", Node::Directory),
        file(3, b"x"),
    ];
    received([vec![root()], fine.to_vec()].concat()).expect("four names");
}

#[test]
fn names_may_come_in_any_order() {
    let mixed = vec![
        root(),
        entry(0, b"d", Node::Directory),
        file(1, b"z"),
        file(0, b"a"),
        file(1, b"b"),
        file(0, b"c"),
    ];
    let manifest = received(mixed).expect("five names");
    let files: Vec<String> = manifest
        .files()
        .map(|(entry, _)| manifest.shown(entry))
        .collect();
    assert_eq!(files, ["d/z", "a", "d/b", "c"]);
}

#[test]
fn no_entry_is_below_a_symlink_a_file_or_a_later_entry() {
    let link = entry(0, b"a", Node::Symlink(b"/etc"[..].into()));
    assert_refused(vec![root(), link, file(1, b"passwd")], Fault::Parent);
    assert_refused(vec![root(), file(0, b"a"), file(1, b"b")], Fault::Parent);
    assert_refused(
        vec![root(), file(2, b"a"), entry(0, b"d", Node::Directory)],
        Fault::Parent,
    );
    assert_refused(vec![root(), file(1, b"own")], Fault::Parent);
    assert_refused(vec![root(), file(77, b"a")], Fault::Parent);
    assert_refused(vec![file(0, b"a")], Fault::Parent);
    assert_refused(vec![root(), root()], Fault::Root);
    assert_refused(
        vec![entry(None, b"top", Node::File(FileData::dense(0)))],
        Fault::Root,
    );
    assert_refused(Vec::new(), Fault::Root);
}

#[test]
fn a_path_longer_than_the_system_takes_is_refused() {
    let directory = |at: u32| entry(at, &[b'd'; 255], Node::Directory);
    let deep: Vec<Entry> = std::iter::once(root())
        .chain((0..17).map(directory))
        .collect();
    assert_refused(deep[..].to_vec(), Fault::Path(17 * 256 - 1));
    received(deep[..17].to_vec()).expect("16 of them fit");
}

#[test]
fn numbers_that_cannot_be_are_refused() {
    let with = |change: fn(&mut Entry)| {
        let mut one = file(0, b"a");
        change(&mut one);
        vec![root(), one]
    };
    assert_refused(
        with(|one| one.attributes.mode = 0o10644),
        Fault::Mode(0o10644),
    );
    assert_refused(
        with(|one| one.attributes.modified.nanoseconds = 1_000_000_000),
        Fault::Time,
    );
    assert_refused(with(|one| one.attributes.owner = Some(0)), Fault::Owner);
    assert_refused(
        with(|one| one.node = Node::File(FileData::dense(1 << 63))),
        Fault::Size(1 << 63),
    );
    assert_refused(
        with(|one| one.node = Node::Symlink(Box::default())),
        Fault::Target,
    );
    assert_refused(
        with(|one| one.node = Node::Symlink(b"a\0b"[..].into())),
        Fault::Target,
    );
    assert_refused(
        with(|one| one.node = Node::Symlink(vec![b'a'; 4096].into())),
        Fault::Target,
    );
    for to in [0, 1, 2, u32::MAX] {
        let mut entries = with(|_| {});
        entries.insert(1, entry(0, b"0", Node::HardLink(to)));
        assert_refused(entries, Fault::Link);
    }
    let huge = || Node::File(FileData::dense(i64::MAX as u64));
    assert_refused(
        vec![root(), entry(0, b"a", huge()), entry(0, b"b", huge())],
        Fault::Total,
    );
}

#[test]
fn extents_lie_in_the_file_in_order_and_do_not_touch_twice() {
    let extents = |list: &[(u64, u64)]| {
        FileData::sparse(
            100,
            list.iter().map(|&(offset, bytes)| Extent { offset, bytes }),
        )
    };
    for bad in [
        &[(0, 0)][..],
        &[(50, 51)],
        &[(u64::MAX, 2)],
        &[(10, 10), (19, 1)],
        &[(10, 10), (5, 1)],
    ] {
        assert_eq!(extents(bad), Err(Fault::Extents), "{bad:?}");
    }
    let data = extents(&[(10, 10), (20, 5), (99, 1)]).expect("in order");
    assert_eq!((data.bytes(), data.data_bytes()), (100, 16));
    let at: Vec<_> = [0, 9, 10, 15, 16]
        .map(|at| data.at(at).map(|one| (one.offset, one.bytes)))
        .into();
    assert_eq!(
        at,
        [
            Some((10, 10)),
            Some((19, 1)),
            Some((20, 5)),
            Some((99, 1)),
            None
        ]
    );
    assert_eq!(extents(&[]).expect("a hole").at(0), None);
}

#[test]
fn a_number_alone_reserves_no_memory() {
    let mut stream = received(vec![root()]).expect("fine").encode();
    for (count, is_refused_for) in [(1_000_000_u32, 1_000_000), (u32::MAX, u32::MAX as usize)] {
        stream[HEAD_BYTES + 2..][..4].copy_from_slice(&count.to_be_bytes());
        let digest = *blake3::hash(&stream[HEAD_BYTES..]).as_bytes();
        stream[HEAD_BYTES - 32..HEAD_BYTES].copy_from_slice(&digest);
        assert_eq!(
            decode(&stream).expect_err("a lie").fault(),
            Fault::Entries(is_refused_for)
        );
    }
    let mut head: [u8; HEAD_BYTES] = stream[..HEAD_BYTES].try_into().expect("so long");
    head[8..16].copy_from_slice(&(MAX_BYTES + 1).to_be_bytes());
    assert_eq!(
        Head::read(&head).expect_err("too long").fault(),
        Fault::Long(MAX_BYTES + 1)
    );
    head[7] = 9;
    assert_eq!(
        Head::read(&head).expect_err("from the future").fault(),
        Fault::Version(9)
    );
    assert_eq!(
        Head::read(&[7; HEAD_BYTES]).expect_err("noise").fault(),
        Fault::NoManifest
    );
}

#[test]
fn a_million_entries_are_taken_and_one_more_than_can_be_is_not() {
    let mut builder = Builder::default();
    builder.add(root()).expect("a directory");
    for number in 1..MAX_ENTRIES {
        builder
            .add(file(0, format!("{number:07}").as_bytes()))
            .expect("there is room");
    }
    let more = builder.add(file(0, b"9999999")).expect_err("full");
    assert_eq!(more.fault(), Fault::Entries(MAX_ENTRIES + 1));
    let manifest = builder.finish().expect("a directory");
    let stream = manifest.encode();
    assert!(stream.len() < 64 << 20, "{} bytes", stream.len());
    assert!(decode(&stream).expect("it is ours") == manifest);
}

fn attributes() -> impl Strategy<Value = Attributes> {
    let xattr = (
        prop::collection::vec(1_u8.., 1..9),
        prop::collection::vec(any::<u8>(), 0..9),
    )
        .prop_map(|(name, value)| Xattr {
            name: name.into(),
            value: value.into(),
        });
    let time = (any::<i64>(), 0..1_000_000_000_u32).prop_map(|(seconds, nanoseconds)| Time {
        seconds,
        nanoseconds,
    });
    (
        0..0o10000_u16,
        time,
        prop::option::of(0..2_u16),
        prop::collection::vec(xattr, 0..3),
    )
        .prop_map(|(mode, modified, owner, xattrs)| Attributes {
            mode,
            modified,
            owner,
            xattrs: xattrs.into(),
        })
}

fn node() -> impl Strategy<Value = Node> {
    let sparse = prop::collection::vec((1..99_u64, 1..99_u64), 0..5).prop_map(|gaps| {
        let mut end = 0;
        let extents: Vec<Extent> = gaps
            .into_iter()
            .map(|(gap, bytes)| {
                let offset = end + gap;
                end = offset + bytes;
                Extent { offset, bytes }
            })
            .collect();
        Node::File(FileData::sparse(end + 7, extents).expect("in order"))
    });
    prop_oneof![
        3 => Just(Node::Directory),
        3 => (0..1_u64 << 40).prop_map(|bytes| Node::File(FileData::dense(bytes))),
        2 => sparse,
        1 => prop::collection::vec(1_u8.., 1..99).prop_map(|target| Node::Symlink(target.into())),
        1 => any::<[u32; 2]>().prop_map(|[major, minor]| Node::Special(Special::Block(major, minor))),
        1 => Just(Node::Special(Special::Fifo)),
    ]
}

fn manifest() -> impl Strategy<Value = Manifest> {
    let name = prop::collection::vec(prop_oneof![b'a'..=b'c', 128..=255_u8], 1..4);
    let one = (any::<prop::sample::Index>(), name, attributes(), node());
    prop::collection::vec(one, 0..40).prop_map(|list| {
        let mut builder = Builder::default();
        let owner = |user| Owner {
            user,
            group: 1,
            user_name: b"ann"[..].into(),
            group_name: Box::default(),
        };
        [0, 1]
            .into_iter()
            .for_each(|user| assert!(builder.add_owner(owner(user)).is_ok()));
        builder.add(root()).expect("a directory");
        let mut directories = vec![0];
        let mut names = HashSet::new();
        for (place, name, attributes, node) in list {
            let parent = directories[place.index(directories.len())];
            if !names.insert((parent, name.clone())) {
                continue;
            }
            let is_directory = node == Node::Directory;
            // Links to nothing are skipped.
            let added = builder.add(Entry {
                parent: Some(parent),
                name: name.into(),
                attributes,
                node,
            });
            directories.extend(added.ok().filter(|_| is_directory));
        }
        builder.finish().expect("a directory")
    })
}

proptest! {
    #[test]
    fn what_is_encoded_decodes_to_the_same(manifest in manifest()) {
        prop_assert_eq!(decode(&manifest.encode()), Ok(manifest));
    }

    #[test]
    fn a_manifest_that_was_changed_with_a_right_digest_is_refused_or_sound(
        manifest in manifest(), at in any::<prop::sample::Index>(), byte in any::<u8>(),
        keep in any::<prop::sample::Index>(),
    ) {
        let mut stream = manifest.encode();
        let body = stream.len() - HEAD_BYTES;
        stream[HEAD_BYTES + at.index(body)] = byte;
        stream.truncate(HEAD_BYTES + keep.index(body + 1));
        let digest = *blake3::hash(&stream[HEAD_BYTES..]).as_bytes();
        stream[HEAD_BYTES - 32..HEAD_BYTES].copy_from_slice(&digest);
        if let Ok(manifest) = decode(&stream) {
            let mut names = HashSet::new();
            for (at, entry) in manifest.entries().iter().enumerate().skip(1) {
                prop_assert!(names.insert((entry.parent, &entry.name)));
                prop_assert!(name::check(&entry.name).is_ok());
                let parent = entry.parent.expect("only the first has none") as usize;
                prop_assert!(parent < at && manifest.entries()[parent].is_directory());
            }
        }
    }
}

#[test]
fn attributes_are_counted_by_the_memory_that_they_take() {
    let short: Vec<Xattr> = (0..65_535)
        .map(|_| Xattr {
            name: (*b"n").into(),
            value: Box::default(),
        })
        .collect();
    let attributes = Attributes {
        mode: 0o755,
        xattrs: short.into(),
        ..Attributes::default()
    };
    let mut builder = Builder::default();
    let mut entries = 0_u32;
    let refused = loop {
        let (parent, name) = if entries == 0 {
            (None, String::new())
        } else {
            (Some(0), format!("{entries:03}"))
        };
        let (attributes, name) = (attributes.clone(), name.into_bytes().into());
        match builder.add(Entry {
            parent,
            name,
            attributes,
            node: Node::Directory,
        }) {
            Ok(_) => entries += 1,
            Err(error) => break error.fault(),
        }
    };
    let each = 65_535 * (1 + XATTR_OVERHEAD_BYTES);
    assert_eq!(
        (refused, entries as usize),
        (Fault::Xattrs, MAX_XATTR_BYTES / each)
    );
    let body = builder.finish().expect("a directory").encode().len() - HEAD_BYTES;
    assert!(
        body * 10 < MAX_XATTR_BYTES,
        "{body} bytes would be a tenth of what they take"
    );
}
