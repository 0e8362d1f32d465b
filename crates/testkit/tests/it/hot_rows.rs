//! One client holds a row and many wait for it: statements of the same form on other rows go on.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use backend::Address;
use testkit::client::Client;
use testkit::flifo::Flifo;
use testkit::scene::wait_for;

use crate::shared;

const WAITERS: usize = 30;
const INNOCENTS: u32 = 4;

/// Each innocent runs so many statements while the row is held.
const STATEMENTS: u32 = 5;

/// How a statement comes.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Text,
    InTransaction,
    Prepared,
}

/// A schema of its own, and a Flifo before it.
struct Scene {
    schema: &'static str,
    flifo: Flifo,
}

fn scene(schema: &'static str, wait: &str, checks: bool) -> Scene {
    let sql = |text: &str| shared::server().sql(text).expect(text);
    sql(&format!("CREATE DATABASE {schema}"));
    sql(&format!("CREATE TABLE {schema}.acct (id INT PRIMARY KEY, bal INT, note INT)"));
    sql(&format!("INSERT INTO {schema}.acct SELECT seq, 0, 0 FROM mysql.seq_1_to_500"));
    sql(&format!("GRANT ALL ON {schema}.* TO '{schema}'@'%' IDENTIFIED BY 'pw'"));
    let checks = match checks {
        true => {
            sql(&format!("GRANT PROCESS ON *.* TO '{schema}_look'@'%' IDENTIFIED BY 'pw'"));
            format!("[checks]\nuser = \"{schema}_look\"\npassword = \"pw\"\n")
        }
        false => String::new(),
    };
    let flifo = Flifo::start(&format!(
        "workers = 1\n[server]\naddress = \"{}\"\nlimit = 5\nconnections_max = 40\n[limits]\nwait = \"{wait}\"\n{checks}\
         [[users]]\nname = \"{schema}\"\npassword = \"pw\"\n",
        shared::server().socket().display(),
    ));
    Scene { schema, flifo }
}

impl Scene {
    fn client(&self) -> Client {
        let address = Address::Tcp { host: "127.0.0.1".to_owned(), port: self.flifo.port() };
        let login = Client::builder(address, self.schema, "pw").schema(self.schema);
        login.connect().expect("a login")
    }

    /// A client that holds row 7.
    fn holder(&self) -> Client {
        let mut holder = self.client();
        holder.query("BEGIN").expect("begins");
        holder.query("UPDATE acct SET bal = bal + 1 WHERE id = 7").expect("locks");
        holder
    }
}

fn run(client: &mut Client, way: Way, form: &str, row: u32, by: u32) {
    let text = form.replace("{row}", &row.to_string()).replace("{by}", &by.to_string());
    match way {
        Way::Text => drop(client.query(&text).expect(&text)),
        Way::InTransaction => {
            client.query("BEGIN").expect("begins");
            client.query(&text).expect(&text);
            client.query("COMMIT").expect("commits");
        }
        Way::Prepared => {
            let id = client.prepare(form).expect(form);
            client.execute_with(id, &[by, row]).expect(form);
        }
    }
}

/// Each innocent has run its statements while all waiters wait; then these end as well.
fn innocents_go_on(scene: &Scene, way: Way, form: &str, waiters_by: fn(u32) -> u32) {
    let mut holder = scene.holder();
    let (waiting, released) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for waiter in 0..WAITERS {
            let (mut client, waiting, released) = (scene.client(), &waiting, &released);
            scope.spawn(move || {
                waiting.fetch_add(1, SeqCst);
                run(&mut client, way, form, 7, waiters_by(waiter as u32));
                assert!(released.load(SeqCst), "it waits for the row");
            });
        }
        wait_for("all to wait", || waiting.load(SeqCst) == WAITERS);
        // Long enough for those that wait to be in the way.
        thread::sleep(Duration::from_millis(300));
        let innocents: Vec<_> = (0..INNOCENTS)
            .map(|innocent| {
                let mut client = scene.client();
                scope.spawn(move || {
                    for at in 0..STATEMENTS {
                        let row = 100 + innocent * 50 + at;
                        run(&mut client, way, form, row, waiters_by(at));
                    }
                })
            })
            .collect();
        let all_went_on = innocents.into_iter().all(|innocent| innocent.join().is_ok());
        released.store(true, SeqCst);
        if !all_went_on {
            eprintln!("{}", scene.flifo.log());
        }
        holder.query("COMMIT").expect("commits");
        assert!(all_went_on, "a statement that would not wait has waited");
    });
}

const UPDATE: &str = "UPDATE acct SET bal = bal + {by} WHERE id = {row}";

#[test]
fn others_of_the_form_go_on() {
    let scene = scene("hot_update", "30s", false);
    innocents_go_on(&scene, Way::Text, UPDATE, |_| 1);
    innocents_go_on(&scene, Way::InTransaction, UPDATE, |_| 1);
    let total = "SELECT SUM(bal) FROM hot_update.acct";
    let want = 2 * (1 + WAITERS as u32 + INNOCENTS * STATEMENTS);
    assert!(shared::server().sql(total).expect("reads").contains(&want.to_string()));
}

#[test]
fn others_of_the_form_go_on_where_the_server_tells_which_ones_wait() {
    let scene = scene("hot_told", "30s", true);
    innocents_go_on(&scene, Way::Text, UPDATE, |_| 1);
    innocents_go_on(&scene, Way::Text, "DELETE FROM acct WHERE note = {by} AND id = {row}", |_| 9);
    let locks = "SELECT bal FROM acct WHERE note <> {by} AND id = {row} FOR UPDATE";
    innocents_go_on(&scene, Way::Text, locks, |_| 9);
    let insert = "INSERT INTO acct VALUES ({row}, {by}, 0) ON DUPLICATE KEY UPDATE note = note + 1";
    innocents_go_on(&scene, Way::Text, insert, |_| 9);
}

#[test]
fn other_values_beside_the_row_make_no_difference() {
    let scene = scene("hot_amounts", "30s", true);
    innocents_go_on(&scene, Way::Text, UPDATE, |waiter| waiter);
    innocents_go_on(&scene, Way::Prepared, "UPDATE acct SET bal = bal + ? WHERE id = ?", |_| 1);
}

#[test]
fn a_statement_that_is_held_back_is_told_the_holder() {
    let scene = scene("hot_named", "8s", true);
    let mut holder = scene.holder();
    let told: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..20)
            .map(|_| {
                let mut client = scene.client();
                scope
                    .spawn(move || client.query("UPDATE acct SET bal = bal + 1 WHERE id = 7").err())
            })
            .collect();
        wait_for("the holder to be named", || scene.flifo.log().contains("holds it"));
        wait_for("some to be refused", || {
            threads.iter().any(thread::ScopedJoinHandle::is_finished)
        });
        holder.query("COMMIT").expect("commits");
        threads.into_iter().filter_map(|thread| thread.join().expect("an answer")).collect()
    });
    let told: Vec<_> = told.iter().map(ToString::to_string).collect();
    let is_named = |error: &&String| {
        error.contains("held back because it would wait for a lock")
            && error.contains("of user \"hot_named\" holds it, and is reading")
    };
    assert!(told.iter().any(|error| is_named(&error)), "{told:?}");
    let (_, log) = scene.flifo.stop();
    assert!(log.contains("of user \\\"hot_named\\\" holds it"), "{log}");
}
