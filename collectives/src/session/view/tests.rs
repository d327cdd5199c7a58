//! Tests of the wire format of a transfer's member list.

use super::*;
use crate::session::message::Message;
use ethbcast_transport::wire::Rank;

pub(in crate::session) fn chain(count: u16) -> View {
    let member = |rank: u16| ViewMember {
        host: format!("n{rank}"),
        mac: MacAddr::new(2, 0, 0, 0, 0, rank as u8),
        nonce: u64::from(rank) * 7,
        parent: rank.checked_sub(1).map(Rank),
        order: 0,
        standing: MemberRole::InPlace,
    };
    View {
        epoch: 3,
        via: Via::Kary(5),
        segment_frames: 7,
        policy: Policy::HolesAllowed,
        push_frames: None,
        payload_bytes: 1468,
        size: None,
        content: ContentKind::Tree,
        chunk: ChunkSize::LONGEST,
        selective: false,
        members: (0..count).map(member).collect(),
        rate: None,
    }
}

#[test]
fn a_view_survives_being_cut_into_parts_that_arrive_backwards_and_twice() {
    let view = chain(200);
    let parts: Vec<ViewPart> = view.parts(300).collect();
    assert!(parts.len() > 10);
    let mut assembler = Assembler::default();
    let mut complete = None;
    for part in parts.iter().rev().chain(&parts) {
        assert!(Message::View(part.clone()).encode().1.len() <= 300);
        complete = assembler.take(part).or(complete);
    }
    assert_eq!(complete.as_deref(), Some(&view));
}

#[test]
fn receivers_of_one_process_keep_a_view_once_and_a_changed_part_of_it_beside() {
    let shared = SharedViews::default();
    let view = chain(200);
    let mut parts: Vec<ViewPart> = view.parts(300).collect();
    let [mut one, mut other] = [(); 2].map(|()| Assembler::new(Some(shared.clone())));
    let take = |assembler: &mut Assembler, parts: &[ViewPart]| {
        parts.iter().filter_map(|part| assembler.take(part)).last()
    };
    let first = take(&mut one, &parts).expect("all of its parts");
    assert_eq!(*first, view);
    // A part that has the right digest and other bytes is not taken for the known one.
    let true_bytes = std::mem::replace(&mut parts[1].bytes, vec![0; 9]);
    assert_eq!(take(&mut other, &parts), None);
    parts[1].bytes = true_bytes;
    let second = take(&mut other, &parts).expect("all of its parts");
    assert!(Arc::ptr_eq(&first, &second));
    drop((first, second));
    assert_eq!(
        take(&mut one, &parts).as_deref(),
        Some(&view),
        "known no more"
    );
}

#[test]
fn the_child_with_the_longest_way_below_it_is_served_first_in_both_trees() {
    // The first tree is 0-1-2-3-4 with 5 below 0 and 6 below 1, the second a star.
    let mut view = chain(7);
    view.via = Via::TwoTree;
    for (rank, parent) in [(5, 0), (6, 1)] {
        view.members[rank].parent = Some(Rank(parent));
    }
    let children = |view: &View, block: usize, rank: u16| {
        view.trees()[block]
            .children(Rank(rank))
            .into_iter()
            .map(|child| child.0)
            .collect::<Vec<u16>>()
    };
    assert_eq!(children(&view, 0, 0), [1, 5]);
    assert_eq!(children(&view, 0, 1), [2, 6]);
    assert_eq!(children(&view, 1, 0), [1, 2, 3, 4, 5, 6]);
    // Below 5 the way becomes longer than below 1.
    view.members[2].parent = Some(Rank(5));
    assert_eq!(children(&view, 0, 0), [5, 1]);
    view.members[5].standing = MemberRole::Gone;
    assert_eq!(children(&view, 0, 0), [2, 1], "2 takes the place of 5");
}

