//! Tests of refusals: sources and destinations that cannot be read or written.

use super::meeting::Nobody;
use crate::harness::{
    Ethbcast, LIMIT, MEBIBYTE, PROGRAM, Run, Site, content, names_in, one_switch, shown_in,
};
use ethbcast_content::disk::{Beneath, Directory};
use ethbcast_lab::LabConfig;
use ethbcast_tests::lab::{SharedDirectory, SmallDisk, scratch};
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn a_dest_that_cannot_be_written_is_refused_at_once() {
    let site = Site::beside("dest", one_switch(2));
    let existing = site.file("existing", "old");
    site.run("n1", &["recv", "-i", "eth0"], &existing)
        .assert_refusal(4, &["existing", "exists", "--force", "[E-DEST]"]);
    assert_eq!(fs::read(&existing).expect("still there"), b"old");
    let nowhere = site.path("no/such/file");
    site.run("n1", &["recv", "-i", "eth0"], &nowhere)
        .assert_refusal(4, &["no/such", "does not exist", "mkdir -p"]);
    let closed = site.directory("closed");
    let refused = Nobody::new()
        .start(
            &site,
            "n1",
            "-all,+net_raw",
            &["recv", "-i", "eth0"],
            closed.join("file"),
        )
        .end(LIMIT);
    refused.assert_refusal(4, &["cannot write", "closed", "another DEST"]);
    assert_eq!(names_in(&closed), [""; 0]);
}

#[test]
fn force_replaces_dest_and_a_directory_takes_the_file_under_its_own_name() {
    let site = Site::beside("force", one_switch(3));
    let source = site.file("source.txt", "new");
    let (existing, directory) = (
        site.file("existing", "old and longer"),
        site.directory("directory"),
    );
    let receivers = [
        site.start(
            "n1",
            &["recv", "-i", "eth0", "--force", "--max-wait", "10"],
            &existing,
        ),
        site.start(
            "n2",
            &["recv", "-i", "eth0", "--max-wait", "10"],
            &directory,
        ),
    ];
    site.run("n0", &["send", "-i", "eth0", "-n", "2"], &source)
        .assert_code(0);
    receivers
        .into_iter()
        .for_each(|receiver| receiver.end(LIMIT).assert_code(0));
    assert_eq!(fs::read(&existing).expect("replaced"), b"new");
    assert_eq!(names_in(&directory), ["source.txt"]);
    // The second time the directory has a file of that name, which is known from the invitation
    // only.
    fs::write(&source, "newer").expect("written");
    let receiver = site.start(
        "n2",
        &["recv", "-i", "eth0", "--max-wait", "10"],
        &directory,
    );
    let root = site.run(
        "n0",
        &["send", "-n", "1", "-i", "eth0", "--max-wait", "10"],
        &source,
    );
    receiver
        .end(LIMIT)
        .assert_refusal(4, &["source.txt", "exists", "--force"]);
    // It did not join, and said why.
    root.assert_refusal(
        3,
        &[
            "0 of 1 receivers joined",
            "n2 says: DEST",
            "exists",
            "--force",
            "[E-DEST]",
        ],
    );
    assert_eq!(names_in(&directory), ["source.txt"]);
    assert_eq!(
        fs::read(directory.join("source.txt")).expect("still there"),
        b"new"
    );
}

