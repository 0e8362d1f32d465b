//! `flifo init`: from nothing to pooled clients beside a real server, and back to nothing.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use backend::Address;
use bench::private_server::{PrivateServer, free_port};
use testkit::client::Client;
use testkit::cluster::Cluster;
use testkit::flifo::program;
use testkit::scene::wait_for;

/// A machine's user without rights. As whom root runs what it would not have changed on the machine.
const NOBODY: &str = "65534";

struct Scene {
    server: PrivateServer,
    folder: tempfile::TempDir,
    program: PathBuf,
    listen: String,
}

impl Scene {
    /// A server at which this process's user (root: the system's user without rights) may do all.
    fn start() -> Self {
        Self::beside(PrivateServer::start_default().expect("a private server"))
    }

    fn beside(server: PrivateServer) -> Self {
        let own = if is_root() { "nobody".to_owned() } else { whoami() };
        let grant = format!(
            "CREATE USER IF NOT EXISTS `{own}`@localhost IDENTIFIED VIA unix_socket; \
             GRANT ALL ON *.* TO `{own}`@localhost WITH GRANT OPTION; \
             DROP USER IF EXISTS ''@localhost; \
             CREATE USER app@'%' IDENTIFIED BY 'app'"
        );
        // Of a replica that is read-only, they are its own.
        server.sql(&format!("SET sql_log_bin = 0; {grant}")).expect("they are created");
        // Its socket is to be reached by another user.
        fs::set_permissions(server.folder(), Permissions::from_mode(0o755)).unwrap();
        let folder = tempfile::tempdir().expect("a folder");
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        let copy = folder.path().join("flifo");
        // By another process: a descriptor of this one, open for writing, would go to the children that other tests start
        // at the same time, and a program that is written cannot be started.
        let copied = Command::new("cp").arg(program()).arg(&copy).status();
        assert!(copied.is_ok_and(|status| status.success()), "a copy of the program");
        let listen = format!("127.0.0.1:{}", free_port().unwrap());
        Self { server, folder, program: copy, listen }
    }

    fn places(&self) -> PathBuf {
        self.folder.path().join("set-up")
    }

