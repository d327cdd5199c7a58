//! Faults in the tests of cost in frames, beside independent frame losses.

use ethbcast_transport::sim::{Delivery, Fate};
use ethbcast_transport::wire::{Flags, Frame, Kind, parse};
use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

fn when(
    mut condition: impl FnMut(&Delivery<'_>, &Frame<'_>) -> bool + 'static,
    fate: Fate,
) -> impl FnMut(&Delivery<'_>) -> Fate {
    move |delivery: &Delivery<'_>| {
        let hit = parse(delivery.frame).is_ok_and(|frame| condition(delivery, &frame));
        if hit { fate } else { Fate::Deliver }
    }
}

pub fn both(
    mut first: impl FnMut(&Delivery<'_>) -> Fate + 'static,
    mut second: impl FnMut(&Delivery<'_>) -> Fate + 'static,
) -> impl FnMut(&Delivery<'_>) -> Fate {
    move |delivery: &Delivery<'_>| match first(delivery) {
        Fate::Deliver => second(delivery),
        fate => fate,
    }
}

pub fn lose_new(condition: impl Fn(usize, u64) -> bool + 'static) -> impl FnMut(&Delivery<'_>) -> Fate {
    let new = move |delivery: &Delivery<'_>, frame: &Frame<'_>| {
        let Frame { header, .. } = frame;
        header.kind == Kind::DATA && !header.flags.has(Flags::RESENT) && condition(delivery.to, header.sequence)
    };
    when(new, Fate::Drop)
}

pub fn lose_twice(condition: impl Fn(usize, u64) -> bool + 'static) -> impl FnMut(&Delivery<'_>) -> Fate {
    let mut again = BTreeSet::new();
    let lost = move |delivery: &Delivery<'_>, frame: &Frame<'_>| {
        let (header, to) = (&frame.header, delivery.to);
        let hit = header.kind == Kind::DATA && condition(to, header.sequence);
        hit && (!header.flags.has(Flags::RESENT) || again.insert((to, header.sequence)))
    };
    when(lost, Fate::Drop)
}

pub fn cut_off(host: usize, micros: Range<u64>) -> impl FnMut(&Delivery<'_>) -> Fate {
    let hit = move |delivery: &Delivery<'_>, _: &Frame<'_>| {
        (delivery.to == host || delivery.from == Some(host)) && micros.contains(&delivery.at.as_micros())
    };
    when(hit, Fate::Drop)
}

pub fn deaf(host: usize, micros: Range<u64>) -> impl FnMut(&Delivery<'_>) -> Fate {
    when(move |delivery, _| delivery.to == host && micros.contains(&delivery.at.as_micros()), Fate::Drop)
}

pub fn lose_each(nth: u64, kind: Kind) -> impl FnMut(&Delivery<'_>) -> Fate {
    when(every(nth, kind), Fate::Drop)
}

pub fn delay_each(nth: u64, kind: Kind, late: Duration) -> impl FnMut(&Delivery<'_>) -> Fate {
    when(every(nth, kind), Fate::Delay(late))
}

pub fn repeat_each(nth: u64, kind: Kind, after: Duration) -> impl FnMut(&Delivery<'_>) -> Fate {
    when(every(nth, kind), Fate::Duplicate { after })
}

fn every(nth: u64, kind: Kind) -> impl FnMut(&Delivery<'_>, &Frame<'_>) -> bool {
    let mut count = 0;
    move |_, frame| {
        count += u64::from(frame.header.kind == kind);
        frame.header.kind == kind && count % nth == 0
    }
}
