//! The collations that the character sets of clients and of results have, and that no variable shows.
//!
//! Definitions of columns name that of results; what clients send as parameters is compared by that of theirs. They
//! are followed by what statements do, and told by `SET NAMES … COLLATE`. Invariant: those that are not their character
//! set's own came with the same names, so that one statement tells both.

use super::{CLIENT, RESULTS, SessionVariables};
use serde::{Deserialize, Serialize};

/// What a statement does to the collation of a character set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Becomes {
    #[default]
    Unchanged,
    /// It is the character set's own.
    Own,
    /// It is the connection's, which came with it.
    AsConnection,
}

/// What a statement does to both of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Collates {
    pub client: Becomes,
    pub results: Becomes,
}

impl Collates {
    pub const fn both(becomes: Becomes) -> Self {
        Self { client: becomes, results: becomes }
    }

    /// What both statements have done, this one's first.
    #[must_use]
    pub fn then(self, later: Self) -> Self {
        let then = |old, new| if new == Becomes::Unchanged { old } else { new };
        Self { client: then(self.client, later.client), results: then(self.results, later.results) }
    }

    /// The connection's is another one now, and what it was is not known: none is better than a wrong one.
    #[must_use]
    pub fn apart(self) -> Self {
        let own = |it| if it == Becomes::AsConnection { Becomes::Own } else { it };
        Self { client: own(self.client), results: own(self.results) }
    }

    /// Whether one of them becomes what the connection's is.
    pub fn follow_connection(self) -> bool {
        [self.client, self.results].contains(&Becomes::AsConnection)
    }
}

/// Both of them; empty: the character set's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Collations {
    #[serde(with = "crate::described::bytes")]
    client: Box<[u8]>,
    #[serde(with = "crate::described::bytes")]
    results: Box<[u8]>,
}

impl Collations {
    /// A session begins with one collation for everything.
    pub(super) fn at_first(connection: &[u8]) -> Self {
        Self { client: connection.into(), results: connection.into() }
    }

    /// This variable has changed: a character set comes with its own, unless the statement says otherwise.
    pub(super) fn leave(&mut self, at: usize) {
        match at {
            CLIENT => self.client = Box::default(),
            RESULTS => self.results = Box::default(),
            _ => {}
        }
    }

    /// That of the character set which this variable shows.
    fn of(&self, at: usize) -> &[u8] {
        if at == CLIENT { &self.client } else { &self.results }
    }
}

impl SessionVariables {
    /// The settings after a statement has set character sets. `None`: nothing has changed.
    pub fn after_collates(&self, collates: Collates) -> Option<Self> {
        let becomes = |becomes, old: &[u8]| match becomes {
            Becomes::Unchanged => old.into(),
            Becomes::Own => Box::default(),
            Becomes::AsConnection => self.get("collation_connection").unwrap_or_default().into(),
        };
        let collations = Collations {
            client: becomes(collates.client, &self.collations.client),
            results: becomes(collates.results, &self.collations.results),
        };
        (self.collations != collations).then(|| Self { collations, ..self.clone() })
    }

    /// The settings of a session that was told `other` by a setup, as far as no variable shows them.
    pub fn after_setup(&self, other: &Self) -> Option<Self> {
        let collations = other.collations.clone();
        (self.collations != collations).then(|| Self { collations, ..self.clone() })
    }

    /// What gives a session with `other` settings character sets with other collations than their own.
    pub(super) fn names(&self, other: &Self) -> Option<String> {
        let (set, collation) = [RESULTS, CLIENT].into_iter().find_map(|at| {
            let set = self.set(at).filter(|set| !set.is_empty())?;
            let collation = self.collations.of(at);
            let is_so = other.set(at) == Some(set) && other.collations.of(at) == collation;
            (!is_so && !collation.is_empty()).then_some((set, collation))
        })?;
        let plain = |value| String::from_utf8_lossy(value).into_owned();
        Some(format!("NAMES '{}' COLLATE '{}'", plain(set), plain(collation)))
    }

