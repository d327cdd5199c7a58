//! Tests of `ethbcast doctor` in network namespaces: each injected fault and its remedy is found.
//!
//! The tests need root, and fail without it. Bonds, teams, tc filters and netem are not tried,
//! because a kernel may lack them.

use ethbcast_lab::LabConfig;
use ethbcast_tests::lab::{Ended, LIMIT, Run, Site, one_switch, within};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const PROGRAM: &str = env!("CARGO_BIN_EXE_ethbcast");

/// Runs a shell line on a host, in which `ethbcast` is found by name.
fn shell(site: &Site, host: &str, line: &str) -> Ended {
    let beside = Path::new(PROGRAM).parent().expect("a directory").display();
    let path = format!("{beside}:{}", std::env::var("PATH").unwrap_or_default());
    let mut command = site.command(host, "sh");
    command.args(["-c", line]).env("PATH", path);
    Run::start(line, command).end(LIMIT)
}

#[track_caller]
fn must(site: &Site, host: &str, line: &str) {
    shell(site, host, line).assert_code(0);
}

/// Runs `doctor` on n0.
fn doctor(site: &Site, more: &str) -> Ended {
    on("eth0", site, more)
}

/// Runs `doctor` on another interface of n0.
fn on(interface: &str, site: &Site, more: &str) -> Ended {
    shell(
        site,
        "n0",
        &format!("ethbcast doctor -i {interface} --json {more}"),
    )
}

/// Returns the codes found, with their remedies.
#[track_caller]
fn findings(ended: &Ended) -> Vec<(String, String)> {
    let text = |finding: &Value, name: &str| finding[name].as_str().expect("a text").to_owned();
    let said = ended.json();
    let list = said["findings"].as_array().expect("a list");
    list.iter()
        .map(|one| (text(one, "code"), text(one, "fix")))
        .collect()
}

#[track_caller]
fn assert_healthy(ended: &Ended) {
    assert_eq!(findings(ended), [], "{ended:?}");
    ended.assert_code(0);
}

/// Returns the remedy of the only finding, which must have this code.
#[track_caller]
fn fix_of(ended: &Ended, code: &str) -> String {
    let found = findings(ended);
    ended.assert_code(1);
    assert!(found.len() == 1 && found[0].0 == code, "{code}: {found:?}");
    found[0].1.clone()
}

/// Plants a fault on n0, checks that it is found, applies the remedy, and checks that nothing is
/// left.
#[track_caller]
fn plant_and_mend(site: &Site, code: &str, plant: &str, interface: &str) {
    must(site, "n0", plant);
    let fix = fix_of(&on(interface, site, ""), code);
    println!("{plant}\n  {code}: {fix}");
    must(site, "n0", &fix);
    assert_healthy(&on(interface, site, ""));
    must(site, "n0", "nft flush ruleset");
}

#[test]
fn a_fault_of_the_interface_is_found_and_mended_by_what_is_named_for_it() {
    let site = Site::beside("doctor", one_switch(2));
    let ended = doctor(&site, "");
    assert_healthy(&ended);
    assert_eq!(
        ended.json()["not_checked"].as_array().map(Vec::len),
        Some(0),
        "{ended:?}"
    );
    for (code, plant) in [
        ("E-DOWN", "ip link set eth0 down"),
        ("E-MTU", "ip link set eth0 mtu 575"),
        ("E-MTU", "ip link set eth0 mtu 1400"),
        ("E-PROMISC", "ip link set eth0 promisc on"),
        (
            "E-SHAPER",
            "tc qdisc add dev eth0 root tbf rate 5mbit burst 10k limit 100k",
        ),
    ] {
        plant_and_mend(&site, code, plant, "eth0");
    }
    must(
        &site,
        "n0",
        "ip link add br0 type bridge && ip link set eth0 master br0 && ip link set br0 up",
    );
    let fix = fix_of(&doctor(&site, ""), "E-MEMBER");
    assert_eq!(fix, "ethbcast doctor -i br0");
    must(&site, "n0", &fix);
    must(&site, "n0", "ip link del br0");
    site.lab()
        .set_port("n0", false)
        .expect("the switch's port goes");
    let fix = fix_of(&doctor(&site, ""), "E-CARRIER");
    assert!(fix.contains("switch port"), "{fix}");
    site.lab()
        .set_port("n0", true)
        .expect("the switch's port comes");
    assert_healthy(&doctor(&site, ""));
}

