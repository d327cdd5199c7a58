//! A captured frame as `ethbcast dump` prints it: one line in tcpdump's style, or JSON.

use super::Captured;
use ethbcast_collectives::inspect::Inspected;
use ethbcast_transport::wire::{ETHERNET_BYTES, FieldValue, Fields, Header, MacAddr, Rank, Reject, StreamId, VERSION};
use serde_json::{Map, Value, json};
use std::fmt;
use std::time::Duration;

pub struct Line<'a> {
    captured: Captured<'a>,
    what: Result<Inspected<'a>, String>,
}

impl<'a> Line<'a> {
    pub fn of(captured: Captured<'a>, inspected: Result<Inspected<'a>, Reject>) -> Line<'a> {
        let what = inspected.map_err(|reject| match reject {
            Reject::Short if captured.bytes.len() < captured.wire_bytes => {
                format!("cut to {} bytes by the capture, less than its headers", captured.bytes.len())
            }
            Reject::Short => "shorter than it says it is".to_owned(),
            Reject::Foreign => "of another protocol with this EtherType".to_owned(),
            Reject::Tagged(_) => "protected by a key".to_owned(),
            Reject::Version(other) => format!("of version {} of the protocol; this is {VERSION}", other.version),
            Reject::Damaged => "damaged: its checksum is wrong".to_owned(),
            other => format!("refused: {other:?}"),
        });
        Line { captured, what }
    }

    pub fn tagged(captured: Captured<'a>, vlan: u16) -> Line<'a> {
        let why = format!("tagged for VLAN {vlan}: capture on the VLAN's own interface to see what it says");
        Line { captured, what: Err(why) }
    }

    /// Whether the capture has less of the frame than was on the wire.
    pub fn is_cut(&self) -> bool {
        self.captured.bytes.len() < self.captured.wire_bytes
    }

    pub fn is_refused(&self) -> bool {
        !self.is_cut() && self.fault().is_some()
    }

    fn fault(&self) -> Option<String> {
        match &self.what {
            Err(why) => Some(why.clone()),
            Ok(seen) if seen.is_cut() => {
                let (here, whole) = (seen.frame.payload.len(), seen.payload_bytes);
                Some(format!("cut by the capture: {here} of {whole} bytes of payload"))
            }
            Ok(seen) => match &seen.spelled {
                None => Some(format!("of kind {}, which there is not", seen.frame.header.kind.0)),
                Some(spelled) if spelled.fields.is_none() => {
                    Some("malformed: its body is not one of its kind".to_owned())
                }
                Some(_) => None,
            },
        }
    }

    fn addresses(&self) -> Option<[MacAddr; 2]> {
        let at = |at: usize| {
            let octets: [u8; 6] = self.captured.bytes.get(at..at + 6)?.try_into().ok()?;
            Some(MacAddr::from(octets))
        };
        let own = || self.what.as_ref().ok().map(|seen| seen.frame.source);
        Some([own().or_else(|| at(6))?, at(0)?])
    }

    pub fn json(&self) -> Value {
        let mut object = Map::new();
        let mut put = |name: &str, value: Value| drop(object.insert(name.to_owned(), value));
        let Captured { at, wire_bytes, bytes } = self.captured;
        put("time", json!(format!("{}.{:09}", at.as_secs(), at.subsec_nanos())));
        put("wire_bytes", json!(wire_bytes));
        put("captured_bytes", json!(bytes.len()));
        if let Some([source, destination]) = self.addresses() {
            put("source", json!(source.to_string()));
            put("destination", json!(destination.to_string()));
        }
        if let Ok(seen) = &self.what {
            let Header { kind, session, stream, rank, epoch, flags, sequence, stamp } = seen.frame.header;
            let name = seen.spelled.as_ref().map(|spelled| spelled.kind);
            put("kind", name.map_or(json!(kind.0), |name| json!(name)));
            put("session", json!(format!("{session:08x}")));
            put("stream", json!(stream.0));
            put("rank", if rank == Rank::NONE { Value::Null } else { json!(rank.0) });
            put("epoch", json!(epoch));
            put("flags", json!(flags.names().collect::<Vec<_>>()));
            put("sequence", json!(sequence));
            put("stamp", json!(stamp));
            put("payload_bytes", json!(seen.payload_bytes));
            if let Some(fields) = self.fields() {
                let fields = fields.iter().map(|(name, value)| match value {
                    FieldValue::Number(number) => ((*name).to_owned(), json!(number)),
                    FieldValue::Text(text) => ((*name).to_owned(), json!(text)),
                });
                put("fields", Value::Object(fields.collect()));
            }
        }
        if let Some(fault) = self.fault() {
            put("fault", json!(fault));
        }
        Value::Object(object)
    }

    fn fields(&self) -> Option<&Fields> {
        self.what.as_ref().ok()?.spelled.as_ref()?.fields.as_ref()
    }
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Captured { at, wire_bytes, .. } = self.captured;
        write!(out, "{}", clock(at))?;
        if let Some([source, destination]) = self.addresses() {
            write!(out, " {source} > {destination}")?;
        }
        if let Ok(seen) = &self.what {
            let header = &seen.frame.header;
            match &seen.spelled {
                Some(spelled) => write!(out, " {}", spelled.kind)?,
                None => write!(out, " kind {}", header.kind.0)?,
            }
            write_header(out, header)?;
        }
        write!(out, ", length {}", wire_bytes.saturating_sub(ETHERNET_BYTES))?;
        let mut before = ": ";
        for (name, value) in self.fields().into_iter().flat_map(Fields::iter) {
            match value {
                FieldValue::Number(number) => write!(out, "{before}{name} {number}")?,
                // Untrusted text, whose control characters were removed at parsing.
                FieldValue::Text(text) => write!(out, "{before}{name} {text:?}")?,
            }
            before = ", ";
        }
        match self.fault() {
            Some(fault) => write!(out, " [{fault}]"),
            None => Ok(()),
        }
    }
}

fn write_header(out: &mut fmt::Formatter<'_>, header: &Header) -> fmt::Result {
    let Header { session, stream, rank, flags, sequence, stamp, .. } = *header;
    write!(out, " session {session:08x}")?;
    if rank != Rank::NONE {
        write!(out, " rank {rank}")?;
    }
    if stream != StreamId(0) {
        write!(out, " stream {stream}")?;
    }
    if sequence != 0 || stamp != 0 {
        write!(out, " seq {sequence} stamp {stamp}")?;
    }
    let names: Vec<_> = flags.names().collect();
    if names.is_empty() { Ok(()) } else { write!(out, " [{}]", names.join(" ")) }
}

fn clock(at: Duration) -> String {
    let seconds = at.as_secs() % 86_400;
    format!("{:02}:{:02}:{:02}.{:06}", seconds / 3600, seconds / 60 % 60, seconds % 60, at.subsec_micros())
}
