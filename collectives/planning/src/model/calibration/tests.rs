//! Tests of measured network costs: reading, writing, interpolation, and refusal of invalid files.

use super::*;
use proptest::prelude::*;

const FILE: &str = "\
schema = 1
loss = 0.001
cast_max_frames_per_second = 9000

[[point]]
bytes = 100
gap_ns = 1000
latency_ns = 5000

[[point]]
bytes = 200
gap_ns = 1500
latency_ns = 6000

[[point]]
bytes = 400
gap_ns = 3500
latency_ns = 5000
";

fn file() -> Calibration {
    Calibration::parse(FILE, "c.toml").expect("a calibration")
}

fn refusal(from: &str, to: &str) -> String {
    assert!(FILE.contains(from), "{from}");
    Calibration::parse(&FILE.replacen(from, to, 1), "c.toml")
        .expect_err("refused")
        .to_string()
}

#[test]
fn a_file_is_read_as_it_is_written() {
    let calibration = file();
    assert_eq!(
        (
            calibration.loss(),
            calibration.cast_max_frames_per_second(),
            calibration.points().len()
        ),
        (0.001, Some(9000), 3)
    );
    assert_eq!(
        calibration.points()[1],
        Point {
            bytes: 200,
            gap_ns: 1500,
            latency_ns: 6000
        }
    );
    assert_eq!(calibration.to_toml(), FILE);
}

#[test]
fn between_points_lines_are_straight_and_beyond_the_last_gaps_are_multiples_of_it_and_latencies_stay()
 {
    let calibration = file();
    let gaps = [0, 50, 100, 150, 200, 300, 400, 500, 1400].map(|bytes| calibration.gap_ns(bytes));
    assert_eq!(
        gaps,
        [
            1000.0, 1000.0, 1000.0, 1250.0, 1500.0, 2500.0, 3500.0, 4375.0, 12_250.0
        ]
    );
    let latencies = [0, 150, 300, 400, 600, 1400, 2000].map(|bytes| calibration.latency_ns(bytes));
    assert_eq!(
        latencies,
        [5000.0, 5500.0, 5500.0, 5000.0, 5000.0, 5000.0, 5000.0]
    );
}

#[test]
fn nothing_measured_means_frames_at_the_rate_of_the_link() {
    // At 100 Mbit/s, 1454 bytes and 46 of headers take 120 µs; the shortest frame of 60 bytes takes
    // 4.8 µs.
    let calibration = Calibration::assumed(100_000_000, 1454);
    assert_eq!(
        [1, 14, 1454, 1454 * 10, 1454 * 5000].map(|bytes| calibration.gap_ns(bytes)),
        [4800.0, 4800.0, 120_000.0, 1.2e6, 6e8]
    );
    assert_eq!(
        [1, 1 << 30].map(|bytes| calibration.latency_ns(bytes)),
        [30_000.0, 30_000.0]
    );
    for (rate, payload) in [(1, 1), (u64::MAX, 9000), (10_000_000_000, 14)] {
        let calibration = Calibration::assumed(rate, payload);
        assert_eq!(
            Calibration::from_points(calibration.points().to_vec()),
            Ok(calibration),
            "{rate} {payload}"
        );
    }
}

