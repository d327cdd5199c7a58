//! Measured costs of a network (*calibration*): gap g(m) and latency L(m) by message size
//! (Patarasuk 2008 §4.2, §5.1).
//!
//! They are a table of measured points, with linear interpolation. Two more values are needed for
//! casts and are missing in the papers' model: the probability that a receiver misses a frame, and
//! the rate above which switches police broadcast.

#[doc(hidden)]
mod costs;

#[doc(hidden)]
pub use costs::{HostCost, Processing, WayTimes};

use crate::source::{self, LineStarts, SchemaProblem, SourceError};
use costs::Hosts;
use serde::Deserialize;
use thiserror::Error;
use toml::Spanned;

/// One row of the table: costs of a message of `bytes` (Patarasuk 2008, Table 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Size m of a message.
    pub bytes: u64,
    /// g(m): least time between the starts of two messages of this size, in nanoseconds.
    pub gap_ns: u64,
    /// L(m): time from the end of the gap to the arrival, in nanoseconds; RTT(m)/2 − g(m). It is
    /// negative on links that let a single message through faster than many (a full token bucket),
    /// which the model takes into account.
    pub latency_ns: i64,
}

/// Measured behaviour of broadcast frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Broadcast {
    /// Untested: broadcast is priced as if it arrived, but not chosen if a tested route is about
    /// as good.
    #[default]
    Untried,
    /// Broadcast arrives as fast as unicast.
    FullRate,
    /// Switches police broadcast above this rate, in frames per second, greater than zero.
    Policed(u64),
    /// Broadcast arrives, but at most at this rate, in frames per second, greater than zero: the
    /// sender's end copies it for each host, or a radio cell sends it slowly.
    Slower(u64),
}

/// Measured costs of a network: a table of [`Point`]s, at least two, with rising sizes and gaps
/// that never fall.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    points: Vec<Point>,
    loss: f64,
    broadcast: Broadcast,
    hosts: Hosts,
    processing: Option<Processing>,
    burst_ns: u64,
    spread: f64,
    ways: Vec<WayTimes>,
}

/// A refused calibration, with position and problem. Displayed as `calibration.toml:4: …`.
pub type CalibrationError = SourceError<CalibrationProblem>;

/// Problem of a calibration.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum CalibrationProblem {
    #[error(transparent)]
    Schema(#[from] SchemaProblem),
    #[error(
        "expected at least 2 sizes, found {0}; add a `[[point]]` with bytes, gap_ns and latency_ns for each size \
         measured"
    )]
    MissingSizes(usize),
    #[error(
        "expected sizes that rise, found {bytes} bytes after {before}; sort the points by size and give each size once"
    )]
    UnsortedSizes { bytes: u64, before: u64 },
    #[error(
        "expected a gap above 0 ns, found 0 for {0} bytes; measure again with `ethbcast probe`"
    )]
    ZeroGap(u64),
    #[error(
        "expected gaps that do not fall, found {gap_ns} ns for {bytes} bytes after {before_ns} ns for fewer; \
         measure again with `ethbcast probe`"
    )]
    FallingGap {
        bytes: u64,
        gap_ns: u64,
        before_ns: u64,
    },
    #[error(
        "expected a loss from 0.0 to below 1.0, found {0}; give the share of frames that a receiver misses"
    )]
    Loss(f64),
    #[error(
        "expected injection_ns above 0, found 0 for host `{0}`; measure again with `ethbcast probe`"
    )]
    ZeroInjection(String),
    #[error("host `{0}` has a `[[host]]` already; give each host one")]
    HostTwice(String),
    #[error(
        "measured on host `{0}`, which this cluster does not have; measure this one with `ethbcast probe`, or take the \
         host out of the file if it has gone"
    )]
    OtherHost(String),
    #[error(
        "measured from host `{before}`, and this one is `{now}`; update it from there, or write a file of its own with \
         --out"
    )]
    OtherRoot { before: String, now: String },
    #[error(
        "expected {name} of at most 1000000000, found {value}; measure again with `ethbcast probe`"
    )]
    Processing { name: &'static str, value: u64 },
    #[error(
        "expected stream_frame_bytes beside pass_on_frame_ns or cast_frame_ns, found none; measure again with \
         `ethbcast probe`"
    )]
    StreamFrame,
    #[error(
        "expected burst_ns of at most 1000000000, found {0}; measure again with `ethbcast probe`"
    )]
    Burst(u64),
    #[error(
        "expected a spread from 0.0 to 100.0, found {0}; give the share by which repeated measurements differ"
    )]
    Spread(f64),
    #[error(
        "expected cast_max_frames_per_second above 0, found 0; leave it out if broadcast is not policed"
    )]
    ZeroCastRate,
}

