//! Tests that a run ends at the first signal and at its time limit, in whichever phase it is.

use crate::harness::{Ethbcast, LIMIT, MEBIBYTE, Site, content, one_switch};
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use std::path::{Path, PathBuf};

/// A run that is held up in one phase for longer than any test lasts.
struct Phase<'a> {
    what: &'a str,
    /// Arguments and path of the run on the other host, if it is needed.
    other: Option<(&'a [&'a str], &'a Path)>,
    arguments: &'a [&'a str],
    path: &'a Path,
    /// Part of a line of the run that is held up, once it is.
    said: &'a str,
    /// Part of a line of the other host instead.
    other_said: &'a str,
}

impl Phase<'_> {
    fn end(&self, site: &Site, [host, other_host]: [&str; 2], limit: &[&str], signal: Option<Signal>) {
        let other = self.other.map(|(arguments, path)| site.start(other_host, arguments, path));
        let run = site.start(host, &[&self.arguments[..1], limit, &self.arguments[1..]].concat(), self.path);
        run.wait_for_line(self.said);
        if let Some(other) = other.as_ref().filter(|_| !self.other_said.is_empty()) {
            other.wait_for_line(self.other_said);
        }
        signal.into_iter().for_each(|signal| run.signal(signal));
        let ended = run.end(LIMIT);
        let expected: &[i32] = if signal.is_some() { &[143] } else { &[3, 4] };
        assert!(expected.contains(&ended.code()), "{}: {ended:?}", self.what);
        if let Some(other) = other {
            other.signal(Signal::SIGKILL);
            other.end(LIMIT);
        }
    }

    fn end_by_all(&self, site: &Site, hosts: [&str; 2]) {
        self.end(site, hosts, &[], Some(Signal::SIGTERM));
        self.end(site, hosts, &["--timeout", "4"], None);
    }
}

const SLOWLY: &[&str] = &["send", "-i", "eth0", "-n", "1", "--rate", "2mbit"];
const RECV: &[&str] = &["recv", "-i", "eth0", "--force", "--no-resume"];
const TAKES_NOTHING: &[&str] = &["recv", "-i", "eth0", "--pipe"];

#[test]
fn a_sender_ends_at_a_signal_and_at_its_time_limit_in_every_phase() {
    let site = Site::beside("sendphases", one_switch(2));
    let (large, small) = (site.file("large", content(1, 12 * MEBIBYTE)), site.file("small", "text"));
    let (fifo, dest) = (site.path("fifo"), site.path("dest"));
    mkfifo(&fifo, Mode::S_IRWXU).expect("a fifo");
    let recv = Some((RECV, &*dest));
    let send = &["send", "-i", "eth0", "-n", "1"][..];
    let (says_nothing, sleeper) = ([send, &["--pipe"]].concat(), PathBuf::from("sleep 1000"));
    let phase = |what, other, arguments, path, said| Phase { what, other, arguments, path, said, other_said: "" };
    for phase in [
        phase("nobody writes to the fifo", None, send, &fifo, "waiting for a process that writes to it"),
        phase("nobody joins", None, send, &small, "group ethbcast: waiting for"),
        phase("no byte comes from SOURCE", recv, &says_nothing, &sleeper, "sending a stream to 1 receiver"),
        phase("the rate is low", recv, SLOWLY, &large, "12.00 MiB to 1 receiver"),
        phase("a receiver takes nothing", Some((TAKES_NOTHING, &*sleeper)), send, &large, "12.00 MiB to 1 receiver"),
    ] {
        phase.end_by_all(&site, ["n0", "n1"]);
    }
    let runs_on = [send, &["--exec-after", "echo runs now >&2; sleep 1000"]].concat();
    phase("its command runs", recv, &runs_on, &small, "runs now").end_by_all(&site, ["n0", "n1"]);
}

#[test]
fn a_receiver_ends_at_a_signal_and_at_its_time_limit_in_every_phase() {
    let site = Site::beside("recvphases", one_switch(2));
    let (large, small) = (site.file("large", content(1, 12 * MEBIBYTE)), site.file("small", "text"));
    let (dest, sleeper, none) = (site.path("dest"), PathBuf::from("sleep 1000"), Path::new("/dev/not-there"));
    let waits = [RECV, &["--max-wait", "1000"]].concat();
    let runs_on = [RECV, &["--exec", "echo runs now >&2; sleep 1000"]].concat();
    let send = &["send", "-i", "eth0", "-n", "1"][..];
    let two = &["send", "-i", "eth0", "-n", "2"][..];
    let absent = ["recv", "-i", "eth7", "--max-wait", "1000"];
    let phase = |what, other, arguments, path, said| Phase { what, other, arguments, path, said, other_said: "" };
    let held_by_other = |other_said, phase| Phase { other_said, ..phase };
    let to_one = "12.00 MiB to 1 receiver";
    for phase in [
        phase("there is no such interface", None, &absent, &dest, "it is waited for"),
        phase("there is no such device", None, &waits, none, "it is waited for"),
        phase("no sender is there", None, RECV, &dest, "waiting for a sender"),
        phase("the sender waits for another", Some((two, &*small)), RECV, &dest, "n0 offers small"),
        held_by_other(to_one, phase("the rate is low", Some((SLOWLY, &*large)), RECV, &dest, "n0 offers large")),
        held_by_other(
            to_one,
            phase("its command takes nothing", Some((send, &*large)), TAKES_NOTHING, &sleeper, "n0 offers large"),
        ),
        phase("its command runs", Some((send, &*small)), &runs_on, &dest, "runs now"),
    ] {
        phase.end_by_all(&site, ["n1", "n0"]);
    }
}