#[test]
fn who_cannot_hold_what_is_offered_takes_no_part_and_the_others_get_it() {
    let site = Site::beside("declines", one_switch(3));
    let (file, tree, report) = (
        site.file("source.txt", "new"),
        tree(&site),
        site.path("report.json"),
    );
    let (full, good) = (site.directory("full"), site.directory("good"));
    for source in ["source.txt", "tree/file"] {
        fs::create_dir_all(full.join(source).parent().expect("a directory")).expect("room");
        fs::write(full.join(source), "old").expect("room");
    }
    for source in [
        file.display().to_string(),
        tree.trim_end_matches('/').to_owned(),
    ] {
        let receivers = [("n1", &full), ("n2", &good)].map(|(host, dest)| {
            site.start(
                host,
                &["recv", "--once", "-i", "eth0", "--max-wait", "20"],
                dest,
            )
        });
        let receivers = receivers.map(|receiver| {
            receiver.wait_for_line("waiting for a sender");
            receiver
        });
        let report = report.to_str().expect("UTF-8");
        let options = [
            "send",
            "-i",
            "eth0",
            "--hosts",
            "n[1-2]",
            "--min-receivers",
            "1",
            "--max-wait",
            "2",
        ];
        let root = site.run(
            "n0",
            &[&options[..], &["--report", report]].concat(),
            &source,
        );
        root.assert_code(0);
        assert!(
            root.stderr.contains("n1 says: DEST") && root.stderr.contains("exists"),
            "{}",
            root.stderr
        );
        let told: serde_json::Value =
            serde_json::from_slice(&fs::read(report).expect("written")).expect("JSON");
        let hosts = [&told["receivers"], &told["left_out"]].map(|rows| rows[0]["host"].clone());
        assert_eq!(hosts, ["n2", "n1"], "{told}");
        assert_eq!(told["left_out"][0]["status"], "refused", "{told}");
        assert!(
            told["left_out"][0]["reason"]
                .as_str()
                .is_some_and(|why| why.contains("exists")),
            "{told}"
        );
        let [refused, delivered] = receivers.map(|receiver| receiver.end(LIMIT));
        refused.assert_refusal(4, &["exists", "--force", "[E-DEST]"]);
        delivered.assert_code(0);
    }
    assert_eq!(
        (names_in(&full.join("tree")), names_in(&good)),
        (
            vec!["file".to_owned()],
            vec!["source.txt".to_owned(), "tree".to_owned()]
        )
    );
}

#[test]
fn what_nothing_can_take_the_place_of_is_refused_before_anything_comes() {
    let site = Site::beside("sticky", one_switch(2));
    let (file, tree, shared) = (
        site.file("source.txt", "new"),
        tree(&site),
        site.directory("shared"),
    );
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).expect("ours");
    fs::create_dir(shared.join("tree")).expect("room");
    for name in ["source.txt", "tree/old"] {
        fs::write(shared.join(name), "old").expect("room");
    }
    let nobody = Nobody::new();
    let receive = |dest: &Path| {
        let options = [
            "recv",
            "--once",
            "-i",
            "eth0",
            "--force",
            "--max-wait",
            "20",
        ];
        nobody.start(&site, "n1", "-all,+net_raw", &options, dest)
    };
    let words = ["in a directory that is sticky", "[E-DEST]"];
    // No sender is waited for.
    receive(&shared.join("source.txt"))
        .end(LIMIT)
        .assert_refusal(4, &words);
    for source in [file.as_path(), Path::new(tree.trim_end_matches('/'))] {
        let receiver = receive(&shared);
        let root = site.run(
            "n0",
            &["send", "-i", "eth0", "--hosts", "n1", "--max-wait", "10"],
            source,
        );
        receiver.end(LIMIT).assert_refusal(4, &words);
        root.assert_refusal(3, &["n1 says: ", words[0], words[1]]);
    }
    assert_eq!(names_in(&shared), ["source.txt", "tree"]);
    assert_eq!(names_in(&shared.join("tree")), ["old"]);
}

#[test]
fn a_dest_that_can_never_be_a_file_is_refused_before_the_first_byte() {
    let site = Site::beside("nofile", one_switch(2));
    let long = site.path(&"n".repeat(256));
    site.run("n1", &["recv", "-i", "eth0", "--max-wait", "1"], &long)
        .assert_refusal(4, &["nnn", "at most 255"]);
    let slash = site.path("new/");
    site.run("n1", &["recv", "-i", "eth0", "--max-wait", "1"], &slash)
        .assert_refusal(4, &["new/", "directory"]);
}

/// Creates a directory of two files, whose contents are sent.
fn tree(site: &Site) -> String {
    let tree = site.directory("tree");
    fs::create_dir(tree.join("sub")).expect("room");
    for (name, text) in [("file", "new"), ("sub/file", "new too")] {
        fs::write(tree.join(name), text).expect("room");
    }
    format!("{}/", tree.display())
}

