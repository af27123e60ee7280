//! The text of profiles: `/etc/apparmor.d` with what it includes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use heaptrial_host::HostRoot;

use super::pattern::glob;

const FOLDER: &str = "/etc/apparmor.d";

/// More includes than this are a circle.
const MOST_INCLUDES: usize = 500;

/// More alternatives than this come from variables that name each other.
const MOST_ALTERNATIVES: usize = 4096;

/// Whether a path may be mapped as code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Permission {
    Allowed,
    Denied(String),
    Unknown(String),
}

/// All profile files of a host.
pub(crate) struct Profiles<'a> {
    root: &'a HostRoot,
    files: Vec<PathBuf>,
}

/// A profile's lines with what they include, each one rule or so.
#[derive(Default)]
struct Text {
    statements: Vec<String>,
    variables: BTreeMap<String, Vec<String>>,
    missing: BTreeSet<String>,
    includes: usize,
}

impl<'a> Profiles<'a> {
    pub(crate) fn read(root: &'a HostRoot) -> Self {
        let entries = fs::read_dir(root.path(FOLDER)).into_iter().flatten().flatten();
        let names = entries.filter(|entry| entry.path().is_file()).map(|entry| entry.file_name());
        let mut files: Vec<PathBuf> = names.map(|name| Path::new(FOLDER).join(name)).collect();
        files.sort();
        Self { root, files }
    }

    /// Whether a profile lets a file be mapped with code in it: `m`, and `r` to open it.
    pub(crate) fn permission(&self, profile: &str, path: &Path) -> Permission {
        for file in &self.files {
            let Some(source) = self.text_of(file) else { continue };
            // The file's own text tells whether the profile is in it; includes are read only then.
            if let Some(body) = body_of(&statements(&source), profile) {
                let mut text = Text::default();
                self.include_all(&preamble(&statements(&source)), &mut text);
                text.statements.clear();
                self.include_all(&body, &mut text);
                return judge(&text, &path.to_string_lossy());
            }
        }
        Permission::Unknown(format!("its text is not in {FOLDER}"))
    }

