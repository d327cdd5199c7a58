//! A disk whose store runs out while the kernel writes back, and has room again before the last sync.

use crate::harness::Ethbcast;
use ethbcast_lab::LabConfig;
use ethbcast_tests::lab::{LIMIT, Site, content, names_in, one_switch, within};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// ext4 on a loop device over a sparse file, in a file system that is too small for it until it is made larger.
struct ThinDisk {
    store: PathBuf,
    device: String,
    mount: PathBuf,
}

fn command(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("paths of tests have UTF-8 names")
}

impl ThinDisk {
    /// Has room for about `room_mib` of the 96 MiB that it claims to have.
    fn new(site: &Site, room_mib: u32) -> ThinDisk {
        let (store, mount) = (site.directory("store"), site.directory("thin"));
        command("mount", &["-t", "tmpfs", "-o", &format!("size={room_mib}m"), "ethbcast-tests", text(&store)]);
        let image = store.join("image");
        fs::File::create(&image).and_then(|file| file.set_len(96 << 20)).expect("a sparse file");
        let device = command("losetup", &["--find", "--show", text(&image)]);
        let disk = ThinDisk { store, device, mount };
        // Without a journal nothing but the lost blocks fails, as on a thin pool that queues writes of metadata.
        command("mkfs.ext4", &["-q", "-O", "^has_journal", "-E", "lazy_itable_init=0", &disk.device]);
        command("mount", &[&disk.device, text(&disk.mount)]);
        disk
    }

    /// Gives the store all the room it wants.
    fn grow(&self) {
        command("mount", &["-o", "remount,size=200m", text(&self.store)]);
    }

    /// Forgets what is cached: from now on what is read is what the disk has.
    fn reread(&self) {
        command("umount", &[text(&self.mount)]);
        command("mount", &[&self.device, text(&self.mount)]);
    }
}

impl Drop for ThinDisk {
    fn drop(&mut self) {
        let detach = ["losetup", "--detach", &self.device];
        for line in [&["umount", text(&self.mount)][..], &detach, &["umount", text(&self.store)]] {
            let (program, arguments) = (line[0], &line[1..]);
            // A process that another test starts at this moment has a copy of the mounts for a while.
            let undo = || Command::new(program).args(arguments).status().is_ok_and(|status| status.success());
            let undone = within(Duration::from_secs(5), || undo().then_some(()));
            assert!(std::thread::panicking() || undone.is_some(), "{program} {arguments:?}");
        }
    }
}

#[test]
fn a_write_back_error_that_an_early_sync_was_told_of_fails_the_receiver_though_the_last_sync_succeeds() {
    const MEBIBYTE: usize = 1 << 20;
    // Slow enough for the early syncs to come in the middle: 48 MiB take 2.5 s.
    let site = Site::alone("writeback", LabConfig { rate_bits_per_second: Some(160_000_000), ..one_switch(3) });
    let disk = ThinDisk::new(&site, 20);
    let bytes = content(7, 48 * MEBIBYTE);
    let source = site.file("source.bin", &bytes);
    let (broken, sound) = (disk.mount.join("file"), site.path("sound"));
    let receivers = [("n1", &broken), ("n2", &sound)]
        .map(|(host, dest)| site.start(host, &["recv", "-i", "eth0", "--max-wait", "10"], dest));
    let mut send = site.ethbcast("n0", ["send", "-i", "eth0", "-n", "2", "--via", "cast"]);
    send.arg(&source);
    let root = ethbcast_tests::lab::Run::start("n0", send);
    // By now blocks are lost; before the end there is room again, so that nothing fails any more.
    let written = || receivers[0].open_bytes(&disk.mount).unwrap_or(0);
    within(LIMIT, || (written() > 4 << 20).then_some(())).expect("it is written to");
    within(LIMIT, || (written() > 26 << 20 || written() == 0).then_some(())).expect("it is written to, or given up");
    disk.grow();
    let [broken_run, sound_run] = receivers.map(|run| run.end(LIMIT));
    broken_run.assert_refusal(4, &["cannot sync"]);
    sound_run.assert_code(0);
    root.end(LIMIT).assert_code(1);
    disk.reread();
    assert_eq!(names_in(&disk.mount), ["lost+found"], "nothing is shown that may lack blocks");
    assert!(fs::read(&sound).is_ok_and(|file| file == bytes));
}
