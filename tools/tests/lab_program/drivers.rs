//! `--driver xdp`: transfers between hosts of both drivers, and a host that stays on its network.

use crate::harness::{Ended, Ethbcast, LIMIT, MEBIBYTE, PROGRAM, Run, Site, content, one_switch, within};
use ethbcast_lab::LabConfig;
use ethbcast_tests::lab::StopOnDrop;
use nix::sys::signal::Signal;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// What `ip` says of a host's interface.
fn link(site: &Site, host: &str) -> String {
    let mut ip = site.command(host, "ip");
    ip.args(["-o", "link", "show", "dev", "eth0"]);
    Run::to_end(ip, LIMIT).stdout_text()
}

fn has_program(site: &Site, host: &str) -> bool {
    link(site, host).contains("prog/xdp id")
}

/// A host of these drivers each, from n0 on, and a file from the first to all others; every byte compared.
fn transfer(site: &Site, via: &str, drivers: &[&str], bytes: usize) -> Vec<Ended> {
    let sent = content(bytes as u64, bytes);
    let source = site.file("source.bin", &sent);
    let to = |host: usize| site.path(&format!("received-{host}.bin"));
    let receivers: Vec<Run> = (1..drivers.len())
        .map(|host| {
            let arguments = ["recv", "-i", "eth0", "--driver", drivers[host], "--max-wait", "20"];
            site.start(&format!("n{host}"), &arguments, to(host))
        })
        .collect();
    let count = (drivers.len() - 1).to_string();
    let arguments = ["send", "--json", "-i", "eth0", "--driver", drivers[0], "--via", via, "-n", &count];
    let sender = site.run("n0", &arguments, source);
    sender.assert_code(0);
    let mut ended = vec![sender];
    for (number, receiver) in receivers.into_iter().enumerate() {
        let receiver = receiver.end(LIMIT);
        receiver.assert_code(0);
        assert!(std::fs::read(to(number + 1)).expect("received") == sent, "n{} by {via}, {drivers:?}", number + 1);
        std::fs::remove_file(to(number + 1)).expect("it is there");
        ended.push(receiver);
    }
    ended
}

#[test]
fn hosts_of_both_drivers_are_one_group_by_chain_and_cast_at_every_mtu() {
    // Up to 1778 a frame is one chunk; longer ones come in pieces.
    for (mtu_bytes, bytes) in [(1500, 4 * MEBIBYTE + 1), (9000, 4 * MEBIBYTE), (65_535, 4 * MEBIBYTE)] {
        let site = Site::beside("drivers", LabConfig { mtu_bytes, loss: 0.002, ..one_switch(4) });
        for via in ["chain", "cast"] {
            for drivers in [["xdp", "packet", "xdp", "packet"], ["packet", "xdp", "xdp", "xdp"]] {
                transfer(&site, via, &drivers, bytes);
            }
        }
        assert!((0..4).all(|host| !has_program(&site, &format!("n{host}"))), "a program goes with its process");
    }
}

/// Words that go by TCP to a host and back, until it is over.
fn echoes(site: &Site, over: &AtomicBool, count: &AtomicU32) {
    let address = SocketAddr::from((Ipv4Addr::new(10, 78, 0, 2), 4711));
    let listener = site.lab().run_on("n1", || TcpListener::bind(address)).expect("a host").expect("a port");
    listener.set_nonblocking(true).expect("a limit to the wait");
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = within(LIMIT, || listener.accept().ok()).expect("n0 connects");
            stream.set_nonblocking(false).expect("from now on it waits for words");
            let mut word = [0; 8];
            while stream.read_exact(&mut word).is_ok() {
                stream.write_all(&word).expect("n0 reads");
            }
        });
        let stream = site.lab().run_on("n0", || TcpStream::connect(address)).expect("a host");
        let mut stream = stream.expect("TCP reaches the host");
        stream.set_read_timeout(Some(LIMIT)).expect("a time limit");
        while !over.load(Ordering::Acquire) {
            let word = u64::from(count.fetch_add(1, Ordering::AcqRel)).to_be_bytes();
            stream.write_all(&word).expect("n1 is there");
            let mut back = [0; 8];
            stream.read_exact(&mut back).expect("n1 answers");
            assert_eq!(back, word);
            thread::sleep(Duration::from_millis(1));
        }
    });
}

