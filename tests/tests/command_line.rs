//! What the tool says no to, with which code and which words; and what its `lab` commands do.

use ethbcast_collectives::topology::Topology;
use ethbcast_lab::{Lab, LabConfig};
use ethbcast_tests::tool::{
    Ended, LIMIT, Run, Site, Transfer, content, lab_name, names_in, one_switch, program, require_root, within,
};
use nix::sys::signal::Signal;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const MEBIBYTE: usize = 1 << 20;

/// The tool on this machine itself, outside every lab.
fn here(arguments: &[&str]) -> Run {
    let mut command = Command::new(program());
    command.args(arguments).env_remove("RUST_LOG").stdin(Stdio::null());
    Run::start(&arguments.join(" "), command)
}

fn ended_here(arguments: &[&str]) -> Ended {
    here(arguments).end(LIMIT)
}

// ---- Mistakes on the command line itself ----

#[test]
fn what_clap_does_not_understand_is_a_usage_error() {
    for (arguments, part) in [
        (&["frobnicate"][..], "frobnicate"),
        (&["send"], "SOURCE"),
        (&["recv"], "DEST"),
        (&["recv", "a", "b"], "unexpected"),
        (&["send", "--no-such-flag", "file"], "--no-such-flag"),
        (&["send", "-n", "0", "file"], "1..65535"),
        (&["send", "-n", "many", "file"], "many"),
        (&["send", "-n", "2", "--min-receivers", "1", "--max-wait", "1", "file"], "cannot be used with"),
        (&["send", "--min-receivers", "1", "file"], "--max-wait"),
        (&["send", "--max-wait=-1", "file"], "number of seconds"),
        (&["recv", "--max-wait", "soon", "file"], "number of seconds"),
        (&["send", "--ether-type", "0800x", "file"], "hexadecimal"),
        (&["send", "--ether-type", "5ff", "file"], "not EtherTypes"),
        (&["lab", "up"], "TOPOLOGY"),
        (&["lab", "exec", "n0"], "COMMAND"),
    ] {
        let ended = ended_here(arguments);
        ended.assert_code(2);
        assert!(ended.stderr.contains(part), "{arguments:?} should mention {part:?}: {}", ended.stderr);
        assert_eq!(ended.stdout_text(), "", "{arguments:?}");
    }
    ended_here(&[]).assert_code(2);
    for asked in ["--help", "--version"] {
        let ended = ended_here(&[asked]);
        ended.assert_code(0);
        assert!(
            ended.stdout_text().contains("ethbcast") && ended.stderr.is_empty(),
            "{asked} is an answer, not an error: {ended:?}"
        );
    }
}

#[test]
fn what_clap_lets_pass_and_cannot_be_meant_is_a_usage_error_too() {
    let long = "g".repeat(65);
    ended_here(&["send", "--via", "pigeon", "file"]).assert_refusal(2, &["pigeon", "chain", "cast", "auto"]);
    ended_here(&["send", "-g", &long, "file"]).assert_refusal(2, &["65 bytes", "1 to 64", "-g"]);
    ended_here(&["recv", "-g", &long, "file"]).assert_refusal(2, &["65 bytes", "1 to 64", "-g"]);
    ended_here(&["recv", "-g", "", "file"]).assert_refusal(2, &["0 bytes", "1 to 64"]);
    ended_here(&["recv", "--json", "-"]).assert_refusal(2, &["stdout", "--json", "into a file"]);
}

// ---- The interface ----

#[test]
fn an_interface_that_will_not_do_is_refused_with_what_to_type_instead() {
    let site = Site::beside("iface", one_switch(2));
    let source = site.file("source", "text");
    for (command, path) in [("send", source.as_path()), ("recv", site.path("dest").as_path())] {
        site.run("n0", &[command, "-i", "eth7"], path).assert_refusal(4, &["no interface eth7", "eth0", "-i"]);
        site.run("n0", &[command, "-i", "lo"], path).assert_refusal(4, &["lo is not an Ethernet interface", "-i"]);
        site.set_up("n1", "ip", &["link", "set", "eth0", "down"]);
        site.run("n1", &[command, "-i", "eth0"], path).assert_refusal(4, &["eth0 is down", "ip link set eth0 up"]);
        site.run("n1", &[command], path).assert_refusal(4, &["no Ethernet interface is up", "ip link set"]);
        site.set_up("n1", "ip", &["link", "set", "eth0", "up"]);
    }
    site.set_up("n0", "ip", &["link", "add", "eth1", "type", "veth", "peer", "name", "eth2"]);
    ["eth1", "eth2"].into_iter().for_each(|name| site.set_up("n0", "ip", &["link", "set", name, "up"]));
    site.run("n0", &["send"], &source).assert_refusal(4, &["several", "eth0", "eth1", "eth2", "-i"]);
    site.run("n0", &["send", "-i", "eth0", "--mtu", "1501"], &source).assert_refusal(2, &["--mtu 1501", "at most 1500"]);
    site.run("n0", &["send", "-i", "eth0", "--mtu", "100"], &source).assert_refusal(2, &["100", "at least 576"]);
    // The only interface that is up needs no name.
    site.run("n1", &["send", "--max-wait", "0.1"], &source).assert_code(3);
}

