//! Simulated tests of delta transfers: only bytes that some receiver lacks are sent, once.

mod scene;

use ethbcast_collectives::session::verified::{
    ChunkSize, Cut, Cutter, Form, StretchHashes, StretchPlace,
};
use ethbcast_collectives::session::{Needs, Outcome};
use ethbcast_planning::plan::Via;
use ethbcast_tests::session::{Absence, Case, data};
use ethbcast_transport::sim::Random;
use scene::{CHUNK, Have, PartialPlay, Price, Scene};
use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

fn case(via: Via, receivers: usize, bytes: usize) -> Case {
    Case {
        mtu_bytes: 1500,
        ..Case::new(via, receivers, bytes).with_feed(512)
    }
}

fn content(bytes: usize) -> Arc<[u8]> {
    data(bytes, 7).into()
}

fn older(content: &Arc<[u8]>, chunks: impl IntoIterator<Item = usize>) -> Have {
    let mut bytes = content.to_vec();
    chunks
        .into_iter()
        .for_each(|chunk| bytes[chunk * CHUNK + 5] ^= 1);
    Have::new(&bytes.into())
}

/// Bytes sent to all beside chunks: hash lists, headers, padding of frames, the trailer.
fn overhead(content: usize) -> u64 {
    Form::VERIFIED.stream_bytes(content as u64) - content as u64 + 2 * 24 + 129 + 40 + 24 + 1468
}

fn all_have_it(played: &PartialPlay, receivers: usize) {
    assert_eq!(
        played.fates,
        vec![Outcome::Delivered; receivers],
        "{played:?}"
    );
    assert_eq!(
        (played.damages.len(), played.price.again),
        (0, 0),
        "{played:?}"
    );
}

#[test]
fn without_present_data_a_selective_session_costs_no_more() {
    let content = content(3_000_000);
    let play = |selects: bool| {
        let have = (0..3).map(|_| None).collect();
        Scene {
            selects,
            ..Scene::new(case(Via::Chain, 3, 3_000_000), Arc::clone(&content), have)
        }
        .play(1, "nobody")
    };
    let (one, other) = (play(true), play(false));
    all_have_it(&one, 3);
    assert_eq!((one.price, one.took), (other.price, other.took));
    assert_eq!(one.price.words, 0);
}

#[test]
fn the_union_of_what_two_lack_is_sent_once_and_what_a_single_one_lacks_to_it_alone() {
    for via in [Via::Chain, Via::Cast] {
        let content = content(48 * CHUNK - 1000);
        let have = vec![
            Some(older(&content, [1, 2, 3, 20])),
            Some(older(&content, [2, 3, 4, 47])),
            Some(older(&content, [])),
            Some(older(&content, [3, 20, 30])),
        ];
        let played = Scene::new(case(via, 4, content.len()), content, have).play(1, "union");
        all_have_it(&played, 4);
        // Chunks 2, 3 and 20 are lacked by several; 1, 4, 30 and the shorter 47 by one each.
        let Price {
            data,
            pieces,
            words,
            ..
        } = played.price;
        assert_eq!(pieces, 4 * CHUNK as u64 - 1000, "{via}");
        assert!(
            (3 * CHUNK as u64..3 * CHUNK as u64 + overhead(48 * CHUNK)).contains(&data),
            "{via}: {data}"
        );
        assert!((4..=12).contains(&words), "{via}: {words}");
        // It had those three as well, and was faster than the disk.
        assert_eq!(played.own[2], 45 * CHUNK as u64 - 1000);
    }
}

#[test]
fn one_of_eight_that_lacks_a_tenth_gets_that_tenth_and_the_others_nothing() {
    for via in [Via::Chain, Via::Cast] {
        let content = content(320 * CHUNK);
        let mut have: Vec<_> = (0..8).map(|_| Some(Have::new(&content))).collect();
        have[4] = Some(Have::new(&content).without(100..132));
        let played = Scene::new(case(via, 8, content.len()), content, have).play(2, "only missing");
        all_have_it(&played, 8);
        assert_eq!(
            played.price.pieces,
            32 * CHUNK as u64,
            "a tenth, by unicast"
        );
        assert!(
            played.price.data <= overhead(320 * CHUNK),
            "{via}: {:?}",
            played.price
        );
        assert!(played.price.data < CHUNK as u64);
    }
}