/// Fails unless a receiver with these options is refused with these words.
fn refused(site: &Site, source: &str, options: &[&str], dest: &Path, words: &[&str]) {
    let options = [
        &["recv", "--once", "-i", "eth0", "--max-wait", "10"],
        options,
    ]
    .concat();
    let receiver = site.start("n1", &options, format!("{}/", dest.display()));
    let root = site.run(
        "n0",
        &["send", "-n", "1", "-i", "eth0", "--max-wait", "10"],
        source,
    );
    receiver
        .end(LIMIT)
        .assert_refusal(4, &[words, &["nothing was changed", "[E-DEST]"]].concat());
    // Only a host that has joined knows it, from the list of the content's entries.
    root.assert_code(if options.contains(&"--delete") { 1 } else { 3 });
}

#[test]
fn what_is_mounted_below_dest_is_never_removed_nor_moved() {
    let site = Site::beside("mounts", one_switch(2));
    let (source, dest, mount) = (
        tree(&site),
        site.directory("dest"),
        site.directory("dest/mnt"),
    );
    fs::write(dest.join("old"), "old").expect("room");
    let disk = SmallDisk::mount(&mount, 1 << 20).expect("a tmpfs");
    fs::write(mount.join("precious"), "precious").expect("room");
    refused(
        &site,
        &source,
        &["--force"],
        &dest,
        &["mounted at", "dest/mnt", "umount", "--in-place"],
    );
    refused(
        &site,
        &source,
        &["--in-place", "--delete"],
        &dest,
        &["mounted at", "dest/mnt", "--delete"],
    );
    assert_eq!(names_in(&dest), ["mnt", "old"]);
    assert_eq!(
        fs::read(mount.join("precious")).expect("still there"),
        b"precious"
    );
    // A mount point cannot be renamed, empty or not.
    refused(
        &site,
        &source,
        &["--force"],
        &mount,
        &["is a mount point", "--in-place"],
    );
    fs::remove_file(mount.join("precious")).expect("ours");
    refused(
        &site,
        &source,
        &[],
        &mount,
        &["is a mount point", "--in-place"],
    );
    // With --in-place the data is stored beside the mount.
    fs::write(mount.join("precious"), "precious").expect("room");
    let receiver = site.start(
        "n1",
        &[
            "recv",
            "--once",
            "-i",
            "eth0",
            "--max-wait",
            "10",
            "--in-place",
        ],
        &dest,
    );
    site.run(
        "n0",
        &["send", "-n", "1", "-i", "eth0", "--max-wait", "10"],
        &source,
    )
    .assert_code(0);
    receiver.end(LIMIT).assert_code(0);
    assert_eq!(names_in(&dest), ["file", "mnt", "old", "sub"]);
    assert_eq!(
        fs::read(mount.join("precious")).expect("still there"),
        b"precious"
    );
    // Only the mount itself prevents the replacement of its directory.
    drop(disk);
    let receiver = site.start(
        "n1",
        &[
            "recv",
            "--once",
            "-i",
            "eth0",
            "--max-wait",
            "10",
            "--force",
        ],
        &dest,
    );
    site.run(
        "n0",
        &["send", "-n", "1", "-i", "eth0", "--max-wait", "10"],
        &source,
    )
    .assert_code(0);
    receiver.end(LIMIT).assert_code(0);
    assert_eq!(names_in(&dest), ["file", "sub"]);
}

