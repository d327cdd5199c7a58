//! The first view: the algorithm, chosen once the members are known, and each member's place in it.

use super::join_requests::JoinRequest;
use super::planner::Planner;
use super::{NoPlan, RootConfig};
use crate::membership::ack_tree::AckTree;
use crate::session::blocks::most_block_frames;
use crate::session::view::{MAX_PUSH_FRAMES, Standing, View, ViewMember, most_payload_bytes};
use ethbcast_planning::model::{Calibration, Choice};
use ethbcast_planning::plan::{MIN_SEGMENT_BYTES, Plan, Via};
use ethbcast_transport::Policy;
use ethbcast_transport::wire::Rank;

/// Assigns ranks in the given order and plans for these members. Returns the view, the choice with
/// its predicted time, and the planner for later views.
///
/// # Errors
/// [`NoPlan`] if there is no sound plan for them.
pub(super) fn first_view(
    config: &RootConfig,
    joined: &[JoinRequest],
    calibration: Option<Calibration>,
) -> Result<(View, Choice, Planner), NoPlan> {
    let root = (config.station.host.as_str(), config.station.mac, 0);
    let others = joined.iter().map(|applicant| (applicant.host.as_str(), applicant.mac, applicant.nonce));
    let hosts: Vec<_> = std::iter::once(root).chain(others).collect();
    let names: Vec<&str> = hosts.iter().map(|(name, ..)| *name).collect();
    let planner = Planner::new(config, &names, calibration)?;
    let mut choice = planner.choose(config, &names)?;
    log::info!("{}", choice.reason);
    let policy = config.tuning.policy;
    let members = hosts.iter().enumerate().map(|(rank, &(host, mac, nonce))| {
        let (parent, order) = parent_and_order(&choice.plan, policy, rank);
        let (parent, order) = (parent.map(|parent| Rank(parent as u16)), order as u16);
        ViewMember { host: host.to_owned(), mac, nonce, parent, order, standing: Standing::InPlace }
    });
    let push_frames = config.tuning.cast.push_frames.filter(|_| policy == Policy::InOrderOnly);
    let selective = config.selects && config.size.is_some() && joined.iter().any(|applicant| applicant.holds);
    let (payload_bytes, segment_frames) = segments(config, &choice, hosts.len());
    let push_frames = push_frames.map(|frames| frames.clamp(1, MAX_PUSH_FRAMES.into()));
    let payload_bytes = push_frames.map_or(payload_bytes, |frames| pushed_payload(config, frames));
    // In a selective session the root waits for replies to hash lists, which need not fill a
    // segment.
    let segment_frames = if selective { 1 } else { segment_frames };
    let view = View {
        epoch: 1,
        via: choice.plan.via(),
        segment_frames,
        policy,
        push_frames: push_frames.map(|frames| frames as u8),
        payload_bytes,
        size: config.stream_size(),
        content: config.content,
        chunk: config.form.chunk(),
        selective,
        members: members.collect(),
        rate: config.rate,
    };
    // The report names the segment size in use.
    choice.segment_bytes = choice.segment_bytes.min(u64::from(segment_frames) * u64::from(payload_bytes));
    Ok((view, choice, planner))
}

/// Returns the payload of a frame in bytes and the frames of a segment. A segment shorter than the
/// message has the bytes that were chosen for it, in frames of equal length.
fn segments(config: &RootConfig, choice: &Choice, ranks: usize) -> (u16, u32) {
    let in_blocks = choice.plan.via().is_in_blocks();
    let affordable = if in_blocks { most_payload_bytes(ranks).max(MIN_SEGMENT_BYTES as usize) } else { usize::MAX };
    let full = config.station.payload_bytes().min(u16::try_from(affordable).unwrap_or(u16::MAX));
    let frames = choice.segment_bytes.div_ceil(u64::from(full)).max(1);
    let most = if in_blocks { most_block_frames(&config.tuning, ranks) } else { u64::from(u32::MAX) };
    let is_part = config.size.is_none_or(|size| choice.segment_bytes < size);
    let payload = choice.segment_bytes.div_ceil(frames).clamp(MIN_SEGMENT_BYTES, u64::from(full)) as u16;
    (if is_part && frames <= most { payload } else { full }, frames.clamp(1, most) as u32)
}

/// Payload of a frame where the first `frames` frames of each message are pushed: all frames have
/// an equal share of the bytes to push, so every member knows from the size which frame is the
/// last.
fn pushed_payload(config: &RootConfig, frames: u64) -> u16 {
    let full = u64::from(config.station.payload_bytes());
    let pushed = config.tuning.cast.push_bytes.unwrap_or(u64::MAX);
    pushed.div_ceil(frames).clamp(MIN_SEGMENT_BYTES, full) as u16
}

/// A member's parent and its position among its siblings: of the ack tree in a broadcast, else of
/// the plan.
fn parent_and_order(plan: &Plan, policy: Policy, rank: usize) -> (Option<usize>, usize) {
    if let (Via::Cast, Some(position)) = (plan.via(), rank.checked_sub(1)) {
        let tree = AckTree::new(plan.ranks() - 1, policy);
        return (Some(tree.parent(position).map_or(0, |parent| parent + 1)), tree.order(position));
    }
    let parent = plan.parent(rank);
    let order = parent.and_then(|parent| plan.children(parent).iter().position(|&child| child == rank));
    (parent, order.unwrap_or(0))
}
