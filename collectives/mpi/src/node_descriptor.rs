//! Node descriptor (card) of a rank, of fixed length, exchanged by the MPI's own allgather before a
//! communicator is wired.

use crate::neighbours::ProcessId;
use ethbcast_transport::MacAddr;

pub const BYTES: usize = 512;
const HEAD_BYTES: usize = 27;
/// Version of the layout, and of the messages that ranks exchange after the cards. A rank with
/// another version passes all calls on.
const VERSION: u8 = 3;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDescriptor {
    /// Address of the interface: ranks behind one interface are on one host.
    pub mac: MacAddr,
    /// Random number; the first rank's names the group.
    pub nonce: u64,
    pub process: ProcessId,
    pub host: String,
    pub fingerprint: String,
    /// Reason why the rank cannot take part; empty if it can.
    pub trouble: String,
}

impl NodeDescriptor {
    pub fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[0] = VERSION;
        bytes[1..7].copy_from_slice(&self.mac.octets());
        bytes[7..15].copy_from_slice(&self.nonce.to_be_bytes());
        bytes[15..19].copy_from_slice(&self.process.number.to_be_bytes());
        bytes[19..27].copy_from_slice(&self.process.namespace.to_be_bytes());
        let mut at = HEAD_BYTES;
        for (text, most) in [(&self.host, 64), (&self.fingerprint, 128), (&self.trouble, 255)] {
            let cut = (0..=text.len().min(most)).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
            bytes[at] = cut as u8;
            bytes[at + 1..at + 1 + cut].copy_from_slice(&text.as_bytes()[..cut]);
            at += 1 + cut;
        }
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Option<NodeDescriptor> {
        let (head, mut rest) = bytes.split_at_checked(HEAD_BYTES).filter(|(head, _)| head[0] == VERSION)?;
        let mut text = || {
            let (&length, more) = rest.split_first()?;
            let (text, more) = more.split_at_checked(usize::from(length))?;
            rest = more;
            String::from_utf8(text.to_vec()).ok()
        };
        let nonce = u64::from_be_bytes(head[7..15].try_into().ok()?);
        let number = u32::from_be_bytes(head[15..19].try_into().ok()?);
        let process = ProcessId { number, namespace: u64::from_be_bytes(head[19..27].try_into().ok()?) };
        let mac = MacAddr::new(head[1], head[2], head[3], head[4], head[5], head[6]);
        Some(NodeDescriptor { mac, nonce, process, host: text()?, fingerprint: text()?, trouble: text()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_arrives_as_it_was_and_any_other_bytes_are_none() {
        let card = NodeDescriptor {
            mac: MacAddr::new(2, 0, 0, 0, 0, 7),
            nonce: 0x0123_4567_89ab_cdef,
            process: ProcessId { number: 4711, namespace: 0xf000_0001 },
            host: "n7".into(),
            fingerprint: "bcast 0".into(),
            trouble: String::new(),
        };
        assert_eq!(NodeDescriptor::decode(&card.encode()), Some(card.clone()));
        let long = NodeDescriptor { host: "é".repeat(40), trouble: "x".repeat(300), ..card };
        let cut = NodeDescriptor::decode(&long.encode()).expect("it fits");
        assert_eq!((cut.host.len(), cut.trouble.len()), (64, 255));
        assert_eq!(NodeDescriptor::decode(&[0; BYTES]), None);
        assert_eq!(NodeDescriptor::decode(&[]), None);
        assert_eq!(NodeDescriptor::decode(&[VERSION; 30]), None);
        assert_eq!(NodeDescriptor::decode(&[&[VERSION][..], &[255; BYTES - 1]].concat()), None);
    }
}
