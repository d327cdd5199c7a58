//! Measurements at moments when no other process needs the processors.

use std::time::Duration;

/// Waits between attempts, in milliseconds: other load may have ended by then. Beside other tests
/// on a machine of two processors that takes up to half a minute.
const PAUSES_MS: [u64; 7] = [200, 400, 800, 1600, 3200, 6400, 12_800];

/// Returns the first successful result of `measure`, in up to eight attempts. Other load only slows
/// a measurement down and never speeds it up, so a true error fails every attempt.
///
/// # Panics
/// Panics with all reasons if every attempt fails.
#[track_caller]
pub fn in_a_quiet_moment<T>(measure: impl FnMut() -> Result<T, String>) -> T {
    in_one_of(PAUSES_MS, measure)
}

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
