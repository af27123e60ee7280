//! Reading what is needed of an ELF file, and no more: through its program headers and dynamic
//! section, so that files without section headers are read as well. 64-bit files only.

mod facts;
mod hash;
mod needed;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use heaptrial_model::Version;
use object::read::elf::{FileHeader as _, ProgramHeader as _, Rela as _, SectionHeader as _, Sym as _};
use object::{Endianness, ReadCache, ReadRef, elf};

pub use facts::{Examiner, ObjectFacts};
pub use needed::{NeededFile, needed_files};

/// Why a file cannot be read as an ELF file of this machine.
#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    /// The file could not be opened or read.
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path} is not an ELF file")]
    NotElf { path: PathBuf },
    /// It is for other processors.
    #[error("{path} is for {found}, this machine runs {expected} programs")]
    Architecture {
        path: PathBuf,
        /// What the file is for.
        found: String,
        expected: &'static str,
    },
    /// It is not a shared library.
    #[error("{path} is not a shared library (it is {found})")]
    NotShared { path: PathBuf, found: &'static str },
    /// It is built for another C library.
    #[error("{path} is built for {found}; programs of this system use glibc")]
    OtherLibc {
        path: PathBuf,
        /// Which C library it needs.
        found: String,
    },
    #[error("{path} is damaged: {what}")]
    Damaged {
        path: PathBuf,
        /// What could not be read.
        what: &'static str,
    },
}

/// A file opened for [`Elf::parse`].
pub(crate) struct ElfFile {
    cache: ReadCache<File>,
    path: PathBuf,
}

/// The headers of an ELF file.
pub(crate) struct Elf<'d> {
    data: &'d ReadCache<File>,
    path: &'d Path,
    endian: Endianness,
    header: &'d elf::FileHeader64<Endianness>,
    segments: &'d [elf::ProgramHeader64<Endianness>],
    dynamic: Vec<(u64, u64)>,
}

/// Relocations that bind a function: R_X86_64_GLOB_DAT and _JUMP_SLOT, R_AARCH64_GLOB_DAT and _JUMP_SLOT.
const BINDINGS: [u32; 4] =
    [elf::R_X86_64_GLOB_DAT, elf::R_X86_64_JUMP_SLOT, elf::R_AARCH64_GLOB_DAT, elf::R_AARCH64_JUMP_SLOT];
/// Far above what any file has; a damaged one could name any number.
const MOST_NEEDED_FILES: u64 = 1024;
const MOST_NEEDED_VERSIONS: u16 = 1024;

type Symbol = elf::Sym64<Endianness>;

impl ElfFile {
    pub(crate) fn open(path: &Path) -> Result<Self, ElfError> {
        let file = File::open(path).map_err(|source| ElfError::Read { path: path.to_owned(), source })?;
        Ok(Self::of(file, path))
    }

    /// A file that is open; `path` is for messages.
    pub(crate) fn of(file: File, path: &Path) -> Self {
        Self { cache: ReadCache::new(file), path: path.to_owned() }
    }
}

impl<'d> Elf<'d> {
    pub(crate) fn parse(file: &'d ElfFile) -> Result<Self, ElfError> {
        let (data, path) = (&file.cache, file.path.as_path());
        let damaged = |what| ElfError::Damaged { path: path.to_owned(), what };
        let identification =
            data.read_bytes_at(0, 20).map_err(|()| ElfError::NotElf { path: path.to_owned() })?;
        if identification[..4] != elf::ELFMAG {
            return Err(ElfError::NotElf { path: path.to_owned() });
        }
        check_architecture(identification, path)?;
        let header = elf::FileHeader64::<Endianness>::parse(data).map_err(|_| damaged("file header"))?;
        let endian = header.endian().map_err(|_| damaged("byte order"))?;
        let segments = header.program_headers(endian, data).map_err(|_| damaged("program headers"))?;
        let dynamic = segments
            .iter()
            .find_map(|segment| segment.dynamic(endian, data).transpose())
            .transpose()
            .map_err(|_| damaged("dynamic section"))?
            .unwrap_or_default()
            .iter()
            .map(|entry| (entry.d_tag.get(endian), entry.d_val.get(endian)))
            .take_while(|(tag, _)| *tag != u64::from(elf::DT_NULL))
            .collect();
        Ok(Self { data, path, endian, header, segments, dynamic })
    }

