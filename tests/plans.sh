#!/bin/bash
# Shows the texts of plans whose digests tests/plans/expected holds, and writes those files anew.
#   tests/plans.sh [--build DIR] --show PLAN                 the text of a plan, "models/mlp.onnx mse+two"
#   tests/plans.sh [--build DIR] --against DIR [SUITE...]    how texts differ from those of another build, of another tree
#   tests/plans.sh [--build DIR] --renew [SUITE...]          the expected lines, as this build finds them
# DIR is a build folder [build].  A suite is one of test_plans --list, or SUITE:MODEL.
set -eu
cd "$(dirname "$0")/.."
die() { echo "tests/plans.sh: $*" >&2; exit 2; }
build=build action='' with=''
while [ $# != 0 ]; do
    case $1 in
    --build) [ $# -gt 1 ] || die "--build DIR"; build=$2 && shift ;;
    --show | --against) [ $# -gt 1 ] || die "$1 needs a name"; action=$1 with=$2 && shift ;;
    --renew) action=$1 ;;
    -*) die "unknown option '$1'" ;;
    *) break ;;
    esac
    shift
done
[ -x "$build/test_plans" ] || die "there is no program $build/test_plans"
texts=$(mktemp -d)
trap 'rm -rf "$texts"' EXIT

# write BUILD FOLDER [SUITE...]: the texts of a build's plans.
write() {
    mkdir "$2"
    PLANS_TEXT=$2 "$1/test_plans" "${@:3}" >"$2.log" || true        # plans that differ from what is expected are no failure here
}

case $action in
--show)
    PLANS_ONLY=$with write "$build" "$texts/this"
    found=("$texts"/this/*)
    [ -e "${found[0]}" ] || die "there is no plan '$with' (the lines of tests/plans/expected begin with their names)"
    cat "${found[@]}"
    ;;
--against)
    [ -x "$with/test_plans" ] || die "there is no program $with/test_plans"
    write "$with" "$texts/other" "$@"
    write "$build" "$texts/this" "$@"
    cd "$texts"
    diff -ru other this
    ;;
--renew)
    PLANS_RENEW=1 "$build/test_plans" "$@" >"$texts/log" || { cat "$texts/log"; exit 1; }
    git diff --stat -- tests/plans/expected
    ;;
*) die "give --show, --against or --renew" ;;
esac