#[derive(Clone, Copy, Debug)]
enum Field {
    File,
    Bytes(usize),
    Gap(usize),
    Loss,
    CastRate,
    Host(usize),
    Injection(usize),
    Processing,
    Burst,
    Spread,
}

/// Bytes of the frame's header and the Ethernet header in front of it, added to each frame by
/// [`Calibration::assumed`].
const HEADER_BYTES: u64 = 32 + 14;
/// Shortest Ethernet frame without its check sum, in bytes: shorter ones are padded.
const MIN_FRAME_BYTES: u64 = 60;
/// L at any size in [`Calibration::assumed`]: a switch, an interrupt and a wake-up.
const ASSUMED_LATENCY_NS: i64 = 30_000;
/// Longest message in the table of [`Calibration::assumed`], in frames; beyond, it is extrapolated.
const ASSUMED_FRAMES: u64 = 1024;

const MAX_BURST_NS: u64 = 1_000_000_000;
const MAX_SPREAD: f64 = 100.0;

impl Calibration {
    /// Creates a calibration without loss or policing from points in order of size.
    ///
    /// # Errors
    /// [`CalibrationError`] for fewer than two points, sizes that do not rise, gaps of zero and
    /// gaps that fall.
    pub fn from_points(points: Vec<Point>) -> Result<Self, CalibrationError> {
        let calibration = Self::of(points);
        calibration
            .checked()
            .map_err(|(_, problem)| CalibrationError::nowhere(problem))
    }

    fn of(points: Vec<Point>) -> Self {
        Self {
            points,
            loss: 0.0,
            broadcast: Broadcast::Untried,
            hosts: Hosts::default(),
            processing: None,
            burst_ns: 0,
            spread: 0.0,
            ways: Vec::new(),
        }
    }

    /// Returns the costs assumed for an unmeasured network: frames at the link's rate, each with
    /// its headers (46 bytes), and 30 µs of latency.
    ///
    /// # Panics
    /// If the rate or the payload of a frame is zero.
    pub fn assumed(rate_bits_per_second: u64, frame_payload_bytes: u64) -> Self {
        assert!(
            rate_bits_per_second > 0 && frame_payload_bytes > 0,
            "a link has a rate and a frame has room"
        );
        let wire_ns = |bytes: u64| {
            let nanoseconds =
                u128::from(bytes) * 8 * 1_000_000_000 / u128::from(rate_bits_per_second);
            u64::try_from(nanoseconds).unwrap_or(u64::MAX).max(1)
        };
        let frame = |payload: u64| wire_ns((payload + HEADER_BYTES).max(MIN_FRAME_BYTES));
        let unpadded = MIN_FRAME_BYTES - HEADER_BYTES;
        let point = |bytes, gap_ns| Point {
            bytes,
            gap_ns,
            latency_ns: ASSUMED_LATENCY_NS,
        };
        let mut points = Vec::from_iter(
            (frame_payload_bytes > unpadded).then(|| point(unpadded, frame(unpadded))),
        );
        points.push(point(frame_payload_bytes, frame(frame_payload_bytes)));
        points.push(point(
            frame_payload_bytes * ASSUMED_FRAMES,
            frame(frame_payload_bytes).saturating_mul(ASSUMED_FRAMES),
        ));
        Self::of(points)
    }

