//! The types of parameters that a pass-through client believes its server to know.
//!
//! A client sends them with the first execution of a statement, and may leave them out from then on. Where Flifo refuses
//! that execution, the server has never seen them: they are kept, and put into the next execution that lacks them.
//! Invariant: no more than [`BYTES_MAX`] bytes of types are kept of a client.

use wire::statement::LAST_PREPARED;

use crate::numbers::NumberMap;

/// What does not fit is not kept: the server refuses executions without types then (1210) until the client sends them
/// again.
const BYTES_MAX: usize = 64 << 10;

#[derive(Debug, Default)]
pub struct PassedTypes {
    /// Of each statement that has any, by the server's number.
    parameters: NumberMap<u32, u16>,
    last: Option<u32>,
    /// The statement whose execution was read with types, and has not been sent yet; and these types.
    read: Option<u32>,
    types: Vec<u8>,
    /// Of executions that were never sent.
    untold: NumberMap<u32, Box<[u8]>>,
    bytes: usize,
}

impl PassedTypes {
    /// The server has prepared a statement of so many parameters, and calls it so.
    pub fn add(&mut self, id: u32, parameters: u16) {
        self.close(id);
        if parameters > 0 {
            self.parameters.insert(id, parameters);
        }
        self.last = Some(id);
    }

    /// The statement that an execution names, and how many parameters it has.
    pub fn named(&self, id: u32) -> Option<(u32, u16)> {
        let id = if id == LAST_PREPARED { self.last? } else { id };
        Some((id, *self.parameters.get(&id)?))
    }

    /// An execution has come with these types.
    pub fn read(&mut self, id: u32, types: &[u8]) {
        if let Some(before) = self.read.replace(id).filter(|before| *before != id) {
            self.keep(before);
        }
        self.types.clear();
        self.types.extend_from_slice(types);
    }

    /// It is sent with them.
    pub fn sent(&mut self, id: u32) {
        self.read = self.read.filter(|read| *read != id);
        self.forget(id);
    }

    /// The types that an execution is to be sent with which has come without.
    pub fn untold(&mut self, id: u32) -> Option<Box<[u8]>> {
        if self.read == Some(id) {
            self.read = None;
            self.forget(id);
            return Some(self.types.as_slice().into());
        }
        self.forget(id)
    }

    pub fn close(&mut self, id: u32) {
        self.parameters.remove(&id);
        self.last = self.last.filter(|last| *last != id);
        self.sent(id);
    }

    fn keep(&mut self, id: u32) {
        self.forget(id);
        if self.bytes + self.types.len() <= BYTES_MAX {
            self.bytes += self.types.len();
            self.untold.insert(id, self.types.as_slice().into());
        }
    }

    fn forget(&mut self, id: u32) -> Option<Box<[u8]>> {
        let types = self.untold.remove(&id)?;
        self.bytes -= types.len();
        Some(types)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_that_were_never_sent_are_given_once() {
        let mut types = PassedTypes::default();
        types.add(1, 2);
        types.add(2, 0);
        types.add(3, 1);
        assert_eq!((types.named(1), types.named(2)), (Some((1, 2)), None));
        assert_eq!(types.named(LAST_PREPARED), Some((3, 1)));
        types.read(1, b"ab");
        types.sent(1);
        assert_eq!(types.untold(1), None);
        // Two are refused, one after the other.
        types.read(1, b"cd");
        types.read(3, b"e");
        assert_eq!(types.untold(3).as_deref(), Some(&b"e"[..]));
        assert_eq!(types.untold(3), None);
        assert_eq!(types.untold(1).as_deref(), Some(&b"cd"[..]));
        assert_eq!((types.untold(1), types.bytes), (None, 0));
        types.read(1, b"fg");
        types.close(1);
        assert_eq!((types.untold(1), types.named(1)), (None, None));
    }

    #[test]
    fn a_client_has_so_many_bytes_of_them() {
        let mut types = PassedTypes::default();
        let long = vec![0; BYTES_MAX / 2];
        for id in 1..5 {
            types.add(id, 1);
            types.read(id, &long);
        }
        assert_eq!(types.bytes, BYTES_MAX);
        let kept: Vec<_> = (1..5).filter(|id| types.untold(*id).is_some()).collect();
        assert_eq!(kept, [1, 2, 4], "the last one is kept where it was read");
    }
}
