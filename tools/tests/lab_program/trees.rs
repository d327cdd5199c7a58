//! Tests of transfers of directories: they arrive unchanged and whole, or not at all.

use crate::harness::{
    Ended, Ethbcast, LIMIT, MEBIBYTE, Run, Site, content, names_in, one_switch, shown_in, within,
};
use crate::refusals::meeting::Nobody;
use ethbcast_lab::LabConfig;
use ethbcast_tests::lab::SmallDisk;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

const RECV: [&str; 5] = ["recv", "-i", "eth0", "--max-wait", "20"];
/// Rate at which 8 MiB take two seconds, long enough for a fault in the middle.
const SLOW_BITS_PER_SECOND: u64 = 40_000_000;

fn slow(hosts: usize) -> LabConfig {
    LabConfig {
        rate_bits_per_second: Some(SLOW_BITS_PER_SECOND),
        ..one_switch(hosts)
    }
}

/// Creates a directory with files of several sizes, links, and unusual modes.
fn tree(site: &Site, large_mib: usize) -> PathBuf {
    let at = site.directory("tree");
    fs::create_dir_all(at.join("sub/empty")).expect("room");
    for number in 0..200 {
        fs::write(
            at.join(format!("sub/file-{number}")),
            content(number, number as usize * 11),
        )
        .expect("room");
    }
    fs::write(at.join("large"), content(7, large_mib * MEBIBYTE)).expect("room");
    fs::hard_link(at.join("large"), at.join("sub/twin")).expect("room");
    symlink("/nowhere", at.join("link")).expect("room");
    fs::set_permissions(at.join("sub/file-7"), Permissions::from_mode(0o600)).expect("ours");
    fs::set_permissions(at.join("sub/empty"), Permissions::from_mode(0o1770)).expect("ours");
    at
}

/// Returns the visible properties of a directory: kind, mode, file size, time, links and target of
/// each name, and the bytes.
fn seen(at: &Path) -> String {
    let script = "find . -type d -printf '%P %y %m %T@\\n' -o -printf '%P %y %m %T@ %s %n %l\\n' | sort; \
                  find . -type f -print0 | sort -z | xargs -0 cksum";
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(at);
    let ended = Run::to_end(command, LIMIT);
    ended.assert_code(0);
    ended.stdout_text()
}

fn start(site: &Site, host: &str, dest: &Path) -> Run {
    site.start(host, &RECV, dest)
}

/// Waits until a directory is under construction in `holder`.
fn wait_for_hidden(holder: &Path) {
    let is_hidden = |name: &String| name.starts_with(".ethbcast-") && name.ends_with(".tree");
    within(LIMIT, || {
        names_in(holder).iter().any(is_hidden).then_some(())
    })
    .expect("nothing is being built");
}

#[test]
fn a_directory_comes_out_as_it_went_in_at_every_receiver_by_both_paths() {
    let site = Site::beside("tree", one_switch(4));
    let source = tree(&site, 4);
    for via in ["chain", "cast"] {
        let there = site.directory(&format!("{via}-there"));
        let dests = [
            site.path(&format!("{via}-1")),
            site.path(&format!("{via}-2")),
            there.clone(),
        ];
        let runs = [0, 1, 2].map(|at| start(&site, ["n1", "n2", "n3"][at], &dests[at]));
        let root = site.run(
            "n0",
            &["send", "-i", "eth0", "-n", "3", "--via", via],
            &source,
        );
        runs.into_iter()
            .for_each(|run| run.end(LIMIT).assert_code(0));
        root.assert_code(0);
        for dest in [&dests[0], &dests[1], &there.join("tree")] {
            assert_eq!(seen(dest), seen(&source), "{}", dest.display());
        }
        assert_eq!(names_in(&there), ["tree"]);
    }
}

#[test]
fn a_single_file_keeps_its_mode_and_time() {
    let site = Site::beside("mode", one_switch(2));
    let source = site.file("secret", "content");
    fs::set_permissions(&source, Permissions::from_mode(0o600)).expect("ours");
    let then = std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 123_456_789);
    fs::File::open(&source)
        .and_then(|file| file.set_modified(then))
        .expect("ours");
    let receiver = start(&site, "n1", &site.path("received"));
    site.run("n0", &["send", "-i", "eth0", "-n", "1"], &source)
        .assert_code(0);
    receiver.end(LIMIT).assert_code(0);
    let received = site.path("received").metadata().expect("there");
    assert_eq!(
        (
            received.mode() & 0o7777,
            received.modified().expect("a time")
        ),
        (0o600, then)
    );
}

