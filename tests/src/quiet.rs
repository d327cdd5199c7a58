//! Moments in which nobody else needs the processors.

use std::time::Duration;

/// How long to wait after each attempt but the last: who was in the way may have gone by then. Beside other tests of
/// a machine of two processors that takes up to half a minute.
const PAUSES_MS: [u64; 7] = [200, 400, 800, 1600, 3200, 6400, 12_800];

/// What is measured in a moment in which nobody else needs the processors, at the eighth attempt at the latest:
/// `measure` says what it has found, or what is wrong with it. Others only take time from what is measured and never
/// give any, so that what is wrong in truth is wrong each time.
///
/// # Panics
/// With all reasons, if it is wrong each time.
#[track_caller]
pub fn in_a_quiet_moment<T>(measure: impl FnMut() -> Result<T, String>) -> T {
    in_one_of(PAUSES_MS, measure)
}

/// The same with an attempt before, between and after these pauses.
#[track_caller]
fn in_one_of<T, const PAUSES: usize>(pauses_ms: [u64; PAUSES], mut measure: impl FnMut() -> Result<T, String>) -> T {
    let mut wrong = Vec::new();
    for pause in pauses_ms.map(Duration::from_millis).into_iter().map(Some).chain([None]) {
        match measure() {
            Ok(measured) => return measured,
            Err(why) => wrong.push(why),
        }
        pause.into_iter().for_each(std::thread::sleep);
    }
    panic!("in each of {} moments: {}", wrong.len(), wrong.join("; "));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_right_once_is_taken_and_what_is_wrong_each_time_is_told() {
        let mut attempts = 0;
        let third = || {
            attempts += 1;
            if attempts == 3 { Ok(attempts) } else { Err(format!("attempt {attempts}")) }
        };
        assert_eq!(in_a_quiet_moment(third), 3);
        let never = std::panic::catch_unwind(|| in_one_of([0; 4], || Err::<(), _>("too late".to_owned())));
        let told = *never.expect_err("it is wrong").downcast::<String>().expect("a text");
        assert_eq!(told, "in each of 5 moments: too late; too late; too late; too late; too late");
    }
}
