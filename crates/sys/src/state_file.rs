//! Files in which a process writes down what the next one must know.
//!
//! Invariants: the file on the disk is whole at each moment; its folder is closed to other users, and no link is followed;
//! a file that other users could have written is not read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
pub enum StateFileError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it belongs to user {owner}, or others may write to it: it is not believed")]
    Foreign { owner: u32 },
}

/// What the file says, of which at most `most` bytes are read. `None`: there is none.
pub fn read(path: &Path, most: u64) -> Result<Option<String>, StateFileError> {
    let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let about = file.metadata()?;
    let own = rustix::process::geteuid().as_raw();
    if about.uid() != own || about.mode() & 0o022 != 0 || !about.is_file() {
        return Err(StateFileError::Foreign { owner: about.uid() });
    }
    let mut text = String::new();
    file.take(most).read_to_string(&mut text)?;
    Ok(Some(text))
}

/// Puts this into the file, in a folder that is there. `option` names the file in the configuration.
pub fn write(path: &Path, text: &[u8], option: &str) -> io::Result<()> {
    let folder = path.parent().filter(|it| *it != Path::new("")).unwrap_or_else(|| Path::new("."));
    let about = fs::metadata(folder)?;
    let own = rustix::process::geteuid().as_raw();
    if (about.uid() != own && about.uid() != 0) || about.mode() & 0o022 != 0 {
        let folder = folder.display();
        let why = format!("others may write to {folder}: name another file with {option}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let fresh = path.with_extension("new");
    // Of a process that was killed while it wrote.
    let _ = fs::remove_file(&fresh);
    let mut file: File =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(fresh, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn what_others_could_have_written_is_not_read_and_no_link_is_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, other) = (folder.path().join("state.json"), folder.path().join("other"));
        assert!(matches!(read(&path, 9), Ok(None)));
        fs::write(&other, "theirs").expect("is ours");
        symlink(&other, path.with_extension("new")).expect("links");
        write(&path, b"own", "a.file").expect("writes");
        assert_eq!(read(&path, 9).expect("is read").as_deref(), Some("own"));
        assert_eq!(fs::read_to_string(&other).expect("is there"), "theirs");
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("is ours");
        };
        mode(&path, 0o622);
        assert!(matches!(read(&path, 9), Err(StateFileError::Foreign { .. })));
        fs::remove_file(&path).expect("is ours");
        symlink(&other, &path).expect("links");
        assert!(matches!(read(&path, 9), Err(StateFileError::Io(_))));
        mode(folder.path(), 0o777);
        let refused = write(&path, b"own", "a.file").expect_err("is no safe place");
        assert!(refused.to_string().contains("name another file with a.file"), "{refused}");
    }
}
