//! The program without root's privileges.

use crate::harness::{PROGRAM, Run, Site};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// A copy of the program that every user can run, and the way to run it as user nobody.
pub struct Nobody {
    directory: tempfile::TempDir,
}

impl Nobody {
    pub fn new() -> Nobody {
        // Not in /dev/shm, which may be mounted `noexec`.
        let directory = tempfile::tempdir().expect("a temporary directory");
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
        fs::copy(PROGRAM, directory.path().join("ethbcast")).expect("copied");
        Nobody { directory }
    }

    /// Starts the program on a host as nobody, with these capabilities in `setpriv`'s syntax.
    pub fn start(
        &self,
        site: &Site,
        host: &str,
        capabilities: &str,
        arguments: &[&str],
        path: impl AsRef<OsStr>,
    ) -> Run {
        self.start_with(site, host, capabilities, arguments, path, |_| {})
    }

    /// Starts it with further settings of the command.
    pub fn start_with(
        &self,
        site: &Site,
        host: &str,
        capabilities: &str,
        arguments: &[&str],
        path: impl AsRef<OsStr>,
        more: impl FnOnce(&mut Command),
    ) -> Run {
        let mut command = site.command(host, "setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps", capabilities]);
        command
            .args(["--ambient-caps", capabilities])
            .arg(self.directory.path().join("ethbcast"))
            .args(arguments)
            .arg(path);
        more(&mut command);
        Run::start(host, command)
    }
}
