//! Bytes of the stream that are sent again: the end that asks for them and the end that answers, both the same at the
//! root and at receivers.

mod answering;
mod asking;

pub(super) use answering::Answering;
pub(super) use asking::Asking;
