//! Disks as DEST: sectors, partitions, a read-only disk and a missing one.

use crate::harness::{Ethbcast, LIMIT, MEBIBYTE, Run, Site, content, one_switch};
use ethbcast_tests::lab::LoopDevice;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

const RECV: [&str; 7] = ["recv", "--once", "-i", "eth0", "--max-wait", "20", "--force"];
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
    let device = LoopDevice::with(&site.file("disk", vec![9; 2 * MEBIBYTE]), &["--sector-size", "4096"]);
    let device = device.expect("a loop device");
    let receiver = site.start("n1", &RECV, device.path());
    site.run("n0", &SEND, &source).assert_code(1);
    receiver
        .end(LIMIT)
        .assert_refusal(4, &["sectors of 512 bytes", "have 4096", "nothing was written", "--any-sectors"]);
    assert!(fs::read(device.path()).is_ok_and(|found| found == vec![9; 2 * MEBIBYTE]));
    let receiver = site.start("n1", &[&RECV[..], &["--any-sectors"]].concat(), device.path());
    site.run("n0", &SEND, &source).assert_code(0);
    receiver.end(LIMIT).assert_code(0);
    assert!(fs::read(device.path()).is_ok_and(|found| found == image()));
}

#[test]
fn the_kernel_reads_the_partition_table_of_a_disk_that_was_written_before_its_command_runs() {
    let site = Site::beside("table", one_switch(2));
    let (programs, said) = (site.directory("programs"), site.path("said"));
    // The kernel's own support does not matter: the request to reread the table is recorded.
    let script = format!("#!/bin/sh\nexec 3<>\"$2\" && echo \"$*\" >> {}\n", said.display());
    fs::write(programs.join("blockdev"), script).expect("room");
    fs::set_permissions(programs.join("blockdev"), fs::Permissions::from_mode(0o755)).expect("ours");
    let (table, none) = (site.file("image", image()), site.file("other", content(4, MEBIBYTE)));
    let device = LoopDevice::with(&site.file("disk", vec![9; 2 * MEBIBYTE]), &["--partscan"]).expect("a loop device");
    for source in [&table, &none] {
        let look = format!("echo command >> {}", said.display());
        let mut receive = site.ethbcast("n1", [&RECV[..], &["--exec", &look, device.path()]].concat());
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
    site.run("n1", &RECV, device.path()).assert_refusal(4, &["read-only", "blockdev --setrw", "[E-DEST]"]);
    let doctor = |device: &LoopDevice, size: &str| {
        let ended = site.run("n1", &["doctor", "-i", "eth0", "--size", size, "--dest"], device.path());
        ended.stdout_text()
    };
    assert!(doctor(&device, "1M").contains("read-only"), "{}", doctor(&device, "1M"));
    drop(device);
    let device = LoopDevice::attach(&file).expect("a loop device");
    let said = doctor(&device, "3M");
    assert!(said.contains("holds 2097152 bytes, and 3") && !said.contains("/dev has"), "{said}");
    let said = doctor(&device, "1M");
    assert!(said.contains("what is on it would be lost") && !said.contains("E-SPACE"), "{said}");
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
    let late = Late(PathBuf::from(format!("/dev/ethbcast-late-{}", std::process::id())));
    let options = ["recv", "--once", "-i", "eth0", "--force", "--max-wait", "0.3"];
    site.run("n1", &options, &late.0).assert_refusal(4, &["no device", "[E-DEST]"]);
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
    ended.end(LIMIT).assert_refusal(4, &["cannot write the report", "nowhere", "--report"]);
}
