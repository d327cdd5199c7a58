//! Tests of transfers from and to block devices, sparse files and disk images.

use crate::harness::{Ethbcast, LIMIT, MEBIBYTE, Run, Site, content, one_switch};
use ethbcast_tests::lab::{LoopDevice, SharedDirectory};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

const RECV: [&str; 6] = ["recv", "-i", "eth0", "--max-wait", "20", "--force"];
const SEND: [&str; 7] = ["send", "-i", "eth0", "-n", "1", "--max-wait", "2"];

fn device_of(image: &Path) -> LoopDevice {
    LoopDevice::attach(image).expect("a loop device")
}

fn written_bytes(device: &LoopDevice) -> u64 {
    let stat = fs::read_to_string(device.told().join("stat")).expect("a device");
    stat.split_whitespace()
        .nth(6)
        .and_then(|sectors| sectors.parse::<u64>().ok())
        .expect("sectors")
        * 512
}

/// Sends SOURCE to n1, which stores it at `dest` with these options. Returns the sender's JSON.
fn transfer(
    site: &Site,
    source: impl AsRef<Path>,
    options: &[&str],
    dest: impl AsRef<Path>,
) -> Value {
    transfer_by(site, &[], source, options, dest)
}

fn transfer_by(
    site: &Site,
    send: &[&str],
    source: impl AsRef<Path>,
    options: &[&str],
    dest: impl AsRef<Path>,
) -> Value {
    let receiver = site.start("n1", &[&RECV[..], options].concat(), dest.as_ref());
    let root = site.run(
        "n0",
        &[&SEND[..], &["--json"], send].concat(),
        source.as_ref(),
    );
    receiver.end(LIMIT).assert_code(0);
    root.assert_code(0);
    root.json()
}

