//! A worker's loop: opens its mail, looks at what has an age, and ends when it is told to.

use std::rc::Rc;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::cluster::checks;
use crate::cluster::post::News;
use crate::config::Parking;
use crate::features::sharing::crowds;
use crate::frontend::accounts;
use crate::frontend::hidden;
use crate::frontend::watch;
use crate::road::admit;
use crate::road::backend_task;
use crate::road::ending;
use crate::road::kill_orders;
use crate::road::pipelining;
use crate::road::queue_timeout;
use crate::road::refused;
use crate::road::resume;
use crate::routing::route;
use crate::run::recovery;
use crate::session::pins;
use crate::session::rights;
use crate::session::supply;
use crate::state::shared::Mail;
use crate::state::worker::Worker;
use crate::upkeep::ages;
use crate::upkeep::cut_out;
use crate::upkeep::dismissed;
use crate::upkeep::limit_reports;
use crate::upkeep::moves;
use crate::upkeep::stranded;
use crate::upkeep::vanished;
use crate::upkeep::waits;
use crate::worker::steps::step;
use crate::worker::wreckage;

/// How often the deadlines of waiting clients are looked at.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// Everything else that has an age is looked at every so many ticks: ten thousand clients at rest must cost nothing.
pub(crate) const SLOW_TICKS: u32 = 10;

/// Runs a worker until it is told to abort, or until all its clients are gone after it was told to stop.
pub(crate) async fn run(worker: Rc<Worker>, mut mailbox: mpsc::UnboundedReceiver<Mail>) {
    crate::worker::tasks::vital(checks::run(Rc::clone(&worker.checks)));
    if worker.index == 0 {
        let all = || worker.shared.cluster.servers.all().map(|server| server.id);
        worker.checks.begin(&all().collect::<Vec<_>>());
        watch::begin(&worker, all());
    }
    crate::worker::tasks::vital(recovery::run(Rc::clone(&worker)));
    crate::worker::tasks::vital(pipelining::run(Rc::clone(&worker)));
    crate::worker::tasks::vital(cut_out::run(Rc::clone(&worker)));
    // What it opens is open from the beginning.
    crate::worker::iterations::look();
    let mut ticks = tokio::time::interval(TICK);
    let mut count: u32 = 0;
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let beat = tokio::time::sleep(limit_reports::BEAT);
    tokio::pin!(beat);
    loop {
        let servers = &worker.shared.cluster.servers;
        let is_steered = servers.iter().any(|server| server.limit_by_file().is_none());
        let parks_by_age = worker.plan().server.parking == Parking::Age;
        tokio::select! {
            // Time comes before mail: it is due seldom, and mail can come without an end.
            biased;
            _ = ticks.tick() => {
                count = count.wrapping_add(1);
                tick(&worker, count.is_multiple_of(SLOW_TICKS));
            }
            () = &mut beat, if is_steered || parks_by_age => {
                crate::worker::clock::tick();
                let moves = limit_reports::beat(&worker);
                if parks_by_age {
                    admit::park_stuck(&worker);
                }
                let next = if moves || parks_by_age { limit_reports::BEAT } else { limit_reports::SLOW_BEAT };
                beat.as_mut().reset(tokio::time::Instant::now() + next);
            }
            mail = mailbox.recv() => match mail {
                None | Some(Mail::Abort) => break,
                Some(mail) => open_mail(&worker, mail),
            },
        }
        admit::work_off(&worker);
        if worker.is_stopping() && worker.clients.borrow().is_empty() {
            break;
        }
    }
    let mut report = worker.counters.report();
    report.extend(class_report(&worker));
    let report: Vec<_> = report.iter().map(|(name, count)| format!("{name}={count}")).collect();
    tracing::info!(worker = worker.index, counters = report.join(" "), "worker ends");
}

