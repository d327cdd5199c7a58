//! Discovery of listening receivers (*census*): a broadcast query, and their replies.
//!
//! The asking host sends WHO to an address on which every receiver listens, whatever its group.
//! Each replies with HERE: its name, its group, its activity, and how its last session ended.
//! Replies are spread in time, so that five hundred do not arrive at once. Since frames get lost, a
//! query is repeated, and receivers reply again. Replies are unauthenticated, and nothing is
//! decided by them.

mod query;

use ethbcast_transport::MacAddr;
use ethbcast_transport::wire::group_mac;

pub(crate) use query::is_well_formed;
pub use query::{
    About, Busy, CensusQuery, CensusReply, CensusRequest, CensusResponder, LastSession, Present,
};

/// Returns the address on which every receiver listens. Its group name is too long for users to
/// configure.
pub fn address() -> MacAddr {
    group_mac(&"census".repeat(11))
}

pub mod kind {
    //! Frame kinds of the census: 49 and 50 of [`Kind`].

    use ethbcast_transport::wire::Kind;

    pub const WHO: Kind = Kind(49);
    pub const HERE: Kind = Kind(50);
}

#[cfg(test)]
mod tests {
    use super::kind;
    use super::query::{About, Busy, CensusReply, CensusRequest, LastSession};
    use super::query::{CensusQuery, CensusResponder, Present};
    use crate::membership::Station;
    use ethbcast_transport::wire::{self, OVERHEAD_BYTES, Rank};
    use ethbcast_transport::{Instant, MacAddr, Machine};
    use std::collections::BTreeSet;
    use std::time::Duration;

    fn at(micros: u64) -> Instant {
        Instant::START + Duration::from_micros(micros)
    }

    fn station(host: u16, group: &str) -> Station {
        let [high, low] = host.to_be_bytes();
        Station::new(
            group,
            &format!("n{host}"),
            MacAddr::new(2, 0, 0, 0, high, low),
            1500,
        )
    }

    fn reply(station: &Station, nonce: u64) -> CensusReply {
        let last = LastSession {
            is_delivered: true,
            source: "größe.iso".to_owned(),
            seconds_ago: 7,
        };
        let about = About {
            version: "ethbcast 0.1.0".to_owned(),
            megabits_per_second: Some(10_000),
            last: Some(last),
        };
        CensusReply {
            nonce,
            group: station.group.clone(),
            host: station.host.clone(),
            mtu_bytes: 1500,
            free_bytes: Some(1 << 40),
            busy: Busy::Receiving,
            bytes: 5,
            size: None,
            about,
        }
    }

    fn frame(station: &Station, kind: wire::Kind, body: &[u8]) -> Vec<u8> {
        let identity = station.identity(0, Rank::NONE);
        let mut frame = vec![0; OVERHEAD_BYTES + body.len()];
        let length = identity.write(&mut frame, super::address(), &identity.header(kind), body);
        frame.truncate(length);
        frame
    }

    fn asker(group: &str) -> CensusQuery {
        CensusQuery::new(
            at(0),
            station(9999, "").identity(0, Rank::NONE),
            group,
            Duration::from_secs(1),
            77,
        )
    }

    fn asked(asker: &mut CensusQuery, now: Instant) -> Option<Vec<u8>> {
        let mut buffer = vec![0; 1514];
        let length = asker.poll_transmit(now, &mut buffer)?;
        buffer.truncate(length);
        Some(buffer)
    }

