//! Discovery in folders made like a machine's root.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use tempfile::TempDir;

use super::*;

/// A machine of files and sockets, in a folder of its own.
struct Machine {
    root: TempDir,
    sockets: Vec<UnixListener>,
}

impl Machine {
    fn new() -> Self {
        Self { root: tempfile::tempdir().expect("makes"), sockets: Vec::new() }
    }

    fn path(&self, path: &str) -> PathBuf {
        let path = under(self.root.path(), Path::new(path));
        fs::create_dir_all(path.parent().expect("has one")).expect("makes");
        path
    }

    fn file(self, path: &str, text: &str) -> Self {
        fs::write(self.path(path), text).expect("writes");
        self
    }

    fn symlink(self, path: &str, target: &str) -> Self {
        symlink(target, self.path(path)).expect("links");
        self
    }

    fn socket(mut self, path: &str) -> Self {
        self.sockets.push(UnixListener::bind(self.path(path)).expect("binds"));
        self
    }

    /// A process that holds a socket.
    fn process(self, pid: &str, name: &str, inode: u64) -> Self {
        self.file(&format!("/proc/{pid}/comm"), &format!("{name}\n"))
            .symlink(&format!("/proc/{pid}/fd/7"), &format!("socket:[{inode}]"))
    }

    /// What is found while these addresses answer.
    fn find(&self, own: &[Listen], answering: &[&str]) -> String {
        let probe = |address: &Address| match answering.contains(&address.to_string().as_str()) {
            true => Ok("MariaDB 10.11.19".to_owned()),
            false => Err("it does not answer".to_owned()),
        };
        find(self.root.path(), own, probe).to_string()
    }
}

/// A line of `/proc/net/unix`.
fn listening(inode: u64, path: &str) -> String {
    format!("0000000000000000: 00000002 00000000 00010000 0001 01 {inode} {path}\n")
}

const NET_UNIX: &str = "Num       RefCount Protocol Flags    Type St Inode Path\n";
const NOTHING: &str = "no server answers on this machine; start it, or name another one with \
                       --server or server.address\nlooked at 127.0.0.1:3306 (the default port): \
                       it does not answer";

#[test]
fn an_empty_machine_has_only_the_default_port() {
    let machine = Machine::new();
    assert_eq!(machine.find(&[], &[]), NOTHING);
    assert_eq!(
        machine.find(&[], &["127.0.0.1:3306"]),
        "found 127.0.0.1:3306 (the default port): MariaDB 10.11.19"
    );
}

#[test]
fn one_server_found_in_many_ways_is_one_candidate() {
    let debian = "[client-server]\nsocket = /run/mysqld/mysqld.sock\n\
                  !includedir /etc/mysql/mariadb.conf.d/\n";
    let net_unix = format!("{NET_UNIX}{}", listening(4711, "/run/mysqld/mysqld.sock"));
    let machine = Machine::new()
        .socket("/run/mysqld/mysqld.sock")
        .symlink("/var/run", "../run")
        .file("/etc/mysql/my.cnf", debian)
        .file("/etc/mysql/mariadb.conf.d/50-server.cnf", "[mysqld]\nbind-address = 127.0.0.1\n")
        .file("/proc/net/unix", &net_unix)
        .process("812", "mariadbd", 4711);
    assert_eq!(
        machine.find(&[], &["/run/mysqld/mysqld.sock", "127.0.0.1:3306"]),
        "found /run/mysqld/mysqld.sock (a usual place; socket of [client-server] in \
         /etc/mysql/my.cnf:2; mariadbd (process 812) listens there): MariaDB 10.11.19\n\
         not used: 127.0.0.1:3306 (the default port): MariaDB 10.11.19; --server takes it instead"
    );
}

#[test]
fn configured_places_are_told_even_if_nobody_is_there() {
    let machine = Machine::new()
        .file(
            "/etc/my.cnf",
            "# a comment\n[mysqld]\nport=3307 # not 3306\ndatadir = /srv/db\nsocket='my.sock'\n\
             [client]\nsocket=/srv/client.sock\n!include /etc/more.cnf\n[mysqldump]\nport=9\n",
        )
        .file("/etc/more.cnf", "[mysqld2]\nsocket = /srv/two.sock\nport = 3308\n");
    assert_eq!(
        machine.find(&[], &["127.0.0.1:3308"]),
        "found 127.0.0.1:3308 (port of [mysqld2] in /etc/more.cnf:3): MariaDB 10.11.19\n\
         looked at /srv/db/my.sock (socket of [mysqld] in /etc/my.cnf:5): it does not answer\n\
         looked at /srv/two.sock (socket of [mysqld2] in /etc/more.cnf:2): it does not answer\n\
         looked at /srv/client.sock (socket of [client] in /etc/my.cnf:7): it does not answer\n\
         looked at 127.0.0.1:3307 (port of [mysqld] in /etc/my.cnf:3): it does not answer\n\
         looked at 127.0.0.1:3306 (the default port): it does not answer"
    );
}

