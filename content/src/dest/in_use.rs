//! Check that a block device is not in use (mounted, swap, part of another) before it is
//! overwritten.

use crate::mounts::{self, place_of};
use rustix::fs::{major, makedev, minor};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const BY_NAME: &str = "/sys/block";

/// Directories of the kernel with the users of a device: sysfs and procfs.
struct Kernel<'a> {
    sys: &'a Path,
    proc: &'a Path,
}

impl Kernel<'static> {
    fn own() -> Kernel<'static> {
        Kernel {
            sys: Path::new("/sys"),
            proc: Path::new("/proc"),
        }
    }
}

impl Kernel<'_> {
    fn device(&self, number: u64) -> PathBuf {
        self.sys
            .join(format!("dev/block/{}:{}", major(number), minor(number)))
    }

    fn mounts(&self) -> PathBuf {
        self.proc.join("self/mountinfo")
    }

    /// Returns the writable mounts and swap areas of a device, its partitions and all devices built
    /// on them.
    fn writers(&self, number: u64) -> Vec<String> {
        let mut parts = self.parts(number);
        let mut at = 0;
        while at < parts.len() {
            let above = self.above(parts[at].number);
            let is_new = |number: &u64| !parts.iter().any(|part| part.number == *number);
            let new: Vec<PartInUse> = above
                .into_iter()
                .filter(is_new)
                .flat_map(|above| self.parts(above))
                .collect();
            parts.extend(new);
            at += 1;
        }
        let mut mounted = mounts_of(&self.mounts(), &parts, is_writable);
        let swaps = self.swaps(&parts);
        if mounted.is_empty() && swaps.is_empty() {
            mounted.extend(self.elsewhere(&parts, is_writable));
        }
        mounted
            .into_iter()
            .map(|line| format!("{line}, or `mount -o remount,ro`"))
            .chain(swaps)
            .collect()
    }

    /// Returns the devices of which this one is a part: device mapper (LVM, encryption, multipath),
    /// md and loop devices.
    fn above(&self, number: u64) -> Vec<u64> {
        let holders = entries(&self.device(number).join("holders"));
        let is_behind = |looped: &PathBuf| {
            let file = fs::read_to_string(looped.join("loop/backing_file")).unwrap_or_default();
            Path::new(file.trim_end())
                .metadata()
                .is_ok_and(|file| file.rdev() == number)
        };
        let loops = entries(&self.sys.join("block")).filter(is_behind);
        holders
            .chain(loops)
            .filter_map(|above| number_in(&above))
            .collect()
    }

    fn parts(&self, number: u64) -> Vec<PartInUse> {
        let at = self.device(number);
        let own = at
            .canonicalize()
            .ok()
            .and_then(|at| Some(at.file_name()?.to_string_lossy().into_owned()));
        let mapped = fs::read_to_string(at.join("dm/name"))
            .ok()
            .map(|name| name.trim().to_owned());
        let mut parts = vec![PartInUse {
            number,
            name: mapped.or(own).unwrap_or_default(),
        }];
        for part in entries(&at).filter(|part| part.join("partition").exists()) {
            let name = part
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            parts.extend(number_in(&part).map(|number| PartInUse { number, name }));
        }
        parts
    }

    fn swaps(&self, parts: &[PartInUse]) -> Vec<String> {
        let text = fs::read_to_string(self.proc.join("swaps")).unwrap_or_default();
        let swap = |line: &str| {
            let path = unescaped(line.split_whitespace().next()?);
            let number = Path::new(&path).metadata().ok()?.rdev();
            parts
                .iter()
                .any(|part| part.number == number)
                .then(|| format!("swap: end that, `swapoff {path}`"))
        };
        text.lines().skip(1).filter_map(swap).collect()
    }

    /// Returns the devices on top of this one: device mapper (LVM, encryption, multipath) and md.
    fn holders(&self, number: u64) -> Vec<String> {
        let holder = |above: PathBuf| {
            let own = above
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            match fs::read_to_string(self.sys.join("block").join(&own).join("dm/name")) {
                Ok(name) => format!(
                    "a part of {own}, {}: close it, `dmsetup remove {0}`",
                    name.trim()
                ),
                Err(_) if own.starts_with("md") => {
                    format!("a part of {own}: stop it, `mdadm --stop /dev/{own}`")
                }
                Err(_) => format!("a part of {own}: close that"),
            }
        };
        entries(&self.device(number).join("holders"))
            .map(holder)
            .collect()
    }

    /// Returns a mount in another process's namespace, if this process does not see it.
    fn elsewhere(&self, parts: &[PartInUse], counts: fn(&str) -> bool) -> Option<String> {
        entries(self.proc).find_map(|entry| {
            let process = entry.file_name()?.to_str()?.parse::<u32>().ok()?;
            let mounted = mounts_of(&entry.join("mountinfo"), parts, counts)
                .into_iter()
                .next()?;
            Some(format!(
                "{mounted} where process {process} is (`nsenter -m -t {process}`)"
            ))
        })
    }
}