#[test]
fn a_view_whose_parents_go_in_a_circle_is_refused() {
    let mut view = chain(5);
    view.members[2].parent = Some(Rank(4));
    assert_eq!(View::decode(&view.encode()), None);
    view.members[2].parent = Some(Rank(9));
    assert_eq!(View::decode(&view.encode()), None);
}

#[test]
fn the_papers_protocols_survive_the_journey() {
    for (policy, push_frames, strict) in [
        (Policy::HolesAllowed, None, 0),
        (Policy::InOrderOnly, None, 1),
        (Policy::InOrderOnly, Some(9), 10),
    ] {
        let view = View {
            policy,
            push_frames,
            ..chain(2)
        };
        assert_eq!(view.encode()[10], strict);
        assert_eq!(View::decode(&view.encode()), Some(view));
    }
}

/// Expected bytes as quoted in docs/protocol/control.md §6.
#[test]
fn the_documented_example_is_what_is_sent() {
    let mac = |last| MacAddr::new(2, 0, 0, 0, 0, last);
    let member = |host: &str, mac, nonce, parent| ViewMember {
        host: host.to_owned(),
        mac,
        nonce,
        parent,
        order: 0,
        standing: MemberRole::InPlace,
    };
    let members = vec![
        member("n0", mac(1), 0, None),
        member("n1", mac(2), 0x1122_3344_5566_7788, Some(Rank::ROOT)),
    ];
    let (content, size) = (ContentKind::Stream, Some(0));
    let chunk = ChunkSize::DEFAULT;
    let view = View {
        epoch: 1,
        via: Via::Chain,
        segment_frames: 1,
        size,
        content,
        chunk,
        members,
        ..chain(0)
    };
    let hex: Vec<String> = view
        .encode()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let documented = [
        "00 00 00 01 01 00 00 00 00 01 00 05 bc 00 00 00 00 00 00 00 00",
        "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 02",
        "02 00 00 00 00 01 00 00 00 00 00 00 00 00 ff ff 00 00 01 02 6e 30",
        "02 00 00 00 00 02 11 22 33 44 55 66 77 88 00 00 00 00 01 02 6e 31",
    ];
    assert_eq!(hex.join(" "), documented.join(" "));
    assert_eq!(
        blake3::Hash::from(view.digest()).to_hex().as_str()[..8],
        *"9ca27b82"
    );
}

fn flat(mut view: View) -> View {
    view.epoch += 1;
    for (order, member) in (0..).zip(&mut view.members[1..]) {
        (member.parent, member.order) = (Some(Rank::ROOT), order);
    }
    view
}

#[test]
fn a_tree_that_is_planned_anew_is_followed_if_all_who_move_have_a_parent_in_place() {
    let mut view = chain(6);
    view.members[2].standing = MemberRole::Gone;
    view.members[4].standing = MemberRole::Demoted;
    let mut anew = flat(view.clone());
    assert!(anew.extends(&view));
    // A member that missed it follows a later view, as long as that names only parents in place.
    anew.members[5].parent = Some(Rank(3));
    anew.members[3].standing = MemberRole::Demoted;
    assert!(!anew.extends(&view), "n5 gets a parent that is aside");
    anew.name_parents();
    assert_eq!(anew.members[5].parent, Some(Rank::ROOT));
    assert!(anew.extends(&view));
    // If the tree is not the view's own, no member changes its parent.
    for via in [Via::Cast, Via::ScatterAllgather] {
        let before = View {
            via,
            ..view.clone()
        };
        assert!(
            View {
                epoch: 4,
                ..before.clone()
            }
            .extends(&before)
        );
        assert!(
            !View {
                via,
                ..flat(view.clone())
            }
            .extends(&before)
        );
    }
    let strict = View {
        policy: Policy::InOrderOnly,
        ..view.clone()
    };
    assert!(flat(strict.clone()).extends(&strict));
    assert!(
        !flat(strict.clone()).extends(&View {
            via: Via::Cast,
            ..strict
        }),
        "the paper's protocol stays what it is"
    );
    let mut other_run = flat(view.clone());
    other_run.members[1].nonce += 1;
    assert!(!other_run.extends(&view));
}

