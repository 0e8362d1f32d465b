//! Takes rights away from this process for good: to start programs, to reach most files, most of the kernel's calls.
//!
//! Nothing here can be undone, and everything holds for the threads and children that are started afterwards too, so it
//! is called before the first thread. What a kernel does not have is left out and told ([`Sandbox`]).
//!
//! Sources: landlock(7) for files, seccomp(2) for calls; `@system-service` of systemd.exec(5) is where the list of
//! calls began. A call outside the list fails with `ENOSYS`, as if this kernel did not have it: libraries know how to
//! go on then.

mod calls;

use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

/// What files this process may still reach.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// Folders whose files may be read, and files.
    pub read: Vec<PathBuf>,
    /// Folders in which files and sockets may be made, written and removed, and files that may be written.
    pub write: Vec<PathBuf>,
}

/// What was taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sandbox {
    pub files: Extent,
    pub calls: Extent,
}

/// How much of a protection is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    Whole,
    /// This kernel knows a part of it only.
    Part,
    /// This kernel, or this processor, does not have it.
    Missing,
}

/// Why rights could not be taken away.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error("the kernel does not keep this process from new privileges: {0}")]
    Privileges(io::Error),
    #[error("Landlock rules: {0}")]
    Files(#[from] RulesetError),
    #[error("the seccomp filter: {0}")]
    Calls(#[from] seccompiler::Error),
}

/// Keeps this process, and what it starts, from new privileges, from all files but these, and from kernel calls that a
/// network service does not need. A path that does not exist is left out.
pub fn enter(files: &Files) -> Result<Sandbox, SandboxError> {
    rustix::thread::set_no_new_privs(true)
        .map_err(|error| SandboxError::Privileges(error.into()))?;
    let files = restrict_files(files)?;
    let calls = restrict_calls()?;
    Ok(Sandbox { files, calls })
}

fn restrict_files(files: &Files) -> Result<Extent, SandboxError> {
    let all = AccessFs::from_all(FILE_RIGHTS);
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .scope(Scope::Signal)?;
    let mut rules = rules.create()?;
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let write = all & !AccessFs::Execute;
    for (paths, access) in [(&files.read, read), (&files.write, write)] {
        for path in paths {
            rules = allow(rules, path, access)?;
        }
    }
    Ok(match rules.restrict_self()?.ruleset {
        RulesetStatus::FullyEnforced => Extent::Whole,
        RulesetStatus::PartiallyEnforced => Extent::Part,
        RulesetStatus::NotEnforced => Extent::Missing,
    })
}

fn allow(
    rules: RulesetCreated,
    path: &Path,
    access: landlock::BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    let Ok(opened) = PathFd::new(path) else { return Ok(rules) };
    // Rights over folders mean nothing for a file.
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(FILE_RIGHTS) };
    rules.add_rule(PathBeneath::new(opened, access))
}

fn restrict_calls() -> Result<Extent, SandboxError> {
    let Some(program) = calls::filter()? else { return Ok(Extent::Missing) };
    seccompiler::apply_filter_all_threads(&program)?;
    Ok(Extent::Whole)
}

/// Keeps the memory of this process out of core dumps, and out of reach of other processes of the same user. It comes
/// after a change of the user, which makes a process dumpable again or not as the machine has it, and before [`enter`].
pub fn forbid_core_dumps() -> io::Result<()> {
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    // A program that the kernel pipes core dumps to is started whatever the limit is.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}

/// The newest set of rights over files that is used; older kernels get what they know of it.
const FILE_RIGHTS: ABI = ABI::V5;