/// Returns all users of a device or one of its partitions, each with advice, in words that follow
/// "is".
pub(super) fn users(device: &Path) -> Vec<String> {
    let Ok(metadata) = device.metadata() else {
        return Vec::new();
    };
    let kernel = Kernel::own();
    let parts = kernel.parts(metadata.rdev());
    let mut users = mounts_of(&kernel.mounts(), &parts, |_| true);
    users.extend(kernel.swaps(&parts));
    users.extend(parts.iter().flat_map(|part| kernel.holders(part.number)));
    users.extend(loops(device));
    if users.is_empty() {
        users.extend(kernel.elsewhere(&parts, |_| true));
    }
    users
}

pub(super) fn is_read_only(number: u64) -> bool {
    fs::read_to_string(Kernel::own().device(number).join("ro")).is_ok_and(|text| text.trim() == "1")
}

/// Whether the kernel creates devices for its partitions: for a whole disk, and for a loop device
/// with `partscan`.
pub(super) fn takes_partitions(number: u64) -> bool {
    let at = Kernel::own().device(number);
    let is_plain_loop =
        fs::read_to_string(at.join("loop/partscan")).is_ok_and(|text| text.trim() == "0");
    at.exists() && !at.join("partition").exists() && !at.join("dm").exists() && !is_plain_loop
}

/// Returns the users that write to a device while it is read, in words that follow "is".
pub(crate) fn written_at(device: &Path) -> Vec<String> {
    device.metadata().map_or_else(
        |_| Vec::new(),
        |metadata| Kernel::own().writers(metadata.rdev()),
    )
}

fn is_writable(options: &str) -> bool {
    options.split(',').any(|option| option == "rw")
}

struct PartInUse {
    number: u64,
    name: String,
}

fn entries(of: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(of)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
}

fn number_in(directory: &Path) -> Option<u64> {
    read_number(fs::read_to_string(directory.join("dev")).ok()?.trim())
}

fn read_number(text: &str) -> Option<u64> {
    let (major, minor) = text.split_once(':')?;
    Some(makedev(major.parse().ok()?, minor.parse().ok()?))
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
        let of_source = source
            .metadata()
            .ok()
            .filter(|_| source.is_absolute())
            .map(|source| source.rdev());
        let part = parts
            .iter()
            .find(|part| [read_number(number), of_source].contains(&Some(part.number)))?;
        let at = unescaped(at);
        Some(format!(
            "mounted at {at} ({}): unmount it, `umount {at}`",
            part.name
        ))
    };
    text.lines().filter_map(mount).collect()
}

fn unescaped(text: &str) -> String {
    mounts::unescaped(text.as_bytes())
        .to_string_lossy()
        .into_owned()
}