#[test]
fn a_single_receiver_gets_what_it_lacks_by_the_stream() {
    let content = content(40 * CHUNK);
    let have = vec![Some(Have::new(&content).without(10..40))];
    let played = Scene::new(case(Via::Chain, 1, content.len()), content, have).play(3, "one");
    all_have_it(&played, 1);
    assert_eq!(played.price.pieces, 0);
    assert!(
        played.price.data >= 30 * CHUNK as u64
            && played.price.data <= 30 * CHUNK as u64 + overhead(40 * CHUNK)
    );
}

#[test]
fn thirty_one_hosts_with_four_old_versions_get_the_exact_union() {
    let content = content(400 * CHUNK);
    // Two in a hundred chunks are new; each version has another half of these.
    let changed: Vec<usize> = (0..8).map(|one| one * 50 + 3).collect();
    let version = |version: usize| {
        changed
            .iter()
            .copied()
            .enumerate()
            .filter_map(move |(at, chunk)| ((at + version) % 4 < 2).then_some(chunk))
    };
    let have = (0..31)
        .map(|host| Some(older(&content, version(host % 4))))
        .collect();
    let played = Scene::new(case(Via::Cast, 31, content.len()), content, have).play(4, "versions");
    all_have_it(&played, 31);
    let Price { data, pieces, .. } = played.price;
    assert_eq!(pieces, 0);
    assert!(data <= 8 * CHUNK as u64 + overhead(400 * CHUNK), "{data}");
    assert!((data as f64) < 0.021 * (400 * CHUNK) as f64, "{data}");
}

/// Needs hosts with processors of their own, as in the simulator, where computing takes no time.
#[test]
fn an_update_of_a_fiftieth_to_thirty_one_hosts_takes_less_than_a_tenth_of_the_whole() {
    for via in [Via::Chain, Via::Cast] {
        let content = content(320 * CHUNK);
        let play = |have: Vec<Option<Have>>| {
            let scene = Scene::new(case(via, 31, content.len()), Arc::clone(&content), have);
            Scene {
                bits_per_second: 100_000_000,
                ..scene
            }
            .play(8, "update")
        };
        let whole = play((0..31).map(|_| None).collect());
        let changed = [3, 60, 119, 200, 250, 319];
        let update = play((0..31).map(|_| Some(older(&content, changed))).collect());
        all_have_it(&whole, 31);
        all_have_it(&update, 31);
        let (part, all) = (update.took.as_secs_f64(), whole.took.as_secs_f64());
        println!(
            "{via}: {part:.3} s of {all:.3}, {} of {} bytes",
            update.price.data, whole.price.data
        );
        assert!(part <= 0.1 * all, "{via}: {part} of {all} s");
        assert!(
            update.price.data as f64 <= 0.021 * content.len() as f64,
            "{via}: {:?}",
            update.price
        );
    }
}

#[test]
fn moved_data_is_found_by_whole_chunks_or_anywhere() {
    let old = content(100 * CHUNK);
    let by_chunks: Arc<[u8]> = [&old[3 * CHUNK..], &old[..3 * CHUNK]].concat().into();
    let by_bytes: Arc<[u8]> = [&old[..10_000], b"new", &old[10_000..]].concat().into();
    let play = |content: &Arc<[u8]>, cut: Cut| {
        let have = (0..2)
            .map(|_| Some(Have::new(&old).anywhere(cut)))
            .collect();
        let scene = Scene::new(
            case(Via::Chain, 2, content.len()),
            Arc::clone(content),
            have,
        );
        let played = Scene { cut, ..scene }.play(5, "moved");
        all_have_it(&played, 2);
        played.price.data - overhead(content.len())
    };
    assert!(play(&by_chunks, Cut::Fixed) < 12 * 110, "names alone");
    assert!(
        play(&by_bytes, Cut::Fixed) > 99 * CHUNK as u64,
        "nothing is at its place"
    );
    // The chunks around the new bytes, and the headers of all pieces.
    let found = play(&by_bytes, Cut::ContentDefined);
    assert!(found < 4 * CHUNK as u64 + 8 * 1024, "{found}");
}

