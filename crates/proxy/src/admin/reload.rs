//! Reads the configuration again and puts it in force, while clients go on: on the console, and at a signal.
//!
//! What can fail (files, certificates, addresses to listen on) is tried first; then all is in force, or nothing is.
//! What each option of a new file does is said by the table of options ([`config::Applies`]).

use std::sync::Arc;

use backend::Address;
use tokio::sync::{Mutex, Notify, mpsc};
use wire::auth::Secret;

use crate::admin::{self, NewDoors};
use crate::cluster::servers::Site;
use crate::config::{
    self, Applies, Change, InForce, Instructions, Listen, Logs, Plan, Problem, Settings, Warning,
    What,
};
use crate::frontend::listener::{self, Audience, Listener};
use crate::frontend::passed::Passed;
use crate::frontend::reloaded;
use crate::placement::{self, PlacementKeeper};
use crate::state::shared::Shared;
use crate::users::tls::Tls;

/// Reads the configuration again when it is asked to.
pub(crate) struct Reloader {
    shared: Arc<Shared>,
    source: Instructions,
    means: Means,
    placement: Arc<PlacementKeeper>,
    /// What was set on the console since the last reload. One change comes after the other.
    settings: Mutex<Settings>,
    /// Other files may be named from now on.
    renewed: Notify,
}

/// What a reload does that is not its own to do.
pub(crate) struct Means {
    pub(crate) log: Box<Relog>,
    /// Told which of the console and the HTTP port are opened and closed.
    pub(crate) doors: mpsc::UnboundedSender<NewDoors>,
    /// Tells the supervisor.
    pub(crate) tell: Box<dyn Fn(ReloadStage<'_>) + Send + Sync>,
    /// Tells why Flifo may not go on as the user that it is, by a plan for servers at these addresses.
    pub(crate) examine: Box<Examine>,
}

type Examine = dyn Fn(&Plan, &[&Address]) -> Result<(), String> + Send + Sync;

/// How far a reload is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReloadStage<'a> {
    Begins,
    /// With why nothing has changed, if so.
    Ended(Option<&'a str>),
}

/// Makes ready what logs are to be like; the answer puts that in force.
pub(crate) type Relog = dyn Fn(&Logs) -> Result<Commit, String> + Send + Sync;

type Commit = Box<dyn FnOnce() + Send>;

/// All that a new plan needs, ready to be used.
struct Prepared {
    plan: Plan,
    tls: Option<Tls>,
    sites: Vec<Site>,
    opened: Vec<(Listen, Listener)>,
    closed: Vec<Listen>,
    logs: Commit,
    doors: NewDoors,
}

/// More changes are not told of one by one.
const TOLD_MAX: usize = 50;

/// What has changed, for the log.
pub(super) fn told(changes: &[Change]) -> String {
    let one = |change: &Change| match &change.what {
        What::Changed(was, is) => {
            let shown = |value: &Option<String>| value.as_deref().unwrap_or("not set").to_owned();
            let (path, applies) = (&change.path, change.applies.name());
            format!("{path}: {} -> {} ({applies})", shown(was), shown(is))
        }
        What::Added => format!("{}: added", change.path),
        What::Removed => format!("{}: removed", change.path),
        What::Renewed => format!("{}: renewed", change.path),
    };
    let mut told: Vec<_> = changes.iter().take(TOLD_MAX).map(one).collect();
    if changes.len() > TOLD_MAX {
        told.push(format!("and {} more", changes.len() - TOLD_MAX));
    }
    told.join("; ")
}

/// What a configuration was read as.
type Loaded = Result<(Plan, Vec<Warning>), Vec<Problem>>;

impl Reloader {
    pub(crate) fn new(
        shared: Arc<Shared>,
        source: Instructions,
        means: Means,
        placement: Arc<PlacementKeeper>,
    ) -> Self {
        let (settings, renewed) = (Mutex::default(), Notify::new());
        Self { shared, source, means, placement, settings, renewed }
    }