fn run(program: &str, arguments: &[&str]) {
    Run::here(program, arguments).end(LIMIT).assert_code(0);
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn a_block_device_is_overwritten_if_the_user_insists_and_it_is_large_enough() {
    let site = Site::beside("device", one_switch(2));
    let bytes = content(3, MEBIBYTE + 512);
    let source = site.file("source.bin", &bytes);
    let device = device_of(&site.file("image", vec![9; 2 * MEBIBYTE]));
    site.run("n1", &RECV[..5], device.path())
        .assert_refusal(4, &["block device", "--force"]);
    let receiver = site.start("n1", &RECV, device.path());
    site.run("n0", &SEND, &source).assert_code(0);
    let receiver = receiver.end(LIMIT);
    receiver.assert_code(0);
    assert!(
        receiver.stdout_text().contains(device.path()),
        "{}",
        receiver.stdout_text()
    );
    let written = fs::read(device.path()).expect("readable");
    assert!(
        written[..bytes.len()] == bytes && written[bytes.len()..].iter().all(|&byte| byte == 9)
    );
    // Too small, which is known before the first byte, or only at the last.
    let large = site.file("large.bin", content(4, 3 * MEBIBYTE));
    let receiver = site.start("n1", &[&RECV[..], &["--once"]].concat(), device.path());
    site.run("n0", &SEND, &large).assert_code(3);
    receiver
        .end(LIMIT)
        .assert_refusal(4, &["room for 2.00 MiB"]);
    let receiver = site.start("n1", &RECV, device.path());
    let command = format!("cat {}", large.display());
    Run::start(
        "n0",
        site.ethbcast("n0", [&SEND[..], &["--pipe", &command]].concat()),
    )
    .end(LIMIT)
    .assert_code(1);
    receiver
        .end(LIMIT)
        .assert_refusal(4, &["the device holds 2.00 MiB, and more come"]);
    // A compressed image is not an image.
    run("gzip", &["-k", text(&large)]);
    let receiver = site.start("n1", &RECV, device.path());
    site.run("n0", &SEND, site.path("large.bin.gz"))
        .assert_code(3);
    receiver.end(LIMIT).assert_code(4);
    let small = site.file("small.bin", content(5, MEBIBYTE));
    run("gzip", &["-k", text(&small)]);
    let receiver = site.start("n1", &RECV, device.path());
    site.run("n0", &SEND, site.path("small.bin.gz"))
        .assert_code(1);
    receiver.end(LIMIT).assert_refusal(
        4,
        &[
            "offers a gzip file, not the image",
            "--decompress root",
            "dd of=",
        ],
    );
}

#[test]
fn a_device_that_somebody_uses_is_refused_with_his_name() {
    let site = Site::beside("busy", one_switch(2));
    let device = device_of(&site.file("image", vec![0; 8 * MEBIBYTE]));
    let refused = |parts: &[&str]| {
        site.run("n1", &RECV, device.path())
            .assert_refusal(4, parts)
    };
    run("mkfs.ext4", &["-q", device.path()]);
    // A disk unmounted here is unmounted in namespaces that were created meanwhile, too.
    let disks = site.directory("disks");
    let _shared = SharedDirectory::make(&disks).expect("a bind mount");
    let mount = disks.join("my mount");
    fs::create_dir(&mount).expect("made");
    run("mount", &[device.path(), text(&mount)]);
    refused(&["mounted at", "my mount", "umount"]);
    run("umount", &[text(&mount)]);
    let behind = device_of(Path::new(device.path()));
    refused(&["behind", "losetup -d", behind.path()]);
    drop(behind);
    run("mkswap", &["-q", device.path()]);
    run("swapon", &[device.path()]);
    let swap = site.run("n1", &RECV, device.path());
    run("swapoff", &[device.path()]);
    swap.assert_refusal(4, &["swap", "swapoff"]);
    // While a receiver waits, no other process gets the device.
    let waiting = site.start("n1", &RECV, device.path());
    waiting.wait_for_line("waiting for a sender");
    let second = site.run("n1", &RECV, device.path());
    second.assert_refusal(4, &["busy", "another process uses it"]);
    waiting.signal(nix::sys::signal::Signal::SIGINT);
    waiting.end(LIMIT).assert_code(130);
}

#[test]
fn a_device_as_source_has_a_size_and_as_dest_gets_only_what_it_has_not() {
    let site = Site::beside("renewed", one_switch(2));
    let mut bytes = content(6, 32 * MEBIBYTE);
    let source = device_of(&site.file("source", &bytes));
    let device = device_of(&site.file("image", vec![9; 33 * MEBIBYTE]));
    let first = transfer(&site, source.path(), &[], device.path());
    assert_eq!(first["bytes"], 32 * MEBIBYTE);
    assert_eq!(first["blake3"], blake3::hash(&bytes).to_hex().as_str());
    let all = written_bytes(&device);
    assert!(all >= 32 * MEBIBYTE as u64, "{all}");
    // Two percent of its pieces change.
    for piece in (0..512).step_by(50) {
        bytes[piece * 65536 + 100] ^= 1;
    }
    let changed = site.file("changed", &bytes);
    transfer(&site, &changed, &[], device.path());
    let more = written_bytes(&device) - all;
    assert!(
        (11 * 4096..=11 * 65536).contains(&more),
        "{more} bytes were written again"
    );
    assert!(fs::read(device.path()).is_ok_and(|found| found[..bytes.len()] == bytes));
}

/// Creates a file of `mebibytes` MiB with data in two places.
fn sparse(site: &Site, name: &str, mebibytes: u64) -> PathBuf {
    use std::os::unix::fs::FileExt;
    let path = site.path(name);
    let file = fs::File::create(&path).expect("room");
    file.set_len(mebibytes << 20).expect("holes take no room");
    file.write_all_at(&content(7, 300_000), 12_345)
        .expect("room");
    file.write_all_at(&content(8, 4096), (mebibytes << 20) - 4096)
        .expect("room");
    path
}

/// Returns the allocated bytes of a file.
fn taken_bytes(path: &Path) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(&path.metadata().expect("there")) * 512
}

