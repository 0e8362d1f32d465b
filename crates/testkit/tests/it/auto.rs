//! `server.limit = "auto"`, from outside: all are served, the limit is looked for, and the log says why it moves.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use testkit::overdue::Over;
use testkit::reply::honest;
use testkit::scene::{Scene, row};

#[test]
fn the_limit_finds_its_way_and_says_why() {
    let scene = Scene::pooled(
        "limit = \"auto\"\nconnections_max = 64\npipeline = 1\n[limits]\nidle_backend = \"1s\"\n[logs]\nlevel = \"debug\"\n",
    );
    scene.server.answer(|command| {
        // Each statement takes as long, however many run: more slots bring more.
        thread::sleep(Duration::from_millis(10));
        honest(command)
    });
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..48 {
            scope.spawn(|| {
                let mut client = scene.client();
                while !over.load(Relaxed) {
                    assert_eq!(client.query("SELECT on"), row("on"));
                }
            });
        }
        let _over = Over(&over);
        thread::sleep(Duration::from_secs(3));
        // A busy machine takes longer to see that more slots bring more.
        let begun = Instant::now();
        while !scene.flifo.log().contains("Up(") && begun.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(100));
        }
    });
    let most = scene.server.opened();
    let log = scene.end_with_log();
    assert!(log.contains("Gathering") && log.contains("Up("), "{log}");
    assert!(most > 18, "no more than {most} backend connections, as many as at the start");
}
