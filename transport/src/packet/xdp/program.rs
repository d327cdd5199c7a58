//! The XDP program, in extended BPF: frames of our EtherType for our own address or our groups go to the socket of the
//! queue they came by; everything else goes the way it always goes (XDP_PASS), and so do ours where no socket is.
//!
//! Instructions and helpers: RFC 9669; kernel documentation, `bpf/standardization` and `networking/af_xdp`.

use crate::MacAddr;
use crate::wire::EtherType;

/// One instruction as the kernel reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Instruction {
    code: u8,
    /// Destination in the lower half, source in the upper.
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// Operations.
const LOAD_WORD: u8 = 0x61;
const LOAD_HALF: u8 = 0x69;
const COPY: u8 = 0xbf;
const SET: u8 = 0xb7;
const ADD: u8 = 0x07;
const JUMP: u8 = 0x05;
const JUMP_IF_EQUAL: u8 = 0x15;
const JUMP_UNLESS_EQUAL: u8 = 0x55;
const JUMP_IF_ABOVE: u8 = 0x2d;
const LOAD_MAP: u8 = 0x18;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// That the immediate of [`LOAD_MAP`] is a descriptor (BPF_PSEUDO_MAP_FD), in the place of its source.
const IS_MAP: u8 = 1;
/// The helper bpf_redirect_map.
const REDIRECT_MAP: i32 = 51;
/// What becomes of a frame that is not ours, and of ours if the map has no socket for its queue.
const XDP_PASS: i32 = 2;

/// Offsets in what the program is given (struct xdp_md).
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const QUEUE: i16 = 16;
/// Offsets in the Ethernet header.
const DESTINATION: [i16; 3] = [0, 2, 4];
const ETHER_TYPE: i16 = 12;
const ETHERNET_BYTES: i32 = 14;

const fn op(code: u8, to: u8, from: u8, offset: i16, immediate: i32) -> Instruction {
    Instruction { code, registers: to | from << 4, offset, immediate }
}

/// Two octets as the processor loads them.
fn half(octets: [u8; 2]) -> i32 {
    i32::from(u16::from_ne_bytes(octets))
}

