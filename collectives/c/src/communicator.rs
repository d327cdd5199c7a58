//! C interface to communicators: groups of processes with messages and collectives, as in MPI.

use crate::raw::{self, bytes, bytes_mut, text, there};
use crate::session::{Options, named};
use crate::status::{Failure, Status, call};
use ethbcast_collectives::communicator::{self, Reduction};
use ethbcast_collectives::lock::Mutex;
use std::ffi::{CString, c_char, c_void};
use std::sync::Arc;
use std::time::Duration;

/// A group of ranks that call each other. Its functions may be called by several threads at once:
/// messages run concurrently, collectives one after the other.
pub struct Communicator {
    /// `None` while it shrinks.
    joined: Mutex<Option<Arc<Joined>>>,
}

struct Joined {
    ranks: communicator::Communicator,
    hosts: Vec<CString>,
    call_within: Duration,
}

fn joined(communicator: *const Communicator) -> Result<Arc<Joined>, Failure> {
    let joined = raw::handle(communicator, GROUP)?.joined.lock().clone();
    joined.ok_or_else(|| {
        Failure::usage("this communicator shrinks in another thread: wait until it has")
    })
}

fn some(communicator: *const Communicator) -> Option<Arc<Joined>> {
    raw::handle_or_none(communicator)?.joined.lock().clone()
}

const GROUP: &str = "communicator";

impl Joined {
    /// Returns the caller's time limit in seconds; a negative one stands for the option
    /// call-within.
    fn within(&self, seconds: f64) -> Result<Duration, Failure> {
        if seconds < 0.0 {
            return Ok(self.call_within);
        }
        Duration::try_from_secs_f64(seconds)
            .map_err(|_| Failure::usage(format_args!("{seconds} seconds are no time to wait")))
    }
}

/// Route chosen for a broadcast.
#[repr(C)]
pub struct Choice {
    /// Name of the route, such as "cast" or "chain", with a zero byte at its end.
    pub via: [c_char; 32],
    /// The length of a segment in bytes.
    pub segment_bytes: u64,
    /// Predicted time in seconds.
    pub predicted_seconds: f64,
}

/// Joins `group` and waits until all `size` ranks are there; ranks are in the natural order of the
/// hosts' names. Needs root or CAP_NET_RAW. `options` may be null. Leave with ethbcast_leave.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_join(
    group: *const c_char,
    size: u16,
    options: *const Options,
    communicator: Option<&mut *mut Communicator>,
) -> Status {
    call(|| {
        let place = there(communicator, "place for the communicator")?;
        *place = std::ptr::null_mut();
        let options = named(options)?.join()?;
        let ranks =
            communicator::Communicator::join_with(text(group, "group's name")?, size, &options)?;
        let hosts = hosts(&ranks);
        let joined = Joined {
            ranks,
            hosts,
            call_within: options.call_within,
        };
        *place = raw::keep(Communicator {
            joined: Mutex::new(Some(Arc::new(joined))),
        });
        Ok(())
    })
}

fn hosts(ranks: &communicator::Communicator) -> Vec<CString> {
    ranks
        .hosts()
        .iter()
        .map(|host| CString::new(host.as_str()).unwrap_or_default())
        .collect()
}

/// Shrinks the group to the ranks that live, after others died or left (ULFM's MPIX_Comm_shrink):
/// all that live call it, within the option call-within, and have new ranks and a new size then, in
/// the old order. Messages that were under way are dropped, and names of hosts that were returned
/// before are no longer there. While other threads call the communicator it is refused. After a
/// failure it is as before.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_shrink(communicator: *mut Communicator) -> Status {
    call(|| {
        let all = raw::handle(communicator, GROUP)?;
        let mut held = all.joined.lock();
        let taken = held.take().map(Arc::try_unwrap);
        let mut own = match taken {
            Some(Ok(own)) => own,
            used => {
                *held = used.and_then(Result::err);
                let text = "other threads still call this communicator: let their calls end, then shrink it";
                return Err(Failure::usage(text));
            }
        };
        drop(held);
        let shrunk = own.ranks.shrink();
        own.hosts = hosts(&own.ranks);
        *all.joined.lock() = Some(Arc::new(own));
        Ok(shrunk?)
    })
}

