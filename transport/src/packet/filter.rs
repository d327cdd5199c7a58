//! The BPF filter by which the kernel passes only this program's frames to its socket.
//!
//! Classic BPF: McCanne & Jacobson 1993; the Linux extensions used here (`SKF_AD_*`): kernel
//! documentation, `networking/filter`.

use super::Interface;
use crate::MacAddr;
use crate::wire::EtherType;
use libc::{
    BPF_ABS, BPF_B, BPF_H, BPF_JEQ, BPF_JGT, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, sock_filter,
};
use std::net::{IpAddr, SocketAddr};

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
pub(super) fn program(
    ether_type: EtherType,
    interface: &Interface,
    groups: &[MacAddr],
) -> Vec<sock_filter> {
    let own = std::iter::once(interface.mac);
    let addresses: Vec<MacAddr> = own
        .chain(groups.iter().copied())
        .chain([MacAddr::BROADCAST])
        .collect();
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

/// Builds the program of a socket of UDP: datagrams but those from one address. Such a program sees
/// them from the header of UDP on.
pub(super) fn but_from(source: SocketAddr) -> Vec<sock_filter> {
    const IPV4_SOURCE: u32 = 12;
    const IPV6_SOURCE: u32 = 8;
    let (at, words) = match source.ip() {
        IpAddr::V4(ip) => (IPV4_SOURCE, vec![ip.to_bits()]),
        IpAddr::V6(ip) => {
            let octets = ip.octets();
            let words = octets.as_chunks::<4>().0.iter();
            (
                IPV6_SOURCE,
                words.map(|word| u32::from_be_bytes(*word)).collect(),
            )
        }
    };
    let mut code = Vec::new();
    for (word, value) in words.iter().enumerate() {
        // Behind this pair are those of the other words, that of the port, and the rejection.
        let to_accept = 2 * (words.len() - 1 - word) as u8 + 3;
        let offset = (libc::SKF_NET_OFF as u32).wrapping_add(at + 4 * word as u32);
        code.push(load(BPF_W, offset));
        code.push(jump(BPF_JEQ, *value, 0, to_accept));
    }
    code.push(load(BPF_H, 0));
    code.push(jump(BPF_JEQ, source.port().into(), 0, 1));
    code.extend([give(REJECT), give(ACCEPT)]);
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

#[cfg(test)]
mod tests {
    use super::*;
    use libc::{SKF_AD_IFINDEX, SKF_AD_OFF, SKF_AD_PKTTYPE, SKF_AD_VLAN_TAG_PRESENT};

    const CARD: u32 = 2;
    /// An interface of its own that takes frames of the card: a VLAN's, a bond's.
    const ABOVE: u32 = 7;
    const MAC: MacAddr = MacAddr::new(2, 0, 0, 0, 0, 1);
    const GROUP: MacAddr = MacAddr::new(3, 0, 0, 0, 0, 9);

    /// A frame as a socket on the card gets it: the bytes without a tag, and the kernel's metadata.
    #[derive(Clone, Copy)]
    struct Given {
        to: MacAddr,
        ether_type: u16,
        packet_type: u8,
        tagged: bool,
        interface: u32,
    }

    const OWN: Given = Given {
        to: MAC,
        ether_type: 0x88b5,
        packet_type: libc::PACKET_HOST,
        tagged: false,
        interface: CARD,
    };

    impl Given {
        /// Returns the value that a load of `bytes` bytes puts into the accumulator.
        fn load(&self, code: u32, offset: u32) -> u32 {
            let beside = offset.wrapping_sub(SKF_AD_OFF as u32) as i32;
            match beside {
                SKF_AD_PKTTYPE => return self.packet_type.into(),
                SKF_AD_VLAN_TAG_PRESENT => return self.tagged.into(),
                SKF_AD_IFINDEX => return self.interface,
                _ => {}
            }
            let bytes = [
                &self.to.octets()[..],
                &[0; 6],
                &self.ether_type.to_be_bytes(),
            ]
            .concat();
            let length = match code & 0x18 {
                BPF_W => 4,
                BPF_H => 2,
                _ => 1,
            };
            let at = offset as usize;
            bytes[at..at + length]
                .iter()
                .fold(0, |sum, byte| sum << 8 | u32::from(*byte))
        }
    }

    fn takes(program: &[sock_filter], given: Given) -> bool {
        let (mut at, mut accumulator) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            let code = u32::from(code);
            at += 1;
            if code == BPF_RET | BPF_K {
                return k != REJECT;
            } else if code & 0x07 == BPF_LD {
                accumulator = given.load(code, k);
            } else {
                let holds = if code & 0xf0 == BPF_JEQ {
                    accumulator == k
                } else {
                    accumulator > k
                };
                at += usize::from(if holds { jt } else { jf });
            }
        }
    }

    fn programs() -> [Vec<sock_filter>; 2] {
        let card = Interface {
            name: "eth0".to_owned(),
            index: CARD,
            mac: MAC,
            mtu_bytes: 1500,
        };
        let whole = program(EtherType::DEFAULT, &card, &[GROUP]);
        let compares = whole
            .iter()
            .position(|one| one.k == extension(SKF_AD_IFINDEX))
            .expect("it compares");
        // One load, and a comparison of two instructions.
        let without = [&whole[..compares], &whole[compares + 3..]].concat();
        [whole, without]
    }

    #[test]
    fn frames_of_a_vlan_or_bond_above_the_card_are_recognised_by_their_interface_alone() {
        let [whole, without] = programs();
        for to in [MAC, GROUP, MacAddr::BROADCAST] {
            let packet_type = if to == MAC {
                libc::PACKET_HOST
            } else {
                libc::PACKET_MULTICAST
            };
            let own = Given {
                to,
                packet_type,
                ..OWN
            };
            assert!(takes(&whole, own) && takes(&without, own), "{to}");
            // `__netif_receive_skb_core` has taken the tag off, and handed the frame to the VLAN's
            // interface first.
            let above = Given {
                interface: ABOVE,
                ..own
            };
            assert!(takes(&without, above), "nothing else shows whose it is");
            assert!(!takes(&whole, above), "{to}");
        }
    }

    #[test]
    fn frames_with_foreign_tags_or_of_other_types_are_dropped() {
        let [whole, _] = programs();
        let other = Given {
            to: MacAddr::new(2, 0, 0, 0, 0, 2),
            packet_type: libc::PACKET_MULTICAST,
            ..OWN
        };
        let elsewhere = Given {
            packet_type: libc::PACKET_OTHERHOST,
            ..OWN
        };
        let non_members = [
            other,
            elsewhere,
            Given {
                tagged: true,
                ..OWN
            },
            Given {
                ether_type: 0x0800,
                ..OWN
            },
        ];
        assert_eq!(non_members.map(|one| takes(&whole, one)), [false; 4]);
    }
}
