//! Does what was decided, and writes down what it does before it does it.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use backend::login::{BlockingError, LoginError};
use sys::identity::Identity;

use crate::facts::{Facts, Follows};
use crate::journal::{Deed, Journal};
use crate::server::Administrator;
use crate::steps::{Owner, Step};
use crate::{InitError, NAME, Wishes};

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
        carry_out_one(facts, step, &mut journal).map_err(|why| match why {
            Failure::Journal(error) => error,
            Failure::Step(why) => InitError::Step { what: first_line(step), why },
        })?;
    }
    Ok(())
}

/// Why a step was not done.
enum Failure {
    /// It was not to be written down.
    Journal(InitError),
    Step(String),
}

impl From<InitError> for Failure {
    fn from(error: InitError) -> Self {
        Self::Journal(error)
    }
}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Self::Step(why)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Step(error.to_string())
    }
}

impl From<BlockingError> for Failure {
    fn from(error: BlockingError) -> Self {
        Self::Step(error.to_string())
    }
}

fn first_line(step: &Step) -> String {
    let text = step.to_string();
    text.lines().next().unwrap_or_default().trim_end_matches(':').to_owned()
}

fn carry_out_one(facts: &Facts, step: &Step, journal: &mut Journal) -> Result<(), Failure> {
    match step {
        Step::Account { statements, .. } => make_account(facts, statements, journal),
        Step::AccountByHand { .. } => Ok(()),
        Step::SystemUser { name } => {
            if sys::process::numbers_of(name).is_some() {
                return Err(format!("there is a user {name} already").into());
            }
            journal.add(Deed::SystemUser((*name).to_owned()))?;
            let home = ["--no-create-home", "--home-dir", "/nonexistent"];
            let shell = ["--system", "--user-group", "--shell", "/usr/sbin/nologin", name];
            Ok(run("useradd", home.iter().chain(&shell))?)
        }
        Step::Folder { path, .. } if path.is_dir() => Ok(()),
        Step::Folder { path, mode, owner } => {
            let make = || DirBuilder::new().mode(*mode).create(path);
            let deed = Deed::Folder(path.clone());
            // The journal cannot be there before its own folder is, which is of no harm as long as it is empty.
            match journal.folder() == Some(path) {
                true => make().map_err(Failure::from).and_then(|()| Ok(journal.add(deed)?))?,
                false => new(journal, deed, make)?,
            }
            Ok(give(path, *mode, *owner)?)
        }
        Step::File { path, mode, owner, text } => {
            write(journal, Deed::File(path.clone()), path, *mode, *owner, text)
        }
        Step::Replace { path, text, before } => {
            journal.add(Deed::Replaced { path: path.clone(), before: (*before).to_owned() })?;
            Ok(replace(path, text)?)
        }
        Step::Restart => {
            let is = |what| run("systemctl", [what, "--quiet", NAME]).is_ok();
            let (was_enabled, was_active) = (is("is-enabled"), is("is-active"));
            journal.add(Deed::Service { was_enabled, was_active })?;
            run("systemctl", ["enable", NAME])?;
            Ok(run("systemctl", ["restart", NAME])?)
        }
        Step::Unit { path, text } => {
            write(journal, Deed::Unit(path.clone()), path, 0o644, Owner::Own, text)?;
            run("systemctl", ["daemon-reload"])?;
            Ok(run("systemctl", ["enable", "--now", NAME])?)
        }
        Step::Start { program, config, log, sockets } => {
            start(program, config, log, sockets, journal)
        }
    }
}

/// Makes something new, which is written down first. What is there already is not new, and not to be taken back.
fn new<T>(
    journal: &mut Journal,
    deed: Deed,
    make: impl FnOnce() -> io::Result<T>,
) -> Result<T, Failure> {
    journal.add(deed)?;
    match make() {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            journal.withdraw()?;
            Err(error.into())
        }
        made => Ok(made?),
    }
}

fn make_account(
    facts: &Facts,
    statements: &[String],
    journal: &mut Journal,
) -> Result<(), Failure> {
    let mut administrator = Administrator::log_in(&facts.server)?;
    if administrator.has_account(NAME)? {
        return Err(InitError::AccountExists.into());
    }
    journal.add(match facts.follows {
        Follows::Nothing => Deed::Account,
        Follows::Primary(_) | Follows::Unknown | Follows::Unasked => Deed::AccountHere,
    })?;
    for statement in statements {
        match administrator.run(statement) {
            // It is there with its first right at the earliest.
            Err(error @ BlockingError::Login(LoginError::Refused { .. }))
                if !statement.starts_with("GRANT") =>
            {
                journal.withdraw()?;
                return Err(format!("{error}. {BY_ANOTHER_HAND}").into());
            }
            done => done?,
        }
    }
    Ok(())
}

