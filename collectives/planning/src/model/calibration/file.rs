//! The calibration file: TOML with `schema = 1` and one `[[point]]` table per message size.
//!
//! ```toml
//! schema = 1
//! loss = 0.001                            # may be left out: the share of frames that a receiver misses
//! cast_max_frames_per_second = 10000      # may be left out: broadcast is policed above this
//!
//! [[point]]
//! bytes = 1024
//! gap_ns = 25000
//! latency_ns = 68000
//! ```

use super::{Calibration, CalibrationError, Field, Point};
use crate::schema::{self, LineStarts};
use serde::Deserialize;
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CalibrationFile {
    #[serde(rename = "schema")]
    _schema: i64,
    loss: Option<Spanned<f64>>,
    cast_max_frames_per_second: Option<Spanned<u64>>,
    #[serde(default)]
    point: Vec<PointTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PointTable {
    bytes: Spanned<u64>,
    gap_ns: Spanned<u64>,
    latency_ns: i64,
}

impl Calibration {
    /// Reads a calibration file; `file_name` is what errors call it.
    ///
    /// # Errors
    /// [`CalibrationError`] with file and line, for anything that is not TOML of this form, and as
    /// [`Calibration::from_points`].
    pub fn parse(text: &str, file_name: &str) -> Result<Self, CalibrationError> {
        read(text).map_err(|error| error.named(file_name))
    }

    /// Writes the calibration as a file that [`Calibration::parse`] reads.
    pub fn to_toml(&self) -> String {
        let mut text = String::from("schema = 1\n");
        if self.loss > 0.0 {
            // Debug writes the shortest number that reads back as the same, with a decimal point or an exponent.
            text += &format!("loss = {:?}\n", self.loss);
        }
        if let Some(rate) = self.cast_max_frames_per_second {
            text += &format!("cast_max_frames_per_second = {rate}\n");
        }
        for Point { bytes, gap_ns, latency_ns } in &self.points {
            text += &format!("\n[[point]]\nbytes = {bytes}\ngap_ns = {gap_ns}\nlatency_ns = {latency_ns}\n");
        }
        text
    }
}

/// Reads a calibration from a text that is still to be named.
fn read(text: &str) -> Result<Calibration, CalibrationError> {
    let file: CalibrationFile = schema::read(text)?;
    let calibration = Calibration {
        points: file.point.iter().map(PointTable::point).collect(),
        loss: file.loss.as_ref().map_or(0.0, |loss| *loss.get_ref()),
        cast_max_frames_per_second: file.cast_max_frames_per_second.as_ref().map(|rate| *rate.get_ref()),
    };
    calibration.checked().map_err(|(field, problem)| {
        let line = file.offset_of(field).map(|offset| LineStarts::of(text).line_at(offset));
        CalibrationError::at(line, problem)
    })
}

impl CalibrationFile {
    /// Where a field's value stands in the text; `None` for what is about the whole file.
    fn offset_of(&self, field: Field) -> Option<usize> {
        let span = match field {
            Field::File => return None,
            Field::Bytes(at) => self.point[at].bytes.span(),
            Field::Gap(at) => self.point[at].gap_ns.span(),
            Field::Loss => self.loss.as_ref()?.span(),
            Field::CastRate => self.cast_max_frames_per_second.as_ref()?.span(),
        };
        Some(span.start)
    }
}

impl PointTable {
    fn point(&self) -> Point {
        Point { bytes: *self.bytes.get_ref(), gap_ns: *self.gap_ns.get_ref(), latency_ns: self.latency_ns }
    }
}
