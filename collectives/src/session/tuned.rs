//! The engine's numbers for one member of a view.

use super::view::View;
use crate::membership::ack_tree::AckTree;
use ethbcast_planning::plan::Via;
use ethbcast_transport::{Policy, Tuning};

/// The host's own numbers, but for what the view decides for all: the policy, with the paper's window and acknowledgements if it is
/// the paper's; and under a cast how often and when to speak among so many.
pub(super) fn tuned(own: &Tuning, view: &View, rank: u16) -> Tuning {
    let tuning = with_policy(own, view);
    if view.via != Via::Cast {
        return tuning;
    }
    let receivers = view.members.len().saturating_sub(1);
    AckTree::new(receivers, view.policy).tuned(&tuning, usize::from(rank).checked_sub(1))
}

fn with_policy(own: &Tuning, view: &View) -> Tuning {
    let push_frames = view.push_frames.map(u64::from);
    match view.policy {
        Policy::HolesAllowed => Tuning { policy: view.policy, push_frames, ..own.clone() },
        Policy::InOrderOnly => {
            let paper = if push_frames.is_some() { Tuning::push_pull() } else { Tuning::paper() };
            let Tuning { policy, window_start_frames, window_min_frames, window_max_frames, .. } = paper;
            let Tuning { ack_every_frames, designated_every_frames, .. } = paper;
            Tuning {
                policy,
                window_start_frames,
                window_min_frames,
                window_max_frames,
                ack_every_frames,
                designated_every_frames,
                push_frames,
                ..own.clone()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::view::tests::chain;
    use super::*;

    fn cast(receivers: u16) -> View {
        let mut view = chain(receivers + 1);
        view.via = Via::Cast;
        view
    }

    #[test]
    fn who_speaks_how_often_depends_on_how_many_there_are_and_on_the_place_among_them() {
        let own = Tuning::default();
        assert_eq!(tuned(&own, &cast(7), 3), own.for_cast(7, 2));
        assert_eq!(tuned(&own, &cast(100), 1), own.for_cast(100, 0));
        let many = cast(1000);
        assert_eq!(tuned(&own, &many, 13), own.for_ack_tree(1000, 10, 2));
        assert_eq!(tuned(&own, &many, 0), own.for_ack_tree(1000, 10, 0));
    }

    #[test]
    fn a_view_of_the_papers_protocol_brings_its_numbers_and_leaves_the_feed_alone() {
        let own = Tuning { feed_frames: 256, ..Tuning::default() };
        let mut view = chain(3);
        view.policy = Policy::InOrderOnly;
        assert_eq!(tuned(&own, &view, 1), Tuning { feed_frames: 256, ..Tuning::paper() });
        view.push_frames = Some(9);
        assert_eq!(tuned(&own, &view, 1), Tuning { feed_frames: 256, ..Tuning::push_pull() });
    }
}
