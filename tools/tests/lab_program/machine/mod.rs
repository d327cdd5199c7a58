//! Tests of transfers during which the disk, the source file, the interface or the process fails.

mod devices;
mod full;
pub mod resuming;

use crate::harness::{
    Ended, Ethbcast, LIMIT, MEBIBYTE, Run, Site, content, names_in, one_switch, shown_in, within,
};
use ethbcast_lab::LabConfig;
use ethbcast_tests::lab::{LoopDevice, SmallDisk};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, thread};

/// Cables on which 16 MiB take 2.8 s, long enough for a fault in the middle.
fn slow(hosts: usize) -> LabConfig {
    LabConfig {
        rate_bits_per_second: Some(50_000_000),
        ..one_switch(hosts)
    }
}

const RECV_IN_PLACE: [&str; 7] = [
    "recv",
    "--once",
    "-i",
    "eth0",
    "--max-wait",
    "20",
    "--in-place",
];
const SEND_JSON: [&str; 8] = [
    "send",
    "-i",
    "eth0",
    "-n",
    "1",
    "--max-wait",
    "10",
    "--json",
];

/// Sends to n1, which changes `dest`. Returns the sender's JSON.
fn transfer(site: &Site, source: &Path, dest: &Path) -> Value {
    let receiver = site.start("n1", &RECV_IN_PLACE, dest);
    let root = site.run("n0", &SEND_JSON, source);
    receiver.end(LIMIT).assert_code(0);
    root.assert_code(0);
    root.json()
}

#[test]
fn a_file_is_written_over_within_the_room_there_is_and_the_same_one_not_at_all() {
    let site = Site::beside("over", one_switch(2));
    let _disk = SmallDisk::mount(&site.directory("disk"), 6 * MEBIBYTE as u64).expect("a tmpfs");
    let (mut bytes, dest) = (content(1, 4 * MEBIBYTE), site.path("disk/file"));
    fs::write(&dest, &bytes).expect("room");
    bytes[MEBIBYTE..2 * MEBIBYTE].fill(7);
    let source = site.file("source", &bytes);
    let inode = dest.metadata().expect("there").ino();
    // There is no space for a whole copy beside it.
    let beside = [&RECV_IN_PLACE[..6], &["--force"]].concat();
    let receiver = site.start("n1", &beside, &dest);
    site.run(
        "n0",
        &["send", "-i", "eth0", "-n", "1", "--max-wait", "2"],
        &source,
    )
    .assert_code(3);
    receiver
        .end(LIMIT)
        .assert_refusal(4, &["room for", "[E-SPACE]"]);
    for lacks in [true, false] {
        transfer(&site, &source, &dest);
        assert!(
            fs::read(&dest).is_ok_and(|found| found == bytes),
            "changed: {lacks}"
        );
        assert_eq!(
            dest.metadata().expect("there").ino(),
            inode,
            "it is the same file"
        );
        assert_eq!(names_in(&site.path("disk")), ["file"]);
    }
}

#[test]
fn a_file_that_was_half_written_over_is_named_as_neither_old_nor_new_and_the_next_run_completes_it()
{
    let site = Site::beside("broken", slow(2));
    let (old, new) = (content(1, 8 * MEBIBYTE), content(2, 8 * MEBIBYTE));
    let (disk, source) = (site.directory("disk"), site.file("source", &new));
    let dest = disk.join("file");
    fs::write(&dest, &old).expect("room");
    let receiver = site.start("n1", &RECV_IN_PLACE, &dest);
    let sender = site.start(
        "n0",
        &["send", "-i", "eth0", "-n", "1", "--max-wait", "10"],
        &source,
    );
    within(LIMIT, || (!dest.exists()).then_some(())).expect("it is never written over");
    std::thread::sleep(std::time::Duration::from_millis(300));
    receiver.signal(Signal::SIGTERM);
    receiver
        .end(LIMIT)
        .assert_refusal(143, &["partly overwritten", ".part", "next recv"]);
    sender.end(LIMIT).assert_code(1);
    let left = names_in(&disk);
    assert!(
        left.len() == 2 && left.iter().all(|name| name.starts_with(".ethbcast-")),
        "{left:?}"
    );
    // Without --in-place as well.
    let receiver = site.start("n1", &RECV_IN_PLACE[..6], &dest);
    site.run("n0", &SEND_JSON, &source).assert_code(0);
    receiver.end(LIMIT).assert_code(0);
    assert!(fs::read(&dest).is_ok_and(|found| found == new));
    assert_eq!(names_in(&disk), ["file"]);
}

