//! What each remedy changes on this machine: the list of changes, or why there is none.
//!
//! Reads where each thread stands and changes nothing; the journal makes the changes. Invariants: no real-time policy is
//! ever in a list; a CPU of its own is taken from the server only if the server keeps another one; the workers are
//! changed, and no other thread of Flifo.

use engine::placement::Remedy;
use sys::cpus::Cpus;
use sys::placing::{Deed, GroupChange, Placed, known};
use sys::threads;
use sys::tree::Tree;

use super::journal::Change;
use super::scope::{Scope, scope};

/// The server and the workers, whose threads remedies change.
#[derive(Clone, Debug)]
pub(super) struct Parties<'a> {
    pub(super) tree: &'a Tree,
    pub(super) server: u32,
    /// The kernel's numbers of the workers' threads.
    pub(super) workers: Vec<u32>,
    /// What the configuration sets.
    pub(super) worker_cpus: Option<&'a Cpus>,
    pub(super) server_cpus: Option<&'a Cpus>,
}

impl Parties<'_> {
    /// What a remedy changes; else why it cannot be.
    pub(super) fn changes(&self, remedy: Remedy) -> Result<Vec<Change>, String> {
        match remedy {
            Remedy::Batch => {
                let deed = Deed::Policy(threads::Policy::Batch);
                Ok(vec![self.of_server(deed)?])
            }
            Remedy::Priority => Ok(vec![self.priority()?]),
            Remedy::PrivateCore => self.private_core(),
            Remedy::Cpus => {
                let workers =
                    self.worker_cpus.map(|cpus| self.of_workers(Deed::Cpus(cpus.clone())));
                let server = self.server_cpus.map(|cpus| self.of_server(Deed::Cpus(cpus.clone())));
                workers.into_iter().chain(server).collect()
            }
        }
    }

    fn priority(&self) -> Result<Change, String> {
        let own = std::process::id();
        let failed = |error: std::io::Error| error.to_string();
        match scope(self.tree, own, self.server).map_err(failed)? {
            Scope::Nice => self.of_workers(Deed::Nice(NICE)),
            Scope::Session => {
                Ok(Change::Group(GroupChange::session(self.tree, own, NICE).map_err(failed)?))
            }
            Scope::Weight(file, weight) => {
                Ok(Change::Group(GroupChange::weight(self.tree, file, weight).map_err(failed)?))
            }
            Scope::Nothing(why) => Err(why),
        }
    }

    /// The last CPUs that the workers may use become theirs alone.
    fn private_core(&self) -> Result<Vec<Change>, String> {
        let cpus = |pid: u32, which: &dyn Fn(u32) -> bool| -> Result<Cpus, String> {
            let all = known(threads::threads(self.tree, pid)).map_err(|error| error.to_string())?;
            Ok(all.iter().filter(|it| which(it.tid)).flat_map(|it| it.cpus.iter()).collect())
        };
        let ours = cpus(std::process::id(), &|tid| self.workers.contains(&tid))?;
        let theirs = cpus(self.server, &|_| true)?;
        let online = sys::placing::online(self.tree).unwrap_or_else(|| ours.clone());
        let usable: Vec<u32> = ours.within(&online).iter().collect();
        let first = usable.len().saturating_sub(self.workers.len());
        let core: Cpus = usable[first..].iter().copied().collect();
        if core.is_empty() || theirs.within(&online).without(&core).is_empty() {
            return Err(format!(
                "the workers may use CPUs {ours} and the server {theirs}: there is none to spare for {} workers alone",
                self.workers.len()
            ));
        }
        Ok(vec![self.of_server(Deed::Avoid(core.clone()))?, self.of_workers(Deed::Cpus(core))?])
    }

    fn of_server(&self, deed: Deed) -> Result<Change, String> {
        let placed = Placed::read(self.tree, self.server, deed, Vec::new());
        placed.map(Change::Threads).map_err(|error| format!("the server's threads: {error}"))
    }

    fn of_workers(&self, deed: Deed) -> Result<Change, String> {
        if self.workers.is_empty() {
            // To name none would mean all threads of this process.
            return Err("no worker has said which thread it is".to_owned());
        }
        let placed = Placed::read(self.tree, std::process::id(), deed, self.workers.clone());
        placed.map(Change::Threads).map_err(|error| format!("the workers' threads: {error}"))
    }
}

/// Nine times the weight of an ordinary thread.
const NICE: i32 = -10;

#[cfg(test)]
mod tests {
    use super::*;

    /// This process is Flifo, and a child of the test is the server.
    fn with<R>(test: impl FnOnce(&Parties<'_>) -> R) -> R {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep runs");
        let tree = Tree::live();
        let workers = vec![threads::own_number()];
        let parties = Parties {
            tree: &tree,
            server: child.id(),
            workers,
            worker_cpus: None,
            server_cpus: None,
        };
        let result = test(&parties);
        let _ = child.kill();
        let _ = child.wait();
        result
    }

    fn deeds(changes: &[Change]) -> Vec<(u32, &Deed)> {
        fn deed(change: &Change) -> Option<(u32, &Deed)> {
            match change {
                Change::Threads(placed) => Some((placed.pid, &placed.deed)),
                Change::Group(_) => None,
            }
        }
        changes.iter().filter_map(deed).collect()
    }

    #[test]
    fn a_core_is_taken_only_where_the_server_keeps_one() {
        with(|parties| {
            let found = parties.private_core();
            let cpus = std::thread::available_parallelism().map_or(1, usize::from);
            if cpus == 1 {
                assert!(found.is_err());
                return;
            }
            let changes = found.expect("two CPUs are enough for one worker");
            let found = deeds(&changes);
            let [(server, Deed::Avoid(avoided)), (own, Deed::Cpus(core))] = found[..] else {
                panic!("{changes:?}")
            };
            assert_eq!((server, own), (parties.server, std::process::id()));
            assert_eq!((avoided, core.len()), (core, 1));
            let many = Parties { workers: vec![parties.workers[0]; 10_000], ..parties.clone() };
            let why = many.private_core().expect_err("nothing would be left");
            assert!(why.contains("none to spare"), "{why}");
        });
    }

    #[test]
    fn what_somebody_wrote_down_is_done_to_whom_he_named() {
        with(|parties| {
            let cpus: Cpus = [0].into_iter().collect();
            let named = Parties { server_cpus: Some(&cpus), ..parties.clone() };
            let changes = named.changes(Remedy::Cpus).expect("reads");
            assert_eq!(deeds(&changes), [(parties.server, &Deed::Cpus(cpus))]);
        });
    }

    #[test]
    fn without_workers_no_other_threads_are_taken_for_them() {
        with(|parties| {
            let cpus: Cpus = [0].into_iter().collect();
            let none = Parties { workers: Vec::new(), worker_cpus: Some(&cpus), ..parties.clone() };
            for remedy in [Remedy::PrivateCore, Remedy::Cpus] {
                assert!(none.changes(remedy).is_err(), "{remedy:?}");
            }
        });
    }

    #[test]
    fn a_server_that_is_gone_is_told() {
        let tree = Tree::live();
        let (server, workers) = (u32::MAX, vec![threads::own_number()]);
        let parties =
            Parties { tree: &tree, server, workers, worker_cpus: None, server_cpus: None };
        for remedy in [Remedy::Batch, Remedy::Priority, Remedy::PrivateCore] {
            assert!(parties.changes(remedy).is_err(), "{remedy:?}");
        }
    }
}
