# tap.sh: what the script tests share. They print TAP lines for tests/run, which counts them:
#   ok NAME          not_ok NAME [FILE]      skip NAME REASON
#   check NAME COMMAND...    ok if the command succeeds; its output is shown if it does not
#   same NAME FILE FILE      ok if the files are equal; the difference is shown if not
#   finish                   exit with the verdict
# A scratch folder, $T, is removed at the end.

tap_failed=0
T=$(mktemp -d "${TMPDIR:-/tmp}/eflops-test.XXXXXX") || exit 1
trap 'rm -rf "$T"' EXIT
trap 'exit 130' INT TERM

ok() { echo "ok - $1"; }
skip() { echo "ok - $1 # SKIP $2"; }
not_ok() {
    tap_failed=1
    echo "not ok - $1"
    if [ $# -gt 1 ]; then sed 's/^/# /' "$2"; fi
}
check() {
    tap_name=$1
    shift
    if "$@" </dev/null >"$T/tap.out" 2>&1; then ok "$tap_name"; else not_ok "$tap_name" "$T/tap.out"; fi
}
same() {
    if diff -u "$2" "$3" >"$T/tap.diff" 2>&1; then ok "$1"; else not_ok "$1" "$T/tap.diff"; fi
}
finish() { exit $tap_failed; }
