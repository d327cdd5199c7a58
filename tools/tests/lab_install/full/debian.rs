//! The Debian package in a minimal Debian.

use crate::{PROMISED, inside, packaged, printed, tree};
use ethbcast_tests::lab::{LIMIT, Run, Site, content, one_switch};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use tempfile::TempDir;

/// Files of dpkg and ldconfig that change with every installation.
const BOOKS: [&str; 3] = ["var/lib/dpkg", "var/log", "var/cache/ldconfig"];

/// Unpacks the essential packages of this machine's Debian, which are downloaded once.
fn fresh_debian() -> TempDir {
    let kept = tree().join("target/packages/debian.tar");
    if !kept.is_file() {
        let system = fs::read_to_string("/etc/os-release").expect("a system has a name");
        let suite = system.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME=")).expect("a Debian");
        let made = kept.with_extension("new.tar");
        let mut command = Command::new("mmdebstrap");
        command.args(["--quiet", "--variant=essential", suite]).arg(&made);
        printed(command);
        fs::rename(made, &kept).expect("beside it");
    }
    let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let mut command = Command::new("tar");
    command.arg("--extract").arg("--file").arg(kept).arg("--directory").arg(root.path());
    printed(command);
    root
}

/// Returns all files, links and directories below, except for `BOOKS`.
fn all_in(root: &Path) -> BTreeSet<String> {
    let mut command = Command::new("find");
    command.arg(root).args(["-mindepth", "1", "-printf", "%P\n"]);
    let found = printed(command);
    let is_content = |path: &&str| !BOOKS.iter().any(|book| path.starts_with(book));
    found.lines().filter(is_content).map(str::to_owned).collect()
}

/// Compiles a C program against the package's files in a root directory.
fn compiled_against(root: &Path, library: &Path) -> PathBuf {
    let program = root.join("broadcast");
    let mut compiler = Command::new("gcc");
    compiler.arg("-I").arg(root.join("usr/include")).arg(tree().join("collectives/c/examples/broadcast.c"));
    compiler.arg("-L").arg(library).arg("-lethbcast").arg("-o").arg(&program);
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
    let receiver = |host: usize| start(&format!("n{host}"), &["recv", "--max-wait", "20", &format!("/tmp/{host}")]);
    let receivers: Vec<Run> = (1..8).map(receiver).collect();
    start("n0", &["send", "-n", "7", "--max-wait", "20", "/tmp/source"]).end(LIMIT).assert_code(0);
    receivers.into_iter().for_each(|receiver| receiver.end(LIMIT).assert_code(0));
    for host in 1..8 {
        assert!(fs::read(root.join(format!("tmp/{host}"))).expect("received") == bytes, "other bytes at n{host}");
        fs::remove_file(root.join(format!("tmp/{host}"))).expect("it is ours");
    }
    fs::remove_file(root.join("tmp/source")).expect("it is ours");
}

/// Builds the package twice, and checks that the results are identical.
fn package() -> PathBuf {
    let package = packaged("deb");
    let first = fs::read(&package).expect("it was made");
    fs::remove_file(&package).expect("it is ours");
    assert!(fs::read(packaged("deb")).expect("it was made") == first, "another package of the same tree");
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
    println!("from the package to a file on 8 hosts: {:.2} s", began.elapsed().as_secs_f64());
    fs::remove_file(root.join("tmp/ethbcast.deb")).expect("it is ours");

    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(inside(root, &["ethbcast", "--version"]), format!("ethbcast {version}\n"));
    let missing: Vec<_> = PROMISED.iter().filter(|file| !root.join(file).is_file()).collect();
    assert!(missing.is_empty(), "the package lacks {missing:?}");
    inside(root, &["ethbcast", "config", "check"]);

    let owned = inside(root, &["dpkg", "-L", "ethbcast"]);
    let pkg_config = owned.lines().find(|path| path.ends_with("/ethbcast.pc")).expect("for pkg-config");
    let library = Path::new(pkg_config).parent().and_then(Path::parent).expect("a directory of libraries");
    let described = fs::read_to_string(root.join(&pkg_config[1..])).expect("it is there");
    assert!(described.contains(&format!("libdir={}\n", library.display())), "{described}");
    let program = compiled_against(root, &root.join(library.strip_prefix("/").expect("an absolute path")));
    // It starts, so that it found its library by its linked name, and it sees no network.
    let mut command = Command::new("unshare");
    command.args(["--net", "chroot"]).arg(root).args(["/broadcast", "4"]);
    let said = Run::to_end(command, LIMIT).stderr;
    assert!(said.starts_with("join: "), "{said}");
    fs::remove_file(program).expect("it is ours");

    inside(root, &["dpkg", "--purge", "ethbcast"]);
    let after = all_in(root);
    let left: Vec<_> = after.symmetric_difference(&before).collect();
    assert!(left.is_empty(), "purged, the package leaves or takes {left:?}");
}
