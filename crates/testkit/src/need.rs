//! What tests need and a machine may lack: a right, a second CPU, a server.
//!
//! A test whose need is not met is skipped, which it says. It fails instead where the environment's `FLIFO_REQUIRE` names
//! the need: a list of names separated by commas, or `all`.

/// Something that a machine may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A MySQL server.
    Mysql,
    /// One that has Group Replication.
    Group,
    /// The library with which MariaDB makes clusters.
    Galera,
    /// The rights of root.
    Root,
    /// Two CPUs that this process may use.
    Cpus,
    /// A name space of its own.
    Namespaces,
}

/// The environment's variable.
pub const VARIABLE: &str = "FLIFO_REQUIRE";

impl Need {
    const ALL: [(Self, &str); 6] = [
        (Self::Mysql, "mysql"),
        (Self::Group, "group"),
        (Self::Galera, "galera"),
        (Self::Root, "root"),
        (Self::Cpus, "cpus"),
        (Self::Namespaces, "namespaces"),
    ];

    fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// It is not met, for this reason: the test is to return now.
    ///
    /// # Panics
    /// If `FLIFO_REQUIRE` names it.
    pub fn skip(self, why: &str) {
        let required = std::env::var(VARIABLE).unwrap_or_default();
        assert!(!self.is_in(&required), "{VARIABLE} names {}, and {why}", self.name());
        eprintln!("SKIPPED, as this machine lacks {}: {why}", self.name());
    }

    /// Whether a list names it.
    ///
    /// # Panics
    /// If the list names something that is no need: a mistake in it would go unseen.
    fn is_in(self, list: &str) -> bool {
        let mut names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
        let known = |name: &str| name == "all" || Self::ALL.iter().any(|(_, it)| *it == name);
        if let Some(unknown) = names.clone().find(|name| !known(name)) {
            panic!("{VARIABLE}: {unknown:?} is none of {:?}, all", Self::ALL.map(|(_, name)| name));
        }
        names.any(|name| name == "all" || name == self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_have_the_numbers_of_their_names() {
        assert!(Need::ALL.iter().enumerate().all(|(at, (need, _))| *need as usize == at));
    }

    #[test]
    fn a_list_names_needs_or_all_of_them() {
        for (list, want) in
            [("", false), ("mysql", false), ("mysql, galera", true), ("all", true), (" ,", false)]
        {
            assert_eq!(Need::Galera.is_in(list), want, "{list:?}");
        }
    }

    #[test]
    #[should_panic(expected = "galara")]
    fn a_name_that_is_none_is_a_mistake() {
        Need::Galera.is_in("mysql,galara");
    }
}
