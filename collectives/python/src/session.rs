//! Python interface to one-to-many transfers: bytes from one host to all others, verified.

use crate::buffers::Buffer;
use crate::failure::{self, Failure};
use crate::waiting::{Cancel, Watched};
use ethbcast_collectives::ErrorKind;
use ethbcast_collectives::session::live::{Content, Room, Storage, StorageError};
use ethbcast_collectives::session::{
    Digest, Outcome, ReceiveReport, RecvOptions, SendOptions, SendReport, Session, Trailer,
};
use ethbcast_content::dest::{Arrival, Dest, Handling};
use ethbcast_content::disk::Accept;
use ethbcast_content::source::{Opened, Opening, Selection};
use ethbcast_content::storage::Target;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Outcome of a session.
#[pyclass(frozen, module = "ethbcast")]
pub struct Report {
    /// Number of bytes sent or received.
    #[pyo3(get)]
    bytes: u64,
    /// Seconds from the first byte to the last verdict.
    #[pyo3(get)]
    seconds: f64,
    digest: Option<Digest>,
    /// Bytes that travelled to all, with hash lists, if receivers had an earlier version.
    #[pyo3(get)]
    travelled: Option<u64>,
    /// At a sender: number of receivers that have verified the bytes.
    #[pyo3(get)]
    receivers: usize,
    /// At a sender: number of hosts of other networks that have verified them, behind relays.
    #[pyo3(get)]
    behind: usize,
    /// At a receiver: the sender's name of the bytes.
    #[pyo3(get)]
    source: String,
    /// Route of the bytes, such as "cast" or "chain".
    #[pyo3(get)]
    via: Option<String>,
    /// At a receiver: the path, if they were received to a path.
    #[pyo3(get)]
    path: Option<PathBuf>,
    /// At a receiver: the bytes, if they were received to nowhere else.
    #[pyo3(get)]
    data: Option<Py<PyBytes>>,
}

#[pymethods]
impl Report {
    /// BLAKE3 hash of the bytes.
    #[getter]
    fn blake3<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.digest.map(|digest| PyBytes::new(py, &digest))
    }

    fn __repr__(&self) -> String {
        let Report {
            bytes,
            seconds,
            receivers,
            source,
            ..
        } = self;
        format!(
            "<ethbcast.Report of {bytes} bytes in {seconds:.3} s, source={source:?}, receivers={receivers}>"
        )
    }
}

impl Report {
    fn sent(from: &SendReport) -> Report {
        Report {
            bytes: from.bytes(),
            seconds: from.took.as_secs_f64(),
            digest: from.trailer.map(|trailer| trailer.digest),
            travelled: from.sent_bytes,
            receivers: from.verified(),
            behind: from.behind(),
            source: String::new(),
            via: from.via().map(|via| via.to_string()),
            path: None,
            data: None,
        }
    }

    fn received(from: ReceiveReport) -> Report {
        Report {
            bytes: from.bytes(),
            seconds: from.took.as_secs_f64(),
            digest: from.verdict.map(|verdict| verdict.digest),
            travelled: from.came_bytes,
            receivers: 0,
            behind: 0,
            source: from.source,
            via: from.via.map(|via| via.to_string()),
            path: None,
            data: None,
        }
    }
}

/// Sends a file or directory, by its path, or the memory of an object to the receivers of `group`,
/// and returns when every one of them has verified it.
#[pyfunction]
#[pyo3(signature = (content, group, *, progress=None, cancel=None, **options))]
pub fn send(
    content: &Bound<'_, PyAny>,
    group: &str,
    progress: Option<Py<PyAny>>,
    cancel: Option<Cancel>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Report> {
    let (py, options) = (
        content.py(),
        failure::named(options)?.send().map_err(Failure::from)?,
    );
    let watched = Watched {
        run: options.run.clone(),
        progress,
        cancel,
    };
    let report = if let Ok(path) = content.extract::<PathBuf>() {
        watched.start(py, |run| {
            Ok(Session::send(
                group,
                opened(&path)?,
                &SendOptions { run, ..options },
            )?)
        })
    } else {
        let bytes = Content::of_memory(Sent(Arc::new(Buffer::to_read(content, "what is sent")?)));
        watched.start(py, |run| {
            Ok(Session::send(
                group,
                bytes,
                &SendOptions { run, ..options },
            )?)
        })
    };
    Ok(Report::sent(&report?))
}

fn opened(path: &Path) -> Result<Content<'static>, Failure> {
    let is_tree = path.is_dir();
    let opened = if is_tree {
        Opened::tree(&[path.to_owned()], &Selection::default())
    } else {
        plain(path)
    };
    Ok(opened?.content)
}

fn plain(path: &Path) -> Result<Opened, ethbcast_content::source::SourceError> {
    Opened::file(path, Opening::default())
}

#[derive(Clone)]
struct Sent(Arc<Buffer>);