    /// Whether it names a dynamic loader, as programs do.
    pub(crate) fn has_interpreter(&self) -> bool {
        self.segments.iter().any(|segment| segment.p_type(self.endian) == elf::PT_INTERP)
    }

    /// Whether it is linked against nothing.
    pub(crate) fn is_static(&self) -> bool {
        !self.has_interpreter() && self.tag(elf::DT_NEEDED).is_none()
    }

    /// Whether it is loaded at the addresses in the file.
    pub(crate) fn is_position_dependent(&self) -> bool {
        self.header.e_type(self.endian) == elf::ET_EXEC
    }

    /// The lowest address of the file's segments, rounded down to a page.
    pub(crate) fn base_address(&self) -> u64 {
        let loads = self.segments.iter().filter(|segment| segment.p_type(self.endian) == elf::PT_LOAD);
        loads.map(|segment| segment.p_vaddr(self.endian)).min().unwrap_or(0) & !0xfff
    }

    /// Name under which other files need it.
    pub(crate) fn soname(&self) -> Option<String> {
        self.string(self.tag(elf::DT_SONAME)?)
    }

    /// Names of the files it needs.
    pub(crate) fn needed(&self) -> Vec<String> {
        let offsets = self.dynamic.iter().filter(|(tag, _)| *tag == u64::from(elf::DT_NEEDED));
        offsets.filter_map(|(_, offset)| self.string(*offset)).collect()
    }

    /// GNU build id, in hexadecimal.
    pub(crate) fn build_id(&self) -> Option<String> {
        self.segments.iter().find_map(|segment| {
            let mut notes = segment.notes(self.endian, self.data).ok()??;
            while let Ok(Some(note)) = notes.next() {
                if note.name() == elf::ELF_NOTE_GNU && note.n_type(self.endian) == elf::NT_GNU_BUILD_ID {
                    return Some(hex::encode(note.desc()));
                }
            }
            None
        })
    }

    /// Address of an exported function, through the hash table of the dynamic symbols.
    pub(crate) fn exported(&self, name: &str) -> Option<u64> {
        let index = self.hashed_index(name)?;
        let symbol = self.dynamic_symbol(index)?;
        (symbol.st_shndx(self.endian) != elf::SHN_UNDEF).then(|| symbol.st_value(self.endian))
    }

    /// Addresses of the slots that hold the resolved address of an imported function.
    pub(crate) fn import_slots(&self, name: &str) -> Vec<u64> {
        let symbol = |relocation: &elf::Rela64<Endianness>| relocation.r_sym(self.endian, false);
        let index = self.last_relocated().and_then(|last| self.import_index(name, last));
        let Some(index) = index else { return Vec::new() };
        // A pointer to the function in data is no binding: the program may put another one there (`uv_replace_allocator`).
        let binds =
            |relocation: &elf::Rela64<Endianness>| BINDINGS.contains(&relocation.r_type(self.endian, false));
        let of_it = self.relocations().filter(|relocation| symbol(relocation) == index && binds(relocation));
        of_it.map(|relocation| relocation.r_offset(self.endian)).collect()
    }

