//! Reading what is needed of an ELF file, and no more: through its program headers and dynamic
//! section, so that files without section headers are read as well. 64-bit files only.

mod facts;

use std::cell::OnceCell;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use object::endian::{U32, U64};
use object::read::elf::{
    Dyn as _, FileHeader as _, GnuHashTable, ProgramHeader as _, Rela as _, SectionHeader as _, Sym as _,
};
use object::{Endianness, ReadCache, ReadRef, StringTable, elf};

pub use facts::{Examiner, LibraryFacts, ObjectFacts, check_library, examine_object};

/// Why a file cannot be read as an ELF file of this machine.
#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path} is not an ELF file")]
    NotElf { path: PathBuf },
    #[error("{path} is for {found}, and only what is for {expected} can be read and preloaded")]
    Architecture { path: PathBuf, found: String, expected: &'static str },
    #[error("{path} {why}")]
    Unusable { path: PathBuf, why: String },
}

pub(crate) struct ElfFile {
    cache: ReadCache<File>,
    path: PathBuf,
}

type Header = elf::FileHeader64<Endianness>;
type Segment = elf::ProgramHeader64<Endianness>;
type Section = elf::SectionHeader64<Endianness>;
type Symbol = elf::Sym64<Endianness>;
type Relocation = elf::Rela64<Endianness>;

pub(crate) struct Elf<'d> {
    data: &'d ReadCache<File>,
    endian: Endianness,
    header: &'d Header,
    segments: &'d [Segment],
    dynamic: &'d [elf::Dyn64<Endianness>],
    strings: OnceCell<StringTable<'d>>,
    defined: OnceCell<&'d [Symbol]>,
}

/// Relocations that bind a function: R_X86_64_GLOB_DAT and _JUMP_SLOT, R_AARCH64_GLOB_DAT and _JUMP_SLOT.
const BINDINGS: [u32; 4] =
    [elf::R_X86_64_GLOB_DAT, elf::R_X86_64_JUMP_SLOT, elf::R_AARCH64_GLOB_DAT, elf::R_AARCH64_JUMP_SLOT];
/// Of a full symbol table with more names nothing is read.
const MOST_NAMES_BYTES: u64 = 24 << 20;

impl ElfFile {
    pub(crate) fn open(path: &Path) -> Result<Self, ElfError> {
        let path = path.to_owned();
        match File::open(&path) {
            Ok(file) => Ok(Self { cache: ReadCache::new(file), path }),
            Err(source) => Err(ElfError::Read { path, source }),
        }
    }
}

impl<'d> Elf<'d> {
    pub(crate) fn parse(file: &'d ElfFile) -> Result<Self, ElfError> {
        let (data, path) = (&file.cache, file.path.as_path());
        let not_elf = || ElfError::NotElf { path: path.to_owned() };
        let identification = data.read_bytes_at(0, 20).map_err(|()| not_elf())?;
        if identification[..4] != elf::ELFMAG {
            return Err(not_elf());
        }
        check_architecture(identification, path)?;
        let damaged = |what| damaged(path, what);
        let header = Header::parse(data).map_err(|_| damaged("file header"))?;
        let endian = header.endian().map_err(|_| damaged("byte order"))?;
        let segments = header.program_headers(endian, data).map_err(|_| damaged("program headers"))?;
        let dynamic = segments.iter().find_map(|segment| segment.dynamic(endian, data).transpose());
        let dynamic = dynamic.transpose().map_err(|_| damaged("dynamic section"))?.unwrap_or_default();
        let (strings, defined) = (OnceCell::new(), OnceCell::new());
        Ok(Self { data, endian, header, segments, dynamic, strings, defined })
    }

    /// Whether it names a dynamic loader, as programs do.
    pub(crate) fn has_interpreter(&self) -> bool {
        self.segments.iter().any(|segment| segment.p_type(self.endian) == elf::PT_INTERP)
    }

    pub(crate) fn is_static(&self) -> bool {
        !self.has_interpreter() && self.tag(elf::DT_NEEDED).is_none()
    }

    /// Whether it is loaded at the addresses in the file.
    pub(crate) fn is_position_dependent(&self) -> bool {
        self.header.e_type(self.endian) == elf::ET_EXEC
    }

    /// The lowest address of the file's segments, rounded down to a page.
    pub(crate) fn base_address(&self) -> u64 {
        self.loads().map(|segment| segment.p_vaddr(self.endian)).min().unwrap_or(0) & !0xfff
    }

    /// Name under which other files need it.
    pub(crate) fn soname(&self) -> Option<String> {
        self.string(self.tag(elf::DT_SONAME)?)
    }

    pub(crate) fn needed(&self) -> Vec<String> {
        self.tags(elf::DT_NEEDED).filter_map(|offset| self.string(offset)).collect()
    }

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

    pub(crate) fn exported(&self, name: &str) -> Option<u64> {
        let is_it = |symbol: &&Symbol| !symbol.is_undefined(self.endian) && self.is_named(symbol, name);
        self.defined_symbols().iter().find(is_it).map(|symbol| symbol.st_value(self.endian))
    }

