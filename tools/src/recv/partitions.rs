//! Rereading of the partition table of a disk that was written.

use crate::program::quiet;
use ethbcast_content::dest::Dest;
use std::sync::Arc;

/// Makes the kernel reread the partition table of DEST, if it is a whole disk with one. A refusal
/// is logged.
pub fn read_again(dest: Arc<Dest>) {
    let Dest::Device { path, device } = &*dest else { return };
    if !device.has_new_partitions() {
        return;
    }
    let path = path.clone();
    // The kernel refuses while this process has the device open exclusively.
    if Arc::into_inner(dest).is_none() {
        log::warn!("{} is still open: its partitions are not looked for", path.display());
        return;
    }
    if let Err(why) = quiet("blockdev", &["--rereadpt".as_ref(), path.as_os_str()]) {
        crate::exit::print_line(format_args!(
            "ethbcast: the kernel has not read the partition table of {0} ({why}): `blockdev --rereadpt {0}`, or \
             restart the machine, before its partitions are used",
            path.display()
        ));
    }
}