    fn text_of(&self, file: &Path) -> Option<String> {
        let bytes = fs::read(self.root.path(file)).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Adds statements, with what they include in their place.
    fn include_all(&self, statements_in: &[String], text: &mut Text) {
        for statement in statements_in {
            if let Some((target, optional)) = include(statement) {
                text.includes += 1;
                if text.includes <= MOST_INCLUDES {
                    self.include(&target, optional, text);
                }
            } else if let Some((name, values, adds)) = variable(statement) {
                let known = text.variables.entry(name).or_default();
                if !adds {
                    known.clear();
                }
                known.extend(values);
            } else {
                text.statements.push(statement.clone());
            }
        }
    }

    fn include(&self, target: &str, optional: bool, text: &mut Text) {
        let path = Path::new(FOLDER).join(target);
        if self.root.path(&path).is_dir() {
            let entries = fs::read_dir(self.root.path(&path)).into_iter().flatten().flatten();
            let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
            let mut names: Vec<String> = names.filter(|name| !is_ignored(name)).collect();
            names.sort();
            for name in names {
                self.include(&format!("{target}/{name}"), true, text);
            }
            return;
        }
        match self.text_of(&path) {
            Some(source) => self.include_all(&statements(&source), text),
            None if optional => {}
            None => {
                text.missing.insert(target.to_owned());
            }
        }
    }
}

/// What package managers and editors leave behind is not read (apparmor_parser(8)).
fn is_ignored(name: &str) -> bool {
    name.starts_with('.') || name.ends_with('~') || name.contains(".dpkg-") || name.ends_with(".orig")
}

/// Splits text into statements: rules without their comma, `NAME {`, `}`, includes and variables.
fn statements(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut current = String::new();
    for line in source.lines() {
        let line = line.trim();
        // `#include` is a statement, any other `#` a comment.
        if let Some(rest) = line.strip_prefix("#include").filter(|rest| rest.starts_with(char::is_whitespace))
        {
            found.push(format!("include{}", without_comment(rest)));
            continue;
        }
        let line = without_comment(line);
        if current.is_empty()
            && (line.starts_with("include ") || line.starts_with("@{"))
            && !line.ends_with('{')
        {
            // A rule may start with a variable too; it ends with a comma.
            if line.starts_with("include ") || variable(&line).is_some() {
                found.push(line);
                continue;
            }
        }
        current.push_str(&line);
        current.push(' ');
        if ends_statement(&current) {
            found.push(current.trim().trim_end_matches(',').trim_end().to_owned());
            current.clear();
        }
    }
    if !current.trim().is_empty() {
        found.push(current.trim().to_owned());
    }
    found
}

fn ends_statement(current: &str) -> bool {
    let text = current.trim_end();
    text.is_empty() || text.ends_with(',') || text == "}" || (text.ends_with('{') && text.contains(' '))
}

fn without_comment(line: &str) -> String {
    let end = line
        .char_indices()
        .find(|(at, c)| *c == '#' && line[..*at].chars().next_back().is_none_or(char::is_whitespace));
    line[..end.map_or(line.len(), |(at, _)| at)].trim_end().to_owned()
}

/// What a statement includes, and whether that may be missing.
fn include(statement: &str) -> Option<(String, bool)> {
    let rest = statement.strip_prefix("include")?.trim();
    let (rest, optional) = match rest.strip_prefix("if exists") {
        Some(rest) => (rest.trim(), true),
        None => (rest, false),
    };
    let inner = |open: char, close: char| rest.strip_prefix(open)?.split(close).next().map(str::to_owned);
    Some((inner('<', '>').or_else(|| inner('"', '"')).unwrap_or_else(|| rest.to_owned()), optional))
}

fn variable(statement: &str) -> Option<(String, Vec<String>, bool)> {
    let rest = statement.strip_prefix("@{")?;
    let (name, rest) = rest.split_once('}')?;
    let rest = rest.trim_start();
    let adds = rest.starts_with("+=");
    let values = rest.strip_prefix("+=").or_else(|| rest.strip_prefix('='))?;
    let values = values.split_whitespace().map(|value| value.trim_matches('"').to_owned()).collect();
    Some((name.to_owned(), values, adds))
}

/// The name of the profile that a statement opens, if it opens one.
fn opens(statement: &str) -> Option<String> {
    let head = statement.strip_suffix('{')?.trim();
    let mut words = head.split_whitespace();
    let first = words.next()?;
    let name = match first {
        "profile" | "hat" => words.next()?,
        "if" | "else" => return None,
        name => name.trim_start_matches('^'),
    };
    Some(name.trim_matches('"').to_owned())
}

/// The statements of a profile, without those of its children. A child is called `PARENT//CHILD`.
fn body_of(statements: &[String], profile: &str) -> Option<Vec<String>> {
    let mut open: Vec<String> = Vec::new();
    let mut body: Option<Vec<String>> = None;
    for statement in statements {
        if statement.ends_with('{') {
            let name = opens(statement).unwrap_or_default();
            open.push(name);
            if open.join("//") == profile {
                body = Some(Vec::new());
            }
        } else if statement == "}" {
            if open.join("//") == profile {
                return body;
            }
            open.pop();
        } else if open.join("//") == profile {
            body.get_or_insert_default().push(statement.clone());
        }
    }
    body
}

/// The statements outside of all profiles.
fn preamble(statements: &[String]) -> Vec<String> {
    let mut depth = 0_u32;
    let mut found = Vec::new();
    for statement in statements {
        match () {
            () if statement.ends_with('{') => depth += 1,
            () if statement == "}" => depth = depth.saturating_sub(1),
            () if depth == 0 => found.push(statement.clone()),
            () => {}
        }
    }
    found
}

struct FileRule {
    deny: bool,
    pattern: String,
    permissions: String,
}

impl FileRule {
    fn parse(statement: &str) -> Option<Self> {
        let mut deny = false;
        let mut words: Vec<&str> = statement.split_whitespace().collect();
        while let Some(word) = words.first() {
            match *word {
                "deny" => deny = true,
                "allow" | "audit" | "owner" | "quiet" => {}
                "file" if words.len() == 1 => {
                    return Some(Self { deny, pattern: "/**".to_owned(), permissions: "rm".to_owned() });
                }
                "file" => {}
                // AppArmor 4: everything.
                "all" if words.len() == 1 => {
                    return Some(Self { deny, pattern: "/**".to_owned(), permissions: "rm".to_owned() });
                }
                _ => break,
            }
            words.remove(0);
        }
        let is_path = |word: &str| word.trim_matches('"').starts_with(['/', '@', '{']);
        let (pattern, permissions) = match words.as_slice() {
            [first, second, ..] if is_path(first) => (first, second),
            [first, second, ..] if is_path(second) => (second, first),
            _ => return None,
        };
        let known = permissions.chars().all(|c| "rwamklxiucpPUCd".contains(c));
        known.then(|| Self {
            deny,
            pattern: pattern.trim_matches('"').to_owned(),
            permissions: (*permissions).to_owned(),
        })
    }
}

fn judge(text: &Text, path: &str) -> Permission {
    let (mut allowed, mut denied) = (BTreeSet::new(), BTreeSet::new());
    for rule in text.statements.iter().filter_map(|statement| FileRule::parse(statement)) {
        if !['m', 'r'].iter().any(|wanted| rule.permissions.contains(*wanted)) {
            continue;
        }
        let Some(patterns) = expand(&rule.pattern, &text.variables) else { continue };
        if patterns.iter().any(|pattern| glob(pattern).is_some_and(|glob| glob.is_match(path))) {
            let permissions = rule.permissions.chars();
            if rule.deny { denied.extend(permissions) } else { allowed.extend(permissions) }
        }
    }
    let grants = |permission| allowed.contains(&permission) && !denied.contains(&permission);
    if grants('m') && grants('r') {
        return Permission::Allowed;
    }
    if denied.contains(&'m') || denied.contains(&'r') {
        return Permission::Denied("a rule denies it".to_owned());
    }
    if !text.missing.is_empty() {
        let missing: Vec<&str> = text.missing.iter().map(String::as_str).collect();
        return Permission::Unknown(format!("it includes {}, which cannot be read", missing.join(", ")));
    }
    let lacking = if grants('r') { "no rule gives `m` for it" } else { "no rule gives `mr` for it" };
    Permission::Denied(lacking.to_owned())
}

/// A pattern with its variables replaced by each of their values; `None` for a variable that is not known.
fn expand(pattern: &str, variables: &BTreeMap<String, Vec<String>>) -> Option<Vec<String>> {
    let mut done = Vec::new();
    let mut left = vec![pattern.to_owned()];
    while let Some(text) = left.pop() {
        if done.len() + left.len() > MOST_ALTERNATIVES || text.len() > 4096 {
            return None;
        }
        let Some((before, rest)) = text.split_once("@{") else {
            // Values often end with a slash that the pattern has too.
            done.push(text.replace("//", "/"));
            continue;
        };
        let (name, after) = rest.split_once('}')?;
        left.extend(variables.get(name)?.iter().map(|value| format!("{before}{value}{after}")));
    }
    Some(done)
}

#[cfg(test)]
mod tests;
