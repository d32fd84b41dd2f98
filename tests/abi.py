#!/usr/bin/env python3
"""The binary interface of include/dpexec.h against the one that is stored: abi.py [BUILD_DIR]; abi.py --renew [--break].

    tests/abi.txt           every public function, constant and struct member: prototype, value, offset and size
    cmake/libdpexec.map     the exported symbols, by the version that brought them (the linker's version script)

Without arguments the header is compared with both files; with BUILD_DIR the symbols of its libdpexec.so as well.  Each
difference is a line.  --renew writes the two files anew.  It refuses a change that breaks compiled programs, unless
--break is given: then the major version must rise, and with it the library's file name (CONTRIBUTING.md).
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
STORED, MAP = ROOT / "tests" / "abi.txt", ROOT / "cmake" / "libdpexec.map"
FIRST = (0, 2)  # the version from which on the rule holds


def header_text():
    """The public headers, without comments and preprocessor lines."""
    text = "\n".join(p.read_text() for p in sorted((ROOT / "include").glob("dpexec*.h")))
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return re.sub(r"^[ \t]*#(?:.*\\\n)*.*$", "", text, flags=re.M)


def functions(text):
    """Name and prototype of every exported function."""
    found = {}
    for head, name, arguments in re.findall(r"^DPX_API ([^;(]*?)\b(dpx_\w+)\(([^;]*)\)(?: DPX_CHECKED)?;", text, re.M):
        found[name] = " ".join(f"{head.strip()} {name}({arguments})".split()).replace("* ", "*")
    return found


def member_names(body):
    for declaration in filter(None, (" ".join(d.split()) for d in body.split(";"))):
        function = re.search(r"\(\*(\w+)\)\(", declaration)
        for part in [function.group(1)] if function else declaration.split(","):
            yield re.search(r"(\w+)(?:\[\w+\])*$", part).group(1)


def structs(text):
    """Members of every struct with a body, by its name."""
    return {name: list(member_names(body)) for body, name in re.findall(r"typedef struct \{([^{}]*)\} (dpx_\w+);", text)}


def constants(text):
    return [n for body in re.findall(r"enum \{([^}]*)\}", text) for n in re.findall(r"\b(DPX_\w+)\b(?=\s*[,=]|\s*$)", body)]


def measured(text):
    """One line for each constant, struct and member, as the C compiler has them."""
    lines = ['#include "dpexec.h"', "#include <stdio.h>", "int main(void) {"]
    for name in constants(text):
        lines.append(f'printf("constant {name}: %d\\n", (int){name});')
    for name, members in structs(text).items():
        lines.append(f'printf("struct {name}: %zu bytes\\n", sizeof({name}));')
        for m in members:
            lines.append(f'printf("member {name}.{m}: at %zu, %zu bytes\\n", offsetof({name}, {m}), '
                         f"sizeof((({name} *)0)->{m}));")
    with tempfile.TemporaryDirectory() as folder:
        source, program = pathlib.Path(folder, "abi.c"), pathlib.Path(folder, "abi")
        source.write_text("\n".join([*lines, "return 0; }"]))
        subprocess.run([os.environ.get("CC", "cc"), "-I", ROOT / "include", source, "-o", program], check=True)
        return subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()


def may_grow():
    """Structs whose size travels with every call: as an argument, or as their first member."""
    own = "\n".join(p.read_text() for p in (ROOT / "include").glob("dpexec*.h"))
    sized = re.findall(r"_sized\(.*sizeof\((dpx_\w+)\)\)", own)
    return set(sized) | set(re.findall(r"size_t size;\s*/\* sizeof\((dpx_\w+)\) \*/", own))


def nodes():
    """The version script: [(node, names)], oldest first."""
    text = MAP.read_text() if MAP.exists() else ""
    return [(node, re.findall(r"\b(dpx_\w+);", body)) for node, body in re.findall(r"(DPEXEC_[\d.]+) \{(.*?)\}", text, re.S)]


def callbacks(text):
    found = re.findall(r"^typedef ([^;{}]*?\bdpx_\w+_fn\([^;]*\));", text, re.M)
    return [f"callback {re.search(r'dpx_[a-z_]+_fn', t).group()}: {' '.join(t.split())}" for t in found]


def present():
    text = header_text()
    return callbacks(text) + [f"function {n}: {p}" for n, p in functions(text).items()] + measured(text)


def split(lines):
    return dict(line.split(": ", 1) for line in lines)


def differences():
    """(breaks compiled programs?, text) for every difference between header and stored text."""
    old = split(STORED.read_text().splitlines()[1:]) if STORED.exists() else {}
    new, growing = split(present()), may_grow()
    for key, value in old.items():
        kind, name = key.split()
        if key not in new:
            yield True, f"{key} is gone"
        elif new[key] != value:
            larger = kind == "struct" and name in growing and int(new[key].split()[0]) > int(value.split()[0])
            yield not larger, f"{key} is '{new[key]}', was '{value}'"
    for key in new:
        kind, name = key.split()
        of = f"struct {name.split('.')[0]}"
        if key not in old:
            yield kind == "member" and of in old and name.split(".")[0] not in growing, f"{key} is new"


def version():
    text = (ROOT / "include/dpexec.h").read_text()
    return tuple(int(re.search(rf"#define DPX_VERSION_{part} (\d+)", text).group(1)) for part in ("MAJOR", "MINOR", "PATCH"))


def private_node():
    """The node of what the tools call, of this release alone (exec/api/tool_names.h)."""
    return "DPEXEC_PRIVATE_%d.%d.%d" % version()


def write_map(names):
    have = nodes()
    node = "DPEXEC_%d.%d" % max(FIRST, version()[:2])
    known = {n for _, group in have for n in group}
    have = [(n, [x for x in group if x in names]) for n, group in have]
    if not have or (have[-1][0] != node and names - known):
        have.append((node, []))
    have[-1][1].extend(names - known)
    text = ["/* The symbols of libdpexec.so, by the version that brought them: tests/abi.py --renew. */"]
    for k, (n, group) in enumerate(have):
        text += [f"{n} {{", "global:", *(f"    {x};" for x in sorted(group))]
        text += ["local:", "    *;", "};"] if not k else [f"}} {have[k - 1][0]};"]
    text += [f"{private_node()} {{", "global:", "    dpx_private_*;", "};"]
    MAP.write_text("\n".join(text) + "\n")


def exported(build):
    """The exported functions of a build's library, as NAME@@NODE."""
    library = pathlib.Path(build, "libdpexec.so")
    out = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", library], capture_output=True, text=True,
                         check=True).stdout
    return {line.split()[2] for line in out.splitlines() if " A " not in line and "@@DPEXEC_PRIVATE_" not in line}