#[test]
fn the_last_value_counts_and_networking_may_be_off() {
    let machine = Machine::new()
        .file("/etc/my.cnf", "[mysqld]\nport=3307\nskip-networking\n[server]\nport=3309\n")
        .file("/etc/mysql/my.cnf", "[mariadb-10.11]\nskip_networking = OFF\n");
    let found = machine.find(&[], &["127.0.0.1:3309"]);
    assert!(found.starts_with("found 127.0.0.1:3309 (port of [server]"), "{found}");
    assert!(!found.contains("3307"), "{found}");
    let machine = Machine::new().file("/etc/my.cnf", "[mysqld]\nport=3307\nskip-networking\n");
    assert!(!machine.find(&[], &[]).contains("3307"));
}

#[test]
fn sockets_of_servers_are_known_by_their_process_or_else_by_name() {
    let net_unix = [
        NET_UNIX,
        &listening(1, "/srv/a.sock"),
        &listening(2, "/srv/with space/mysql.sock"),
        &listening(3, "/srv/haproxy-mysql.sock"),
        &listening(4, "/srv/mysqlx.sock"),
        &listening(5, "@/srv/mysql-abstract"),
        &listening(6, "/srv/gone-mysql.sock"),
        "0000000000000000: 00000003 00000000 00000000 0001 03 7 /srv/mysql-connected.sock\n",
        "0000000000000000: 00000003 00000000 00010000 0005 01 8 /srv/mysql-packets.sock\n",
        "nonsense\n",
    ]
    .concat();
    let machine = Machine::new()
        .file("/proc/net/unix", &net_unix)
        .process("1", "mysqld", 1)
        .process("3", "haproxy", 3)
        .process("self", "mysqld", 5)
        .socket("/srv/a.sock")
        .socket("/srv/with space/mysql.sock")
        .socket("/srv/haproxy-mysql.sock")
        .socket("/srv/mysqlx.sock")
        .socket("/srv/mysql-connected.sock")
        .socket("/srv/mysql-packets.sock");
    assert_eq!(
        machine.find(&[], &["/srv/with space/mysql.sock"]),
        "found /srv/with space/mysql.sock (listening, and named like a server's socket): MariaDB \
         10.11.19\nlooked at /srv/a.sock (mysqld (process 1) listens there): it does not \
         answer\nlooked at 127.0.0.1:3306 (the default port): it does not answer"
    );
}

#[test]
fn flifos_own_listeners_are_no_servers() {
    let machine = Machine::new().socket("/run/mysqld/mysqld.sock").symlink("/var/run", "../run");
    let all = ["/run/mysqld/mysqld.sock", "127.0.0.1:3306"];
    let own = |listen: &[&str]| -> Vec<Listen> {
        let listen = listen.iter().map(|text| match text.parse() {
            Ok(address) => Listen::Tcp(address),
            Err(_) => Listen::Unix(text.into()),
        });
        listen.collect()
    };
    for listen in ["0.0.0.0:3306", "127.0.0.1:3306"] {
        let found = machine.find(&own(&["/var/run/mysqld/mysqld.sock", listen]), &all);
        assert!(found.starts_with("no server answers"), "{found}");
        assert!(!found.contains("looked at"), "{found}");
    }
    let found = machine.find(&own(&["/run/other.sock", "192.0.2.1:3306", "[::]:3306"]), &all);
    assert!(found.starts_with("found /run/mysqld/mysqld.sock"), "{found}");
    assert!(found.contains("not used: 127.0.0.1:3306"), "{found}");
}

#[test]
fn a_maze_of_files_ends() {
    let machine = Machine::new()
        .file("/etc/my.cnf", "!includedir /etc/d\n!include /etc/my.cnf\n[mysqld]\nport=3310\n")
        .file("/etc/d/a.cnf", "!includedir /etc/d\n!includedir /etc/d\n")
        .file("/etc/d/b.cnf", "!include /etc/my.cnf\n!include\n!includedir\n[\n[mysqld\n=\nport\n")
        .file("/etc/d/c.txt", "[mysqld]\nport=3311\n");
    let found = machine.find(&[], &[]);
    assert!(found.contains("127.0.0.1:3310") && !found.contains("3311"), "{found}");
}