    fn relocations(&self) -> impl Iterator<Item = &'d elf::Rela64<Endianness>> {
        let tables = [(elf::DT_JMPREL, elf::DT_PLTRELSZ), (elf::DT_RELA, elf::DT_RELASZ)];
        let table =
            |(address, size): (u32, u32)| self.table::<elf::Rela64<Endianness>>(address, self.tag(size)?);
        tables.into_iter().filter_map(table).flatten()
    }

    /// The greatest index of a symbol that a relocation names: no table has the number of symbols in each file.
    fn last_relocated(&self) -> Option<u32> {
        self.relocations().map(|relocation| relocation.r_sym(self.endian, false)).max()
    }

    /// The newest `GLIBC_` version of the symbols it needs.
    pub(crate) fn needed_glibc(&self) -> Option<Version> {
        let versions = self.needed_versions()?;
        let number = |version: &str| match version {
            // Packed relocations, which older loaders cannot read.
            "GLIBC_ABI_DT_RELR" => Some("2.36".to_owned()),
            version => version.strip_prefix("GLIBC_").map(str::to_owned),
        };
        let numbers = versions.iter().filter_map(|(_, version)| number(version));
        numbers.filter(|text| text.starts_with(|c: char| c.is_ascii_digit())).map(Version::new).max()
    }

    /// Functions of the full symbol table, where the file still has it: calls `visit` with each
    /// name and address.
    pub(crate) fn symbol_table(&self, mut visit: impl FnMut(&[u8], u64)) -> bool {
        let Ok(sections) = self.header.sections(self.endian, self.data) else { return false };
        let Ok(symbols) = sections.symbols(self.endian, self.data, elf::SHT_SYMTAB) else { return false };
        // All names at once: one by one they are ten thousands of reads.
        let names = sections.section(symbols.string_section());
        let Ok(names) = names.and_then(|names| names.data(self.endian, self.data)) else { return false };
        for symbol in symbols.iter() {
            if symbol.st_shndx(self.endian) != elf::SHN_UNDEF && symbol.st_type() == elf::STT_FUNC {
                let name = names.get(symbol.st_name(self.endian) as usize..).unwrap_or_default();
                if let Some(end) = name.iter().position(|byte| *byte == 0) {
                    visit(&name[..end], symbol.st_value(self.endian));
                }
            }
        }
        !symbols.is_empty()
    }

    /// The parts of the file that hold constants and data but no code, `limit` bytes at most.
    /// The flag tells whether that was all.
    pub(crate) fn constants(&self, limit: u64) -> (Vec<&'d [u8]>, bool) {
        let mut left = limit;
        let mut parts = Vec::new();
        let mut complete = true;
        // A file without separate segments for constants has them beside the code.
        let loads = || self.segments.iter().filter(|segment| segment.p_type(self.endian) == elf::PT_LOAD);
        let executable =
            |segment: &elf::ProgramHeader64<Endianness>| segment.p_flags(self.endian) & elf::PF_X != 0;
        let separate = loads().any(|segment| segment.p_flags(self.endian) == elf::PF_R);
        for segment in loads().filter(|segment| !(separate && executable(segment))) {
            let (offset, size) = segment.file_range(self.endian);
            let taken = size.min(left);
            complete &= taken == size;
            left -= taken;
            match self.data.read_bytes_at(offset, taken) {
                Ok(bytes) => parts.push(bytes),
                Err(()) => complete = false,
            }
        }
        (parts, complete)
    }

    /// Bytes of the file that are mapped at an address, `length` at most.
    pub(crate) fn at_address(&self, address: u64, length: u64) -> Option<&'d [u8]> {
        self.segments.iter().filter(|segment| segment.p_type(self.endian) == elf::PT_LOAD).find_map(
            |segment| {
                let (offset, size) = segment.file_range(self.endian);
                let into = address.checked_sub(segment.p_vaddr(self.endian)).filter(|into| *into < size)?;
                self.data.read_bytes_at(offset + into, length.min(size - into)).ok()
            },
        )
    }

    pub(crate) fn machine(&self) -> u16 {
        self.header.e_machine(self.endian)
    }

    fn tag(&self, wanted: u32) -> Option<u64> {
        self.dynamic.iter().find(|(tag, _)| *tag == u64::from(wanted)).map(|(_, value)| *value)
    }

    fn string(&self, offset: u64) -> Option<String> {
        let table = self.tag(elf::DT_STRTAB)?;
        let end = self.tag(elf::DT_STRSZ)?;
        let bytes = self.at_address(table.checked_add(offset)?, end.checked_sub(offset)?.min(4096))?;
        let length = bytes.iter().position(|b| *b == 0)?;
        String::from_utf8(bytes[..length].to_vec()).ok()
    }

    fn table<T: object::pod::Pod>(&self, address: u32, size_bytes: u64) -> Option<&'d [T]> {
        let bytes = self.at_address(self.tag(address)?, size_bytes)?;
        let count = bytes.len() / std::mem::size_of::<T>();
        object::pod::slice_from_bytes(bytes, count).ok().map(|(slice, _)| slice)
    }

    /// Whether it cannot run without a function of another file; what it takes only where it is there does not count.
    pub(crate) fn requires(&self, name: &str) -> bool {
        let index = self.last_relocated().and_then(|last| self.import_index(name, last));
        let symbol = index.and_then(|index| self.dynamic_symbol(index));
        symbol.is_some_and(|symbol| symbol.st_bind() != elf::STB_WEAK)
    }

    /// Index of an imported symbol, of those up to `last`.
    fn import_index(&self, name: &str, last: u32) -> Option<u32> {
        let size = (u64::from(last) + 1) * std::mem::size_of::<Symbol>() as u64;
        let symbols = self.table::<Symbol>(elf::DT_SYMTAB, size)?;
        let strings = self.at_address(self.tag(elf::DT_STRTAB)?, self.tag(elf::DT_STRSZ)?)?;
        let wanted = [name.as_bytes(), b"\0"].concat();
        let is_wanted = |symbol: &Symbol| {
            let text = strings.get(symbol.st_name(self.endian) as usize..);
            symbol.st_shndx(self.endian) == elf::SHN_UNDEF
                && text.is_some_and(|text| text.starts_with(&wanted))
        };
        symbols.iter().position(is_wanted).and_then(|index| u32::try_from(index).ok())
    }

    fn dynamic_symbol(&self, index: u32) -> Option<Symbol> {
        let size = std::mem::size_of::<Symbol>() as u64;
        let bytes = self.at_address(self.tag(elf::DT_SYMTAB)?.checked_add(u64::from(index) * size)?, size)?;
        object::pod::from_bytes::<Symbol>(bytes).ok().map(|(symbol, _)| *symbol)
    }
}

fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn u16_at(bytes: &[u8], at: usize, endian: Endianness) -> Option<u16> {
    let value = bytes_at(bytes, at)?;
    Some(if endian == Endianness::Little { u16::from_le_bytes(value) } else { u16::from_be_bytes(value) })
}

fn u32_at(bytes: &[u8], at: usize, endian: Endianness) -> Option<u32> {
    let value = bytes_at(bytes, at)?;
    Some(if endian == Endianness::Little { u32::from_le_bytes(value) } else { u32::from_be_bytes(value) })
}

fn u64_at(bytes: &[u8], endian: Endianness) -> Option<u64> {
    let value = bytes_at(bytes, 0)?;
    Some(if endian == Endianness::Little { u64::from_le_bytes(value) } else { u64::from_be_bytes(value) })
}

#[cfg(target_arch = "x86_64")]
const MACHINE: (u16, &str) = (elf::EM_X86_64, "x86-64");
#[cfg(target_arch = "aarch64")]
const MACHINE: (u16, &str) = (elf::EM_AARCH64, "64-bit ARM");
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("Heaptrial runs on x86-64 and 64-bit ARM");

fn check_architecture(identification: &[u8], path: &Path) -> Result<(), ElfError> {
    let little = identification[5] == elf::ELFDATA2LSB;
    let endian = if little { Endianness::Little } else { Endianness::Big };
    let machine = u16_at(identification, 18, endian).unwrap_or(0);
    let wide = identification[4] == elf::ELFCLASS64;
    if wide && little && machine == MACHINE.0 {
        return Ok(());
    }
    let name = match machine {
        elf::EM_386 => "32-bit x86",
        elf::EM_X86_64 if wide => "x86-64",
        elf::EM_X86_64 => "x86-64 with 32-bit pointers",
        elf::EM_ARM => "32-bit ARM",
        elf::EM_AARCH64 => "64-bit ARM",
        elf::EM_RISCV => "RISC-V",
        elf::EM_PPC64 => "64-bit POWER",
        elf::EM_S390 => "IBM Z",
        _ => "",
    };
    let found = if name.is_empty() { format!("ELF machine {machine}") } else { name.to_owned() };
    Err(ElfError::Architecture { path: path.to_owned(), found, expected: MACHINE.1 })
}

