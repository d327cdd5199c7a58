//! Forged requests for bytes, and forged replies.

use super::forgery::{Forged, Harm, forged};
use super::scene::{BYTES, MEMBERS};
use ethbcast_collectives::session::{Fetch, FetchedPiece, Message, Needs};
use ethbcast_transport::wire::Rank;

const ALL: u64 = BYTES as u64;
const MOST: u64 = 128 << 10;

pub fn questions() -> Vec<Forged> {
    let (whole, ends) = ((0, MOST), (u64::MAX - 1, u64::MAX));
    let ranges = [whole, (0, 1), (0, MOST + 1), (0, u64::MAX), (9, 3), (7, 7), (ALL - 1, ALL), (ALL, ALL + 1), ends];
    let ranks = (0..=MEMBERS as u16).chain([60_000, u16::MAX]);
    let mut found = Vec::new();
    for (rank, (from, to)) in ranks.flat_map(|rank| ranges.map(|range| (rank, range))) {
        for (attempt, blamed) in [(1, 0), (3, 2), (0, 0), (4, 1), (u8::MAX, rank), (2, 50_000), (1, u16::MAX)] {
            let fetch = Fetch { rank: Rank(rank), bytes: from..to, attempt, blamed: Rank(blamed) };
            found.push(forged(&Message::Fetch(fetch), Harm::Nothing));
        }
    }
    found
}

pub fn answers() -> Vec<Forged> {
    let places = [(0, MOST), (0, 0), (0, 1), (ALL - 5, ALL), (ALL, u64::MAX), (u64::MAX, u64::MAX), (u64::MAX, 0)];
    let answer = |(from, end): (u64, u64)| {
        [0, 1, 1400]
            .map(|bytes| forged(&Message::Piece(FetchedPiece { from, end, bytes: vec![7; bytes] }), Harm::Nothing))
    };
    places.into_iter().flat_map(answer).collect()
}

/// NEEDS with valid and invalid values, in sessions without holdings.
pub fn words() -> Vec<Forged> {
    let sets = [vec![], vec![0], vec![1], vec![1, 0, 0, 4, 0], vec![0xff; 129], vec![0; 129], vec![7; 60]];
    let word = |stretch: u64| sets.clone().map(|set| forged(&Message::Needs(Needs { stretch, set }), Harm::Nothing));
    [0, 1, 8, u64::MAX].into_iter().flat_map(word).collect()
}
