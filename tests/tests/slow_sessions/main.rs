//! One receiver is slower than the others.

mod scene;

use ethbcast_planning::plan::Via;
use scene::{SHORTS, Scene, Short};

#[test]
#[ignore]
fn table() {
    let filter = std::env::var("ONLY").unwrap_or_default();
    for via in [Via::Chain, Via::Cast, Via::Binary] {
        for (receivers, slow) in [(3, 1), (7, 1), (7, 4), (7, 7)] {
            for short in SHORTS {
                let scene = Scene { via, receivers, bytes: 24_000_000, slow: Some(slow), short, percent: 10, seed: 1 };
                let name = format!("{via} {short:?} {slow}/{receivers}");
                if !name.contains(&filter) { continue }
                let clean = scene.undisturbed().play();
                assert!(clean.aside.is_empty(), "{name}");
                let base = clean.others.as_secs_f64();
                print!("{name:28} {base:5.1} s:");
                for percent in std::env::var("PERCENT").map_or(vec![5, 10, 25, 50, 60, 70, 80, 90, 95], |p| p.split(',').map(|p| p.parse().unwrap()).collect()) {
                    let story = Scene { percent, ..scene }.play();
                    let at = story.aside.first().map_or("-".into(), |(_, at, _)| format!("{:.1}", at.as_secs_f64()));
                    let wrong = if story.aside.iter().any(|&(at, ..)| at != slow) { "!" } else { "" };
                    print!(" {percent}:{at}{wrong}/{:.2}", story.others.as_secs_f64() / base);
                    if std::env::var("WHY").is_ok() { print!(" {:?}", story.aside) }
                }
                println!();
            }
        }
    }
}
