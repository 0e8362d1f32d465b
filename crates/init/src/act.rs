//! Does what was decided, and takes it back.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use proxy::Address;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::facts::{Facts, SYSTEMD};
use crate::journal::{Done, Journal};
use crate::server::Administrator;
use crate::steps::{Owner, Step, drop_account};
use crate::{InitError, Layout, NAME, Wishes};

/// Does all steps; `tell` hears of each before it is done. What was done before one fails can be undone.
pub fn carry_out(
    facts: &Facts,
    wishes: &Wishes,
    steps: &[Step],
    mut tell: impl FnMut(&Step),
) -> Result<(), InitError> {
    let mut journal = Journal::new(&wishes.layout, facts.server.to_string());
    for step in steps {
        tell(step);
        let failed = |why: String| InitError::Step { what: first_line(step), why };
        for done in carry_out_one(facts, step).map_err(failed)? {
            // The folder that it is written in comes behind the system user, whose it is.
            journal.add(done, wishes.layout.folder.is_dir())?;
        }
    }
    Ok(())
}

fn first_line(step: &Step) -> String {
    let text = step.to_string();
    text.lines().next().unwrap_or_default().trim_end_matches(':').to_owned()
}

fn carry_out_one(facts: &Facts, step: &Step) -> Result<Vec<Done>, String> {
    match step {
        Step::Account { statements } => {
            let mut administrator = Administrator::log_in(&facts.server)?;
            for (at, statement) in statements.iter().enumerate() {
                if let Err(why) = administrator.run(statement) {
                    if at > 0 {
                        administrator.run(&drop_account())?;
                    }
                    return Err(why);
                }
            }
            Ok(vec![Done::Account])
        }
        Step::AccountByHand { .. } => Ok(Vec::new()),
        Step::SystemUser { name } => {
            let home = ["--no-create-home", "--home-dir", "/nonexistent"];
            let shell = ["--system", "--user-group", "--shell", "/usr/sbin/nologin", name];
            run("useradd", home.iter().chain(&shell))?;
            Ok(vec![Done::SystemUser((*name).to_owned())])
        }
        Step::Folder { path, mode, owner } => {
            if path.is_dir() {
                return Ok(Vec::new());
            }
            let made = DirBuilder::new().mode(*mode).create(path);
            made.and_then(|()| give(path, *mode, *owner)).map_err(|error| error.to_string())?;
            Ok(vec![Done::Folder(path.clone())])
        }
        Step::File { path, mode, owner, text } => {
            write(path, *mode, *owner, text).map_err(|error| error.to_string())?;
            Ok(vec![Done::File(path.clone())])
        }
        Step::Replace { path, text, before } => {
            replace(path, text).map_err(|error| error.to_string())?;
            Ok(vec![Done::Replaced { path: path.clone(), before: (*before).to_owned() }])
        }
        Step::Restart => {
            run("systemctl", ["enable", NAME])?;
            run("systemctl", ["restart", NAME])?;
            Ok(Vec::new())
        }
        Step::Unit { path, text } => {
            write(path, 0o644, Owner::Own, text).map_err(|error| error.to_string())?;
            let started = run("systemctl", ["daemon-reload"])
                .and_then(|()| run("systemctl", ["enable", "--now", NAME]));
            if let Err(why) = started {
                let _ = std::fs::remove_file(path);
                return Err(why);
            }
            Ok(vec![Done::Unit(path.clone())])
        }
        Step::Start { program, config, log, sockets } => {
            let pid = start(program, config, log).map_err(|error| error.to_string())?;
            let mut done = vec![Done::File(log.clone())];
            done.extend(sockets.iter().cloned().map(Done::Socket));
            done.push(Done::Process { pid, config: config.clone() });
            Ok(done)
        }
    }
}

fn run<'a>(
    program: &str,
    arguments: impl IntoIterator<Item = impl AsRef<std::ffi::OsStr> + 'a>,
) -> Result<(), String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr);
    Err(format!("{program}: {} ({})", why.trim(), output.status))
}

/// Writes a file that is not there yet.
fn write(path: &Path, mode: u32, owner: Owner, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    give(path, mode, owner)
}

/// Writes another text into a file, whose owner and mode stay.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    let old = std::fs::metadata(path)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    chown(&new, Some(old.uid()), Some(old.gid()))?;
    std::fs::set_permissions(&new, old.permissions())?;
    std::fs::rename(new, path)
}

/// Sets owner and mode of a file, whatever the umask is.
fn give(path: &Path, mode: u32, owner: Owner) -> io::Result<()> {
    match owner {
        Owner::Own => {}
        Owner::RootForFlifo => chown(path, Some(0), Some(ids()?.1))?,
        Owner::Flifo => {
            let (user, group) = ids()?;
            chown(path, Some(user), Some(group))?;
        }
    }
    std::fs::set_permissions(path, Permissions::from_mode(mode))
}