    /// Addresses of the slots that hold the resolved address of an imported function.
    pub(crate) fn import_slots(&self, name: &str) -> Vec<u64> {
        let imports = self.imports();
        let is_it = |symbol: &Symbol| symbol.is_undefined(self.endian) && self.is_named(symbol, name);
        let Some(index) = imports.iter().position(is_it) else { return Vec::new() };
        // A pointer to the function in data is no binding: the program may put another one there (`uv_replace_allocator`).
        let binds = |relocation: &&Relocation| {
            self.symbol_of(relocation) as usize == index
                && BINDINGS.contains(&relocation.r_type(self.endian, false))
        };
        self.relocations().filter(binds).map(|relocation| relocation.r_offset(self.endian)).collect()
    }

    /// Whether it cannot be loaded without a function of another file.
    pub(crate) fn requires(&self, name: &str) -> bool {
        let is_it = |symbol: &Symbol| {
            symbol.is_undefined(self.endian)
                && symbol.st_bind() == elf::STB_GLOBAL
                && self.is_named(symbol, name)
        };
        self.imports().iter().any(is_it)
    }

    fn needed_versions(&self) -> Option<Vec<String>> {
        let mut found = Vec::new();
        let Some(address) = self.tag(elf::DT_VERNEED) else { return Some(found) };
        let section = self.section_at(elf::SHT_GNU_VERNEED, address)?;
        let (mut files, _) = section.gnu_verneed(self.endian, self.data).ok()??;
        while let Some((_, mut versions)) = files.next().ok()? {
            while let Some(version) = versions.next().ok()? {
                found.push(text(version.name(self.endian, self.strings()).ok()?)?);
                if version.vna_next.get(self.endian) == 0 {
                    break;
                }
            }
        }
        Some(found)
    }

    /// Functions of the full symbol table, where the file still has it: calls `visit` with each
    /// name and address.
    pub(crate) fn symbol_table(&self, mut visit: impl FnMut(&[u8], u64)) {
        let Ok(sections) = self.header.sections(self.endian, self.data) else { return };
        let Ok(symbols) = sections.symbols(self.endian, self.data, elf::SHT_SYMTAB) else { return };
        // All names at once: one by one they are ten thousands of reads.
        let names = sections.section(symbols.string_section());
        let names = names.ok().filter(|names| names.sh_size(self.endian) <= MOST_NAMES_BYTES);
        let Some(names) = names.and_then(|names| names.data(self.endian, self.data).ok()) else { return };
        let names = StringTable::new(names, 0, names.len() as u64);
        for symbol in symbols.iter() {
            if !symbol.is_undefined(self.endian) && symbol.st_type() == elf::STT_FUNC {
                if let Ok(name) = symbol.name(self.endian, names) {
                    visit(name, symbol.st_value(self.endian));
                }
            }
        }
    }

    /// The parts of the file that hold constants and data but no code, `limit` bytes at most.
    /// The flag says whether that was all.
    pub(crate) fn constants(&self, limit: u64) -> (Vec<&'d [u8]>, bool) {
        let mut parts = Vec::new();
        let mut left = limit;
        let mut complete = true;
        // A file without separate segments for constants has them beside the code.
        let is_code = |segment: &&Segment| segment.p_flags(self.endian) & elf::PF_X != 0;
        let separate = self.loads().any(|segment| segment.p_flags(self.endian) == elf::PF_R);
        for segment in self.loads().filter(|segment| !(separate && is_code(segment))) {
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
        let (offset, size) = self.in_file(address)?;
        self.data.read_bytes_at(offset, length.min(size)).ok()
    }

    pub(crate) fn machine(&self) -> u16 {
        self.header.e_machine(self.endian)
    }

    /// Where in the file an address is, and how many bytes are there from it on.
    fn in_file(&self, address: u64) -> Option<(u64, u64)> {
        self.loads().find_map(|segment| {
            let (offset, size) = segment.file_range(self.endian);
            let into = address.checked_sub(segment.p_vaddr(self.endian)).filter(|into| *into < size)?;
            Some((offset.checked_add(into)?, size - into))
        })
    }

    fn loads(&self) -> impl Iterator<Item = &'d Segment> {
        self.segments.iter().filter(|segment| segment.p_type(self.endian) == elf::PT_LOAD)
    }

    fn tags(&self, wanted: u32) -> impl Iterator<Item = u64> {
        let entries = self.dynamic.iter().map(|entry| (entry.d_tag(self.endian), entry.d_val(self.endian)));
        let entries = entries.take_while(|(tag, _)| *tag != u64::from(elf::DT_NULL));
        entries.filter(move |(tag, _)| *tag == u64::from(wanted)).map(|(_, value)| value)
    }

    fn tag(&self, wanted: u32) -> Option<u64> {
        self.tags(wanted).next()
    }