    /// Returns the calibration with `loss`, the probability that a receiver misses a frame.
    ///
    /// # Errors
    /// [`CalibrationProblem::Loss`] unless it is at least 0 and below 1.
    pub fn with_loss(self, loss: f64) -> Result<Self, CalibrationError> {
        Self { loss, ..self }
            .checked()
            .map_err(|(_, problem)| CalibrationError::nowhere(problem))
    }

    /// Returns the calibration with broadcast policed above this rate.
    ///
    /// # Errors
    /// [`CalibrationProblem::ZeroCastRate`] if it is zero.
    pub fn with_cast_max(self, frames_per_second: u64) -> Result<Self, CalibrationError> {
        self.with_broadcast(Broadcast::Policed(frames_per_second))
    }

    /// Returns the calibration with this behaviour of broadcast.
    ///
    /// # Errors
    /// [`CalibrationProblem::ZeroCastRate`] if it is policed at zero.
    pub fn with_broadcast(self, broadcast: Broadcast) -> Result<Self, CalibrationError> {
        Self { broadcast, ..self }
            .checked()
            .map_err(|(_, problem)| CalibrationError::nowhere(problem))
    }

    /// Returns the calibration with these processor costs.
    ///
    /// # Errors
    /// [`CalibrationProblem::Processing`] if a cost is over a second per frame.
    pub fn with_processing(self, processing: Processing) -> Result<Self, CalibrationError> {
        let with = Self {
            processing: Some(processing),
            ..self
        };
        with.checked()
            .map_err(|(_, problem)| CalibrationError::nowhere(problem))
    }

    /// Returns the calibration with links that are token buckets: after a pause `burst_ns` of their
    /// rate pass at once.
    ///
    /// # Errors
    /// [`CalibrationProblem::Burst`] if that is over a second.
    pub fn with_burst_ns(self, burst_ns: u64) -> Result<Self, CalibrationError> {
        Self { burst_ns, ..self }
            .checked()
            .map_err(|(_, problem)| CalibrationError::nowhere(problem))
    }

    /// Returns the calibration of measurements that differ: true gaps are between these divided and
    /// multiplied by 1 + `spread`.
    ///
    /// # Errors
    /// [`CalibrationProblem::Spread`] unless it is at least 0 and at most 100.
    pub fn with_spread(self, spread: f64) -> Result<Self, CalibrationError> {
        Self { spread, ..self }
            .checked()
            .map_err(|(_, problem)| CalibrationError::nowhere(problem))
    }

    /// Returns the calibration with gaps `times` as long. A message alone takes as long as before.
    #[must_use]
    pub(in crate::model) fn slowed(&self, times: f64) -> Self {
        let slowed = |point: &Point| {
            let gap_ns = ((point.gap_ns as f64 * times) as u64).max(1);
            let alone_ns = point.latency_ns.saturating_add_unsigned(point.gap_ns);
            Point {
                gap_ns,
                latency_ns: alone_ns.saturating_sub_unsigned(gap_ns),
                ..*point
            }
        };
        Self {
            points: self.points.iter().map(slowed).collect(),
            ..self.clone()
        }
    }

    /// Returns the share by which measured gaps differ; 0 if they agree, or are not measured.
    pub fn spread(&self) -> f64 {
        self.spread
    }

    /// Returns the table, by rising size.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Returns the probability that a receiver misses a frame.
    pub fn loss(&self) -> f64 {
        self.loss
    }

    /// Returns the rate above which broadcast is policed, in frames per second, if there is one.
    pub fn cast_max_frames_per_second(&self) -> Option<u64> {
        if let Broadcast::Policed(frames_per_second) = self.broadcast {
            Some(frames_per_second)
        } else {
            None
        }
    }

    /// Returns the rate above which a cast gets no faster, in frames per second, if there is one.
    pub(in crate::model) fn cast_rate(&self) -> Option<u64> {
        match self.broadcast {
            Broadcast::Policed(rate) | Broadcast::Slower(rate) => Some(rate),
            Broadcast::Untried | Broadcast::FullRate => None,
        }
    }