    /// Runs a round of `hosts`; `passes` says which replies arrive. Returns the arrival times.
    fn round(
        asker: &mut CensusQuery,
        hosts: &mut [(Station, CensusResponder)],
        passes: impl Fn(usize, u64) -> bool,
    ) -> Vec<u64> {
        let (mut moments, begin) = (Vec::new(), asker.rounds());
        for micros in (u64::from(begin) * 1_000_000..).step_by(1000) {
            let now = at(micros);
            asker.handle_timeout(now);
            if asker.rounds() > begin {
                return moments;
            }
            if let Some(question) = asked(asker, now) {
                let question = wire::parse(&question).expect("a frame");
                hosts.iter_mut().for_each(|(station, responder)| {
                    assert!(responder.on_frame(now, &question, station, 0))
                });
            }
            for (number, (station, responder)) in hosts.iter_mut().enumerate() {
                let Some((to, nonce, ..)) = responder.poll(now) else {
                    continue;
                };
                assert_eq!(to, MacAddr::new(2, 0, 0, 0, 0x27, 0x0f));
                moments.push(micros);
                if passes(number, micros) {
                    asker.handle_frame(
                        now,
                        &frame(station, kind::HERE, &reply(station, nonce).encode()),
                    );
                }
            }
        }
        unreachable!("a round ends")
    }

    fn names(asker: &CensusQuery) -> BTreeSet<String> {
        asker
            .present()
            .map(|Present { answer, .. }| answer.host.clone())
            .collect()
    }

    #[test]
    fn five_hundred_are_found_in_a_second_though_every_third_answer_is_lost_and_not_all_answer_at_once()
     {
        let mut hosts: Vec<_> = (0..500)
            .map(|host| (station(host, "g"), CensusResponder::default()))
            .collect();
        let mut asker = asker("");
        let moments = round(&mut asker, &mut hosts, |number, micros| {
            !(number as u64 + micros / 1000).is_multiple_of(3)
        });
        assert!(names(&asker).len() >= 470, "{}", names(&asker).len());
        let most = moments
            .chunk_by(|a, b| a == b)
            .map(<[u64]>::len)
            .max()
            .unwrap_or(0);
        assert!(most <= 40, "{most} answers within a millisecond");
        round(&mut asker, &mut hosts, |_, _| true);
        assert_eq!(names(&asker).len(), 500);
        hosts.truncate(499);
        (0..3).for_each(|_| drop(round(&mut asker, &mut hosts, |_, _| true)));
        assert_eq!(names(&asker).len(), 499, "who has gone is forgotten");
    }

    #[test]
    fn only_the_group_that_is_asked_for_answers() {
        let mut hosts: Vec<_> = (0..9)
            .map(|host| {
                (
                    station(host, if host % 3 == 0 { "red" } else { "blue" }),
                    CensusResponder::default(),
                )
            })
            .collect();
        let mut red = asker("red");
        round(&mut red, &mut hosts, |_, _| true);
        assert_eq!(names(&red), ["n0", "n3", "n6"].map(str::to_owned).into());
    }

    #[test]
    fn an_older_question_of_an_asker_takes_no_place_of_its_last_one() {
        let (own, asker, mut responder) =
            (station(1, "g"), station(2, ""), CensusResponder::default());
        let mut asks = |nonce| {
            let body = CensusRequest {
                nonce,
                spread: Duration::from_millis(50),
                group: String::new(),
            }
            .encode();
            let question = frame(&asker, kind::WHO, &body);
            assert!(responder.on_frame(at(0), &wire::parse(&question).expect("a frame"), &own, 0));
        };
        [700, 5, 701, 5].into_iter().for_each(&mut asks);
        let answered: BTreeSet<u64> = (0..20)
            .filter_map(|tick| responder.poll(at(10_000 * tick)))
            .map(|(_, nonce, ..)| nonce)
            .collect();
        assert_eq!(
            answered,
            [5, 701].into(),
            "the next round's question stands for both"
        );
    }