#[test]
fn only_the_data_of_a_sparse_file_is_sent_and_its_holes_are_holes_at_every_destination() {
    let site = Site::beside("sparse", one_switch(2));
    let source = sparse(&site, "source", 100 << 10);
    let dest = site.path("dest");
    let report = transfer(&site, &source, &["--verify", "read"], &dest);
    assert!(
        report["bytes"]
            .as_u64()
            .is_some_and(|bytes| bytes < 400_000),
        "{report}"
    );
    assert_eq!(dest.metadata().expect("there").len(), 100 << 30);
    assert!(taken_bytes(&dest) < 1_000_000, "{}", taken_bytes(&dest));
    run("cmp", &["-n", "1000000", text(&source), text(&dest)]);
    let tail = ((100_u64 << 30) - 8192).to_string();
    run("cmp", &["-i", &tail, text(&source), text(&dest)]);
    // Old data of a device is discarded where the holes are.
    let small = sparse(&site, "small", 20);
    let device = device_of(&site.file("image", vec![9; 21 * MEBIBYTE]));
    transfer(&site, &small, &[], device.path());
    run(
        "cmp",
        &[
            "-n",
            &(20 * MEBIBYTE).to_string(),
            text(&small),
            device.path(),
        ],
    );
    // A device that is too small for the file with its holes.
    let receiver = site.start("n1", &RECV, device.path());
    site.run("n0", &SEND, sparse(&site, "large", 22))
        .assert_code(1);
    receiver
        .end(LIMIT)
        .assert_refusal(4, &["the device holds 21.00 MiB, the image has 22.00 MiB"]);
    // A command receives zeros.
    let copy = site.path("copy");
    let pipe = format!("cat > {}", copy.display());
    let fed = Run::start(
        "n1",
        site.ethbcast("n1", ["recv", "-i", "eth0", "--pipe", &pipe]),
    );
    site.run("n0", &SEND, &small).assert_code(0);
    fed.end(LIMIT).assert_code(0);
    run("cmp", &[text(&small), text(&copy)]);
}

#[test]
fn zeros_are_holes_if_the_receiver_wants_them_to_be() {
    let site = Site::beside("zeros", one_switch(2));
    let mut bytes = content(9, 4 * MEBIBYTE);
    bytes[MEBIBYTE..3 * MEBIBYTE + 777].fill(0);
    let (source, dest) = (site.file("source", &bytes), site.path("dest"));
    transfer(&site, &source, &["--sparse", "--verify", "read"], &dest);
    assert!(fs::read(&dest).is_ok_and(|found| found == bytes));
    assert_eq!(taken_bytes(&dest), 2 * MEBIBYTE as u64);
    let device = device_of(&site.file("image", vec![9; 4 * MEBIBYTE]));
    transfer(&site, &source, &["--sparse"], device.path());
    assert!(fs::read(device.path()).is_ok_and(|found| found == bytes));
}

#[test]
fn images_are_unpacked_once_at_the_sender_or_by_each_receiver() {
    let site = Site::beside("packed", one_switch(2));
    let bytes = [
        content(10, 3 * MEBIBYTE),
        vec![0; 5 * MEBIBYTE],
        content(11, 1000),
    ]
    .concat();
    let source = site.file("image", &bytes);
    run(
        "sh",
        &[
            "-c",
            &format!(
                "cd {} && gzip -k image && xz -k -T1 -0 image && zstd -q image",
                text(source.parent().expect("a directory"))
            ),
        ],
    );
    for (ending, by) in [
        ("gz", "root"),
        ("gz", "receivers"),
        ("xz", "root"),
        ("xz", "receivers"),
        ("zst", "root"),
        ("zst", "receivers"),
    ] {
        let dest = site.directory(&format!("{ending}-{by}"));
        let report = transfer_by(
            &site,
            &["--decompress", by],
            site.path(&format!("image.{ending}")),
            &["--verify", "read"],
            &dest,
        );
        let is_whole = report["bytes"].as_u64() == Some(bytes.len() as u64);
        assert_eq!(is_whole, by == "root", "{ending} by {by}: {report}");
        assert!(
            fs::read(dest.join("image")).is_ok_and(|found| found == bytes),
            "{ending} by {by}"
        );
    }
    let dest = site.directory("disks");
    for arguments in [
        &["-c"][..],
        &["-c", "-o", "compression_type=zstd"],
        &["-o", "cluster_size=4096"],
    ] {
        let qcow2 = site.path("disk.qcow2");
        run(
            "qemu-img",
            &[
                &["convert", "-q", "-f", "raw", "-O", "qcow2"],
                arguments,
                &[text(&source), text(&qcow2)],
            ]
            .concat(),
        );
        let report = transfer_by(&site, &["--decompress", "root"], &qcow2, &[], &dest);
        assert!(
            report["bytes"]
                .as_u64()
                .is_some_and(|sent| sent < 4 * MEBIBYTE as u64),
            "{arguments:?}: {report}"
        );
        let found = fs::read(dest.join("disk")).expect("there");
        assert!(
            found[..bytes.len()] == bytes && found[bytes.len()..].iter().all(|&byte| byte == 0),
            "{arguments:?}"
        );
        assert!(taken_bytes(&dest.join("disk")) < 4 * MEBIBYTE as u64);
    }
}