#[test]
fn a_rule_that_drops_the_frames_is_found_and_one_before_it_lets_them_pass() {
    let site = Site::beside("doctornft", one_switch(2));
    let ingress = "nft 'add table netdev t; add chain netdev t c { type filter hook ingress device eth0 priority 0; }";
    let egress = "nft 'add table netdev t; add chain netdev t c { type filter hook egress device eth0 priority 0; }";
    for plant in [
        format!("{ingress}; add rule netdev t c ether type 0x88b5 drop'"),
        format!("{ingress}; add rule netdev t c ether type != {{ ip, ip6, arp }} drop'"),
        format!(
            "{ingress}; add rule netdev t c meta pkttype multicast limit rate over 100/second drop'"
        ),
        format!("{ingress}; add rule netdev t c numgen random mod 1000 < 50 drop'"),
        format!("{ingress}; chain netdev t c {{ policy drop; }}'"),
        format!(
            "{ingress}; add chain netdev t d; add rule netdev t d drop; add rule netdev t c jump d'"
        ),
        format!("{egress}; add rule netdev t c meta protocol 0x88b5 drop'"),
    ] {
        plant_and_mend(&site, "E-FILTER", &plant, "eth0");
    }
    // Rules for other protocols, interfaces and layers do not matter.
    for harmless in [
        format!("{ingress}; add rule netdev t c ether type arp drop'"),
        format!("{ingress}; add rule netdev t c ether type 0x88b5 accept; add rule netdev t c drop'"),
        "nft 'add table netdev t; add chain netdev t c { type filter hook ingress device lo priority 0; policy drop; }'"
            .to_owned(),
        "nft 'add table inet t; add chain inet t c { type filter hook input priority 0; policy drop; }'".to_owned(),
        "nft 'add table bridge t; add chain bridge t c { type filter hook input priority 0; policy drop; }'".to_owned(),
    ] {
        must(&site, "n0", &harmless);
        assert_healthy(&doctor(&site, ""));
        must(&site, "n0", "nft flush ruleset");
    }
    // Bridge rules matter for a bridge interface.
    must(
        &site,
        "n0",
        "ip link add br0 type bridge && ip link set eth0 master br0 && ip link set br0 up",
    );
    let plant = "nft 'add table bridge t; add chain bridge t c { type filter hook input priority 0; }; \
                 add rule bridge t c ether type 0x88b5 drop'";
    plant_and_mend(&site, "E-FILTER", plant, "br0");
}

#[test]
fn an_unusable_interface_is_distinguished_from_a_usable_one() {
    let site = Site::beside("doctorif", one_switch(2));
    must(
        &site,
        "n0",
        "ip link add eth1 type veth peer name eth2 && ip link set eth1 up && ip link set eth2 up",
    );
    for (arguments, part) in [
        ("-i nosuch0", "nosuch0"),
        ("-i lo", "lo is not"),
        ("", "several Ethernet interfaces"),
    ] {
        let ended = shell(&site, "n0", &format!("ethbcast doctor --json {arguments}"));
        let fix = fix_of(&ended, "E-INTERFACE");
        assert!(ended.stdout_text().contains(part), "{ended:?}");
        must(&site, "n0", &fix);
    }
    // The only interface needs no name, and is brought up on request.
    must(&site, "n1", "ip link set eth0 down");
    assert_eq!(
        fix_of(&shell(&site, "n1", "ethbcast doctor --json"), "E-INTERFACE"),
        "ip link set eth0 up"
    );
    assert_healthy(&shell(&site, "n1", "ethbcast doctor --json --fix"));
}

