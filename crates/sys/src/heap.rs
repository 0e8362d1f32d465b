//! What the C library's allocator keeps, and how it is given back.

/// Bytes that this process was given by its allocator and has not freed. `None` where the C library does not tell.
pub fn used() -> Option<u64> {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: it reads the allocator's own books, under the allocator's own locks.
        let books = unsafe { libc::mallinfo2() };
        Some((books.uordblks + books.hblkhd) as u64)
    }
    #[cfg(not(target_env = "gnu"))]
    None
}

/// Bytes of memory that this process has. `None` where the kernel does not tell.
pub fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes << 10)
}

/// Gives pages that hold nothing back to the system. Threads that ask for memory meanwhile may wait for milliseconds.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: it touches free memory only, under the allocator's own locks.
        unsafe { libc::malloc_trim(0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How much this process was given and freed, and how much of it the system got back.
    fn give_and_free() -> Option<[u64; 3]> {
        const EACH: usize = 4 << 10;
        let before = used()?;
        let mut blocks: Vec<_> = (0..20_000).map(|_| vec![1_u8; EACH]).collect();
        let (full, had) = (used()?, resident()?);
        // One in a hundred stays, so that the heap cannot shrink at its end alone.
        let mut at = 0;
        blocks.retain(|_| {
            at += 1;
            at % 100 == 0
        });
        let freed = full.saturating_sub(used()?);
        give_back();
        let back = had.saturating_sub(resident()?);
        drop(blocks);
        Some([full.saturating_sub(before), freed, back])
    }

    #[test]
    fn what_was_freed_goes_back() {
        const MIB: u64 = 1 << 20;
        // Other tests of this process ask for memory and free it meanwhile.
        let mut seen = Vec::new();
        for _ in 0..50 {
            let Some(figures) = give_and_free() else { return };
            let [given, freed, back] = figures.map(|bytes| bytes / MIB);
            if given > 70 && freed > 60 && back > 50 {
                return;
            }
            seen.push([given, freed, back]);
        }
        panic!("MiB given, freed and back: {seen:?}");
    }
}