    /// What has changed, of which all is in force that can be without a start; or why nothing is. What was set on the
    /// console counts no longer: the file says all.
    pub(crate) async fn reload(&self) -> Result<Vec<Change>, String> {
        let mut settings = self.settings.lock().await;
        (self.means.tell)(ReloadStage::Begins);
        let loaded = self.source.load();
        tell_warnings(&loaded, |_| true);
        let done = self.adopt(loaded, |_| Ok(())).await;
        (self.means.tell)(ReloadStage::Ended(done.as_ref().err().map(String::as_str)));
        match &done {
            Ok(changes) => {
                settings.clear();
                for server in self.shared.cluster.servers.iter() {
                    self.shared.cluster.set_limit(server, None);
                }
                let waits = changes.iter().filter(|it| waits(it)).count();
                let (count, what) = (changes.len(), told(changes));
                tracing::info!(changes = count, waits, what, "the configuration was read again");
            }
            Err(why) => tracing::error!(why, "the configuration was not read again"),
        }
        done
    }

    /// Sets an option until the next reload; without a value, it is what it would be had none been set.
    pub(crate) async fn set(&self, name: &str, value: Option<&str>) -> Result<Vec<Change>, String> {
        let mut settings = self.settings.lock().await;
        let mut new = settings.clone();
        match value {
            Some(value) => _ = new.insert(name.to_owned(), Secret::from(value)),
            None => {
                let was_set = new.remove(name).is_some();
                if !was_set && !config::is_option(name) {
                    return Err(format!("{name} was not set on the console"));
                }
            }
        }
        let loaded = self.source.load_again(&self.shared.plan(), &new);
        tell_warnings(&loaded, |option| option == name);
        let refuse = |changes: &[Change]| match changes.iter().find(|it| waits(it)) {
            Some(Change { path, applies: Applies::Restart(why), .. }) => {
                Err(format!("{path} is set when Flifo is started: {why}"))
            }
            _ => Ok(()),
        };
        let changes = self.adopt(loaded, refuse).await?;
        *settings = new;
        Ok(changes)
    }

    /// Reads the files that options name, and nothing else.
    pub(crate) async fn renew_files(&self) -> Result<Vec<Change>, String> {
        let settings = self.settings.lock().await;
        let loaded = self.source.load_again(&self.shared.plan(), &settings);
        self.adopt(loaded, |_| Ok(())).await
    }

    /// Waits until other files may be named than before.
    pub(crate) async fn renewed(&self) {
        self.renewed.notified().await;
    }

    /// Puts a plan in force, if what it changes may be changed.
    async fn adopt(
        &self,
        loaded: Loaded,
        judge: impl FnOnce(&[Change]) -> Result<(), String>,
    ) -> Result<Vec<Change>, String> {
        let unchanged = |why: String| format!("nothing has changed: {why}");
        if self.shared.is_departing() {
            let why = "another Flifo takes over from this one, and has read the configuration";
            return Err(unchanged(why.to_owned()));
        }
        let (new, _) = loaded.map_err(|problems| {
            let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
            unchanged(problems.join("; "))
        })?;
        let old = self.shared.plan();
        let may_place = self.placement.may_place(&new);
        let InForce { plan, changes } = config::in_force(&old, new, may_place);
        judge(&changes).map_err(unchanged)?;
        let prepared = self.prepare(&old, plan).map_err(unchanged)?;
        self.put_in_force(&old, prepared).await;
        self.renewed.notify_one();
        Ok(changes)
    }