/// The program for `addresses`, with the map of sockets by queue as a descriptor's number.
pub(super) fn program(ether_type: EtherType, addresses: &[MacAddr], map: i32) -> Vec<Instruction> {
    let (context, data, end, first, second, third) = (6, 2, 3, 4, 5, 0);
    let redirect = [
        op(LOAD_WORD, 2, context, QUEUE, 0),
        op(LOAD_MAP, 1, IS_MAP, 0, map),
        op(0, 0, 0, 0, 0),
        op(SET, 3, 0, 0, XDP_PASS),
        op(CALL, 0, 0, 0, REDIRECT_MAP),
        op(EXIT, 0, 0, 0, 0),
    ];
    // Comparisons of one address are three; behind those of all comes a jump past what ours take.
    let after = |done: usize| (3 * (addresses.len() - done) + 1) as i16;
    let to_pass = after(0) + redirect.len() as i16;
    let mut code = vec![
        op(COPY, context, 1, 0, 0),
        op(LOAD_WORD, data, context, DATA, 0),
        op(LOAD_WORD, end, context, DATA_END, 0),
        op(COPY, first, data, 0, 0),
        op(ADD, first, 0, 0, ETHERNET_BYTES),
        op(JUMP_IF_ABOVE, first, end, 5 + to_pass, 0),
        op(LOAD_HALF, first, data, ETHER_TYPE, 0),
        op(JUMP_UNLESS_EQUAL, first, 0, 3 + to_pass, half(ether_type.octets())),
        op(LOAD_HALF, first, data, DESTINATION[0], 0),
        op(LOAD_HALF, second, data, DESTINATION[1], 0),
        op(LOAD_HALF, third, data, DESTINATION[2], 0),
    ];
    for (done, address) in addresses.iter().enumerate() {
        let [a, b, c, d, e, f] = address.octets();
        code.extend([
            op(JUMP_UNLESS_EQUAL, first, 0, 2, half([a, b])),
            op(JUMP_UNLESS_EQUAL, second, 0, 1, half([c, d])),
            op(JUMP_IF_EQUAL, third, 0, after(done + 1), half([e, f])),
        ]);
    }
    code.push(op(JUMP, 0, 0, redirect.len() as i16, 0));
    code.extend(redirect);
    code.extend([op(SET, 0, 0, 0, XDP_PASS), op(EXIT, 0, 0, 0, 0)]);
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: MacAddr = MacAddr::new(2, 0xeb, 0, 0, 0, 1);
    const GROUP: MacAddr = MacAddr::new(3, 0xca, 0xfe, 0, 0, 0xff);

    /// Runs the program on a frame as the kernel does; whether it goes to the socket.
    fn takes(code: &[Instruction], frame: &[u8]) -> bool {
        let (mut registers, mut at) = ([0_i64; 11], 0_usize);
        // Addresses of the frame are offsets in it, those of what is given begin elsewhere.
        const CONTEXT: i64 = 1 << 40;
        registers[1] = CONTEXT;
        for _ in 0..code.len() {
            let Instruction { code: what, registers: pair, offset, immediate } = code[at];
            let (to, from) = (usize::from(pair & 15), usize::from(pair >> 4));
            at += 1;
            let jump = |wanted: bool| if wanted { offset as usize } else { 0 };
            match what {
                LOAD_WORD if offset == DATA_END => registers[to] = frame.len() as i64,
                LOAD_WORD => registers[to] = 0,
                LOAD_HALF => {
                    let start = (registers[from] + i64::from(offset)) as usize;
                    registers[to] = half([frame[start], frame[start + 1]]).into();
                }
                COPY => registers[to] = registers[from],
                SET => registers[to] = immediate.into(),
                ADD => registers[to] += i64::from(immediate),
                JUMP => at += jump(true),
                JUMP_IF_EQUAL => at += jump(registers[to] == i64::from(immediate)),
                JUMP_UNLESS_EQUAL => at += jump(registers[to] != i64::from(immediate)),
                JUMP_IF_ABOVE => at += jump(registers[to] > registers[from]),
                LOAD_MAP => {
                    assert_eq!((from, immediate), (usize::from(IS_MAP), 7));
                    at += 1;
                }
                CALL => return immediate == REDIRECT_MAP && registers[3] == i64::from(XDP_PASS),
                EXIT => {
                    assert_eq!(registers[0], i64::from(XDP_PASS), "whatever is not ours passes");
                    return false;
                }
                other => panic!("no such instruction: {other:#x}"),
            }
        }
        panic!("the program does not end");
    }

    #[test]
    fn our_frames_for_us_are_taken_and_everything_else_passes() {
        let ours = EtherType::new(0x88b5);
        for addresses in [&[OWN][..], &[OWN, GROUP]] {
            let code = program(ours, addresses, 7);
            let frame = |to: MacAddr, ether_type: u16| {
                [&to.octets()[..], &[2, 0, 0, 0, 0, 9], &ether_type.to_be_bytes(), &[0; 46]].concat()
            };
            assert!(takes(&code, &frame(OWN, 0x88b5)));
            assert_eq!(takes(&code, &frame(GROUP, 0x88b5)), addresses.contains(&GROUP));
            for (to, ether_type) in [(OWN, 0x0800), (OWN, 0xb588), (GROUP, 0x0806), (MacAddr::BROADCAST, 0x88b5)] {
                assert!(!takes(&code, &frame(to, ether_type)), "{to} {ether_type:#x}");
            }
            // Every octet of the address counts.
            for at in 0..6 {
                let mut other = frame(OWN, 0x88b5);
                other[at] ^= 0x40;
                assert!(!takes(&code, &other), "octet {at}");
            }
            for bytes in 0..14 {
                assert!(!takes(&code, &frame(OWN, 0x88b5)[..bytes]), "{bytes} bytes are no frame");
            }
            assert!(takes(&code, &frame(OWN, 0x88b5)[..14]));
        }
    }
}