/// What helps where the server takes no account from this user, or none at all.
const BY_ANOTHER_HAND: &str = "Have its administrator make the account, with a password of your own (flifo init --dry-run \
    prints the statements), and name the file of that with --password-file; for a server that takes no writes, at its \
    primary, from which the account comes to it";

pub(crate) fn run<'a>(
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
fn write(
    journal: &mut Journal,
    deed: Deed,
    path: &Path,
    mode: u32,
    owner: Owner,
    text: &str,
) -> Result<(), Failure> {
    let mut file = new(journal, deed, || {
        OpenOptions::new().write(true).create_new(true).mode(mode).open(path)
    })?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    Ok(give(path, mode, owner)?)
}

/// Writes another text into a file, whose owner and mode stay.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("init-new");
    // Of one that was interrupted.
    let _ = std::fs::remove_file(&new);
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
    let ids = || {
        let unknown = || io::Error::other(format!("this machine has no user {NAME}"));
        sys::process::numbers_of(NAME).ok_or_else(unknown)
    };
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

/// Starts a program that goes on when this one has ended.
fn start(
    program: &Path,
    config: &Path,
    log: &Path,
    sockets: &[PathBuf],
    journal: &mut Journal,
) -> Result<(), Failure> {
    let log = match log.exists() {
        true => File::options().append(true).open(log)?,
        false => new(journal, Deed::File(log.to_owned()), || {
            File::options().append(true).create_new(true).mode(0o640).open(log)
        })?,
    };
    for socket in sockets.iter().filter(|socket| !socket.exists()) {
        journal.add(Deed::Socket(socket.clone()))?;
    }
    let mut child = prepare(program, config, log)?;
    let written = Identity::of(child.id())
        .map_err(Failure::from)
        .and_then(|process| Ok(journal.add(Deed::Process(process))?));
    let go = child.stdin.take();
    if written.is_ok()
        && let Some(mut go) = go
    {
        go.write_all(b"go\n")?;
        return Ok(());
    }
    // Its input has ended, and so it ends.
    child.wait()?;
    written
}

