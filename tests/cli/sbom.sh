#!/bin/bash
# tools/make_sbom.py: the list of components names every library that the programs need, is valid SPDX 2.3 by another project's tools
# where these are installed (pip install spdx-tools), and is the same when it is made again.
. "$(dirname "$0")/lib.sh"
python=${PYTHON:-/usr/bin/python3}
make=("$python" tools/make_sbom.py "$build")
if ! command -v dpkg-query >/dev/null; then
    skip "the list of components" "versions come from dpkg-query"
    finish
fi
if [ -n "$(sed -n 's/^DPX_SANITIZE:[A-Z]*=//p' "$build/CMakeCache.txt")" ]; then
    skip "the list of components" "a sanitized build is not given away"
    finish
fi
export SOURCE_DATE_EPOCH=1
"${make[@]}" >"$DIR/sbom.json" || fail "the list"
check "JSON" "$python" -m json.tool "$DIR/sbom.json"
"${make[@]}" >"$DIR/again.json"
check "made again, it is the same" cmp "$DIR/sbom.json" "$DIR/again.json"
check "its time" grep -q '"created": "1970-01-01T00:00:01Z"' "$DIR/sbom.json"

# What the dynamic loader opens for the program, by another reader of the file: each package of theirs is listed with its version.
objdump -p "$dpexec" | awk '$1 == "NEEDED" { print $2 }' >"$DIR/needed"
check "the program needs libraries" test "$(wc -l <"$DIR/needed")" -ge 10
ldd "$dpexec" | awk '$2 == "=>" { print $1, $3 }' | grep -wFf "$DIR/needed" | while read -r _ path; do
    dpkg-query -S "$(realpath "$path")" 2>/dev/null || dpkg-query -S "$(realpath "$path" | sed 's|^/usr||')"
done | cut -d: -f1 | sort -u >"$DIR/packages"
check "they are of packages" test "$(wc -l <"$DIR/packages")" -ge 8
while read -r package; do
    version=$(dpkg-query -W -f '${Version}' "$package" | sed 's/+/%2B/g; s/:/%3A/g')
    check "$package is listed" grep -qF "/${package//+/%2B}@$version?" "$DIR/sbom.json"
done <"$DIR/packages"
check "the definition of ONNX is contained" grep -q '"name": "onnx.proto"' "$DIR/sbom.json"
check "the program's digest" grep -q "$(sha256sum <"$dpexec" | cut -c1-64)" "$DIR/sbom.json"

# A library that the script knows nothing of.
mkdir -p "$DIR/x/tools"
sed '/"libjansson"/d' tools/make_sbom.py >"$DIR/x/tools/make_sbom.py"
cp -r include "$DIR/x/"
refused 1 "LIBRARIES has no line for libjansson.so" "$python" "$DIR/x/tools/make_sbom.py" "$build"
refused 1 "expected a build folder" "$python" tools/make_sbom.py "$DIR"

validator=$(command -v pyspdxtools || echo "$build/python/bin/pyspdxtools")
if [ -x "$validator" ]; then
    check "spdx-tools finds no fault" "$validator" -i "$DIR/sbom.json"
    sed 's/"SPDX-2.3"/"SPDX-0"/' "$DIR/sbom.json" >"$DIR/wrong.json"
    check "and would" bash -c "! '$validator' -i '$DIR/wrong.json'"
else
    skip "validation by spdx-tools" "it is not installed"
fi
finish
