//! The last cable to a simulated host, where faults are applied and delayed frames held.

use std::rc::Rc;
use std::time::Duration;

use super::event::Event;
use super::fabric::Fabric;
use super::faults::{Delivery, Fate, Faults};
use super::frame::SharedFrame;
use super::host::Host;
use crate::wire;

#[derive(Debug)]
struct Late {
    host: u32,
    frame: Rc<SharedFrame>,
    undecided: bool,
}

#[derive(Debug, Default)]
pub(super) struct LastHop {
    deliveries: u64,
    late: Vec<Option<Late>>,
    unused: Vec<u32>,
}

impl LastHop {
    pub(super) fn pass(
        &mut self,
        frame: Rc<SharedFrame>,
        host: &mut Host,
        fabric: &mut Fabric,
        faults: &mut dyn Faults,
    ) -> Option<Rc<SharedFrame>> {
        let frame = host.filter(frame, fabric)?;
        match self.fate(&frame, host, fabric, faults) {
            Fate::Deliver => Some(frame),
            Fate::Drop => {
                host.lose(frame, fabric);
                None
            }
            Fate::Duplicate { after } => {
                self.postpone(Rc::clone(&frame), host, after, fabric);
                Some(frame)
            }
            Fate::Delay(by) => {
                self.postpone(frame, host, by, fabric);
                None
            }
            Fate::Corrupt { bit } => {
                let changed = fabric.changed(frame, |frame| frame[bit / 8 % frame.len()] ^= 1 << (bit % 8));
                host.filter(changed, fabric)
            }
            Fate::Damage { byte } => Some(fabric.changed(frame, |frame| wire::damage(frame, byte))),
        }
    }

    pub(super) fn host_of(&self, number: u32) -> u32 {
        self.late[number as usize].as_ref().expect("a late frame is kept until its event happens").host
    }

    pub(super) fn pass_late(
        &mut self,
        number: u32,
        host: &mut Host,
        fabric: &mut Fabric,
        faults: &mut dyn Faults,
    ) -> Option<Rc<SharedFrame>> {
        let late = self.late[number as usize].take().expect("a late frame is kept until its event happens");
        self.unused.push(number);
        if late.undecided { self.pass(late.frame, host, fabric, faults) } else { host.filter(late.frame, fabric) }
    }

    pub(super) fn inject(&mut self, frame: Rc<SharedFrame>, host: u32, at: u64, fabric: &mut Fabric) {
        self.hold_back(Late { host, frame, undecided: true }, at, fabric);
    }

    fn fate(&mut self, frame: &SharedFrame, host: &Host, fabric: &Fabric, faults: &mut dyn Faults) -> Fate {
        let delivery = Delivery {
            from: frame.origin().map(|origin| origin as usize),
            to: host.number() as usize,
            at: fabric.instant(),
            ordinal: self.deliveries,
            frame: frame.bytes(),
        };
        self.deliveries += 1;
        faults.fate(&delivery)
    }

    fn postpone(&mut self, frame: Rc<SharedFrame>, host: &Host, by: Duration, fabric: &mut Fabric) {
        let at = (fabric.instant() + by).as_nanos();
        self.hold_back(Late { host: host.number(), frame, undecided: false }, at, fabric);
    }

    fn hold_back(&mut self, late: Late, at: u64, fabric: &mut Fabric) {
        let number = self.unused.pop().unwrap_or_else(|| {
            self.late.push(None);
            self.late.len() as u32 - 1
        });
        self.late[number as usize] = Some(late);
        fabric.schedule(at, Event::Late(number));
    }
}