def problems(build):
    for breaks, text in differences():
        yield f"{text}: " + ("compiled programs break" if breaks else "if it is meant, tests/abi.py --renew")
    mapped = {f"{n}@@{node}" for node, group in nodes() for n in group}
    if private_node() not in MAP.read_text():
        yield f"{private_node()} is not in cmake/libdpexec.map: tests/abi.py --renew"
    declared, versioned = set(functions(header_text())), {n.split("@@")[0] for n in mapped}
    for name in sorted(declared ^ versioned):
        yield f"{name} is {'not in cmake/libdpexec.map' if name in declared else 'not in the header'}: tests/abi.py --renew"
    if build and "DPX_SANITIZE:STRING=\n" in pathlib.Path(build, "CMakeCache.txt").read_text():
        for name in sorted(exported(build) ^ mapped):
            yield f"{name}: {'not exported by the library' if name in mapped else 'exported, but not in the map'}"


def main(arguments):
    if "--renew" not in arguments:
        for build in arguments:
            if not pathlib.Path(build, "CMakeCache.txt").exists():
                return f"tests/abi.py: {build}: expected a build folder, found no CMakeCache.txt in it"
        found = list(problems(arguments[0] if arguments else None))
        print("\n".join(found), end="\n" if found else "")
        return bool(found)
    broken = [text for breaks, text in differences() if breaks and STORED.exists()]
    if broken and "--break" not in arguments:
        print("\n".join(broken), "tests/abi.py: these changes break compiled programs; --break writes them", sep="\n")
        return 1
    STORED.write_text("\n".join(["The binary interface of include/dpexec.h on a 64-bit machine: tests/abi.py --renew.",
                                 *present()]) + "\n")
    write_map(set(functions(header_text())))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