/// A copy of the program that every user can reach, and how to run it as user nobody.
struct Nobody {
    directory: tempfile::TempDir,
}

impl Nobody {
    fn new() -> Nobody {
        // Not in /dev/shm: programs may be forbidden to run from there.
        let directory = tempfile::tempdir().expect("a temporary directory");
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
        fs::copy(program(), directory.path().join("ethbcast")).expect("copied");
        Nobody { directory }
    }

    /// Starts the tool on a host as nobody, with these capabilities in the spelling of `setpriv`.
    fn start(&self, site: &Site, host: &str, capabilities: &str, arguments: &[&str], path: impl AsRef<OsStr>) -> Run {
        let mut command = site.command(host, "setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps", capabilities]);
        command.args(["--ambient-caps", capabilities]).arg(self.directory.path().join("ethbcast")).args(arguments).arg(path);
        Run::start(host, command)
    }
}

#[test]
fn without_root_the_tool_names_the_capability_it_needs_and_with_it_it_works() {
    let site = Site::beside("nobody", one_switch(2));
    let nobody = Nobody::new();
    let (source, directory) = (site.file("source", "text"), site.directory("open"));
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).expect("it is ours");
    let dest = directory.join("dest");
    for (command, path) in [("send", &source), ("recv", &dest)] {
        let refused = nobody.start(&site, "n0", "-all", &[command, "-i", "eth0"], path).end(LIMIT);
        refused.assert_refusal(4, &["not permitted", "root", "cap_net_raw"]);
    }
    nobody
        .start(&site, "n0", "-all", &["lab", "up", "--lab", &lab_name("never")], "2")
        .end(LIMIT)
        .assert_refusal(4, &["root", "sudo"]);
    assert_eq!(names_in(&directory), [""; 0]);
    let raw = "-all,+net_raw";
    let receiver = nobody.start(&site, "n1", raw, &["recv", "-i", "eth0", "--max-wait", "10"], &dest);
    nobody.start(&site, "n0", raw, &["send", "-i", "eth0", "--max-wait", "10"], &source).end(LIMIT).assert_code(0);
    receiver.end(LIMIT).assert_code(0);
    assert_eq!(fs::read(&dest).expect("received"), b"text");
}

// ---- SOURCE and DEST ----

#[test]
fn a_source_that_cannot_be_read_is_refused_before_anybody_is_waited_for() {
    let site = Site::beside("source", one_switch(2));
    let missing = site.path("missing");
    site.run("n0", &["send", "-i", "eth0"], &missing).assert_refusal(4, &["cannot read SOURCE", "missing", "No such file"]);
    let secret = site.file("secret", "text");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("it is ours");
    let unreadable = Nobody::new().start(&site, "n0", "-all,+net_raw", &["send", "-i", "eth0"], &secret).end(LIMIT);
    unreadable.assert_refusal(4, &["cannot read SOURCE", "secret", "ermission denied"]);
    let directory = site.directory("directory");
    site.run("n0", &["send", "-i", "eth0"], &directory).assert_refusal(2, &["is a directory", "tar c", "ethbcast send"]);
}

#[test]
fn a_source_that_breaks_while_it_is_read_fails_everybody_and_leaves_nothing() {
    let site = Site::beside("broken", one_switch(2));
    let directory = site.directory("dest");
    let receiver = site.start("n1", &["recv", "-i", "eth0", "--max-wait", "10"], directory.join("file"));
    // A file that can be opened, and answers every read at its beginning with an error.
    let root = site.run("n0", &["send", "-i", "eth0", "--max-wait", "10"], "/proc/self/mem");
    root.assert_refusal(4, &["reading SOURCE", "/proc/self/mem", "failed"]);
    receiver.end(LIMIT).assert_refusal(1, &["reading SOURCE"]);
    assert_eq!(names_in(&directory), [""; 0]);
}