#[test]
fn a_directory_is_changed_file_by_file_within_the_room_there_is() {
    let site = Site::beside("files", one_switch(2));
    let _disk = SmallDisk::mount(&site.directory("disk"), 11 * MEBIBYTE as u64).expect("a tmpfs");
    let (source, dest) = (site.directory("source"), site.directory("disk/dest"));
    let mut inodes = Vec::new();
    for number in 0..4 {
        let bytes = content(number, 2 * MEBIBYTE);
        fs::write(dest.join(format!("file-{number}")), &bytes).expect("room");
        inodes.push(
            dest.join(format!("file-{number}"))
                .metadata()
                .expect("there")
                .ino(),
        );
        let changed = if number == 3 {
            bytes
        } else {
            content(100 + number, 2 * MEBIBYTE)
        };
        fs::write(source.join(format!("file-{number}")), changed).expect("room");
    }
    fs::write(dest.join("only here"), "stays").expect("room");
    transfer(&site, &source.join(""), &dest.join(""));
    for number in 0..4 {
        let name = format!("file-{number}");
        assert_eq!(
            fs::read(dest.join(&name)).ok(),
            fs::read(source.join(&name)).ok(),
            "{name}"
        );
        let inode = dest.join(&name).metadata().expect("there").ino();
        assert_eq!(inode == inodes[number as usize], number == 3, "{name}");
    }
    assert_eq!(names_in(&dest).len(), 5);
}

const RECV: [&str; 7] = [
    "recv",
    "--once",
    "-i",
    "eth0",
    "--max-wait",
    "20",
    "--force",
];
const SEND: [&str; 7] = ["send", "-i", "eth0", "-n", "1", "--max-wait", "10"];

/// Returns an image of 2 MiB with a master boot record whose partition ends at its end, in sectors
/// of 512 bytes.
fn image() -> Vec<u8> {
    let mut image = content(9, 2 * MEBIBYTE);
    image[..512].fill(0);
    image[510..512].copy_from_slice(&[0x55, 0xaa]);
    image[450] = 0x83;
    image[454..458].copy_from_slice(&256u32.to_le_bytes());
    image[458..462].copy_from_slice(&3840u32.to_le_bytes());
    image
}

#[test]
fn an_image_for_other_sectors_is_refused_by_a_disk_unless_its_user_insists() {
    let site = Site::beside("sectors", one_switch(2));
    let source = site.file("image", image());
    let device = LoopDevice::with(
        &site.file("disk", vec![9; 2 * MEBIBYTE]),
        &["--sector-size", "4096"],
    );
    let device = device.expect("a loop device");
    let receiver = site.start("n1", &RECV, device.path());
    site.run("n0", &SEND, &source).assert_code(1);
    receiver.end(LIMIT).assert_refusal(
        4,
        &[
            "sectors of 512 bytes",
            "sectors of 4096",
            "nothing was written",
            "--any-sectors",
        ],
    );
    assert!(fs::read(device.path()).is_ok_and(|found| found == vec![9; 2 * MEBIBYTE]));
    let receiver = site.start(
        "n1",
        &[&RECV[..], &["--any-sectors"]].concat(),
        device.path(),
    );
    site.run("n0", &SEND, &source).assert_code(0);
    receiver.end(LIMIT).assert_code(0);
    assert!(fs::read(device.path()).is_ok_and(|found| found == image()));
}

#[test]
fn the_kernel_reads_the_partition_table_of_a_disk_that_was_written_before_its_command_runs() {
    let site = Site::beside("table", one_switch(2));
    let (programs, said) = (site.directory("programs"), site.path("said"));
    // The kernel's own support does not matter: the request to reread the table is recorded.
    let script = format!(
        "#!/bin/sh\nexec 3<>\"$2\" && echo \"$*\" >> {}\n",
        said.display()
    );
    fs::write(programs.join("blockdev"), script).expect("room");
    fs::set_permissions(programs.join("blockdev"), fs::Permissions::from_mode(0o755))
        .expect("ours");
    let (table, none) = (
        site.file("image", image()),
        site.file("other", content(4, MEBIBYTE)),
    );
    let device = LoopDevice::with(&site.file("disk", vec![9; 2 * MEBIBYTE]), &["--partscan"])
        .expect("a loop device");
    for source in [&table, &none] {
        let look = format!("echo command >> {}", said.display());
        let mut receive = site.ethbcast(
            "n1",
            [&RECV[..], &["--exec", &look, device.path()]].concat(),
        );
        let path = std::env::var("PATH").unwrap_or_default();
        receive.env("PATH", format!("{}:{path}", programs.display()));
        let receiver = Run::start("n1", receive);
        site.run("n0", &SEND, source).assert_code(0);
        receiver.end(LIMIT).assert_code(0);
    }
    let expected = format!("--rereadpt {}\ncommand\ncommand\n", device.path());
    assert_eq!(fs::read_to_string(said).expect("they ran"), expected);
}

