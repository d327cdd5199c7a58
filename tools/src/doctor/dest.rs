//! DEST: is its directory there, may this user write to it, is there room?

use super::{Code, Findings};
use nix::sys::statvfs::statvfs;
use nix::unistd::{AccessFlags, access};
use std::path::Path;

/// Less than this is little for anything that is worth sending to all.
const LITTLE_BYTES: u64 = 64 << 20;

/// Looks at where `bytes` bytes are to go.
pub fn check(dest: &Path, bytes: Option<u64>, findings: &mut Findings) {
    let directory = if dest.is_dir() {
        dest
    } else {
        dest.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."))
    };
    let at = directory.display();
    if let Err(errno) = access(directory, AccessFlags::W_OK | AccessFlags::X_OK) {
        let fix = if directory.exists() { format!("chmod u+wx {at}") } else { format!("mkdir -p {at}") };
        return findings.add(Code::Dest, format!("nothing can be written in {at}: {errno}"), fix);
    }
    match statvfs(directory) {
        Ok(disk) => {
            let free = disk.blocks_available() as u64 * disk.fragment_size() as u64;
            let wanted = bytes.unwrap_or(LITTLE_BYTES);
            if free < wanted {
                let what = format!("{at} has {free} bytes free, and {wanted} are wanted");
                findings.add(
                    Code::Space,
                    what,
                    format!("df {at}; du -x --max-depth=1 {at}: remove what is not needed"),
                );
            }
        }
        Err(errno) => findings.skip(format!("room in {at}: {errno}")),
    }
}
