//! From a source folder to a shared library, with the system's compiler.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::SourceError;
use crate::cache::failure;
use crate::catalog::{Recipe, Variant};
use crate::provenance::Build;
use crate::tool::Tool;

/// Builds `source` by `recipe` into `files`; gives the library's file name and the commands.
pub(super) fn build(
    recipe: &Recipe,
    variants: &[Variant],
    source: &Path,
    files: &Path,
) -> Result<(String, Build), SourceError> {
    match recipe {
        Recipe::Compile { output, compiler, flags, flags_x86_64, include, sources, libraries } => {
            let target = files.join(output);
            // Relative paths and a fixed date: the same source gives the same library.
            let tool = Tool::new(compiler)
                .in_folder(source)
                .env("SOURCE_DATE_EPOCH", "0")
                .args(flags)
                .args(flags_x86_64.iter().filter(|_| cfg!(target_arch = "x86_64")))
                .args(variants.iter().flat_map(|variant| &variant.flags))
                .args(include.iter().map(|folder| format!("-I{folder}")))
                .args(sources)
                .arg(format!("-Wl,-soname,{output}"))
                .arg("-o")
                .arg(&target)
                .args(libraries);
            let command = tool
                .words()
                .into_iter()
                .map(|word| if Path::new(&word) == target { output.clone() } else { word });
            let commands = vec![command.collect()];
            tool.run()?;
            Ok((output.clone(), Build { compiler: version_of(compiler)?, commands }))
        }
        Recipe::Configure { output, arguments, target, built } => {
            let script = source.join("configure");
            fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).map_err(|error| {
                SourceError::NotThere(format!("the source has no configure script ({error})"))
            })?;
            let flags: Vec<&str> =
                variants.iter().flat_map(|variant| &variant.flags).map(String::as_str).collect();
            // Debug information would name the folder of this build.
            let configure = Tool::new("./configure")
                .in_folder(source)
                .args(arguments)
                .arg(format!("CFLAGS=-O3 -w -g0 {}", flags.join(" ")).trim_end());
            let jobs = std::thread::available_parallelism().map_or(1, usize::from);
            let make = Tool::new("make")
                .in_folder(source)
                .env("SOURCE_DATE_EPOCH", "0")
                .arg(format!("-j{jobs}"))
                .arg(target);
            // How many jobs make runs at once is no part of what is built.
            let commands = vec![configure.words(), vec!["make".to_owned(), target.clone()]];
            configure.run()?;
            make.run()?;
            let (built, library) = (source.join(built), files.join(output));
            fs::copy(&built, &library).map_err(failure("copying to", &library))?;
            Ok((output.clone(), Build { compiler: version_of("cc")?, commands }))
        }
    }
}

/// The compiler that a recipe uses.
pub(super) fn compiler_of(recipe: &Recipe) -> &str {
    match recipe {
        Recipe::Compile { compiler, .. } => compiler,
        Recipe::Configure { .. } => "cc",
    }
}

pub(super) fn version_of(compiler: &str) -> Result<String, SourceError> {
    let text = Tool::new(compiler).arg("--version").run()?;
    Ok(text.lines().next().unwrap_or(compiler).to_owned())
}
