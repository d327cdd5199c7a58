//! Test scenarios, for the cost in frames, with a fixed set of hosts: protocols, faults, slow
//! receivers, parity.

use crate::case::Path;
use crate::world::{
    Scenario, both, cut_off, deaf, delay_each, lose_each, lose_new, lose_twice, repeat_each,
    scenario, us,
};
use ethbcast_transport::Tuning;
use ethbcast_transport::sim::{QueueLimit, RandomFaults};
use ethbcast_transport::wire::Kind;
use std::time::Duration;

const PATHS: [(Path, usize); 8] = [
    (Path::Chain, 5),
    (Path::Tree(2), 7),
    (Path::Binomial, 8),
    (Path::Flat, 5),
    (Path::Cast, 6),
    (Path::TunedCast, 6),
    (Path::AckTree(2), 7),
    (Path::AckTree(1), 4),
];

pub fn paths() -> Vec<Scenario> {
    let of = |(path, hosts): (Path, usize)| {
        let messy = RandomFaults::new(5)
            .loss(0.1)
            .duplicate(0.05)
            .reorder(0.05, Duration::from_micros(900));
        [
            scenario("nothing lost", path, hosts, 200),
            scenario("1 % lost", path, hosts, 300).loss(0.01),
            scenario("10 % lost, 5 % twice, 5 % late", path, hosts, 200).faults(messy),
            scenario("messages of 3, 5 % lost", path, hosts, 60)
                .messages(3)
                .loss(0.05),
            scenario("a frame each 300 us", path, hosts, 40).paced(300),
        ]
    };
    PATHS.into_iter().flat_map(of).collect()
}

pub fn protocols() -> Vec<Scenario> {
    let late = || RandomFaults::new(3).reorder(0.1, Duration::from_micros(700));
    let strict = |name: &str, path, frames| scenario(name, path, 5, frames).by(Tuning::paper(), 64);
    let pull = |name: &str, frames| {
        scenario(name, Path::TunedCast, 6, frames)
            .by(Tuning::push_pull().with_push_frames(Some(5)), 64)
    };
    let strict = [Path::Chain, Path::Flat, Path::TunedCast]
        .into_iter()
        .flat_map(|path| {
            [
                strict("strict, nothing lost", path, 150),
                strict("strict, 3 % lost", path, 150).loss(0.03),
                strict("strict, 10 % late", path, 150).faults(late()),
                strict("strict, messages of 4, 5 % lost", path, 60)
                    .messages(4)
                    .loss(0.05),
            ]
        });
    let pulled = [
        pull("push-pull, nothing lost", 100),
        pull("push-pull, 5 % lost", 100).loss(0.05),
        pull("push-pull, messages of 12, 5 % lost", 60)
            .messages(12)
            .loss(0.05),
        pull("push-pull, messages of 3", 30).messages(3),
        pull("push-pull, host 4 takes 1 frame each 400 us", 80).rests(4, 1, 400),
        pull("push-pull, host 3 loses frames 2, 7 and 30 to 40", 80).faults(lose_new(
            |host, frame| host == 3 && (frame == 2 || frame == 7 || (30..40).contains(&frame)),
        )),
    ];
    strict.chain(pulled).collect()
}

