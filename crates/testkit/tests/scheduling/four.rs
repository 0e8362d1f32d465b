//! Several Flifos in front of one server, whose limits find themselves together, by the clock.

use std::thread;
use std::time::{Duration, Instant};

use testkit::virtual_server::VirtualServer;
use testkit::world::jain;

use crate::calm::{shown, wanted};
use crate::{BACK, Course, READ, SERVER, alone, flifo, rate};

/// Four Flifos with unequal numbers of clients, whose limits find themselves by the clock: together
/// they do as much as one with the best limit, and each does the same. One of them goes, and comes
/// back.
#[test]
fn four_flifos_share_a_server() {
    let _alone = alone();
    shown(four_share);
}

fn four_share() -> Result<(), String> {
    let server = VirtualServer::start(SERVER, 4.0);
    let best = [8, 10, 12].map(|limit| {
        let flifo =
            flifo(&server, "workers = 1", &format!("limit = {limit}\nconnections_max = 20"));
        rate(flifo.port(), 128, READ)
    });
    let best = best.into_iter().fold(0.0, f64::max);
    let start = || flifo(&server, "workers = 1", "limit = \"auto\"\nrhythm = \"clock\"");
    let (stayers, goer) = ([start(), start(), start()], start());
    let begun = Instant::now();
    let (stayed, gone, back) = thread::scope(|scope| {
        let stayers = [32, 48, 64].into_iter().zip(&stayers);
        let stayers = stayers.map(|(clients, flifo)| {
            let port = flifo.port();
            scope.spawn(move || {
                Course::run(port, clients, READ, SETTLED + MEASURED + BACK + MEASURED)
            })
        });
        let stayers: Vec<_> = stayers.collect();
        let gone = Course::run(goer.port(), 112, READ, SETTLED + MEASURED);
        drop(goer);
        let goer = start();
        let back = Course::run(goer.port(), 112, READ, BACK + MEASURED);
        let stayed: Vec<_> = stayers.into_iter().map(|it| it.join().expect("a course")).collect();
        (stayed, gone, back)
    });
    for (when, goer, settled) in [("first", gone, SETTLED), ("with one that came back", back, BACK)]
    {
        let from = goer.begun + settled;
        // Its last second may be a part of one.
        let to = from + MEASURED - Duration::from_secs(1);
        let rates: Vec<_> = stayed.iter().chain([&goer]).map(|it| it.rate(from, to)).collect();
        let sum: f64 = rates.iter().sum();
        let fair = jain(rates.iter().copied());
        let at = (from - begun).as_secs();
        println!("{when}, at {at} s: {sum:.0} of {best:.0}, each {rates:.0?}, Jain {fair:.3}");
        wanted(sum >= 0.9 * best, || format!("{when}: {sum:.0} of {best:.0}"))?;
        wanted(fair >= 0.9, || format!("{when}: Jain {fair:.3}"))?;
    }
    Ok(())
}

/// How long limits may look for each other at the start, and for how long it is looked at what they
/// do: some swings of the limit, of which each tries more and fewer.
const SETTLED: Duration = Duration::from_secs(15);
const MEASURED: Duration = Duration::from_secs(10);
