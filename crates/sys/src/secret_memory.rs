//! Memory for secrets: never swapped, left out of core dumps, wiped when it is given back.
//!
//! Secrets are short and few, and the kernel locks whole pages, so all of them share some: an arena of chunks of
//! 64 KiB, each a mapping of its own, handed out in blocks of 64 bytes. A process may lock little memory
//! (`RLIMIT_MEMLOCK`, 8 MiB on current kernels); what is beyond that bound is not locked, and [`unlocked`] counts it.
//!
//! Invariants: a block belongs to one [`Locked`] at a time; a free block holds zeros.

use std::ffi::c_void;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mlock, mmap_anonymous, munmap};

/// Bytes in memory for secrets.
pub struct Locked {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a `Locked` is the only owner of its bytes, as a `Box<[u8]>` is.
unsafe impl Send for Locked {}
// SAFETY: shared, it only gives out shared references to its bytes.
unsafe impl Sync for Locked {}

impl Locked {
    /// As many zeros.
    pub fn zeroed(len: usize) -> Self {
        if len == 0 {
            return Self { start: NonNull::dangling(), len };
        }
        let start = match len.div_ceil(BLOCK) {
            blocks if blocks <= BLOCKS => arena().take(blocks),
            _ => map(whole_pages(len)),
        };
        Self { start, len }
    }
}

impl From<&[u8]> for Locked {
    fn from(bytes: &[u8]) -> Self {
        let mut locked = Self::zeroed(bytes.len());
        locked.copy_from_slice(bytes);
        locked
    }
}

impl Clone for Locked {
    fn clone(&self) -> Self {
        Self::from(&**self)
    }
}

impl Deref for Locked {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `start` is the beginning of `len` initialised bytes that this value alone owns; of no bytes, it is
        // dangling and aligned, which a slice of length 0 may be.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; and the borrow is exclusive.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        wipe(self);
        match self.len.div_ceil(BLOCK) {
            0 => {}
            blocks if blocks <= BLOCKS => arena().give_back(self.start, blocks),
            // SAFETY: the mapping was made by `map` for this value alone, with this length, and is not used again.
            _ => unsafe {
                let _ = munmap(self.start.as_ptr().cast(), whole_pages(self.len));
            },
        }
    }
}

/// How many bytes hold secrets and could not be locked, so that the kernel may swap them.
pub fn unlocked() -> usize {
    UNLOCKED.load(Ordering::Relaxed)
}

/// Overwrites what is there, also where the compiler sees that it is not read again.
fn wipe(bytes: &mut [u8]) {
    for byte in bytes {
        // SAFETY: `byte` is a valid, exclusive reference.
        unsafe { ptr::write_volatile(byte, 0) };
    }
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
}

/// All chunks.
struct Arena {
    chunks: Vec<Chunk>,
}

/// One mapping, and which of its blocks are in use.
struct Chunk {
    start: NonNull<u8>,
    used: [bool; BLOCKS],
}

// SAFETY: a chunk is memory that no thread owns; what hands it out is behind a lock.
unsafe impl Send for Chunk {}

impl Arena {
    fn take(&mut self, blocks: usize) -> NonNull<u8> {
        for chunk in &mut self.chunks {
            if let Some(start) = chunk.take(blocks) {
                return start;
            }
        }
        let mut chunk = Chunk { start: map(CHUNK), used: [false; BLOCKS] };
        chunk.used[..blocks].fill(true);
        let start = chunk.start;
        self.chunks.push(chunk);
        start
    }

    /// Marks blocks as free. Their bytes are zeros already.
    fn give_back(&mut self, start: NonNull<u8>, blocks: usize) {
        let address = start.as_ptr() as usize;
        for chunk in &mut self.chunks {
            let offset = address.wrapping_sub(chunk.start.as_ptr() as usize);
            if offset < CHUNK {
                chunk.used[offset / BLOCK..][..blocks].fill(false);
                return;
            }
        }
    }
}