#[test]
fn a_slow_link_one_at_half_duplex_and_a_fast_one_with_short_frames_are_found() {
    let site = Site::beside("doctorrate", one_switch(2));
    // A lab's cable has no rate to set, but a TAP device has. Its missing peer is found too.
    must(
        &site,
        "n0",
        "ip tuntap add dev tap0 mode tap && ip link set tap0 up",
    );
    let others = |line: &str| -> Vec<(String, String)> {
        if !line.is_empty() {
            must(&site, "n0", line);
        }
        let mut found = findings(&shell(&site, "n0", "ethbcast doctor -i tap0 --json"));
        assert_eq!(found.remove(0).0, "E-CARRIER");
        found
    };
    let healthy = "ethtool -s tap0 speed 1000 duplex full";
    assert_eq!(others(healthy), []);
    for (code, plant) in [
        ("E-SPEED", "ethtool -s tap0 speed 10 duplex full"),
        ("E-DUPLEX", "ethtool -s tap0 speed 1000 duplex half"),
        ("E-MTU", "ethtool -s tap0 speed 25000 duplex full"),
    ] {
        let found = others(plant);
        assert!(found.len() == 1 && found[0].0 == code, "{plant}: {found:?}");
        println!("{plant}\n  {code}: {}", found[0].1);
        assert_eq!(others(&found[0].1), [], "{plant}");
    }
    let both: Vec<String> = others("ethtool -s tap0 speed 10 duplex half")
        .into_iter()
        .map(|(code, _)| code)
        .collect();
    assert_eq!(both, ["E-SPEED", "E-DUPLEX"]);
}

#[test]
fn a_small_ring_of_a_card_is_found() {
    let site = Site::beside("doctorring", one_switch(2));
    // A program plays ethtool for a card, because a lab's cable has no ring.
    let programs = site.directory("programs");
    let slots = site.file("slots", "64");
    let program = site.file(
        "programs/ethtool",
        format!(
            "#!/bin/sh\nslots={}\ncase $1 in -G) echo $4 > $slots;; -g) printf 'Ring parameters for %s:\nPre-set \
             maximums:\nRX:\t\t4096\nCurrent hardware settings:\nRX:\t\t%s\n' $2 $(cat $slots);; esac\n",
            slots.display()
        ),
    );
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("ours");
    let look = |line: &str| {
        shell(
            &site,
            "n0",
            &format!("PATH={}:$PATH; {line}", programs.display()),
        )
    };
    let fix = fix_of(&look("ethbcast doctor -i eth0 --json"), "E-RING");
    assert_eq!(fix, "ethtool -G eth0 rx 4096");
    look(&fix).assert_code(0);
    assert_healthy(&look("ethbcast doctor -i eth0 --json"));
}

#[test]
fn skipped_checks_are_listed_and_are_no_fault() {
    let site = Site::beside("doctorblind", one_switch(2));
    let unchecked = |ended: Ended| {
        assert_healthy(&ended);
        ended.json()["not_checked"].to_string()
    };
    // Without the host's own /sys, as after entering a namespace by hand.
    let namespace = format!(
        "--net=/run/netns/{}",
        site.lab().namespace("n0").expect("a host")
    );
    let entered = Run::here(
        "nsenter",
        &[&namespace, PROGRAM, "doctor", "-i", "eth0", "--json"],
    )
    .end(LIMIT);
    assert!(unchecked(entered).contains("/sys shows another network namespace"));
    // Without the programs that are queried.
    let bare = unchecked(shell(
        &site,
        "n0",
        &format!("PATH=/nonexistent; {PROGRAM} doctor -i eth0 --json"),
    ));
    for program in ["ip", "tc", "nft", "ethtool"] {
        assert!(
            bare.contains(&format!("`{program}` does not run")),
            "{bare}"
        );
    }
    // With a program that never ends.
    let programs = site.directory("programs");
    let program = site.file("programs/nft", "#!/bin/sh\nexec sleep 1000\n");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("ours");
    let line = format!(
        "PATH={}:$PATH; ethbcast doctor -i eth0 --json",
        programs.display()
    );
    assert!(unchecked(shell(&site, "n0", &line)).contains("`nft -j list ruleset` has not ended"));
}

