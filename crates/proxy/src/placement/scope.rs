//! How the workers can be given more weight than the server's threads, and whether they can at all.
//!
//! Reads where both processes stand; changes nothing. A nice value counts among the threads of one control group, and
//! in the root of groups among those of one session, where the kernel makes automatic groups. Beyond that weights
//! count.

use sys::cgroup;
use sys::details;
use sys::placing::known;
use sys::tree::Tree;

/// What makes the workers weigh more than the server's threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// The nice value of the workers themselves.
    Nice,
    /// The nice value of Flifo's session.
    Session,
    /// The weight of Flifo's control group: its file, and what to write there.
    Weight(String, i64),
    /// Nothing that Flifo can do: why, and what an administrator can do.
    Nothing(String),
}

pub(super) fn scope(tree: &Tree, own: u32, server: u32) -> std::io::Result<Scope> {
    let (ours, theirs) = (known(cgroup::cgroup(tree, own))?, known(cgroup::cgroup(tree, server))?);
    let version = ours.version;
    let (one, other) = (ruling(tree, version, &ours.path), ruling(tree, version, &theirs.path));
    if one == other && one != ROOT {
        return Ok(Scope::Nice);
    }
    if one == ROOT {
        let group = |pid| details::autogroup_in_force(tree, pid).known().map(|it| it.id);
        let is_one_session = other == ROOT && group(own) == group(server);
        return Ok(match group(own).is_some() && !is_one_session {
            true => Scope::Session,
            false => Scope::Nice,
        });
    }
    if parent(&one) != parent(&other) && parent(&one) != other {
        return Ok(Scope::Nothing(format!(
            "the server runs in the control group {other} and Flifo in {one}, where neither a nice value nor Flifo's \
             own weight counts between them. An administrator can put both below one parent, or give weights to the \
             groups above: systemctl set-property --runtime UNIT CPUWeight=1000"
        )));
    }
    let file = weight_file(version, &one);
    let usual = if version == 2 { 100 } else { 1024 };
    let weight = |group: &str| tree.number::<i64>(&weight_file(version, group)).known().copied();
    let highest = weight(&one).unwrap_or(usual).max(weight(&other).unwrap_or(usual));
    let most = if version == 2 { 10_000 } else { 262_144 };
    Ok(Scope::Weight(file, highest.saturating_mul(TIMES).min(most)))
}

/// The group whose weight counts: with version 2 the next one above that has a weight.
fn ruling(tree: &Tree, version: u8, group: &str) -> String {
    let mut group = group.trim_end_matches('/');
    while !group.is_empty() && group != ROOT && !group.contains("..") {
        if version == 1 || tree.exists(&weight_file(version, group)) {
            return group.to_owned();
        }
        group = parent(group);
    }
    ROOT.to_owned()
}

fn parent(group: &str) -> &str {
    match group.rsplit_once('/') {
        Some(("", _)) | None => ROOT,
        Some((above, _)) => above,
    }
}

fn weight_file(version: u8, group: &str) -> String {
    match version {
        2 => format!("/sys/fs/cgroup{group}/cpu.weight"),
        _ => format!("/sys/fs/cgroup/cpu{group}/cpu.shares"),
    }
}

const ROOT: &str = "/";
/// How much more the workers weigh: about what a nice value of -10 is.
const TIMES: i64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine on which Flifo is process 7 and the server process 8.
    fn on(files: &[(&str, &str)]) -> Scope {
        let folder = tempfile::tempdir().expect("makes");
        let tree = Tree::recorded(folder.path());
        for (path, text) in files {
            let path = tree.path(path);
            std::fs::create_dir_all(path.parent().expect("has one")).expect("makes");
            std::fs::write(path, text).expect("writes");
        }
        scope(&tree, 7, 8).expect("reads")
    }

    const AUTO: (&str, &str) = ("/proc/sys/kernel/sched_autogroup_enabled", "1\n");

    #[test]
    fn a_nice_value_counts_in_one_group_and_one_session() {
        let root = [("/proc/7/cgroup", "0::/\n"), ("/proc/8/cgroup", "0::/\n")];
        let sessions = |one, other| [("/proc/7/autogroup", one), ("/proc/8/autogroup", other)];
        let (one, other) = ("/autogroup-5 nice 0\n", "/autogroup-6 nice 0\n");
        assert_eq!(on(&[&root[..], &sessions(one, one), &[AUTO]].concat()), Scope::Nice);
        assert_eq!(on(&[&root[..], &sessions(one, other), &[AUTO]].concat()), Scope::Session);
        // Where nothing is grouped by sessions, they do not matter.
        assert_eq!(on(&[&root[..], &sessions(one, other)].concat()), Scope::Nice);
        let path = "/sys/fs/cgroup/db/cpu.weight";
        let inside =
            [("/proc/7/cgroup", "0::/db\n"), ("/proc/8/cgroup", "0::/db\n"), (path, "100")];
        assert_eq!(on(&[&inside[..], &sessions(one, other), &[AUTO]].concat()), Scope::Nice);
    }

    #[test]
    fn between_groups_weights_count() {
        let scope = on(&[
            ("/proc/7/cgroup", "0::/system.slice/flifo.service\n"),
            ("/proc/8/cgroup", "0::/system.slice/mariadb.service\n"),
            ("/sys/fs/cgroup/system.slice/flifo.service/cpu.weight", "100"),
            ("/sys/fs/cgroup/system.slice/mariadb.service/cpu.weight", "300"),
        ]);
        let file = "/sys/fs/cgroup/system.slice/flifo.service/cpu.weight".to_owned();
        assert_eq!(scope, Scope::Weight(file, 3000));
        let scope = on(&[
            ("/proc/7/cgroup", "4:cpu,cpuacct:/flifo\n0::/\n"),
            ("/proc/8/cgroup", "4:cpu,cpuacct:/\n0::/\n"),
            ("/sys/fs/cgroup/cpu/flifo/cpu.shares", "1024"),
        ]);
        assert_eq!(scope, Scope::Weight("/sys/fs/cgroup/cpu/flifo/cpu.shares".into(), 10_240));
    }

    #[test]
    fn groups_without_weights_are_their_parents() {
        // The controller is off: the services' groups do not count, their sessions do.
        let scope = on(&[
            ("/proc/7/cgroup", "0::/system.slice/flifo.service\n"),
            ("/proc/8/cgroup", "0::/system.slice/mariadb.service\n"),
            ("/proc/7/autogroup", "/autogroup-5 nice 0\n"),
            ("/proc/8/autogroup", "/autogroup-6 nice 0\n"),
            AUTO,
        ]);
        assert_eq!(scope, Scope::Session);
    }

    #[test]
    fn groups_far_apart_are_told() {
        let scope = on(&[
            ("/proc/7/cgroup", "0::/user.slice/session-3.scope\n"),
            ("/proc/8/cgroup", "0::/system.slice/mariadb.service\n"),
            ("/sys/fs/cgroup/user.slice/session-3.scope/cpu.weight", "100"),
            ("/sys/fs/cgroup/system.slice/mariadb.service/cpu.weight", "100"),
        ]);
        let Scope::Nothing(why) = scope else { panic!("{scope:?}") };
        assert!(
            why.contains("/system.slice/mariadb.service") && why.contains("CPUWeight"),
            "{why}"
        );
    }
}
