//! What is done now and then, beside the road: by age, by the clock, and when something has changed.

pub(crate) mod ages;
pub(crate) mod cut_out;
pub(crate) mod dismissed;
pub(crate) mod limit_reports;
pub(crate) mod moves;
pub(crate) mod report;
pub(crate) mod stranded;
pub(crate) mod vanished;
pub(crate) mod waits;
