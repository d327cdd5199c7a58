//! Tests of udpcast's command lines, as Clonezilla, FOG and others use them. Each is run with
//! udpcast and with the program under udpcast's names: files and exit status must be equal.

use crate::harness::{Ended, Ethbcast, LIMIT, PROGRAM, Run, Site, content, names_in, one_switch};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

/// A call: shell commands for n0 and for each of n1 and n2, with the files `$SRC` and `$OUT`.
type Call = (&'static str, &'static str);

const CLONEZILLA: [Call; 3] = [
    (
        "gzip -c $SRC | udp-sender --interface eth0 --min-receivers 2 --max-wait 60 --nokbd \
         --mcast-data-address 232.77.0.1 --portbase 2232 --ttl 1",
        "udp-receiver --interface eth0 --nokbd --portbase 2232 --ttl 1 | gunzip -c > $OUT",
    ),
    (
        "cat $SRC | udp-sender --full-duplex --interface eth0 --min-receivers 2 --max-wait 60 --nokbd \
         --mcast-all-addr 224.0.0.1 --portbase 2234 --ttl 1",
        "udp-receiver --interface eth0 --nokbd --mcast-all-addr 224.0.0.1 --portbase 2234 > $OUT",
    ),
    // Fewer receivers than wanted are present after the maximum wait.
    (
        "udp-sender --file $SRC --interface eth0 --min-receivers 9 --max-wait 2 --nokbd --portbase 2236",
        "udp-receiver --interface eth0 --nokbd --portbase 2236 2>/dev/null | cat > $OUT",
    ),
];
const FOG: [Call; 3] = [
    // Several files in a row on the same ports.
    (
        "SEND='--interface eth0 --min-receivers 2 --mcast-data-address 232.77.0.2 --portbase 56780 --full-duplex \
         --ttl 32 --nokbd --nopointopoint'; udp-sender $SEND --max-wait 60 --file $SRC && \
         udp-sender $SEND --max-wait 10 --file $SRC.2 && udp-sender $SEND --max-wait 10 --file $SRC",
        "RECEIVE='--nokbd --portbase 56780 --ttl 32 --mcast-rdv-address 224.0.0.1'; \
         udp-receiver $RECEIVE 2>/dev/null > $OUT && udp-receiver $RECEIVE 2>/dev/null > $OUT.2 && \
         udp-receiver $RECEIVE 2>/dev/null > $OUT.3",
    ),
    (
        "udp-sender --rexmit-hello-interval 500 --max-bitrate 50m --interface eth0 --min-receivers 2 --max-wait 60 \
         --mcast-rdv-address 224.0.0.1 --portbase 56782 --half-duplex --ttl 32 --nokbd --file $SRC",
        "mkfifo $OUT.pipe; udp-receiver --nokbd --portbase 56782 --ttl 32 --mcast-rdv-address 224.0.0.1 2>/dev/null \
         > $OUT.pipe & cat < $OUT.pipe > $OUT; wait $!; code=$?; rm $OUT.pipe; exit $code",
    ),
    // The second receiver is late, but within the minimum wait.
    (
        "udp-sender --nokbd --interface eth0 --file $SRC --min-receivers 1 --min-wait 3 --max-wait 10",
        "test ${OUT%2} = $OUT || sleep 1; udp-receiver --nokbd --interface eth0 --file $OUT",
    ),
];
const OTHERS: [Call; 6] = [
    (
        "udp-sender -f $SRC -i eth0 -P 9002 -C 2 -W 60 -k -m 232.77.0.3 -M 224.0.0.1 -t 1 -d -l $SRC.log",
        "udp-receiver -f $OUT -i eth0 -P 9002 -k -M 224.0.0.1 -t 1 -l $OUT.log; code=$?; rm -f $OUT.log; exit $code",
    ),
    (
        "udp-sender --pipe 'gzip -c' --file $SRC --interface eth0 --portbase 9004 --min-receivers 2 --nokbd \
         --no-progress",
        "udp-receiver --pipe 'gzip -dc' --file $OUT --interface eth0 --portbase 9004 --nokbd --no-progress",
    ),
    (
        "udp-sender -p 'gzip -c' -i eth0 -P 9006 --min-clients 2 --fec 8x8 --nokbd < $SRC",
        "udp-receiver -p 'gzip -dc' -i eth0 -P 9006 --nokbd | cat > $OUT",
    ),
    // An existing file is overwritten.
    (
        "udp-sender --min-rec 2 --nokbd --portbase 9008 --interface eth0 --broadcast --file $SRC",
        "head -c 3000000 /dev/zero > $OUT; udp-receiver --nokbd --portbase 9008 --interface eth0 --nosync --file $OUT",
    ),
    // No source, and no sender.
    (
        // udpcast itself does not always end in that case.
        "timeout 15 udp-sender --file $SRC.missing --interface eth0 --min-receivers 2 --nokbd --portbase 9010",
        "udp-receiver --interface eth0 --nokbd --portbase 9010 --start-timeout 2 | cat > $OUT.none; rm $OUT.none",
    ),
    (
        "udp-sender --no-such-option --file $SRC",
        "udp-receiver --interface eth0 --nokbd --portbase 9012 --start-timeout 2 > /dev/null",
    ),
];