#[test]
fn a_file_that_cannot_be_unpacked_is_refused_or_fails_by_name() {
    let site = Site::beside("unpackable", one_switch(2));
    let plain = site.file("plain", content(12, MEBIBYTE));
    run("gzip", &["-k", text(&plain)]);
    let base = site.path("base.qcow2");
    run(
        "qemu-img",
        &["create", "-q", "-f", "qcow2", text(&base), "1M"],
    );
    let over = site.path("over.qcow2");
    run(
        "qemu-img",
        &[
            "create",
            "-q",
            "-f",
            "qcow2",
            "-F",
            "qcow2",
            "-b",
            text(&base),
            text(&over),
        ],
    );
    let send =
        |by: &str, path: &Path| site.run("n0", &[&SEND[..], &["--decompress", by]].concat(), path);
    send("root", &plain).assert_refusal(
        2,
        &["none of gzip, xz, zstd and qcow2", "leave out --decompress"],
    );
    send("receivers", &base).assert_refusal(2, &["qcow2", "--decompress root"]);
    send("root", &over).assert_refusal(2, &["backing file", "qemu-img convert"]);
    send("root", &site.directory("tree")).assert_refusal(2, &["--decompress is for one image"]);
    // Truncated.
    let packed = fs::read(site.path("plain.gz")).expect("there");
    let half = site.file("half.gz", &packed[..packed.len() / 2]);
    for (by, code) in [("root", 4), ("receivers", 1)] {
        let receiver = site.start("n1", &[&RECV[..], &["--once"]].concat(), site.path("dest"));
        send(by, &half).assert_code(code);
        assert_ne!(receiver.end(LIMIT).code(), 0, "{by}");
        assert!(!site.path("dest").exists(), "{by}");
    }
}

#[test]
fn a_device_that_is_mounted_for_writing_is_a_source_only_if_changes_are_allowed() {
    let site = Site::beside("mounted", one_switch(1));
    let device = device_of(&site.file("image", vec![0; 4 * MEBIBYTE]));
    run("mkfs.ext4", &["-q", device.path()]);
    let mount = site.directory("mount");
    run("mount", &[device.path(), text(&mount)]);
    let refused = site.run("n0", &SEND, device.path());
    let allowed = site.run(
        "n0",
        &[&SEND[..5], &["--max-wait", "1", "--allow-changing"]].concat(),
        device.path(),
    );
    run("mount", &["-o", "remount,ro", text(&mount)]);
    let quiet = site.run(
        "n0",
        &[&SEND[..5], &["--max-wait", "1"]].concat(),
        device.path(),
    );
    run("umount", &[text(&mount)]);
    refused.assert_refusal(2, &["is mounted at", text(&mount), "--allow-changing"]);
    allowed.assert_refusal(3, &["0 of 1 receivers"]);
    quiet.assert_refusal(3, &["0 of 1 receivers"]);
}
