//! Programs of two protocol versions on one network.

use crate::harness::{Ethbcast, LIMIT, Site, one_switch};
use ethbcast_transport::wire::VERSION;
use std::fs;

/// Rewrites the version of all frames on a host's cable in one direction to the previous one.
fn speaks_an_older_version(site: &Site, host: &str, hook: &str) {
    let rules = format!(
        "table netdev older {{ chain of {{ type filter hook {hook} device eth0 priority 0; \
         ether type 0x88b5 @nh,16,8 set {}; }}; }};",
        VERSION - 1
    );
    let file = site.file(&format!("{host}.nft"), rules);
    site.set_up(host, "nft", &["-f", file.to_str().expect("ours")]);
}

#[test]
fn an_older_build_is_named_on_both_sides_and_the_others_have_everything() {
    let site = Site::beside("versions", one_switch(4));
    // The frames sent by n2 are of another version, and those received by n3.
    speaks_an_older_version(&site, "n2", "egress");
    speaks_an_older_version(&site, "n3", "ingress");
    let (source, dest) = (site.file("source", "text"), |host: &str| site.path(host));
    let receive = |host: &str, wait: &str| site.start(host, &["recv", "-i", "eth0", "--max-wait", wait], dest(host));
    let receivers = [receive("n1", "20"), receive("n2", "4"), receive("n3", "4")];
    receivers.iter().for_each(|receiver| receiver.wait_for_line("waiting for a sender"));
    let arguments = ["send", "-n", "3", "--min-receivers", "1", "--max-wait", "2", "-i", "eth0"];
    let root = site.run("n0", &arguments, &source);
    let [good, unheard, deaf] = receivers.map(|receiver| receiver.end(LIMIT));
    root.assert_code(0);
    good.assert_code(0);
    assert_eq!(fs::read(dest("n1")).expect("received"), b"text");
    let speaks = |host: &str| {
        let mac = site.lab().mac(host).expect("a host of this lab");
        format!("{mac} speaks version {} of the protocol, this ethbcast {VERSION}: install the same build", VERSION - 1)
    };
    for (ended, other) in [(&root, "n2"), (&deaf, "n0")] {
        let told = ended.stderr.lines().filter(|line| line.contains(&speaks(other))).count();
        assert_eq!(told, 1, "once: {}", ended.stderr);
    }
    unheard.assert_code(3);
    deaf.assert_code(3);
    assert!(!dest("n2").exists() && !dest("n3").exists());
}
