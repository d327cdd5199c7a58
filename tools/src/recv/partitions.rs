//! Partitions of a disk that has just been written: the kernel has to read its table again, before anybody looks for
//! them.

use crate::program::quiet;
use ethbcast_content::dest::Dest;
use std::sync::Arc;

/// Has the kernel read the partition table of DEST, if it is a whole disk and has one; what the kernel refuses is said.
pub fn read_again(dest: Arc<Dest>) {
    let Dest::Device { path, device } = &*dest else { return };
    if !device.has_new_partitions() {
        return;
    }
    let path = path.clone();
    // As long as this process has it open for itself nobody else may ask for that.
    if Arc::into_inner(dest).is_none() {
        log::warn!("{} is still open: its partitions are not looked for", path.display());
        return;
    }
    if let Err(why) = quiet("blockdev", &["--rereadpt".as_ref(), path.as_os_str()]) {
        crate::exit::say(format_args!(
            "ethbcast: the kernel has not read the partition table of {0} ({why}): `blockdev --rereadpt {0}`, or \
             restart the machine, before its partitions are used",
            path.display()
        ));
    }
}