/// Leaves the group and frees the communicator; null is allowed. Calls of other threads end with
/// ETHBCAST_STATUS_USAGE. Frames that other ranks still need are sent, for a second at most: end
/// with a barrier. In a forked child it only frees the child's copy, and returns
/// ETHBCAST_STATUS_USAGE, as every other call of the parent's communicator does there.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_leave(communicator: *mut Communicator) -> Status {
    call(|| {
        let all = raw::free(communicator, GROUP)?;
        let Some(own) = all.and_then(|all| all.joined.lock().take()) else {
            return Ok(());
        };
        let told = own.ranks.check_process();
        // Ends the calls of other threads, the last of which frees it. A failure of the socket is
        // logged.
        drop(own.ranks.leave());
        drop(own);
        told.map_err(Failure::usage)
    })
}

/// This process's rank; 0 for null.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_rank(communicator: *const Communicator) -> u16 {
    some(communicator).map_or(0, |all| all.ranks.rank())
}

/// Returns the number of ranks; 0 for null.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_size(communicator: *const Communicator) -> u16 {
    some(communicator).map_or(0, |all| all.ranks.size())
}

/// The name of a rank's host, until the communicator shrinks or is freed; null if there is no such
/// rank.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_host(communicator: *const Communicator, rank: u16) -> *const c_char {
    let all = some(communicator);
    let host = all
        .as_ref()
        .and_then(|all| all.hosts.get(usize::from(rank)));
    host.map_or(std::ptr::null(), |host| host.as_ptr())
}

/// Copies the root's buffer into the buffers of all ranks. At the root it returns when the bytes
/// have been handed over to be sent, elsewhere when they have arrived. All ranks pass the same root
/// and length.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_broadcast(
    communicator: *const Communicator,
    root: u16,
    buffer: *mut c_void,
    length: usize,
) -> Status {
    call(|| {
        Ok(joined(communicator)?
            .ranks
            .broadcast(root, bytes_mut(buffer, length)?)?)
    })
}

/// Waits until every rank has called it.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_barrier(communicator: *const Communicator) -> Status {
    call(|| Ok(joined(communicator)?.ranks.barrier()?))
}

/// Copies block r of the root's `blocks` into rank r's `own`, of `length` bytes each. `blocks`
/// matters at the root only.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_scatter(
    communicator: *const Communicator,
    root: u16,
    blocks: *const c_void,
    own: *mut c_void,
    length: usize,
) -> Status {
    call(|| {
        let all = joined(communicator)?;
        let ranks = &all.ranks;
        let blocks = if root == ranks.rank() {
            bytes(blocks, all_bytes(ranks, length)?)?
        } else {
            &[]
        };
        Ok(ranks.scatter(root, blocks, bytes_mut(own, length)?)?)
    })
}

/// Copies every rank's `own` block, of `length` bytes each, into the root's `blocks`, in the order
/// of ranks. `blocks` matters at the root only.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_gather(
    communicator: *const Communicator,
    root: u16,
    own: *const c_void,
    blocks: *mut c_void,
    length: usize,
) -> Status {
    call(|| {
        let all = joined(communicator)?;
        let ranks = &all.ranks;
        let blocks = if root == ranks.rank() {
            bytes_mut(blocks, all_bytes(ranks, length)?)?
        } else {
            &mut []
        };
        Ok(ranks.gather(root, bytes(own, length)?, blocks)?)
    })
}

/// Copies every rank's `own` block, of `length` bytes each, into every rank's `blocks`, in the
/// order of ranks.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_allgather(
    communicator: *const Communicator,
    own: *const c_void,
    blocks: *mut c_void,
    length: usize,
) -> Status {
    call(|| {
        let all = joined(communicator)?;
        let ranks = &all.ranks;
        Ok(ranks.allgather(
            bytes(own, length)?,
            bytes_mut(blocks, all_bytes(ranks, length)?)?,
        )?)
    })
}

