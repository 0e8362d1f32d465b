//! Names of users as the server reads them: what Flifo compares is what the server sees, whatever a client sends.

use std::sync::OnceLock;

use backend::Address;
use bench::private_server::PrivateServer;
use engine::account::name::{Brand, Packet, UserName};
use testkit::client::{Client, Problem};
use testkit::flifo::Flifo;
use testkit::mysql::Mysql;
use wire::auth::Plugin;

const UTF8MB4: u8 = 45;
const LATIN1: u8 = 8;

/// Names as they come, with the collation of their packet.
const NAMES: [(&[u8], u8); 41] = [
    (b"capped", UTF8MB4),
    (b"'capped'", UTF8MB4),
    (b"''capped''", UTF8MB4),
    (b"'capped", UTF8MB4),
    (b"capped'", UTF8MB4),
    (b"\"capped\"", UTF8MB4),
    (b"`capped`", UTF8MB4),
    (b"CAPPED", UTF8MB4),
    (b"capped ", UTF8MB4),
    (b" capped", UTF8MB4),
    (b"'capped '", UTF8MB4),
    (b"' capped'", UTF8MB4),
    (b"tab\t", UTF8MB4),
    (b"", UTF8MB4),
    (b"'", UTF8MB4),
    (b"''", UTF8MB4),
    (b"'''", UTF8MB4),
    (b"''''", UTF8MB4),
    (b"j\xc3\xbcrg", UTF8MB4),
    (b"j\xc3\xbcrg", 33),
    (b"j\xc3\xbcrg", 63),
    (b"j\xc3\xbcrg", 240),
    (b"j\xc3\xbcrg", 255),
    (b"j\xc3\xbcrg", LATIN1),
    (b"j\xfcrg", LATIN1),
    (b"'j\xfcrg'", LATIN1),
    (b"j\xfcrg", UTF8MB4),
    (b"j\xfcrg", 11),
    (b"j\xfcrg", 0),
    (b"a\xf0\x9f\x98\x80", UTF8MB4),
    (b"r\xffot", UTF8MB4),
    (b"capp\xc1\xa5d", UTF8MB4),
    (b"swe@den", 10),
    (b"Sweden", 82),
    (b"back\\sla~sh", 13),
    (b"back\\sla~sh", 28),
    (b"12345678901234567890123456789012", UTF8MB4),
    (b"123456789012345678901234567890123", UTF8MB4),
    (b"'12345678901234567890123456789012'", UTF8MB4),
    (b"'12345678901234567890123456789012345'", UTF8MB4),
    (b"12345678901234567890123456789012345678901234567890123456789012345678901234567890x", UTF8MB4),
];

/// All names may log in, so that the server can be asked which one it sees.
const ANONYMOUS: &str = "CREATE USER ''@'%'; CREATE USER ''@'localhost'";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|it| format!("{it:02X}")).collect()
}

/// Asks the server itself about each name: what is read of it is what the server sees, or it is refused.
fn hold_against(server: &Address, brand: Brand) {
    let ask = "SELECT HEX(CONVERT(USER() USING utf8mb4))";
    // Not taken off in SQL: its `@` is a letter in Swedish.
    let host: String = hex(b"@localhost");
    let client = || Client::builder(server.clone(), "capped", "").plugin(Plugin::NativePassword);
    let mut sure = 0;
    let mut check = |name: &[u8], collation: u8| {
        let shown = format!("{} in {collation}", String::from_utf8_lossy(name));
        for packet in [Packet::Login, Packet::ChangeUser] {
            let Ok(read) = UserName::read(name, collation.into(), packet, brand) else { continue };
            sure += 1;
            let seen = |client: Result<Client, Problem>| -> String {
                let mut client = client.unwrap_or_else(|error| panic!("{shown}: {error}"));
                let user = client.query(ask).unwrap().remove(0).remove(0);
                user.strip_suffix(&host).expect("a user here").to_owned()
            };
            let as_sent = match packet {
                Packet::Login => client().named(name, collation).connect(),
                Packet::ChangeUser => client().connect().and_then(|mut client| {
                    let plugin = Plugin::NativePassword;
                    client.change_user_named(name, collation.into(), "", &plugin)?;
                    Ok(client)
                }),
            };
            let want = hex(read.as_bytes());
            assert_eq!(seen(as_sent), want, "{shown}, {packet:?}");
            let sent = read.in_login(collation.into(), brand).unwrap();
            assert_eq!(seen(client().named(&sent, collation).connect()), want, "{shown}, sent on");
        }
    };
    NAMES.iter().for_each(|(name, collation)| check(name, *collation));
    // Each letter of latin1, and of ASCII in each character set that is not known.
    let bytes: Vec<u8> = (1..=255).filter(|byte| *byte != b'@').collect();
    bytes.chunks(30).for_each(|name| check(name, LATIN1));
    let mut others: Vec<u8> = vec![1, 3, 6, 7, 12, 13, 16, 18, 19, 22, 24, 26, 28, 30, 36, 37];
    others.extend([32, 39, 40, 41, 92, 95, 97]);
    for collation in others {
        let is_ascii = |name: &&[u8]| name.iter().all(|byte| (1..0x7f).contains(byte));
        bytes.chunks(30).filter(is_ascii).for_each(|name| check(name, collation));
    }
    assert!(100 < sure, "{sure}");
}

