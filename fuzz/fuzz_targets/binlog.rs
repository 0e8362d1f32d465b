//! Feeds `fuzz::binlog`, which owns what must hold.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::binlog::run(data));