#[test]
fn a_cast_may_go_on_as_a_tree_and_back() {
    let mut cast = View {
        via: Via::Cast,
        segment_frames: 8,
        ..chain(6)
    };
    cast.members[4].standing = MemberRole::Demoted;
    let mut tree = flat(View {
        via: Via::Chain,
        segment_frames: 1,
        ..cast.clone()
    });
    assert!(tree.extends(&cast));
    let back = View {
        epoch: 5,
        ..cast.clone()
    };
    assert!(
        back.extends(&tree),
        "the tree may have been told by somebody else"
    );
    tree.members[5].parent = Some(Rank(4));
    assert!(!tree.extends(&cast), "n5 gets a parent that is aside");
    let blocks = flat(View {
        via: Via::ScatterAllgather,
        ..cast.clone()
    });
    assert!(!blocks.extends(&cast) && !cast.extends(&View { epoch: 0, ..blocks }));
}

#[test]
fn parents_are_named_without_a_change_of_the_tree() {
    let mut view = chain(9);
    view.members
        .iter_mut()
        .skip(1)
        .enumerate()
        .for_each(|(at, member)| {
            (member.parent, member.order) = (Some(Rank(at as u16 / 2)), at as u16 % 2);
        });
    (view.members[1].standing, view.members[3].standing) = (MemberRole::Gone, MemberRole::Demoted);
    let before: Vec<Vec<Rank>> = view
        .ranks()
        .map(|rank| view.trees()[0].children(rank))
        .collect();
    assert_eq!(view.degrees()[..3], [4, 0, 2]);
    let mut named = View {
        epoch: view.epoch + 1,
        ..view.clone()
    };
    named.name_parents();
    assert_eq!(
        named
            .ranks()
            .map(|rank| named.trees()[0].children(rank))
            .collect::<Vec<_>>(),
        before
    );
    assert!(named.extends(&view));
}

#[test]
fn streams_of_blocks_take_no_more_memory_than_one_stream_may() {
    let fits = |members, via, payload_bytes| {
        View {
            via,
            payload_bytes,
            ..chain(members)
        }
        .fits(1468)
    };
    assert!(fits(178, Via::ScatterAllgather, 1468) && !fits(179, Via::ScatterAllgather, 1468));
    assert!(fits(4096, Via::ScatterAllgather, 64) && !fits(4097, Via::ScatterAllgather, 64));
    assert!(
        fits(4097, Via::Chain, 1468),
        "a single stream is that of all"
    );
}

#[test]
fn two_trees_are_read_from_parents_and_orders_and_bridged_each() {
    let mut view = chain(7);
    view.via = Via::TwoTree;
    // First tree: 0 → 1 → (2, 3), 3 → (4, 5), 4 → 6; second tree: 0 → 6 → (5, 1), 5 → (4, 3), 3 →
    // 2.
    let parents = [(0, 0), (0, 6), (1, 3), (1, 5), (3, 5), (3, 6), (4, 0)];
    for (member, (first, second)) in view.members.iter_mut().zip(parents).skip(1) {
        (member.parent, member.order) = (Some(Rank(first)), second);
    }
    let ranks = |ranks: &[u16]| ranks.iter().copied().map(Rank).collect::<Vec<_>>();
    let children = |view: &View, rank| [0, 1].map(|block| view.trees()[block].children(Rank(rank)));
    assert_eq!(View::decode(&view.encode()).as_ref(), Some(&view));
    assert_eq!(children(&view, 0), [ranks(&[1]), ranks(&[6])]);
    assert_eq!(
        children(&view, 1),
        [ranks(&[3, 2]), ranks(&[])],
        "the higher one first"
    );
    view.members[3].standing = MemberRole::Gone;
    assert_eq!(children(&view, 1), [ranks(&[4, 2, 5]), ranks(&[])]);
    assert_eq!(
        (children(&view, 5), view.trees()[1].parent(Rank(2))),
        ([ranks(&[]), ranks(&[2, 4])], Some(Rank(5)))
    );
    assert!(
        view.serves(Rank(1), Rank(5))
            && view.serves(Rank(6), Rank(5))
            && !view.serves(Rank(3), Rank(5))
    );
    view.members[6].order = 1;
    assert_eq!(
        View::decode(&view.encode()),
        None,
        "1 and 6 are each other's parents"
    );
    view.members[6].order = 7;
    assert_eq!(View::decode(&view.encode()), None, "there is no rank 7");
}