fn server() -> &'static PrivateServer {
    static SERVER: OnceLock<PrivateServer> = OnceLock::new();
    SERVER.get_or_init(|| PrivateServer::builder().start().expect("a private server"))
}

fn tcp(flifo: &Flifo) -> Address {
    Address::Tcp { host: "127.0.0.1".to_owned(), port: flifo.port() }
}

/// Before a server's Unix socket.
fn flifo(rest: &str) -> Flifo {
    Flifo::start(&format!("[server]\naddress = {:?}\n{rest}", server().socket()))
}

#[test]
fn mariadb_sees_the_names_that_are_compared() {
    let server = PrivateServer::builder().start().expect("a private server");
    server.sql(ANONYMOUS).unwrap();
    hold_against(&Address::Unix(server.socket()), Brand::MariaDb);
}

#[test]
fn mysql_sees_the_names_that_are_compared() {
    let Some(server) = Mysql::start(&[]) else { return };
    server.sql(&ANONYMOUS.split("; ").collect::<Vec<_>>());
    hold_against(&Address::Unix(server.socket()), Brand::MySql);
}

#[test]
fn a_name_in_quotes_is_not_the_user_that_flifo_runs_as() {
    let me = String::from_utf8(sys::process::user().1.unwrap()).unwrap();
    let account = "mysql_native_password USING 'invalid' OR unix_socket";
    let sql = format!(
        "DROP USER IF EXISTS '{me}'@'localhost'; \
         CREATE OR REPLACE USER '{me}'@'%' IDENTIFIED VIA {account}; GRANT ALL ON *.* TO '{me}'@'%'"
    );
    server().sql(&sql).unwrap();
    let (user, password) = (PrivateServer::USER, server().password());
    let known = format!("[[users]]\nname = {user:?}\npassword = {password:?}\n");
    for rest in ["", &known] {
        let flifo = flifo(rest);
        let client = |name: &str, password: &str| {
            Client::builder(tcp(&flifo), name, password).plugin(Plugin::NativePassword).connect()
        };
        for name in [me.clone(), format!("'{me}'"), format!("''{me}''")] {
            let refused = |said: Result<(), Problem>| match said {
                Err(Problem::Refused { code: 1045, .. }) => {}
                said => panic!("{name}, {rest}: {said:?}"),
            };
            refused(client(&name, "x").map(|_| ()));
            let mut other = client(user, password).unwrap();
            refused(other.change_user(&name, "x", &Plugin::NativePassword));
        }
    }
}

#[test]
fn a_name_in_quotes_counts_for_its_user() {
    server().sql("CREATE OR REPLACE USER capped@'%' IDENTIFIED BY 'c'").unwrap();
    server().sql("CREATE OR REPLACE USER other@'%' IDENTIFIED BY 'c'").unwrap();
    let capped = |rest: &str| format!("[[users]]\nname = \"capped\"\nclients_max = 2\n{rest}\n");
    for rest in [capped("mode = \"pass-through\""), capped("password = \"c\"")] {
        let flifo = flifo(&rest);
        let client = |name: &str| {
            Client::builder(tcp(&flifo), name, "c").plugin(Plugin::NativePassword).connect()
        };
        let refused = |said: Result<(), Problem>| match said {
            Err(Problem::Refused { code: 1226, .. }) => {}
            said => panic!("{rest}: {said:?}"),
        };
        let mut one = client("capped").unwrap();
        let two = client("'capped'").unwrap();
        refused(client("'capped'").map(|_| ()));
        refused(client("capped").map(|_| ()));
        let mut other = client("other").unwrap();
        refused(other.change_user("capped", "c", &Plugin::NativePassword));
        // It stays within its place.
        one.change_user("capped", "c", &Plugin::NativePassword).unwrap();
        assert_eq!(one.query("SELECT 7").unwrap(), [["7"]]);
        drop(two);
    }
}
