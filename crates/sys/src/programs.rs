//! Where programs are.
//!
//! Starts none. Invariant: what is found is a file that may be executed.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A program that was installed with this one: from the folder of this one, else from PATH.
pub fn beside(name: &str) -> Option<PathBuf> {
    let own = std::env::current_exe().ok();
    let folder = own.as_deref().and_then(Path::parent).map(Path::to_owned);
    first(name, folder.into_iter().chain(path()))
}

/// The folders of PATH.
pub fn path() -> Vec<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect()
}

/// The program of this name in the first of these folders that has one.
pub fn first(name: &str, folders: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    folders.map(|folder| folder.join(name)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_cannot_run_are_passed_over() {
        let folder = tempfile::tempdir().expect("makes");
        std::fs::write(folder.path().join("sh"), "").expect("writes");
        let folders = || [folder.path().to_owned(), PathBuf::from("/bin")].into_iter();
        assert_eq!(first("sh", folders()).as_deref(), Some(Path::new("/bin/sh")));
        assert_eq!(first("no-such-program", folders()), None);
    }

    #[test]
    fn this_programs_folder_comes_before_path() {
        let own = std::env::current_exe().expect("is known");
        let name = own.file_name().and_then(|name| name.to_str()).expect("is text");
        assert_eq!(beside(name), Some(own.clone()));
        assert!(beside("sh").is_some_and(|found| found.parent() != own.parent()));
    }
}
