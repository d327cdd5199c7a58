//! The account of one peer's share of the pushed buffer: what has come, what has left, and what the peer has been told.

use super::settings::Room;

/// All numbers count from the beginning.
#[derive(Debug)]
pub(super) struct Account {
    share: Room,
    /// Messages and pushed bytes that have come, and those that have left the pushed buffer.
    taken: Room,
    released: Room,
    /// The limit last told to the peer.
    told: Room,
    /// Where half of the room that was told is used up.
    renew_at: Room,
}

impl Account {
    pub(super) fn new(share: Room) -> Account {
        let renew_at = Room { messages: Room::INITIAL.messages / 2, bytes: Room::INITIAL.bytes / 2 };
        Account { share, taken: Room::default(), released: Room::default(), told: Room::INITIAL, renew_at }
    }

    /// One past the last message, and the pushed bytes, there is room for.
    fn limit(&self) -> Room {
        self.released.plus(self.share)
    }

    /// Counts a new message against the room there is; false if there is none.
    pub(super) fn admit(&mut self, message: u64, pushed_bytes: u64) -> bool {
        let limit = self.limit();
        let fits = message < limit.messages && self.taken.messages < limit.messages;
        if !fits || pushed_bytes > limit.bytes - self.taken.bytes {
            return false;
        }
        self.taken = self.taken.plus(Room { messages: 1, bytes: pushed_bytes });
        true
    }

    /// A message of which so much was pushed has left the pushed buffer.
    pub(super) fn release(&mut self, pushed_bytes: u64) {
        self.released = self.released.plus(Room { messages: 1, bytes: pushed_bytes });
    }

    /// Whether the peer is to be told of new room: it has used half of what it knows of and there is a quarter of the share more,
    /// or it can send no message and there is any.
    pub(super) fn is_due(&self) -> bool {
        let Account { share, taken, told, renew_at, .. } = *self;
        let limit = self.limit();
        let messages = taken.messages >= renew_at.messages && limit.messages >= told.messages + share.messages / 4;
        let bytes = taken.bytes >= renew_at.bytes && limit.bytes >= told.bytes + share.bytes / 4;
        messages || bytes || (taken.messages >= told.messages && limit.messages > told.messages)
    }

    /// The peer is told of all the room there is.
    pub(super) fn tell(&mut self) -> Room {
        let (told, taken) = (self.told.max(self.limit()), self.taken);
        self.told = told;
        self.renew_at = Room {
            messages: taken.messages + told.messages.saturating_sub(taken.messages) / 2,
            bytes: taken.bytes + told.bytes.saturating_sub(taken.bytes) / 2,
        };
        told
    }

    /// Compares with what is in the pushed buffer; a sentence that names the disagreement.
    pub(super) fn audit(&self, held: Room) -> Result<(), String> {
        let messages = self.taken.messages - self.released.messages;
        let bytes = self.taken.bytes - self.released.bytes;
        if (Room { messages, bytes }) != held {
            return Err(format!("{messages} messages and {bytes} bytes counted in the pushed buffer, {held:?} there"));
        }
        if messages > self.share.messages || bytes > self.share.bytes {
            return Err(format!("{held:?} in a pushed buffer of {:?}", self.share));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_renewed_when_half_of_it_is_used_and_never_promised_twice() {
        let mut account = Account::new(Room { messages: 100, bytes: 1 << 20 });
        for message in 0..7 {
            assert!(account.admit(message, 10));
            account.release(10);
            assert!(!account.is_due(), "message {message}");
        }
        assert!(account.admit(7, 10) && account.is_due());
        assert_eq!(account.tell(), Room { messages: 107, bytes: (1 << 20) + 70 });
        assert!(!account.is_due());
        (8..107).for_each(|message| assert!(account.admit(message, 0)));
        assert!(!account.admit(107, 0) && !account.is_due(), "full, and nothing has left");
        account.release(0);
        assert!(account.is_due() && account.admit(107, 0), "whoever has no room at all is told of one place");
    }

    #[test]
    fn nobody_gets_more_bytes_than_its_share() {
        let mut account = Account::new(Room::INITIAL);
        assert!(!account.admit(0, Room::INITIAL.bytes + 1) && account.admit(0, Room::INITIAL.bytes));
        assert!(!account.admit(1, 1) && account.admit(1, 0));
        assert_eq!(account.audit(Room { messages: 2, bytes: Room::INITIAL.bytes }), Ok(()));
        assert!(account.audit(Room::default()).is_err());
    }
}
