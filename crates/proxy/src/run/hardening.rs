//! What the running proxy gives up before it serves: the user that started it, core dumps, files, kernel calls.
//!
//! Owns which rights the configuration needs; how rights are given up is in `sys`. All of it happens once, in the first
//! thread, after the files are read and the listeners are open, and before another thread starts.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use backend::Address;
use engine::placement::Policy;
use sys::process::{self, BecomeError, Keep};
use sys::sandbox::{self, Extent, Files, SandboxError};

use crate::config::{Instructions, Listen, Permission, Plan, Sandbox};
use crate::placement;

/// Why Flifo does not serve.
#[derive(Debug, thiserror::Error)]
pub enum HardeningError {
    #[error(
        "Flifo does not serve as {user}: {why}. Start it as a user of its own (User= in a systemd \
         unit), name one in hardening.run_as if root starts it, or allow it with \
         --allow-privileged-user or hardening.privileged_user = \"allowed\""
    )]
    PrivilegedUser { user: String, why: &'static str },
    #[error("cannot become the user of hardening.run_as: {0}")]
    RunAs(#[from] BecomeError),
    #[error("cannot forbid core dumps: {0}; hardening.core_dumps = \"allowed\" goes on without")]
    CoreDumps(std::io::Error),
    #[error("cannot give up rights: {0}; hardening.sandbox = \"off\" goes on without")]
    Sandbox(#[from] SandboxError),
}

/// Gives up all that the plan does not need. `servers`: where the servers are.
pub(crate) fn harden<'a>(
    plan: &Plan,
    source: &Instructions,
    policy: Policy,
    servers: impl Iterator<Item = &'a Address> + Clone,
) -> Result<(), HardeningError> {
    let acts = placement::acts(policy);
    become_user(plan, policy)?;
    refuse_privileged_user(plan, servers)?;
    if plan.hardening.core_dumps == Permission::Refused {
        sandbox::forbid_core_dumps().map_err(HardeningError::CoreDumps)?;
    }
    match plan.hardening.sandbox {
        Sandbox::On => enter_sandbox(plan, source, acts)?,
        Sandbox::Off => tracing::warn!(
            "hardening.sandbox is off: an intruder in Flifo could reach every file of its user and start programs"
        ),
    }
    let bytes = sys::secret_memory::unlocked();
    if bytes > 0 {
        tracing::warn!(
            bytes,
            "passwords may be swapped to disk: this process may lock no more memory; raise LimitMEMLOCK= in its unit"
        );
    }
    Ok(())
}

/// Becomes the user that the plan names, if root has started this process. What was made before belongs to that user
/// already ([`sys::later_user`]).
pub(crate) fn become_user(plan: &Plan, policy: Policy) -> Result<(), HardeningError> {
    let Some(user) = plan.hardening.run_as.as_ref().filter(|_| process::is_root()) else {
        return Ok(());
    };
    let keep = if placement::acts(policy) { Keep::Scheduling } else { Keep::Nothing };
    process::become_user(user, keep)?;
    tracing::info!(user, "Flifo acts as this user now");
    Ok(())
}

/// Whether Flifo may go on as the user that it is.
pub(crate) fn refuse_privileged_user<'a>(
    plan: &Plan,
    servers: impl Iterator<Item = &'a Address>,
) -> Result<(), HardeningError> {
    let (uid, name) = process::user();
    let name = name.map_or_else(|| uid.to_string(), |it| String::from_utf8_lossy(&it).into_owned());
    let sockets = servers.filter_map(|address| match address {
        Address::Unix(path) => Some(path.as_path()),
        Address::Tcp { .. } => None,
    });
    let owns_socket = owns_any(uid, sockets);
    let Some(why) = why_privileged(uid, &name, owns_socket) else { return Ok(()) };
    if plan.hardening.privileged_user == Permission::Refused {
        return Err(HardeningError::PrivilegedUser { user: name, why });
    }
    tracing::warn!(
        user = name,
        why,
        "Flifo serves as a privileged user; the server's account of that name is refused to clients over a Unix socket"
    );
    Ok(())
}

fn owns_any<'a>(uid: u32, mut sockets: impl Iterator<Item = &'a Path>) -> bool {
    sockets.any(|path| std::fs::metadata(path).is_ok_and(|socket| socket.uid() == uid))
}

/// Why Flifo should not be this user.
fn why_privileged(uid: u32, name: &str, owns_socket: bool) -> Option<&'static str> {
    if uid == 0 {
        Some("it needs none of root's rights, and a mistake in it would have them all")
    } else if owns_socket || ["mysql", "mariadb"].contains(&name) {
        Some(
            "that is the server's own user, and a mistake in Flifo could change the server's files",
        )
    } else {
        None
    }
}

