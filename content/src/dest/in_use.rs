//! Detection of the users of a block device, so that no disk in use is overwritten.

use crate::mounts::{self, place_of};
use rustix::fs::{major, makedev, minor};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const BY_NUMBER: &str = "/sys/dev/block";
const BY_NAME: &str = "/sys/block";

/// Returns everything that uses a device or one of its partitions, each with advice, in words that
/// follow "is".
pub(super) fn users(device: &Path) -> Vec<String> {
    let Ok(metadata) = device.metadata() else { return Vec::new() };
    let parts = parts(metadata.rdev());
    let mut users = mounted(Path::new("/proc/self/mountinfo"), &parts);
    users.extend(swaps(&parts));
    users.extend(parts.iter().flat_map(|part| holders(part.number)));
    users.extend(loops(device));
    if users.is_empty() {
        users.extend(elsewhere(&parts, |_| true));
    }
    users
}

pub(super) fn is_read_only(number: u64) -> bool {
    fs::read_to_string(sys(number).join("ro")).is_ok_and(|text| text.trim() == "1")
}

/// Whether the kernel creates devices for its partitions: for a whole disk, and for a loop device
/// with `partscan`.
pub(super) fn takes_partitions(number: u64) -> bool {
    let at = sys(number);
    let is_plain_loop = fs::read_to_string(at.join("loop/partscan")).is_ok_and(|text| text.trim() == "0");
    at.exists() && !at.join("partition").exists() && !at.join("dm").exists() && !is_plain_loop
}

/// Returns the writable mounts of a device and its partitions, in words that follow "is".
pub(crate) fn written_at(device: &Path) -> Vec<String> {
    let Ok(metadata) = device.metadata() else { return Vec::new() };
    let parts = parts(metadata.rdev());
    let own = mounts_of(Path::new("/proc/self/mountinfo"), &parts, is_writable);
    if own.is_empty() { elsewhere(&parts, is_writable).into_iter().collect() } else { own }
}

fn is_writable(options: &str) -> bool {
    options.split(',').any(|option| option == "rw")
}

struct PartInUse {
    number: u64,
    name: String,
}

fn parts(number: u64) -> Vec<PartInUse> {
    let at = sys(number);
    let own = at.canonicalize().ok().and_then(|at| Some(at.file_name()?.to_string_lossy().into_owned()));
    let mut parts = vec![PartInUse { number, name: own.unwrap_or_default() }];
    for entry in fs::read_dir(&at).into_iter().flatten().flatten() {
        let number = fs::read_to_string(entry.path().join("dev")).ok().and_then(|text| read_number(text.trim()));
        if let Some(number) = number.filter(|_| entry.path().join("partition").exists()) {
            parts.push(PartInUse { number, name: entry.file_name().to_string_lossy().into_owned() });
        }
    }
    parts
}

fn sys(number: u64) -> PathBuf {
    Path::new(BY_NUMBER).join(format!("{}:{}", major(number), minor(number)))
}

fn read_number(text: &str) -> Option<u64> {
    let (major, minor) = text.split_once(':')?;
    Some(makedev(major.parse().ok()?, minor.parse().ok()?))
}

fn mounted(table: &Path, parts: &[PartInUse]) -> Vec<String> {
    mounts_of(table, parts, |_| true)
}

fn mounts_of(table: &Path, parts: &[PartInUse], counts: impl Fn(&str) -> bool) -> Vec<String> {
    let text = fs::read_to_string(table).unwrap_or_default();
    let mount = |line: &str| {
        let (own, of_file_system) = line.split_once(" - ")?;
        let mut fields = own.split(' ');
        let (number, at) = (fields.nth(2)?, fields.nth(1)?);
        if !counts(of_file_system.rsplit(' ').next()?) {
            return None;
        }
        // Some file systems have a device number of their own; their source names the device.
        let source = Path::new(of_file_system.split(' ').nth(1)?);
        let of_source = source.metadata().ok().filter(|_| source.is_absolute()).map(|source| source.rdev());
        let part = parts.iter().find(|part| [read_number(number), of_source].contains(&Some(part.number)))?;
        let at = unescaped(at);
        Some(format!("mounted at {at} ({}): unmount it, `umount {at}`", part.name))
    };
    text.lines().filter_map(mount).collect()
}