impl Chunk {
    /// The first run of free blocks that is long enough.
    fn take(&mut self, blocks: usize) -> Option<NonNull<u8>> {
        let at = self.used.windows(blocks).position(|run| run.iter().all(|used| !used))?;
        self.used[at..][..blocks].fill(true);
        // SAFETY: the run lies within the chunk, so the result points into the same mapping.
        Some(unsafe { self.start.add(at * BLOCK) })
    }
}

/// Maps memory, and locks it where the process may.
///
/// # Panics
///
/// If the machine has no memory left, as any allocation does.
fn map(len: usize) -> NonNull<u8> {
    // SAFETY: a new anonymous mapping at a place of the kernel's choice touches no memory that exists.
    let start = unsafe {
        mmap_anonymous(
            ptr::null_mut::<c_void>(),
            len,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE,
        )
    };
    let start = start.expect("memory for secrets can be mapped");
    // SAFETY: the mapping was just made and has this length; none of the advice changes what it holds in this process.
    let is_locked = unsafe {
        let _ = madvise(start, len, Advice::LinuxDontDump);
        let _ = madvise(start, len, Advice::LinuxWipeOnFork);
        mlock(start, len).is_ok()
    };
    if !is_locked {
        UNLOCKED.fetch_add(len, Ordering::Relaxed);
    }
    NonNull::new(start.cast()).expect("the kernel maps nothing at address 0")
}

const fn whole_pages(len: usize) -> usize {
    len.next_multiple_of(PAGE)
}

fn arena() -> MutexGuard<'static, Arena> {
    ARENA.lock().unwrap_or_else(PoisonError::into_inner)
}

static ARENA: Mutex<Arena> = Mutex::new(Arena { chunks: Vec::new() });
static UNLOCKED: AtomicUsize = AtomicUsize::new(0);

const CHUNK: usize = 64 << 10;
const BLOCK: usize = 64;
const BLOCKS: usize = CHUNK / BLOCK;
/// The largest page of any machine that Flifo runs on is a multiple of this; a mapping is rounded up by the kernel.
const PAGE: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_kept_apart_and_wiped() {
        let secrets: Vec<Locked> = (0..3000_usize)
            .map(|seed| {
                let bytes: Vec<u8> = (0..seed % 300).map(|at| (seed + at) as u8).collect();
                Locked::from(&*bytes)
            })
            .collect();
        for (seed, secret) in secrets.iter().enumerate() {
            assert_eq!(secret.len(), seed % 300);
            assert!(secret.iter().enumerate().all(|(at, byte)| *byte == (seed + at) as u8));
        }
        drop(secrets);
        assert!(
            Locked::zeroed(CHUNK).iter().all(|byte| *byte == 0),
            "what was given back is wiped"
        );
    }

    #[test]
    fn a_long_secret_has_a_mapping_of_its_own() {
        let mut long = Locked::zeroed(CHUNK + 1);
        long[CHUNK] = 7;
        let copy = long.clone();
        drop(long);
        assert_eq!((copy.len(), copy[CHUNK]), (CHUNK + 1, 7));
        assert!(Locked::zeroed(0).is_empty());
    }

    /// Looks at the kernel's own account of the mapping: `lo` is locked, `dd` is left out of dumps, `wf` is wiped in a
    /// child.
    #[test]
    fn the_kernel_locks_it_and_leaves_it_out_of_dumps() {
        let secret = Locked::from(&b"secret"[..]);
        let address = secret.as_ptr() as usize;
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("readable");
        let mut is_here = false;
        let mut flags = None;
        for line in maps.lines() {
            let range = line.split(' ').next().and_then(|it| it.split_once('-'));
            let parse = |text: &str| usize::from_str_radix(text, 16).ok();
            if let Some((from, to)) = range.and_then(|(from, to)| Some((parse(from)?, parse(to)?)))
            {
                is_here = (from..to).contains(&address);
            } else if is_here && let Some(found) = line.strip_prefix("VmFlags: ") {
                flags = Some(found.to_owned());
            }
        }
        let flags = flags.expect("the mapping is listed");
        let has = |flag: &str| flags.split(' ').any(|it| it == flag);
        assert!(has("dd") && has("wf"), "{flags}");
        assert!(has("lo") || unlocked() > 0, "{flags}");
    }
}