#[test]
fn a_read_only_disk_is_refused_at_the_start_and_doctor_judges_a_device_by_itself() {
    let site = Site::beside("readonly", one_switch(2));
    let file = site.file("disk", vec![9; 2 * MEBIBYTE]);
    let device = LoopDevice::with(&file, &["--read-only"]).expect("a loop device");
    site.run("n1", &RECV, device.path())
        .assert_refusal(4, &["read-only", "blockdev --setrw", "[E-DEST]"]);
    let doctor = |device: &LoopDevice, size: &str| {
        let ended = site.run(
            "n1",
            &["doctor", "-i", "eth0", "--size", size, "--dest"],
            device.path(),
        );
        ended.stdout_text()
    };
    assert!(
        doctor(&device, "1M").contains("read-only"),
        "{}",
        doctor(&device, "1M")
    );
    drop(device);
    let device = LoopDevice::attach(&file).expect("a loop device");
    let said = doctor(&device, "3M");
    assert!(
        said.contains("holds 2.00 MiB, and 3.00 MiB are wanted") && !said.contains("/dev has"),
        "{said}"
    );
    let said = doctor(&device, "1M");
    assert!(
        said.contains("would overwrite the data on it") && !said.contains("E-SPACE"),
        "{said}"
    );
    assert!(fs::read(&file).is_ok_and(|found| found == vec![9; 2 * MEBIBYTE]));
}

/// A link to a device that appears late, removed on drop.
struct Late(PathBuf);

impl Drop for Late {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.0));
    }
}

#[test]
fn a_device_that_is_not_there_yet_is_waited_for_and_one_that_never_comes_is_named() {
    let site = Site::beside("late", one_switch(2));
    let source = site.file("source", content(3, MEBIBYTE));
    let device = LoopDevice::attach(&site.file("disk", vec![9; MEBIBYTE])).expect("a loop device");
    let late = Late(PathBuf::from(format!(
        "/dev/ethbcast-late-{}",
        std::process::id()
    )));
    let options = [
        "recv",
        "--once",
        "-i",
        "eth0",
        "--force",
        "--max-wait",
        "0.3",
    ];
    site.run("n1", &options, &late.0)
        .assert_refusal(4, &["no device", "[E-DEST]"]);
    let receiver = site.start("n1", &RECV, &late.0);
    receiver.wait_for_line("it is waited for");
    std::os::unix::fs::symlink(device.path(), &late.0).expect("ours");
    site.run("n0", &SEND, &source).assert_code(0);
    receiver.end(LIMIT).assert_code(0);
    assert!(fs::read(device.path()).is_ok_and(|found| found == content(3, MEBIBYTE)));
}

#[test]
fn a_report_that_could_not_be_written_is_known_before_anything_is_sent() {
    let site = Site::beside("unwritable", one_switch(2));
    let source = site.file("source", "text");
    let report = site.path("nowhere/run.json");
    let report = report.to_str().expect("UTF-8");
    let ended: Run = site.start("n0", &[&SEND[..], &["--report", report]].concat(), &source);
    let ended = ended.end(LIMIT);
    ended.assert_refusal(
        4,
        &[
            "cannot write the report",
            "nowhere/run.json: No such file",
            "--report",
        ],
    );
    assert!(
        !ended.stderr.contains(".new"),
        "a hidden path: {}",
        ended.stderr
    );
}

/// Limit on the memory at either end, in KiB.
const MAX_KIB: u64 = 64 << 10;
/// Permitted growth from a short to a long transfer, in KiB: memory that the allocator keeps, and
/// data waiting for a slow disk (38 to 40 MiB on a quiet machine, up to 54 beside other tests).
const DRIFT_KIB: u64 = 20 << 10;

/// Returns a shell command that records the peak memory of the program, which is the shell's
/// parent.
fn note(path: &Path) -> String {
    format!("grep VmHWM /proc/$PPID/status > {}", path.display())
}

/// Reads the recorded peak, in KiB.
fn noted(path: &Path) -> u64 {
    let text = fs::read_to_string(path).expect("it was noted");
    text.split_whitespace()
        .nth(1)
        .and_then(|number| number.parse().ok())
        .expect("VmHWM: number kB")
}

