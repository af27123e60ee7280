//! Limits of the kernel and of the unit that a service may meet with another allocator.

use std::fs;

use heaptrial_model::Version;
use heaptrial_model::units::memory;

use crate::preflight::finding::{Check, Findings};
use crate::preflight::head_room::meminfo_bytes;
use crate::preflight::planned::PlannedPreload;
use crate::preflight::subject::Subject;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The kernel's own value of `vm.max_map_count`.
const USUAL_MAP_COUNT: u64 = 65_530;

/// Part of MemoryMax from which another allocator could reach it: more than the spread between known allocators
/// leaves no room for.
const NEAR_MEMORY_MAX: f64 = 0.5;

pub(crate) fn check(subject: &Subject<'_>, preload: &PlannedPreload, findings: &mut Findings) {
    memory_max(subject, findings);
    if preload.library.is_some() {
        map_count(subject, preload, findings);
        address_space(subject, preload, findings);
        data(subject, preload, findings);
        overcommit(subject, preload, findings);
    }
}

fn memory_max(subject: &Subject<'_>, findings: &mut Findings) {
    let (Some(limit), Some(process)) = (subject.unit().memory_max_bytes, &subject.service.process) else {
        return;
    };
    let present = process.sample.rss_bytes;
    if present as f64 > limit as f64 * NEAR_MEMORY_MAX {
        findings.warn(
            Check::MemoryLimit,
            format!("it uses {} of MemoryMax={}", memory(present as f64), memory(limit as f64)),
            "allocators differ by a factor of up to 5 on the same service; an arm that needs more is killed by the kernel, and its figures end there",
            "raise MemoryMax= for the time of the trial, on all arms alike",
        );
    }
}

fn map_count(subject: &Subject<'_>, preload: &PlannedPreload, findings: &mut Findings) {
    let Some(limit) = subject.number("/proc/sys/vm/max_map_count") else { return };
    let fix = "run `sysctl -w vm.max_map_count=1048576`, and keep it in /etc/sysctl.d";
    let why =
        "an allocator that cannot make another mapping reports that memory is used up, and the service fails";
    let present = subject.mappings.as_ref().map_or(0, Vec::len) as u64;
    if present > limit / 2 {
        findings.warn(
            Check::MapCount,
            format!("it has {present} mappings of at most {limit} (vm.max_map_count)"),
            why,
            fix,
        );
    } else if preload.spec.family == "hardened_malloc" && limit <= USUAL_MAP_COUNT {
        findings.warn(
            Check::MapCount,
            format!("vm.max_map_count is {limit}, and hardened_malloc puts guard pages between its slabs"),
            why,
            fix,
        );
    }
}

/// Address space that a family reserves at its start, as measured: `VmSize` of a process with 250 MiB in use.
fn reserved_bytes(preload: &PlannedPreload) -> u64 {
    let checks = preload.spec.variants.iter().any(|variant| variant == "checks");
    match preload.spec.family.as_str() {
        "scudo" => 180 * GIB,
        "snmalloc" if checks => 1280 * GIB,
        "snmalloc" => 256 * GIB,
        "mimalloc" if preload.version.as_ref().is_none_or(|version| *version >= Version::new("2.1")) => GIB,
        _ => 0,
    }
}

/// Families that do without a reservation that fails. The others end the program.
fn does_without(preload: &PlannedPreload) -> bool {
    preload.spec.family == "mimalloc"
}

