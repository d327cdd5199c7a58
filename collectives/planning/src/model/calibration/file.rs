//! File of a network's measured costs (*calibration file*): TOML with one `[[point]]` table per
//! message size.
//!
//! ```toml
//! schema = 1
//! measured_from = "n0"                    # may be left out
//! loss = 0.001                            # may be left out: the share of frames that a receiver misses
//! cast_max_frames_per_second = 10000      # may be left out: broadcast is policed above this
//! burst_ns = 500000                       # may be left out: burst of the links after a pause (token buckets)
//! spread = 0.3                            # may be left out: repeated measurements differ by 30 %
//! cast_tried = true                       # may be left out: broadcast was tried, and arrives: at full rate, or
//!                                         # whole, but no faster than cast_max_frames_per_second
//!
//! [[point]]
//! bytes = 1024
//! gap_ns = 25000
//! latency_ns = 68000
//!
//! [[host]]                                # may be left out: hosts that were measured one by one
//! name = "n3"
//! injection_ns = 121000                   # time that it, or its cable, is busy with a full frame
//!
//! [processing]                            # may be left out: processor time of a host
//! send_frame_ns = 2300                    # for each frame
//! send_byte_ps = 350                      # and for each byte of it, in picoseconds
//! receive_frame_ns = 1900
//! receive_byte_ps = 300
//! pass_on_frame_ns = 3400                 # may be left out: a frame of a long stream, received and sent on
//! cast_frame_ns = 9300                    # may be left out: a frame that is sent to all
//! stream_frame_bytes = 1468               # may be left out: bytes of the message in these frames
//! wake_up_ns = 6000                       # may be left out: time until a sleeping host notices a frame
//! shared_cores = 2                        # may be left out: processors, if all hosts run on one machine
//! ```

use super::costs::{HostCost, Hosts};
use super::{Broadcast, Calibration, CalibrationError, Field, Point, Processing};
use crate::source::{self, LineStarts};
use serde::Deserialize;
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CalibrationFile {
    #[serde(rename = "schema")]
    _schema: i64,
    measured_from: Option<String>,
    loss: Option<Spanned<f64>>,
    cast_max_frames_per_second: Option<Spanned<u64>>,
    burst_ns: Option<Spanned<u64>>,
    spread: Option<Spanned<f64>>,
    #[serde(default)]
    cast_tried: bool,
    #[serde(default)]
    point: Vec<PointTable>,
    #[serde(default)]
    host: Vec<HostTable>,
    processing: Option<Spanned<Processing>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostTable {
    name: Spanned<String>,
    injection_ns: Spanned<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PointTable {
    bytes: Spanned<u64>,
    gap_ns: Spanned<u64>,
    latency_ns: i64,
}

impl Calibration {
    /// Reads a calibration file; `file_name` names it in errors.
    ///
    /// # Errors
    /// [`CalibrationError`] with file and line, for anything that is not TOML of this form, and as
    /// [`Calibration::from_points`].
    pub fn parse(text: &str, file_name: &str) -> Result<Self, CalibrationError> {
        read(text, file_name).map_err(|error| error.named(file_name))
    }

    /// Writes the calibration as a file that [`Calibration::parse`] reads.
    pub fn to_toml(&self) -> String {
        let mut text = String::from("schema = 1\n");
        if let Some(root) = self.measured_from() {
            text += &format!("measured_from = {}\n", toml::Value::from(root));
        }
        if self.loss > 0.0 {
            // Debug writes the shortest number that reads back as equal, with a decimal point or an
            // exponent.
            text += &format!("loss = {:?}\n", self.loss);
        }
        if self.burst_ns > 0 {
            text += &format!("burst_ns = {}\n", self.burst_ns);
        }
        if self.spread > 0.0 {
            text += &format!("spread = {:?}\n", self.spread);
        }
        match self.broadcast {
            Broadcast::Untried => {}
            Broadcast::FullRate => text += "cast_tried = true\n",
            Broadcast::Slower(rate) => text += &format!("cast_max_frames_per_second = {rate}\ncast_tried = true\n"),
            Broadcast::Policed(rate) => text += &format!("cast_max_frames_per_second = {rate}\n"),
        }
        for Point { bytes, gap_ns, latency_ns } in &self.points {
            text += &format!("\n[[point]]\nbytes = {bytes}\ngap_ns = {gap_ns}\nlatency_ns = {latency_ns}\n");
        }
        for HostCost { name, injection_ns } in self.hosts() {
            text +=
                &format!("\n[[host]]\nname = {}\ninjection_ns = {injection_ns}\n", toml::Value::from(name.as_str()));
        }
        text + &self.processing().map(|processing| processing.to_toml()).unwrap_or_default()
    }
}

fn read(text: &str, file_name: &str) -> Result<Calibration, CalibrationError> {
    let file: CalibrationFile = source::read(text)?;
    let starts = LineStarts::of(text);
    let lines = file.host.iter().map(|host| starts.line_at(host.name.span().start)).collect();
    let hosts = Hosts::new(file.measured_from.clone(), file.host.iter().map(HostTable::cost).collect());
    let calibration = Calibration {
        points: file.point.iter().map(PointTable::point).collect(),
        loss: file.loss.as_ref().map_or(0.0, |loss| *loss.get_ref()),
        broadcast: file.broadcast(),
        hosts: hosts.read_from(file_name, lines),
        burst_ns: file.burst_ns.as_ref().map_or(0, |burst_ns| *burst_ns.get_ref()),
        spread: file.spread.as_ref().map_or(0.0, |spread| *spread.get_ref()),
        processing: file.processing.as_ref().map(|processing| *processing.get_ref()),
    };
    calibration.checked().map_err(|(field, problem)| {
        let line = file.offset_of(field).map(|offset| starts.line_at(offset));
        CalibrationError::at(line, problem)
    })
}

impl CalibrationFile {
    fn broadcast(&self) -> Broadcast {
        match &self.cast_max_frames_per_second {
            Some(rate) if self.cast_tried => Broadcast::Slower(*rate.get_ref()),
            Some(rate) => Broadcast::Policed(*rate.get_ref()),
            None if self.cast_tried => Broadcast::FullRate,
            None => Broadcast::Untried,
        }
    }

    fn offset_of(&self, field: Field) -> Option<usize> {
        let span = match field {
            Field::File => return None,
            Field::Bytes(at) => self.point[at].bytes.span(),
            Field::Gap(at) => self.point[at].gap_ns.span(),
            Field::Host(at) => self.host[at].name.span(),
            Field::Injection(at) => self.host[at].injection_ns.span(),
            Field::Loss => self.loss.as_ref()?.span(),
            Field::Burst => self.burst_ns.as_ref()?.span(),
            Field::Spread => self.spread.as_ref()?.span(),
            Field::Processing => self.processing.as_ref()?.span(),
            Field::CastRate => self.cast_max_frames_per_second.as_ref()?.span(),
        };
        Some(span.start)
    }
}

impl HostTable {
    fn cost(&self) -> HostCost {
        HostCost { name: self.name.get_ref().clone(), injection_ns: *self.injection_ns.get_ref() }
    }
}

impl PointTable {
    fn point(&self) -> Point {
        Point { bytes: *self.bytes.get_ref(), gap_ns: *self.gap_ns.get_ref(), latency_ns: self.latency_ns }
    }
}
