//! What came out of a run.

/// Figures of what was measured: from the end of the warm-up on, or between two marks.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Statements a second.
    pub rate: f64,
    /// Milliseconds from the question to the answer.
    pub p50: f64,
    pub p99: f64,
    /// Jain's index of what the clients got.
    pub jain: f64,
    /// Threads that ran in the server at once, and the share of its cores that were busy.
    pub running: f64,
    pub busy: f64,
    /// Statements that were let in beyond the limit by a borrow, of all.
    pub borrowed: f64,
    /// Slots that were granted to another worker, of all that were handed on.
    pub granted: f64,
    /// Most statements in the server at once.
    pub most: usize,
    /// Statements a second between the marks, for each process, and the mean of its limit.
    pub rates: Vec<Vec<f64>>,
    pub limits: Vec<Vec<f64>>,
    /// Transactions and other units a second, and their times.
    pub writes: f64,
    pub reads: f64,
    pub writes_p99: f64,
    pub reads_p99: f64,
    /// Reads a second between the marks.
    pub reads_between: Vec<f64>,
    /// Lock waits that ended in an error.
    pub timeouts: u64,
    /// What each worker's clients got, on the average.
    pub by_worker: Vec<f64>,
    /// Of open arrivals between the marks: how many came, were answered in time, and were refused.
    pub came: Vec<u64>,
    pub useful: Vec<u64>,
    pub refused: Vec<u64>,
}

/// Jain's index: 1 if all got the same, 1/n if one got everything.
pub fn jain(got: impl Iterator<Item = f64>) -> f64 {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for one in got {
        count += 1.0;
        sum += one;
        squares += one * one;
    }
    if squares > 0.0 { sum * sum / (count * squares) } else { 0.0 }
}

/// The value below which such a share of them lies.
pub(super) fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let at = (share * values.len() as f64) as usize;
    values.get(at.min(values.len().saturating_sub(1))).copied().unwrap_or(0.0)
}
