//! Cards and disks, simulated by stand-in programs, because a lab has none.

use super::{assert_healthy, fix_of, must, shell};
use ethbcast_tests::lab::{Site, one_switch};
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[test]
fn what_somebody_has_set_at_a_card_is_found() {
    let site = Site::beside("doctorcard", one_switch(2));
    // A program plays ethtool for a card, which no cable of a lab has.
    let programs = site.directory("programs");
    let said = |name: &str, text: &str| site.file(name, text);
    said("n", "Total 0 rules\n");
    said("c", "Coalesce parameters for eth0:\nAdaptive RX: off  TX: off\nrx-usecs:\t8\n");
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
    let look = |line: &str| shell(&site, "n0", &format!("PATH={}:$PATH; {line}", programs.display()));
    let doctor = "ethbcast doctor -i eth0 --json";
    assert_healthy(&look(doctor));
    for (name, text, code) in [
        ("n", "Filter: 4\n\tRule Type: Raw Ethernet\n\tEthertype: 0x88B5 mask: 0x0\n\tAction: Drop\n", "E-STEERING"),
        ("c", "Adaptive RX: off  TX: off\nrx-usecs:\t3000\n", "E-INTERRUPTS"),
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
    let source =
        site.file("slow.c", "#include <unistd.h>\nint fdatasync(int file) { (void)file; usleep(250000); return 0; }\n");
    let shim = site.path("slow.so");
    let (source, shim) = (source.display(), shim.display());
    must(&site, "n0", &format!("cc -shared -fPIC -o {shim} {source}"));
    let place = site.directory("place");
    let look = format!("ethbcast doctor -i eth0 --json --dest {}/image", place.display());
    assert!(fix_of(&shell(&site, "n0", &format!("LD_PRELOAD={shim} {look}")), "E-DISK").contains("faster disk"));
    assert_healthy(&shell(&site, "n0", &look));
}
