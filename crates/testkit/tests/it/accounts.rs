//! Accounts of a real MariaDB: its own plugins, and what it demands of a connection; TLS to it in
//! every mode.
//!
//! One server is shared by all tests. Its certificate is from an authority of the tests' own, and
//! bears the name `localhost` alone.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use backend::Address;
use backend::tls::{ForBackends, Identity, Mode};
use bench::folder::Folder;
use bench::private_server::PrivateServer;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use testkit::client::{Asked, Builder, Client, Problem};
use testkit::flifo::Flifo;
use wire::auth::Plugin;
use wire::auth::rsa::RsaEnd;

const PASSWORD: &str = "correct horse";

/// The server, and the files of its TLS.
struct Site {
    server: PrivateServer,
    folder: Folder,
}

impl Site {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

fn site() -> &'static Site {
    static SITE: OnceLock<Site> = OnceLock::new();
    SITE.get_or_init(|| {
        let folder = Folder::create().expect("a folder");
        make_certificates(folder.path());
        let file = |name: &str| folder.path().join(name).display().to_string();
        let mut server = PrivateServer::builder();
        if let Some(folder) = plugins() {
            server = server.argument(format!("--plugin-dir={}", folder.display()));
        }
        let server = server
            .argument("--plugin-load-add=auth_ed25519")
            .argument(format!("--ssl-ca={}", file("ca.pem")))
            .argument(format!("--ssl-cert={}", file("server.pem")))
            .argument(format!("--ssl-key={}", file("server-key.pem")))
            .start()
            .expect("a private server");
        let with = format!("mysql_native_password USING PASSWORD('{PASSWORD}')");
        server
            .sql(&format!(
                "CREATE USER ed@'%' IDENTIFIED VIA ed25519 USING PASSWORD('{PASSWORD}'); \
                 CREATE USER tls@'%' IDENTIFIED VIA {with} REQUIRE SSL; \
                 CREATE USER shown@'%' IDENTIFIED VIA {with} REQUIRE SUBJECT '/CN=Flifo'; \
                 CREATE USER x509@'%' IDENTIFIED VIA mysql_native_password USING '' REQUIRE X509; \
                 GRANT ALL ON *.* TO x509@'%'; \
                 CREATE USER either@'%' IDENTIFIED VIA {with} OR mysql_native_password REQUIRE X509; \
                 CREATE USER plain@'%' IDENTIFIED VIA {with}; \
                 CREATE USER blank@'%' IDENTIFIED VIA mysql_native_password USING ''; \
                 CREATE USER someone@'%' IDENTIFIED VIA unix_socket"
            ))
            .expect("accounts");
        Site { server, folder }
    })
}

/// Where `packaging/install-deps.sh` has put the plugin, if the server has none of its own.
fn plugins() -> Option<PathBuf> {
    let test = std::env::current_exe().expect("a path");
    let folder = test.ancestors().nth(3).expect("target/PROFILE/deps/TEST").join("plugins");
    folder.join("auth_ed25519.so").exists().then_some(folder)
}

/// An authority, and from it one certificate for the server and one for Flifo.
fn make_certificates(folder: &Path) {
    let write = |name: &str, text: String| std::fs::write(folder.join(name), text).expect("a file");
    let mut params = CertificateParams::new([]).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "the tests");
    let key = KeyPair::generate().expect("a key");
    write("ca.pem", params.self_signed(&key).expect("signed").pem());
    let issuer = Issuer::new(params, key);
    for (name, host, subject) in [("server", Some("localhost"), "server"), ("flifo", None, "Flifo")]
    {
        let hosts: Vec<String> = host.into_iter().map(str::to_owned).collect();
        let mut params = CertificateParams::new(hosts).expect("parameters");
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, subject);
        let key = KeyPair::generate().expect("a key");
        write(&format!("{name}.pem"), params.signed_by(&key, &issuer).expect("signed").pem());
        write(&format!("{name}-key.pem"), key.serialize_pem());
    }
}

/// Flifo before the server at this host of its port, with more in its section `[server]`.
fn by_tcp(host: &str, server: &str, rest: &str) -> Flifo {
    let port = site().server.port();
    Flifo::start(&format!("[server]\naddress = \"{host}:{port}\"\n{server}\n{rest}"))
}

fn by_socket(rest: &str) -> Flifo {
    Flifo::start(&format!("[server]\naddress = {:?}\n{rest}", site().server.socket()))
}

fn pooled(name: &str) -> String {
    format!("[[users]]\nname = {name:?}\npassword = {PASSWORD:?}\n")
}