pub fn hazards() -> Vec<Scenario> {
    let both = |name: &str, hazard: &dyn Fn(Scenario) -> Scenario| {
        [
            (Path::Flat, 4),
            (Path::Cast, 4),
            (Path::Chain, 4),
            (Path::AckTree(2), 7),
        ]
        .map(|(path, hosts)| hazard(scenario(name, path, hosts, 200)))
    };
    let ms = Duration::from_millis;
    [
        both("host h lacks every 8th frame from h on", &|it| {
            it.faults(lose_new(|host, frame| frame % 8 == host as u64))
        }),
        both("hosts 1 and 2 lose frames 40 to 70", &|it| {
            it.faults(lose_new(|host, frame| {
                host < 3 && (40..70).contains(&frame)
            }))
        }),
        both("all lose every 50th frame, and once again", &|it| {
            it.faults(lose_twice(|_, frame| frame % 50 == 7))
        }),
        both("host 2 loses the last 9 frames, twice", &|it| {
            it.faults(lose_twice(|host, frame| host == 2 && frame > 190))
        }),
        both("every third acknowledgement lost", &|it| {
            it.faults(lose_each(3, Kind::ACK))
        }),
        both("every 4th acknowledgement 6 ms late", &|it| {
            it.faults(delay_each(4, Kind::ACK, ms(6)))
        }),
        both("every 5th acknowledgement twice, 9 ms apart", &|it| {
            it.faults(repeat_each(5, Kind::ACK, ms(9)))
        }),
        both("every 9th frame 2 ms late", &|it| {
            it.faults(delay_each(9, Kind::DATA, ms(2)))
        }),
        both("host 2 cut off from 3 to 70 ms", &|it| {
            it.faults(cut_off(2, 3_000..70_000))
        }),
        both("host 2 cut off from 3 to 2500 ms", &|it| {
            it.faults(cut_off(2, 3_000..2_500_000))
        }),
        both("host 1 deaf from 2 to 9 ms", &|it| {
            it.faults(deaf(1, 2_000..9_000))
        }),
        both("5 % damaged", &|it| {
            it.faults(RandomFaults::new(8).corrupt(0.05))
        }),
        both("host 2 loses 45 %", &|it| {
            it.faults(RandomFaults::new(2).loss_at(2, 0.45))
        }),
    ]
    .into_iter()
    .flatten()
    .collect()
}

pub fn numbers() -> Vec<Scenario> {
    let four = [
        (Path::Chain, 4),
        (Path::Flat, 4),
        (Path::TunedCast, 5),
        (Path::AckTree(2), 7),
    ];
    let each = |name: &str, frames: u64, change: &dyn Fn(Scenario) -> Scenario| -> Vec<Scenario> {
        four.iter()
            .map(|&(path, hosts)| change(scenario(name, path, hosts, frames)))
            .collect()
    };
    let wraps = us((1 << 32) - 6_000);
    let mut all = segments_and_windows();
    all.extend(many_and_slow());
    all.extend(each("feeds of 8", 120, &|it| {
        it.by(Tuning::default(), 8).tuned(small).loss(0.04)
    }));
    all.extend(each(
        "host 3 takes 40 frames each 30 ms, 2 % lost",
        200,
        &|it| it.rests(3, 40, 30_000).loss(0.02),
    ));
    all.extend(each("hosts 1 and 3 take 1 frame each 150 us", 200, &|it| {
        it.rests(1, 1, 150).rests(3, 1, 150)
    }));
    all.extend(each(
        "clocks apart and 300 ppm off, a frame each 2 ms, 5 % lost",
        120,
        &|it| {
            it.clock(0, 5, -300)
                .clock(1, 90_000, 300)
                .clock(2, 0, 150)
                .clock(3, 7, -150)
                .paced(2_000)
                .loss(0.05)
        },
    ));
    all.extend(each("stamps wrap, 5 % lost", 300, &|it| Scenario {
        begins: wraps,
        ..it.loss(0.05)
    }));
    all.extend(each(
        "host 2 behind 3 ms and 20 Mbit/s, 3 % lost",
        300,
        &|it| it.cable(2, 20, 3_000).loss(0.03),
    ));
    all.extend(each("host 1 stands still from 4 to 60 ms", 300, &|it| {
        it.pause(1, 4_000, 60_000)
    }));
    all.extend(each("messages of 90", 270, &|it| it.messages(90)));
    all.push(
        scenario(
            "host 3 is 1 ms away, every 5th frame 2 ms late",
            Path::AckTree(2),
            7,
            300,
        )
        .cable(3, 100, 1_000)
        .faults(delay_each(5, Kind::DATA, Duration::from_millis(2))),
    );
    all.extend(each("feeds of 256, 30 % lost", 200, &|it| {
        it.by(Tuning::default(), 256).loss(0.3)
    }));
    all
}

