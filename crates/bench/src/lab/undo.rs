//! What must be done to leave the machine as it was found.
//!
//! Knows nothing of what is undone. Invariants: steps are undone in reverse order, each once; a step that fails is
//! reported and does not keep the others from being undone; the steps that are left when this value is dropped are
//! undone then; the thread that waits for signals knows what is not yet undone.

use std::mem;

use anyhow::{Result, ensure};

use crate::interrupt::{Changes, Interrupt};

/// Steps to be undone.
pub struct Undo {
    steps: Vec<Step>,
    changes: Changes,
}

struct Step {
    name: String,
    undo: Box<dyn FnOnce() -> Result<()>>,
}

impl Undo {
    pub fn new(interrupt: &Interrupt) -> Self {
        Self { steps: Vec::new(), changes: interrupt.changes().clone() }
    }

    /// Notes how something is undone. To be called before it is done: to undo a little too much
    /// does no harm.
    pub fn later(&mut self, name: impl Into<String>, undo: impl FnOnce() -> Result<()> + 'static) {
        let name = name.into();
        self.changes.begin(&name);
        self.steps.push(Step { name, undo: Box::new(undo) });
    }

    /// Undoes everything, and tells what could not be undone.
    pub fn unwind(&mut self) -> Result<()> {
        let mut failures = Vec::new();
        for Step { name, undo } in mem::take(&mut self.steps).into_iter().rev() {
            if let Err(error) = undo() {
                let failure = format!("cannot undo: {name}: {error:#}; please do it by hand");
                eprintln!("flifo: {failure}");
                failures.push(failure);
            }
            self.changes.end(&name);
        }
        ensure!(failures.is_empty(), "{}", failures.join("\n"));
        Ok(())
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        // It says itself what could not be undone.
        let _ = self.unwind();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    #[test]
    fn the_last_is_undone_first_and_a_failure_stops_nothing() {
        let done = Rc::new(RefCell::new(Vec::new()));
        let mut undo = Undo::new(&Interrupt::never());
        for number in 1..=3 {
            let done = Rc::clone(&done);
            undo.later(format!("step {number}"), move || {
                done.borrow_mut().push(number);
                ensure!(number != 2, "it is stuck");
                Ok(())
            });
        }
        let error = undo.unwind().expect_err("one failed").to_string();
        assert_eq!(*done.borrow(), [3, 2, 1]);
        assert_eq!(error, "cannot undo: step 2: it is stuck; please do it by hand");
        assert!(undo.unwind().is_ok(), "each is undone once");
        drop(undo);
        assert_eq!(done.borrow().len(), 3);
    }
}