/// Returns the peaks of sender and receiver for a transfer, in KiB.
fn peaks(site: &Site, source: &[&str], dest: &[&str]) -> [u64; 2] {
    let notes = [site.path("root"), site.path("receiver")];
    let receive = [
        "recv",
        "-i",
        "eth0",
        "--max-wait",
        "20",
        "--exec",
        &note(&notes[1]),
    ];
    let receiver = Run::start("n1", site.ethbcast("n1", [&receive, dest].concat()));
    let send = [
        "send",
        "-i",
        "eth0",
        "-n",
        "1",
        "--max-wait",
        "20",
        "--exec-after",
        &note(&notes[0]),
    ];
    Run::start("n0", site.ethbcast("n0", [&send, source].concat()))
        .end(LIMIT * 4)
        .assert_code(0);
    receiver.end(LIMIT).assert_code(0);
    notes.map(|note| noted(&note))
}

#[test]
fn a_long_transfer_takes_no_more_memory_than_a_short_one_and_none_takes_more_than_64_mib() {
    let site = Site::alone("memory", one_switch(2));
    let short = site.file("short", content(1, MEBIBYTE));
    let dest = site.path("dest");
    let [short, dest] = [&short, &dest].map(|path| path.to_str().expect("UTF-8"));
    let first = peaks(&site, &[short], &["--force", dest]);
    // A sparse file of a tebibyte, whose offsets are those of a full one.
    let large = site.path("large");
    let file = fs::File::create(&large)
        .and_then(|file| file.set_len(1 << 40).map(|()| file))
        .expect("holes");
    for at in 0..2000 {
        file.write_all_at(&content(at, 20_000), (at << 29) + 12_345)
            .expect("room");
    }
    let sparse = peaks(&site, &[large.to_str().expect("UTF-8")], &["--force", dest]);
    let generated = peaks(
        &site,
        &["--pipe", "head -c 768M /dev/zero"],
        &["--pipe", "cat > /dev/null"],
    );
    println!(
        "KiB at root and receiver: 1 MiB {first:?}, 1 TiB with holes {sparse:?}, 768 MiB {generated:?}"
    );
    for (peak, first) in [sparse, generated]
        .into_iter()
        .flat_map(|peaks| peaks.into_iter().zip(first))
    {
        assert!(peak <= MAX_KIB, "{peak} KiB");
        assert!(
            peak <= first.max(40 << 10) + DRIFT_KIB,
            "{peak} KiB, {first} for 1 MiB"
        );
    }
}

const RECEIVE: [&str; 5] = ["recv", "-i", "eth0", "--max-wait", "10"];

#[test]
fn a_file_that_somebody_else_writes_to_is_found_when_it_is_read_back() {
    let site = Site::beside("readback", slow(3));
    let bytes = content(1, 16 * MEBIBYTE);
    let source = site.file("source.bin", &bytes);
    let (trusting, checking) = (site.directory("trusting"), site.directory("checking"));
    let receivers = [
        site.start("n1", &RECEIVE, trusting.join("file")),
        site.start(
            "n2",
            &[&RECEIVE[..], &["--no-resume", "--verify", "read"]].concat(),
            checking.join("file"),
        ),
    ];
    let root = site.start(
        "n0",
        &["send", "-i", "eth0", "-n", "2", "--via", "cast"],
        &source,
    );
    for (receiver, directory) in receivers.iter().zip([&trusting, &checking]) {
        within(LIMIT, || {
            receiver
                .open_bytes(directory)
                .filter(|&bytes| bytes > 4 << 20)
        })
        .expect("it is written to");
        let file = receiver.open_files(directory).into_iter().find_map(|link| {
            fs::File::options()
                .write(true)
                .open(link)
                .ok()
                .filter(|file| file.metadata().is_ok_and(|it| it.is_file()))
        });
        file.expect("its unfinished file")
            .write_all_at(b"vandal", 1 << 20)
            .expect("room");
    }
    let [first, second] = receivers.map(|receiver| receiver.end(LIMIT));
    first.assert_code(0);
    assert_eq!(
        names_in(&trusting),
        ["file"],
        "the digest is of what was received, as the README says"
    );
    second.assert_refusal(
        5,
        &["read back from the disk differs from what was written"],
    );
    assert_eq!(shown_in(&checking), [""; 0]);
    root.end(LIMIT).assert_code(1);
}

