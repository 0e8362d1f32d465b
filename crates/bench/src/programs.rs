//! Finds the programs that the benchmark starts, or says how to get them.
//!
//! Does not install anything.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use sys::programs::{beside, first, path};

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
        self.find_in(path().into_iter().chain(BEYOND_PATH.map(PathBuf::from)))
    }

    fn find_in(self, folders: impl Iterator<Item = PathBuf>) -> Result<PathBuf> {
        let Some(found) = first(self.name, folders) else {
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

/// Flifo itself.
pub fn flifo() -> Result<PathBuf> {
    beside("flifo").context(
        "flifo is not installed: it is to be measured, and is neither beside flifo-bench nor in PATH. Put it into one of \
         these folders; `cargo build --release` builds it",
    )
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
}