/// The root waits for replies to hash lists, which may be a part of a segment only.
#[test]
fn hash_lists_do_not_wait_until_they_fill_a_segment() {
    let blocks = [Via::ScatterAllgather, Via::RecursiveDoubling, Via::TwoTree];
    let ways = [Via::Chain, Via::Binary, Via::Binomial, Via::Flat]
        .into_iter()
        .chain(blocks);
    for via in ways {
        let content = content(48 * CHUNK);
        let have = vec![
            Some(older(&content, [1, 2])),
            Some(older(&content, [2, 3])),
            Some(older(&content, [2])),
        ];
        let case = Case {
            segment_bytes: Some(256 * 1468),
            ..case(via, 3, content.len())
        };
        let length = content.len();
        let played = Scene::new(case, content, have).play(7, "segments");
        assert_eq!(played.fates, [Outcome::Delivered; 3], "{via}");
        let Price {
            data,
            again,
            pieces,
            ..
        } = played.price;
        assert!(
            data + again <= 3 * (CHUNK as u64 + overhead(length)),
            "{via}: {data} and {again}, to three at most"
        );
        assert_eq!(pieces, 2 * CHUNK as u64, "{via}");
        assert!(
            played.took < Duration::from_secs(1),
            "{via}: {:?}",
            played.took
        );
    }
}

/// Claim of docs/design.md: each receiver sends its NEEDS once for each stretch, and repeats it
/// only while it waits. A stretch of 64 MiB costs as much as this short one, but for longer
/// messages.
#[test]
fn words_of_hundreds_of_receivers_are_one_frame_each_that_comes_while_the_root_sends() {
    for receivers in [31, 130, 400] {
        let content = content(48 * CHUNK);
        let have = (0..receivers)
            .map(|_| Some(older(&content, [3, 20, 40])))
            .collect();
        let played =
            Scene::new(case(Via::Cast, receivers, content.len()), content, have).play(9, "words");
        all_have_it(&played, receivers);
        let Price {
            data,
            words,
            word_bytes,
            ..
        } = played.price;
        println!(
            "{receivers} receivers: {words} words, {word_bytes} bytes; {data} bytes of data in {:?}",
            played.took
        );
        assert!(
            (receivers as u64..=2 * receivers as u64).contains(&words),
            "{words} words of {receivers}"
        );
        // The longest message, of a stretch in which every second chunk has changed, is less than
        // twice as long.
        assert!(word_bytes <= words * 110, "{word_bytes} in {words}");
    }
}

/// 400 MB are more stretches than hash lists are sent ahead for.
#[test]
fn hash_lists_go_ahead_of_long_contents_and_the_wire_does_not_wait_for_reports() {
    let content = content(400_000_000);
    let chunks = content.len().div_ceil(CHUNK);
    let have = (0..2).map(|_| {
        Some(
            Have::new(&content)
                .without(0..700)
                .without(chunks / 2..chunks / 2 + 900),
        )
    });
    let case = Case {
        mtu_bytes: 9000,
        ..case(Via::Chain, 2, content.len())
    };
    let have = have.collect();
    let length = content.len();
    let played = Scene::new(case, content, have).play(6, "long");
    all_have_it(&played, 2);
    let data = played.price.data;
    let least = 1600 * CHUNK as u64;
    assert!(
        (least..least + overhead(length) + 6 * 9200).contains(&data),
        "{data} of {least}"
    );
    // At 1 Gbit/s on two hops: 0.84 s, and the simulated time of the first messages.
    assert!(
        played.took.as_secs_f64() < 0.84 * 1.05 + 0.05,
        "{:?}",
        played.took
    );
}

fn short_feed(via: Via, receivers: usize, bytes: usize) -> Case {
    Case {
        mtu_bytes: 1500,
        ..Case::new(via, receivers, bytes).with_feed(128)
    }
}

fn some(content: &Arc<[u8]>, hosts: usize, random: &mut Random) -> Vec<Option<Have>> {
    let chunks = content.len().div_ceil(CHUNK) as u64;
    let hosts = 0..hosts;
    let one = |_| {
        let holes = random.below(4);
        let mut have = Have::new(content);
        for _ in 0..holes {
            let from = random.below(chunks) as usize;
            have = have.without(from..from + 1 + random.below(chunks / 3 + 1) as usize);
        }
        (random.below(4) > 0).then_some(have)
    };
    hosts.map(one).collect()
}