#[test]
fn other_traffic_goes_on_and_the_program_goes_also_with_a_process_that_is_killed() {
    let site = Site::beside("xdplife", one_switch(2));
    for host in ["n0", "n1"] {
        let address = format!("10.78.0.{}/24", if host == "n0" { 1 } else { 2 });
        site.set_up(host, "ip", &["address", "add", &address, "dev", "eth0"]);
    }
    let (over, count) = (AtomicBool::new(false), AtomicU32::new(0));
    thread::scope(|scope| {
        scope.spawn(|| echoes(&site, &over, &count));
        let _stopper = StopOnDrop(&over);
        let echoed = |more: u32| {
            let wanted = count.load(Ordering::Acquire) + more;
            within(LIMIT, || (count.load(Ordering::Acquire) >= wanted).then_some(()))
        };
        assert!(echoed(10).is_some(), "before");
        for _ in 0..2 {
            transfer(&site, "chain", &["xdp", "xdp"], 8 * MEBIBYTE);
        }
        let arguments = ["recv", "-i", "eth0", "--driver", "xdp", "--max-wait", "60"];
        let receiver = site.start("n1", &arguments, site.path("never.bin"));
        assert!(within(LIMIT, || has_program(&site, "n1").then_some(())).is_some(), "{}", link(&site, "n1"));
        assert!(echoed(50).is_some(), "while frames are led past the stack");
        // A second one is told why not, and what to do; the first one stays.
        let second = ["recv", "-i", "eth0", "--driver", "xdp", "-g", "other", "--max-wait", "1"];
        site.run("n1", &second, site.path("other.bin")).assert_refusal(4, &["XDP already", "driver `packet`"]);
        assert!(has_program(&site, "n1"));
        receiver.signal(Signal::SIGKILL);
        receiver.end(LIMIT);
        let gone = within(LIMIT, || (!has_program(&site, "n1")).then_some(()));
        assert!(gone.is_some(), "{}", link(&site, "n1"));
        assert!(echoed(50).is_some(), "afterwards");
        transfer(&site, "cast", &["packet", "xdp"], MEBIBYTE);
    });
}

#[test]
fn ranks_measure_by_xdp_as_well() {
    let site = Site::beside("xdpperf", one_switch(2));
    let member = site.ethbcast("n1", ["perf", "-i", "eth0", "-n", "2", "--driver", "xdp", "--quiet"]);
    let member = Run::start("n1", member);
    let root = ["perf", "-i", "eth0", "-n", "2", "--root", "--json", "--sizes", "256,64K", "--iterations", "5"];
    let root = Run::start("n0", site.ethbcast("n0", root)).end(LIMIT);
    root.assert_code(0);
    member.end(LIMIT).assert_code(0);
}

#[test]
fn what_has_no_xdp_is_told_what_is_missing_and_which_driver_to_use() {
    let site = Site::beside("noxdp", one_switch(2));
    let try_it = || {
        let arguments = ["recv", "-i", "eth0", "--driver", "xdp", "--max-wait", "1"];
        site.run("n1", &arguments, site.path("never.bin"))
    };
    let queues = |count: &str| {
        let mut ethtool = site.command("n1", "ethtool");
        ethtool.args(["-L", "eth0", "rx", count]);
        Run::to_end(ethtool, LIMIT).code() == 0
    };
    // A veth has as many queues as there are processors, at most.
    if thread::available_parallelism().is_ok_and(|cores| cores.get() > 1) {
        assert!(queues("2"));
        try_it().assert_refusal(4, &["2 receive queues", "ethtool -L eth0 rx 1", "driver `packet`"]);
        assert!(queues("1"));
    }
    let mut without = site.command("n1", "setpriv");
    without.args(["--bounding-set", "-bpf,-sys_admin", "--inh-caps", "-all", PROGRAM]);
    without.args(["recv", "-i", "eth0", "--driver", "xdp", "--max-wait", "1"]).arg(site.path("never.bin"));
    Run::start("n1", without).end(LIMIT).assert_refusal(4, &["CAP_BPF", "driver `packet`"]);
}
