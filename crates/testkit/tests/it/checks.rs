//! Checks that cannot find out what they must: they have failed, and that is said where operators look.

use std::io::{Read, Write};
use std::net::TcpStream;

use bench::private_server::PrivateServer;
use testkit::client::Client;
use testkit::cluster::Cluster;
use testkit::flifo::{Flifo, free_port};
use testkit::scene::wait_for;

use crate::cluster::CHECKS;

/// Flifo in front of these servers, its console, and the port of its pages.
fn start(servers: &str, user: &str) -> (Flifo, Client, u16, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let (socket, http) = (folder.path().join("console.sock"), free_port());
    let flifo = Flifo::start(&format!(
        "{CHECKS}[console]\nlisten = [{socket:?}]\n[http]\nlisten = \"127.0.0.1:{http}\"\n{servers}{user}"
    ));
    let address = socket.to_str().unwrap().parse().unwrap();
    let console = Client::builder(address, "admin", "").connect().unwrap();
    (flifo, console, http, folder)
}

fn is_ready(http: u16) -> bool {
    let mut stream = TcpStream::connect(("127.0.0.1", http)).unwrap();
    let request = b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.starts_with("HTTP/1.1 200")
}

/// Changes the password of the user that checks log in as, has that found, and changes it back.
fn lock_out_and_in(servers: &[PrivateServer], flifo: &Flifo, console: &mut Client, http: u16) {
    wait_for("the checks to pass", || is_ready(http) && checks(console).contains("passed"));
    let change = |password: &str| {
        for server in servers {
            server.sql(&format!("ALTER USER checker@'%' IDENTIFIED BY \"{password}\"")).unwrap();
            // A check keeps its connection: it is to log in anew.
            let ids = server
                .sql("SELECT id FROM information_schema.processlist WHERE user = 'checker'")
                .unwrap();
            ids.lines().for_each(|id| drop(server.sql(&format!("KILL {id}"))));
        }
    };
    change("another");
    wait_for("readiness to end", || !is_ready(http));
    let told = checks(console);
    assert!(told.contains("failed") && told.contains("may not log in"), "{told}");
    assert!(told.contains("1045") || told.contains("Access denied"), "{told}");
    let log = flifo.log();
    let is_told =
        |line: &str| line.contains("WARN") && line.contains("the check of a server has failed");
    assert!(log.lines().any(is_told), "{log}");
    change("checker's");
    wait_for("readiness to come back", || is_ready(http));
}

/// What checks have found, of all servers.
fn checks(console: &mut Client) -> String {
    let rows = console.query("SELECT * FROM checks WHERE kind = 'checks'").unwrap();
    rows.into_iter().map(|row| row.join(" ") + "\n").collect()
}

const CHECKER: &str = "[[users]]\nname = \"checker\"\npassword = \"checker's\"\n";
const CREATE: &str = "CREATE USER checker@'%' IDENTIFIED BY \"checker's\"";

#[test]
fn a_check_of_several_servers_that_may_not_log_in_has_failed() {
    let cluster = Cluster::replicated(1);
    cluster.servers[0].sql(CREATE).unwrap();
    cluster.wait_for(1, 0);
    let (flifo, mut console, http, _folder) = start(&cluster.listed(), CHECKER);
    lock_out_and_in(&cluster.servers, &flifo, &mut console, http);
    assert!(!flifo.stop().1.contains("panicked"));
}

#[test]
fn a_check_of_the_only_server_that_may_not_log_in_has_failed() {
    let server = PrivateServer::start_default().expect("a private server");
    server.sql(CREATE).unwrap();
    server.sql("CREATE USER passed@'%' IDENTIFIED BY 'passed'").unwrap();
    let address = format!("[server]\naddress = \"{}\"\n", server.socket().display());
    let (flifo, mut console, http, _folder) = start(&address, CHECKER);
    let port = format!("127.0.0.1:{}", flifo.port()).parse().unwrap();
    let mut client = Client::builder(port, "passed", "passed").connect().unwrap();
    lock_out_and_in(std::slice::from_ref(&server), &flifo, &mut console, http);
    client.query("SELECT 1").expect("what checks find takes nothing from its clients");
    assert!(!flifo.stop().1.contains("panicked"));
}
