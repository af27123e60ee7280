#!/bin/sh
# Refuses to remove an allocator while anything uses it. Reads only.
set -eu

package='@PACKAGE@'
library='@LIBRARY@'

# An upgrade or another package's arrival leaves the library where it is.
[ "${1:-}" = remove ] || exit 0

# Text of others, without what could steer a terminal.
plain() { tr -cd '[:print:]\n'; }

# Units and drop-ins that name the library, and the loader's own list.
named() {
    for folder in /etc/systemd/system /run/systemd/system /run/systemd/transient /usr/lib/systemd/system /lib/systemd/system; do
        # /lib is /usr/lib on most systems.
        if [ "$folder" = /lib/systemd/system ] && [ -L /lib ]; then continue; fi
        if [ -d "$folder" ]; then grep -RlF -- "$library" "$folder" 2>/dev/null || true; fi
    done
    if [ -f /etc/ld.so.preload ]; then grep -lF -- "$library" /etc/ld.so.preload || true; fi
}

unit_of() {
    case $1 in
        */system/*.d/*) basename "$(dirname "$1")" .d ;;
        *) basename "$1" ;;
    esac
}

mapped() {
    # A process may end at any moment.
    { grep -lsF -- " $library" /proc/[0-9]*/maps || true; } | while IFS= read -r maps; do
        process=${maps%/maps}
        name=$(cat "$process/comm" 2>/dev/null) || continue
        group=$(sed -n '$s,.*/,,p' "$process/cgroup" 2>/dev/null) || group=
        printf '  process %s (%s%s) maps it\n' "${process#/proc/}" "$name" "${group:+, $group}"
    done
}

# The commands that take back what the trials and rollouts did which wrote these files.
commands() {
    printf '%s\n' "$units" | while IFS= read -r file; do
        [ -f "$file" ] || continue
        sed -n 's/^# Written by Heaptrial for trial \([A-Za-z0-9._-]*\) .*/\1/p' "$file"
    done | sort -u | while IFS= read -r name; do
        if grep -qs '^    "kind": "rollout",' "/var/lib/heaptrial/trials/$name/prepared.json"; then
            echo "  heaptrial rollout rollback $name"
        else
            echo "  heaptrial trial stop $name --revert"
        fi
    done
}

units=$(named | plain)
processes=$(mapped | plain)
if [ -z "$units$processes" ]; then exit 0; fi

exec >&2
echo "$package is not removed: services use $library"
printf '%s\n' "$units" | while IFS= read -r file; do
    if [ -n "$file" ]; then printf '  %s: named in %s\n' "$(unit_of "$file")" "$file"; fi
done
if [ -n "$processes" ]; then printf '%s\n' "$processes"; fi
echo "A service that preloads a missing file starts without it and says nothing. Put the services back first:"
known=$(commands)
if [ -n "$known" ]; then
    printf '%s\n' "$known"
else
    echo "  heaptrial trial stop NAME --revert    for a trial; \`heaptrial trial status\` names them"
    echo "  heaptrial rollout rollback            for a rollout"
fi
echo "or take the library out of the files above by hand, then systemctl daemon-reload and restart the services."
exit 1