#[test]
fn a_place_that_is_missing_closed_full_or_read_only_is_found() {
    let site = Site::beside("doctordest", one_switch(2));
    let (missing, small) = (site.path("it's new"), site.directory("small"));
    let dest = format!("--dest \"{}/image\"", missing.display());
    let fix = fix_of(&doctor(&site, &dest), "E-DEST");
    must(&site, "n0", &fix);
    assert_healthy(&doctor(&site, &format!("{dest} --size 1M")));
    // Each command has its own mounts on a host of a lab: file system, doctor and remedy run in one
    // shell.
    let small = small.display();
    let on_a_disk = |options: &str, size: &str, fix: &str| {
        let again = format!("ethbcast doctor -i eth0 --json --dest {small}/image --size {size}");
        let line = format!("mount -t tmpfs -o {options} none {small} && {{ {fix}\n}} && {again}");
        shell(&site, "n0", &format!("unshare --mount sh -c '{line}'"))
    };
    assert!(fix_of(&on_a_disk("size=1m", "2M", ":"), "E-SPACE").contains("make room"));
    assert_healthy(&on_a_disk("size=1m", "512K", ":"));
    assert_healthy(&on_a_disk(
        "size=1m",
        "2M",
        &format!("mount -o remount,size=4m {small}"),
    ));
    assert!(fix_of(&on_a_disk("size=1m,nr_inodes=2", "512K", ":"), "E-SPACE").contains("--inodes"));
    let fix = fix_of(&on_a_disk("size=1m,ro", "512K", ":"), "E-DEST");
    assert!(fix.starts_with("mount -o remount,rw"), "{fix}");
    assert_healthy(&on_a_disk("size=1m,ro", "512K", &fix));
}

#[test]
fn a_limit_of_the_shell_is_found() {
    let site = Site::beside("doctorlimit", one_switch(2));
    for plant in ["ulimit -S -f 100", "ulimit -S -n 14"] {
        let look = |fix: &str| {
            shell(
                &site,
                "n0",
                &format!("{plant}; {fix}; ethbcast doctor -i eth0 --json"),
            )
        };
        let fix = fix_of(&look(":"), "E-LIMIT");
        println!("{plant}\n  E-LIMIT: {fix}");
        assert_healthy(&look(&fix));
    }
}

#[test]
fn missing_permission_for_frames_or_a_directory_is_found() {
    let site = Site::beside("doctorcap", one_switch(2));
    let (own, closed) = (site.directory("own"), site.directory("closed"));
    let program = own.join("ethbcast");
    let program = program.display();
    let user = "setpriv --reuid 65534 --regid 65534 --clear-groups";
    let look = format!(
        "{user} {program} doctor -i eth0 --json --dest {}/image",
        closed.display()
    );
    // The program on a file system of its own, where capabilities are kept or not.
    let nobody = |options: &str, fix: &str| {
        let copy = format!(
            "mount -t tmpfs -o {options} none {} && cp {PROGRAM} {program}",
            own.display()
        );
        shell(
            &site,
            "n0",
            &format!("unshare --mount sh -c '{copy} && {{ {fix}\n}} && {look}'"),
        )
    };
    let found = findings(&nobody("suid", ":"));
    let codes: Vec<_> = found.iter().map(|(code, _)| code.as_str()).collect();
    assert_eq!(codes, ["E-CAPABILITY", "E-DEST"]);
    must(&site, "n0", &found[1].1);
    let fix = fix_of(&nobody("suid", ":"), "E-CAPABILITY");
    assert_eq!(fix, format!("setcap cap_net_raw+ep {program}"));
    let ended = nobody("suid", &fix);
    assert_healthy(&ended);
    let unchecked = ended.json()["not_checked"].to_string();
    assert!(
        unchecked.contains("rules that drop frames"),
        "what nobody may look at is said: {unchecked}"
    );
    assert!(fix_of(&nobody("nosuid", ":"), "E-CAPABILITY").contains("not mounted nosuid"));
}

