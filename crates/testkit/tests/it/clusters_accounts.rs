//! Two clusters with accounts of the same names, of which `server.accounts_user` reads the first one's: clients are held
//! to what the cluster says that they are in, be it their user's own or one that they come to.

use std::net::IpAddr;

use backend::Address;
use bench::private_server::PrivateServer;
use testkit::client::{Builder, Client, Problem};
use testkit::flifo::Flifo;
use testkit::scene::wait_for;

/// At home in the cluster "far".
const FAR: [&str; 4] = ["free", "bound", "alien", "views"];

/// At home in the cluster "near".
const NEAR: [&str; 4] = ["guest", "stranger", "looker", "ruled"];

/// The cluster "near", whose accounts are read, and the cluster "far", which the users are led to.
struct Scene {
    flifo: Flifo,
    far: PrivateServer,
    _near: PrivateServer,
}

impl Scene {
    fn start() -> Self {
        let server = || PrivateServer::builder().start().expect("a private server");
        let (near, far) = (server(), server());
        near.sql(
            "CREATE USER reader IDENTIFIED BY 'look'; GRANT ALL ON *.* TO reader; \
             CREATE USER free IDENTIFIED BY 'one' REQUIRE SSL; CREATE USER bound IDENTIFIED BY 'one'; \
             CREATE USER views IDENTIFIED BY 'one'; CREATE USER guest IDENTIFIED BY 'one'; \
             CREATE USER stranger IDENTIFIED BY 'one'; CREATE USER looker IDENTIFIED BY 'one'; \
             CREATE USER ruled IDENTIFIED BY 'one'; CREATE DATABASE test; GRANT ALL ON test.* TO looker",
        )
        .expect("accounts of the first cluster");
        far.sql(
            "CREATE USER free IDENTIFIED BY 'one'; CREATE USER alien IDENTIFIED BY 'one'; \
             CREATE USER bound IDENTIFIED BY 'one' WITH MAX_USER_CONNECTIONS 1; \
             CREATE USER views IDENTIFIED BY 'one'; CREATE DATABASE d; GRANT ALL ON d.* TO views; \
             CREATE VIEW d.v AS SELECT LAST_INSERT_ID(5); \
             CREATE USER watch IDENTIFIED BY 'watch'; CREATE USER guest@'127.0.0.1' IDENTIFIED BY 'one'; \
             CREATE USER looker IDENTIFIED BY 'one'; CREATE USER ruled@'127.0.0.1' IDENTIFIED BY 'one'; \
             GRANT ALL ON d.* TO guest@'127.0.0.1'; GRANT ALL ON d.* TO looker; \
             GRANT ALL ON d.* TO ruled@'127.0.0.1'; CREATE TABLE d.t (id INT PRIMARY KEY)",
        )
        .expect("accounts of the second cluster");
        let user = |name: &str, more: &str| {
            format!("[[users]]\nname = \"{name}\"\npassword = \"one\"\n{more}")
        };
        let far_users = FAR.map(|name| user(name, "cluster = \"far\"\n"));
        let near_users = NEAR.map(|name| user(name, ""));
        let server = |name: &str, at: &PrivateServer| {
            let port = at.port();
            format!(
                "[[servers]]\nname = \"{name}1\"\naddress = \"127.0.0.1:{port}\"\ncluster = \"{name}\"\n"
            )
        };
        let flifo = Flifo::start(&format!(
            "workers = 1\n[server]\naccounts_user = \"reader\"\n\
             [[clusters]]\nname = \"near\"\n[[clusters]]\nname = \"far\"\nschemas = [\"d\"]\n\
             [clusters.checks]\nuser = \"watch\"\npassword = \"watch\"\n{}{}\
             [[users]]\nname = \"reader\"\npassword = \"look\"\n{}{}\
             [[rules]]\nname = \"there\"\nmatch = {{ user = \"ruled\", text_matches = \"far\" }}\n\
             route = {{ cluster = \"far\" }}\n",
            server("near", &near),
            server("far", &far),
            far_users.concat(),
            near_users.concat()
        ));
        Self { flifo, far, _near: near }
    }

    fn client(&self, user: &str) -> Result<Client, Problem> {
        self.builder(user).connect()
    }

    fn builder(&self, user: &str) -> Builder {
        let address = Address::Tcp { host: "127.0.0.1".to_owned(), port: self.flifo.port() };
        Client::builder(address, user, "one")
    }

    /// From a host for which the cluster "far" has no account.
    fn elsewhere(&self, user: &str) -> Builder {
        self.builder(user).from(IpAddr::from([127, 0, 0, 2]))
    }
}