#[test]
fn undisturbed_data_is_read_back_as_it_was_sent() {
    let site = Site::beside("intact", slow(2));
    let bytes = content(2, 3 * MEBIBYTE + 1);
    let (source, dest) = (site.file("source.bin", &bytes), site.path("dest"));
    let receiver = site.start(
        "n1",
        &[&RECEIVE[..], &["--no-resume", "--verify", "read"]].concat(),
        &dest,
    );
    site.run("n0", &["send", "-i", "eth0", "-n", "1"], &source)
        .assert_code(0);
    receiver.end(LIMIT).assert_code(0);
    assert!(fs::read(dest).is_ok_and(|file| file == bytes));
    site.run("n1", &["recv", "-i", "eth0", "--verify", "read"], "-")
        .assert_refusal(2, &["stdout", "--verify read"]);
}

/// A SOURCE, and the replacement of its unread end, which keeps its size.
struct Torn {
    site: Site,
    source: PathBuf,
    old: Vec<u8>,
    new: Vec<u8>,
}

impl Torn {
    fn new(story: &str) -> Torn {
        let site = Site::beside(story, slow(2));
        let (old, new) = (content(1, 16 * MEBIBYTE), content(2, 4096));
        let source = site.file("source.bin", &old);
        Torn {
            site,
            source,
            old,
            new,
        }
    }

    /// Sends it to a receiver with these options, with or without --allow-changing. Returns both
    /// ends.
    fn send(&self, allowed: bool, recv: &[&str], file: &Path) -> (Ended, Ended) {
        std::fs::write(&self.source, &self.old).expect("room");
        let recv = [
            &["recv", "--no-resume", "-i", "eth0", "--max-wait", "10"],
            recv,
        ]
        .concat();
        let receiver = self.site.start("n1", &recv, file);
        let options = [
            "send",
            "-i",
            "eth0",
            "-n",
            "1",
            "--via",
            "chain",
            "--allow-changing",
        ];
        let root = self.site.start(
            "n0",
            &options[..options.len() - usize::from(!allowed)],
            &self.source,
        );
        receiver.wait_for_line("n0");
        // The transfer takes 2.8 s.
        thread::sleep(Duration::from_millis(500));
        let source = std::fs::File::options()
            .write(true)
            .open(&self.source)
            .expect("ours");
        source
            .write_all_at(&self.new, (self.old.len() - self.new.len()) as u64)
            .expect("room");
        let (root, receiver) = (root.end(LIMIT), receiver.end(LIMIT));
        if allowed {
            root.assert_code(0);
        } else {
            root.assert_refusal(
                4,
                &[
                    "changed while it was sent",
                    "written to",
                    "--allow-changing",
                ],
            );
            receiver.assert_refusal(1, &["the sender gave up", "changed while it was sent"]);
        }
        (root, receiver)
    }
}

#[test]
fn a_source_that_is_written_to_while_it_is_sent_reaches_nobody_unless_that_is_allowed() {
    let torn = Torn::new("torn");
    let refused = torn.site.directory("refused");
    torn.send(false, &[], &refused.join("file"));
    assert_eq!(names_in(&refused), [""; 0]);
    let file = torn.site.directory("allowed").join("file");
    torn.send(true, &[], &file);
    let received = std::fs::read(file).expect("received");
    assert_eq!(
        (received.len(), &received[..4096]),
        (torn.old.len(), &torn.old[..4096])
    );
    assert!(
        received.ends_with(&torn.new),
        "its end was read after it was written"
    );
}

/// Delta transfer: digests are sent ahead and missing data is read again: data that changed
/// meanwhile is the source's fault, and not a cable's.
#[test]
fn a_source_that_is_written_to_while_receivers_are_updated_is_named_and_no_cable() {
    let torn = Torn::new("torn_update");
    let older = content(3, 16 * MEBIBYTE);
    for allowed in [false, true] {
        let file = torn
            .site
            .directory(if allowed { "allowed" } else { "refused" })
            .join("file");
        std::fs::write(&file, &older).expect("room");
        let (root, _) = torn.send(allowed, &["-f"], &file);
        assert!(!root.stderr.contains("damaged"), "{}", root.stderr);
        let kept = std::fs::read(file).expect("there");
        if allowed {
            assert_eq!(
                (kept.len(), &kept[..4096]),
                (torn.old.len(), &torn.old[..4096])
            );
            assert!(
                kept.ends_with(&torn.new),
                "its end was read after it was written"
            );
        } else {
            assert!(kept == older, "the older version stays");
        }
    }
}