#[test]
fn fix_does_what_is_safe_and_nothing_else() {
    let site = Site::beside("doctorfix", one_switch(2));
    let dest = site.path("new/below");
    must(
        &site,
        "n0",
        "ip link set eth0 mtu 1400 && ip link set eth0 down",
    );
    let ended = doctor(&site, &format!("--fix --dest {}/image", dest.display()));
    // The MTU is visible only now that the interface is up; its remedy is the user's decision.
    assert_eq!(fix_of(&ended, "E-MTU"), "ip link set eth0 mtu 1500");
    let fixed = ended.json()["fixed"].clone();
    assert_eq!(
        fixed,
        serde_json::json!([
            "ip link set eth0 up",
            format!("mkdir -p {}", dest.display())
        ])
    );
    assert!(dest.is_dir());
    must(&site, "n0", "ip link set eth0 mtu 1500");
    let ended = shell(&site, "n0", "ethbcast doctor");
    ended.assert_code(0);
    assert_eq!(ended.stdout_text(), "nothing wrong was found on eth0\n");
}

/// Starts an answering probe on n1.
fn answering(site: &Site) -> Run {
    let mut command = site.command("n1", PROGRAM);
    command.args(["probe", "--answer", "-i", "eth0"]);
    let run = Run::start("n1", command);
    run.wait_for_line("answers the probes");
    run
}

#[test]
fn what_is_wrong_on_the_way_to_another_host_is_found() {
    // A rate that the processors sustain, so that only the injected faults lose frames.
    let site = Site::alone(
        "doctorpeer",
        LabConfig {
            rate_bits_per_second: Some(100_000_000),
            ..one_switch(2)
        },
    );
    let look = || doctor(&site, "--peer n1");
    fix_of(&look(), "E-NOBODY");
    let answerer = answering(&site);
    let ended = look();
    assert_healthy(&ended);
    assert!(
        ended.json()["not_checked"]
            .to_string()
            .contains("`ethbcast doctor --peer n0` on n1"),
        "{ended:?}"
    );
    let at_n1 = |rule: &str| {
        let chain = "add chain netdev t c { type filter hook ingress device eth0 priority 0; }";
        must(
            &site,
            "n1",
            &format!("nft 'add table netdev t; {chain}; add rule netdev t c {rule}'"),
        );
    };
    for (code, rule) in [
        ("E-PATH", "meta length > 1400 drop"),
        (
            "E-LOSS",
            "ether daddr & 01:00:00:00:00:00 == 0 numgen random mod 100 < 5 drop",
        ),
        (
            "E-STORM",
            "meta pkttype multicast limit rate over 1000/second burst 20 packets drop",
        ),
        ("E-NOBODY", "ether type 0x88b5 drop"),
    ] {
        at_n1(rule);
        let fix = fix_of(&look(), code);
        println!("{rule}\n  {code}: {fix}");
        // The remedy is to run the doctor on that host, which names the command.
        assert!(fix.contains("`ethbcast doctor`"), "{fix}");
        must(
            &site,
            "n1",
            &fix_of(
                &shell(&site, "n1", "ethbcast doctor -i eth0 --json"),
                "E-FILTER",
            ),
        );
        assert_healthy(&look());
        must(&site, "n1", "nft flush ruleset");
    }
    must(&site, "n0", "ip link set eth0 mtu 1600");
    assert!(fix_of(&look(), "E-MTU").contains("the same on both"));
    must(&site, "n0", "ip link set eth0 mtu 500");
    let ended = look();
    fix_of(&ended, "E-MTU");
    assert!(
        ended.json()["not_checked"]
            .to_string()
            .contains("the way to other hosts"),
        "{ended:?}"
    );
    must(&site, "n0", "ip link set eth0 mtu 1500");
    let flood = |how: &str| {
        let switches = site.lab().switches_namespace();
        must(
            &site,
            "n0",
            &format!(
                "nsenter --net=/run/netns/{switches} bridge link set dev p1 mcast_flood {how}"
            ),
        );
    };
    flood("off");
    assert!(fix_of(&look(), "E-MULTICAST").contains("--via chain"));
    flood("on");
    // A VLAN is a separate network, represented by another switch for the port.
    let vlan = |line: &str| {
        must(
            &site,
            "n0",
            &format!(
                "nsenter --net=/run/netns/{} sh -c '{line}'",
                site.lab().switches_namespace()
            ),
        )
    };
    vlan("ip link add vlan7 type bridge && ip link set vlan7 up && ip link set p1 master vlan7");
    assert!(fix_of(&look(), "E-NOBODY").contains("VLAN"));
    vlan("ip link set p1 master s0 && ip link del vlan7");
    // The first frames of a port that has just moved may be lost.
    look();
    assert_healthy(&look());
    answerer.signal(Signal::SIGTERM);
    answerer.end(LIMIT).assert_code(143);
}