/// Mount below DEST that appears during the transfer, so that no trial at the beginning finds it.
/// It is of another file system, or of a part of the same one.
#[test]
fn what_somebody_mounts_meanwhile_is_neither_entered_nor_removed() {
    for is_of_the_same in [false, true] {
        let scratch = scratch();
        let (tree, at) = (scratch.path().join("tree"), scratch.path().join("tree/mnt"));
        fs::create_dir_all(&at)
            .and_then(|()| fs::write(tree.join("old"), "old"))
            .expect("room");
        let _mounted = if is_of_the_same {
            (
                Some(SharedDirectory::make(&at).expect("mount --bind")),
                None,
            )
        } else {
            (None, Some(SmallDisk::mount(&at, 1 << 20).expect("a tmpfs")))
        };
        fs::write(at.join("precious"), "precious").expect("room");
        let holder = Beneath::open(scratch.path()).expect("there");
        for refused in [
            holder.directory(Path::new("tree/mnt")).map(drop),
            holder.file(Path::new("tree/mnt/precious")).map(drop),
            holder.create(Path::new("tree/mnt/new"), 0o600).map(drop),
        ] {
            assert_eq!(
                refused.expect_err("it is mounted").kind(),
                ErrorKind::CrossesDevices
            );
        }
        holder
            .remove_all(Path::new("tree"))
            .expect_err("it cannot be removed");
        assert_eq!(names_in(&tree), ["mnt"], "all else is removed");
        assert_eq!(names_in(&at), ["precious"]);
    }
}

#[test]
fn a_device_that_is_not_there_does_not_become_a_file() {
    let site = Site::beside("nodevice", one_switch(2));
    for path in [
        "/dev/ethbcast-none",
        "/dev/../dev/ethbcast-none",
        "/dev/ethbcast-none/x",
    ] {
        let words = ["no device", "in memory", "nothing was written", "[E-DEST]"];
        site.run("n1", &["recv", "--once", "-i", "eth0", "--force"], path)
            .assert_refusal(4, &words);
        site.run("n1", &["recv", "-i", "eth0", "--serve", "--force"], path)
            .assert_refusal(4, &words);
        let looked = site.run("n1", &["doctor", "-i", "eth0", "--dest"], path);
        let said = String::from_utf8_lossy(&looked.stdout);
        assert!(
            said.contains("E-DEST") && said.contains("in memory"),
            "{said}"
        );
    }
    let link = site.path("disk");
    std::os::unix::fs::symlink("/dev/ethbcast-none", &link).expect("room");
    site.run("n1", &["recv", "-i", "eth0", "--force"], &link)
        .assert_refusal(4, &["no device", "in memory"]);
    for options in [
        &["recv", "-i", "eth0"][..],
        &["recv", "-i", "eth0", "--serve"],
    ] {
        site.run("n1", options, "/dev")
            .assert_refusal(4, &["directory of devices", "in memory", "[E-DEST]"]);
    }
    assert!(!Path::new("/dev/ethbcast-none").exists() && link.is_symlink());
}

/// Creates and mounts a file system of 1 MiB.
fn small_disk(site: &Site) -> (SmallDisk, PathBuf) {
    let path = site.directory("disk");
    (SmallDisk::mount(&path, 1 << 20).expect("a tmpfs"), path)
}

#[test]
fn a_file_larger_than_the_free_space_is_refused_before_its_first_byte() {
    let site = Site::beside("small", one_switch(2));
    let (_disk, disk) = small_disk(&site);
    let source = site.file("source.bin", content(1, 4 * MEBIBYTE));
    let receiver = site.start(
        "n1",
        &["recv", "--once", "-i", "eth0", "--max-wait", "10"],
        disk.join("file"),
    );
    let root = site.run(
        "n0",
        &["send", "-n", "1", "-i", "eth0", "--max-wait", "2"],
        &source,
    );
    receiver.end(LIMIT).assert_refusal(
        4,
        &[
            "n1",
            "room for",
            "the file has 4.00 MiB",
            "make room",
            "[E-SPACE]",
        ],
    );
    root.assert_refusal(3, &["0 of 1 receivers", "n1", "[E-SPACE]"]);
    assert_eq!(shown_in(&disk), [""; 0]);
}