fn enter_sandbox(plan: &Plan, source: &Instructions, acts: bool) -> Result<(), HardeningError> {
    let entered = sandbox::enter(&files(plan, source, acts))?;
    for (extent, what) in
        [(entered.files, "files (Landlock)"), (entered.calls, "kernel calls (seccomp)")]
    {
        match extent {
            Extent::Whole => {}
            Extent::Part => tracing::info!(what, "this kernel enforces a part of the sandbox only"),
            Extent::Missing => {
                tracing::warn!(what, "this kernel does not enforce this part of the sandbox")
            }
        }
    }
    Ok(())
}

/// What is read and written while Flifo runs. Folders instead of files: certificates are renewed, logs rotated and
/// configurations edited by putting new files in the place of old ones.
fn files(plan: &Plan, source: &Instructions, acts: bool) -> Files {
    let mut read: Vec<PathBuf> = MACHINE.iter().map(PathBuf::from).collect();
    let mut write: Vec<PathBuf> = DEVICES.iter().map(PathBuf::from).collect();
    read.extend(source.file.as_deref().into_iter().chain(plan.named_files()).map(folder_of));
    let listeners = plan.listen.iter().chain(&plan.console.listen).chain(&plan.http.listen);
    write.extend(listeners.filter_map(|listen| match listen {
        Listen::Unix(path) => Some(folder_of(path)),
        Listen::Tcp(_) => None,
    }));
    write.extend(plan.logs.files().map(|(_, path)| folder_of(path)));
    let learns = plan.firewalls().filter_map(|(path, learns)| learns.then_some(path));
    write.extend(learns.map(folder_of));
    write.extend(plan.checks.state_file.as_deref().map(folder_of));
    if acts {
        // The journal's folder is made when there is something to write down.
        write.push(nearest(&placement::journal_path(plan)));
        write.extend(SCHEDULING.iter().map(PathBuf::from));
    }
    Files { read, write }
}

/// The folder that a file is in.
fn folder_of(path: &Path) -> PathBuf {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    folder.to_owned()
}

/// The folder that a file is, or will be, in; the nearest above it that exists.
fn nearest(path: &Path) -> PathBuf {
    path.ancestors()
        .skip(1)
        .find(|folder| folder.is_dir())
        .map_or_else(|| "/".into(), Path::to_owned)
}

/// The machine's own settings, libraries and figures: names are resolved and processes observed by them.
const MACHINE: &[&str] = &[
    "/etc",
    "/usr",
    "/lib",
    "/lib64",
    "/proc",
    "/sys",
    "/run",
    "/dev/urandom",
    "/dev/random",
    "/var/lib/sss",
    "/nix/store",
];

const DEVICES: &[&str] = &["/dev/null"];

/// What placement changes: groups of processes.
const SCHEDULING: &[&str] = &["/sys/fs/cgroup", "/proc"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_and_the_servers_user_are_privileged() {
        for (uid, name, owns_socket, want) in [
            (0, "root", true, Some("root's rights")),
            (0, "root", false, Some("root's rights")),
            (104, "mysql", false, Some("the server's own user")),
            (1000, "ann", true, Some("the server's own user")),
            (105, "flifo", false, None),
        ] {
            let why = why_privileged(uid, name, owns_socket);
            assert_eq!(why.is_some(), want.is_some(), "{name}");
            assert!(why.unwrap_or_default().contains(want.unwrap_or_default()), "{why:?}");
        }
    }

    #[test]
    fn a_sandbox_reaches_the_folders_that_the_plan_names() {
        let text = "listen = [\"/run/flifo/clients.sock\"]\n[logs]\nfile = \"/var/log/flifo/log\"\n\
                    slow.file = \"/srv/slow/log\"\naudit.file = \"/srv/audit/log\"\n\
                    [checks]\nuser = \"b\"\npassword_file = \"/srv/checks/b\"\n[tls]\n\
                    cert = \"/srv/tls/cert\"\nkey = \"/srv/keys/key\"\n\
                    [[users]]\nname = \"a\"\npassword_file = \"/srv/secrets/a\"\n";
        let (plan, _) = crate::config::parse(text, "test").expect("a plan");
        let source = Instructions { file: Some("flifo.toml".into()), ..Instructions::default() };
        let files = files(&plan, &source, false);
        let reads = |path: &str| files.read.contains(&PathBuf::from(path));
        let writes = |path: &str| files.write.contains(&PathBuf::from(path));
        assert!(reads("/srv/secrets") && reads(".") && reads("/etc"));
        assert!(reads("/srv/checks") && reads("/srv/tls") && reads("/srv/keys"));
        assert!(writes("/run/flifo") && writes("/var/log/flifo"));
        assert!(writes("/srv/slow") && writes("/srv/audit"));
        assert!(!writes("/proc") && !writes("/srv/secrets") && !reads("/home"));
        assert!(super::files(&plan, &source, true).write.contains(&PathBuf::from("/proc")));
    }
}
