//! Tests of packages that take minutes to build, run by `./test --full` only.

use super::{PROMISED, inside, packaged, printed, tree};
use ethbcast_tests::lab::{LIMIT, Run, Site, content, one_switch};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use tempfile::TempDir;

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
            Around::DevAndProc => {
                "mkdir $0/proc $0/dev && mount -t proc proc $0/proc && mount -t devtmpfs dev $0/dev"
            }
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
    command
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let unnamed = "echo '(none)' >/proc/sys/kernel/hostname";
    let alone = format!("exec env -i \"$(command -v chroot)\" $0 /ethbcast {arguments}");
    let enter = format!("{unnamed} && {} && {alone}", around.mounts());
    command
        .args(["--mount", "--uts", "sh", "-c", &enter])
        .arg(root);
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
        assert_eq!(
            version,
            format!("ethbcast {}\n", env!("CARGO_PKG_VERSION")),
            "{around:?}"
        );

        let receivers =
            ["n1", "n2"].map(|host| start(&site, host, around, "recv --max-wait 20 /data/dest"));
        let sender = start(
            &site,
            "n0",
            around,
            "send --json -n 2 --max-wait 20 /data/source",
        )
        .end(LIMIT);
        sender.assert_code(0);
        receivers
            .into_iter()
            .for_each(|receiver| receiver.end(LIMIT).assert_code(0));
        for root in &roots[1..] {
            assert!(
                fs::read(root.join("data/dest")).expect("received") == bytes,
                "{around:?}: other bytes"
            );
        }
        // Hosts without a name are identified by their addresses.
        let report = sender.json();
        let hosts: Vec<_> = (0..2)
            .map(|at| report["receivers"][at]["host"].as_str().expect("a name"))
            .collect();
        assert!(
            hosts.iter().all(|host| host.split(':').count() == 6) && hosts[0] != hosts[1],
            "{hosts:?}"
        );
        roots
            .iter()
            .for_each(|root| fs::remove_dir_all(root).expect("nothing is mounted any more"));
    }
}

/// Files of dpkg and ldconfig that change with every installation.
const BOOKS: [&str; 3] = ["var/lib/dpkg", "var/log", "var/cache/ldconfig"];

/// Unpacks the essential packages of this machine's Debian, which are downloaded once.
fn fresh_debian() -> TempDir {
    let kept = tree().join("target/packages/debian.tar");
    if !kept.is_file() {
        let system = fs::read_to_string("/etc/os-release").expect("a system has a name");
        let suite = system
            .lines()
            .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
            .expect("a Debian");
        let made = kept.with_extension("new.tar");
        let mut command = Command::new("mmdebstrap");
        command
            .args(["--quiet", "--variant=essential", suite])
            .arg(&made);
        printed(command);
        fs::rename(made, &kept).expect("beside it");
    }
    let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let mut command = Command::new("tar");
    command
        .arg("--extract")
        .arg("--file")
        .arg(kept)
        .arg("--directory")
        .arg(root.path());
    printed(command);
    root
}

/// Returns all files, links and directories below, except for `BOOKS`.
fn all_in(root: &Path) -> BTreeSet<String> {
    let mut command = Command::new("find");
    command
        .arg(root)
        .args(["-mindepth", "1", "-printf", "%P\n"]);
    let found = printed(command);
    let is_content = |path: &&str| !BOOKS.iter().any(|book| path.starts_with(book));
    found
        .lines()
        .filter(is_content)
        .map(str::to_owned)
        .collect()
}

/// Compiles a C program against the package's files in a root directory.
fn compiled_against(root: &Path, library: &Path) -> PathBuf {
    let program = root.join("broadcast");
    let mut compiler = Command::new("gcc");
    compiler
        .arg("-I")
        .arg(root.join("usr/include"))
        .arg(tree().join("collectives/c/examples/broadcast.c"));
    compiler
        .arg("-L")
        .arg(library)
        .arg("-lethbcast")
        .arg("-o")
        .arg(&program);
    printed(compiler);
    program
}