#[test]
fn a_dest_that_cannot_be_written_is_refused_at_once() {
    let site = Site::beside("dest", one_switch(2));
    let existing = site.file("existing", "old");
    site.run("n1", &["recv", "-i", "eth0"], &existing).assert_refusal(4, &["existing", "exists", "--force"]);
    assert_eq!(fs::read(&existing).expect("still there"), b"old");
    let nowhere = site.path("no/such/file");
    site.run("n1", &["recv", "-i", "eth0"], &nowhere).assert_refusal(4, &["no/such", "does not exist", "mkdir -p"]);
    let closed = site.directory("closed");
    let refused = Nobody::new().start(&site, "n1", "-all,+net_raw", &["recv", "-i", "eth0"], closed.join("file")).end(LIMIT);
    refused.assert_refusal(4, &["cannot write", "closed", "another DEST"]);
    assert_eq!(names_in(&closed), [""; 0]);
}

#[test]
fn force_replaces_dest_and_a_directory_takes_the_file_under_its_own_name() {
    let site = Site::beside("force", one_switch(3));
    let source = site.file("source.txt", "new");
    let (existing, directory) = (site.file("existing", "old and longer"), site.directory("directory"));
    let receivers = [
        site.start("n1", &["recv", "-i", "eth0", "--force", "--max-wait", "10"], &existing),
        site.start("n2", &["recv", "-i", "eth0", "--max-wait", "10"], &directory),
    ];
    site.run("n0", &["send", "-i", "eth0", "-n", "2"], &source).assert_code(0);
    receivers.into_iter().for_each(|receiver| receiver.end(LIMIT).assert_code(0));
    assert_eq!(fs::read(&existing).expect("replaced"), b"new");
    assert_eq!(names_in(&directory), ["source.txt"]);
    // A second time the directory holds a file of that name, which only the invitation tells.
    fs::write(&source, "newer").expect("written");
    let receiver = site.start("n2", &["recv", "-i", "eth0", "--max-wait", "10"], &directory);
    let root = site.run("n0", &["send", "-i", "eth0", "--max-wait", "10"], &source);
    receiver.end(LIMIT).assert_refusal(4, &["source.txt", "exists", "--force"]);
    root.assert_code(1);
    assert_eq!(names_in(&directory), ["source.txt"]);
    assert_eq!(fs::read(directory.join("source.txt")).expect("still there"), b"new");
}

#[test]
fn a_dest_that_can_never_be_a_file_is_refused_before_the_first_byte() {
    let site = Site::beside("nofile", one_switch(2));
    let long = site.path(&"n".repeat(256));
    site.run("n1", &["recv", "-i", "eth0", "--max-wait", "1"], &long).assert_refusal(4, &["nnn", "too long"]);
    let slash = site.path("new/");
    site.run("n1", &["recv", "-i", "eth0", "--max-wait", "1"], &slash).assert_refusal(4, &["new/", "directory"]);
}

#[test]
fn a_reader_of_stdout_that_goes_away_fails_its_receiver() {
    let site = Site::beside("closed", one_switch(2));
    let source = site.file("source.bin", content(4, 4 * MEBIBYTE));
    let mut receive = site.command("n1", "sh");
    receive
        .args(["-c", "{ \"$0\" recv -i eth0 --max-wait 10 -; echo $? > \"$1\"; } | head -c 10"])
        .arg(program())
        .arg(site.path("code"));
    let receiver = Run::start("n1", receive);
    let root = site.run("n0", &["send", "-i", "eth0", "--max-wait", "10"], &source);
    root.assert_code(1);
    assert!(root.stderr.contains("n1 (write-failed)"), "{}", root.stderr);
    receiver.end(LIMIT).assert_code(0);
    assert_eq!(fs::read_to_string(site.path("code")).expect("written"), "4\n");
}

#[test]
fn a_report_that_cannot_be_printed_is_an_error_and_no_panic() {
    let site = Site::beside("full", one_switch(2));
    let source = site.file("source", "text");
    let receiver = site.start("n1", &["recv", "-i", "eth0", "--max-wait", "10"], site.path("dest"));
    let mut send = site.command("n0", "sh");
    send.args(["-c", "\"$0\" send --json -i eth0 --max-wait 10 \"$1\" > /dev/full"]).arg(program()).arg(&source);
    let root = Run::start("n0", send).end(LIMIT);
    receiver.end(LIMIT).assert_code(0);
    assert!(!root.stderr.contains("panicked"), "{}", root.stderr);
    root.assert_refusal(4, &["stdout"]);
}