fn segments_and_windows() -> Vec<Scenario> {
    let segments =
        |scenario: Scenario, frames| scenario.tuned(|tuning| tuning.feed.segment_frames = frames);
    vec![
        segments(scenario("segments of 12", Path::Chain, 4, 150), 12),
        segments(
            scenario("segments of 12, 4 % lost", Path::Tree(2), 7, 150).loss(0.04),
            12,
        ),
        segments(
            scenario(
                "segments of 10, messages of 25, 3 % lost",
                Path::Flat,
                4,
                100,
            )
            .messages(25)
            .loss(0.03),
            10,
        ),
        segments(
            scenario("segments of 16, strict, 2 % lost", Path::Binomial, 4, 96)
                .by(Tuning::paper(), 64)
                .loss(0.02),
            16,
        ),
        scenario(
            "feeds of 1024, 500 us, half of 500 to 900 lost",
            Path::Chain,
            3,
            1400,
        )
        .by(Tuning::default(), 1024)
        .cable(1, 100, 500)
        .faults(lose_new(|host, frame| {
            host == 1 && (500..900).contains(&frame) && frame % 2 == 0
        })),
        scenario(
            "feeds of 1024, a cable of 5 Mbit/s behind a queue of 16",
            Path::Chain,
            3,
            900,
        )
        .by(Tuning::default(), 1024)
        .cable(1, 5, 20)
        .queues(16),
        scenario("a window of 4 to 6", Path::Flat, 4, 100)
            .tuned(|tuning| {
                let window = &mut tuning.window;
                (window.start_frames, window.min_frames, window.max_frames) = (4, 4, 6);
            })
            .loss(0.03),
        scenario(
            "rounds of 64, host 1 behind 10 Mbit/s and a queue of 8",
            Path::Cast,
            4,
            900,
        )
        .by(Tuning::default(), 256)
        .tuned(|tuning| tuning.cast.round_frames = 64)
        .cable(1, 10, 20)
        .queues(8),
        scenario("rounds of 64, host 2 loses 60 %", Path::Cast, 4, 700)
            .by(Tuning::default(), 256)
            .tuned(|tuning| tuning.cast.round_frames = 64)
            .faults(RandomFaults::new(6).loss_at(2, 0.6)),
    ]
}

fn many_and_slow() -> Vec<Scenario> {
    vec![
        scenario(
            "one acknowledges for all, 2 % lost",
            Path::TunedCast,
            20,
            500,
        )
        .by(Tuning::default(), 256)
        .loss(0.02),
        scenario(
            "one acknowledges for all, host 9 takes 8 frames each 3 ms",
            Path::TunedCast,
            20,
            500,
        )
        .by(Tuning::default(), 256)
        .rests(9, 8, 3_000),
        scenario(
            "one acknowledges for all, host 9 is 3 ms away and host 4 4 ms",
            Path::TunedCast,
            20,
            900,
        )
        .by(Tuning::default(), 512)
        .cable(9, 100, 3_000)
        .cable(4, 100, 4_000),
        scenario(
            "one acknowledges for all, host 9 takes 200 frames each 120 ms, 4 % lost",
            Path::TunedCast,
            20,
            600,
        )
        .by(Tuning::default(), 256)
        .rests(9, 200, 120_000)
        .loss(0.04),
        scenario("reports backed off, 2 % lost", Path::TunedCast, 37, 250)
            .by(Tuning::default(), 256)
            .loss(0.02),
        scenario("reports backed off, 2 % lost", Path::AckTree(6), 40, 200)
            .by(Tuning::default(), 128)
            .loss(0.02),
        scenario(
            "hosts need 30 us a frame, and 40 us to wake up",
            Path::Cast,
            4,
            200,
        )
        .slow_hosts(30, 40),
        scenario(
            "hosts need 90 us a frame, rings of 12",
            Path::Tree(3),
            5,
            200,
        )
        .slow_hosts(90, 0)
        .rings(12),
        scenario("takes nothing until 30 wait", Path::Chain, 4, 200).lazy(30),
        scenario("a reader of 250 us a frame", Path::Tree(2), 7, 150).last_takes(250),
    ]
}

fn small(tuning: &mut Tuning) {
    let window = &mut tuning.window;
    (window.start_frames, window.min_frames, window.max_frames) = (4, 2, 8);
}

impl Scenario {
    fn paced(self, micros: u64) -> Scenario {
        Scenario {
            every: Duration::from_micros(micros),
            ..self
        }
    }

    fn queues(mut self, frames: usize) -> Scenario {
        self.clean = false;
        self.port_queue = QueueLimit::Frames(frames);
        self
    }

