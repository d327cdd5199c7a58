//! Tests that a run ends at the first signal and at its time limit, in whichever phase it is.

use crate::harness::{Ethbcast, LIMIT, MEBIBYTE, Run, Site, content, one_switch};
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use std::path::{Path, PathBuf};
use std::{fs, thread};

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
    /// Holds a run up in this phase, in a group and a directory of its own, and ends it.
    fn end(&self, site: &Site, [host, other_host]: [&str; 2], group: &str, ending: Ending) {
        let directory = site.path(group);
        fs::create_dir(&directory).expect("a free name");
        let start = |host, arguments: &[&str], limit: &[&str], path: &Path| {
            let (command, options) = arguments.split_at(1);
            let mut command =
                site.ethbcast(host, [command, &["-g", group], limit, options].concat());
            command.arg(path).current_dir(&directory);
            Run::start(host, command)
        };
        let other = self
            .other
            .map(|(arguments, path)| start(other_host, arguments, &[], path));
        let limit: &[&str] = if ending == Ending::Limit {
            &["--timeout", "6"]
        } else {
            &[]
        };
        let run = start(host, self.arguments, limit, self.path);
        run.wait_for_line(self.said);
        if let Some(other) = other.as_ref().filter(|_| !self.other_said.is_empty()) {
            other.wait_for_line(self.other_said);
        }
        if ending == Ending::Signal {
            run.signal(Signal::SIGTERM);
        }
        let ended = run.end(LIMIT);
        let expected: &[i32] = if ending == Ending::Signal {
            &[143]
        } else {
            &[3, 4]
        };
        assert!(
            expected.contains(&ended.code()),
            "{}, {ending:?}: {ended:?}",
            self.what
        );
        if let Some(other) = other {
            other.signal(Signal::SIGKILL);
            other.end(LIMIT);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Signal,
    Limit,
}

/// Ends each phase in each way, all beside each other.
fn end_all(site: &Site, hosts: [&str; 2], phases: &[Phase<'_>]) {
    thread::scope(|scope| {
        for (number, phase) in phases.iter().enumerate() {
            for ending in [Ending::Signal, Ending::Limit] {
                scope
                    .spawn(move || phase.end(site, hosts, &format!("{number}-{ending:?}"), ending));
            }
        }
    });
}

const SLOWLY: &[&str] = &["send", "-i", "eth0", "-n", "1", "--rate", "2mbit"];
const RECV: &[&str] = &["recv", "-i", "eth0", "--force", "--no-resume"];
const TAKES_NOTHING: &[&str] = &["recv", "-i", "eth0", "--pipe"];

#[test]
fn a_sender_ends_at_a_signal_and_at_its_time_limit_in_every_phase() {
    let site = Site::beside("sendphases", one_switch(2));
    let (large, small) = (
        site.file("large", content(1, 12 * MEBIBYTE)),
        site.file("small", "text"),
    );
    let (fifo, dest) = (site.path("fifo"), Path::new("dest"));
    mkfifo(&fifo, Mode::S_IRWXU).expect("a fifo");
    let recv = Some((RECV, dest));
    let send = &["send", "-i", "eth0", "-n", "1"][..];
    let (says_nothing, sleeper) = ([send, &["--pipe"]].concat(), PathBuf::from("sleep 1000"));
    let phase = |what, other, arguments, path, said| Phase {
        what,
        other,
        arguments,
        path,
        said,
        other_said: "",
    };
    let runs_on = [send, &["--exec-after", "echo runs now >&2; sleep 1000"]].concat();
    let phases = [
        phase(
            "nobody writes to the fifo",
            None,
            send,
            &fifo,
            "waiting for a process that writes to it",
        ),
        phase("nobody joins", None, send, &small, ": waiting for"),
        phase(
            "no byte comes from SOURCE",
            recv,
            &says_nothing,
            &sleeper,
            "sending a stream to 1 receiver",
        ),
        phase(
            "the rate is low",
            recv,
            SLOWLY,
            &large,
            "12.00 MiB to 1 receiver",
        ),
        phase(
            "a receiver takes nothing",
            Some((TAKES_NOTHING, &*sleeper)),
            send,
            &large,
            "12.00 MiB to 1 receiver",
        ),
        phase("its command runs", recv, &runs_on, &small, "runs now"),
    ];
    end_all(&site, ["n0", "n1"], &phases);
}

#[test]
fn a_receiver_ends_at_a_signal_and_at_its_time_limit_in_every_phase() {
    let site = Site::beside("recvphases", one_switch(2));
    let (large, small) = (
        site.file("large", content(1, 12 * MEBIBYTE)),
        site.file("small", "text"),
    );
    let (dest, sleeper, none) = (
        Path::new("dest"),
        PathBuf::from("sleep 1000"),
        Path::new("/dev/not-there"),
    );
    let waits = [RECV, &["--max-wait", "1000"]].concat();
    let runs_on = [RECV, &["--exec", "echo runs now >&2; sleep 1000"]].concat();
    let send = &["send", "-i", "eth0", "-n", "1"][..];
    let two = &["send", "-i", "eth0", "-n", "2"][..];
    let absent = ["recv", "-i", "eth7", "--max-wait", "1000"];
    let phase = |what, other, arguments, path, said| Phase {
        what,
        other,
        arguments,
        path,
        said,
        other_said: "",
    };
    let held_by_other = |other_said, phase| Phase {
        other_said,
        ..phase
    };
    let to_one = "12.00 MiB to 1 receiver";
    let phases = [
        phase(
            "there is no such interface",
            None,
            &absent,
            dest,
            "it is waited for",
        ),
        phase(
            "there is no such device",
            None,
            &waits,
            none,
            "it is waited for",
        ),
        phase(
            "no sender is there",
            None,
            RECV,
            dest,
            "waiting for a sender",
        ),
        phase(
            "the sender waits for another",
            Some((two, &*small)),
            RECV,
            dest,
            "n0 offers small",
        ),
        held_by_other(
            to_one,
            phase(
                "the rate is low",
                Some((SLOWLY, &*large)),
                RECV,
                dest,
                "n0 offers large",
            ),
        ),
        held_by_other(
            to_one,
            phase(
                "its command takes nothing",
                Some((send, &*large)),
                TAKES_NOTHING,
                &sleeper,
                "n0 offers large",
            ),
        ),
        phase(
            "its command runs",
            Some((send, &*small)),
            &runs_on,
            dest,
            "runs now",
        ),
    ];
    end_all(&site, ["n1", "n0"], &phases);
}