#[test]
fn ctrl_c_ends_what_waits_for_a_pipe() {
    let site = Site::alone("pipes", one_switch(2));
    let soon = Duration::from_secs(2);
    // Nobody opens the other end of this one: even opening it waits.
    let status = Command::new("mkfifo").arg(site.path("pipe")).status().expect("mkfifo starts");
    assert!(status.success());
    let root = site.start("n0", &["send", "-i", "eth0"], site.path("pipe"));
    std::thread::sleep(Duration::from_millis(300));
    root.signal(Signal::SIGINT);
    root.end(soon).assert_refusal(130, &["interrupted"]);
    // Nothing ever comes out of this one.
    let mut send = site.ethbcast("n0", ["send", "-i", "eth0", "-"]);
    send.stdin(Stdio::piped());
    let root = Run::start("n0", send);
    let receiver = site.start("n1", &["recv", "-i", "eth0"], site.path("dest"));
    root.wait_for_line("n1 joined");
    root.signal(Signal::SIGINT);
    root.end(soon).assert_refusal(130, &["interrupted"]);
    receiver.end(soon).assert_refusal(1, &["interrupted"]);
}

#[test]
fn ctrl_c_ends_a_receiver_whose_reader_has_stopped_reading() {
    let site = Site::alone("stuck", one_switch(2));
    let source = site.file("source.bin", content(5, 48 * MEBIBYTE));
    // More than the buffers on the way hold, so that the disk thread is inside a write.
    let receiver = Run::unread("n1", site.ethbcast("n1", ["recv", "-i", "eth0", "--max-wait", "10", "-"]));
    let root = site.start("n0", &["send", "-i", "eth0", "--max-wait", "10"], &source);
    root.wait_for_line("sending");
    std::thread::sleep(Duration::from_millis(500));
    receiver.signal(Signal::SIGINT);
    receiver.end(Duration::from_secs(2)).assert_refusal(130, &["interrupted"]);
    let root = root.end(LIMIT);
    root.assert_code(1);
    assert!(root.stderr.contains("n1 (interrupted)"), "{}", root.stderr);
}

/// A file system of its own, of 1 MiB.
struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    fn mount(path: PathBuf) -> SmallDisk {
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1m", "ethbcast-tests"])
            .arg(&path)
            .status()
            .expect("mount starts");
        assert!(status.success(), "cannot mount a tmpfs");
        SmallDisk { path }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let status = Command::new("umount").arg(&self.path).status();
        assert!(std::thread::panicking() || status.is_ok_and(|status| status.success()), "cannot unmount {}", self.path.display());
    }
}

#[test]
fn a_file_larger_than_the_free_space_is_refused_before_its_first_byte() {
    let site = Site::beside("small", one_switch(2));
    let disk = SmallDisk::mount(site.directory("disk"));
    let source = site.file("source.bin", content(1, 4 * MEBIBYTE));
    let receiver = site.start("n1", &["recv", "-i", "eth0", "--max-wait", "10"], disk.path.join("file"));
    let root = site.run("n0", &["send", "-i", "eth0", "--max-wait", "2"], &source);
    receiver.end(LIMIT).assert_refusal(4, &["n1", "bytes free", "4194304", "make room"]);
    root.assert_refusal(3, &["0 of 1 receivers", "n1"]);
    assert_eq!(names_in(&disk.path), [""; 0]);
}

#[test]
fn a_stream_that_outgrows_the_free_space_fails_there_alone_and_leaves_nothing() {
    let site = Site::alone("outgrow", LabConfig { rate_bits_per_second: Some(400_000_000), ..one_switch(4) });
    let disk = SmallDisk::mount(site.directory("disk"));
    let bytes = content(2, 4 * MEBIBYTE);
    let source = site.file("source.bin", &bytes);
    // The last frames of a relay that leaves race with the first of the host that takes over: several tries.
    for (number, via) in ["chain", "chain", "chain", "chain", "chain", "cast"].into_iter().enumerate() {
        // n2 relays in the chain: n3 has to be served past it.
        let hosts = ["n1", "n2", "n3"];
        let paths = [site.path(&format!("n1-{number}")), disk.path.join("file"), site.path(&format!("n3-{number}"))];
        let runs = [0, 1, 2].map(|at| site.start(hosts[at], &["recv", "-i", "eth0", "--max-wait", "10"], &paths[at]));
        let mut send = site.ethbcast("n0", ["send", "-i", "eth0", "-n", "3", "--via", via, "-"]);
        send.stdin(fs::File::open(&source).expect("readable"));
        let root = Run::start("n0", send).end(Duration::from_secs(10));
        let [first, full, last] = runs.map(|run| run.end(LIMIT));
        full.assert_refusal(4, &["No space", "make room"]);
        first.assert_code(0);
        last.assert_code(0);
        root.assert_code(1);
        assert!(root.stderr.contains("1 of 3 receivers failed: n2 (no-space)"), "{}", root.stderr);
        assert_eq!(names_in(&disk.path), [""; 0]);
        assert!([0, 2].into_iter().all(|at| fs::read(&paths[at]).is_ok_and(|file| file == bytes)), "{via}");
    }
}

