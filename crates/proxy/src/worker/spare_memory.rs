//! Gives memory back that a flood has left behind: see [`engine::spare_memory`].

use std::time::Duration;

use engine::spare_memory::{Memory, Spare};
use sys::heap;

/// Looks so often. The allocator's books are read under its locks, which takes milliseconds where much is freed in
/// pieces.
const LOOK: Duration = Duration::from_secs(5);

/// Looks for ever, where the C library tells what it keeps. It does not belong into a worker, whose clients would wait.
pub(crate) async fn look_after() {
    let mut spare = Spare::default();
    while let Some(memory) = memory() {
        if spare.look(memory, crate::worker::clock::read()) {
            heap::give_back();
            let left = self::memory().unwrap_or(memory);
            spare.see_rest(left);
            let (had, left) = (memory.resident >> 20, left.resident >> 20);
            tracing::debug!(had, left, "memory that was not used any more was given back; in MiB");
        }
        tokio::time::sleep(LOOK).await;
    }
    std::future::pending().await
}

fn memory() -> Option<Memory> {
    Some(Memory { resident: heap::resident()?, used: heap::used()? })
}
