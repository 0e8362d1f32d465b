//! Whether a socket that was found, and that no user has named, may be what it seems to be.
//!
//! While the server is down, any user can listen at `/tmp/mysql.sock` and wait for a client to log in. So a socket
//! counts only if its owner could read the server's data anyway: root, the user that servers run as, or Flifo's own.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::under;

/// The users that may own a server's socket.
#[derive(Debug)]
pub(super) struct Owners(Vec<u32>);

impl Owners {
    /// Those of the machine under this root.
    pub(super) fn of(root: &Path) -> Self {
        let users = fs::read_to_string(under(root, Path::new("/etc/passwd"))).unwrap_or_default();
        // A process's folder belongs to the user that it runs as.
        let own = fs::metadata("/proc/self").ok().map(|folder| folder.uid());
        Self(server_users(&users).chain(own).chain([ROOT]).collect())
    }

    /// Refuses a socket of any other user. A socket that is not there has no owner, and is not refused.
    pub(super) fn check(&self, root: &Path, socket: &Path) -> Result<(), String> {
        match fs::metadata(under(root, socket)).map(|metadata| metadata.uid()) {
            Ok(owner) if !self.0.contains(&owner) => Err(format!(
                "not tried: it belongs to user {owner}, which is not known to run a database \
                 server; --server uses it all the same"
            )),
            _ => Ok(()),
        }
    }
}

/// The users that servers run as, from the lines of `/etc/passwd`: `name:password:uid:…`.
fn server_users(passwd: &str) -> impl Iterator<Item = u32> {
    passwd.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let uid = fields.nth(1)?;
        ["mysql", "mariadb"].contains(&name).then(|| uid.parse().ok())?
    })
}

const ROOT: u32 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_servers_users_root_and_oneself_are_trusted() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nmysql:x:101:104::/nonexistent:/bin/false\n\
                      mysqlfan:x:1000:1000::/home/mysqlfan:/bin/sh\nmariadb:x:x\nnonsense\n";
        let users: Vec<_> = server_users(passwd).collect();
        assert_eq!(users, [101]);

        let folder = tempfile::tempdir().expect("makes");
        fs::write(folder.path().join("a.sock"), "").expect("writes");
        let own = Owners::of(folder.path());
        assert_eq!(own.check(folder.path(), Path::new("/a.sock")), Ok(()));
        assert_eq!(own.check(folder.path(), Path::new("/missing.sock")), Ok(()));
        let nobody = Owners(vec![u32::MAX]);
        let why = nobody.check(folder.path(), Path::new("/a.sock")).expect_err("is not trusted");
        assert!(why.contains("which is not known to run a database server"), "{why}");
    }
}
