use proptest::prelude::*;

use super::*;

const BASE: &str = "abi <abi/3.0>,\n\
    include <abstractions/crypto>\n\
    /dev/null rw,\n\
    @{PROC}/meminfo r,   # a comment\n\
    /{usr/,}lib{,32,64}/**    r,\n\
    /{usr/,}lib{,32,64}/**.so*       mr,\n\
    /{usr/,}lib/@{multiarch}/**.so*   mr,\n\
    signal (receive, send) set=(\"exists\"),\n\
    unix (getattr,\n    getopt),\n\
    include if exists <abstractions/base.d>\n";

fn host(files: &[(&str, &str)]) -> (tempfile::TempDir, HostRoot) {
    let folder = tempfile::tempdir().unwrap();
    let root = HostRoot::at(folder.path());
    let usual = [
        ("abstractions/base", BASE),
        ("abstractions/crypto", "@{etc_ro}/ssl/openssl.cnf r,\n"),
        ("tunables/global", "include <tunables/multiarch>\n@{etc_ro}=/etc/ /usr/etc/\n"),
        ("tunables/multiarch", "@{multiarch}=*-linux-gnu*\n"),
    ];
    for (name, text) in usual.iter().chain(files) {
        let path = root.path(format!("{FOLDER}/{name}"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    (folder, root)
}

fn permission(files: &[(&str, &str)], profile: &str, path: &str) -> Permission {
    let (_folder, root) = host(files);
    Profiles::read(&root).permission(profile, Path::new(path))
}

const TOR: &str = "# vim:syntax=apparmor\n#include <tunables/global>\n\n\
    profile system_tor flags=(attach_disconnected) {\n  #include <abstractions/base>\n  capability setuid,\n\
    owner /var/lib/tor/** rwk,\n  /usr/bin/obfsproxy PUx,\n  #include <local/system_tor>\n}\n";
const LIBRARY: &str = "/usr/lib/heaptrial/allocators/0a/libmimalloc.so.2.0";
const LOCAL: &str = "/usr/local/lib/libmimalloc.so.2.0";

#[test]
fn the_base_abstraction_allows_usr_lib_and_not_usr_local_lib() {
    let files = [("system_tor", TOR), ("local/system_tor", "")];
    assert_eq!(permission(&files, "system_tor", LIBRARY), Permission::Allowed);
    let denied = permission(&files, "system_tor", LOCAL);
    assert_eq!(denied, Permission::Denied("no rule gives `mr` for it".to_owned()));
    let readable = permission(&files, "system_tor", "/usr/lib/heaptrial/allocators/plain");
    assert_eq!(readable, Permission::Denied("no rule gives `m` for it".to_owned()));
}

#[test]
fn local_additions_count_and_a_denial_wins() {
    let allowed = [("system_tor", TOR), ("local/system_tor", "/usr/local/lib/** mr,\n")];
    assert_eq!(permission(&allowed, "system_tor", LOCAL), Permission::Allowed);
    let denied = [("system_tor", TOR), ("local/system_tor", "audit deny /usr/lib/heaptrial/** m,\n")];
    assert_eq!(permission(&denied, "system_tor", LIBRARY), Permission::Denied("a rule denies it".to_owned()));
}

#[test]
fn what_is_missing_makes_it_unknown_unless_a_rule_allows_it_anyway() {
    let files = [("system_tor", TOR)];
    assert_eq!(permission(&files, "system_tor", LIBRARY), Permission::Allowed);
    let unknown = permission(&files, "system_tor", LOCAL);
    assert_eq!(unknown, Permission::Unknown("it includes local/system_tor, which cannot be read".to_owned()));
    assert!(matches!(permission(&files, "other", LIBRARY), Permission::Unknown(_)));
}

#[test]
fn forms_of_rules_and_profiles() {
    for (rule, expected) in [
        ("file,", true),
        ("allow mr /usr/local/**,", true),
        ("owner file \"/usr/local/**\" rm,", true),
        ("@{lib}/** mr,", true),
        ("/usr/local/** r,", false),
        ("/usr/local/*.so* mr,", false),
        ("network tcp,", false),
    ] {
        let text = format!(
            "@{{lib}} = /usr/local/lib /opt\n/usr/sbin/thing flags=(enforce) {{\n {rule}\n ^hat {{\n file,\n }}\n}}\n"
        );
        let found = permission(&[("usr.sbin.thing", text.as_str())], "/usr/sbin/thing", LOCAL);
        assert_eq!(found == Permission::Allowed, expected, "{rule}: {found:?}");
        let hat = permission(&[("usr.sbin.thing", text.as_str())], "/usr/sbin/thing//hat", LOCAL);
        assert_eq!(hat, Permission::Allowed, "{rule}");
    }
}

#[test]
fn includes_in_a_circle_end() {
    let files = [
        ("abstractions/a", "include <abstractions/a>\n"),
        ("p", "profile p {\ninclude <abstractions/a>\n}\n"),
    ];
    assert!(matches!(permission(&files, "p", LIBRARY), Permission::Denied(_)));
}

proptest! {
    #[test]
    fn no_text_panics(text in "[\\PC\\n{}#<>@, ]{0,120}") {
        let found = statements(&text);
        let _ = body_of(&found, "p");
        for statement in &found {
            let _ = (FileRule::parse(statement), include(statement), variable(statement), opens(statement));
        }
    }
}