/// The numbers of Flifo's own user and its group.
fn ids() -> io::Result<(u32, u32)> {
    let accounts = std::fs::read_to_string("/etc/passwd")?;
    let own = accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let is_own = fields.next() == Some(NAME);
        let user = fields.nth(1)?.parse().ok()?;
        is_own.then(|| Some((user, fields.next()?.parse().ok()?)))?
    });
    own.ok_or_else(|| io::Error::other(format!("there is no user {NAME} in /etc/passwd")))
}

/// Starts a program that goes on when this one has ended.
fn start(program: &Path, config: &Path, log: &Path) -> io::Result<u32> {
    let log = File::options().append(true).create(true).mode(0o640).open(log)?;
    let mut command = Command::new("setsid");
    command.arg(program).args(["run", "--config"]).arg(config);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    Ok(command.spawn()?.id())
}

/// What was taken back, and what could not be.
#[derive(Debug, Default)]
pub struct Undone {
    pub done: Vec<String>,
    pub failed: Vec<String>,
}

/// Takes back what a set-up has done, the last first. What cannot be taken back stays in the journal.
pub fn undo(layout: &Layout) -> Result<Undone, InitError> {
    let mut journal = Journal::read(layout)?;
    let all = std::mem::take(&mut journal.done);
    let (mut undone, mut left) = (Undone::default(), Vec::new());
    for (at, done) in all.iter().enumerate().rev() {
        if matches!(done, Done::Folder(path) if *path == layout.folder) {
            // It would be in the way.
            journal.remove();
        }
        match undo_one(&journal.server, done) {
            Ok(what) => undone.done.extend(what),
            Err(why) => {
                undone.failed.push(why);
                left.push(done.clone());
            }
        }
        journal.done = all[..at].iter().chain(left.iter().rev()).cloned().collect();
        journal.write_if_can()?;
    }
    Ok(undone)
}

fn undo_one(server: &str, done: &Done) -> Result<Option<String>, String> {
    Ok(Some(match done {
        Done::Account => {
            let address: Address = server.parse().map_err(|error| format!("{server}: {error}"))?;
            let mut administrator = Administrator::log_in(&address)
                .map_err(|why| format!("{}: {why}", drop_account()))?;
            administrator
                .run(&drop_account())
                .map_err(|why| format!("{}: {why}", drop_account()))?;
            "the account at the server is dropped".to_owned()
        }
        Done::SystemUser(name) => {
            run("userdel", [name])?;
            format!("the system user {name} is removed")
        }
        Done::Folder(path) => remove(path, std::fs::remove_dir(path))?,
        Done::File(path) => remove(path, std::fs::remove_file(path))?,
        Done::Replaced { path, before } => {
            replace(path, before).map_err(|error| format!("{}: {error}", path.display()))?;
            if Path::new(SYSTEMD).is_dir() {
                run("systemctl", ["try-restart", NAME])?;
            }
            format!("{} is as the package installed it", path.display())
        }
        Done::Socket(path) => {
            // Flifo removes it itself when it ends.
            remove(path, std::fs::remove_file(path))?;
            return Ok(None);
        }
        Done::Unit(path) => {
            run("systemctl", ["disable", "--now", NAME])?;
            let removed = remove(path, std::fs::remove_file(path))?;
            run("systemctl", ["daemon-reload"])?;
            removed
        }
        Done::Process { pid, config } => stop(*pid, config)?,
    }))
}

fn remove(path: &Path, removed: io::Result<()>) -> Result<String, String> {
    match removed {
        Ok(()) => Ok(format!("{} is removed", path.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok(format!("{} was gone already", path.display()))
        }
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

/// Whether the program that a set-up has started has ended.
pub(crate) fn has_ended(layout: &Layout) -> Result<bool, InitError> {
    let journal = Journal::read(layout)?;
    Ok(journal.done.iter().any(|done| match done {
        Done::Process { pid, config } => find(*pid, config).is_none_or(|_| is_zombie(*pid)),
        _ => false,
    }))
}

/// A process, if it is still the one that was started with this configuration.
fn find(pid: u32, config: &Path) -> Option<Pid> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let config = config.as_os_str().as_encoded_bytes();
    let is_own = line.split(|byte| *byte == 0).any(|word| word == config);
    i32::try_from(pid).ok().and_then(Pid::from_raw).filter(|_| is_own)
}

/// Longer than `limits.stop`.
const PATIENCE: Duration = Duration::from_secs(45);

/// Stops a process, if it is still the one that was started.
fn stop(pid: u32, config: &Path) -> Result<String, String> {
    let Some(process) = find(pid, config) else {
        return Ok(format!("process {pid} had ended already"));
    };
    kill_process(process, Signal::TERM).map_err(|error| format!("process {pid}: {error}"))?;
    let begun = Instant::now();
    while test_kill_process(process).is_ok() && !is_zombie(pid) {
        if begun.elapsed() > PATIENCE {
            return Err(format!("process {pid} does not end: kill -9 {pid}"));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(format!("process {pid} has ended"))
}

/// Whether it has ended, and its parent has not heard of that.
fn is_zombie(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z'))
}