#[test]
fn a_file_that_vanishes_is_named_at_both_ends_and_the_rest_arrives() {
    let site = Site::beside("vanish", one_switch(3));
    // More than the read-ahead precedes the file.
    let source = tree(&site, 8);
    let sender = site.start("n0", &["send", "-i", "eth0", "-n", "2"], &source);
    sender.wait_for_line("waiting for 2 receivers");
    fs::remove_file(source.join("sub/file-9")).expect("ours");
    let dests = ["n1", "n2"].map(|host| (start(&site, host, &site.path(host)), site.path(host)));
    // Both ends print a report.
    let assert_named = |ended: &Ended, words: &[&str]| {
        ended.assert_code(1);
        words
            .iter()
            .for_each(|word| assert!(ended.stderr.contains(word), "{word}: {}", ended.stderr));
    };
    assert_named(
        &sender.end(LIMIT),
        &["sub/file-9", "1 file was left out", "send again"],
    );
    for (run, dest) in dests {
        assert_named(
            &run.end(LIMIT),
            &["sub/file-9", "1 file was left out", "vanished"],
        );
        let rest = |at: &Path| {
            seen(at)
                .lines()
                .filter(|line| !line.starts_with("sub d"))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(rest(&dest), rest(&source));
    }
}

#[test]
fn a_fault_at_one_receivers_dest_fails_there_alone() {
    let site = Site::beside("dests", slow(5));
    let source = tree(&site, 8);
    let (moved, full, elsewhere) = (
        site.directory("moved"),
        site.directory("full"),
        site.directory("elsewhere"),
    );
    let disk = SmallDisk::mount(&full, 32 << 20).expect("a tmpfs");
    let good = start(&site, "n1", &site.path("good"));
    let runs = [("n2", &moved), ("n3", &full)].map(|(host, dest)| start(&site, host, dest));
    let stdout = site.start("n4", &["recv", "-i", "eth0", "--max-wait", "20"], "-");
    let options = [
        "-n",
        "4",
        "--min-receivers",
        "3",
        "--max-wait",
        "3",
        "--via",
        "cast",
    ];
    let sender = site.start(
        "n0",
        &[&["send", "-i", "eth0"], &options[..]].concat(),
        &source,
    );
    [&moved, &full]
        .into_iter()
        .for_each(|holder| wait_for_hidden(holder));
    disk.fill().expect("a file");
    fs::rename(&moved, site.path("away"))
        .and_then(|()| symlink(&elsewhere, &moved))
        .expect("ours");
    let [moved, full] = runs.map(|run| run.end(LIMIT));
    moved.assert_refusal(4, &["became another directory", "receive again"]);
    full.assert_refusal(4, &["No space", "make room"]);
    stdout
        .end(LIMIT)
        .assert_refusal(4, &["a directory comes", "tar c DIR"]);
    good.end(LIMIT).assert_code(0);
    assert_eq!(seen(&site.path("good")), seen(&source));
    assert_eq!(
        (names_in(&elsewhere), shown_in(&site.path("away"))),
        (Vec::new(), Vec::new())
    );
    assert_eq!(shown_in(&site.path("full")), ["of-somebody-else"]);
    let root = sender.end(LIMIT);
    root.assert_code(1);
    for said in ["n4 says: a directory comes", "2 of 3 receivers failed"] {
        assert!(root.stderr.contains(said), "{}", root.stderr);
    }
}

#[test]
fn several_sources_without_what_is_excluded_go_into_the_directory_that_is_there() {
    let site = Site::beside("several", one_switch(2));
    let (tree, file, dest) = (
        tree(&site, 1),
        site.file("file.txt", "new"),
        site.directory("dest"),
    );
    fs::write(dest.join("mine"), "stays").expect("room");
    let refused = start(&site, "n1", &dest);
    let send = [
        "send",
        "-i",
        "eth0",
        "-n",
        "1",
        "--exclude",
        "file-1*",
        "--exclude",
        "/tree/large",
        "--via",
        "chain",
    ];
    let send: Vec<&str> = [&send[..], &[tree.to_str().expect("text")]].concat();
    site.run("n0", &send, &file).assert_code(1);
    refused
        .end(LIMIT)
        .assert_refusal(4, &["exists", "--force", "--in-place"]);
    let receiver = site.start("n1", &["recv", "-i", "eth0", "--in-place"], &dest);
    site.run("n0", &send, &file).assert_code(0);
    receiver.end(LIMIT).assert_code(0);
    assert_eq!(names_in(&dest), ["file.txt", "mine", "tree"]);
    let sub = names_in(&dest.join("tree/sub"));
    assert!(
        sub.contains(&"file-2".to_owned()) && !sub.contains(&"file-1".to_owned()),
        "{sub:?}"
    );
    assert!(
        sub.contains(&"twin".to_owned()),
        "the first name is left out, the second is the file"
    );
}

#[test]
fn an_unsendable_source_is_refused_before_receivers_are_waited_for() {
    let site = Site::beside("notree", one_switch(1));
    let source = tree(&site, 1);
    nix::unistd::mkfifo(&source.join("pipe"), nix::sys::stat::Mode::S_IRWXU).expect("room");
    let send = |arguments: &[&str], path: &Path| {
        site.run(
            "n0",
            &[
                &["send", "-i", "eth0", "-n", "1", "--max-wait", "1"],
                arguments,
            ]
            .concat(),
            path,
        )
    };
    send(&[], &source).assert_refusal(2, &["pipe is a fifo", "--exclude", "--devices"]);
    send(&["--exclude", "[z-a]"], &source).assert_refusal(2, &["[z-a]", "pattern"]);
    send(&["-"], &source).assert_refusal(2, &["stdin", "alone"]);
    send(&[source.to_str().expect("text")], &source).assert_refusal(2, &["two SOURCEs", "tree"]);
    send(&[source.to_str().expect("text")], &site.path("none"))
        .assert_refusal(4, &["none", "No such file"]);
    send(&["--exclude-from", "/none"], &source).assert_refusal(4, &["/none", "No such file"]);
}

#[test]
fn owners_that_a_receiver_cannot_keep_are_said_there_and_told_to_the_sender() {
    let site = Site::beside("owners", one_switch(2));
    let source = site.directory("source");
    fs::write(source.join("file"), "text").expect("room");
    std::os::unix::fs::chown(source.join("file"), Some(12), Some(12)).expect("root may");
    let dest = site.directory("dest");
    fs::set_permissions(&dest, Permissions::from_mode(0o777)).expect("ours");
    let options = ["recv", "--once", "-i", "eth0", "--max-wait", "20", "--json"];
    let nobody = Nobody::new();
    let receiver = nobody.start(&site, "n1", "-all,+net_raw", &options, dest.join(""));
    let root = site.run(
        "n0",
        &["send", "-i", "eth0", "-n", "1", "--owner", "--json"],
        &source,
    );
    let receiver = receiver.end(LIMIT);
    receiver.assert_code(0);
    root.assert_code(0);
    assert!(
        receiver
            .stderr
            .contains("owners of 2 files and directories are not kept"),
        "{}",
        receiver.stderr
    );
    for note in [
        &receiver.json()["note"],
        &root.json()["receivers"][0]["note"],
    ] {
        assert!(
            note.as_str()
                .is_some_and(|note| note.contains("owners of 2 files")),
            "{note}"
        );
    }
    assert_eq!(fs::read(dest.join("source/file")).expect("there"), b"text");
}

#[test]
fn privileges_that_a_receiver_does_not_accept_are_left_out_reported_once_and_counted() {
    let site = Site::beside("accept", one_switch(2));
    let source = site.directory("source");
    fs::write(source.join("file"), "text").expect("room");
    std::os::unix::fs::chown(source.join("file"), Some(12), Some(12)).expect("root may");
    fs::set_permissions(source.join("file"), Permissions::from_mode(0o4755)).expect("ours");
    let (device, mode) = (
        source.join("memory"),
        nix::sys::stat::Mode::from_bits_truncate(0o666),
    );
    let number = nix::sys::stat::makedev(1, 3);
    nix::sys::stat::mknod(&device, nix::sys::stat::SFlag::S_IFCHR, mode, number).expect("root may");
    fs::set_permissions(&device, Permissions::from_mode(0o666)).expect("ours");
    for (number, options, counts, file, device) in [
        (0, &["--accept", "none"][..], [2, 1, 1, 0], (0, 0o755), None),
        (1, &[], [0, 0, 1, 0], (12, 0o4755), None),
        (
            2,
            &["--accept", "all"],
            [0, 0, 0, 0],
            (12, 0o4755),
            Some(0o666),
        ),
    ] {
        let dest = site.path(&format!("dest{number}"));
        let receiver = site.start("n1", &[&RECV[..], &["--json"], options].concat(), &dest);
        let root = site.run(
            "n0",
            &["send", "-i", "eth0", "-n", "1", "--owner", "--devices"],
            &source,
        );
        let receiver = receiver.end(LIMIT);
        receiver.assert_code(0);
        root.assert_code(0);
        let said = receiver
            .stderr
            .matches("1 device node was left out: --accept devices")
            .count();
        assert_eq!(said, usize::from(device.is_none()), "{}", receiver.stderr);
        let json = &receiver.json()["not_accepted"];
        assert_eq!(
            ["owner", "setid", "devices", "xattrs"].map(|word| json[word].as_u64()),
            counts.map(Some),
            "{json}"
        );
        let seen = |name: &str| {
            dest.join(name)
                .symlink_metadata()
                .ok()
                .map(|there| (there.uid(), there.mode() & 0o7777))
        };
        assert_eq!(
            (seen("file"), seen("memory").map(|(_, mode)| mode)),
            (Some(file), device),
            "{options:?}"
        );
    }
}

#[test]
fn hidden_files_of_somebody_else_are_left_alone_and_named() {
    let site = Site::beside("foreign", one_switch(2));
    let (source, holder) = (
        site.file("image", content(5, 3 * MEBIBYTE)),
        site.directory("holder"),
    );
    // The names follow from DEST's.
    let stem = format!(".ethbcast-{}", &blake3::hash(b"x.img").to_hex()[..16]);
    for suffix in ["part", "journal"] {
        let path = holder.join(format!("{stem}.{suffix}"));
        fs::write(&path, "theirs").expect("room");
        std::os::unix::fs::chown(&path, Some(65_534), None).expect("root may");
    }
    let receiver = start(&site, "n1", &holder.join("x.img"));
    site.run("n0", &["send", "-i", "eth0", "-n", "1"], &source)
        .assert_code(0);
    let receiver = receiver.end(LIMIT);
    receiver.assert_code(0);
    assert!(
        receiver
            .stderr
            .contains(&format!("{stem}.journal belongs to somebody else")),
        "{}",
        receiver.stderr
    );
    let there = fs::metadata(holder.join("x.img")).expect("there");
    assert_eq!((there.uid(), there.len()), (0, 3 * MEBIBYTE as u64));
    let theirs = holder.join(format!("{stem}.part"));
    assert_eq!(fs::read(&theirs).expect("there"), b"theirs");
    fs::remove_file(theirs).expect("root may");
}

#[test]
fn what_is_mounted_below_source_is_sent_unless_one_file_system_is_asked_for() {
    let site = Site::beside("mounted", one_switch(2));
    let (source, at) = (site.directory("source"), site.directory("source/mnt"));
    let _disk = SmallDisk::mount(&at, 1 << 20).expect("a tmpfs");
    fs::write(at.join("below"), "below")
        .and_then(|()| fs::write(source.join("own"), "own"))
        .expect("room");
    for (options, below) in [(&[][..], &["below"][..]), (&["--one-file-system"], &[])] {
        let dest = site.path(&format!("dest-{}", below.len()));
        let receiver = start(&site, "n1", &dest);
        let send = [&["send", "-i", "eth0", "-n", "1"], options].concat();
        site.run("n0", &send, &source).assert_code(0);
        receiver.end(LIMIT).assert_code(0);
        assert_eq!(names_in(&dest), ["mnt", "own"]);
        assert_eq!(names_in(&dest.join("mnt")), below);
    }
}

#[test]
fn unpacking_more_than_the_disk_has_ends_before_it_is_full() {
    let site = Site::beside("bomb", one_switch(2));
    let packed = site.path("zeros.gz");
    let script = format!("head -c 200000000 /dev/zero | gzip > {}", packed.display());
    let mut command = Command::new("sh");
    command.args(["-c", &script]);
    Run::to_end(command, LIMIT).assert_code(0);
    let holder = site.directory("disk");
    let _disk = SmallDisk::mount(&holder, 128 << 20).expect("a tmpfs");
    for (options, code, words) in [
        (
            &[][..],
            1,
            &["MiB were unpacked", "less than a hundredth", "make room"][..],
        ),
        (
            &["--accept", "owner"],
            3,
            &["not accepted", "--decompress root", "--accept unpack"],
        ),
    ] {
        let receiver = site.start("n1", &[&RECV[..], options].concat(), holder.join("zeros"));
        let send = [
            "send",
            "-i",
            "eth0",
            "-n",
            "1",
            "--max-wait",
            "10",
            "--decompress",
            "receivers",
        ];
        site.run("n0", &send, &packed).assert_code(code);
        receiver.end(LIMIT).assert_refusal(4, words);
        assert_eq!(names_in(&holder), [""; 0]);
    }
}