// ---- Who is there ----

#[test]
fn when_nobody_is_there_both_sides_give_up_in_time() {
    let site = Site::beside("alone", one_switch(2));
    let source = site.file("source", "text");
    let sent = site.run("n0", &["send", "-i", "eth0", "--max-wait", "1"], &source);
    sent.assert_refusal(3, &["0 of 1 receivers", "1 s", "ethbcast recv"]);
    let received = site.run("n1", &["recv", "-i", "eth0", "--max-wait", "1"], site.path("dest"));
    received.assert_refusal(3, &["no sender was heard", "-g", "--max-wait"]);
    for ended in [sent, received] {
        assert!((Duration::from_secs(1)..Duration::from_secs(3)).contains(&ended.took), "{:?}", ended.took);
    }
    // Two groups do not meet.
    let receiver = site.start("n1", &["recv", "-i", "eth0", "-g", "red", "--max-wait", "1"], site.path("dest"));
    site.run("n0", &["send", "-i", "eth0", "-g", "blue", "--max-wait", "1"], &source).assert_code(3);
    receiver.end(LIMIT).assert_code(3);
    assert_eq!(names_in(source.parent().expect("a directory")), ["source"]);
}

#[test]
fn too_few_receivers_are_sent_home_unless_fewer_will_do() {
    let site = Site::beside("few", one_switch(2));
    let source = site.file("source", "text");
    let receiver = site.start("n1", &["recv", "-i", "eth0"], site.path("dest"));
    let root = site.run("n0", &["send", "-i", "eth0", "-n", "2", "--max-wait", "1"], &source);
    root.assert_refusal(3, &["1 of 2 receivers", "n1", "--min-receivers"]);
    receiver.end(Duration::from_secs(3)).assert_refusal(1, &["1 of 2 receivers"]);
    assert_eq!(names_in(source.parent().expect("a directory")), ["source"]);
    let receiver = site.start("n1", &["recv", "-i", "eth0"], site.path("dest"));
    site.run("n0", &["send", "-i", "eth0", "--min-receivers", "1", "--max-wait", "1"], &source).assert_code(0);
    receiver.end(LIMIT).assert_code(0);
    assert_eq!(fs::read(site.path("dest")).expect("received"), b"text");
}

#[test]
fn a_receiver_whose_frames_are_too_small_is_refused_with_both_remedies() {
    let site = Site::beside("mtu", LabConfig { mtu_bytes: 9000, ..one_switch(2) });
    site.set_up("n1", "ip", &["link", "set", "eth0", "mtu", "1500"]);
    let source = site.file("source", "text");
    let receiver = site.start("n1", &["recv", "-i", "eth0", "--max-wait", "10"], site.path("dest"));
    let root = site.run("n0", &["send", "-i", "eth0", "--max-wait", "2"], &source);
    receiver.end(LIMIT).assert_refusal(4, &["MTU 1500", "9000", "raise it", "--mtu 1500"]);
    root.assert_refusal(3, &["0 of 1 receivers", "n1"]);
    assert!(root.stderr.contains("--mtu 1500"), "the root's user is the one who can type it: {}", root.stderr);
}

#[test]
fn two_receivers_on_one_interface_are_told_apart() {
    let site = Site::beside("twins", one_switch(2));
    let source = site.file("source", "text");
    let root = site.start("n0", &["send", "-i", "eth0", "-n", "2", "--max-wait", "2"], &source);
    let first = site.start("n1", &["recv", "-i", "eth0"], site.path("first"));
    root.wait_for_line("n1 joined");
    let second = site.run("n1", &["recv", "-i", "eth0"], site.path("second"));
    second.assert_refusal(4, &["another receiver", "-g"]);
    root.end(LIMIT).assert_code(3);
    first.end(LIMIT).assert_code(1);
}

// ---- Topology files ----

const LOOP: &str = "schema = 1\n\
    [[switch]]\nname = \"s0\"\nhosts = \"n[0-1]\"\nlinks = [\"s1\"]\n\
    [[switch]]\nname = \"s1\"\nlinks = [\"s2\"]\n\
    [[switch]]\nname = \"s2\"\nlinks = [\"s0\"]\n";
const TWICE: &str = "schema = 1\n\
    [[switch]]\nname = \"s0\"\nhosts = \"n[0-3]\"\nlinks = [\"s1\"]\n\
    [[switch]]\nname = \"s1\"\nhosts = \"n[3-5]\"\n";
