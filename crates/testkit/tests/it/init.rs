//! `flifo init`: from nothing to pooled clients beside a real server, and back to nothing.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use backend::Address;
use bench::private_server::PrivateServer;
use testkit::client::Client;
use testkit::cluster::Cluster;
use testkit::flifo::program;
use testkit::mysql::{self, Mysql};
use testkit::need::Need;
use testkit::scene::wait_for;
use testkit::set_up::traces::{Served, State, broken, goes_on};
use testkit::set_up::trial::{MARIADB_LOGS, MYSQL_LOGS, Place, Trial, pools, prepare};
use testkit::set_up::{SetUp, said, user};

struct Scene {
    server: PrivateServer,
    set_up: SetUp,
}

impl Scene {
    /// A server at which this process's user (root: the system's user without rights) may do all.
    fn start() -> Self {
        Self::beside(PrivateServer::start_default().expect("a private server"))
    }

    fn beside(server: PrivateServer) -> Self {
        let own = user();
        let grant = format!(
            "CREATE USER IF NOT EXISTS `{own}`@localhost IDENTIFIED VIA unix_socket; \
             GRANT ALL ON *.* TO `{own}`@localhost WITH GRANT OPTION; \
             DROP USER IF EXISTS ''@localhost; \
             CREATE USER app@'%' IDENTIFIED BY 'app'"
        );
        // Of a replica that is read-only, they are its own.
        server.sql(&format!("SET sql_log_bin = 0; {grant}")).expect("they are created");
        let set_up = SetUp::beside(&server.socket(), program());
        Self { server, set_up }
    }

    fn places(&self) -> PathBuf {
        self.set_up.places()
    }

    fn init(&self, arguments: &[&str]) -> Output {
        self.set_up.init(arguments)
    }

    fn set_up(&self, more: &[&str]) -> Output {
        self.set_up.set_up(more)
    }

