//! What this process may use of the machine, by its CPUs and its control group: read once, and the same from then on.

use std::path::Path;
use std::sync::LazyLock;

use engine::budget::Allowance;
use sys::cgroup::{self, Cgroup};
use sys::tree::{Seen, Tree};

/// As it was when it was first asked for.
pub(crate) fn allowance() -> Allowance {
    *ALLOWANCE
}

static ALLOWANCE: LazyLock<Allowance> = LazyLock::new(|| {
    let group = cgroup::cgroup(&Tree::live(), std::process::id());
    let cores = sys::topology::cores_beside_first(Path::new("/sys/devices/system/cpu"));
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    of(cpus, cores, &group)
});

/// What cannot be seen does not count.
fn of(cpus: usize, cores: Option<usize>, group: &Seen<Cgroup>) -> Allowance {
    let group = group.known();
    let quota = group.and_then(|group| group.quota.known().copied().flatten());
    let memory = group.and_then(|group| group.memory.known().copied().flatten());
    Allowance { cpus, quota, cores, memory }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_group_is_known_to_bind_counts() {
        let group = Cgroup { quota: Seen::Known(Some(1.5)), ..Cgroup::default() };
        let allowance = of(8, Some(4), &Seen::Known(group));
        let want = Allowance { cpus: 8, quota: Some(1.5), cores: Some(4), memory: None };
        assert_eq!(allowance, want);
        let group = Cgroup { memory: Seen::Known(Some(1 << 28)), ..Cgroup::default() };
        assert_eq!(of(8, None, &Seen::Known(group)).memory, Some(1 << 28));
        assert_eq!(of(8, None, &Seen::Denied("it".to_owned())).quota, None);
    }
}