fn unescaped(text: &str) -> String {
    mounts::unescaped(text.as_bytes()).to_string_lossy().into_owned()
}

fn swaps(parts: &[PartInUse]) -> Vec<String> {
    let text = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let swap = |line: &str| {
        let path = unescaped(line.split_whitespace().next()?);
        let number = Path::new(&path).metadata().ok()?.rdev();
        parts.iter().any(|part| part.number == number).then(|| format!("swap: end that, `swapoff {path}`"))
    };
    text.lines().skip(1).filter_map(swap).collect()
}

/// Returns the devices on top of it: device mapper (LVM, encryption, multipath) and md.
fn holders(number: u64) -> Vec<String> {
    let holder = |entry: fs::DirEntry| {
        let own = entry.file_name().to_string_lossy().into_owned();
        let mapped = fs::read_to_string(Path::new(BY_NAME).join(&own).join("dm/name"));
        match mapped {
            Ok(name) => format!("a part of {own}, {}: close it, `dmsetup remove {0}`", name.trim()),
            Err(_) if own.starts_with("md") => format!("a part of {own}: stop it, `mdadm --stop /dev/{own}`"),
            Err(_) => format!("a part of {own}: close that"),
        }
    };
    fs::read_dir(sys(number).join("holders")).into_iter().flatten().flatten().map(holder).collect()
}

fn loops(device: &Path) -> Vec<String> {
    let Ok(own) = device.canonicalize() else { return Vec::new() };
    let looped = |entry: fs::DirEntry| {
        let file = fs::read_to_string(entry.path().join("loop/backing_file")).ok()?;
        let name = entry.file_name().to_string_lossy().into_owned();
        (Path::new(file.trim_end()) == own).then(|| format!("behind {name}: end that, `losetup -d /dev/{name}`"))
    };
    fs::read_dir(BY_NAME).into_iter().flatten().flatten().filter_map(looped).collect()
}

/// Returns a mount in another process's namespace, if this process does not see it.
fn elsewhere(parts: &[PartInUse], counts: fn(&str) -> bool) -> Option<String> {
    fs::read_dir("/proc").into_iter().flatten().flatten().find_map(|entry| {
        let process = entry.file_name().to_str()?.parse::<u32>().ok()?;
        let mounted = mounts_of(&entry.path().join("mountinfo"), parts, counts).into_iter().next()?;
        Some(format!("{mounted} where process {process} is (`nsenter -m -t {process}`)"))
    })
}

/// The directory of devices. Any path on its file system counts as inside it, however it is spelt.
const DEVICES: &str = "/dev";
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
    fn a_mounted_disk_is_found_by_its_partition_by_its_source_and_with_a_space_in_its_path() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let part = |number, name: &str| PartInUse { number, name: name.to_owned() };
        let parts = [part(makedev(8, 16), "sdb"), part(makedev(8, 17), "sdb1")];
        let table = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                     40 22 8:17 / /mnt/my\\040disk rw,relatime shared:1 - ext4 /dev/sdb1 rw\n\
                     41 22 0:30 / /proc rw - proc proc rw\nnonsense\n";
        fs::write(file.path(), table).expect("room");
        let found = mounted(file.path(), &parts);
        assert_eq!(found, ["mounted at /mnt/my disk (sdb1): unmount it, `umount /mnt/my disk`"]);
        assert_eq!(mounts_of(file.path(), &parts, is_writable), found);
        fs::write(file.path(), table.replace("/dev/sdb1 rw", "/dev/sdb1 ro,errors=remount-ro")).expect("room");
        assert!(mounts_of(file.path(), &parts, is_writable).is_empty() && !mounted(file.path(), &parts).is_empty());
        assert!(users(Path::new("/nowhere")).is_empty());
    }

    #[test]
    fn a_path_below_dev_that_is_no_device_is_refused_by_any_spelling_and_others_are_not() {
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
