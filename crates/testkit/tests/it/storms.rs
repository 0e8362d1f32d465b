//! Many clients come at once: all get in, no client waits for silent ones, and no client waits for ever.

use std::thread;
use std::time::{Duration, Instant};

use testkit::fake_client::FakeClient;
use testkit::fake_server::{Brand, Entry};
use testkit::scene::{Scene, row, user, wait_for};

fn scene(top: &str, rest: &str) -> Scene {
    Scene::start(Brand::MariaDb, &format!("workers = 1\n{top}"), &format!("{rest}\n{}", user("")))
}

#[test]
fn all_of_a_storm_get_in_one_at_a_time_and_who_is_in_goes_on() {
    for workers in [1, 2] {
        let scene = Scene::start(
            Brand::MariaDb,
            &format!("workers = {workers}\nlogins_max = 1"),
            &format!("connections_max = 2\n{}", user("")),
        );
        let scene = scene.witnessed();
        thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    let mut clients: Vec<_> = (0..20).map(|_| scene.client()).collect();
                    for client in &mut clients {
                        assert_eq!(client.query("SELECT 1"), row("1"));
                    }
                });
            }
        });
        let log = scene.end_with_log();
        assert!(log.contains("logins_waited="), "nobody waited: {log}");
    }
}

#[test]
fn who_says_nothing_holds_up_nobody() {
    let scene = scene("logins_max = 2", "[limits]\nlogin = \"10s\"");
    let mut silent: Vec<_> = (0..40).map(|_| FakeClient::connect(scene.flifo.port())).collect();
    for client in &mut silent {
        assert!(client.read_greeting().is_ok());
    }
    let begun = Instant::now();
    for _ in 0..5 {
        assert_eq!(scene.client().query("SELECT 1"), row("1"));
    }
    // One after the other they would be let in, two at a time, in 200 seconds.
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    assert!(silent.iter_mut().all(FakeClient::is_refused), "they are let in for ever");
    drop(silent);
    scene.end();
}

/// The server takes connections, and says nothing.
#[test]
fn who_waits_for_too_long_is_told_and_the_server_sees_few_at_once() {
    let top = "workers = 1\nlogins_max = 3";
    let scene = Scene::start(Brand::MariaDb, top, "[limits]\nlogin = \"1s\"");
    let before = scene.server.opened();
    let connect =
        |count| -> Vec<_> { (0..count).map(|_| FakeClient::connect(scene.flifo.port())).collect() };
    scene.server.enter(Entry::Bytes(Vec::new()));
    let first = connect(3);
    wait_for("the first logins", || scene.server.opened() == before + 3);
    thread::sleep(Duration::from_millis(400));
    // Three have the places of the first ones when those have had their time, the rest waits for too long.
    let mut clients = connect(7);
    let told: Vec<_> = clients.iter_mut().map(FakeClient::read_greeting).collect();
    let late = told.iter().filter(|told| {
        let code = told.as_ref().unwrap_err().code();
        let message = format!("{told:?}");
        code == 1040 && message.contains("logins_max") && message.contains("limits.login")
    });
    assert_eq!(late.count(), 4, "{told:?}");
    assert_eq!(scene.server.opened(), before + 6);
    // Clients that have left meanwhile are not logged in.
    let leavers = connect(6);
    wait_for("more logins", || scene.server.opened() == before + 9);
    drop(leavers);
    thread::sleep(Duration::from_millis(100));
    scene.server.enter(Entry::Well);
    scene.server.hang_up();
    scene.works();
    assert_eq!(scene.server.opened(), before + 10, "somebody was served who had left");
    drop((first, clients));
    scene.end();
}