fn client(flifo: &Flifo, user: &str, password: &str) -> Builder {
    let tcp = Address::Tcp { host: "127.0.0.1".to_owned(), port: flifo.port() };
    Client::builder(tcp, user, password).plugin(Plugin::NativePassword)
}

/// Logs in and asks for the user's name; on a shared backend, the server's answer to the login comes with this
/// statement.
fn ask(client: Builder) -> Result<String, Problem> {
    let mut rows = client.connect()?.query("SELECT SUBSTRING_INDEX(CURRENT_USER(), '@', 1)")?;
    Ok(rows.remove(0).remove(0))
}

fn refusal(asked: Result<String, Problem>) -> (u16, String) {
    match asked {
        Err(Problem::Refused { code, message, .. }) => (code, message),
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn ed25519_is_proved_pass_through_and_pooled() {
    for rest in [String::new(), pooled("nobody"), pooled("ed")] {
        for flifo in [by_socket(&rest), by_tcp("127.0.0.1", "", &rest)] {
            assert_eq!(ask(client(&flifo, "ed", PASSWORD)).unwrap(), "ed", "{rest}");
            let (code, message) = refusal(ask(client(&flifo, "ed", "wrong")));
            assert!(code == 1045 && message.contains("using password: YES"), "{message}");
            // The real client brings the plugin as a library of its own.
            let mut command = Command::new("mariadb");
            command.args(["--no-defaults", "-h127.0.0.1", "-N", "-B", "--skip-ssl", "-ued"]);
            command.arg(format!("-P{}", flifo.port())).arg(format!("-p{PASSWORD}"));
            let output = command.args(["-e", "SELECT 7"]).output().expect("the client runs");
            assert_eq!(String::from_utf8_lossy(&output.stdout), "7\n", "{output:?}");
        }
    }
}

/// What a MySQL stored for [`PASSWORD`].
const SHA2_HASH: &str = "0x2441243030352471732E7411466F357E21417919590E60286A77444A70632F38554B62693\
    6482E2F4D6747745358727678646A445364682E6E366944686B6353544638464B2F";

#[test]
fn the_hash_of_a_mysql_is_enough_for_an_account_of_a_mariadb() {
    let users = format!("[[users]]\nname = \"plain\"\npassword_hash = \"{SHA2_HASH}\"\n");
    let flifo = by_socket(&users);
    let other = RsaEnd::generate().expect("a key");
    let foreign = client(&flifo, "plain", PASSWORD).with_key(other.public_pem());
    let (code, message) = refusal(ask(foreign));
    assert!(code == 1045 && message.contains("ask for the public key"), "{message}");
    assert_eq!(refusal(ask(client(&flifo, "plain", "wrong"))).0, 1045);
    // Many at once, of whom none is remembered yet.
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(ask(client(&flifo, "plain", PASSWORD)).unwrap(), "plain"));
        }
    });
    let client = client(&flifo, "plain", PASSWORD).connect().unwrap();
    assert_eq!(client.asked.last(), Some(&Asked::Fast));
    let (_, log) = flifo.stop();
    assert!(!log.contains(PASSWORD), "{log}");
}

#[test]
fn who_flifo_is_lets_no_client_in() {
    let me = sys::process::user().1.expect("a name");
    let me = String::from_utf8(me).expect("in UTF-8");
    let create = format!("CREATE USER IF NOT EXISTS `{me}`@localhost IDENTIFIED VIA unix_socket");
    site().server.sql(&create).expect("an account");
    let lent = format!(
        "CREATE OR REPLACE USER lent@'%' IDENTIFIED VIA unix_socket AS '{me}'; \
         CREATE OR REPLACE USER or_lent@'%' IDENTIFIED VIA mysql_native_password USING 'invalid' OR unix_socket AS '{me}'"
    );
    site().server.sql(&lent).expect("accounts");
    // The server would let Flifo in as this user.
    let direct = Client::builder(Address::Unix(site().server.socket()), &me, "");
    assert_eq!(ask(direct.plugin(Plugin::NativePassword)).unwrap(), me);
    for rest in [String::new(), pooled("nobody")] {
        let flifo = by_socket(&rest);
        for password in ["", "guess"] {
            // On the server's socket, TLS does not hide whose process it is.
            for client in [client(&flifo, &me, password), client(&flifo, &me, password).tls()] {
                let (code, message) = refusal(ask(client));
                assert!(code == 1045 && message.contains("runs as"), "{code} {message}");
            }
            // The server says it of one whom its plugin does not know.
            assert_eq!(refusal(ask(client(&flifo, "someone", password))).0, 1698);
        }
        // Under another name, with a password that is not asked for, or is wrong.
        let refused = |user: &str, password: &str| refusal(ask(client(&flifo, user, password)));
        let denied = [refused("lent", ""), refused("or_lent", "x")];
        assert!(denied.iter().all(|(code, _)| matches!(code, 1045 | 1698)), "{denied:?}");
        // Other users are not concerned, not even one without a password.
        assert_eq!(ask(client(&flifo, "plain", PASSWORD)).unwrap(), "plain");
        assert_eq!(ask(client(&flifo, "blank", "")).unwrap(), "blank");
        // The tests run as root, or as the server does.
        let (_, log) = flifo.stop();
        let warning = "Flifo serves as a privileged user";
        assert_eq!(log.matches(warning).count(), 1, "{log}");
    }
}