#[test]
fn changed_settings_of_a_card_are_found() {
    let site = Site::beside("doctorcard", one_switch(2));
    // A program plays ethtool for a card, which no cable of a lab has.
    let programs = site.directory("programs");
    let said = |name: &str, text: &str| site.file(name, text);
    said("n", "Total 0 rules\n");
    said(
        "c",
        "Coalesce parameters for eth0:\nAdaptive RX: off  TX: off\nrx-usecs:\t8\n",
    );
    said("k", "Features for eth0:\nrx-all: off\n");
    let program = site.file(
        "programs/ethtool",
        format!(
            "#!/bin/sh\ncd {}\ncase $1 in -n|-c|-k) cat ${{1#-}};; -N) : > n;; -C) : > c;; -K) : > k;; *) echo \
             \"netlink error: Operation not supported\" >&2; exit 1;; esac\n",
            programs.parent().expect("it is in one").display()
        ),
    );
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("ours");
    let look = |line: &str| {
        shell(
            &site,
            "n0",
            &format!("PATH={}:$PATH; {line}", programs.display()),
        )
    };
    let doctor = "ethbcast doctor -i eth0 --json";
    assert_healthy(&look(doctor));
    for (name, text, code) in [
        (
            "n",
            "Filter: 4\n\tRule Type: Raw Ethernet\n\tEthertype: 0x88B5 mask: 0x0\n\tAction: Drop\n",
            "E-STEERING",
        ),
        (
            "c",
            "Adaptive RX: off  TX: off\nrx-usecs:\t3000\n",
            "E-INTERRUPTS",
        ),
        ("k", "Features for eth0:\nrx-all: on\n", "E-OFFLOAD"),
    ] {
        said(name, text);
        let fix = fix_of(&look(doctor), code);
        println!("{code}: {fix}");
        look(&fix).assert_code(0);
        assert_healthy(&look(doctor));
    }
}

#[test]
fn a_disk_that_is_slower_than_any_network_is_found() {
    let site = Site::beside("doctordisk", one_switch(2));
    // Each sync takes as long as on a failing disk.
    let source = site.file(
        "slow.c",
        "#include <unistd.h>\nint fdatasync(int file) { (void)file; usleep(250000); return 0; }\n",
    );
    let shim = site.path("slow.so");
    let (source, shim) = (source.display(), shim.display());
    must(&site, "n0", &format!("cc -shared -fPIC -o {shim} {source}"));
    let place = site.directory("place");
    let look = format!(
        "ethbcast doctor -i eth0 --json --dest {}/image",
        place.display()
    );
    assert!(
        fix_of(
            &shell(&site, "n0", &format!("LD_PRELOAD={shim} {look}")),
            "E-DISK"
        )
        .contains("faster disk")
    );
    assert_healthy(&shell(&site, "n0", &look));
}

