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

use crate::session::Describer;
use crate::{census, communicator, measure};
use ethbcast_transport::messages;
use ethbcast_transport::wire::{self, Frame, Reject, Spelled};

/// Decodes frames; it keeps parts of views until these are complete.
#[derive(Clone, Debug, Default)]
pub struct Inspector {
    session: Describer,
}

#[derive(Clone, Debug)]
pub struct Inspected<'a> {
    /// The frame, with the captured part of its payload.
    pub frame: Frame<'a>,
    /// Length of its payload on the wire, in bytes.
    pub payload_bytes: usize,
    /// Its body by name; `None` if its kind is unknown.
    pub spelled: Option<Spelled>,
}

impl Inspected<'_> {
    /// Whether the capture has less than was on the wire; the checksum cannot be verified then.
    pub fn is_cut(&self) -> bool {
        self.frame.payload.len() < self.payload_bytes
    }
}

impl Inspector {
    /// Decodes a frame, Ethernet header first, that had `wire_bytes` bytes on the wire. If the
    /// capture has truncated it, only the headers are read.
    ///
    /// # Errors
    /// The reason why every host rejects it.
    pub fn inspect<'a>(&mut self, frame: &'a [u8], wire_bytes: usize) -> Result<Inspected<'a>, Reject> {
        match wire::parse(frame) {
            Ok(frame) => {
                let spelled = self.spell(&frame);
                Ok(Inspected { payload_bytes: frame.payload.len(), spelled, frame })
            }
            Err(Reject::Short) if frame.len() < wire_bytes => {
                let (frame, payload_bytes) = wire::parse_headers(frame)?;
                // The name of the kind is known; the body is not.
                let spelled = Inspector::default().spell(&frame).map(|spelled| Spelled { fields: None, ..spelled });
                Ok(Inspected { frame, payload_bytes, spelled })
            }
            Err(reject) => Err(reject),
        }
    }

    fn spell(&mut self, frame: &Frame<'_>) -> Option<Spelled> {
        let of_session = self.session.spell(frame);
        of_session
            .or_else(|| messages::spell(frame))
            .or_else(|| measure::spell(frame))
            .or_else(|| communicator::spell(frame))
            .or_else(|| census::spell(frame))
    }
}