    fn strings(&self) -> StringTable<'d> {
        *self.strings.get_or_init(|| {
            let at = self.tag(elf::DT_STRTAB).zip(self.tag(elf::DT_STRSZ));
            let bytes = at.and_then(|(address, size)| self.at_address(address, size)).unwrap_or_default();
            StringTable::new(bytes, 0, bytes.len() as u64)
        })
    }

    fn string(&self, offset: u64) -> Option<String> {
        text(self.strings().get(u32::try_from(offset).ok()?).ok()?)
    }

    fn is_named(&self, symbol: &Symbol, name: &str) -> bool {
        symbol.name(self.endian, self.strings()) == Ok(name.as_bytes())
    }

    /// A table of the dynamic section under a section header, as `object` reads it.
    fn section_at(&self, kind: u32, address: u64) -> Option<Section> {
        let (offset, size) = self.in_file(address)?;
        let (half, word) = (|value| U32::new(self.endian, value), |value| U64::new(self.endian, value));
        Some(Section {
            sh_name: half(0),
            sh_type: half(kind),
            sh_flags: word(0),
            sh_addr: word(address),
            sh_offset: word(offset),
            sh_size: word(size),
            sh_link: half(0),
            sh_info: half(0),
            sh_addralign: word(0),
            sh_entsize: word(0),
        })
    }

    /// The first dynamic symbols. How many there are is written nowhere.
    fn symbols(&self, count: u32) -> &'d [Symbol] {
        let size = u64::from(count) * std::mem::size_of::<Symbol>() as u64;
        let bytes = self.tag(elf::DT_SYMTAB).and_then(|address| self.at_address(address, size));
        slice(bytes.unwrap_or_default())
    }

    /// All that are defined, as the hash table of the dynamic loader covers those.
    fn defined_symbols(&self) -> &'d [Symbol] {
        self.defined.get_or_init(|| {
            let table = self.tag(elf::DT_GNU_HASH).and_then(|address| self.at_address(address, u64::MAX));
            let table = table.and_then(|table| GnuHashTable::<Header>::parse(self.endian, table).ok());
            self.symbols(table.and_then(|table| table.symbol_table_length(self.endian)).unwrap_or(0))
        })
    }

    /// All that relocations name, which no hash table has to cover.
    fn imports(&self) -> &'d [Symbol] {
        let last = self.relocations().map(|relocation| self.symbol_of(relocation)).max();
        self.symbols(last.map_or(0, |last| last.saturating_add(1)))
    }

    fn symbol_of(&self, relocation: &Relocation) -> u32 {
        relocation.r_sym(self.endian, false)
    }

    fn relocations(&self) -> impl Iterator<Item = &'d Relocation> {
        let tables = [(elf::DT_JMPREL, elf::DT_PLTRELSZ), (elf::DT_RELA, elf::DT_RELASZ)];
        let bytes = tables.map(|(address, size)| self.at_address(self.tag(address)?, self.tag(size)?));
        bytes.into_iter().flatten().flat_map(slice)
    }
}

/// As many whole items as there are.
fn slice<T: object::pod::Pod>(bytes: &[u8]) -> &[T] {
    let count = bytes.len() / std::mem::size_of::<T>();
    object::pod::slice_from_bytes(bytes, count).map(|(items, _)| items).unwrap_or_default()
}

fn text(bytes: &[u8]) -> Option<String> {
    String::from_utf8(bytes.to_vec()).ok()
}

fn damaged(path: &Path, what: &str) -> ElfError {
    ElfError::Unusable { path: path.to_owned(), why: format!("is damaged: {what}") }
}

#[cfg(target_arch = "x86_64")]
const MACHINE: (u16, &str) = (elf::EM_X86_64, "x86-64");
#[cfg(target_arch = "aarch64")]
const MACHINE: (u16, &str) = (elf::EM_AARCH64, "64-bit ARM");
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("Heaptrial runs on x86-64 and 64-bit ARM");

fn check_architecture(identification: &[u8], path: &Path) -> Result<(), ElfError> {
    let little = identification[5] == elf::ELFDATA2LSB;
    let machine = [identification[18], identification[19]];
    let machine = if little { u16::from_le_bytes(machine) } else { u16::from_be_bytes(machine) };
    let wide = identification[4] == elf::ELFCLASS64;
    if wide && little && machine == MACHINE.0 {
        return Ok(());
    }
    let found = match machine {
        elf::EM_386 => "32-bit x86".to_owned(),
        elf::EM_X86_64 if wide => "x86-64".to_owned(),
        elf::EM_X86_64 => "x86-64 with 32-bit pointers".to_owned(),
        elf::EM_ARM => "32-bit ARM".to_owned(),
        elf::EM_AARCH64 => "64-bit ARM".to_owned(),
        elf::EM_RISCV => "RISC-V".to_owned(),
        other => format!("another machine (ELF machine {other})"),
    };
    Err(ElfError::Architecture { path: path.to_owned(), found, expected: MACHINE.1 })
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
