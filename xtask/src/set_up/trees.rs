//! Servers of other Debian releases, unpacked into a folder and run there by their own loader and libraries: nothing of
//! this machine's is touched.
//!
//! Owns which packages, and the scripts that start their programs as this machine's are started. Needs mmdebstrap and a
//! mirror that apt can reach. Invariant: a tree that is there is whole.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bench::interrupt::Interrupt;

use crate::errand;
use crate::package::MMDEBSTRAP;

/// What is unpacked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tree {
    suite: &'static str,
    packages: &'static str,
}

/// MariaDB of Debian 13.
pub(super) const MARIADB: Tree =
    Tree { suite: "trixie", packages: "mariadb-server-core,mariadb-client-core" };
/// MySQL's newest long-term version, which no stable release of Debian has.
pub(super) const MYSQL: Tree = Tree { suite: "sid", packages: "mysql-server-core" };

impl Tree {
    /// The folder of its programs: below `kept`, where it stays, or is made.
    pub(super) fn programs(self, kept: &Path, interrupt: &Interrupt) -> Result<PathBuf> {
        let place = kept.join(format!("{}-{}", self.suite, self.packages.replace(',', "-")));
        if !place.exists() {
            eprintln!("unpacking {} of {} (this may take minutes)", self.packages, self.suite);
            let new = tempfile::tempdir_in(kept)?;
            let tree = new.path().join("tree");
            let mut command = Command::new(MMDEBSTRAP.find()?);
            command.args(["--variant=extract", "--quiet"]);
            // A mirror may be weeks behind: what is unpacked serves tests alone.
            command.arg("--aptopt=Acquire::Check-Valid-Until \"false\"");
            command.arg(format!("--include={}", self.packages)).arg(self.suite).arg(&tree);
            errand::run("mmdebstrap", command, new.path(), MINUTES, interrupt, || {})?;
            fs::rename(&tree, &place).context("cannot keep the tree")?;
        }
        let place = place.canonicalize()?;
        let programs = place.join("programs");
        fs::create_dir_all(&programs)?;
        for (name, text) in scripts(&place)? {
            let path = programs.join(name);
            fs::write(&path, text)?;
            fs::set_permissions(&path, Permissions::from_mode(0o755))?;
        }
        Ok(programs)
    }
}

/// Each program's first argument says where its options are, and has to stay the first.
fn scripts(tree: &Path) -> Result<Vec<(&'static str, String)>> {
    let usr = tree.join("usr");
    let usr = usr.to_str().context("a tree's name is UTF-8")?;
    let target = format!("{}-linux-gnu", std::env::consts::ARCH);
    let loaders = ["lib64/ld-linux-x86-64.so.2", "lib/ld-linux-aarch64.so.1"];
    let loader = loaders.iter().map(|name| format!("{usr}/{name}"));
    let loader = loader.into_iter().find(|path| Path::new(path).exists());
    let loader = loader.with_context(|| format!("{usr} has no loader of programs"))?;
    let libraries = format!("{usr}/lib/{target}:{usr}/lib/mysql/private");
    let share = if Path::new(usr).join("share/mariadb").exists() { "mariadb" } else { "mysql" };
    let plugins = ["lib/mysql/plugin", "lib/mariadb/plugin"].map(|name| format!("{usr}/{name}"));
    let plugins = plugins.into_iter().find(|path| Path::new(path).exists()).unwrap_or_default();
    let plugins = if plugins.is_empty() { plugins } else { format!(" --plugin-dir={plugins}") };
    let server = |program: &str| {
        format!(
            "#!/bin/sh\nfirst=$1\nshift\nexport OPENSSL_MODULES={usr}/lib/{target}/ossl-modules\n\
             exec {loader} --library-path {libraries} {usr}/sbin/{program} \"$first\" --basedir={usr} \
             --lc-messages-dir={usr}/share/{share} --character-sets-dir={usr}/share/{share}/charsets{plugins} \"$@\"\n"
        )
    };
    let mut all = Vec::new();
    for program in ["mariadbd", "mysqld"] {
        let path = Path::new(usr).join("sbin").join(program);
        if path.exists() && !path.is_symlink() {
            all.push((program, server(program)));
        }
    }
    ensure!(!all.is_empty(), "{usr}/sbin has no server");
    if share == "mariadb" {
        // The release's own script would run the server without the loader.
        let tables = TABLES.map(|name| format!("{usr}/share/mariadb/{name}.sql")).join(" ");
        all.push((
            "mariadb-install-db",
            format!(
                "#!/bin/sh\nset -eu\nmkdir -p data\n\
                 {{ printf '%s\\n' 'CREATE DATABASE mysql;' 'USE mysql;' \"SET @auth_root_socket = 'root';\"; cat {tables}; }} |\n\
                 \"$(dirname \"$0\")/mariadbd\" \"$1\" --bootstrap --enforce-storage-engine= --init-file=\n"
            ),
        ));
    }
    Ok(all)
}

/// What the server's tables are made by, in this order.
const TABLES: [&str; 6] = [
    "mariadb_system_tables",
    "mariadb_performance_tables",
    "mariadb_system_tables_data",
    "fill_help_tables",
    "maria_add_gis_sp_bootstrap",
    "mariadb_sys_schema",
];

const MINUTES: Duration = Duration::from_mins(20);
