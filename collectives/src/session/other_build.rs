//! Hosts that speak another version of the protocol; each is reported to the user once.

use super::kind;
use crate::membership::OtherBuild;
use crate::membership::codec::BodyReader;
use ethbcast_transport::MacAddr;
use ethbcast_transport::wire::{self, Kind, OtherVersion, Reject};
use std::collections::BTreeSet;

/// Maximum number of addresses remembered; further hosts are not reported.
const MAX_TOLD: usize = 64;

#[derive(Clone, Debug, Default)]
pub(super) struct OtherBuilds {
    told: BTreeSet<MacAddr>,
}

impl OtherBuilds {
    pub(super) fn on_reject(&mut self, frame: &[u8], why: Reject) -> Option<OtherBuild> {
        let Reject::Version(OtherVersion { version, kind, source }) = why else { return None };
        let is_news = matches!(kind, kind::ANNOUNCE | kind::JOIN) && self.told.len() < MAX_TOLD;
        (is_news && self.told.insert(source)).then(|| OtherBuild {
            mac: source,
            host: name(version, kind, frame),
            version,
        })
    }
}

fn name(version: u8, kind: Kind, frame: &[u8]) -> Option<String> {
    let payload = wire::older_payload(frame).filter(|_| version == 1)?;
    let mut from = BodyReader::new(payload);
    // Size and MTU, or nonce, free space and MTU; then the group and the host.
    from.bytes(if kind == kind::ANNOUNCE { 10 } else { 18 })?;
    let (_, host) = (from.text()?, from.text()?);
    Some(host).filter(|host| !host.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::codec::BodyWriter;
    use ethbcast_transport::wire::{EtherType, Identity, Rank, StreamId};

    #[test]
    fn a_host_of_another_build_is_named_once() {
        let mac = MacAddr::new(2, 0, 0, 0, 0, 7);
        let identity =
            Identity { session: 1, stream: StreamId(0), rank: Rank::NONE, mac, ether_type: EtherType::DEFAULT };
        let mut body = BodyWriter::default();
        body.u64(1).u64(2).u16(1500).name("g").name("n7");
        let body = body.into_bytes();
        // As that build would have written it, with its positions of length and checksum.
        let mut frame = vec![0; 200];
        let length = identity.write(&mut frame, mac, &identity.header(kind::JOIN), &body);
        frame.truncate(length);
        frame[16] = 1;
        frame[18..46].fill(0);
        frame[28..30].copy_from_slice(&(body.len() as u16).to_be_bytes());
        let checksum = crc32(&frame).to_be_bytes();
        frame[42..46].copy_from_slice(&checksum);
        let mut builds = OtherBuilds::default();
        let why = wire::parse(&frame).expect_err("another version");
        let build = builds.on_reject(&frame, why).expect("news");
        assert!(build.to_string().starts_with("n7 (02:00:00:00:00:07) speaks version 1 of the protocol"), "{build}");
        assert_eq!(builds.on_reject(&frame, why), None, "once");
        (frame[11], frame[16]) = (8, 9);
        let why = wire::parse(&frame).expect_err("another version");
        let build = builds.on_reject(&frame, why).expect("news");
        assert_eq!((build.host, build.version), (None, 9), "nobody knows how that version is laid out");
    }

    fn crc32(bytes: &[u8]) -> u32 {
        let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 };
        !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
    }
}
