//! Tests of blocking calls by several threads on one packet socket.

use crate::network::{Cable, frame};
use ethbcast_tests::lab::{LIMIT, within};
use ethbcast_transport::packet::{Clock, DriveError, Port, PortConfig, Shared};
use ethbcast_transport::{Deadline, Instant, MacAddr, Machine, Timer};
use nix::unistd::{Pid, gettid};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

/// Bit that turns a request's number into its reply's.
const ANSWER: u32 = 1 << 31;

/// A machine that replies to every request, and notes the replies and the threads that have driven
/// it.
struct Oracle {
    peer: MacAddr,
    outgoing: VecDeque<u32>,
    answers: BTreeSet<u32>,
    driven_by: BTreeMap<Pid, u32>,
    flag: bool,
    period: Option<Duration>,
    next: Instant,
}

impl Oracle {
    fn new(peer: MacAddr) -> Self {
        let (outgoing, answers, driven_by) = (VecDeque::new(), BTreeSet::new(), BTreeMap::new());
        Oracle {
            peer,
            outgoing,
            answers,
            driven_by,
            flag: false,
            period: None,
            next: Instant::START,
        }
    }
}

impl Machine for Oracle {
    fn handle_frame(&mut self, _: Instant, frame: &[u8]) {
        *self.driven_by.entry(gettid()).or_default() += 1;
        let number = u32::from_be_bytes(frame[14..18].try_into().expect("a number"));
        if number & ANSWER != 0 {
            self.answers.insert(number ^ ANSWER);
        } else {
            self.outgoing.push_back(number | ANSWER);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        *self.driven_by.entry(gettid()).or_default() += 1;
        if let Some(period) = self.period.filter(|_| self.next <= now) {
            self.next = now + period;
        }
    }

    fn poll_transmit(&mut self, _: Instant, buffer: &mut [u8]) -> Option<usize> {
        let frame = frame(self.peer, self.outgoing.pop_front()?, 100);
        buffer[..frame.len()].copy_from_slice(&frame);
        Some(frame.len())
    }

    fn poll_timeout(&self, _now: Instant) -> Option<Deadline> {
        self.period.map(|_| Deadline {
            at: self.next,
            why: Timer::HEARTBEAT,
        })
    }
}

fn start(port: Port, peer: MacAddr) -> Shared<Oracle> {
    Shared::start(port, Oracle::new(peer), Clock::start()).expect("a thread is free")
}

fn oracles(cable: &Cable, change: impl Fn(&mut PortConfig) + Send + Copy) -> [Shared<Oracle>; 2] {
    let [a, b] = [0, 1].map(|host| cable.open(host, change));
    let (mac_a, mac_b) = (a.interface().mac, b.interface().mac);
    [start(a, mac_b), start(b, mac_a)]
}

fn request(oracle: &Shared<Oracle>, number: u32) {
    let deadline = oracle.now() + LIMIT;
    let mut asked = false;
    let answered = oracle.wait(Some(deadline), |machine, _| {
        if !std::mem::replace(&mut asked, true) {
            machine.outgoing.push_back(number);
        }
        if machine.answers.remove(&number) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    assert!(
        answered.expect("the interface is up").is_some(),
        "question {number} is answered"
    );
}

fn patient(config: &mut PortConfig) {
    config.busy_poll = Duration::from_millis(20);
}

fn sleepy(config: &mut PortConfig) {
    config.busy_poll = Duration::ZERO;
}

#[test]
fn a_host_that_computes_answers_and_the_asking_thread_drives_itself() {
    for change in [patient, sleepy] {
        let cable = Cable::lay(1500);
        let [a, b] = oracles(&cable, change);
        let mut times: Vec<_> = (0..1000)
            .map(|number| {
                let begin = std::time::Instant::now();
                request(&a, number);
                begin.elapsed()
            })
            .collect();
        times.sort();
        println!(
            "a question took {:?}, 90 % within {:?}",
            times[500], times[900]
        );
        let (asking, answering) = (a.stop(), b.stop());
        let by_itself = asking.driven_by.get(&gettid()).copied().unwrap_or(0);
        assert!(
            by_itself > 500,
            "of 1000 answers {by_itself} came to the thread that had asked"
        );
        assert!(
            !answering.driven_by.contains_key(&gettid()) && answering.driven_by.len() == 1,
            "one thread answers"
        );
    }
}

#[test]
fn several_threads_wait_at_once_and_each_gets_its_own() {
    for change in [patient, sleepy, |_: &mut PortConfig| {}] {
        let cable = Cable::lay(1500);
        let [a, b] = oracles(&cable, change);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (a, b) = (&a, &b);
                scope.spawn(move || {
                    (0..250).for_each(|number| {
                        request(if thread < 3 { a } else { b }, thread << 16 | number)
                    })
                });
            }
        });
        assert!(
            a.stop().answers.is_empty() && b.stop().answers.is_empty(),
            "no answer is left"
        );
    }
}