/// Sends a file from one host of eight to all others with the installed program.
fn spread(site: &Site, root: &Path) {
    let bytes = content(8, 4_000_000);
    fs::write(root.join("tmp/source"), &bytes).expect("written");
    let start = |host: &str, words: &[&str]| {
        let mut command = site.command(host, "chroot");
        command.arg(root).arg("ethbcast").args(words);
        Run::start(host, command)
    };
    let receiver = |host: usize| {
        start(
            &format!("n{host}"),
            &["recv", "--max-wait", "20", &format!("/tmp/{host}")],
        )
    };
    let receivers: Vec<Run> = (1..8).map(receiver).collect();
    start(
        "n0",
        &["send", "-n", "7", "--max-wait", "20", "/tmp/source"],
    )
    .end(LIMIT)
    .assert_code(0);
    receivers
        .into_iter()
        .for_each(|receiver| receiver.end(LIMIT).assert_code(0));
    for host in 1..8 {
        assert!(
            fs::read(root.join(format!("tmp/{host}"))).expect("received") == bytes,
            "other bytes at n{host}"
        );
        fs::remove_file(root.join(format!("tmp/{host}"))).expect("it is ours");
    }
    fs::remove_file(root.join("tmp/source")).expect("it is ours");
}

/// Builds the package twice, and checks that the results are identical.
fn package() -> PathBuf {
    let package = packaged("deb");
    let first = fs::read(&package).expect("it was made");
    fs::remove_file(&package).expect("it is ours");
    assert!(
        fs::read(packaged("deb")).expect("it was made") == first,
        "another package of the same tree"
    );
    package
}

#[test]
fn the_debian_package_works_in_a_fresh_debian_and_leaves_nothing_there() {
    let package = package();
    let debian = fresh_debian();
    let root = debian.path();
    let before = all_in(root);
    let site = Site::beside("debian", one_switch(8));

    fs::copy(&package, root.join("tmp/ethbcast.deb")).expect("copied");
    let began = Instant::now();
    inside(root, &["dpkg", "-i", "/tmp/ethbcast.deb"]);
    spread(&site, root);
    println!(
        "from the package to a file on 8 hosts: {:.2} s",
        began.elapsed().as_secs_f64()
    );
    fs::remove_file(root.join("tmp/ethbcast.deb")).expect("it is ours");

    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        inside(root, &["ethbcast", "--version"]),
        format!("ethbcast {version}\n")
    );
    let missing: Vec<_> = PROMISED
        .iter()
        .filter(|file| !root.join(file).is_file())
        .collect();
    assert!(missing.is_empty(), "the package lacks {missing:?}");
    inside(root, &["ethbcast", "config", "check"]);

    let owned = inside(root, &["dpkg", "-L", "ethbcast"]);
    let pkg_config = owned
        .lines()
        .find(|path| path.ends_with("/ethbcast.pc"))
        .expect("for pkg-config");
    let library = Path::new(pkg_config)
        .parent()
        .and_then(Path::parent)
        .expect("a directory of libraries");
    let described = fs::read_to_string(root.join(&pkg_config[1..])).expect("it is there");
    assert!(
        described.contains(&format!("libdir={}\n", library.display())),
        "{described}"
    );
    let program = compiled_against(
        root,
        &root.join(library.strip_prefix("/").expect("an absolute path")),
    );
    // It starts, so that it found its library by its linked name, and it sees no network.
    let mut command = Command::new("unshare");
    command
        .args(["--net", "chroot"])
        .arg(root)
        .args(["/broadcast", "4"]);
    let said = Run::to_end(command, LIMIT).stderr;
    assert!(said.starts_with("join: "), "{said}");
    fs::remove_file(program).expect("it is ours");

    inside(root, &["dpkg", "--purge", "ethbcast"]);
    let after = all_in(root);
    let left: Vec<_> = after.symmetric_difference(&before).collect();
    assert!(
        left.is_empty(),
        "purged, the package leaves or takes {left:?}"
    );
}
