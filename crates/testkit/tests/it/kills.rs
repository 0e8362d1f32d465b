//! Orders to kill a statement that come at the same moment: none of them hits the client that has the connection next.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use bench::private_server::PrivateServer;
use testkit::fake_client::FakeClient;
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