    /// Whether the character set that this variable shows must be set by itself, which gives it its own collation.
    pub(super) fn tells_set(&self, at: usize, other: &Self, behind_names: bool) -> bool {
        let (own, there) = (self.collations.of(at), other.collations.of(at));
        match behind_names {
            true => own.is_empty(),
            false => self.set(at) != other.set(at) || own != there,
        }
    }

    pub(super) fn set(&self, at: usize) -> Option<&[u8]> {
        self.values.get(at)?.as_ref().map(|value| &*value.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh() -> SessionVariables {
        let rows = [
            ("character_set_client", "utf8mb4"),
            ("character_set_results", "utf8mb4"),
            ("collation_connection", "a_ci"),
        ];
        SessionVariables::from_rows(
            rows.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())),
        )
    }

    fn after(settings: &SessionVariables, name: &str, value: &str) -> SessionVariables {
        settings.after(name.as_bytes(), value.as_bytes()).unwrap().expect("a change")
    }

    const NAMES: Collates = Collates::both(Becomes::AsConnection);

    #[test]
    fn what_no_variable_shows_is_told_as_well() {
        let fresh = fresh();
        assert_eq!(fresh.after_collates(NAMES), None);
        let reported = after(&fresh, "collation_connection", "b_ci");
        assert_eq!(reported.setup(&fresh), "SET collation_connection='b_ci'");
        let named = reported.after_collates(NAMES).unwrap();
        let text = "SET NAMES 'utf8mb4' COLLATE 'b_ci',collation_connection='b_ci'";
        assert_eq!(named.setup(&fresh), text);
        assert_eq!(named.setup(&reported), text);
        assert_eq!(reported.after_setup(&named), Some(named.clone()));
        assert_eq!(named.after_collates(Collates::default()), None);
    }

    #[test]
    fn of_two_statements_the_later_counts() {
        let results = Collates { results: Becomes::Own, ..Collates::default() };
        assert_eq!(NAMES.then(Collates::default()), NAMES);
        assert_eq!(results.then(NAMES), NAMES);
        let client = Becomes::AsConnection;
        assert_eq!(NAMES.then(results), Collates { client, results: Becomes::Own });
        assert_eq!(NAMES.then(Collates::default()).apart(), Collates::both(Becomes::Own));
    }

    #[test]
    fn one_of_them_may_be_its_character_sets_own() {
        let fresh = fresh();
        let named = after(&fresh, "collation_connection", "b_ci").after_collates(NAMES).unwrap();
        let own = |client, results| named.after_collates(Collates { client, results }).unwrap();
        let results = own(Becomes::Unchanged, Becomes::Own);
        assert_eq!(results.setup(&named), "SET character_set_results='utf8mb4'");
        let client = own(Becomes::Own, Becomes::Unchanged);
        assert_eq!(client.setup(&named), "SET character_set_client='utf8mb4'");
        // The other one is still that of the names.
        let names = "SET NAMES 'utf8mb4' COLLATE 'b_ci'";
        let rest = "collation_connection='b_ci'";
        let text = format!("{names},character_set_results='utf8mb4',{rest}");
        assert_eq!(results.setup(&fresh), text);
        assert_eq!(results.setup(&client), text);
        let text = format!("{names},character_set_client='utf8mb4',{rest}");
        assert_eq!(client.setup(&fresh), text);
        let both = own(Becomes::Own, Becomes::Own);
        let text = "SET character_set_client='utf8mb4',character_set_results='utf8mb4'";
        assert_eq!(both.setup(&named), text);
    }

    #[test]
    fn results_that_are_not_converted_have_no_collation() {
        let fresh = fresh();
        let named = after(&fresh, "collation_connection", "b_ci").after_collates(NAMES).unwrap();
        let none = after(&named, "character_set_results", "");
        let own = Collates { client: Becomes::Unchanged, results: Becomes::Own };
        assert_eq!(none.after_collates(own), None, "it has come with its own");
        let text = "SET NAMES 'utf8mb4' COLLATE 'b_ci',character_set_results=NULL,\
                    collation_connection='b_ci'";
        assert_eq!(none.setup(&fresh), text);
    }
}