fn loops(device: &Path) -> Vec<String> {
    let Ok(own) = device.canonicalize() else {
        return Vec::new();
    };
    let looped = |entry: PathBuf| {
        let file = fs::read_to_string(entry.join("loop/backing_file")).ok()?;
        let name = entry.file_name()?.to_string_lossy().into_owned();
        (Path::new(file.trim_end()) == own)
            .then(|| format!("behind {name}: end that, `losetup -d /dev/{name}`"))
    };
    entries(Path::new(BY_NAME)).filter_map(looped).collect()
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
    let is_ordinary = there
        .as_ref()
        .map_or(true, |there| there.is_file() || there.is_dir());
    let holder = holder(dest);
    if !is_ordinary || !is_among_devices(&holder) {
        return None;
    }
    let shown = dest.display();
    let what = match there {
        Ok(there) if there.is_dir() => {
            format!("DEST {shown} is a directory of devices, where a file")
        }
        Ok(_) => format!("DEST {shown} is no device but a file, which"),
        Err(_) => format!("there is no device {shown}, and a file of that name"),
    };
    let disks = disks(Path::new(BY_NAME));
    let choose = if disks.is_empty() {
        format!("no disk is here (see {BY_NAME}): load its driver")
    } else {
        format!(
            "give DEST one of the disks that are here, {}, load the driver of another",
            disks.join(", ")
        )
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
    let above = path
        .ancestors()
        .find(|above| above.is_dir())
        .map(Path::to_owned);
    above.unwrap_or_else(|| PathBuf::from("."))
}

fn is_among_devices(holder: &Path) -> bool {
    let device = |path: &Path| place_of(path).map(|(major, minor, _)| (major, minor));
    let Ok(holder) = holder.canonicalize() else {
        return false;
    };
    let (own, devices) = (device(&holder), device(Path::new(DEVICES)));
    // Without a mount there, /dev is part of the root file system.
    let is_mounted = devices != device(Path::new("/"));
    devices.is_some() && own == devices && (is_mounted || holder.starts_with(DEVICES))
}

fn disks(of: &Path) -> Vec<String> {
    let disk = |entry: PathBuf| {
        let name = entry.file_name()?.to_string_lossy().replace('!', "/");
        let sectors: u64 = fs::read_to_string(entry.join("size"))
            .ok()?
            .trim()
            .parse()
            .ok()?;
        let is_memory = name.starts_with("ram") || name.starts_with("zram");
        (sectors > 0 && !is_memory)
            .then(|| format!("{DEVICES}/{name} ({})", size(sectors * SECTOR_BYTES)))
    };
    let mut disks: Vec<String> = entries(of).filter_map(disk).collect();
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
        let part = |number, name: &str| PartInUse {
            number,
            name: name.to_owned(),
        };
        let parts = [part(makedev(8, 16), "sdb"), part(makedev(8, 17), "sdb1")];
        let table = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                     40 22 8:17 / /mnt/my\\040disk rw,relatime shared:1 - ext4 /dev/sdb1 rw\n\
                     41 22 0:30 / /proc rw - proc proc rw\nnonsense\n";
        fs::write(file.path(), table).expect("room");
        let found = mounts_of(file.path(), &parts, |_| true);
        assert_eq!(
            found,
            ["mounted at /mnt/my disk (sdb1): unmount it, `umount /mnt/my disk`"]
        );
        assert_eq!(mounts_of(file.path(), &parts, is_writable), found);
        fs::write(
            file.path(),
            table.replace("/dev/sdb1 rw", "/dev/sdb1 ro,errors=remount-ro"),
        )
        .expect("room");
        assert!(mounts_of(file.path(), &parts, is_writable).is_empty());
        assert!(!mounts_of(file.path(), &parts, |_| true).is_empty());
        assert!(users(Path::new("/nowhere")).is_empty());
    }

    /// Regression: a disk below LVM, LUKS or md, whose own partitions are not mounted, was sent
    /// while it was written to.
    #[test]
    fn a_disk_is_written_to_where_what_is_built_on_it_is_mounted_or_swapped_to() {
        let root = tempfile::tempdir().expect("a directory");
        let (sys, proc) = (root.path().join("sys"), root.path().join("proc"));
        let put = |path: PathBuf, text: &str| {
            fs::create_dir_all(path.parent().expect("below"))
                .and_then(|()| fs::write(&path, text))
                .expect("room");
        };
        let at = |number: &str, path: &str| sys.join("dev/block").join(number).join(path);
        // A disk of one partition, which is a part of an array, which is encrypted.
        put(at("8:0", "sda1/partition"), "1");
        put(at("8:0", "sda1/dev"), "8:1\n");
        put(at("8:1", "holders/md0/dev"), "9:0\n");
        put(at("9:0", "holders/dm-0/dev"), "253:0\n");
        // The search ends although two devices are each other's parts.
        put(at("253:0", "holders/md0/dev"), "9:0\n");
        put(at("253:0", "dm/name"), "vault\n");
        // /dev/null stands for any existing device.
        put(at("8:32", "holders/dm-1/dev"), "1:3\n");
        let kernel = Kernel {
            sys: &sys,
            proc: &proc,
        };
        let written = |number: u32, mounts: &str, swaps: &str| {
            put(proc.join("self/mountinfo"), mounts);
            put(
                proc.join("swaps"),
                &format!("Filename Type Size Used Priority\n{swaps}"),
            );
            kernel.writers(makedev(8, number))
        };
        let table = "22 1 253:0 / /home rw - ext4 /dev/mapper/vault rw\n";
        let expected =
            ["mounted at /home (vault): unmount it, `umount /home`, or `mount -o remount,ro`"];
        assert_eq!(written(0, table, ""), expected);
        assert_eq!(written(1, table, ""), expected);
        assert!(written(0, &table.replace("vault rw", "vault ro"), "").is_empty());
        assert!(written(32, table, "").is_empty(), "another disk");
        assert_eq!(
            written(32, "", "/dev/null partition 1 0 -2\n"),
            ["swap: end that, `swapoff /dev/null`"]
        );
    }

    #[test]
    fn a_path_below_dev_that_is_no_device_is_refused_by_any_spelling_and_others_are_not() {
        for path in [
            "/dev/ethbcast-none",
            "/dev/../dev/ethbcast-none",
            "/dev/no/such/disk",
            "/dev",
            "/proc/../dev/x",
        ] {
            let text = lacking_device(Path::new(path)).unwrap_or_else(|| panic!("{path} is taken"));
            assert!(
                text.contains("in memory") && text.contains("nothing was written"),
                "{text}"
            );
        }
        let directory = tempfile::tempdir().expect("a directory");
        let link = directory.path().join("link");
        std::os::unix::fs::symlink("/dev/ethbcast-none", &link).expect("room");
        assert!(lacking_device(&link).is_some(), "it leads there");
        for path in [
            directory.path().join("file"),
            directory.path().to_owned(),
            "/dev/null".into(),
            "x".into(),
        ] {
            assert_eq!(lacking_device(&path), None, "{}", path.display());
        }
    }

    #[test]
    fn disks_are_named_with_their_sizes_and_what_has_none_is_not() {
        let sys = tempfile::tempdir().expect("a directory");
        for (name, sectors) in [
            ("sda", "1000215216"),
            ("cciss!c0d0", "2048"),
            ("loop3", "0"),
            ("zram0", "8"),
        ] {
            fs::create_dir(sys.path().join(name)).expect("room");
            fs::write(sys.path().join(name).join("size"), format!("{sectors}\n")).expect("room");
        }
        assert_eq!(
            disks(sys.path()),
            ["/dev/cciss/c0d0 (1.0 MB)", "/dev/sda (512.1 GB)"]
        );
    }
}
