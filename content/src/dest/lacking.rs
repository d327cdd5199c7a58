//! Detection of a missing device as DEST, in whose place a file in memory would be created.

use crate::mounts::place_of;
use std::fs;
use std::path::{Path, PathBuf};

/// The directory of devices. Any path on its file system counts as inside it, however it is spelt.
const DEVICES: &str = "/dev";
const BY_NAME: &str = "/sys/block";
const MAX_NAMED: usize = 12;
/// Unit of the kernel's size in sysfs, whatever the disk's sector size.
const SECTOR_BYTES: u64 = 512;

/// Returns the reason why DEST would not be stored on a disk, with the disks of this machine; none
/// if it is elsewhere, or a device.
pub fn lacking_device(dest: &Path) -> Option<String> {
    let there = dest.metadata();
    let is_ordinary = there.as_ref().map_or(true, |there| there.is_file() || there.is_dir());
    let holder = holder(dest);
    if !is_ordinary || !is_among_devices(&holder) {
        return None;
    }
    let shown = dest.display();
    let what = match there {
        Ok(there) if there.is_dir() => format!("DEST {shown} is a directory of devices, where a file"),
        Ok(_) => format!("DEST {shown} is no device but a file, which"),
        Err(_) => format!("there is no device {shown}, and a file of that name"),
    };
    let disks = disks(Path::new(BY_NAME));
    let choose = if disks.is_empty() {
        format!("no disk is here (see {BY_NAME}): load its driver")
    } else {
        format!("give DEST one of the disks that are here, {}, load the driver of another", disks.join(", "))
    };
    Some(format!(
        "{what} is in memory and on no disk; nothing was written: {choose}, or choose a DEST that is not below \
         {DEVICES}"
    ))
}

/// Returns the directory of DEST, or its nearest existing ancestor.
fn holder(dest: &Path) -> PathBuf {
    // A dangling link stands for its target.
    let led = fs::read_link(dest).ok().filter(|_| !dest.exists());
    let path = match (&led, dest.parent()) {
        (Some(to), Some(beside)) => beside.join(to),
        _ => dest.to_owned(),
    };
    let above = path.ancestors().find(|above| above.is_dir()).map(Path::to_owned);
    above.unwrap_or_else(|| PathBuf::from("."))
}

fn is_among_devices(holder: &Path) -> bool {
    let device = |path: &Path| place_of(path).map(|(major, minor, _)| (major, minor));
    let Ok(holder) = holder.canonicalize() else { return false };
    let (own, devices) = (device(&holder), device(Path::new(DEVICES)));
    // Without a mount there, /dev is part of the root file system.
    let is_mounted = devices != device(Path::new("/"));
    devices.is_some() && own == devices && (is_mounted || holder.starts_with(DEVICES))
}

fn disks(of: &Path) -> Vec<String> {
    let disk = |entry: fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().replace('!', "/");
        let sectors: u64 = fs::read_to_string(entry.path().join("size")).ok()?.trim().parse().ok()?;
        let is_memory = name.starts_with("ram") || name.starts_with("zram");
        (sectors > 0 && !is_memory).then(|| format!("{DEVICES}/{name} ({})", size(sectors * SECTOR_BYTES)))
    };
    let mut disks: Vec<String> = fs::read_dir(of).into_iter().flatten().flatten().filter_map(disk).collect();
    disks.sort();
    let others = disks.len().saturating_sub(MAX_NAMED);
    disks.truncate(MAX_NAMED);
    if others > 0 {
        disks.push(format!("{others} more in {BY_NAME}"));
    }
    disks
}

fn size(bytes: u64) -> String {
    match bytes {
        1_000_000_000.. => format!("{:.1} GB", bytes as f64 / 1e9),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_among_devices_and_none_is_named_whatever_its_path_and_the_rest_is_not() {
        for path in ["/dev/ethbcast-none", "/dev/../dev/ethbcast-none", "/dev/no/such/disk", "/dev", "/proc/../dev/x"] {
            let text = lacking_device(Path::new(path)).unwrap_or_else(|| panic!("{path} is taken"));
            assert!(text.contains("in memory") && text.contains("nothing was written"), "{text}");
        }
        let directory = tempfile::tempdir().expect("a directory");
        let link = directory.path().join("link");
        std::os::unix::fs::symlink("/dev/ethbcast-none", &link).expect("room");
        assert!(lacking_device(&link).is_some(), "it leads there");
        for path in [directory.path().join("file"), directory.path().to_owned(), "/dev/null".into(), "x".into()] {
            assert_eq!(lacking_device(&path), None, "{}", path.display());
        }
    }

    #[test]
    fn disks_are_named_with_their_sizes_and_what_has_none_is_not() {
        let sys = tempfile::tempdir().expect("a directory");
        for (name, sectors) in [("sda", "1000215216"), ("cciss!c0d0", "2048"), ("loop3", "0"), ("zram0", "8")] {
            fs::create_dir(sys.path().join(name)).expect("room");
            fs::write(sys.path().join(name).join("size"), format!("{sectors}\n")).expect("room");
        }
        assert_eq!(disks(sys.path()), ["/dev/cciss/c0d0 (1.0 MB)", "/dev/sda (512.1 GB)"]);
    }
}