#[test]
fn who_must_use_tls_needs_it_between_flifo_and_the_server() {
    for rest in [String::new(), pooled("tls")] {
        let secure = by_tcp("127.0.0.1", "tls = \"required\"", &rest);
        if rest.is_empty() {
            assert_eq!(refusal(ask(client(&secure, "tls", PASSWORD))).0, 3159);
        }
        assert_eq!(ask(client(&secure, "tls", PASSWORD).tls()).unwrap(), "tls");
        let plain = by_tcp("127.0.0.1", "tls = \"off\"", &rest);
        assert_eq!(refusal(ask(client(&plain, "tls", PASSWORD).tls())).0, 1045);
    }
}

#[test]
fn each_mode_of_tls_asks_for_what_it_says() {
    let ca = format!("tls_ca = {:?}", site().path("ca.pem"));
    let flifo_ca = |mode: &str, more: &str| format!("tls = \"{mode}\"\n{ca}\n{more}");
    let is_in_tls = "SELECT variable_value <> '' FROM information_schema.session_status \
        WHERE variable_name = 'Ssl_cipher'";
    for rest in [String::new(), pooled("plain")] {
        for (host, server, want) in [
            ("127.0.0.1", "tls = \"off\"".to_owned(), Some("0")),
            ("127.0.0.1", "tls = \"preferred\"".to_owned(), Some("1")),
            ("127.0.0.1", "tls = \"required\"".to_owned(), Some("1")),
            ("127.0.0.1", flifo_ca("verify-ca", ""), Some("1")),
            ("localhost", flifo_ca("verify-full", ""), Some("1")),
            ("127.0.0.1", flifo_ca("verify-full", "tls_server_name = \"localhost\""), Some("1")),
            // Bears another name; is not from whom the machine trusts.
            ("127.0.0.1", flifo_ca("verify-full", ""), None),
            ("localhost", "tls = \"verify-ca\"".to_owned(), None),
        ] {
            let case = format!("{host} {server} {rest}");
            let flifo = by_tcp(host, &server, &rest);
            let client = client(&flifo, "plain", PASSWORD);
            // A pass-through client has no more than it brings.
            let client = if rest.is_empty() { client.tls() } else { client }.connect();
            let asked = client.and_then(|mut client| client.query(is_in_tls));
            match want {
                Some(want) => assert_eq!(asked.unwrap(), [[want]], "{case}"),
                None => {
                    let (code, message) = refusal(asked.map(|rows| format!("{rows:?}")));
                    assert!(code == 1429 && message.contains("TLS"), "{case}: {message}");
                }
            }
        }
    }
}

#[test]
fn certificates_are_shown_on_both_legs() {
    let identity = format!(
        "tls = \"required\"\ntls_cert = {:?}\ntls_key = {:?}",
        site().path("flifo.pem"),
        site().path("flifo-key.pem")
    );
    for rest in [String::new(), pooled("shown")] {
        if rest.is_empty() {
            // It is Flifo's, not the client's.
            let shows = by_tcp("127.0.0.1", &identity, &rest);
            assert_eq!(refusal(ask(client(&shows, "shown", PASSWORD).tls())).0, 1045);
        }
        let hides = by_tcp("127.0.0.1", "tls = \"required\"", &rest);
        assert_eq!(refusal(ask(client(&hides, "shown", PASSWORD).tls())).0, 1045);
    }
    let clients_ca = format!("[tls]\nclient_ca = {:?}\n", site().path("ca.pem"));
    let flifo = by_tcp("127.0.0.1", "", &clients_ca);
    let mut tls = ForBackends { mode: Mode::Required, ..ForBackends::default() };
    let refused = ask(client(&flifo, "plain", PASSWORD).tls_with(&tls));
    assert!(refused.is_err(), "no certificate was shown");
    tls.identity =
        Some(Identity { certificate: site().path("flifo.pem"), key: site().path("flifo-key.pem") });
    assert_eq!(ask(client(&flifo, "plain", PASSWORD).tls_with(&tls)).unwrap(), "plain");
}

