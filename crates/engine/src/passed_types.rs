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
    /// The statement whose execution has come, and has not been sent.
    in_hand: Option<u32>,
    /// It has come without its types.
    lacks: bool,
    /// Its types.
    types: Vec<u8>,
    /// Those of earlier ones that were never sent.
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

    /// The statement that an execution names, and how many parameters it has. `None`: it has none.
    pub fn named(&self, id: u32) -> Option<(u32, u16)> {
        let id = if id == LAST_PREPARED { self.last? } else { id };
        Some((id, *self.parameters.get(&id)?))
    }

    /// An execution of this statement has come, with these types or without.
    pub fn see_execution(&mut self, id: u32, types: Option<&[u8]>) {
        if self.in_hand != Some(id) {
            self.put_away();
            let untold = self.forget(id);
            if types.is_none() && untold.is_none() {
                return;
            }
            self.types = untold.map_or_else(|| std::mem::take(&mut self.types), Vec::from);
            self.in_hand = Some(id);
        }
        self.lacks = types.is_none();
        if let Some(types) = types {
            self.types.clear();
            self.types.extend_from_slice(types);
        }
    }

    /// Something else has come: the execution before it was never sent, if it is still in hand.
    pub fn put_away(&mut self) {
        if let Some(id) = self.in_hand.take()
            && self.bytes + self.types.len() <= BYTES_MAX
        {
            self.bytes += self.types.len();
            self.untold.insert(id, self.types.as_slice().into());
        }
    }

    /// The execution that has come is sent: the types that are to be put into it.
    pub fn see_sent(&mut self) -> Option<&[u8]> {
        self.in_hand.take()?;
        self.lacks.then_some(&self.types)
    }

    pub fn close(&mut self, id: u32) {
        self.parameters.remove(&id);
        self.last = self.last.filter(|last| *last != id);
        self.in_hand = self.in_hand.filter(|in_hand| *in_hand != id);
        self.forget(id);
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

    fn types(statements: &[(u32, u16)]) -> PassedTypes {
        let mut types = PassedTypes::default();
        statements.iter().for_each(|(id, parameters)| types.add(*id, *parameters));
        types
    }

    #[test]
    fn statements_are_known_by_their_numbers_until_they_are_closed() {
        let mut types = types(&[(1, 2), (2, 0), (3, 1)]);
        assert_eq!((types.named(1), types.named(2)), (Some((1, 2)), None));
        assert_eq!(types.named(LAST_PREPARED), Some((3, 1)));
        types.close(3);
        assert_eq!((types.named(3), types.named(LAST_PREPARED)), (None, None));
    }

    #[test]
    fn types_that_were_never_sent_are_sent_once() {
        let mut types = types(&[(1, 1), (2, 1)]);
        types.see_execution(1, Some(b"ab"));
        assert_eq!(types.see_sent(), None);
        types.see_execution(1, None);
        assert_eq!(types.see_sent(), None);
        // Two are refused, one after the other, the second twice.
        types.see_execution(1, Some(b"cd"));
        types.see_execution(2, Some(b"ef"));
        types.see_execution(2, None);
        types.see_execution(2, None);
        assert_eq!(types.see_sent(), Some(&b"ef"[..]));
        types.see_execution(2, None);
        assert_eq!(types.see_sent(), None);
        // What has no parameters comes between.
        types.see_execution(1, None);
        types.put_away();
        assert_eq!(types.see_sent(), None);
        types.see_execution(1, None);
        assert_eq!(types.see_sent(), Some(&b"cd"[..]));
        assert_eq!(types.bytes, 0);
    }

    #[test]
    fn types_that_are_sent_anew_or_whose_statement_is_closed_are_forgotten() {
        let mut types = types(&[(1, 1), (2, 1)]);
        types.see_execution(1, Some(b"ab"));
        types.see_execution(2, Some(b"cd"));
        types.see_execution(1, Some(b"gh"));
        assert_eq!(types.see_sent(), None);
        types.see_execution(1, None);
        assert_eq!(types.see_sent(), None);
        types.close(2);
        types.see_execution(2, None);
        assert_eq!(types.see_sent(), None);
        assert_eq!(types.bytes, 0);
    }

    #[test]
    fn a_client_has_so_many_bytes_of_them() {
        let long = vec![0; BYTES_MAX / 2];
        let mut types = types(&[(1, 1), (2, 1), (3, 1), (4, 1)]);
        (1..5).for_each(|id| types.see_execution(id, Some(&long)));
        assert_eq!(types.bytes, BYTES_MAX);
        let mut kept = Vec::new();
        for id in [4, 3, 2, 1] {
            types.see_execution(id, None);
            kept.extend(types.see_sent().map(|_| id));
        }
        assert_eq!(kept, [4, 2, 1], "the last one is in hand");
    }
}