#[test]
fn a_bad_table_is_answered_with_the_line_and_what_was_expected() {
    assert_eq!(
        refusal("gap_ns = 3500", "gap_ns = 1400"),
        "c.toml:17: expected gaps that do not fall, found 1400 ns for 400 bytes after 1500 ns for fewer; measure again \
         with `ethbcast probe`"
    );
    assert_eq!(
        refusal("gap_ns = 1000", "gap_ns = 0"),
        "c.toml:7: expected a gap above 0 ns, found 0 for 100 bytes; measure again with `ethbcast probe`"
    );
    let unsorted = "expected sizes that rise, found 100 bytes after 100; sort the points by size \
        and give each size once";
    assert_eq!(
        refusal("bytes = 200", "bytes = 100"),
        format!("c.toml:11: {unsorted}")
    );
    assert!(
        refusal("bytes = 400", "bytes = 150")
            .starts_with("c.toml:16: expected sizes that rise, found 150 bytes after 200")
    );
    let one = FILE
        .split("\n[[point]]")
        .take(2)
        .collect::<Vec<_>>()
        .join("\n[[point]]");
    assert_eq!(
        Calibration::parse(&one, "c.toml")
            .expect_err("one point")
            .to_string(),
        "c.toml: expected at least 2 sizes, found 1; add a `[[point]]` with bytes, gap_ns and latency_ns for each size \
         measured"
    );
    assert!(
        Calibration::parse("schema = 1", "c.toml")
            .expect_err("none")
            .to_string()
            .contains("at least 2 sizes, found 0")
    );
}

#[test]
fn a_bad_file_is_answered_with_the_line_and_what_was_expected() {
    assert!(
        refusal("schema = 1", "schema = \"1\"")
            .starts_with("c.toml:1: expected `schema = 1`, found `schema = \"1\"`")
    );
    assert!(
        refusal("schema = 1\n", "").starts_with("c.toml:1: expected `schema = 1`, which says how")
    );
    assert!(
        refusal("loss = 0.001", "loss = 1")
            .starts_with("c.toml:2: expected a loss from 0.0 to below 1.0, found 1;")
    );
    assert!(
        refusal("loss = 0.001", "loss = nan")
            .starts_with("c.toml:2: expected a loss from 0.0 to below 1.0, found NaN;")
    );
    assert!(
        refusal("9000", "0").starts_with("c.toml:3: expected cast_max_frames_per_second above 0")
    );
    assert!(refusal("gap_ns = 1500", "gap = 1500").starts_with("c.toml:12: unknown field `gap`"));
    assert!(
        refusal("latency_ns = 5000", "latency_ns = 'x'").contains("c.toml:8:"),
        "{}",
        refusal("latency_ns = 5000", "latency_ns = 'x'")
    );
    assert!(refusal("latency_ns = 6000\n", "").contains("missing field `latency_ns`"));
    assert!(refusal("[[point]]", "[[point]").starts_with("c.toml:5: "));
}

#[test]
fn loss_and_policing_are_checked_when_they_are_added() {
    let calibration = Calibration::assumed(1_000_000_000, 1454);
    assert_eq!(
        calibration
            .clone()
            .with_loss(0.25)
            .expect("a quarter")
            .loss(),
        0.25
    );
    for loss in [-0.1, 1.0, f64::NAN] {
        assert!(matches!(
            *calibration
                .clone()
                .with_loss(loss)
                .expect_err("no loss")
                .problem,
            CalibrationProblem::Loss(_)
        ));
    }
    assert_eq!(
        calibration
            .clone()
            .with_cast_max(5)
            .expect("five")
            .cast_max_frames_per_second(),
        Some(5)
    );
    assert_eq!(
        *calibration.with_cast_max(0).expect_err("none").problem,
        CalibrationProblem::ZeroCastRate
    );
}

proptest! {
    #[test]
    fn a_written_calibration_reads_back_equal(
        steps in prop::collection::vec((1u64..5000, 0u64..100_000, 0u64..1_000_000), 2..12),
        loss in 0.0..0.999f64,
        cap in proptest::option::of(1..u32::MAX as u64),
    ) {
        let mut point = Point { bytes: 0, gap_ns: 1, latency_ns: 0 };
        let points = steps.into_iter().map(|(bytes, gap, latency_ns)| {
            point = Point { bytes: point.bytes + bytes, gap_ns: point.gap_ns + gap, latency_ns: latency_ns as i64 };
            point
        });
        let calibration = Calibration::from_points(points.collect()).expect("rising");
        let mut calibration = calibration.with_loss(loss).expect("a share");
        if let Some(cap) = cap {
            calibration = calibration.with_cast_max(cap).expect("above 0");
        }
        prop_assert_eq!(Calibration::parse(&calibration.to_toml(), "written"), Ok(calibration.clone()));
        for pair in calibration.points().windows(2) {
            let between = u64::midpoint(pair[0].bytes, pair[1].bytes);
            prop_assert!((pair[0].gap_ns as f64..=pair[1].gap_ns as f64).contains(&calibration.gap_ns(between)));
        }
    }
}

