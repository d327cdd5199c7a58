//! The classic BPF program that decides in the kernel which frames reach the ring.
//!
//! Classic BPF: McCanne & Jacobson 1993; the Linux extensions used here (`SKF_AD_*`): kernel documentation,
//! `networking/filter`.

use super::Interface;
use crate::MacAddr;
use crate::wire::EtherType;
use libc::{BPF_ABS, BPF_B, BPF_H, BPF_JEQ, BPF_JGT, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, sock_filter};

const DESTINATION_HEAD: u32 = 0;
const DESTINATION_TAIL: u32 = 2;
const ETHER_TYPE: u32 = 12;

const ACCEPT: u32 = u32::MAX;
const REJECT: u32 = 0;

/// Builds the program: untagged frames of our EtherType, received by `interface` itself, and
/// addressed to it, to one of `groups` or to all hosts.
///
/// The kernel removes a VLAN tag before packet sockets of one EtherType see the frame. If no VLAN
/// interface wanted the frame, it marks it with the packet type "for another host": so that type is
/// rejected, whatever the MAC address. If one did, the frame belongs to that interface but is also
/// given to sockets on the card, as is a frame of a bond or team to sockets on its port.
pub(super) fn program(ether_type: EtherType, interface: &Interface, groups: &[MacAddr]) -> Vec<sock_filter> {
    let own = std::iter::once(interface.mac);
    let addresses: Vec<MacAddr> = own.chain(groups.iter().copied()).chain([MacAddr::BROADCAST]).collect();
    let mut code = Vec::new();
    code.push(load(BPF_H, ETHER_TYPE));
    code.extend(unless_equal_reject(ether_type.number().into()));
    code.push(load(BPF_B, extension(libc::SKF_AD_PKTTYPE)));
    code.push(jump(BPF_JGT, libc::PACKET_MULTICAST.into(), 0, 1));
    code.push(give(REJECT));
    code.push(load(BPF_B, extension(libc::SKF_AD_VLAN_TAG_PRESENT)));
    code.extend(unless_equal_reject(0));
    code.push(load(BPF_W, extension(libc::SKF_AD_IFINDEX)));
    code.extend(unless_equal_reject(interface.index));
    for address in addresses {
        code.extend(accept_if_for(address));
    }
    code.push(give(REJECT));
    code
}

pub(super) fn of_type(ether_type: EtherType) -> Vec<sock_filter> {
    let mut code = vec![load(BPF_H, ETHER_TYPE)];
    code.extend(unless_equal_reject(ether_type.number().into()));
    code.push(give(ACCEPT));
    code
}

fn accept_if_for(address: MacAddr) -> [sock_filter; 5] {
    let [a, b, c, d, e, f] = address.octets();
    let head = u16::from_be_bytes([a, b]).into();
    let tail = u32::from_be_bytes([c, d, e, f]);
    [
        load(BPF_W, DESTINATION_TAIL),
        jump(BPF_JEQ, tail, 0, 3),
        load(BPF_H, DESTINATION_HEAD),
        jump(BPF_JEQ, head, 0, 1),
        give(ACCEPT),
    ]
}

fn unless_equal_reject(value: u32) -> [sock_filter; 2] {
    [jump(BPF_JEQ, value, 1, 0), give(REJECT)]
}

fn load(width: u32, offset: u32) -> sock_filter {
    instruction(BPF_LD | width | BPF_ABS, offset, 0, 0)
}

fn jump(condition: u32, operand: u32, if_true: u8, if_false: u8) -> sock_filter {
    instruction(BPF_JMP | condition | BPF_K, operand, if_true, if_false)
}

fn give(result: u32) -> sock_filter {
    instruction(BPF_RET | BPF_K, result, 0, 0)
}

fn extension(what: libc::c_int) -> u32 {
    (libc::SKF_AD_OFF + what) as u32
}

fn instruction(code: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    let code = u16::try_from(code).expect("every classic BPF opcode fits in 16 bits");
    sock_filter { code, jt, jf, k }
}