/// What has to be known of a shared library before it is loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LibraryFacts {
    /// GNU build id, in hexadecimal.
    pub build_id: Option<String>,
    /// The newest glibc whose symbols it needs.
    pub needed_glibc: Option<Version>,
}

/// Checks that a file is a shared library of this machine and C library.
pub fn check_library(path: &Path) -> Result<LibraryFacts, ElfError> {
    let file = ElfFile::open(path)?;
    let elf = Elf::parse(&file)?;
    if elf.is_position_dependent() {
        return Err(ElfError::NotShared { path: path.to_owned(), found: "a program" });
    }
    if elf.header.e_type(elf.endian) != elf::ET_DYN {
        return Err(ElfError::NotShared { path: path.to_owned(), found: "an object file" });
    }
    if elf.dynamic.is_empty() {
        return Err(ElfError::Damaged { path: elf.path.to_owned(), what: "it has no dynamic section" });
    }
    if let Some(found) =
        elf.needed().into_iter().find(|name| name.starts_with("libc.musl") || name == "libc.so")
    {
        return Err(ElfError::OtherLibc { path: path.to_owned(), found: format!("{found} (musl)") });
    }
    Ok(LibraryFacts { build_id: elf.build_id(), needed_glibc: elf.needed_glibc() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_file() -> ElfFile {
        ElfFile::open(&std::env::current_exe().unwrap()).unwrap()
    }

    #[test]
    fn this_program_is_read() {
        let file = own_file();
        let elf = Elf::parse(&file).unwrap();
        assert!(elf.has_interpreter() && !elf.is_static() && elf.soname().is_none());
        assert!(elf.needed().iter().any(|name| name.starts_with("libc.so")));
        assert!(elf.needed_glibc().unwrap() >= Version::new("2.2.5"));
        assert!(elf.exported("malloc").is_none());
        assert!(!elf.import_slots("malloc").is_empty());
        let mut found = false;
        assert!(elf.symbol_table(|name, _| found |= name == b"main"));
        assert!(found);
    }

    #[test]
    fn files_that_are_no_library_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("library.so");
        std::fs::write(&path, "not ELF").unwrap();
        assert!(matches!(check_library(&path), Err(ElfError::NotElf { .. })));
        let mut header = vec![0_u8; 64];
        header[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', 1, 1, 1]);
        header[18] = 3;
        std::fs::write(&path, &header).unwrap();
        let message = check_library(&path).unwrap_err().to_string();
        assert!(message.contains("32-bit x86"), "{message}");
        assert!(matches!(check_library(Path::new("/no/such/file")), Err(ElfError::Read { .. })));
    }

    #[test]
    fn a_truncated_file_is_an_error_and_no_panic() {
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cut.so");
        for length in [0, 3, 19, 63, 64, 100, 600, 4096] {
            std::fs::write(&path, &bytes[..length]).unwrap();
            assert!(check_library(&path).is_err(), "{length} bytes");
        }
    }
}
