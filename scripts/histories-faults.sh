#!/usr/bin/env bash
# Puts faults into the transaction, one after the other, and runs the histories (crates/change/tests/histories) on each: every
# fault has to be found. Works on a copy; takes about a minute a fault.
set -euo pipefail
cd "$(dirname "$0")/.."
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git archive HEAD | tar -x -C "$copy"
export CARGO_TARGET_DIR="$PWD/target/faults" HEAPTRIAL_HISTORIES="${HEAPTRIAL_HISTORIES:-20000}"
log=$CARGO_TARGET_DIR/log
mkdir -p "$CARGO_TARGET_DIR"
faults=0 missed=0

# fault WHAT FILE SED: FILE is below crates/change/src.
fault() {
    local file=$copy/crates/change/src/$2
    faults=$((faults + 1))
    cp "$file" "$copy/saved"
    sed -i -E "$3" "$file"
    if cmp -s "$file" "$copy/saved"; then
        echo "the fault \"$1\" changes nothing in $2: mend this script" >&2
        exit 1
    fi
    if (cd "$copy" && cargo test --locked -p heaptrial-change --test histories) > "$log" 2>&1; then
        echo "NOT FOUND: $1"
        missed=$((missed + 1))
    elif grep -q '^test result: FAILED' "$log"; then
        echo "found: $1"
    else
        tail -n 20 "$log" >&2
        echo "the fault \"$1\" does not compile: mend this script" >&2
        exit 1
    fi
    cp "$copy/saved" "$file"
}

fault "what ended in the middle counts as stopped by somebody" state.rs \
    's/let is_settled = .*$/let is_settled = true;/'
fault "what ended under its treatment is not started again" state.rs \
    's/Running::Nothing \| Running::Stopped => true,/Running::Nothing | Running::Stopped => false,/'
fault "what runs with the treatment is not restarted when it is put back" state.rs \
    's/!found\.changes\.is_empty\(\) && found\.life_before\.as_ref\(\) != Some\(life\)/false \&\& found.life_before.as_ref() != Some(life)/'
fault "putting back is not announced" run.rs \
    's/self\.trial\.note_done\(revert\(&service, Stage::Reverting, None\)\);//'
fault "a run that stops goes on with what was written ahead" run.rs \
    's/if stops && self\.purpose == Purpose::Apply/if false/'
fault "what was written ahead stays where a run stops" run.rs \
    's/ready\.retain\(\|service\| self\.put_files_back\(service\)\);/ready.clear();/'
fault "what was stopped before its turn is started" service.rs \
    's/if ran && \*running == Running::Stopped/if false/'
fault "what an earlier process left in the middle is not put back first" actions.rs \
    's/first\.cloned\(\)\.collect\(\)/Vec::new()/'
fault "a file is not brought to where it lasts" files.rs \
    's/disk\.sync\(beside\)\.map_err/Ok(()).map_err/'
fault "the name of a file is not brought to where it lasts" files.rs \
    's/disk\.sync_folder\(folder\)\.map_err\(fail\("syncing the folder of"\)\)/Ok(())/'
fault "a record is not brought to where it lasts" journal.rs \
    's/disk\.append\(&path, &line\)\.and_then\(\|\(\)\| disk\.sync\(&path\)\)/disk.append(\&path, \&line)/'
fault "a torn record is not cut off" journal.rs \
    's/disk\.cut\(&path, length\)\.map_err\(FileError::new\("cutting off the torn end of", &path\)\)\?;//'
fault "systemd does not read what was put back" run.rs \
    's/self\.trial\.host\.manager\.reload\(\)\?;$/;/'
fault "a service is not watched until it settled" restart.rs \
    's/trial\.host\.clock\.now\(\) \+ pace\.settle\.0/trial.host.clock.now()/'
fault "a change by somebody else is overwritten" edit.rs \
    's/^    Err\(drift\(change, &present, &bytes, &change\.after, journal\)\)$/    Ok(true)/'
fault "folders that were made stay" edit.rs \
    's/Ok\(files::remove_empty_folders\(journal\.disk, &change\.made_folders\)\?\)/Ok(())/'
fault "no recovery timer is armed" host_files.rs \
    's/self\.put_host_files\(files\)\?;$/let _ = files;/'
fault "a recovery timer that was armed again stays" host_files.rs \
    's/self\.is_disarmed = false;//'
fault "the timer of a service is not stopped" service.rs \
    's/let _ = self\.stop_unit\(&timer\);/let _ = timer;/'
fault "a service that somebody stopped is started" state.rs \
    's/\*running == Running::Stopped && is_settled/is_settled \&\& false/'

echo "$((faults - missed)) of $faults faults found"
[ "$missed" -eq 0 ]