    fn rings(mut self, frames: usize) -> Scenario {
        self.clean = false;
        self.settings.nic_receive_frames = frames;
        self
    }

    fn slow_hosts(mut self, frame_micros: u64, wake_micros: u64) -> Scenario {
        self.settings.per_frame_cost = Duration::from_micros(frame_micros);
        self.settings.wake_up = Duration::from_micros(wake_micros);
        self
    }

    fn lazy(mut self, frames: u64) -> Scenario {
        self.case.lazy_frames = frames;
        self
    }

    fn last_takes(mut self, micros: u64) -> Scenario {
        self.case.last_takes = Some(Duration::from_micros(micros));
        self
    }
}

fn blocks(name: &str, path: Path, hosts: usize, frames: u64) -> Scenario {
    scenario(&format!("parity, {name}"), path, hosts, frames)
        .by(Tuning::default(), 256)
        .tuned(|tuning| tuning.cast.parity_block_frames = 32)
}

fn little(host: usize, frame: u64) -> bool {
    (frame * 7 + host as u64 * 13).is_multiple_of(25)
}

pub fn parity() -> Vec<Scenario> {
    let cast = |name: &str, frames| blocks(name, Path::TunedCast, 8, frames);
    let messy = RandomFaults::new(7)
        .loss(0.08)
        .duplicate(0.05)
        .reorder(0.05, Duration::from_micros(900));
    let mut all = vec![
        cast("nothing lost", 300),
        cast("1 % lost", 500).loss(0.01),
        cast("10 % lost", 400).loss(0.1),
        cast("30 % lost", 300).loss(0.3),
        cast("8 % lost, 5 % twice, 5 % late", 300).faults(messy),
        cast("5 % damaged", 300).faults(RandomFaults::new(8).corrupt(0.05)),
        cast("messages of 3, 5 % lost", 90).messages(3).loss(0.05),
        cast("messages of 50, 5 % lost", 300)
            .messages(50)
            .loss(0.05),
        cast("host h lacks every 16th frame from h on", 320)
            .faults(lose_new(|host, frame| frame % 16 == host as u64)),
        cast("host h lacks frame h of each block, twice", 320)
            .faults(lose_twice(|host, frame| frame % 32 == host as u64)),
        cast("all lose frames 40 to 70", 200)
            .faults(lose_new(|_, frame| (40..70).contains(&frame))),
        cast("hosts 1 and 2 lose the last 9 frames, differently", 200).faults(lose_new(
            |host, frame| host < 3 && frame > 190 && frame % 2 == host as u64 % 2,
        )),
        cast("host 2 alone loses 10 %", 300).faults(RandomFaults::new(4).loss_at(2, 0.1)),
        cast("host 2 cut off from 3 to 9 ms, others lose a little", 400)
            .faults(both(cut_off(2, 3_000..9_000), lose_new(little))),
        cast(
            "every third acknowledgement 6 ms late, all lose a little",
            300,
        )
        .faults(both(
            delay_each(3, Kind::ACK, Duration::from_millis(6)),
            lose_new(little),
        )),
        cast("every 4th parity frame 2 ms late, all lose a little", 300).faults(both(
            delay_each(4, Kind::PARITY, Duration::from_millis(2)),
            lose_new(little),
        )),
        cast("host 3 takes 40 frames each 30 ms, 4 % lost", 300)
            .rests(3, 40, 30_000)
            .loss(0.04),
        cast("host 5 is 3 ms away, 4 % lost", 400)
            .cable(5, 100, 3_000)
            .loss(0.04),
        cast("host 4 behind 20 Mbit/s, 4 % lost", 300)
            .cable(4, 20, 20)
            .loss(0.04),
    ];
    all.push(blocks("three listeners, 5 % lost", Path::Cast, 4, 300).loss(0.05));
    all.push(blocks("one listener, 10 % lost", Path::TunedCast, 2, 300).loss(0.1));
    all.push(
        blocks(
            "one acknowledges for all, 3 % lost",
            Path::TunedCast,
            20,
            400,
        )
        .loss(0.03),
    );
    all.push(blocks("an ack tree, 5 % lost", Path::AckTree(2), 7, 300).loss(0.05));
    all
}
