//! The plan that is in force, which a reload replaces.

use std::sync::{Arc, PoisonError, RwLock};

use super::plan::Plan;

/// The same for all threads. A worker has a copy of its own, which it is given in an iteration of its loop.
#[derive(Debug)]
pub(crate) struct Live(RwLock<Arc<Plan>>);

impl Live {
    pub(crate) fn new(plan: Plan) -> Self {
        Self(RwLock::new(Arc::new(plan)))
    }

    pub(crate) fn get(&self) -> Arc<Plan> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn replace(&self, plan: Arc<Plan>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = plan;
    }
}
