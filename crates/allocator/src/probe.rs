//! The probe: a process that runs under an allocator and reports which one it sees.
//!
//! It asks the loaded code itself, by symbols of the process: no file name is trusted.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use heaptrial_model::{Identity, Linkage, Version};
use serde::{Deserialize, Serialize};

use crate::catalog::{Catalog, Family, VersionCall};
use crate::digest;
use crate::identify::UNKNOWN;
use crate::prove::Expected;
use crate::verify::{jemalloc_version, mimalloc_version};

/// The internal command of the program that runs the probe.
pub const PROBE_COMMAND: &str = "allocator-probe";

/// What a process reports of the allocator it runs under.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeAnswer {
    pub schema_version: u32,
    pub malloc_from: Option<PathBuf>,
    pub sha256: Option<String>,
    pub environment: BTreeMap<String, String>,
    pub versions: BTreeMap<VersionCall, String>,
    pub symbols: BTreeMap<String, PathBuf>,
    pub options: BTreeMap<String, String>,
}

/// Body of that command: prints one line of JSON and ends the process.
pub fn run_probe() -> ! {
    let answer = ask();
    let code = match serde_json::to_string(&answer) {
        Ok(line) => i32::from(writeln!(std::io::stdout(), "{line}").is_err()),
        Err(_) => 1,
    };
    std::process::exit(code)
}

fn ask() -> ProbeAnswer {
    let mut options = BTreeMap::new();
    jemalloc_options(&mut options);
    tcmalloc_options(&mut options);
    let names = Catalog::builtin().families().flat_map(|family| family.symbols.iter());
    let malloc_from = symbol("malloc").and_then(object_of);
    let versions = [
        (VersionCall::MiVersion, mi_version().map(|number| number.to_string())),
        (VersionCall::Mallctl, mallctl_string("version")),
        (VersionCall::TcVersion, tc_version()),
        (VersionCall::GnuGetLibcVersion, glibc_version()),
    ];
    ProbeAnswer {
        schema_version: 1,
        sha256: malloc_from.as_ref().and_then(|path| digest::of_file(path).ok()),
        malloc_from,
        environment: environment(),
        versions: versions.into_iter().filter_map(|(call, text)| Some((call, text?))).collect(),
        symbols: names.filter_map(|name| Some((name.clone(), object_of(symbol(name)?)?))).collect(),
        options,
    }
}

fn environment() -> BTreeMap<String, String> {
    let is_read = |name: &str| {
        name == "LD_PRELOAD" || Catalog::builtin().families().any(|family| family.reads_variable(name))
    };
    let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    let variables = std::env::vars_os().map(|(name, value)| (text(name), text(value)));
    variables.filter(|(name, _)| is_read(name)).collect()
}

impl ProbeAnswer {
    /// What a probe printed, or how it failed.
    pub fn read(stdout: &str) -> Result<Self, String> {
        let line = stdout.lines().rev().find(|line| line.starts_with('{')).unwrap_or_default();
        serde_json::from_str(line).map_err(|error| format!("gave no readable answer ({error})"))
    }

    /// The version that the loaded code reports.
    pub(crate) fn version(&self, call: VersionCall) -> Option<Version> {
        let text = self.versions.get(&call)?;
        match call {
            VersionCall::MiVersion => text.parse().ok().map(mimalloc_version),
            VersionCall::Mallctl => Some(jemalloc_version(text)),
            VersionCall::TcVersion => Some(Version::new(text.strip_prefix("gperftools ").unwrap_or(text))),
            VersionCall::GnuGetLibcVersion => Some(Version::new(text)),
            VersionCall::None => None,
        }
    }

    /// What the process runs, for [`crate::prove`]. The very file that was verified is of the family that it was verified to be.
    pub fn identity(&self, expected: &Expected) -> Identity {
        let is_expected = self.sha256.as_ref().is_some_and(|sha256| *sha256 == expected.sha256);
        let has_mark = |family: &&Arc<Family>| {
            let marks = &mut family.symbols.iter();
            self.malloc_from.is_some()
                && marks.any(|name| self.symbols.get(name) == self.malloc_from.as_ref())
        };
        let family = match is_expected {
            true => Catalog::builtin().family(&expected.spec.family),
            false => Catalog::builtin().families().find(has_mark),
        };
        let is_libc = family.is_some_and(|family| family.is_c_library);
        let reads = |name: &str| family.is_some_and(|family| family.reads_variable(name));
        Identity {
            family: family.map_or_else(|| UNKNOWN.to_owned(), |family| family.name.clone()),
            version: family.and_then(|family| self.version(family.version_call)),
            version_range: None,
            path: self.malloc_from.clone(),
            build_id: None,
            sha256: self.sha256.clone(),
            linkage: if is_libc { Linkage::Libc } else { Linkage::Preloaded },
            settings: self.environment.clone().into_iter().filter(|(name, _)| reads(name)).collect(),
            evidence: Vec::new(),
            libraries: Vec::new(),
            carried: None,
        }
    }
}

/// Address of a function that any loaded object defines.
fn symbol(name: &str) -> Option<*mut c_void> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name is NUL-terminated; looking a symbol up has no other requirement.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

fn object_of(address: *mut c_void) -> Option<PathBuf> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: dladdr accepts any address and fills `info` when it returns non-zero; zeroed bytes
    // are a valid Dl_info (null pointers).
    let info = unsafe {
        if libc::dladdr(address, info.as_mut_ptr()) == 0 {
            return None;
        }
        info.assume_init()
    };
    if info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: dladdr gives a NUL-terminated name that lives as long as the object is loaded.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(PathBuf::from(name.to_string_lossy().into_owned()))
}