const NO_SUCH_SWITCH: &str = "schema = 1\n[[switch]]\nname = \"s0\"\nhosts = \"n[0-3]\"\nlinks = [\"s9\"]\n";
const OTHER_HOSTS: &str = "schema = 1\n[[switch]]\nname = \"s0\"\nhosts = \"n[5-7]\"\n";

#[test]
fn a_topology_file_that_cannot_be_true_is_refused_with_file_and_line() {
    let site = Site::beside("topo", one_switch(2));
    let source = site.file("source", "text");
    let refused = |name: &str, text: &str, parts: &[&str]| {
        let file = site.file(name, text);
        let file = file.to_str().expect("UTF-8");
        site.run("n0", &["send", "-i", "eth0", "--topology", file], &source).assert_refusal(2, parts);
        // The lab reads the same files.
        ended_here(&["lab", "up", "--lab", &lab_name("never"), "--topology", file]).assert_refusal(2, parts);
    };
    refused("loop.toml", LOOP, &["loop.toml:11:", "s0", "s1", "s2", "loop", "remove"]);
    refused("twice.toml", TWICE, &["twice.toml:8:", "`n3`", "s0", "once"]);
    refused("switch.toml", NO_SUCH_SWITCH, &["switch.toml:5:", "`s9`", "not a switch"]);
    refused("not.toml", "schema = 1\n[[switch\n", &["not.toml:2:"]);
    refused("schema.toml", "[[switch]]\nname = \"s0\"\n", &["schema.toml", "schema = 1"]);
    let missing = site.path("missing.toml");
    let missing = missing.to_str().expect("UTF-8");
    site.run("n0", &["send", "-i", "eth0", "--topology", missing], &source).assert_refusal(4, &["cannot read", "missing.toml"]);
}

#[test]
fn a_host_that_the_topology_does_not_name_is_refused_on_either_side() {
    let site = Site::beside("unknown", one_switch(2));
    let (source, file) = (site.file("source", "text"), site.file("other.toml", OTHER_HOSTS));
    let file = file.to_str().expect("UTF-8");
    let root = site.run("n0", &["send", "-i", "eth0", "--topology", file], &source);
    root.assert_refusal(2, &["other.toml", "n0", "n[5-7]", "--host"]);
    let receiver = site.start("n1", &["recv", "-i", "eth0", "--max-wait", "10"], site.path("dest"));
    let root = site.run("n0", &["send", "-i", "eth0", "--topology", file, "--host", "n5", "--max-wait", "2"], &source);
    receiver.end(LIMIT).assert_refusal(2, &["n1", "--host"]);
    root.assert_refusal(3, &["0 of 1 receivers", "n1"]);
    // Told what it is called there, it is let in.
    let receiver = site.start("n1", &["recv", "-i", "eth0", "--host", "n6", "--max-wait", "10"], site.path("dest"));
    site.run("n0", &["send", "-i", "eth0", "--topology", file, "--host", "n5", "--max-wait", "10"], &source).assert_code(0);
    receiver.end(LIMIT).assert_code(0);
}

// ---- What is printed where ----

#[test]
fn stdout_has_the_report_alone_and_stderr_no_bar_when_it_is_no_terminal() {
    let site = Site::alone("print", LabConfig { rate_bits_per_second: Some(100_000_000), ..one_switch(3) });
    // Long enough for a bar to be drawn several times, were it drawn.
    let outcome = Transfer::new(&site, content(3, 16 * MEBIBYTE)).run();
    outcome.assert_verified();
    for (name, stderr) in [("n0", &outcome.root.stderr), ("n1", &outcome.receiver("n1").stderr)] {
        assert!(!stderr.contains(['\r', '\u{1b}']), "{name} draws: {stderr:?}");
        assert!(stderr.lines().count() < 10, "{name} says too much: {stderr}");
    }
    let source = site.file("source", "text");
    let receivers = ["n1", "n2"].map(|host| site.start(host, &["recv", "-i", "eth0"], site.path(host)));
    let root = site.run("n0", &["send", "-i", "eth0", "-n", "2"], &source);
    let report = root.stdout_text();
    let lines: Vec<_> = report.lines().collect();
    assert!(lines.len() == 3 && lines[0].starts_with("n1 ") && lines[1].starts_with("n2 "), "a line for each receiver: {report}");
    assert!(lines[2].starts_with("2 of 2 receivers verified"), "and a total: {report}");
    for receiver in receivers {
        let ended = receiver.end(LIMIT);
        assert!(ended.stdout_text().lines().count() == 1 && ended.stdout_text().contains("verified"), "{ended:?}");
    }
    let receiver = site.start("n1", &["recv", "--quiet", "-i", "eth0", "--force"], site.path("n1"));
    let root = site.run("n0", &["send", "--quiet", "-i", "eth0"], &source);
    for ended in [root, receiver.end(LIMIT)] {
        ended.assert_code(0);
        assert_eq!((ended.stdout_text().as_str(), ended.stderr.as_str()), ("", ""), "quiet is quiet");
    }
}