/// Creates a lab in which udpcast works, with the program under its names in `bin`.
fn site(story: &str) -> Site {
    let site = Site::beside(story, one_switch(3));
    for (number, host) in ["n0", "n1", "n2"].into_iter().enumerate() {
        let address = format!("10.77.0.{}/24", number + 1);
        site.set_up(
            host,
            "ip",
            &["address", "add", &address, "broadcast", "+", "dev", "eth0"],
        );
        site.set_up(host, "ip", &["route", "add", "224.0.0.0/4", "dev", "eth0"]);
    }
    let bin = site.directory("bin");
    ["udp-sender", "udp-receiver"]
        .iter()
        .for_each(|name| symlink(PROGRAM, bin.join(name)).expect("a link"));
    site.file("image", content(31, 1_500_003));
    site.file("image.2", content(32, 70_001));
    site
}

fn shell(site: &Site, host: &str, script: &str, out: &Path, is_ours: bool) -> Run {
    let mut command: Command = site.command(host, "sh");
    let path = std::env::var("PATH").expect("there is one");
    let path = if is_ours {
        format!("{}:{path}", site.path("bin").display())
    } else {
        path
    };
    command
        .args(["-c", script])
        .env("PATH", path)
        .env("SRC", site.path("image"))
        .env("OUT", out.join(host));
    command
        .env_remove("ETHBCAST_HOST")
        .env("ETHBCAST_CONFIG", "");
    Run::start(host, command)
}

/// Runs a call, and returns the ends of its shells, and names and contents of the received files.
fn run(site: &Site, call: Call, out: &Path, is_ours: bool) -> (Vec<Ended>, Vec<(String, Vec<u8>)>) {
    fs::create_dir(out).expect("made");
    let receivers = ["n1", "n2"].map(|host| shell(site, host, call.1, out, is_ours));
    let sender = shell(site, "n0", call.0, out, is_ours);
    let ends = [sender]
        .into_iter()
        .chain(receivers)
        .map(|run| run.end(LIMIT))
        .collect();
    let files = names_in(out)
        .into_iter()
        .map(|name| (name.clone(), fs::read(out.join(name)).expect("it is there")));
    (ends, files.collect())
}

/// Runs calls with udpcast and with the program, and compares.
#[track_caller]
fn compare(story: &str, calls: &[Call], is_success: bool) {
    let site = site(story);
    for (number, &call) in calls.iter().enumerate() {
        let (udpcasts, expected) = run(&site, call, &site.path(&format!("theirs{number}")), false);
        let (ours, files) = run(&site, call, &site.path(&format!("ours{number}")), true);
        let good = |ends: &[Ended]| ends.iter().map(|end| end.code() == 0).collect::<Vec<_>>();
        assert_eq!(
            good(&ours),
            good(&udpcasts),
            "{call:?}\nours {ours:?}\nudpcast's {udpcasts:?}"
        );
        assert_eq!(ours[0].code() == 0, is_success, "{call:?}: {ours:?}");
        let names = |files: &[(String, Vec<u8>)]| {
            files
                .iter()
                .map(|(name, _)| name.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&files), names(&expected), "{call:?}: {ours:?}");
        assert!(files == expected, "{call:?}: other bytes than udpcast's");
        let image = fs::read(site.path("image")).expect("it is there");
        assert!(
            !is_success || files.iter().filter(|(_, bytes)| *bytes == image).count() >= 2,
            "{call:?}: not the image"
        );
    }
}

#[test]
fn calls_as_clonezilla_makes_them_run_unchanged() {
    compare("clonezilla", &CLONEZILLA, true);
}

#[test]
fn calls_as_fog_makes_them_run_unchanged() {
    compare("fog", &FOG, true);
}

#[test]
fn short_letters_commands_and_abbreviated_options_mean_the_same() {
    compare("letters", &OTHERS[..4], true);
}

#[test]
fn command_lines_that_fail_with_udpcast_fail_here() {
    compare("udp_fails", &OTHERS[4..], false);
}