    fn accounts(&self) -> String {
        self.server.sql("SELECT COUNT(*) FROM mysql.user WHERE User='flifo'").unwrap()
    }
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
    let port = scene.set_up.listen().rsplit(':').next().unwrap().parse().unwrap();
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
fn beside_a_primary_and_a_replica_replication_goes_on_and_nothing_is_left() {
    let cluster = Cluster::replicated_with(1, &MARIADB_LOGS);
    let [primary, replica] = &cluster.servers[..] else { panic!("two servers were asked for") };
    let pairs: Vec<(&dyn Served, &dyn Served)> = vec![(primary, replica)];
    for (at, place) in [(replica, Place::Replica), (primary, Place::Primary)] {
        prepare(at);
        let logged = || at.sql("SELECT @@global.gtid_binlog_state").unwrap();
        let before = logged();
        Trial { at, socket: at.socket(), place, pairs: pairs.clone() }.run(program());
        assert!(logged() != before, "a primary's statements come to its replica");
    }
}

#[test]
fn beside_a_node_of_a_cluster_all_nodes_go_on_and_nothing_is_left() {
    let Some(cluster) = Cluster::clustered(2) else { return };
    let [one, other] = &cluster.servers[..] else { panic!("two nodes were asked for") };
    let pairs: Vec<(&dyn Served, &dyn Served)> = vec![(one, other), (other, one)];
    prepare(one);
    Trial { at: one, socket: one.socket(), place: Place::Node, pairs }.run(program());

    // Two Flifos have one account: the second one is told how.
    let [here, there] = [one, other].map(|it| SetUp::beside(&it.socket(), program()));
    let output = here.set_up(&["--yes"]);
    assert!(output.status.success(), "{}", said(&output));
    let output = there.set_up(&["--yes"]);
    assert!(said(&output).contains("another node"), "{}", said(&output));
    let password = readable(&there, &fs::read_to_string(here.places().join("password")).unwrap());
    let output = there.set_up(&["--yes", "--password-file", password.to_str().unwrap()]);
    assert!(output.status.success(), "{}", said(&output));
    let output = there.init(&["--undo"]);
    assert!(output.status.success(), "{}", said(&output));
    pools(&here);
    let output = here.init(&["--undo"]);
    assert!(output.status.success(), "{}", said(&output));
    let count = other.sql("SELECT COUNT(*) FROM mysql.user WHERE User='flifo'").unwrap();
    assert_eq!(count.trim(), "0");
}

#[test]
fn beside_mysql_replication_goes_on_and_nothing_is_left() {
    let program = match mysql::Program::find() {
        Ok(found) => found,
        Err(why) => {
            Need::Mysql.skip(&why.to_string());
            return;
        }
    };
    let servers = Mysql::replicated(&program, &MYSQL_LOGS);
    servers.iter().for_each(|server| prepare(server));
    let [primary, replica] = &servers;
    let pairs: Vec<(&dyn Served, &dyn Served)> = vec![(primary, replica)];
    for (at, place) in [(replica, Place::Replica), (primary, Place::Primary)] {
        Trial { at, socket: at.socket(), place, pairs: pairs.clone() }
            .run(testkit::flifo::program());
    }

    // A server that takes no writes at all.
    replica.sql(&["SET GLOBAL super_read_only = 1"]);
    let set_up = SetUp::beside(&replica.socket(), testkit::flifo::program());
    let before = State::of(replica);
    let output = set_up.set_up(&["--yes"]);
    for part in ["--super-read-only", "at its primary", "--password-file"] {
        assert!(said(&output).contains(part), "{part}: {}", said(&output));
    }
    let output = set_up.init(&["--undo"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(before.differences(&State::of(replica)), [""; 0]);
    // As it was told.
    let output = set_up.set_up(&["--dry-run"]);
    for statement in statements(&output, "by hand") {
        primary.sql(&[&statement]);
    }
    wait_for("the account", || {
        replica.ask("SELECT COUNT(*) FROM mysql.user WHERE User='flifo'").trim() == "1"
    });
    let password = readable(&set_up, "by hand\n");
    let output = set_up.set_up(&["--yes", "--password-file", password.to_str().unwrap()]);
    assert!(output.status.success(), "{}", said(&output));
    let output = set_up.init(&["--undo"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(broken(primary, replica), None);
}

/// A file of an administrator's, with a password.
fn readable(set_up: &SetUp, password: &str) -> PathBuf {
    let path = set_up.folder().join("by-hand");
    fs::write(&path, password).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    path
}

/// The statements that an administrator is told to run, with this password, as it stands between quotes.
fn statements(told: &Output, password: &str) -> Vec<String> {
    let told = said(told).replace('…', password);
    let is_one = |line: &&str| line.starts_with("CREATE USER") || line.starts_with("GRANT");
    told.lines()
        .map(str::trim)
        .filter(is_one)
        .map(|it| it.trim_end_matches(';').to_owned())
        .collect()
}

/// Whether the server takes the password that a set-up has written down.
fn takes_password(server: &PrivateServer, set_up: &SetUp) -> bool {
    let password = fs::read_to_string(set_up.places().join("password")).unwrap();
    let socket = Address::Unix(server.socket());
    Client::builder(socket, "flifo", password.trim()).connect().is_ok()
}

#[test]
fn a_replica_and_then_its_primary_can_be_set_up() {
    let cluster = Cluster::replicated_with(1, &MARIADB_LOGS);
    let [primary, replica] = &cluster.servers[..] else { panic!("two servers were asked for") };
    let [at_primary, at_replica] = [primary, replica].map(|server| {
        prepare(server);
        SetUp::beside(&server.socket(), program())
    });
    for set_up in [&at_replica, &at_primary] {
        let output = set_up.set_up(&["--yes"]);
        assert!(output.status.success(), "{}", said(&output));
    }
    goes_on(primary, replica);
    assert_eq!(broken(primary, replica), None);
    assert!(takes_password(primary, &at_primary) && takes_password(replica, &at_replica));
    for set_up in [&at_replica, &at_primary] {
        let output = set_up.init(&["--undo"]);
        assert!(output.status.success(), "{}", said(&output));
    }
    goes_on(primary, replica);
    assert_eq!(broken(primary, replica), None);

    // The account of the primary is there before the replica is set up; it is that one's.
    let output = at_primary.set_up(&["--yes"]);
    assert!(output.status.success(), "{}", said(&output));
    goes_on(primary, replica);
    let output = at_replica.set_up(&["--yes"]);
    for part in ["beside its primary", "--password-file"] {
        assert!(said(&output).contains(part), "{part}: {}", said(&output));
    }
    assert!(!said(&output).contains("--undo"), "nothing was done: {}", said(&output));
    let output = at_primary.init(&["--undo"]);
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn a_replica_that_does_not_tell_so_gets_no_transaction_of_its_own() {
    let cluster = Cluster::replicated_with(1, &MARIADB_LOGS);
    let [primary, replica] = &cluster.servers[..] else { panic!("two servers were asked for") };
    prepare(replica);
    let own = format!("`{}`@localhost", user());
    let rights = format!(
        "SET GLOBAL read_only = 0; SET sql_log_bin = 0; REVOKE ALL, GRANT OPTION FROM {own}; \
         GRANT SELECT, CREATE USER, BINLOG ADMIN ON *.* TO {own} WITH GRANT OPTION"
    );
    replica.sql(&rights).unwrap();
    let set_up = SetUp::beside(&replica.socket(), program());
    let output = set_up.set_up(&["--yes"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("this user may not ask"), "{}", said(&output));
    assert_eq!(broken(primary, replica), None);
    let output = set_up.init(&["--undo"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(broken(primary, replica), None);
}

#[test]
fn a_server_that_is_down_when_all_is_taken_back_keeps_the_rest_for_later() {
    let server = PrivateServer::builder().argument("--skip-networking").start();
    let mut scene = Scene::beside(server.expect("a private server"));
    let output = scene.set_up(&["--yes"]);
    assert!(output.status.success(), "{}", said(&output));
    pools(&scene.set_up);
    scene.server.stop().unwrap();
    let output = scene.init(&["--undo"]);
    assert_eq!(output.status.code(), Some(69), "{}", said(&output));
    assert!(said(&output).contains("DROP USER IF EXISTS 'flifo'@'localhost'"), "{}", said(&output));
    scene.server.start().unwrap();
    let output = scene.init(&["--undo"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(!scene.places().exists() && scene.accounts().trim() == "0");
}

#[test]
fn what_has_failed_half_way_is_taken_back_as_well() {
    let scene = Scene::start();
    // Flifo cannot start: the port is taken.
    let _taken = std::net::TcpListener::bind(scene.set_up.listen()).unwrap();
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
    let own = user();
    scene.server.sql(&format!("REVOKE ALL, GRANT OPTION FROM `{own}`@localhost")).unwrap();
    let output = scene.set_up(&["--yes"]);
    assert_eq!(output.status.code(), Some(69), "{}", said(&output));
    assert!(
        said(&output).contains("CREATE USER IF NOT EXISTS 'flifo'@'localhost'"),
        "{}",
        said(&output)
    );
    assert!(!scene.places().exists());
    assert!(said(&output).contains("If the server is a replica"), "{}", said(&output));
    // Its administrator runs that, with a password of its own.
    let statements = statements(&output, r#" it''s \\ by "hand" "#);
    assert_eq!(statements.len(), 8, "{}", said(&output));
    for statement in statements {
        scene.server.sql(&statement).unwrap();
    }
    let password = readable(&scene.set_up, " it's \\ by \"hand\" \n");
    let output = scene.set_up(&["--yes", "--password-file", password.to_str().unwrap()]);
    assert!(output.status.success(), "{}", said(&output));
    let output = scene.init(&["--undo"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(scene.accounts().trim(), "1", "it was not this that made the account");
}