#[test]
fn a_stream_that_outgrows_the_free_space_fails_there_alone_and_leaves_nothing() {
    let site = Site::beside(
        "outgrow",
        LabConfig {
            rate_bits_per_second: Some(400_000_000),
            ..one_switch(4)
        },
    );
    let (_disk, disk) = small_disk(&site);
    let bytes = content(2, 4 * MEBIBYTE);
    let source = site.file("source.bin", &bytes);
    // The last frames of a leaving relay race with the first ones of its replacement, so that
    // several attempts are made.
    for (number, via) in ["chain", "chain", "chain", "chain", "chain", "cast"]
        .into_iter()
        .enumerate()
    {
        // n2 relays in the chain, so that n3 must be served past it.
        let hosts = ["n1", "n2", "n3"];
        let paths = [
            site.path(&format!("n1-{number}")),
            disk.join("file"),
            site.path(&format!("n3-{number}")),
        ];
        let runs = [0, 1, 2].map(|at| {
            site.start(
                hosts[at],
                &["recv", "-i", "eth0", "--max-wait", "10"],
                &paths[at],
            )
        });
        let mut send = site.ethbcast("n0", ["send", "-i", "eth0", "-n", "3", "--via", via, "-"]);
        send.stdin(fs::File::open(&source).expect("readable"));
        let root = Run::start("n0", send).end(LIMIT);
        let [first, full, last] = runs.map(|run| run.end(LIMIT));
        full.assert_refusal(4, &["No space", "make room", "[E-SPACE]"]);
        first.assert_code(0);
        last.assert_code(0);
        root.assert_code(1);
        assert!(
            root.stderr
                .contains("1 of 3 receivers failed: n2 (no-space)"),
            "{}",
            root.stderr
        );
        assert_eq!(shown_in(&disk), [""; 0]);
        assert!(
            [0, 2]
                .into_iter()
                .all(|at| fs::read(&paths[at]).is_ok_and(|file| file == bytes)),
            "{via}"
        );
    }
}

#[test]
fn a_source_that_cannot_be_read_is_refused_before_anybody_is_waited_for() {
    let site = Site::beside("source", one_switch(2));
    let missing = site.path("missing");
    site.run("n0", &["send", "-n", "1", "-i", "eth0"], &missing)
        .assert_refusal(4, &["cannot read SOURCE", "missing", "No such file"]);
    let secret = site.file("secret", "text");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("it is ours");
    let unreadable = Nobody::new()
        .start(
            &site,
            "n0",
            "-all,+net_raw",
            &["send", "-n", "1", "-i", "eth0"],
            &secret,
        )
        .end(LIMIT);
    unreadable.assert_refusal(4, &["cannot read SOURCE", "secret", "ermission denied"]);
    let directory = site.directory("directory");
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).expect("it is ours");
    let closed = Nobody::new()
        .start(
            &site,
            "n0",
            "-all,+net_raw",
            &["send", "-n", "1", "-i", "eth0"],
            &directory,
        )
        .end(LIMIT);
    closed.assert_refusal(
        4,
        &[
            "cannot read SOURCE",
            "directory",
            "ermission denied",
            "--exclude",
        ],
    );
}

#[test]
fn what_a_single_file_would_lose_is_refused_and_not_left_out_silently() {
    let site = Site::beside("losing", one_switch(2));
    let file = site.file("file", "text");
    for option in ["--owner", "--numeric"] {
        let options = ["send", "-n", "1", "-i", "eth0", option];
        site.run("n0", &options, &file)
            .assert_refusal(2, &["file", "its owner", option, "--exclude"]);
    }
}

#[test]
fn a_source_that_breaks_while_it_is_read_fails_everybody_and_leaves_nothing() {
    let site = Site::beside("broken", one_switch(2));
    let directory = site.directory("dest");
    let receiver = site.start(
        "n1",
        &["recv", "-i", "eth0", "--max-wait", "10"],
        directory.join("file"),
    );
    // A file that can be opened, and whose first read fails.
    let root = site.run(
        "n0",
        &["send", "-n", "1", "-i", "eth0", "--max-wait", "10"],
        "/proc/self/mem",
    );
    root.assert_refusal(4, &["reading SOURCE", "/proc/self/mem", "failed"]);
    receiver.end(LIMIT).assert_refusal(1, &["reading SOURCE"]);
    assert_eq!(names_in(&directory), [""; 0]);
}