#[test]
fn a_receiver_that_claims_more_than_it_has_costs_itself_only_those_chunks() {
    let content: Arc<[u8]> = data(40 * CHUNK, 1).into();
    let have = || Have::new(&content);
    let liar = have().without(5..9).lying();
    let changing = have().changing_after(30);
    let scene = Scene::new(
        short_feed(Via::Chain, 3, content.len()),
        Arc::clone(&content),
        vec![Some(liar), Some(changing), Some(have())],
    );
    let played = scene.play(1, "lies");
    assert_eq!(played.fates, [Outcome::Delivered; 3]);
    assert_eq!(
        played.price.pieces,
        (4 + 10) * CHUNK as u64,
        "four that are not there, ten that have changed"
    );
    assert!(
        played.damages.is_empty() && played.price.data < CHUNK as u64,
        "{played:?}"
    );
}

fn chunk(seed: u64) -> ChunkSize {
    ChunkSize::of_bytes(1 << (14 + seed % 4)).expect("from 16 to 128 KiB")
}

#[test]
fn any_loss_delays_and_changes_nothing() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let via = [Via::Chain, Via::Cast, Via::Binary][seed as usize % 3];
        let content: Arc<[u8]> = data(CHUNK + random.below(2_000_000) as usize, seed).into();
        let receivers = 2 + random.below(4) as usize;
        let have = some(&content, receivers, &mut random);
        let loss = random.unit() * 0.1;
        let replay = format!("seed {seed}");
        let scene = Scene::new(short_feed(via, receivers, content.len()), content, have);
        let played = Scene {
            loss,
            chunk: chunk(seed),
            ..scene
        }
        .play(seed, &replay);
        assert_eq!(
            played.fates,
            vec![Outcome::Delivered; receivers],
            "{replay}"
        );
        assert!(played.damages.is_empty(), "{replay}");
    }
}

#[test]
fn the_others_get_theirs_when_some_die_and_who_is_demoted_gets_its_own() {
    for seed in 0..20 {
        let mut random = Random::new(seed ^ 0xdead);
        let via = [Via::Chain, Via::Cast, Via::Binary][seed as usize % 3];
        let content: Arc<[u8]> = data(3_000_000, seed).into();
        let receivers = 5;
        let have = some(&content, receivers, &mut random);
        let moment = || Duration::from_micros(200_000 + 100) + Duration::from_micros(seed * 1300);
        let absence = Absence {
            host: 2,
            from: moment(),
            lasts: Duration::from_secs(3),
            paused: seed % 2 == 0,
        };
        let short_feed = Case {
            crashes: vec![(4, moment() - Duration::from_millis(200))],
            absences: vec![absence],
            ..short_feed(via, receivers, 3_000_000)
        };
        let scene = Scene {
            chunk: chunk(seed),
            ..Scene::new(short_feed, content, have)
        };
        let played = scene.play(seed, &format!("seed {seed}"));
        let here = played
            .fates
            .iter()
            .filter(|fate| **fate == Outcome::Delivered)
            .count();
        assert!(here >= 4, "seed {seed}: {:?}", played.fates);
    }
}

#[test]
fn a_late_receiver_fetches_chunks_that_were_not_sent() {
    let content: Arc<[u8]> = data(1000 * CHUNK, 3).into();
    let most = || Some(Have::new(&content).without(10..900));
    let have = vec![most(), most(), None];
    let late = (1, Duration::from_millis(210));
    let short_feed = Case {
        late,
        ..short_feed(Via::Chain, 2, content.len())
    };
    let played = Scene::new(short_feed, content, have).play(1, "late");
    assert_eq!(played.fates, [Outcome::Delivered; 3]);
    assert_eq!(played.price.pieces, 110 * CHUNK as u64, "what the two had");
}

#[test]
fn words_in_a_members_name_cost_bytes_of_the_content_at_most_and_nothing_else() {
    let content: Arc<[u8]> = data(30 * CHUNK, 3).into();
    let have = (0..3).map(|_| Some(Have::new(&content))).collect();
    let mut scene = Scene::new(
        short_feed(Via::Chain, 3, content.len()),
        Arc::clone(&content),
        have,
    );
    // All of it, nothing of it, sets of other stretches, no sets.
    let sets = [
        (0, vec![1, 0, 0, 0, 30]),
        (0, vec![1]),
        (1, vec![1]),
        (7, vec![1]),
        (u64::MAX, vec![1]),
        (0, vec![9; 50]),
    ];
    for (at, (stretch, set)) in (0..60).zip(sets.iter().cycle()) {
        for rank in 1..=3 {
            let moment = Duration::from_micros(200_300 + at * 37);
            scene.strays.push((
                moment,
                rank,
                Needs {
                    stretch: *stretch,
                    set: set.clone(),
                },
            ));
        }
    }
    let played = scene.play(1, "words");
    assert_eq!(played.fates, [Outcome::Delivered; 3]);
    assert!(
        played.price.data <= 31 * CHUNK as u64 && played.damages.is_empty(),
        "{:?}",
        played.price
    );
}

