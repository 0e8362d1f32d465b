//! Settings that a worker has met, each once, and what it has learnt of the texts that lead to them.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::{MODE, SessionVariables};

/// Settings that a worker has met, each kept once.
#[derive(Debug, Default)]
pub struct Interned {
    known: HashSet<Rc<SessionVariables>>,
    /// What `SET NAMES` and its kin made of the connection's collation, by their text and the settings before.
    collations: HashMap<Box<[u8]>, Rc<[u8]>>,
    modes: HashMap<Vec<u8>, u32>,
    last_mode: u32,
    /// Fix-ups that the server has accepted.
    accepted: HashSet<Box<str>>,
}

/// From so many on, settings that are no longer in use are looked for and dropped.
const CROWD: usize = 1024;

/// As many texts are remembered.
const TEXTS_MAX: usize = 256;

impl Interned {
    pub fn intern(&mut self, mut settings: SessionVariables) -> Rc<SessionVariables> {
        if let Some(known) = self.known.get(&settings) {
            return Rc::clone(known);
        }
        if self.known.len() >= CROWD {
            self.known.retain(|known| Rc::strong_count(known) > 1);
        }
        settings.mode = self.mode(&settings);
        let settings = Rc::new(settings);
        self.known.insert(Rc::clone(&settings));
        settings
    }

    pub fn len(&self) -> usize {
        self.known.len()
    }

    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Remembers which collation a text that names nothing but literals has led to.
    pub fn learn_collation(&mut self, text: &[u8], collation: &[u8]) {
        if self.collations.len() >= TEXTS_MAX {
            self.collations.clear();
        }
        self.collations.insert(text.into(), collation.into());
    }

    pub fn collation(&self, text: &[u8]) -> Option<Rc<[u8]>> {
        self.collations.get(text).cloned()
    }

    /// Whether the server has accepted this setup before.
    pub fn is_accepted(&self, setup: &str) -> bool {
        self.accepted.contains(setup)
    }

    pub fn accept(&mut self, setup: &str) {
        if self.accepted.len() >= TEXTS_MAX {
            self.accepted.clear();
        }
        if !self.accepted.contains(setup) {
            self.accepted.insert(setup.into());
        }
    }

    /// It was refused after all.
    pub fn doubt(&mut self, setup: &str) {
        self.accepted.remove(setup);
    }

    fn mode(&mut self, settings: &SessionVariables) -> u32 {
        let mut values = Vec::new();
        for name in MODE {
            values.extend_from_slice(settings.get(name).unwrap_or_default());
            values.push(0);
        }
        if self.modes.len() >= CROWD {
            // Numbers are not used again: at worst, statements are prepared twice.
            self.modes.clear();
        }
        *self.modes.entry(values).or_insert_with(|| {
            self.last_mode = self.last_mode.wrapping_add(1);
            self.last_mode
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> SessionVariables {
        let rows = [("sql_mode", "ANSI"), ("tx_isolation", "A"), ("wait_timeout", "28800")];
        SessionVariables::from_rows(
            rows.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())),
        )
    }

    fn after(settings: &SessionVariables, name: &str, value: &str) -> SessionVariables {
        settings.after(name.as_bytes(), value.as_bytes()).unwrap().expect("a change")
    }

    #[test]
    fn equal_settings_are_one() {
        let mut interned = Interned::default();
        let one = interned.intern(some());
        assert!(Rc::ptr_eq(&one, &interned.intern(some())));
        drop(one);
        for number in 600..600 + CROWD + 5 {
            interned.intern(after(&some(), "wait_timeout", &number.to_string()));
        }
        assert!(interned.len() <= CROWD);
    }

    #[test]
    fn the_mode_is_what_a_statement_is_read_by() {
        let mut interned = Interned::default();
        let old = interned.intern(some());
        let slower = interned.intern(after(&old, "wait_timeout", "900"));
        let other = interned.intern(after(&old, "sql_mode", "ANSI_QUOTES"));
        assert_eq!(slower.mode(), old.mode());
        assert_ne!(other.mode(), old.mode());
        assert_eq!(interned.intern(some()).mode(), old.mode());
    }

    #[test]
    fn only_so_many_texts_are_remembered() {
        let mut interned = Interned::default();
        for number in 0..=TEXTS_MAX {
            interned.learn_collation(format!("SET NAMES {number}").as_bytes(), b"x");
            interned.accept(&number.to_string());
        }
        let last = TEXTS_MAX.to_string();
        assert_eq!(
            interned.collation(format!("SET NAMES {last}").as_bytes()).as_deref(),
            Some(&b"x"[..])
        );
        assert!(interned.is_accepted(&last) && !interned.is_accepted("0"));
        interned.doubt(&last);
        assert!(!interned.is_accepted(&last));
    }
}