#[test]
fn a_pass_through_client_meets_its_accounts_demands_by_what_it_brings_itself() {
    let identity = format!(
        "tls_cert = {:?}\ntls_key = {:?}",
        site().path("flifo.pem"),
        site().path("flifo-key.pem")
    );
    let tcp = format!("address = \"127.0.0.1:{}\"", site().server.port());
    let socket = format!("address = {:?}", site().server.socket());
    // What the server says to clients of each account: in plain, and in TLS without a certificate.
    let (fine, denied, refused) = (None, Some(1045), Some(3159));
    for (server, plain, tls_in_plain, tls_in_tls) in [
        (format!("{tcp}\n{identity}"), fine, denied, fine),
        (format!("{socket}\n{identity}"), fine, denied, fine),
        (format!("{tcp}\ntls = \"required\"\n{identity}"), refused, refused, fine),
        (format!("{tcp}\ntls = \"off\""), fine, denied, denied),
        (format!("{tcp}\npass_through_tls = \"always\"\n{identity}"), fine, fine, fine),
    ] {
        for rest in [String::new(), pooled("nobody")] {
            let case = format!("{server} {rest}");
            let flifo = Flifo::start(&format!("[server]\n{server}\n{rest}"));
            let code = |asked: Result<(), Problem>| match asked {
                Ok(()) => None,
                Err(Problem::Refused { code, .. }) => Some(code),
                Err(error) => panic!("{case}: {error}"),
            };
            let log_in = |client: Builder| code(client.connect().map(drop));
            let change = |user: &str, password: &str, client: Builder| {
                let mut client = client.connect().unwrap_or_else(|error| panic!("{case}: {error}"));
                code(client.change_user(user, password, &Plugin::NativePassword))
            };
            let (tls, plain_user) =
                (|user, password| client(&flifo, user, password).tls(), "plain");
            assert_eq!(log_in(client(&flifo, plain_user, PASSWORD)), plain, "{case}");
            assert_eq!(log_in(tls(plain_user, PASSWORD)), fine, "{case}");
            assert_eq!(log_in(client(&flifo, "tls", PASSWORD)), tls_in_plain, "{case}");
            assert_eq!(log_in(tls("tls", PASSWORD)), tls_in_tls, "{case}");
            assert_eq!(change("tls", PASSWORD, tls(plain_user, PASSWORD)), tls_in_tls, "{case}");
            for (user, password) in [("shown", PASSWORD), ("x509", "")] {
                assert_eq!(log_in(tls(user, password)), denied, "{case}: {user}");
                let want = if plain == refused { refused } else { denied };
                assert_eq!(log_in(client(&flifo, user, password)), want, "{case}: {user}");
                assert_eq!(change(user, password, tls(plain_user, PASSWORD)), denied, "{case}");
                if plain == fine {
                    let client = client(&flifo, plain_user, PASSWORD);
                    assert_eq!(change(user, password, client), denied, "{case}: {user}");
                }
            }
        }
    }
}

/// Flifo before the server's Unix socket, with a certificate, that knows these users by its configuration, or all by
/// the table of accounts.
fn pools(way: &str, more: &str) -> Flifo {
    let users = ["tls", "shown", "plain"].map(pooled).concat();
    let x509 = "[[users]]\nname = \"x509\"\npassword = \"\"\n";
    let (server, users) = match way {
        "table" => ("accounts_user = \"reader\"", pooled("reader")),
        _ => ("", format!("{users}{x509}")),
    };
    let (cert, key) = (site().path("flifo.pem"), site().path("flifo-key.pem"));
    by_tcp(
        "127.0.0.1",
        &format!("tls_cert = {cert:?}\ntls_key = {key:?}\n{server}\n{more}"),
        &users,
    )
}

/// A user that reads the table of accounts.
fn make_reader() {
    let with = format!("mysql_native_password USING PASSWORD('{PASSWORD}')");
    let reader = format!(
        "CREATE USER IF NOT EXISTS reader@'%' IDENTIFIED VIA {with}; GRANT SELECT ON mysql.global_priv TO reader@'%'"
    );
    site().server.sql(&reader).expect("a reader");
}

