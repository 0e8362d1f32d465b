//! `server.limit = "auto"`, from outside: all are served, the limit is looked for, and the log says why it moves.

use std::thread;
use std::time::{Duration, Instant};

use testkit::reply::honest;
use testkit::scene::{Scene, row};

#[test]
fn the_limit_finds_its_way_and_says_why() {
    let scene = Scene::pooled(
        "limit = \"auto\"\nlinks_max = 64\npipeline = 1\n[limits]\nidle_link = \"1s\"\n[logs]\nlevel = \"debug\"\n",
    );
    scene.server.answer(|command| {
        // Each statement takes as long, however many run: more slots bring more.
        thread::sleep(Duration::from_millis(10));
        honest(command)
    });
    let begun = Instant::now();
    // A busy machine takes longer to see that more brings more.
    let is_over = || {
        let most = if scene.flifo.log().contains("Up(") { 3 } else { 60 };
        begun.elapsed() > Duration::from_secs(most)
    };
    thread::scope(|scope| {
        for _ in 0..48 {
            scope.spawn(|| {
                let mut client = scene.client();
                while !is_over() {
                    assert_eq!(client.query("SELECT on"), row("on"));
                }
            });
        }
    });
    let most = scene.server.opened();
    let log = scene.end_with_log();
    assert!(log.contains("Gathering") && log.contains("Up("), "{log}");
    assert!(most > 18, "no more than {most} links, as many as at the start");
}
