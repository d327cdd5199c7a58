//! Limits of this process, which a session's would be too.

use super::dest::LITTLE_BYTES;
use super::{Fault, Findings, Fix};
use std::fs;

/// A receiver of a directory has up to 17 open at once.
const LEAST_OPEN_FILES: u64 = 24;

/// Looks at what this shell or unit allows; `bytes` are to be written to one file.
pub fn check(bytes: Option<u64>, findings: &mut Findings) {
    let Ok(text) = fs::read_to_string("/proc/self/limits") else {
        return findings.skip("limits of the process: there is no /proc");
    };
    // ulimit counts files in blocks of 512 bytes or 1 KiB, by the shell.
    let wanted = [
        ("Max file size", bytes.unwrap_or(LITTLE_BYTES), "a file may have", "bytes", "ulimit -S -f unlimited"),
        ("Max open files", LEAST_OPEN_FILES, "a process may have open", "files", "ulimit -S -n 1024"),
    ];
    for (name, least, says, unit, fix) in wanted {
        if let Some(limit) = soft_limit(&text, name).filter(|&limit| limit < least) {
            let what = format!("{says} {limit} {unit}, and {least} are wanted");
            findings.add(Fault::Limit, what, Fix::Command(fix.to_owned()));
        }
    }
}

/// The soft limit of that name; `None` if there is none.
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
