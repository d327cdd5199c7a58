//! Tests whether the event loop polls for a message's next frame without delay
//! (`Mailbox::is_urgent`).

use super::play::{content, mailbox};
use ethbcast_transport::messages::{Mailbox, Settings};
use ethbcast_transport::wire::Rank;
use ethbcast_transport::{Alone, Instant, Machine};

const PAYLOAD_BYTES: usize = 1468;
const LONG: usize = 1 << 20;

fn pass(from: &mut Alone<Mailbox>, to: &mut Alone<Mailbox>, now: Instant, most: usize) -> usize {
    let mut buffer = [0; PAYLOAD_BYTES + 54];
    let one = |_: &usize| match from.poll_transmit(now, &mut buffer) {
        Some(length) => {
            to.handle_frame(now, &buffer[..length]);
            true
        }
        None => false,
    };
    (0..most).take_while(one).count()
}

fn collect(mailbox: &mut Alone<Mailbox>) -> usize {
    std::iter::from_fn(|| mailbox.part.poll_completion()).count()
}

#[test]
fn each_frame_of_a_short_message_is_waited_for_and_those_in_the_middle_of_a_long_one_are_not() {
    let settings = Settings::default();
    let [mut a, mut b] = [0, 1].map(|rank| mailbox(rank, 2, PAYLOAD_BYTES, &settings));
    let mut now = Instant::from_nanos(1_000_000);
    assert!(!a.is_urgent() && !b.is_urgent(), "nothing is asked for");
    b.part.recv(Rank(0), 7, 100).expect("there is room");
    assert!(b.is_urgent(), "a message is waited for, and short until it is known to be long");
    a.part.send(Rank(1), 7, content(0, 100)).expect("there is room");
    pass(&mut a, &mut b, now, usize::MAX);
    assert_eq!((collect(&mut b), b.is_urgent()), (1, false), "it is there");
    assert!(a.is_urgent(), "its end is not known");
    now += settings.tuning.ack.delay;
    b.handle_timeout(now);
    pass(&mut b, &mut a, now, usize::MAX);
    assert_eq!((collect(&mut a), a.is_urgent()), (1, false));

    b.part.recv(Rank(0), 7, LONG).expect("there is room");
    b.part.recv(Rank(0), 7, LONG).expect("there is room");
    a.part.send(Rank(1), 7, content(1, LONG)).expect("there is room");
    let (mut bulk, mut frames) = (0, 0);
    while collect(&mut b) == 0 {
        // Acknowledgements come late, so that the window has time to grow.
        let consumed = pass(&mut a, &mut b, now, 8);
        let (there, back) = (a.is_urgent(), b.is_urgent());
        if consumed == 0 {
            pass(&mut b, &mut a, now, usize::MAX);
        }
        assert!(there || frames >= 9, "waiting for the grant after {frames} frames");
        assert!(back || (frames + 64) * PAYLOAD_BYTES <= LONG, "the last of {frames} frames");
        bulk += usize::from(!there && !back);
        frames += consumed;
    }
    assert!(bulk * 8 > LONG / PAYLOAD_BYTES / 2, "{bulk} of {} times", frames / 8);
}