    fn init(&self, arguments: &[&str]) -> Output {
        let mut command = match is_root() {
            true => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]);
                command.arg(&self.program);
                command
            }
            false => Command::new(&self.program),
        };
        command.arg("init").arg("--folder").arg(self.places()).args(arguments);
        command.output().expect("it runs")
    }

    fn set_up(&self, more: &[&str]) -> Output {
        let socket = self.server.socket();
        let ports =
            [free_port().unwrap(), free_port().unwrap()].map(|it| format!("127.0.0.1:{it}"));
        let server = ["--server", socket.to_str().unwrap(), "--listen", &self.listen];
        let others = ["--console", &ports[0], "--http", &ports[1]];
        self.init(&[&server, &others, more].concat())
    }

    fn accounts(&self) -> String {
        self.server.sql("SELECT COUNT(*) FROM mysql.user WHERE User='flifo'").unwrap()
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn whoami() -> String {
    let output = Command::new("id").arg("-un").output().expect("it runs");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

#[test]
fn what_is_set_up_pools_at_once_and_leaves_nothing_when_taken_back() {
    let scene = Scene::start();
    let output = scene.set_up(&["--dry-run"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("GRANT SELECT ON mysql.global_priv"), "{}", said(&output));
    assert!(!scene.places().exists() && scene.accounts().trim() == "0", "nothing is done");

    // Of a method that the password cannot vouch by, to clients of other machines.
    let pam = "CREATE USER clerk@'%' IDENTIFIED BY 'x'; \
               UPDATE mysql.global_priv SET Priv=JSON_SET(Priv,'$.plugin','pam') WHERE User='clerk'";
    scene.server.sql(pam).unwrap();
    assert!(!said(&output).contains("clerk"), "{}", said(&output));
    let socket = scene.server.socket();
    let open = ["--server", socket.to_str().unwrap(), "--listen", "0.0.0.0:1", "--dry-run"];
    let output = scene.init(&open);
    assert!(said(&output).contains("clerk (pam)"), "{}", said(&output));
    assert!(said(&output).contains("tls.cert"), "{}", said(&output));

    // No terminal is there to say yes on.
    let output = scene.set_up(&[]);
    assert_eq!(output.status.code(), Some(64), "{}", said(&output));
    assert!(!scene.places().exists());

    let output = scene.set_up(&["--yes"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(scene.accounts().trim(), "1");
    let port = scene.listen.rsplit(':').next().unwrap().parse().unwrap();
    let address = Address::Tcp { host: "127.0.0.1".to_owned(), port };
    let mut client =
        Client::builder(address, "app", "app").connect().expect("a user of the server");
    let number: u64 = client.query("SELECT CONNECTION_ID()").unwrap()[0][0].parse().unwrap();
    assert!(number >= 1 << 30, "it is pooled");
    let rights = scene.server.sql("SHOW GRANTS FOR flifo@localhost").unwrap();
    assert!(!rights.contains("GRANT OPTION"), "{rights}");
    let granted = rights.lines().filter(|line| !line.starts_with("GRANT USAGE"));
    assert!(
        granted.clone().count() == 7
            && granted.clone().all(|it| it.contains("GRANT SELECT ON `mysql`.")),
        "{rights}"
    );
    for secret in ["password", "flifo.toml"] {
        let mode = fs::metadata(scene.places().join(secret)).unwrap().permissions().mode();
        assert_eq!(mode & 0o007, 0, "{secret}: {mode:o}");
    }

    // Twice is once too often.
    let output = scene.set_up(&["--yes"]);
    assert!(said(&output).contains("is there already"), "{}", said(&output));

    drop(client);
    let output = scene.init(&["--undo"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(!scene.places().exists() && scene.accounts().trim() == "0", "{}", said(&output));
    let output = scene.init(&["--undo"]);
    assert!(said(&output).contains("nothing to take back"), "{}", said(&output));
}

#[test]
fn a_replica_goes_on_and_no_log_has_the_password() {
    let cluster = Cluster::replicated_with(1, &["--gtid-strict-mode=1", "--general-log=1"]);
    let mut servers = cluster.servers;
    let replica = Scene::beside(servers.pop().expect("two servers"));
    let primary = Scene::beside(servers.pop().expect("two servers"));
    for (scene, is_replica) in [(&replica, true), (&primary, false)] {
        let logged = || scene.server.sql("SELECT @@global.gtid_binlog_state").unwrap();
        let before = logged();
        let output = scene.set_up(&["--yes"]);
        assert!(output.status.success(), "{}", said(&output));
        let told = "This server is a replica of 127.0.0.1";
        assert_eq!(said(&output).contains(told), is_replica, "{}", said(&output));
        assert_eq!(logged() == before, is_replica, "only a replica writes nothing down");
        let password = fs::read_to_string(scene.places().join("password")).unwrap();
        let mut grep = Command::new("grep");
        grep.args(["-r", "-l", password.trim()]).arg(scene.server.folder());
        let found = grep.output().expect("it runs").stdout;
        assert_eq!(String::from_utf8_lossy(&found), "", "no file of the server has it");
        let output = scene.init(&["--undo"]);
        assert!(output.status.success() && scene.accounts().trim() == "0", "{}", said(&output));
        primary.server.sql("CREATE OR REPLACE TABLE mysql.seen (id INT)").expect("it writes");
        primary.server.sql(&format!("INSERT INTO mysql.seen VALUES ({is_replica})")).unwrap();
        let there = format!("SELECT COUNT(*) FROM mysql.seen WHERE id = {is_replica}");
        wait_for("the replica to go on", || {
            replica.server.sql(&there).is_ok_and(|count| count.trim() == "1")
        });
    }
}

#[test]
fn what_has_failed_half_way_is_taken_back_as_well() {
    let scene = Scene::start();
    // Flifo cannot start: the port is taken.
    let _taken = std::net::TcpListener::bind(&scene.listen).unwrap();
    // The trial is given up when the program has ended.
    let output = scene.set_up(&["--yes"]);
    assert_eq!(output.status.code(), Some(69), "{}", said(&output));
    assert!(said(&output).contains("flifo init --undo"), "{}", said(&output));
    let output = scene.init(&["--undo"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(!Path::exists(&scene.places()) && scene.accounts().trim() == "0");
}

#[test]
fn a_user_who_may_not_make_accounts_is_told_what_to_run() {
    let scene = Scene::start();
    let own = if is_root() { "nobody".to_owned() } else { whoami() };
    scene.server.sql(&format!("REVOKE ALL, GRANT OPTION FROM `{own}`@localhost")).unwrap();
    let output = scene.set_up(&["--yes"]);
    assert_eq!(output.status.code(), Some(69), "{}", said(&output));
    assert!(said(&output).contains("CREATE USER 'flifo'@'localhost'"), "{}", said(&output));
    assert!(!scene.places().exists());
    // Its administrator runs that, with a password of its own.
    let told = said(&output).replace('…', "by hand");
    let is_one = |line: &&str| line.starts_with("CREATE USER") || line.starts_with("GRANT");
    let statements: Vec<_> = told.lines().map(str::trim).filter(is_one).collect();
    assert_eq!(statements.len(), 8, "{told}");
    for statement in statements {
        scene.server.sql(statement).unwrap();
    }
    let password = scene.folder.path().join("by-hand");
    fs::write(&password, "by hand\n").unwrap();
    fs::set_permissions(&password, Permissions::from_mode(0o644)).unwrap();
    let output = scene.set_up(&["--yes", "--password-file", password.to_str().unwrap()]);
    assert!(output.status.success(), "{}", said(&output));
    let output = scene.init(&["--undo"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(scene.accounts().trim(), "1", "it was not this that made the account");
}
