//! From a source folder to a shared library, with the system's compiler.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::SourceError;
use crate::cache::failure;
use crate::catalog::{Recipe, Variant};
use crate::provenance::Build;
use crate::tool::{OF_BUILDS, Tool};

/// The compiler of a recipe that has the source's own `configure` choose everything else.
const COMPILER: &str = "cc";

/// The commands of a recipe, in the source folder; the library has the name of its file alone.
fn commands(recipe: &Recipe, variants: &[Variant]) -> Vec<Vec<String>> {
    let flags = variants.iter().flat_map(|variant| &variant.flags).cloned();
    match recipe {
        Recipe::Compile { output, compiler, flags: usual, flags_x86_64, include, sources, libraries } => {
            let words = std::iter::once(compiler.clone())
                .chain(usual.iter().cloned())
                .chain(flags_x86_64.iter().filter(|_| cfg!(target_arch = "x86_64")).cloned())
                .chain(flags)
                .chain(include.iter().map(|folder| format!("-I{folder}")))
                .chain(sources.iter().cloned())
                .chain([format!("-Wl,-soname,{output}"), "-o".to_owned(), output.clone()])
                .chain(libraries.iter().cloned());
            vec![words.collect()]
        }
        Recipe::Configure { arguments, target, .. } => {
            let flags: Vec<String> = flags.collect();
            // Debug information would name the folder of this build.
            let flags = format!("CFLAGS=-O3 -w -g0 {}", flags.join(" ")).trim_end().to_owned();
            let configure = std::iter::once("./configure".to_owned())
                .chain(arguments.iter().cloned())
                .chain([format!("CC={COMPILER}"), flags]);
            vec![configure.collect(), vec!["make".to_owned(), target.clone()]]
        }
    }
}

/// How a recipe is carried out on this machine.
pub(super) fn how(recipe: &Recipe, variants: &[Variant]) -> Result<Build, SourceError> {
    Ok(Build {
        compiler: version_of(compiler_of(recipe))?,
        environment: OF_BUILDS.iter().map(|(name, value)| format!("{name}={value}")).collect(),
        commands: commands(recipe, variants),
    })
}

/// Builds `source` by `recipe` into `files`; gives the library's file name and how.
pub(super) fn build(
    recipe: &Recipe,
    variants: &[Variant],
    source: &Path,
    files: &Path,
) -> Result<(String, Build), SourceError> {
    let build = how(recipe, variants)?;
    let tool = |words: &[String]| Tool::of_build(&words[0]).in_folder(source).args(&words[1..]);
    match recipe {
        Recipe::Compile { output, .. } => {
            // Only the result has an absolute path: the same source gives the same library.
            let target = files.join(output);
            let not_text = || format!("the path of the cache, {}, is not UTF-8", files.display());
            let target = target.to_str().ok_or_else(|| SourceError::NotThere(not_text()))?;
            let words = build.commands.concat();
            let words: Vec<String> = words
                .into_iter()
                .map(|word| if word == *output { target.to_owned() } else { word })
                .collect();
            tool(&words).run()?;
            Ok((output.clone(), build))
        }
        Recipe::Configure { output, built, .. } => {
            let script = source.join("configure");
            fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).map_err(|error| {
                SourceError::NotThere(format!("the source has no configure script ({error})"))
            })?;
            // Objects that somebody else's build left are not those of this one.
            let used = source.join("Makefile").exists();
            // How many jobs make runs at once is no part of what is built.
            let jobs = std::thread::available_parallelism().map_or(1, usize::from);
            for words in &build.commands {
                let own = (words[0] == "make").then(|| format!("-j{jobs}"));
                if used && own.is_some() {
                    tool(&["make".to_owned(), "clean".to_owned()]).run()?;
                }
                tool(words).args(own).run()?;
            }
            let (built, library) = (source.join(built), files.join(output));
            fs::copy(&built, &library).map_err(failure("copying to", &library))?;
            Ok((output.clone(), build))
        }
    }
}

fn compiler_of(recipe: &Recipe) -> &str {
    match recipe {
        Recipe::Compile { compiler, .. } => compiler,
        Recipe::Configure { .. } => COMPILER,
    }
}

fn version_of(compiler: &str) -> Result<String, SourceError> {
    let text = Tool::of_build(compiler).arg("--version").run()?;
    Ok(text.lines().next().unwrap_or(compiler).to_owned())
}