    /// Returns the behaviour of broadcast.
    pub fn broadcast(&self) -> Broadcast {
        self.broadcast
    }

    /// Returns the hosts' processor costs, if measured.
    pub fn processing(&self) -> Option<&Processing> {
        self.processing.as_ref()
    }

    /// Returns the links' burst after a pause, in nanoseconds of their rate; 0 for a wire.
    pub fn burst_ns(&self) -> u64 {
        self.burst_ns
    }

    pub(in crate::model) fn frame_bits(&self, frame_payload_bytes: u64) -> f64 {
        ((frame_payload_bytes + HEADER_BYTES).max(MIN_FRAME_BYTES) * 8) as f64
    }

    /// Returns the time in which a host sends or receives a full frame, in nanoseconds, if
    /// measured; hosts by full or short name.
    pub fn injection_ns(&self, host: &str) -> Option<u64> {
        self.hosts.find(host)
    }

    /// Returns g(m) in nanoseconds: linear between points, constant below the first. A message
    /// longer than the last takes as long as a sequence of messages of that size.
    pub fn gap_ns(&self, bytes: u64) -> f64 {
        let last = self.points[self.points.len() - 1];
        let times = (bytes as f64 / last.bytes.max(1) as f64).max(1.0);
        self.interpolate(bytes.min(last.bytes), |point| point.gap_ns as f64) * times
    }

    /// Returns L(m) in nanoseconds: linear between points, constant below the first and beyond the
    /// last. The part of a message beyond its gap does not grow for ever.
    pub fn latency_ns(&self, bytes: u64) -> f64 {
        let longest = self.points[self.points.len() - 1].bytes;
        self.interpolate(bytes.min(longest), |point| point.latency_ns as f64)
    }

    fn interpolate(&self, bytes: u64, value: fn(&Point) -> f64) -> f64 {
        let above = self.points.partition_point(|point| point.bytes < bytes);
        if above == 0 {
            return value(&self.points[0]);
        }
        let (left, right) = (&self.points[above - 1], &self.points[above]);
        let slope = (value(right) - value(left)) / (right.bytes - left.bytes) as f64;
        value(left) + slope * (bytes - left.bytes) as f64
    }

    fn checked(self) -> Result<Self, (Field, CalibrationProblem)> {
        if self.points.len() < 2 {
            return Err((
                Field::File,
                CalibrationProblem::MissingSizes(self.points.len()),
            ));
        }
        if let Some((at, point)) = self
            .points
            .iter()
            .enumerate()
            .find(|(_, point)| point.gap_ns == 0)
        {
            return Err((Field::Gap(at), CalibrationProblem::ZeroGap(point.bytes)));
        }
        for (at, pair) in self.points.windows(2).enumerate() {
            let (before, point) = (pair[0], pair[1]);
            if point.bytes <= before.bytes {
                let problem = CalibrationProblem::UnsortedSizes {
                    bytes: point.bytes,
                    before: before.bytes,
                };
                return Err((Field::Bytes(at + 1), problem));
            }
            if point.gap_ns < before.gap_ns {
                let (bytes, gap_ns, before_ns) = (point.bytes, point.gap_ns, before.gap_ns);
                return Err((
                    Field::Gap(at + 1),
                    CalibrationProblem::FallingGap {
                        bytes,
                        gap_ns,
                        before_ns,
                    },
                ));
            }
        }
        if !(0.0..1.0).contains(&self.loss) {
            return Err((Field::Loss, CalibrationProblem::Loss(self.loss)));
        }
        if matches!(self.broadcast, Broadcast::Policed(0) | Broadcast::Slower(0)) {
            return Err((Field::CastRate, CalibrationProblem::ZeroCastRate));
        }
        if self.burst_ns > MAX_BURST_NS {
            return Err((Field::Burst, CalibrationProblem::Burst(self.burst_ns)));
        }
        if !(0.0..=MAX_SPREAD).contains(&self.spread) {
            return Err((Field::Spread, CalibrationProblem::Spread(self.spread)));
        }
        self.processing.iter().try_for_each(Processing::check)?;
        self.hosts.check()?;
        Ok(self)
    }
}