fn text_of(pointer: *const c_char) -> Option<String> {
    // SAFETY: callers pass pointers to static strings that the asked library returned.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned())
}

fn mi_version() -> Option<i32> {
    let address = symbol("mi_version")?;
    // SAFETY: mimalloc.h declares `int mi_version(void)` in all versions.
    let call: extern "C" fn() -> c_int = unsafe { std::mem::transmute(address) };
    Some(call())
}

fn tc_version() -> Option<String> {
    let address = symbol("tc_version")?;
    // SAFETY: tcmalloc.h declares `const char* tc_version(int*, int*, const char**)`.
    let call: extern "C" fn(*mut c_int, *mut c_int, *mut *const c_char) -> *const c_char =
        unsafe { std::mem::transmute(address) };
    let (mut major, mut minor, mut patch) = (0, 0, std::ptr::null());
    text_of(call(&mut major, &mut minor, &mut patch))
}

fn glibc_version() -> Option<String> {
    let address = symbol("gnu_get_libc_version")?;
    // SAFETY: gnu/libc-version.h declares `const char *gnu_get_libc_version(void)`.
    let call: extern "C" fn() -> *const c_char = unsafe { std::mem::transmute(address) };
    text_of(call())
}

type Mallctl = extern "C" fn(*const c_char, *mut c_void, *mut usize, *mut c_void, usize) -> c_int;

/// Reads a jemalloc control value into `value`; the size has to be the value's exactly.
fn mallctl<T>(name: &str, value: &mut T) -> Option<()> {
    let address = symbol("mallctl")?;
    // SAFETY: jemalloc.h declares mallctl with this signature.
    let call: Mallctl = unsafe { std::mem::transmute(address) };
    let name = CString::new(name).ok()?;
    let mut size = std::mem::size_of::<T>();
    let code = call(name.as_ptr(), std::ptr::from_mut(value).cast(), &mut size, std::ptr::null_mut(), 0);
    (code == 0).then_some(())
}

fn mallctl_string(name: &str) -> Option<String> {
    let mut pointer: *const c_char = std::ptr::null();
    mallctl(name, &mut pointer)?;
    text_of(pointer)
}

fn jemalloc_options(options: &mut BTreeMap<String, String>) {
    let mut insert = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            options.insert(name.to_owned(), value);
        }
    };
    let read = |name: &str| format!("opt.{name}");
    for name in ["background_thread", "tcache", "retain", "hpa", "zero", "abort_conf"] {
        let mut value = 0_u8;
        insert(name, mallctl(&read(name), &mut value).map(|()| (value != 0).to_string()));
    }
    for name in ["dirty_decay_ms", "muzzy_decay_ms"] {
        let mut value = 0_isize;
        insert(name, mallctl(&read(name), &mut value).map(|()| value.to_string()));
    }
    let mut arenas = 0_u32;
    insert("narenas", mallctl(&read("narenas"), &mut arenas).map(|()| arenas.to_string()));
    for name in [
        "max_background_threads",
        "lg_tcache_max",
        "tcache_max",
        "oversize_threshold",
        "lg_extent_max_active_fit",
        "san_guard_small",
        "san_guard_large",
    ] {
        let mut value = 0_usize;
        insert(name, mallctl(&read(name), &mut value).map(|()| value.to_string()));
    }
    for name in ["thp", "metadata_thp", "percpu_arena", "dss", "junk"] {
        insert(name, mallctl_string(&read(name)));
    }
}

fn tcmalloc_options(options: &mut BTreeMap<String, String>) {
    let Some(address) = symbol("MallocExtension_GetNumericProperty") else { return };
    // SAFETY: malloc_extension_c.h declares `int ...(const char*, size_t*)`.
    let call: extern "C" fn(*const c_char, *mut usize) -> c_int = unsafe { std::mem::transmute(address) };
    for (name, property) in [
        ("max_total_thread_cache_bytes", c"tcmalloc.max_total_thread_cache_bytes"),
        ("aggressive_decommit", c"tcmalloc.aggressive_memory_decommit"),
        ("heap_limit_mb", c"tcmalloc.heap_limit_mb"),
    ] {
        let mut value = 0_usize;
        if call(property.as_ptr(), &mut value) != 0 {
            options.insert(name.to_owned(), value.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_runs_under_glibc() {
        let answer = ask();
        let from = answer.malloc_from.unwrap();
        assert!(from.file_name().unwrap().to_string_lossy().starts_with("libc.so"), "{}", from.display());
        let glibc = crate::c_library::host_glibc().to_string();
        assert_eq!(answer.versions, BTreeMap::from([(VersionCall::GnuGetLibcVersion, glibc)]));
        let expected = Expected::own_c_library("glibc".parse().unwrap(), Vec::new());
        let mut answer = ask();
        answer.environment.insert("MALLOC_ARENA_MAX".to_owned(), "2".to_owned());
        let identity = answer.identity(&expected);
        assert_eq!((identity.family.as_str(), identity.linkage), ("glibc", Linkage::Libc));
        assert_eq!(identity.settings["MALLOC_ARENA_MAX"], "2");
        assert!(crate::prove(&expected, &identity).unwrap_err().why.contains("MALLOC_ARENA_MAX=2"));
    }
}