#[test]
fn what_would_arrive_as_less_or_never_come_is_said_before_anybody_is_waited_for() {
    let site = Site::beside("less", one_switch(1));
    let send = |options: &[&str], source: &Path| {
        site.run(
            "n0",
            &[
                &["send", "-n", "1", "-i", "eth0", "--max-wait", "1"],
                options,
            ]
            .concat(),
            source,
        )
    };
    let (hub, other) = (site.directory("hub"), site.directory("other"));
    fs::write(other.join("model"), "model").expect("room");
    std::os::unix::fs::symlink("../other/model", hub.join("model")).expect("made");
    let sent = send(&[], &hub);
    sent.assert_code(3);
    let words = "1 link leads out of SOURCE and is sent as it is, the first is model -> ../other/model: --follow";
    assert!(sent.stderr.contains(words), "{}", sent.stderr);
    let sent = send(&["--follow", "--one-file-system"], &hub);
    sent.assert_code(3);
    assert!(!sent.stderr.contains("leads out"), "{}", sent.stderr);
    // A program that may have a packet socket, by itself and in a directory.
    let capable = site.file("other/capable", "program");
    let set = "import os, struct, sys; \
               os.setxattr(sys.argv[1], 'security.capability', struct.pack('<5I', 1 << 25, 1 << 13, 0, 0, 0))";
    assert!(
        Command::new("python3")
            .args(["-c", set])
            .arg(&capable)
            .status()
            .expect("there")
            .success()
    );
    for (source, words) in [
        (
            &capable,
            "SOURCE has capabilities or access lists (ACLs), which a single file is sent without",
        ),
        (
            &other,
            "1 file or directory has capabilities or access lists (ACLs), which are sent with --xattrs alone",
        ),
    ] {
        let sent = send(&[], source);
        assert!(sent.stderr.contains(words), "{}", sent.stderr);
    }
    send(&["--xattrs"], &capable).assert_refusal(
        2,
        &["capable", "its extended attributes (--xattrs)", "--exclude"],
    );
    let odd = site.file("two\nlines", "text");
    send(&[], &odd).assert_refusal(2, &["two\\nlines", "control characters", "--as NAME"]);
    send(&["--as", "name"], &odd).assert_code(3);
    let fifo = site.path("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("made");
    send(&[], &fifo).assert_refusal(4, &["fifo", "nobody has written to it within 1 s"]);
}

#[test]
fn a_reader_of_stdout_that_goes_away_fails_its_receiver() {
    let site = Site::beside("closed", one_switch(2));
    let source = site.file("source.bin", content(4, 4 * MEBIBYTE));
    let mut receive = site.command("n1", "sh");
    receive
        .args([
            "-c",
            "{ \"$0\" recv -i eth0 --max-wait 10 -; echo $? > \"$1\"; } | head -c 10",
        ])
        .arg(PROGRAM)
        .arg(site.path("code"));
    let receiver = Run::start("n1", receive);
    let root = site.run(
        "n0",
        &["send", "-n", "1", "-i", "eth0", "--max-wait", "10"],
        &source,
    );
    root.assert_code(1);
    assert!(root.stderr.contains("n1 (write-failed)"), "{}", root.stderr);
    receiver.end(LIMIT).assert_code(0);
    assert_eq!(
        fs::read_to_string(site.path("code")).expect("written"),
        "4\n"
    );
}

#[test]
fn a_report_that_cannot_be_printed_is_an_error_and_no_panic() {
    let site = Site::beside("full", one_switch(2));
    let source = site.file("source", "text");
    let receiver = site.start(
        "n1",
        &["recv", "-i", "eth0", "--max-wait", "10"],
        site.path("dest"),
    );
    let mut send = site.command("n0", "sh");
    send.args([
        "-c",
        "\"$0\" send --json -n 1 -i eth0 --max-wait 10 \"$1\" > /dev/full",
    ])
    .arg(PROGRAM)
    .arg(&source);
    let root = Run::start("n0", send).end(LIMIT);
    receiver.end(LIMIT).assert_code(0);
    assert!(!root.stderr.contains("panicked"), "{}", root.stderr);
    root.assert_refusal(4, &["stdout"]);
}

#[test]
fn ctrl_c_ends_what_waits_for_a_pipe() {
    let site = Site::beside("pipes", one_switch(2));
    // A fifo without another end: even opening it blocks.
    mkfifo(&site.path("pipe"), Mode::S_IRWXU).expect("room");
    let root = site.start("n0", &["send", "-n", "1", "-i", "eth0"], site.path("pipe"));
    root.wait_until_it_hears(Signal::SIGINT);
    std::thread::sleep(Duration::from_millis(300));
    root.signal(Signal::SIGINT);
    root.end(LIMIT).assert_refusal(130, &["interrupted"]);
    // A stdin without data.
    let mut send = site.ethbcast("n0", ["send", "-n", "1", "-i", "eth0", "-"]);
    send.stdin(Stdio::piped());
    let root = Run::start("n0", send);
    let receiver = site.start("n1", &["recv", "--once", "-i", "eth0"], site.path("dest"));
    root.wait_for_line("n1 joined");
    root.signal(Signal::SIGINT);
    root.end(LIMIT).assert_refusal(130, &["interrupted"]);
    receiver.end(LIMIT).assert_refusal(1, &["interrupted"]);
}

#[test]
fn ctrl_c_ends_a_receiver_whose_reader_has_stopped_reading() {
    let site = Site::beside("stuck", one_switch(2));
    let source = site.file("source.bin", content(5, 48 * MEBIBYTE));
    // More than the buffers on the way hold, so that the disk thread is blocked in a write.
    let receiver = Run::unread(
        "n1",
        site.ethbcast("n1", ["recv", "-i", "eth0", "--max-wait", "10", "-"]),
    );
    let root = site.start(
        "n0",
        &["send", "-n", "1", "-i", "eth0", "--max-wait", "10"],
        &source,
    );
    root.wait_for_line("sending");
    std::thread::sleep(Duration::from_millis(500));
    receiver.signal(Signal::SIGINT);
    receiver.end(LIMIT).assert_refusal(130, &["interrupted"]);
    let root = root.end(LIMIT);
    root.assert_code(1);
    assert!(root.stderr.contains("n1 (interrupted)"), "{}", root.stderr);
}

#[test]
fn a_stderr_that_nobody_reads_any_more_or_yet_concerns_no_session() {
    let site = Site::beside("stderr", one_switch(3));
    let bytes = content(5, 8 * MEBIBYTE);
    let source = site.file("source.bin", &bytes);
    // The sender's reader goes away after its first line; n1's pipe is full from the beginning.
    let full = site.path("full");
    mkfifo(&full, Mode::S_IRWXU).expect("room");
    let mut receive = site.command("n1", "sh");
    let stuck = "exec 3<>\"$2\"; dd if=/dev/zero bs=4k oflag=nonblock >&3 2>/dev/null; \"$0\" recv -i eth0 \"$1\" 2>&3";
    receive
        .args(["-c", stuck])
        .arg(PROGRAM)
        .arg(site.path("n1"))
        .arg(&full);
    let receivers = [
        Run::start("n1", receive),
        site.start("n2", &["recv", "-i", "eth0"], site.path("n2")),
    ];
    let mut send = site.command("n0", "sh");
    let gone = "{ \"$0\" send -i eth0 -n 2 --max-wait 10 \"$1\" 2>&1 >\"$2\"; echo $? > \"$3\"; } | head -n 1";
    send.args(["-c", gone])
        .arg(PROGRAM)
        .arg(&source)
        .arg(site.path("report"))
        .arg(site.path("code"));
    let root = Run::start("n0", send).end(LIMIT);
    assert_eq!(
        fs::read_to_string(site.path("code")).expect("written"),
        "0\n",
        "{}",
        root.stderr
    );
    assert!(
        fs::read_to_string(site.path("report"))
            .is_ok_and(|text| text.contains("2 of 2 receivers verified"))
    );
    for (receiver, host) in receivers.into_iter().zip(["n1", "n2"]) {
        receiver.end(LIMIT).assert_code(0);
        assert!(
            fs::read(site.path(host)).is_ok_and(|file| file == bytes),
            "{host} has other bytes"
        );
    }
}