impl AsRef<[u8]> for Sent {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

/// Receives the bytes sent to `group`: to a path, into the memory of an object, or, without `into`,
/// as bytes in the report.
#[pyfunction]
#[pyo3(signature = (
    group, into=None, *, replace=false, accept=None, most_bytes=None, progress=None, cancel=None, **options
))]
#[expect(
    clippy::too_many_arguments,
    reason = "keywords of Python, each with a default"
)]
pub fn recv(
    py: Python<'_>,
    group: &str,
    into: Option<&Bound<'_, PyAny>>,
    replace: bool,
    accept: Option<&str>,
    most_bytes: Option<u64>,
    progress: Option<Py<PyAny>>,
    cancel: Option<Cancel>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Report> {
    let named = failure::named(options)?;
    let mut options = named.receive().map_err(Failure::from)?;
    let is_path = into.is_none_or(|into| into.extract::<PathBuf>().is_ok());
    if named.is_delta() && is_path {
        return Err(PyValueError::new_err(
            "delta=True is for memory that holds an earlier version: pass that as into=",
        ));
    }
    let watched = Watched {
        run: options.run.clone(),
        progress,
        cancel,
    };
    let Some(into) = into else {
        let most_bytes = most_bytes.unwrap_or_else(room);
        let mut memory = Memory {
            bytes: Vec::new(),
            most_bytes,
        };
        options.free_bytes = most_bytes;
        let receive = |run| {
            Ok(Session::receive_into(
                group,
                &mut memory,
                &RecvOptions { run, ..options },
            )?)
        };
        let report = watched.start(py, receive)?;
        let bytes = memory.bytes;
        let data = PyBytes::new_with(py, bytes.len(), |place| {
            place.copy_from_slice(&bytes);
            Ok(())
        })?;
        return Ok(Report {
            data: Some(data.unbind()),
            ..Report::received(report)
        });
    };
    if let Ok(path) = into.extract::<PathBuf>() {
        let accept = accept.map_or(Ok(Accept::default()), str::parse);
        let accept = accept.map_err(|text| Failure::new(ErrorKind::Usage, text))?;
        let target = Target {
            dest: path,
            replace,
            accept,
            ..Target::default()
        };
        let land = |run| received_at(group, target, RecvOptions { run, ..options });
        let (report, path) = watched.start(py, land)?;
        return Ok(Report {
            path,
            ..Report::received(report)
        });
    }
    let mut buffer = Buffer::to_write(into, "what is received into")?;
    if named.is_delta() {
        let receive =
            |run| Ok(Session::receive_over(group, buffer, &RecvOptions { run, ..options }).1?);
        return Ok(Report::received(watched.start(py, receive)?));
    }
    let bytes = buffer.bytes();
    options.free_bytes = bytes.len() as u64;
    let receive = |run| {
        Ok(Session::receive_into(
            group,
            Room::of(bytes),
            &RecvOptions { run, ..options },
        )?)
    };
    let report = watched.start(py, receive)?;
    Ok(Report::received(report))
}

/// Receives to a path, where the content appears complete or not at all; returns its final path.
fn received_at(
    group: &str,
    target: Target,
    options: RecvOptions,
) -> Result<(ReceiveReport, Option<PathBuf>), Failure> {
    let (path, replace) = (&target.dest, target.replace);
    // Checked here first, because the library's message names the program's arguments.
    if !replace && !path.is_dir() && path.symlink_metadata().is_ok() {
        let text = format!("{} exists: remove it, or pass replace=True", path.display());
        return Err(Failure::new(ErrorKind::System, text));
    }
    let dest = Dest::resolve(path.as_os_str(), replace)?;
    let dest = Arc::new(dest);
    let offer_check = Some(Dest::offer_check(&dest, &target));
    let options = RecvOptions {
        free_bytes: dest.free_bytes(),
        offer_check,
        ..options
    };
    let (arrival, landed) = Arrival::new(dest, target, Handling::default());
    let report = Session::receive_into(group, arrival, &options)?;
    Ok((report, landed.path().cloned()))
}

/// Limit of bytes received into memory by default: the memory grows by doubling, and is copied
/// once.
fn room() -> u64 {
    let available = |line: &str| -> Option<u64> {
        line.strip_prefix("MemAvailable:")?
            .trim()
            .strip_suffix(" kB")?
            .parse::<u64>()
            .ok()
    };
    let said = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    said.lines()
        .find_map(available)
        .map_or(u64::MAX, |kibibytes| kibibytes * 1024 / PARTS)
}

const PARTS: u64 = 3;

struct Memory {
    bytes: Vec<u8>,
    most_bytes: u64,
}

impl Storage for &mut Memory {
    fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        let is_too_much = (self.bytes.len() + bytes.len()) as u64 > self.most_bytes;
        if is_too_much || self.bytes.try_reserve(bytes.len()).is_err() {
            let held = self
                .most_bytes
                .min(self.bytes.len() as u64 + bytes.len() as u64);
            let text = format!(
                "more than {held} bytes come: pass most_bytes= if there is memory, or receive to a path"
            );
            return Err(StorageError::new(Outcome::NoSpace, text));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn settle(&mut self, _trailer: Trailer) -> Result<(), StorageError> {
        Ok(())
    }

    fn syncs(&self) -> bool {
        false
    }
}
