//! Feeds `fuzz::proxy_header`, which owns what must hold.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::proxy_header::run(data));
