//! Calls that all ranks make together.
//!
//! Each is a value: `begin` starts it, `advance` moves it on after each round of the driver until
//! it is [`Done`](CallProgress::Done), `abandon` gives it up. There is no thread, and bytes are copied
//! only between the caller's slice and a feed or message. The caller's slices are given to each
//! `advance` and must stay the same.

mod allgather;
mod barrier;
mod broadcast;
mod call;
mod gather;
mod mail;
mod patience;
mod relay;
mod scatter;
mod shares;
mod transfer;

pub use allgather::Allgather;
pub use barrier::Barrier;
pub use broadcast::Broadcast;
pub use call::{Call, CallProgress};
pub use gather::Gather;
pub use patience::Patience;
pub use scatter::Scatter;

use super::error::CommunicatorError;
use super::member::Group;
use super::signature::{Operation, Signature};
pub(super) use call::CallWork;
use ethbcast_transport::Instant;
use ethbcast_transport::wire::Rank;

/// Begins a call on blocks of `block_bytes`; ranks with a buffer for all blocks give its length as
/// `blocks_bytes`.
///
/// # Errors
/// If there is no such root, another collective is in progress on this rank, the ranks cannot go on
/// together, or `blocks_bytes` is not one block for each rank.
fn begin_blocks(
    group: &mut Group,
    now: Instant,
    (operation, root): (Operation, Rank),
    (blocks_bytes, block_bytes): (usize, usize),
) -> Result<Signature, CommunicatorError> {
    if operation == Operation::Allgather || group.rank() == root {
        check_blocks(blocks_bytes, block_bytes, group.size())?;
    }
    group.calls().begin(now, operation, root, block_bytes)
}

/// # Errors
/// If `blocks_bytes` is not `size` blocks of `block_bytes`.
fn check_blocks(blocks_bytes: usize, block_bytes: usize, size: u16) -> Result<(), CommunicatorError> {
    let all = block_bytes.checked_mul(usize::from(size));
    if all == Some(blocks_bytes) { Ok(()) } else { Err(CommunicatorError::Length { blocks_bytes, block_bytes, size }) }
}

fn block_range(rank: Rank, block_bytes: usize) -> std::ops::Range<usize> {
    let start = rank.index() * block_bytes;
    start..start + block_bytes
}