#[test]
fn processor_times_are_read_as_written_and_refused_beyond_reason() {
    let processing = Processing {
        send_frame_ns: 2300,
        send_byte_ps: 350,
        receive_frame_ns: 1900,
        ..Processing::default()
    };
    let own = file().with_processing(processing).expect("under a second");
    let shared = file().with_processing(Processing {
        shared_cores: 2,
        wake_up_ns: 6000,
        ..processing
    });
    let shared = shared
        .and_then(|shared| shared.with_burst_ns(500_000))
        .expect("the same");
    let in_streams = Processing {
        pass_on_frame_ns: 3000,
        cast_frame_ns: 9000,
        stream_frame_bytes: 1000,
        ..processing
    };
    let streaming = file().with_processing(in_streams).expect("the same");
    assert_eq!(
        (processing.streaming(), processing.casting()),
        (1.0, None),
        "not measured"
    );
    assert_eq!(
        (in_streams.streaming(), in_streams.casting()),
        (3000.0 / 4550.0, Some(9000.0 / 2650.0))
    );
    for calibration in [own, shared, streaming] {
        let text = calibration.to_toml();
        assert_eq!(
            Calibration::parse(&text, "c.toml").as_ref(),
            Ok(&calibration)
        );
        let refusal = |from, to| {
            Calibration::parse(&text.replacen(from, to, 1), "c.toml")
                .expect_err("refused")
                .to_string()
        };
        let line = text
            .lines()
            .position(|line| line == "[processing]")
            .expect("there")
            + 1;
        assert_eq!(
            refusal("send_byte_ps = 350", "send_byte_ps = 1000000001"),
            format!(
                "c.toml:{line}: expected send_byte_ps of at most 1000000000, found 1000000001; measure again with \
                 `ethbcast probe`"
            )
        );
        assert!(refusal("send_byte_ps = 350", "send_byte_ps = -1").contains("expected u64"));
        assert!(refusal("send_frame_ns", "send_frames").contains("unknown field"));
    }
    let unknown = Processing {
        stream_frame_bytes: 0,
        ..in_streams
    };
    assert!(
        file()
            .with_processing(unknown)
            .is_err_and(|error| error.to_string().contains("stream_frame_bytes"))
    );
    let beyond = Processing {
        cast_frame_ns: u64::MAX,
        wake_up_ns: u64::MAX,
        ..in_streams
    };
    assert!(
        file().with_processing(beyond).is_err() && file().with_processing(beyond.clamped()).is_ok()
    );
    assert_eq!(processing.sending_ns(2.0, 1000), 4600.0 + 350.0);
    assert_eq!(processing.receiving_ns(2.0, 1000), 3800.0);
}

#[test]
fn the_lower_of_link_and_limit_is_what_a_message_takes() {
    let link = Calibration::assumed(1_000_000_000, 1468);
    let frame_ns = |rate: u64| 1514 * 8 * 1_000_000_000 / rate;
    let half = link.clone().limited_to(500_000_000, 1468, 8_000_000);
    assert_eq!(half.gap_ns(1468) as u64, frame_ns(500_000_000));
    assert_eq!(
        half.gap_ns(1468 * 1024) as u64,
        1024 * frame_ns(500_000_000)
    );
    assert_eq!(
        (half.burst_ns(), half.latency_ns(1468)),
        (8_000_000, link.latency_ns(1468))
    );
    let above = link.clone().limited_to(2_000_000_000, 1468, 8_000_000);
    assert_eq!(above, link);
}
