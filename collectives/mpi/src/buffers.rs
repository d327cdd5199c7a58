//! User buffers as bytes: in place if elements are contiguous, otherwise packed.

use crate::statistics::Reason;
use crate::table::{Table, Word, done};
use crate::wire::Trouble;

#[derive(Clone, Copy)]
pub struct Elements<'a> {
    table: &'a Table,
    comm: Word,
    address: Word,
    count: i64,
    datatype: Word,
    type_bytes: i64,
    type_extent: i64,
    is_plain: bool,
}

impl<'a> Elements<'a> {
    /// Checks the arguments of a call; refuses those that the MPI would complain of.
    pub fn new(
        table: &'a Table,
        comm: Word,
        (address, count, datatype): (Word, i64, Word),
    ) -> Result<Elements<'a>, Reason> {
        let (mut type_bytes, mut type_extent, mut is_plain) = (0, 0, 0);
        if count < 0 || (table.type_of)(datatype, &mut type_bytes, &mut type_extent, &mut is_plain) != 0 {
            return Err(Reason::Arguments);
        }
        let is_plain = is_plain != 0;
        // Plain elements at address zero are no buffer.
        if is_plain && (table.is_bottom)(address) != 0 && count > 0 {
            return Err(Reason::Arguments);
        }
        Ok(Elements { table, comm, address, count, datatype, type_bytes, type_extent, is_plain })
    }

    /// Returns the packed length in bytes; an error if it does not fit the MPI's integer.
    pub fn bytes(&self) -> Result<usize, Reason> {
        let bytes = self.count.checked_mul(self.type_bytes).and_then(|bytes| usize::try_from(bytes).ok());
        bytes.ok_or(Reason::Arguments)
    }

    pub fn times(&self, times: usize) -> Result<Elements<'a>, Reason> {
        let count = i64::try_from(times).ok().and_then(|times| self.count.checked_mul(times));
        Ok(Elements { count: count.ok_or(Reason::Arguments)?, ..*self })
    }

    pub fn behind(&self, times: usize) -> Elements<'a> {
        let gone = (times as i64).wrapping_mul(self.count).wrapping_mul(self.type_extent);
        Elements { address: self.address.wrapping_add_signed(gone as isize), ..*self }
    }

    pub fn read(&self) -> Result<Bytes<'a>, Trouble> {
        let length = self.length();
        if self.is_plain && length > 0 {
            // SAFETY: the program has passed an address, a count and a type to an MPI call that
            // reads them, and the type's elements are contiguous from the address on.
            return Ok(Bytes::There(unsafe { std::slice::from_raw_parts(self.address as *const u8, length) }));
        }
        let mut packed = vec![0; length];
        let (count, bytes) = (self.count, length as i64);
        let code = (self.table.pack)(self.comm, self.datatype, count, self.address, packed.as_mut_ptr(), bytes);
        done(if length > 0 { code } else { 0 }).map_err(Trouble::Mpi)?;
        Ok(Bytes::Packed(packed))
    }

    /// Lets `fill` write the bytes. If `reads`, it is given their previous content.
    pub fn write(&self, reads: bool, fill: impl FnOnce(&mut [u8]) -> Result<(), Trouble>) -> Result<(), Trouble> {
        let length = self.length();
        if self.is_plain && length > 0 {
            // SAFETY: as above, for a call that writes them; the program does not use the buffer
            // otherwise during the call.
            return fill(unsafe { std::slice::from_raw_parts_mut(self.address as *mut u8, length) });
        }
        let mut packed = match reads {
            true => self.read()?.into_vec(),
            false => vec![0; length],
        };
        fill(&mut packed)?;
        // At a broadcast's root the bytes came from there.
        if reads || length == 0 {
            return Ok(());
        }
        let bytes = length as i64;
        let code = (self.table.unpack)(self.comm, self.datatype, self.count, self.address, packed.as_ptr(), bytes);
        done(code).map_err(Trouble::Mpi)
    }

    fn length(&self) -> usize {
        self.bytes().unwrap_or(0)
    }
}

pub enum Bytes<'a> {
    There(&'a [u8]),
    Packed(Vec<u8>),
}

impl Bytes<'_> {
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::There(bytes) => bytes,
            Bytes::Packed(bytes) => bytes,
        }
    }

    pub fn into_vec(self) -> Vec<u8> {
        match self {
            Bytes::There(bytes) => bytes.to_vec(),
            Bytes::Packed(bytes) => bytes,
        }
    }
}

#[test]
fn more_bytes_than_an_integer_counts_are_for_the_mpi_to_judge() {
    let elements = |count| Elements {
        table: &crate::abi::TABLE,
        comm: 0,
        address: 4096,
        count,
        datatype: 0,
        type_bytes: 8,
        type_extent: 8,
        is_plain: true,
    };
    assert_eq!(elements(1 << 60).bytes(), Err(Reason::Arguments));
    assert_eq!(elements(1 << 58).times(64).err(), Some(Reason::Arguments));
    assert_eq!(elements(100).times(3).and_then(|all| all.bytes()), Ok(2400));
    assert_eq!(elements(2).behind(3).address, 4096 + 48);
}
