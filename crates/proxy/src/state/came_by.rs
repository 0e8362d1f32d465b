//! What rules ask of a client beside its session: how it came, and as which program.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use engine::statement::judge::{Judge, View};
use wire::handshake::Login;

/// How a client came to Flifo.
#[derive(Clone, Default)]
pub(crate) struct CameBy {
    /// The address that it came in by, as the configuration writes it.
    pub(crate) listener: Box<str>,
    /// The name of the program, as it has said itself at its login. Empty: it has said none.
    pub(crate) program: Box<[u8]>,
}

/// So much is kept of a program's name.
const PROGRAM_MAX: usize = 128;

impl CameBy {
    pub(crate) fn new(listener: &impl fmt::Display, login: &Login) -> Self {
        let program = login.attribute(b"program_name").unwrap_or_default();
        let program = program.get(..PROGRAM_MAX).unwrap_or(program).into();
        Self { listener: listener.to_string().into(), program }
    }
}

/// What rules know a client's session as. Forgotten when its user changes; its schema is compared.
#[derive(Default)]
pub(crate) struct KnownView {
    view: Cell<Option<View>>,
    schema: RefCell<Option<Rc<[u8]>>>,
}

impl KnownView {
    /// `None`: it is to be asked for.
    #[inline]
    pub(crate) fn get(&self, judge: &Judge, schema: Option<&Rc<[u8]>>) -> Option<View> {
        let view = self.view.get().filter(|view| judge.knows(*view))?;
        let is_same = match (self.schema.borrow().as_ref(), schema) {
            (None, None) => true,
            // It is held here, so no other one can be in its place.
            (Some(known), Some(schema)) => Rc::ptr_eq(known, schema),
            _ => false,
        };
        is_same.then_some(view)
    }

    pub(crate) fn keep(&self, view: View, schema: Option<&Rc<[u8]>>) {
        self.view.set(Some(view));
        *self.schema.borrow_mut() = schema.cloned();
    }

    pub(crate) fn forget(&self) {
        self.view.set(None);
    }
}
