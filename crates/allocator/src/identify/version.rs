//! The version of an allocator from its code, without running it.

use heaptrial_model::{Identity, Version};
use object::elf::{EM_AARCH64, EM_X86_64};

use super::markers::Constants;
use crate::catalog::{Family, VersionCall};
use crate::elf::Elf;
use crate::verify::mimalloc_version;

/// Finds the version of `family` in `elf`, with the address of `mi_version` where that is known.
pub(super) fn find(family: &Family, elf: &Elf<'_>, mi_version: Option<u64>, findings: &mut Identity) {
    match family.version_call {
        VersionCall::MiVersion => {
            if let Some(number) = mi_version.and_then(|address| constant_result(elf, address)) {
                findings.evidence.push(format!("the code of mi_version() returns {number}"));
                findings.version = Some(mimalloc_version(number));
            } else if let Some(range) = Constants::of(elf).mimalloc_range() {
                findings.evidence.push(format!("option names of mimalloc {range}"));
                findings.version_range = Some(range.to_owned());
            }
        }
        VersionCall::Mallctl => match Constants::of(elf).jemalloc_version() {
            Some(version) => {
                findings.evidence.push(format!("version text of jemalloc {version}"));
                findings.version = Some(version);
            }
            None => findings.evidence.push("no version text of jemalloc".to_owned()),
        },
        VersionCall::TcVersion => text_after(elf, "gperftools ", findings),
        // Of the banner, `GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36.`
        VersionCall::GnuGetLibcVersion => text_after(elf, "release version ", findings),
        VersionCall::None if family.name == "musl" => text_after(elf, "musl libc (", findings),
        VersionCall::None => findings.evidence.push(format!("{} does not report its version", family.name)),
    }
}

fn text_after(elf: &Elf<'_>, mark: &str, findings: &mut Identity) {
    let constants = Constants::of(elf);
    let version = constants.find(mark).and_then(|text| word(&text[mark.len()..]));
    if let Some(version) = version.filter(|version| version.starts_with(|c: char| c.is_ascii_digit())) {
        findings.evidence.push(format!("text `{mark}{version}`"));
        findings.version = Some(Version::new(version));
    }
}

/// The word at the start of some bytes.
fn word(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-')))?;
    Some(String::from_utf8_lossy(&bytes[..end]).trim_end_matches('.').to_owned())
}

/// The constant that a function returns, if that is all it does.
fn constant_result(elf: &Elf<'_>, address: u64) -> Option<i32> {
    let code = elf.at_address(address, 16)?;
    match elf.machine() {
        EM_X86_64 => x86_64_result(code),
        EM_AARCH64 => aarch64_result(code),
        _ => None,
    }
}

/// `[endbr64]; mov eax, imm32; ret`.
fn x86_64_result(code: &[u8]) -> Option<i32> {
    let code = code.strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa]).unwrap_or(code);
    let (value, rest) = code.strip_prefix(&[0xb8])?.split_first_chunk::<4>()?;
    matches!(rest.first(), Some(0xc3)).then(|| i32::from_le_bytes(*value))
}

/// `[bti c]; mov w0, #imm16; ret`.
fn aarch64_result(code: &[u8]) -> Option<i32> {
    let mut words = code.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    let mut first = words.next()?;
    if first == 0xd503_245f {
        first = words.next()?;
    }
    let is_move = first & 0xffe0_001f == 0x5280_0000;
    (is_move && words.next()? == 0xd65f_03c0).then_some((first >> 5 & 0xffff) as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_is_read_from_code() {
        assert_eq!(x86_64_result(&[0xb8, 0xd1, 0, 0, 0, 0xc3, 0x90]), Some(209));
        assert_eq!(x86_64_result(&[0xf3, 0x0f, 0x1e, 0xfa, 0xb8, 0x5e, 0x76, 0, 0, 0xc3]), Some(30302));
        assert_eq!(x86_64_result(&[0x55, 0xb8, 0xd1, 0, 0, 0, 0xc3]), None);
        let mut code = (0x5280_0000_u32 | 209 << 5).to_le_bytes().to_vec();
        code.extend(0xd65f_03c0_u32.to_le_bytes());
        assert_eq!(aarch64_result(&code), Some(209));
    }
}