    #[test]
    fn an_asker_that_floods_or_uses_many_addresses_gets_few_replies() {
        let (own, mut responder) = (station(1, "g"), CensusResponder::default());
        let mut answers = 0;
        for tick in 0..100_000_u64 {
            let from = station(1000 + (tick % 5000) as u16, "");
            let body = CensusRequest {
                nonce: tick,
                spread: Duration::ZERO,
                group: String::new(),
            }
            .encode();
            let question = frame(&from, kind::WHO, &body);
            assert!(responder.on_frame(
                at(tick * 10),
                &wire::parse(&question).expect("a frame"),
                &own,
                0
            ));
            answers += u32::from(responder.poll(at(tick * 10)).is_some());
        }
        assert!((90..=101).contains(&answers), "{answers} in a second");
        assert!(
            std::iter::from_fn(|| responder.poll(at(10_000_000))).count() <= 1,
            "one at a time"
        );
        let group = MacAddr::new(3, 0, 0, 0, 0, 1);
        let nobody = Station {
            mac: group,
            ..station(2, "")
        };
        let body = CensusRequest {
            nonce: 1,
            spread: Duration::ZERO,
            group: String::new(),
        }
        .encode();
        let mut fresh = CensusResponder::default();
        fresh.on_frame(
            at(0),
            &wire::parse(&frame(&nobody, kind::WHO, &body)).expect("a frame"),
            &own,
            0,
        );
        assert_eq!(fresh.poll(at(1)), None, "a group asks nothing");
    }

    #[test]
    fn lies_take_no_room_beyond_what_there_is_and_answers_to_others_are_none() {
        let mut asker = asker("");
        asker.handle_timeout(at(0));
        let own = station(1, "g");
        asker.handle_frame(at(1), &frame(&own, kind::HERE, &reply(&own, 76).encode()));
        asker.handle_frame(at(1), &frame(&own, kind::HERE, &[1; 30]));
        assert_eq!(asker.present().count(), 0);
        for number in 0..66_000_u32 {
            let own = Station {
                group: format!("g{number}"),
                ..own.clone()
            };
            asker.handle_frame(at(1), &frame(&own, kind::HERE, &reply(&own, 77).encode()));
        }
        assert_eq!((asker.present().count(), asker.lost()), (65_536, 464));
    }

    #[test]
    fn bodies_read_back_equal_and_truncated_or_unknown_ones_are_malformed() {
        let own = station(1, "g");
        let full = reply(&own, 1 << 63);
        let bare = CensusReply {
            free_bytes: None,
            size: Some(9),
            busy: Busy::Waiting,
            about: About::default(),
            ..full.clone()
        };
        for said in [full, bare] {
            let body = said.encode();
            assert_eq!(CensusReply::decode(&body).as_ref(), Some(&said));
            (0..body.len()).for_each(|end| {
                assert_eq!(CensusReply::decode(&body[..end]), None, "cut to {end}")
            });
            for (at, wrong) in [(8, 3), (9, 3)] {
                let mut body = body.clone();
                body[at] = wrong;
                assert_eq!(CensusReply::decode(&body), None, "byte {at}");
            }
        }
        let question = CensusRequest {
            nonce: 5,
            spread: Duration::from_millis(100),
            group: "g".to_owned(),
        };
        let body = question.encode();
        assert_eq!(CensusRequest::decode(&body), Some(question));
        (0..body.len()).for_each(|end| assert_eq!(CensusRequest::decode(&body[..end]), None));
        let long = CensusRequest::decode(&[&[0; 8][..], &[0xff; 2], &[0; 3]].concat())
            .expect("a question");
        assert_eq!(long.spread, Duration::from_secs(2), "no longer than that");
    }

    #[test]
    fn the_longest_answer_fits_into_the_smallest_frame() {
        let own = Station::new(
            &"g".repeat(64),
            &"h".repeat(255),
            MacAddr::new(2, 0, 0, 0, 0, 1),
            576,
        );
        let last = LastSession {
            is_delivered: false,
            source: "ü".repeat(127),
            seconds_ago: u32::MAX,
        };
        let about = About {
            version: "v".repeat(255),
            megabits_per_second: None,
            last: Some(last),
        };
        let body = CensusReply {
            about,
            ..reply(&own, 1)
        }
        .encode();
        assert!(
            body.len() <= usize::from(own.payload_bytes()),
            "{} bytes",
            body.len()
        );
        let about = CensusReply::decode(&body).expect("an answer").about;
        assert_eq!(
            (about.version.len(), about.last.map(|last| last.source)),
            (32, Some("ü".repeat(50)))
        );
    }
}