// ---- The lab ----

/// A lab brought up by the tool itself; gone, whatever happens, when this is dropped.
struct ToolLab {
    name: String,
}

impl ToolLab {
    fn up(story: &str, arguments: &[&str]) -> ToolLab {
        require_root();
        let lab = ToolLab { name: lab_name(story) };
        let up = ended_here(&[&["lab", "up", "--lab", &lab.name], arguments].concat());
        up.assert_code(0);
        assert!(up.stderr.contains("is up") && up.stderr.contains("lab exec"), "{}", up.stderr);
        assert_eq!(up.stdout_text(), "");
        lab
    }

    fn run(&self, command: &str, arguments: &[&str]) -> Ended {
        ended_here(&[&["lab", command, "--lab", &self.name], arguments].concat())
    }
}

impl Drop for ToolLab {
    fn drop(&mut self) {
        let removed = Lab::remove(&self.name);
        assert!(std::thread::panicking() || removed.is_ok(), "{removed:?}");
    }
}

/// The namespaces whose names begin so.
fn namespaces(prefix: &str) -> Vec<String> {
    let mut names = if Path::new("/run/netns").exists() { names_in(Path::new("/run/netns")) } else { Vec::new() };
    names.retain(|name| name.starts_with(prefix));
    names
}

#[test]
fn a_lab_lives_from_up_to_down() {
    let lab = ToolLab::up("life", &["3", "--mtu", "2000", "--rate", "100mbit", "--loss", "0.01"]);
    let prefix = format!("ethbcast-{}-", lab.name);
    assert_eq!(namespaces(&prefix).len(), 4, "three hosts and the switches");
    assert!(ended_here(&["lab", "list"]).stdout_text().lines().any(|line| line == format!("{}: n[0-2]", lab.name)));
    lab.run("up", &["3"]).assert_refusal(2, &["already up", "lab down"]);
    assert_eq!(lab.run("exec", &["n1", "--", "cat", "/sys/class/net/eth0/mtu"]).stdout_text(), "2000\n");
    assert_eq!(lab.run("exec", &["n1", "--", "sh", "-c", "echo $ETHBCAST_HOST"]).stdout_text(), "n1\n");
    lab.run("exec", &["n1", "--", "sh", "-c", "exit 7"]).assert_code(7);
    lab.run("exec", &["n1", "--", "sh", "-c", "kill -9 $$"]).assert_code(137);
    lab.run("exec", &["n9", "--", "true"]).assert_refusal(2, &["no host `n9`", "n0, n1, n2"]);
    let sleeper = here(&["lab", "exec", "--lab", &lab.name, "n2", "--", "sh", "-c", "echo inside >&2; exec sleep 1000"]);
    sleeper.wait_for_line("inside");
    let down = lab.run("down", &[]);
    down.assert_code(0);
    assert!(down.stderr.contains("is down"), "{}", down.stderr);
    assert_ne!(sleeper.end(LIMIT).code(), 0, "what ran in the lab has ended with it");
    assert_eq!(namespaces(&prefix), [""; 0]);
    let again = lab.run("down", &[]);
    again.assert_code(0);
    assert!(again.stderr.contains("nothing to do"), "{}", again.stderr);
    lab.run("exec", &["n1", "--", "true"]).assert_refusal(2, &[&lab.name, "lab up"]);
}