impl Calibration {
    /// Returns the calibration for hosts that limit their sending rate, Ethernet headers counted,
    /// in frames of at most `frame_payload_bytes`. After a pause `burst_ns` of that rate leave at
    /// once. A limit above the link's rate changes nothing.
    ///
    /// # Panics
    /// If the rate or the payload of a frame is zero.
    pub fn limited_to(
        self,
        rate_bits_per_second: u64,
        frame_payload_bytes: u64,
        burst_ns: u64,
    ) -> Calibration {
        assert!(
            rate_bits_per_second > 0 && frame_payload_bytes > 0,
            "a limit lets something pass"
        );
        let takes = |bytes: u64| {
            let frames = bytes.div_ceil(frame_payload_bytes).max(1);
            let wire_bytes = (bytes + frames * HEADER_BYTES).max(MIN_FRAME_BYTES);
            let nanoseconds =
                u128::from(wire_bytes) * 8 * 1_000_000_000 / u128::from(rate_bits_per_second);
            u64::try_from(nanoseconds).unwrap_or(u64::MAX)
        };
        let binds = takes(frame_payload_bytes) as f64 > self.gap_ns(frame_payload_bytes);
        let points = self.points.iter().map(|point| Point {
            gap_ns: point.gap_ns.max(takes(point.bytes)),
            ..*point
        });
        let points = points.collect();
        let burst_ns = if binds {
            burst_ns.min(MAX_BURST_NS)
        } else {
            self.burst_ns
        };
        // A limit that binds is known.
        let spread = if binds { 0.0 } else { self.spread };
        Calibration {
            points,
            burst_ns,
            spread,
            ..self
        }
    }
}

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
            Broadcast::Slower(rate) => {
                text += &format!("cast_max_frames_per_second = {rate}\ncast_tried = true\n")
            }
            Broadcast::Policed(rate) => text += &format!("cast_max_frames_per_second = {rate}\n"),
        }
        for Point {
            bytes,
            gap_ns,
            latency_ns,
        } in &self.points
        {
            text += &format!(
                "\n[[point]]\nbytes = {bytes}\ngap_ns = {gap_ns}\nlatency_ns = {latency_ns}\n"
            );
        }
        for HostCost { name, injection_ns } in self.hosts() {
            text += &format!(
                "\n[[host]]\nname = {}\ninjection_ns = {injection_ns}\n",
                toml::Value::from(name.as_str())
            );
        }
        text + &self
            .processing()
            .map(|processing| processing.to_toml())
            .unwrap_or_default()
    }
}

fn read(text: &str, file_name: &str) -> Result<Calibration, CalibrationError> {
    let file: CalibrationFile = source::read(text)?;
    let starts = LineStarts::of(text);
    let lines = file
        .host
        .iter()
        .map(|host| starts.line_at(host.name.span().start))
        .collect();
    let hosts = Hosts::new(
        file.measured_from.clone(),
        file.host.iter().map(HostTable::cost).collect(),
    );
    let calibration = Calibration {
        points: file.point.iter().map(PointTable::point).collect(),
        loss: file.loss.as_ref().map_or(0.0, |loss| *loss.get_ref()),
        broadcast: file.broadcast(),
        hosts: hosts.read_from(file_name, lines),
        burst_ns: file
            .burst_ns
            .as_ref()
            .map_or(0, |burst_ns| *burst_ns.get_ref()),
        spread: file.spread.as_ref().map_or(0.0, |spread| *spread.get_ref()),
        processing: file
            .processing
            .as_ref()
            .map(|processing| *processing.get_ref()),
        ways: Vec::new(),
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
        HostCost {
            name: self.name.get_ref().clone(),
            injection_ns: *self.injection_ns.get_ref(),
        }
    }
}

impl PointTable {
    fn point(&self) -> Point {
        Point {
            bytes: *self.bytes.get_ref(),
            gap_ns: *self.gap_ns.get_ref(),
            latency_ns: self.latency_ns,
        }
    }
}

#[cfg(test)]
mod tests;