fn address_space(subject: &Subject<'_>, preload: &PlannedPreload, findings: &mut Findings) {
    let Some(limit) = limit(subject, "Max address space", "LimitAS") else { return };
    let reserved = reserved_bytes(preload);
    let fix = "take LimitAS= out of the unit; MemoryMax= limits memory and not addresses";
    if reserved > limit && !does_without(preload) {
        findings.refuse(
            Check::AddressSpace,
            format!(
                "{} reserves {} of addresses at its start, and LimitAS is {}",
                preload.spec.family,
                memory(reserved as f64),
                memory(limit as f64)
            ),
            "it ends the program when it cannot: the service would not start",
            fix,
        );
        return;
    }
    let present = subject.service.process.as_ref().map_or(0, |process| process.sample.vsize_bytes);
    if present + reserved + 64 * MIB > limit {
        findings.warn(
            Check::AddressSpace,
            format!(
                "it uses {} of addresses, {} reserves {} more, and LimitAS is {}",
                memory(present as f64),
                preload.spec.family,
                memory(reserved as f64),
                memory(limit as f64)
            ),
            "an allocator that gets no more addresses reports that memory is used up, and the service fails",
            fix,
        );
    }
}

/// Private writable mappings count as data (RLIMIT_DATA in getrlimit(2)); of all families snmalloc reserves addresses so.
fn data(subject: &Subject<'_>, preload: &PlannedPreload, findings: &mut Findings) {
    let limit = limit(subject, "Max data size", "LimitDATA").filter(|_| preload.spec.family == "snmalloc");
    let reserved = reserved_bytes(preload);
    if let Some(limit) = limit.filter(|limit| reserved > *limit) {
        findings.refuse(
            Check::AddressSpace,
            format!(
                "{} reserves {} of data at its start, and LimitDATA is {}",
                preload.spec.family,
                memory(reserved as f64),
                memory(limit as f64)
            ),
            "it ends the program when it cannot: the service would not start",
            "take LimitDATA= out of the unit; MemoryMax= limits memory and not addresses",
        );
    }
}

/// A limit of the process (`/proc/PID/limits`), or of the unit.
fn limit(subject: &Subject<'_>, of_process: &str, of_unit: &str) -> Option<u64> {
    let Some(bytes) = subject.process_file("limits") else {
        return subject.text.last("Service", of_unit).and_then(|found| size(&found.value));
    };
    let text = String::from_utf8_lossy(&bytes);
    let line = text.lines().find_map(|line| line.strip_prefix(of_process))?;
    line.split_whitespace().next()?.parse().ok()
}

/// A size as systemd writes it, such as `64M` or `1G:2G`.
fn size(text: &str) -> Option<u64> {
    let soft = text.split(':').next()?;
    let (digits, unit) = soft.split_at(soft.find(|c: char| !c.is_ascii_digit()).unwrap_or(soft.len()));
    let factor = match unit.trim_end_matches('B') {
        "" => 1,
        "K" => 1 << 10,
        "M" => MIB,
        "G" => GIB,
        "T" => 1 << 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

fn overcommit(subject: &Subject<'_>, preload: &PlannedPreload, findings: &mut Findings) {
    const STRICT: u64 = 2;
    let reserved = reserved_bytes(preload);
    if subject.number("/proc/sys/vm/overcommit_memory") != Some(STRICT) || reserved == 0 {
        return;
    }
    let text = fs::read_to_string(subject.root.path("/proc/meminfo")).unwrap_or_default();
    let (limit, used) = (meminfo_bytes(&text, "CommitLimit:"), meminfo_bytes(&text, "Committed_AS:"));
    let left = limit.zip(used).map(|(limit, used)| limit.saturating_sub(used));
    let told = left.map_or(String::new(), |left| format!(", {} are left", memory(left as f64)));
    findings.warn(
        Check::AddressSpace,
        format!("vm.overcommit_memory is 2{told}, and {} reserves {} ahead", preload.spec.family, memory(reserved as f64)),
        "with strict accounting, memory that is reserved may count before it is used; the service may fail where it would not on another host",
        "set vm.overcommit_memory to 0, or try one service first",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_units_are_read() {
        assert_eq!(size("64M"), Some(64 * MIB));
        assert_eq!(size("4096"), Some(4096));
        assert_eq!(size("1G:2G"), Some(GIB));
        assert_eq!(size("infinity"), None);
    }
}
