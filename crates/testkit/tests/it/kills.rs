//! Orders to kill a statement. Those that come at the same moment hit no client that has the connection next; one that no
//! server works for ends as well.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use bench::private_server::PrivateServer;
use testkit::fake_client::{Answer, FakeClient, Refusal};
use testkit::flifo::Flifo;

const VICTIMS: u32 = 100;
const KILLERS: usize = 4;

#[test]
fn several_orders_at_once_hit_no_other_client() {
    let server = PrivateServer::start_default().expect("a private server");
    let (user, password) = (PrivateServer::USER, server.password());
    let flifo = Flifo::start(&format!(
        "workers = 1\n[server]\naddress = {:?}\nconnections_max = 2\n\
         [[users]]\nname = \"{user}\"\npassword = \"{password}\"\n",
        server.socket()
    ));
    let client = || FakeClient::login(flifo.port(), user, password).expect("a login");
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        // One connection is for the victim, and the other clients have what it leaves.
        let others: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let mut other = client();
                    while !ends.load(Relaxed) {
                        let answer = other.query("SELECT SLEEP(0.01)");
                        assert!(answer.is_ok(), "nobody has killed this: {answer:?}");
                    }
                })
            })
            .collect();
        for _ in 0..VICTIMS {
            let mut victim = client();
            let rows = victim.query("SELECT CONNECTION_ID()").expect("a row");
            let order = format!("KILL QUERY {}", String::from_utf8_lossy(&rows[0]));
            let is_over = &AtomicBool::new(false);
            thread::scope(|scope| {
                for _ in 0..KILLERS {
                    scope.spawn(|| {
                        let mut killer = client();
                        while !is_over.load(Relaxed) && !others.iter().any(|it| it.is_finished()) {
                            killer.query(&order).expect("it may");
                            thread::sleep(Duration::from_millis(1));
                        }
                    });
                }
                let answer = victim.query("SELECT SLEEP(60)");
                is_over.store(true, Relaxed);
                assert!(answer.is_err() || others.iter().any(|it| it.is_finished()), "{answer:?}");
            });
            if others.iter().any(|it| it.is_finished()) {
                break;
            }
        }
        ends.store(true, Relaxed);
        for other in others {
            other.join().expect("nothing happened to it");
        }
    });
}

/// A statement waits for a rule, and no server has heard of it.
#[test]
fn a_statement_that_waits_for_a_rule_is_killed() {
    let server = PrivateServer::start_default().expect("a private server");
    let (user, password) = (PrivateServer::USER, server.password());
    let flifo = Flifo::start(&format!(
        "[server]\naddress = {:?}\n[[users]]\nname = \"{user}\"\npassword = \"{password}\"\n\
         [[rules]]\nname = \"late\"\ndelay = \"1m\"\nmatch.digest_matches = \"late\"\n\
         [[rules]]\nname = \"one\"\nat_once = 1\nmatch.digest_matches = \"sleep\"\n",
        server.socket()
    ));
    let client = || FakeClient::login(flifo.port(), user, password).expect("a login");
    let id = |client: &mut FakeClient| {
        let rows = client.query("SELECT CONNECTION_ID()").expect("a row");
        String::from_utf8_lossy(&rows[0]).into_owned()
    };
    let mut holder = client();
    let holders_id = id(&mut holder);
    thread::scope(|scope| {
        let holder = scope.spawn(move || holder.query("SELECT SLEEP(600)"));
        for text in ["SELECT 'late' AS late", "SELECT SLEEP(0.01)"] {
            let mut victim = client();
            let order = format!("KILL QUERY {}", id(&mut victim));
            let victim = scope.spawn(move || (victim.query(text), victim));
            let mut killer = client();
            while !victim.is_finished() {
                killer.query(&order).expect("it may");
                thread::sleep(Duration::from_millis(5));
            }
            let (answer, mut victim) = victim.join().expect("a client");
            assert!(was_killed(&answer), "{text}: {answer:?}");
            victim.query("SELECT 1").expect("it goes on");
        }
        client().query(&format!("KILL QUERY {holders_id}")).expect("it may");
        let answer = holder.join().expect("a client");
        assert!(was_killed(&answer), "{answer:?}");
    });
}

fn was_killed(answer: &Answer) -> bool {
    matches!(answer, Err(Refusal::Error { code: KILLED, .. }))
}

/// `ER_QUERY_INTERRUPTED`.
const KILLED: u16 = 1317;
