//! Tests of transfers that need file systems of many kinds, run by `./test --full` only.

use crate::harness::{Ethbcast, LIMIT, MEBIBYTE, Site, one_switch};
use ethbcast_content::dest::Dest;
use ethbcast_tests::lab::LoopDevice;
use std::fs;
use std::fs::Permissions;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

const RECV: [&str; 5] = ["recv", "--once", "-i", "eth0", "--max-wait"];
const HOLE_BYTES: u64 = 16 << 20;

/// A mounted file system, unmounted on drop.
struct Mounted {
    at: PathBuf,
    _device: Option<LoopDevice>,
    /// Holds its layers, and is unmounted after it.
    _below: Option<Box<Mounted>>,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        drop(Command::new("umount").arg(&self.at).status());
    }
}

fn run(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .output()
        .is_ok_and(|ended| ended.status.success())
}

/// Mounts a file system of this kind, or returns none if this machine cannot.
fn mount(site: &Site, kind: &str) -> Option<Mounted> {
    mount_at(site, kind, &site.directory(&format!("{kind}-mounted")))
}

fn mount_at(site: &Site, kind: &str, at: &Path) -> Option<Mounted> {
    let at = at.to_owned();
    let shown = at.to_str().expect("UTF-8");
    if kind == "tmpfs" {
        return run("mount", &["-t", "tmpfs", "none", shown]).then(|| Mounted {
            at,
            _device: None,
            _below: None,
        });
    }
    if kind == "overlay" {
        let below = mount_at(site, "tmpfs", &site.directory("below"))?;
        let part = |name: &str| {
            fs::create_dir_all(below.at.join(name)).expect("room");
            below.at.join(name).display().to_string()
        };
        let options = format!(
            "lowerdir={},upperdir={},workdir={}",
            part("lower"),
            part("upper"),
            part("work")
        );
        fs::create_dir(below.at.join("lower/dest"))
            .and_then(|()| fs::write(below.at.join("lower/dest/old"), "old"))
            .ok()?;
        let mounted = run("mount", &["-t", "overlay", "none", "-o", &options, shown]);
        return mounted.then(|| Mounted {
            at,
            _device: None,
            _below: Some(Box::new(below)),
        });
    }
    let image = site.path(&format!("{kind}.img"));
    fs::File::create(&image)
        .and_then(|file| file.set_len(320 << 20))
        .expect("room");
    let device = LoopDevice::attach(&image).ok()?;
    let (program, options): (String, &[&str]) = match kind {
        "ntfs-3g" => ("mkfs.ntfs".to_owned(), &["-F", "-Q"]),
        "vfat" => ("mkfs.vfat".to_owned(), &[]),
        "xfs" | "btrfs" => (format!("mkfs.{kind}"), &["-f"]),
        "ext2" | "ext4" => (format!("mkfs.{kind}"), &["-q", "-F"]),
        other => (format!("mkfs.{other}"), &[]),
    };
    let is_made = run("sh", &["-c", &format!("command -v {program}")])
        && run(&program, &[options, &[device.path()]].concat());
    let mounted = is_made
        && match kind {
            "ntfs-3g" => run("ntfs-3g", &[device.path(), shown]),
            _ => run("mount", &["-t", kind, device.path(), shown]),
        };
    mounted.then(|| Mounted {
        at,
        _device: Some(device),
        _below: None,
    })
}

/// Creates a directory with every kind of entry.
fn source(site: &Site, odd_name: bool) -> PathBuf {
    let at = site.directory(if odd_name { "odd" } else { "source" });
    fs::write(at.join("file"), "text").expect("room");
    if odd_name {
        fs::write(at.join("a:b"), "odd").expect("room");
        return at;
    }
    chown(at.join("file"), Some(12), Some(12)).expect("root may");
    fs::set_permissions(at.join("file"), Permissions::from_mode(0o640)).expect("ours");
    fs::hard_link(at.join("file"), at.join("twin")).expect("room");
    symlink("file", at.join("link")).expect("room");
    let name = "security.ethbcast";
    let set = format!(
        "import os; os.setxattr('{}', '{name}', b'x')",
        at.join("file").display()
    );
    assert!(run("python3", &["-c", &set]), "an attribute");
    let sparse = fs::File::create(at.join("sparse")).expect("room");
    sparse
        .set_len(HOLE_BYTES)
        .and_then(|()| sparse.write_all_at(b"data", MEBIBYTE as u64))
        .expect("room");
    at
}

