//! Decoding of captured frames into readable fields, for `ethbcast dump`.
//!
//! ```
//! use ethbcast_collectives::inspect::Inspector;
//! use ethbcast_transport::wire::{EtherType, Guard, Identity, Kind, MacAddr, Rank, StreamId};
//!
//! let mac = MacAddr::new(2, 0, 0, 0, 0, 1);
//! let (stream, ether_type, guard) = (StreamId(1), EtherType::DEFAULT, Guard::Plain);
//! let identity = Identity { session: 7, stream, rank: Rank(0), mac, ether_type, guard };
//! let mut frame = [0; 60];
//! let length = identity.write(&mut frame, MacAddr::BROADCAST, &identity.header(Kind::HEARTBEAT), &[0, 3]);
//!
//! let seen = Inspector::default().inspect(&frame[..length], length).expect("it is a frame of this protocol");
//! let spelled = seen.spelled.expect("of a kind that there is");
//! assert_eq!((seen.frame.header.session, spelled.kind), (7, "HEARTBEAT"));
//! ```

mod decode;
#[doc(hidden)]
pub mod table;

use crate::keys::{Protection, log};
use crate::session::{self, ViewAssembler, plain};
pub use decode::{FieldValue, Fields, Spelled};
use ethbcast_transport::wire::{self, EtherType, EthernetHeader, Frame, OVERHEAD_BYTES, Reject};
use std::collections::BTreeMap;

/// Decodes frames; it keeps parts of views until these are complete.
#[derive(Clone, Debug, Default)]
pub struct Inspector {
    views: ViewAssembler,
    /// Secrets of sessions, from a log.
    secrets: BTreeMap<u32, Vec<Protection>>,
}

#[derive(Clone, Debug)]
pub struct Inspected<'a> {
    /// The frame, with the captured part of its payload.
    pub frame: Frame<'a>,
    /// Length of its payload on the wire, in bytes.
    pub payload_bytes: usize,
    /// Its body by name; `None` if its kind is unknown.
    pub spelled: Option<Spelled>,
    /// Its payload as it was before a key protected it, if a logged secret has opened it.
    plain: Option<Vec<u8>>,
}

impl Inspected<'_> {
    /// Returns the captured frame as it would be without a key, if a logged secret has opened it.
    pub fn unkeyed(&self, captured: &[u8]) -> Option<Vec<u8>> {
        let plain = self
            .plain
            .as_ref()
            .filter(|_| self.frame.header.kind != session::kind::KEYS)?;
        let (source, destination) = (self.frame.source, wire::destination(captured)?);
        let number = u16::from_be_bytes([*captured.get(12)?, *captured.get(13)?]);
        let ether_type = (number >= 0x0600).then(|| EtherType::new(number))?;
        let mut frame = [&[0; OVERHEAD_BYTES][..], plain].concat();
        let link = EthernetHeader {
            source,
            destination,
            ether_type,
        };
        let length = wire::seal(&mut frame, link, &self.frame.header, plain.len());
        frame.truncate(length);
        Some(frame)
    }

    /// Whether the capture has less than was on the wire; the checksum cannot be verified then.
    pub fn is_cut(&self) -> bool {
        self.frame.payload.len() < self.payload_bytes
    }
}

impl Inspector {
    /// Opens frames by the secrets of a log, too.
    ///
    /// # Errors
    /// The number of the first line that is none of a log.
    pub fn with_log(text: &str) -> Result<Inspector, usize> {
        let mut secrets: BTreeMap<u32, Vec<Protection>> = BTreeMap::new();
        for (session, hash, secret) in log::read(text)? {
            let protection = Protection::new(&secret, hash);
            let known = secrets.entry(session).or_default();
            // Each host of a session logs the group's.
            if known
                .iter()
                .all(|other| other.guard() != protection.guard())
            {
                known.push(protection);
            }
        }
        Ok(Inspector {
            secrets,
            ..Inspector::default()
        })
    }

    fn open<'a>(&mut self, captured: &'a [u8]) -> Option<Inspected<'a>> {
        let to = wire::destination(captured)?;
        let session = wire::parse_headers(captured).ok()?.0.header.session;
        let (frame, plain) = self.secrets.get(&session)?.iter().find_map(|protection| {
            let frame = wire::parse_keyed(captured, |_| Some(protection.guard())).ok()?;
            Some((frame, plain(protection, &frame, to)?))
        })?;
        let spelled = self.spell(&Frame {
            payload: &plain,
            ..frame
        });
        Some(Inspected {
            payload_bytes: frame.payload.len(),
            spelled,
            frame,
            plain: Some(plain),
        })
    }

    /// Decodes a frame, Ethernet header first, that had `wire_bytes` bytes on the wire. If the
    /// capture has truncated it, only the headers are read.
    ///
    /// # Errors
    /// The reason why every host rejects it.
    pub fn inspect<'a>(
        &mut self,
        frame: &'a [u8],
        wire_bytes: usize,
    ) -> Result<Inspected<'a>, Reject> {
        match wire::parse(frame) {
            Ok(frame) => {
                let spelled = self.spell(&frame);
                Ok(Inspected {
                    payload_bytes: frame.payload.len(),
                    spelled,
                    frame,
                    plain: None,
                })
            }
            Err(Reject::Short) if frame.len() < wire_bytes => {
                let (frame, payload_bytes) = wire::parse_headers(frame)?;
                // The name of the kind is known; the body is not.
                let spelled = Inspector::default().spell(&frame).map(|spelled| Spelled {
                    fields: None,
                    ..spelled
                });
                Ok(Inspected {
                    frame,
                    payload_bytes,
                    spelled,
                    plain: None,
                })
            }
            Err(reject @ Reject::Tagged(_)) => self.open(frame).ok_or(reject),
            Err(reject) => Err(reject),
        }
    }

    fn spell(&mut self, frame: &Frame<'_>) -> Option<Spelled> {
        decode::spell(frame, &mut self.views)
    }
}
