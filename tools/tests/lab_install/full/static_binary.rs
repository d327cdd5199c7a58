//! The static program in an otherwise empty root directory.

use crate::{inside, packaged};
use ethbcast_tests::lab::{LIMIT, Run, Site, content, one_switch};
use std::fs;
use std::path::{Path, PathBuf};

/// Contents of an initramfs beside the program.
#[derive(Clone, Copy, Debug)]
enum Around {
    Nothing,
    /// /proc, and a /dev without random number devices.
    OddDev,
    /// /proc and the kernel's /dev.
    DevAndProc,
}

impl Around {
    /// Returns the shell commands that mount it over a root directory, in a mount namespace of its
    /// own.
    fn mounts(self) -> &'static str {
        match self {
            Around::Nothing => "true",
            Around::OddDev => {
                "mkdir $0/proc $0/dev && mount -t proc proc $0/proc && mount -t tmpfs dev $0/dev &&
                 mknod $0/dev/null c 1 3 && mknod $0/dev/console c 5 1"
            }
            Around::DevAndProc => "mkdir $0/proc $0/dev && mount -t proc proc $0/proc && mount -t devtmpfs dev $0/dev",
        }
    }
}

/// Creates a root directory for a host with the program and a directory `data`.
fn root(site: &Site, host: &str, program: &Path) -> PathBuf {
    let root = site.directory(host);
    fs::create_dir(root.join("data")).expect("made");
    fs::copy(program, root.join("ethbcast")).expect("copied");
    root
}

/// Starts the program in its root directory on a host without a name, with an empty environment.
fn start(site: &Site, host: &str, around: Around, arguments: &str) -> Run {
    let root = site.path(host);
    let mut command = site.command(host, "unshare");
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let unnamed = "echo '(none)' >/proc/sys/kernel/hostname";
    let alone = format!("exec env -i \"$(command -v chroot)\" $0 /ethbcast {arguments}");
    let enter = format!("{unnamed} && {} && {alone}", around.mounts());
    command.args(["--mount", "--uts", "sh", "-c", &enter]).arg(root);
    Run::start(host, command)
}

#[test]
fn the_static_binary_does_its_work_in_an_empty_root() {
    let program = packaged("static");
    let site = Site::beside("static", one_switch(3));
    let bytes = content(16, 3_000_001);
    for around in [Around::Nothing, Around::OddDev, Around::DevAndProc] {
        let roots = ["n0", "n1", "n2"].map(|host| root(&site, host, &program));
        fs::write(roots[0].join("data/source"), &bytes).expect("written");
        let version = inside(&roots[0], &["/ethbcast", "--version"]);
        assert_eq!(version, format!("ethbcast {}\n", env!("CARGO_PKG_VERSION")), "{around:?}");

        let receivers = ["n1", "n2"].map(|host| start(&site, host, around, "recv --max-wait 20 /data/dest"));
        let sender = start(&site, "n0", around, "send --json -n 2 --max-wait 20 /data/source").end(LIMIT);
        sender.assert_code(0);
        receivers.into_iter().for_each(|receiver| receiver.end(LIMIT).assert_code(0));
        for root in &roots[1..] {
            assert!(fs::read(root.join("data/dest")).expect("received") == bytes, "{around:?}: other bytes");
        }
        // Hosts without a name are identified by their addresses.
        let report = sender.json();
        let hosts: Vec<_> = (0..2).map(|at| report["receivers"][at]["host"].as_str().expect("a name")).collect();
        assert!(hosts.iter().all(|host| host.split(':').count() == 6) && hosts[0] != hosts[1], "{hosts:?}");
        roots.iter().for_each(|root| fs::remove_dir_all(root).expect("nothing is mounted any more"));
    }
}