#[test]
fn a_pooled_client_meets_its_accounts_demands_by_what_it_brings_itself() {
    make_reader();
    for way in ["configured", "table"] {
        let flifo = pools(way, "");
        let code = |asked: Result<(), Problem>| match asked {
            Ok(()) => None,
            Err(Problem::Refused { code, .. }) => Some(code),
            Err(error) => panic!("{way}: {error}"),
        };
        for (user, password, in_plain, in_tls) in [
            ("plain", PASSWORD, None, None),
            ("tls", PASSWORD, Some(1045), None),
            ("shown", PASSWORD, Some(1045), Some(1045)),
            ("x509", "", Some(1045), Some(1045)),
        ] {
            for _ in 0..2 {
                let come = client(&flifo, user, password);
                assert_eq!(code(ask(come).map(drop)), in_plain, "{way} {user}");
                let come = client(&flifo, user, password).tls();
                assert_eq!(code(ask(come).map(drop)), in_tls, "{way} {user}");
            }
            for (come, want) in [
                (client(&flifo, "plain", PASSWORD), in_plain),
                (client(&flifo, "plain", PASSWORD).tls(), in_tls),
            ] {
                let mut other = come.connect().expect("a login");
                let changed = other.change_user(user, password, &Plugin::NativePassword);
                assert_eq!(code(changed), want, "{way} {user}");
            }
        }
        let (_, log) = flifo.stop();
        assert!(!log.contains("clients_pooled=0"), "{log}");
        // The server takes Flifo's connection for the clients'.
        let flifo = pools(way, "account_terms = \"flifo\"");
        assert_eq!(ask(client(&flifo, "tls", PASSWORD)).unwrap(), "tls");
        assert_eq!(ask(client(&flifo, "shown", PASSWORD)).unwrap(), "shown");
        assert_eq!(ask(client(&flifo, "x509", "")).unwrap(), "x509");
    }
}

/// The server's own words for it are those of a wrong password.
#[test]
fn a_client_with_the_right_password_hears_that_its_account_demands_a_certificate() {
    make_reader();
    let reader = "accounts_user = \"reader\"\nlearn_passwords = \"off\"";
    let flifo = by_tcp("127.0.0.1", reader, &pooled("reader"));
    let told = |asked: Result<(), Problem>| match asked.expect_err("a refusal") {
        Problem::Refused { code: 1045, message, .. } => message,
        error => panic!("{error}"),
    };
    // After wrong passwords the server is asked whether it takes a right one.
    for round in 0..2 {
        for (user, right) in [("shown", &[PASSWORD][..]), ("either", &[PASSWORD, ""])] {
            let log_in =
                |password: &str| told(client(&flifo, user, password).tls().connect().map(drop));
            let change = |password: &str| {
                let mut other = client(&flifo, "plain", PASSWORD).tls().connect().expect("a login");
                told(other.change_user(user, password, &Plugin::NativePassword))
            };
            for ask in [&log_in as &dyn Fn(&str) -> String, &change] {
                for password in right {
                    let told = ask(password);
                    assert!(told.contains("demands a certificate"), "{round} {user} {told}");
                }
                let told = ask("wrong");
                assert!(told.contains("using password: YES"), "{round} {user}: {told}");
            }
        }
    }
}

#[test]
fn pooled_clients_are_no_more_than_their_account_allows() {
    let with = format!("mysql_native_password USING PASSWORD('{PASSWORD}')");
    let sql = format!(
        "CREATE OR REPLACE USER two@'%' IDENTIFIED VIA {with} WITH MAX_USER_CONNECTIONS 2; \
         CREATE OR REPLACE USER hourly@'%' IDENTIFIED VIA {with} WITH MAX_CONNECTIONS_PER_HOUR 3; \
         CREATE OR REPLACE USER shut@'%' IDENTIFIED VIA {with} ACCOUNT LOCK"
    );
    site().server.sql(&sql).expect("accounts");
    let flifo = by_socket(&["two", "hourly", "shut"].map(pooled).concat());
    let come = |user: &str| client(&flifo, user, PASSWORD).connect();
    let refused = |come: Result<Client, Problem>| match come {
        Err(Problem::Refused { code, .. }) => code,
        other => panic!("{other:?}"),
    };
    let (one, two) = (come("two").expect("one"), come("two").expect("two"));
    assert_eq!(refused(come("two")), 1226);
    drop(one);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while come("two").is_err() {
        assert!(std::time::Instant::now() < deadline, "its place is not given back");
        std::thread::yield_now();
    }
    drop(two);
    // They do nothing, so that one backend's login is counted by the server at most.
    let inside: Vec<_> = (0..3).map(|_| come("hourly").expect("a login")).collect();
    assert_eq!(refused(come("hourly")), 1226);
    drop(inside);
    assert_eq!(refused(come("shut")), 4151);
}
