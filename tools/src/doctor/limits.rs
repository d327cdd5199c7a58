//! Check of this process's resource limits, which a session would have too.

use super::dest::LITTLE_BYTES;
use super::{Fault, Findings, Fix};
use std::fs;

/// Files that a receiver of a directory may have open, with a margin over 17.
const MIN_OPEN_FILES: u64 = 24;

/// Checks the limits of this shell or unit; `bytes` will be written to one file.
pub fn check(bytes: Option<u64>, findings: &mut Findings) {
    let Ok(text) = fs::read_to_string("/proc/self/limits") else {
        return findings.skip("limits of the process: there is no /proc");
    };
    // ulimit counts files in blocks of 512 bytes or 1 KiB, depending on the shell.
    let wanted = [
        ("Max file size", bytes.unwrap_or(LITTLE_BYTES), "a file may have", "bytes", "ulimit -S -f unlimited"),
        ("Max open files", MIN_OPEN_FILES, "a process may have open", "files", "ulimit -S -n 1024"),
    ];
    for (name, least, says, unit, fix) in wanted {
        if let Some(limit) = soft_limit(&text, name).filter(|&limit| limit < least) {
            let what = format!("{says} {limit} {unit}, and {least} are wanted");
            findings.add(Fault::Limit, what, Fix::Command(fix.to_owned()));
        }
    }
}

fn soft_limit(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line[name.len()..].split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_counts() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max file size             unlimited            unlimited            bytes     \n\
                    Max open files            1024                 1048576              files     \n";
        assert_eq!(soft_limit(text, "Max open files"), Some(1024));
        assert_eq!(soft_limit(text, "Max file size"), None);
        assert_eq!(soft_limit(text, "Max nothing"), None);
    }
}