/// The first cluster demands TLS of one, has no bound for another, and does not have the third.
#[test]
fn a_user_is_held_to_its_account_in_its_own_cluster() {
    let scene = Scene::start();
    for user in ["free", "alien"] {
        let mut client = scene.client(user).expect(user);
        let rows = client.query("SELECT CURRENT_USER()").expect("an answer");
        assert_eq!(rows, [[format!("{user}@%")]]);
    }
    let first = scene.client("bound").expect("the first client");
    let Err(Problem::Refused { code, .. }) = scene.client("bound") else {
        panic!("the account allows one connection")
    };
    assert_eq!(code, 1226);
    drop(first);
    // The first cluster's account of the same name stays.
    scene.far.sql("DROP USER free").expect("a drop");
    wait_for("a dropped account to be refused", || {
        matches!(scene.client("free"), Err(Problem::Refused { code: 1045, .. }))
    });
}

#[test]
fn definitions_of_the_first_cluster_do_not_count_in_another() {
    let scene = Scene::start();
    let mut client = scene.client("views").expect("a login");
    let mut other = scene.client("views").expect("a login");
    keeps_its_id(&mut client, &mut other, "d.v", "5");
}

/// What a view does that no server reports stays with its client.
fn keeps_its_id(client: &mut Client, other: &mut Client, view: &str, id: &str) {
    assert_eq!(client.query(&format!("SELECT * FROM {view}")).expect("a row"), [[id]]);
    assert_eq!(other.query("SELECT LAST_INSERT_ID()").expect("an answer"), [["0"]]);
    assert_eq!(client.query("SELECT LAST_INSERT_ID()").expect("an answer"), [[id]]);
}

fn code(answer: Result<Vec<Vec<String>>, Problem>) -> u16 {
    match answer {
        Err(Problem::Refused { code, .. }) => code,
        other => panic!("a refusal was expected: {other:?}"),
    }
}

/// A schema or a rule leads into another cluster: there is only what the client's own account has there.
#[test]
fn a_guest_is_held_to_its_account_there() {
    let scene = Scene::start();
    let mut guest = scene.client("guest").expect("a login");
    guest.query("USE d").expect("an account for this host");
    guest.query("INSERT INTO t VALUES (1)").expect("a write");

    let mut elsewhere = scene.elsewhere("guest").connect().expect("the first cluster lets it in");
    for _ in 0..2 {
        assert_eq!(code(elsewhere.query("USE d")), 1045, "no account for this host");
        assert_eq!(elsewhere.query("SELECT DATABASE()").expect("it is where it was"), [["NULL"]]);
    }
    let Err(Problem::Refused { code: at_login, .. }) =
        scene.elsewhere("guest").schema("d").connect()
    else {
        panic!("the schema is in the other cluster")
    };
    assert_eq!(at_login, 1045);
    // The server has accepted the schema for this user just now, and that is remembered.
    scene.builder("guest").schema("d").connect().expect("a login into the schema");
    scene.elsewhere("guest").schema("d").connect().map(|_| ()).expect_err("still no account");

    let mut stranger = scene.client("stranger").expect("a login");
    assert_eq!(code(stranger.query("USE d")), 1045, "no account at all");

    let far = scene.far.sql("SELECT @@server_uid").expect("a number of the server");
    let mut ruled = scene.client("ruled").expect("a login");
    let found = ruled.query("SELECT @@server_uid AS far").expect("an answer");
    assert!(far.contains(&found[0][0]), "{far} {found:?}");
    let mut elsewhere = scene.elsewhere("ruled").connect().expect("a login");
    assert_eq!(code(elsewhere.query("SELECT @@server_uid AS far")), 1045);
    assert_ne!(elsewhere.query("SELECT @@server_uid").expect("at home"), found);
}

#[test]
fn definitions_of_a_visited_cluster_count_there() {
    let scene = Scene::start();
    let guest = || scene.builder("looker").schema("d").connect().expect("a login");
    keeps_its_id(&mut guest(), &mut guest(), "v", "5");
    // A view that is made later is found as well, although its statement has not passed Flifo.
    scene.far.sql("CREATE VIEW d.w AS SELECT LAST_INSERT_ID(6)").expect("a view");
    let mut home = scene.client("looker").expect("a login");
    wait_for("the new view to be read", || {
        // Flifo looks sooner where it has seen a statement that may define something.
        home.query("CREATE OR REPLACE VIEW test.here AS SELECT 1").expect("a view");
        let (mut client, mut other) = (guest(), guest());
        assert_eq!(client.query("SELECT * FROM w").expect("a row"), [["6"]]);
        other.query("SELECT LAST_INSERT_ID()").expect("an answer") == [["0"]]
    });
    keeps_its_id(&mut guest(), &mut guest(), "w", "6");
}
