//! Test helper: disks that are too small, or that lose written data.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, bail};

use super::{LIMIT, Run};

/// Time for which a process that starts at the wrong moment may hold a copy of a mount.
const UNDO_LIMIT: Duration = Duration::from_secs(5);

/// A directory for mounts that come and go while programs with their own mount namespace run (`ip
/// netns exec` gives them one): an unmount here also happens there.
#[derive(Debug)]
pub struct SharedDirectory {
    at: PathBuf,
}

impl SharedDirectory {
    pub fn make(at: &Path) -> anyhow::Result<Self> {
        run("mount", &["--bind", text(at)?, text(at)?])?;
        let shared = Self { at: at.to_owned() };
        run("mount", &["--make-shared", text(at)?])?;
        Ok(shared)
    }
}

impl Drop for SharedDirectory {
    fn drop(&mut self) {
        undo("umount", &[&self.at.to_string_lossy()]);
    }
}

/// A file system in memory of limited size, unmounted on drop.
#[derive(Debug)]
pub struct SmallDisk {
    at: PathBuf,
}

impl SmallDisk {
    /// Mounts the file system over an empty directory.
    pub fn mount(at: &Path, bytes: u64) -> anyhow::Result<Self> {
        run(
            "mount",
            &[
                "-t",
                "tmpfs",
                "-o",
                &format!("size={bytes}"),
                "ethbcast-tests",
                text(at)?,
            ],
        )?;
        Ok(Self { at: at.to_owned() })
    }

    /// Sets the file system's total size in bytes.
    pub fn resize(&self, bytes: u64) -> anyhow::Result<()> {
        run(
            "mount",
            &["-o", &format!("remount,size={bytes}"), text(&self.at)?],
        )
        .map(drop)
    }

    pub fn fill(&self) -> anyhow::Result<()> {
        use std::io::Write;
        let mut file = fs::File::create(self.at.join("of-somebody-else"))?;
        while file.write_all(&[1; 1 << 16]).is_ok() {}
        // The last page may hold less than a block.
        while file.write_all(&[1; 1 << 12]).is_ok() {}
        Ok(())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        undo("umount", &[&self.at.to_string_lossy()]);
    }
}

#[derive(Debug)]
pub struct LoopDevice {
    path: String,
}

impl LoopDevice {
    pub fn attach(image: &Path) -> anyhow::Result<Self> {
        LoopDevice::with(image, &[])
    }

    pub fn with(image: &Path, options: &[&str]) -> anyhow::Result<Self> {
        Ok(Self {
            path: run(
                "losetup",
                &[&["--find", "--show"], options, &[text(image)?]].concat(),
            )?,
        })
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the device's directory in `/sys/block`.
    pub fn told(&self) -> PathBuf {
        Path::new("/sys/block").join(Path::new(&self.path).file_name().unwrap_or_default())
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let backing = || fs::read_to_string(self.told().join("loop/backing_file")).ok();
        let before = backing();
        undo("losetup", &["--detach", &self.path]);
        // The kernel delays the detachment while any process has the device open, as one that
        // searches for a free device does for a moment.
        let gone = super::within(UNDO_LIMIT, || {
            (backing().is_none() || backing() != before).then_some(())
        });
        assert!(
            thread::panicking() || gone.is_some(),
            "{} is still there",
            self.path
        );
    }
}

/// ext4 on a loop device over a sparse file, in a file system too small for it until it is
/// enlarged: written data is lost when the kernel writes it back, and a sync reports that.
#[derive(Debug)]
pub struct ThinDisk {
    mount: PathBuf,
    is_mounted: bool,
    // Fields are dropped in this order.
    device: LoopDevice,
    store: SmallDisk,
}

impl ThinDisk {
    /// Makes a disk with room for about `room_mib` MiB that claims to have 96. Both directories are
    /// empty, and lie in a [`SharedDirectory`] if other programs may start meanwhile.
    pub fn make(store: &Path, mount: &Path, room_mib: u64) -> anyhow::Result<Self> {
        let image = store.join("image");
        let store = SmallDisk::mount(store, room_mib << 20)?;
        fs::File::create(&image)
            .and_then(|file| file.set_len(96 << 20))
            .context("a sparse file")?;
        let device = LoopDevice::attach(&image)?;
        let mut disk = Self {
            mount: mount.to_owned(),
            is_mounted: false,
            device,
            store,
        };
        // Without a journal only the lost blocks fail, as on a thin pool that queues writes of
        // metadata; a few inodes take little of the room.
        let few = [
            "-q",
            "-O",
            "^has_journal",
            "-N",
            "64",
            "-E",
            "lazy_itable_init=0",
        ];
        run("mkfs.ext4", &[&few[..], &[disk.device.path()]].concat())?;
        run("mount", &[disk.device.path(), text(&disk.mount)?])?;
        disk.is_mounted = true;
        Ok(disk)
    }

    pub fn mount(&self) -> &Path {
        &self.mount
    }

    /// Writes back cached blocks; returns whether some were lost that no earlier call reported.
    pub fn has_lost_blocks(&self) -> bool {
        fs::File::open(&self.mount).is_ok_and(|mount| nix::unistd::syncfs(mount).is_err())
    }

    pub fn grow(&self) -> anyhow::Result<()> {
        self.store.resize(200 << 20)
    }

    /// Drops the cache: from now on reads return the disk's own data.
    pub fn reread(&self) -> anyhow::Result<()> {
        run("umount", &[text(&self.mount)?])?;
        run("mount", &[self.device.path(), text(&self.mount)?]).map(drop)
    }
}

impl Drop for ThinDisk {
    fn drop(&mut self) {
        if self.is_mounted {
            undo("umount", &[&self.mount.to_string_lossy()]);
        }
    }
}

fn run(program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    let mut run = Run::start(program, command);
    if run.ended_by(Instant::now() + LIMIT).is_none() {
        bail!(
            "`{program} {}` has not ended within {LIMIT:?}",
            arguments.join(" ")
        );
    }
    let ended = run.end(LIMIT);
    if ended.code() != 0 {
        bail!(
            "`{program} {}`: {}",
            arguments.join(" "),
            ended.stderr.trim()
        );
    }
    Ok(ended.stdout_text().trim().to_owned())
}

fn text(path: &Path) -> anyhow::Result<&str> {
    path.to_str().context("a path with a UTF-8 name")
}

/// Undoes a mount. A process that starts at this moment has a copy of the mounts for a while.
fn undo(program: &str, arguments: &[&str]) {
    let undone = super::within(UNDO_LIMIT, || run(program, arguments).is_ok().then_some(()));
    assert!(
        thread::panicking() || undone.is_some(),
        "{program} {arguments:?}"
    );
}