#[test]
fn over_udp_rules_in_front_of_the_port_a_taken_one_a_wrong_way_and_little_room_are_found() {
    let site = Site::beside("doctorudp", one_switch(2));
    must(&site, "n0", "ip address add 10.254.0.10/24 dev eth0");
    let udp = |more: &str| on("eth0", &site, &format!("--over {more}"));
    assert_healthy(&udp("udp"));
    assert_healthy(&udp("unicast:50000"));
    let chain = "table inet t; add chain inet t c { type filter hook input priority 0; }";
    for (carrier, rule) in [
        ("udp", "add rule inet t c udp dport 18613 drop".to_owned()),
        (
            "unicast",
            "add rule inet t c tcp dport 22 accept; chain inet t c { policy drop; }".to_owned(),
        ),
    ] {
        must(&site, "n0", &format!("nft 'add {chain}; {rule}'"));
        let fix = fix_of(&udp(carrier), "E-FILTER");
        must(&site, "n0", &fix);
        assert_healthy(&udp(carrier));
        must(&site, "n0", "nft flush ruleset");
    }
    must(
        &site,
        "n0",
        "nft 'add table ip t; add chain ip t c { type filter hook output priority 0; policy drop; }'",
    );
    assert!(fix_of(&udp("udp"), "E-FILTER").contains("nft list ruleset"));
    must(&site, "n0", "nft flush ruleset");
    let mut other = site.command("n0", PROGRAM);
    other
        .args(["recv", "--over", "unicast:50001", "--max-wait", "60"])
        .arg(site.path("dest"));
    let other = Run::start("receiver", other);
    let is_bound = || {
        let bound = site
            .command("n0", "ss")
            .arg("-lunH")
            .output()
            .expect("ss runs");
        String::from_utf8_lossy(&bound.stdout)
            .contains("10.254.0.10:18613")
            .then_some(())
    };
    within(LIMIT, is_bound).expect("it takes its ports");
    for carrier in ["unicast:50001", "unicast"] {
        assert!(fix_of(&udp(carrier), "E-TAKEN").contains("ss -lunp"));
    }
    other.signal(Signal::SIGTERM);
    other.end(LIMIT);
    must(
        &site,
        "n0",
        "ip link add other type bridge && ip link set other up && ip route add 10.254.0.0/25 dev other",
    );
    assert_eq!(
        fix_of(&udp("udp"), "E-INTERFACE"),
        "ethbcast doctor --over udp -i other"
    );
    must(&site, "n0", "ip link del other");
    must(&site, "n0", "ethtool -K eth0 tx-udp-segmentation off");
    let fix = fix_of(&udp("udp"), "E-OFFLOAD");
    assert_eq!(fix, "ethtool -K eth0 tx-udp-segmentation on");
    must(&site, "n0", &fix);
    // Only an administrator exceeds the system's limit.
    let nobody = "cp $(command -v ethbcast) {0} && chmod 755 {0} && setpriv --reuid=65534 --regid=65534 \
                  --clear-groups --inh-caps=-all --bounding-set=-all {0} doctor -i eth0 --json --over udp";
    fs::set_permissions(site.scratch(), fs::Permissions::from_mode(0o755)).expect("it is ours");
    let copy = site.path("ethbcast").display().to_string();
    let ended = shell(&site, "n0", &nobody.replace("{0}", &copy));
    let limit = fs::read_to_string("/proc/sys/net/core/rmem_max").expect("a limit");
    // The kernel charges 2816 bytes for each of 4096 frames, and doubles what is asked for.
    if limit.trim().parse::<u64>().expect("a number") * 2 >= 4096 * 2816 {
        return assert_healthy(&ended);
    }
    let fix = fix_of(&ended, "E-LIMIT");
    assert!(fix.starts_with("sysctl -w net.core.rmem_max="), "{fix}");
}