#[test]
fn each_runs_a_command_everywhere_and_says_where_it_failed() {
    let lab = ToolLab::up("each", &["3"]);
    let said = |arguments: &[&str]| {
        let ended = lab.run("each", arguments);
        ended.assert_code(0);
        let mut lines: Vec<_> = ended.stdout_text().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(said(&["--", "echo", "host {}"]), ["host n0", "host n1", "host n2"]);
    assert_eq!(said(&["--except", "n0", "--except", "n2", "--", "echo", "{}"]), ["n1"]);
    let failed = lab.run("each", &["--", "sh", "-c", "test {} != n1 || exit 3"]);
    failed.assert_refusal(1, &["failed on n1 (exit 3)"]);
}

#[test]
fn a_file_travels_through_the_lab_by_its_commands_alone() {
    let lab = ToolLab::up("travel", &["fig9-1"]);
    let directory = ethbcast_tests::tool::scratch();
    let source = directory.path().join("source.bin");
    fs::write(&source, content(9, MEBIBYTE)).expect("written");
    let (program, source) = (program().to_str().expect("UTF-8"), source.to_str().expect("UTF-8"));
    let dest = directory.path().join("{}.bin");
    let dest = dest.to_str().expect("UTF-8");
    let each = ["lab", "each", "--lab", &lab.name, "--except", "n0", "--", program, "recv", "--quiet", "--max-wait", "10", dest];
    let receivers = here(&each);
    let sent = lab.run("exec", &["n0", "--", program, "send", "-n", "15", "--max-wait", "10", "--topology", "fig9-1", source]);
    sent.assert_code(0);
    receivers.end(LIMIT).assert_code(0);
    let files = (1..16).map(|host| directory.path().join(format!("n{host}.bin")));
    assert!(files.into_iter().all(|file| fs::read(file).is_ok_and(|file| file == content(9, MEBIBYTE))));
    assert_eq!(names_in(directory.path()).len(), 16, "the source and what 15 hosts have received");
}

#[test]
fn a_lab_that_cannot_be_is_refused() {
    require_root();
    let name = lab_name("never");
    for (arguments, parts) in [
        (&["0"][..], &["lab of 0 hosts", "1 to"][..]),
        (&["100000"], &["lab of 100000 hosts", "1 to"]),
        (&["fig9-9"], &["fig9-9", "topology file", "fig9-1", "fig9-5"]),
        (&["--topology", "no-such-file.toml"], &["no-such-file.toml", "topology file"]),
        (&["2", "--rate", "fast"], &["`fast`", "100mbit"]),
        (&["2", "--loss", "1"], &["loss of 1", "0.01"]),
        (&["2", "--mtu", "10"], &["MTU of 10", "68 to 65535"]),
    ] {
        ended_here(&[&["lab", "up", "--lab", &name], arguments].concat()).assert_refusal(2, parts);
    }
    ended_here(&["lab", "up", "--lab", "a-b", "2"]).assert_refusal(2, &["`a-b`", "letters, digits"]);
    ended_here(&["lab", "exec", "--lab", &name, "n0", "--", "true"]).assert_refusal(2, &["no lab", &name, "lab up"]);
    ended_here(&["lab", "each", "--lab", &name, "--", "true"]).assert_refusal(2, &["no lab", &name, "lab up"]);
    ended_here(&["lab", "topology", "fig9-9"]).assert_refusal(2, &["fig9-9", "fig9-1"]);
    assert_eq!(namespaces(&format!("ethbcast-{name}-")), [""; 0]);
    let file = ended_here(&["lab", "topology", "fig9-4"]);
    file.assert_code(0);
    assert_eq!(Topology::parse(&file.stdout_text(), "stdout").ok(), Topology::builtin("fig9-4"));
}

/// What demos keep in memory at the moment.
fn demo_files() -> Vec<String> {
    let places = [Path::new("/dev/shm"), &std::env::temp_dir()].map(Path::to_owned);
    let names = places.iter().filter(|place| place.is_dir()).flat_map(|place| names_in(place));
    names.filter(|name| name.starts_with("ethbcast-demo-")).collect()
}

#[test]
fn the_demo_shows_both_paths_and_cleans_up_also_when_interrupted() {
    require_root();
    let before = demo_files();
    let demo = here(&["lab", "demo", "--mebibytes", "1", "--hosts", "3"]);
    let prefix = format!("ethbcast-demo{}-", demo.pid());
    let demo = demo.end(LIMIT);
    demo.assert_code(0);
    let table = demo.stdout_text();
    for via in ["chain", "cast"] {
        assert!(table.lines().any(|line| line.starts_with(via) && line.ends_with("2 of 2")), "{table}");
    }
    assert_eq!(namespaces(&prefix), [""; 0]);
    let demo = here(&["lab", "demo", "--mebibytes", "256", "--hosts", "3"]);
    let prefix = format!("ethbcast-demo{}-", demo.pid());
    demo.wait_for_line("via chain");
    assert_eq!(namespaces(&prefix).len(), 4, "three hosts and the switches");
    demo.signal(Signal::SIGINT);
    demo.end(Duration::from_secs(5)).assert_refusal(130, &["interrupted", "taken down"]);
    assert_eq!(namespaces(&prefix), [""; 0]);
    // Somebody else's demo may come and go meanwhile.
    let clean = within(LIMIT, || demo_files().iter().all(|name| before.contains(name)).then_some(()));
    assert!(clean.is_some(), "{:?}", demo_files());
}