#[test]
fn sessions_of_different_ports_do_not_mix_and_what_cannot_be_obeyed_is_said_once() {
    let site = site("ports");
    let out = site.directory("out");
    let receive = |host: &str, port: &str| {
        shell(
            &site,
            host,
            &format!("exec udp-receiver -i eth0 -k -P {port} -f $OUT"),
            &out,
            true,
        )
    };
    let receivers = [receive("n1", "9100"), receive("n2", "9102")];
    let send = |port: &str, file: &str| {
        let limit = "--max-bitrate 10m --autorate --ttl 1 --fec 8x8";
        shell(
            &site,
            "n0",
            &format!("exec udp-sender -i eth0 -k -C 1 -P {port} {limit} -f {file}"),
            &out,
            true,
        )
    };
    let senders = [send("9100", "$SRC"), send("9102", "$SRC.2")].map(|run| run.end(LIMIT));
    receivers
        .into_iter()
        .for_each(|run| run.end(LIMIT).assert_code(0));
    for (host, source) in [("n1", "image"), ("n2", "image.2")] {
        assert!(
            fs::read(out.join(host)).ok() == fs::read(site.path(source)).ok(),
            "{host} has another's bytes"
        );
    }
    for sender in senders {
        sender.assert_code(0);
        let count = |words: &str| {
            sender
                .stderr
                .lines()
                .filter(|line| line.contains(words))
                .count()
        };
        assert_eq!(
            (count("--autorate is not obeyed"), count("ignored")),
            (1, 1),
            "{}",
            sender.stderr
        );
        assert!(
            sender.stderr.contains("--fec") && sender.stderr.contains("--ttl"),
            "{}",
            sender.stderr
        );
    }
    // With fewer than are wanted it starts, and says so before.
    let call =
        "udp-sender -i eth0 -k --min-receivers 2 --max-wait 1 --start-timeout 1 -P 9106 -f $SRC";
    let waited = shell(&site, "n0", call, &out, true).end(LIMIT);
    assert!(
        waited
            .stderr
            .contains("2 at least, or for those that are there 1 s later"),
        "{}",
        waited.stderr
    );
    for (call, code, words) in [
        (
            "udp-sender -i eth0 -k -f $SRC",
            2,
            "nothing says when to start",
        ),
        ("udp-sender -i eth0 -k -C 1 --async -f $SRC", 2, "--async"),
        ("udp-sender -i eth0 -k -C 1 -P 9001 -f $SRC", 2, "odd"),
        (
            "udp-sender -i eth0 -k -C 1 --start-timeout 1 -P 9104 -f $SRC",
            3,
            "0 of 1 receivers joined within 1 s",
        ),
        (
            "udp-receiver -i eth0 -k --start-timeout 1 -P 9104",
            3,
            "no sender",
        ),
    ] {
        let ended = shell(&site, "n0", call, &out, true).end(LIMIT);
        ended.assert_refusal(code, &[words]);
    }
}

/// udpcast's option names are accepted by `send` and `recv` where their meaning is equal.
#[test]
fn send_and_recv_take_udpcasts_options_where_they_mean_the_same() {
    let site = Site::beside("words", one_switch(2));
    let (image, log) = (site.file("image", content(33, 400_001)), site.path("log"));
    let (image, log) = (image.to_str().expect("ours"), log.to_str().expect("ours"));
    let receive = [
        "recv",
        "--start-timeout",
        "20",
        "--receive-timeout",
        "5",
        "--nokbd",
        "--nosync",
        "--ttl",
        "1",
    ];
    let out = site.path("out");
    let file = ["--interface", "eth0", "--file", out.to_str().expect("ours")];
    let receiver = Run::start("n1", site.ethbcast("n1", [&receive[..], &file].concat()));
    let words = [
        "--nokbd",
        "--full-duplex",
        "--fec",
        "8x8",
        "--no-progress",
        "--max-bitrate",
        "40m",
        "--log",
        log,
    ];
    let send = [
        "send",
        "--interface",
        "eth0",
        "--receivers",
        "1",
        "--file",
        image,
    ];
    let sender = Run::start("n0", site.ethbcast("n0", [&send[..], &words].concat())).end(LIMIT);
    let receiver = receiver.end(LIMIT);
    sender.assert_code(0);
    receiver.assert_code(0);
    assert!(
        fs::read(&out).ok() == fs::read(image).ok(),
        "{}",
        receiver.stderr
    );
    assert!(
        sender
            .stderr
            .contains("no use for it: --full-duplex, --fec, --nokbd\n"),
        "{}",
        sender.stderr
    );
    assert!(
        receiver
            .stderr
            .contains("no use for it: --nosync, --nokbd\n"),
        "{}",
        receiver.stderr
    );
    assert!(
        !sender.stderr.contains("joined"),
        "no lines but errors: {}",
        sender.stderr
    );
    assert!(
        fs::read_to_string(log).is_ok_and(|text| text.contains("joined")),
        "what is logged goes to the file"
    );
    for wrong in [
        &["send", "--file", image, image][..],
        &["recv", "--file", "a", "b"],
    ] {
        let ended = Run::start("n0", site.ethbcast("n0", wrong)).end(LIMIT);
        ended.assert_refusal(2, &["cannot be used with"]);
    }
}
