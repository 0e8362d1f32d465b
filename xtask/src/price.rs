//! What one call costs, measured closely: for parts that are far smaller than what loads scatter.

use sys::threads::own_cpu_time;

/// Nanoseconds of CPU a call: the median of several long series. CPU time, so that others on the machine do not count;
/// caches are warm, so it is no more than this where the call is one of many.
pub(crate) fn nanos(mut call: impl FnMut()) -> f64 {
    const CALLS: u32 = 1_000_000;
    let mut series = || {
        let begun = own_cpu_time();
        (0..CALLS).for_each(|_| call());
        (own_cpu_time() - begun).as_nanos() as f64 / f64::from(CALLS)
    };
    let mut costs: Vec<f64> = (0..9).map(|_| series()).collect();
    costs.sort_by(f64::total_cmp);
    costs[costs.len() / 2]
}