#[test]
fn a_change_by_one_thread_wakes_the_others() {
    for change in [patient, sleepy] {
        let cable = Cable::lay(1500);
        let [a, _b] = oracles(&cable, change);
        let waited = std::thread::scope(|scope| {
            let wait = || {
                let deadline = a.now() + LIMIT;
                let seen = |machine: &mut Oracle, now| {
                    if machine.flag {
                        ControlFlow::Break(now)
                    } else {
                        ControlFlow::Continue(())
                    }
                };
                a.wait(Some(deadline), seen).expect("the interface is up")
            };
            let waiting = [(); 3].map(|()| scope.spawn(wait));
            std::thread::sleep(Duration::from_millis(50));
            let set_at = a.with(|machine, now| {
                machine.flag = true;
                now
            });
            let set_at = set_at.expect("the interface is up");
            waiting.map(|thread| {
                thread
                    .join()
                    .expect("no panic")
                    .expect("the flag is seen")
                    .since(set_at)
            })
        });
        assert!(
            waited.into_iter().all(|waited| waited < LIMIT / 2),
            "{waited:?}"
        );
    }
}

#[test]
fn a_deadline_passes_for_leader_and_follower_alike() {
    let cable = Cable::lay(1500);
    let [a, _b] = oracles(&cable, |_| {});
    let mut late: Vec<_> = std::thread::scope(|scope| {
        let wait = |millis| {
            let deadline = a.now() + Duration::from_millis(millis);
            let ended = a
                .wait(Some(deadline), |_, _| ControlFlow::<()>::Continue(()))
                .expect("the interface is up");
            assert_eq!(ended, None);
            assert!(a.now() >= deadline);
            a.now().since(deadline)
        };
        let waiting = [5, 7, 9, 11, 13]
            .map(|millis| scope.spawn(move || (0..20).map(|_| wait(millis)).collect::<Vec<_>>()));
        waiting
            .into_iter()
            .flat_map(|thread| thread.join().expect("no panic"))
            .collect()
    });
    late.sort();
    println!(
        "deadlines: median {:?} late, 80 % within {:?}",
        late[50], late[80]
    );
    // A thread that is not woken sleeps on.
    assert!(late[99] < LIMIT / 2, "{late:?}");
    let past = a
        .wait(Some(Instant::START), |_, _| ControlFlow::Break("at once"))
        .expect("the interface is up");
    assert_eq!(past, Some("at once"), "every wait has one turn");
}

