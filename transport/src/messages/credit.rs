//! Flow control of messages: the part of the receive buffer that one peer may fill unasked.

use crate::machine::AuditError;

/// Messages that every mailbox can take from each peer before it has announced any room. Part of
/// the protocol.
pub const INITIAL_MESSAGES: u64 = 16;
/// Pushed bytes that every mailbox can take from each peer before it has announced any room. Part
/// of the protocol; fifteen full frames at MTU 1500.
pub const INITIAL_BYTES: u64 = 21_600;
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Credit {
    pub messages: u64,
    pub bytes: u64,
}

impl Credit {
    pub(super) const INITIAL: Credit = Credit {
        messages: INITIAL_MESSAGES,
        bytes: INITIAL_BYTES,
    };

    pub(super) fn plus(self, more: Credit) -> Credit {
        Credit {
            messages: self.messages + more.messages,
            bytes: self.bytes + more.bytes,
        }
    }

    pub(super) fn max(self, other: Credit) -> Credit {
        Credit {
            messages: self.messages.max(other.messages),
            bytes: self.bytes.max(other.bytes),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct CreditAccount {
    share: Credit,
    taken: Credit,
    released: Credit,
    told: Credit,
    renew_at: Credit,
}

impl CreditAccount {
    pub(super) fn new(share: Credit) -> CreditAccount {
        let renew_at = Credit {
            messages: Credit::INITIAL.messages / 2,
            bytes: Credit::INITIAL.bytes / 2,
        };
        CreditAccount {
            share,
            taken: Credit::default(),
            released: Credit::default(),
            told: Credit::INITIAL,
            renew_at,
        }
    }

    fn limit(&self) -> Credit {
        self.released.plus(self.share)
    }

    pub(super) fn admit(&mut self, message: u64, pushed_bytes: u64) -> bool {
        let limit = self.limit();
        let fits = message < limit.messages && self.taken.messages < limit.messages;
        if !fits || pushed_bytes > limit.bytes - self.taken.bytes {
            return false;
        }
        self.taken = self.taken.plus(Credit {
            messages: 1,
            bytes: pushed_bytes,
        });
        true
    }

    pub(super) fn release(&mut self, pushed_bytes: u64) {
        self.released = self.released.plus(Credit {
            messages: 1,
            bytes: pushed_bytes,
        });
    }

    /// Whether new room has to be announced: the peer has used half of its room and there is a
    /// quarter of the share more, or it cannot send any message and there is room.
    pub(super) fn is_due(&self) -> bool {
        let CreditAccount {
            share,
            taken,
            told,
            renew_at,
            ..
        } = *self;
        let limit = self.limit();
        let messages = taken.messages >= renew_at.messages
            && limit.messages >= told.messages + share.messages / 4;
        let bytes = taken.bytes >= renew_at.bytes && limit.bytes >= told.bytes + share.bytes / 4;
        messages || bytes || (taken.messages >= told.messages && limit.messages > told.messages)
    }

    pub(super) fn announce(&mut self) -> Credit {
        let (told, taken) = (self.told.max(self.limit()), self.taken);
        self.told = told;
        self.renew_at = Credit {
            messages: taken.messages + told.messages.saturating_sub(taken.messages) / 2,
            bytes: taken.bytes + told.bytes.saturating_sub(taken.bytes) / 2,
        };
        told
    }

    pub(super) fn audit(&self, held: Credit) -> Result<(), AuditError> {
        let messages = self.taken.messages - self.released.messages;
        let bytes = self.taken.bytes - self.released.bytes;
        if (Credit { messages, bytes }) != held {
            return Err(AuditError::new(format!(
                "{messages} messages and {bytes} bytes counted in the pushed buffer, {held:?} there"
            )));
        }
        if messages > self.share.messages || bytes > self.share.bytes {
            return Err(AuditError::new(format!(
                "{held:?} in a pushed buffer of {:?}",
                self.share
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_renewed_when_half_of_it_is_used_and_never_promised_twice() {
        let mut account = CreditAccount::new(Credit {
            messages: 100,
            bytes: 1 << 20,
        });
        for message in 0..7 {
            assert!(account.admit(message, 10));
            account.release(10);
            assert!(!account.is_due(), "message {message}");
        }
        assert!(account.admit(7, 10) && account.is_due());
        assert_eq!(
            account.announce(),
            Credit {
                messages: 107,
                bytes: (1 << 20) + 70
            }
        );
        assert!(!account.is_due());
        (8..107).for_each(|message| assert!(account.admit(message, 0)));
        assert!(
            !account.admit(107, 0) && !account.is_due(),
            "full, and nothing has left"
        );
        account.release(0);
        assert!(
            account.is_due() && account.admit(107, 0),
            "whoever has no room at all is told of one place"
        );
    }

    #[test]
    fn nobody_gets_more_bytes_than_its_share() {
        let mut account = CreditAccount::new(Credit::INITIAL);
        assert!(
            !account.admit(0, Credit::INITIAL.bytes + 1) && account.admit(0, Credit::INITIAL.bytes)
        );
        assert!(!account.admit(1, 1) && account.admit(1, 0));
        assert_eq!(
            account.audit(Credit {
                messages: 2,
                bytes: Credit::INITIAL.bytes
            }),
            Ok(())
        );
        assert!(account.audit(Credit::default()).is_err());
    }
}