/// What each class has had, if there are several.
pub(crate) fn class_report(worker: &Worker) -> Vec<(String, u64)> {
    if worker.classes().len() == 1 {
        return Vec::new();
    }
    let mut report = std::collections::BTreeMap::new();
    for local in worker.locals() {
        for (class, counts) in local.gate.borrow().class_counts() {
            for (what, count) in [
                ("started", counts.started),
                ("waited", counts.waited),
                ("refused", counts.refused),
                ("busy_us", counts.busy),
            ] {
                *report.entry(format!("classes.{class}.{what}")).or_default() += count;
            }
        }
    }
    report.into_iter().filter(|(_, count)| *count > 0).collect()
}

pub(crate) fn open_mail(worker: &Rc<Worker>, mail: Mail) {
    match mail {
        Mail::SlotFree(server) | Mail::BackendFree(server) => admit::pump(worker, server),
        Mail::OpenBackend(server, key) => backend_task::open(worker, server, key),
        Mail::BackendOfUserWanted(user) => {
            supply::close_idle_of(worker, &user);
        }
        Mail::BackendWanted(server) => supply::give_idle(worker, server),
        Mail::GiveUpIdle(server, tell) => {
            // The worker that has asked may not wait any longer.
            let _ = tell.send(supply::give_up_idle(worker, server));
        }
        Mail::ReclaimIdle(server) => {
            worker.at(server).takes_back.set(false);
            supply::reclaim_idle(worker, server);
        }
        Mail::Backend(parcel) => backend_task::arrive(worker, *parcel),
        Mail::Kill(order) => kill_orders::obey(worker, order),
        Mail::Resume(client) => {
            let client = worker.clients.borrow().get(&client).cloned();
            if let Some(client) = client {
                let backend = client.backend().map(|backend| backend.id);
                wreckage::contain(client.id, backend, || resume::resume(worker, &client));
            }
        }
        Mail::Killed(answer) => kill_orders::answered(worker, &answer),
        Mail::Do(job) => job.run(worker),
        Mail::News(news) => hear(worker, news),
        Mail::Stop => {
            pins::log(worker);
            for client in worker.clients.borrow().values() {
                ending::stop_client(worker, client);
            }
        }
        Mail::Abort => {}
    }
}

/// Something has changed with servers.
fn hear(worker: &Rc<Worker>, news: News) {
    match news {
        News::SlotFree(server) => admit::pump(worker, server),
        News::Check(moving) => worker.checks.arrive(moving),
        News::CheckNow(server) => worker.checks.hasten(server),
        News::Down(server) => route::abandon(worker, server),
        News::Silent(silent) => vanished::close_silent(worker, silent),
        News::Unable(server) => refused::end_idle_transactions(worker, server),
        News::NotWriter(server) => route::leave_queue(worker, worker.at(server)),
        News::Rerouted => stranded::release(worker),
        News::CloseIdle(server) => {
            supply::close_idle_for(worker, worker.at(server), Duration::ZERO);
        }
    }
}

/// Looks at what has an age; at all of it if `all` is true.
pub(crate) fn tick(worker: &Rc<Worker>, all: bool) {
    step!("tick");
    crate::worker::clock::tick();
    rights::look(worker);
    queue_timeout::expire(worker);
    dismissed::look(worker);
    stranded::release(worker);
    crowds::look(worker);
    if worker.plan().server.pipeline > 1 {
        pipelining::look_after(worker);
    }
    if all {
        crate::worker::iterations::look();
        worker.locals().for_each(|local| moves::look(worker, local));
    }
    if all || worker.is_stopping() {
        ages::expire_clients(worker);
        ages::expire_backends(worker);
        accounts::look_after(worker);
        vanished::look(worker);
        hidden::look_after(worker);
    }
    if worker.plan().server.parking == Parking::Locks {
        waits::look(worker);
    }
    // A waiter never depends on one wake-up alone.
    for local in worker.locals() {
        if local.gate.borrow().may_give_idle() {
            supply::give_idle(worker, local.server.id);
        }
        if local.gate.borrow().waiting() > 0 {
            local.gate.borrow_mut().look_again();
            supply::reclaim_idle(worker, local.server.id);
            admit::pump(worker, local.server.id);
        }
    }
}