    fn prepare(&self, old: &Plan, plan: Plan) -> Result<Prepared, String> {
        let tls = self.shared.tls().renewed(&plan).map_err(|error| error.to_string())?;
        let sites = self.sites(old, &plan)?;
        let addresses: Vec<_> = sites.iter().map(|site| &site.address).collect();
        (self.means.examine)(&plan, &addresses)?;
        let log = (old.logs != plan.logs).then(|| (self.means.log)(&plan.logs)).transpose()?;
        let records = self.shared.records.prepare(&plan.logs).map_err(|error| error.to_string())?;
        let mut opened = Vec::new();
        for listen in plan.listen.iter().filter(|it| !old.listen.contains(it)) {
            let bound = listener::bind(listen, plan.backlog, Audience::Everybody);
            let bound = bound.map_err(|error| {
                let why = listener::explain(listen, &error, "listen");
                format!("cannot listen on {listen}: {why}")
            })?;
            opened.push((listen.clone(), bound));
        }
        let closed = old.listen.iter().filter(|it| !plan.listen.contains(it)).cloned().collect();
        let doors = admin::bind(&plan, Some(old), &mut Passed::default(), listener::bind).map_err(
            |(listen, error, option)| {
                let why = listener::explain(&listen, &error, option);
                format!("cannot listen on {listen}: {why}")
            },
        )?;
        let all = |plan: &Plan| [&plan.console.listen[..], &plan.http.listen].concat();
        let stay = all(&plan);
        let gone = all(old).into_iter().filter(|listen| !stay.contains(listen)).collect();
        let doors = NewDoors { opened: doors, closed: gone };
        let logs = Box::new(move || {
            log.into_iter().for_each(|commit| commit());
            records();
        });
        Ok(Prepared { plan, tls, sites, opened, closed, logs, doors })
    }

    /// The servers of a new plan. One that Flifo has found itself stays the one.
    fn sites(&self, old: &Plan, plan: &Plan) -> Result<Vec<Site>, String> {
        let found = old.servers.is_empty().then(|| &self.shared.cluster.first().address);
        let sites = Site::all(plan, found).map_err(|error| error.to_string())?;
        let is_new = |site: &&Site| self.shared.cluster.servers.find(site).is_none();
        match sites.iter().filter(is_new).count() + self.shared.cluster.servers.places() {
            _ if sites.is_empty() => Err("no server is named: set server.address".to_owned()),
            0..=SERVERS_MAX => Ok(sites),
            _ => Err(format!(
                "this Flifo has served more than {SERVERS_MAX} different servers: start it again"
            )),
        }
    }

    async fn put_in_force(&self, old: &Plan, prepared: Prepared) {
        let Prepared { plan, tls, sites, opened, closed, logs, doors } = prepared;
        let (shared, plan) = (&self.shared, Arc::new(plan));
        // It is there for as long as the process is.
        let _ = self.means.doors.send(doors);
        logs();
        tls.into_iter().for_each(|tls| shared.offer(tls));
        let had = self.addresses();
        let adopted = reloaded::put_in_force(shared, old, &plan, sites);
        let is_placed_anew = placement_differs(old, &plan) || had != self.addresses();
        let moved = shared.ask(0, move |worker| {
            for (listen, listener) in opened {
                listener::open(worker, &listen, listener);
            }
            closed.iter().for_each(|listen| listener::close(worker, listen));
        });
        for done in adopted.into_iter().chain([moved]) {
            // A worker that is gone has no clients.
            let _ = done.await;
        }
        if is_placed_anew {
            let placement = Arc::clone(&self.placement);
            // It waits for a thread, which another thread than this one can.
            let _ = tokio::task::spawn_blocking(move || placement.renew()).await;
        }
    }

    /// Where servers are.
    fn addresses(&self) -> Vec<Address> {
        self.shared.cluster.servers.iter().map(|server| server.address.clone()).collect()
    }
}

/// Logs what is odd about these options.
fn tell_warnings(loaded: &Loaded, is_told: impl Fn(&str) -> bool) {
    let warnings = loaded.iter().flat_map(|(_, warnings)| warnings);
    let is_told = |it: &&Warning| is_told(it.option.as_deref().unwrap_or_default());
    for warning in warnings.filter(is_told) {
        tracing::warn!("{warning}");
    }
}

fn waits(change: &Change) -> bool {
    matches!(change.applies, Applies::Restart(_))
}

/// Whether what is placed, or where that is written down, is something else by another plan.
fn placement_differs(old: &Plan, new: &Plan) -> bool {
    old.placement != new.placement || placement::journal_path(old) != placement::journal_path(new)
}

/// What is known of a server stays for as long as the process lives.
const SERVERS_MAX: usize = 1000;
