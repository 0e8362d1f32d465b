//! What is known of servers goes over to the Flifo that takes over: which one is the writer, what it lacks, what an
//! operator has confirmed.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use bench::private_server::PrivateServer;
use rustix::process::{Pid, Signal, kill_process};
use testkit::client::Client;
use testkit::cluster::Cluster;
use testkit::flifo::{self, Flifo, take_over};

use crate::cluster::{CHECKS, client, roles_of};

struct Scene {
    flifo: Flifo,
    cluster: Cluster,
    console: PathBuf,
    successors: Vec<Pid>,
    folder: tempfile::TempDir,
}

impl Scene {
    fn start() -> Self {
        let cluster = Cluster::replicated(1);
        let folder = tempfile::tempdir().unwrap();
        let console = folder.path().join("console.sock");
        let flifo = Self::flifo(&cluster, &folder);
        Self { flifo, cluster, console, successors: Vec::new(), folder }
    }

    fn flifo(cluster: &Cluster, folder: &tempfile::TempDir) -> Flifo {
        let (user, password) = (PrivateServer::USER, Cluster::password());
        let console = folder.path().join("console.sock");
        let known = folder.path().join("servers.json");
        Flifo::start(&format!(
            "workers = 2\n{CHECKS}state_file = {known:?}\n\
             [routing]\nmode = \"split\"\nhold = \"1s\"\n\
             [console]\nlisten = [{console:?}]\n[http]\nlisten = []\n{}\
             [[users]]\nname = \"{user}\"\npassword = \"{password}\"\n",
            cluster.listed()
        ))
    }

    /// A writer has died with what it has acknowledged, and a server that lacks it can be written to.
    fn leave_gap(&mut self, client: &mut Client) {
        client.query("CREATE TABLE t (id INT PRIMARY KEY)").unwrap();
        self.cluster.wait_for(1, 0);
        self.cluster.servers[1].sql("STOP SLAVE").unwrap();
        client.query("INSERT INTO t VALUES (1)").unwrap();
        self.cluster.servers[0].kill().unwrap();
        self.cluster.servers[1].sql("SET GLOBAL read_only = 0").unwrap();
        self.wait_for_roles(&["not used: down", LACKS]);
    }

    fn console(&self) -> Client {
        let address = self.console.to_str().unwrap().parse().unwrap();
        Client::builder(address, "admin", "").connect().unwrap()
    }

    fn wait_for_roles(&self, wanted: &[&str]) {
        let what = format!("{wanted:?}");
        testkit::cluster::wait(&what, || {
            let roles = roles_of(&mut self.console());
            roles.iter().zip(wanted).all(|(is, wanted)| is.starts_with(wanted))
        });
    }

    fn upgrade(&mut self) {
        let done = take_over(flifo::program(), &self.console).expect("another one takes over");
        self.successors.push(done.pid);
        assert_eq!(done.left, 0);
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for pid in &self.successors {
            // It may have ended already.
            let _ = kill_process(*pid, Signal::KILL);
        }
    }
}

const LACKS: &str = "not used: it lacks what was acknowledged: it has 0-1-";

#[test]
fn a_gap_and_its_confirmation_go_over() {
    let mut scene = Scene::start();
    scene.wait_for_roles(&["writer", "reader"]);
    let mut client = client(&scene.flifo).unwrap();
    scene.leave_gap(&mut client);
    let mut of_before = scene.console();
    of_before.query("SHOW SERVERS").unwrap();
    scene.upgrade();
    assert!(of_before.query("CONFIRM WRITER db2").is_err(), "its Flifo decides nothing any more");
    scene.wait_for_roles(&["not used: down", LACKS]);
    assert!(client.query("SELECT id FROM t").is_err(), "no server has what it wrote");
    assert!(client.query("INSERT INTO t VALUES (2)").is_err());
    scene.console().query("CONFIRM WRITER db2").unwrap();
    client.query("INSERT INTO t VALUES (3)").unwrap();

    // The old writer is back, and thinks that it is the writer still.
    scene.cluster.servers[0].start().unwrap();
    scene.cluster.servers[0].sql("SET GLOBAL read_only = 0").unwrap();
    let replaced = "not used: it can be written to, and is not the writer";
    scene.wait_for_roles(&[replaced, "writer"]);
    scene.upgrade();
    scene.wait_for_roles(&[replaced, "writer"]);
    let mut client = self::client(&scene.flifo).unwrap();
    client.query("INSERT INTO t VALUES (4)").unwrap();
    assert_eq!(client.query("SELECT id FROM t ORDER BY id").unwrap(), [["3"], ["4"]]);
}

#[test]
fn what_a_client_wrote_on_a_writer_that_was_replaced_and_set_up_anew_is_found_at_once_behind_an_upgrade()
 {
    let mut scene = Scene::start();
    scene.wait_for_roles(&["writer", "reader"]);
    let mut client = client(&scene.flifo).unwrap();
    scene.leave_gap(&mut client);
    scene.console().query("CONFIRM WRITER db2").unwrap();
    client.query("INSERT INTO t VALUES (2)").unwrap();
    scene.cluster.servers[0].start().unwrap();
    scene.console().query("DISABLE db1").unwrap();
    let position = scene.cluster.servers[1].sql("SELECT @@global.gtid_binlog_pos").unwrap();
    let anew = format!(
        "SET sql_log_bin = 0; DELETE FROM t; INSERT INTO t VALUES (2); RESET MASTER; \
         SET GLOBAL gtid_slave_pos = '{}'",
        position.trim()
    );
    scene.cluster.servers[0].sql(&anew).unwrap();
    scene.cluster.follow(0, 1);
    scene.console().query("ENABLE db1").unwrap();
    scene.wait_for_roles(&["reader", "writer"]);
    assert_eq!(client.query("SELECT id FROM t").unwrap(), [["2"]]);
    scene.upgrade();
    scene.wait_for_roles(&["reader", "writer"]);
    let begun = Instant::now();
    assert_eq!(client.query("SELECT id FROM t").unwrap(), [["2"]]);
    // Servers that do not tell where they are would be waited for longer (routing.stay).
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
}

#[test]
fn a_gap_is_known_to_the_next_start_where_a_file_is_named() {
    let mut scene = Scene::start();
    scene.wait_for_roles(&["writer", "reader"]);
    scene.leave_gap(&mut client(&scene.flifo).unwrap());
    let roles = roles_of(&mut scene.console());
    let had = roles[1].rsplit(' ').next().unwrap();
    let file = scene.folder.path().join("servers.json");
    testkit::cluster::wait("the file", || {
        std::fs::read_to_string(&file).is_ok_and(|text| text.contains(had))
    });
    scene.flifo.ask_to_stop();
    testkit::cluster::wait("its end", || scene.flifo.has_ended());
    scene.flifo = Scene::flifo(&scene.cluster, &scene.folder);
    scene.wait_for_roles(&["not used: down", LACKS]);
    // A login asks the writer for the schema.
    let refused = client(&scene.flifo).and_then(|mut it| it.query("INSERT INTO t VALUES (2)"));
    assert!(refused.is_err());
    scene.console().query("CONFIRM WRITER db2").unwrap();
    client(&scene.flifo).unwrap().query("INSERT INTO t VALUES (2)").unwrap();
}
