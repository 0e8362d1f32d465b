//! Was the server's allocator told to go to the kernel for each buffer?

use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement, need};

use super::bytes;

pub(super) const FINDING: Finding = Finding {
    name: "malloc-environment",
    title: "Settings of the allocator",
    why: "glibc learns from what is freed which sizes to keep; one fixed threshold in the \
          environment switches that off, and each larger buffer is mapped anew, page by page.",
    source: "mallopt(3), M_MMAP_THRESHOLD; lab pagefaults: 39 times slower for 5 MiB",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let server = facts.process()?;
    let settings = need(&server.allocator_settings)?;
    let allocator = need(&server.allocator)?;
    let shown: Vec<String> = settings.iter().map(|(name, it)| format!("{name}={it}")).collect();
    let text = match shown.is_empty() {
        true => format!("{allocator}, with nothing set"),
        false => format!("{allocator}, with {}", shown.join(" ")),
    };
    if allocator != "glibc" {
        return Ok(Judgement::ok(text));
    }
    let threshold = settings.iter().find_map(|(name, value)| threshold(name, value));
    let switches_off = settings.iter().any(|(name, value)| {
        SWITCHES.contains(&name.as_str())
            || (name == "GLIBC_TUNABLES" && SWITCHES_NEW.iter().any(|it| value.contains(it)))
    });
    let remedy = "unset it in the unit (systemctl edit mariadb: UnsetEnvironment=…), restart";
    Ok(match threshold {
        Some(limit) if limit < LARGEST => {
            let text = format!("{text}: buffers of {} and more are mapped anew", bytes(limit));
            Judgement::bad(text).remedy(remedy)
        }
        // A threshold above every session buffer does what one would wish.
        Some(_) => Judgement::ok(text),
        None if switches_off => {
            let text = format!("{text}: buffers of 128 KiB and more are mapped anew");
            Judgement::bad(text).remedy(remedy)
        }
        None => Judgement::ok(text),
    })
}

fn threshold(name: &str, value: &str) -> Option<u64> {
    match name {
        "MALLOC_MMAP_THRESHOLD_" => number(value),
        "GLIBC_TUNABLES" => value
            .split(':')
            .find_map(|tunable| number(tunable.strip_prefix("glibc.malloc.mmap_threshold=")?)),
        _ => None,
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(text) => u64::from_str_radix(text, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The learning goes up to this size by itself.
const LARGEST: u64 = 32 << 20;
/// Any of them switches the learning off.
const SWITCHES: &[&str] = &["MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_MAX_"];
const SWITCHES_NEW: &[&str] =
    &["glibc.malloc.trim_threshold", "glibc.malloc.top_pad", "glibc.malloc.mmap_max"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{after, is_unknown, server};
    use crate::judgement::Verdict;
    use sys::tree::Seen::{Denied, Known};

    fn with(name: &'static str, value: &'static str) -> impl FnOnce(&mut Facts) {
        move |facts| {
            server(facts).allocator_settings = Known(vec![(name.to_owned(), value.to_owned())]);
        }
    }

    #[test]
    fn a_fixed_threshold_is_told_with_its_size() {
        let judgement = after(FINDING, with("MALLOC_MMAP_THRESHOLD_", "131072"));
        assert_eq!(judgement.verdict, Verdict::Bad);
        assert!(judgement.evidence.contains("128 KiB"), "{}", judgement.evidence);
        let tunable = with("GLIBC_TUNABLES", "glibc.malloc.mmap_threshold=0x20000");
        assert_eq!(after(FINDING, tunable).verdict, Verdict::Bad);
        let trim = with("MALLOC_TRIM_THRESHOLD_", "131072");
        assert_eq!(after(FINDING, trim).verdict, Verdict::Bad);
    }

    #[test]
    fn a_high_threshold_and_other_settings_do_no_harm() {
        let both = "glibc.malloc.mmap_threshold=67108864:glibc.malloc.trim_threshold=1";
        let high = with("GLIBC_TUNABLES", both);
        assert_eq!(after(FINDING, high).verdict, Verdict::Ok);
        assert_eq!(after(FINDING, with("MALLOC_ARENA_MAX", "2")).verdict, Verdict::Ok);
    }

    #[test]
    fn an_environment_that_is_refused_is_unknown() {
        let refuse = |facts: &mut Facts| {
            server(facts).allocator_settings = Denied("/proc/100/environ".to_owned());
        };
        assert!(is_unknown(FINDING, refuse));
    }
}