/// Returns the first 16 bytes of the content, its hashes or its fragments' names that are in a
/// frame.
fn leaked(frames: &[Vec<u8>], content: &[u8], names: &[[u8; 8]]) -> Option<Vec<u8>> {
    let place = StretchPlace::of(ChunkSize::DEFAULT, 0, content.len() as u64).expect("one stretch");
    let hash_list = StretchHashes::of(place, content, &[]);
    let values = (0..hash_list.chunks()).flat_map(|chunk| hash_list.value(chunk).windows(16));
    let digest = *blake3::hash(content).as_bytes();
    let secrets: HashSet<&[u8]> = content
        .windows(16)
        .chain(values)
        .chain(digest.windows(16))
        .collect();
    let names: HashSet<&[u8]> = names.iter().map(|name| &name[..]).collect();
    frames.iter().find_map(|frame| {
        let found = frame.windows(16).find(|part| secrets.contains(part));
        found
            .or_else(|| frame.windows(8).find(|part| names.contains(part)))
            .map(<[u8]>::to_vec)
    })
}

#[test]
fn nothing_of_the_content_or_its_hashes_is_in_a_frame_of_a_session_with_a_key() {
    let content = content(20 * CHUNK - 1000);
    let moved: Arc<[u8]> = [&content[..2 * CHUNK], b"seven", &content[2 * CHUNK..]]
        .concat()
        .into();
    let mut names = Vec::new();
    for cut in [Cut::Fixed, Cut::ContentDefined] {
        let mut cutter = Cutter::new(cut, ChunkSize::DEFAULT);
        cutter.feed(&content, |fragment, _| names.push(fragment.name));
        cutter.finish(|fragment, _| names.push(fragment.name));
    }
    let of_nothing = || vec![None, None, None];
    let of_part = || {
        vec![
            Some(older(&content, [1, 2, 9])),
            Some(Have::new(&content).without(5..20)),
            None,
        ]
    };
    let of_moved = || {
        vec![
            Some(Have::new(&moved).anywhere(Cut::ContentDefined)),
            None,
            None,
        ]
    };
    for via in [Via::Chain, Via::Cast, Via::ScatterAllgather] {
        for (cut, loss, have) in [
            (Cut::None, 0.03, of_nothing()),
            (Cut::Fixed, 0.03, of_part()),
            (Cut::ContentDefined, 0.0, of_moved()),
        ] {
            let (words, heard) = (
                format!("{via} {cut:?} {loss}"),
                Rc::new(RefCell::new(Vec::new())),
            );
            let plain = Scene {
                cut,
                loss,
                ..Scene::new(case(via, 3, content.len()), Arc::clone(&content), have)
            };
            let case = plain.case.clone().keyed();
            let played = Scene {
                case,
                heard: Some(Rc::clone(&heard)),
                ..plain
            }
            .play(1, &words);
            assert_eq!(played.fates, [Outcome::Delivered; 3], "{words}");
            assert!(
                heard.borrow().len() > 300,
                "{words}: {}",
                heard.borrow().len()
            );
            assert_eq!(leaked(&heard.borrow(), &content, &names), None, "{words}");
        }
    }
}

#[test]
fn without_a_key_the_same_is_found_in_frames() {
    let content = content(20 * CHUNK - 1000);
    let heard = Rc::new(RefCell::new(Vec::new()));
    let scene = Scene::new(
        case(Via::Chain, 3, content.len()),
        Arc::clone(&content),
        vec![None, None, None],
    );
    Scene {
        heard: Some(Rc::clone(&heard)),
        ..scene
    }
    .play(1, "plain");
    assert!(leaked(&heard.borrow(), &content, &[]).is_some());
}
