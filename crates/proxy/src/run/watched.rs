//! Reads files that options name again when they change: certificates, keys, passwords.
//!
//! The folders of these files are watched, since files are renewed by putting new ones in their places, and links of
//! links by putting new links in theirs. What an event means is not asked: the files are compared with what they were.
//! Invariants: files that do not fit each other change nothing, are told of once, and are tried again; no more than one
//! attempt in a second.

use std::collections::BTreeMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::io::unix::AsyncFd;
use tokio::time::sleep;

use crate::admin::reload::Reloader;
use crate::config::Plan;
use crate::state::shared::Shared;

/// Files are read when nothing has happened to them for so long.
const QUIET: Duration = Duration::from_secs(1);

/// It is waited for that so many times.
const QUIETS: usize = 10;

/// Files are looked at in any case once in so long: of some file systems the kernel tells nothing. So are files again
/// that did not fit each other.
const LOOK: Duration = Duration::from_secs(10);

/// Events are read away: so many bytes at once.
const EVENTS: usize = 4096;

/// What there is to see of a file without reading it.
type Looks = BTreeMap<PathBuf, Option<(u64, u64, u64, i64, i64)>>;

fn looks(plan: &Plan) -> Looks {
    let look = |path: &Path| {
        let seen = std::fs::metadata(path).ok();
        seen.map(|it| (it.dev(), it.ino(), it.size(), it.mtime(), it.mtime_nsec()))
    };
    plan.named_files().map(|path| (path.to_owned(), look(path))).collect()
}

/// Watches for as long as Flifo runs.
pub(super) async fn watch(reloader: &Reloader, shared: &Shared) {
    let mut folders = Folders::new();
    let mut seen = looks(&shared.plan());
    // Why the files were not taken the last time.
    let mut told: Option<String> = None;
    loop {
        let plan = shared.plan();
        if !plan.watch_files {
            folders.watch(&Looks::new());
            reloader.renewed().await;
            seen = looks(&shared.plan());
            continue;
        }
        folders.watch(&looks(&plan));
        tokio::select! {
            biased;
            () = folders.change() => {
                let now = at_rest(shared).await;
                if now == seen {
                    continue;
                }
            }
            // What was read then may be older than what there is now: they are compared.
            () = reloader.renewed() => {}
            () = sleep(LOOK) => {}
        }
        let now = looks(&shared.plan());
        if now == seen && told.is_none() {
            continue;
        }
        seen = now;
        match reloader.renew_files().await {
            Ok(changes) => {
                let changes: Vec<_> = changes.into_iter().map(|it| it.path).collect();
                if told.take().is_some() || !changes.is_empty() {
                    let changes = changes.join(", ");
                    tracing::info!(changes, "files that the configuration names were read again");
                }
            }
            Err(why) if told.as_ref() != Some(&why) => {
                tracing::error!(
                    why,
                    "files that the configuration names have changed, and are not taken; they are tried again"
                );
                told = Some(why);
            }
            Err(_) => {}
        }
    }
}

/// Waits until nothing happens to the files, but not for ever.
async fn at_rest(shared: &Shared) -> Looks {
    let mut before = looks(&shared.plan());
    for _ in 0..QUIETS {
        sleep(QUIET).await;
        let now = looks(&shared.plan());
        if now == before {
            break;
        }
        before = now;
    }
    before
}

#[expect(
    deprecated,
    reason = "the new call asks for proof for the sake of types that may close their descriptor early; this one owns it"
)]
fn waited_for(events: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::new(events)
}

/// Folders that the kernel tells of.
struct Folders {
    /// `None`: it tells of none.
    events: Option<AsyncFd<OwnedFd>>,
    watched: BTreeMap<PathBuf, i32>,
}

impl Folders {
    fn new() -> Self {
        let opened = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK);
        let events = opened.map_err(io::Error::from).and_then(waited_for);
        if let Err(error) = &events {
            tracing::warn!(%error, period = ?LOOK, "changes of files are seen late: the kernel does not tell of them");
        }
        Self { events: events.ok(), watched: BTreeMap::new() }
    }

    /// Watches the folders of these files, and no others. One that cannot be watched is tried again the next time.
    fn watch(&mut self, files: &Looks) {
        let Some(events) = &self.events else { return };
        let folder = |path: &PathBuf| match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        let wanted: Vec<_> = files.keys().map(folder).collect();
        self.watched.retain(|path, watch| {
            let stays = wanted.contains(path);
            if !stays {
                // It may have ended with its folder.
                let _ = inotify::remove_watch(events, *watch);
            }
            stays
        });
        let flags = WatchFlags::CLOSE_WRITE
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::ATTRIB
            | WatchFlags::ONLYDIR;
        for folder in wanted {
            // A folder that is another one by now has another watch.
            if let Ok(watch) = inotify::add_watch(events, &folder, flags) {
                self.watched.insert(folder, watch);
            }
        }
    }

    /// Waits until something has happened in one of them.
    async fn change(&self) {
        let Some(events) = &self.events else { return std::future::pending().await };
        let Ok(mut ready) = events.readable().await else { return std::future::pending().await };
        let mut room = [MaybeUninit::uninit(); EVENTS];
        while rustix::io::read(events, &mut room).is_ok_and(|(read, _)| !read.is_empty()) {}
        ready.clear_ready();
    }
}