#[test]
fn timers_go_on_whoever_drives_and_also_when_one_call_has_made_them_earlier() {
    let cable = Cable::lay(1500);
    let [a, _b] = oracles(&cable, |_| {});
    // The progress thread leads by then, and sleeps without a limit.
    std::thread::sleep(Duration::from_millis(20));
    let begin = |machine: &mut Oracle, now| {
        (machine.period, machine.next) = (Some(Duration::from_millis(1)), now)
    };
    a.with(begin).expect("the interface is up");
    let own = gettid();
    let keepers = |machine: &Oracle| {
        machine
            .driven_by
            .iter()
            .filter(|(id, _)| **id != own)
            .map(|(_, count)| count)
            .sum()
    };
    let goes_on = within(LIMIT, || {
        let count: u32 = a
            .with(|machine, _| keepers(machine))
            .expect("the interface is up");
        (count >= 50).then_some(())
    });
    assert!(goes_on.is_some(), "the keeper's timers");
    let deadline = a.now() + LIMIT;
    let by_itself = |machine: &mut Oracle, _| match machine.driven_by.get(&own) {
        Some(50..) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    assert!(
        a.wait(Some(deadline), by_itself)
            .expect("the interface is up")
            .is_some(),
        "the timers of who waits"
    );
    assert_eq!(a.stop().driven_by.len(), 2, "the keeper and this thread");
}

#[test]
fn stopping_sends_the_last_frames_and_leaves_no_thread() {
    let cable = Cable::lay(1500);
    let [a, b] = oracles(&cable, |_| {});
    request(&b, 1);
    std::thread::sleep(Duration::from_millis(20));
    request(&b, 2);
    a.with(|machine, _| machine.outgoing.extend(100..1100))
        .expect("the interface is up");
    let machine = a.stop();
    assert!(machine.outgoing.is_empty(), "all is sent");
    let keeper = *machine
        .driven_by
        .keys()
        .next()
        .expect("somebody has answered");
    assert_ne!(keeper, gettid());
    assert!(
        !PathBuf::from(format!("/proc/self/task/{keeper}")).exists(),
        "the keeper has ended"
    );
    let heard = || {
        b.with(|machine, _| machine.driven_by.values().sum::<u32>())
            .expect("the interface is up")
    };
    within(LIMIT, || (heard() >= 2 + 1000).then_some(()));
    assert_eq!(b.stop().driven_by.values().sum::<u32>(), 2 + 1000);
}

#[test]
fn an_interface_that_goes_down_ends_every_wait_and_every_later_call() {
    let cable = Cable::lay(1500);
    let [a, _b] = oracles(&cable, |config| config.outage_limit = Duration::ZERO);
    let down = |error: &DriveError| matches!(error, DriveError::InterfaceDown { .. });
    let deadline = Some(a.now() + LIMIT);
    std::thread::scope(|scope| {
        let waiting = [(); 2]
            .map(|()| scope.spawn(|| a.wait(deadline, |_, _| ControlFlow::<()>::Continue(()))));
        std::thread::sleep(Duration::from_millis(30));
        cable.command(0, "ip link set eth0 down");
        for thread in waiting {
            let error = thread
                .join()
                .expect("no panic")
                .expect_err("nothing else ends it");
            assert!(down(&error), "{error}");
        }
    });
    assert!(a.with(|_, _| ()).is_err_and(|error| down(&error)));
    a.stop();
}

#[test]
fn an_error_in_the_background_thread_is_returned_to_the_next_caller() {
    let cable = Cable::lay(1500);
    let [a, _b] = oracles(&cable, |config| config.outage_limit = Duration::ZERO);
    std::thread::sleep(Duration::from_millis(20));
    cable.command(0, "ip link set eth0 down");
    let error = within(LIMIT, || a.with(|_, _| ()).err()).expect("the interface is down");
    assert!(error.to_string().contains("eth0 went down"), "{error}");
}

/// A burst beyond the kernel's room: the caller returns, and the progress thread sends the rest as
/// the link takes it.
#[test]
fn frames_that_the_kernel_had_no_room_for_are_sent_while_the_caller_computes() {
    let cable = Cable::lay(1500);
    cable.shape("10mbit", "16kb", "1mb");
    let [a, b] = oracles(&cable, |_| {});
    // Short requests: 144 bytes on a 10 Mbit/s link are 115 µs.
    a.with(|machine, _| machine.outgoing.extend(0..1000))
        .expect("the interface is up");
    within(LIMIT, || (a.counters().frames_sent == 1000).then_some(()));
    let answers = a.wait(Some(a.now() + LIMIT), |machine, _| {
        match machine.answers.len() {
            1000 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    });
    assert!(
        answers.expect("the interface is up").is_some(),
        "{:?}",
        a.counters()
    );
    drop(b);
}