#[test]
fn in_two_trees_the_root_takes_over_in_each_who_cannot_talk_to_its_new_parent() {
    let mut view = chain(5);
    view.via = Via::TwoTree;
    // First tree: 0 → 1 → 2 → (3, 4); second tree: 0 → 4 → 3 → (2, 1).
    let parents = [(0, 0), (0, 3), (1, 3), (2, 4), (2, 0)];
    for (member, (first, second)) in view.members.iter_mut().zip(parents).skip(1) {
        (member.parent, member.order) = (Some(Rank(first)), second);
    }
    let can_talk = |one: Rank, other: Rank| ![(1, 3), (3, 1)].contains(&(one.0, other.0));
    let planned = view.clone();
    view.members[2].standing = MemberRole::Gone;
    let bridged = View {
        epoch: view.epoch + 1,
        ..view.clone()
    };
    let mut mended = bridged.clone();
    assert!(mended.reconnect(can_talk));
    let parents = |view: &View, rank| [0, 1].map(|block| view.trees()[block].parent(Rank(rank)));
    assert_eq!(parents(&bridged, 3), [Some(Rank(1)), Some(Rank(4))]);
    assert_eq!(parents(&mended, 3), [Some(Rank(0)), Some(Rank(4))]);
    assert_eq!(parents(&mended, 4), [Some(Rank(1)), Some(Rank(0))]);
    assert_eq!(parents(&bridged, 1), [Some(Rank(0)), Some(Rank(3))]);
    assert_eq!(parents(&mended, 1), [Some(Rank(0)), Some(Rank(0))]);
    assert_eq!(View::decode(&mended.encode()).as_ref(), Some(&mended));
    assert!(mended.extends(&planned) && bridged.extends(&planned));
    let mut below_the_dead = mended.clone();
    below_the_dead.members[4].order = 2;
    assert!(!below_the_dead.extends(&planned), "2 is gone");
}

#[test]
fn when_a_relay_leaves_its_parent_takes_over_its_children() {
    let mut view = chain(5);
    assert_eq!(view.trees()[0].children(Rank(1)), [Rank(2)]);
    view.members[2].standing = MemberRole::Gone;
    view.members[3].standing = MemberRole::Gone;
    let tree = &view.trees()[0];
    assert_eq!(
        (
            tree.children(Rank(1)),
            tree.parent(Rank(4)),
            tree.parent(Rank(3))
        ),
        (vec![Rank(4)], Some(Rank(1)), None)
    );
}

#[test]
fn every_block_has_a_tree_that_reaches_all_who_are_present() {
    for (via, members) in [
        (Via::ScatterAllgather, 7),
        (Via::RecursiveDoubling, 8),
        (Via::RecursiveDoubling, 6),
    ] {
        let mut view = chain(members);
        view.via = via;
        view.members[3].standing = MemberRole::Gone;
        let trees = view.trees();
        assert_eq!(trees.len(), usize::from(members));
        for tree in trees {
            for rank in view.ranks().filter(|&rank| rank != Rank::ROOT) {
                let parent = tree
                    .parent(rank)
                    .expect("everybody but the root has a parent");
                assert!(
                    tree.children(parent).contains(&rank),
                    "{via}: {parent} serves {rank}"
                );
            }
        }
    }
}