/// Combines the numbers of all ranks' buffers by `function` ("sum", "min", "max"), in place at the
/// root; the others' are only read. Their type is one of "i8", "i16", "i32", "i64", "u8" to "u64",
/// "f32" and "f64". All ranks pass the same function, type, root and length.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_reduce(
    communicator: *const Communicator,
    root: u16,
    function: *const c_char,
    type_name: *const c_char,
    buffer: *mut c_void,
    length: usize,
) -> Status {
    call(|| {
        let reduction = reduction(function, type_name)?;
        let all = joined(communicator)?;
        Ok(all
            .ranks
            .reduce(root, reduction, bytes_mut(buffer, length)?)?)
    })
}

/// Combines the numbers of all ranks' buffers as ethbcast_reduce does, in place at all ranks, which
/// have the same bits then.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_allreduce(
    communicator: *const Communicator,
    function: *const c_char,
    type_name: *const c_char,
    buffer: *mut c_void,
    length: usize,
) -> Status {
    call(|| {
        let reduction = reduction(function, type_name)?;
        let all = joined(communicator)?;
        Ok(all.ranks.allreduce(reduction, bytes_mut(buffer, length)?)?)
    })
}

fn reduction(function: *const c_char, number: *const c_char) -> Result<Reduction, Failure> {
    let (function, number) = (text(function, "function")?, text(number, "type")?);
    Reduction::named(function, number).map_err(Failure::usage)
}

fn all_bytes(ranks: &communicator::Communicator, length: usize) -> Result<usize, Failure> {
    let size = ranks.size();
    let all = length.checked_mul(usize::from(size));
    all.ok_or_else(|| {
        Failure::usage(format_args!(
            "{size} blocks of {length} bytes are more than memory has"
        ))
    })
}

/// Sends a message to rank `to` under a tag below 2147483648, within `within_seconds`; a negative
/// time stands for the option call-within. It returns when the bytes have been handed to the
/// network: a short message at once, a long one when the other rank receives it.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_send(
    communicator: *const Communicator,
    to: u16,
    tag: u32,
    data: *const c_void,
    length: usize,
    within_seconds: f64,
) -> Status {
    call(|| {
        let all = joined(communicator)?;
        Ok(all
            .ranks
            .send_within(to, tag, bytes(data, length)?, all.within(within_seconds)?)?)
    })
}

/// Receives the next message of `tag` from rank `from` into a buffer, within `within_seconds`; a
/// negative time stands for the option call-within. `received`, unless null, gets its length.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_recv(
    communicator: *const Communicator,
    from: u16,
    tag: u32,
    buffer: *mut c_void,
    length: usize,
    received: Option<&mut usize>,
    within_seconds: f64,
) -> Status {
    call(|| {
        let all = joined(communicator)?;
        let within = all.within(within_seconds)?;
        let count = all
            .ranks
            .recv_within(from, tag, bytes_mut(buffer, length)?, within)?;
        if let Some(received) = received {
            *received = count;
        }
        Ok(())
    })
}

/// Returns the route of a broadcast of `bytes` from `root`, which is equal on all ranks.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_choice(
    communicator: *const Communicator,
    root: u16,
    length: usize,
    choice: Option<&mut Choice>,
) -> Status {
    call(|| {
        let place = there(choice, "place for the choice")?;
        let found = joined(communicator)?.ranks.choice(root, length)?;
        let mut via = [0; 32];
        let name = found.plan.via().to_string();
        via.iter_mut()
            .zip(name.bytes().take(31))
            .for_each(|(letter, byte)| *letter = byte as c_char);
        let (segment_bytes, predicted_seconds) = (found.segment_bytes, found.predicted_seconds);
        *place = Choice {
            via,
            segment_bytes,
            predicted_seconds,
        };
        Ok(())
    })
}
