//! What root makes before it becomes another user for good: as that user, so that a link in a folder of that user's leads
//! no further than the user's own rights do.
//!
//! Files and sockets are made by this thread with the user's numbers. Only where that user has no right, and no one but
//! root can have put anything in the way, root makes them and gives them away. Invariants: root follows no path that
//! another user can change; without a later user, nothing here does anything.

use std::ffi::CString;
use std::io;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rustix::process::{Gid, Uid, getegid, getgroups};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::process::{BecomeError, is_root, numbers_of};

#[derive(Clone, Debug)]
struct LaterUser {
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
}

static LATER: Mutex<Option<LaterUser>> = Mutex::new(None);

/// Root will become this user.
pub fn announce(name: &str) -> Result<(), BecomeError> {
    if !is_root() {
        return Ok(());
    }
    let (uid, gid) = numbers_of(name).ok_or_else(|| BecomeError::Unknown(name.to_owned()))?;
    let groups = groups(name, gid)?;
    let user = LaterUser { uid: Uid::from_raw(uid), gid: Gid::from_raw(gid), groups };
    *LATER.lock().unwrap_or_else(PoisonError::into_inner) = Some(user);
    Ok(())
}

/// All groups of a user, as the machine lists them.
fn groups(name: &str, gid: u32) -> Result<Vec<Gid>, BecomeError> {
    let name = CString::new(name).map_err(|_| BecomeError::Unknown(name.to_owned()))?;
    let mut room = vec![0; GROUPS_MAX];
    let mut count = GROUPS_MAX as libc::c_int;
    // SAFETY: all pointers are to memory of ours that outlives the call, and `room` has the length that is told.
    let listed =
        unsafe { libc::getgrouplist(name.as_ptr(), gid, room.as_mut_ptr(), &raw mut count) };
    if listed < 0 {
        return Err(io::Error::other("the user is in too many groups").into());
    }
    room.truncate(usize::try_from(count).unwrap_or(0));
    Ok(room.into_iter().map(Gid::from_raw).collect())
}

/// As many as the kernel takes.
const GROUPS_MAX: usize = 65_536;

/// Makes what has this path, as the user that root becomes later.
pub fn make<T>(path: &Path, make: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let later = LATER.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let Some(user) = later.filter(|_| is_root()) else { return make() };
    let made = match user.act(&make)? {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && is_roots(path) => make()?,
        made => return made,
    };
    // Of a folder that is root's alone, so this is what was made.
    let found = path.symlink_metadata()?;
    if found.nlink() == 1 && !found.is_symlink() {
        lchown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw()))?;
    }
    Ok(made)
}

impl LaterUser {
    /// Does this on this thread as the user, and is root again.
    fn act<T>(&self, work: impl FnOnce() -> T) -> io::Result<T> {
        let own = (getgroups()?, getegid());
        set_thread_groups(&self.groups)?;
        let _back = Back(own);
        set_thread_res_gid(None, self.gid, None)?;
        set_thread_res_uid(None, self.uid, None)?;
        Ok(work())
    }
}

/// Dropped, it makes this thread root's again.
struct Back((Vec<Gid>, Gid));

impl Drop for Back {
    fn drop(&mut self) {
        let (groups, gid) = &self.0;
        let back = set_thread_res_uid(None, Uid::ROOT, None)
            .and_then(|()| set_thread_res_gid(None, *gid, None))
            .and_then(|()| set_thread_groups(groups));
        if back.is_err() {
            // It must not go on as a user that is not known.
            std::process::abort();
        }
    }
}

/// Whether the folder of this path, and each one above it, is root's, so that no other user can change what the path
/// means; a link among them is not followed.
fn is_roots(path: &Path) -> bool {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let Ok(folder) = folder.canonicalize() else { return false };
    folder.ancestors().enumerate().all(|(above, folder)| {
        folder.symlink_metadata().is_ok_and(|found| {
            let is_writable = found.mode() & 0o022 != 0;
            // In a folder with this bit, what is root's can be removed and renamed by root alone.
            let is_sticky = found.mode() & libc::S_ISVTX != 0 && above > 0;
            found.is_dir() && found.uid() == 0 && (!is_writable || is_sticky)
        })
    })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, OpenOptions, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn append(path: &Path) -> io::Result<File> {
        make(path, || OpenOptions::new().create(true).append(true).open(path))
    }

    fn owner(path: &Path) -> u32 {
        path.symlink_metadata().expect("is there").uid()
    }

    #[test]
    fn root_makes_files_with_the_rights_of_the_later_user() {
        if !is_root() {
            println!("SKIPPED: only root can become another user");
            return;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let (roots, theirs) = (folder.path().join("roots"), folder.path().join("theirs"));
        for made in [&roots, &theirs] {
            fs::create_dir(made).expect("a folder");
        }
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("root may");
        let (uid, gid) = numbers_of("nobody").expect("every machine has one");
        lchown(&theirs, Some(uid), Some(gid)).expect("root may");
        let secret = roots.join("secret");
        fs::write(&secret, "root's").expect("written");
        fs::set_permissions(&secret, Permissions::from_mode(0o600)).expect("root may");
        symlink(&secret, theirs.join("link")).expect("made");
        announce("nobody").expect("root may");
        assert!(announce("no_such_user_of_any_machine").is_err());

        append(&theirs.join("log")).expect("it is the user's folder");
        assert_eq!(owner(&theirs.join("log")), uid);
        append(&theirs.join("link")).expect_err("what the link leads to is root's");
        append(&theirs.join("none/log")).expect_err("there is no such folder");
        assert_eq!(
            (owner(&secret), fs::read_to_string(&secret).expect("read")),
            (0, "root's".into())
        );
        // Where only root can have put anything, it makes what the user needs, and gives it away.
        append(&roots.join("log")).expect("root may");
        assert_eq!(owner(&roots.join("log")), uid);
        fs::set_permissions(&roots, Permissions::from_mode(0o1777)).expect("root may");
        append(&secret).expect_err("another user could have put it there");
        assert_eq!(owner(&secret), 0);
        assert!(is_root() && fs::read(&secret).is_ok(), "it is root again");
        *LATER.lock().expect("free") = None;
    }
}
