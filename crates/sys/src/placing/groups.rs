//! The weight of a control group, and the nice value of a session's automatic group: changed so that it can be undone.
//!
//! Decides nothing. Invariants: the old value is known before it is changed; a group that is gone needs nothing; what
//! another program has written since is left alone.

use std::io;

use serde::{Deserialize, Serialize};

use super::known;
use crate::details;
use crate::tree::Tree;

/// What is changed of whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// A control group, by the file that holds its weight.
    Weight(String),
    /// A session's automatic group, by its number and by a process in it.
    Session { id: u64, member: u32 },
}

/// A group that has been changed, and what it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupChange {
    pub group: Group,
    pub was: i64,
    pub given: i64,
}

impl GroupChange {
    /// Reads what it is. Nothing is changed yet.
    pub fn weight(tree: &Tree, path: String, given: i64) -> io::Result<Self> {
        let was = known(tree.number(&path))?;
        Ok(Self { group: Group::Weight(path), was, given })
    }

    /// The same of the session that a process is in.
    pub fn session(tree: &Tree, pid: u32, given: i32) -> io::Result<Self> {
        let now = known(details::autogroup(tree, pid))?;
        let group = Group::Session { id: now.id, member: pid };
        Ok(Self { group, was: now.nice.into(), given: given.into() })
    }

    pub fn apply(&self, tree: &Tree) -> io::Result<()> {
        self.write(tree, self.given)
    }

    /// Makes it as it was. Says whether another program has changed it since, so that it was left alone.
    pub fn restore(&self, tree: &Tree) -> io::Result<bool> {
        let now = match self.now(tree) {
            Ok(now) => now,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        if now == self.given && now != self.was {
            self.write(tree, self.was)?;
        }
        Ok(now != self.given && now != self.was)
    }

    /// The command that does it.
    pub fn command(&self) -> String {
        match &self.group {
            Group::Weight(path) => format!("echo {} >{path}", self.given),
            Group::Session { member, .. } => {
                format!("echo {} >/proc/{member}/autogroup", self.given)
            }
        }
    }

    fn now(&self, tree: &Tree) -> io::Result<i64> {
        match &self.group {
            Group::Weight(path) => known(tree.number(path)),
            Group::Session { id, member } => {
                let member = self::member(tree, *id, *member)?;
                known(details::autogroup(tree, member)).map(|it| it.nice.into())
            }
        }
    }

    fn write(&self, tree: &Tree, value: i64) -> io::Result<()> {
        let path = match &self.group {
            Group::Weight(path) => path.clone(),
            Group::Session { id, member } => {
                format!("/proc/{}/autogroup", self::member(tree, *id, *member)?)
            }
        };
        std::fs::write(tree.path(&path), value.to_string())
    }
}

/// A living process of a session's group: the one that is known, or any other.
fn member(tree: &Tree, id: u64, known_one: u32) -> io::Result<u32> {
    let is_in = |pid: &u32| details::autogroup(tree, *pid).known().is_some_and(|it| it.id == id);
    if is_in(&known_one) {
        return Ok(known_one);
    }
    let all = known(tree.numbers("/proc"))?;
    let gone = || io::Error::new(io::ErrorKind::NotFound, "the session has ended");
    all.into_iter().find(is_in).ok_or_else(gone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::machine;

    #[test]
    fn a_weight_is_set_and_set_back_and_a_group_that_is_gone_is_left() {
        let path = "/sys/fs/cgroup/a/cpu.weight";
        let (_folder, tree) = machine(&[(path, "100\n")]);
        let change = GroupChange::weight(&tree, path.to_owned(), 1000).expect("reads");
        assert_eq!(change.command(), format!("echo 1000 >{path}"));
        change.apply(&tree).expect("writes");
        assert_eq!(tree.number::<i64>(path).known(), Some(&1000));
        assert!(!change.restore(&tree).expect("writes"));
        assert_eq!(tree.number::<i64>(path).known(), Some(&100));
        std::fs::write(tree.path(path), "300").expect("writes");
        assert!(change.restore(&tree).expect("leaves it"), "somebody else wrote it");
        assert_eq!(tree.number::<i64>(path).known(), Some(&300));
        std::fs::remove_file(tree.path(path)).expect("goes");
        assert!(!change.restore(&tree).expect("needs nothing"));
        assert!(GroupChange::weight(&tree, path.to_owned(), 1).is_err());
    }

    #[test]
    fn a_session_is_found_by_another_of_its_processes() {
        let group = |nice: &str| format!("/autogroup-77 nice {nice}\n");
        let (zero, first) = (group("0"), group("-10"));
        let (_folder, tree) = machine(&[
            ("/proc/7/autogroup", &zero),
            ("/proc/8/autogroup", "/autogroup-78 nice 0\n"),
            ("/proc/9/autogroup", &first),
        ]);
        let change = GroupChange::session(&tree, 7, -10).expect("reads");
        assert_eq!(change.command(), "echo -10 >/proc/7/autogroup");
        // The one that asked has ended; its shell still is in the session.
        std::fs::remove_file(tree.path("/proc/7/autogroup")).expect("goes");
        assert!(!change.restore(&tree).expect("writes"));
        let written = std::fs::read_to_string(tree.path("/proc/9/autogroup")).expect("is there");
        assert_eq!(written, "0");
        std::fs::remove_file(tree.path("/proc/9/autogroup")).expect("goes");
        assert!(!change.restore(&tree).expect("the session is gone"));
    }
}