/// A process that becomes the program when it is told to: it can be written down before that. If this process ends
/// first, it ends as well.
fn prepare(program: &Path, config: &Path, log: File) -> io::Result<Child> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "read -r go && exec \"$@\" </dev/null", "sh"]);
    command.arg(program).args(["run", "--config"]).arg(config);
    command.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log);
    sys::child::live_on(&mut command);
    command.spawn()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Layout, undo};
    use std::time::Duration;

    fn facts() -> Facts {
        Facts {
            server: "/nonexistent/mysqld.sock".parse().expect("an address"),
            brand: String::new(),
            is_mariadb: true,
            follows: Follows::Nothing,
            unvouched: None,
            administers: true,
            is_root: false,
            has_systemd: false,
            has_system_user: false,
            package: crate::facts::Package::None,
            program: "/bin/true".into(),
        }
    }

    /// Steps into a folder that is not there yet.
    fn done(
        steps: impl Fn(&Layout) -> Vec<Step>,
    ) -> (tempfile::TempDir, Layout, Result<(), InitError>) {
        let folder = tempfile::tempdir().expect("makes");
        let layout = Layout::in_folder(&folder.path().join("own"));
        let own = Owner::Own;
        let mut all = vec![Step::Folder { path: layout.folder.clone(), mode: 0o755, owner: own }];
        all.extend(steps(&layout));
        let address = String::new();
        let (listen, console, http) = (address.clone(), address.clone(), address);
        let (server, has_account) = (None, false);
        let wishes = Wishes { server, layout: layout.clone(), has_account, listen, console, http };
        let result = carry_out(&facts(), &wishes, &all, |_| {});
        (folder, layout, result)
    }

    fn file(path: PathBuf) -> Step {
        Step::File { path, mode: 0o640, owner: Owner::Own, text: "new".to_owned() }
    }

    #[test]
    fn what_was_there_is_neither_changed_nor_taken_back() {
        let elsewhere = tempfile::tempdir().expect("makes");
        let there = elsewhere.path().join("there");
        std::fs::write(&there, "old").expect("writes");
        let (_folder, layout, result) = done(|_| vec![file(there.clone())]);
        assert!(matches!(result, Err(InitError::Step { .. })), "{result:?}");
        let undone = undo(&layout).expect("there is a journal");
        assert!(undone.failed.is_empty(), "{undone:?}");
        assert_eq!(std::fs::read_to_string(&there).expect("it stays"), "old");
        assert!(!layout.folder.exists());
    }

    #[test]
    fn a_step_that_fails_in_the_middle_is_taken_back() {
        // A process without root's rights cannot give a file away; root finds no user of this name.
        let (_folder, layout, result) = done(|layout| {
            let (path, mode, owner) = (layout.password(), 0o640, Owner::Flifo);
            vec![Step::File { path, mode, owner, text: String::new() }]
        });
        if result.is_ok() {
            // This machine has a user flifo, and the test is root.
            return;
        }
        assert!(layout.password().exists(), "it was made, and could not be given away");
        let undone = undo(&layout).expect("there is a journal");
        assert!(undone.failed.is_empty() && !layout.folder.exists(), "{undone:?}");
    }

    #[test]
    fn what_was_written_down_and_not_done_is_taken_back_without_harm() {
        let (_folder, layout, result) = done(|_| Vec::new());
        result.expect("a folder");
        let mut journal = Journal::read(&layout).expect("a journal");
        for deed in [
            Deed::SystemUser("no such user".to_owned()),
            Deed::Folder(layout.folder.join("never")),
            Deed::File(layout.config()),
            Deed::Unit(layout.folder.join("never.service")),
            Deed::Socket(layout.socket()),
        ] {
            journal.add(deed).expect("writes");
        }
        let undone = undo(&layout).expect("there is a journal");
        assert!(undone.failed.is_empty() && !layout.folder.exists(), "{undone:?}");
    }

    #[test]
    fn a_file_in_the_place_of_a_socket_is_left() {
        let (_folder, layout, result) = done(|_| Vec::new());
        result.expect("a folder");
        let path = layout.folder.join("file");
        std::fs::write(&path, "a user's").expect("writes");
        let mut journal = Journal::read(&layout).expect("a journal");
        journal.add(Deed::Socket(path.clone())).expect("writes");
        let undone = undo(&layout).expect("there is a journal");
        assert!(!undone.failed.is_empty() && path.exists(), "{undone:?}");
    }

    #[test]
    fn a_log_that_was_there_stays_and_the_program_ends() {
        let elsewhere = tempfile::tempdir().expect("makes");
        let log = elsewhere.path().join("log");
        std::fs::write(&log, "old\n").expect("writes");
        // A program that does not end of itself, whatever its arguments.
        let program = elsewhere.path().join("program");
        // Another process writes it: a descriptor of this one could be open in a child of another test, and a program that
        // is written cannot be started.
        let script = "printf '#!/bin/sh\\nexec sleep 600\\n' >\"$1\" && chmod 755 \"$1\"";
        let written = Command::new("sh").args(["-c", script, "sh"]).arg(&program).status();
        assert!(written.is_ok_and(|status| status.success()));
        let (_folder, layout, result) = done(|layout| {
            let sockets = [layout.socket(), layout.console()];
            let (program, log) = (program.clone(), log.clone());
            vec![Step::Start { program, config: layout.config(), log, sockets }]
        });
        result.expect("it starts");
        let journal = Journal::read(&layout).expect("a journal");
        let Some(Deed::Process(process)) = journal.deeds.last().cloned() else {
            panic!("{journal:?}")
        };
        assert!(!process.has_ended().expect("seen"));
        let undone = undo(&layout).expect("there is a journal");
        assert!(undone.failed.is_empty() && !layout.folder.exists(), "{undone:?}");
        assert_eq!(process.end(Duration::ZERO).expect("seen"), sys::identity::Ended::Before);
        assert!(log.exists());
    }

    #[test]
    fn a_program_that_is_not_told_to_begin_does_not() {
        let elsewhere = tempfile::tempdir().expect("makes");
        let log = File::create(elsewhere.path().join("log")).expect("makes");
        let made = elsewhere.path().join("made");
        let mut child = prepare("touch".as_ref(), &made, log).expect("starts");
        drop(child.stdin.take());
        assert!(!child.wait().expect("ends").success());
        assert!(!made.exists());
    }
}