/// Sends to n1, and returns whether the directory arrived.
fn transfer(site: &Site, source: &Path, options: &[&str], dest: &Path) -> bool {
    let accept = ["20", "--accept", "owner,setid,xattrs=security.ethbcast"];
    let receiver = site.start("n1", &[&RECV[..], &accept, options].concat(), dest);
    let send = [
        "send",
        "-i",
        "eth0",
        "-n",
        "1",
        "--max-wait",
        "10",
        "--owner",
        "--xattrs",
    ];
    let root = site.run("n0", &send, source.join(""));
    let receiver = receiver.end(LIMIT);
    println!("{} {}", receiver.stderr, root.stderr);
    dest.join("file").exists() && receiver.stderr.lines().all(|line| !line.contains("[E-"))
}

fn word(is_kept: bool) -> &'static str {
    if is_kept { "yes" } else { "no" }
}

/// Returns a line of the table.
fn line(site: &Site, kind: &str, [all, odd]: &[PathBuf; 2]) -> Option<String> {
    let mounted = mount(site, kind)?;
    let dest = mounted.at.join("dest");
    assert!(
        transfer(site, all, &["--force"], &dest) || kind == "overlay",
        "{kind}"
    );
    if kind == "overlay" {
        // An entry of a lower layer cannot be renamed, and is refused before anything is written.
        assert_eq!(fs::read(dest.join("old")).expect("there"), b"old");
        fs::remove_dir_all(&dest).expect("ours");
        assert!(transfer(site, all, &[], &dest));
    }
    let stat = |name: &str| dest.join(name).symlink_metadata().ok();
    let file = stat("file").expect("there");
    let read = format!(
        "import os; os.getxattr('{}', 'security.ethbcast')",
        dest.join("file").display()
    );
    let kept = [
        stat("link").is_some_and(|link| link.is_symlink()),
        file.nlink() == 2,
        (file.uid(), file.gid()) == (12, 12),
        file.mode() & 0o777 == 0o640,
        run("python3", &["-c", &read]),
        stat("sparse").is_some_and(|sparse| sparse.blocks() * 512 < HOLE_BYTES / 2),
        transfer(site, odd, &[], &mounted.at.join("odd")),
        transfer(site, all, &["--force"], &dest),
        transfer(site, all, &["--in-place"], &dest),
    ];
    // The refusal was announced before the start.
    let told = Dest::resolve(dest.as_os_str(), true)
        .expect("it was written to")
        .warnings(&"owner,setid,xattrs".parse().expect("a list"));
    assert_eq!(
        told.iter().any(|line| line.contains("it keeps no")),
        kept[..4].contains(&false),
        "{kind}: {told:?}"
    );
    Some(format!("| {kind} | {} |", kept.map(word).join(" | ")))
}

#[test]
fn the_table_of_file_systems_says_what_those_of_this_machine_do() {
    let site = Site::beside("systems", one_switch(2));
    let documented =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/files.md"))
            .expect("there");
    let kinds = [
        "tmpfs", "ext4", "ext2", "xfs", "btrfs", "vfat", "ntfs-3g", "overlay",
    ];
    let sources = [source(&site, false), source(&site, true)];
    let lines: Vec<String> = kinds
        .iter()
        .filter_map(|kind| line(&site, kind, &sources))
        .collect();
    println!("{}", lines.join("\n"));
    assert!(lines.len() >= 2, "nothing can be mounted here");
    lines
        .iter()
        .for_each(|line| assert!(documented.contains(line), "docs/files.md lacks {line}"));
}
