//! Selection of an interface, and the advice if there is none.

use super::network::{Cable, ETHER_TYPE};
use ethbcast_transport::packet::{Interface, InterfaceError, OpenError, Port, PortConfig};

fn refusal(cable: &Cable, name: Option<&str>) -> InterfaceError {
    cable.on(0, || Interface::find(name)).expect_err("there is nothing to find")
}

#[test]
fn inside_a_namespace_its_own_interface_is_found_by_name_and_alone() {
    let cable = Cable::lay(4000);
    let alone = cable.interface(0);
    assert_eq!((alone.name.as_str(), alone.mtu_bytes), ("eth0", 4000));
    assert_eq!(cable.on(0, || Interface::find(Some("eth0"))).expect("it is there"), alone);
    assert_ne!(cable.interface(1).mac, alone.mac);
}

#[test]
fn each_refusal_says_what_to_do_instead() {
    let cable = Cable::lay(1500);
    assert_eq!(refusal(&cable, Some("eth7")).to_string(), "there is no interface eth7: choose one of eth0 with -i");
    assert!(matches!(refusal(&cable, Some("a-name-no-interface-can-have")), InterfaceError::Unknown { .. }));
    assert_eq!(
        refusal(&cable, Some("lo")).to_string(),
        "interface lo is not an Ethernet interface: choose another with -i"
    );

    cable.command(0, "ip link add eth1 type veth peer name eth2");
    cable.command(0, "ip link set eth1 up");
    cable.command(0, "ip link set eth2 up");
    assert_eq!(
        refusal(&cable, None).to_string(),
        "several Ethernet interfaces are up (eth0, eth1, eth2): say which with -i"
    );

    cable.command(0, "ip link del eth1");
    cable.command(0, "ip link set eth0 down");
    assert_eq!(
        refusal(&cable, Some("eth0")).to_string(),
        "interface eth0 is down: bring it up with `ip link set eth0 up`"
    );
    assert_eq!(
        refusal(&cable, None).to_string(),
        "no Ethernet interface is up among eth0, lo: bring one up with `ip link set NAME up`"
    );
}

#[test]
fn an_interface_without_a_cable_does_not_make_the_choice_ambiguous() {
    let cable = Cable::lay(1500);
    cable.command(0, "ip link add eth1 type veth peer name eth2");
    cable.command(0, "ip link set eth1 up");
    assert_eq!(cable.interface(0).name, "eth0");
}

#[test]
fn an_interface_that_went_down_after_it_was_found_cannot_be_opened() {
    let cable = Cable::lay(1500);
    let found = cable.interface(0);
    cable.command(0, "ip link set eth0 down");
    let opened = cable.on(0, || Port::open(&found, PortConfig::new(ETHER_TYPE)).map(drop));
    assert!(matches!(opened, Err(OpenError::Down { .. })), "{opened:?}");
}
