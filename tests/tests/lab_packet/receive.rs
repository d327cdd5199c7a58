//! Frames that reach the machine, and frames that do not.

use super::network::{Cable, ETHER_TYPE, GROUP};
use super::script::{collect, frame, numbers, raw_frame, send};
use ethbcast_transport::MacAddr;

#[test]
fn frames_of_every_length_arrive_as_they_were_sent() {
    let cable = Cable::lay(1500);
    let (mut a, mut b) = cable.open_both();
    let to = b.interface().mac;
    let sent: Vec<_> = (0..=1500).map(|bytes| frame(to, 0xdead_beef, bytes)).collect();
    send(&mut a, sent.clone());
    assert_eq!(collect(&mut b), sent);
    let bytes: usize = sent.iter().map(Vec::len).sum();
    let (a, b) = (a.counters(), b.counters());
    assert_eq!((a.frames_sent, a.bytes_sent), (1501, bytes as u64));
    assert_eq!((b.frames_received, b.bytes_received), (1501, bytes as u64));
    assert_eq!((b.kernel_accepted, b.kernel_dropped, b.truncated), (1501, 0, 0));
}

#[test]
fn the_largest_frames_a_link_can_have_pass_whole() {
    let cable = Cable::lay(65_535);
    let (mut a, mut b) = cable.open_both();
    assert_eq!(b.frame_bytes(), 14 + 65_535);
    let sent: Vec<_> = (0..40).map(|number| frame(b.interface().mac, number, 65_535 - number as usize)).collect();
    send(&mut a, sent.clone());
    let received = collect(&mut b);
    assert_eq!(numbers(&received), (0..40).collect::<Vec<_>>());
    assert!(received == sent);
    assert_eq!(b.counters().truncated, 0);
}

/// A veth delivers everything on the cable to a packet socket, as a flooding switch does: the
/// kernel must filter it.
#[test]
fn only_our_ether_type_for_our_own_mac_our_group_or_all_gets_past_the_kernel() {
    let cable = Cable::lay(1500);
    let (mut a, mut b) = cable.open_both();
    let own = b.interface().mac;
    let neighbour = with_byte(own, 5, own.octets()[5] ^ 1);
    let far = with_byte(own, 1, own.octets()[1] ^ 1);
    let other_group = with_byte(GROUP, 5, GROUP.octets()[5] + 1);
    let vlan_5 = [0x81, 0x00, 0, 5, 0x88, 0xb5];
    let unwanted = vec![
        frame(neighbour, 1, 100),
        frame(far, 2, 100),
        frame(other_group, 3, 100),
        raw_frame(own, &(ETHER_TYPE.number() + 1).to_be_bytes(), &[0; 100]),
        raw_frame(own, &[0x08, 0x00], &[0; 100]),
        raw_frame(own, &vlan_5, &[0; 100]),
        raw_frame(GROUP, &vlan_5, &[0; 100]),
    ];
    let wanted = vec![frame(own, 4, 100), frame(GROUP, 5, 100), frame(MacAddr::BROADCAST, 6, 100)];
    send(&mut a, unwanted.into_iter().chain(wanted));
    assert_eq!(numbers(&collect(&mut b)), [4, 5, 6]);
    assert_eq!(b.counters().kernel_accepted, 3, "the rest was stopped in the kernel");
    assert_eq!(b.counters().vlan_tagged, 0);
}

#[test]
fn without_a_group_the_own_address_and_broadcast_count_and_broadcast_can_be_the_group() {
    let cable = Cable::lay(1500);
    let mut a = cable.open(0, |_| {});
    let mut alone = cable.open(1, |config| config.group = None);
    let mut everybody = cable.open(1, |config| config.group = Some(MacAddr::BROADCAST));
    let own = alone.interface().mac;
    send(&mut a, [frame(own, 1, 46), frame(GROUP, 2, 46), frame(MacAddr::BROADCAST, 3, 46)]);
    assert_eq!(numbers(&collect(&mut alone)), [1, 3]);
    assert_eq!(numbers(&collect(&mut everybody)), [1, 3]);
}

#[test]
fn a_port_does_not_hear_itself() {
    let cable = Cable::lay(1500);
    let (mut a, mut b) = cable.open_both();
    let own = a.interface().mac;
    send(&mut a, [frame(GROUP, 1, 46), frame(own, 2, 46)]);
    assert_eq!(numbers(&collect(&mut b)), [1]);
    assert_eq!(collect(&mut a).len(), 0);
    assert_eq!(a.counters().kernel_accepted, 0);
}

#[test]
fn a_full_ring_keeps_the_oldest_frames_and_counts_the_lost_ones() {
    const SENT: u32 = 1000;
    let cable = Cable::lay(1500);
    let mut a = cable.open(0, |_| {});
    let mut b = cable.open(1, |config| config.receive_ring_bytes = 0);
    let to = b.interface().mac;
    send(&mut a, (0..SENT).map(|number| frame(to, number, 100)));
    let kept = numbers(&collect(&mut b));
    let slots = kept.len() as u32;
    assert!((64..SENT).contains(&slots), "a ring of the smallest size has {slots} slots");
    assert_eq!(kept, (0..slots).collect::<Vec<_>>());
    assert_eq!(b.counters().kernel_dropped, u64::from(SENT - slots));
    assert_eq!(b.counters().kernel_accepted, u64::from(SENT));

    // The ring works on, also past its end.
    for round in 0..3 {
        send(&mut a, (0..slots).map(|number| frame(to, number, 100)));
        assert_eq!(numbers(&collect(&mut b)), (0..slots).collect::<Vec<_>>(), "round {round}");
    }
    assert_eq!(b.counters().kernel_dropped, u64::from(SENT - slots));
}

#[test]
fn a_frame_longer_than_a_slot_is_counted_not_delivered() {
    let cable = Cable::lay(1500);
    let mut b = cable.open(1, |_| {});
    cable.command(0, "ip link set eth0 mtu 9000");
    cable.command(1, "ip link set eth0 mtu 9000");
    let mut a = cable.open(0, |_| {});
    let to = b.interface().mac;
    send(&mut a, [frame(to, 1, 9000), frame(to, 2, 1500)]);
    assert_eq!(numbers(&collect(&mut b)), [2]);
    assert_eq!(b.counters().truncated, 1);
}

fn with_byte(address: MacAddr, at: usize, byte: u8) -> MacAddr {
    let mut octets = address.octets();
    octets[at] = byte;
    MacAddr::from(octets)
}
