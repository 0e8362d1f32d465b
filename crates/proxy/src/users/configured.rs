//! Users that the configuration names, and what stays of them when it is read again.

use std::collections::HashMap;
use std::sync::Arc;

use engine::account::name::UserName;

use crate::config::Plan;
use crate::users::proof::Passwords;
use crate::users::{Cap, User};

/// Users that the configuration names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Configured {
    pub(super) known: HashMap<UserName, Arc<User>>,
    /// Users whose clients are passed through. Each client has one backend, so one bound serves for both.
    pub(super) pass_through: HashMap<UserName, Arc<Cap>>,
    /// Users that it names no longer, as long as they have clients: one that is named again is the same, with what is
    /// counted of it.
    former: HashMap<UserName, Arc<User>>,
    /// Backends of each that the configuration does not bound.
    pub(super) share: Option<u32>,
}

impl Configured {
    /// Those of a plan.
    pub(crate) fn of(plan: &Plan) -> Self {
        // Without a bound for one server there is none for all.
        let all = plan.connections_of_all(|max| share(max).unwrap_or(u32::MAX));
        let mut users = Self::new(Some(all).filter(|all| *all < u32::MAX));
        for user in &plan.users {
            if !user.pooled {
                users.add_pass_through(
                    UserName::of_account(&user.name),
                    user.clients_max,
                    user.connections_max,
                );
                continue;
            }
            let Some(first) = &user.password else { continue };
            let known = [first].into_iter().chain(&user.second_password).cloned().collect();
            let passwords = Passwords { known, has_others: false };
            let known = User::known(&passwords, user.plugin.clone());
            users.add(
                UserName::of_account(&user.name),
                known
                    .bounded(user.clients_max, user.connections_max)
                    .ruled(user.routines, user.triggers, user.pins)
                    .sharing_reads(user.share_reads),
            );
        }
        users
    }

    /// No users yet. Of those to come, each that the configuration does not bound has so many backends at most.
    fn new(share: Option<u32>) -> Self {
        Self { share, ..Self::default() }
    }

    fn add(&mut self, name: UserName, user: User) {
        self.known.insert(name, Arc::new(user.sharing(self.share)));
    }

    /// Names a user whose clients are passed through, with what they may have at once.
    fn add_pass_through(
        &mut self,
        name: UserName,
        clients_max: Option<u32>,
        connections_max: Option<u32>,
    ) {
        let max = clients_max.into_iter().chain(connections_max).min();
        self.pass_through.insert(name, Arc::new(Cap::new(max)));
    }

    /// Whether a user is named, in either mode.
    pub(super) fn has(&self, name: &UserName) -> bool {
        self.known.contains_key(name) || self.pass_through.contains_key(name)
    }

    /// These, in the places of those of their names: what is counted of users goes on.
    pub(super) fn succeeding(self, old: &Self) -> Self {
        let known = self.known.into_iter().map(|(name, user)| {
            let before = old.known.get(&name).or_else(|| old.former.get(&name));
            let user = match (before, Arc::try_unwrap(user)) {
                (Some(old), Ok(user)) => user.succeeding(old),
                (_, Ok(user)) => Arc::new(user),
                (_, Err(user)) => user,
            };
            (name, user)
        });
        let pass_through = self.pass_through.into_iter().map(|(name, cap)| {
            let Some(old) = old.pass_through.get(&name) else { return (name, cap) };
            old.bound(cap.max());
            (name, Arc::clone(old))
        });
        let known: HashMap<_, _> = known.collect();
        let is_former =
            |(name, user): &(&UserName, &Arc<User>)| !known.contains_key(*name) && user.is_used();
        let former = old.known.iter().chain(&old.former).filter(is_former);
        let former = former.map(|(name, user)| (name.clone(), Arc::clone(user))).collect();
        Self { known, former, pass_through: pass_through.collect(), share: self.share }
    }
}

/// Of so many backends to a server, what one user has at most: the rest is for others, whatever it keeps. `None`: all,
/// where an eighth would be less than two.
fn share(connections_max: u32) -> Option<u32> {
    (connections_max >= 16).then(|| connections_max - connections_max / 8)
}
