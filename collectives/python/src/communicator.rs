//! Python interface to communicators: groups of processes with messages and collectives, as in MPI.

use crate::buffers::{Buffer, WritableBuffer};
use crate::failure::{self, Failure};
use crate::waiting::{Cancel, Signals};
use ethbcast_collectives::communicator::{self, CommunicatorError, Error, Reduction};
use ethbcast_collectives::lock::Mutex;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Arc;
use std::time::Duration;

/// A group of ranks that call each other. Several threads may call it at once: messages proceed
/// concurrently, collectives take turns.
#[pyclass(frozen, module = "ethbcast")]
pub struct Communicator {
    /// `None` once closed, and while it shrinks.
    ranks: Mutex<Option<Arc<communicator::Communicator>>>,
    place: Mutex<Place>,
    call_within: Duration,
    signals: Signals,
}

#[derive(Clone)]
struct Place {
    rank: u16,
    hosts: Vec<String>,
}

impl Place {
    fn of(ranks: &communicator::Communicator) -> Mutex<Place> {
        Mutex::new(Place {
            rank: ranks.rank(),
            hosts: ranks.hosts().to_vec(),
        })
    }
}

#[pymethods]
impl Communicator {
    /// Joins `group` and waits until all `size` ranks are there; ranks are in the natural order of
    /// the hosts' names.
    #[staticmethod]
    #[pyo3(signature = (group, size, *, cancel=None, **options))]
    fn join(
        py: Python<'_>,
        group: &str,
        size: u16,
        cancel: Option<Cancel>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Communicator> {
        let signals = Signals::default();
        let mut options = failure::named(options)?.join().map_err(Failure::from)?;
        options.meanwhile = Some(signals.meanwhile());
        let joined = py.detach(|| {
            Cancel::over(cancel, || {
                communicator::Communicator::join_with(group, size, &options)
            })
        });
        let ranks = joined.map_err(|error| raised(&signals, error))?;
        let (place, call_within) = (Place::of(&ranks), options.call_within);
        Ok(Communicator {
            ranks: Mutex::new(Some(Arc::new(ranks))),
            place,
            call_within,
            signals,
        })
    }

    /// This process's rank.
    #[getter]
    fn rank(&self) -> u16 {
        self.place.lock().rank
    }

    /// Number of ranks.
    #[getter]
    fn size(&self) -> usize {
        self.place.lock().hosts.len()
    }

    /// Name of this rank's host.
    #[getter]
    fn host(&self) -> String {
        let Place { rank, hosts } = self.place.lock().clone();
        hosts[usize::from(rank)].clone()
    }

    /// Names of all hosts, by rank.
    #[getter]
    fn hosts(&self) -> Vec<String> {
        self.place.lock().hosts.clone()
    }

    /// Copies the bytes of `root`'s buffer into every rank's, in place.
    #[pyo3(signature = (buffer, root=0, *, cancel=None))]
    fn broadcast(
        &self,
        buffer: &Bound<'_, PyAny>,
        root: u16,
        cancel: Option<Cancel>,
    ) -> PyResult<()> {
        let mut taken = Buffer::to_write(buffer, "the buffer")?;
        let bytes = taken.bytes();
        self.call(buffer.py(), cancel, |ranks| ranks.broadcast(root, bytes))
    }

    /// Waits until every rank has called it.
    #[pyo3(signature = (*, cancel=None))]
    fn barrier(&self, py: Python<'_>, cancel: Option<Cancel>) -> PyResult<()> {
        self.call(py, cancel, communicator::Communicator::barrier)
    }

    /// Copies block r of the root's `blocks` into rank r's `own`; elsewhere `blocks` is `None`.
    #[pyo3(signature = (blocks, own, root=0, *, cancel=None))]
    fn scatter(
        &self,
        blocks: Option<&Bound<'_, PyAny>>,
        own: &Bound<'_, PyAny>,
        root: u16,
        cancel: Option<Cancel>,
    ) -> PyResult<()> {
        let mut place = Buffer::to_write(own, "the own block")?;
        let all = self
            .at_root(blocks, root)?
            .map(|blocks| Buffer::to_read(blocks, "the buffer of all blocks"));
        let all = all.transpose()?;
        all.as_ref().map_or(Ok(()), |all| {
            place.check_apart(all, "the own block and all blocks")
        })?;
        let (all, place) = (all.as_ref().map_or(&[][..], Buffer::bytes), place.bytes());
        self.call(own.py(), cancel, |ranks| ranks.scatter(root, all, place))
    }

    /// Copies every rank's `own` block into the root's `blocks`, in rank order; elsewhere `blocks`
    /// is `None`.
    #[pyo3(signature = (own, blocks, root=0, *, cancel=None))]
    fn gather(
        &self,
        own: &Bound<'_, PyAny>,
        blocks: Option<&Bound<'_, PyAny>>,
        root: u16,
        cancel: Option<Cancel>,
    ) -> PyResult<()> {
        let block = Buffer::to_read(own, "the own block")?;
        let place = self
            .at_root(blocks, root)?
            .map(|blocks| Buffer::to_write(blocks, "the buffer of all blocks"));
        let mut place = place.transpose()?;
        place.as_ref().map_or(Ok(()), |place| {
            place.check_apart(&block, "the own block and all blocks")
        })?;
        let (block, place) = (
            block.bytes(),
            place.as_mut().map_or(&mut [][..], |place| place.bytes()),
        );
        self.call(own.py(), cancel, |ranks| ranks.gather(root, block, place))
    }

    /// Copies every rank's `own` block into every rank's `blocks`, in rank order.
    #[pyo3(signature = (own, blocks, *, cancel=None))]
    fn allgather(
        &self,
        own: &Bound<'_, PyAny>,
        blocks: &Bound<'_, PyAny>,
        cancel: Option<Cancel>,
    ) -> PyResult<()> {
        let block = Buffer::to_read(own, "the own block")?;
        let mut place = Buffer::to_write(blocks, "the buffer of all blocks")?;
        place.check_apart(&block, "the own block and all blocks")?;
        let (block, place) = (block.bytes(), place.bytes());
        self.call(own.py(), cancel, |ranks| ranks.allgather(block, place))
    }

    /// Combines the numbers of all ranks' buffers, in place at `root`; the others' stay as they are.
    /// `op` is `sum`, `min` or `max`, `type` such as `f32` if the buffer does not say it.
    #[pyo3(signature = (buffer, op="sum", root=0, *, r#type=None, cancel=None))]
    fn reduce(
        &self,
        buffer: &Bound<'_, PyAny>,
        op: &str,
        root: u16,
        r#type: Option<&str>,
        cancel: Option<Cancel>,
    ) -> PyResult<()> {
        let mut taken = Buffer::to_write(buffer, "the buffer")?;
        let reduction = reduction(op, r#type, &taken)?;
        let bytes = taken.bytes();
        self.call(buffer.py(), cancel, |ranks| {
            ranks.reduce(root, reduction, bytes)
        })
    }

    /// Combines the numbers of all ranks' buffers as `reduce` does, in place at all ranks, which
    /// have the same bits then.
    #[pyo3(signature = (buffer, op="sum", *, r#type=None, cancel=None))]
    fn allreduce(
        &self,
        buffer: &Bound<'_, PyAny>,
        op: &str,
        r#type: Option<&str>,
        cancel: Option<Cancel>,
    ) -> PyResult<()> {
        let mut taken = Buffer::to_write(buffer, "the buffer")?;
        let reduction = reduction(op, r#type, &taken)?;
        let bytes = taken.bytes();
        self.call(buffer.py(), cancel, |ranks| {
            ranks.allreduce(reduction, bytes)
        })
    }

    /// Sends a message to rank `to`, within this many seconds: a short one at once, a long one when
    /// the other receives it.
    #[pyo3(signature = (data, to, tag=0, *, within=None, cancel=None))]
    fn send(
        &self,
        data: &Bound<'_, PyAny>,
        to: u16,
        tag: u32,
        within: Option<f64>,
        cancel: Option<Cancel>,
    ) -> PyResult<()> {
        let (data, py, within) = (
            Buffer::to_read(data, "the message")?,
            data.py(),
            self.within(within)?,
        );
        let bytes = data.bytes();
        self.call(py, cancel, |ranks| {
            ranks.send_within(to, tag, bytes, within)
        })
    }

    /// Receives the next message of `tag` from rank `source` into the beginning of a buffer, within
    /// this many seconds; returns its length in bytes.
    #[pyo3(signature = (buffer, source, tag=0, *, within=None, cancel=None))]
    fn recv(
        &self,
        buffer: &Bound<'_, PyAny>,
        source: u16,
        tag: u32,
        within: Option<f64>,
        cancel: Option<Cancel>,
    ) -> PyResult<usize> {
        let (mut taken, within) = (
            Buffer::to_write(buffer, "the buffer")?,
            self.within(within)?,
        );
        let bytes = taken.bytes();
        self.call(buffer.py(), cancel, |ranks| {
            ranks.recv_within(source, tag, bytes, within)
        })
    }

    /// Shrinks the group to the ranks that live, after others died or left (ULFM's
    /// `MPIX_Comm_shrink`): all that live call it, and have new ranks then, in the old order.
    /// Messages that were under way are dropped. After a failure the group is as before.
    #[pyo3(signature = (*, cancel=None))]
    fn shrink(&self, py: Python<'_>, cancel: Option<Cancel>) -> PyResult<()> {
        let ranks = self.ranks.lock().take().ok_or_else(closed)?;
        let ranks = Arc::try_unwrap(ranks).map_err(|used| {
            *self.ranks.lock() = Some(used);
            PyRuntimeError::new_err(
                "other threads still call this communicator: let their calls end, then shrink it",
            )
        });
        let mut ranks = ranks?;
        let shrunk = py.detach(|| Cancel::over(cancel, || ranks.shrink()));
        if shrunk.is_ok() {
            *self.place.lock() = Place::of(&ranks).into_inner();
        }
        *self.ranks.lock() = Some(Arc::new(ranks));
        shrunk.map_err(|error| raised(&self.signals, error))
    }

    /// Leaves the group: calls in progress in other threads fail. Messages already sent are still
    /// delivered, for a second at most. Closing again has no effect.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(ranks) = self.ranks.lock().take() else {
            return Ok(());
        };
        let left = py.detach(|| {
            let left = ranks.leave();
            drop(ranks);
            left
        });
        Ok(left.map_err(Failure::from)?)
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    /// Closes the communicator, after a barrier unless there is an exception: no rank leaves while
    /// others wait for its data.
    fn __exit__(
        &self,
        kind: &Bound<'_, PyAny>,
        _exception: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (py, ranks) = (kind.py(), self.ranks.lock().clone());
        let is_forked = ranks
            .as_ref()
            .is_some_and(|ranks| ranks.check_process().is_err());
        let met = if kind.is_none() && ranks.is_some() {
            self.barrier(py, None)
        } else {
            Ok(())
        };
        drop(ranks);
        let closed = self.close(py);
        // A forked child that ends by an exception ends with that one.
        if is_forked && !kind.is_none() {
            Ok(())
        } else {
            met.and(closed)
        }
    }

    fn __repr__(&self) -> String {
        let (rank, size, host) = (self.rank(), self.size(), self.host());
        format!("<ethbcast.Communicator rank {rank} of {size} on {host}>")
    }
}

impl Communicator {
    fn call<T: Send>(
        &self,
        py: Python<'_>,
        cancel: Option<Cancel>,
        call: impl FnOnce(&communicator::Communicator) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        let ranks = self.ranks.lock().clone();
        let ranks = ranks.ok_or_else(closed)?;
        // The last user leaves the group for good, which takes time.
        let ended = py.detach(move || {
            let ended = Cancel::over(cancel, || call(&ranks));
            drop(ranks);
            ended
        });
        ended.map_err(|error| raised(&self.signals, error))
    }

    fn at_root<'a, 'py>(
        &self,
        blocks: Option<&'a Bound<'py, PyAny>>,
        root: u16,
    ) -> PyResult<Option<&'a Bound<'py, PyAny>>> {
        match blocks {
            Some(blocks) if root == self.rank() => Ok(Some(blocks)),
            None if root == self.rank() => Err(PyValueError::new_err(
                "the root has a buffer for all blocks: pass it, and None elsewhere only",
            )),
            _ => Ok(None),
        }
    }

    fn within(&self, seconds: Option<f64>) -> PyResult<Duration> {
        let Some(seconds) = seconds else {
            return Ok(self.call_within);
        };
        let no_time = |_| PyValueError::new_err(format!("{seconds} seconds are no time to wait"));
        Duration::try_from_secs_f64(seconds).map_err(no_time)
    }
}

fn reduction(op: &str, number: Option<&str>, buffer: &WritableBuffer) -> PyResult<Reduction> {
    let own = buffer.number();
    // Bytes may hold any numbers.
    let is_bytes = |own: &str| matches!(own, "u8" | "i8");
    if let (Some(own), Some(number)) = (&own, number)
        && own != number
        && !is_bytes(own)
    {
        let text = format!("the buffer holds {own}, not {number}: leave out type");
        return Err(PyValueError::new_err(text));
    }
    let number = number.map(str::to_owned).or(own).ok_or_else(|| {
        PyValueError::new_err(
            "the buffer does not say which numbers it holds: pass their type, such as type=\"f32\"",
        )
    })?;
    Reduction::named(op, &number).map_err(|error| PyValueError::new_err(error.to_string()))
}

fn closed() -> Failure {
    Failure::new(CommunicatorError::Closed.kind(), CommunicatorError::Closed)
}

/// Returns the exception of a failed call: that of a signal handler, if one has ended the call.
fn raised(signals: &Signals, error: Error) -> PyErr {
    match error {
        Error::Interrupted => signals
            .take()
            .unwrap_or_else(|| Failure::from(error).into()),
        error => Failure::from(error).into(),
    }
}
