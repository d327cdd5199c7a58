//! Bytes read as decisions. When they have run out, every further decision is zero.

#[derive(Clone, Copy, Debug)]
pub(super) struct Script<'a> {
    rest: &'a [u8],
}

impl<'a> Script<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Script<'a> {
        Script { rest: bytes }
    }

    pub(super) fn is_over(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn bytes(&mut self, most: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(most.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    pub(super) fn u8(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    pub(super) fn u16(&mut self) -> u16 {
        u16::from(self.u8()) << 8 | u16::from(self.u8())
    }

    pub(super) fn u64(&mut self) -> u64 {
        self.bytes(8).iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        usize::from(self.u8()) % bound
    }

    pub(super) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    pub(super) fn near(&mut self, base: u64) -> u64 {
        const FAR: [u64; 6] = [0, 1 << 30, 1 << 32, 1 << 40, u64::MAX - 1, u64::MAX];
        match self.u8() {
            far @ 250.. => FAR[usize::from(far - 250)],
            near => base.wrapping_add(u64::from(near)).wrapping_sub(64),
        }
    }
}
