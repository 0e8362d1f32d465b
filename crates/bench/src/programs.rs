//! Finds the programs that the benchmark starts, or says which package brings them.
//!
//! Does not install anything.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

/// A program that is not part of Flifo, and how to get it.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    pub name: &'static str,
    pub what: &'static str,
    pub package: &'static str,
}

pub const MARIADBD: Program =
    Program { name: "mariadbd", what: "the MariaDB server", package: "mariadb-server-core" };
pub const INSTALL_DB: Program = Program {
    name: "mariadb-install-db",
    what: "which makes MariaDB's system tables",
    package: "mariadb-server-core",
};
pub const MARIADB: Program =
    Program { name: "mariadb", what: "the MariaDB client", package: "mariadb-client-core" };
pub const SYSBENCH: Program =
    Program { name: "sysbench", what: "the load generator", package: "sysbench" };
pub const HAPROXY: Program =
    Program { name: "haproxy", what: "the proxy to compare with", package: "haproxy" };

impl Program {
    /// Looks along PATH, and then where servers are often installed outside of a user's PATH.
    pub fn find(self) -> Result<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path).chain(BEYOND_PATH.map(PathBuf::from));
        self.find_in(folders)
    }

    fn find_in(self, folders: impl Iterator<Item = PathBuf>) -> Result<PathBuf> {
        let candidate = folders.map(|folder| folder.join(self.name)).find(|path| is_program(path));
        let Some(found) = candidate else {
            let Self { name, what, package } = self;
            bail!(
                "{name} ({what}) is neither in PATH nor in {}; install it, for example with \
                 `apt-get install {package}`",
                BEYOND_PATH.join(", "),
            );
        };
        Ok(found)
    }
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

const BEYOND_PATH: [&str; 4] = ["/usr/sbin", "/usr/local/sbin", "/usr/libexec", "/sbin"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_names_its_package() {
        let error = SYSBENCH.find_in(std::iter::empty()).expect_err("nowhere to look");
        assert!(error.to_string().contains("apt-get install sysbench"), "{error}");
    }

    #[test]
    fn files_that_cannot_run_are_passed_over() {
        let folder = tempfile::tempdir().expect("makes");
        std::fs::write(folder.path().join("sh"), "").expect("writes");
        let shell = Program { name: "sh", what: "a shell", package: "dash" };
        let folders = [folder.path().to_owned(), PathBuf::from("/bin")];
        assert_eq!(shell.find_in(folders.into_iter()).expect("finds"), Path::new("/bin/sh"));
    }
}
